"""Resampling along one axis: y[o] = sum over t of weight[o, t] * x[index[o, t]].

Padding by reflection, interpolation and adaptive pooling are all of this form; they differ only in the table
(index, weight), each (O, taps), which the `*_taps` functions build from sizes.
"""

import math

import numpy as np


def resample(x, index, weight, axis):  # (..., I, ...) -> (..., O, ...)
    taps = x.take(index[:, 0], axis), *(x.take(i, axis) for i in index.T[1:])
    if index.shape[1] == 1:
        return taps[0]
    column = (-1,) + (1,) * (x.ndim - axis - 1)
    return sum(tap * w.astype(x.dtype).reshape(column) for tap, w in zip(taps, weight.T, strict=True))


def resample_grad(g, index, weight, axis, size):  # (..., O, ...) -> (..., I, ...)
    matrix = np.zeros((size, len(index)), g.dtype)  # (I, O), the transpose of the forward map
    np.add.at(matrix, (index, np.arange(len(index))[:, None]), weight)
    return np.moveaxis(np.tensordot(matrix, g, (1, axis)), 0, axis)


def pad_taps(size, before, after, mode):  # -> index, weight (size + before + after, 1)
    i = np.arange(-before, size + after)
    if mode == "circular":
        i = i % size
    elif mode == "replicate":
        i = np.clip(i, 0, size - 1)
    else:  # reflect: -1 -> 1, size -> size - 2
        i = np.abs(i)
        i = np.where(i >= size, 2 * (size - 1) - i, i)
    return i[:, None], np.ones((len(i), 1))


def nearest_taps(size, out, scale, exact):  # -> index, weight (out, 1); float32, as torch rounds
    o = np.arange(out, dtype=np.float32) + np.float32(0.5 if exact else 0)
    i = np.minimum((o * np.float32(scale)).astype(np.int64), size - 1)
    return i[:, None], np.ones((out, 1))


def linear_taps(size, out, scale, align_corners):  # -> index, weight (out, 2)
    o = np.arange(out)
    position = o * scale if align_corners else np.maximum((o + 0.5) * scale - 0.5, 0)
    left = np.minimum(position.astype(np.int64), size - 1)
    share = np.minimum(position - left, 1)
    return np.stack((left, np.minimum(left + 1, size - 1)), 1), np.stack((1 - share, share), 1)


def cubic_taps(size, out, scale, align_corners):  # -> index, weight (out, 4); Keys' kernel with a = -0.75
    o = np.arange(out)
    position = o * scale if align_corners else (o + 0.5) * scale - 0.5
    left = np.floor(position).astype(np.int64)
    t = (position - left)[:, None] + np.array([1, 0, -1, -2])  # signed distance to each of the four neighbors
    d, a = np.abs(t), -0.75
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * (d**3 - 5 * d**2 + 8 * d - 4)
    index = np.clip(left[:, None] + np.arange(-1, 3), 0, size - 1)
    return index, np.where(d <= 1, near, far)


def area_taps(size, out):  # -> index, weight (out, taps): the mean of the inputs that each output covers
    start = [i * size // out for i in range(out)]
    count = [math.ceil((i + 1) * size / out) - s for i, s in enumerate(start)]
    offset = np.arange(max(count, default=1))
    index = np.minimum(np.array(start)[:, None] + offset, size - 1)
    return index, (offset < np.array(count)[:, None]) / np.array(count)[:, None]


def pad_constant(x, pads, value):  # pads: (before, after) per axis; negative ones crop
    x = x[tuple(slice(max(0, -b), n - max(0, -a)) for n, (b, a) in zip(x.shape, pads, strict=True))]
    return np.pad(x, [(max(0, b), max(0, a)) for b, a in pads], constant_values=value)
