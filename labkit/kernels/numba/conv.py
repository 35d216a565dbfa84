"""Direct convolution on one flat padded row per channel: stride 1, dilation 1, one group; else NumPy.

All images of a channel are laid out behind each other, every image below `ph` rows of zeros, every row
behind `pw` zeros: the zeros after a row are those before the next one. With rows of P = W + pw elements,
output f of the tap (ky, kx) reads element f + ky * P + kx. So for a given tap the whole batch is one
shifted array, and a convolution is long multiply-adds of shifted arrays with no row ends to look after. The
few results that mix the end of a row with the start of the next are never copied out. No column matrix of
KH * KW times the input is ever made.

The output is worked on in chunks of whole rows that stay in the nearest cache, four output channels at a
time: an element of x is loaded once for twelve multiply-adds.
"""

import numpy as np
from numba import prange

from labkit.kernels.numba.jit import LIGHT, fast, kernel
from labkit.kernels.numba.scalar import ZERO

_CHUNK = 840  # outputs worked on at a time; planes 4096 bytes apart would keep evicting each other
_BLOCKS = 16  # groups of chunks that sum apart: the result does not depend on the number of threads


@kernel(grain=None)
def _add_taps(x, start, w, y0, y1, y2, y3):
    """y_k[i] += sum over kx of w[k, kx] * x[start + kx + i], for four planes y_k, three taps at a time"""
    size, kx = y0.size, 0
    while kx + 3 <= w.shape[1]:
        a, b, c = x[start + kx :], x[start + kx + 1 :], x[start + kx + 2 :]
        a0, a1, a2, a3 = w[0, kx], w[1, kx], w[2, kx], w[3, kx]
        b0, b1, b2, b3 = w[0, kx + 1], w[1, kx + 1], w[2, kx + 1], w[3, kx + 1]
        c0, c1, c2, c3 = w[0, kx + 2], w[1, kx + 2], w[2, kx + 2], w[3, kx + 2]
        for i in range(size):
            p, q, r = a[i], b[i], c[i]
            s0 = y0[i] + a0 * p + b0 * q + c0 * r
            s1 = y1[i] + a1 * p + b1 * q + c1 * r
            s2 = y2[i] + a2 * p + b2 * q + c2 * r
            s3 = y3[i] + a3 * p + b3 * q + c3 * r
            y0[i], y1[i], y2[i], y3[i] = s0, s1, s2, s3
        kx += 3
    while kx < w.shape[1]:
        a = x[start + kx :]
        a0, a1, a2, a3 = w[0, kx], w[1, kx], w[2, kx], w[3, kx]
        for i in range(size):
            y0[i] += a0 * a[i]
            y1[i] += a1 * a[i]
            y2[i] += a2 * a[i]
            y3[i] += a3 * a[i]
        kx += 1


