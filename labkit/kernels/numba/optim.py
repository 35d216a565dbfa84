"""Parameter updates: all arrays of a parameter are read and written once, in one loop over flat memory."""

import math

import numpy as np
from numba import prange

from labkit.kernels.numba.jit import LIGHT, fast, kernel
from labkit.kernels.numba.scalar import F


@kernel(grain=LIGHT)
def _sgd(p, g, buf, lr, momentum, gain, weight_decay, nesterov):
    for i in prange(p.size):
        d = g[i] + weight_decay * p[i]
        b = momentum * buf[i] + gain * d
        buf[i] = b
        p[i] -= lr * (d + momentum * b if nesterov else b)


@kernel(grain=LIGHT)
def _sgd_plain(p, g, lr, weight_decay):
    for i in prange(p.size):
        p[i] -= lr * (g[i] + weight_decay * p[i])


@kernel(grain=LIGHT)
def _adam(p, g, m, v, rate, beta1, beta2, eps, decay, shrink, root):
    for i in prange(p.size):
        q = p[i] * shrink
        d = g[i] + decay * q
        a = m[i] + (F(1) - beta1) * (d - m[i])
        b = beta2 * v[i] + (F(1) - beta2) * d * d
        m[i], v[i] = a, b
        p[i] = q - rate * a / (np.sqrt(b) * root + eps)


@fast
def sgd_(p, g, buf, lr, momentum, dampening, weight_decay, nesterov):
    """buf = momentum * buf + (1 - dampening) * g;  p -= lr * buf, or lr * (g + momentum * buf) if nesterov"""
    p, g = p.reshape(-1), g.reshape(-1)
    if buf is None:
        _sgd_plain(p, g, F(lr), F(weight_decay))
    else:
        _sgd(p, g, buf.reshape(-1), F(lr), F(momentum), F(1 - dampening), F(weight_decay), nesterov)


@fast
def adam_(p, g, m, v, vmax, lr, beta1, beta2, eps, weight_decay, decoupled, step):
    """m and v follow the means of g and g * g;  p -= lr * m' / (sqrt(v') + eps), both corrected for the
    step
    """
    if vmax is not None:  # amsgrad is rare: not worth a loop of its own
        return adam_.reference(p, g, m, v, vmax, lr, beta1, beta2, eps, weight_decay, decoupled, step)
    shrink, decay = (1 - lr * weight_decay, 0) if decoupled else (1, weight_decay)
    rate, root = lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step)
    p, g, m, v = (a.reshape(-1) for a in (p, g, m, v))
    _adam(p, g, m, v, F(rate), F(beta1), F(beta2), F(eps), F(decay), F(shrink), F(root))
