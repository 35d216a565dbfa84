"""Parameter updates in place, one parameter per call. The caller keeps the state arrays and counts the steps.

`g` is read only. A momentum buffer starts at zero with `dampening` 0 in the first step, which makes it `g`,
as torch.
"""

import math

import numpy as np


def sgd_(
    p, g, buf, lr, momentum, dampening, weight_decay, nesterov
):  # p, g, buf alike; buf None: no momentum
    """buf = momentum * buf + (1 - dampening) * g;  p -= lr * buf, or lr * (g + momentum * buf) with
    Nesterov.
    """
    if weight_decay:
        g = g + weight_decay * p
    if buf is not None:
        buf *= momentum
        buf += (1 - dampening) * g
        g = g + momentum * buf if nesterov else buf
    p -= lr * g


def adam_(p, g, m, v, vmax, lr, beta1, beta2, eps, weight_decay, decoupled, step):  # vmax None: no amsgrad
    """m and v follow the mean of g and of g * g; p -= lr * m' / (sqrt(v') + eps), both corrected for step
    (1, 2, …).

    `decoupled` (AdamW) shrinks the parameter itself; otherwise the decay is added to the gradient (Adam).
    """
    if decoupled:
        p *= 1 - lr * weight_decay
    elif weight_decay:
        g = g + weight_decay * p
    m += (1 - beta1) * (g - m)
    v *= beta2
    v += (1 - beta2) * (g * g)
    if vmax is not None:
        v = np.maximum(vmax, v, out=vmax)
    p -= lr / (1 - beta1**step) * m / (np.sqrt(v) / math.sqrt(1 - beta2**step) + eps)


def rmsprop_(p, g, v, buf, mean, lr, alpha, eps, weight_decay, momentum):
    """v follows the mean of g * g (mean: of g);  p -= lr * g / (sqrt(v - mean * mean) + eps), with momentum
    as SGD.
    """
    if weight_decay:
        g = g + weight_decay * p
    v *= alpha
    v += (1 - alpha) * (g * g)
    if mean is not None:
        mean += (1 - alpha) * (g - mean)
        v = v - mean * mean
    g = g / (np.sqrt(v) + eps)
    if buf is not None:
        buf *= momentum
        buf += g
        g = buf
    p -= lr * g
