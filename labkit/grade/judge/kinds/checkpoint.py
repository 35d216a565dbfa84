"""One part of a project: an answer that trains is judged by a metric on data that it never gets to see.

error -> cost (the budget is spent) -> type -> shape -> values -> rule (it knows the answers) -> pass

The last rung is a second training, on shuffled targets. Nothing can be learned from those, so an answer that
is good even then has what it knows from elsewhere, such as the whole data set loaded by its own hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labkit.exercises.declare import Checkpoint, Mistake, Seen, Split
from labkit.grade.judge import budget, ladder
from labkit.grade.judge.compare import leaf
from labkit.grade.judge.disguise import disguise
from labkit.grade.judge.kinds.usual import (  # noqa: F401
    delegation,
    inputs,
    problems,
    remember,
    without_rules,
)
from labkit.grade.judge.ladder import Problem
from labkit.grade.judge.run import is_own, is_stub, seed_everything, to_engine
from labkit.grade.judge.surroundings import as_usual
from labkit.text import number
from labkit.verdict import Verdict, is_blank, not_started

# Only a dropped line is a mutant of a training: other numbers make another good model.
CHANGES = ("dropped",)


def judge(exercise: Checkpoint, answer: Any) -> Verdict:
    """Train, predict, measure; then train once more on nonsense."""
    if is_blank(answer):
        return not_started(exercise, "nothing here yet.")
    ran = _run(exercise, answer)
    if ran.error is not None and is_stub(ran.error) and is_own(ran.error, answer):
        return not_started(exercise, "the answer still reaches `raise NotImplementedError`.")
    problem = ran.problem or _not_good_enough(exercise, ran)
    if problem is None:
        ran = _with_shuffled_targets(exercise, answer, ran)
        problem = ran.problem
    if problem is None:
        return Verdict(exercise.id, "pass", f"{_standing(exercise, ran)}.", (exercise.passed,))
    return ladder.explained(exercise, problem, _recognize(exercise, ran))


# training and predicting


@dataclass(frozen=True)
class Ran:
    """One training: what it did, why it cannot be measured if so, and the share of the budget it used."""

    seen: Seen
    error: BaseException | None = None
    problem: Problem | None = None
    share: float = 0.0


def _run(exercise: Checkpoint, train: Callable[..., Any], targets: np.ndarray | None = None) -> Ran:
    """Train on the targets, or on others of the same size, and measure on the held-out data."""
    split = exercise.data()
    truth = split.held_out_targets
    nothing = Seen(np.array([]), truth)

    def train_and_predict() -> Any:
        learn = _given(exercise, inputs=split.inputs, targets=split.targets if targets is None else targets)
        predict = train(*learn.values())
        if not callable(predict):
            return None, predict
        return predict, predict(*_given(exercise, inputs=split.held_out_inputs).values())

    seed_everything()
    try:
        with as_usual():
            (predict, given), used = budget.spend(train_and_predict, exercise.computing, exercise.gib)
    except KeyboardInterrupt:
        raise
    except budget.BudgetSpent:
        return Ran(replace(nothing, finished=False), problem=_unfinished(exercise))
    except BaseException as error:
        return Ran(nothing, error, _raised(exercise, error))
    if predict is None:
        return Ran(nothing, problem=_no_function(given))
    found = leaf(given)
    problem = _unfit(found.value, truth)
    if problem:
        return Ran(nothing, problem=problem, share=used / exercise.computing)
    metric = float(exercise.metric(found.value, truth))
    return Ran(Seen(found.value, truth, metric=metric), share=used / exercise.computing)


def _given(exercise: Checkpoint, **arrays: np.ndarray) -> dict[str, Any]:
    """Copies in the exercise's engine: an answer may do with them what it likes."""
    return to_engine({name: array.copy() for name, array in arrays.items()}, exercise.engine)


def _unfinished(exercise: Checkpoint) -> Problem:
    words = f"not finished after {number(exercise.computing)} s of computing, which is the budget."
    lines = (
        "It was stopped. Do the work on whole arrays, train for fewer steps, or make the model smaller.",
    )
    return Problem("cost", words, lines)


def _raised(exercise: Checkpoint, error: BaseException) -> Problem:
    if not budget.is_out_of_memory(error):
        return ladder.error_problem(None, error)
    words = f"it needs more memory than its budget of {number(exercise.gib)} GiB."
    return Problem("cost", words, ("Work in batches, or keep fewer copies of large arrays.",))


def _no_function(given: Any) -> Problem:
    words = f"`train` returns {leaf(given).dtype}; a function that predicts is wanted."
    return Problem("type", words, ("Return the function itself, without calling it: `return predict`.",))


