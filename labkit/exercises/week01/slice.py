"""A slice along one axis, made of an offset and a stride."""

import math

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.lazy import torch


def _slice_truth(size, stride, offset, s):
    if not range(*s.indices(size)):  # NumPy forgets where an empty slice began, torch does not
        empty = torch.arange(1000).as_strided((size,), (stride,), offset)[s]
        return (0, empty.stride(0), empty.storage_offset())
    base = np.arange(1000)
    cut = np.lib.stride_tricks.as_strided(base[offset:], (size,), (stride * base.itemsize,))[s]
    return (len(cut), cut.strides[0] // base.itemsize, int(cut[0]))


exercise = Implement(
    title="A slice is an offset and a stride",
    minutes=10,
    needs=("w01.position",),
    engine="python",
    reference="NumPy (torch has no negative steps)",
    cases=[
        Case("from 2 to 5", lambda draw: {"size": 8, "stride": 1, "offset": 0, "s": slice(2, 5)}),
        Case("every second", lambda draw: {"size": 9, "stride": 3, "offset": 4, "s": slice(1, 8, 2)}),
        Case("reversed", lambda draw: {"size": 6, "stride": 2, "offset": 5, "s": slice(None, None, -1)}),
        Case("from the end", lambda draw: {"size": 7, "stride": 4, "offset": 1, "s": slice(-3, None)}),
        Case("backward by two", lambda draw: {"size": 8, "stride": 3, "offset": 2, "s": slice(6, 1, -2)}),
        Case("one element", lambda draw: {"size": 8, "stride": 2, "offset": 1, "s": slice(3, 4, 2)}),
        Case(
            "past the end",
            lambda draw: {"size": 5, "stride": 2, "offset": 3, "s": slice(1, 99, 3)},
            extreme=True,
        ),
        Case(
            "nothing left",
            lambda draw: {"size": 8, "stride": 3, "offset": 2, "s": slice(5, 2)},
            extreme=True,
        ),
    ],
    oracle=_slice_truth,
    mistakes=[
        Mistake(
            "stride not multiplied",
            "The step is missing from the stride: a step of 2 along an axis of stride 3 moves 6 places.",
            lambda size, stride, offset, s: (
                len(range(*s.indices(size))),
                stride,
                offset + s.indices(size)[0] * stride,
            ),
        ),
        Mistake(
            "start not scaled",
            "The start is added to the offset as it is: it counts elements of this axis, each `stride` places apart.",
            lambda size, stride, offset, s: (
                len(range(*s.indices(size))),
                stride * s.indices(size)[2],
                offset + s.indices(size)[0],
            ),
        ),
        Mistake(
            "rounded down",
            "The new size is rounded down: from 1 up to 8 by 2 there are four elements, 1, 3, 5 and 7.",
            lambda size, stride, offset, s: (
                (s.indices(size)[1] - s.indices(size)[0]) // s.indices(size)[2],
                stride * s.indices(size)[2],
                offset + s.indices(size)[0] * stride,
            ),
        ),
        Mistake(
            "old offset lost",
            "The old offset is lost: the axis may itself be a view that starts later.",
            lambda size, stride, offset, s: (
                len(range(*s.indices(size))),
                stride * s.indices(size)[2],
                s.indices(size)[0] * stride,
            ),
        ),
        Mistake(
            "step for stride",
            "The step replaces the stride; it multiplies it: 2 elements of an axis with stride 3 are 6 places.",
            lambda size, stride, offset, s: (
                len(range(*s.indices(size))),
                s.indices(size)[2],
                offset + s.indices(size)[0] * stride,
            ),
        ),
        Mistake(
            "negative size",
            "A slice that stops before it starts is empty: its size is 0, not negative. len(range(...)) says so.",
            lambda size, stride, offset, s: (
                math.ceil((s.indices(size)[1] - s.indices(size)[0]) / s.indices(size)[2]),
                stride * s.indices(size)[2],
                offset + s.indices(size)[0] * stride,
            ),
        ),
    ],
    hints=(
        "`s.indices(size)` turns any slice into start, stop, step with the missing parts filled in.",
        "The new stride is stride * step, the new offset is where element `start` lies.",
        "start, stop, step = s.indices(size); the new size is len(range(start, stop, step))",
    ),
    passed="NumPy reverses with a negative stride and copies nothing. torch allows no negative strides, so flip copies.",
    excused={"delegation": "the oracle is NumPy's own slicing, which needs an array to slice"},
)
