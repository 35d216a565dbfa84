"""Gradient of a table lookup: add each row where it came from."""

import numpy as np

from labkit.kernels.numba.jit import fast, kernel


@kernel(grain=None)
def _add_rows(g, index, gw):
    for n in range(index.size):
        row, out = g[n], gw[index[n]]
        for d in range(row.size):
            out[d] += row[d]


@fast
def embedding_grad(g, index, rows, padding_idx):  # (..., D) (...) -> (V, D)
    gw = np.zeros((rows, g.shape[-1]), np.float32)
    _add_rows(g.reshape(index.size, g.shape[-1]), index.reshape(-1), gw)
    if padding_idx is not None:
        gw[padding_idx] = 0
    return gw
