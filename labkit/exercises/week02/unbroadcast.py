"""Sum a gradient back to the shape that was stretched."""

import math

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week02.shared import NO_TORCH, summed_to


def _unbroadcast_kept_axes_lost(g, shape):
    extra = g.ndim - len(shape)
    kept = tuple(extra + axis for axis, size in enumerate(shape) if size == 1)
    return np.asarray(g.sum(axis=(*range(extra), *kept)))


def _unbroadcast_first(g, shape):
    """Takes one of the repeats instead of their sum."""
    while g.ndim > len(shape):
        g = g[0]
    for axis, size in enumerate(shape):
        if size == 1:
            g = g.take([0], axis)
    return g.copy()


exercise = Implement(
    title="Back through a stretched axis",
    minutes=10,
    needs=("w01.expand",),
    engine="numpy",
    dtype="float64",
    cases=[
        Case("a row", lambda draw: {"g": draw.normal(4, 3), "shape": (3,)}),
        Case("a column", lambda draw: {"g": draw.normal(4, 5), "shape": (4, 1)}),
        Case("both", lambda draw: {"g": draw.normal(5, 2, 4, 3), "shape": (2, 1, 3)}),
        Case("one in front", lambda draw: {"g": draw.normal(6, 3, 2), "shape": (1, 3, 2)}),
        Case("nothing was stretched", lambda draw: {"g": draw.normal(2, 5), "shape": (2, 5)}),
        Case("a number", lambda draw: {"g": draw.normal(2, 3), "shape": ()}),
        Case("size 1 all along", lambda draw: {"g": draw.normal(4, 1, 3), "shape": (1, 3)}),
        Case("not contiguous", lambda draw: {"g": draw.transposed(5, 4), "shape": (1, 4)}),
        Case("an empty batch", lambda draw: {"g": draw.normal(0, 3), "shape": (3,)}, extreme=True),
    ],
    oracle=lambda g, shape: g.sum_to_size(shape),
    memory="any",
    rules=Rules(forbids=("sum_to_size", "unbroadcast", *NO_TORCH)),
    mistakes=[
        Mistake(
            "size 1 missed",
            "Only the axes in front were summed. An axis of size 1 that was stretched has to shrink back to 1.",
            lambda g, shape: np.asarray(g.sum(axis=tuple(range(g.ndim - len(shape))))),
        ),
        Mistake(
            "size 1 lost",
            "The sums are right, but an axis of size 1 has disappeared: keepdims=True keeps it.",
            _unbroadcast_kept_axes_lost,
        ),
        Mistake(
            "mean",
            "The repeats are averaged. Each of them was used, and each contributes its whole gradient: sum.",
            lambda g, shape: summed_to(g, shape) * (math.prod(shape) / max(g.size, 1)),
        ),
        Mistake(
            "one of them",
            "This is the gradient of a single repeat: they all belong to the same number, so add them up.",
            _unbroadcast_first,
        ),
        Mistake(
            "always axis 0",
            "Axis 0 is summed whatever `shape` says. Compare g.shape with it from the right: which axes were stretched?",
            lambda g, shape: np.asarray(g.sum(axis=0)),
        ),
        Mistake(
            "summed at the end",
            "The extra axes are at the front, because shapes are aligned at the right; here the last ones were summed.",
            lambda g, shape: np.asarray(
                g.sum(axis=tuple(range(len(shape), g.ndim))) if len(shape) < g.ndim else summed_to(g, shape)
            ),
        ),
    ],
    hints=(
        "The gradient of a stretched input is the sum over its repeats. Which axes were repeated?",
        "First the axes in front that shape lacks; then, with keepdims=True, every axis where shape has a 1.",
        "g = g.sum(axis=tuple(range(g.ndim - len(shape)))), then g.sum(axis=..., keepdims=True) where the size is 1.",
    ),
    passed="The gradient of a bias is this sum over the batch, in every layer of every network.",
)
