"""Pooling over windows of (N, C, H, W). `out` is (OH, OW): the caller has settled `ceil_mode`."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def _windows(x, size, stride, padding, dilation, out, fill):  # -> (N, C, OH, OW, KH, KW)
    pads, span = [(0, 0), (0, 0)], []
    for n, k, s, p, d, o in zip(x.shape[2:], size, stride, padding, dilation, out, strict=True):
        span.append(d * (k - 1) + 1)
        pads.append((p, max(0, s * (o - 1) + span[-1] - n - p)))  # ceil_mode: the last window may hang over
    v = sliding_window_view(np.pad(x, pads, constant_values=fill), span, axis=(2, 3))
    v = v[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    return v[:, :, : out[0], : out[1]]


def max_pool2d(x, size, stride, padding, dilation, out):  # -> y, indices into the flat H * W plane
    H, W = x.shape[2:]
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    v = _windows(x, size, stride, padding, dilation, out, lowest)
    v = v.reshape(*v.shape[:4], size[0] * size[1])
    best = v.argmax(-1)
    i = np.arange(out[0])[:, None] * stride[0] - padding[0] + best // size[1] * dilation[0]
    j = np.arange(out[1]) * stride[1] - padding[1] + best % size[1] * dilation[1]
    # An all -inf window would point at the padding; any of its inputs is as right as another.
    indices = np.clip(i, 0, H - 1) * W + np.clip(j, 0, W - 1)
    return np.take_along_axis(v, best[..., None], -1)[..., 0], indices


def max_pool2d_grad(g, indices, shape):  # (N, C, OH, OW) -> (N, C, H, W)
    N, C, H, W = shape
    flat = indices + np.arange(N * C).reshape(N, C, 1, 1) * (H * W)
    gx = np.bincount(flat.ravel(), g.ravel(), N * C * H * W)
    return gx.astype(g.dtype).reshape(shape)


def _divisor(shape, size, stride, padding, out, count_include_pad, divisor_override):  # -> scalar or (OH, OW)
    if divisor_override is not None:
        return divisor_override
    counts = []
    for n, k, s, p, o in zip(shape[2:], size, stride, padding, out, strict=True):
        start = np.arange(o) * s - p
        end = np.minimum(start + k, n + p)
        counts.append(end - start if count_include_pad else np.minimum(end, n) - np.maximum(start, 0))
    return np.outer(*counts)


def avg_pool2d(x, size, stride, padding, out, count_include_pad, divisor_override):  # -> (N, C, OH, OW)
    n = _divisor(x.shape, size, stride, padding, out, count_include_pad, divisor_override)
    return (_windows(x, size, stride, padding, (1, 1), out, 0).sum((-1, -2)) / n).astype(x.dtype)


def avg_pool2d_grad(g, shape, size, stride, padding, count_include_pad, divisor_override):  # -> (N, C, H, W)
    (N, C, H, W), (KH, KW), (sh, sw), (ph, pw) = shape, size, stride, padding
    OH, OW = g.shape[2:]
    g = (g / _divisor(shape, size, stride, padding, (OH, OW), count_include_pad, divisor_override)).astype(
        g.dtype
    )
    gx = np.zeros((N, C, max(H + 2 * ph, sh * OH + KH), max(W + 2 * pw, sw * OW + KW)), g.dtype)
    for i in range(KH):
        for j in range(KW):  # every window passes its share to each of its elements
            gx[:, :, i : i + sh * OH : sh, j : j + sw * OW : sw] += g
    return gx[:, :, ph : ph + H, pw : pw + W]
