"""Predict which operations share memory with their input and which copy."""

import numpy as np

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import torch


def _matrix():
    return torch.arange(12).reshape(3, 4)


def _shares(make):
    def truth():
        x = _matrix()
        return bool(np.shares_memory(x.numpy(), np.asarray(make(x))))

    return truth


exercise = Predict(
    title="Which of these share memory?",
    minutes=6,
    needs=("w01.position",),
    items={
        "a": Item("`x.T`", _shares(lambda x: x.T)),
        "b": Item("`x[1]`", _shares(lambda x: x[1])),
        "c": Item("`x[:, [0, 2]]`", _shares(lambda x: x[:, [0, 2]])),
        "d": Item("`x.reshape(2, 6)`", _shares(lambda x: x.reshape(2, 6))),
        "e": Item("`x.T.reshape(12)`", _shares(lambda x: x.T.reshape(12))),
        "f": Item("`x[x > 5]`", _shares(lambda x: x[x > 5])),
        "g": Item("`x.numpy()`", _shares(lambda x: x.numpy())),
        "h": Item("`x + 0`", _shares(lambda x: x + 0)),
    },
    mistakes=[
        Mistake("transpose copies", "a: a transpose only swaps two strides; no number moves.", {"a": False}),
        Mistake("row copies", "b: a row is the same storage read from a later offset.", {"b": False}),
        Mistake(
            "list of columns",
            "c: a list of indices can be any pattern, and a stride cannot; torch gathers it into new memory.",
            {"c": True},
        ),
        Mistake(
            "reshape copies", "d: x is contiguous, so reshape only changes shape and strides.", {"d": False}
        ),
        Mistake(
            "reshape never copies",
            "e: no stride walks the columns of x one after the other, so reshape has to copy here.",
            {"e": True},
        ),
        Mistake(
            "mask is a view", "f: a mask picks an irregular pattern; the result is new memory.", {"f": True}
        ),
        Mistake("numpy copies", "g: `numpy()` shares memory with the tensor, both ways.", {"g": False}),
        Mistake(
            "adding zero", "h: arithmetic always makes a new tensor, even when nothing changes.", {"h": True}
        ),
    ],
    hints=(
        "Can the result be described by a shape, strides and an offset into the storage of x?",
        "Transposes, slices and reshapes of a contiguous tensor can. Lists, masks and arithmetic cannot.",
        "a, b, d and g share. For e: read x.T row by row and look at the positions you visit.",
    ),
    passed="What can be said with shape, strides and offset is free; everything else pays for a copy.",
)
