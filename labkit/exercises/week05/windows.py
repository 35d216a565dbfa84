"""All windows of a batch of images at once, as a view."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week05.shared import CONVOLUTIONS, WINDOWS, strided, unfolded
from labkit.lazy import torch


def _view(x, kernel, stride, dilation, steps):
    """A view of the right shape, with any strides."""
    return torch.as_strided(x, unfolded(x, kernel, stride, dilation).shape, steps)


def _contiguous_windows(x, kernel, stride, dilation):
    _, c, h, w = x.shape
    return _view(x, kernel, stride, dilation, (c * h * w, h * w, stride * w, stride, dilation * w, dilation))


def _windows_case(make, kernel, stride, dilation):
    return lambda draw: {"x": make(draw), "kernel": kernel, "stride": stride, "dilation": dilation}


exercise = Implement(
    title="All windows at once",
    minutes=10,
    needs=("w01.windows", "w05.sizes"),
    cases=[
        Case("kernel 3 by 2", _windows_case(lambda draw: draw.normal(2, 3, 7, 5), (3, 2), 1, 1)),
        Case("stride 2", _windows_case(lambda draw: draw.normal(2, 3, 6, 9), (2, 3), 2, 1)),
        Case("dilation 2", _windows_case(lambda draw: draw.normal(2, 3, 8, 7), (3, 2), 1, 2)),
        Case("stride 3, dilation 2", _windows_case(lambda draw: draw.normal(1, 2, 9, 10), (2, 3), 3, 2)),
        Case("transposed", _windows_case(lambda draw: draw.transposed(2, 3, 5, 7), (2, 3), 2, 1)),
        Case("one window", _windows_case(lambda draw: draw.normal(1, 1, 3, 4), (3, 4), 1, 1), extreme=True),
    ],
    oracle=unfolded,
    grads=("x",),
    memory="view",
    rules=Rules(forbids=(*CONVOLUTIONS, *WINDOWS)),
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
            vary(strided, offset=0),
        ),
        Mistake(
            "too many windows for the dilation",
            "There are more windows than fit: `output_size` has to be told the dilation as well.",
            vary(strided, count=lambda n, k, stride, dilation: (n - k) // stride + 1),
        ),
        Mistake(
            "dilation as padding",
            "The fourth argument of `output_size` is the padding, and it got the dilation. Write `dilation=dilation`.",
            vary(strided, count=lambda n, k, stride, dilation: (n + 2 * dilation - k) // stride + 1),
        ),
        Mistake(
            "kernel first",
            "The places inside a window come before the windows: the order asked for is (N, C, OH, OW, KH, KW).",
            lambda x, kernel, stride, dilation: unfolded(x, kernel, stride, dilation).permute(
                0, 1, 4, 5, 2, 3
            ),
        ),
        Mistake(
            "copied",
            "The values are right, but they were copied: six strides describe the same storage.",
            lambda x, kernel, stride, dilation: unfolded(x, kernel, stride, dilation).clone(),
        ),
    ],
    hints=(
        "Six axes, six strides. For each, how far in storage is one step along it?",
        "Strides: image, channel, stride * down, stride * right, dilation * down, dilation * right, with down = x.stride(2).",
        "torch.as_strided(x, (n, c, oh, ow, kh, kw), (sn, sc, stride * sh, stride * sw, dilation * sh, dilation * sw))",
    ),
    passed="A 3 by 3 kernel makes this view nine times as large as the image, and it takes not one byte.",
)
