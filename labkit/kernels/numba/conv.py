"""Direct convolution on flat padded planes: stride 1, dilation 1, one group. Other shapes go to the NumPy kernel.

Pad the image once to rows of P = W + 2 * pad elements. Then output (i, j) of the tap (ky, kx) reads the padded plane
at i * P + j + (ky * P + kx): for a given tap, the whole plane is one shifted array, and a convolution is long
multiply-adds of shifted arrays, with no row ends in between. The last KW - 1 results of every row mix two rows; they
are never copied out. No column matrix (KH * KW times the input) is ever made.

Four output channels are computed at a time, so that an element of x is loaded once for twelve multiply-adds.
"""

import numpy as np
from numba import prange

from labkit.kernels.numba.jit import fast, kernel
from labkit.kernels.numba.scalar import ZERO

_BLOCKS = (
    16  # groups of images that sum weight gradients apart: the result does not depend on the thread count
)


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
            y0[i] += a0 * a[i] + b0 * b[i] + c0 * c[i]
            y1[i] += a1 * a[i] + b1 * b[i] + c1 * c[i]
            y2[i] += a2 * a[i] + b2 * b[i] + c2 * c[i]
            y3[i] += a3 * a[i] + b3 * b[i] + c3 * c[i]
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
def _conv(x, w, b, y, pitch):
    """for each image, four outputs o, input c, row ky of the kernel:  y[o] += taps w[o, c, ky] of x[c]

    x (N, C, padded plane), w (O / 4, C, KH, 4, KW), b (O,), y (N, O, OH, OW).
    """
    O, OH, OW = y.shape[1:]
    groups, C, KH = w.shape[:3]
    for job in prange(x.shape[0] * groups):
        n, group = job // groups, job % groups
        plane = np.zeros((4, OH * pitch), np.float32)
        for c in range(C):
            for ky in range(KH):
                _add_taps(x[n, c], ky * pitch, w[group, c, ky], plane[0], plane[1], plane[2], plane[3])
        for k in range(min(4, O - 4 * group)):
            o = 4 * group + k
            for i in range(OH):
                row, out = plane[k, i * pitch :], y[n, o, i]
                for j in range(OW):
                    out[j] = row[j] + b[o]