def _unfit(predictions: Any, truth: np.ndarray) -> Problem | None:
    if not isinstance(predictions, np.ndarray):
        return Problem("type", f"the predictions are {type(predictions).__name__}; an array is wanted.")
    if predictions.shape != truth.shape:
        words = f"the predictions have shape {predictions.shape}; {truth.shape} is wanted."
        return Problem("shape", words, ("One prediction for each row of the inputs.",))
    if not np.isfinite(predictions).all():
        count = int((~np.isfinite(predictions)).sum())
        words = f"{count} of {len(truth)} predictions are not numbers (NaN or infinite)."
        return Problem("values", words, ("Did the training diverge? Try a smaller step.",))
    return None


# how good it is


def _reaches(exercise: Checkpoint, metric: float, wanted: float) -> bool:
    """Whether a metric is as good as another; NaN never is."""
    return metric <= wanted if exercise.less_is_better else metric >= wanted


def _baseline(exercise: Checkpoint) -> float:
    split = exercise.data()
    predict = exercise.baseline[1](split.inputs, split.targets)
    return float(exercise.metric(np.asarray(predict(split.held_out_inputs)), split.held_out_targets))


def _standing(exercise: Checkpoint, ran: Ran) -> str:
    """`accuracy 0.93 on 450 held-out rows; target 0.90, baseline 0.10 (always the same digit)`."""
    metric, target, baseline = (
        exercise.shown.format(value) for value in (ran.seen.metric, exercise.target, _baseline(exercise))
    )
    rows = number(len(ran.seen.targets))
    return (
        f"{exercise.measured} {metric} on {rows} held-out rows; target {target}, "
        f"baseline {baseline} ({exercise.baseline[0]}); within {number(exercise.computing)} s of computing"
    )


def _not_good_enough(exercise: Checkpoint, ran: Ran) -> Problem | None:
    if _reaches(exercise, ran.seen.metric, exercise.target):
        return None
    better = _reaches(exercise, ran.seen.metric, _baseline(exercise)) and not ran.seen.constant
    words = "better than the baseline, not yet at the target." if better else "no better than the baseline."
    return Problem("values", f"it is {words}", (f"{_standing(exercise, ran).capitalize()}.", _time(ran)))


def _time(ran: Ran) -> str:
    """Roughly: a verdict is the same on every run."""
    if ran.share < 0.25:
        return "It used less than a quarter of that time: there is room to train longer."
    return "It used more than half of that time." if ran.share > 0.5 else "It used a part of that time."


def _with_shuffled_targets(exercise: Checkpoint, answer: Any, ran: Ran) -> Ran:
    """The same answer after a training in which nothing can be learned."""
    targets = np.random.default_rng(0).permutation(exercise.data().targets)
    metric = _run(exercise, answer, targets).seen.metric
    seen = replace(ran.seen, shuffled=metric)
    if not _reaches(exercise, metric, (exercise.target + _baseline(exercise)) / 2):
        return replace(ran, seen=seen)
    shown = exercise.shown.format(metric)
    problem = Problem(
        "rule",
        f"trained on shuffled targets it still reaches {exercise.measured} {shown} on the held-out rows.",
        (
            "From those nothing can be learned: it knows these rows from somewhere else.",
            "Learn from the arguments of `train` only, and load no data in it.",
        ),
    )
    return replace(ran, seen=replace(seen, leaked=True), problem=problem)


def _recognize(exercise: Checkpoint, ran: Ran) -> Mistake | None:
    """The first mistake that this looks like. An answer that raised looks like nothing."""
    if not len(ran.seen.predictions) and ran.seen.finished:
        return None
    return next((m for m in exercise.mistakes if m.when and m.when(ran.seen)), None)


# for the audit


def wrong_answer(exercise: Checkpoint, mistake: Mistake) -> tuple[Any, dict[str, Any]]:
    return disguise(mistake.wrong), {}


def must_fail(exercise: Checkpoint, solution: Any) -> Iterator[str]:
    """The baseline, and an answer that has the held-out targets and learns nothing."""
    if judge(exercise, disguise(exercise.baseline[1])).passed:
        yield "the baseline passes"
    split = exercise.data()

    def knows(*_: Any) -> Callable[..., Any]:
        return lambda *_: split.held_out_targets.copy()

    verdict = judge(exercise, disguise(knows))
    if verdict.status != "rule":
        yield f"an answer that knows the held-out targets is judged {verdict.said}"


def mutants(exercise: Checkpoint, found: Sequence[Any]) -> list[Any]:
    return [mutant for mutant in found if mutant.change in CHANGES]


def survives(exercise: Checkpoint, answer: Any) -> bool:
    """Without the second training: what a mutant knows, it has learned."""
    ran = _run(exercise, answer)
    return ran.problem is None and _not_good_enough(exercise, ran) is None


def texts(exercise: Checkpoint) -> dict[str, str]:
    """The line with all the numbers, as long as it can get."""
    split: Split = exercise.data()
    return {
        "standing": f"{_standing(exercise, Ran(Seen(np.array([]), split.held_out_targets, metric=0.0)))}."
    }


def warm(exercise: Checkpoint) -> None:
    exercise.data()
