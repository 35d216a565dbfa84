"""What the panel asks for, without HTTP: the state of the course, a check, a hint, a reset.

The notebook is always what the browser holds, saved or not. It is read, graded in a forked process as in
`make watch`, and never written: a reset returns the text, and the front end puts it where it can be undone.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from labkit import __version__, exercises
from labkit.book import disk
from labkit.book.changes import finish_unfinished
from labkit.book.course import Course, lesson_title
from labkit.book.learner import Problem, read_learner, sound_notebook
from labkit.book.notebook import Notebook, labkit_of, learner_notebook
from labkit.book.percent import Lesson, LessonError
from labkit.book.work import Work
from labkit.grade.lanes import fork, papers, report
from labkit.grade.progress import hint
from labkit.grade.progress.history import History, Standing, load
from labkit.panel import course
from labkit.verdict import HINT, Verdict

SILENT_SECONDS = 180  # a window that has said nothing for so long is gone
MOST_WINDOWS = 50
OPENED_ALL_THE_SAME = ("old-format", "new-format", "newer-release")  # what is a problem, but not JupyterLab's
ELSEWHERE = (HINT, "Whole traceback:")  # not in the panel: it has a button, and no kernel
Say = Callable[[dict[str, Any]], None]


class Refused(Exception):
    """Why something is not done, in the learner's words; `status` is HTTP's number for it."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True)
class Opened:
    """A notebook as the browser holds it: where it is, which lesson it is, what is in it."""

    path: Path
    lesson: Lesson
    content: Notebook
    note: str | None  # what is unusual about it


class Check:
    """One check of one notebook. `run` tells what happens, line by line; `stop` ends it from outside."""

    def __init__(self, desk: Desk, opened: Opened) -> None:
        self.desk, self.opened = desk, opened
        lesson, path = opened.lesson, opened.path
        self.paper = papers.paper(desk.work, lesson, learner=opened.content, path=path)
        self.grading = fork.ForkGrading(self.paper)

    def run(self, say: Say) -> None:
        """Grade, and say `start`, `step` and `verdict` as they come, then `end`, `stopped` or `error`."""
        began = time.perf_counter()
        state = self.desk.history()
        names, note = list(self.paper.exercises), self.paper.note or self.opened.note
        say({"kind": "start", "exercises": names, "note": note, "lesson": lesson_title(self.opened.lesson)})

        def tell(done: int, of: int, verdict: Verdict | None) -> None:
            say({"kind": "step", "done": done, "of": of})
            if verdict is not None:
                say(shown(verdict, state.standing.get(verdict.exercise)))

        try:
            verdicts = self.grading.run(tell)
        except fork.Stopped:
            say({"kind": "stopped"})
            return
        except (OSError, RuntimeError) as error:
            say({"kind": "error", "message": f"The check could not run: {error}"})
            return
        for verdict in self.paper.settled.values():  # those for which nothing had to run
            say(shown(verdict, state.standing.get(verdict.exercise)))
        forgotten = self.desk.remember(self.paper, verdicts, state)
        words = report.summary([report.Result(self.opened.path, verdicts)])
        words = f"{words} {forgotten}" if forgotten else words
        passed = sum(verdict.passed for verdict in verdicts.values())
        seconds = round(time.perf_counter() - began, 2)
        say({"kind": "end", "summary": words, "passed": passed, "total": len(verdicts), "seconds": seconds})

    def stop(self) -> None:
        self.grading.stop()


def shown(verdict: Verdict, before: Standing | None) -> dict[str, Any]:
    """A verdict as a line to the front end; `state` is the word that rows are drawn by."""
    if verdict.passed:
        state = "passed"
    elif verdict.status == "not started":
        state = "open"
    else:
        state = "failing" if before is not None and before.passed else "tried"
    record = verdict.record()
    lines = [line for line in record["lines"] if not line.startswith(ELSEWHERE)]
    return {"kind": "verdict", "state": state, "short": report.one_line(verdict), **record, "lines": lines}


