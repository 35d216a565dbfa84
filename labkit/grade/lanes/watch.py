"""`make watch`: grade a notebook each time it is saved, in a warm process, within a blink.

python -m labkit watch [--week 3] [--root FOLDER]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from labkit import paths
from labkit.book import course, events
from labkit.grade.lanes import fork, report
from labkit.grade.lanes.papers import Paper, paper
from labkit.verdict import Verdict

POLL_SECONDS = 0.05
SAVING_SECONDS = 0.2  # a file that cannot be read may be half written


def main(argv: list[str]) -> int:
    args = _parse(argv)
    root = (args.root or paths.root()).resolve()
    os.environ["LABKIT_ROOT"] = str(root)
    watcher = Watcher(root, args.week)
    print("Importing torch and the checks ...", flush=True)
    fork.warm_up()
    print(f"Watching {root / 'weeks'}. Save a notebook there; Ctrl-C ends this.", flush=True)
    try:
        while True:
            for path in watcher.saved():
                _show(watcher.grade(path))
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        print()
        return 0


@dataclass
class Watcher:
    """Knows which notebooks there are, when they were saved, and what was in them then."""

    root: Path
    week: int | None = None
    seen: dict[Path, tuple[int, int]] = field(init=False)
    answers: dict[Path, dict[str, str]] = field(init=False)  # a digest of each answer, by exercise

    def __post_init__(self) -> None:
        self.seen = self._stamps()
        self.answers = {path: self._paper(path).answers for path in self.seen}

    def saved(self) -> list[Path]:
        """The notebooks saved since the last call."""
        now = self._stamps()
        changed = [path for path, stamp in now.items() if self.seen.get(path) != stamp]
        self.seen = now
        return changed

    def grade(self, path: Path) -> str:
        """Grade one notebook; the table, and the whole verdict of each answer that changed."""
        work = self._paper(path)
        if work.note:
            time.sleep(SAVING_SECONDS)
            work = self._paper(path)
        verdicts = fork.grade_paper(work)
        before, self.answers[path] = self.answers.get(path, {}), work.answers
        changed = [v for ex, v in verdicts.items() if self.answers[path].get(ex) != before.get(ex)]
        _remember(changed)
        result = report.Result(path.relative_to(self.root), verdicts, work.note)
        width = shutil.get_terminal_size((110, 24)).columns
        said = [v.text() for v in changed if not v.passed] or [report.next_step([result])]
        return "\n\n".join([report.table([result], report.use_color(), width), *said])

    def _paper(self, path: Path) -> Paper:
        source = self.root / "solutions" / path.parent.name / f"{path.stem}.py"
        return paper(course.read_lesson(self.root, source), path)

    def _stamps(self) -> dict[Path, tuple[int, int]]:
        """When each notebook of the course was written, and how long it is."""
        stamps = {}
        for source in course.lesson_paths(self.root, self.week):
            path = self.root / "weeks" / source.parent.name / f"{source.stem}.ipynb"
            try:
                stat = path.stat()
            except FileNotFoundError:  # deleted, or being replaced
                continue
            stamps[path] = (stat.st_mtime_ns, stat.st_size)
        return stamps


def _remember(verdicts: list[Verdict]) -> None:
    for verdict in verdicts:
        if verdict.status != "not started":
            events.append("attempt", lane="watch", **verdict.record())


def _show(text: str) -> None:
    """On a terminal, in the place of the last one; elsewhere below it."""
    start = "\033[2J\033[H" if sys.stdout.isatty() else "\n"
    print(f"{start}{time.strftime('%H:%M:%S')}\n\n{text}", flush=True)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("labkit watch", description="Grade a notebook each time it is saved.")
    parser.add_argument("--week", type=int, help="only this week")
    parser.add_argument("--root", type=Path, help="the course folder, if it is not this one")
    return parser.parse_args(argv)
