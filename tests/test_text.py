"""Words and tables that every room shares."""

from labkit.text import number, plural, ruled, table


def test_a_table_lines_up():
    assert ruled(["a", "ms"], [["long name", "1.0"]]).splitlines() == [
        "a           ms",
        "---------  ---",
        "long name  1.0",
    ]


def test_more_columns_to_the_left():
    assert table([["a", "b", "1"], ["aa", "bb", "22"]], left=2) == ["a   b    1", "aa  bb  22"]


def test_words():
    assert plural(1, "case") == "1 case" and plural(0, "case") == "0 cases"
    assert number(-0.0) == "0" and number(1.23456e-5) == "1.23e-05" and number(True) == "True"
