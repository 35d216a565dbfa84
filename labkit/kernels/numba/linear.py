"""x @ w.T for few rows of x, without the copying that BLAS does first.

BLAS copies both matrices into blocks that suit its inner loop. That pays when every number is then used
often; with 64 rows up to a quarter of the time is copying, with 8 rows half of it and more. But both matrices
lie just as a dot product wants them, along their rows. So here twelve dot products run at once, four rows of
x with three of w: seven loads for twelve multiply-adds, and twelve sums with their operands fill the sixteen
vector registers. All else (many rows, long rows, other layouts) goes to BLAS.
"""

import numpy as np
from numba import prange

from labkit.kernels.numba.jit import fast, kernel
from labkit.kernels.numba.scalar import ZERO

_SHORTEST, _LONGEST = 64, 1024  # rows worth summing up in registers; seven of them fit the nearest cache
_ELEMENTS = 65_536  # of x, which is read again for every three rows of w: 256 kB stay in the second cache


@kernel(grain=None)
def _dot(x, y):
    total = ZERO
    for k in range(x.size):
        total += x[k] * y[k]
    return total


@kernel()
def rows_by_rows(w, x, b, y):
    """y[i, j] = b[j] + sum over k of x[i, k] * w[j, k]"""
    rows, columns = y.shape
    for group in prange(-(-columns // 3)):
        j, i = 3 * group, 0
        if j + 3 <= columns:
            w0, w1, w2 = w[j], w[j + 1], w[j + 2]
            while i + 4 <= rows:
                x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
                s00 = s01 = s02 = s10 = s11 = s12 = s20 = s21 = s22 = s30 = s31 = s32 = ZERO
                for k in range(x0.size):
                    p, q, r = w0[k], w1[k], w2[k]
                    s00, s01, s02 = s00 + x0[k] * p, s01 + x0[k] * q, s02 + x0[k] * r
                    s10, s11, s12 = s10 + x1[k] * p, s11 + x1[k] * q, s12 + x1[k] * r
                    s20, s21, s22 = s20 + x2[k] * p, s21 + x2[k] * q, s22 + x2[k] * r
                    s30, s31, s32 = s30 + x3[k] * p, s31 + x3[k] * q, s32 + x3[k] * r
                b0, b1, b2 = b[j], b[j + 1], b[j + 2]
                y[i, j], y[i, j + 1], y[i, j + 2] = s00 + b0, s01 + b1, s02 + b2
                y[i + 1, j], y[i + 1, j + 1], y[i + 1, j + 2] = s10 + b0, s11 + b1, s12 + b2
                y[i + 2, j], y[i + 2, j + 1], y[i + 2, j + 2] = s20 + b0, s21 + b1, s22 + b2
                y[i + 3, j], y[i + 3, j + 1], y[i + 3, j + 2] = s30 + b0, s31 + b1, s32 + b2
                i += 4
        for row in range(i, rows):  # what is left over: rows, or all rows of the last columns
            for column in range(j, min(j + 3, columns)):
                y[row, column] = _dot(x[row], w[column]) + b[column]


@fast(strided=True)
def linear(x, w, b):  # (..., I) (O, I) (O,) -> (..., O)
    few = x.ndim == 2 and len(x) >= 4 and x.size <= _ELEMENTS
    if not few or not _SHORTEST <= x.shape[1] <= _LONGEST or not (x.flags.carray and w.flags.carray):
        return linear.reference(x, w, b)
    if b is None:
        b = np.zeros(len(w), np.float32)
    elif not b.flags.carray:
        b = b.copy()
    y = np.empty((len(x), len(w)), np.float32)
    rows_by_rows(w, x, b, y)
    return y
