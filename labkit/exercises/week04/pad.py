"""Collate sequences of unequal length into one padded batch."""

import numpy as np

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, Rules
from labkit.lazy import torch


def _pad(sequences, value):
    padded = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=value)
    return padded, torch.tensor([len(s) for s in sequences])


def _pad_left(sequences, value):
    table, lengths = _pad(sequences, value)
    table = torch.full_like(table, value)
    for row, sequence in zip(table, sequences, strict=True):
        row[-len(sequence) :] = sequence
    return table, lengths


def _pad_float(sequences, value):
    padded, lengths = _pad(sequences, value)
    return padded.float() if not padded.is_floating_point() else padded.long(), lengths


exercise = Implement(
    title="Collate: sequences of unequal length",
    minutes=8,
    needs=("w04.batches",),
    cases=[
        Case(
            "three words",
            lambda draw: {"sequences": [draw.integers(1, 9, n) for n in (2, 5, 3)], "value": 0},
        ),
        Case(
            "floats and another value",
            lambda draw: {"sequences": [draw.normal(4), draw.normal(1)], "value": -1},
        ),
        Case(
            "not contiguous",
            lambda draw: {
                "sequences": [draw.strided(3), draw.strided(6), draw.normal(2), draw.normal(5)],
                "value": 7,
            },
        ),
        Case(
            "the value occurs in the data",
            lambda draw: {
                "sequences": [np.array([4, 0, 2]), np.array([0, 0, 7, 1]), np.array([0])],
                "value": 0,
            },
        ),
        Case("a single sequence", lambda draw: {"sequences": [draw.integers(1, 9, 4)], "value": 0}),
        Case(
            "one of them empty",
            lambda draw: {"sequences": [draw.integers(1, 9, 3), draw.integers(1, 9, 0)], "value": 0},
            extreme=True,
        ),
    ],
    oracle=_pad,
    rules=Rules(
        forbids=(
            *("pad_sequence", "nested_tensor", "as_nested_tensor"),
            *("to_padded_tensor", "pack_sequence", "pad_packed_sequence", "default_collate"),
        )
    ),
    mistakes=[
        Mistake(
            "padded on the left",
            "The values stand at the right end of each row. Fill up behind them.",
            _pad_left,
        ),
        Mistake(
            "cut to the shortest",
            "All sequences are cut to the shortest one; nothing may be lost.",
            lambda sequences, value: _pad([s[: min(map(len, sequences))] for s in sequences], value),
        ),
        Mistake(
            "time first",
            "Rows and columns are swapped: one row per sequence. (torch's default is the other way.)",
            lambda sequences, value: (_pad(sequences, value)[0].T, _pad(sequences, value)[1]),
        ),
        Mistake(
            "padded with zeros",
            "The rest is filled with 0, whatever `value` says.",
            lambda sequences, value: _pad(sequences, 0),
        ),
        Mistake(
            "dtype lost",
            "The dtype changed on the way: make the padded tensor with `dtype=sequences[0].dtype`.",
            _pad_float,
        ),
        Mistake(
            "padded lengths",
            "The lengths are those after padding, all the same: say how long each sequence really is.",
            lambda sequences, value: (
                _pad(sequences, value)[0],
                torch.full((len(sequences),), max(map(len, sequences))),
            ),
        ),
        Mistake(
            "lengths counted in the table",
            "The lengths count what is not `value` in the table; the value may occur in the data. Ask each sequence.",
            lambda sequences, value: (
                _pad(sequences, value)[0],
                (_pad(sequences, value)[0] != value).sum(1),
            ),
        ),
        Mistake(
            "lengths first",
            "The lengths come first; the table comes first, then the lengths.",
            lambda sequences, value: _pad(sequences, value)[::-1],
        ),
        Mistake(
            "dtype of the value",
            "The table has the dtype of `value`: make it with `dtype=sequences[0].dtype`.",
            lambda sequences, value: (_pad(sequences, value)[0].long(), _pad(sequences, value)[1]),
        ),
        Mistake(
            "cut, and measured before",
            "All sequences are cut to the shortest one; nothing may be lost.",
            lambda sequences, value: (
                torch.stack([s[: min(map(len, sequences))] for s in sequences]),
                _pad(sequences, value)[1],
            ),
        ),
        Mistake(
            "sorted by length",
            "The sequences were sorted by length, and no longer belong to their labels. Keep their order.",
            lambda sequences, value: _pad(sorted(sequences, key=len, reverse=True), value),
        ),
    ],
    hints=(
        "Make the full table first, filled with `value`, then copy each sequence into its row.",
        "`torch.full((rows, longest), value, dtype=...)`, then `padded[i, : len(s)] = s` for each.",
        "lengths = torch.tensor([len(s) for s in sequences]); padded = torch.full((len(sequences), max(lengths)), value, dtype=sequences[0].dtype)",
    ),
    passed="Keep the lengths: without them nobody can tell padding from data, and week 6 shows what happens then.",
    equivalent=(
        Equivalent(
            before="padded = torch.full((len(sequences), int(lengths.max())), value, dtype=sequences[0].dtype)",
            after="padded = torch.full((len(sequences), int(lengths.max())), value, dtype=sequences[-1].dtype)",
            reason="the sequences of a batch have one dtype: the first and the last have the same",
        ),
    ),
)
