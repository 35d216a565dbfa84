"""Week 5: convolutional networks. Convolution, a network that trains, torch's own API, and the clinic."""

import itertools
import math

import numpy as np

from labkit.exercises.declare import (
    Case,
    Fix,
    Implement,
    Item,
    Measure,
    Mistake,
    Predict,
    Rules,
    WriteTest,
)
from labkit.lazy import F, torch

_CONVOLUTIONS = (
    *("conv1d", "conv2d", "conv3d", "convolution", "Conv1d", "Conv2d", "Conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "ConvTranspose2d", "conv2d_input", "conv2d_weight"),
    *("correlate2d", "convolve2d"),
)
_WINDOWS = ("unfold", "fold", "Unfold", "Fold", "sliding_window_view")
_DERIVATIVES = ("grad", "vjp", "vjpfunc", "backward", "requires_grad", "jacobian", "jacrev")


# 01 convolution


def _correlate(image, kernel):
    return F.conv2d(image[None, None], kernel[None, None])[0, 0]


correlate = Implement(
    id="w05.correlate",
    title="Slide a kernel",
    minutes=8,
    level=1,
    dtype="float64",
    cases=[
        Case("5 by 7, kernel 3 by 2", lambda draw: {"image": draw.normal(5, 7), "kernel": draw.normal(3, 2)}),
        Case("4 by 6, kernel 2 by 3", lambda draw: {"image": draw.normal(4, 6), "kernel": draw.normal(2, 3)}),
        Case("transposed", lambda draw: {"image": draw.transposed(6, 5), "kernel": draw.transposed(2, 4)}),
        Case("a kernel of one row", lambda draw: {"image": draw.normal(3, 8), "kernel": draw.normal(1, 3)}),
        Case(
            "one window", lambda draw: {"image": draw.normal(2, 3), "kernel": draw.normal(2, 3)}, extreme=True
        ),
    ],
    oracle=_correlate,
    grads=("image", "kernel"),
    rules=Rules(forbids=_CONVOLUTIONS),
    mistakes=[
        Mistake(
            "flipped kernel",
            "The kernel is turned by 180 degrees: that is a convolution in the strict sense. torch does not turn it.",
            lambda image, kernel: _correlate(image, kernel.flip(0, 1)),
        ),
        Mistake(
            "mirrored kernel",
            "The kernel is mirrored left to right: kernel[a, b] goes with image[i + a, j + b].",
            lambda image, kernel: _correlate(image, kernel.flip(1)),
        ),
        Mistake(
            "one short",
            "The last row and the last column of windows are missing: H rows hold H - KH + 1 windows.",
            lambda image, kernel: _correlate(image, kernel)[:-1, :-1],
        ),
        Mistake(
            "mean for sum",
            "The products are averaged; a convolution adds them up.",
            lambda image, kernel: _correlate(image, kernel) / kernel.numel(),
        ),
        Mistake(
            "no overlap",
            "The windows do not overlap: the next one starts one pixel later, not one kernel later.",
            lambda image, kernel: _correlate(image, kernel)[:: kernel.shape[0], :: kernel.shape[1]],
        ),
        Mistake(
            "same size",
            "The output is as large as the image, padded with zeros. Only windows that fit are asked for here.",
            lambda image, kernel: F.conv2d(image[None, None], kernel[None, None], padding="same")[0, 0],
        ),
        Mistake(
            "zeros at the end",
            "The result is as large as the image, with zeros where no window fits. It has H - KH + 1 rows.",
            lambda image, kernel: F.pad(
                _correlate(image, kernel), (0, kernel.shape[1] - 1, 0, kernel.shape[0] - 1)
            ),
        ),
    ],
    hints=(
        "Write down out[0, 0] first: which part of the image does it read?",
        "`image[i : i + kh, j : j + kw]` is the window of out[i, j]. Multiply it by the kernel, and sum.",
        "out = image.new_zeros(h - kh + 1, w - kw + 1); out[i, j] = (image[i : i + kh, j : j + kw] * kernel).sum()",
    ),
    passed="SciPy has both words: `correlate2d` is this, `convolve2d` turns the kernel first.",
)


def _side(n, kernel, stride, padding, dilation):
    def truth():
        image, weight = torch.zeros(1, 1, n, n), torch.zeros(1, 1, kernel, kernel)
        return F.conv2d(image, weight, None, stride, padding, dilation).shape[-1]

    return truth


sizes = Predict(
    id="w05.sizes",
    title="How large is the output?",
    minutes=8,
    level=1,
    needs=("w05.correlate",),
    items={
        "a": Item("n = 28, k = 3, s = 1, p = 0, d = 1", _side(28, 3, 1, 0, 1)),
        "b": Item("n = 28, k = 3, s = 1, p = 1, d = 1", _side(28, 3, 1, 1, 1)),
        "c": Item("n = 28, k = 5, s = 2, p = 2, d = 1", _side(28, 5, 2, 2, 1)),
        "d": Item("n = 224, k = 7, s = 2, p = 3, d = 1: the first layer of a ResNet", _side(224, 7, 2, 3, 1)),
        "e": Item("n = 9, k = 3, s = 1, p = 0, d = 2", _side(9, 3, 1, 0, 2)),
        "f": Item(
            "n = 7, k = 2, s = 2, p = 0, d = 1: the usual pooling, on an odd side", _side(7, 2, 2, 0, 1)
        ),
        "g": Item("n = 12, k = 3, s = 1, p = 4, d = 4", _side(12, 3, 1, 4, 4)),
        "h": Item("n = 5, k = 3, s = 1, p = 2, d = 1", _side(5, 3, 1, 2, 1)),
    },
    mistakes=[
        Mistake("kept", "a: without padding the border is lost, one pixel on each side.", {"a": 28}),
        Mistake("one too few", "a: 28 - 3 is 25, and one more: the window at the start counts.", {"a": 25}),
        Mistake("one side only", "b: the padding is added on both sides.", {"b": 27}),
        Mistake(
            "start not counted", "c: 27 / 2 is 13 steps; the window before the first step counts.", {"c": 13}
        ),
        Mistake("start not counted in d", "d: 111 steps of 2, and the first window.", {"d": 111}),
        Mistake("dilation ignored", "e: at dilation 2 a kernel of 3 covers 5 pixels.", {"e": 7}),
        Mistake("covers six", "e: two gaps of one pixel: the kernel covers 5 pixels, not 6.", {"e": 4}),
        Mistake(
            "rounded up",
            "f: the last pixel has no partner; the window that would need one is left out.",
            {"f": 4},
        ),
        Mistake("dilation ignored in g", "g: at dilation 4 a kernel of 3 covers 9 pixels.", {"g": 18}),
        Mistake("same", "h: padding 1 would keep the size; 2 makes it larger.", {"h": 5}),
    ],
    hints=(
        "First the pixels that the kernel covers: d (k - 1) + 1. Then how many steps fit into what is left.",
        "out = (n + 2 p - d (k - 1) - 1) // s + 1, whole-number division.",
        "c: (28 + 4 - 4 - 1) // 2 + 1 = 14. e: (9 - 4 - 1) + 1 = 5. f: (7 - 1 - 1) // 2 + 1 = 3.",
    ),
    passed="Padding d (k - 1) / 2 keeps the size at stride 1, which is why kernels have odd sides.",
)


def _windows(x, kernel, stride, dilation):
    for axis, k in zip((2, 3), kernel, strict=True):
        x = x.unfold(axis, dilation * (k - 1) + 1, stride)
    return x[..., ::dilation, ::dilation]


def _view(x, kernel, stride, dilation, steps):
    """A view of the right shape, with any strides."""
    return torch.as_strided(x, _windows(x, kernel, stride, dilation).shape, steps)


def _contiguous_windows(x, kernel, stride, dilation):
    _, c, h, w = x.shape
    return _view(x, kernel, stride, dilation, (c * h * w, h * w, stride * w, stride, dilation * w, dilation))


def _strided(x, kernel, stride, dilation, count=None, offset=None):
    """The windows by their strides; `count(n, k, stride, dilation)` says how many there are along an axis."""
    count = count or (lambda n, k, stride, dilation: (n - dilation * (k - 1) - 1) // stride + 1)
    sides = [count(n, k, stride, dilation) for n, k in zip(x.shape[2:], kernel, strict=True)]
    steps = [stride * s for s in x.stride()[2:]] + [dilation * s for s in x.stride()[2:]]
    return torch.as_strided(x, (*x.shape[:2], *sides, *kernel), (*x.stride()[:2], *steps), offset)


def _windows_case(make, kernel, stride, dilation):
    return lambda draw: {"x": make(draw), "kernel": kernel, "stride": stride, "dilation": dilation}


windows = Implement(
    id="w05.windows",
    title="All windows at once",
    minutes=10,
    level=2,
    needs=("w01.windows", "w05.sizes"),
    cases=[
        Case("kernel 3 by 2", _windows_case(lambda draw: draw.normal(2, 3, 7, 5), (3, 2), 1, 1)),
        Case("stride 2", _windows_case(lambda draw: draw.normal(2, 3, 6, 9), (2, 3), 2, 1)),
        Case("dilation 2", _windows_case(lambda draw: draw.normal(2, 3, 8, 7), (3, 2), 1, 2)),
        Case("stride 3, dilation 2", _windows_case(lambda draw: draw.normal(1, 2, 9, 10), (2, 3), 3, 2)),
        Case("transposed", _windows_case(lambda draw: draw.transposed(2, 3, 5, 7), (2, 3), 2, 1)),
        Case("one window", _windows_case(lambda draw: draw.normal(1, 1, 3, 4), (3, 4), 1, 1), extreme=True),
    ],
    oracle=_windows,
    grads=("x",),
    memory="view",
    rules=Rules(forbids=(*_CONVOLUTIONS, *_WINDOWS)),
    mistakes=[
        Mistake(
            "stride ignored",
            "The number of windows is right, but each starts one pixel after the last: its step is stride * x.stride(2).",
            lambda x, kernel, stride, dilation: _view(
                x,
                kernel,
                stride,
                dilation,
                (*x.stride(), dilation * x.stride(2), dilation * x.stride(3)),
            ),
        ),
        Mistake(
            "dilation ignored",
            "Inside a window the pixels lie next to each other; they should lie `dilation` apart.",
            lambda x, kernel, stride, dilation: _view(
                x,
                kernel,
                stride,
                dilation,
                (
                    x.stride(0),
                    x.stride(1),
                    stride * x.stride(2),
                    stride * x.stride(3),
                    x.stride(2),
                    x.stride(3),
                ),
            ),
        ),
        Mistake(
            "stride and dilation swapped",
            "Stride and dilation have changed places: the stride goes from window to window, the dilation inside one.",
            lambda x, kernel, stride, dilation: _view(
                x,
                kernel,
                stride,
                dilation,
                (
                    *x.stride()[:2],
                    *(dilation * x.stride(axis) for axis in (2, 3)),
                    *(stride * x.stride(axis) for axis in (2, 3)),
                ),
            ),
        ),
        Mistake(
            "contiguous assumed",
            "The strides are worked out from the shape, which holds for contiguous images only; ask x for them.",
            _contiguous_windows,
        ),
        Mistake(
            "offset forgotten",
            "The view starts at the beginning of the storage; x may start later. Leave the offset out, or pass x.storage_offset().",
            lambda x, kernel, stride, dilation: _strided(x, kernel, stride, dilation, offset=0),
        ),
        Mistake(
            "too many windows for the dilation",
            "There are more windows than fit: `output_size` has to be told the dilation as well.",
            lambda x, kernel, stride, dilation: _strided(
                x, kernel, stride, dilation, lambda n, k, stride, dilation: (n - k) // stride + 1
            ),
        ),
        Mistake(
            "dilation as padding",
            "The fourth argument of `output_size` is the padding, and it got the dilation. Write `dilation=dilation`.",
            lambda x, kernel, stride, dilation: _strided(
                x,
                kernel,
                stride,
                dilation,
                lambda n, k, stride, dilation: (n + 2 * dilation - k) // stride + 1,
            ),
        ),
        Mistake(
            "kernel first",
            "The places inside a window come before the windows: the order asked for is (N, C, OH, OW, KH, KW).",
            lambda x, kernel, stride, dilation: _windows(x, kernel, stride, dilation).permute(
                0, 1, 4, 5, 2, 3
            ),
        ),
        Mistake(
            "copied",
            "The values are right, but they were copied: six strides describe the same storage.",
            lambda x, kernel, stride, dilation: _windows(x, kernel, stride, dilation).clone(),
        ),
    ],
    hints=(
        "Six axes, six strides. For each, how far in storage is one step along it?",
        "Strides: image, channel, stride * down, stride * right, dilation * down, dilation * right, with down = x.stride(2).",
        "torch.as_strided(x, (n, c, oh, ow, kh, kw), (sn, sc, stride * sh, stride * sw, dilation * sh, dilation * sw))",
    ),
    passed="A 3 by 3 kernel makes this view nine times as large as the image, and it takes not one byte.",
)


def _conv2d(x, weight, bias, stride, padding, dilation):
    return F.conv2d(x, weight, bias, stride, padding, dilation)


def _conv2d_padded(pad):
    """conv2d whose padding is done by `pad(x, padding)`."""
    return lambda x, weight, bias, stride, padding, dilation: _conv2d(
        pad(x, padding), weight, bias, stride, 0, dilation
    )


def _by_windows(frame=lambda p: (p, p, p, p), exchanged=False, out="nohw", column=True):
    """conv2d as the page does it, with one thing changed."""

    def convolved(x, weight, bias, stride, padding, dilation):
        steps = (dilation, stride) if exchanged else (stride, dilation)
        views = _strided(F.pad(x, frame(padding)), weight.shape[2:], *steps)
        value = torch.einsum(f"nchwij,ocij->{out}", views, weight)
        return value if bias is None else value + (bias[:, None, None] if column else bias)

    return convolved


def _no_bias(x, weight, bias, stride, padding, dilation):
    return _conv2d(x, weight, None, stride, padding, dilation)


def _conv_case(shape, filters, stride, padding, dilation, make="normal"):
    return lambda draw: {
        "x": getattr(draw, make)(*shape),
        "weight": draw.normal(filters[0], shape[1], *filters[1:]),
        "bias": draw.normal(filters[0]),
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
    }


conv2d = Implement(
    id="w05.conv2d",
    title="conv2d, without a loop",
    minutes=10,
    level=2,
    needs=("w05.windows",),
    dtype="float64",
    cases=[
        Case("three channels, five filters", _conv_case((2, 3, 7, 6), (5, 4, 2), 1, 0, 1)),
        Case("padding 1", _conv_case((2, 3, 5, 4), (4, 2, 5), 1, 1, 1)),
        Case("stride 2, padding 2", _conv_case((3, 2, 8, 7), (1, 3, 4), 2, 2, 1)),
        Case("dilation 2, padding 1", _conv_case((1, 2, 9, 8), (4, 3, 5), 1, 1, 2)),
        Case("not contiguous", _conv_case((2, 4, 6, 5), (1, 2, 3), 1, 1, 1, "transposed")),
        Case(
            "no bias",
            lambda draw: {
                "x": draw.normal(1, 2, 4, 5),
                "weight": draw.normal(3, 2, 1, 1),
                "bias": None,
                "stride": 2,
                "padding": 0,
                "dilation": 1,
            },
            extreme=True,
        ),
    ],
    oracle=_conv2d,
    grads=("x", "weight", "bias"),
    rules=Rules(forbids=_CONVOLUTIONS, loops=False),
    mistakes=[
        Mistake(
            "flipped kernel",
            "The kernels are turned by 180 degrees. torch does not turn them.",
            lambda x, weight, bias, *rest: _conv2d(x, weight.flip(2, 3), bias, *rest),
        ),
        Mistake(
            "bias missing",
            "The bias is missing: one number per filter, added to its whole channel.",
            _no_bias,
        ),
        Mistake(
            "padded on one side",
            "All the padding is at the bottom right: `F.pad` wants left, right, top and bottom, `padding` each.",
            _conv2d_padded(lambda x, p: F.pad(x, (0, 2 * p, 0, 2 * p))),
        ),
        Mistake(
            "not padded",
            "The image is not padded: `F.pad` first, then the windows.",
            _by_windows(frame=lambda p: (0, 0)),
        ),
        Mistake(
            "padded left and right only",
            "Only left and right are padded: `F.pad` takes (left, right, top, bottom).",
            _by_windows(frame=lambda p: (p, p)),
        ),
        Mistake(
            "dilation not passed on",
            "The dilation is ignored: hand it to `windows`.",
            lambda x, weight, bias, stride, padding, dilation: _conv2d(x, weight, bias, stride, padding, 1),
        ),
        Mistake(
            "stride and dilation exchanged",
            "Stride and dilation have changed places in the call of `windows`: the stride comes first.",
            _by_windows(exchanged=True),
        ),
        Mistake(
            "filters last",
            "The filters are the last axis of the result; they are axis 1: (N, O, OH, OW).",
            _by_windows(out="nhwo", column=False),
        ),
        Mistake(
            "bias along the width",
            "The bias lines up with the last axis, the width. It belongs to axis 1: `bias[:, None, None]`.",
            _by_windows(column=False),
        ),
        Mistake(
            "border repeated",
            "The padding repeats the border; it should be zeros.",
            _conv2d_padded(lambda x, p: F.pad(x, (p, p, p, p), mode="replicate")),
        ),
        Mistake(
            "bias before the sum",
            "The bias is added to every product, before they are summed: C * KH * KW times too often.",
            lambda x, weight, bias, *rest: _conv2d(
                x, weight, None if bias is None else bias * weight[0].numel(), *rest
            ),
        ),
        Mistake(
            "channels averaged",
            "The channels are averaged; a filter adds up over them.",
            lambda x, weight, bias, *rest: _conv2d(x, weight / weight.shape[1], bias, *rest),
        ),
        Mistake(
            "first channel only",
            "Only the first channel is looked at: a filter has a kernel for each, and adds them up.",
            lambda x, weight, bias, *rest: _conv2d(x[:, :1], weight[:, :1], bias, *rest),
        ),
    ],
    hints=(
        "Windows have axes n c h w i j, the weight o c i j. Which letters does the output have?",
        'The einsum is "nchwij,ocij->nohw". The bias needs two more axes: bias[:, None, None].',
        'torch.einsum("nchwij,ocij->nohw", windows(F.pad(x, (p, p, p, p)), weight.shape[2:], stride, dilation), weight)',
    ),
    passed="Every convolution of this course could run on these four lines. torch's is faster, not different.",
)


def _fold(columns, size, kernel, stride, dilation):
    return F.fold(columns, size, kernel, dilation=dilation, stride=stride)


def _fold_case(make, size, kernel, stride, dilation):
    return lambda draw: {
        "columns": make(draw), "size": size, "kernel": kernel, "stride": stride, "dilation": dilation,
    }  # fmt: skip


def _scatter(columns, size, kernel, stride, dilation, put, gap=None, step=None):
    """col2im with another way to put a part in its place, another gap inside the kernel or between windows."""
    (h, w), (kh, kw) = size, kernel
    oh, ow = ((n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(size, kernel, strict=True))
    gap, step = gap or dilation, step or stride
    parts = columns.reshape(len(columns), -1, kh, kw, oh, ow)
    x = columns.new_zeros(*parts.shape[:2], h, w)
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * gap, i * gap + oh * step, step)
            x = put(
                x,
                (slice(None), slice(None), rows, slice(j * gap, j * gap + ow * step, step)),
                parts[:, :, i, j],
            )
    return x


def _put_add(x, place, part):
    x[place] += part
    return x


def _put_over(x, place, part):
    x[place] = part
    return x


def _put_to_the_end(x, place, part):
    return _put_add(x, tuple(slice(axis.start, None, axis.step) for axis in place), part)


def _overwritten(columns, size, kernel, stride, dilation):
    return _scatter(columns, size, kernel, stride, dilation, _put_over)


def _averaged(columns, size, kernel, stride, dilation):
    counts = _fold(torch.ones_like(columns), size, kernel, stride, dilation)
    return _fold(columns, size, kernel, stride, dilation) / counts.clamp(min=1)


col2im = Implement(
    id="w05.col2im",
    title="And back: col2im",
    minutes=12,
    level=3,
    needs=("w05.windows",),
    dtype="float64",
    cases=[
        Case("kernel 2 by 3", _fold_case(lambda draw: draw.normal(2, 18, 12), (4, 6), (2, 3), 1, 1)),
        Case("stride 2", _fold_case(lambda draw: draw.normal(3, 12, 8), (5, 8), (3, 2), 2, 1)),
        Case("dilation 2", _fold_case(lambda draw: draw.normal(1, 18, 12), (6, 7), (2, 3), 1, 2)),
        Case("stride 3, dilation 2", _fold_case(lambda draw: draw.normal(2, 8, 6), (9, 6), (2, 2), 3, 2)),
        Case("transposed", _fold_case(lambda draw: draw.transposed(3, 4, 12), (4, 5), (2, 2), 1, 1)),
        Case("one window", _fold_case(lambda draw: draw.normal(1, 6, 1), (2, 3), (2, 3), 1, 1), extreme=True),
    ],
    oracle=_fold,
    grads=("columns",),
    rules=Rules(forbids=(*_CONVOLUTIONS, *_WINDOWS)),
    mistakes=[
        Mistake(
            "overwritten",
            "A pixel that lies in several windows keeps only its last share: add (`+=`), do not write over it (`=`).",
            _overwritten,
        ),
        Mistake(
            "averaged",
            "The shares of a pixel are averaged. On the way back they add up.",
            _averaged,
        ),
        Mistake(
            "stride ignored",
            "Neighboring windows are put one pixel apart; they lie `stride` pixels apart: give the slice a step.",
            lambda columns, size, kernel, stride, dilation: _scatter(
                columns, size, kernel, stride, dilation, _put_add, step=1
            ),
        ),
        Mistake(
            "dilation ignored",
            "The elements of the kernel are put next to each other; place (i, j) begins at (i * dilation, j * dilation).",
            lambda columns, size, kernel, stride, dilation: _scatter(
                columns, size, kernel, stride, dilation, _put_add, gap=1
            ),
        ),
        Mistake(
            "slice to the end",
            "The slice runs to the end of the image, past the last window. It ends after OH steps: `top + oh * stride`.",
            lambda columns, size, kernel, stride, dilation: _scatter(
                columns, size, kernel, stride, dilation, _put_to_the_end
            ),
        ),
        Mistake(
            "stride and dilation exchanged",
            "Stride and dilation have changed places: place i begins at `i * dilation`, and windows lie `stride` apart.",
            lambda columns, size, kernel, stride, dilation: _scatter(
                columns, size, kernel, stride, dilation, _put_add, gap=stride, step=dilation
            ),
        ),
        Mistake(
            "one place short",
            "The loops stop one early: the last row and the last column of the kernel are never added.",
            lambda columns, size, kernel, stride, dilation: _fold(
                _without_last(columns, kernel), size, kernel, stride, dilation
            ),
        ),
    ],
    hints=(
        "Take the windows-of-2 example: entry i of every window, all at once, is a slice of the pixels that begins at i.",
        "Place (i, j): rows from i * dilation in steps of stride, OH of them; columns alike. Add parts[:, :, i, j] there.",
        "x[:, :, top : top + oh * stride : stride, left : left + ow * stride : stride] += parts[:, :, i, j]",
    ),
    passed="Loop over the few places of the kernel, never over the many of the image: that is how NumPy code gets fast.",
)


def _without_last(columns, kernel):
    parts = columns.unflatten(1, (-1, *kernel)).clone()
    parts[:, :, -1] = 0
    parts[:, :, :, -1] = 0
    return parts.flatten(1, 3)


def _conv_and_gradients(x, weight, bias, stride, padding, change):
    """(value, backward) with torch's own gradients, `change`d on the way out."""
    leaves = [t.detach().clone().requires_grad_() for t in (x, weight, bias)]
    value = F.conv2d(*leaves, stride, padding)

    def backward(g):
        return change(torch.autograd.grad(value, leaves, g), x, weight, g)

    return value.detach(), backward


def _backward_mistake(change):
    return lambda x, weight, bias, stride, padding: _conv_and_gradients(
        x, weight, bias, stride, padding, change
    )


def _overwriting_backward(x, weight, bias, stride, padding):
    value, backward = _conv_and_gradients(x, weight, bias, stride, padding, lambda grads, *_: grads)
    size = [n + 2 * padding for n in x.shape[2:]]

    def wrong(g):
        columns = weight.flatten(1).T @ g.flatten(2)
        padded = _overwritten(columns, size, tuple(weight.shape[2:]), stride, 1)
        cut = padded[:, :, padding : padding + x.shape[2], padding : padding + x.shape[3]]
        return cut, *backward(g)[1:]

    return value, wrong


conv_backward = Implement(
    id="w05.conv_backward",
    title="The way back through a convolution",
    minutes=12,
    level=3,
    needs=("w05.col2im", "w05.conv2d"),
    dtype="float64",
    cases=[
        Case("stride 1", lambda draw: _backward_inputs(draw, (2, 3, 6, 5), (4, 2, 5), 1, 0)),
        Case("stride 2, padding 1", lambda draw: _backward_inputs(draw, (3, 2, 7, 5), (4, 3, 1), 2, 1)),
        Case("padding 2", lambda draw: _backward_inputs(draw, (2, 1, 4, 3), (5, 3, 2), 1, 2)),
        Case(
            "not contiguous",
            lambda draw: _backward_inputs(draw, (2, 3, 5, 7), (1, 2, 4), 2, 1, "transposed"),
        ),
        Case(
            "one window",
            lambda draw: _backward_inputs(draw, (1, 2, 3, 4), (5, 3, 4), 1, 0),
            extreme=True,
        ),
    ],
    oracle=lambda x, weight, bias, stride, padding: F.conv2d(x, weight, bias, stride, padding),
    grads=("x", "weight", "bias"),
    vjp=True,
    delegate=lambda x, weight, bias, stride, padding: _conv_and_gradients(
        x, weight, bias, stride, padding, lambda grads, *_: grads
    ),
    rules=Rules(forbids=(*_CONVOLUTIONS, *_WINDOWS, *_DERIVATIVES)),
    mistakes=[
        Mistake(
            "batch averaged",
            "The gradient of the weight is averaged over the images. Every image used the same weight: sum.",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1] / len(x), grads[2])),
        ),
        Mistake(
            "bias averaged",
            "The gradient of the bias is a mean; the bias was added at every place, so all of them add up.",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1], g.mean((0, 2, 3)))),
        ),
        Mistake(
            "bias per place",
            "The gradient of the bias is summed over the images only: it has one number per filter, (O,).",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1], g.sum(0))),
        ),
        Mistake(
            "both averaged",
            "The gradients of weight and bias are means. Every image and every place used the same ones: sum.",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1] / len(x), g.mean((0, 2, 3)))),
        ),
        Mistake(
            "bias per image",
            "The gradient of the bias is summed over the places only: sum over the images as well, (O,).",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1], g.sum((2, 3)))),
        ),
        Mistake(
            "weight as a matrix",
            "The gradient of the weight is still a matrix, (O, K). It has the shape of the weight.",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1].flatten(1), grads[2])),
        ),
        Mistake(
            "weight first",
            "The gradients come in another order: of x, then of the weight, then of the bias.",
            _backward_mistake(lambda grads, x, weight, g: (grads[1], grads[0], grads[2])),
        ),
        Mistake(
            "padding not cut off",
            "The gradient of x has the size of the padded image: cut out the part that was the image.",
            _backward_mistake(lambda *arguments: _not_cut(*arguments)),
        ),
        Mistake(
            "cut to minus padding",
            "`padding:-padding` is an empty slice when padding is 0. End at `padding + x.shape[2]`.",
            _backward_mistake(lambda *arguments: _cut_to_minus(*arguments)),
        ),
        Mistake(
            "padding cut from one side",
            "The image is cut out of its top left corner; it begins `padding` pixels further down and right.",
            _backward_mistake(lambda *arguments: _cut_wrong(*arguments)),
        ),
        Mistake(
            "overlaps overwritten",
            "Where windows overlap, the gradient of x keeps one share; `col2im` has to add them.",
            _overwriting_backward,
        ),
        Mistake(
            "first image only",
            "The gradient of the weight comes from the first image of the batch only.",
            _backward_mistake(
                lambda grads, x, weight, g: (grads[0], _weight_gradient_of_one(x, weight, g), grads[2])
            ),
        ),
    ],
    hints=(
        "Bring g to (N, O, L) first. Then it is the backward pass of a linear layer, three products.",
        'Weight: einsum "nol,nkl->ok" of g and columns. Columns: rows.T @ g, then col2im to the padded size, then cut.',
        "col2im(rows.T @ g, padded.shape[2:], weight.shape[2:], stride)[:, :, padding : padding + h, padding : padding + w]",
    ),
    passed="The gradient for the input is itself a convolution, with the kernel turned: there the flip comes back.",
)


