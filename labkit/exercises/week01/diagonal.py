"""The diagonal of a matrix as a view."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="The diagonal of a matrix",
    minutes=6,
    needs=("w01.windows",),
    cases=[
        Case("wide", lambda draw: {"x": draw.normal(3, 5)}),
        Case("tall", lambda draw: {"x": draw.normal(4, 2)}),
        Case("transposed", lambda draw: {"x": draw.transposed(3, 4)}),
        Case("every second column", lambda draw: {"x": draw.strided(2, 3)}),
        Case("one row", lambda draw: {"x": draw.normal(1, 6)}, extreme=True),
    ],
    oracle=lambda x: torch.diagonal(x),
    memory="view",
    rules=Rules(forbids=("diagonal", "diag", "einsum")),
    mistakes=[
        Mistake(
            "contiguous assumed",
            "The stride is written as columns + 1, which holds for contiguous matrices only; ask x for its strides.",
            lambda x: torch.as_strided(x, (min(x.shape),), (x.shape[1] + 1,)),
        ),
        Mistake(
            "square assumed",
            "The length is the number of rows: a tall matrix has fewer columns than that.",
            lambda x: torch.as_strided(x, (x.shape[0],), (sum(x.stride()),)),
        ),
        Mistake(
            "first column",
            "This walks down the first column: one step along the diagonal is a step down and a step right.",
            lambda x: torch.as_strided(x, (min(x.shape),), (x.stride(0),)),
        ),
        Mistake(
            "copied",
            "Stacking and indexing make new memory. `torch.as_strided` reads the diagonal where it lies.",
            lambda x: torch.stack([x[i, i] for i in range(min(x.shape))]),
        ),
        Mistake(
            "step right of 1",
            "One step right is written as 1; in a transposed matrix it is more: ask for x.stride(1).",
            lambda x: torch.as_strided(x, (min(x.shape),), (x.stride(0) + 1,)),
        ),
        Mistake(
            "contiguous first",
            "`x.contiguous()` copies a transposed matrix. Leave x as it is and use its two strides.",
            lambda x: torch.as_strided(x.contiguous(), (min(x.shape),), (x.shape[1] + 1,)),
        ),
    ],
    hints=(
        "One step along the diagonal is one step down and one step right. How far is that in storage?",
        "The stride is x.stride(0) + x.stride(1), and there are min(rows, columns) elements.",
        "torch.as_strided(x, (min(x.shape),), (x.stride(0) + x.stride(1),))",
    ),
    passed="The trace is its sum: `diagonal(x).sum()`.",
)
