"""A loss in which (n, 1) meets (n,) and broadcasts: name the fault and mend it."""

from labkit.exercises.declare import Case, Fix, Mistake, Rules
from labkit.lazy import F


def _every_pair(prediction, target):
    return ((prediction - target) ** 2).mean()


exercise = Fix(
    title="The loss that loves the mean",
    minutes=8,
    needs=("w01.broadcast_shape",),
    cases=[
        Case("five examples", lambda draw: {"prediction": draw.normal(5, 1), "target": draw.normal(5)}),
        Case("two examples", lambda draw: {"prediction": draw.normal(2, 1), "target": draw.normal(2)}),
        Case("not contiguous", lambda draw: {"prediction": draw.strided(4, 1), "target": draw.strided(4)}),
        Case(
            "one example",
            lambda draw: {"prediction": draw.normal(1, 1), "target": draw.normal(1)},
            extreme=True,
        ),
    ],
    oracle=lambda prediction, target: F.mse_loss(prediction[:, 0], target),
    grads=("prediction", "target"),
    rules=Rules(forbids=("mse_loss", "MSELoss")),
    broken=_every_pair,
    fault="(n, 1) against (n,)",
    menu={
        "(n, 1) against (n,)": "",
        "no square root": "The mean squared error has no root; and with one, the perfect model would still lose.",
        "mean for sum": "A mean is what the name says. A sum would be as wrong: what is it taken over?",
    },
    mistakes=[
        Mistake(
            "sum",
            "The squares are added up now; the mean of them is wanted.",
            lambda prediction, target: ((prediction[:, 0] - target) ** 2).sum(),
        ),
        Mistake(
            "root",
            "A root was taken: that is the root mean squared error. No root is asked for.",
            lambda prediction, target: ((prediction[:, 0] - target) ** 2).mean().sqrt(),
        ),
        Mistake(
            "not reduced",
            "The squares are right, one per example. Their mean is wanted, one number.",
            lambda prediction, target: (prediction[:, 0] - target) ** 2,
        ),
        Mistake(
            "averaged too early",
            "The differences are averaged before they are squared, so that errors of opposite sign cancel.",
            lambda prediction, target: (prediction[:, 0] - target).mean() ** 2,
        ),
        Mistake(
            "absolute",
            "These are absolute differences; square them.",
            lambda prediction, target: (prediction[:, 0] - target).abs().mean(),
        ),
        Mistake(
            "table divided by n",
            "The table of all pairs is still there, only its sum is divided by n. Bring both to the same shape first.",
            lambda prediction, target: ((prediction - target) ** 2).sum() / len(target),
        ),
        Mistake(
            "first prediction only",
            "`prediction[0]` is the first prediction, compared with every target; `prediction[:, 0]` is the column.",
            lambda prediction, target: ((prediction[0] - target) ** 2).mean(),
        ),
    ],
    hints=(
        "Print the shape of `prediction - target`.",
        "Bring both to (n,): `prediction.squeeze(1)` or `prediction[:, 0]`. Or both to (n, 1): `target[:, None]`.",
        'fault = "(n, 1) against (n,)"; return ((prediction.squeeze(1) - target) ** 2).mean()',
    ),
    passed="Write `squeeze(1)`, not `squeeze()`: without a number it removes every axis of size 1, the batch of one included.",
)