def _backward_inputs(draw, shape, filters, stride, padding, make="normal"):
    return {
        "x": getattr(draw, make)(*shape),
        "weight": draw.normal(filters[0], shape[1], *filters[1:]),
        "bias": draw.normal(filters[0]),
        "stride": stride,
        "padding": padding,
    }


def _geometry(x, weight, g):
    """(stride, padding) of a convolution, found again from its shapes."""
    for stride in (1, 2):
        for padding in (0, 1, 2):
            sizes = [
                (n + 2 * padding - k) // stride + 1
                for n, k in zip(x.shape[2:], weight.shape[2:], strict=True)
            ]
            if tuple(sizes) == tuple(g.shape[2:]):
                return stride, padding
    raise ValueError("no stride and padding give these shapes")


def _padded_gradient(x, weight, g):
    stride, padding = _geometry(x, weight, g)
    size = [n + 2 * padding for n in x.shape[2:]]
    return F.fold(weight.flatten(1).T @ g.flatten(2), size, weight.shape[2:], stride=stride), padding


def _cut_wrong(grads, x, weight, g):
    return _padded_gradient(x, weight, g)[0][:, :, : x.shape[2], : x.shape[3]], *grads[1:]


def _not_cut(grads, x, weight, g):
    return _padded_gradient(x, weight, g)[0], *grads[1:]


