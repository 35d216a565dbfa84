"""`judge(exercise, answer)`: the verdict on any answer to any kind of exercise. Shows and stores nothing."""

from collections.abc import Callable
from typing import Any

from labkit.exercises.declare import Exercise, Fix, Implement, Measure, Predict, WriteTest
from labkit.grade.judge.kinds import judge_fix, judge_measure, judge_predict, judge_test
from labkit.grade.judge.ladder import judge_implement
from labkit.verdict import Verdict

JUDGES: dict[type[Exercise], Callable[..., Verdict]] = {
    Implement: judge_implement,
    Fix: judge_fix,
    Predict: judge_predict,
    Measure: judge_measure,
    WriteTest: judge_test,
}


def judge(exercise: Exercise, answer: Any, **extra: Any) -> Verdict:
    """The verdict on an answer. `extra` is what some kinds ask for beside it (`fault=`, `sure=`)."""
    return JUDGES[type(exercise)](exercise, answer, **extra)
