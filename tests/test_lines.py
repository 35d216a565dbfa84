"""`make lines` counts what it says, and knows every room of the package."""

from labkit import lines

SOURCE = '''"""A file.

Of two sentences."""

import os  # code, with a comment

# a comment alone


def f(x):
    """Docstring."""
    text = """a value,

    not a docstring"""
    return os, x, text
'''


def test_code_prose_and_blank_lines_are_told_apart():
    found = lines.count(SOURCE)
    assert found["lines"] == 15
    assert found["code"] == 5  # import, def, two filled lines of the value, return
    assert found["prose"] == 4  # two filled lines of the docstring above, the comment, the docstring


def test_every_room_exists_and_no_folder_is_forgotten():
    named = {place for rooms in lines.ROOMS.values() for places in rooms.values() for place in places}
    assert all((lines.PACKAGE / place).exists() for place in named)
    folders = {
        path.parent.relative_to(lines.PACKAGE).parts[0] for path in lines.PACKAGE.glob("*/__init__.py")
    }
    assert folders <= {place.split("/")[0] for place in named}


def test_the_table_adds_up(capsys):
    assert lines.main([]) == 0
    rows = {row[:18].strip(): row[18:].split() for row in capsys.readouterr().out.splitlines()[2:]}
    number = {name: int(cells[1].replace(",", "")) for name, cells in rows.items()}
    assert number["= engine"] == sum(number[room] for room in lines.ROOMS["engine"])
    assert number["= all of labkit"] >= sum(number[f"= {heading}"] for heading in lines.ROOMS)
