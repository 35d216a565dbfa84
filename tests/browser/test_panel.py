"""The labkit panel and the start page: every button, on notebooks in every state."""

import json
import shutil

import pytest

from labkit import exercises
from labkit.verdict import inline

from .lesson import STUB, THEMES, Lesson, assert_outlined, assert_readable, own_id
from .panel import Panel

START = "weeks/week00_start/01_start.ipynb"
START_EXERCISES = len(exercises.of_week(0))
STORAGE = "weeks/week01_tensors/01_storage_and_strides.ipynb"
SLEEP = "__import__('time').sleep(30); return 42"


@pytest.fixture
def lesson(open_lesson):
    return open_lesson(START)


@pytest.fixture
def panel(lesson):
    panel = Panel(lesson.page)
    panel.row("w00.answer").wait_for()
    return panel


def answer_two(lesson):
    """One right answer, one with a mistake that has a name."""
    lesson.type_over("w00-answer", STUB, "return 42")
    lesson.type_over("w00-rows", STUB, "return x.mean(dim=1)")


def on_disk(lab):
    return (lab.root / START).read_bytes()


def remove_cells(lab, *, of=None, role=None):
    """Cells of the course deleted from the file, by something that does not know about locked cells."""

    def goes(labkit):
        return "ex" in labkit and of in (None, labkit["ex"]) and role in (None, labkit["role"])

    nb = json.loads(on_disk(lab))
    nb["cells"] = [cell for cell in nb["cells"] if not goes(cell["metadata"]["labkit"])]
    (lab.root / START).write_text(json.dumps(nb))


# the start page


def test_the_first_visit_shows_the_start_page_and_the_panel(lab, context, picture):
    page = context.new_page()
    page.goto(lab.url(lab.start_page))
    start = page.locator(".labkit-start")
    start.locator(".labkit-start-next").wait_for()
    panel = page.locator(".labkit-panel")
    panel.wait_for()
    lesson = Lesson(page, lab, START)
    for theme in THEMES:
        lesson.choose_theme(theme)
        for part in (start, panel):
            assert_readable(part)
            assert_outlined(part)
        picture(page, f"start-page-{theme}")
    assert page.get_by_text("Jupyter news").count() == 0
    assert start.get_by_text("about 30 min", exact=True).count() == 1, "as the lesson promises"
    assert not page.locator("#labkit-start .jp-Toolbar").is_visible()

    start.locator(".labkit-start-next").click()
    lesson.wait_until_ready()


@pytest.mark.console("400", "the browser's own line for what JupyterLab cannot read")
@pytest.mark.console("Failed to initialize the context", "JupyterLab's line for it")
def test_a_damaged_lesson_is_not_opened_and_can_be_had_back(lab, context, picture):
    (lab.root / START).write_bytes(b"<<<<<<< HEAD\n" + on_disk(lab))
    page = context.new_page()
    page.goto(lab.url(lab.start_page))
    page.locator(".labkit-start-next").click()
    panel = Panel(page)
    note = panel.node.locator(".labkit-panel-note")
    note.get_by_text("01_start.ipynb cannot be opened. The file has git conflict markers").wait_for()
    assert page.locator(".jp-NotebookPanel, .jp-Dialog").count() == 0
    picture(page, "damaged-lesson")
    assert note.evaluate("note => note.append('/a/path'.repeat(30)) ?? note.scrollWidth <= note.clientWidth")

    page.goto(lab.url(f"/lab/tree/{START}"))  # or from the last visit, or the list of files
    page.get_by_role("dialog").get_by_text("File Load Error").wait_for()
    note.get_by_text("make reset EX=w00.answer").wait_for()
    page.locator(".jp-NotebookPanel").wait_for(state="detached")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    assert lab.labkit("reset", "w00.answer").returncode == 0
    page.locator(".labkit-week [data-tile='w00.answer']").click()
    Lesson(page, lab, START).wait_until_ready()
    note.wait_for(state="hidden")

    (lab.root / START).write_text("")  # what is open is there, whatever happens to the file
    page.locator(".labkit-week [data-tile='w00.shapes']").click()
    panel.node.get_by_text("You are at Predict, then run").wait_for()


