"""Scores of attention with padded keys at minus infinity, by a mask that broadcasts."""

import math

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="Three broadcasts: an attention mask",
    minutes=6,
    needs=("w01.sequence_mask",),
    cases=[
        Case(
            "two sequences, three heads",
            lambda draw: {
                "scores": draw.normal(2, 3, 4, 5),
                "keep": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], dtype=bool),
            },
        ),
        Case(
            "one head",
            lambda draw: {
                "scores": draw.normal(3, 1, 2, 4),
                "keep": np.array([[1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]], dtype=bool),
            },
        ),
        Case(
            "not contiguous",
            lambda draw: {
                "scores": draw.strided(2, 4, 5, 3),
                "keep": np.array([[1, 1, 0], [1, 0, 0]], dtype=bool),
            },
        ),
    ],
    oracle=lambda scores, keep: scores.masked_fill(~keep[:, None, None, :], -math.inf),
    grads=("scores",),
    rules=Rules(),
    mistakes=[
        Mistake(
            "inverted",
            "Keep and drop are swapped: True means that the position may be looked at.",
            lambda scores, keep: scores.masked_fill(keep[:, None, None, :], -math.inf),
        ),
        Mistake(
            "zeros",
            "Dropped scores are set to 0, and softmax gives exp(0) = 1 to them; minus infinity gives 0.",
            lambda scores, keep: scores.masked_fill(~keep[:, None, None, :], 0.0),
        ),
        Mistake(
            "queries masked",
            "The mask is on the axis of queries (rows): what may be looked at is the last axis.",
            lambda scores, keep: torch.where(
                (
                    keep[:, None, : scores.shape[2], None]
                    if keep.shape[1] >= scores.shape[2]
                    else keep[:, None, [0] * scores.shape[2], None]
                ),
                scores,
                torch.full_like(scores, -math.inf),
            ),
        ),
        Mistake(
            "large number",
            "A large negative number is not minus infinity: -1e9 shows in the result, and overflows in half precision.",
            lambda scores, keep: scores.masked_fill(~keep[:, None, None, :], -1e9),
        ),
        Mistake(
            "added",
            "-inf is added, not set: the scores come out right, but gradients still pass through the padded places.",
            lambda scores, keep: scores + torch.where(keep, 0.0, -math.inf)[:, None, None, :],
        ),
        Mistake(
            "softmax taken",
            "The softmax is taken already; return the scores, it follows later.",
            lambda scores, keep: scores.masked_fill(~keep[:, None, None, :], -math.inf).softmax(-1),
        ),
    ],
    hints=(
        "scores is (batch, head, query, key), keep is (batch, key). Which axes must be added to keep?",
        "`keep[:, None, None, :]` has shape (batch, 1, 1, key). `torch.where` or `masked_fill` puts -inf where it is False.",
        "return scores.masked_fill(~keep[:, None, None, :], -math.inf)",
    ),
    passed="Bias, normalization, mask: three layers of a Transformer are broadcasts that you can now read.",
    excused={"delegation": "masked_fill is the tool; the exercise is where the axes go"},
)
