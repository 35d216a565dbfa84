"""`check`, `watch` and `solutions` as people run them."""

import copy
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from labkit.book import notebook
from labkit.book.work import here
from labkit.grade.lanes import run_solutions
from labkit.grade.lanes.watch import Watcher

from .corpus import EXERCISES, SQUARES, answer, inside


def labkit(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labkit", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=200)


@pytest.fixture
def page(small_course: Path) -> Path:
    return small_course / "weeks" / "week90_lanes" / "01_lanes.ipynb"


@pytest.fixture
def events(small_course: Path) -> Path:
    path = small_course / "progress" / "events.jsonl"
    path.unlink(missing_ok=True)
    return path


def kept(events: Path) -> list[dict]:
    lines = events.read_text().split("\n") if events.exists() else []
    return [json.loads(line) for line in lines if line]


# check


def test_a_fresh_course_is_not_started(small_course, page, released, events):
    notebook.write(page, released)
    done = labkit("check", cwd=small_course)
    assert done.returncode == 0, done.stderr
    assert "5 exercises: 0 passed, 0 not yet, 5 not started." in done.stdout
    assert "Next: open weeks/week90_lanes/01_lanes.ipynb" in done.stdout
    assert kept(events) == []
    assert labkit("check", "--strict", cwd=small_course).returncode == 1


def test_a_mixed_notebook(small_course, page, released, solved, events, tmp_path):
    """One passes, one does not, the rest is not started; from another folder, with a copy beside it."""
    nb = answer(copy.deepcopy(released), SQUARES)
    next(cell for cell in nb["cells"] if cell["id"] == "w90-total")["source"] = next(
        cell["source"] for cell in solved["cells"] if cell["id"] == "w90-total"
    )
    notebook.write(page, nb)
    before = page.read_bytes()
    twin = page.with_name("01_lanes-Copy1.ipynb")
    twin.write_bytes(before)
    done = labkit("check", "--week", "90", "--root", str(small_course), cwd=tmp_path)
    twin.unlink()
    assert done.returncode == 1, done.stderr
    assert "5 exercises: 1 passed, 1 not yet, 3 not started." in done.stdout
    assert "These are squares." in done.stdout.partition("Next:")[0]
    assert "Next: open weeks/week90_lanes/01_lanes.ipynb\nNOT YET  w90.double (values)" in done.stdout
    assert "01_lanes-Copy1.ipynb is not a notebook of the course" in done.stdout
    assert "\033" not in done.stdout + done.stderr
    assert page.read_bytes() == before
    assert [(e["ex"], e["status"], e["lane"]) for e in kept(events)] == [
        ("w90.double", "values", "check"),
        ("w90.total", "pass", "check"),
    ]
    check_reports(small_course / "reports")


def check_reports(folder: Path) -> None:
    (only,) = json.loads((folder / "check.json").read_text())["notebooks"]
    assert only["notebook"] == "weeks/week90_lanes/01_lanes.ipynb"
    assert [entry["ex"] for entry in only["exercises"]] == list(EXERCISES)
    assert [entry["passed"] for entry in only["exercises"]] == [False, True, False, False, False]
    suite = ElementTree.parse(folder / "check.xml").getroot()[0]
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["5", "1", "3"]
    assert [case[0].tag if len(case) else "pass" for case in suite] == ["failure", "pass", *["skipped"] * 3]


def test_one_exercise(small_course, page, solved):
    nb = answer(copy.deepcopy(solved), SQUARES)
    notebook.write(page, answer(nb, "import os\nos._exit(1)", "counter"))
    done = labkit("check", "--ex", "w90.total", cwd=small_course)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 exercise: 1 passed, 0 not yet, 0 not started." in done.stdout
    done = labkit("check", "--ex", "w90.totl", cwd=small_course)
    assert done.returncode == 2
    assert "Did you mean w90.total?" in done.stderr


# watch


def lines_to(output: Iterator[str], last: str) -> str:
    """What is printed up to the line that holds `last`; all there is if it never comes."""
    lines = []
    for line in output:
        lines.append(line)
        if last in line:
            break
    return "".join(lines)


def hear_interrupts():
    """A process started in the background of a shell ignores Control-C, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_watch_tells_of_a_save(small_course, page, solved, events):
    notebook.write(page, solved)
    command = [sys.executable, "-m", "labkit", "watch", "--week", "90"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        cwd=small_course,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=hear_interrupts,
    ) as process:
        stop = threading.Timer(120, process.kill)
        stop.start()
        output = iter(process.stdout)
        started = lines_to(output, "Ctrl-C ends this.")
        notebook.write(page, answer(copy.deepcopy(solved), inside("os._exit(3)")))
        died = lines_to(output, "Hint:")
        notebook.write(page, answer(copy.deepcopy(solved), SQUARES))
        wrong = lines_to(output, "Hint:")
        process.send_signal(signal.SIGINT)
        rest = "".join(output)
        stop.cancel()
    assert "Watching" in started
    assert "5 exercises: 4 passed, 1 not yet, 0 not started." in died
    assert "NOT YET  w90.double (error): the answer ended the whole process." in died
    assert "Likely cause: These are squares." in wrong
    assert (process.returncode, rest.strip()) == (0, "")
    assert [(e["ex"], e["status"], e["lane"]) for e in kept(events)] == [
        ("w90.double", "error", "watch"),
        ("w90.double", "values", "watch"),
    ]


def test_watcher_sees_saves_and_new_files_only(small_course, page, solved):
    notebook.write(page, solved)
    watcher = Watcher(here(small_course))
    assert watcher.saved() == []
    notebook.write(page, answer(copy.deepcopy(solved), SQUARES))
    page.with_name("other.ipynb").write_text("{}")
    assert watcher.saved() == [page]
    assert watcher.saved() == []
    page.unlink()
    assert watcher.saved() == []
    notebook.write(page, solved)
    assert watcher.saved() == [page]


# solutions


def executed(source: str, *outputs: dict) -> notebook.Notebook:
    """A notebook of one cell that was run and left these outputs."""
    cell = notebook.make_cell("code", source, "only-cell") | {"execution_count": 1, "outputs": list(outputs)}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def shown(**data: object) -> dict:
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {k.replace("_", "/"): v for k, v in data.items()},
    }


def test_solutions_are_compared_with_what_is_stored(tmp_path):
    right = {"output_type": "stream", "name": "stdout", "text": "42\n"}
    show = "display({'text/plain': 'a curve', 'image/png': 'bmV3'}, raw=True)"
    old = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/plain": "a curve", "image/png": "b2xk"},
    }
    notebooks = {
        "right": executed("print(6 * 7)", right),
        "wrong": executed("print(6 * 9)", right),
        "picture": executed(show, old),
        "progress": executed("import sys\nprint('50 %', file=sys.stderr)\nprint(6 * 7)", right),
    }
    for name, nb in notebooks.items():
        notebook.write(tmp_path / f"{name}.ipynb", nb)
    found = run_solutions.run([tmp_path / f"{name}.ipynb" for name in [*notebooks, "missing"]], {})
    assert [bool(outcome.failures) for outcome in found] == [False, True, False, False, True]
    assert [outcome.compared for outcome in found] == [1, 1, 1, 1, 0]
    text = run_solutions.table(found, tmp_path)
    assert "pass  right.ipynb     1 cells run, 1 compared" in text
    assert "FAIL  wrong.ipynb     cell only-cell" in text
    assert "FAIL  missing.ipynb   cell -" in text
    assert "5 notebooks: 3 passed, 2 failed." in text
