"""Reshape as a view where the strides allow it, as a copy where they do not."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week01.shared import row_major
from labkit.lazy import torch


def _as_view_anyway(x, shape):
    return torch.as_strided(x, shape, row_major(shape))


def _reshape_result(reshape, x, shape):
    result = reshape(x, shape)
    if result is None:
        return None
    shares = isinstance(result, torch.Tensor) and np.shares_memory(x.numpy(), result.numpy())
    return {"result": result, "shares memory with x": bool(shares)}


exercise = Implement(
    title="Reshape: a view when it can, a copy when it must",
    minutes=10,
    needs=("w01.strides", "w01.permute"),
    cases=[
        Case("contiguous", lambda draw: {"x": draw.normal(3, 4), "shape": (2, 6)}),
        Case("transposed", lambda draw: {"x": draw.transposed(3, 4), "shape": (6, 2)}),
        Case("all columns but the last", lambda draw: {"x": draw.normal(2, 6)[:, :5], "shape": (10,)}),
        Case("an axis of size 1", lambda draw: {"x": draw.normal(6, 1), "shape": (3, 2)}),
        Case("three axes", lambda draw: {"x": draw.normal(2, 3, 4), "shape": (4, 6)}),
    ],
    use=_reshape_result,
    oracle=lambda x, shape: _reshape_result(torch.reshape, x, shape),
    memory="any",
    rules=Rules(
        forbids=("reshape", "view", "flatten", "ravel", "unflatten", "view_as", "reshape_as", "resize")
    ),
    mistakes=[
        Mistake(
            "never copies",
            "A tensor that is not contiguous is read as if it were: the storage holds its numbers in another order.",
            _as_view_anyway,
        ),
        Mistake(
            "always copies",
            "The values are right, but a contiguous tensor was copied too: a view was possible there.",
            lambda x, shape: torch.as_strided(
                x.clone(memory_format=torch.contiguous_format), shape, row_major(shape)
            ),
        ),
        Mistake(
            "column by column",
            "The elements are taken column by column: row-major order walks along the last axis first.",
            lambda x, shape: torch.as_strided(
                x.permute(*range(x.dim() - 1, -1, -1)).contiguous(), shape, row_major(shape)
            ),
        ),
        Mistake(
            "clone for contiguous",
            "`clone` keeps the strides of a transposed x, so the copy has the old order too. `contiguous` lays it out anew.",
            lambda x, shape: torch.as_strided(x if x.is_contiguous() else x.clone(), shape, row_major(shape)),
        ),
        Mistake(
            "always cloned",
            "`clone` copies always, and keeps the strides of a transposed x. `contiguous` copies if it must, row by row.",
            lambda x, shape: torch.as_strided(x.clone(), shape, row_major(shape)),
        ),
    ],
    hints=(
        "`torch.as_strided(x, shape, strides(shape))` is right for a contiguous x. Which x is it wrong for?",
        "`x.contiguous()` returns x itself if it is contiguous, and a contiguous copy if it is not.",
        "return torch.as_strided(x.contiguous(), shape, strides(shape))",
    ),
    passed="`view` is the half that refuses instead of copying. Use it when a copy would be a surprise.",
    delegate=lambda x, shape: torch.reshape(x, shape),
)
