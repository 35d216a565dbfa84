"""The course and where a learner stands in it, as the front end draws it."""

from __future__ import annotations

from typing import Any

from labkit.book.course import lesson_title, promised_minutes, week_title
from labkit.book.work import Work
from labkit.grade.progress.history import History


def summary(work: Work, state: History, prefix: str = "") -> dict[str, Any]:
    """Weeks, lessons, exercises and where the learner stands, as the front end draws it.

    `prefix` leads from the folder that JupyterLab serves to the course.
    """
    weeks: dict[str, dict[str, Any]] = {}
    for lesson in work.course.lessons:
        about = {"week": lesson.week, "title": week_title(lesson.folder), "lessons": []}
        week = weeks.setdefault(lesson.folder, about)
        path = f"{prefix}{lesson.notebook.as_posix()}"
        rows = [_exercise(state, ex) for ex in lesson.exercises if ex in state.exercises]
        minutes = promised_minutes(lesson) or _rounded(sum(row["minutes"] for row in rows))
        title = lesson_title(lesson)
        week["lessons"].append({"path": path, "title": title, "minutes": minutes, "exercises": rows})
    return {
        "weeks": list(weeks.values()),
        "passed": len(state.passed),
        "total": len(state.standing),
        "next": state.current,
    }


def _rounded(minutes: int) -> int:
    """To five minutes, as lessons promise them."""
    return max(5, 5 * round(minutes / 5))


def _exercise(state: History, ex: str) -> dict[str, Any]:
    exercise, one = state.exercises[ex], state.standing[ex]
    return {
        "ex": ex,
        "title": exercise.title,
        "minutes": exercise.minutes,
        "state": one.state,
        "attempts": one.attempts,
        "hints": list(exercise.hints[: one.hints]),
        "hintsLeft": len(exercise.hints) - one.hints,
    }
