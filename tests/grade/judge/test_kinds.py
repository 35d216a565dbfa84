"""Name and fix, predict, measure, write a test."""

import math

import numpy as np
import pytest
import torch

from labkit import exercises
from labkit.exercises.declare import Case, Fix, Item, Measure, Mistake, Predict, WriteTest
from labkit.grade.judge import judge

COMMON = {"id": "w00.x", "title": "t", "minutes": 1, "hints": ("1", "2", "3"), "passed": "Good."}


# fix


def broken(x):
    return x + 1


def mended(x):
    return x + 2


FIX = Fix(
    **COMMON,
    engine="python",
    cases=[Case("a", lambda draw: {"x": 3}), Case("b", lambda draw: {"x": -1})],
    oracle=lambda x: x + 2,
    broken=broken,
    fault="one short",
    menu={"one short": "", "wrong sign": "The sign is right."},
    mistakes=[Mistake("three", "Too many.", lambda x: x + 3)],
)


@pytest.mark.parametrize(
    ("answer", "fault", "status", "words"),
    [
        (broken, None, "not started", "as it was found"),
        (broken, ..., "not started", "as it was found"),
        (broken, "one short", "values", "you named the fault"),
        (broken, "wrong sign", "values", "The sign is right."),
        (mended, None, "values", "Now name the fault"),
        (mended, "wrong sign", "values", "The sign is right."),
        (mended, "something else", "type", "not on the menu"),
        (mended, ["one short"], "type", "not on the menu"),
        (mended, "something else", "type", 'Choose from "one short", "wrong sign".'),
        (broken, "something else", "values", "not on the menu"),
        (mended, "one short", "pass", "named and mended"),
        (mended, " One  Short", "pass", "named and mended"),
        (mended, "wrongsign", "values", "The sign is right."),
        (lambda x: x + 3, "one short", "values", "Too many."),
        (None, "one short", "not started", "nothing here"),
    ],
)
def test_both_halves_of_a_fix(answer, fault, status, words):
    verdict = judge(FIX, answer, fault=fault)
    assert verdict.status == status and words in verdict.text()


# predict

PREDICT = Predict(
    **COMMON,
    items={
        "shape": Item("?", lambda: (2, 3)),
        "number": Item("?", lambda: 0.5),
        "limit": Item("?", lambda: math.inf),
        "odd": Item("?", lambda: math.nan),
        "view": Item("?", lambda: True),
        "word": Item("?", lambda: "view"),
    },
    mistakes=[Mistake("turned", "Rows come first.", {"shape": (3, 2)})],
)
RIGHT = {"shape": (2, 3), "number": 0.5, "limit": math.inf, "odd": math.nan, "view": True, "word": "view"}


def test_right_predictions():
    assert judge(PREDICT, RIGHT).passed


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [2, 3]},
        {"shape": torch.Size([2, 3])},
        {"shape": (np.int64(2), 3)},
        {"number": 0.501},
        {"number": np.float32(0.5)},
        {"number": torch.tensor(0.5)},
        {"word": " View"},
    ],
)
def test_other_ways_to_say_the_same(change):
    assert judge(PREDICT, RIGHT | change).passed


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (3, 2)},
        {"shape": (2, 3, 1)},
        {"shape": "error"},
        {"number": 0.6},
        {"number": "error"},
        {"number": math.nan},
        {"limit": 1e300},
        {"limit": -math.inf},
        {"odd": 0.0},
        {"word": "copy"},
        {"word": 7},
        {"word": np.zeros(3)},
    ],
)
def test_wrong_predictions(change):
    verdict = judge(PREDICT, RIGHT | change)
    assert (
        verdict.status == "values"
        and verdict.headline == f"5 of 6 right; look again at {next(iter(change))}."
    )


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"shape": torch.zeros(2, 3)}, "a tuple"),
        ({"shape": 6}, "a tuple"),
        ({"shape": "(2, 3)"}, "a tuple"),
        ({"number": True}, "a number"),
        ({"number": "0.5"}, "a number"),
        ({"number": (0.5,)}, "a number"),
        ({"view": 1}, "True or False"),
        ({"view": "True"}, "True or False"),
    ],
)
def test_predictions_of_the_wrong_type(change, wanted):
    verdict = judge(PREDICT, RIGHT | change | {"limit": 0.0})
    (key,) = change
    assert verdict.status == "type" and verdict.headline.startswith(f"`{key}` is ")
    assert verdict.headline.endswith(f"{wanted} is wanted.")


