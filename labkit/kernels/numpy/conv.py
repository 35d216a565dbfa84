"""Convolution as a matrix product over windows ("im2col").

`_columns` lays every window of the padded input out as a column. Then the forward pass is `w @ columns`, the
weight gradient `g @ columns.T`, and the input gradient `w.T @ g`, added back where each window came from.
Pairs are (height, width). A weight holds F filters: (F, C/G, KH, KW), where each of the G groups of filters
sees its own C/G channels.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def windows(x, size, stride, padding, dilation):  # (N, C, H, W) -> (N, C, OH, OW, KH, KW), a view
    (ph, pw), (sh, sw), (dh, dw) = padding, stride, dilation
    if ph or pw:
        x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    span = [d * (k - 1) + 1 for d, k in zip(dilation, size, strict=True)]
    return sliding_window_view(x, span, axis=(2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]


def windows_grad(g, shape, stride, padding, dilation):  # (N, C, OH, OW, KH, KW) -> (N, C, H, W)
    (N, C, H, W), (ph, pw), (sh, sw), (dh, dw) = shape, padding, stride, dilation
    OH, OW, KH, KW = g.shape[2:]
    gx = np.zeros((N, C, H + 2 * ph, W + 2 * pw), g.dtype)
    for i in range(KH):
        for j in range(KW):  # windows may overlap, but the same tap of all windows never does
            gx[:, :, i * dh : i * dh + sh * OH : sh, j * dw : j * dw + sw * OW : sw] += g[..., i, j]
    return gx[:, :, ph : ph + H, pw : pw + W]


def _columns(v, groups):  # (N, C, OH, OW, KH, KW) -> (G, C/G * KH * KW, N * OH * OW)
    N, C, OH, OW, KH, KW = v.shape
    v = v.reshape(N, groups, C // groups, OH, OW, KH, KW).transpose(1, 2, 5, 6, 0, 3, 4)
    return v.reshape(groups, C // groups * KH * KW, N * OH * OW)


def _rows(g, groups):  # (N, F, OH, OW) -> (G, F/G, N * OH * OW)
    N, F, OH, OW = g.shape
    return g.reshape(N, groups, F // groups, OH * OW).transpose(1, 2, 0, 3).reshape(groups, F // groups, -1)


def conv2d(x, w, b, stride, padding, dilation, groups):  # (N, C, H, W) -> (N, F, OH, OW)
    v = windows(x, w.shape[2:], stride, padding, dilation)
    N, F, OH, OW = v.shape[0], w.shape[0], v.shape[2], v.shape[3]
    y = w.reshape(groups, F // groups, -1) @ _columns(v, groups)
    y = y.reshape(F, N, OH, OW).transpose(1, 0, 2, 3)
    return np.ascontiguousarray(y) if b is None else y + b[:, None, None]


def conv2d_grad_input(g, w, shape, stride, padding, dilation, groups):  # (N, F, OH, OW) -> (N, C, H, W)
    (N, F, OH, OW), (_, _, KH, KW) = g.shape, w.shape
    cols = w.reshape(groups, F // groups, -1).swapaxes(1, 2) @ _rows(g, groups)
    cols = cols.reshape(shape[1], KH, KW, N, OH, OW).transpose(3, 0, 4, 5, 1, 2)
    return windows_grad(cols, shape, stride, padding, dilation)


def conv2d_grad_weight(g, x, shape, stride, padding, dilation, groups):  # -> (F, C/G, KH, KW)
    v = windows(x, shape[2:], stride, padding, dilation)[:, :, : g.shape[2], : g.shape[3]]
    return (_rows(g, groups) @ _columns(v, groups).swapaxes(1, 2)).reshape(shape)


def conv2d_grad_bias(g):  # (N, F, OH, OW) -> (F,)
    return g.sum((0, 2, 3))


def unfold(x, size, stride, padding, dilation):  # (N, C, H, W) -> (N, C * KH * KW, OH * OW)
    v = windows(x, size, stride, padding, dilation)
    N, C, OH, OW, KH, KW = v.shape
    return v.transpose(0, 1, 4, 5, 2, 3).reshape(N, C * KH * KW, OH * OW)


def fold(x, out, size, stride, padding, dilation):  # (N, C * KH * KW, OH * OW) -> (N, C, H, W)
    KH, KW = size
    N, C = x.shape[0], x.shape[1] // (KH * KW)
    OH, OW = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(out, padding, dilation, size, stride, strict=True)
    )
    v = x.reshape(N, C, KH, KW, OH, OW).transpose(0, 1, 4, 5, 2, 3)
    return windows_grad(v, (N, C, *out), stride, padding, dilation)
