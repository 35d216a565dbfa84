"""Pooling: the largest or the mean value of every window."""

from labkit.autograd import op
from labkit.errors import ShapeError
from labkit.op_table import composed
from labkit.ops.windows import pair, positive, window_counts


@op
def _max_pool2d(k, x, *, size, stride, padding, dilation, out):
    """(N, C, H, W) -> (N, C, OH, OW) and, per window, where in H * W its largest value was."""
    y, indices = k.max_pool2d(x, size, stride, padding, dilation, out)
    shape = x.shape
    return (y, indices), lambda g, _: k.max_pool2d_grad(g, indices, shape)


@op
def _avg_pool2d(k, x, *, size, stride, padding, out, count_include_pad, divisor_override):
    """(N, C, H, W) -> (N, C, OH, OW)"""
    shape, count = x.shape, (count_include_pad, divisor_override)
    y = k.avg_pool2d(x, size, stride, padding, out, *count)
    return y, lambda g: k.avg_pool2d_grad(g, shape, size, stride, padding, *count)


# ---- composed ----


@composed(functional=True, returns="Any")
def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest value of each window of (N, C, H, W) or (C, H, W); indices point into the flat H * W."""
    batch, window = _windows("max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode)
    y, indices = _max_pool2d(batch, **window)
    if input.ndim == 3:
        y, indices = y.squeeze(0), indices.squeeze(0)
    return (y, indices) if return_indices else y


@composed(functional=True)
def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The mean of each window of (N, C, H, W) or (C, H, W)."""
    if divisor_override == 0:
        raise ValueError("avg_pool2d(): divisor_override must not be 0")
    batch, window = _windows("avg_pool2d", input, kernel_size, stride, padding, 1, ceil_mode)
    del window["dilation"]
    y = _avg_pool2d(batch, **window, count_include_pad=count_include_pad, divisor_override=divisor_override)
    return y.squeeze(0) if input.ndim == 3 else y


def _windows(function, x, kernel_size, stride, padding, dilation, ceil_mode):
    """The input as a batch, and its windows: sizes as pairs, and how many windows fit."""
    if x.ndim not in (3, 4):
        raise ShapeError(f"{function}(): needs (N, C, H, W) or (C, H, W), got {tuple(x.shape)}")
    size, spread = positive(function, "kernel_size", kernel_size), positive(function, "dilation", dilation)
    step = size if stride in (None, (), []) else positive(function, "stride", stride)
    margin = pair(padding)
    if any(p < 0 or 2 * p > d * (s - 1) + 1 for p, s, d in zip(margin, size, spread, strict=True)):
        raise ValueError(f"{function}(): padding {margin} must be at most half of kernel_size {size}")
    if ceil_mode:  # a last window may hang over the end, but must start inside the input or its left padding
        reach = [n + s - 1 for n, s in zip(x.shape[-2:], step, strict=True)]
        counts = window_counts(reach, size, step, margin, spread)
        limits = zip(counts, x.shape[-2:], step, margin, strict=True)
        out = tuple(c - 1 if (c - 1) * s >= n + p else c for c, n, s, p in limits)
    else:
        out = window_counts(x.shape, size, step, margin, spread)
    if min(out) < 1:
        raise ShapeError(f"{function}(): no window of {size} fits into input {tuple(x.shape)}")
    batch = x if x.ndim == 4 else x.unsqueeze(0)
    return batch, {"size": size, "stride": step, "padding": margin, "dilation": spread, "out": out}
