"""Write a function or a class that agrees with torch: the whole ladder of `judge/ladder.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from labkit.exercises.declare import Implement, Mistake
from labkit.grade.judge import ladder
from labkit.grade.judge.disguise import disguise
from labkit.grade.judge.kinds.usual import (  # noqa: F401
    inputs,
    must_fail,
    mutants,
    problems,
    remember,
    texts,
)
from labkit.grade.judge.ladder import judge_implement as judge
from labkit.grade.judge.rules import broken_by_use, watched
from labkit.grade.judge.run import expected, to_engine
from labkit.verdict import Verdict, is_blank

# for the audit


def wrong_answer(exercise: Implement, mistake: Mistake) -> tuple[Any, dict[str, Any]]:
    return disguise(mistake.wrong), {}


def without_rules(exercise: Implement) -> Implement:
    return replace(exercise, rules=replace(exercise.rules, forbids=(), allows=None, loops=True))


def survives(exercise: Implement, answer: Any) -> bool:
    """One case after another, and no diagnosis."""
    return not is_blank(answer) and ladder.passes(exercise, answer)


def warm(exercise: Implement) -> None:
    """Ask the oracle once: what torch imports on the way, no mutant has to import again."""
    for case in exercise.cases:
        expected(exercise, case)


def delegation(
    exercise: Implement, judged: Callable[[Implement, Any], Verdict] = judge
) -> tuple[str, str | None]:
    """(word for the table, problem or None): an answer that hands the work to torch must be refused."""
    if "delegation" in exercise.excused:
        return "allowed", None
    with watched() as used:
        for case in exercise.cases:
            expected(exercise, case)
    if exercise.delegate is None and not used:
        return "-", None  # the oracle is plain Python: there is nothing to hand the work to
    if exercise.delegate is None and exercise.use is not None:
        refused = broken_by_use(used, exercise.rules) is not None
        verdict = None
    else:
        verdict = judged(exercise, disguise(exercise.delegate, readable=True) or _wrapped(exercise))
        refused = verdict.status == "rule"
    if refused:
        return "refused", None
    names = ", ".join(sorted(used))
    said = f" ({verdict.said})" if verdict else ""
    words = f"an answer that calls torch's own version is not refused{said}; forbid some of: {names}"
    return "PASSES", words + ", or say why it may: excused={'delegation': ...}"


def _wrapped(exercise: Implement) -> Callable[..., Any]:
    """An answer that turns its inputs into torch tensors, if need be, and asks the oracle."""
    if exercise.engine in ("torch", "python"):
        return disguise(exercise.oracle)

    def delegated(*given: Any) -> Any:
        plain = {str(place): _to_numpy(value) for place, value in enumerate(given)}
        return exercise.oracle(*to_engine(plain, "torch").values())

    return disguise(delegated)


def _to_numpy(value: Any) -> Any:
    return value.detach().numpy() if hasattr(value, "detach") else value
