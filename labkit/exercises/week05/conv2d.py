"""Convolution as one product over all windows, without a loop."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week05.shared import CONVOLUTIONS, strided
from labkit.lazy import F, torch


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
        views = strided(F.pad(x, frame(padding)), weight.shape[2:], *steps)
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


exercise = Implement(
    title="conv2d, without a loop",
    minutes=10,
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
    rules=Rules(forbids=CONVOLUTIONS, loops=False),
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
