"""Convolutions. The transposed one is the input gradient of a convolution, so it has no kernel of its own."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labkit.autograd import op
from labkit.errors import ShapeError

if TYPE_CHECKING:
    from labkit.tensor import Tensor

Pair = int | Sequence[int]


@op
def _conv2d(k, x, w, b, *, stride, padding, dilation, groups, need):
    """(N, C, H, W) (F, C/G, KH, KW) (F,) -> (N, F, OH, OW)"""
    window = stride, padding, dilation, groups

    def backward(g):
        gx = k.conv2d_grad_input(g, w, x.shape, *window) if need[0] else None
        gw = k.conv2d_grad_weight(g, x, w.shape, *window) if need[1] else None
        return gx, gw, k.conv2d_grad_bias(g) if need[2] else None

    return k.conv2d(x, w, b, *window), backward


@op
def _conv_transpose2d(k, x, w, b, *, out, stride, padding, dilation, groups, need):
    """(N, C, H, W) (C, F/G, KH, KW) (F,) -> (N, F, OH, OW): what conv2d would have read, written."""
    window = stride, padding, dilation, groups
    H, W = x.shape[2:]

    def backward(g):
        gx = k.conv2d(g, w, None, *window)[:, :, :H, :W] if need[0] else None
        gw = k.conv2d_grad_weight(x, g, w.shape, *window) if need[1] else None
        return gx, gw, k.conv2d_grad_bias(g) if need[2] else None

    y = k.conv2d_grad_input(x, w, (x.shape[0], w.shape[1] * groups, *out), *window)
    return y if b is None else k.add(y, b.reshape(-1, 1, 1)), backward


@op
def _unfold(k, x, *, size, stride, padding, dilation):
    """(N, C, H, W) -> (N, C * KH * KW, L): every window as a column."""
    out = x.shape[2:]
    return k.unfold(x, size, stride, padding, dilation), lambda g: k.fold(
        g, out, size, stride, padding, dilation
    )


@op
def _fold(k, x, *, out, size, stride, padding, dilation):
    """(N, C * KH * KW, L) -> (N, C, H, W): every column added back into its window."""
    return k.fold(x, out, size, stride, padding, dilation), lambda g: k.unfold(
        g, size, stride, padding, dilation
    )


# composed


def conv2d(
    input: "Tensor",
    weight: "Tensor",
    bias: "Tensor | None" = None,
    stride: Pair = 1,
    padding: Pair | str = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> "Tensor":
    """Slide (F, C/groups, KH, KW) filters over (N, C, H, W) or (C, H, W) -> (N, F, OH, OW)."""
    _check_filters("conv2d", input, weight, bias, 4, weight.shape[0], weight.shape[1] * groups, groups)
    step, spread = positive("conv2d", "stride", stride), positive("conv2d", "dilation", dilation)
    size = tuple(weight.shape[2:])
    x, margin = (
        _same_padding("conv2d", input, size, step, spread, padding)
        if isinstance(padding, str)
        else (input, pair(padding))
    )
    for n, p, d, s in zip(x.shape[-2:], margin, spread, size, strict=True):
        if n + 2 * p < d * (s - 1) + 1:
            raise ShapeError(
                f"conv2d: the filter is larger than the padded input: input {tuple(input.shape)}, "
                f"weight {tuple(weight.shape)}, padding {margin}, dilation {spread}"
            )
    batch = x if x.ndim == 4 else x.unsqueeze(0)
    y = _conv2d(batch, weight, bias, stride=step, padding=margin, dilation=spread, groups=groups)
    return y if x.ndim == 4 else y.squeeze(0)


def conv1d(
    input: "Tensor",
    weight: "Tensor",
    bias: "Tensor | None" = None,
    stride: Pair = 1,
    padding: Pair | str = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> "Tensor":
    """Slide (F, C/groups, K) filters over (N, C, L) -> (N, F, OL): conv2d on an image one pixel high."""
    _check_filters("conv1d", input, weight, bias, 3, weight.shape[0], weight.shape[1] * groups, groups)
    flat = padding if isinstance(padding, str) else (0, _single(padding))
    y = conv2d(
        input.unsqueeze(-2),
        weight.unsqueeze(-2),
        bias,
        (1, _single(stride)),
        flat,
        (1, _single(dilation)),
        groups,
    )
    return y.squeeze(-2)


def conv_transpose2d(
    input: "Tensor",
    weight: "Tensor",
    bias: "Tensor | None" = None,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    groups: int = 1,
    dilation: Pair = 1,
) -> "Tensor":
    """Paint (C, F/groups, KH, KW) filters, scaled by (N, C, H, W), onto (N, F, OH, OW)."""
    _check_filters(
        "conv_transpose2d", input, weight, bias, 4, weight.shape[1] * groups, weight.shape[0], groups
    )
    step, spread = (
        positive("conv_transpose2d", "stride", stride),
        positive("conv_transpose2d", "dilation", dilation),
    )
    margin, extra = pair(padding), pair(output_padding)
    if any(e >= max(s, d) for e, s, d in zip(extra, step, spread, strict=True)):
        raise ValueError(
            f"conv_transpose2d: output_padding {extra} must be below stride {step} or dilation {spread}"
        )
    size = zip(input.shape[-2:], weight.shape[2:], step, margin, spread, extra, strict=True)
    out = tuple((n - 1) * s - 2 * p + d * (kernel - 1) + e + 1 for n, kernel, s, p, d, e in size)
    batch = input if input.ndim == 4 else input.unsqueeze(0)
    y = _conv_transpose2d(
        batch, weight, bias, out=out, stride=step, padding=margin, dilation=spread, groups=groups
    )
    return y if input.ndim == 4 else y.squeeze(0)


def unfold(
    input: "Tensor", kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
) -> "Tensor":
    """Every window of (N, C, H, W) as a column: (N, C * KH * KW, L)."""
    batch = input if input.ndim == 4 else input.unsqueeze(0)
    size, spread, margin, step = pair(kernel_size), pair(dilation), pair(padding), pair(stride)
    out = [
        window_count(n, s, p, d, k)
        for n, s, p, d, k in zip(batch.shape[2:], step, margin, spread, size, strict=True)
    ]
    if min(out) < 1:
        raise ShapeError(f"unfold: a window of {size} does not fit into input {tuple(input.shape)}")
    y = _unfold(batch, size=size, stride=step, padding=margin, dilation=spread)
    return y if input.ndim == 4 else y.squeeze(0)


def fold(
    input: "Tensor",
    output_size: Pair,
    kernel_size: Pair,
    dilation: Pair = 1,
    padding: Pair = 0,
    stride: Pair = 1,
) -> "Tensor":
    """The reverse of unfold: columns (N, C * KH * KW, L) added into (N, C, H, W)."""
    batch = input if input.ndim == 3 else input.unsqueeze(0)
    out, size, spread, margin, step = map(pair, (output_size, kernel_size, dilation, padding, stride))
    counts = [
        window_count(n, s, p, d, k) for n, s, p, d, k in zip(out, step, margin, spread, size, strict=True)
    ]
    if batch.shape[1] % math.prod(size) or batch.shape[2] != math.prod(counts):
        raise ShapeError(
            f"fold: input {tuple(input.shape)} must be (N, C * {math.prod(size)}, {math.prod(counts)}) for "
            f"kernel_size {size} on output_size {out}"
        )
    y = _fold(batch, out=out, size=size, stride=step, padding=margin, dilation=spread)
    return y if input.ndim == 3 else y.squeeze(0)


# arguments


def pair(value: Pair) -> tuple[int, int]:
    """3 -> (3, 3); (3,) -> (3, 3); (3, 5) stays."""
    if isinstance(value, int):
        return value, value
    values = tuple(int(v) for v in value)
    if len(values) not in (1, 2):
        raise ValueError(f"expected one size or two (height, width), got {values}")
    return (values[0], values[-1])


def positive(function: str, name: str, value: Pair) -> tuple[int, int]:
    sizes = pair(value)
    if min(sizes) < 1:
        raise ValueError(f"{function}: {name} must be at least 1, got {value}")
    return sizes


def window_count(size: int, stride: int, padding: int, dilation: int, kernel: int) -> int:
    """How many windows fit along an axis."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _single(value: Pair) -> int:
    return value if isinstance(value, int) else int(value[0])


