"""A mask that hides the future, also with a past before it."""

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week07.shared import causal
from labkit.lazy import torch

exercise = Implement(
    title="Not into the future",
    minutes=6,
    cases=[
        Case("4 queries", lambda draw: {"t": 4, "past": 0}),
        Case("2 queries after 3", lambda draw: {"t": 2, "past": 3}),
        Case("5 queries after 1", lambda draw: {"t": 5, "past": 1}),
        Case("one query after 4", lambda draw: {"t": 1, "past": 4}),
        Case("one query", lambda draw: {"t": 1, "past": 0}, extreme=True),
    ],
    oracle=causal,
    reference="the page",
    mistakes=[
        Mistake(
            "itself hidden",
            "Off by one diagonal: a query may not look at its own position. Then the first one can see nothing at all.",
            vary(causal, diagonal=-1),
        ),
        Mistake(
            "one step ahead",
            "Off by one diagonal: every query sees one token of the future, and that is the one to predict.",
            vary(causal, diagonal=1),
        ),
        Mistake(
            "inverted",
            "True and False are exchanged: here, as in torch's scaled_dot_product_attention, True means may look.",
            lambda t, past: ~causal(t, past),
        ),
        Mistake(
            "only the future",
            "The triangle is the upper one: each query sees itself and what comes later.",
            lambda t, past: torch.ones(t, past + t, dtype=torch.bool).triu(past),
        ),
        Mistake(
            "past ignored",
            "Query i stands at position past + i, not at i: the triangle has to move to the right by `past`.",
            lambda t, past: torch.ones(t, past + t, dtype=torch.bool).tril(),
        ),
        Mistake(
            "past left out",
            "The columns of the past are missing: there are past + t keys.",
            lambda t, past: torch.ones(t, t, dtype=torch.bool).tril(),
        ),
        Mistake(
            "transposed",
            "Rows and columns have changed places: one row per query, one column per key.",
            lambda t, past: causal(t, past).T,
        ),
        Mistake(
            "numbers",
            "The triangle is right, and made of numbers. A mask is boolean: dtype=torch.bool, or a comparison.",
            lambda t, past: torch.ones(t, past + t).tril(past),
        ),
    ],
    hints=(
        "Write down the mask for t = 2 and past = 1: two rows, three columns.",
        "`x.tril(d)` keeps what is on or below the d-th diagonal. For past = 0 it is the main one.",
        "torch.ones(t, past + t, dtype=torch.bool).tril(past)",
    ),
    passed="torch has both habits: `is_causal=True` starts the triangle at the left, `causal_lower_right` as you do.",
    excused={"delegation": "tril is a tool here, the diagonal is the answer"},
)