def test_the_layout_is_kept(lab, context, open_lesson):
    """The second visit shows what the first one left open, not the start page."""
    page = context.new_page()
    page.goto(lab.url(lab.start_page))
    page.locator(".labkit-start .labkit-start-next").click()
    lesson = Lesson(page, lab, START).wait_until_ready()
    page.wait_for_function("() => jupyterapp.shell.currentWidget.context?.path")

    def kept_without_start(reply):  # not the layout from before, which may be on its way still
        put = "/api/workspaces/" in reply.url and reply.request.method == "PUT"
        return put and "labkit-start:start" not in reply.request.post_data

    with page.expect_response(kept_without_start):
        page.get_by_title("Close Start", exact=True).click()
    page.goto(lab.url(lab.start_page))
    lesson.wait_until_ready()
    assert page.locator(".labkit-start").count() == 0


# Check this notebook


def test_check_grades_what_is_on_the_screen_and_writes_nothing(lesson, panel, lab, picture):
    before = on_disk(lab)
    answer_two(lesson)
    panel.check()
    panel.row("w00.answer", "passed").wait_for()
    failed = panel.row("w00.row_means", "tried")
    failed.get_by_text("The averaged axis disappeared").wait_for()
    assert failed.locator(".labkit-exercise-said p").first.inner_text().startswith("For case 2 by 3, ")
    assert failed.get_by_text("make hint").count() == 0, "there is a button for it"
    assert panel.row("w00.shapes", "open").count() == panel.row("w00.average", "open").count() == 1
    said = f"{START_EXERCISES} exercises: 1 passed, 1 not yet, {START_EXERCISES - 2} not started."
    assert panel.status.inner_text().startswith(said)
    panel.node.get_by_text(f"1 of {len(exercises.all_ids())} exercises passed").wait_for()
    assert panel.node.locator(".labkit-meter").evaluate("bar => lessons.meter(bar)[0]") >= 4, (
        "a start is seen"
    )
    assert on_disk(lab) == before and lesson.is_dirty
    for theme in THEMES:
        lesson.choose_theme(theme)
        assert_readable(panel.node)
        assert_outlined(panel.node)
        picture(lesson.page, f"panel-{theme}")

    lesson.type_over("w00-rows", "return x", "return x.mean(dim=1, keepdim=True)")
    failed.get_by_text("changed since").wait_for()
    panel.check()
    panel.row("w00.row_means", "passed").wait_for()


def test_check_needs_no_kernel(lesson, panel, lab):
    answer_two(lesson)
    lab.shut_down_kernels()
    panel.check()
    panel.row("w00.answer", "passed").wait_for()


def test_typing_goes_on_while_the_check_runs(lesson, panel):
    lesson.type_over("w00-answer", STUB, "__import__('time').sleep(2); return 42")
    panel.check_button.click()
    panel.check_button.get_by_text("Stop the check").wait_for()
    lesson.type_over("w00-rows", STUB, "return x.mean(dim=1)")
    panel.wait_for_the_end()
    panel.row("w00.answer", "passed").wait_for()
    assert lesson.source("w00-rows").endswith("    return x.mean(dim=1)")
    assert panel.row("w00.row_means").get_attribute("data-stale") is not None


@pytest.mark.console("409", "the browser's own line for a refusal that the panel explains")
def test_a_second_check_is_refused_and_the_first_can_be_stopped(lesson, panel, open_lesson):
    other = Panel(open_lesson(START).page)
    other.row("w00.answer").wait_for()
    lesson.type_over("w00-answer", STUB, SLEEP)
    panel.check_button.dblclick()
    stop = panel.check_button.get_by_text("Stop the check", exact=True)
    stop.wait_for()
    other.check_button.click()
    other.status.get_by_text("A check of 01_start.ipynb is still running").wait_for()
    assert stop.count() == 1, "the second click of two stops nothing"

    panel.check_button.click()
    panel.status.get_by_text("Stopped. Nothing was recorded.").wait_for()
    panel.check_button.get_by_text("Check this notebook").wait_for()


