"""`make progress` as a page: opened from disk, without a script, in light and dark."""

import pytest

from .lesson import hardest_to_read

START = "weeks/week00_start/01_start.ipynb"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_shows_what_was_done(open_lesson, lab, picture, scheme):
    lesson = open_lesson(START)
    lesson.run("w00-setup")
    lesson.type_over("w00-answer", "raise NotImplementedError", "return 42")
    lesson.type_over("w00-rows", "raise NotImplementedError", "return x.mean(dim=1)")
    lesson.check("w00-answer")
    lesson.check("w00-rows")
    assert lab.labkit("progress").returncode == 0

    page = lesson.page.context.new_page()
    page.emulate_media(color_scheme=scheme)
    page.goto((lab.root / "progress" / "progress.html").as_uri())
    assert page.get_by_text("The averaged axis disappeared").first.is_visible()
    contrast, words = hardest_to_read(page.locator("body"))
    assert contrast >= 4.5, f"“{words}” has a contrast of {contrast:.2f}"
    picture(page, f"progress-{scheme}")
