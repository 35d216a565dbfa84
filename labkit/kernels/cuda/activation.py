"""Activations: each `f` beside its slope `f_grad`, which multiplies the incoming gradient `g`."""

import math

from labkit.kernels.cuda import scalar
from labkit.kernels.cuda.elementwise import mapped, mul

TANH_SCALE = math.sqrt(2 / math.pi)
CUBE = 0.044715
SQRT_HALF = math.sqrt(0.5)
DENSITY = 1 / math.sqrt(2 * math.pi)


@mapped
def relu(x):
    T = type(x)
    return x if x > T(0) or x != x else T(0)  # nan stays


@mapped
def relu_grad(g, y):
    T = type(y)
    return g * (T(1) if y > T(0) else T(0))


@mapped
def _gelu(x):
    T = type(x)
    return T(0.5) * x * (T(1) + scalar.erf(x * T(SQRT_HALF)))


@mapped
def _gelu_grad(g, x):
    T = type(x)
    share = T(0.5) * (T(1) + scalar.erf(x * T(SQRT_HALF)))
    return g * (share + x * scalar.exp(T(-0.5) * x * x) * T(DENSITY))


@mapped
def _gelu_tanh(x):
    T = type(x)
    return T(0.5) * x * (T(1) + scalar.tanh(T(TANH_SCALE) * (x + T(CUBE) * x * x * x)))


@mapped
def _gelu_tanh_grad(g, x):
    T = type(x)
    t = scalar.tanh(T(TANH_SCALE) * (x + T(CUBE) * x * x * x))
    inner = T(TANH_SCALE) * (T(1) + T(3 * CUBE) * x * x)
    return g * (T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner)


def gelu(x, approximate):
    return _gelu_tanh(x) if approximate == "tanh" else _gelu(x)


def gelu_grad(g, x, approximate):
    return _gelu_tanh_grad(g, x) if approximate == "tanh" else _gelu_grad(g, x)


@mapped
def silu(x):
    return x * scalar.sigmoid(x)


@mapped
def silu_grad(g, x):
    T = type(x)
    s = scalar.sigmoid(x)
    return g * s * (T(1) + x * (T(1) - s))


@mapped
def leaky_relu(x, negative_slope):
    return x if x > type(x)(0) else negative_slope * x


@mapped
def leaky_relu_grad(g, x, negative_slope):
    return g if x > type(x)(0) else negative_slope * g


@mapped
def elu(x, alpha):
    return x if x > type(x)(0) else alpha * scalar.expm1(x)


@mapped
def elu_grad(g, x, alpha):
    return g if x > type(x)(0) else g * alpha * scalar.exp(x)


@mapped
def softplus(x, beta, threshold):
    T = type(x)
    bx = beta * x
    return x if bx > threshold else ((bx if bx > T(0) else T(0)) + scalar.log1p(scalar.exp(-abs(bx)))) / beta


@mapped
def _softplus_slope(x, beta, threshold):
    return type(x)(1) if beta * x > threshold else scalar.sigmoid(beta * x)


def softplus_grad(g, x, beta, threshold):
    return mul(g, _softplus_slope(x, beta, threshold))


@mapped
def logsigmoid(x):
    T = type(x)
    return (x if x < T(0) else T(0)) - scalar.log1p(scalar.exp(-abs(x)))


@mapped
def logsigmoid_grad(g, x):
    return g * scalar.sigmoid(-x)
