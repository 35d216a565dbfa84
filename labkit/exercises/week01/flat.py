"""Flatten a batch of images and bring it back to its shape."""

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.lazy import torch


def _in_storage_order(x):
    """Reads the storage as it lies, whatever the strides say."""
    row = torch.as_strided(x, (x.numel(),), (1,))
    return row, row.reshape(x.shape)


exercise = Implement(
    title="There and back, from memory",
    minutes=5,
    needs=("w01.reshape",),
    cases=[
        Case("10 by 5", lambda draw: {"x": draw.normal(10, 5)}),
        Case("2 by 3", lambda draw: {"x": draw.normal(2, 3)}),
        Case("transposed", lambda draw: {"x": draw.transposed(4, 3)}),
        Case("one column", lambda draw: {"x": draw.normal(6, 1)}),
        Case("no rows", lambda draw: {"x": draw.normal(0, 4)}),
    ],
    oracle=lambda x: (torch.flatten(x), torch.flatten(x).reshape(x.shape)),
    grads=("x",),
    memory="any",
    mistakes=[
        Mistake(
            "view",
            "`view` refuses a transposed matrix, because its rows do not follow each other in storage. `reshape` copies there.",
            lambda x: (x.view(-1), x.view(-1).view(x.shape)),
        ),
        Mistake(
            "shape turned",
            "The row is right; on the way back rows and columns have changed places: give it x.shape.",
            lambda x: (x.reshape(-1), x.reshape(-1).reshape(x.shape[::-1])),
        ),
        Mistake(
            "column by column",
            "The row is taken column by column. Row by row is the order in which `reshape` reads.",
            lambda x: (x.T.reshape(-1), x.T.reshape(-1).reshape(x.shape)),
        ),
        Mistake(
            "sizes written down",
            "The sizes 50, 10 and 5 are written into the code: ask x for its shape, and let -1 stand for the rest.",
            lambda x: (x.reshape(50), x.reshape(50).reshape(10, 5)),
        ),
        Mistake(
            "still two axes",
            "`reshape(1, -1)` has two axes, one of size 1. A row of shape (n,) has one: `reshape(-1)`.",
            lambda x: (x.reshape(1, -1), x.reshape(1, -1).reshape(x.shape)),
        ),
        Mistake(
            "storage order",
            "The numbers are read as they lie in storage; a transposed matrix has another order there.",
            _in_storage_order,
        ),
        Mistake(
            "-1 on the way back",
            "With no rows, -1 could stand for any number of columns, and torch refuses to guess: give it x.shape.",
            lambda x: (x.reshape(-1), x.reshape(-1).reshape(x.shape[0], -1)),
        ),
        Mistake(
            "row alone",
            "Only the row comes back: return two tensors, the row and the matrix made from it.",
            lambda x: x.reshape(-1),
        ),
    ],
    hints=(
        "It is one method, called twice.",
        "`x.reshape(-1)` flattens; `.reshape(x.shape)` brings the old shape back.",
        "row = x.reshape(-1); return row, row.reshape(x.shape)",
    ),
    passed="`flatten(1)` does the same from axis 1 on and keeps the batch: you will see it before every linear layer.",
    excused={"delegation": "torch's own reshape is the thing to know by heart"},
)
