"""The lessons as the panel sees them, and which lesson a notebook is a copy of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from labkit import exercises
from labkit.book import course, events
from labkit.book.answers import Source, of_lesson
from labkit.book.notebook import Notebook, labkit_of
from labkit.book.percent import Lesson
from labkit.grade.progress.history import History, history


@dataclass(frozen=True)
class Course:
    """All lessons in order. `owner` knows the lesson of every cell id, `places` that of every exercise."""

    lessons: tuple[Lesson, ...]
    owner: dict[str, Lesson]
    places: dict[str, Source]

    def lesson_of(self, nb: Notebook) -> Lesson | None:
        """The lesson that most cells of a notebook come from, whatever the file is called now."""
        ids = [labkit_of(cell).get("id", cell.get("id")) for cell in nb["cells"]]
        found = Counter(self.owner[id].path for id in ids if id in self.owner)
        if not found:
            return None
        best = found.most_common(1)[0][0]
        return next(lesson for lesson in self.lessons if lesson.path == best)

    def history(self) -> History:
        return history(events.read(), exercises.all_exercises(), self.places)


def read(root: Path) -> Course:
    """The course on disk. Lessons are divided into cells again only when one of them changed."""
    files = course.lesson_paths(root)
    return _read(root, tuple((file, file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=1)
def _read(root: Path, stamps: tuple[tuple[Path, int], ...]) -> Course:
    lessons = tuple(course.read_lesson(root, file) for file, _ in stamps)
    owner = {cell.id: lesson for lesson in lessons for cell in lesson.cells}
    places = {source.id: source for lesson in lessons for source in of_lesson(lesson)}
    return Course(lessons, owner, places)


def summary(found: Course, state: History, prefix: str = "") -> dict[str, Any]:
    """Weeks, lessons, exercises and where the learner stands, as the front end draws it.

    `prefix` leads from the folder that JupyterLab serves to the course.
    """
    weeks: dict[str, dict[str, Any]] = {}
    for lesson in found.lessons:
        keys = [cell.ex for cell in lesson.cells if cell.role == "check" and cell.ex in state.exercises]
        folder = lesson.path.parent.name
        about = {"week": int(folder[4:6]), "title": course.week_title(folder), "lessons": []}
        week = weeks.setdefault(folder, about)
        path = f"{prefix}weeks/{folder}/{lesson.path.stem}.ipynb"
        rows = [_exercise(state, key) for key in keys if key]
        minutes = course.promised_minutes(lesson) or _rounded(sum(row["minutes"] for row in rows))
        title = course.lesson_title(lesson)
        week["lessons"].append({"path": path, "title": title, "minutes": minutes, "exercises": rows})
    return {
        "weeks": list(weeks.values()),
        "passed": len(state.passed),
        "total": len(state.work),
        "next": state.current,
    }


def _rounded(minutes: int) -> int:
    """To five minutes, as lessons promise them."""
    return max(5, 5 * round(minutes / 5))


def _exercise(state: History, key: str) -> dict[str, Any]:
    exercise, work = state.exercises[key], state.work[key]
    return {
        "ex": key,
        "title": exercise.title,
        "minutes": exercise.minutes,
        "state": work.kind,
        "attempts": work.attempts,
        "hints": list(exercise.hints[: work.hints]),
        "hintsLeft": len(exercise.hints) - work.hints,
    }
