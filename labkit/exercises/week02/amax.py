"""A maximum along an axis with its way back."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week02.shared import NO_TORCH, by_torch
from labkit.lazy import torch


def _amax(x, axis, keep=False, spread=None):
    """The largest along an axis; `spread(x, top, axis)` says how its gradient is shared."""
    top = x.max(axis=axis, keepdims=True)
    share = (spread or _equal_shares)(x, top, axis)

    def backward(g):
        return (share * (g if keep else np.expand_dims(g, axis)),)

    return top if keep else np.squeeze(top, axis), backward


def _equal_shares(x, top, axis):
    at = x == top
    return at / at.sum(axis=axis, keepdims=True)


def _first_takes_all(x, top, axis):
    share = np.zeros_like(x)
    np.put_along_axis(share, np.expand_dims(x.argmax(axis), axis), 1.0, axis)
    return share


def _amax_not_lined_up(x, axis):
    """Multiplies by g without giving it the axis back."""
    value, _ = _amax(x, axis)
    return value, lambda g: (_equal_shares(x, x.max(axis=axis, keepdims=True), axis) * g,)


_TIES = np.array([[2.0, -1.0, 2.0, 0.5], [0.0, 3.0, 3.0, 3.0], [1.0, -2.0, 0.25, 1.5]])


exercise = Implement(
    title="Back through a maximum",
    minutes=10,
    needs=("w02.div",),
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
        Case("ties", lambda draw: {"x": _TIES.copy(), "axis": 1}),
        Case(
            "minus infinity",
            lambda draw: {"x": np.array([[-np.inf, 1.0, -3.0], [-np.inf, -np.inf, 2.0]]), "axis": 1},
            extreme=True,
        ),
    ],
    oracle=lambda x, axis: torch.amax(x, axis),
    delegate=by_torch(lambda x, axis: torch.amax(x, axis), 1),
    rules=Rules(forbids=("amax", *NO_TORCH)),
    memory="any",
    mistakes=[
        Mistake(
            "first takes all",
            "Of equal maxima only the first gets the gradient. That is what torch.max(dim) does; amax shares it.",
            vary(_amax, spread=_first_takes_all),
        ),
        Mistake(
            "each takes all",
            "Of equal maxima each gets the whole gradient, so more flows back than came in: divide by how many there are.",
            vary(_amax, spread=lambda x, top, axis: (x == top) * 1.0),
        ),
        Mistake(
            "spread over all",
            "The gradient is spread over all elements, as for a mean; only a maximum has an influence.",
            vary(_amax, spread=lambda x, top, axis: np.ones_like(x) / x.shape[axis]),
        ),
        Mistake(
            "axis kept",
            "The value still has the reduced axis, with size 1: take it out.",
            vary(_amax, keep=True),
        ),
        Mistake(
            "axis not given back",
            "g lacks the reduced axis, so it lines up with the wrong one: np.expand_dims(g, axis) gives it back.",
            _amax_not_lined_up,
        ),
    ],
    hints=(
        "Which elements of x have an influence on the result, and how much if two are equal?",
        "at = x == x.max(axis=axis, keepdims=True), and each gets 1 / at.sum(axis=axis, keepdims=True) of the gradient.",
        "at / at.sum(axis=axis, keepdims=True) * np.expand_dims(g, axis)",
    ),
    passed="Max pooling in week 5 is this, window by window; there torch lets the first of equal ones take all.",
)
