"""Predict which dtype comes out when dtypes meet."""

import numpy as np

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import torch


def _dtype_of(make):
    """The dtype of an expression as text, or the word "error"."""

    def truth():
        i, h, f = torch.tensor([1, 2]), torch.ones(2, dtype=torch.float16), torch.ones(2)
        try:
            return str(make(i, h, f).dtype).removeprefix("torch.")
        except RuntimeError:
            return "error"

    return truth


exercise = Predict(
    title="Which dtype comes out?",
    minutes=8,
    items={
        "a": Item("`i`", _dtype_of(lambda i, h, f: i)),
        "b": Item("`i / 2`", _dtype_of(lambda i, h, f: i / 2)),
        "c": Item("`i // 2`", _dtype_of(lambda i, h, f: i // 2)),
        "d": Item("`i * 2.5`", _dtype_of(lambda i, h, f: i * 2.5)),
        "e": Item("`h * f`", _dtype_of(lambda i, h, f: h * f)),
        "f": Item(
            "`f + torch.from_numpy(np.ones(2))`", _dtype_of(lambda i, h, f: f + torch.from_numpy(np.ones(2)))
        ),
        "g": Item(
            "`f + torch.tensor(1.0, dtype=torch.float64)`",
            _dtype_of(lambda i, h, f: f + torch.tensor(1.0, dtype=torch.float64)),
        ),
        "h": Item(
            "`torch.tensor([True, False]).sum()`",
            _dtype_of(lambda i, h, f: torch.tensor([True, False]).sum()),
        ),
        "i": Item("`i += 0.5`", _dtype_of(lambda i, h, f: i.add_(0.5))),
    },
    mistakes=[
        Mistake("whole numbers are floats", "a: a list of whole numbers makes int64.", {"a": "float32"}),
        Mistake("32 bits", "a: whole numbers get 64 bits, so that they can count anything.", {"a": "int32"}),
        Mistake("division stays whole", "b: `/` makes floats, whatever it divides.", {"b": "int64"}),
        Mistake(
            "division is double",
            "b: floats made from whole numbers get the default dtype, float32. float64 is NumPy's habit.",
            {"b": "float64"},
        ),
        Mistake("floor makes floats", "c: `//` rounds down and stays in the family.", {"c": "float32"}),
        Mistake(
            "tensor wins",
            "d: floats are the higher family, so even a plain 2.5 makes the result a float.",
            {"d": "int64"},
        ),
        Mistake(
            "Python's float",
            "d: a plain number says which family, never how wide: you get the default float32.",
            {"d": "float64"},
        ),
        Mistake("narrow wins", "e: both have axes, so the wider dtype wins.", {"e": "float16"}),
        Mistake(
            "torch's default wins",
            "f: NumPy makes float64, and both tensors have axes: the wider wins.",
            {"f": "float32"},
        ),
        Mistake(
            "number widens",
            "g: a tensor without axes counts as a number: within its family it does not widen a vector.",
            {"g": "float64"},
        ),
        Mistake("truth values stay", "h: a sum of truth values counts them, in int64.", {"h": "bool"}),
        Mistake(
            "rounded in place",
            "i: torch does not round in silence here. The result would be a float, and i cannot hold one.",
            {"i": "int64"},
        ),
        Mistake(
            "grows in place",
            "i: `+=` writes into the memory of i, which holds int64; `i = i + 0.5` would make a new tensor.",
            {"i": "float32"},
        ),
        Mistake("dtypes clash", "e: two dtypes never clash, torch converts; two devices do.", {"e": "error"}),
    ],
    hints=(
        "For each: which family is the result in, bool, whole numbers or floats?",
        "Then the width: tensors with axes decide; a number or a tensor of shape () decides only if it brings a higher family.",
        "Four are float32 (b, d, e, g), three int64 (a, c, h), one float64, one an error.",
    ),
    passed="Numbers do not widen tensors, so a model in float16 stays in float16 when you write `x * 0.5`.",
)
