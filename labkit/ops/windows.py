"""Windows that slide over images: their sizes as arguments, and the windows themselves as columns."""

import math

from labkit.autograd import op
from labkit.errors import ShapeError
from labkit.op_table import composed


def pair(value):
    """3 -> (3, 3); (3,) -> (3, 3); (3, 5) stays."""
    if isinstance(value, int):
        return value, value
    values = tuple(int(v) for v in value)
    if len(values) not in (1, 2):
        raise ValueError(f"expected one size or two (height, width), got {values}")
    return values[0], values[-1]


def positive(function, name, value):
    """`pair`, refusing sizes below 1."""
    sizes = pair(value)
    if min(sizes) < 1:
        raise ValueError(f"{function}(): {name} must be at least 1, got {value}")
    return sizes


def window_counts(shape, size, stride, padding, dilation):
    """How many windows fit into each of the last two axes."""
    high, wide = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(shape[-2:], size, stride, padding, dilation, strict=True)
    )
    return high, wide


@op
def _unfold(k, x, *, size, stride, padding, dilation):
    """(N, C, H, W) -> (N, C * KH * KW, L): every window as a column."""
    out, window = x.shape[2:], (size, stride, padding, dilation)
    return k.unfold(x, *window), lambda g: k.fold(g, out, *window)


@op
def _fold(k, x, *, out, size, stride, padding, dilation):
    """(N, C * KH * KW, L) -> (N, C, H, W): every column added back into its window."""
    window = size, stride, padding, dilation
    return k.fold(x, out, *window), lambda g: k.unfold(g, *window)


# ---- composed ----


@composed(functional=True)
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Every window of (N, C, H, W) or (C, H, W) as a column: (N, C * KH * KW, L)."""
    size, spread, margin, step = pair(kernel_size), pair(dilation), pair(padding), pair(stride)
    if input.ndim not in (3, 4) or min(window_counts(input.shape, size, step, margin, spread)) < 1:
        raise ShapeError(f"unfold(): no window of {size} fits into input {tuple(input.shape)}")
    batch = input if input.ndim == 4 else input.unsqueeze(0)
    y = _unfold(batch, size=size, stride=step, padding=margin, dilation=spread)
    return y if input.ndim == 4 else y.squeeze(0)


@composed(functional=True)
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The reverse of unfold: columns (N, C * KH * KW, L) or (C * KH * KW, L) added into (N, C, H, W)."""
    out, size, spread, margin, step = map(pair, (output_size, kernel_size, dilation, padding, stride))
    columns = math.prod(window_counts(out, size, step, margin, spread))
    if input.ndim not in (2, 3) or input.shape[-2] % math.prod(size) or input.shape[-1] != columns:
        raise ShapeError(
            f"fold(): input {tuple(input.shape)} must be (N, C * {math.prod(size)}, {columns}) "
            f"for kernel_size {size} on output_size {out}"
        )
    batch = input if input.ndim == 3 else input.unsqueeze(0)
    y = _fold(batch, out=out, size=size, stride=step, padding=margin, dilation=spread)
    return y if input.ndim == 3 else y.squeeze(0)