@pytest.mark.parametrize("sure", [True, "all", 7, -1, 3.0])
def test_how_sure_is_a_whole_number(sure):
    verdict = judge(PREDICT, RIGHT, sure=sure)
    assert verdict.status == "type" and "a whole number from 0 to 6" in verdict.headline


def test_how_sure_is_asked_for():
    assert [judge(PREDICT, RIGHT, sure=sure).status for sure in (0, 6, None)] == ["pass"] * 3
    assert judge(PREDICT, RIGHT, sure=...).status == "not started"


def test_predictions_that_are_not_complete():
    assert judge(PREDICT, None).status == "not started"
    assert judge(PREDICT, RIGHT | {"word": ...}).status == "not started"
    assert judge(PREDICT, {"shape": (2, 3)}).status == "type"
    assert judge(PREDICT, [1, 2]).status == "type"
    assert judge(PREDICT, RIGHT | {"shape": (3, 2)}).mistake == "turned"


# measure

MEASURE = Measure(
    **COMMON,
    accept=lambda value: None if 0.9 < value < 1.1 else "That is far off.",
    mistakes=[
        Mistake("percent", "This is in percent.", 100.0, when=lambda value: value > 50),
        Mistake("half", "Half of it.", 0.5),
    ],
)


@pytest.mark.parametrize("answer", [1, 1.05, np.float64(1), torch.tensor(1.0)])
def test_a_measured_value(answer):
    assert judge(MEASURE, answer).passed


@pytest.mark.parametrize(
    ("answer", "status", "mistake"),
    [
        (None, "not started", None),
        ("1", "type", None),
        (True, "type", None),
        (torch.ones(2), "type", None),
        (0.5, "values", "half"),
        (99, "values", "percent"),
        (7.0, "values", None),
        (math.nan, "values", None),
    ],
)
def test_other_values(answer, status, mistake):
    verdict = judge(MEASURE, answer)
    assert (verdict.status, verdict.mistake) == (status, mistake)


def test_a_whole_number_may_stand_for_a_float():
    exercise = Measure(**COMMON, accept=lambda value: None, answer_type=float, mistakes=())
    assert judge(exercise, 3).passed and judge(exercise, True).status == "type"


# write a test


def right_sort(values):
    return sorted(values)


TEST = WriteTest(
    **COMMON,
    good=[right_sort, lambda values: [*sorted(values)]],
    bugs={
        "reversed": ("sorts the wrong way", lambda values: sorted(values)[::-1]),
        "drops": ("loses duplicates", lambda values: sorted(set(values))),
        "crashes": ("fails on nothing", lambda values: [min(values), *sorted(values)[1:]]),
    },
    mistakes=[
        Mistake("one only", "One example is not enough.", lambda sort: _assert(sort([2, 1]) == [1, 2]))
    ],
)


def _assert(condition):
    assert condition


def thorough(sort):
    assert sort([3, 1, 3]) == [1, 3, 3]
    assert sort([]) == []


@pytest.mark.parametrize(
    ("test", "status", "mistake"),
    [
        (thorough, "pass", None),
        (None, "not started", None),
        (lambda sort: None, "values", None),
        (lambda sort: _assert(sort([2, 1]) == [1, 2]), "values", "one only"),
        (lambda sort: _assert(False), "error", None),
        (lambda sort: _assert(sort([1, 2]) == [2, 1]), "error", None),
        (lambda sort: 1 / 0, "error", None),
        (lambda sort, other: None, "error", None),
        (7, "error", None),
    ],
)
def test_a_test_is_judged_by_what_it_catches(test, status, mistake):
    verdict = judge(TEST, test)
    assert (verdict.status, verdict.mistake) == (status, mistake)


def test_pytests_own_failures_count():
    def test(sort):
        if sort([3, 1, 3]) != [1, 3, 3] or sort([]) != []:
            pytest.fail("no")

    assert judge(TEST, test).passed


def test_random_tests_are_seeded():
    seen = []

    def test(sort):
        seen.append(torch.rand(1).item())
        thorough(sort)

    judge(TEST, test)
    assert len(set(seen)) == 1


def test_the_stub_of_a_test():
    def test(sort):
        raise NotImplementedError("your code here")

    assert judge(TEST, test).status == "not started"


def test_an_unknown_exercise_suggests_the_nearest():
    with pytest.raises(KeyError, match=r"Did you mean w00\.answer"):
        exercises.get("w00.anwser")
