"""The score of the right label in each row."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import F, torch

exercise = Implement(
    title="Pick the score of the label",
    minutes=8,
    needs=("w01.dtypes",),
    cases=[
        Case(
            "four examples, three classes",
            lambda draw: {"scores": draw.normal(4, 3), "labels": np.array([2, 0, 1, 0])},
        ),
        Case(
            "three examples, five classes",
            lambda draw: {"scores": draw.normal(3, 5), "labels": np.array([1, 2, 0])},
        ),
        Case(
            "not contiguous",
            lambda draw: {
                "scores": draw.transposed(5, 2),
                "labels": np.array([1, 9, 0, 9, 0, 9, 1, 9, 1, 9])[::2],
            },
        ),
        Case("one example", lambda draw: {"scores": draw.normal(1, 6), "labels": np.array([3])}),
        Case(
            "a class that is ruled out",
            lambda draw: {
                "scores": np.array([[0.5, -np.inf, 2.0], [-np.inf, 1.5, 0.25]], dtype=np.float32),
                "labels": np.array([2, 1]),
            },
            extreme=True,
        ),
    ],
    oracle=lambda scores, labels: torch.gather(scores, 1, labels[:, None])[:, 0],
    grads=("scores",),
    rules=Rules(loops=False),
    mistakes=[
        Mistake(
            "whole columns",
            "`scores[:, labels]` takes a whole column for each label. Pair each label with its row number.",
            lambda scores, labels: scores[:, labels],
        ),
        Mistake(
            "whole rows",
            "`scores[labels]` takes whole rows: the label has to be the second index.",
            lambda scores, labels: scores[labels],
        ),
        Mistake(
            "axis left",
            "The result of `gather` has as many axes as `scores`; the last one has size 1 and has to go.",
            lambda scores, labels: scores.gather(1, labels[:, None]),
        ),
        Mistake(
            "the largest",
            "These are the largest scores, whatever the labels say.",
            lambda scores, labels: scores.max(1).values,
        ),
        Mistake(
            "index and row swapped",
            "The label is used as the row and the example as the column.",
            lambda scores, labels: scores[labels, torch.arange(len(labels))],
        ),
        Mistake(
            "gradient lost",
            "The values are right, but `.detach()`, `.data` or NumPy cut them off: no gradient could reach the scores.",
            lambda scores, labels: scores.detach()[torch.arange(len(labels)), labels],
        ),
        Mistake(
            "one-hot product",
            "Multiplying by a one-hot row works until a score is infinite: 0 times infinity is NaN. Pick, do not multiply.",
            lambda scores, labels: (scores * F.one_hot(labels, scores.shape[1])).sum(1),
        ),
        Mistake(
            "squeezed too far",
            "`squeeze()` removes every axis of size 1, with one example the axis of examples too: `squeeze(1)` or `[:, 0]`.",
            lambda scores, labels: scores.gather(1, labels[:, None]).squeeze(),
        ),
    ],
    hints=(
        "You need one pair (row, column) for each example. The columns are the labels. What are the rows?",
        "`scores[torch.arange(n), labels]`, or gather with a column of labels, `labels[:, None]`.",
        "return scores.gather(1, labels[:, None]).squeeze(1)",
    ),
    passed="Minus the mean of these, taken from log-probabilities, is cross-entropy.",
    excused={"delegation": "gather is the tool that this exercise is about"},
)
