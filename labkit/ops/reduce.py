"""Sums, means, extremes and softmax along axes."""

import math
from builtins import max as builtin_max
from typing import NamedTuple

from labkit.autograd import op
from labkit.dtypes import FLOATS, as_dtype, floating, int64
from labkit.errors import NotSupported
from labkit.op_table import composed
from labkit.ops.axes import axes_of, axis_of
from labkit.ops.elementwise import maximum, minimum
from labkit.tensor import Tensor


def _kept(x, axes):
    """The shape of x with size 1 along the axes: how a reduced gradient lines up with x again."""
    return tuple(1 if i in axes else n for i, n in enumerate(x.shape))


def _count(x, axes):
    return math.prod(x.shape[a] for a in axes)


def _require_elements(name, x, axes):
    if x.size == 0 and _count(x, axes) == 0:
        raise IndexError(
            f"{name}() has nothing to choose from: the shape is {x.shape}, with no elements along dim."
        )


@op(method=True)
def sum(k, x, *, dim=None, keepdim=False, dtype=None):
    """The sum of the elements along `dim`; whole numbers are summed as int64."""
    axes, keep = axes_of("sum", dim, x.ndim), _kept(x, axes_of("sum", dim, x.ndim))
    dtype = as_dtype(dtype) if dtype is not None else x.dtype if x.dtype in FLOATS else int64
    shape = x.shape
    x = x if x.dtype == dtype else k.cast(x, dtype)
    return k.sum(x, axes, keepdim), lambda g: k.broadcast_to(g.reshape(keep), shape)


@op(method=True)
def mean(k, x, *, dim=None, keepdim=False, dtype=None):
    """The average of the elements along `dim`."""
    x = x if dtype is None else k.cast(x, as_dtype(dtype))
    if x.dtype not in FLOATS:
        raise RuntimeError(
            f"mean() needs floating point, got {x.dtype.name}. Convert first: x.float().mean()."
        )
    axes = axes_of("mean", dim, x.ndim)
    n, keep, shape = _count(x, axes), _kept(x, axes), x.shape
    if n == 0:  # 0 / 0
        return k.mul(k.sum(x, axes, keepdim), math.nan), lambda g: k.zeros(shape, g.dtype)
    return k.div(k.sum(x, axes, keepdim), n), lambda g: k.broadcast_to(k.div(g.reshape(keep), n), shape)


@op(method=True)
def prod(k, x, *, dim=None, keepdim=False, dtype=None):
    """The product of the elements along `dim`."""
    axes, shape = axes_of("prod", dim, x.ndim), x.shape
    dtype = as_dtype(dtype) if dtype is not None else x.dtype if x.dtype in FLOATS else int64
    x = k.cast(x, dtype)

    def backward(g):
        flat = x.reshape(-1) if dim is None else x
        others = k.prod_others(flat, 0 if dim is None else axes[0]) if x.ndim else k.full((1,), 1, x.dtype)
        return k.mul(others.reshape(shape), g.reshape(_kept(x, axes)))

    return k.prod(x, axes, keepdim), backward


def _share(k, g, x, y, axes):
    """The gradient of an extreme, shared equally between all elements that reach it."""
    keep = _kept(x, axes)
    at = k.eq(x, y.reshape(keep))
    at = at if x.dtype not in FLOATS else k.logical_or(at, k.isnan(x))
    count = k.sum(k.cast(at, g.dtype), axes, True)
    return k.keep(k.div(g.reshape(keep), count), at)


@op(method=True)
def amax(k, x, *, dim=(), keepdim=False):
    """The largest element along `dim`; equal ones share the gradient."""
    axes = axes_of("amax", dim, x.ndim)
    _require_elements("amax", x, axes)
    y = k.asarray(k.amax(x, axes, keepdim))
    return y, lambda g: _share(k, g, x, y, axes)


@op(method=True)
def amin(k, x, *, dim=(), keepdim=False):
    """The smallest element along `dim`; equal ones share the gradient."""
    axes = axes_of("amin", dim, x.ndim)
    _require_elements("amin", x, axes)
    y = k.asarray(k.amin(x, axes, keepdim))
    return y, lambda g: _share(k, g, x, y, axes)


@op(method=True)
def argmax(k, x, *, dim=None, keepdim=False):
    """Where the largest element along `dim` is; without `dim`, its position in the flattened tensor."""
    axis = None if dim is None else axis_of("argmax", dim, x.ndim)
    _require_elements("argmax", x, axes_of("argmax", dim, x.ndim))
    return k.argmax(x, axis if x.ndim else None, keepdim), None