def _same_padding(
    function: str,
    x: "Tensor",
    size: tuple[int, ...],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: str,
) -> tuple["Tensor", tuple[int, int]]:
    """Padding as a word. An even filter needs one more zero on the right, which is added to x itself."""
    if padding == "valid":
        return x, (0, 0)
    if padding != "same":
        raise ValueError(f"{function}: padding must be numbers, 'same' or 'valid', not {padding!r}")
    if stride != (1, 1):
        raise ValueError(f"{function}: padding='same' keeps the size only with stride 1, got stride {stride}")
    total = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
    if any(t % 2 for t in total):
        from labkit.ops.vision import pad

        x = pad(x, (0, total[1] % 2, 0, total[0] % 2))
    return x, (total[0] // 2, total[1] // 2)


def _check_filters(
    function: str,
    input: "Tensor",
    weight: "Tensor",
    bias: "Tensor | None",
    ndim: int,
    out: int,
    channels: int,
    groups: int,
) -> None:
    """Raise an error that names every shape unless input, weight, bias and groups fit together."""
    shapes = f"input {tuple(input.shape)}, weight {tuple(weight.shape)}, groups {groups}"
    if input.ndim not in (ndim - 1, ndim) or weight.ndim != ndim:
        raise ShapeError(f"{function}: needs an input of {ndim} axes (or {ndim - 1}, unbatched): {shapes}")
    if input.shape[1 - ndim] != channels:
        raise ShapeError(
            f"{function}: the input has {input.shape[1 - ndim]} channels, the weight {channels}: {shapes}"
        )
    if groups < 1 or out % groups or channels % groups:
        raise ShapeError(f"{function}: groups must divide {channels} input, {out} output channels: {shapes}")
    if bias is not None and tuple(bias.shape) != (out,):
        raise ShapeError(
            f"{function}: bias {tuple(bias.shape)} must be ({out},), one number per output channel"
        )
    if input.dtype != weight.dtype:
        raise TypeError(
            f"{function}: input is {input.dtype}, weight is {weight.dtype}; convert one with .to(...)"
        )
