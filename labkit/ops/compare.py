"""Questions about elements: the answers are bool tensors and have no gradient."""

from labkit.autograd import op
from labkit.dtypes import FLOATS, promote
from labkit.op_table import composed


@op(method=True)
def eq(k, x, y):
    """x == y"""
    return k.eq(*promote(x, y)), None


@op(method=True)
def ne(k, x, y):
    """x != y"""
    return k.ne(*promote(x, y)), None


@op(method=True)
def lt(k, x, y):
    """x < y"""
    return k.lt(*promote(x, y)), None


@op(method=True)
def le(k, x, y):
    """x <= y"""
    return k.le(*promote(x, y)), None


@op(method=True)
def gt(k, x, y):
    """x > y"""
    return k.gt(*promote(x, y)), None


@op(method=True)
def ge(k, x, y):
    """x >= y"""
    return k.ge(*promote(x, y)), None


@op(method=True)
def isnan(k, x):
    return k.isnan(x), None


@op(method=True)
def isinf(k, x):
    return k.isinf(x), None


@op(method=True)
def isfinite(k, x):
    return k.isfinite(x), None


@op(method=True)
def logical_not(k, x):
    return k.logical_not(x), None


@op(method=True)
def logical_and(k, x, y):
    return k.logical_and(x, y), None


@op(method=True)
def logical_or(k, x, y):
    return k.logical_or(x, y), None


@op(method=True)
def logical_xor(k, x, y):
    return k.logical_xor(x, y), None


def _whole(name, *xs):
    for x in xs:
        if x.dtype in FLOATS:
            raise TypeError(
                f"{name} works on bool and integer tensors, got {x.dtype.name}. Compare first: x > 0."
            )
    return xs


@op(method=True)
def bitwise_not(k, x):
    """~x"""
    return k.bitwise_not(*_whole("~", x)), None


@op(method=True)
def bitwise_and(k, x, y):
    """x & y"""
    return k.bitwise_and(*_whole("&", *promote(x, y))), None


@op(method=True)
def bitwise_or(k, x, y):
    """x | y"""
    return k.bitwise_or(*_whole("|", *promote(x, y))), None


@op(method=True)
def bitwise_xor(k, x, y):
    """x ^ y"""
    return k.bitwise_xor(*_whole("^", *promote(x, y))), None


# ---- composed ----


@composed(method=True)
def isclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    """|input - other| <= atol + rtol |other|"""
    near = ((input - other).abs() <= atol + rtol * other.abs()) & isfinite(input) & isfinite(other)
    near = near | (input == other)
    return near | (isnan(input) & isnan(other)) if equal_nan else near


@composed(method=True, returns="bool")
def allclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements are close, as a Python bool"""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@composed(method=True, returns="bool")
def equal(input, other):
    """Whether shapes and all elements are equal, as a Python bool"""
    return input.shape == other.shape and bool((input == other).all())


@composed(method=True, returns="bool")
def is_floating_point(input):
    """Whether the tensor holds floating-point numbers"""
    return input.dtype in FLOATS