@op(method=True)
def argmin(k, x, *, dim=None, keepdim=False):
    """Where the smallest element along `dim` is; without `dim`, its position in the flattened tensor."""
    axis = None if dim is None else axis_of("argmin", dim, x.ndim)
    _require_elements("argmin", x, axes_of("argmin", dim, x.ndim))
    return k.argmin(x, axis if x.ndim else None, keepdim), None


@op(method=True)
def all(k, x, *, dim=None, keepdim=False):
    """Whether all elements along `dim` are true"""
    return k.all(x, axes_of("all", dim, x.ndim), keepdim), None


@op(method=True)
def any(k, x, *, dim=None, keepdim=False):
    """Whether any element along `dim` is true"""
    return k.any(x, axes_of("any", dim, x.ndim), keepdim), None


def _centered(k, x, axes):
    return k.sub(x, k.div(k.sum(x, axes, True), builtin_max(_count(x, axes), 1)))


def _variance(k, x, axes, keepdim, correction):
    freedom = builtin_max(_count(x, axes) - correction, 0)
    total = k.sum(k.square(_centered(k, x, axes)), axes, keepdim)
    return (k.div(total, freedom) if freedom else k.mul(total, math.nan)), freedom


@op
def _var(k, x, *, dim, keepdim, correction):
    axes = axes_of("var", dim, x.ndim)
    v, freedom = _variance(k, x, axes, keepdim, correction)

    def backward(g):
        scale = 2 / freedom if freedom else math.nan
        return k.mul(k.mul(g.reshape(_kept(x, axes)), scale), _centered(k, x, axes))

    return v, backward


@op
def _std(k, x, *, dim, keepdim, correction):
    axes = axes_of("std", dim, x.ndim)
    v, freedom = _variance(k, x, axes, keepdim, correction)
    s = k.asarray(k.sqrt(v))

    def backward(g):
        g = k.div(g, k.mul(s, freedom if freedom else math.nan))
        g = k.keep(g, k.ne(s, 0)).reshape(_kept(x, axes))  # no slope where all elements are equal
        return k.mul(g, _centered(k, x, axes))

    return s, backward


@op(method=True)
def cumsum(k, x, *, dim, dtype=None):
    """y[i] = x[0] + ... + x[i] along `dim`"""
    dtype = as_dtype(dtype) if dtype is not None else x.dtype if x.dtype in FLOATS else int64
    axis, x = axis_of("cumsum", dim, x.ndim), k.cast(x, dtype)
    if x.ndim == 0:
        return x, lambda g: g
    return k.cumsum(x, axis), lambda g: k.flip(k.cumsum(k.flip(g, (axis,)), axis), (axis,))


@op(method=True)
def cumprod(k, x, *, dim, dtype=None):
    """y[i] = x[0] x[1] ... x[i] along `dim`"""
    dtype = as_dtype(dtype) if dtype is not None else x.dtype if x.dtype in FLOATS else int64
    axis, x = axis_of("cumprod", dim, x.ndim), k.cast(x, dtype)
    if x.ndim == 0:
        return x, lambda g: g
    return k.cumprod(x, axis), lambda g: k.cumprod_grad(g, x, axis)


@op(method=True)
def logsumexp(k, x, *, dim, keepdim=False):
    """log(sum(e^x)) along `dim`, without overflow"""
    x = floating(x)
    axes = axes_of("logsumexp", dim, x.ndim)
    y = k.asarray(k.logsumexp(x, axes, keepdim))

    def backward(g):
        keep = _kept(x, axes)
        return k.mul(g.reshape(keep), k.keep(k.exp(k.sub(x, y.reshape(keep))), k.ne(x, -math.inf)))

    return y, backward


@op(method=True, functional=True)
def softmax(k, x, *, dim=None, dtype=None):
    """e^x / sum(e^x) along `dim`"""
    x, axis = _softmax_input(k, "softmax", x, dim, dtype)
    y = k.softmax(x, axis)
    return y, lambda g: k.softmax_grad(g, y, axis)


@op(method=True, functional=True)
def log_softmax(k, x, *, dim=None, dtype=None):
    """x - log(sum(e^x)) along `dim`: the logarithm of softmax, without underflow"""
    x, axis = _softmax_input(k, "log_softmax", x, dim, dtype)
    y = k.log_softmax(x, axis)
    return y, lambda g: k.log_softmax_grad(g, y, axis)


