"""A declared wrong answer is run once for an exercise, however many answers are compared with it."""

from collections import Counter
from dataclasses import fields, replace

import pytest

from labkit.exercises.declare import Case, Fix, Implement, Mistake, Rules, WriteTest
from labkit.grade.judge import judge, kinds, trials

runs: Counter[str] = Counter()


def counted(name, offset):
    def wrong(x):
        runs[name] += 1
        return x + offset

    return wrong


NAMES = ("a", "b", "c", "d")
EXERCISE = Implement(
    id="w00.once",
    title="t",
    minutes=1,
    engine="python",
    cases=[Case("one", lambda draw: {"x": 1}), Case("two", lambda draw: {"x": 2})],
    oracle=lambda x: x,
    mistakes=[Mistake(name, "s.", counted(name, place + 1)) for place, name in enumerate(NAMES)],
    hints=("1", "2", "3"),
    passed="p",
)


@pytest.fixture(autouse=True)
def nothing_tried():
    runs.clear()
    trials._kept.clear()


def judge_mistakes(exercise):
    """As the audit does it."""
    kind = kinds.of(exercise)
    for mistake in exercise.mistakes:
        answer, extra = kind.wrong_answer(exercise, mistake)
        assert judge(kind.without_rules(exercise), answer, **extra).mistake == mistake.name


def test_the_trials_of_an_audit_grow_with_the_mistakes_not_with_their_square():
    judge_mistakes(EXERCISE)
    # each mistake twice on two cases: once as the answer, once to be compared with
    assert runs == dict.fromkeys(NAMES, 4)


def test_the_fix_tries_the_broken_code_once():
    fix = Fix(
        **{field.name: getattr(EXERCISE, field.name) for field in fields(EXERCISE)},
        broken=counted("broken", 9),
        fault="f",
        menu={"f": "s"},
    )
    judge_mistakes(fix)
    assert runs["broken"] == 2


def test_a_test_of_the_course_is_run_once_too():
    def asks(name, value):
        def test(implementation):
            runs[name] += 1
            assert implementation() == value

        return test

    exercise = WriteTest(
        id="w00.test",
        title="t",
        minutes=1,
        good=[lambda: 1],
        bugs={"two": ("2", lambda: 2), "three": ("3", lambda: 3)},
        mistakes=[Mistake("x", "s.", asks("x", 2)), Mistake("y", "s.", asks("y", 3))],
        hints=("1", "2", "3"),
        passed="p",
    )
    judge_mistakes(exercise)
    assert runs == {"x": 6, "y": 6}


def test_other_cases_are_tried_anew_and_other_rules_are_not():
    judge(EXERCISE, lambda x: x + 9)
    judge(replace(EXERCISE, rules=Rules(loops=False)), lambda x: x + 8)
    assert runs == dict.fromkeys(NAMES, 2)
    judge(replace(EXERCISE, cases=[*EXERCISE.cases]), lambda x: x + 9)
    assert runs == dict.fromkeys(NAMES, 4)


def test_only_the_last_exercise_is_kept():
    judge(EXERCISE, lambda x: x + 9)
    assert len(trials._kept) == len(NAMES)
    judge(replace(EXERCISE, id="w00.other"), lambda x: x + 9)
    assert len(trials._kept) == len(NAMES)
    assert runs == dict.fromkeys(NAMES, 4)


def test_a_trial_that_was_interrupted_is_not_kept():
    def stops(x):
        raise KeyboardInterrupt

    stopped = replace(EXERCISE, mistakes=[Mistake("stops", "s.", stops)])
    with pytest.raises(KeyboardInterrupt):
        judge(stopped, lambda x: x + 9)
    assert not trials._kept
