"""Clip gradients by the norm of all of them together."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week03.shared import Parameter
from labkit.lazy import torch


def _norm(grads):
    return sum((g**2).sum() for g in grads) ** 0.5


def _clip(parameters, max_norm):
    total = _norm([p.grad for p in parameters])
    _scale(parameters, min(1.0, max_norm / (total + 1e-6)))
    return total


def _scale(parameters, factor):
    for p in parameters:
        p.grad = p.grad * factor


def _use_clip(clip, grads, max_norm):
    parameters = [Parameter(None, g.copy()) for g in grads]
    norm = clip(parameters, max_norm)
    return {"norm": norm, "gradients": [p.grad for p in parameters]}


def _clip_truth(grads, max_norm):
    parameters = [torch.zeros_like(g) for g in grads]
    for p, g in zip(parameters, grads, strict=True):
        p.grad = g.clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return {"norm": norm, "gradients": [p.grad for p in parameters]}


def _clip_each(parameters, max_norm):
    total = _norm([p.grad for p in parameters])
    for p in parameters:
        _clip([p], max_norm)
    return total


def _clip_each_last(parameters, max_norm):
    return [_clip([p], max_norm) for p in parameters][-1]


def _clip_always(parameters, max_norm):
    total = _norm([p.grad for p in parameters])
    _scale(parameters, max_norm / (total + 1e-6))
    return total


def _clip_by(norm, plus=1e-6):
    """Clips by another norm of all the gradients."""

    def clip(parameters, max_norm):
        total = norm([p.grad for p in parameters])
        _scale(parameters, min(1.0, max_norm / (total + plus)))
        return total

    return clip


def _clip_values(parameters, max_norm):
    total = _norm([p.grad for p in parameters])
    for p in parameters:
        p.grad = p.grad.clip(-max_norm, max_norm)
    return total


def _clip_then_norm(parameters, max_norm):
    _clip(parameters, max_norm)
    return _norm([p.grad for p in parameters])


def _refused_clip(parameters, max_norm):
    tensors = [torch.from_numpy(p.grad) for p in parameters]
    for tensor in tensors:
        tensor.grad = tensor.clone()
    norm = torch.nn.utils.clip_grad_norm_(tensors, max_norm)
    for p, tensor in zip(parameters, tensors, strict=True):
        p.grad = tensor.grad.numpy()
    return norm.numpy()


exercise = Implement(
    title="Clip by the global norm",
    minutes=8,
    needs=("w03.sgd",),
    also=("gradient clipping",),
    engine="numpy",
    dtype="float64",
    cases=[
        Case("too long", lambda draw: {"grads": [3 * draw.normal(2, 3), draw.normal(4)], "max_norm": 1.0}),
        Case(
            "short enough",
            lambda draw: {"grads": [0.01 * draw.normal(3, 2), 0.01 * draw.normal(1)], "max_norm": 1.0},
        ),
        Case(
            "one long, one short, not contiguous",
            lambda draw: {"grads": [draw.transposed(4, 5), 0.1 * draw.normal(2)], "max_norm": 2.0},
        ),
        Case(
            "each short, together long",
            lambda draw: {"grads": [0.5 * draw.normal(k) for k in (2, 3, 5)], "max_norm": 1.2},
        ),
        Case(
            "all zero", lambda draw: {"grads": [np.zeros((2, 3)), np.zeros(4)], "max_norm": 1.0}, extreme=True
        ),
    ],
    oracle=_clip_truth,
    use=_use_clip,
    memory="any",
    reference="torch's clip_grad_norm_",
    rules=Rules(forbids=("clip_grad_norm", "clip_grad_value", "clip_grads_with_norm", "get_total_norm")),
    delegate=_refused_clip,
    mistakes=[
        Mistake(
            "each on its own",
            "Each gradient is clipped by its own norm. That turns the step: take one norm over all of them, and one factor.",
            _clip_each,
        ),
        Mistake(
            "each on its own, last norm",
            "Norm and factor are computed anew for each parameter. Add up the squares of all first, then use one factor for all.",
            _clip_each_last,
        ),
        Mistake(
            "scales up",
            "Short gradients are made longer. Clipping only shortens: the factor is at most 1.",
            _clip_always,
        ),
        Mistake(
            "norms added",
            "The norms of the parts are added. Add their squares, then take the root, as if all were one long vector.",
            _clip_by(lambda grads: sum(_norm([g]) for g in grads)),
        ),
        Mistake(
            "root forgotten",
            "This is the sum of squares; the norm is its root.",
            _clip_by(lambda grads: _norm(grads) ** 2),
        ),
        Mistake(
            "values clipped",
            "Each number is cut to max_norm on its own, which changes the direction. Multiply all of them by one factor.",
            _clip_values,
        ),
        Mistake(
            "norm afterward",
            "The gradients are right. Return the norm they had *before*: it is the number people plot.",
            _clip_then_norm,
        ),
        Mistake(
            "1e-6 forgotten",
            "torch divides by the norm plus 1e-6, so that nothing is divided by 0.",
            _clip_by(_norm, plus=1e-300),
        ),
    ],
    hints=(
        "Think of all gradients as one long vector. How long is it?",
        "Sum the squares over all parameters, take the root once. The factor is min(1, max_norm / (norm + 1e-6)).",
        "norm = sum((p.grad**2).sum() for p in parameters) ** 0.5; then p.grad = p.grad * factor for each; return norm",
    ),
    passed="The direction stays, the length is capped: one bad batch can no longer throw away an hour of training.",
)