def _softmax_input(k, name, x, dim, dtype):
    if dim is None:
        raise TypeError(
            f"{name}() needs dim: the axis whose elements should sum to 1. Usually the last: dim=-1."
        )
    if dtype is not None:
        x = k.cast(x, as_dtype(dtype))
    if x.dtype not in FLOATS:
        raise RuntimeError(f"{name}() needs floating point, got {x.dtype.name}. Convert first: x.float().")
    return x, axis_of(name, dim, x.ndim) if x.ndim else ()


@op
def _norm(k, x, *, p, dim, keepdim):
    """The p-norm of all elements along `dim`: (sum |x|^p)^(1/p)"""
    axes = axes_of("norm", dim, x.ndim)
    keep, a = _kept(x, axes), k.abs(x)
    if math.isinf(p):
        _require_elements("norm", x, axes)
        y = k.asarray((k.amax if p > 0 else k.amin)(a, axes, keepdim))
        return y, lambda g: k.mul(_share(k, g, a, y, axes), k.sign(x))
    if p == 0:
        return k.sum(k.cast(k.ne(x, 0), x.dtype), axes, keepdim), lambda g: None
    if p == 1:
        return k.sum(a, axes, keepdim), lambda g: k.mul(g.reshape(keep), k.sign(x))
    y = (
        k.sqrt(k.sum(k.square(x), axes, keepdim))
        if p == 2
        else k.pow(k.sum(k.pow(a, p), axes, keepdim), 1 / p)
    )
    y = k.asarray(y)

    def backward(g):  # sign(x) |x|^(p-1) / y^(p-1), and 0 where that is 0 / 0
        slope = x if p == 2 else k.mul(k.sign(x), k.pow(a, p - 1))
        scale = y if p == 2 else k.pow(y, p - 1)
        slope = slope if p >= 1 else k.keep(slope, k.ne(x, 0))
        return k.mul(k.keep(k.div(g, scale), k.ne(y, 0)).reshape(keep), slope)

    return y, backward


# ---- composed ----


class Extreme(NamedTuple):
    """What `max(dim=...)`, `min`, `sort` and `topk` return."""

    values: Tensor
    indices: Tensor


def _pick(name, input, other, keepdim, dim, amount, pairwise, where):
    """The three meanings of max and min: of all elements, of each pair, or along an axis with positions."""
    if isinstance(other, Tensor):
        return pairwise(input, other)
    dim = other if dim is None else dim
    if dim is None:
        return amount(input)
    indices = where(input, dim, True)
    values = input.gather(axis_of(name, dim, input.ndim), indices) if input.ndim else input.clone()
    return (
        Extreme(values, indices)
        if keepdim or not input.ndim
        else Extreme(values.squeeze(dim), indices.squeeze(dim))
    )


@composed(method=True, returns="Any")
def max(input, other=None, keepdim=False, *, dim=None):
    """The largest element; with `dim`, `(values, indices)` along it; with a tensor, of each pair."""
    return _pick("max", input, other, keepdim, dim, amax, maximum, argmax)


@composed(method=True, returns="Any")
def min(input, other=None, keepdim=False, *, dim=None):
    """The smallest element; with `dim`, `(values, indices)` along it; with a tensor, of each pair."""
    return _pick("min", input, other, keepdim, dim, amin, minimum, argmin)


def _correction(dim, unbiased, correction):
    """Torch's three ways to say what to subtract from the count: `var(False)`, `unbiased=`, `correction=`."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction


@composed(method=True)
def var(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The variance: the sum of squared distances to the mean, divided by (count - correction)."""
    dim, correction = _correction(dim, unbiased, correction)
    return _var(input, dim=dim, keepdim=keepdim, correction=correction)


@composed(method=True)
def std(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The standard deviation: the square root of `var`."""
    dim, correction = _correction(dim, unbiased, correction)
    return _std(input, dim=dim, keepdim=keepdim, correction=correction)


@composed(method=True)
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    """The p-norm of the elements along `dim`; "fro" is the 2-norm."""
    if p == "nuc":
        raise NotSupported(
            'norm(): p="nuc" needs singular values, which labkit does not have; use torch for it.'
        )
    if p is None or p == "fro":
        p = 2.0
    input = input if dtype is None else input.to(dtype)
    if input.dtype not in FLOATS:
        raise RuntimeError(
            f"norm() needs floating point, got {input.dtype.name}. Convert first: x.float().norm()."
        )
    return _norm(input, p=float(p), dim=dim, keepdim=keepdim)


@composed(method=True)
def count_nonzero(input, dim=None):
    """How many elements along `dim` are not 0"""
    return sum(input != 0, dim)
