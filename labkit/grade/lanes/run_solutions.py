"""`make solutions`: run every solution notebook under strict nbval, stored outputs compared.

python -m labkit solutions [--week 3] [--root FOLDER]
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.book.work import here
from labkit.grade.lanes import nbval_run, report
from labkit.grade.lanes.steps import timeout
from labkit.text import plural

CELL_SECONDS = 600  # a demonstration may train for minutes
SHOWN_FIRST, SHOWN_LAST = 15, 10  # lines of a failure: where it was, and what it came to


@dataclass
class Outcome:
    """How one solution notebook fared."""

    path: Path
    cells: int = 0
    compared: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)  # (cell id, what nbval says)

    def hear(self, message: dict[str, Any]) -> None:
        self.cells += 1
        self.compared += message["compared"]
        if message["outcome"] == "failed":
            self.failures.append((message["cell"], message["text"]))

    @property
    def line(self) -> str:
        if self.failures:
            more = f" and {len(self.failures) - 1} more" if len(self.failures) > 1 else ""
            return f"cell {self.failures[0][0]}{more}"
        return f"{self.cells} cells run, {self.compared} compared"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("labkit solutions", description="Run the solutions, outputs compared.")
    parser.add_argument("--week", type=int, help="only this week")
    parser.add_argument("--root", type=Path, help="the course folder, if it is not this one")
    args = parser.parse_args(argv)
    work = here(args.root)
    root = work.course.root
    outcomes = run([root / lesson.solution for lesson in work.course.of_week(args.week)], work.environment())
    print(table(outcomes, root))
    return int(any(outcome.failures for outcome in outcomes))


def run(notebooks: list[Path], environment: dict[str, str]) -> list[Outcome]:
    """Every notebook under `--nbval`, in its own folder, in parallel by file."""
    outcomes = {str(path): Outcome(path) for path in notebooks}
    there = [path for path in notebooks if path.exists()]
    done = 0

    def hear(message: dict[str, Any]) -> None:
        nonlocal done
        outcomes[message["file"]].hear(message)
        done += 1
        if sys.stderr.isatty():
            print(f"\r\033[K{done} cells  {Path(message['file']).name}", end="", file=sys.stderr, flush=True)

    seconds = timeout(CELL_SECONDS)
    options = ["-p", "labkit.grade.lanes.nbval_strict", "--nbval", f"--nbval-cell-timeout={seconds:g}"]
    options.append(f"--nbval-sanitize-with={Path(__file__).with_name('sanitize.cfg')}")
    problem = nbval_run.run(there, options, "solutions", hear, environment)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    for outcome in outcomes.values():
        if not outcome.path.exists():
            outcome.failures.append(("-", "There is no such notebook. Run `make build`."))
        elif not outcome.cells:
            outcome.failures.append(("-", problem or "Nothing was run: the notebook has no code cells."))
    return list(outcomes.values())


def table(outcomes: list[Outcome], root: Path) -> str:
    color = report.use_color()
    names = {outcome.path: outcome.path.relative_to(root).as_posix() for outcome in outcomes}
    width = max(map(len, names.values()), default=0)
    lines = []
    for outcome in outcomes:
        status = "not yet" if outcome.failures else "pass"
        word = "FAIL" if outcome.failures else "pass"
        lines.append(report.paint(f"{word}  {names[outcome.path]:{width}}  {outcome.line}", status, color))
    for outcome in outcomes:
        for cell, text in outcome.failures:
            lines += ["", f"{names[outcome.path]}, cell {cell}:", *_readable(text)]
    failed = sum(bool(outcome.failures) for outcome in outcomes)
    count = plural(len(outcomes), "notebook")
    return "\n".join([*lines, "", f"{count}: {len(outcomes) - failed} passed, {failed} failed."])


def _readable(text: str) -> list[str]:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).strip().splitlines()
    dropped = len(plain) - SHOWN_FIRST - SHOWN_LAST
    if dropped > 1:
        plain[SHOWN_FIRST:-SHOWN_LAST] = [f"... {dropped} lines left out"]
    return [f"  {line}" for line in plain]
