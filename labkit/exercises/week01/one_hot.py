"""A puzzle in one line: a row with a single 1 for each label."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import F, torch

exercise = Implement(
    title="Puzzle: one-hot",
    minutes=3,
    needs=("w01.broadcast_shape",),
    cases=[
        Case("five labels, four classes", lambda draw: {"labels": draw.integers(0, 4, 5), "classes": 4}),
        Case("a class that never occurs", lambda draw: {"labels": np.array([2, 0, 2, 1]), "classes": 6}),
        Case("not contiguous", lambda draw: {"labels": draw.integers(0, 3, 14)[::2], "classes": 3}),
        Case("one label", lambda draw: {"labels": np.array([1]), "classes": 2}),
    ],
    oracle=lambda labels, classes: F.one_hot(labels, classes),
    rules=Rules(forbids=("one_hot", "scatter", "eye"), allows=("arange", "long", "to", "where"), loops=False),
    mistakes=[
        Mistake(
            "truth values",
            "The table holds True and False: turn them into whole numbers with `.long()`.",
            lambda labels, classes: labels[:, None] == torch.arange(classes),
        ),
        Mistake(
            "transposed",
            "Classes run down: one row for each label.",
            lambda labels, classes: (torch.arange(classes)[:, None] == labels).long(),
        ),
        Mistake(
            "counted from 1",
            "Classes are counted from 1 here; labels start at 0.",
            lambda labels, classes: (labels[:, None] == torch.arange(1, classes + 1)).long(),
        ),
        Mistake(
            "cold",
            "0 and 1 are swapped.",
            lambda labels, classes: (labels[:, None] != torch.arange(classes)).long(),
        ),
        Mistake(
            "floats",
            "The table holds floats; whole numbers are asked for: `.long()`.",
            lambda labels, classes: (labels[:, None] == torch.arange(classes)).float(),
        ),
        Mistake(
            "no table",
            "A row of labels meets a row of classes: make the labels a column, `labels[:, None]`.",
            lambda labels, classes: (labels == torch.arange(classes)).long(),
        ),
    ],
    hints=(
        "Each row answers: is it class 0? class 1? class 2?",
        "Compare a column of labels with a row of class numbers; `.long()` turns True into 1.",
        "return (labels[:, None] == torch.arange(classes)).long()",
    ),
    passed="A one-hot row times a matrix picks a row of it: that is what an embedding layer is.",
    excused={"constant": "labels are class numbers"},
)