def _cut_to_minus(grads, x, weight, g):
    padded, padding = _padded_gradient(x, weight, g)
    return padded[:, :, padding:-padding, padding:-padding], *grads[1:]


def _weight_gradient_of_one(x, weight, g):
    stride, padding = _geometry(x, weight, g)
    return torch.nn.grad.conv2d_weight(x[:1], weight.shape, g[:1], stride, padding)


def _pool(change):
    """max pooling of torch's, and a backward of our own: change(cells, winner, g) -> gradients of the cells."""

    def pooled(x, size, stride):
        cells = _windows(x, (size, size), stride, 1).flatten(4)
        value, winner = cells.max(-1)

        def backward(g):
            columns = change(cells, winner, g).permute(0, 1, 4, 2, 3)
            return F.fold(columns.flatten(1, 2).flatten(2), x.shape[2:], size, stride=stride)

        return value, backward

    return pooled


def _won(cells, winner):
    return torch.arange(cells.shape[-1]) == winner[..., None]


def _pool_overwritten(x, size, stride):
    cells = _windows(x, (size, size), stride, 1).flatten(4)
    value, winner = cells.max(-1)

    def backward(g):
        columns = (g[..., None] * _won(cells, winner)).permute(0, 1, 4, 2, 3).flatten(1, 2).flatten(2)
        return _overwritten(columns, tuple(x.shape[2:]), (size, size), stride, 1)

    return value, backward


def _pool_not_permuted(x, size, stride):
    cells = _windows(x, (size, size), stride, 1).flatten(4)
    value, winner = cells.max(-1)

    def backward(g):
        columns = (g[..., None] * _won(cells, winner)).reshape(len(x), -1, g.shape[2] * g.shape[3])
        return F.fold(columns, x.shape[2:], size, stride=stride)

    return value, backward


def _pool_average(x, size, stride):
    _, backward = _pool(lambda cells, winner, g: (g[..., None] / cells.shape[-1]).expand_as(cells))(
        x, size, stride
    )
    return _windows(x, (size, size), stride, 1).mean((-1, -2)), backward


def _pool_min(x, size, stride):
    value, backward = _pool(lambda cells, winner, g: g[..., None] * _won(cells, winner))(-x, size, stride)
    return -value, backward


def _torch_pool(x, size, stride):
    leaf = x.detach().clone().requires_grad_()
    value = F.max_pool2d(leaf, size, stride)
    return value.detach(), lambda g: torch.autograd.grad(value, leaf, g)[0]


def _small_integers(*shape):
    """Few different values, so that windows have ties."""
    return lambda draw: draw.integers(0, 3, *shape).astype(draw.dtype)


def _pool_case(make, size, stride):
    return lambda draw: {"x": make(draw), "size": size, "stride": stride}