def test_a_check_goes_on_behind_another_lesson_and_is_called_by_its_name(lesson, panel, lab, picture):
    lesson.type_over("w00-answer", STUB, SLEEP)
    panel.check_button.focus()
    for _ in range(2):  # the second time the key is held, and does not stop what it began
        lesson.page.keyboard.down("Enter")
    panel.status.get_by_text(f"Checking {START_EXERCISES} exercises.").wait_for()
    lesson.page.keyboard.up("Enter")
    panel.node.locator(".labkit-week", has_text="Week 1").locator("summary").click()
    panel.node.locator(f'.labkit-lesson[data-path="{STORAGE}"]').click()
    panel.node.get_by_text("Checking 01_start.ipynb.").wait_for()
    stop = panel.check_button.get_by_text("Stop the check of 01_start.ipynb")
    picture(panel.node, "panel-check-elsewhere")

    stop.click()
    panel.check_button.get_by_text("Check this notebook").wait_for()
    assert panel.node.get_by_text("Checking 01_start.ipynb.").count() == 0
    panel.node.locator(f'.labkit-lesson[data-path="{START}"]').click()
    panel.status.get_by_text("Stopped. Nothing was recorded.").wait_for()


def test_a_check_before_the_cells_it_needs_says_what_to_run(lesson, panel):
    lesson.run("w00-answer-check")
    panel.status.get_by_text("The check ran before cells it needs").wait_for()
    lesson.run("w00-setup")
    lesson.run("w00-answer-check")
    panel.status.get_by_text("The check ran before cells it needs").wait_for()
    lesson.check("w00-answer")
    panel.status.get_by_text("The check ran before").wait_for(state="detached")


# Hint, Reset, Next


def test_hints_come_one_by_one(lesson, panel, lab):
    """The second one comes from elsewhere: a terminal, or another window."""
    panel.row("w00.row_means").locator("button").first.click()
    hints = panel.row("w00.row_means").locator(".labkit-hints li")
    for count in (1, 2, 3):
        if count == 2:
            assert lab.labkit("hint", "w00.row_means").returncode == 0
            lesson.page.evaluate("void window.dispatchEvent(new Event('focus'))")
        else:
            panel.button("hint").click()
        hints.nth(count - 1).wait_for()
        assert hints.count() == count
    panel.status.get_by_text("These were all hints.").wait_for()


def test_a_failed_check_keeps_hint_and_reset_at_its_exercise(lesson, panel):
    """Shift+Enter moves the cursor on to the next text; only a pass moves the learner on."""
    lesson.run("w00-setup")
    lesson.type_over("w00-answer", STUB, "return 41")
    lesson.check("w00-answer")
    panel.button("hint").click()
    panel.row("w00.answer").locator(".labkit-hints li").wait_for()
    assert panel.node.locator(".labkit-hints li").count() == 1
    assert panel.place == "You are at Return a constant w00.answer"
    panel.button("reset").click()
    lesson.page.get_by_role("dialog").get_by_text("Reset w00.answer?").wait_for()
    lesson.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()

    lesson.type_over("w00-answer", "return 41", "return __import__('time').sleep(1) or 42")
    lesson.run("w00-answer")
    lesson.start("w00-answer-check")
    assert "w00.answer" in panel.place, "not known yet"
    lesson.wait_until("hasRun")
    panel.node.get_by_text("You are at Read a shape failure").wait_for()


def test_after_a_failed_check_the_cursor_leads_again(lesson, panel):
    lesson.run("w00-setup")
    lesson.check("w00-answer")
    assert "w00.answer" in panel.place
    lesson.page.keyboard.press("ArrowDown")
    panel.node.get_by_text("You are at Read a shape failure").wait_for()


def test_reset_is_backed_up_and_undone_with_the_usual_keys(lesson, panel, lab):
    lesson.join_undo_steps("w00-rows")  # as if the reset came in the same half second as the last key
    answer_two(lesson)
    before = on_disk(lab)
    panel.row("w00.row_means").locator("button").first.click()
    panel.button("reset").click()
    lesson.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert not (lab.root / "backups").exists()

    panel.button("reset").click()
    lesson.page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    panel.status.get_by_text("w00.row_means is back at its start").wait_for()
    assert STUB in lesson.source("w00-rows")
    assert lesson.source("w00-answer").endswith("    return 42")
    assert on_disk(lab) == before
    (kept,) = lab.root.glob(f"backups/*/{START}")
    assert "return x.mean(dim=1)" in kept.read_text()

    lesson.box("w00-rows").locator(".cm-content").click()
    lesson.page.keyboard.press("ControlOrMeta+z")
    assert lesson.source("w00-rows").endswith("    return x.mean(dim=1)")


