"""Resampling along one axis: y[o] = sum over t of weight[o, t] * x[index[o, t]]. See `numpy/vision.py`.

The tables depend on sizes only, so the CPU makes them, and they are copied to the device.
"""

import math

from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, kernel
from labkit.kernels.cuda.memory import cast, copy_, empty, full, upload, zeros
from labkit.kernels.numpy import vision as plain


@kernel("F3 I2 F2 F3")
def _resample(x, index, weight, out):
    """Thread i owns out[a, o, b]: reads a weight, an index and an element of x per tap, writes one element.

    Neighbors own neighbors of the last axis: they share weights and indices, and read x side by side.
    """
    i = cuda.grid(1)
    if i < out.size:
        b = i % out.shape[2]
        o = i // out.shape[2] % out.shape[1]
        a = i // out.shape[2] // out.shape[1]
        total = out.dtype.type(0)
        for t in range(index.shape[1]):
            total += weight[o, t] * x[a, index[o, t], b]
        out[a, o, b] = total


@kernel("F3 I2 F2 F3")
def _resample_grad(g, index, weight, gx):
    """Thread i owns g[a, o, b] and adds its share to every element it was made of.

    Outputs may share inputs, so the addition is atomic. Reads g once, changes one element per tap.
    """
    i = cuda.grid(1)
    if i < g.size:
        b = i % g.shape[2]
        o = i // g.shape[2] % g.shape[1]
        a = i // g.shape[2] // g.shape[1]
        for t in range(index.shape[1]):
            cuda.atomic.add(gx, (a, index[o, t], b), weight[o, t] * g[a, o, b])


def _flat(x, axis):  # (a, n, b): what is before the axis, the axis, what is after it
    return x.reshape(math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))


def resample(x, index, weight, axis):  # (..., I, ...) -> (..., O, ...)
    out = empty((*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]), x.dtype)
    table = index, cast(weight, x.dtype)
    _resample(blocks_for(out.size), THREADS, _flat(x, axis), *table, _flat(out, axis))
    return out


def resample_grad(g, index, weight, axis, size):  # (..., O, ...) -> (..., I, ...)
    gx = zeros((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)
    table = index, cast(weight, g.dtype)
    _resample_grad(blocks_for(g.size), THREADS, _flat(g, axis), *table, _flat(gx, axis))
    return gx


def pad_taps(size, before, after, mode):  # -> index, weight (size + before + after, 1)
    return tuple(upload(table) for table in plain.pad_taps(size, before, after, mode))


def resize_taps(size, out, scale, mode, align_corners):  # -> index, weight (out, taps)
    return tuple(upload(table) for table in plain.resize_taps(size, out, scale, mode, align_corners))


def pad_constant(x, pads, value):  # pads: (before, after) per axis; negative ones crop
    sizes = list(zip(x.shape, pads, strict=True))
    out = full([n + before + after for n, (before, after) in sizes], value, x.dtype)
    first = [max(0, -before) for _, (before, _) in sizes]  # of those that stay
    count = [max(0, min(n, n + after) - start) for start, (n, (_, after)) in zip(first, sizes, strict=True)]
    kept = tuple(slice(a, a + n) for a, n in zip(first, count, strict=True))
    inner = tuple(slice(max(0, b), max(0, b) + n) for (_, (b, _)), n in zip(sizes, count, strict=True))
    copy_(out[inner], x[kept])
    return out
