"""Functions of each element: a table of calculus.

Inputs broadcast; `backward()` sums gradients back to each input's shape and casts them to its type, so an op
returns the gradient of the broadcast input. `floating` turns whole numbers into floats, `promote` finds a
common type.
"""

import math
from builtins import abs as builtin_abs

from labkit.autograd import op
from labkit.dtypes import FLOATS, floating, promote, promote_float
from labkit.op_table import composed

# ---- one input ----


@op(method=True, in_place=True, aliases="negative")
def neg(k, x):
    """-x"""
    return k.neg(x), lambda g: k.neg(g)


@op(method=True, in_place=True, aliases="absolute")
def abs(k, x):
    """|x|, with gradient 0 at 0"""
    return k.abs(x), lambda g: k.mul(g, k.sign(x))


@op(method=True, in_place=True)
def square(k, x):
    """x^2"""
    return k.square(x), lambda g: k.mul(g, k.mul(x, 2))


@op(method=True, in_place=True)
def sqrt(k, x):
    """The square root of x"""
    y = k.sqrt(floating(x))
    return y, lambda g: k.div(g, k.mul(y, 2))


@op(method=True, in_place=True)
def rsqrt(k, x):
    """1 / sqrt(x)"""
    y = k.rsqrt(floating(x))
    return y, lambda g: k.mul(k.mul(g, -0.5), k.mul(y, k.mul(y, y)))


@op(method=True, in_place=True)
def reciprocal(k, x):
    """1 / x"""
    y = k.div(1, floating(x))
    return y, lambda g: k.neg(k.mul(g, k.mul(y, y)))


@op(method=True, in_place=True)
def exp(k, x):
    """e^x"""
    y = k.exp(floating(x))
    return y, lambda g: k.mul(g, y)


@op(method=True, in_place=True)
def exp2(k, x):
    """2^x"""
    y = k.exp2(floating(x))
    return y, lambda g: k.mul(g, k.mul(y, math.log(2)))


@op(method=True, in_place=True)
def expm1(k, x):
    """e^x - 1, accurate near 0"""
    y = k.expm1(floating(x))
    return y, lambda g: k.mul(g, k.add(y, 1))


@op(method=True, in_place=True)
def log(k, x):
    """The natural logarithm"""
    x = floating(x)
    return k.log(x), lambda g: k.div(g, x)


@op(method=True)
def log2(k, x):
    """The logarithm to base 2"""
    x = floating(x)
    return k.log2(x), lambda g: k.div(g, k.mul(x, math.log(2)))


@op(method=True)
def log10(k, x):
    """The logarithm to base 10"""
    x = floating(x)
    return k.log10(x), lambda g: k.div(g, k.mul(x, math.log(10)))


@op(method=True, in_place=True)
def log1p(k, x):
    """log(1 + x), accurate near 0"""
    x = floating(x)
    return k.log1p(x), lambda g: k.div(g, k.add(x, 1))


@op(method=True, in_place=True)
def sin(k, x):
    x = floating(x)
    return k.sin(x), lambda g: k.mul(g, k.cos(x))


@op(method=True, in_place=True)
def cos(k, x):
    x = floating(x)
    return k.cos(x), lambda g: k.neg(k.mul(g, k.sin(x)))


@op(method=True, in_place=True, functional=True)
def tanh(k, x):
    y = k.tanh(floating(x))
    return y, lambda g: k.tanh_grad(g, y)


@op(method=True, in_place=True, functional=True)
def sigmoid(k, x):
    """1 / (1 + e^-x)"""
    y = k.sigmoid(floating(x))
    return y, lambda g: k.sigmoid_grad(g, y)


@op(method=True, in_place=True)
def erf(k, x):
    """2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x"""
    x = floating(x)
    return k.erf(x), lambda g: k.mul(g, k.mul(k.exp(k.neg(k.square(x))), 2 / math.sqrt(math.pi)))


# Steps: flat almost everywhere, so the gradient is 0.


def _zero(k, x):
    shape = x.shape
    return lambda g: k.zeros(shape, g.dtype)


