"""Dropout, scaled while training and absent in evaluation."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import F, torch


def _dropout_truth(x, p, noise, training):
    return (
        torch.where(noise >= p, x / (1 - p), 0)
        if training and p < 1
        else x.clone()
        if not training
        else 0 * x
    )


exercise = Implement(
    title="Dropout",
    minutes=8,
    needs=("w03.hidden",),
    cases=[
        Case(
            "a third is dropped",
            lambda draw: {
                "x": draw.normal(5, 4),
                "p": 0.3,
                "noise": draw.uniform(0, 1, 5, 4),
                "training": True,
            },
        ),
        Case(
            "most is dropped, not contiguous",
            lambda draw: {
                "x": draw.transposed(3, 7),
                "p": 0.75,
                "noise": draw.uniform(0, 1, 3, 14)[:, ::2],
                "training": True,
            },
        ),
        Case(
            "evaluation",
            lambda draw: {
                "x": draw.normal(2, 6),
                "p": 0.3,
                "noise": draw.uniform(0, 1, 2, 6),
                "training": False,
            },
        ),
        Case(
            "one row",
            lambda draw: {
                "x": draw.normal(1, 9),
                "p": 0.5,
                "noise": draw.uniform(0, 1, 1, 9),
                "training": True,
            },
        ),
        Case(
            "noise exactly p",
            lambda draw: {
                "x": draw.normal(4),
                "p": 0.5,
                "noise": np.array([0.25, 0.5, 0.75, 0.5], "float32"),
                "training": True,
            },
        ),
        Case(
            "all is dropped",
            lambda draw: {
                "x": draw.normal(2, 3),
                "p": 1.0,
                "noise": draw.uniform(0, 1, 2, 3),
                "training": True,
            },
            extreme=True,
        ),
    ],
    oracle=_dropout_truth,
    memory="any",
    grads=("x",),
    rules=Rules(forbids=("dropout", "Dropout", "alpha_dropout", "feature_dropout", "native_dropout")),
    delegate=lambda x, p, noise, training: F.dropout(x, p, training),
    mistakes=[
        Mistake(
            "not scaled",
            "What is kept is not scaled. Divide it by 1 - p, so that the expected value stays the same.",
            lambda x, p, noise, training: torch.where(noise >= p, x, 0) if training else x,
        ),
        Mistake(
            "scaled by p",
            "What is kept is divided by p. The share that is kept is 1 - p.",
            lambda x, p, noise, training: torch.where(noise >= p, x / p, 0) if training else x,
        ),
        Mistake(
            "kept for dropped",
            "The share p is kept and the rest dropped. p is the probability to *drop*.",
            lambda x, p, noise, training: torch.where(noise < p, x / (1 - p), 0) if training else x,
        ),
        Mistake(
            "drops in evaluation",
            "Units are dropped in evaluation as well: then the same input gives another answer each time.",
            lambda x, p, noise, training: torch.where(noise >= p, x / (1 - p), 0),
        ),
        Mistake(
            "scaled in evaluation",
            "This scales down in evaluation, as the first paper did. torch scales up in training and then leaves x alone.",
            lambda x, p, noise, training: torch.where(noise >= p, x, 0) if training else x * (1 - p),
        ),
        Mistake(
            "p itself dropped",
            "Noise equal to p is dropped. Keep it: noise lies in [0, 1), and noise < p has probability p exactly.",
            lambda x, p, noise, training: torch.where(noise > p, x / (1 - p), 0) if training else x,
        ),
        Mistake(
            "0 by 0",
            "For p = 1 this is 0 divided by 0. Choose with `torch.where`, which looks at one side only.",
            lambda x, p, noise, training: x * (noise >= p) / (1 - p) if training else x,
        ),
    ],
    hints=(
        "Two cases: in evaluation nothing happens. In training some elements become 0 and the others grow.",
        "`noise >= p` says what is kept. If a share 1 - p is kept, dividing by 1 - p keeps the expected value.",
        "return torch.where(noise >= p, x / (1 - p), 0) if training else x",
    ),
    passed="This is why `model.eval()` matters: forget it, and a finished network answers with some of its units missing.",
)
