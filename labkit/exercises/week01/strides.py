"""The row-major strides of a shape, in elements."""

import math

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week01.shared import row_major
from labkit.lazy import torch

exercise = Implement(
    title="Strides from a shape",
    minutes=8,
    engine="python",
    cases=[
        Case("three axes", lambda draw: {"shape": (2, 3, 4)}),
        Case("one axis", lambda draw: {"shape": (5,)}),
        Case("an axis of size 1", lambda draw: {"shape": (3, 1, 2)}),
        Case("a batch of images", lambda draw: {"shape": (7, 3, 5, 6)}),
        Case("no axes", lambda draw: {"shape": ()}, extreme=True),
    ],
    oracle=lambda shape: torch.empty(shape).stride(),
    rules=Rules(forbids=("stride",)),
    mistakes=[
        Mistake(
            "column-major",
            "These are the strides of column-major order, where the first axis moves fastest. Start at the right.",
            lambda shape: tuple(math.prod(shape[:axis]) for axis in range(len(shape))),
        ),
        Mistake(
            "reversed order",
            "The numbers are right and in reversed order: the last axis has stride 1.",
            lambda shape: row_major(shape)[::-1],
        ),
        Mistake(
            "own axis included",
            "Each stride is too large by the size of its own axis: multiply only the sizes to its right.",
            lambda shape: tuple(math.prod(shape[axis:]) for axis in range(len(shape))),
        ),
        Mistake(
            "sum for product",
            "The sizes to the right are added; one step along an axis jumps over their product.",
            lambda shape: tuple(max(1, sum(shape[axis + 1 :])) for axis in range(len(shape))),
        ),
        Mistake(
            "bytes",
            "These are bytes, as NumPy counts; torch counts elements.",
            lambda shape: tuple(4 * stride for stride in row_major(shape)),
        ),
        Mistake(
            "neighbor only",
            "Each stride is the size of the next axis alone: multiply all the sizes to its right.",
            lambda shape: (*shape[1:], 1),
        ),
    ],
    hints=(
        "How many elements lie between x[0, 0] and x[1, 0] if a row has 4 of them?",
        "The stride of an axis is the product of all sizes to its right. The last axis has none, and 1 is the empty product.",
        "Walk from the right: start with step = 1, put it in front, multiply step by the size of the axis.",
    ),
    passed="`x.stride()` gives the same tuple, and `x.T` changes nothing but its order.",
)
