"""Predict three shapes before running them."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import torch

exercise = Predict(
    title="Predict, then run",
    minutes=4,
    needs=("w00.row_means",),
    items={
        "a": Item(
            "`torch.zeros(2, 3) + torch.zeros(3)`",
            lambda: tuple((torch.zeros(2, 3) + torch.zeros(3)).shape),
        ),
        "b": Item("`torch.zeros(2, 3).sum(dim=0)`", lambda: tuple(torch.zeros(2, 3).sum(dim=0).shape)),
        "c": Item(
            "`torch.zeros(4, 1) * torch.zeros(1, 5)`",
            lambda: tuple((torch.zeros(4, 1) * torch.zeros(1, 5)).shape),
        ),
    },
    mistakes=[
        Mistake(
            "keeps its own",
            "In a, the smaller shape is stretched to the larger one; the result is as large as both.",
            {"a": (3,)},
        ),
        Mistake(
            "refused",
            "In a, (3,) stands under the 3 of (2, 3): they fit, and the row is added to both rows.",
            {"a": "error"},
        ),
        Mistake(
            "text",
            "In a, the shape is in quotes, which makes it text: write (2, 3) without quotes.",
            {"a": "(2, 3)"},
        ),
        Mistake(
            "comma forgotten",
            "In b, `(3)` is the number 3. A tuple of one needs its comma: `(3,)`.",
            {"b": 3},
        ),
        Mistake(
            "axis kept",
            "In b, the summed axis disappears; it stays with size 1 only if you ask with keepdim=True.",
            {"b": (1, 3)},
        ),
        Mistake(
            "sums rows",
            "In b, dim=0 is the axis that disappears: three columns are left, each a sum of two rows.",
            {"b": (2,)},
        ),
        Mistake(
            "matrix product",
            "In c, `*` multiplies element by element and stretches both axes; it is not a matrix product.",
            {"c": (4, 4)},
        ),
        Mistake(
            "unstretched",
            "In c, an axis of size 1 is stretched to match the other tensor's axis.",
            {"c": (4, 1)},
        ),
    ],
    hints=(
        "Write the shapes under each other, aligned at the right.",
        "An axis of size 1, or a missing one, stretches to the other's size. `sum(dim=k)` removes axis k.",
        '{"a": (2, 3), "b": (3,), "c": (4, 5)}',
    ),
    passed="What counts later is your first try: `make progress` compares it with how sure you were.",
)
