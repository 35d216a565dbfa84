"""A puzzle in one line: a matrix with a vector on its diagonal."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="Puzzle: a vector on the diagonal",
    minutes=4,
    needs=("w01.broadcast_shape",),
    cases=[
        Case("three", lambda draw: {"v": draw.normal(3)}),
        Case("not contiguous", lambda draw: {"v": draw.strided(4)}),
        Case("one", lambda draw: {"v": draw.normal(1)}),
    ],
    oracle=lambda v: torch.diag(v),
    grads=("v",),
    rules=Rules(forbids=("diag", "diagflat", "diag_embed", "eye"), allows=("arange", "where"), loops=False),
    mistakes=[
        Mistake(
            "rows filled",
            "Whole rows are filled: only where row and column number agree is there a value.",
            lambda v: v[:, None] * torch.ones(len(v), dtype=v.dtype),
        ),
        Mistake(
            "ones",
            "The diagonal holds ones: put the values of v there.",
            lambda v: (torch.arange(len(v))[:, None] == torch.arange(len(v))).to(v.dtype),
        ),
        Mistake(
            "other diagonal",
            "This is the other diagonal, from top right to bottom left.",
            lambda v: torch.diag(v).flip(1),
        ),
        Mistake(
            "off by one",
            "The values sit one column to the right of the diagonal.",
            lambda v: torch.where(torch.arange(len(v))[:, None] + 1 == torch.arange(len(v)), v, 0),
        ),
        Mistake(
            "whole ones",
            "The diagonal holds ones: put the values of v there. `torch.where(condition, v, 0)` does.",
            lambda v: torch.where(torch.arange(len(v))[:, None] == torch.arange(len(v)), 1, 0),
        ),
        Mistake(
            "no table",
            "A row is compared with a row: make one of the two a column, `i[:, None]`, and you get a table.",
            lambda v: torch.where(torch.arange(len(v)) == torch.arange(len(v)), v, 0),
        ),
    ],
    hints=(
        "Compare a column of row numbers with a row of column numbers.",
        "`i[:, None] == i` is True on the diagonal. `torch.where(condition, x, 0)` picks.",
        "i = torch.arange(len(v)); return torch.where(i[:, None] == i, v, 0)",
    ),
    passed="A comparison of two aranges is the raw material of every mask.",
)