def test_an_answer_turned_into_text_is_told_and_reset_to_code(lesson, panel):
    lesson.type_over("w00-answer", STUB, "return 42")
    lesson.page.keyboard.press("Escape")
    lesson.page.keyboard.press("m")
    panel.check()
    panel.row("w00.answer", "passed").wait_for()
    panel.status.get_by_text("The answer to w00.answer is in a text cell, which does not run").wait_for()

    before = lesson.cell("w00-answer")
    panel.button("reset").click()
    lesson.page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    panel.status.get_by_text("Edit > Undo Cell Operation works too").wait_for()
    after = lesson.cell("w00-answer")
    assert before["cell_type"] == "markdown" and after["cell_type"] == "code"
    assert STUB in after["source"] and after["metadata"] == before["metadata"] | {"trusted": True}
    assert [own_id(cell) for cell in lesson.cells()].count("w00-answer") == 1
    lesson.menu("Edit", "Undo Cell Operation")
    assert lesson.cell("w00-answer")["cell_type"] == "markdown"
    assert lesson.source("w00-answer").endswith("    return 42")


def test_next_goes_to_what_is_not_passed(lesson, panel):
    lesson.type_over("w00-answer", STUB, "return 42")
    panel.check()
    panel.row("w00.answer", "passed").wait_for()
    for ex in ("w00.row_means", "w00.shapes"):
        panel.button("next").click()
        panel.node.locator(f'.labkit-exercise[data-ex="{ex}"][data-selected]').wait_for()
    active = lesson.page.evaluate(
        "jupyterapp.shell.currentWidget.content.activeCell.model.getMetadata('labkit')"
    )
    assert (active["ex"], active["role"]) == ("w00.shapes", "exercise")


# notebooks that are not what they were


def test_a_renamed_notebook_is_recognized(lesson, panel, lab):
    answer_two(lesson)
    lesson.menu("File", "Rename Notebook…")
    dialog = lesson.page.get_by_role("dialog")
    dialog.locator("input").fill("mine.ipynb")
    dialog.locator(".jp-mod-accept").click()
    dialog.wait_for(state="hidden")
    lesson.path = "weeks/week00_start/mine.ipynb"
    lesson.wait_until_ready()
    panel.check()
    panel.row("w00.answer", "passed").wait_for()
    panel.row("w00.row_means", "tried").wait_for()
    panel.status.get_by_text(START).wait_for()  # what `make check` would grade


def test_a_copy_is_recognized(lab, open_lesson):
    copy = START.replace(".ipynb", "-Copy1.ipynb")
    shutil.copy(lab.root / START, lab.root / copy)
    lesson = open_lesson(copy)
    panel = Panel(lesson.page)
    lesson.type_over("w00-answer", STUB, "return 42")
    panel.check()
    panel.row("w00.answer", "passed").wait_for()
    panel.status.get_by_text("This is a copy").wait_for()


def test_exercises_without_cells_are_named_and_passed_over(lab, open_lesson):
    remove_cells(lab, role="check")
    remove_cells(lab, of="w00.row_means")
    lesson = open_lesson(START)
    panel = Panel(lesson.page)
    panel.row("w00.answer").wait_for()
    panel.button("next").click()
    panel.node.get_by_text("You are at Predict, then run").wait_for()
    gone = panel.status.get_by_text("No cells are left of w00.row_means (01_start.ipynb).")
    gone.wait_for()
    panel.button("next").click()
    gone.wait_for(state="detached")
    panel.node.locator("[data-tile='w00.row_means']").click()
    gone.wait_for()

    assert lab.labkit("reset", "w00.row_means").returncode == 0
    lesson.menu("File", "Reload Notebook from Disk")
    panel.row("w00.row_means").wait_for()

    remove_cells(lab)
    lesson.menu("File", "Reload Notebook from Disk")
    panel.row("w00.row_means").wait_for(state="detached")
    assert panel.node.get_by_role("heading", name="Start here").is_visible(), "a lesson all the same"
    assert panel.check_button.is_visible() and not panel.button("hint").is_visible()


