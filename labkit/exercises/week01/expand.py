"""Stretch axes of size 1 with a stride of 0."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week01.shared import row_major
from labkit.lazy import torch

exercise = Implement(
    title="Broadcast with a stride of 0",
    minutes=10,
    needs=("w01.broadcast_shape", "w01.windows"),
    cases=[
        Case("a row", lambda draw: {"x": draw.normal(3), "shape": (4, 3)}),
        Case("a column", lambda draw: {"x": draw.normal(4, 1), "shape": (4, 5)}),
        Case("both", lambda draw: {"x": draw.normal(2, 1, 3), "shape": (5, 2, 4, 3)}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(3, 2), "shape": (4, 3, 2)}),
        Case("nothing to do", lambda draw: {"x": draw.normal(2, 5), "shape": (2, 5)}),
        Case("one number", lambda draw: {"x": draw.normal(1), "shape": (3, 2)}, extreme=True),
    ],
    oracle=lambda x, shape: x.expand(shape),
    memory="view",
    rules=Rules(forbids=("expand", "broadcast_to", "expand_as", "broadcast_tensors", "repeat", "tile")),
    mistakes=[
        Mistake(
            "size 1 keeps its stride",
            "Only the missing axes got a stride of 0: an axis of size 1 that is stretched needs it as well.",
            lambda x, shape: torch.as_strided(x, shape, (0,) * (len(shape) - x.dim()) + x.stride()),
        ),
        Mistake(
            "fresh strides",
            "The strides are those of a contiguous tensor; ask x for its own with x.stride().",
            lambda x, shape: torch.as_strided(
                x,
                shape,
                (0,) * (len(shape) - x.dim())
                + tuple(0 if n == 1 else s for n, s in zip(x.shape, row_major(x.shape), strict=True)),
            ),
        ),
        Mistake(
            "aligned left",
            "The zeros are on the wrong side: axes that x lacks are added at the front.",
            lambda x, shape: torch.as_strided(
                x,
                shape,
                tuple(0 if n == 1 else s for n, s in zip(x.shape, x.stride(), strict=True))
                + (0,) * (len(shape) - x.dim()),
            ),
        ),
        Mistake(
            "copied",
            "The values are right, but every repeat was stored: with a stride of 0 nothing is.",
            lambda x, shape: x + torch.zeros(shape, dtype=x.dtype),
        ),
        Mistake(
            "missing axes left out",
            "x has fewer axes than the shape: each that is missing needs a stride of 0 at the front.",
            lambda x, shape: torch.as_strided(
                x, shape, tuple(0 if n == 1 else s for n, s in zip(x.shape, x.stride(), strict=True))
            ),
        ),
        Mistake(
            "every stride 0",
            "All strides are 0, so the first element is read everywhere: axes that are not stretched keep theirs.",
            lambda x, shape: torch.as_strided(x, shape, (0,) * len(shape)),
        ),
    ],
    hints=(
        "Which stride reads the same element again and again?",
        "An axis that x lacks, or that has size 1 in x, gets stride 0; the others keep x.stride().",
        "Pad x.shape with 1s and x.stride() with 0s on the left; then 0 where the size is 1, and as_strided.",
    ),
    passed="A stride of 0 makes a million copies of a row cost nothing. `x.expand` is torch's name for it.",
)
