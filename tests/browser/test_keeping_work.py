"""Whatever happens to the tab, the kernel, the server or the file: nothing that the learner typed is lost."""

import json
import os
import signal

import pytest

from .lesson import STUB
from .panel import Panel

START = "weeks/week00_start/01_start.ipynb"
GONE = "the server of this test is stopped on purpose"


def stored(lab, id):
    """The source of a cell in the file."""
    cells = json.loads((lab.root / START).read_text())["cells"]
    return next("".join(cell["source"]) for cell in cells if cell["metadata"]["labkit"]["id"] == id)


def test_saved_work_and_its_verdict_survive_a_reload(open_lesson, lab):
    lesson = open_lesson(START)
    lesson.type_over("w00-answer", STUB, "return 42")
    lesson.run("w00-setup")
    lesson.check("w00-answer")
    lesson.save()
    assert "return 42" in stored(lab, "w00-answer")
    lesson.reload()
    assert lesson.source("w00-answer").endswith("    return 42")
    assert lesson.verdict("w00-answer-check")["status"] == "pass"
    assert lesson.words("w00-answer-check").startswith("PASS w00.answer")


def test_leaving_with_unsaved_work_is_asked_about(open_lesson):
    """What the kernel adds to the notebook when it connects is not work, before or after."""
    lesson = open_lesson(START)
    lesson.wait_until("knowsItsKernel")
    assert not lesson.is_dirty, "nobody has changed anything"
    lesson.type_over("w00-answer", STUB, "return 42")
    lesson.meet_another_kernel()
    assert lesson.is_dirty
    asked = []
    lesson.page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    with lesson.page.expect_event("dialog"):
        lesson.page.evaluate("void setTimeout(() => location.reload())")
    assert asked == ["beforeunload"]
    assert lesson.source("w00-answer").endswith("    return 42")
    lesson.save()


def test_two_tabs_do_not_overwrite_each_other_unasked(open_lesson, lab):
    first = open_lesson(START)
    second = open_lesson(START)
    first.type_over("w00-answer", STUB, "return 42")
    first.save()
    second.type_over("w00-rows", STUB, "return x.mean(dim=1)")
    second.menu("File", "Save Notebook")
    dialog = second.page.get_by_role("dialog")
    dialog.get_by_text("changed on disk").wait_for()
    assert "return 42" in stored(lab, "w00-answer") and STUB in stored(lab, "w00-rows")

    dialog.get_by_role("button", name="Cancel").click()
    dialog.wait_for(state="hidden")
    assert second.source("w00-rows").endswith("    return x.mean(dim=1)") and second.is_dirty
    assert STUB in stored(lab, "w00-rows")


def test_a_killed_kernel_costs_no_text(open_lesson, picture):
    lesson = open_lesson(START)
    lesson.run("w00-setup")
    lesson.type_over("w00-answer", STUB, "return 42")
    os.kill(lesson.ask("__import__('os').getpid()"), signal.SIGKILL)
    dialog = lesson.page.get_by_role("dialog")
    dialog.get_by_text("died").wait_for()
    picture(lesson.page, "kernel-killed")
    dialog.get_by_role("button", name="Ok").click()
    lesson.wait_until_ready()
    died = Panel(lesson.page).status.get_by_text("What you typed is all here")
    died.wait_for()
    assert lesson.source("w00-answer").endswith("    return 42")
    lesson.run("w00-setup")
    assert lesson.check("w00-answer")["status"] == "pass"
    died.wait_for(state="detached")


def test_an_answer_that_kills_the_kernel_can_be_mended(open_lesson):
    lesson = open_lesson(START)
    lesson.run("w00-setup")
    lesson.type_over("w00-answer", STUB, "__import__('os')._exit(1)")
    lesson.run("w00-answer")
    lesson.start("w00-answer-check")
    lesson.page.get_by_role("dialog").get_by_role("button", name="Ok").click()
    lesson.wait_until_ready()
    lesson.type_over("w00-answer", "_exit", "return 42")
    lesson.run("w00-setup")
    assert lesson.check("w00-answer")["status"] == "pass"