@op(method=True, in_place=True)
def sign(k, x):
    """-1, 0 or 1"""
    return k.sign(x), _zero(k, x)


@op(method=True, in_place=True)
def floor(k, x):
    return k.floor(x) if x.dtype in FLOATS else k.copy(x), _zero(k, x)


@op(method=True, in_place=True)
def ceil(k, x):
    return k.ceil(x) if x.dtype in FLOATS else k.copy(x), _zero(k, x)


@op(method=True, in_place=True)
def trunc(k, x):
    """x without its fraction"""
    return k.trunc(x) if x.dtype in FLOATS else k.copy(x), _zero(k, x)


@op(method=True, in_place=True)
def round(k, x, *, decimals=0):
    """The nearest number with that many decimals; halves go to the even neighbor."""
    if x.dtype not in FLOATS:
        return k.copy(x), None
    if decimals == 0:
        return k.round(x), _zero(k, x)
    scale = 10.0 ** builtin_abs(decimals)
    if decimals > 0:
        return k.div(k.round(k.mul(x, scale)), scale), _zero(k, x)
    return k.mul(k.round(k.div(x, scale)), scale), _zero(k, x)


# ---- two inputs ----


@op(method=True, in_place=True)
def add(k, x, y, *, alpha=1):
    """x + alpha y"""
    x, y = promote(x, y)
    if alpha == 1:
        return k.add(x, y), lambda g: (g, g)
    return k.add(x, k.mul(y, alpha)), lambda g: (g, k.mul(g, alpha))


@op(method=True, in_place=True, aliases="subtract")
def sub(k, x, y, *, alpha=1):
    """x - alpha y"""
    x, y = promote(x, y)
    if alpha == 1:
        return k.sub(x, y), lambda g: (g, k.neg(g))
    return k.sub(x, k.mul(y, alpha)), lambda g: (g, k.mul(g, -alpha))


@op(method=True, in_place=True, aliases="multiply")
def mul(k, x, y, *, need):
    """x y"""
    x, y = promote(x, y)
    z = k.mul(x, y)
    x, y = x if need[1] else None, y if need[0] else None  # keep only what a gradient reads
    return z, lambda g: (k.mul(g, y) if need[0] else None, k.mul(g, x) if need[1] else None)


@op(method=True, in_place=True, aliases="divide true_divide")
def div(k, x, y, *, rounding_mode=None, need):
    """x / y; rounding_mode "floor" or "trunc" rounds down or toward zero"""
    if rounding_mode == "floor":
        return k.floor_divide(*promote(x, y)), lambda g: (k.mul(g, 0), k.mul(g, 0))
    if rounding_mode not in (None, "trunc"):
        raise ValueError(f'div(): rounding_mode must be None, "trunc" or "floor", got {rounding_mode!r}')
    whole = promote(x, y)[0].dtype
    x, y = promote_float(x, y)
    q = k.div(x, y)
    if rounding_mode == "trunc":
        return k.cast(k.trunc(q), whole), lambda g: (k.mul(g, 0), k.mul(g, 0))
    kept = q if need[1] else None

    def backward(g):
        gx = k.div(g, y)
        return gx, k.neg(k.mul(gx, kept)) if need[1] else None

    return q, backward


@op(method=True, in_place=True)
def pow(k, x, exponent, *, need):
    """x to the power of the exponent, y below"""
    x, y = promote(x, exponent)
    z = k.pow(x, y)
    kept = z if need[1] else None

    def backward(g):
        gx = gy = None
        if need[0]:  # y x^(y-1), and 0 where y is 0
            gx = k.keep(k.mul(g, k.mul(y, k.pow(x, k.sub(y, 1)))), k.ne(y, 0))
        if need[1]:  # x^y log x, and 0 where x is 0
            gy = k.keep(k.mul(g, k.mul(kept, k.log(x))), k.logical_not(k.logical_and(k.eq(x, 0), k.ge(y, 0))))
        return gx, gy

    return z, backward


@op(method=True)
def floor_divide(k, x, y):
    """The largest whole number not above x / y"""
    return k.floor_divide(*promote(x, y)), None


