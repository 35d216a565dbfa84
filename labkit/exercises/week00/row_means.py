"""The mean of each row as a column, to read a failure about shapes."""

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.lazy import torch


def _row_means_of_columns(x):
    return x.mean(dim=0)


exercise = Implement(
    title="Read a shape failure",
    minutes=5,
    needs=("w00.answer",),
    cases=[
        Case("2 by 3", lambda draw: {"x": draw.normal(2, 3)}),
        Case("one row", lambda draw: {"x": draw.normal(1, 4)}),
        Case("5 by 2, not contiguous", lambda draw: {"x": draw.transposed(5, 2)}),
    ],
    oracle=lambda x: torch.mean(x, dim=1, keepdim=True),
    grads=("x",),
    mistakes=[
        Mistake(
            "wrong axis", "The mean runs down the columns: dim=0 is the axis of rows.", _row_means_of_columns
        ),
        Mistake(
            "axis dropped",
            "The averaged axis disappeared: `keepdim=True` keeps it with size 1, so that x - means lines up.",
            lambda x: x.mean(dim=1),
        ),
        Mistake(
            "wrong axis kept",
            "The mean runs down the columns: dim=0 is the axis of rows.",
            lambda x: x.mean(dim=0, keepdim=True),
        ),
        Mistake(
            "all of it",
            "This is the mean of the whole tensor: say which axis to average with dim=.",
            lambda x: x.mean(),
        ),
        Mistake(
            "sum", "These are sums: divide by the number of columns.", lambda x: x.sum(dim=1, keepdim=True)
        ),
        Mistake(
            "divided by rows",
            "The sums are divided by the number of rows, `len(x)`; a row has as many numbers as there are columns.",
            lambda x: x.sum(dim=1, keepdim=True) / len(x),
        ),
        Mistake(
            "a row",
            "The means lie in a row; a column, one mean below the other, lines up with the rows of x.",
            lambda x: x.mean(dim=1)[None],
        ),
    ],
    hints=(
        "The failure names both shapes. Which axis is missing from yours?",
        "`x.mean(dim=1)` averages along each row. `keepdim=True` keeps the averaged axis with size 1.",
        "return x.mean(dim=1, keepdim=True)",
    ),
    passed="Shape is compared before values, because (2,) and (2, 1) would broadcast and hide it.",
    excused={"delegation": "this exercise is about reading a failure; torch's own mean is the tool to use"},
)
