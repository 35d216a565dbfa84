"""A mean that divides by n - 1: name the fault, then mend it."""

from labkit.exercises.declare import Case, Fix, Mistake, Rules
from labkit.lazy import torch


def _broken_average(values):
    total = 0.0
    for value in values:
        total = total + value
    return total / (len(values) - 1)


exercise = Fix(
    title="Find the fault",
    minutes=6,
    needs=("w00.shapes",),
    engine="python",
    cases=[
        Case("three numbers", lambda draw: {"values": [2.0, 4.0, 9.0]}),
        Case("two numbers", lambda draw: {"values": [1.5, -2.0]}),
        Case("one number", lambda draw: {"values": [7.25]}, extreme=True),
    ],
    oracle=lambda values: float(torch.tensor(values, dtype=torch.float64).mean()),
    rules=Rules(forbids=("mean", "fmean", "average")),
    broken=_broken_average,
    fault="divides by n - 1",
    menu={
        "divides by n - 1": "",
        "skips the first value": "Add [2, 4, 9] up by hand: the total is 15, so none is skipped.",
        "integer division": "`/` divides floats. `//` would be the integer division; it is not here.",
    },
    mistakes=[
        Mistake(
            "divides by n + 1",
            "There are len(values) numbers, no more: divide by len(values).",
            lambda values: sum(values) / (len(values) + 1),
        ),
        Mistake(
            "sum",
            "This is the sum: it still has to be divided by how many there are.",
            lambda values: sum(values),
        ),
        Mistake("integer division", "`//` rounds down. Use `/`.", lambda values: sum(values) // len(values)),
        Mistake(
            "cut off",
            "The result is made a whole number, and the mean need not be one: leave out `int` or `round`.",
            lambda values: int(sum(values) / len(values)),
        ),
        Mistake(
            "returned too early",
            "`return` stands inside the loop and ends it after the first value: move it to the left.",
            lambda values: values[0] / len(values),
        ),
    ],
    hints=(
        "Work out [2, 4, 9] by hand and compare with what the function returns.",
        "The total is right. Look at what it is divided by.",
        'Divide by `len(values)`, and set fault = "divides by n - 1".',
    ),
    passed="Naming a fault before mending it is a habit worth training: a fix without a name comes back.",
    excused={"size one": "inputs are lists", "not contiguous": "inputs are lists"},
)
