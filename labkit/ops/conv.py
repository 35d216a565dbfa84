"""Convolutions. The transposed one is the input gradient of a convolution, so it has no kernel of its own."""

from labkit.autograd import not_a_tensor, op
from labkit.errors import ShapeError
from labkit.op_table import composed
from labkit.ops.vision import pad
from labkit.ops.windows import pair, positive, window_counts


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


# ---- composed ----


@composed(functional=True)
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Slide (F, C/groups, KH, KW) filters over (N, C, H, W) or (C, H, W) -> (N, F, OH, OW)."""
    _check_filters("conv2d", 4, input, weight, bias, weight.shape[0], weight.shape[1] * groups, groups)
    step, spread = positive("conv2d", "stride", stride), positive("conv2d", "dilation", dilation)
    x = input if input.ndim == 4 else input.unsqueeze(0)
    if isinstance(padding, str):
        x, margin = _pad_by_word("conv2d", padding, x, weight, step, spread)
    else:
        margin = pair(padding)
    if min(window_counts(x.shape, weight.shape[2:], step, margin, spread)) < 1:
        raise ShapeError(
            f"conv2d(): the filter is larger than the padded input: input {tuple(input.shape)}, "
            f"weight {tuple(weight.shape)}, padding {margin}, dilation {spread}"
        )
    y = _conv2d(x, weight, bias, stride=step, padding=margin, dilation=spread, groups=groups)
    return y if input.ndim == 4 else y.squeeze(0)


@composed(functional=True)
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Slide (F, C/groups, K) filters over (N, C, L) -> (N, F, OL): conv2d on an image one pixel high."""
    _check_filters("conv1d", 3, input, weight, bias, weight.shape[0], weight.shape[1] * groups, groups)
    step, spread = (1, pair(stride)[0]), (1, pair(dilation)[0])
    margin = padding if isinstance(padding, str) else (0, pair(padding)[0])
    return conv2d(input.unsqueeze(-2), weight.unsqueeze(-2), bias, step, margin, spread, groups).squeeze(-2)


@composed(functional=True)
def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Paint (C, F/groups, KH, KW) filters, scaled by (N, C, H, W), onto (N, F, OH, OW)."""
    name = "conv_transpose2d"
    _check_filters(name, 4, input, weight, bias, weight.shape[1] * groups, weight.shape[0], groups)
    step, spread = positive(name, "stride", stride), positive(name, "dilation", dilation)
    margin, extra = pair(padding), pair(output_padding)
    if any(e >= max(s, d) for e, s, d in zip(extra, step, spread, strict=True)):
        raise ValueError(f"{name}(): output_padding {extra} must be below stride {step} or dilation {spread}")
    out = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, k, s, p, d, e in zip(
            input.shape[-2:], weight.shape[2:], step, margin, spread, extra, strict=True
        )
    )
    if min(out) < 1:
        raise ShapeError(f"{name}(): padding {margin} leaves nothing of input {tuple(input.shape)}")
    x = input if input.ndim == 4 else input.unsqueeze(0)
    y = _conv_transpose2d(
        x, weight, bias, out=out, stride=step, padding=margin, dilation=spread, groups=groups
    )
    return y if input.ndim == 4 else y.squeeze(0)


def _pad_by_word(function, word, x, weight, stride, dilation):
    """Padding "valid" or "same" in numbers. An even filter needs one zero more on the right: x gets it."""
    if word == "valid":
        return x, (0, 0)
    if word != "same":
        raise ValueError(f"{function}(): padding must be numbers, 'same' or 'valid', not {word!r}")
    if stride != (1, 1):
        raise ValueError(f"{function}(): padding='same' keeps the size only with stride 1, got {stride}")
    high, wide = (d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True))
    if high % 2 or wide % 2:
        x = pad(x, (0, wide % 2, 0, high % 2))
    return x, (high // 2, wide // 2)


def _check_filters(function, ndim, input, weight, bias, out, channels, groups):
    """Raise an error that names every shape unless input, weight, bias and groups fit together."""
    if not hasattr(input, "edge"):
        raise not_a_tensor(function, input)
    shapes = f"input {tuple(input.shape)}, weight {tuple(weight.shape)}, groups {groups}"
    if input.ndim not in (ndim - 1, ndim) or weight.ndim != ndim:
        raise ShapeError(f"{function}(): needs an input of {ndim} axes (or {ndim - 1}, unbatched): {shapes}")
    given = input.shape[1 - ndim]
    if given != channels:
        raise ShapeError(f"{function}(): the input has {given} channels, the weight {channels}: {shapes}")
    if groups < 1 or out % groups or channels % groups:
        count = f"{channels} input and {out} output channels"
        raise ShapeError(f"{function}(): groups must divide {count}: {shapes}")
    if bias is not None and tuple(bias.shape) != (out,):
        raise ShapeError(f"{function}(): bias {tuple(bias.shape)} must have {out} numbers: {shapes}")
    if input.dtype != weight.dtype:
        given, wanted = input.dtype.name, weight.dtype.name
        raise TypeError(
            f"{function}(): the input is {given}, the weight {wanted}. Convert the input: "
            f"x.to(labkit.{wanted})."
        )
