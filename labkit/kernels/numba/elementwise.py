"""Elementwise functions that NumPy computes slowly (or, erf, not at all); the rest are NumPy's own."""

from numba import prange

from labkit.kernels.numba import scalar
from labkit.kernels.numba.jit import LIGHT, fast, kernel, run_flat
from labkit.kernels.numba.scalar import ONE


@kernel()
def _erf(x, y):
    for i in prange(x.size):
        y[i] = scalar.erf(x[i])


@kernel()
def _sigmoid(x, y):
    for i in prange(x.size):
        y[i] = scalar.sigmoid(x[i])


@kernel(grain=LIGHT)
def _sigmoid_grad(g, y, gx):
    for i in prange(g.size):
        gx[i] = g[i] * y[i] * (ONE - y[i])


@kernel()
def _tanh(x, y):
    for i in prange(x.size):
        y[i] = scalar.tanh(x[i])


@kernel(grain=LIGHT)
def _tanh_grad(g, y, gx):
    for i in prange(g.size):
        gx[i] = g[i] * (ONE - y[i] * y[i])


@fast
def erf(x):
    return run_flat(_erf, x)


@fast
def sigmoid(x):
    return run_flat(_sigmoid, x)


@fast
def sigmoid_grad(g, y):
    return run_flat(_sigmoid_grad, g, y)


@fast
def tanh(x):
    return run_flat(_tanh, x)


@fast
def tanh_grad(g, y):
    return run_flat(_tanh_grad, g, y)
