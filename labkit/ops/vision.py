"""Padding and resizing. Each axis is resampled on its own: an output is a weighted sum of a few inputs."""

import math

from labkit.autograd import op
from labkit.errors import ShapeError, refuse
from labkit.op_table import composed

_AXES = {  # which modes resize how many axes
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "area": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
}


@op
def _pad_constant(k, x, *, pads, value):
    """Add (before, after) elements to each axis; negative numbers crop."""
    back = [(-before, -after) for before, after in pads]
    return k.pad_constant(x, pads, value), lambda g: k.pad_constant(g, back, 0)


@op
def _pad_axis(k, x, *, axis, before, after, mode):
    """Add elements to one axis: its own, mirrored, repeated or from the other end."""
    return _resample(k, x, axis, *k.pad_taps(x.shape[axis], before, after, mode))


@op
def _resize_axis(k, x, *, axis, out, scale, mode, align_corners):
    """Resize one axis to `out` elements."""
    return _resample(k, x, axis, *k.resize_taps(x.shape[axis], out, scale, mode, align_corners))


def _resample(k, x, axis, index, weight):
    """y[o] = sum over t of weight[o, t] x[index[o, t]] along the axis."""
    size = x.shape[axis]
    return k.resample(x, index, weight, axis), lambda g: k.resample_grad(g, index, weight, axis, size)


# ---- composed ----


@composed(functional=True)
def pad(input, pad, mode="constant", value=None):
    """Pad the last axes: pad = (left, right, top, bottom, ...), last axis first; negative numbers crop.

    Modes: "constant" (value, 0 if None), "reflect", "replicate", "circular".
    """
    pads = [(int(before), int(after)) for before, after in zip(pad[::2], pad[1::2], strict=True)]
    shape = tuple(input.shape)
    if len(pads) > input.ndim:
        raise ShapeError(f"pad(): {tuple(pad)} pads {len(pads)} axes, but input {shape} has {input.ndim}")
    if any(
        min(before, after, before + after) < -n for n, (before, after) in zip(shape[::-1], pads, strict=False)
    ):
        raise ShapeError(f"pad(): {tuple(pad)} crops more than there is: input {shape}")
    if mode == "constant":
        every = [(0, 0)] * (input.ndim - len(pads)) + pads[::-1]
        return _pad_constant(input, pads=every, value=0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(f"pad(): mode is 'constant', 'reflect', 'replicate' or 'circular', not {mode!r}")
    if value:
        raise ValueError(f"pad(): value is for mode='constant', got value={value} with mode={mode!r}")
    for i, (before, after) in enumerate(pads):
        axis, n = input.ndim - 1 - i, shape[-1 - i]
        limit = {"reflect": n - 1, "circular": n}.get(mode, math.inf)
        if max(before, after) > limit:
            raise ShapeError(
                f"pad(): mode={mode!r} adds at most {limit} to an axis of {n}: input {shape}, {tuple(pad)}"
            )
        if before or after:
            input = _pad_axis(input, axis=axis, before=before, after=after, mode=mode)
    return input


@composed(functional=True)
def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resize the axes after (N, C) to `size`, or by `scale_factor`.

    Modes: nearest, nearest-exact, area, linear (one axis), bilinear, bicubic (two), trilinear (three).
    """
    refuse("interpolate", antialias=antialias)
    axes = input.ndim - 2
    if mode not in _AXES:
        raise ValueError(f"interpolate(): mode must be one of {', '.join(_AXES)}, not {mode!r}")
    if axes not in _AXES[mode]:
        raise ShapeError(
            f"interpolate(): mode={mode!r} resizes {_AXES[mode]} axes after (N, C), got {tuple(input.shape)}"
        )
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError(f"interpolate(): align_corners has no meaning for mode={mode!r}")
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate(): pass either size or scale_factor")
    factors = _per_axis(scale_factor, axes) if scale_factor is not None else None
    if factors is not None:
        out = [math.floor(n * f) for n, f in zip(input.shape[2:], factors, strict=True)]
    else:
        out = [int(n) for n in _per_axis(size, axes)]
    if min(out) < 1:
        raise ShapeError(
            f"interpolate(): every size must be at least 1, got {out} for input {tuple(input.shape)}"
        )
    for i, (n, o) in enumerate(zip(input.shape[2:], out, strict=True)):
        scale = n / o if factors is None or recompute_scale_factor else 1 / factors[i]
        if align_corners:
            scale = (n - 1) / (o - 1) if o > 1 else 0.0
        input = _resize_axis(
            input, axis=2 + i, out=o, scale=scale, mode=mode, align_corners=bool(align_corners)
        )
    return input


@composed(functional=True)
def adaptive_avg_pool2d(input, output_size):
    """The mean of each of OH x OW regions that cover (..., C, H, W); None keeps a size."""
    if input.ndim not in (3, 4):
        raise ShapeError(f"adaptive_avg_pool2d(): needs (N, C, H, W) or (C, H, W), got {tuple(input.shape)}")
    for axis, out in zip((input.ndim - 2, input.ndim - 1), _per_axis(output_size, 2), strict=True):
        if out is not None:
            input = _resize_axis(input, axis=axis, out=int(out), scale=1.0, mode="area", align_corners=False)
    return input


def _per_axis(value, axes):
    """One value per axis: a number is repeated."""
    values = [value] * axes if value is None or isinstance(value, (int, float)) else list(value)
    if len(values) != axes:
        raise ValueError(f"expected one size or {axes}, got {values}")
    return values
