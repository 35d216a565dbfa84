"""What most kinds do for a function of the contract. A kind that has nothing of its own to say imports it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from labkit.exercises.declare import Case, Exercise, Mistake
from labkit.grade.judge.run import to_engine
from labkit.verdict import Verdict


def wrong_answer(exercise: Exercise, mistake: Mistake) -> tuple[Any, dict[str, Any]]:
    """The mistake as it is declared."""
    return mistake.wrong, {}


def must_fail(exercise: Exercise, solution: Any) -> Iterator[str]:
    """Nothing besides the declared mistakes."""
    yield from ()


def mutants(exercise: Exercise, found: Sequence[Any]) -> list[Any]:
    """All of them."""
    return list(found)


def texts(exercise: Exercise) -> dict[str, str]:
    """No further ones."""
    return {}


def problems(exercise: Exercise) -> Iterator[str]:
    """None that every kind could not have."""
    yield from ()


def without_rules(exercise: Exercise) -> Exercise:
    """The exercise itself: it has no rules."""
    return exercise


def delegation(exercise: Exercise) -> tuple[str, str | None]:
    """There is nobody to hand the work to."""
    return "-", None


def survives(exercise: Exercise, answer: Any, **extra: Any) -> bool:
    """As the check says, with no short way."""
    from labkit.grade.judge import judge

    return judge(exercise, answer, **extra).passed


def warm(exercise: Exercise) -> None:
    """Nothing to prepare."""


def inputs(exercise: Any, case: Case) -> dict[str, Any]:
    """Fresh inputs in the engine of the exercise."""
    return to_engine(case.inputs(exercise.id, exercise.dtype), exercise.engine)


def remember(exercise: Exercise, answer: Any, verdict: Verdict, **extra: Any) -> None:
    """Nothing besides the attempt."""
