"""The warm lane: grade a notebook in a fork of a process that has torch imported already.

The same steps and the same checks as `make check`, without a Jupyter kernel: a fraction of a second.
Where there is no fork (Windows), a fresh process is started instead: the same verdicts, later.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from labkit.book.work import here
from labkit.grade.lanes.papers import Paper, paper, steps
from labkit.grade.lanes.steps import Grading, Ran
from labkit.verdict import Verdict

START_SECONDS = 60
Tell = Callable[[int, int, Verdict | None], None]


@cache
def _context() -> Any:
    """multiprocessing with a fork server that has imported the checks and torch, or without one."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["labkit.grade.lanes.preload", "labkit.grade.lanes.fork"])
    return context


class ForkSession:
    """A forked process that runs cells; `warm.serve` is its side of the pipe."""

    def __init__(self, folder: str, environment: dict[str, str] | None = None) -> None:
        self.pipe, theirs = _context().Pipe()
        self.process = _context().Process(
            target=_serve, args=(theirs, folder, {**os.environ, **(environment or {})})
        )
        self.process.start()
        theirs.close()
        if self._answer(START_SECONDS).ended:
            self.close()
            raise RuntimeError("The process that runs the checks did not start. `make doctor` says why.")

    def run(self, source: str, timeout: float) -> Ran:
        try:
            self.pipe.send_bytes(json.dumps([source, timeout]).encode())
        except OSError:
            return Ran(ended="died")
        return self._answer(timeout)

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def _answer(self, timeout: float) -> Ran:
        if not self.pipe.poll(timeout):
            return Ran(ended="slow")
        try:
            return Ran(**json.loads(self.pipe.recv_bytes()))
        except (EOFError, OSError):
            return Ran(ended="died")


def _serve(pipe: Connection, folder: str, environment: dict[str, str]) -> None:
    from labkit.grade.lanes.child import serve

    serve(pipe, folder, environment)


def warm_up() -> None:
    """Start the fork server and wait until it has imported everything."""
    ForkSession(str(Path.cwd())).close()


class Stopped(Exception):
    """Grading was stopped from outside; there are no verdicts."""


class ForkGrading:
    """One notebook being graded. `stop` may be called from another thread while `run` runs."""

    def __init__(self, paper: Paper) -> None:
        self.paper = paper
        folder, environment = str(paper.path.parent.resolve()), paper.work.environment()
        self.grading = Grading(lambda: ForkSession(folder, environment))
        self.stopped = False

    def run(self, tell: Tell | None = None) -> dict[str, Verdict]:
        """The verdicts by exercise. `tell(done, of, verdict)` hears of each cell, and of each verdict."""
        if self.paper.copy is None:
            return self.paper.settled
        todo = steps(self.paper.copy)
        try:
            for number, step in enumerate(todo, 1):
                verdict = self.grading.do(step)
                if self.stopped:
                    raise Stopped
                if tell:
                    tell(number, len(todo), verdict)
        finally:
            self.grading.close()
        found = self.paper.settled | self.grading.verdicts
        return {ex: found[ex] for ex in self.paper.exercises}

    def stop(self) -> None:
        """End the cell that is running, however long it would take, and everything after it."""
        self.stopped = True
        session = self.grading.session
        if isinstance(session, ForkSession):
            session.process.kill()


def grade_paper(paper: Paper) -> dict[str, Verdict]:
    """The verdicts of one notebook, by exercise."""
    return ForkGrading(paper).run()


def grade_forked(notebook: Path) -> dict[str, Verdict]:
    """The verdicts of a learner's notebook, `weeks/week05_cnn/01_convolution.ipynb`, by exercise."""
    work = here(Path(notebook).resolve().parents[2])
    lesson = work.lesson_at(Path(notebook))
    if lesson is None:
        raise FileNotFoundError(f"{notebook} is not a notebook of the course in {work.course.root}.")
    return grade_paper(paper(work, lesson))
