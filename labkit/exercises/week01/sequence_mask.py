"""A puzzle in one line: which steps of a padded batch are real."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="Puzzle: mask of sequence lengths",
    minutes=3,
    needs=("w01.broadcast_shape",),
    cases=[
        Case("three sequences", lambda draw: {"lengths": np.array([2, 5, 3]), "longest": 5}),
        Case("an empty sequence", lambda draw: {"lengths": np.array([4, 0]), "longest": 6}),
        Case(
            "not contiguous", lambda draw: {"lengths": np.array([1, 9, 3, 9, 2, 9, 4, 9])[::2], "longest": 4}
        ),
        Case("one", lambda draw: {"lengths": np.array([3]), "longest": 4}),
    ],
    oracle=lambda lengths, longest: torch.stack([torch.arange(longest) < n for n in lengths]),
    memory="any",
    rules=Rules(forbids=("stack", "pad_sequence"), allows=("arange",), loops=False),
    mistakes=[
        Mistake(
            "one too many",
            "One step too many is kept: position n is already outside a sequence of length n.",
            lambda lengths, longest: torch.arange(longest) <= lengths[:, None],
        ),
        Mistake(
            "inverted",
            "True and False are swapped: True means keep.",
            lambda lengths, longest: torch.arange(longest) >= lengths[:, None],
        ),
        Mistake(
            "transposed",
            "Sequences run down: one row for each.",
            lambda lengths, longest: torch.arange(longest)[:, None] < lengths,
        ),
        Mistake(
            "no table",
            "A row of lengths meets a row of steps: make the lengths a column, `lengths[:, None]`.",
            lambda lengths, longest: torch.arange(longest) < lengths,
        ),
    ],
    hints=(
        "Step t of a sequence of length n is real if t < n.",
        "Lengths as a column, steps as a row.",
        "return torch.arange(longest) < lengths[:, None]",
    ),
    passed="Padding masks for recurrent networks and attention are this line.",
)