def test_a_notebook_of_their_own_has_nothing_to_check(lab, context):
    path = "weeks/week00_start/own.ipynb"
    (lab.root / path).write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    page = context.new_page()
    page.goto(lab.url(f"/lab/tree/{path}"))
    page.locator(".jp-NotebookPanel").wait_for()
    panel = Panel(page)
    panel.node.get_by_text("No lesson is open").wait_for()
    assert not panel.check_button.is_visible()


# for everybody


def test_the_panel_marks_words_as_the_boxes_of_checks_do(lesson, panel):
    texts = [
        "a share of *rows*, not of `x * y * z`",
        "2*x*y, a * b * c, f(*args, **kwargs), ones(*x.shape)*(1/x)",
        "*the mean* of `a<b` & more",
        "",
    ]
    markup = lesson.page.evaluate(
        """async (texts) => {
            const { element, prose } = await import("/lab/extensions/labkit/static/dom.js");
            return texts.map((text) => element("p", {}, ...prose(text)).innerHTML);
        }""",
        texts,
    )
    assert markup == [inline(text) for text in texts]


def test_by_keyboard_alone(lesson, panel):
    answer_two(lesson)
    page = lesson.page
    page.keyboard.press("ControlOrMeta+Shift+c")
    page.locator(".lm-CommandPalette-input, .jp-ModalCommandPalette input").first.wait_for()
    page.keyboard.type("check this notebook")
    page.keyboard.press("Enter")
    panel.wait_for_the_end()
    panel.row("w00.answer", "passed").wait_for()

    panel.check_button.focus()
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.className"))
    for name in ("hint", "reset", "next"):
        assert any(f"labkit-panel-{name}" in classes for classes in reached), reached
    assert reached.index(next(c for c in reached if "labkit-exercise-name" in c)) == 3, "then the exercises"
    while "labkit-panel-hint" not in page.evaluate("document.activeElement.className"):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    panel.node.locator(".labkit-hints li").wait_for()


def test_what_screen_readers_hear_and_where_the_focus_is(lesson, panel, picture):
    """Every control has a name, the verdict is announced, and the focus shows in both themes."""
    status = panel.node.get_by_role("status")
    assert status.count() == 1 and status.get_attribute("aria-live") == "polite"
    assert status.evaluate("node => node.checkVisibility()"), "what was hidden is not read aloud"
    answer_two(lesson)
    panel.check()
    assert status.inner_text().startswith(f"{START_EXERCISES} exercises: 1 passed")
    for name in ("Return a constant, w00.answer, passed", "Read a shape failure, w00.row_means, not yet"):
        panel.node.locator(".labkit-exercises").get_by_role("button", name=name, exact=True).wait_for()
    assert panel.node.evaluate(
        "node => [...node.querySelectorAll('button')].every((b) => b.textContent || b.ariaLabel)"
    )

    for theme in THEMES:
        lesson.choose_theme(theme)
        panel.check_button.focus()
        lesson.page.keyboard.press("Tab")
        style, width, contrast = panel.button("hint").evaluate("button => lessons.focusRing(button)")
        assert style == "solid" and width >= 2 and contrast >= 3, (theme, style, width, contrast)
        picture(panel.node, f"panel-focus-{theme}")


def test_at_200_percent(lesson, panel, picture):
    """Twice as large is half as much room: nothing is cut off or pushed out of reach."""
    answer_two(lesson)
    panel.check()
    lesson.page.set_viewport_size({"width": 640, "height": 500})
    assert panel.node.evaluate("node => node.scrollWidth <= node.clientWidth")
    for name in ("check", "hint", "reset", "next"):
        button = panel.button(name)
        button.scroll_into_view_if_needed()
        assert button.evaluate(
            """button => {
                const { left, right, top, bottom } = button.getBoundingClientRect();
                const inside = button.closest(".labkit-panel").getBoundingClientRect();
                const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
                return left >= inside.left && right <= inside.right && button.contains(hit);
            }"""
        ), name
    picture(lesson.page, "panel-200-percent")
