"""Shares that are cut off because zeros_like makes integers: name the fault and mend it."""

import numpy as np

from labkit.exercises.declare import Case, Fix, Mistake
from labkit.lazy import torch


def _truncated_shares(counts):
    result = torch.zeros_like(counts)
    for row in range(len(counts)):
        result[row] = counts[row] / counts[row].sum()
    return result


exercise = Fix(
    title="Everybody has nothing",
    minutes=6,
    needs=("w01.dtypes",),
    cases=[
        Case("2 by 3", lambda draw: {"counts": np.array([[1, 3, 4], [2, 2, 1]])}),
        Case("4 by 5", lambda draw: {"counts": draw.integers(0, 9, 4, 5) + 1}),
        Case("transposed", lambda draw: {"counts": draw.integers(1, 20, 2, 3).T}),
        Case("one row", lambda draw: {"counts": np.array([[7, 2, 6, 5]])}),
        Case("all in one place", lambda draw: {"counts": np.array([[0, 5, 0], [3, 0, 0]])}, extreme=True),
    ],
    oracle=lambda counts: counts / counts.sum(1, keepdim=True),
    broken=_truncated_shares,
    fault="zeros_like makes int64",
    menu={
        "zeros_like makes int64": "",
        "/ divides whole numbers": "`/` makes floats, also from whole numbers: print `counts[0] / counts[0].sum()`. It is lost later.",
        "sums the wrong axis": "`counts[row].sum()` adds up one row, which is what is asked for.",
    },
    mistakes=[
        Mistake(
            "converted too late",
            "The result is made of floats now, but they were cut off before: convert first, then divide.",
            lambda counts: (counts // counts.sum(1, keepdim=True)).float(),
        ),
        Mistake(
            "float64",
            "The shares are float64: dividing whole numbers gives float32, and so should this.",
            lambda counts: counts.double() / counts.sum(1, keepdim=True),
        ),
        Mistake(
            "share of all",
            "Each count is divided by the sum of the whole table; divide by the sum of its row.",
            lambda counts: counts / counts.sum(),
        ),
        Mistake(
            "share of the column",
            "Each count is divided by the sum of its column.",
            lambda counts: counts / counts.sum(0),
        ),
        Mistake(
            "percent",
            "These are percent; shares add up to 1.",
            lambda counts: 100 * counts / counts.sum(1, keepdim=True),
        ),
        Mistake(
            "stored as float64",
            "The place they are written to is float64; dividing whole numbers gives float32, and so should this.",
            lambda counts: (counts / counts.sum(1, keepdim=True)).double(),
        ),
    ],
    hints=(
        "Print `counts[0] / counts[0].sum()`, then look where it is put.",
        "`torch.zeros_like(counts)` has the dtype of counts, int64; `result[row] = ...` cuts the shares off to fit.",
        'fault = "zeros_like makes int64"; return counts / counts.sum(dim=1, keepdim=True)',
    ),
    passed="`torch.zeros_like(counts, dtype=torch.float32)` keeps the shape and changes the dtype, where you do need a place to write to.",
    excused={"delegation": "one division is the answer; the exercise is to see where the floats got lost"},
)
