"""A network with one hidden layer, from its weights."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import F, torch


def _network(x, w1, b1, w2, b2):
    return F.linear(torch.relu(F.linear(x, w1, b1)), w2, b2)


def _layers(draw, n, features, hidden, out):
    return {
        "x": draw.normal(n, features),
        "w1": draw.normal(hidden, features),
        "b1": draw.normal(hidden),
        "w2": draw.normal(out, hidden),
        "b2": draw.normal(out),
    }


exercise = Implement(
    title="A hidden layer",
    minutes=6,
    needs=("w03.fit",),
    also=(
        "multilayer perceptron",
        "MLP",
    ),
    cases=[
        Case("3 to 4 to 2", lambda draw: _layers(draw, 5, 3, 4, 2)),
        Case("one output", lambda draw: _layers(draw, 6, 2, 7, 1)),
        Case(
            "not contiguous",
            lambda draw: {
                **_layers(draw, 4, 3, 5, 2),
                "x": draw.strided(4, 3),
                "w1": draw.transposed(5, 3),
            },
        ),
        Case("one example, one feature", lambda draw: _layers(draw, 1, 1, 3, 2)),
        Case(
            "all units off",
            lambda draw: {**_layers(draw, 3, 2, 4, 5), "b1": np.full(4, -1e4, "float32")},
            extreme=True,
        ),
    ],
    oracle=_network,
    grads=("x", "w1", "b1", "w2", "b2"),
    rules=Rules(forbids=("relu", "linear", "Linear", "ReLU", "Sequential", "relu6", "hardtanh", "threshold")),
    mistakes=[
        Mistake(
            "no bend",
            "The ReLU is missing: a line of a line is a line again, however many layers you stack.",
            lambda x, w1, b1, w2, b2: (x @ w1.T + b1) @ w2.T + b2,
        ),
        Mistake(
            "bent output",
            "The output went through the ReLU as well: the network could never predict a negative number.",
            lambda x, w1, b1, w2, b2: torch.relu(_network(x, w1, b1, w2, b2)),
        ),
        Mistake(
            "bias after the bend",
            "b1 is added after the ReLU. It moves the bend, so it belongs inside.",
            lambda x, w1, b1, w2, b2: (torch.relu(x @ w1.T) + b1) @ w2.T + b2,
        ),
        Mistake(
            "absolute value",
            "This is the absolute value: negative sums become 0, not positive.",
            lambda x, w1, b1, w2, b2: (x @ w1.T + b1).abs() @ w2.T + b2,
        ),
        Mistake(
            "negative side",
            "The positive sums are cut off. Keep those and set the negative ones to 0.",
            lambda x, w1, b1, w2, b2: torch.clamp(x @ w1.T + b1, max=0) @ w2.T + b2,
        ),
        Mistake(
            "bias missing",
            "b2 is not used: the output layer has a bias as well.",
            lambda x, w1, b1, w2, b2: torch.relu(x @ w1.T + b1) @ w2.T,
        ),
    ],
    hints=(
        "Two lines: the hidden layer, bent; then the output layer, straight.",
        "A layer is `x @ w.T + b`, because w has shape (out, in). `clamp(min=0)` bends it.",
        "hidden = (x @ w1.T + b1).clamp(min=0); return hidden @ w2.T + b2",
    ),
    passed="With enough hidden units this form comes as close as you like to any continuous function on a bounded range.",
)
