"""A quotient of arrays with its way back."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week02.shared import NO_TORCH, as_it_is, by_torch, summed_to
from labkit.lazy import torch


def _div(a, b, sign=-1.0, power=2, times_g=True, first=summed_to, second=summed_to, swap=False):
    """The quotient of two arrays, with a switch for each way to get its gradient wrong."""

    def backward(g):
        g = g if times_g else np.ones_like(g)
        grads = first(g / b, a.shape), second(sign * g * a / b**power, b.shape)
        return grads[::-1] if swap else grads

    return a / b, backward


exercise = Implement(
    title="A quotient and its way back",
    minutes=10,
    needs=("w02.unbroadcast", "w02.local"),
    engine="numpy",
    dtype="float64",
    vjp=True,
    grads=("a", "b"),
    cases=[
        Case("same shape", lambda draw: {"a": draw.normal(3, 4), "b": draw.uniform(0.5, 2, 3, 4)}),
        Case("divided by a row", lambda draw: {"a": draw.normal(4, 3), "b": draw.uniform(0.5, 2, 3)}),
        Case("divided by a column", lambda draw: {"a": draw.normal(2, 5), "b": draw.uniform(0.5, 2, 2, 1)}),
        Case("a row divided", lambda draw: {"a": draw.normal(3), "b": draw.uniform(-2, -0.5, 4, 3)}),
        Case("not contiguous", lambda draw: {"a": draw.transposed(4, 2), "b": 2 + draw.uniform(0, 1, 4, 2)}),
        Case(
            "huge and tiny",
            lambda draw: {"a": 1e150 * draw.normal(2, 3), "b": draw.uniform(1e-100, 1e-99, 3)},
            extreme=True,
        ),
    ],
    oracle=lambda a, b: torch.div(a, b),
    delegate=by_torch(lambda a, b: torch.div(a, b), 2),
    rules=Rules(forbids=NO_TORCH),
    mistakes=[
        Mistake(
            "sign",
            "The gradient of b has the wrong sign: a larger b makes the quotient smaller.",
            vary(_div, sign=1.0),
        ),
        Mistake("not squared", "The slope by b is -a / b**2.", vary(_div, power=1)),
        Mistake(
            "g forgotten",
            "These are the local derivatives alone: multiply them by g, the gradient that arrives.",
            vary(_div, times_g=False),
        ),
        Mistake(
            "not summed back",
            "A row that was stretched over four rows gets its gradient back in four rows: use your unbroadcast.",
            vary(_div, first=as_it_is, second=as_it_is),
        ),
        Mistake(
            "b not summed back",
            "The gradient of a is unbroadcast, that of b is not; either may have been stretched.",
            vary(_div, second=as_it_is),
        ),
        Mistake(
            "swapped",
            "The two gradients are in the wrong order: first that of a, then that of b.",
            vary(_div, swap=True),
        ),
    ],
    hints=(
        "Take `mul` above as the pattern. Your table of local derivatives has the slopes of a / b.",
        "By a it is 1 / b, by b it is -a / b**2. Multiply each by g, then unbroadcast to the shape of its input.",
        "unbroadcast(g / b, a.shape), unbroadcast(-g * a / b**2, b.shape)",
    ),
    passed="Every elementwise operation is this pattern: local derivative times g, summed back to the input's shape.",
)