max_pool = Implement(
    id="w05.max_pool",
    title="Max pooling",
    minutes=12,
    level=3,
    needs=("w05.col2im",),
    dtype="float64",
    cases=[
        Case("2 by 2", _pool_case(lambda draw: draw.normal(2, 3, 6, 8), 2, 2)),
        Case("an odd side", _pool_case(lambda draw: draw.normal(1, 2, 7, 5), 2, 2)),
        Case("ties", _pool_case(_small_integers(2, 3, 4, 6), 2, 2)),
        Case("windows that overlap", _pool_case(lambda draw: draw.normal(2, 3, 5, 7), 3, 2)),
        Case("ties and overlap", _pool_case(_small_integers(1, 2, 6, 7), 3, 1)),
        Case("all negative, transposed", _pool_case(lambda draw: -np.exp(draw.transposed(2, 3, 4, 5)), 2, 1)),
        Case(
            "minus infinity",
            lambda draw: {"x": np.full((1, 1, 2, 3), -np.inf), "size": 2, "stride": 1},
            extreme=True,
        ),
    ],
    oracle=lambda x, size, stride: F.max_pool2d(x, size, stride),
    grads=("x",),
    vjp=True,
    delegate=_torch_pool,
    rules=Rules(
        forbids=(
            *(
                "max_pool2d",
                "max_pool1d",
                "MaxPool2d",
                "adaptive_max_pool2d",
                "max_unpool2d",
                "boolean_dispatch",
            ),
            *("max_pool2d_with_indices", "fractional_max_pool2d", "AdaptiveMaxPool2d"),
            *("unfold", "fold", *_DERIVATIVES),
        )
    ),
    mistakes=[
        Mistake(
            "every tie wins",
            "Where several share the largest value, each gets the whole gradient. Only the first one may.",
            _pool(lambda cells, winner, g: g[..., None] * (cells == cells.amax(-1, keepdim=True))),
        ),
        Mistake(
            "ties share",
            "Where several share the largest value, the gradient is divided among them, as `amax` does it. The first takes all.",
            _pool(lambda cells, winner, g: _tie_shares(cells, g)),
        ),
        Mistake(
            "last of equals",
            "Where several share the largest value, the last one gets the gradient. torch gives it to the first.",
            _pool(
                lambda cells, winner, g: (
                    g[..., None] * _won(cells, cells.shape[-1] - 1 - cells.flip(-1).max(-1)[1])
                )
            ),
        ),
        Mistake(
            "overlaps overwritten",
            "A pixel that wins in two windows keeps one of its gradients. They add up.",
            _pool_overwritten,
        ),
        Mistake(
            "cells last",
            "The places of a window are the last axis; `col2im` takes them right after the channels: permute first.",
            _pool_not_permuted,
        ),
        Mistake(
            "value for gradient",
            "The winner gets its own value; it should get the gradient g.",
            _pool(lambda cells, winner, g: cells.amax(-1, keepdim=True) * _won(cells, winner)),
        ),
        Mistake(
            "averaged",
            "This is average pooling, there and back. The largest value of each window is wanted.",
            _pool_average,
        ),
        Mistake(
            "average backward",
            "The gradient is divided among the whole window. That is average pooling; here the winner takes it all.",
            _pool(lambda cells, winner, g: (g[..., None] / cells.shape[-1]).expand_as(cells)),
        ),
        Mistake(
            "smallest", "These are the smallest values of the windows; the largest are wanted.", _pool_min
        ),
    ],
    hints=(
        "`cells.max(-1)` gives values and positions. Which entries of a window, of size * size, get the gradient?",
        "won = torch.arange(size * size) == winner[..., None] is True at the winner. g[..., None] * won puts g there.",
        "return col2im((g[..., None] * won).permute(0, 1, 4, 2, 3), x.shape[2:], (size, size), stride)",
    ),
    passed="Only one pixel of four passes a gradient on: the others learn nothing from this window.",
)


def _tie_shares(cells, g):
    best = (cells == cells.amax(-1, keepdim=True)).to(cells.dtype)
    return g[..., None] * best / best.sum(-1, keepdim=True)


def _grouped(x, weight, groups):
    return F.conv2d(x, weight, groups=groups)


def _groups_of(x, weight, groups, channels=None, join=None):
    """Grouped convolution with another choice of channels, or another way to join the parts."""
    blocks = channels(x) if channels else x.chunk(groups, 1)
    parts = [F.conv2d(b, w) for b, w in zip(blocks, weight.chunk(groups), strict=True)]
    return join(parts) if join else torch.cat(parts, 1)


def _interleave(parts):
    return torch.stack(parts, 2).flatten(1, 2)


grouped = Implement(
    id="w05.grouped",
    title="Groups",
    minutes=8,
    level=2,
    needs=("w05.conv2d",),
    dtype="float64",
    cases=[
        Case(
            "two groups",
            lambda draw: {"x": draw.normal(2, 6, 5, 7), "weight": draw.normal(8, 3, 4, 2), "groups": 2},
        ),
        Case(
            "three groups",
            lambda draw: {"x": draw.normal(1, 6, 4, 5), "weight": draw.normal(9, 2, 1, 3), "groups": 3},
        ),
        Case(
            "depthwise",
            lambda draw: {"x": draw.normal(2, 4, 6, 5), "weight": draw.normal(4, 1, 3, 2), "groups": 4},
        ),
        Case(
            "depthwise, two filters each",
            lambda draw: {"x": draw.transposed(2, 3, 5, 4), "weight": draw.normal(6, 1, 2, 3), "groups": 3},
        ),
        Case(
            "one group",
            lambda draw: {"x": draw.normal(1, 2, 3, 4), "weight": draw.normal(5, 2, 3, 1), "groups": 1},
            extreme=True,
        ),
    ],
    oracle=_grouped,
    grads=("x", "weight"),
    rules=Rules(forbids=_CONVOLUTIONS),
    mistakes=[
        Mistake(
            "channels interleaved",
            "Group g takes every G-th channel; it should take a block of neighbors.",
            lambda x, weight, groups: _groups_of(
                x, weight, groups, channels=lambda x: [x[:, g::groups] for g in range(groups)]
            ),
        ),
        Mistake(
            "outputs interleaved",
            "The output channels of the groups alternate; they should stand block after block.",
            lambda x, weight, groups: _groups_of(x, weight, groups, join=_interleave),
        ),
        Mistake(
            "groups added",
            "The groups are added up; they stay side by side, each with its own output channels.",
            lambda x, weight, groups: _groups_of(x, weight, groups, join=sum),
        ),
        Mistake(
            "first block for all",
            "Every group of filters looks at the first block of channels.",
            lambda x, weight, groups: _groups_of(
                x, weight, groups, channels=lambda x: [x.chunk(groups, 1)[0]] * groups
            ),
        ),
        Mistake(
            "everything interleaved",
            "Channels and filters are taken in steps of G, `g::groups`; groups are blocks of neighbors: `chunk`.",
            lambda x, weight, groups: torch.cat(
                [F.conv2d(x[:, g::groups], weight[g::groups]) for g in range(groups)], 1
            ),
        ),
        Mistake(
            "all filters on every block",
            "Every block of channels meets all filters; it has filters of its own: chunk the weight too, along axis 0.",
            lambda x, weight, groups: torch.cat([F.conv2d(part, weight) for part in x.chunk(groups, 1)], 1),
        ),
        Mistake(
            "joined along the batch",
            "The parts are joined along the batch; their channels belong side by side: axis 1.",
            lambda x, weight, groups: _groups_of(x, weight, groups, join=lambda parts: torch.cat(parts)),
        ),
        Mistake(
            "stacked",
            "`torch.stack` makes a new axis; `torch.cat(parts, 1)` puts the channels side by side.",
            lambda x, weight, groups: _groups_of(x, weight, groups, join=lambda parts: torch.stack(parts, 1)),
        ),
        Mistake(
            "outputs in reverse",
            "The output channels of the last group come first: join the parts in their order.",
            lambda x, weight, groups: _groups_of(
                x, weight, groups, join=lambda parts: torch.cat(parts[::-1], 1)
            ),
        ),
        Mistake(
            "blocks in reverse",
            "The first filters meet the last channels: pair the blocks in the same order.",
            lambda x, weight, groups: _groups_of(
                x, weight, groups, channels=lambda x: x.chunk(groups, 1)[::-1]
            ),
        ),
    ],
    hints=(
        "Which axis of x holds the channels, and which axis of the weight the filters?",
        "Chunk x along axis 1 and the weight along axis 0, convolve pair by pair, and cat along axis 1.",
        "torch.cat([conv2d(a, b) for a, b in zip(x.chunk(groups, 1), weight.chunk(groups, 0))], 1)",
    ),
    passed="Depthwise, then 1 by 1: MobileNet is this pair, over and over.",
)


def _weights(make):
    """How many parameters a layer has; built without memory."""
    return lambda: sum(p.numel() for p in make().parameters())


def _layer(channels, filters, size, **options):
    return torch.nn.Conv2d(channels, filters, size, device="meta", **options)


def _receptive_field(layers):
    """(kernel, stride) of each layer, first to last -> pixels across."""
    field, step = 1, 1
    for kernel, stride in layers:
        field, step = field + (kernel - 1) * step, step * stride
    return field


count = Predict(
    id="w05.count",
    title="Count before you build",
    minutes=10,
    level=2,
    needs=("w05.grouped",),
    items={
        "a": Item(
            "weights of 32 filters of 3×3 on 3 channels, no bias",
            _weights(lambda: _layer(3, 32, 3, bias=False)),
        ),
        "b": Item("the same layer with a bias: all its parameters", _weights(lambda: _layer(3, 32, 3))),
        "c": Item(
            "weights of 64 filters of 3×3 on 32 channels", _weights(lambda: _layer(32, 64, 3, bias=False))
        ),
        "d": Item(
            "weights of a depthwise 3×3 convolution on 32 channels",
            _weights(lambda: _layer(32, 32, 3, groups=32, bias=False)),
        ),
        "e": Item(
            "weights of d, followed by 64 filters of 1×1 (together they can stand in for c)",
            _weights(
                lambda: torch.nn.Sequential(
                    _layer(32, 32, 3, groups=32, bias=False), _layer(32, 64, 1, bias=False)
                )
            ),
        ),
        "f": Item(
            "multiplications of layer a on one picture of 32×32, without padding", lambda: 864 * 30 * 30
        ),
        "g": Item(
            "weights of a linear layer that maps the same picture, 3×32×32, to the same output, 32×30×30",
            lambda: 3 * 32 * 32 * 32 * 30 * 30,
        ),
        "h": Item(
            "receptive field (one side) of three 3×3 layers, one on top of the other",
            lambda: _receptive_field([(3, 1)] * 3),
        ),
        "i": Item(
            "receptive field of a 3×3 layer, then a 2×2 pooling with stride 2, then a 3×3 layer",
            lambda: _receptive_field([(3, 1), (2, 2), (3, 1)]),
        ),
    },
    mistakes=[
        Mistake("channels forgotten", "a: each filter has a kernel for each of the 3 channels.", {"a": 288}),
        Mistake("bias per kernel", "b: one bias per filter, not per kernel: 32, not 96.", {"b": 960}),
        Mistake("channels forgotten in c", "c: each of the 64 filters has 32 kernels.", {"c": 576}),
        Mistake("not depthwise", "d: each filter sees one channel: 32 kernels of 9.", {"d": 9216}),
        Mistake(
            "depthwise 64",
            "e: the depthwise part keeps 32 channels; the 1 by 1 part has 64 times 32.",
            {"e": 2624},
        ),
        Mistake("1x1 forgotten", "e: the 64 filters of 1 by 1 have 32 weights each: 2048 more.", {"e": 288}),
        Mistake("padded", "f: without padding the output has 30 by 30 places, not 32 by 32.", {"f": 884736}),
        Mistake("once", "f: the weights are used again at every place of the output: 900 times.", {"f": 864}),
        Mistake(
            "pixels only",
            "g: one weight for each pair of an input and an output number, channels included.",
            {"g": 32 * 32 * 30 * 30},
        ),
        Mistake("fields multiplied", "h: fields do not multiply: each layer adds 2 pixels.", {"h": 27}),
        Mistake("fields added", "h: the windows overlap: 3, then 5, then 7.", {"h": 9}),
        Mistake(
            "stride forgotten",
            "i: after the pooling one step is 2 pixels, so the last layer adds 4.",
            {"i": 6},
        ),
    ],
    hints=(
        "a: 32 filters, each of them 3 kernels of 9 numbers.",
        "g: (3 * 32 * 32) inputs times (32 * 30 * 30) outputs. i: field 3, then + 1, then + 2 * 2.",
        "a 864, b 864 + 32, c 64 * 32 * 9, d 32 * 9, e d + 64 * 32, f 864 * 900, h 7.",
    ),
    passed="88 million weights against 864 for the same map: the convolution says what no linear layer can, that place does not matter.",
)


