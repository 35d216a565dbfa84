"""Write a test. It is judged by what it accepts and by the planted bugs it catches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from labkit.exercises.declare import WriteTest
from labkit.grade.judge import trials
from labkit.grade.judge.kinds.usual import (  # noqa: F401
    delegation,
    inputs,
    problems,
    remember,
    survives,
    texts,
    warm,
    without_rules,
    wrong_answer,
)
from labkit.grade.judge.run import is_stub, seed_everything, where_it_failed
from labkit.grade.judge.surroundings import as_usual
from labkit.verdict import Verdict, hint_line, is_blank, not_started, wrapped

# Only these changes are mutants of a test: other inputs make another good test.
CHANGES = ("dropped", "condition", "comparison")


def judge(exercise: WriteTest, answer: Any) -> Verdict:
    if is_blank(answer):
        return not_started(exercise, "no test yet.")
    results = _test_results(exercise, answer)
    if any(is_stub(error) for error in results):
        return not_started(exercise, "the test still reaches `raise NotImplementedError`.")
    good, found = results[: len(exercise.good)], results[len(exercise.good) :]
    missed = [name for name, error in zip(exercise.bugs, found, strict=True) if error is None]
    rejected = next((error for error in good if error is not None), None)
    if rejected is None and not missed:
        headline = f"accepts the right code and catches all {len(found)} planted bugs."
        return Verdict(exercise.id, "pass", headline, (exercise.passed,))
    shape = [error is None for error in results]
    seen = next((m for m in exercise.mistakes if trials.once(exercise, m.wrong, _accepted) == shape), None)
    lines = [f"Likely cause: {seen.says}"] if seen else []
    if rejected is not None:
        kind = type(rejected).__name__
        line = where_it_failed(rejected)
        lines += [*wrapped(f"It raised `{kind}` {rejected}".rstrip()), *([f"At {line}"] if line else [])]
        headline, status = "the test rejects a right implementation.", "error"
    else:
        lines.append(f"First one missed: {exercise.bugs[missed[0]][0]}")
        headline, status = f"{len(found) - len(missed)} of {len(found)} planted bugs caught.", "values"
    return Verdict(exercise.id, status, headline, (*lines, hint_line(exercise)), seen.name if seen else None)


def _accepted(exercise: WriteTest, test: Any) -> list[bool]:
    """Which implementations a test is silent about."""
    return [error is None for error in _test_results(exercise, test)]


def _test_results(exercise: WriteTest, test: Any) -> list[BaseException | None]:
    """What the test raised for each right implementation, then for each planted bug."""
    results: list[BaseException | None] = []
    for implementation in [*exercise.good, *(code for _, code in exercise.bugs.values())]:
        seed_everything()
        try:
            with as_usual():
                test(implementation)
            results.append(None)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest's own outcomes are not Exceptions
            results.append(error)
    return results


# for the audit


def must_fail(exercise: WriteTest, solution: Any) -> Iterator[str]:
    if judge(exercise, _asserts_nothing).passed:
        yield "a test that asserts nothing passes"
    if judge(exercise, _always_fails).passed:
        yield "a test that always fails passes"


def _asserts_nothing(implementation: Any) -> None:
    pass


def _always_fails(implementation: Any) -> None:
    raise AssertionError


def mutants(exercise: WriteTest, found: Sequence[Any]) -> list[Any]:
    return [mutant for mutant in found if mutant.change in CHANGES]
