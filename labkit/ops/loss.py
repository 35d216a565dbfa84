"""Losses. Classification is fused with its gradient in one kernel; the others are a few ops each."""

import math
import warnings

from labkit.autograd import op
from labkit.errors import ShapeError, refuse
from labkit.op_table import composed
from labkit.ops.activation import logsigmoid
from labkit.ops.elementwise import _where as where
from labkit.ops.elementwise import abs, exp, log
from labkit.ops.embedding import check_index
from labkit.ops.reduce import log_softmax
from labkit.ops.shape import broadcast_shapes


@op
def _cross_entropy(k, x, target, w, *, ignore_index, label_smoothing, reduction):
    """(N, C, ...) (N, ...) (C,) -> a number, or (N, ...)"""
    return _classify(k, "cross_entropy", x, target, w, ignore_index, label_smoothing, reduction)


@op
def _nll_loss(k, x, target, w, *, ignore_index, reduction):
    """(N, C, ...) (N, ...) (C,) -> a number, or (N, ...)"""
    return _classify(k, "nll_loss", x, target, w, ignore_index, 0.0, reduction)


def _classify(k, name, x, target, w, ignore_index, label_smoothing, reduction):
    """The loss and its gradient come from the kernel together; backward only scales."""
    N, C, S = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    check_index(k, name, target, C, "classes", ignore_index)
    flat = x.ndim == 2
    rows = x if flat else x.reshape(N, C, S).swapaxes(1, 2).reshape(N * S, C)
    loss, gx = getattr(k, name)(rows, target.reshape(-1), w, ignore_index, label_smoothing, reduction)

    def backward(g):
        scaled = k.scale_rows(gx, g.reshape(-1) if reduction == "none" else g)
        return scaled if flat else scaled.reshape(N, S, C).swapaxes(1, 2).reshape(x.shape), None, None

    return loss.reshape(target.shape) if reduction == "none" else loss, backward


# ---- composed ----


@composed(functional=True)
def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """-log softmax(input)[target] of logits (N, C, ...) or (C,); classes (N, ...), or their probabilities."""
    _check_reduction("cross_entropy", reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy(): label_smoothing must be between 0 and 1, got {label_smoothing}")
    if target.shape == input.shape and target.dtype.kind == "f":
        return _soft_cross_entropy(input, target, weight, label_smoothing, reduction)
    x, t = _class_batch("cross_entropy", input, target, weight)
    y = _cross_entropy(
        x, t, weight, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
    )
    return y.reshape(target.shape) if reduction == "none" else y


def _soft_cross_entropy(input, target, weight, label_smoothing, reduction):
    """Targets that are probabilities of each class."""
    axis = min(1, input.ndim - 1)
    classes = input.shape[axis]
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    logp = log_softmax(input, axis) * target
    if weight is not None:
        logp = logp * weight.reshape((-1,) + (1,) * (input.ndim - axis - 1))
    loss = -logp.sum(axis)
    return loss.sum() / max(loss.numel(), 1) if reduction == "mean" else _reduce(loss, reduction)


@composed(functional=True)
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """-input[target] for log-probabilities (N, C, ...) or (C,)."""
    _check_reduction("nll_loss", reduction, size_average, reduce)
    x, t = _class_batch("nll_loss", input, target, weight)
    y = _nll_loss(x, t, weight, ignore_index=ignore_index, reduction=reduction)
    return y.reshape(target.shape) if reduction == "none" else y


@composed(functional=True)
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target)^2."""
    refuse("mse_loss", weight=weight)
    _check_reduction("mse_loss", reduction, size_average, reduce)
    d = _difference("mse_loss", input, target)
    return _reduce(d * d, reduction)


@composed(functional=True)
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|."""
    refuse("l1_loss", weight=weight)
    _check_reduction("l1_loss", reduction, size_average, reduce)
    return _reduce(abs(_difference("l1_loss", input, target)), reduction)


@composed(functional=True)
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """d^2 / (2 beta) for |d| < beta, |d| - beta / 2 beyond, with d = input - target."""
    _check_reduction("smooth_l1_loss", reduction, size_average, reduce)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss(): beta must not be negative, got {beta}")
    d = abs(_difference("smooth_l1_loss", input, target))
    return _reduce(where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta) if beta else d, reduction)


@composed(functional=True)
def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """-(t log s + (1 - t) log(1 - s)) with s = sigmoid(input); pos_weight multiplies the first term."""
    _check_reduction("binary_cross_entropy_with_logits", reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ShapeError(
            f"binary_cross_entropy_with_logits(): target {tuple(target.shape)} must have the shape of "
            f"input {tuple(input.shape)}"
        )
    positive = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    loss = (1 - target) * input - positive * logsigmoid(input)  # log(1 - s) = log(s) - input
    return _reduce(loss if weight is None else loss * weight, reduction)


@composed(functional=True)
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target (log target - input) for log-probabilities input; "batchmean" divides by the first axis."""
    _check_reduction("kl_div", reduction, size_average, reduce, "batchmean")
    if log_target:
        loss = exp(target) * (target - input)
    else:
        loss = where(target > 0, target * log(where(target > 0, target, 1.0)), 0.0) - target * input
    if reduction == "batchmean":
        return loss.sum() / (input.shape[0] if input.ndim else 1)
    return _reduce(loss, reduction)


# arguments


def _reduce(loss, reduction):
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def _check_reduction(function, reduction, size_average, reduce, *more):
    refuse(function, size_average=size_average, reduce=reduce)
    if reduction not in ("none", "mean", "sum", *more):
        choices = ", ".join(repr(r) for r in ("none", "mean", "sum", *more))
        raise ValueError(f"{function}(): reduction must be one of {choices}, not {reduction!r}")


def _difference(function, input, target):
    if input.shape != target.shape:
        broadcast_shapes(function, input.shape, target.shape)
        warnings.warn(
            f"{function}(): input {tuple(input.shape)} and target {tuple(target.shape)} are broadcast, "
            "which is seldom meant. Give both one shape.",
            stacklevel=4,  # past this function, the loss and its decorator
        )
    return input - target


def _class_batch(function, input, target, weight):
    """Logits as (N, C, ...) and classes as (N, ...)."""
    given, wanted = tuple(input.shape), tuple(target.shape)
    if not given or wanted != (given[:1] + given[2:] if len(given) > 1 else ()):
        raise ShapeError(
            f"{function}(): target needs one class per item: input (N, C, ...), target (N, ...), got "
            f"input {given}, target {wanted}"
        )
    x, t = (input, target) if len(given) > 1 else (input.unsqueeze(0), target.unsqueeze(0))
    if weight is not None and tuple(weight.shape) != (x.shape[1],):
        raise ShapeError(
            f"{function}(): weight {tuple(weight.shape)} must be ({x.shape[1]},), one per class: "
            f"input {given}, target {wanted}"
        )
    return x, t
