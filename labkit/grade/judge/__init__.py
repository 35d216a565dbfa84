"""`judge(exercise, answer)`: the verdict on any answer to any kind of exercise. Shows and stores nothing."""

from typing import Any

from labkit.exercises.declare import Exercise
from labkit.grade.judge import kinds
from labkit.verdict import Verdict


def judge(exercise: Exercise, answer: Any, **extra: Any) -> Verdict:
    """The verdict on an answer. `extra` is what some kinds ask for beside it (`fault=`, `sure=`)."""
    verdict: Verdict = kinds.of(exercise).judge(exercise, answer, **extra)
    return verdict
