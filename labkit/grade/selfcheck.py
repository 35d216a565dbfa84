"""`make check`: grade the learner's notebooks from scratch, each in a fresh kernel, under nbval.

    python -m labkit check [--week 3] [--ex w03.adam] [--strict] [--root FOLDER]

Graded copies are written to a temporary folder and shared out to as many pytest processes as there are
cores; their verdicts come back as lines. A notebook without any answer needs no kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from labkit import paths
from labkit.book import notebook
from labkit.grade import events, report
from labkit.grade.papers import Paper, papers, strays
from labkit.grade.steps import timeout
from labkit.grade.verdict import Verdict

PREFIX = "LABKIT "  # in front of a verdict, among what pytest prints
ENVIRONMENT = {"LABKIT_LANE": "check", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
Tell = Callable[[Verdict], None]


def main(argv: list[str]) -> int:
    args = _parse(argv)
    root = (args.root or paths.root()).resolve()
    os.environ["LABKIT_ROOT"] = str(root)
    if args.ex:
        from labkit import exercises

        exercises.get(args.ex)
    works = papers(root, args.week, args.ex)
    graded = grade_in_kernels(works, _Progress(works))
    results = [
        report.Result(work.path.relative_to(root), verdicts, work.note)
        for work, verdicts in zip(works, graded, strict=True)
    ]
    _remember(results)
    report.write(results, root / "reports", "check")
    width = shutil.get_terminal_size((110, 24)).columns
    print(report.table(results, report.use_color(), width))
    for stray in strays(root):
        print(f"Not graded: {stray.as_posix()} is not a notebook of the course. Is it a copy?")
    print(f"\n{report.next_step(results)}")
    return report.exit_code(results, args.strict)


def grade_in_kernels(works: list[Paper], tell: Tell | None = None) -> list[dict[str, Verdict]]:
    """The verdicts of each notebook, in order. `tell` hears of each one as it comes."""
    found = [dict(work.settled) for work in works]
    waiting = [number for number, work in enumerate(works) if work.copy is not None]
    jobs = min(len(waiting), _cores())
    with tempfile.TemporaryDirectory(prefix="labkit-check-") as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        for number in waiting:
            notebook.write(_copy_path(folder, number), works[number].copy or {})
        threads = [
            threading.Thread(target=_grade, args=(folder, waiting[job::jobs], works, found, tell))
            for job in range(jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


def _grade(
    folder: Path, numbers: list[int], works: list[Paper], found: list[dict[str, Verdict]], tell: Tell | None
) -> None:
    """Run one pytest over some of the copies and collect what it says."""
    process = subprocess.Popen(
        _command([_copy_path(folder, number) for number in numbers]),
        cwd=folder,
        env={
            **os.environ,
            "LABKIT_LANE": "check",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    rest = []
    assert process.stdout is not None
    for line in process.stdout:
        if not line.startswith(PREFIX):
            rest.append(line)
            continue
        record = json.loads(line.removeprefix(PREFIX))
        number, verdict = int(record["paper"]), Verdict.from_record(record)
        if verdict.exercise in works[number].exercises:
            found[number][verdict.exercise] = verdict
            if tell:
                tell(verdict)
    process.wait()
    for number in numbers:
        _fill(works[number], found[number], rest)


def _fill(work: Paper, verdicts: dict[str, Verdict], output: list[str]) -> None:
    """An exercise that nothing was said about did not pass. Also puts them in the order of the page."""
    last = next((line.strip() for line in reversed(output) if line.strip()), "no output")
    for ex in work.exercises:
        verdicts[ex] = verdicts.pop(ex, Verdict(ex, "error", f"was not graded; pytest ended with: {last}"))


def _command(copies: list[Path]) -> list[str]:
    return [
        *(sys.executable, "-m", "pytest", "-s", "-q", "--no-header", "--tb=short"),
        *("-p", "labkit.grade.quick", "-p", "nbval.plugin", "-p", "labkit.grade.plugin"),
        *("-p", "no:cacheprovider"),
        *("--nbval-lax", "--nbval-current-env", f"--nbval-cell-timeout={timeout():g}"),
        *map(str, copies),
    ]


def _copy_path(folder: Path, number: int) -> Path:
    return folder / f"{number}.ipynb"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _remember(results: list[report.Result]) -> None:
    for result in results:
        for verdict in result.verdicts.values():
            if verdict.status != "not started":
                events.append("attempt", lane="check", **verdict.record())


class _Progress:
    """A line that counts, while somebody watches it."""

    def __init__(self, works: list[Paper]) -> None:
        running = [work for work in works if work.copy is not None]
        self.done, self.total = 0, sum(len(work.exercises) for work in running)
        self.shown = sys.stderr.isatty()
        if running and self.shown:
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
    parser.add_argument("--ex", metavar="w03.adam", help="only this exercise")
    parser.add_argument(
        "--strict", action="store_true", help="an exercise that is not started is a failure too"
    )
    parser.add_argument("--root", type=Path, help="the course folder, if it is not this one")
    return parser.parse_args(argv)
