"""`make watch`: grade a notebook each time it is saved, in a warm process, within a blink.

python -m labkit watch [--week 3] [--root FOLDER]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from labkit.book.work import Work, here
from labkit.grade.lanes import fork, report
from labkit.grade.lanes.papers import Paper, paper
from labkit.verdict import Verdict

POLL_SECONDS = 0.05
SAVING_SECONDS = 0.2  # a file that cannot be read may be half written


def main(argv: list[str]) -> int:
    args = _parse(argv)
    work = here(args.root)
    watcher = Watcher(work, args.week)
    print("Importing torch and the checks ...", flush=True)
    fork.warm_up()
    print(f"Watching {work.weeks}. Save a notebook there; Ctrl-C ends this.", flush=True)
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

    work: Work
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
        found = self._paper(path)
        if found.note:
            time.sleep(SAVING_SECONDS)
            found = self._paper(path)
        verdicts = fork.grade_paper(found)
        before, self.answers[path] = self.answers.get(path, {}), found.answers
        changed = [v for ex, v in verdicts.items() if self.answers[path].get(ex) != before.get(ex)]
        self._remember(changed)
        result = report.Result(path.relative_to(self.work.folder), verdicts, found.note)
        width = shutil.get_terminal_size((110, 24)).columns
        said = [v.text() for v in changed if not v.passed] or [report.next_step([result])]
        return "\n\n".join([report.table([result], report.use_color(), width), *said])

    def _paper(self, path: Path) -> Paper:
        lesson = next(x for x in self.work.course.lessons if self.work.notebook(x) == path)
        return paper(self.work, lesson)

    def _stamps(self) -> dict[Path, tuple[int, int]]:
        """When each notebook of the course was written, and how long it is."""
        stamps = {}
        for lesson in self.work.course.of_week(self.week):
            path = self.work.notebook(lesson)
            try:
                stat = path.stat()
            except FileNotFoundError:  # deleted, or being replaced
                continue
            stamps[path] = (stat.st_mtime_ns, stat.st_size)
        return stamps

    def _remember(self, verdicts: list[Verdict]) -> None:
        for verdict in verdicts:
            if verdict.status != "not started":
                self.work.remember("attempt", lane="watch", **verdict.record())


def _show(text: str) -> None:
    """On a terminal, in the place of the last one; elsewhere below it."""
    start = "\033[2J\033[H" if sys.stdout.isatty() else "\n"
    print(f"{start}{time.strftime('%H:%M:%S')}\n\n{text}", flush=True)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("labkit watch", description="Grade a notebook each time it is saved.")
    parser.add_argument("--week", type=int, help="only this week")
    parser.add_argument("--root", type=Path, help="the course folder, if it is not this one")
    return parser.parse_args(argv)
