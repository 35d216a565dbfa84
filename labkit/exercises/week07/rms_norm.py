"""RMS norm over the features of a token."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week07.shared import NORMS
from labkit.lazy import F


def _rms_norm(x, weight, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def _rms_case(shape, eps, make="normal", scale=1.0, shift=0.0):
    return lambda draw: {
        "x": shift + scale * getattr(draw, make)(*shape),
        "weight": draw.normal(shape[-1]),
        "eps": eps,
    }


exercise = Implement(
    title="RMS norm",
    minutes=4,
    needs=("w07.layer_norm",),
    dtype="float64",
    cases=[
        Case("batch of sequences", _rms_case((2, 3, 5), 1e-5, shift=1.0)),
        Case("eps 0.3", _rms_case((4, 6), 0.3)),
        Case("not contiguous", _rms_case((3, 2, 4), 1e-5, "transposed")),
        Case("one feature", _rms_case((3, 1), 0.1)),
        Case(
            "zeros",
            lambda draw: {"x": np.zeros((2, 4)), "weight": draw.normal(4), "eps": 1e-6},
            extreme=True,
        ),
    ],
    oracle=lambda x, weight, eps: F.rms_norm(x, x.shape[-1:], weight, eps),
    grads=("x", "weight"),
    rules=Rules(forbids=NORMS),
    mistakes=[
        Mistake(
            "mean subtracted",
            "The mean is subtracted: that is layer norm. RMS norm only divides.",
            lambda x, weight, eps: _rms_norm(x - x.mean(-1, keepdim=True), weight, eps),
        ),
        Mistake(
            "root of the sum",
            "The squares are summed: that makes vectors of length 1. Take their mean, then the size of a number is about 1.",
            lambda x, weight, eps: x / (x.square().sum(-1, keepdim=True) + eps).sqrt() * weight,
        ),
        Mistake(
            "eps outside the root",
            "eps is added to the root; it belongs under it.",
            lambda x, weight, eps: x / (x.square().mean(-1, keepdim=True).sqrt() + eps) * weight,
        ),
        Mistake(
            "eps not used",
            "eps is missing: add it to the mean square, under the root. It keeps a vector of zeros from becoming NaN.",
            lambda x, weight, eps: _rms_norm(x, weight, 0.0),
        ),
        Mistake(
            "no root",
            "The input is divided by the mean square; divide by its root.",
            lambda x, weight, eps: x / (x.square().mean(-1, keepdim=True) + eps) * weight,
        ),
        Mistake(
            "divided by the standard deviation",
            "x.var takes the mean away before it squares. The mean of x * x is wanted.",
            lambda x, weight, eps: x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * weight,
        ),
        Mistake(
            "over everything",
            "One mean square for the whole array. Each vector has its own: the last axis, kept.",
            lambda x, weight, eps: x / (x.square().mean() + eps).sqrt() * weight,
        ),
    ],
    hints=(
        "Root, mean, square: read the name from right to left.",
        "(x * x).mean(-1, keepdim=True) is the mean square; add eps, take the root.",
        "return x / ((x * x).mean(-1, keepdim=True) + eps).sqrt() * weight",
    ),
    passed="Llama, Gemma and most newer models use it: one pass over the numbers less, and nothing lost.",
)
