"""Positions as sines and cosines of many wavelengths."""

import numpy as np

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake
from labkit.exercises.week07.shared import angles_of, sinusoids, woven
from labkit.lazy import torch


def _own_frequencies(positions, width):
    columns = torch.arange(width, dtype=positions.dtype)
    angles = positions[:, None] / 10000 ** (columns / width)
    return woven(angles[:, ::2].sin(), angles[:, 1::2].cos())


def _at(positions, width, make=lambda values: values):
    return lambda draw: {"positions": make(np.array(positions, dtype=draw.dtype)), "width": width}


exercise = Implement(
    title="A clock with many hands",
    minutes=8,
    also=(
        "positional encoding",
        "position embedding",
    ),
    reduces=1000,
    cases=[
        Case("5 positions, width 6", _at([0, 1, 2, 3, 4], 6)),
        Case("7 positions, width 4", _at([0, 1, 2, 3, 4, 5, 6], 4)),
        Case("far away, width 8", _at([12, 30, 47], 8)),
        Case("not contiguous", _at([3, 9, 1, 9, 8, 9], 10, lambda values: values[::2])),
        Case("one position, width 2", _at([5], 2), extreme=True),
    ],
    oracle=sinusoids,
    reference="the formula",
    mistakes=[
        Mistake(
            "halves",
            "All sines first, then all cosines. Here they alternate: sine in the even columns, cosine in the odd ones.",
            lambda positions, width: torch.cat(
                [angles_of(positions, width).sin(), angles_of(positions, width).cos()], -1
            ),
        ),
        Mistake(
            "cosine first",
            "Sine and cosine are exchanged: the even columns are sines.",
            lambda positions, width: woven(
                angles_of(positions, width).cos(), angles_of(positions, width).sin()
            ),
        ),
        Mistake(
            "slowed by half",
            "The exponent is i / width; it is 2i / width, with i counting the pairs.",
            lambda positions, width: woven(
                angles_of(positions, width, power=1.0).sin(), angles_of(positions, width, power=1.0).cos()
            ),
        ),
        Mistake(
            "a frequency per column",
            "Sine and cosine of a pair have different frequencies. Columns 2i and 2i + 1 share one: exponent 2i / width.",
            _own_frequencies,
        ),
        Mistake(
            "faster and faster",
            "The positions are multiplied by the power of 10000; they are divided by it.",
            lambda positions, width: woven(
                angles_of(positions, width, power=-2.0).sin(), angles_of(positions, width, power=-2.0).cos()
            ),
        ),
        Mistake(
            "counted from 1",
            "The positions have been moved by one: take them as they come.",
            lambda positions, width: sinusoids(positions + 1, width),
        ),
        Mistake(
            "sines only",
            "Every column is a sine. The odd columns are cosines.",
            lambda positions, width: angles_of(positions, width).sin().repeat_interleave(2, -1),
        ),
        Mistake(
            "doubled twice",
            "The exponent is 4i / width. `torch.arange(0, width, 2)` counts 2i already.",
            lambda positions, width: woven(
                angles_of(positions, width, power=4.0).sin(), angles_of(positions, width, power=4.0).cos()
            ),
        ),
    ],
    hints=(
        "First the angles: one row per position, one column per pair, (T, width / 2). Broadcasting does it.",
        "pairs = torch.arange(0, width, 2); angles = positions[:, None] / 10000 ** (pairs / width). Then weave sine and cosine.",
        "torch.stack([angles.sin(), angles.cos()], -1) is (T, width / 2, 2); .flatten(1) makes them alternate",
    ),
    passed="Any shift by n positions is one fixed rotation of every pair, whatever the position. Remember that for the next one.",
    excused={"delegation": "torch has no function for it", "equal axes": "positions have one axis"},
    equivalent=(
        Equivalent(
            before="pairs = torch.arange(0, width, 2, dtype=positions.dtype) # 2i",
            after="pairs = torch.arange(0, width, 2) # 2i",
            reason="the positions of the cases are float32, which is what whole numbers divided by a whole number become",
        ),
    ),
)
