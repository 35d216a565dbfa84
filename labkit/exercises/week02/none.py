"""A way through NumPy that leaves the graph, so that a layer never learns: name the fault and mend it."""

import numpy as np

from labkit.exercises.declare import Case, Fix, Mistake, vary
from labkit.lazy import torch


def _gradients_through_numpy(x, y, w1, w2):
    w1, w2 = w1.clone().requires_grad_(), w2.clone().requires_grad_()
    hidden = torch.from_numpy(np.maximum((x @ w1).detach().numpy(), 0))
    loss = ((hidden @ w2 - y) ** 2).mean()
    loss.backward()
    return w1.grad, w2.grad


def _two_layers(x, y, w1, w2, activation=None, reduce=None, first=None):
    """The gradients of a loss of two layers, with a switch for each way to get them wrong."""
    w1, w2 = w1.clone().requires_grad_(), w2.clone().requires_grad_()
    hidden = (activation or torch.relu)(x @ w1)
    squares = (hidden @ w2 - y) ** 2
    (reduce or torch.mean)(squares).backward()
    return w1.grad if first is None else first(w1), w2.grad


def _layer_inputs(n, features, hidden, transposed=False):
    def make(draw):
        x = draw.transposed(n, features) if transposed else draw.normal(n, features)
        return {"x": x, "y": draw.normal(n), "w1": draw.normal(features, hidden), "w2": draw.normal(hidden)}

    return make


exercise = Fix(
    title="The layer that never learns",
    minutes=8,
    needs=("w02.accumulate",),
    cases=[
        Case("five examples", _layer_inputs(5, 3, 4)),
        Case("two examples", _layer_inputs(2, 4, 3)),
        Case("not contiguous", _layer_inputs(4, 3, 2, transposed=True)),
        Case("one feature", _layer_inputs(6, 1, 5)),
    ],
    oracle=_two_layers,
    broken=_gradients_through_numpy,
    fault="NumPy leaves the graph",
    menu={
        "NumPy leaves the graph": "",
        "w1 is not a leaf": "`w1.clone().requires_grad_()` is one: it has no history, and asks for gradients. Print w1.is_leaf.",
        "relu has no slope": "relu has the slope 1 where its input is positive; a slope of 0 everywhere would give zeros, not None.",
        "backward is called too early": "backward is called once the loss is complete. w2 gets its gradient.",
    },
    mistakes=[
        Mistake(
            "zeros for None",
            "None is covered up with zeros: the layer still learns nothing, and now nobody sees it.",
            lambda x, y, w1, w2: _two_layers(x, y, w1, w2, first=torch.zeros_like),
        ),
        Mistake(
            "no relu",
            "The gradients arrive, but the relu is gone: two layers without it are one.",
            vary(_two_layers, activation=lambda h: h),
        ),
        Mistake(
            "absolute",
            "abs is not relu: negative values become 0, not positive.",
            lambda x, y, w1, w2: _two_layers(x, y, w1, w2, activation=torch.abs),
        ),
        Mistake(
            "sum",
            "The loss is now a sum; the mean was right.",
            lambda x, y, w1, w2: _two_layers(x, y, w1, w2, reduce=torch.sum),
        ),
    ],
    hints=(
        "Which tensor in between has requires_grad=False? Print it for each line.",
        "`.detach().numpy()` cuts the tape, and torch.from_numpy starts a new one. torch has its own maximum with 0.",
        'fault = "NumPy leaves the graph"; hidden = torch.relu(x @ w1)',
    ),
    passed="After a first step, print which parameters have grad None: one line that finds this fault in any model.",
    excused={"delegation": "torch's relu is the mend; the exercise is to see where the graph is cut"},
)
