"""A puzzle in one line: the outer product of two vectors."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="Puzzle: outer product",
    minutes=3,
    needs=("w01.broadcast_shape",),
    cases=[
        Case("3 by 4", lambda draw: {"a": draw.normal(3), "b": draw.normal(4)}),
        Case("not contiguous", lambda draw: {"a": draw.strided(2), "b": draw.strided(5)}),
        Case("one by six", lambda draw: {"a": draw.normal(1), "b": draw.normal(6)}),
    ],
    oracle=lambda a, b: torch.outer(a, b),
    grads=("a", "b"),
    rules=Rules(forbids=("outer", "ger", "einsum", "matmul", "kron"), allows=(), loops=False),
    mistakes=[
        Mistake(
            "transposed",
            "This is the transpose: a runs down, b runs to the right.",
            lambda a, b: b[:, None] * a,
        ),
        Mistake("sum", "These are all sums; an outer product multiplies.", lambda a, b: a[:, None] + b),
        Mistake(
            "flat",
            "The numbers are right, in one long row: keep two axes.",
            lambda a, b: torch.outer(a, b).flatten(),
        ),
        Mistake(
            "no new axis",
            "A row meets a row here: `a[:, None]` turns a into a column, and a column against a row is a table.",
            lambda a, b: a * b,
        ),
    ],
    hints=(
        "A column times a row.",
        "`a[:, None]` has shape (n, 1).",
        "return a[:, None] * b[None, :]",
    ),
    passed="Every table of all pairs starts like this: one axis for each of the two.",
)
