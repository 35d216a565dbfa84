"""Week 5: convolutional networks. Convolution, a network that trains, torch's own API, and the clinic."""


import numpy as np

from labkit.exercises.declare import (
    Case,
    Implement,
    Item,
    Mistake,
    Predict,
    Rules,
)
from labkit.lazy import F, torch

_CONVOLUTIONS = (
    *("conv1d", "conv2d", "conv3d", "convolution", "Conv1d", "Conv2d", "Conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "ConvTranspose2d", "conv2d_input", "conv2d_weight"),
    *("unfold", "fold", "Unfold", "Fold", "sliding_window_view", "correlate2d", "convolve2d"),
)
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
        "a": Item("28, kernel 3", _side(28, 3, 1, 0, 1)),
        "b": Item("28, kernel 3, padding 1", _side(28, 3, 1, 1, 1)),
        "c": Item("28, kernel 5, stride 2, padding 2", _side(28, 5, 2, 2, 1)),
        "d": Item("224, kernel 7, stride 2, padding 3", _side(224, 7, 2, 3, 1)),
        "e": Item("9, kernel 3, dilation 2", _side(9, 3, 1, 0, 2)),
        "f": Item("7, kernel 2, stride 2", _side(7, 2, 2, 0, 1)),
        "g": Item("12, kernel 3, padding 4, dilation 4", _side(12, 3, 1, 4, 4)),
        "h": Item("5, kernel 3, padding 2", _side(5, 3, 1, 2, 1)),
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
    rules=Rules(forbids=_CONVOLUTIONS),
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
    rules=Rules(forbids=_CONVOLUTIONS),
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
    rules=Rules(forbids=(*_CONVOLUTIONS, *_DERIVATIVES)),
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


def _cut_wrong(grads, x, weight, g):
    stride, padding = _geometry(x, weight, g)
    size = [n + 2 * padding for n in x.shape[2:]]
    padded = F.fold(weight.flatten(1).T @ g.flatten(2), size, weight.shape[2:], stride=stride)
    return padded[:, :, : x.shape[2], : x.shape[3]], *grads[1:]


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
        "a": Item("32 filters of 3x3 on 3 channels", _weights(lambda: _layer(3, 32, 3, bias=False))),
        "b": Item("with a bias", _weights(lambda: _layer(3, 32, 3))),
        "c": Item("64 filters of 3x3 on 32 channels", _weights(lambda: _layer(32, 64, 3, bias=False))),
        "d": Item("depthwise 3x3 on 32", _weights(lambda: _layer(32, 32, 3, groups=32, bias=False))),
        "e": Item(
            "depthwise, then 64 of 1x1",
            _weights(
                lambda: torch.nn.Sequential(
                    _layer(32, 32, 3, groups=32, bias=False), _layer(32, 64, 1, bias=False)
                )
            ),
        ),
        "f": Item("multiplications of a on 32x32", lambda: 864 * 30 * 30),
        "g": Item("the same map as a linear layer", lambda: 3 * 32 * 32 * 32 * 30 * 30),
        "h": Item("field of three 3x3", lambda: _receptive_field([(3, 1)] * 3)),
        "i": Item("field of 3x3, pool 2x2 stride 2, 3x3", lambda: _receptive_field([(3, 1), (2, 2), (3, 1)])),
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
