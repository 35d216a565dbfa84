"""Reorder the axes of a tensor without copying."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week01.shared import row_major
from labkit.lazy import torch


def _permute_inverse(shape, stride, order):
    places = [order.index(axis) for axis in range(len(order))]
    return tuple(shape[p] for p in places), tuple(stride[p] for p in places)


exercise = Implement(
    title="Permute without copying",
    minutes=6,
    needs=("w01.position",),
    engine="python",
    cases=[
        Case("a matrix", lambda draw: {"shape": (2, 3), "stride": (3, 1), "order": (1, 0)}),
        Case(
            "three axes, turned", lambda draw: {"shape": (2, 3, 4), "stride": (12, 4, 1), "order": (1, 2, 0)}
        ),
        Case(
            "channels last",
            lambda draw: {"shape": (8, 3, 5, 6), "stride": (90, 30, 6, 1), "order": (0, 2, 3, 1)},
        ),
        Case("a view of a view", lambda draw: {"shape": (4, 1, 3), "stride": (1, 7, 8), "order": (2, 0, 1)}),
    ],
    oracle=lambda shape, stride, order: (
        tuple(torch.empty_strided(shape, stride).permute(order).shape),
        torch.empty_strided(shape, stride).permute(order).stride(),
    ),
    rules=Rules(forbids=("permute", "transpose", "stride")),
    mistakes=[
        Mistake(
            "only the shape",
            "The shape is permuted and the strides are not, so the axes now walk through the wrong elements.",
            lambda shape, stride, order: (tuple(shape[k] for k in order), tuple(stride)),
        ),
        Mistake(
            "strides made new",
            "The strides are those of a fresh contiguous tensor: that would be true only after a copy.",
            lambda shape, stride, order: (
                tuple(shape[k] for k in order),
                row_major(tuple(shape[k] for k in order)),
            ),
        ),
        Mistake(
            "inverse order",
            "The order is applied backward: order[k] says which old axis becomes the new axis k.",
            _permute_inverse,
        ),
        Mistake(
            "always reversed",
            "All axes are reversed whatever `order` says: that is right only for a matrix.",
            lambda shape, stride, order: (tuple(shape[::-1]), tuple(stride[::-1])),
        ),
        Mistake(
            "shape alone",
            "Only the new shape comes back: return two tuples, the new shape and the new strides.",
            lambda shape, stride, order: tuple(shape[k] for k in order),
        ),
        Mistake(
            "joined",
            "Shape and strides come back as one long tuple: put a comma between the two, not a `+`.",
            lambda shape, stride, order: (*(shape[k] for k in order), *(stride[k] for k in order)),
        ),
    ],
    hints=(
        "The numbers stay where they are. Which two tuples have to change?",
        "The new axis k is the old axis order[k]: take its size and its stride with it.",
        "tuple(shape[k] for k in order), and the same for stride",
    ),
    passed="A transpose costs the same for ten numbers and for ten billion: two tuples are reordered.",
)
