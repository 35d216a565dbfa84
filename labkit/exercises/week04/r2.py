"""R², the share of the variance that predictions explain."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.lazy import F, torch

exercise = Implement(
    title="R², the share that is explained",
    minutes=4,
    dtype="float64",
    cases=[
        Case("six rows", lambda draw: {"prediction": draw.normal(6), "target": draw.normal(6) + 2}),
        Case("three rows", lambda draw: {"prediction": draw.normal(3) + 5, "target": draw.normal(3)}),
        Case("not contiguous", lambda draw: {"prediction": draw.strided(5), "target": draw.strided(5)}),
        Case("perfect", lambda draw: {"prediction": np.arange(4.0), "target": np.arange(4.0)}),
        Case(
            "far off",
            lambda draw: {"prediction": 1e4 + draw.normal(7), "target": draw.normal(7)},
            extreme=True,
        ),
    ],
    oracle=lambda prediction, target: 1 - F.mse_loss(prediction, target) / target.var(correction=0),
    reference="1 - mse_loss / variance",
    grads=("prediction",),
    mistakes=[
        Mistake(
            "the unexplained share",
            "This is the share that is *not* explained: subtract it from 1.",
            lambda prediction, target: F.mse_loss(prediction, target) / target.var(correction=0),
        ),
        Mistake(
            "arguments swapped",
            "The spread of the predictions stands below the line; it has to be the spread of the targets.",
            lambda prediction, target: 1 - F.mse_loss(prediction, target) / prediction.var(correction=0),
        ),
        Mistake(
            "n against n - 1",
            "Above the line you divide by n, below by n - 1. Use two sums, or two means.",
            lambda prediction, target: 1 - F.mse_loss(prediction, target) / target.var(),
        ),
        Mistake(
            "squared correlation",
            "This is the square of the correlation: it forgives predictions that are all 1000 too high.",
            lambda prediction, target: torch.corrcoef(torch.stack([prediction, target]))[0, 1] ** 2,
        ),
        Mistake(
            "spread around zero",
            "The targets are squared without taking their mean off first: then the baseline is 0, not the mean.",
            lambda prediction, target: 1 - F.mse_loss(prediction, target) / (target**2).mean(),
        ),
        Mistake(
            "mean of the predictions",
            "Below the line stands the distance of the targets from the mean *prediction*; take the mean of the targets.",
            lambda prediction, target: (
                1 - F.mse_loss(prediction, target) / ((target - prediction.mean()) ** 2).mean()
            ),
        ),
        Mistake(
            "spread of the errors",
            "The mean of the errors is taken off before squaring: predictions that are all 1000 too high would be forgiven.",
            lambda prediction, target: 1 - (prediction - target).var() / target.var(),
        ),
        Mistake(
            "mean of ratios",
            "Each error is divided by its own distance from the mean. Two sums first, then one division.",
            lambda prediction, target: (
                1 - ((prediction - target) ** 2 / (target - target.mean()) ** 2).mean()
            ),
        ),
        Mistake(
            "distance of the predictions",
            "Below the line stand the predictions' distances from the mean; the targets' are wanted.",
            lambda prediction, target: (
                1 - F.mse_loss(prediction, target) / ((prediction - target.mean()) ** 2).mean()
            ),
        ),
        Mistake(
            "not squared",
            "These are absolute errors; square them, above and below.",
            lambda prediction, target: (
                1 - (prediction - target).abs().sum() / (target - target.mean()).abs().sum()
            ),
        ),
    ],
    hints=(
        "What is the squared error of somebody who always says the mean of the targets?",
        "Divide your squared error by that one, and subtract from 1.",
        "1 - ((prediction - target) ** 2).sum() / ((target - target.mean()) ** 2).sum()",
    ),
    passed="R² is 1 at best, 0 for always saying the mean, and below 0 for anything worse: it has no lower end.",
    excused={"size one": "one row has no spread", "delegation": "torch has no R²; arithmetic is the answer"},
)
