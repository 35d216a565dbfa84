"""Products of matrices, by NumPy's BLAS."""

import math

import numpy as np


def matmul(x, y):  # (..., N, I) (..., I, O) -> (..., N, O)
    if y.ndim == 2 and x.ndim > 2 and x.flags.c_contiguous:  # one large product instead of many small ones
        return np.matmul(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), y).reshape(
            *x.shape[:-1], y.shape[1]
        )
    return np.matmul(x, y)


def einsum(equation, xs):
    return np.einsum(equation, *xs, optimize=len(xs) > 1)


def linear(x, w, b):  # (..., I) (O, I) (O,) -> (..., O)
    y = matmul(x, w.T)
    return y if b is None else np.add(y, b, out=y)