@op(method=True, in_place=True)
def remainder(k, x, y):
    """x - y floor(x / y): has the sign of y"""
    x, y = promote(x, y)
    return k.remainder(x, y), lambda g: (g, k.neg(k.mul(g, k.floor_divide(x, y))))


def _extreme(k, x, y, larger):
    """The gradient of max(x, y) goes to the larger one; to each half of it where they are equal."""

    def backward(g):
        g = k.where(k.eq(x, y), k.div(g, 2), g)
        x_loses, y_loses = (k.lt(x, y), k.gt(x, y)) if larger else (k.gt(x, y), k.lt(x, y))
        return k.keep(g, k.logical_not(x_loses)), k.keep(g, k.logical_not(y_loses))

    return backward


@op(method=True)
def maximum(k, x, y):
    """The larger of x and y"""
    x, y = promote(x, y)
    return k.maximum(x, y), _extreme(k, x, y, larger=True)


@op(method=True)
def minimum(k, x, y):
    """The smaller of x and y"""
    x, y = promote(x, y)
    return k.minimum(x, y), _extreme(k, x, y, larger=False)


# ---- three inputs ----


@op
def _where(k, condition, x, y):
    """x where the condition is true, else y"""
    x, y = promote(x, y)
    return k.where(condition, x, y), lambda g: (
        None,
        k.keep(g, condition),
        k.keep(g, k.logical_not(condition)),
    )


@op(method=True, in_place=True, aliases="clip")
def clamp(k, x, min=None, max=None, *, need):
    """x, but at least min and at most max (each a number, a tensor or None)"""
    if min is None and max is None:
        raise ValueError("clamp() needs min, max or both")
    x, *bounds = promote(x, *(b for b in (min, max) if b is not None))
    low, high = bounds[0] if min is not None else None, bounds[-1] if max is not None else None
    y = x if low is None else k.maximum(x, low)
    y = y if high is None else k.minimum(y, high)
    below = k.zeros((), bool) if low is None else k.lt(x, low)
    above = k.zeros((), bool) if high is None else k.gt(x, high)

    def backward(g):
        gx = k.keep(g, k.logical_not(k.logical_or(below, above)))
        crossed = (
            k.lt(high, low) if (need[1] and high is not None) or (need[2] and low is not None) else False
        )
        glow = k.keep(g, k.logical_and(below, k.logical_not(crossed))) if need[1] else None
        return gx, glow, k.keep(g, k.logical_or(above, crossed)) if need[2] else None

    return y, backward


@op(method=True, in_place=True)
def lerp(k, x, end, weight):
    """x + weight (end - x)"""
    x, end, weight = promote(x, end, weight)
    d = k.sub(end, x)
    near_x = k.add(x, k.mul(weight, d))
    near_end = k.sub(end, k.mul(k.sub(1, weight), d))
    z = k.where(k.lt(k.abs(weight), 0.5), near_x, near_end)
    return z, lambda g: (k.mul(g, k.sub(1, weight)), k.mul(g, weight), k.mul(g, d))


@op(method=True, in_place=True)
def masked_fill(k, x, mask, value):
    """x, with `value` where the mask is true"""
    if mask.dtype != bool:
        raise TypeError(f"masked_fill() needs a bool mask, got {mask.dtype.name}. Compare first: mask != 0.")
    value = k.asarray(value, x.dtype) if not hasattr(value, "dtype") else k.cast(value, x.dtype)
    return k.where(mask, value, x), lambda g: (k.keep(g, k.logical_not(mask)), None, k.keep(g, mask))


# ---- composed ----


@composed(method=True, in_place=True)
def addcmul(input, tensor1, tensor2, *, value=1):
    """input + value tensor1 tensor2"""
    return add(input, mul(tensor1, tensor2), alpha=value)


@composed(method=True, in_place=True)
def addcdiv(input, tensor1, tensor2, *, value=1):
    """input + value tensor1 / tensor2"""
    return add(input, div(tensor1, tensor2), alpha=value)
