"""Scaled dot-product attention: BLAS multiplies strided views of q, k and v as they are (heads are never
copied together), and scale, causal mask and softmax are one pass over each row of scores."""

import numpy as np
from numba import prange

from labkit.kernels.numba import scalar
from labkit.kernels.numba.jit import fast, kernel
from labkit.kernels.numba.scalar import ZERO, F


@kernel()
def _softmax_rows(scores, scale, is_causal):
    """per row (in place): scale;  p = exp(s - max(s)) / sum, over the first t + 1 keys if causal, 0 beyond"""
    _, T, S = scores.shape
    for job in prange(scores.shape[0] * T):
        row, t = scores[job // T, job % T], job % T
        size = min(t + 1, S) if is_causal else S
        top = np.int32(-(2**31))
        for s in range(size):
            top = max(top, scalar.order(row[s]))
        shift, total = scalar.unorder(top), ZERO
        for s in range(size):
            e = scalar.exp((row[s] - shift) * scale)
            row[s] = e
            total += e
        for s in range(size):
            row[s] = row[s] / total
        for s in range(size, S):
            row[s] = ZERO


@kernel()
def _softmax_rows_grad(gp, p, scale):
    """per row (in place): gs = p * (gp - sum(gp * p)) * scale"""
    for job in prange(p.shape[0]):
        g, row, along = gp[job], p[job], ZERO
        for s in range(row.size):
            along += g[s] * row[s]
        for s in range(row.size):
            g[s] = row[s] * (g[s] - along) * scale


def _heads_inside(
    x, width
):  # an empty (B, H, T, width) laid out as (B, T, H, width): merging heads is then free
    if x.ndim != 4:
        return np.empty((*x.shape[:-1], width), np.float32)
    B, H, T, _ = x.shape
    return np.empty((B, T, H, width), np.float32).swapaxes(1, 2)


@fast(strided=True)
def attention(q, k, v, mask, drop, scale, is_causal):  # -> y (..., T, E), p (..., T, S)
    """softmax(q k' * scale) v. Masks, dropout and broadcast batches go to the NumPy kernel."""
    if (
        mask is not None
        or drop is not None
        or not scale > 0
        or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    ):
        return attention.reference(q, k, v, mask, drop, scale, is_causal)
    if not (q.size and k.size and v.size):
        return attention.reference(q, k, v, mask, drop, scale, is_causal)
    p = q @ k.swapaxes(-1, -2)
    _softmax_rows(p.reshape(-1, *p.shape[-2:]), F(scale), is_causal)
    return np.matmul(p, v, out=_heads_inside(q, v.shape[-1])), p


@fast(strided=True)
def attention_grad(g, q, k, v, p, drop, scale):  # -> gq, gk, gv and gs, the gradient of the masked scores
    if drop is not None or not p.size or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        return attention_grad.reference(g, q, k, v, p, drop, scale)
    gs = g @ v.swapaxes(-1, -2)
    _softmax_rows_grad(gs.reshape(-1, gs.shape[-1]), p.reshape(-1, p.shape[-1]), F(1))
    gq = np.matmul(gs, k, out=_heads_inside(q, q.shape[-1]))
    gk = np.matmul(gs.swapaxes(-1, -2), q, out=_heads_inside(k, k.shape[-1]))
    gq *= F(scale)
    gk *= F(scale)
    return gq, gk, np.matmul(p.swapaxes(-1, -2), g, out=_heads_inside(v, v.shape[-1])), gs
