"""Slide one kernel over one image."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week05.shared import CONVOLUTIONS
from labkit.lazy import F


def _correlate(image, kernel):
    return F.conv2d(image[None, None], kernel[None, None])[0, 0]


exercise = Implement(
    title="Slide a kernel",
    minutes=8,
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
    rules=Rules(forbids=CONVOLUTIONS),
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
