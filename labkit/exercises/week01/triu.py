"""A puzzle in one line: the upper triangle of a matrix."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="Puzzle: upper triangle",
    minutes=4,
    needs=("w01.broadcast_shape",),
    cases=[
        Case("wide", lambda draw: {"x": draw.normal(3, 5)}),
        Case("tall", lambda draw: {"x": draw.normal(4, 2)}),
        Case("transposed", lambda draw: {"x": draw.transposed(2, 3)}),
        Case("one row", lambda draw: {"x": draw.normal(1, 4)}),
    ],
    oracle=lambda x: torch.triu(x),
    grads=("x",),
    rules=Rules(
        forbids=("triu", "tril", "triu_indices", "tril_indices"), allows=("arange", "where"), loops=False
    ),
    mistakes=[
        Mistake(
            "lower",
            "This is the lower triangle: keep what lies on the diagonal and to the right of it.",
            lambda x: torch.where(torch.arange(x.shape[0])[:, None] >= torch.arange(x.shape[1]), x, 0),
        ),
        Mistake(
            "diagonal lost",
            "The diagonal itself is missing: use <=, not <.",
            lambda x: torch.where(torch.arange(x.shape[0])[:, None] < torch.arange(x.shape[1]), x, 0),
        ),
        Mistake(
            "ones",
            "This is the mask; the values of x are wanted where it is True.",
            lambda x: (torch.arange(x.shape[0])[:, None] <= torch.arange(x.shape[1])).to(x.dtype),
        ),
        Mistake(
            "square assumed",
            "One arange serves both axes: rows and columns may differ in number, each needs its own.",
            lambda x: torch.where(torch.arange(len(x))[:, None] <= torch.arange(len(x)), x, 0),
        ),
    ],
    hints=(
        "When is a cell above the diagonal, in terms of its row and column number?",
        "row <= column. Rows and columns may differ in number: two aranges.",
        "torch.where(torch.arange(x.shape[0])[:, None] <= torch.arange(x.shape[1]), x, 0)",
    ),
    passed="Turned around, this is the causal mask of week 7.",
)
