"""Layer norm over the features of a token."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week07.shared import NORMS
from labkit.lazy import F


def _layer_norm(x, weight, bias, eps, *, dims=(-1,), correction=0, outside=False, affine=True, power=0.5):
    """The answer, with one thing changed."""
    mean, var = x.mean(dims, keepdim=True), x.var(dims, correction=correction, keepdim=True)
    size = var**power + eps if outside else (var + eps) ** power
    y = (x - mean) / size
    return y * weight + bias if affine else y


def _norm_case(shape, eps, make="normal", scale=1.0, shift=0.0):
    return lambda draw: {
        "x": shift + scale * getattr(draw, make)(*shape),
        "weight": draw.normal(shape[-1]),
        "bias": draw.normal(shape[-1]),
        "eps": eps,
    }


exercise = Implement(
    title="Layer norm",
    minutes=8,
    dtype="float64",
    cases=[
        Case("batch of sequences", _norm_case((2, 3, 5), 1e-5, shift=1.0)),
        Case("eps 0.3", _norm_case((4, 6), 0.3)),
        Case("not contiguous", _norm_case((3, 2, 4), 1e-5, "transposed")),
        Case("one position", _norm_case((3, 1, 4), 1e-3, shift=2.0)),
        Case("one vector", _norm_case((7,), 1e-5)),
        Case(
            "a row of equal numbers",
            lambda draw: {
                "x": np.full((2, 4), 3.0),
                "weight": draw.normal(4),
                "bias": draw.normal(4),
                "eps": 1e-5,
            },
            extreme=True,
        ),
    ],
    oracle=lambda x, weight, bias, eps: F.layer_norm(x, x.shape[-1:], weight, bias, eps),
    grads=("x", "weight", "bias"),
    rules=Rules(forbids=NORMS),
    mistakes=[
        Mistake(
            "unbiased variance",
            "The variance divides by n - 1. Layer norm divides by n, as batch norm does: correction=0.",
            vary(_layer_norm, correction=1),
        ),
        Mistake(
            "eps outside the root",
            "eps is added to the root; it belongs under it: sqrt(var + eps).",
            vary(_layer_norm, outside=True),
        ),
        Mistake(
            "eps not used",
            "A fixed 1e-5 stands where eps belongs. It is an argument: sqrt(var + eps).",
            lambda x, weight, bias, eps: _layer_norm(x, weight, bias, 1e-5),
        ),
        Mistake(
            "over the batch",
            "Mean and variance run over the first axis, as in batch norm. Each vector is measured by itself: the last axis.",
            vary(_layer_norm, dims=(0,)),
        ),
        Mistake(
            "over everything",
            "One mean and one variance for the whole array: then a token changes when its neighbors do. Take the last axis.",
            lambda x, weight, bias, eps: _layer_norm(x, weight, bias, eps, dims=tuple(range(x.ndim))),
        ),
        Mistake(
            "no scale and shift",
            "The vectors are normalized, but weight and bias are not used.",
            vary(_layer_norm, affine=False),
        ),
        Mistake(
            "torch's standard deviation",
            "x.std divides by n - 1, and eps is added to it. The root of var + eps is wanted, with correction=0.",
            vary(_layer_norm, correction=1, outside=True),
        ),
        Mistake(
            "no shift",
            "The bias is not added.",
            lambda x, weight, bias, eps: _layer_norm(x, weight, 0 * bias, eps),
        ),
        Mistake(
            "divided by the variance",
            "The difference is divided by the variance; divide by its root.",
            vary(_layer_norm, power=1.0),
        ),
        Mistake(
            "mean not subtracted",
            "The mean is not subtracted: that comes before the division.",
            lambda x, weight, bias, eps: (
                x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * weight + bias
            ),
        ),
    ],
    hints=(
        "Which numbers belong together? All features of one token, and nothing else.",
        "x.mean(-1, keepdim=True) and x.var(-1, correction=0, keepdim=True) line up with x.",
        "return (x - mean) / (var + eps).sqrt() * weight + bias",
    ),
    passed="No running averages, no two modes: a token is normalized by itself, in training and in evaluation.",
)
