"""The warm lane: grade a notebook in a fork of a process that has torch imported already.

The same steps and the same checks as `make check`, without a Jupyter kernel: a fraction of a second.
Where there is no fork (Windows), a fresh process is started instead: the same verdicts, later.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from labkit.book import course
from labkit.grade.papers import Paper, paper, steps
from labkit.grade.steps import Grading, Ran
from labkit.grade.verdict import Verdict

START_SECONDS = 60


@cache
def _context() -> Any:
    """multiprocessing with a fork server that has imported the checks and torch, or without one."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["labkit.grade.preload", "labkit.grade.fork"])
    return context


class ForkSession:
    """A forked process that runs cells; `warm.serve` is its side of the pipe."""

    def __init__(self, folder: str) -> None:
        self.pipe, theirs = _context().Pipe()
        self.process = _context().Process(target=_serve, args=(theirs, folder, dict(os.environ)))
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
    from labkit.grade.warm import serve

    serve(pipe, folder, environment)


def warm_up() -> None:
    """Start the fork server and wait until it has imported everything."""
    ForkSession(str(Path.cwd())).close()


def grade_paper(work: Paper) -> dict[str, Verdict]:
    """The verdicts of one notebook, by exercise."""
    if work.copy is None:
        return work.settled
    grading = Grading(lambda: ForkSession(str(work.path.parent.resolve())))
    try:
        for step in steps(work.copy):
            grading.do(step)
    finally:
        grading.close()
    return {ex: grading.verdicts[ex] for ex in work.exercises}


def grade_forked(notebook: Path) -> dict[str, Verdict]:
    """The verdicts of a learner's notebook, `weeks/week05_cnn/01_convolution.ipynb`, by exercise."""
    notebook = Path(notebook).resolve()
    root = notebook.parents[2]
    source = root / "solutions" / notebook.parent.name / f"{notebook.stem}.py"
    if not source.exists():
        raise FileNotFoundError(f"{notebook} is not a notebook of the course: there is no {source}.")
    return grade_paper(paper(course.read_lesson(root, source), notebook))
