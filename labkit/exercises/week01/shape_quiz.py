"""Predict twelve shapes of broadcasts, reductions and products."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import torch


def _shape_of(make):
    """The shape of an expression, or the word "error"."""

    def truth():
        try:
            return tuple(make(lambda *shape: torch.zeros(shape)).shape)
        except (RuntimeError, IndexError):
            return "error"

    return truth


exercise = Predict(
    title="Twelve shapes",
    minutes=10,
    needs=("w01.broadcast_shape",),
    items={
        "a": Item("`z(3, 4) + z(4)`", _shape_of(lambda z: z(3, 4) + z(4))),
        "b": Item("`z(3, 4) + z(3)`", _shape_of(lambda z: z(3, 4) + z(3))),
        "c": Item("`z(3, 4) + z(3, 1)`", _shape_of(lambda z: z(3, 4) + z(3, 1))),
        "d": Item("`z(5) - z(5, 1)`", _shape_of(lambda z: z(5) - z(5, 1))),
        "e": Item("`z(2, 1, 4) * z(3, 1)`", _shape_of(lambda z: z(2, 1, 4) * z(3, 1))),
        "f": Item("`z(2, 3, 4).sum(dim=1)`", _shape_of(lambda z: z(2, 3, 4).sum(dim=1))),
        "g": Item("`z(2, 3, 4).mean(dim=(0, 2))`", _shape_of(lambda z: z(2, 3, 4).mean(dim=(0, 2)))),
        "h": Item(
            "`z(2, 3, 4).sum(dim=-1, keepdim=True)`",
            _shape_of(lambda z: z(2, 3, 4).sum(dim=-1, keepdim=True)),
        ),
        "i": Item("`z(2, 3) @ z(3, 5)`", _shape_of(lambda z: z(2, 3) @ z(3, 5))),
        "j": Item("`z(7, 2, 3) @ z(3)`", _shape_of(lambda z: z(7, 2, 3) @ z(3))),
        "k": Item("`z(6, 4)[:, None, 1]`", _shape_of(lambda z: z(6, 4)[:, None, 1])),
        "l": Item("`z(3, 4) / z(3, 4).norm(dim=1)`", _shape_of(lambda z: z(3, 4) / z(3, 4).norm(dim=1))),
    },
    mistakes=[
        Mistake(
            "left alignment",
            "b: 3 stands under 4, because shapes are aligned at the right. They do not fit.",
            {"b": (3, 4)},
        ),
        Mistake("no stretching", "c: the axis of size 1 stretches to 4.", {"c": "error"}),
        Mistake("vector minus column", "d: a row minus a column is a table of all differences.", {"d": (5,)}),
        Mistake(
            "column stays",
            "d: the row is stretched down and the column is stretched to the right.",
            {"d": (5, 1)},
        ),
        Mistake(
            "two axes win",
            "e: the missing axis of the second is added at the front: 1 stretches to 2.",
            {"e": (3, 4)},
        ),
        Mistake("wrong axis gone", "f: dim=1 is the axis that disappears.", {"f": (2, 3)}),
        Mistake("axes kept", "g: both named axes disappear; only axis 1 is left.", {"g": (2, 4)}),
        Mistake("keepdim forgotten", "h: keepdim=True leaves the summed axis with size 1.", {"h": (2, 3)}),
        Mistake(
            "column vector",
            "j: a vector on the right loses its axis: each of the seven results is a vector of 2.",
            {"j": (7, 2, 1)},
        ),
        Mistake(
            "index keeps the axis",
            "k: an integer index removes its axis, None adds one before it.",
            {"k": (6, 1, 1)},
        ),
        Mistake(
            "norm lines up",
            "l: the norms have shape (3,), and 3 stands under 4. keepdim=True would mend it.",
            {"l": (3, 4)},
        ),
        Mistake(
            "row refused", "a: 4 stands under 4, and the missing axis counts as 1. They fit.", {"a": "error"}
        ),
        Mistake(
            "unequal refused",
            "e: aligned at the right it is 1 under 4, 3 under 1, and a missing axis under 2. Every pair fits.",
            {"e": "error"},
        ),
        Mistake("kept unasked", "f: without keepdim=True the summed axis disappears.", {"f": (2, 1, 4)}),
        Mistake(
            "comma forgotten", "g: `(3)` is the number 3. A tuple of one needs its comma: `(3,)`.", {"g": 3}
        ),
        Mistake(
            "vector refused",
            "j: `@` accepts a vector on the right: 3 meets 3, in each of the seven matrices.",
            {"j": "error"},
        ),
        Mistake(
            "None overlooked", "k: the index 1 removes an axis, and None adds one of size 1.", {"k": (6,)}
        ),
        Mistake(
            "index overlooked", "k: None adds an axis; the index 1 removes the last one.", {"k": (6, 1, 4)}
        ),
    ],
    hints=(
        "Write each pair of shapes under each other, aligned at the right.",
        "A reduction removes the axes it names; keepdim=True leaves them with size 1. `@` contracts the last axis of the left one.",
        "Two of them are errors: b and l.",
    ),
    passed="Item l is the classic: normalizing rows without keepdim. On a square matrix it would even run.",
)
