"""Classification losses on (N, C). Each returns the loss and its gradient in x together: one pass makes both.

`reduction` is "none" (loss (N,)), "sum" or "mean" (a scalar; the mean divides by the summed class weights).
"""

import numpy as np


def nll_loss(x, target, w, ignore_index, label_smoothing, reduction):  # -> loss, gx (N, C)
    """-w[t] x[t] per row, 0 for ignored rows; smoothing spreads a share of the target over all classes."""
    N, C = x.shape
    kept = target != ignore_index
    t = np.where(kept, target, 0)
    row_weight = kept.astype(x.dtype) if w is None else w[t] * kept
    gx = np.zeros_like(x)
    gx[np.arange(N), t] = (label_smoothing - 1) * row_weight
    if label_smoothing:
        gx -= label_smoothing / C * kept[:, None] * (1 if w is None else w)
    loss = (gx * np.where(gx == 0, 0, x)).sum(1)  # a class of weight 0 counts nothing, even at -inf
    if reduction == "none":
        return loss, gx
    total = row_weight.sum() if reduction == "mean" else x.dtype.type(1)
    return loss.sum() / total, gx / total


def cross_entropy(x, target, w, ignore_index, label_smoothing, reduction):  # -> loss, gx (N, C)
    """nll_loss of log_softmax(x); d/dx adds the softmax times what each row received."""
    logp = x - x.max(1, keepdims=True, initial=-np.inf)
    logp = logp - np.log(np.exp(logp).sum(1, keepdims=True))
    loss, gx = nll_loss(logp, target, w, ignore_index, label_smoothing, reduction)
    return loss, gx - np.exp(logp) * gx.sum(1, keepdims=True)


def scale_rows(gx, g):  # gx (N, C) times g, a scalar or (N,)
    return gx * (g if g.ndim == 0 else g[:, None])
