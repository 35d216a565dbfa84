"""What a learner made is taken from their own saved notebook, and nothing but pictures and printed lines."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from labkit import paths
from labkit.book.course import lesson_paths, read_lesson
from labkit.book.work import here
from labkit.grade.progress.history import history
from labkit.grade.progress.milestones import reached, section
from labkit.grade.progress.page import page

LESSON = """\
# %% [markdown] id=t-title
# # A lesson
# %% id=t-before
1 + 1
# %% [markdown] id=t-md
# Some words.
#
# ## Milestone: a picture of mine
# %% id=t-made
draw()
# %% [markdown] id=t-end
# ## What you built
# %% id=t-after
2 + 2
"""
PICTURE = '<img alt="a &lt;ring&gt;" width="9" src="data:image/svg+xml,%3Csvg/%3E" onload="alert(1)">'


@pytest.fixture
def course(tmp_path):
    (tmp_path / "solutions/week03_nets").mkdir(parents=True)
    (tmp_path / "solutions/week03_nets/01_one.py").write_text(LESSON)
    (tmp_path / "weeks/week03_nets").mkdir(parents=True)
    return tmp_path


def save(course: Path, **outputs: list) -> None:
    """A learner's notebook whose cells, by id, have these outputs."""
    cells = [
        {
            "cell_type": "code", "id": id, "metadata": {"labkit": {"id": id}}, "source": "", "outputs": found,
            "execution_count": 1,
        }
        for id, found in outputs.items()
    ]  # fmt: skip
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (course / "weeks/week03_nets/01_one.ipynb").write_text(text)


def shown(markup) -> dict:
    return {"output_type": "display_data", "metadata": {}, "data": {"text/html": markup}}


def printed(text) -> dict:
    return {"output_type": "stream", "name": "stdout", "text": text}


def test_the_section_ends_at_the_next_heading(course):
    lesson = read_lesson(course, course / "solutions/week03_nets/01_one.py")
    assert section(lesson) == ("a picture of mine", {"t-made"})


def test_a_picture_is_taken_and_nothing_else_of_it(course):
    save(course, **{"t-made": [shown("<script>x</script>" + PICTURE)], "t-after": [printed("not this")]})
    (made,) = reached(here(course))
    assert (made.week, made.title, made.text) == (3, "a picture of mine", "")
    assert made.picture == '<img alt="a &lt;ring&gt;" src="data:image/svg+xml,%3Csvg/%3E">'
    text = page(history([], {}, {}), datetime(2026, 3, 9), [made])
    assert made.picture in text and "Week 3: a picture of mine" in text and "script" not in text


@pytest.mark.parametrize(("height", "wide"), [(162, True), (403, False)])
def test_a_very_wide_picture_is_marked_for_a_row_of_its_own(course, height, wide):
    size = f'width="700" height="{height}"'
    save(course, **{"t-made": [shown(PICTURE.replace('width="9"', size))]})
    (made,) = reached(here(course))
    assert made.picture.startswith('<img class="wide"') == wide


def test_of_several_pictures_the_first_is_shown(course):
    second = PICTURE.replace("ring", "failure")
    save(course, **{"t-made": [shown(PICTURE), shown(second)]})
    (made,) = reached(here(course))
    assert "ring" in made.picture and "failure" not in made.picture


def test_week_3_shows_what_is_read_not_what_is_misread(tmp_path):
    """The solutions in place of a learner's notebooks: they have the outputs of every milestone."""
    (tmp_path / "solutions").symlink_to(paths.root() / "solutions")
    (tmp_path / "weeks").symlink_to(paths.root() / "solutions")
    made = {(one.week, one.title): one for one in reached(here(tmp_path))}
    assert (
        len(made) == 8 and 'alt="16 images:' in made[3, "handwritten digits, read by your own code"].picture
    )
    assert all(title[0].islower() for _, title in made), "titles go on after 'Week 4: '"


@pytest.mark.parametrize(
    ("line", "wide"), [("a line of a table" * 2, False), ("a line of a table" * 4, True)]
)
def test_printed_lines_share_a_row_if_they_are_short(course, line, wide):
    save(course, **{"t-made": [printed(f"{line}\nend")]})
    assert ('<pre class="wide">' in page(history([], {}, {}), made=reached(here(course)))) == wide


def test_lines_of_text_in_either_form(course):
    save(course, **{"t-made": [printed(["one\n", "<two>\n"])]})
    (made,) = reached(here(course))
    assert made.text == "one\n<two>"
    assert "one\n&lt;two&gt;" in page(history([], {}, {}), made=[made])


def test_the_longest_text_is_shown_from_its_beginning(course):
    play = "\n".join(f"line {n}" for n in range(40))
    save(course, **{"t-made": [printed("true\n"), printed(play), printed("one more\nnumber")]})
    (made,) = reached(here(course))
    assert made.text.split("\n") == [*(f"line {n}" for n in range(16)), "…"]


@pytest.mark.parametrize(
    "outputs",
    [
        [],
        [printed("")],
        [shown("<img alt='a' src='https://example.org/a.png'>")],
        [shown('<img alt="a" src="https://example.org/a.png">')],
        [{"output_type": "display_data", "data": {"image/png": '"><script>'}}],
        [printed("half"), {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}],
        ["no output at all", {"output_type": "stream", "name": "stdout", "text": 7}],
    ],
)
def test_not_reached(course, outputs):
    save(course, **{"t-made": outputs})
    assert reached(here(course)) == []


def test_a_missing_or_broken_notebook_or_lesson(course):
    assert reached(here(course)) == []
    (course / "weeks/week03_nets/01_one.ipynb").write_text('{"cells"')
    assert reached(here(course)) == []
    (course / "solutions/week03_nets/01_one.py").write_text("# %% \n")
    assert reached(here(course)) == []


def test_every_week_after_the_first_has_a_milestone():
    root = paths.root()
    found = [read_lesson(root, path) for path in lesson_paths(root)]
    weeks = {lesson.path.parent.name for lesson in found if section(lesson)[1]}
    assert weeks == {lesson.path.parent.name for lesson in found} - {"week00_start"}