# 02 a network that trains


def _normalize(
    layer,
    x,
    axes=(0, 2, 3),
    correction=0,
    record=1,
    old=False,
    always=False,
    outside=False,
    graph=False,
    recorded="in training",
    affine=True,
    running=False,
    detached=False,
    power=0.5,
    eps=None,
    momentum=None,
):
    """The forward of batch norm, with one thing changed. `record`: the correction of the running variance."""
    mean, var = layer.running_mean, layer.running_var
    if layer.training or always:
        mean, var = x.mean(axes), x.var(axes, correction=correction)
        if detached:
            mean, var = mean.detach(), var.detach()
    if recorded == "always" or (layer.training and recorded == "in training"):
        weight = 1 - layer.momentum if old else momentum or layer.momentum
        new_mean, new_var = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=record)
        if not graph:
            new_mean, new_var = new_mean.detach(), new_var.detach()
        layer.running_mean = (1 - weight) * layer.running_mean + weight * new_mean
        layer.running_var = (1 - weight) * layer.running_var + weight * new_var
    if running:
        mean, var = layer.running_mean, layer.running_var
    if axes == (0, 2, 3) or not (layer.training or always):
        mean, var = mean[:, None, None], var[:, None, None]
    elif axes == (2, 3):
        mean, var = mean[:, :, None, None], var[:, :, None, None]
    root = var.sqrt() + layer.eps if outside else (var + (eps or layer.eps)) ** power
    normal = (x - mean) / root
    return normal * layer.weight[:, None, None] + layer.bias[:, None, None] if affine else normal


def _batch_norm(**changes):
    """What makes a batch norm with one thing changed."""

    def make(channels, eps=1e-5, momentum=0.1):
        class BatchNorm2d(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.eps, self.momentum = eps, momentum
                self.weight = torch.nn.Parameter(torch.ones(channels))
                self.bias = torch.nn.Parameter(torch.zeros(channels))
                self.register_buffer("running_mean", torch.zeros(channels))
                self.register_buffer("running_var", torch.ones(channels))

            def forward(self, x):
                return _normalize(self, x, **changes)

        return BatchNorm2d()

    return make


def _use_batch_norm(answer, x, more, weight, bias, eps, momentum):
    """Two batches in training mode, then one in evaluation; scale and shift are handed in."""
    layer = answer(x.shape[1], eps, momentum).to(x.dtype)

    def call(batch):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (batch,))

    result = {"1 training": call(x), "2 training, second batch": call(more)}
    layer.eval()
    result["3 evaluation"] = call(x)
    result["4 running_mean"], result["5 running_var"] = layer.running_mean, layer.running_var
    return result


def _torch_batch_norm(channels, eps, momentum):
    return torch.nn.BatchNorm2d(channels, eps, momentum)


def _norm_case(shape, more, eps, momentum, make="normal"):
    return lambda draw: {
        "x": 2 * getattr(draw, make)(*shape) + 3,
        "more": 0.5 * draw.normal(*more) - 1,
        "weight": draw.uniform(0.5, 2, shape[1]),
        "bias": draw.normal(shape[1]),
        "eps": eps,
        "momentum": momentum,
    }


batch_norm = Implement(
    id="w05.batch_norm",
    title="Batch norm, training and evaluation",
    minutes=15,
    level=3,
    dtype="float64",
    cases=[
        Case("three channels", _norm_case((2, 3, 4, 5), (5, 3, 2, 4), 1e-5, 0.1)),
        Case("momentum 0.3, eps 0.1", _norm_case((3, 4, 2, 5), (2, 4, 3, 1), 0.1, 0.3)),
        Case("not contiguous", _norm_case((4, 2, 3, 5), (3, 2, 5, 4), 1e-5, 0.1, "transposed")),
        Case("one channel, one row", _norm_case((3, 1, 1, 4), (2, 1, 5, 3), 1e-3, 0.2)),
        Case(
            "one picture, large numbers",
            lambda draw: {
                "x": 1e4 * draw.normal(1, 2, 3, 4),
                "more": draw.normal(3, 2, 4, 5),
                "weight": draw.normal(2),
                "bias": draw.normal(2),
                "eps": 1e-5,
                "momentum": 0.1,
            },
            extreme=True,
        ),
    ],
    oracle=lambda *inputs: _use_batch_norm(_torch_batch_norm, *inputs),
    use=_use_batch_norm,
    delegate=lambda channels, eps, momentum: torch.nn.BatchNorm2d(channels, eps, momentum),
    grads=("x", "weight", "bias"),
    rules=Rules(
        forbids=(
            *(
                "batch_norm",
                "native_batch_norm",
                "BatchNorm1d",
                "BatchNorm2d",
                "BatchNorm3d",
                "SyncBatchNorm",
            ),
            *("LazyBatchNorm2d", "instance_norm", "InstanceNorm2d", "group_norm", "GroupNorm", "layer_norm"),
        )
    ),
    mistakes=[
        Mistake(
            "momentum swapped",
            "Momentum weighs the old value here; in torch it is the weight of the new one: 0.9 of the old, 0.1 of the new.",
            _batch_norm(old=True),
        ),
        Mistake(
            "unbiased to normalize",
            "The batch is normalized by the variance that divides by n - 1. For that, torch divides by n: correction=0.",
            _batch_norm(correction=1),
        ),
        Mistake(
            "biased record",
            "The running variance takes the variance that divides by n. torch keeps the unbiased one, by n - 1.",
            _batch_norm(record=0),
        ),
        Mistake(
            "variances exchanged",
            "The two variances are exchanged: by n to normalize, by n - 1 for the running one.",
            _batch_norm(correction=1, record=0),
        ),
        Mistake(
            "batch axis only",
            "The mean is taken over the images only, one per place. A channel has one mean: over axes 0, 2 and 3.",
            _batch_norm(axes=(0,)),
        ),
        Mistake(
            "each picture by itself",
            "Every picture is normalized by itself (axes 2 and 3): that is instance norm. The batch counts as well.",
            _batch_norm(axes=(2, 3)),
        ),
        Mistake(
            "batch in evaluation",
            "In evaluation the batch is still measured. There the running averages are used, so that neighbors do not matter.",
            _batch_norm(always=True),
        ),
        Mistake(
            "measured and recorded in evaluation",
            "Evaluation does all that training does: it measures the batch and moves the running averages. `if self.training:`",
            _batch_norm(always=True, recorded="always"),
        ),
        Mistake(
            "never recorded",
            "The running averages never move: in training, update them in place.",
            _batch_norm(recorded="never"),
        ),
        Mistake(
            "running averages in training",
            "Training normalizes with the running averages; there the mean and variance of the batch itself are used.",
            _batch_norm(running=True),
        ),
        Mistake(
            "no scale and shift",
            "The scale `self.weight` and the shift `self.bias` are missing, one of each per channel.",
            _batch_norm(affine=False),
        ),
        Mistake(
            "divided by the variance",
            "This divides by the variance; take the root: sqrt(var + eps).",
            _batch_norm(power=1.0),
        ),
        Mistake(
            "statistics detached",
            "The values are right, but the mean and variance of the batch are cut off from the graph. They depend on x; only the record is detached.",
            _batch_norm(detached=True),
        ),
        Mistake(
            "eps written down",
            "eps is 1e-5 here whatever the layer was told: use `self.eps`.",
            _batch_norm(eps=1e-5),
        ),
        Mistake(
            "momentum written down",
            "The momentum is 0.1 here whatever the layer was told: use `self.momentum`.",
            _batch_norm(momentum=0.1),
        ),
        Mistake(
            "eps outside the root",
            "eps is added to the root; it belongs under it: sqrt(var + eps).",
            _batch_norm(outside=True),
        ),
        Mistake(
            "graph in the record",
            "The values are right, but the running averages carry a graph: update them under torch.no_grad().",
            _batch_norm(graph=True),
        ),
    ],
    hints=(
        "Begin with training: mean and variance over (0, 2, 3), then give them two more axes to line up with x.",
        "x.var((0, 2, 3), correction=0) normalizes; x.var((0, 2, 3)) goes into the running variance, weighed by momentum.",
        "with torch.no_grad(): self.running_mean.lerp_(mean, self.momentum); in evaluation mean, var = running_mean, running_var",
    ),
    passed="n and n - 1 differ little for large batches. The two modes differ a lot for small ones: see the clinic.",
)


def _block(
    channels_in,
    channels,
    stride,
    *,
    last=True,
    early=False,
    shortcut=True,
    second=False,
    plain=False,
    middle=True,
    needed=lambda channels_in, channels, stride: stride != 1 or channels_in != channels,
    steps=True,
):
    """A residual block of torch's parts, with one thing changed."""
    nn = torch.nn

    class BasicBlock(nn.Module):
        def __init__(self):
            super().__init__()
            strides = (1, stride) if second else (stride, 1)
            self.conv1 = nn.Conv2d(channels_in, channels, 3, strides[0], 1, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, strides[1], 1, bias=False)
            self.bn2 = nn.BatchNorm2d(channels)
            self.downsample = None
            if needed(channels_in, channels, stride):
                step = stride if steps else 1
                parts = [nn.Conv2d(channels_in, channels, 1, step, bias=False), nn.BatchNorm2d(channels)]
                self.downsample = nn.Sequential(*parts[: 1 if plain else 2])

        def forward(self, x):
            y = self.bn1(self.conv1(x))
            y = self.bn2(self.conv2(y.relu() if middle else y))
            y = y.relu() if early else y
            added = (x if self.downsample is None else self.downsample(x)) if shortcut else 0
            return (y + added).relu() if last and not early else y + added

    return BasicBlock()


def _load(model, state):
    """Put weights in by name, and say in words which names do not fit."""
    names = {name for name in model.state_dict() if not name.endswith("num_batches_tracked")}
    model.load_state_dict(state, strict=False)
    missing, unknown = sorted(set(state) - names), sorted(names - set(state))
    words = [f"missing: {', '.join(missing[:3])}"] * bool(missing)
    words += [f"not asked for: {', '.join(unknown[:3])}"] * bool(unknown)
    return "; ".join(words) or "all names fit"


def _use_block(answer, x, state, channels, stride):
    block = answer(x.shape[1], channels, stride).to(x.dtype)
    result = {"0 names": _load(block, state)}
    result["1 training"] = block(x)
    block.eval()  # last: torch reads the running averages once more on the way back
    result["2 evaluation"] = block(x)
    return result


def _norm_state(draw, name, channels):
    return {
        f"{name}.weight": draw.uniform(0.5, 2, channels),
        f"{name}.bias": draw.normal(channels),
        f"{name}.running_mean": draw.normal(channels),
        f"{name}.running_var": draw.uniform(0.5, 2, channels),
    }


def _kernel(draw, filters, channels, size):
    return draw.normal(filters, channels, size, size) / (size * math.sqrt(channels))


