"""Scaled dot-product attention over (..., T, D): three matrix products and a softmax between them."""

import numpy as np


def attention(q, k, v, mask, drop, scale, is_causal):  # (..., T, D) (..., S, D) (..., S, E) -> y, p
    """y = p v (..., T, E) with p = softmax(scale q k' + mask) (..., T, S).

    A bool mask keeps the scores where it is True, a float mask is added; `drop` multiplies p (dropout).
    """
    scores = (q @ k.swapaxes(-1, -2)) * scale
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(scores - np.where(np.isneginf(top), 0, top)).astype(q.dtype, copy=False)
    total = p.sum(-1, keepdims=True)
    p /= np.where(total == 0, 1, total)  # a row with every key masked attends to nothing: zeros, as torch
    return (p if drop is None else p * drop) @ v, p


def attention_grad(g, q, k, v, p, drop, scale):  # -> gq, gk, gv and gs, the gradient of the masked scores
    gp = g @ v.swapaxes(-1, -2)
    gv = (p if drop is None else p * drop).swapaxes(-1, -2) @ g
    gp = gp if drop is None else gp * drop
    gs = p * (gp - (gp * p).sum(-1, keepdims=True))  # softmax backward
    return (gs @ k) * scale, (gs.swapaxes(-1, -2) @ q) * scale, gv, gs


def attention_drop(shape, p, dtype, rng):  # what dropout multiplies the weights by: 0 or 1 / (1 - p)
    return (rng.random(shape, np.float32) >= p) * dtype.type(0 if p == 1 else 1 / (1 - p))
