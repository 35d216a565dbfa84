"""One learner's work on a course: notebooks, progress, backups. Several may share one course.

A command makes it once, with `here()`, and hands it on. Only there, and for child processes (`environment`),
is it a matter of variables: `LABKIT_ROOT` is the course folder, `LABKIT_WORK` the learner's, if another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import paths
from labkit.book import events
from labkit.book.course import Course
from labkit.book.percent import Lesson


@dataclass(frozen=True)
class Work:
    """`folder` holds weeks/, progress/, backups/ and reports/ of one learner of `course`."""

    folder: Path
    course: Course

    @property
    def weeks(self) -> Path:
        return self.folder / "weeks"

    @property
    def progress(self) -> Path:
        """Not hidden: JupyterLab does not serve names that start with a dot."""
        return self.folder / "progress"

    @property
    def backups(self) -> Path:
        return self.folder / "backups"

    @property
    def reports(self) -> Path:
        return self.folder / "reports"

    def notebook(self, lesson: Lesson) -> Path:
        """The learner's file of a lesson."""
        return self.folder / lesson.notebook

    def lesson_at(self, path: Path) -> Lesson | None:
        """The lesson whose file this is; None for a copy under another name."""
        return next((x for x in self.course.lessons if self.notebook(x).resolve() == path.resolve()), None)

    def strays(self) -> Iterator[Path]:
        """Notebooks in weeks/ that belong to no lesson, such as a renamed copy, below the folder."""
        known = {lesson.notebook for lesson in self.course.lessons}
        for path in sorted(self.weeks.rglob("*.ipynb")):
            name = path.relative_to(self.folder)
            if name not in known and ".ipynb_checkpoints" not in name.parts:
                yield name

    def remember(self, kind: str, **content: Any) -> str | None:
        """Add an attempt, a prediction or a hint to what happened. Returns why it could not be written."""
        return events.append(self.progress / "events.jsonl", kind, **content)

    def events(self) -> list[dict[str, Any]]:
        """What happened, in order."""
        return events.read(self.progress / "events.jsonl")

    def environment(self) -> dict[str, str]:
        """What a child process needs to find the same work with `here()`."""
        return {"LABKIT_ROOT": str(self.course.root), "LABKIT_WORK": str(self.folder)}


def here(root: Path | None = None) -> Work:
    """The work that a command or a notebook was started for: in `root`, else as the environment says."""
    if root is not None:
        return Work(root.resolve(), Course(root.resolve()))
    course = Course(paths.root())
    return Work(Path(os.environ.get("LABKIT_WORK") or course.root).resolve(), course)
