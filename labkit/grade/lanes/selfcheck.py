"""`make check`: grade the learner's notebooks from scratch, each in a fresh kernel, under nbval.

    python -m labkit check [--week 3] [--ex w03.adamw] [--strict] [--root FOLDER]

The learner's files are only read: what runs is a graded copy of each, in a temporary folder (`papers.py`).
What comes after the last answer of a notebook is not run; without any answer it needs no kernel.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.book import notebook
from labkit.book.changes import finish_unfinished
from labkit.book.work import Work, here
from labkit.grade.lanes import nbval_run, report
from labkit.grade.lanes.papers import Paper, papers
from labkit.grade.lanes.steps import timeout
from labkit.verdict import Verdict


def main(argv: list[str]) -> int:
    args = _parse(argv)
    work = here(args.root)
    finish_unfinished(work.folder, lambda words: print(words, file=sys.stderr))
    if args.ex:
        from labkit import exercises

        exercises.get(args.ex)  # refuses an unknown one and suggests the nearest
    found = papers(work, args.week, args.ex)
    graded = grade_in_kernels(found, _Progress(found))
    results = [
        report.Result(paper.path.relative_to(work.folder), verdicts, paper.note)
        for paper, verdicts in zip(found, graded, strict=True)
    ]
    _remember(work, results)
    try:
        _show(work, results)
    except BrokenPipeError:  # `make check | head` has seen enough; what came of it is still the exit code
        sys.stdout = open(os.devnull, "w")
    try:
        report.write(results, work.reports, "check")
    except OSError as error:
        print(f"The report could not be written ({error.strerror}): {work.reports}", file=sys.stderr)
    return report.exit_code(results, args.strict)


def _show(work: Work, results: list[report.Result]) -> None:
    width = shutil.get_terminal_size((110, 24)).columns
    print(report.table(results, report.use_color(), width))
    for stray in work.strays():
        print(f"Not graded: {stray.as_posix()} is not a notebook of the course. Is it a copy?")
    print(f"\n{report.next_step(results)}", flush=True)


def grade_in_kernels(
    papers: list[Paper], tell: Callable[[Verdict], None] | None = None
) -> list[dict[str, Verdict]]:
    """The verdicts of each notebook, in order. `tell` hears of each one as it comes."""
    found = [dict(paper.settled) for paper in papers]

    def hear(record: dict[str, Any]) -> None:
        verdict = Verdict.from_record(record)
        number = int(record["paper"])
        if verdict.exercise in papers[number].exercises:
            found[number][verdict.exercise] = verdict
            if tell:
                tell(verdict)

    with tempfile.TemporaryDirectory(prefix="labkit-check-") as folder:
        copies = []
        for number, paper in enumerate(papers):
            if paper.copy is not None:
                copies.append(Path(folder) / f"{number}.ipynb")
                notebook.write(copies[-1], paper.copy)
        options = ["-p", "labkit.grade.lanes.nbval_graded", "--nbval-lax"]
        options.append(f"--nbval-cell-timeout={timeout():g}")
        environment = papers[0].work.environment() if papers else {}
        problem = nbval_run.run(copies, options, "check", hear, environment)
    return [_complete(paper, verdicts, problem) for paper, verdicts in zip(papers, found, strict=True)]


def _complete(paper: Paper, verdicts: dict[str, Verdict], problem: str) -> dict[str, Verdict]:
    """In the order of the page. An exercise that nothing was said about did not pass."""
    said = f"was not graded: {problem or 'its check was not reached'}. `make doctor` looks for the cause."
    return {ex: verdicts.get(ex, Verdict(ex, "error", said)) for ex in paper.exercises}


def _remember(work: Work, results: list[report.Result]) -> None:
    for result in results:
        for verdict in result.verdicts.values():
            if verdict.status != "not started":
                work.remember("attempt", lane="check", **verdict.record())


class _Progress:
    """A line that counts, while somebody watches it."""

    def __init__(self, papers: list[Paper]) -> None:
        running = [paper for paper in papers if paper.copy is not None]
        self.done, self.total = 0, sum(len(paper.exercises) - len(paper.settled) for paper in running)
        self.shown = sys.stderr is not None and sys.stderr.isatty()  # it may be closed
        if running:
            self._show(f"grading {self.total} exercises in {len(running)} notebooks")

    def __call__(self, verdict: Verdict) -> None:
        self.done += 1
        self._show(f"{self.done} of {self.total}  {verdict.exercise}" if self.done < self.total else "")

    def _show(self, text: str) -> None:
        if self.shown:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("labkit check", description="Grade your notebooks from a fresh start.")
    parser.add_argument("--week", type=int, help="only this week")
    parser.add_argument("--ex", metavar="w03.adamw", help="only this exercise")
    parser.add_argument("--strict", action="store_true", help="not started is a failure too")
    parser.add_argument("--root", type=Path, help="the course folder, if it is not this one")
    return parser.parse_args(argv)