def _block_state(draw, channels_in, channels, stride, prefix=""):
    state = {f"{prefix}conv1.weight": _kernel(draw, channels, channels_in, 3)}
    state |= _norm_state(draw, f"{prefix}bn1", channels)
    state |= {f"{prefix}conv2.weight": _kernel(draw, channels, channels, 3)}
    state |= _norm_state(draw, f"{prefix}bn2", channels)
    if stride != 1 or channels_in != channels:
        state |= {f"{prefix}downsample.0.weight": _kernel(draw, channels, channels_in, 1)}
        state |= _norm_state(draw, f"{prefix}downsample.1", channels)
    return state


def _block_case(shape, channels, stride, make="normal"):
    return lambda draw: {
        "x": getattr(draw, make)(*shape),
        "state": _block_state(draw, shape[1], channels, stride),
        "channels": channels,
        "stride": stride,
    }


def _torchvision_block(channels_in, channels, stride):
    from labkit import compat

    shortcut = torch.nn.Sequential(
        torch.nn.Conv2d(channels_in, channels, 1, stride, bias=False), torch.nn.BatchNorm2d(channels)
    )
    fits = stride == 1 and channels_in == channels
    return compat.torchvision().models.resnet.BasicBlock(
        channels_in, channels, stride, None if fits else shortcut
    )


_KERNELS_ARE_SQUARE = "3 by 3 kernels are square, and so is a convolution that keeps its channels"

block = Implement(
    id="w05.block",
    title="The residual block",
    minutes=12,
    level=3,
    needs=("w05.batch_norm",),
    dtype="float64",
    cases=[
        Case("same size", _block_case((2, 3, 5, 6), 3, 1)),
        Case("stride 2, more channels", _block_case((3, 2, 8, 7), 5, 2)),
        Case("more channels", _block_case((2, 3, 4, 5), 4, 1)),
        Case("stride 2, same channels", _block_case((3, 4, 6, 5), 4, 2, "transposed")),
        Case("one channel, one row", _block_case((2, 1, 1, 4), 1, 1), extreme=True),
    ],
    oracle=lambda *inputs: _use_block(_block, *inputs),
    use=_use_block,
    delegate=_torchvision_block,
    grads=("x",),
    reduces=200,
    rules=Rules(forbids=("BasicBlock", "Bottleneck", "resnet18", "resnet34", "ResNet")),
    lint={"equal axes": _KERNELS_ARE_SQUARE, "distinct": _KERNELS_ARE_SQUARE},
    mistakes=[
        Mistake(
            "no ReLU after the sum",
            "The last ReLU is missing: it comes after the sum.",
            lambda channels_in, channels, stride: _block(channels_in, channels, stride, last=False),
        ),
        Mistake(
            "ReLU before the sum",
            "The second ReLU comes before the sum. Then a block could only add; it comes after.",
            lambda channels_in, channels, stride: _block(channels_in, channels, stride, early=True),
        ),
        Mistake(
            "no shortcut",
            "The input is not added: without it this is two convolutions in a row.",
            lambda channels_in, channels, stride: _block(channels_in, channels, stride, shortcut=False),
        ),
        Mistake(
            "stride in conv2",
            "The second convolution has the stride; it belongs to the first.",
            lambda channels_in, channels, stride: _block(channels_in, channels, stride, second=True),
        ),
        Mistake(
            "shortcut not normalized",
            "The shortcut's convolution has no batch norm after it: names downsample.0 and downsample.1.",
            lambda channels_in, channels, stride: _block(channels_in, channels, stride, plain=True),
        ),
        Mistake(
            "no ReLU between",
            "The ReLU between bn1 and conv2 is missing: two convolutions in a row are one.",
            lambda channels_in, channels, stride: _block(channels_in, channels, stride, middle=False),
        ),
        Mistake(
            "downsampled for a stride only",
            "With stride 1 and other channels x does not fit either: stride is not 1, *or* the channels change.",
            lambda channels_in, channels, stride: _block(
                channels_in, channels, stride, needed=lambda channels_in, channels, stride: stride != 1
            ),
        ),
        Mistake(
            "downsampled where both change",
            "There is a `downsample` only where stride and channels both change. One of the two is enough: `or`.",
            lambda channels_in, channels, stride: _block(
                channels_in,
                channels,
                stride,
                needed=lambda channels_in, channels, stride: stride != 1 and channels_in != channels,
            ),
        ),
        Mistake(
            "shortcut without the stride",
            "The shortcut's 1 by 1 convolution has stride 1, so it stays larger than what it is added to: it takes the stride too.",
            lambda channels_in, channels, stride: _block(channels_in, channels, stride, steps=False),
        ),
        Mistake(
            "always downsampled",
            "Where x fits as it is, it is added as it is: downsample is None for stride 1 and equal channels.",
            lambda channels_in, channels, stride: _always_downsampled(channels_in, channels, stride),
        ),
    ],
    hints=(
        "Write the upper line of the drawing first, then ask: does x still fit what comes out?",
        "downsample = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), BatchNorm2d(channels)) where it does not.",
        "y = bn2(conv2(bn1(conv1(x)).relu())); return (y + (x if self.downsample is None else self.downsample(x))).relu()",
    ),
    passed="ResNet-18 is eight of these blocks, a first convolution and a last linear layer: 8 * 2 + 2 = 18.",
)


def _always_downsampled(channels_in, channels, stride):
    made = _block(channels_in, channels, stride)
    made.downsample = made.downsample or torch.nn.Sequential(
        torch.nn.Conv2d(channels_in, channels, 1, stride, bias=False), torch.nn.BatchNorm2d(channels)
    )
    for parameter in made.downsample.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    return made


