"""Log-sum-exp that does not overflow, with its way back."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week02.shared import NO_TORCH, by_torch, logsumexp_pair
from labkit.lazy import torch


def _plain_softmax(axis):
    return lambda x: np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


exercise = Implement(
    title="Log-sum-exp without overflow",
    minutes=12,
    needs=("w02.amax",),
    also=("softmax",),
    engine="numpy",
    dtype="float64",
    vjp=True,
    grads=("x",),
    cases=[
        Case("along rows", lambda draw: {"x": draw.normal(3, 4), "axis": 1}),
        Case("along columns", lambda draw: {"x": draw.normal(4, 5), "axis": 0}),
        Case("the middle of three", lambda draw: {"x": draw.normal(2, 5, 3), "axis": -2}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(2, 3), "axis": 1}),
        Case("an axis of size 1", lambda draw: {"x": draw.normal(3, 1), "axis": 1}),
        # here the result is the largest score exactly, so that every right way to compute it agrees
        Case(
            "a score of 1,000",
            lambda draw: {"x": np.array([[1000.0, 0.0, -500.0], [-3.0, 2.0, 1200.0]]), "axis": 1},
        ),
        Case(
            "1e4 and -1e4",
            lambda draw: {"x": np.array([[1e4, 9999.0, -1e4], [-1e4, -9998.0, -9999.5]]), "axis": 1},
            extreme=True,
        ),
    ],
    oracle=lambda x, axis: torch.logsumexp(x, axis),
    delegate=by_torch(lambda x, axis: torch.logsumexp(x, axis), 1),
    rules=Rules(forbids=("logsumexp", "logaddexp", "softmax", "log_softmax", *NO_TORCH)),
    memory="any",
    mistakes=[
        Mistake(
            "overflows",
            "exp(1000) is infinite in float64. Subtract the largest first, and add it again at the end.",
            vary(logsumexp_pair, shift=lambda x: 0.0),
        ),
        Mistake(
            "overflows both ways",
            "exp(1000) is infinite in float64, in the value and in backward. Subtract the largest first, and add it at the end.",
            lambda x, axis: logsumexp_pair(x, axis, shift=lambda x: 0.0, soft=_plain_softmax(axis)),
        ),
        Mistake(
            "not added back, used again",
            "The largest was subtracted inside and not added again outside; backward uses this value, and is wrong with it.",
            vary(logsumexp_pair, add_back=False),
        ),
        Mistake(
            "not added back",
            "The largest was subtracted inside and not added again outside.",
            lambda x, axis: logsumexp_pair(x, axis, add_back=False, soft=_plain_softmax(axis)),
        ),
        Mistake(
            "one maximum for all",
            "The largest of the whole array was subtracted: a row far below it underflows to log(0). Take it along the axis.",
            vary(logsumexp_pair, shift=lambda x: x.max()),
        ),
        Mistake(
            "backward overflows",
            "The value is safe, and backward computes exp(x) again without the shift: infinite over infinite is NaN.",
            lambda x, axis: logsumexp_pair(x, axis, soft=_plain_softmax(axis)),
        ),
        Mistake(
            "g forgotten",
            "The gradient is the softmax times g; here g is missing.",
            vary(logsumexp_pair, times_g=False),
        ),
    ],
    hints=(
        "log Σ exp(x) = m + log Σ exp(x - m) for any m. Which m keeps every exponent at 0 or below?",
        "m = x.max(axis=axis, keepdims=True). The slope by x is exp(x - value): nothing in it can overflow.",
        "backward: np.exp(x - value) * np.expand_dims(g, axis), with value still having its axis of size 1",
    ),
    passed="exp(x - logsumexp(x)) is the softmax, and the cross-entropy of week 3 is logsumexp minus one score.",
)
