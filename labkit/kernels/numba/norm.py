"""Normalization of rows: three passes over a row while it is in the nearest cache, rows spread over threads.

The weight and bias gradients sum over all rows. Each of `_BLOCKS` groups of rows sums into an array of its
own, so threads never meet, and the result does not depend on how many there are.
"""

import numpy as np
from numba import prange

from labkit.kernels.numba.jit import fast, kernel
from labkit.kernels.numba.scalar import ONE, ZERO, F

_BLOCKS = 16


@kernel()
def _layer_norm(x, w, b, eps, y, mean, rstd):
    """per row: mean;  mean square distance from it;  y = (x - mean) * rstd * w + b"""
    C = x.shape[1]
    for n in prange(x.shape[0]):
        row, out = x[n], y[n]
        total = ZERO
        for c in range(C):
            total += row[c]
        m = total / F(C)
        square = ZERO
        for c in range(C):
            square += (row[c] - m) * (row[c] - m)
        r = ONE / np.sqrt(square / F(C) + eps)
        for c in range(C):
            out[c] = (row[c] - m) * r * w[c] + b[c]
        mean[n, 0], rstd[n, 0] = m, r


@kernel()
def _layer_norm_grad(g, x, w, mean, rstd, gx, gw, gb):
    """per row: gn = g * w;  gx = rstd * (gn - mean(gn) - n * mean(gn * n));  gw += g * n;  gb += g

    gx holds gn at first: what is subtracted from its mean must be rounded as it was in the sum.
    """
    N, C = x.shape
    for block in prange(_BLOCKS):
        gw_part, gb_part = gw[block], gb[block]
        for n in range(block * N // _BLOCKS, (block + 1) * N // _BLOCKS):
            g_row, row, out, m, r = g[n], x[n], gx[n], mean[n, 0], rstd[n, 0]
            total, along = ZERO, ZERO
            for c in range(C):
                gn = g_row[c] * w[c]
                out[c] = gn
                total += gn
                along += gn * (row[c] - m)
            total, along = total / F(C), along * r / F(C)
            for c in range(C):
                normal = (row[c] - m) * r
                out[c] = r * (out[c] - total - normal * along)
                gw_part[c] += g_row[c] * normal
                gb_part[c] += g_row[c]


@kernel()
def _rms_norm(x, w, eps, y, rstd):
    C = x.shape[1]
    for n in prange(x.shape[0]):
        row, out = x[n], y[n]
        square = ZERO
        for c in range(C):
            square += row[c] * row[c]
        r = ONE / np.sqrt(square / F(C) + eps)
        for c in range(C):
            out[c] = row[c] * r * w[c]
        rstd[n, 0] = r


@kernel()
def _rms_norm_grad(g, x, w, rstd, gx, gw):
    N, C = x.shape
    for block in prange(_BLOCKS):
        gw_part = gw[block]
        for n in range(block * N // _BLOCKS, (block + 1) * N // _BLOCKS):
            g_row, row, out, r = g[n], x[n], gx[n], rstd[n, 0]
            along = ZERO
            for c in range(C):
                along += g_row[c] * w[c] * row[c]
            along = along * r / F(C)
            for c in range(C):
                normal = row[c] * r
                out[c] = r * (g_row[c] * w[c] - normal * along)
                gw_part[c] += g_row[c] * normal


def _ones(x, w):
    return np.ones(x.shape[1], np.float32) if w is None else w


@fast
def layer_norm(x, w, b, eps):  # (N, C) -> y (N, C), mean (N, 1), rstd (N, 1)
    y, mean, rstd = np.empty_like(x), np.empty((len(x), 1), np.float32), np.empty((len(x), 1), np.float32)
    b = np.zeros(x.shape[1], np.float32) if b is None else b
    _layer_norm(x, _ones(x, w), b, F(eps), y, mean, rstd)
    return y, mean, rstd


@fast
def layer_norm_grad(g, x, w, mean, rstd):  # -> gx (N, C), gw (C,), gb (C,)
    gx, (gw, gb) = np.empty_like(x), np.zeros((2, _BLOCKS, x.shape[1]), np.float32)
    _layer_norm_grad(g, x, _ones(x, w), mean, rstd, gx, gw, gb)
    return gx, gw.sum(0), gb.sum(0)


@fast
def rms_norm(x, w, eps):  # (N, C) -> y (N, C), rstd (N, 1)
    y, rstd = np.empty_like(x), np.empty((len(x), 1), np.float32)
    _rms_norm(x, _ones(x, w), np.finfo(np.float32).eps if eps is None else F(eps), y, rstd)
    return y, rstd


@fast
def rms_norm_grad(g, x, w, rstd):  # -> gx (N, C), gw (C,)
    gx, gw = np.empty_like(x), np.zeros((_BLOCKS, x.shape[1]), np.float32)
    _rms_norm_grad(g, x, _ones(x, w), rstd, gx, gw)
    return gx, gw.sum(0)
