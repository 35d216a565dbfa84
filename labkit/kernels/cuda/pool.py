"""Pooling over windows of (N, C, H, W). `out` is (OH, OW): the caller has settled `ceil_mode`."""

import math

import numpy as np

from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, kernel
from labkit.kernels.cuda.memory import empty, zeros


@kernel("f F4 i i i i i i i i F4 I4")
def _max_pool2d(lowest, x, KH, KW, sh, sw, ph, pw, dh, dw, out, places):
    """Thread i owns out[n, c, oh, ow]: reads its window of KH * KW, writes the largest and its place.

    Of equal ones the first wins, and nan wins over numbers. Neighbors own neighboring windows.
    """
    i = cuda.grid(1)
    if i < out.size:
        ow = i % out.shape[3]
        oh = i // out.shape[3] % out.shape[2]
        c = i // out.shape[3] // out.shape[2] % out.shape[1]
        n = i // out.shape[3] // out.shape[2] // out.shape[1]
        H, W = x.shape[2], x.shape[3]
        best = lowest
        at = max(oh * sh - ph, 0) * W + max(ow * sw - pw, 0)
        for kh in range(KH):
            for kw in range(KW):
                y, z = oh * sh - ph + kh * dh, ow * sw - pw + kw * dw
                if 0 <= y and y < H and 0 <= z and z < W:
                    value = x[n, c, y, z]
                    if value > best or (value != value and best == best):
                        best = value
                        at = y * W + z
        out[n, c, oh, ow] = best
        places[n, c, oh, ow] = at


@kernel("F2 I2 F2")
def _max_pool2d_grad(g, places, out):
    """Thread i owns g[p, l], window l of plane p, and adds it to the place its largest element came from.

    Windows may overlap, so the addition is atomic. Reads 2 elements, changes one.
    """
    i = cuda.grid(1)
    if i < g.size:
        p, at = i // g.shape[1], i % g.shape[1]
        cuda.atomic.add(out, (p, places[p, at]), g[p, at])


@kernel("F4 i i i i i i i i F4")
def _avg_pool2d(x, KH, KW, sh, sw, ph, pw, with_pad, divisor, out):
    """Thread i owns out[n, c, oh, ow]: reads the elements of its window, writes their sum over the count."""
    i = cuda.grid(1)
    if i < out.size:
        ow = i % out.shape[3]
        oh = i // out.shape[3] % out.shape[2]
        c = i // out.shape[3] // out.shape[2] % out.shape[1]
        n = i // out.shape[3] // out.shape[2] // out.shape[1]
        H, W = x.shape[2], x.shape[3]
        top, left = oh * sh - ph, ow * sw - pw
        bottom, right = min(top + KH, H + ph), min(left + KW, W + pw)
        count = (bottom - top) * (right - left)
        top, left, bottom, right = max(top, 0), max(left, 0), min(bottom, H), min(right, W)
        if not with_pad:
            count = (bottom - top) * (right - left)
        total = out.dtype.type(0)
        for y in range(top, bottom):
            for z in range(left, right):
                total += x[n, c, y, z]
        out[n, c, oh, ow] = total / out.dtype.type(divisor if divisor else count)


@kernel("F4 i i i i i i i i F4")
def _avg_pool2d_grad(g, KH, KW, sh, sw, ph, pw, with_pad, divisor, out):
    """Thread i owns out[n, c, y, z] and collects its share from every window that covers it: no atomics.

    Reads one element per window (KH * KW / stride^2 of them), writes one.
    """
    i = cuda.grid(1)
    if i < out.size:
        z = i % out.shape[3]
        y = i // out.shape[3] % out.shape[2]
        c = i // out.shape[3] // out.shape[2] % out.shape[1]
        n = i // out.shape[3] // out.shape[2] // out.shape[1]
        H, W = out.shape[2], out.shape[3]
        total = out.dtype.type(0)
        for oh in range(max((y + ph - KH + sh) // sh, 0), min((y + ph) // sh + 1, g.shape[2])):
            for ow in range(max((z + pw - KW + sw) // sw, 0), min((z + pw) // sw + 1, g.shape[3])):
                top, left = oh * sh - ph, ow * sw - pw
                bottom, right = min(top + KH, H + ph), min(left + KW, W + pw)
                count = (bottom - top) * (right - left)
                if not with_pad:
                    count = (min(bottom, H) - max(top, 0)) * (min(right, W) - max(left, 0))
                total += g[n, c, oh, ow] / out.dtype.type(divisor if divisor else count)
        out[n, c, y, z] = total


def max_pool2d(x, size, stride, padding, dilation, out):  # -> y, indices into the flat H * W plane
    y, places = empty((*x.shape[:2], *out), x.dtype), empty((*x.shape[:2], *out), np.int64)
    lowest = x.dtype.type(np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -math.inf)
    window = *size, *stride, *padding, *dilation
    _max_pool2d(blocks_for(y.size), THREADS, lowest, x, *window, y, places)
    return y, places


def max_pool2d_grad(g, indices, shape):  # (N, C, OH, OW) -> (N, C, H, W)
    gx = zeros(shape, g.dtype)
    planes = math.prod(shape[:2])
    if g.size:
        flat = [a.reshape(planes, a.size // planes) for a in (g, indices, gx)]
        _max_pool2d_grad(blocks_for(g.size), THREADS, *flat)
    return gx


def avg_pool2d(x, size, stride, padding, out, count_include_pad, divisor_override):  # -> (N, C, OH, OW)
    y = empty((*x.shape[:2], *out), x.dtype)
    settings = int(count_include_pad), divisor_override or 0
    _avg_pool2d(blocks_for(y.size), THREADS, x, *size, *stride, *padding, *settings, y)
    return y


def avg_pool2d_grad(g, shape, size, stride, padding, count_include_pad, divisor_override):  # -> (N, C, H, W)
    gx = empty(shape, g.dtype)
    settings = int(count_include_pad), divisor_override or 0
    _avg_pool2d_grad(blocks_for(gx.size), THREADS, g, *size, *stride, *padding, *settings, gx)
    return gx
