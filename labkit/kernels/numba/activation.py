"""Activations: one pass over flat memory, where the NumPy form makes an array for every step of the
formula.
"""

import math

from numba import prange

from labkit.kernels.numba import scalar
from labkit.kernels.numba.jit import LIGHT, fast, kernel, run_flat
from labkit.kernels.numba.scalar import HALF, ONE, ZERO, F

_SCALE2, _CUBE, _CUBE3 = F(2 * math.sqrt(2 / math.pi)), F(0.044715), F(3 * 0.044715)
_SQRT_HALF, _DENSITY = F(math.sqrt(0.5)), F(1 / math.sqrt(2 * math.pi))


@kernel(grain=LIGHT)
def _relu(x, y):
    for i in prange(x.size):
        y[i] = ZERO if x[i] <= ZERO else x[i]


@kernel(grain=LIGHT)
def _relu_grad(g, y, gx):
    for i in prange(g.size):
        gx[i] = ZERO if y[i] <= ZERO else g[i]


@kernel()
def _gelu_tanh(x, y):
    """y = x * (1 + tanh(z)) / 2 = x * sigmoid(2z) with z = sqrt(2 / pi) * (x + 0.044715 x^3)"""
    for i in prange(x.size):
        v = x[i]
        y[i] = v * scalar.sigmoid(_SCALE2 * v * (ONE + _CUBE * v * v))


@kernel()
def _gelu_tanh_grad(g, x, gx):
    """gx = g * (s + x * s * (1 - s) * d(2z)/dx) with s = sigmoid(2z)"""
    for i in prange(g.size):
        v = x[i]
        s = scalar.sigmoid(_SCALE2 * v * (ONE + _CUBE * v * v))
        gx[i] = g[i] * s * (ONE + v * (ONE - s) * _SCALE2 * (ONE + _CUBE3 * v * v))


@kernel()
def _gelu(x, y):
    for i in prange(x.size):
        y[i] = HALF * x[i] * (ONE + scalar.erf(x[i] * _SQRT_HALF))


@kernel()
def _gelu_grad(g, x, gx):
    for i in prange(g.size):
        v = x[i]
        gx[i] = g[i] * (HALF * (ONE + scalar.erf(v * _SQRT_HALF)) + v * _DENSITY * scalar.exp(-HALF * v * v))


@kernel()
def _silu(x, y):
    for i in prange(x.size):
        y[i] = x[i] * scalar.sigmoid(x[i])


@kernel()
def _silu_grad(g, x, gx):
    for i in prange(g.size):
        s = scalar.sigmoid(x[i])
        gx[i] = g[i] * s * (ONE + x[i] * (ONE - s))


@kernel(grain=LIGHT)
def _leaky_relu(x, y, slope):
    for i in prange(x.size):
        y[i] = x[i] if x[i] > ZERO else slope * x[i]


@kernel(grain=LIGHT)
def _leaky_relu_grad(g, x, gx, slope):
    for i in prange(g.size):
        gx[i] = g[i] if x[i] > ZERO else slope * g[i]


@fast
def relu(x):
    return run_flat(_relu, x)


@fast
def relu_grad(g, y):
    return run_flat(_relu_grad, g, y)


@fast
def gelu(x, approximate):
    return run_flat(_gelu_tanh if approximate == "tanh" else _gelu, x)


@fast
def gelu_grad(g, x, approximate):
    return run_flat(_gelu_tanh_grad if approximate == "tanh" else _gelu_grad, g, x)


@fast
def silu(x):
    return run_flat(_silu, x)


@fast
def silu_grad(g, x):
    return run_flat(_silu_grad, g, x)


@fast
def leaky_relu(x, negative_slope):
    return run_flat(_leaky_relu, x, number=F(negative_slope))


@fast
def leaky_relu_grad(g, x, negative_slope):
    return run_flat(_leaky_relu_grad, g, x, number=F(negative_slope))
