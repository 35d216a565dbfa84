"""Normalization of rows (layer, RMS), of channels over the batch (batch), of groups of channels (group)."""

import math

from labkit.autograd import op
from labkit.errors import ShapeError, refuse
from labkit.op_table import composed
from labkit.ops.reduce import norm
from labkit.ops.shape import broadcast_tensors


@op
def _layer_norm(k, x, w, b, *, eps, size):
    """(..., size) (size,) (size,) -> (..., size)"""
    rows = x.reshape(math.prod(x.shape) // max(size, 1), size)  # (N, size)
    y, mean, rstd = k.layer_norm(rows, w, b, eps)

    def backward(g):
        gx, gw, gb = k.layer_norm_grad(g.reshape(rows.shape), rows, w, mean, rstd)
        return gx.reshape(x.shape), gw, gb

    return y.reshape(x.shape), backward


@op
def _rms_norm(k, x, w, *, eps, size):
    """(..., size) (size,) -> (..., size)"""
    rows = x.reshape(math.prod(x.shape) // max(size, 1), size)  # (N, size)
    y, rstd = k.rms_norm(rows, w, eps)

    def backward(g):
        gx, gw = k.rms_norm_grad(g.reshape(rows.shape), rows, w, rstd)
        return gx.reshape(x.shape), gw

    return y.reshape(x.shape), backward


@op
def _batch_norm(k, x, w, b, running_mean, running_var, *, training, momentum, eps):
    """(N, C, ...) -> (N, C, ...). Training uses the statistics of x and moves the running ones."""
    flat = x.reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))  # (N, C, S)
    mean, var = k.batch_norm_stats(flat) if training else (running_mean, running_var)
    if training and running_mean is not None:
        count = flat.shape[0] * flat.shape[2]
        k.batch_norm_update_(running_mean, running_var, mean, var, count, momentum)

    def backward(g):
        gx, gw, gb = k.batch_norm_grad(g.reshape(flat.shape), flat, w, mean, var, eps, training)
        return gx.reshape(x.shape), gw, gb, None, None

    return k.batch_norm(flat, w, b, mean, var, eps).reshape(x.shape), backward


# ---- composed ----


@composed(functional=True)
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes, those of normalized_shape."""
    size = _check_last_axes("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    return _layer_norm(input, _flat(weight), _flat(bias), eps=eps, size=size)


@composed(functional=True)
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) * weight over the last axes; eps defaults to the dtype's machine epsilon."""
    size = _check_last_axes("rms_norm", input, normalized_shape, weight=weight)
    return _rms_norm(input, _flat(weight), eps=eps, size=size)


@composed(functional=True)
def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    """Normalize each channel of (N, C, ...) over all other axes.

    In training by the mean and variance of the batch, towards which running_mean and running_var are moved in
    place; otherwise by running_mean and running_var.
    """
    shape = tuple(input.shape)
    if momentum is None:
        raise TypeError("batch_norm(): momentum must be a number; nn.BatchNorm handles momentum=None")
    if training and shape[:1] + shape[2:] and math.prod(shape[:1] + shape[2:]) == 1:
        raise ValueError(f"batch_norm(): training needs more than one value per channel, got input {shape}")
    if not training and (running_mean is None or running_var is None):
        raise ValueError("batch_norm(): running_mean and running_var are needed when training is False")
    if not input.numel():
        return input.clone()
    for name, t in (
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("bias", bias),
    ):
        if t is not None and tuple(t.shape) != shape[1:2]:
            raise ShapeError(
                f"batch_norm(): {name} {tuple(t.shape)} must have one value per channel of input {shape}"
            )
    return _batch_norm(
        input, weight, bias, running_mean, running_var, training=training, momentum=momentum, eps=eps
    )


@composed(functional=True)
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Layer norm of each group of channels of (N, C, ...), then weight and bias per channel."""
    shape = tuple(input.shape)
    if len(shape) < 2 or shape[1] % num_groups:
        raise ShapeError(
            f"group_norm(): num_groups {num_groups} must divide the channels (axis 1) of input {shape}"
        )
    size = math.prod(shape[1:]) // num_groups
    y = _layer_norm(input.reshape(shape[0], num_groups, size), None, None, eps=eps, size=size).reshape(shape)
    per_channel = (-1,) + (1,) * (len(shape) - 2)
    y = y if weight is None else y * weight.reshape(per_channel)
    return y if bias is None else y + bias.reshape(per_channel)


@composed(functional=True)
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """input / max(norm, eps), with the p-norm along dim."""
    refuse("normalize", out=out)
    return input / norm(input, p, dim, keepdim=True).clamp(min=eps)


@composed(functional=True)
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between x1 and x2 along dim; norms below eps count as eps."""
    x1, x2 = broadcast_tensors(x1, x2)
    return (_unit(x1, dim, eps) * _unit(x2, dim, eps)).sum(dim)


def _unit(x, dim, eps):
    length = norm(x, 2, dim, keepdim=True)
    return x / (
        length + (length.clamp(min=eps) - length).detach()
    )  # as torch: eps changes the value, not the slope


def _flat(parameter):
    return parameter if parameter is None or parameter.ndim == 1 else parameter.reshape(-1)


def _check_last_axes(function, x, normalized_shape, **parameters):
    """The number of elements of normalized_shape, the shape that x ends in and each parameter has."""
    expected = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not expected or tuple(x.shape[-len(expected) :]) != expected:
        raise ShapeError(f"{function}(): input {tuple(x.shape)} must end in normalized_shape {expected}")
    for name, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != expected:
            raise ShapeError(
                f"{function}(): {name} {tuple(parameter.shape)} must have normalized_shape {expected}"
            )
    return math.prod(expected)
