"""Windows as columns, and columns added back to an image."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week05.shared import CONVOLUTIONS, WINDOWS, overwritten, scatter
from labkit.lazy import F, torch


def _fold(columns, size, kernel, stride, dilation):
    return F.fold(columns, size, kernel, dilation=dilation, stride=stride)


def _fold_case(make, size, kernel, stride, dilation):
    return lambda draw: {
        "columns": make(draw), "size": size, "kernel": kernel, "stride": stride, "dilation": dilation,
    }  # fmt: skip


def _put_add(x, place, part):
    x[place] += part
    return x


def _put_to_the_end(x, place, part):
    return _put_add(x, tuple(slice(axis.start, None, axis.step) for axis in place), part)


def _averaged(columns, size, kernel, stride, dilation):
    counts = _fold(torch.ones_like(columns), size, kernel, stride, dilation)
    return _fold(columns, size, kernel, stride, dilation) / counts.clamp(min=1)


def _without_last(columns, kernel):
    parts = columns.unflatten(1, (-1, *kernel)).clone()
    parts[:, :, -1] = 0
    parts[:, :, :, -1] = 0
    return parts.flatten(1, 3)


exercise = Implement(
    title="And back: col2im",
    minutes=12,
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
    rules=Rules(forbids=(*CONVOLUTIONS, *WINDOWS)),
    mistakes=[
        Mistake(
            "overwritten",
            "A pixel that lies in several windows keeps only its last share: add (`+=`), do not write over it (`=`).",
            overwritten,
        ),
        Mistake(
            "averaged",
            "The shares of a pixel are averaged. On the way back they add up.",
            _averaged,
        ),
        Mistake(
            "stride ignored",
            "Neighboring windows are put one pixel apart; they lie `stride` pixels apart: give the slice a step.",
            vary(scatter, put=_put_add, step=1),
        ),
        Mistake(
            "dilation ignored",
            "The elements of the kernel are put next to each other; place (i, j) begins at (i * dilation, j * dilation).",
            vary(scatter, put=_put_add, gap=1),
        ),
        Mistake(
            "slice to the end",
            "The slice runs to the end of the image, past the last window. It ends after OH steps: `top + oh * stride`.",
            vary(scatter, put=_put_to_the_end),
        ),
        Mistake(
            "stride and dilation exchanged",
            "Stride and dilation have changed places: place i begins at `i * dilation`, and windows lie `stride` apart.",
            lambda columns, size, kernel, stride, dilation: scatter(
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
