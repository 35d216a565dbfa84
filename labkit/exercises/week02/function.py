"""The sigmoid as a torch.autograd.Function."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch


def _sigmoid_function(backward, forward=None):
    """A class with `apply`, as torch.autograd.Function has it; made when it is used, since torch comes late."""

    def apply(x, scale):
        class Sigmoid(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, scale):
                y = 1 / (1 + torch.exp(-scale * x)) if forward is None else forward(x, scale)
                ctx.save_for_backward(x, y)
                ctx.scale = scale
                return y

            @staticmethod
            def backward(ctx, g):
                x, y = ctx.saved_tensors
                return backward(g, x, y, ctx.scale)

        return Sigmoid.apply(x, scale)

    return type("Sigmoid", (), {"apply": staticmethod(apply)})


def _right_sigmoid(g, x, y, scale):
    return g * scale * y * (1 - y), None


exercise = Implement(
    title="Your own Function",
    minutes=10,
    needs=("w02.local",),
    cases=[
        Case("scale 2", lambda draw: {"x": draw.normal(3, 4), "scale": 2.0}),
        Case("a negative scale", lambda draw: {"x": draw.normal(2, 3), "scale": -0.5}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(4, 2), "scale": 1.5}),
        Case("one row", lambda draw: {"x": draw.normal(1, 5), "scale": 0.7}),
        Case(
            "far out",
            lambda draw: {"x": np.array([-1e4, -50.0, 0.0, 50.0, 1e4], dtype=np.float32), "scale": 3.0},
            extreme=True,
        ),
    ],
    use=lambda Sigmoid, x, scale: Sigmoid.apply(x, scale),
    oracle=lambda x, scale: torch.sigmoid(scale * x),
    grads=("x",),
    delegate=_sigmoid_function(_right_sigmoid, lambda x, scale: torch.sigmoid(scale * x)),
    rules=Rules(forbids=("sigmoid", "tanh", "logsigmoid", "expit", "softmax", "grad")),
    mistakes=[
        Mistake(
            "one gradient",
            "backward returns one gradient per input of forward, and scale is an input: return None for it.",
            _sigmoid_function(lambda g, x, y, scale: g * scale * y * (1 - y)),
        ),
        Mistake(
            "g forgotten",
            "This is the local derivative: multiply it by g, the gradient of the result.",
            _sigmoid_function(lambda g, x, y, scale: (scale * y * (1 - y), None)),
        ),
        Mistake(
            "scale forgotten",
            "The slope of scale * x by x is missing: the chain rule multiplies by scale.",
            _sigmoid_function(lambda g, x, y, scale: (g * y * (1 - y), None)),
        ),
        Mistake(
            "x for y",
            "The slope is y * (1 - y), with y the result, and here x stands for it: which one did you save?",
            _sigmoid_function(lambda g, x, y, scale: (g * scale * x * (1 - x), None)),
        ),
        Mistake(
            "scale outside",
            "The result is scaled; scale belongs inside, to x.",
            _sigmoid_function(
                lambda g, x, y, scale: (g * y * (1 - y / scale), None),
                lambda x, scale: scale * torch.sigmoid(x),
            ),
        ),
    ],
    hints=(
        "Save the result y in forward: with it the slope is scale * y * (1 - y), and no exp is computed again.",
        "ctx.save_for_backward(y) keeps tensors, ctx.scale = scale keeps anything else. Two inputs, two gradients.",
        "(y,) = ctx.saved_tensors; return g * ctx.scale * y * (1 - y), None",
    ),
    passed="Saving y instead of x makes backward cheaper: no exponential is computed twice.",
)
