"""Week 0: how the course works. Four exercises that teach the checks rather than tensors."""

from labkit.exercises.declare import Case, Fix, Implement, Item, Mistake, Predict, Rules
from labkit.lazy import torch

answer = Implement(
    id="w00.answer",
    title="Return a constant",
    minutes=2,
    level=1,
    engine="python",
    cases=[Case("answer()", lambda draw: {})],
    oracle=lambda: 42,
    reference="the page",
    mistakes=[
        Mistake(
            "not returned",
            "Nothing is handed back: `print(42)`, or a line with 42 alone, leaves None. `return 42` hands it back.",
            lambda: None,
        ),
        Mistake("string", 'The number is in quotes: `"42"` is text, 42 is a number.', lambda: "42"),
        Mistake("off by one", "41 is one short: the page asks for 42.", lambda: 41),
    ],
    hints=(
        "A function hands its result back with the word `return`.",
        "Replace the line that says `raise NotImplementedError` with one line that starts with `return`.",
        "return 42",
    ),
    passed="You have seen a pass. `make check` runs every check of the course again, from a fresh start.",
    lint={"size one": "there is no input", "not contiguous": "there is no input"},
)


def _row_means_of_columns(x):
    return x.mean(dim=0)


row_means = Implement(
    id="w00.row_means",
    title="Read a shape failure",
    minutes=5,
    level=1,
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
    lint={"delegation": "this exercise is about reading a failure; torch's own mean is the tool to use"},
)

shapes = Predict(
    id="w00.shapes",
    title="Predict, then run",
    minutes=4,
    level=1,
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


def _broken_average(values):
    total = 0.0
    for value in values:
        total = total + value
    return total / (len(values) - 1)


average = Fix(
    id="w00.average",
    title="Find the fault",
    minutes=6,
    level=1,
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
    lint={"size one": "inputs are lists", "not contiguous": "inputs are lists"},
)
