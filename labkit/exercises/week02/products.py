"""Predict the shapes of products with a Jacobian, and how many of them give all of it."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.exercises.week02.shared import Formula
from labkit.lazy import torch


def _jacobian_shape():
    f = Formula("x[:2] * x[2]")
    return tuple(torch.autograd.functional.jacobian(f, torch.arange(3.0)).shape)


def _rows_needed(outputs):
    """One vector-Jacobian product gives one row of the Jacobian."""
    return lambda: outputs


def _nonzero():
    jacobian = torch.autograd.functional.jacobian(lambda x: x * x, torch.arange(1.0, 1001.0))
    return int((jacobian != 0).sum())


exercise = Predict(
    title="Which product?",
    minutes=8,
    needs=("w02.backward",),
    items={
        "a": Item("`f` takes 3 numbers and returns 2. The shape of its Jacobian?", _jacobian_shape),
        "b": Item("The shape of `v` in `J @ v`?", lambda: _jacobian_shape()[1:]),
        "c": Item("The shape of `g` in `g @ J`?", lambda: _jacobian_shape()[:1]),
        "d": Item("The shape of `g @ J`?", lambda: (torch.zeros(2) @ torch.zeros(_jacobian_shape())).shape),
        "e": Item(
            "A network has 1,000,000 weights and one loss. How many products `g @ J` give the slope by every weight?",
            _rows_needed(1),
        ),
        "f": Item("How many products `J @ v` would it take?", _rows_needed(1_000_000)),
        "g": Item(
            'A function takes 5 numbers and returns 10,000. Which gives its whole Jacobian in fewer products, `"J @ v"` or `"g @ J"`?',
            lambda: "J @ v",
        ),
        "h": Item(
            "`y = x * x` for 1,000 numbers: how many of the 1,000,000 entries of its Jacobian are not zero?",
            _nonzero,
        ),
    },
    mistakes=[
        Mistake("transposed", "a: one row for each output, one column for each input.", {"a": (3, 2)}),
        Mistake("v is an output", "b: v is a change of the inputs, and there are 3 of them.", {"b": (2,)}),
        Mistake("g is an input", "c: g holds one slope for each output, and there are 2.", {"c": (3,)}),
        Mistake(
            "still an output", "d: g @ J goes back to the inputs: one slope for each of them.", {"d": (2,)}
        ),
        Mistake(
            "one for each weight",
            "e: the Jacobian has a single row, and one product g @ J gives a whole row.",
            {"e": 1_000_000},
        ),
        Mistake(
            "one is enough",
            "f: one product J @ v gives the slope in one direction: a single column for each weight.",
            {"f": 1},
        ),
        Mistake(
            "backward is always cheaper",
            "g: with few inputs and many outputs it is the other way around: 5 products J @ v, or 10,000 of the other.",
            {"g": "g @ J"},
        ),
        Mistake(
            "all of them",
            "h: each output depends on one input only: the million entries are a diagonal and zeros.",
            {"h": 1_000_000},
        ),
    ],
    hints=(
        "The Jacobian has one row per output and one column per input.",
        "g @ J needs a g with one number per output, and gives one row for g = (0, ..., 1, ..., 0).",
        "A loss is one output: its Jacobian is one row, and backward gives it at once.",
    ),
    passed="Training has one output and millions of inputs: that is why deep learning runs backward.",
)
