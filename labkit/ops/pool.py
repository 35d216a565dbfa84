"""Pooling: the largest or the mean value of every window."""

from typing import TYPE_CHECKING, Any

from labkit.autograd import op
from labkit.errors import ShapeError
from labkit.ops.conv import Pair, pair, positive, window_count

if TYPE_CHECKING:
    from labkit.tensor import Tensor


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


# composed


def max_pool2d(
    input: "Tensor",
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest value of each window of (N, C, H, W) or (C, H, W); indices point into the flat H * W."""
    batch, window = _windows("max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode)
    y, indices = _max_pool2d(batch, **window)
    if input.ndim == 3:
        y, indices = y.squeeze(0), indices.squeeze(0)
    return (y, indices) if return_indices else y


def avg_pool2d(
    input: "Tensor",
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> "Tensor":
    """The mean of each window of (N, C, H, W) or (C, H, W)."""
    if divisor_override == 0:
        raise ValueError("avg_pool2d: divisor_override must not be 0")
    batch, window = _windows("avg_pool2d", input, kernel_size, stride, padding, 1, ceil_mode)
    del window["dilation"]
    y = _avg_pool2d(batch, **window, count_include_pad=count_include_pad, divisor_override=divisor_override)
    return y.squeeze(0) if input.ndim == 3 else y


def _windows(
    function: str,
    x: "Tensor",
    kernel_size: Pair,
    stride: Pair | None,
    padding: Pair,
    dilation: Pair,
    ceil_mode: bool,
) -> tuple["Tensor", dict[str, Any]]:
    """The input as a batch, and its windows: sizes as pairs, and how many windows fit."""
    if x.ndim not in (3, 4):
        raise ShapeError(f"{function}: needs (N, C, H, W) or (C, H, W), got {tuple(x.shape)}")
    size, spread, margin = (
        positive(function, "kernel_size", kernel_size),
        positive(function, "dilation", dilation),
        pair(padding),
    )
    step = positive(function, "stride", stride) if stride or stride == 0 else size
    if any(p < 0 or 2 * p > d * (s - 1) + 1 for p, s, d in zip(margin, size, spread, strict=True)):
        raise ValueError(f"{function}: padding {margin} must be at most half of kernel_size {size}")
    out = []
    for n, s, p, d, kernel in zip(x.shape[-2:], step, margin, spread, size, strict=True):
        count = window_count(n + (s - 1 if ceil_mode else 0), s, p, d, kernel)
        if (
            ceil_mode and (count - 1) * s >= n + p
        ):  # the last window must start inside the input or its left padding
            count -= 1
        out.append(count)
    if min(out) < 1:
        raise ShapeError(f"{function}: a window of {size} does not fit into input {tuple(x.shape)}")
    batch = x if x.ndim == 4 else x.unsqueeze(0)
    return batch, {"size": size, "stride": step, "padding": margin, "dilation": spread, "out": tuple(out)}
