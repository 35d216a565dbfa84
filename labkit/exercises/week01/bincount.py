"""A puzzle in one line: how often each class occurs."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="Puzzle: count the classes",
    minutes=3,
    needs=("w01.broadcast_shape",),
    cases=[
        Case("nine labels", lambda draw: {"labels": np.array([0, 2, 1, 2, 2, 4, 0, 2, 1]), "classes": 5}),
        Case("a class that never occurs", lambda draw: {"labels": draw.integers(0, 3, 7), "classes": 4}),
        Case("not contiguous", lambda draw: {"labels": draw.integers(0, 3, 20)[::2], "classes": 3}),
        Case("one label", lambda draw: {"labels": np.array([1]), "classes": 2}),
    ],
    oracle=lambda labels, classes: torch.bincount(labels, minlength=classes),
    rules=Rules(
        forbids=("bincount", "histc", "unique", "scatter_add", "histogram"),
        allows=("arange", "sum", "long", "to", "where"),
        loops=False,
    ),
    mistakes=[
        Mistake(
            "summed the wrong way",
            "This sums each row, and every row holds a single 1. Sum down the columns.",
            lambda labels, classes: (labels[:, None] == torch.arange(classes)).sum(1),
        ),
        Mistake(
            "classes dropped",
            "Classes that never occur are missing: every class gets a count, also 0.",
            lambda labels, classes: torch.bincount(labels),
        ),
        Mistake(
            "labels added",
            "The labels themselves are added up: count them.",
            lambda labels, classes: torch.where(
                labels[:, None] == torch.arange(classes), labels[:, None], 0
            ).sum(0),
        ),
        Mistake(
            "shares",
            "These are shares, not counts.",
            lambda labels, classes: torch.bincount(labels, minlength=classes) / len(labels),
        ),
        Mistake(
            "no table",
            "A row of labels meets a row of classes: make the labels a column, `labels[:, None]`.",
            lambda labels, classes: (labels == torch.arange(classes)).sum(0),
        ),
    ],
    hints=(
        "You have a one-hot table. What is the sum of a column?",
        "Sum the comparison over the axis of labels: dim 0.",
        "return (labels[:, None] == torch.arange(classes)).sum(0)",
    ),
    passed="Summing truth values counts them: True is 1.",
)
