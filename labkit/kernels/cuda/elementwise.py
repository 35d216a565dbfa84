"""One output per element. Inputs broadcast; an argument may be a Python number, which becomes one cell on the
device that all threads read.

All these kernels are one loop around another function of numbers: there is one loop per number of inputs, and
`mapped` puts each function into it. Constants have the type of the element, `T(2)`: a plain 2 would turn
float32 arithmetic into float64, which most GPUs do 32 to 64 times more slowly.
"""

import inspect

import numpy as np

from labkit.kernels.cuda import scalar
from labkit.kernels.cuda.launch import cuda, function_of_thread, kernel
from labkit.kernels.cuda.memory import Array, asarray, empty, place, sweep

# ---- the loops ----


def _loop1(f, types, name, note):
    @kernel(types, name, note)
    def map1(x, out):
        """Thread i owns out[i]: reads one element, writes one."""
        i = cuda.grid(1)
        if i < out.size:
            a, b, c, d = place(i, out.shape)
            out[a, b, c, d] = f(x[a, b, c, d])

    return map1


def _loop2(f, types, name, note):
    @kernel(types, name, note)
    def map2(x, y, out):
        """Thread i owns out[i]: reads two elements, writes one. With stride 0, all threads read one cell."""
        i = cuda.grid(1)
        if i < out.size:
            a, b, c, d = place(i, out.shape)
            out[a, b, c, d] = f(x[a, b, c, d], y[a, b, c, d])

    return map2


def _loop3(f, types, name, note):
    @kernel(types, name, note)
    def map3(x, y, z, out):
        """Thread i owns out[i]: reads three elements, writes one."""
        i = cuda.grid(1)
        if i < out.size:
            a, b, c, d = place(i, out.shape)
            out[a, b, c, d] = f(x[a, b, c, d], y[a, b, c, d], z[a, b, c, d])

    return map3


def mapped(function, types="", to=None, note=""):
    """A function of arrays from a function of numbers; `to` is the type of the result if it is another.

    Numbers among the arguments take the type of the first array.
    """
    name = function.__name__.strip("_")
    count = len(inspect.signature(function).parameters)
    types = types or "F4 " * count + ("B4" if to else "F4")
    module = function.__module__.rpartition(".")[2]
    make = (_loop1, _loop2, _loop3)[count - 1]
    loop = make(function_of_thread(function), types, f"{module}.{name}", note)

    def run(*operands):
        first = next((x for x in operands if isinstance(x, Array)), None)
        if first is None:  # only numbers: nothing for the device to do
            return function(*(x[()] if isinstance(x, np.ndarray) else x for x in operands))
        arrays = [x if isinstance(x, Array) else asarray(x, first.dtype) for x in operands]
        out = empty(np.broadcast_shapes(*(x.shape for x in arrays)), to or first.dtype)
        sweep(loop, (*arrays, out))
        return out

    run.__name__, run.__doc__, run.__signature__ = name, function.__doc__, inspect.signature(function)
    return run


def to_bool(function):
    """`mapped`, for questions: the answers are bools."""
    return mapped(function, to=np.bool_)


def of_bools(function):
    """`mapped`, for questions about bools."""
    count = len(inspect.signature(function).parameters)
    return mapped(function, "B4 " * (count + 1), np.bool_)


def of_ints(function):
    """`mapped`, for functions of whole numbers."""
    return mapped(function, "I4 " * (len(inspect.signature(function).parameters) + 1))


# ---- one input ----


@mapped
def neg(x):
    return -x


@mapped
def abs(x):
    return x if x >= type(x)(0) else -x


@mapped
def sign(x):
    T = type(x)
    return T(1) if x > T(0) else T(-1) if x < T(0) else x  # 0 and nan stay


@mapped
def square(x):
    return x * x


@mapped
def exp(x):
    return scalar.exp(x)


@mapped
def exp2(x):
    return scalar.exp2(x)


@mapped
def expm1(x):
    return scalar.expm1(x)


@mapped
def log(x):
    return scalar.log(x)


@mapped
def log2(x):
    return scalar.log2(x)


@mapped
def log10(x):
    return scalar.log10(x)


@mapped
def log1p(x):
    return scalar.log1p(x)


def _sin(x):
    return scalar.sin(x)


def _cos(x):
    return scalar.cos(x)


_TABLE = "NVIDIA's library brings large angles into range in float64, with a table in local memory"
sin, cos = mapped(_sin, note=_TABLE), mapped(_cos, note=_TABLE)


@mapped
def tanh(x):
    return scalar.tanh(x)


@mapped
def sqrt(x):
    return scalar.sqrt(x)


@mapped
def rsqrt(x):
    return type(x)(1) / scalar.sqrt(x)


@mapped
def floor(x):
    return scalar.floor(x)


@mapped
def ceil(x):
    return scalar.ceil(x)


@mapped
def trunc(x):
    return scalar.trunc(x)


@mapped
def round(x):
    T = type(x)
    below = scalar.floor(x)
    rest, odd = x - below, below - T(2) * scalar.floor(T(0.5) * below) != T(0)
    return below + T(1) if rest > T(0.5) or (rest == T(0.5) and odd) else below  # halves to the even neighbor


@mapped
def erf(x):
    return scalar.erf(x)


@mapped
def sigmoid(x):
    return scalar.sigmoid(x)


@to_bool
def isnan(x):
    return x != x


@to_bool
def isinf(x):
    return x == x and x - x != x - x  # inf - inf is nan, which equals nothing


@to_bool
def isfinite(x):
    return x - x == x - x


@of_bools
def logical_not(x):
    return not x


@of_ints
def _invert(x):
    return ~x


def bitwise_not(x):  # in kernels as in Python, ~True is -2
    return logical_not(x) if x.dtype == bool else _invert(x)


# ---- two inputs ----


@mapped
def add(x, y):
    return x + y


@mapped
def sub(x, y):
    return x - y


@mapped
def mul(x, y):
    return x * y


@mapped
def div(x, y):
    return x / y


@mapped
def pow(x, y):
    return x**y


@mapped
def floor_divide(x, y):
    return x // y


@mapped
def remainder(x, y):
    return x % y


@mapped
def maximum(x, y):
    return scalar.larger(x, y)


@mapped
def minimum(x, y):
    return scalar.smaller(x, y)


@to_bool
def eq(x, y):
    return x == y


@to_bool
def ne(x, y):
    return x != y


@to_bool
def lt(x, y):
    return x < y


@to_bool
def le(x, y):
    return x <= y


@to_bool
def gt(x, y):
    return x > y


@to_bool
def ge(x, y):
    return x >= y


@of_bools
def logical_and(x, y):
    return bool(x) and bool(y)


@of_bools
def logical_or(x, y):
    return bool(x) or bool(y)


@of_bools
def logical_xor(x, y):
    return bool(x) != bool(y)


@of_ints
def bitwise_and(x, y):
    return x & y


@of_ints
def bitwise_or(x, y):
    return x | y


@of_ints
def bitwise_xor(x, y):
    return x ^ y


@mapped
def sigmoid_grad(g, y):
    return g * y * (type(y)(1) - y)


@mapped
def tanh_grad(g, y):
    return g * (type(y)(1) - y * y)


def _keep(g, condition):
    """g where the condition holds, else 0; also where g is inf or nan"""
    return g if condition else type(g)(0)


def _where(x, y, condition):
    return x if condition else y


keep = mapped(_keep, "F4 B4 F4")
_choose = mapped(_where, "F4 F4 B4 F4")


def where(condition, x, y):
    return _choose(x, y, condition)
