"""A puzzle in one line: the running sum of a vector."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="Puzzle: running sum",
    minutes=5,
    needs=("w01.broadcast_shape",),
    cases=[
        Case("five", lambda draw: {"x": draw.normal(5)}),
        Case("not contiguous", lambda draw: {"x": draw.strided(4)}),
        Case("one", lambda draw: {"x": draw.normal(1)}),
    ],
    oracle=lambda x: torch.cumsum(x, 0),
    grads=("x",),
    rules=Rules(
        forbids=("cumsum", "cumulative_trapezoid", "logcumsumexp"),
        allows=("arange", "where", "sum"),
        loops=False,
    ),
    mistakes=[
        Mistake(
            "without itself",
            "Each sum stops one element early: element i counts in its own sum.",
            lambda x: torch.cumsum(x, 0) - x,
        ),
        Mistake(
            "from the end",
            "These sums run from each element to the end.",
            lambda x: x.flip(0).cumsum(0).flip(0),
        ),
        Mistake(
            "total", "This is the total, repeated.", lambda x: x.sum() * torch.ones(len(x), dtype=x.dtype)
        ),
        Mistake(
            "mean",
            "The running sum is divided by how many were added: that is a running mean.",
            lambda x: torch.cumsum(x, 0) / torch.arange(1, len(x) + 1),
        ),
        Mistake(
            "summed down",
            "The columns of the table are summed; result i stands in row i, so sum along the rows: dim 1.",
            lambda x: torch.where(torch.arange(len(x)) <= torch.arange(len(x))[:, None], x, 0).sum(0),
        ),
        Mistake(
            "itself again and again",
            "Row i repeats x[i], because x is a column too: leave x a row, so that column j holds x[j].",
            lambda x: torch.where(torch.arange(len(x)) <= torch.arange(len(x))[:, None], x[:, None], 0).sum(
                1
            ),
        ),
    ],
    hints=(
        "Result i is a sum over all j <= i. Make a table with one row for each i.",
        "`torch.where(j <= i, x, 0)` with i a column and j a row; then sum each row.",
        "i = torch.arange(len(x)); return torch.where(i <= i[:, None], x, 0).sum(1)",
    ),
    passed="n numbers, n times n work: broadcasting buys clarity, not always speed. torch.cumsum does it in n steps.",
)