@kernel(grain=None)
def _sum_taps(x, start, g0, g1, g2, g3, gw, step):
    """gw[k, kx] += sum over i of g_k[i] * x[start + kx + i], for four planes g_k and `step` (3 or 1) taps"""
    a, b, c = x[start:], x[start + step // 2 :], x[start + step - 1 :]
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = ZERO
    for i in range(g0.size):
        a0 += g0[i] * a[i]
        a1 += g1[i] * a[i]
        a2 += g2[i] * a[i]
        a3 += g3[i] * a[i]
        b0 += g0[i] * b[i]
        b1 += g1[i] * b[i]
        b2 += g2[i] * b[i]
        b3 += g3[i] * b[i]
        c0 += g0[i] * c[i]
        c1 += g1[i] * c[i]
        c2 += g2[i] * c[i]
        c3 += g3[i] * c[i]
    gw[0, 0], gw[1, 0], gw[2, 0], gw[3, 0] = gw[0, 0] + a0, gw[1, 0] + a1, gw[2, 0] + a2, gw[3, 0] + a3
    if step == 3:
        gw[0, 1], gw[1, 1], gw[2, 1], gw[3, 1] = gw[0, 1] + b0, gw[1, 1] + b1, gw[2, 1] + b2, gw[3, 1] + b3
        gw[0, 2], gw[1, 2], gw[2, 2], gw[3, 2] = gw[0, 2] + c0, gw[1, 2] + c1, gw[2, 2] + c2, gw[3, 2] + c3


@kernel(grain=8_000)
def _conv_grad_weight(x, g, gw, pitch):
    """for each block of images, image, four outputs o, input c, row ky:  gw[o, c, ky] += taps of g[o] and x[c]

    x (N, C, padded plane), g (N, O, OH, OW), gw (blocks, O / 4, C, KH, 4, KW).
    """
    N, O, OH, OW = g.shape
    blocks, groups, C, KH, _, KW = gw.shape
    for job in prange(blocks * groups):
        block, group = job // groups, job % groups
        plane = np.zeros((4, OH * pitch), np.float32)  # g on rows as long as those of x, zeros at their ends
        for n in range(block * N // blocks, (block + 1) * N // blocks):
            for k in range(min(4, O - 4 * group)):
                for i in range(OH):
                    row, out = g[n, 4 * group + k, i], plane[k, i * pitch :]
                    for j in range(OW):
                        out[j] = row[j]
            for c in range(C):
                for ky in range(KH):
                    kx = 0
                    while kx < KW:
                        step = 3 if kx + 3 <= KW else 1
                        sums = gw[block, group, c, ky, :, kx:]
                        start = ky * pitch + kx
                        _sum_taps(x[n, c], start, plane[0], plane[1], plane[2], plane[3], sums, step)
                        kx += step


@kernel()
def _pad(x, ph, pw, out):
    """Copy the planes of x (N * C, H, W) into zeroed rows of W + 2 * pw."""
    _, H, W = x.shape
    pitch = W + 2 * pw
    for n in prange(x.shape[0]):
        for i in range(H):
            row, to = x[n, i], out[n, (i + ph) * pitch + pw :]
            for j in range(W):
                to[j] = row[j]


def _padded(x, padding, KW):  # (N, C, H, W) -> (N, C, padded plane), a few elements longer for the last taps
    (N, C, H, W), (ph, pw) = x.shape, padding
    out = np.zeros((N, C, (H + 2 * ph) * (W + 2 * pw) + KW - 1), np.float32)
    _pad(x.reshape(N * C, H, W), ph, pw, out.reshape(N * C, -1))
    return out


def _by_fours(w):  # (O, C, KH, KW) -> (O / 4, C, KH, 4, KW), the last group filled up with zeros
    O, C, KH, KW = w.shape
    groups = -(-O // 4)
    if O % 4:
        w = np.concatenate((w, np.zeros((groups * 4 - O, C, KH, KW), np.float32)))
    return np.ascontiguousarray(w.reshape(groups, 4, C, KH, KW).transpose(0, 2, 3, 1, 4))


def _direct(x, w, b, padding):
    (N, _, H, W), (O, _, KH, KW), (ph, pw) = x.shape, w.shape, padding
    y = np.empty((N, O, H + 2 * ph - KH + 1, W + 2 * pw - KW + 1), np.float32)
    b = np.zeros(O, np.float32) if b is None else b
    _conv(_padded(x, padding, KW), _by_fours(w), b, y, W + 2 * pw)
    return y


def _is_direct(stride, dilation, groups, *arrays):
    return tuple(stride) == tuple(dilation) == (1, 1) and groups == 1 and all(a.size for a in arrays)


@fast
def conv2d(x, w, b, stride, padding, dilation, groups):  # (N, C, H, W) (O, C, KH, KW) (O,) -> (N, O, OH, OW)
    if not _is_direct(stride, dilation, groups, x, w):
        return conv2d.reference(x, w, b, stride, padding, dilation, groups)
    return _direct(x, w, b, padding)


@fast
def conv2d_grad_input(g, w, shape, stride, padding, dilation, groups):  # (N, O, OH, OW) -> (N, C, H, W)
    """The convolution of g with the kernels flipped, inputs and outputs exchanged."""
    back = w.shape[2] - 1 - padding[0], w.shape[3] - 1 - padding[1]
    if not _is_direct(stride, dilation, groups, g, w) or min(back) < 0:
        return conv2d_grad_input.reference(g, w, shape, stride, padding, dilation, groups)
    return _direct(g, w[:, :, ::-1, ::-1].swapaxes(0, 1), None, back)


@fast
def conv2d_grad_weight(g, x, shape, stride, padding, dilation, groups):  # -> (O, C, KH, KW)
    if not _is_direct(stride, dilation, groups, g, x):
        return conv2d_grad_weight.reference(g, x, shape, stride, padding, dilation, groups)
    O, C, KH, KW = shape
    gw = np.zeros((min(_BLOCKS, len(x)), -(-O // 4), C, KH, 4, KW), np.float32)
    _conv_grad_weight(_padded(x, padding, KW), g, gw, x.shape[3] + 2 * padding[1])
    return gw.sum(0).transpose(0, 3, 1, 2, 4).reshape(-1, C, KH, KW)[:O]


@kernel()
def _sum_planes(g, sums):  # (N, O, S) -> (N, O)
    for n in prange(g.shape[0]):
        for o in range(g.shape[1]):
            plane, total = g[n, o], ZERO
            for i in range(plane.size):
                total += plane[i]
            sums[n, o] = total


@fast
def conv2d_grad_bias(g):  # (N, O, OH, OW) -> (O,)
    sums = np.empty(g.shape[:2], np.float32)
    _sum_planes(g.reshape(*sums.shape, -1) if g.size else np.zeros((*sums.shape, 0), np.float32), sums)
    return sums.sum(0)
