"""Scaled dot-product attention: BLAS multiplies strided views of q, k and v as they are (heads are never
copied together), and scale, causal mask and softmax are one pass over each row of scores.

The products of one head are small, so the threads share out the batch, not the products.
"""

import numpy as np
from numba import prange

from labkit.kernels.numba import scalar, threads
from labkit.kernels.numba.jit import HEAVY, fast, kernel
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


def _over_batch(part, p):
    """Call `part(index)` for parts of p's first axis at the same time; once if p is small or (T, S) alone"""
    if p.ndim > 2 and p.size >= HEAVY:
        threads.split(part, len(p))
    else:
        part(...)


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
    p = np.empty((*q.shape[:-1], k.shape[-2]), np.float32)
    y = _heads_inside(q, v.shape[-1])

    def part(i):
        np.matmul(q[i], k[i].swapaxes(-1, -2), out=p[i])
        _softmax_rows(p[i].reshape(-1, *p.shape[-2:]), F(scale), is_causal)
        np.matmul(p[i], v[i], out=y[i])

    _over_batch(part, p)
    return y, p


@fast(strided=True)
def attention_grad(g, q, k, v, p, drop, scale):  # -> gq, gk, gv and gs, the gradient of the masked scores
    if drop is not None or not p.size or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        return attention_grad.reference(g, q, k, v, p, drop, scale)
    gs = np.empty_like(p)
    gq, gk, gv = (_heads_inside(a, a.shape[-1]) for a in (q, k, v))

    def part(i):
        np.matmul(g[i], v[i].swapaxes(-1, -2), out=gs[i])
        _softmax_rows_grad(gs[i].reshape(-1, gs.shape[-1]), p[i].reshape(-1, p.shape[-1]), F(1))
        np.matmul(gs[i], k[i], out=gq[i])
        np.matmul(gs[i].swapaxes(-1, -2), q[i], out=gk[i])
        np.matmul(p[i].swapaxes(-1, -2), g[i], out=gv[i])
        gq[i] *= F(scale)
        gk[i] *= F(scale)

    _over_batch(part, p)
    return gq, gk, gv, gs
