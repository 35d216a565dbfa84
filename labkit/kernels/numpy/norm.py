"""Normalization: of rows (N, C), or of channels (N, C, S) for batch norm. `w` and `b` may be None.

With n = (x - mean) * rstd the gradient of x is rstd * (gn - mean(gn) - n * mean(gn * n)): the two parts that
the mean and the variance carry are taken away again.
"""

import ml_dtypes
import numpy as np


def layer_norm(x, w, b, eps):  # (N, C) -> y (N, C), mean (N, 1), rstd (N, 1)
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + x.dtype.type(eps))
    y = (x - mean) * rstd
    y = y if w is None else y * w
    return (y if b is None else y + b), mean, rstd


def layer_norm_grad(g, x, w, mean, rstd):  # -> gx (N, C), gw (C,), gb (C,)
    n = (x - mean) * rstd
    gn = g if w is None else g * w
    gx = rstd * (gn - gn.mean(-1, keepdims=True) - n * (gn * n).mean(-1, keepdims=True))
    return gx, (g * n).sum(0), g.sum(0)


def rms_norm(x, w, eps):  # (N, C) -> y (N, C), rstd (N, 1)
    eps = x.dtype.type(ml_dtypes.finfo(x.dtype).eps if eps is None else eps)
    rstd = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return (x * rstd if w is None else x * rstd * w), rstd


def rms_norm_grad(g, x, w, rstd):  # -> gx (N, C), gw (C,)
    n = x * rstd
    gn = g if w is None else g * w
    return rstd * (gn - n * (gn * n).mean(-1, keepdims=True)), (g * n).sum(0)


def batch_norm_stats(x):  # (N, C, S) -> mean (C,), var (C,), the biased one
    mean = x.mean((0, 2))
    return mean, ((x - mean[:, None]) ** 2).mean((0, 2))


def batch_norm(x, w, b, mean, var, eps):  # (N, C, S) -> (N, C, S)
    scale = 1 / np.sqrt(var + var.dtype.type(eps))
    scale = scale if w is None else scale * w
    y = (x - mean[:, None]) * scale[:, None]
    return y if b is None else y + b[:, None]


def batch_norm_grad(g, x, w, mean, var, eps, training):  # -> gx (N, C, S), gw (C,), gb (C,)
    rstd = 1 / np.sqrt(var + var.dtype.type(eps))
    n = (x - mean[:, None]) * rstd[:, None]
    gw, gb = (g * n).sum((0, 2)), g.sum((0, 2))
    gx = g
    if training:  # the statistics came from x itself
        count = x.shape[0] * x.shape[2]
        gx = g - (gb / count)[:, None] - n * (gw / count)[:, None]
    return gx * (rstd if w is None else rstd * w)[:, None], gw, gb


def batch_norm_update_(
    running_mean, running_var, mean, var, count, momentum
):  # (C,) each; the unbiased variance
    running_mean += momentum * (mean - running_mean)
    running_var += momentum * (var * (count / max(count - 1, 1)) - running_var)
