"""The place in storage of an index, from strides and offset."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, Rules
from labkit.lazy import torch


def _position_of_first_axis(index, stride, offset):
    for i, s in zip(index, stride, strict=True):
        return offset + i * s


exercise = Implement(
    title="From index to position",
    minutes=5,
    needs=("w01.strides",),
    engine="python",
    cases=[
        Case("a matrix", lambda draw: {"index": (1, 2), "stride": (4, 1), "offset": 0}),
        Case("a slice that starts later", lambda draw: {"index": (2, 1), "stride": (5, 1), "offset": 7}),
        Case("a transposed matrix", lambda draw: {"index": (3, 1), "stride": (1, 6), "offset": 2}),
        Case("three axes", lambda draw: {"index": (1, 0, 3), "stride": (20, 5, 1), "offset": 3}),
        Case("a stretched axis", lambda draw: {"index": (4, 2), "stride": (0, 1), "offset": 1}),
        Case("no axes", lambda draw: {"index": (), "stride": (), "offset": 6}, extreme=True),
    ],
    oracle=lambda index, stride, offset: int(
        torch.arange(1000).as_strided([i + 1 for i in index], stride, offset)[index]
    ),
    rules=Rules(forbids=("as_strided", "item")),
    mistakes=[
        Mistake(
            "offset forgotten",
            "The offset is missing: it is where element [0, 0, …] lies, and everything is counted from there.",
            lambda index, stride, offset: sum(i * s for i, s in zip(index, stride, strict=True)),
        ),
        Mistake(
            "offset at every axis",
            "The offset is added once for each axis: it belongs to the tensor, add it once.",
            lambda index, stride, offset: sum(offset + i * s for i, s in zip(index, stride, strict=True)),
        ),
        Mistake(
            "strides reversed",
            "Index and strides are paired in opposite order: index[k] goes with stride[k].",
            lambda index, stride, offset: (
                offset + sum(i * s for i, s in zip(index, stride[::-1], strict=True))
            ),
        ),
        Mistake(
            "strides ignored",
            "The index is added up without its strides: one step along axis k moves stride[k] places.",
            lambda index, stride, offset: offset + sum(index),
        ),
        Mistake(
            "counted from 1",
            "This is one too far: indices and positions both start at 0.",
            lambda index, stride, offset: offset + sum(i * s for i, s in zip(index, stride, strict=True)) + 1,
        ),
        Mistake(
            "two axes only",
            "Only the first two axes are counted: an index may have any number of them.",
            lambda index, stride, offset: offset + index[0] * stride[0] + index[1] * stride[1],
        ),
        Mistake(
            "returned too early",
            "`return` stands inside the loop and ends it after the first axis: move it to the left.",
            _position_of_first_axis,
        ),
    ],
    hints=(
        "Where does x[0, 0] lie? Now take one step along each axis in turn.",
        "Each axis contributes index times stride; the offset is added once.",
        "return offset + sum(i * s for i, s in zip(index, stride))",
    ),
    passed="This one line is all the addressing there is: every view below only changes its three ingredients.",
    equivalent=(
        Equivalent(
            before="return offset + sum(i * s for i, s in zip(index, stride, strict=True))",
            after="return offset + sum(i * s for i, s in zip(stride, index, strict=True))",
            reason="the two names are exchanged, and the product does not depend on their order",
        ),
    ),
)
