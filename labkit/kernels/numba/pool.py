"""Max pooling: every output looks at its own window; the gradient goes back to the element that won."""

import numpy as np
from numba import prange

from labkit.kernels.numba.jit import LIGHT, fast, kernel
from labkit.kernels.numba.scalar import INF


@kernel()
def _max_pool(x, KH, KW, sh, sw, ph, pw, dh, dw, y, indices):
    """for each plane, tap (ky, kx):  collect the tap of every window;  keep the larger values and their
    offsets

    Collecting first makes the comparison one long loop without branches; by rows it would be short ones.
    """
    _, H, W = x.shape
    _, OH, OW = y.shape
    for n in prange(x.shape[0]):
        best, tap = y[n].reshape(-1), np.empty(OH * OW, np.float32)
        offset = np.full(OH * OW, np.int32(-1))  # from the corner of the window to the largest element
        best[:] = -INF
        for ky in range(KH):
            for kx in range(KW):
                shift = kx * dw - pw
                first, last = max(0, -(shift // sw)), min(OW, (W - 1 - shift) // sw + 1)  # inside the plane
                for i in range(OH):
                    row, out = i * sh - ph + ky * dh, tap[i * OW : (i + 1) * OW]
                    if row < 0 or row >= H or first > 0 or last < OW:
                        out[:] = -INF
                    if 0 <= row < H:
                        line, inside = x[n, row, first * sw + shift :: sw], out[first:]
                        for j in range(last - first):
                            inside[j] = line[j]
                here = np.int32(ky * dh * W + kx * dw)
                for q in range(OH * OW):
                    better = (tap[q] > best[q]) | (tap[q] != tap[q])
                    best[q] = tap[q] if better else best[q]
                    offset[q] = here if better else offset[q]
        for i in range(OH):
            for j in range(OW):
                top, left = i * sh - ph, j * sw - pw
                corner = max(top, 0) * W + max(left, 0)  # what a window of -inf only points at
                d = offset[i * OW + j]
                indices[n, i, j] = corner if d < 0 else top * W + left + d


@kernel(grain=None)
def _larger(a, b, shift, value, offset, offset_b):
    """value = max(a, b), offset += 0 or, where b is larger or NaN, offset_b + shift: no branch, eight at a
    time
    """
    for q in range(a.size):
        second = (b[q] > a[q]) | (b[q] != b[q])
        value[q] = b[q] if second else a[q]
        offset[q] = offset_b[q] + shift if second else offset[q]


@kernel()
def _max_pool_2x2(x, y, indices):
    """The common case, 2x2 windows side by side: the larger of each pair of columns, then of each pair of
    rows

    The columns and rows of a whole plane are gathered first: loops over single rows would be too short.
    """
    _, OH, OW = y.shape
    W = x.shape[2]
    for n in prange(x.shape[0]):
        even, odd = np.empty((2, OH, OW), np.float32), np.empty((2, OH, OW), np.float32)  # upper, lower rows
        for i in range(OH):
            for lower in range(2):
                row, left, right = x[n, 2 * i + lower], even[lower, i], odd[lower, i]
                for j in range(OW):
                    left[j], right[j] = row[2 * j], row[2 * j + 1]
        best, zero = np.empty((2, OH * OW), np.float32), np.zeros(2 * OH * OW, np.int32)
        offset = np.zeros((2, OH * OW), np.int32)
        _larger(even.reshape(-1), odd.reshape(-1), np.int32(1), best.reshape(-1), offset.reshape(-1), zero)
        _larger(best[0], best[1], np.int32(W), y[n].reshape(-1), offset[0], offset[1])
        for i in range(OH):
            for j in range(OW):
                indices[n, i, j] = 2 * i * W + 2 * j + offset[0, i * OW + j]


@kernel(grain=LIGHT)
def _max_pool_grad(g, indices, gx):
    for n in prange(g.shape[0]):
        row, place, out = g[n], indices[n], gx[n]
        for i in range(row.size):
            out[place[i]] += row[i]


@fast
def max_pool2d(x, size, stride, padding, dilation, out):  # -> y, indices (N, C, OH, OW) into the flat plane
    N, C, H, W = x.shape
    if not x.size:
        return max_pool2d.reference(x, size, stride, padding, dilation, out)
    y, indices = np.empty((N * C, *out), np.float32), np.empty((N * C, *out), np.int64)
    planes = x.reshape(N * C, H, W)
    if tuple(size) == tuple(stride) == (2, 2) and not any(padding) and (H // 2, W // 2) == tuple(out):
        _max_pool_2x2(planes, y, indices)
    else:
        _max_pool(planes, *size, *stride, *padding, *dilation, y, indices)
    return y.reshape(N, C, *out), indices.reshape(N, C, *out)


@fast
def max_pool2d_grad(g, indices, shape):  # (N, C, OH, OW) -> (N, C, H, W)
    planes = shape[0] * shape[1]
    gx = np.zeros((planes, shape[2] * shape[3]), np.float32)
    if g.size:
        _max_pool_grad(g.reshape(planes, -1), indices.reshape(planes, -1), gx)
    return gx.reshape(shape)
