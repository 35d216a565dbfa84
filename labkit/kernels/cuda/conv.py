"""Convolution as a matrix product over windows ("im2col").

`unfold` writes every window of the padded input as a column. Then the forward pass is w @ columns, the weight
gradient g @ columns.T, and the input gradient w.T @ g, added back by `fold` where each window came from.
Pairs are (height, width). A weight holds F filters: (F, C/G, KH, KW).
"""

import numpy as np

from labkit.kernels.cuda.elementwise import add
from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, kernel
from labkit.kernels.cuda.linear import matmul
from labkit.kernels.cuda.memory import empty
from labkit.kernels.cuda.reduce import sum


@kernel("F4 i i i i i i i i i i F3")
def _unfold(x, KH, KW, sh, sw, ph, pw, dh, dw, OH, OW, out):
    """Thread i owns one element of a column: out[n, (c, kh, kw), (oh, ow)], 0 where the window hangs over.

    Neighbors are neighboring windows at one tap: they write side by side, and read side by side at stride 1.
    Every input is read once per window that covers it (KH * KW / stride^2 times); every output written once.
    """
    i = cuda.grid(1)
    if i < out.size:
        place = i % out.shape[2]
        row = i // out.shape[2] % out.shape[1]
        n = i // out.shape[2] // out.shape[1]
        y = place // OW * sh - ph + row // KW % KH * dh
        z = place % OW * sw - pw + row % KW * dw
        inside = 0 <= y and y < x.shape[2] and 0 <= z and z < x.shape[3]
        out[n, row, place] = x[n, row // KW // KH, y, z] if inside else x.dtype.type(0)


@kernel("F3 i i i i i i i i i i F4")
def _fold(columns, KH, KW, sh, sw, ph, pw, dh, dw, OH, OW, out):
    """Thread i owns pixel out[n, c, y, z] and collects it from every window that covers it.

    The other way round, a thread per window adding to its pixels, would need atomic additions. Reads KH * KW
    elements at most, writes one; the order of the sum is fixed.
    """
    i = cuda.grid(1)
    if i < out.size:
        z = i % out.shape[3]
        y = i // out.shape[3] % out.shape[2]
        c = i // out.shape[3] // out.shape[2] % out.shape[1]
        n = i // out.shape[3] // out.shape[2] // out.shape[1]
        total = out.dtype.type(0)
        for kh in range(KH):
            for kw in range(KW):
                top, left = y + ph - kh * dh, z + pw - kw * dw  # where the window starts, times the stride
                if top >= 0 and left >= 0 and top % sh == 0 and left % sw == 0:
                    if top // sh < OH and left // sw < OW:
                        total += columns[n, (c * KH + kh) * KW + kw, top // sh * OW + left // sw]
        out[n, c, y, z] = total


def _counts(shape, size, stride, padding, dilation):  # how many windows fit: (OH, OW)
    sizes = zip(shape, size, stride, padding, dilation, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)


def _columns(x, size, window, counts):  # the first (OH, OW) windows: -> (N, C * KH * KW, OH * OW)
    out = empty((x.shape[0], x.shape[1] * size[0] * size[1], counts[0] * counts[1]), x.dtype)
    _unfold(blocks_for(out.size), THREADS, x, *size, *(n for pair in window for n in pair), *counts, out)
    return out


def _pixels(columns, out, size, window, counts):  # the reverse: -> (N, C, H, W)
    x = empty((columns.shape[0], columns.shape[1] // (size[0] * size[1]), *out), columns.dtype)
    _fold(blocks_for(x.size), THREADS, columns, *size, *(n for pair in window for n in pair), *counts, x)
    return x


def unfold(x, size, stride, padding, dilation):  # (N, C, H, W) -> (N, C * KH * KW, OH * OW)
    window = stride, padding, dilation
    return _columns(x, size, window, _counts(x.shape[2:], size, *window))


def fold(x, out, size, stride, padding, dilation):  # (N, C * KH * KW, OH * OW) -> (N, C, H, W)
    window = stride, padding, dilation
    return _pixels(x, out, size, window, _counts(out, size, *window))


def _in_groups(a, groups):  # (N, G * R, L) -> (N, G, R, L)
    return a.reshape(a.shape[0], groups, a.shape[1] // groups, a.shape[2])


def conv2d(x, w, b, stride, padding, dilation, groups):  # (N, C, H, W) -> (N, F, OH, OW)
    F = w.shape[0]
    OH, OW = _counts(x.shape[2:], w.shape[2:], stride, padding, dilation)
    columns = _in_groups(unfold(x, w.shape[2:], stride, padding, dilation), groups)
    y = matmul(w.reshape(groups, F // groups, columns.shape[2]), columns)  # (N, G, F/G, L)
    y = y.reshape(x.shape[0], F, OH, OW)
    return y if b is None else add(y, b.reshape(F, 1, 1))


def conv2d_grad_input(g, w, shape, stride, padding, dilation, groups):  # (N, F, OH, OW) -> (N, C, H, W)
    N, F, OH, OW = g.shape
    filters = w.reshape(groups, F // groups, int(np.prod(w.shape[1:])))
    columns = matmul(filters.swapaxes(1, 2), _in_groups(g.reshape(N, F, OH * OW), groups))
    rows = columns.reshape(N, groups * columns.shape[2], OH * OW)
    return _pixels(rows, shape[2:], w.shape[2:], (stride, padding, dilation), (OH, OW))


def conv2d_grad_weight(g, x, shape, stride, padding, dilation, groups):  # -> (F, C/G, KH, KW)
    N, F, OH, OW = g.shape
    columns = _columns(x, shape[2:], (stride, padding, dilation), (OH, OW))
    rows = _in_groups(g.reshape(N, F, OH * OW), groups)
    gw = matmul(rows, _in_groups(columns, groups).swapaxes(2, 3))  # (N, G, F/G, C/G * KH * KW)
    return sum(gw, (0,), False).reshape(shape)


def conv2d_grad_bias(g):  # (N, F, OH, OW) -> (F,)
    return sum(g, (0, 2, 3), False)
