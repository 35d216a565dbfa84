"""Table lookup: row `index` of the table, and its gradient added back into the rows."""

import numpy as np


def embedding(w, index):  # (V, D) (...) -> (..., D)
    return w[index]


def embedding_grad(g, index, rows, padding_idx):  # (..., D) (...) -> (V, D)
    index, g = index.ravel(), g.reshape(index.size, g.shape[-1])
    gw = np.zeros((rows, g.shape[1]), g.dtype)
    order = index.argsort(kind="stable")  # equal rows side by side, so that each is one sum
    found, starts = np.unique(index[order], return_index=True)
    if index.size:
        gw[found] = np.add.reduceat(g[order], starts)
    if padding_idx is not None:
        gw[padding_idx] = 0
    return gw


def one_hot(index, num_classes):  # (...) -> (..., C), int64
    return (index[..., None] == np.arange(num_classes)).astype(np.int64)


def index_outside(index, size, ignore):  # the first index that is not in [0, size) nor `ignore`, or None
    bad = (index < 0) | (index >= size)
    if not bad.any():
        return None
    bad = bad if ignore is None else bad & (index != ignore)
    return next((int(i) for i in index[bad]), None)