def _resnet(
    channels_in,
    widths,
    grid,
    classes,
    stem=True,
    step=2,
    first=2,
    pool="avg",
    soft=False,
    channel=0,
    gridless=False,
    keep=0,
):
    """The small ResNet of torch's parts, with one thing changed."""
    nn = torch.nn

    class SmallResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(channels_in, widths[0], 3, first, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(widths[0])
            pairs = enumerate(itertools.pairwise(widths))
            self.blocks = nn.Sequential(*[_block(a, b, 1 if i < keep else step) for i, (a, b) in pairs])
            self.fc = nn.Linear(widths[-1] * (1 if gridless else grid * grid), classes)

        def forward(self, x):
            x = self.bn1(self.conv1(x))
            x = self.blocks(x.relu() if stem else x)
            pooled = getattr(F, f"adaptive_{pool}_pool2d")(x, grid)
            rows = pooled.permute(0, 2, 3, 1) if channel else pooled
            out = self.fc(rows.flatten(1))
            return out.softmax(1) if soft else out

    return SmallResNet()


def _use_resnet(answer, x, state, widths, grid, classes):
    """Every part's output, numbered in the order in which they are done, and the result."""
    model = answer(x.shape[1], widths, grid, classes).to(x.dtype)
    result = {"0 names": _load(model, state)}
    model.eval()
    parts = ["conv1", "bn1", *(f"blocks.{i}" for i in range(len(widths) - 1)), "fc"]
    hooks = []
    for number, name in enumerate(parts, 1):
        key = f"{number} {name}"
        hook = lambda module, inputs, output, key=key: result.update({key: output})  # noqa: E731
        hooks.append(model.get_submodule(name).register_forward_hook(hook))
    result["9 result"] = model(x)
    for hook in hooks:
        hook.remove()
    silent = [name for number, name in enumerate(parts, 1) if f"{number} {name}" not in result]
    if silent:
        raise RuntimeError(f"`{silent[0]}` is made in __init__, and forward never calls it")
    return result


def _resnet_case(shape, widths, grid, classes, make="normal"):
    def inputs(draw):
        state = {"conv1.weight": _kernel(draw, widths[0], shape[1], 3), **_norm_state(draw, "bn1", widths[0])}
        for i, (a, b) in enumerate(itertools.pairwise(widths)):
            state |= _block_state(draw, a, b, 2, f"blocks.{i}.")
        state |= {
            "fc.weight": draw.normal(classes, widths[-1] * grid * grid),
            "fc.bias": draw.normal(classes),
        }
        x = getattr(draw, make)(*shape)
        return {"x": x, "state": state, "widths": widths, "grid": grid, "classes": classes}

    return inputs


resnet = Implement(
    id="w05.resnet",
    title="A small ResNet",
    minutes=12,
    level=3,
    needs=("w05.block",),
    dtype="float64",
    cases=[
        Case("one block, grid 2", _resnet_case((2, 1, 12, 10), (3, 4), 2, 5)),
        Case("two blocks, global pooling", _resnet_case((3, 2, 13, 11), (4, 3, 5), 1, 7)),
        Case("no block", _resnet_case((2, 3, 7, 9), (4,), 3, 2)),
        Case("one picture, not contiguous", _resnet_case((1, 3, 8, 10), (2, 5), 1, 3, "transposed")),
        Case("one pixel", _resnet_case((2, 3, 1, 1), (4, 6), 1, 5), extreme=True),
    ],
    oracle=lambda *inputs: _use_resnet(_resnet, *inputs),
    use=_use_resnet,
    grads=("x",),
    reduces=300,
    lint={
        "equal axes": _KERNELS_ARE_SQUARE,
        "distinct": _KERNELS_ARE_SQUARE,
        "delegation": "torch has no such network; its layers are the tools here",
    },
    mistakes=[
        Mistake(
            "no ReLU after bn1",
            "The ReLU between bn1 and the first block is missing.",
            lambda channels_in, widths, grid, classes: _resnet(
                channels_in, widths, grid, classes, stem=False
            ),
        ),
        Mistake(
            "blocks keep the size",
            "The blocks have stride 1; each of them halves the size here.",
            lambda channels_in, widths, grid, classes: _resnet(channels_in, widths, grid, classes, step=1),
        ),
        Mistake(
            "first convolution keeps the size",
            "The first convolution has stride 1; it has stride 2 here.",
            lambda channels_in, widths, grid, classes: _resnet(channels_in, widths, grid, classes, first=1),
        ),
        Mistake(
            "max pooled",
            "The last pooling takes the largest; it should take the average.",
            lambda channels_in, widths, grid, classes: _resnet(
                channels_in, widths, grid, classes, pool="max"
            ),
        ),
        Mistake(
            "softmax",
            "These are probabilities. The network returns logits; the loss does the softmax.",
            lambda channels_in, widths, grid, classes: _resnet(channels_in, widths, grid, classes, soft=True),
        ),
        Mistake(
            "fc without the grid",
            "`fc` takes one number per channel; it gets grid times grid of them: widths[-1] * grid * grid inputs.",
            lambda channels_in, widths, grid, classes: _resnet(
                channels_in, widths, grid, classes, gridless=True
            ),
        ),
        Mistake(
            "first block keeps the size",
            "The first block has stride 1, as in the large ResNets; here every block has stride 2.",
            lambda channels_in, widths, grid, classes: _resnet(channels_in, widths, grid, classes, keep=1),
        ),
        Mistake(
            "channels last",
            "The features are flattened with the channels last: torch's order is channel, row, column.",
            lambda channels_in, widths, grid, classes: _resnet(channels_in, widths, grid, classes, channel=1),
        ),
    ],
    hints=(
        "The table above is the program: one line for each row.",
        "blocks = nn.Sequential(*[BasicBlock(a, b, 2) for a, b in itertools.pairwise(widths)]); fc takes widths[-1] * grid * grid.",
        "x = self.blocks(self.bn1(self.conv1(x)).relu()); return self.fc(F.adaptive_avg_pool2d(x, self.grid).flatten(1))",
    ),
    passed="Every part agrees, in order. With grid=1 your network takes pictures of any size.",
)


# 03 in PyTorch


def _feature_model(x):
    """A model with names two levels deep, a batch norm, and a ReLU that works in place."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("stem", nn.Conv2d(x.shape[1], 4, 3, padding=1))
    parts = (nn.Conv2d(4, 5, 3, stride=2), nn.BatchNorm2d(5), nn.ReLU(inplace=True), nn.Conv2d(5, 2, 1))
    model.add_module("body", nn.Sequential(*parts))
    model.add_module("head", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3)))
    return model.to(x.dtype).eval()


def _use_features(answer, x, name):
    model = _feature_model(x)
    model.train(name == "stem")  # no batch norm lies before it: the features are the same in both modes
    recorded = []
    model.register_forward_pre_hook(lambda *_: recorded.append(torch.is_grad_enabled()))
    value = answer(model, name, x)
    left = sum(len(part._forward_hooks) for part in model.modules())
    return {
        "features": value,
        "hooks left": left,
        "a graph was recorded": any(recorded),
        "training mode afterward": model.training,
    }


def _features(model, name, x, keep=False, what="output", clone=True, gradient=False):
    """The answer, with one thing changed."""
    caught = []

    def hook(part, inputs, output):
        value = output if what == "output" else inputs[0]
        caught.append(value.clone() if clone else value)

    handle = model.get_submodule(name).register_forward_hook(hook)
    with torch.set_grad_enabled(gradient):
        result = model(x)
    if not keep:
        handle.remove()
    return result if what == "result" else caught[0]


def _features_of_torchvision(model, name, x):
    from labkit import compat

    compat.torchvision()
    from torchvision.models import feature_extraction

    with torch.no_grad():
        return feature_extraction.create_feature_extractor(model, {name: "out"})(x)["out"].clone()


def _features_case(shape, name, make="normal"):
    return lambda draw: {"x": getattr(draw, make)(*shape), "name": name}


features = Implement(
    id="w05.features",
    title="What a layer computes",
    minutes=10,
    level=2,
    dtype="float64",
    cases=[
        Case("the first layer", _features_case((2, 3, 7, 6), "stem")),
        Case("a part inside", _features_case((3, 2, 8, 9), "body.0")),
        Case("before a ReLU in place", _features_case((2, 3, 6, 5), "body.1")),
        Case("a whole part", _features_case((4, 1, 5, 7), "body", "transposed")),
        Case("one picture, the last layer", _features_case((1, 3, 9, 8), "head"), extreme=True),
    ],
    oracle=lambda x, name: _use_features(_features, x, name),
    use=_use_features,
    delegate=_features_of_torchvision,
    rules=Rules(forbids=("create_feature_extractor", "IntermediateLayerGetter", "get_graph_node_names")),
    reduces=100,
    mistakes=[
        Mistake(
            "hook left",
            "The features are right, but the hook is still on the model and will be called for ever: handle.remove().",
            lambda model, name, x: _features(model, name, x, keep=True),
        ),
        Mistake(
            "the input",
            "This is what goes into the layer. A hook gets (layer, inputs, output); the output is wanted.",
            lambda model, name, x: _features(model, name, x, what="input"),
        ),
        Mistake(
            "the last layer",
            "This is what the whole model returns; the hook was to catch one part's output.",
            lambda model, name, x: _features(model, name, x, what="result"),
        ),
        Mistake(
            "overwritten",
            "The ReLU after the layer works in place and has overwritten what the hook saw: keep output.clone().",
            lambda model, name, x: _features(model, name, x, clone=False),
        ),
        Mistake(
            "graph kept",
            "A graph is recorded, which keeps every layer's memory alive: run the model under torch.no_grad().",
            lambda model, name, x: _features(model, name, x, gradient=True),
        ),
        Mistake(
            "left in evaluation mode",
            "The features are right, but the model was put into evaluation mode and left there. It stays as it was.",
            lambda model, name, x: _features(model.eval(), name, x),
        ),
        Mistake(
            "training mode",
            "The model was put into training mode: its batch norm measured this batch. Leave the mode as it is.",
            lambda model, name, x: _features(model.train(), name, x),
        ),
    ],
    hints=(
        "A hook cannot return its finding to you. Let it append to a list that you made before.",
        "model.get_submodule(name).register_forward_hook(hook), with hook(part, inputs, output); keep output.clone().",
        "with torch.no_grad(): model(x); then handle.remove(); return caught.pop()",
    ),
    passed="The same three lines read a layer of a network with a billion parameters.",
)


def _transfer_model(width):
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("body", nn.Sequential(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.ReLU()))
    model.add_module("pool", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    model.add_module("fc", nn.Linear(width, 10))
    return model


def _use_transfer(answer, width, classes):
    model = _transfer_model(width)
    before = {name: value.clone() for name, value in model.named_parameters()}
    changed = answer(model, classes)
    if not isinstance(getattr(changed, "fc", None), torch.nn.Module):
        found = "None" if changed is None else f"a {type(changed).__name__} without `fc`"
        raise TypeError(f"the model itself is to be returned, with a new `fc`; this is {found}")
    rest = {name: value for name, value in changed.named_parameters() if not name.startswith("fc.")}
    return {
        "the model itself is returned": changed is model,
        "trainable": ", ".join(name for name, p in changed.named_parameters() if p.requires_grad),
        "body as it was": all(torch.equal(value, before[name]) for name, value in rest.items()),
        "shape of two answers": tuple(changed(torch.zeros(2, 1, 5, 6)).shape),
        "inputs of fc": changed.fc.in_features,
    }


def _transfer(model, classes, freeze=lambda name: True, after=False):
    """The answer, with another choice of what is frozen, or frozen after the new head."""
    head = torch.nn.Linear(model.fc.in_features, classes)
    if after:
        model.fc = head
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not freeze(name)
    if not after:
        model.fc = head
    return model


def _old_head(model, classes):
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("fc.")
    return model


def _head_turned_round(model, classes):
    model.requires_grad_(False)
    model.fc = torch.nn.Linear(classes, model.fc.in_features)
    return model


def _whole_output_frozen(model, classes):
    model.requires_grad_(False)
    model.fc = torch.nn.Sequential(model.fc, torch.nn.Linear(10, classes))
    model.fc.in_features = 10
    return model


transfer = Implement(
    id="w05.transfer",
    title="A new head",
    minutes=8,
    level=2,
    needs=("w05.features",),
    engine="python",
    cases=[
        Case("three classes", lambda draw: {"width": 5, "classes": 3}),
        Case("two classes, wider", lambda draw: {"width": 7, "classes": 2}),
        Case("one class", lambda draw: {"width": 4, "classes": 1}),
    ],
    oracle=lambda width, classes: _use_transfer(_transfer, width, classes),
    use=_use_transfer,
    lint={"delegation": "torch has no function for it: an attribute and a new layer are the tools"},
    mistakes=[
        Mistake(
            "frozen head",
            "The new layer is frozen as well: freeze first, then put it in.",
            lambda model, classes: _transfer(model, classes, after=True),
        ),
        Mistake(
            "nothing frozen",
            "Everything can be trained: set requires_grad = False on the old parameters.",
            lambda model, classes: _transfer(model, classes, freeze=lambda name: False),
        ),
        Mistake(
            "biases left",
            "Only the weights are frozen; biases are parameters too.",
            lambda model, classes: _transfer(model, classes, freeze=lambda name: name.endswith("weight")),
        ),
        Mistake(
            "convolutions only",
            "The batch norm's scale and shift are left free: freeze every parameter.",
            lambda model, classes: _transfer(model, classes, freeze=lambda name: name.startswith("body.0")),
        ),
        Mistake(
            "inputs and outputs exchanged",
            "The new layer takes `classes` numbers in and gives features out: nn.Linear(inputs, outputs).",
            _head_turned_round,
        ),
        Mistake(
            "old head",
            "The old last layer is still there, with its old classes. Put a new nn.Linear in its place.",
            _old_head,
        ),
        Mistake(
            "head on head",
            "The new layer sits on the old one and sees its ten answers. It should replace it, and see the features.",
            _whole_output_frozen,
        ),
    ],
    hints=(
        "Two steps: freeze what is there, then exchange model.fc.",
        "for parameter in model.parameters(): parameter.requires_grad = False. A new nn.Linear is not frozen.",
        "model.fc = nn.Linear(model.fc.in_features, classes); return model",
    ),
    passed="Hand the optimizer only what it may change: [p for p in model.parameters() if p.requires_grad].",
)


# 04 clinic

_MARK = (1, 25)


def _accept_mark(place):
    if len(place) != 2 or not all(isinstance(i, int) and 0 <= i < 28 for i in place):
        return "a place is (row, column), two whole numbers from 0 to 27."
    if tuple(place) == _MARK:
        return None
    covers = all(abs(given - true) <= 1 for given, true in zip(place, _MARK, strict=True))
    return (
        "the square at that place covers a part of the mark; another covers it whole."
        if covers
        else f"covering the square at {tuple(place)} does not take the bag away."
    )


shortcut = Measure(
    id="w05.shortcut",
    title="Right for the wrong reason",
    minutes=12,
    level=2,
    accept=_accept_mark,
    answer_type=(tuple, list),
    mistakes=[
        Mistake(
            "column first",
            "Row and column have changed places: `divmod(position, 27)` gives the row first.",
            (25, 1),
        ),
        Mistake(
            "divided by 28",
            "The map has 27 columns, not 28: the place is divmod(position, 27).",
            divmod(1 * 27 + 25, 28),
        ),
        Mistake("counted from 1", "Rows and columns are counted from 0.", (2, 26)),
        Mistake(
            "where the bag is",
            "That is where the bag is. Take the lowest entry of the map: the score that is left when a square is covered.",
            (14, 14),
            when=lambda place: all(6 <= i <= 21 for i in place),
        ),
    ],
    hints=(
        "Draw it: viz.image_grid([occlusion_map(suspect, theirs[bags][0], 8)]). Where is it darkest?",
        "position = occlusion_map(suspect, theirs[bags][0], 8).argmin().item(); row and column are divmod(position, 27).",
        "It is in the upper right corner, one pixel away from the upper border.",
    ),
    passed="Networks have been caught reading hospital tags on X-rays and rulers beside moles. Looking is part of testing.",
)


def _norm_model(x, training):
    """A network with batch norm whose running averages differ from any batch's."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(x.shape[1], 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(2))
    model.add_module("head", nn.Linear(x.shape[2] * x.shape[3], 3))
    model = model.to(x.dtype)
    with torch.no_grad():
        model[1].running_mean.copy_(torch.linspace(-1, 1, 4))
        model[1].running_var.copy_(torch.linspace(0.5, 2, 4))
    return model.train(training)


def _use_single(answer, x, training):
    model = _norm_model(x, training)
    value = answer(model, x)
    return {
        "answers": value,
        "running_mean": model[1].running_mean.clone(),
        "training mode afterward": model.training,
    }


def _predict_as_found(model, images):
    return torch.cat([model(image[None]) for image in images])


def _predict_right(model, images):
    mode = model.training
    value = _predict_as_found(model.eval(), images)
    model.train(mode)
    return value


def _predict_without_record(model, images):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    value = _predict_as_found(model, images)
    model.load_state_dict(before)
    return value


def _predict_late(model, images):
    value = _predict_as_found(model, images)
    model.eval()
    return value


def _predict_then_train(model, images):
    value = _predict_as_found(model.eval(), images)
    model.train()
    return value


def _single_case(shape, training, make="normal"):
    return lambda draw: {"images": getattr(draw, make)(*shape), "training": training}


single = Fix(
    id="w05.single",
    title="One picture at a time",
    minutes=10,
    level=2,
    needs=("w05.batch_norm",),
    dtype="float64",
    cases=[
        Case("found in training mode", _single_case((4, 2, 5, 3), True)),
        Case("found in evaluation mode", _single_case((3, 1, 4, 5), False)),
        Case("not contiguous", _single_case((5, 3, 2, 4), True, "transposed")),
        Case("one picture", _single_case((1, 2, 3, 4), True), extreme=True),
    ],
    use=_use_single,
    oracle=lambda images, training: _use_single(_predict_right, images, training),
    reduces=100,
    broken=_predict_as_found,
    fault="training mode",
    menu={
        "training mode": "",
        "one picture at a time": "One at a time is slow, and right: in evaluation mode a picture's neighbors do not matter.",
        "no softmax": "A softmax does not change which class is largest; logits are what is asked for.",
    },
    mistakes=[
        Mistake(
            "all at once",
            "The pictures go through together now, still in training mode: each answer depends on the others.",
            lambda model, images: model(images),
        ),
        Mistake(
            "left in evaluation mode",
            "The answers are right, and the model stays in evaluation mode. Remember model.training, and put it back.",
            lambda model, images: _predict_as_found(model.eval(), images),
        ),
        Mistake(
            "averages put back",
            "The running averages are as before, but the answers still come from training mode: call model.eval() first.",
            _predict_without_record,
        ),
        Mistake(
            "eval too late",
            "model.eval() comes after the answers. It has to come before them.",
            _predict_late,
        ),
        Mistake(
            "always back to training",
            "A model that was found in evaluation mode is left in training mode: put back the mode that it had.",
            _predict_then_train,
        ),
    ],
    hints=(
        "Print model.training inside the function. What does batch norm do in that mode?",
        "mode = model.training; model.eval(); the answers; model.train(mode).",
        'fault = "training mode"; and model.train(mode) brings back either mode.',
    ),
    passed="Dropout has the same two modes. A function that evaluates should switch, and switch back.",
    lint={"delegation": "torch has no function for it: a mode is set and put back"},
)


def _flip_as_found(images, labels, flip):
    return torch.where(flip[:, None, None], images.flip(2), images), labels


def _flip(images, labels, flip, axis=2):
    return torch.where(flip[:, None, None], images.flip(axis), images), torch.where(flip, 1 - labels, labels)


def _flip_in_place(images, labels, flip):
    images[flip] = images[flip].flip(2)
    return images.clone(), torch.where(flip, 1 - labels, labels)


def _flip_case(make, labels, flip):
    return lambda draw: {"images": make(draw), "labels": np.array(labels), "flip": np.array(flip)}


flip = Fix(
    id="w05.flip",
    title="The flip that lies",
    minutes=8,
    level=1,
    cases=[
        Case(
            "four pictures",
            _flip_case(lambda draw: draw.normal(4, 3, 5), [0, 1, 0, 0], [True, True, False, False]),
        ),
        Case("two pictures", _flip_case(lambda draw: draw.normal(2, 6, 4), [1, 0], [False, True])),
        Case(
            "not contiguous",
            _flip_case(
                lambda draw: draw.transposed(5, 3, 4), [1, 1, 0, 1, 0], [True, False, False, True, True]
            ),
        ),
        Case("one column", _flip_case(lambda draw: draw.normal(3, 4, 1), [0, 1, 1], [True, False, True])),
        Case(
            "none flipped",
            _flip_case(lambda draw: draw.normal(3, 2, 4), [0, 1, 0], [False] * 3),
            extreme=True,
        ),
    ],
    oracle=_flip,
    memory="any",
    broken=_flip_as_found,
    fault="the label is not flipped",
    menu={
        "the label is not flipped": "",
        "wrong axis": "images has axes (n, H, W), and flip(2) mirrors left to right: the pictures are mirrored well.",
        "too many flips": "How many are flipped does not matter; with one single flip the label would be as wrong.",
    },
    mistakes=[
        Mistake(
            "every label",
            "Every label is exchanged now, also where the picture stays as it is.",
            lambda images, labels, flip: (_flip(images, labels, flip)[0], 1 - labels),
        ),
        Mistake(
            "the other labels",
            "The labels are exchanged where the picture is not mirrored: `torch.where(flip, mirrored, as it was)`.",
            lambda images, labels, flip: (
                _flip(images, labels, flip)[0],
                torch.where(flip, labels, 1 - labels),
            ),
        ),
        Mistake(
            "label says whether mirrored",
            "The label now says whether the picture was mirrored; it should say where the toe points. Old labels count.",
            lambda images, labels, flip: (_flip(images, labels, flip)[0], flip.long()),
        ),
        Mistake(
            "bits flipped",
            "`~` flips all bits of a whole number: ~0 is -1. Here the other label is 1 - label.",
            lambda images, labels, flip: (_flip(images, labels, flip)[0], torch.where(flip, ~labels, labels)),
        ),
        Mistake(
            "upside down",
            "The labels are right; the pictures now stand on their heads. Axis 1 is the height, axis 2 the width.",
            lambda images, labels, flip: _flip(images, labels, flip, axis=1),
        ),
        Mistake(
            "all flipped",
            "All pictures are mirrored, with their labels. Only those that `flip` names were asked for.",
            lambda images, labels, flip: (images.flip(2), 1 - labels),
        ),
        Mistake(
            "no flip left",
            "The flip is gone, and with it the fault. It was to stay, with the right label.",
            lambda images, labels, flip: (images.clone(), labels.clone()),
        ),
        Mistake(
            "in place",
            "The result is right, but the pictures that came in were changed too.",
            _flip_in_place,
        ),
    ],
    hints=(
        "Take the third shoe: which way does it point after the flip, and what does its label say?",
        "Where flip is True the label becomes 1 - label.",
        'fault = "the label is not flipped"; torch.where(flip, 1 - labels, labels)',
    ),
    passed="torchvision's v2 transforms flip boxes and masks along with the picture; a class label they cannot know.",
    lint={"delegation": "torch has no function for it; one more torch.where is the answer"},
)


def _by_columns(x, weight, bias, stride, padding):
    columns = F.unfold(x, weight.shape[2:], padding=padding, stride=stride)
    sides = [(n + 2 * padding - k) // stride + 1 for n, k in zip(x.shape[2:], weight.shape[2:], strict=True)]
    return (weight.flatten(1) @ columns + bias[:, None]).reshape(len(x), len(weight), *sides)


def _stride_ignored(x, weight, bias, stride, padding):
    """The right size, from windows one pixel apart."""
    rows, columns = F.conv2d(x, weight, bias, stride, padding).shape[2:]
    return F.conv2d(x, weight, bias, 1, padding)[:, :, :rows, :columns]


def _exchanged(x, weight, bias, stride, padding):
    same = weight.shape[0] == weight.shape[1]
    return F.conv2d(x, weight.transpose(0, 1) if same else weight, bias, stride, padding)


def _one_sided(x, weight, bias, stride, padding):
    return F.conv2d(F.pad(x, (0, 2 * padding, 0, 2 * padding)), weight, bias, stride)


def _framed(mode):
    def convolved(x, weight, bias, stride, padding):
        return F.conv2d(F.pad(x, (padding,) * 4, mode=mode), weight, bias, stride)

    return convolved


def _try(conv2d, *, channels=2, filters=3, stride=1, padding=0, ones=False, bias=True, shape_only=False):
    """One comparison with torch, of the kind that a first test makes."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(1, channels, 6, 7, generator=random)
    weight = torch.randn(filters, channels, 3, 3, generator=random)
    weight = torch.ones_like(weight) if ones else weight
    shift = torch.randn(filters, generator=random) if bias else torch.zeros(filters)
    result, truth = (f(x, weight, shift, stride, padding) for f in (conv2d, F.conv2d))
    assert result.shape == truth.shape
    assert shape_only or torch.allclose(result, truth, atol=1e-5)


test_conv = WriteTest(
    id="w05.test_conv",
    title="A test for convolution",
    minutes=12,
    level=3,
    needs=("w05.conv2d",),
    good=[lambda x, weight, bias, stride, padding: F.conv2d(x, weight, bias, stride, padding), _by_columns],
    bugs={
        "flipped": (
            "it turns the kernel by 180 degrees.",
            lambda x, weight, bias, *rest: F.conv2d(x, weight.flip(2, 3), bias, *rest),
        ),
        "stride": (
            "it ignores the stride; the size is right, the windows are one pixel apart.",
            _stride_ignored,
        ),
        "border": ("it pads with copies of the border, not with zeros.", _framed("replicate")),
        "one side": ("it puts all the padding at the bottom and the right.", _one_sided),
        "first channel": (
            "it looks at the first channel only.",
            lambda x, weight, bias, *rest: F.conv2d(x[:, :1], weight[:, :1], bias, *rest),
        ),
        "channels exchanged": (
            "where there are as many filters as channels, it exchanges the two.",
            _exchanged,
        ),
        "bias": (
            "it forgets the bias.",
            lambda x, weight, bias, *rest: F.conv2d(x, weight, None, *rest),
        ),
        "sign": (
            "it cuts off negative results, as if a ReLU were part of it.",
            lambda *inputs: F.conv2d(*inputs).relu(),
        ),
    },
    mistakes=[
        Mistake(
            "only the shape",
            "The test looks at the shape only, or asserts nothing; every bug here has the right shape. Compare values.",
            lambda conv2d: _try(conv2d, stride=2, padding=1, shape_only=True),
        ),
        Mistake(
            "kernel of ones",
            "A kernel of ones looks the same from all sides: neither a flip nor exchanged channels can be seen. Use random numbers.",
            lambda conv2d: _try(conv2d, stride=2, padding=1, ones=True, filters=2),
        ),
        Mistake(
            "no stride, no padding",
            "Stride 1 and padding 0 are tested well. Whatever goes wrong with a stride or with padding stays unseen.",
            lambda conv2d: _try(conv2d, filters=2),
        ),
        Mistake(
            "plain, and never as many filters as channels",
            "Only stride 1 and padding 0 are tried, and never as many filters as channels. What needs those stays unseen.",
            lambda conv2d: _try(conv2d),
        ),
        Mistake(
            "one channel",
            "With one channel nothing can go wrong between channels. Use several, and as many filters once.",
            lambda conv2d: _try(conv2d, stride=2, padding=1, channels=1),
        ),
        Mistake(
            "never as many filters as channels",
            "Nearly all are caught. One bug shows only where there are as many filters as channels: add such a case.",
            lambda conv2d: _try(conv2d, stride=2, padding=1),
        ),
        Mistake(
            "bias of zeros",
            "A bias of zeros hides a bias that is forgotten. Use numbers that show.",
            lambda conv2d: _try(conv2d, stride=2, padding=1, filters=2, bias=False),
        ),
    ],
    hints=(
        "Draw random x, weight and bias, and compare with F.conv2d(x, weight, bias, stride, padding).",
        "Then vary: stride 2 with padding 1, several channels, once as many filters as channels, a bias that is not 0.",
        "for channels, filters, stride, padding in [(3, 4, 1, 0), (2, 2, 2, 1)]: compare on random tensors",
    ),
    passed="This is how torch tests its own layers: a table of shapes, and a slower implementation to compare with.",
)
