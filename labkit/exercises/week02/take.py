"""Rows taken by index with their way back."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week02.shared import NO_TORCH, by_torch


def _take(x, index, put):
    """Elements of x at places; `put(grad, index, g)` writes the gradient back."""

    def backward(g):
        grad = np.zeros_like(x)
        put(grad, index, g)
        return (grad,)

    return x[index].copy(), backward


def _put_first_rows(grad, index, g):
    flat = g.reshape(-1)[: grad.size]
    grad.reshape(-1)[: flat.size] = flat


exercise = Implement(
    title="Back to the places it came from",
    minutes=8,
    needs=("w02.unbroadcast", "w01.confusion"),
    engine="numpy",
    dtype="float64",
    vjp=True,
    grads=("x",),
    cases=[
        Case("some rows", lambda draw: {"x": draw.normal(5, 3), "index": np.array([3, 0, 4])}),
        Case("repeated rows", lambda draw: {"x": draw.normal(4, 3), "index": np.array([2, 0, 2, 2, 1])}),
        Case(
            "pairs, one of them twice",
            lambda draw: {"x": draw.normal(3, 4), "index": (np.array([0, 2, 2]), np.array([1, 3, 3]))},
        ),
        Case("a slice", lambda draw: {"x": draw.normal(6, 2), "index": slice(1, 6, 2)}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(4, 2), "index": np.array([1, 1, 3])}),
        Case("one element", lambda draw: {"x": draw.normal(3, 1), "index": (2, 0)}),
        Case("nothing", lambda draw: {"x": draw.normal(3, 2), "index": np.zeros(0, dtype=int)}, extreme=True),
    ],
    oracle=lambda x, index: x[index],
    delegate=by_torch(lambda x, index: x[index], 1),
    memory="any",
    rules=Rules(forbids=NO_TORCH),
    mistakes=[
        Mistake(
            "repeats lost",
            "A row that was taken three times gets the gradient of the last one only: they must add up. See np.add.at.",
            vary(_take, put=lambda grad, index, g: grad.__setitem__(index, g)),
        ),
        Mistake(
            "counted",
            "How often each element was taken is counted, but g is missing.",
            vary(_take, put=lambda grad, index, g: np.add.at(grad, index, 1.0)),
        ),
        Mistake(
            "written to the front",
            "The gradients are written to the first rows, not to those they were taken from.",
            vary(_take, put=_put_first_rows),
        ),
        Mistake(
            "g as it is",
            "This is g itself, in the shape of the result. The gradient has the shape of x, with zeros where nothing was taken.",
            lambda x, index: (x[index].copy(), lambda g: (g,)),
        ),
    ],
    hints=(
        "Most elements of x have no influence on the result. Start from zeros in the shape of x.",
        "grad[index] += g forgets repeats, as in the confusion matrix of week 1. np.add.at(grad, index, g) adds them all.",
        "grad = np.zeros_like(x); np.add.at(grad, index, g); return (grad,)",
    ),
    passed="An embedding layer is this operation: a word that occurs twice in a batch gets two gradients, added up.",
    excused={
        "constant": "an index with a single place",
        "symmetric": "places, not values",
        "equal axes": "an index with two arrays of the same length",
    },
)
