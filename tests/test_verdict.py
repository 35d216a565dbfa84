"""What is said stays short, the same on every run, and survives a trip through a file."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from labkit import panel
from labkit.verdict import STATUSES, Verdict, inline, redrawn


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


def test_a_hint_is_a_command_and_a_button_only_where_there_is_one():
    """Pages without the panel have no button: JupyterLab's style sheet of the panel adds the words."""
    verdict = wrong(lines=["a line", "Hint: `make hint EX=w00.x`"])
    assert verdict.text().endswith("  Hint: `make hint EX=w00.x`")
    assert 'Hint: <span class="labkit-hint"><code>make hint EX=w00.x</code></span>' in verdict.html()
    assert "button" not in verdict.html()
    sheet = Path(panel.__file__).parent / "labextensions/labkit/static/labkit.css"
    assert '.labkit-hint::before {\n  content: "the Hint button at the side, or ";' in sheet.read_text(
        "utf-8"
    )


def test_titles():
    titles = [Verdict("w00.x", status, "").title for status in STATUSES]
    assert titles[0] == "NOT STARTED  w00.x" and titles[-1] == "PASS  w00.x"
    assert all(title.startswith("NOT YET") for title in titles[1:-1])


def contrast(one: str, other: str) -> float:
    """The contrast of two colors, as the guidelines for accessible pages define it."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


PAGES = "#ffffff", "#f5f5f5", "#fdf6e3", "#1e1e1e", "#111111", "#002b36"  # JupyterLab, VS Code, Solarized


@pytest.mark.parametrize("status", STATUSES)
def test_a_box_reads_in_light_and_dark_and_in_print(status):
    """Words have the page's own color and no background; lines stand out from a white and a black page."""
    box = Verdict("w00.x", status, "headline", ("a line",)).html()
    assert "background" not in box and not re.search(r"[;\"]color:", box)
    (color,) = set(re.findall(r"#[0-9a-f]{6}", box))
    for page in PAGES:
        assert contrast(color, page) >= 3, (page, round(contrast(color, page), 2))


def test_a_stored_box_is_redrawn_with_its_picture():
    picture = '<img alt="yours &gt; torch\'s" width="2" height="2" src="data:image/svg+xml,%3Csvg">'
    verdict = wrong("`x` differs", ["a line"])
    drawn = replace(verdict, picture=picture)
    old = f'<div class="before"><div>an older look</div>{picture}</div>'
    assert redrawn(verdict.record(), old) == drawn.html()
    assert redrawn(verdict.record(), drawn.html()) == drawn.html()
    assert redrawn(verdict.record(), verdict.html()) == verdict.html()


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("a share of *rows*, not of `x * y * z`", "a share of <em>rows</em>, not of <code>x * y * z</code>"),
        ("2*x*y, a * b * c, f(*args, **kwargs)", "2*x*y, a * b * c, f(*args, **kwargs)"),
        ("ones(*x.shape)*(1/x), (*both*), *all*.", "ones(*x.shape)*(1/x), (<em>both</em>), <em>all</em>."),
        ("*the mean* of `a<b`", "<em>the mean</em> of <code>a&lt;b</code>"),
    ],
)
def test_what_is_marked_in_a_line(text, markup):
    assert inline(text) == markup
