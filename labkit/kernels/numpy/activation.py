"""Activations: each `f` beside its slope `f_grad`, which multiplies the incoming gradient `g`."""

import math

import numpy as np

from labkit.kernels.numpy.elementwise import erf

_TANH_SCALE = math.sqrt(2 / math.pi)
_CUBE = 0.044715


def _sigmoid(x):
    e = np.exp(-np.abs(x))  # never overflows: the exponent is at most 0
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def relu(x):
    return np.maximum(x, 0)


def relu_grad(g, y):
    return g * (y > 0)


def gelu(x, approximate):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(_TANH_SCALE * (x + _CUBE * x * x * x)))
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


def gelu_grad(g, x, approximate):
    if approximate == "tanh":
        t = np.tanh(_TANH_SCALE * (x + _CUBE * x * x * x))
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _TANH_SCALE * (1 + 3 * _CUBE * x * x))
    density = np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return g * (0.5 * (1 + erf(x * math.sqrt(0.5))) + x * density)


def silu(x):
    return x * _sigmoid(x)


def silu_grad(g, x):
    s = _sigmoid(x)
    return g * s * (1 + x * (1 - s))


def leaky_relu(x, negative_slope):
    return np.where(x > 0, x, negative_slope * x)


def leaky_relu_grad(g, x, negative_slope):
    return np.where(x > 0, g, negative_slope * g)


def elu(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def elu_grad(g, x, alpha):
    return np.where(x > 0, g, g * alpha * np.exp(np.minimum(x, 0)))


def softplus(x, beta, threshold):
    bx = beta * x
    return np.where(bx > threshold, x, (np.maximum(bx, 0) + np.log1p(np.exp(-np.abs(bx)))) / beta)


def softplus_grad(g, x, beta, threshold):
    bx = beta * x
    return np.where(bx > threshold, g, g * _sigmoid(bx))


def logsigmoid(x):
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def logsigmoid_grad(g, x):
    return g * _sigmoid(-x)
