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
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from labkit.book.work import here
from labkit.grade import processes
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
    """A forked process that runs cells; `child.serve` is its side of the pipe.

    It leads a session of its own, and what its cells start ends with it. A process that an answer forked may
    hold the pipe open, so the end of the process is waited for, never the end of the pipe.
    """

    def __init__(self, folder: str, environment: dict[str, str] | None = None) -> None:
        self.closed = False
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

    def end(self) -> None:
        """Kill the process and all it started; from any thread."""
        if self.closed or self.process.pid is None:
            return  # by now its number may be that of another process
        processes.end_family(self.process.pid)
        self.process.kill()

    def close(self) -> None:
        self.end()
        self.closed = True
        self.process.join()
        self.pipe.close()

    def _answer(self, timeout: float) -> Ran:
        ready = wait([self.pipe, self.process.sentinel], timeout)
        if not ready:
            return Ran(ended="slow")
        if self.pipe not in ready:
            return Ran(ended="died")
        try:
            return Ran(**json.loads(self.pipe.recv_bytes()))
        except (EOFError, OSError, ValueError, TypeError):  # an answer can break what writes to the pipe
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
        self.grading = Grading(self._open)
        self.session: ForkSession | None = None
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
        if self.session is not None:
            self.session.end()

    def _open(self) -> ForkSession:
        folder = str(self.paper.path.parent.resolve())
        self.session = ForkSession(folder, self.paper.work.environment())
        if self.stopped:  # while it was being opened
            self.session.close()
            raise Stopped
        return self.session


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
