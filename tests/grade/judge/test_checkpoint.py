"""Checkpoints: a metric on data that the answer never sees, a baseline, a target, a budget."""

import signal
import sys
from dataclasses import replace

import numpy as np
import pytest

from labkit.exercises.declare import Checkpoint, Mistake, Split
from labkit.grade.judge import budget, judge
from labkit.grade.judge.kinds import checkpoint as kind

POSIX = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs the signals of POSIX")


def _split():
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((300, 3)).astype(np.float32)
    targets = (inputs.sum(1) > 0).astype(np.int64) + (inputs[:, 0] > 1)
    return Split(inputs[:200], targets[:200], inputs[200:], targets[200:])


def _accuracy(predictions, targets):
    return float(np.mean(predictions == targets))


def _zeros(inputs, targets):
    return lambda rows: np.zeros(len(rows), np.int64)


def nearest(inputs, targets):
    def predict(rows):
        distances = ((rows[:, None] - inputs[None]) ** 2).sum(2)
        return targets[distances.argmin(1)]

    return predict


def shifted(inputs, targets):
    return nearest(inputs, targets + 1)


def leaks(inputs, targets):
    split = _split()
    return nearest(split.held_out_inputs, split.held_out_targets)


def endless(inputs, targets):
    while True:
        inputs = inputs + 1


EXERCISE = Checkpoint(
    id="w00.nearest",
    title="t",
    minutes=1,
    data=_split,
    metric=_accuracy,
    measured="accuracy",
    baseline=("always 0", _zeros),
    target=0.8,
    computing=0.3,
    mistakes=[
        Mistake("late", "it never ends.", endless, when=lambda seen: not seen.finished),
        Mistake("leak", "it has seen the rows.", leaks, when=lambda seen: seen.leaked),
        Mistake("constant", "always the same.", _zeros, when=lambda seen: seen.constant),
        Mistake("shifted", "one too high.", shifted, when=lambda seen: seen.agreement(lambda p: p - 1) > 0.8),
    ],
    hints=("1", "2", "3"),
    passed="p",
)


def said(answer, exercise=EXERCISE):
    return judge(exercise, answer)


def stub(inputs, targets):
    raise NotImplementedError("your code here")


@pytest.mark.parametrize("answer", [None, ..., stub])
def test_not_started(answer):
    assert said(answer).status == "not started"


def test_a_pass_shows_metric_target_baseline_and_budget():
    verdict = said(nearest)
    assert verdict.passed, verdict.text()
    assert "on 100 held-out rows; target 0.80, baseline 0." in verdict.headline
    assert verdict.headline.startswith("accuracy 0.") and "(always 0)" in verdict.headline
    assert verdict.headline.endswith("within 0.3 s of computing.")
    assert said(nearest).record() == verdict.record()


def test_no_better_than_the_baseline():
    verdict = said(_zeros)
    assert (verdict.status, verdict.mistake) == ("values", "constant")
    assert "no better than the baseline" in verdict.headline


def test_better_than_the_baseline_and_not_good_enough():
    verdict = said(nearest, replace(EXERCISE, target=0.999))
    assert (verdict.status, verdict.mistake) == ("values", None)
    assert "not yet at the target" in verdict.headline and "target 1.00" in verdict.text()


def test_shifted_labels():
    assert (said(shifted).status, said(shifted).mistake) == ("values", "shifted")


def test_an_answer_that_knows_the_rows():
    verdict = said(leaks)
    assert (verdict.status, verdict.mistake) == ("rule", "leak")
    assert "trained on shuffled targets it still reaches accuracy 1.00" in verdict.headline


@POSIX
def test_the_budget_of_computing():
    before = signal.getsignal(signal.SIGPROF)
    verdict = said(endless)
    assert (verdict.status, verdict.mistake) == ("cost", "late")
    assert "not finished after 0.3 s of computing" in verdict.headline
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


@POSIX
def test_an_answer_cannot_catch_the_end_of_its_budget():
    def catches(inputs, targets):
        while True:
            try:
                endless(inputs, targets)
            except Exception:
                continue

    def catches_everything(inputs, targets):
        for _ in range(2):
            try:
                endless(inputs, targets)
            except BaseException:
                continue
        return nearest(inputs, targets)

    assert said(catches).status == "cost"
    assert said(catches_everything).status == "cost"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts memory this way")
def test_the_budget_of_memory():
    import resource

    def large(inputs, targets):
        np.ones((1 << 28,))
        return nearest(inputs, targets)

    before = resource.getrlimit(resource.RLIMIT_DATA)
    verdict = said(large, replace(EXERCISE, gib=0.5))
    assert verdict.status == "cost" and "more memory than its budget of 0.5 GiB" in verdict.headline
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_torchs_words_for_too_much_memory():
    words = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes."
    assert budget.is_out_of_memory(RuntimeError(words)) and not budget.is_out_of_memory(ValueError("x"))


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (lambda inputs, targets: 3, "type", "a function that predicts is wanted"),
        (lambda inputs, targets: lambda rows: [0] * len(rows), "type", "an array is wanted"),
        (lambda inputs, targets: lambda rows: rows, "shape", "(100, 3); (100,) is wanted"),
        (lambda inputs, targets: lambda rows: np.full(len(rows), np.nan), "values", "not numbers"),
        (lambda inputs, targets: 1 / 0, "error", "ZeroDivisionError"),
        (lambda inputs: None, "error", "TypeError"),
    ],
)
def test_what_cannot_be_measured(answer, status, words):
    verdict = said(answer)
    assert verdict.status == status and words in verdict.headline and verdict.mistake is None


def test_less_may_be_better():
    def error(predictions, targets):
        return float(np.mean(np.abs(predictions - targets)))

    exercise = replace(EXERCISE, metric=error, measured="error", target=0.3, less_is_better=True, mistakes=[])
    assert said(nearest, exercise).passed
    assert said(_zeros, exercise).status == "values"
    assert said(leaks, exercise).status == "rule"


def test_the_answer_gets_copies():
    def spoils(inputs, targets):
        predict = nearest(inputs.copy(), targets.copy())
        inputs[:], targets[:] = 0, 0
        return predict

    data = _split()
    assert said(spoils, replace(EXERCISE, data=lambda: data)).passed
    assert data.inputs.any() and data.targets.any()


def test_torch_tensors_where_the_engine_is_torch():
    import torch

    def train(inputs, targets):
        assert isinstance(inputs, torch.Tensor) and targets.dtype == torch.int64
        return lambda rows: targets[torch.cdist(rows, inputs).argmin(1)]

    assert said(train, replace(EXERCISE, engine="torch", computing=5.0)).passed


def test_an_interrupt_is_an_interrupt():
    def stopped(inputs, targets):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        said(stopped)


def test_what_the_audit_needs():
    assert list(kind.must_fail(EXERCISE, nearest)) == []
    weak = replace(EXERCISE, target=0.5, baseline=("learns", nearest), mistakes=[])
    assert "the baseline passes" in list(kind.must_fail(weak, nearest))
    assert kind.survives(EXERCISE, nearest) and not kind.survives(EXERCISE, _zeros)
