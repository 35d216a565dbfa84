"""`make progress` as a page: opened from disk, without a script, in light and dark."""

from .lesson import STUB, THEMES, assert_readable

START = "weeks/week00_start/01_start.ipynb"


def test_the_page_shows_what_was_done(open_lesson, lab, picture):
    lesson = open_lesson(START)
    lesson.run("w00-setup")
    lesson.type_over("w00-answer", STUB, "return 42")
    lesson.type_over("w00-rows", STUB, "return x.mean(dim=1)")
    lesson.check("w00-answer")
    assert lesson.check("w00-rows")["mistake"] == "axis dropped"
    lesson.type_over("w00-rows", "return x", "return x.mean(dim=1, keepdim=True)")
    lesson.check("w00-rows")
    assert lab.labkit("progress").returncode == 0

    page = lesson.page.context.new_page()
    page.goto((lab.root / "progress" / "progress.html").as_uri())
    assert page.get_by_text("The averaged axis disappeared").first.is_visible()
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        assert_readable(page.locator("body"))
        picture(page, f"progress-{theme}")