@pytest.mark.console("ERR_CONNECTION_REFUSED", GONE)
@pytest.mark.console("Failed to fetch", GONE)
@pytest.mark.console("WebSocket", GONE)
@pytest.mark.console("404", "the restarted server does not know the old kernel")
def test_a_restarted_server_costs_no_text(open_lesson, lab):
    lesson = open_lesson(START)
    lesson.type_over("w00-answer", STUB, "return 42")
    lab.stop()
    dialog = lesson.page.get_by_role("dialog")
    dialog.get_by_text("Server Connection Error").wait_for()
    dialog.get_by_label("Do not show this message again").check()
    dialog.get_by_role("button", name="Close").click()
    lesson.type_over("w00-rows", STUB, "return x.mean(dim=1)")
    panel = Panel(lesson.page)
    panel.check_button.click()
    panel.status.get_by_text("The server does not answer.").wait_for()

    lab.start()
    panel.check()
    panel.row("w00.answer", "passed").wait_for()
    lesson.save()
    assert "return 42" in stored(lab, "w00-answer")
    assert "return x.mean(dim=1)" in stored(lab, "w00-rows")


# the file on disk


def test_an_update_is_refused_while_the_notebook_is_open(open_lesson, lab, tmp_path):
    release = tmp_path / START
    release.parent.mkdir(parents=True)
    release.write_text((lab.root / START).read_text().replace("Return a constant", "Return one constant"))
    lesson = open_lesson(START)
    lesson.type_over("w00-answer", STUB, "return 42")
    lesson.save()
    before = (lab.root / START).read_bytes()

    done = lab.labkit("update", "--from", str(tmp_path))
    assert done.returncode == 1
    assert f"Open in Jupyter: {START}. Save, close it and shut down its kernel" in done.stderr
    assert (lab.root / START).read_bytes() == before

    lesson.menu("File", "Close and Shut Down Notebook…")
    lesson.page.get_by_role("dialog").locator(".jp-mod-accept").click()
    lesson.wait_until_closed()
    done = lab.labkit("update", "--from", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Return one constant" in stored(lab, "w00-answer-md") and "return 42" in stored(lab, "w00-answer")


def test_a_reset_in_the_terminal_says_that_the_notebook_is_open(open_lesson, lab):
    lesson = open_lesson(START)
    lesson.type_over("w00-answer", STUB, "return 41")
    lesson.save()
    done = lab.labkit("reset", "w00.answer")
    assert "It is open in Jupyter: use File > Reload Notebook from Disk." in done.stdout
    assert any("return 41" in path.read_text() for path in lab.root.glob(f"backups/*/{START}"))

    lesson.menu("File", "Reload Notebook from Disk")
    lesson.wait_until("holds", "w00-answer", STUB)


@pytest.mark.console("500", "the browser's own line for a reply that says what went wrong")
@pytest.mark.console("Unexpected error while saving", "JupyterLab throws what its dialog says")
def test_a_file_that_cannot_be_written_is_said_and_the_text_stays(open_lesson, lab):
    lesson = open_lesson(START)
    lesson.type_over("w00-answer", STUB, "return 42")
    obstacle = lab.root / START.replace(
        "01_start", ".~01_start"
    )  # where Jupyter writes first; root has no read-only
    obstacle.mkdir()
    lesson.menu("File", "Save Notebook")
    dialog = lesson.page.get_by_role("dialog")
    dialog.get_by_text("File Save Error for 01_start.ipynb").wait_for()
    dialog.get_by_role("button", name="Close").click()
    assert lesson.source("w00-answer").endswith("    return 42") and lesson.is_dirty
    panel = Panel(lesson.page)
    panel.status.get_by_text("could not be saved; what you typed is still here").wait_for()

    obstacle.rmdir()
    lesson.save()
    panel.status.get_by_text("could not be saved").wait_for(state="detached")
    assert "return 42" in stored(lab, "w00-answer")


def test_a_check_without_a_place_for_progress_still_answers(open_lesson, lab):
    (lab.root / "progress" / "events.jsonl").mkdir(parents=True)  # a folder where the file should be
    lesson = open_lesson(START)
    lesson.run("w00-setup")
    lesson.type_over("w00-answer", STUB, "return 42")
    assert lesson.check("w00-answer")["status"] == "pass"


def test_a_notebook_saved_by_an_older_jupyterlab(open_lesson, lab):
    """Format 4.4 has no cell ids; the lesson works on, and is graded."""
    path = lab.root / START
    nb = json.loads(path.read_text())
    nb["nbformat_minor"] = 4
    for cell in nb["cells"]:
        del cell["id"]
    path.write_text(json.dumps(nb))
    lesson = open_lesson(START)
    lesson.run("w00-setup")
    lesson.type_over("w00-answer", STUB, "return 42")
    assert lesson.check("w00-answer")["status"] == "pass"
    panel = Panel(lesson.page)
    panel.check()
    panel.row("w00.answer", "passed").wait_for()
    lesson.save()
    done = lab.labkit("check", "--ex", "w00.answer")
    assert done.returncode == 0 and "w00.answer" in done.stdout, done.stdout + done.stderr