@kernel(grain=8_000)
def _conv(x, w, b, y, pitch, rows):
    """for each chunk of rows, four filters f, input c, row ky of the kernel:  y[f] += taps of w[f, c, ky]

    x (C, flat), w (F / 4, C, KH, 4, KW), b (F,), y (N, F, OH, OW); an image takes `rows` rows of x.
    """
    N, F, OH, OW = y.shape
    groups, C, KH, _, _ = w.shape
    step = max(1, _CHUNK // pitch)
    for job in prange(-(-N * rows // step) * groups):
        first, group = job // groups * step, job % groups
        last = min(first + step, N * rows)
        plane = np.zeros((4, (last - first) * pitch), np.float32)
        for c in range(C):
            for ky in range(KH):
                start, taps = (first + ky) * pitch, w[group, c, ky]
                _add_taps(x[c], start, taps, plane[0], plane[1], plane[2], plane[3])
        for k in range(min(4, F - 4 * group)):
            o = 4 * group + k
            for row in range(first, last):
                n, i = row // rows, row % rows
                if i < OH:
                    line, out = plane[k, (row - first) * pitch :], y[n, o, i]
                    for j in range(OW):
                        out[j] = line[j] + b[o]


@kernel(grain=None)
def _sum_taps(x, start, g0, g1, g2, gw, taps):
    """gw[k, kx] += sum over i of g_k[i] * x[start + kx + i], for three planes g_k and `taps` (3 or 1) taps kx

    Nine running sums, not twelve: with their operands they fill the sixteen vector registers.
    """
    a, b, c = x[start:], x[start + taps // 2 :], x[start + taps - 1 :]
    a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = ZERO
    for i in range(g0.size):
        a0 += g0[i] * a[i]
        a1 += g1[i] * a[i]
        a2 += g2[i] * a[i]
        b0 += g0[i] * b[i]
        b1 += g1[i] * b[i]
        b2 += g2[i] * b[i]
        c0 += g0[i] * c[i]
        c1 += g1[i] * c[i]
        c2 += g2[i] * c[i]
    gw[0, 0], gw[1, 0], gw[2, 0] = gw[0, 0] + a0, gw[1, 0] + a1, gw[2, 0] + a2
    if taps == 3:
        gw[0, 1], gw[1, 1], gw[2, 1] = gw[0, 1] + b0, gw[1, 1] + b1, gw[2, 1] + b2
        gw[0, 2], gw[1, 2], gw[2, 2] = gw[0, 2] + c0, gw[1, 2] + c1, gw[2, 2] + c2


@kernel(grain=8_000)
def _conv_grad_weight(x, g, gw, pitch, rows):
    """for each block of chunks, chunk of rows, three outputs o, input c, row ky:  gw[o, c, ky] += taps

    x (C, flat), g (N, F, OH, OW), gw (blocks, F / 3, C, KH, 3, KW). The chunk of g is laid out as x is,
    with zeros where no output is; an infinite x next to such a zero therefore makes its weight gradient
    NaN.
    """
    N, F, OH, OW = g.shape
    blocks, groups, C, KH, _, KW = gw.shape
    step = max(1, _CHUNK // pitch)
    chunks = -(-N * rows // step)
    for job in prange(blocks * groups):
        block, group = job // groups, job % groups
        for chunk in range(block * chunks // blocks, (block + 1) * chunks // blocks):
            first, last = chunk * step, min((chunk + 1) * step, N * rows)
            plane = np.zeros((3, (last - first) * pitch), np.float32)
            for k in range(min(3, F - 3 * group)):
                for row in range(first, last):
                    n, i = row // rows, row % rows
                    if i < OH:
                        line, out = g[n, 3 * group + k, i], plane[k, (row - first) * pitch :]
                        for j in range(OW):
                            out[j] = line[j]
            for c in range(C):
                for ky in range(KH):
                    kx = 0
                    while kx < KW:
                        taps, start = 3 if kx + 3 <= KW else 1, (first + ky) * pitch + kx
                        sums = gw[block, group, c, ky, :, kx:]
                        _sum_taps(x[c], start, plane[0], plane[1], plane[2], sums, taps)
                        kx += taps


@kernel(grain=LIGHT)
def _flatten(x, ph, pw, out):
    """Copy the rows of x (N, C, H, W) to their places in the zeros `out` (C, flat)."""
    N, C, H, W = x.shape
    pitch = W + pw
    for job in prange(N * C):
        n, c = job // C, job % C
        for i in range(H):
            row, to = x[n, c, i], out[c, (n * (H + ph) + ph + i) * pitch + pw :]
            for j in range(W):
                to[j] = row[j]


def _flat(x, padding, KH, KW):  # (N, C, H, W) -> (C, flat), and its row length and rows per image
    (N, C, H, W), (ph, pw) = x.shape, padding
    rows, pitch = H + ph, W + pw
    out = np.zeros((C, (N * rows + KH) * pitch + KW), np.float32)  # some more: taps of the last rows read on
    _flatten(x, ph, pw, out)
    return out, pitch, rows


def _by_fours(w):  # (F, C, KH, KW) -> (F / 4, C, KH, 4, KW), the last group filled up with zeros
    F, C, KH, KW = w.shape
    groups = -(-F // 4)
    if F % 4:
        w = np.concatenate((w, np.zeros((groups * 4 - F, C, KH, KW), np.float32)))
    return np.ascontiguousarray(w.reshape(groups, 4, C, KH, KW).transpose(0, 2, 3, 1, 4))


def _direct(x, w, b, padding):
    (N, _, H, W), (F, _, KH, KW), (ph, pw) = x.shape, w.shape, padding
    y = np.empty((N, F, H + 2 * ph - KH + 1, W + 2 * pw - KW + 1), np.float32)
    flat, pitch, rows = _flat(x, padding, KH, KW)
    _conv(flat, _by_fours(w), np.zeros(F, np.float32) if b is None else b, y, pitch, rows)
    return y


def _is_direct(w_shape, stride, padding, dilation, groups, *arrays):
    (KH, KW), (ph, pw) = w_shape[2:], padding
    plain = tuple(stride) == tuple(dilation) == (1, 1) and groups == 1
    return plain and ph < KH and pw < KW and all(a.size for a in arrays)


@fast
def conv2d(x, w, b, stride, padding, dilation, groups):  # (N, C, H, W) (F, C, KH, KW) (F,) -> (N, F, OH, OW)
    if not _is_direct(w.shape, stride, padding, dilation, groups, x, w):
        return conv2d.reference(x, w, b, stride, padding, dilation, groups)
    return _direct(x, w, b, padding)


@fast
def conv2d_grad_input(g, w, shape, stride, padding, dilation, groups):  # (N, F, OH, OW) -> (N, C, H, W)
    """The convolution of g with the kernels flipped, inputs and outputs exchanged."""
    if not _is_direct(w.shape, stride, padding, dilation, groups, g, w):
        return conv2d_grad_input.reference(g, w, shape, stride, padding, dilation, groups)
    (KH, KW), (ph, pw) = w.shape[2:], padding
    return _direct(g, w[:, :, ::-1, ::-1].swapaxes(0, 1), None, (KH - 1 - ph, KW - 1 - pw))


@fast
def conv2d_grad_weight(g, x, shape, stride, padding, dilation, groups):  # -> (F, C, KH, KW)
    if not _is_direct(shape, stride, padding, dilation, groups, g, x):
        return conv2d_grad_weight.reference(g, x, shape, stride, padding, dilation, groups)
    F, C, KH, KW = shape
    gw = np.zeros((_BLOCKS, -(-F // 3), C, KH, 3, KW), np.float32)
    flat, pitch, rows = _flat(x, padding, KH, KW)
    _conv_grad_weight(flat, g, gw, pitch, rows)
    return gw.sum(0).transpose(0, 3, 1, 2, 4).reshape(-1, C, KH, KW)[:F]


@kernel(grain=LIGHT)
def _sum_planes(g, sums):  # (N, F, S) -> (N, F)
    for n in prange(g.shape[0]):
        for o in range(g.shape[1]):
            plane, total = g[n, o], ZERO
            for i in range(plane.size):
                total += plane[i]
            sums[n, o] = total


@fast
def conv2d_grad_bias(g):  # (N, F, OH, OW) -> (F,)
    sums = np.empty(g.shape[:2], np.float32)
    _sum_planes(g.reshape(*sums.shape, -1) if g.size else np.zeros((*sums.shape, 0), np.float32), sums)
    return sums.sum(0)
