"""The local derivatives of the eight operations of the scalar engine."""

import math

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week02.shared import FORWARD, local_derivatives
from labkit.lazy import torch


def _local_truth(op, *numbers):
    inputs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in numbers]
    if op == "pow":  # the exponent is a constant in this engine
        inputs[1] = numbers[1]
    forward = {**FORWARD, **{name: getattr(torch, name) for name in ("exp", "log", "tanh", "relu")}}
    grads = torch.autograd.grad(forward[op](*inputs), [x for x in inputs if not isinstance(x, float)])
    return tuple(float(g) for g in grads)


exercise = Implement(
    title="Eight local derivatives",
    minutes=10,
    needs=("w02.central_difference",),
    engine="python",
    cases=[
        Case("add", lambda draw: {"op": "add", "a": 2.0, "b": -3.5}),
        Case("mul", lambda draw: {"op": "mul", "a": 2.0, "b": -3.5}),
        Case("div", lambda draw: {"op": "div", "a": 3.0, "b": -1.5}),
        Case("pow", lambda draw: {"op": "pow", "a": 1.5, "b": 3.0}),
        Case("exp", lambda draw: {"op": "exp", "a": 0.7}),
        Case("log", lambda draw: {"op": "log", "a": 2.5}),
        Case("tanh", lambda draw: {"op": "tanh", "a": -0.6}),
        Case("relu, positive", lambda draw: {"op": "relu", "a": 0.6}),
        Case("relu, negative", lambda draw: {"op": "relu", "a": -0.4}),
        Case("relu at zero", lambda draw: {"op": "relu", "a": 0.0}, extreme=True),
    ],
    oracle=_local_truth,
    rules=Rules(forbids=("grad", "backward", "jacobian")),
    mistakes=[
        Mistake(
            "factors not swapped",
            "For a product, the derivative by a is b, and the derivative by b is a.",
            vary(local_derivatives, mul=lambda a, b: (a, b)),
        ),
        Mistake(
            "quotient sign",
            "The derivative of a / b by b is negative: a larger b makes the quotient smaller.",
            vary(local_derivatives, div=lambda a, b: (1 / b, a / b**2)),
        ),
        Mistake(
            "quotient not squared",
            "The derivative of a / b by b has b squared below the line.",
            vary(local_derivatives, div=lambda a, b: (1 / b, -a / b)),
        ),
        Mistake(
            "power not lowered",
            "The exponent goes down by one: the derivative of a**b is b * a**(b - 1).",
            vary(local_derivatives, pow=lambda a, b: (b * a**b,)),
        ),
        Mistake(
            "two for pow",
            "The exponent is a constant here, not an input: pow has one derivative.",
            vary(local_derivatives, pow=lambda a, b: (b * a ** (b - 1), a**b * math.log(a))),
        ),
        Mistake(
            "tanh of a",
            "The derivative of tanh is 1 - tanh(a)**2, with the value of tanh in it, not a itself.",
            vary(local_derivatives, tanh=lambda a, b: (1 - a**2,)),
        ),
        Mistake(
            "relu passes all",
            "relu is flat left of zero: its slope there is 0.",
            vary(local_derivatives, relu=lambda a, b: (1.0,)),
        ),
        Mistake(
            "relu at zero",
            "At exactly 0, torch takes the slope 0: use a > 0, not a >= 0.",
            vary(local_derivatives, relu=lambda a, b: (1.0 if a >= 0 else 0.0,)),
        ),
    ],
    hints=(
        "Two inputs, two derivatives: hold one fixed and wiggle the other. Check yourself with central_difference.",
        "mul: (b, a). div: (1 / b, -a / b**2). pow: one derivative, b * a**(b - 1). tanh: 1 - tanh(a)**2.",
        "exp: (math.exp(a),). log: (1 / a,). relu: (1.0 if a > 0 else 0.0,). add: (1.0, 1.0).",
    ),
    passed="This table is all the calculus an autograd engine knows; the chain rule does the rest.",
)
