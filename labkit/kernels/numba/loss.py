"""Softmax and cross-entropy in one pass over each row: the loss and its gradient leave together."""

import numpy as np
from numba import prange

from labkit.kernels.numba import scalar
from labkit.kernels.numba.jit import fast, kernel
from labkit.kernels.numba.scalar import ONE, ZERO


@kernel()
def _cross_entropy(x, target, weight, ignore_index, mean, loss, gx):
    """per row: top = max(x);  p = exp(x - top) / sum;  loss = -w * log p[t];  gx = w * (p - one_hot(t)) /
    divisor

    w is the weight of class t, or 0 for a row to ignore; the divisor, which is returned, their sum or 1.
    """
    divisor = ZERO if mean else ONE
    if mean:
        for n in range(x.shape[0]):
            divisor += weight[target[n]] if target[n] != ignore_index else ZERO
    for n in prange(x.shape[0]):
        row, out = x[n], gx[n]
        t = target[n] if target[n] != ignore_index else 0
        w = weight[t] if target[n] != ignore_index else ZERO
        top = np.int32(-(2**31))
        for c in range(row.size):
            top = max(top, scalar.order(row[c]))
        shift, total = scalar.unorder(top), ZERO
        for c in range(row.size):
            e = scalar.exp(row[c] - shift)
            out[c] = e
            total += e
        share = w / divisor
        for c in range(row.size):
            out[c] = out[c] / total * share
        out[t] -= share
        loss[n] = (np.log(total) - (row[t] - shift)) * w if w != ZERO else ZERO
    return divisor


@fast
def cross_entropy(x, target, w, ignore_index, label_smoothing, reduction):  # (N, C) (N,) -> loss, gx (N, C)
    """nll_loss of log_softmax(x). Smoothed targets go to the NumPy kernel."""
    if label_smoothing or 0 in x.shape:
        return cross_entropy.reference(x, target, w, ignore_index, label_smoothing, reduction)
    weight = np.ones(x.shape[1], np.float32) if w is None else w
    loss, gx = np.empty(len(x), np.float32), np.empty_like(x)
    divisor = _cross_entropy(x, target, weight, ignore_index, reduction == "mean", loss, gx)
    return (loss if reduction == "none" else loss.sum() / divisor), gx
