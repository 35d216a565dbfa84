"""Max pooling: every output looks at its own window; the gradient goes back to the element that won."""

import numpy as np
from numba import prange

from labkit.kernels.numba.jit import fast, kernel
from labkit.kernels.numba.scalar import INF


@kernel()
def _max_pool(x, KH, KW, sh, sw, ph, pw, dh, dw, y, indices):
    """for each plane, output row i, tap (ky, kx):  keep the larger value and its place, all columns j at once"""
    _, H, W = x.shape
    _, OH, OW = y.shape
    for n in prange(x.shape[0]):
        for i in range(OH):
            best, place = y[n, i], indices[n, i]
            top = min(max(i * sh - ph, 0), H - 1)
            for j in range(OW):  # a window of -inf only points at its first element inside the plane
                best[j], place[j] = -INF, top * W + min(max(j * sw - pw, 0), W - 1)
            for ky in range(KH):
                row = i * sh - ph + ky * dh
                if 0 <= row < H:
                    line = x[n, row]
                    for kx in range(KW):
                        shift = kx * dw - pw
                        first = max(0, -(shift // sw))  # the columns whose tap is inside the row
                        last = min(OW, (W - 1 - shift) // sw + 1)
                        for j in range(first, last):
                            v = line[j * sw + shift]
                            better = (v > best[j]) | (v != v)
                            best[j] = v if better else best[j]
                            place[j] = row * W + j * sw + shift if better else place[j]


@kernel()
def _max_pool_2x2(x, y, indices):
    """The common case, 2x2 windows side by side: four loads, three comparisons, no bounds to check."""
    W = x.shape[2]
    _, OH, OW = y.shape
    for n in prange(x.shape[0]):
        for i in range(OH):
            upper, lower, best, place = x[n, 2 * i], x[n, 2 * i + 1], y[n, i], indices[n, i]
            for j in range(OW):
                a, b, c, d = upper[2 * j], upper[2 * j + 1], lower[2 * j], lower[2 * j + 1]
                right, below = (b > a) | (b != b), (d > c) | (d != d)
                first, second = b if right else a, d if below else c
                down = (second > first) | (second != second)
                best[j] = second if down else first
                place[j] = 2 * i * W + 2 * j + (W + below if down else np.int64(right))


@kernel()
def _max_pool_grad(g, indices, gx):
    for n in prange(g.shape[0]):
        row, place, out = g[n], indices[n], gx[n]
        for i in range(row.size):
            out[place[i]] += row[i]


@fast
def max_pool2d(x, size, stride, padding, dilation, out):  # -> y, indices (N, C, OH, OW) into the flat plane
    N, C, H, W = x.shape
    if x.dtype != np.float32 or not x.size:
        return max_pool2d.reference(x, size, stride, padding, dilation, out)
    y, indices = np.empty((N * C, *out), np.float32), np.empty((N * C, *out), np.int64)
    planes = x.reshape(N * C, H, W)
    if tuple(size) == tuple(stride) == (2, 2) and not any(padding) and H >= 2 * out[0] and W >= 2 * out[1]:
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