class Desk:
    """A learner's work on this machine, and the one check that may run at a time.

    `top` is the folder that JupyterLab serves; paths from the browser start there.
    """

    def __init__(self, work: Work, top: Path) -> None:
        self.work, self.top = work, top
        self.running: Check | None = None
        self.lock = threading.Lock()
        self.seen: dict[Path, dict[str, str]] = {}  # the answers at the last check, by notebook
        self.declared = self._stamps()
        self.windows: dict[str, tuple[float, list[str]]] = {}  # by window: when it said what it has open
        self.news: list[str] = []  # what came of an update that was broken off before the server started
        finish_unfinished(work.folder, self.news.append)

    # what there is

    def course(self) -> Course:
        """The course, if its lessons can be read."""
        try:
            self.work.course.lessons  # noqa: B018  # raises here what would be raised later
        except LessonError as error:
            raise Refused(500, f"A lesson cannot be read. {error}") from None
        return self.work.course

    def history(self) -> History:
        self.course()
        return load(self.work)

    def state(self) -> dict[str, Any]:
        """Weeks, exercises and progress, and what the learner should know first."""
        root = self.work.course.root
        if not self.course().lessons:
            raise Refused(404, f"There are no lessons in {root}. Start `make lab` in the course folder.")
        prefix = ""
        if self.work.folder.is_relative_to(self.top) and self.work.folder != self.top:
            prefix = f"{self.work.folder.relative_to(self.top).as_posix()}/"
        return {
            **course.summary(self.work, self.history(), prefix),
            "note": self._stale() or " ".join(self.news) or None,
        }

    def open(self, path: Any, content: Any, modified: Any = None) -> Opened:
        """The notebook that the browser names and sends, or a refusal; `modified`: when it read the file."""
        place = self._place(path)
        nb = sound_notebook(content, place)
        if isinstance(nb, Problem):
            raise Refused(400, nb.sentence)
        lesson = self.course().lesson_of(nb)
        if lesson is None:
            raise Refused(
                400, f"{place.name} has no cells of the course in it, so there is nothing to check."
            )
        home = self.work.notebook(lesson)
        notes = []
        if place != home.resolve():
            notes.append(
                f"This is a copy of {lesson.notebook.as_posix()}. `make check` grades the one with that name."
            )
        if _changed_since(place, modified):
            notes.append("The file changed on disk meanwhile: File > Reload Notebook from Disk shows it.")
        notes += [_is_text(ex) for ex in _answers_in_text(nb)]
        return Opened(place, lesson, nb, " ".join(notes) or None)

    def problem(self, path: Any) -> dict[str, Any]:
        """Why JupyterLab cannot open a notebook of the course, and what brings it back; None if it can."""
        try:
            place = self._place(path)
        except Refused:
            return {"problem": None}
        found = read_learner(place)
        if not isinstance(found, Problem) or found.kind in OPENED_ALL_THE_SAME:
            return {"problem": None}
        words = [f"{place.name} cannot be opened.", found.why]
        self.course()
        lesson = self.work.lesson_at(place)
        if lesson is not None:
            ex = lesson.exercises[0]
            afresh = f"start the lesson afresh with `make reset EX={ex}` in a terminal"
            words.append(f"Restore it from backups/ or git, or {afresh}.")
            if found.kind != "missing":
                words.append("The file as it is goes to backups/ first.")
        return {"problem": " ".join(words)}

    def opened(self) -> dict[str, Any]:
        """The notebooks that some window has open, with or without a kernel."""
        alive = [paths for at, paths in self.windows.values() if time.monotonic() - at < SILENT_SECONDS]
        return {"paths": sorted({path for paths in alive for path in paths})}

    def hear_opened(self, window: Any, names: Any) -> dict[str, Any]:
        """A window says which notebooks it has open; it does so every minute, and when it closes."""
        if not isinstance(window, str) or not isinstance(names, list):
            raise Refused(400, "A window says its name and the paths it has open.")
        self.windows.pop(window, None)
        self.windows[window] = time.monotonic(), [name for name in names if isinstance(name, str)]
        for old in list(self.windows)[:-MOST_WINDOWS]:
            del self.windows[old]
        return self.opened()

    # what it does

    def begin(self, path: Any, content: Any, modified: Any = None) -> Check:
        """Take the one place for a check; `end` gives it back."""
        check = Check(self, self.open(path, content, modified))
        with self.lock:
            if self.running is not None:
                name = self.running.opened.path.name
                raise Refused(409, f"A check of {name} is still running. Wait for it, or stop it.")
            self.running = check
        return check

    def end(self, check: Check) -> None:
        with self.lock:
            if self.running is check:
                self.running = None

    def remember(self, paper: papers.Paper, verdicts: dict[str, Verdict], state: History) -> str | None:
        """An attempt for each answer that changed since the last check of this notebook, or has no record.

        Returns why they could not be written, if they could not.
        """
        trouble = None
        before, now = self.seen.get(paper.path, {}), paper.answers
        self.seen[paper.path] = now
        for ex, verdict in verdicts.items():
            recorded = (
                ex in state.standing and state.standing[ex].attempts
            )  # `progress/` may have been deleted
            if verdict.status != "not started" and not (recorded and now.get(ex) == before.get(ex)):
                trouble = self.work.remember("attempt", lane="panel", **verdict.record()) or trouble
        return trouble

    def hint(self, ex: Any) -> dict[str, Any]:
        """One more hint of an exercise: all that were given by now, and how many are left."""
        exercise = self._exercise(ex)
        given = min(hint.take(self.work, self.history(), exercise) + 1, len(exercise.hints))
        left = len(exercise.hints) - given
        said = None if left else f"The solution: `make solution EX={exercise.id} INSIST=1` in a terminal."
        return {"ex": exercise.id, "hints": list(exercise.hints[:given]), "left": left, "more": said}

    def reset(self, path: Any, content: Any, ex: Any) -> dict[str, Any]:
        """Keep the notebook as it is in `backups/`; return the cells that the exercise starts with.

        Nothing but the backup is written. If that fails, so does the reset.
        """
        exercise, opened = self._exercise(ex), self.open(path, content)
        release = learner_notebook(opened.lesson, __version__)
        of_ex = [cell for cell in release["cells"] if labkit_of(cell).get("ex") == exercise.id]
        cells = [cell for cell in of_ex if labkit_of(cell)["role"] == "exercise"]
        if not cells:
            raise Refused(400, f"{exercise.id} is not an exercise of this notebook.")
        text = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        try:
            folder = disk.backup_of(self.work.folder, {opened.path: text.encode("utf-8", "replace")})
        except OSError as error:
            why = f"No backup could be written ({error.strerror}), so nothing was reset."
            raise Refused(500, f"{why} Is {self.work.backups} writable?") from None
        return {"ex": exercise.id, "backup": folder.relative_to(self.work.folder).as_posix(), "cells": cells}

    # what it does not

    def _place(self, path: Any) -> Path:
        """A notebook in weeks/, named from the folder that JupyterLab serves."""
        try:
            place = (self.top / path).resolve()
            is_there = place.parent.is_dir()
        except (TypeError, ValueError, OSError):
            raise Refused(400, "That is not the name of a notebook.") from None
        weeks = self.work.weeks.resolve()
        if not place.is_relative_to(weeks) or place.suffix != ".ipynb" or not is_there:
            raise Refused(
                403, "Only notebooks in weeks/ are checked. Move it there, or open the lesson itself."
            )
        return place

    def _exercise(self, ex: Any) -> exercises.Exercise:
        try:
            return exercises.get(ex if isinstance(ex, str) else "")
        except KeyError as error:
            raise Refused(404, str(error.args[0])) from None

    def _stamps(self) -> list[tuple[str, int]]:
        folder = Path(exercises.__file__).parent
        return sorted((str(file), file.stat().st_mtime_ns) for file in folder.rglob("*.py"))

    def _stale(self) -> str | None:
        """Words for somebody whose server still runs the release from before `make update`."""
        if self._stamps() == self.declared:
            return None
        return "The course was updated. Save your work, end `make lab` with Control-C and start it again."


def _answers_in_text(nb: Notebook) -> list[str]:
    """The exercises whose answers stand in cells that do not run."""
    cells = [labkit_of(cell) for cell in nb["cells"] if cell["cell_type"] != "code"]
    return sorted({cell["ex"] for cell in cells if cell.get("role") == "exercise" and "ex" in cell})


def _is_text(ex: str) -> str:
    return f"The answer to {ex} is in a text cell, which does not run: click it, press Escape, then `y`."


def _changed_since(path: Path, modified: Any) -> bool:
    """Whether a file was written after a time such as `2026-01-31T12:00:00.5Z`; in doubt it was not."""
    try:
        return path.stat().st_mtime - datetime.fromisoformat(modified).timestamp() > 1
    except (TypeError, ValueError, OSError):
        return False
