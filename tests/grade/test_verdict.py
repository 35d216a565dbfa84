"""What is said stays short, the same on every run, and survives a trip through a file."""

import json

from labkit.grade.verdict import STATUSES, Verdict


def wrong(headline="h", lines=()):
    return Verdict("w00.x", "values", headline, tuple(lines))


def test_at_most_ten_lines_and_the_last_one_stays():
    text = wrong(lines=[f"line {i}" for i in range(30)] + ["Hint"]).text().splitlines()
    assert len(text) == 10 and text[-1] == "  Hint"


def test_no_line_is_longer_than_the_page():
    text = wrong("a" * 5000, ["b" * 5000, "c\n" * 400]).text().splitlines()
    assert len(text) == 3 and all(len(line) <= 160 for line in text)


def test_addresses_of_objects_are_left_out():
    assert " at 0x" not in wrong(f"{object()!r}", [f"{object()!r}"]).text()


def test_colors_of_a_terminal_are_left_out():
    assert wrong("a \x1b[1mbold\x1b[0m word").headline == "a bold word"


def test_a_record_survives_json():
    verdict = Verdict("w00.x", "shape", "h", ("a", "b"), mistake="m", case="c")
    assert Verdict.from_record(json.loads(json.dumps(verdict.record()))) == verdict


def test_html_escapes_and_sets_code():
    html = wrong("`a < b` & <script>alert(1)</script>").html()
    assert "<code>a &lt; b</code> &amp; &lt;script&gt;" in html


def test_titles():
    titles = [Verdict("w00.x", status, "").title for status in STATUSES]
    assert titles[0] == "NOT STARTED  w00.x" and titles[-1] == "PASS  w00.x"
    assert all(title.startswith("NOT YET") for title in titles[1:-1])
