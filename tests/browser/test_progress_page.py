"""`make progress` as a page: opened from disk, without a script, in light and dark, on a phone, on paper."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from labkit import exercises
from labkit.book.course import lesson_paths, read_lesson

from .lesson import STUB, THEMES, assert_readable
from .server import REPOSITORY

START = "weeks/week00_start/01_start.ipynb"
BEGAN = 1_767_000_000  # seconds since 1970


def learner(folder, weeks: int, broken: str | None = None):
    """The page of someone who has solved so many weeks, each exercise after meeting its first mistake.

    `broken` is an exercise that they changed since, and that does not pass anymore.
    """
    shutil.copytree(REPOSITORY / "solutions", folder / "solutions", ignore=shutil.ignore_patterns("*.ipynb"))
    for path in lesson_paths(REPOSITORY):
        solved = int(path.parent.name[4:6]) < weeks
        name = f"{path.parent.name}/{path.stem}.ipynb"
        (folder / "weeks" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / ("solutions" if solved else "weeks") / name, folder / "weeks" / name)
    events, at = [], BEGAN
    cells = [cell for path in lesson_paths(REPOSITORY) for cell in read_lesson(REPOSITORY, path).cells]
    for key in [cell.ex for cell in cells if cell.role == "check"]:
        exercise = exercises.get(key)
        if exercise.week >= weeks:
            continue
        for mistake in exercise.mistakes[:1]:
            events.append({"ex": key, "status": "values", "mistake": mistake.name, "at": (at := at + 400)})
        events.append({"ex": key, "status": "pass", "mistake": None, "at": (at := at + 500)})
    if broken:
        events.append({"ex": broken, "status": "values", "mistake": None, "at": at + 400})
    (folder / "progress").mkdir()
    lines = [json.dumps({"kind": "attempt", **event}) for event in events]
    (folder / "progress/events.jsonl").write_text("\n".join(lines) + '\n{"kind": "attem')  # and a torn line
    environment = os.environ | {"LABKIT_ROOT": str(folder), "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, "-m", "labkit", "progress"], env=environment, check=True, timeout=120)
    return folder / "progress/progress.html"


@pytest.mark.parametrize(
    ("weeks", "title"), [(0, "Ready to build"), (4, "Building PyTorch by hand"), (99, "all of it")]
)
def test_the_page_at_every_stage(weeks, title, context, tmp_path, picture):
    page = context.new_page()
    page.goto(learner(tmp_path, weeks).as_uri())
    assert title in page.locator("h1").inner_text()
    shown = page.evaluate("[...document.images].map(i => [i.naturalWidth > 0, i.alt.split(' ').length > 2])")
    assert len(shown) == {0: 0, 4: 3}.get(weeks, len(shown)) and all(loads and says for loads, says in shown)
    done = {0: 0, 4: 4, 99: page.locator(".week").count()}[weeks]
    assert page.locator(".week:not(:has(.tile:not(.passed)))").count() == done
    page.get_by_text("The exercises by name").click()
    assert page.locator(".names li").count() == page.locator(".tile").count()
    assert page.locator(".names li").first.is_visible()
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        page.locator("details").first.evaluate("names => names.open = true")
        assert_readable(page.locator("body"))
        page.locator("details").first.evaluate("names => names.open = false")  # as it is found
        edges = (
            "tiles => tiles.map(t => lessons.contrast(getComputedStyle(t).borderTopColor, t.parentElement))"
        )
        assert min(page.locator(".tile").evaluate_all(edges)) >= 3
        for kind, width in (("screen", 1280), ("phone", 400), ("small-phone", 320)):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            cut = "cards => cards.filter(b => b.scrollWidth > b.clientWidth || b.clientHeight > 40).length"
            assert page.locator(".card b").evaluate_all(cut) == 0
            path = picture(page, f"progress-{weeks}-weeks-{kind}-{theme}", whole=True)
            assert path.exists()


def test_a_course_in_which_one_exercise_broke(context, tmp_path, picture):
    page = context.new_page()
    page.goto(learner(tmp_path, 99, broken="w02.value").as_uri())
    assert page.locator("h1").inner_text() == "Building PyTorch by hand"
    assert "99%" in page.locator(".ring").inner_html() and page.locator(".tile.failing.current").count() == 1
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        assert_readable(page.locator("body"))
        for width in (1280, 400, 320):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator(".broken").bounding_box()["height"] < 30, "one line"
            picture(page, f"progress-broken-{width}-{theme}", whole=True)


def test_the_page_on_paper(context, tmp_path, picture):
    """Paper is white, whatever the screen prefers, and a sign on a colored square needs its color."""
    page = context.new_page()
    page.set_viewport_size({"width": 700, "height": 1000})
    page.goto(learner(tmp_path, 4).as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    assert_readable(page.locator("body"))
    style = "e => [getComputedStyle(e).printColorAdjust, getComputedStyle(document.body).color]"
    adjust, ink = page.locator(".tile.passed").first.evaluate(style)
    assert adjust == "exact" and max(map(int, ink[4:-1].split(","))) < 100
    assert page.evaluate("lessons.canvas()") == [255, 255, 255]
    for folded in (page.locator(".names li"), page.locator("details li")):
        shown = folded.evaluate_all("all => all.filter(one => one.checkVisibility() && one.offsetHeight)")
        assert len(shown) == folded.count() > 0, "what is folded on the screen is open on paper"
    picture(page, "progress-print", whole=True)


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
        picture(page, f"progress-{theme}", whole=True)
