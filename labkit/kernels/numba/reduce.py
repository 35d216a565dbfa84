"""Softmax along the last axis: a row stays in the nearest cache for all its passes. Other axes: NumPy."""

import numpy as np
from numba import prange

from labkit.kernels.numba import scalar
from labkit.kernels.numba.jit import fast, kernel
from labkit.kernels.numba.scalar import INF, ZERO


@kernel(grain=None)
def _largest(row):
    """The largest element, or 0 if that is infinite: a row of -inf must stay what it is."""
    top = np.int32(-(2**31))
    for c in range(row.size):
        top = max(top, scalar.order(row[c]))
    value = scalar.unorder(top)
    return ZERO if abs(value) == INF else value


@kernel()
def _softmax(x, y):
    """per row: top = max(x);  e = exp(x - top);  y = e / sum(e)"""
    for n in prange(x.shape[0]):
        row, out, top, total = x[n], y[n], _largest(x[n]), ZERO
        for c in range(row.size):
            e = scalar.exp(row[c] - top)
            out[c] = e
            total += e
        for c in range(row.size):
            out[c] = out[c] / total


@kernel()
def _softmax_grad(g, y, gx):
    """per row: gx = y * (g - sum(g * y))"""
    for n in prange(g.shape[0]):
        row, out, to, along = g[n], y[n], gx[n], ZERO
        for c in range(row.size):
            along += row[c] * out[c]
        for c in range(row.size):
            to[c] = out[c] * (row[c] - along)


@kernel()
def _log_softmax(x, y):
    """per row: top = max(x);  y = x - top - log(sum(exp(x - top)))"""
    for n in prange(x.shape[0]):
        row, out, top, total = x[n], y[n], _largest(x[n]), ZERO
        for c in range(row.size):
            total += scalar.exp(row[c] - top)
        log = np.log(total)
        for c in range(row.size):
            out[c] = row[c] - top - log


@kernel()
def _log_softmax_grad(g, y, gx):
    """per row: gx = g - exp(y) * sum(g)"""
    for n in prange(g.shape[0]):
        row, out, to, total = g[n], y[n], gx[n], ZERO
        for c in range(row.size):
            total += row[c]
        for c in range(row.size):
            to[c] = row[c] - scalar.exp(out[c]) * total


def _is_last(x, axis):
    return x.size > 0 and axis in (-1, x.ndim - 1)


def _run_rows(loop, *inputs):
    """Run `loop(*inputs, out)` over views as (rows, last axis)."""
    out = np.empty_like(inputs[0])
    loop(*(a.reshape(-1, a.shape[-1]) for a in (*inputs, out)))
    return out


@fast
def softmax(x, axis):
    return _run_rows(_softmax, x) if _is_last(x, axis) else softmax.reference(x, axis)


@fast
def softmax_grad(g, y, axis):
    return _run_rows(_softmax_grad, g, y) if _is_last(g, axis) else softmax_grad.reference(g, y, axis)


@fast
def log_softmax(x, axis):
    return _run_rows(_log_softmax, x) if _is_last(x, axis) else log_softmax.reference(x, axis)


@fast
def log_softmax_grad(g, y, axis):
    return _run_rows(_log_softmax_grad, g, y) if _is_last(g, axis) else log_softmax_grad.reference(g, y, axis)
