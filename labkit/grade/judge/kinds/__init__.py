"""The kinds of exercise, one module each, all with the same functions. `of(exercise)` finds the module.

A kind is a class in `labkit/exercises/declare.py` (what an author declares), a module here (what is done
with it), and a line in `KINDS`. Five functions are what a kind is about:

    judge(exercise, answer, **extra)  the verdict. `extra` is what its check cell passes beside the answer
    wrong_answer(exercise, mistake)   (answer, extra): what the audit hands in for a declared mistake
    must_fail(exercise, solution)     sentences: what this kind must refuse and does not
    mutants(exercise, found)          those of the mutants of its solution that a check must notice
    texts(exercise)                   further texts that a verdict shows, by name; lint measures them

The others are needed by few; `usual.py` has what the rest do:

    problems(exercise)                sentences: what is wrong with the way it is declared
    without_rules(exercise)           the exercise as mistakes are judged: a mistake may call what it imitates
    delegation(exercise)              (word, problem or None): is an answer that calls the reference refused?
    survives(exercise, answer, **x)   whether the check would pass a mutant: a no without a diagnosis
    warm(exercise)                    done once before mutants are tried, so that none of them has to
    inputs(exercise, case)            fresh inputs of a case, as the answer gets them
    remember(work, exercise, answer, verdict, **extra)    what a learner's check stores besides the attempt

A module says for each where it comes from: it defines the function, or it imports the usual one. There is no
silent fallback; `Kind` and a test see to that. Answers from the declarations are made to look like a
learner's by `judge.disguise`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from labkit.book.work import Work
from labkit.exercises.declare import (
    Case,
    Checkpoint,
    Compiled,
    Exercise,
    Fix,
    Implement,
    Kernel,
    Measure,
    Predict,
    Ranks,
    WriteTest,
)
from labkit.grade.judge.kinds import (
    checkpoint,
    compiled,
    fix,
    implement,
    kernel,
    measure,
    predict,
    ranks,
    write_test,
)
from labkit.verdict import Verdict


class Kind(Protocol):
    """What a module of a kind has. The exercise is of the kind's own class."""

    def judge(self, exercise: Any, answer: Any) -> Verdict: ...
    def wrong_answer(self, exercise: Any, mistake: Any) -> tuple[Any, dict[str, Any]]: ...
    def must_fail(self, exercise: Any, solution: Any) -> Iterable[str]: ...
    def mutants(self, exercise: Any, found: Sequence[Any]) -> list[Any]: ...
    def texts(self, exercise: Any) -> dict[str, str]: ...
    def problems(self, exercise: Any) -> Iterable[str]: ...
    def without_rules(self, exercise: Any) -> Any: ...
    def delegation(self, exercise: Any) -> tuple[str, str | None]: ...
    def survives(self, exercise: Any, answer: Any) -> bool: ...
    def warm(self, exercise: Any) -> None: ...
    def inputs(self, exercise: Any, case: Case) -> dict[str, Any]: ...
    def remember(self, work: Work, exercise: Any, answer: Any, verdict: Verdict) -> None: ...


KINDS: dict[type[Exercise], Kind] = {
    Implement: implement,
    Fix: fix,
    Predict: predict,
    Measure: measure,
    WriteTest: write_test,
    Kernel: kernel,
    Checkpoint: checkpoint,
    Ranks: ranks,
    Compiled: compiled,
}


def of(exercise: Exercise) -> Any:
    """The module of an exercise's kind."""
    return KINDS[type(exercise)]


def cases(exercise: Exercise) -> Sequence[Case]:
    """The cases of an exercise, if it is of a kind that has them."""
    return getattr(exercise, "cases", ())
