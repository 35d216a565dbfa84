"""Run an experiment and answer from it: a value, and what the declaration accepts."""

from __future__ import annotations

from typing import Any

from labkit.exercises.declare import Measure
from labkit.grade.judge.compare import leaf
from labkit.grade.judge.kinds.agree import agrees, plain
from labkit.grade.judge.kinds.usual import (  # noqa: F401
    delegation,
    inputs,
    must_fail,
    mutants,
    problems,
    remember,
    survives,
    texts,
    warm,
    without_rules,
    wrong_answer,
)
from labkit.verdict import Verdict, hint_line, is_blank, not_started


def judge(exercise: Measure, answer: Any) -> Verdict:
    if is_blank(answer):
        return not_started(exercise, "no measurement yet.")
    wanted = exercise.answer_type if isinstance(exercise.answer_type, tuple) else (exercise.answer_type,)
    value = plain(answer)
    if isinstance(value, int) and not isinstance(value, bool) and float in wanted:
        value = value if int in wanted else float(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        names = " or ".join(kind.__name__ for kind in wanted)
        return Verdict(
            exercise.id,
            "type",
            f"the answer is {leaf(answer).dtype}; {names} is wanted.",
            (hint_line(exercise),),
        )
    sentence = exercise.accept(value)
    if sentence is None:
        return Verdict(exercise.id, "pass", "the measurement holds.", (exercise.passed,))
    seen = next((m for m in exercise.mistakes if (m.when(value) if m.when else agrees(value, m.wrong))), None)
    lines = (f"Likely cause: {seen.says}",) if seen else ()
    return Verdict(
        exercise.id, "values", sentence, (*lines, hint_line(exercise)), seen.name if seen else None
    )
