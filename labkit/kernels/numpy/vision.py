"""Resampling along one axis: y[o] = sum over t of weight[o, t] * x[index[o, t]].

Padding by reflection, interpolation and adaptive pooling are all of this form; they differ only in the table
(index, weight), each (O, taps), which the `*_taps` functions build from sizes.
"""

import numpy as np


def resample(x, index, weight, axis):  # (..., I, ...) -> (..., O, ...)
    if index.shape[1] == 1:
        return x.take(index[:, 0], axis)
    column = (-1,) + (1,) * (x.ndim - axis - 1)
    weight = weight.astype(x.dtype)
    return sum(x.take(i, axis) * w.reshape(column) for i, w in zip(index.T, weight.T, strict=True))


def resample_grad(g, index, weight, axis, size):  # (..., O, ...) -> (..., I, ...)
    matrix = np.zeros((size, len(index)), g.dtype)  # (I, O), the transpose of the forward map
    np.add.at(matrix, (index, np.arange(len(index))[:, None]), weight)
    return np.moveaxis(np.tensordot(matrix, g, (1, axis)), 0, axis)


def pad_taps(size, before, after, mode):  # -> index, weight (size + before + after, 1)
    i = np.arange(-before, size + after)
    if mode == "circular":  # around what is left after cropping
        first, last = max(-before, 0), size - max(-after, 0)
        i = first + (i - first) % (last - first)
    elif mode == "replicate":
        i = np.clip(i, 0, size - 1)
    else:  # reflect: -1 -> 1, size -> size - 2
        i = np.abs(i)
        i = np.where(i >= size, 2 * (size - 1) - i, i)
    return i[:, None], np.ones((len(i), 1))


def resize_taps(size, out, scale, mode, align_corners):  # -> index, weight (out, taps)
    if mode == "area":
        return _area_taps(size, out)
    if mode.startswith("nearest"):
        return _nearest_taps(size, out, scale, 0.5 if mode == "nearest-exact" else 0)
    o = np.arange(out)
    position = o * scale if align_corners else (o + 0.5) * scale - 0.5
    return _cubic_taps(size, position) if mode == "bicubic" else _linear_taps(size, position)


def _nearest_taps(size, out, scale, shift):  # float32 throughout, as torch rounds
    position = (np.arange(out, dtype=np.float32) + np.float32(shift)) * np.float32(scale)
    return np.minimum(position.astype(np.int64), size - 1)[:, None], np.ones((out, 1))


def _linear_taps(size, position):  # two neighbors, weighted by how near they are
    position = np.maximum(position, 0)
    left = np.minimum(position.astype(np.int64), size - 1)
    share = np.minimum(position - left, 1)
    return np.stack((left, np.minimum(left + 1, size - 1)), 1), np.stack((1 - share, share), 1)


def _cubic_taps(size, position):  # four neighbors, weighted by Keys' cubic with a = -0.75
    left = np.floor(position).astype(np.int64)
    d = np.abs((position - left)[:, None] - np.arange(-1, 3))
    a = -0.75
    near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * (d**3 - 5 * d**2 + 8 * d - 4)
    return np.clip(left[:, None] + np.arange(-1, 3), 0, size - 1), np.where(d <= 1, near, far)


def _area_taps(size, out):  # the mean of the inputs that each output covers
    start = np.arange(out) * size // out
    count = -(-(np.arange(1, out + 1) * size) // out) - start
    offset = np.arange(count.max(initial=1))
    return np.minimum(start[:, None] + offset, size - 1), (offset < count[:, None]) / count[:, None]


def pad_constant(x, pads, value):  # pads: (before, after) per axis; negative ones crop
    x = x[tuple(slice(max(0, -b), n - max(0, -a)) for n, (b, a) in zip(x.shape, pads, strict=True))]
    return np.pad(x, [(max(0, b), max(0, a)) for b, a in pads], constant_values=value)
