"""All windows of a row of numbers as a view with overlapping rows."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="Sliding windows",
    minutes=8,
    needs=("w01.slice",),
    cases=[
        Case("seven, three wide", lambda draw: {"x": draw.normal(7), "width": 3}),
        Case("every second element of a longer row", lambda draw: {"x": draw.strided(6), "width": 2}),
        Case("one window", lambda draw: {"x": draw.normal(5), "width": 5}),
        Case("windows of one", lambda draw: {"x": draw.normal(4), "width": 1}),
        Case("a single element", lambda draw: {"x": draw.normal(1), "width": 1}, extreme=True),
    ],
    oracle=lambda x, width: x.unfold(0, width, 1),
    memory="view",
    rules=Rules(forbids=("unfold",)),
    mistakes=[
        Mistake(
            "one short",
            "The last window is missing: n elements hold n - width + 1 windows.",
            lambda x, width: torch.as_strided(x, (len(x) - width, width), (x.stride(0), x.stride(0))),
        ),
        Mistake(
            "stride of 1",
            "The stride is written as 1; ask x for it, since x may be a slice itself.",
            lambda x, width: torch.as_strided(x, (len(x) - width + 1, width), (1, 1)),
        ),
        Mistake(
            "axes swapped",
            "The axes are swapped: one window per row.",
            lambda x, width: torch.as_strided(x, (width, len(x) - width + 1), (x.stride(0), x.stride(0))),
        ),
        Mistake(
            "no overlap",
            "The windows do not overlap: the next window starts one element later, not one window later.",
            lambda x, width: torch.as_strided(
                x, (len(x) // width, width), (width * x.stride(0), x.stride(0))
            ),
        ),
        Mistake(
            "copied",
            "Stacking, indexing and `clone` make new memory. `torch.as_strided` alone reads the memory of x again.",
            lambda x, width: torch.stack([x[i : i + width] for i in range(len(x) - width + 1)]),
        ),
        Mistake(
            "step right of 1",
            "One step right is written as 1: it too goes to the next element of x, x.stride(0) places on.",
            lambda x, width: torch.as_strided(x, (len(x) - width + 1, width), (x.stride(0), 1)),
        ),
        Mistake(
            "contiguous first",
            "`x.contiguous()` copies a row that is a slice. Leave x as it is and use its stride.",
            lambda x, width: torch.as_strided(x.contiguous(), (len(x) - width + 1, width), (1, 1)),
        ),
    ],
    hints=(
        "The same element appears in several windows, and is stored once. Which strides say that?",
        "One step down goes to the next window, one step right to the next element: both move by the same stride.",
        "torch.as_strided(x, (n - width + 1, width), (x.stride(0), x.stride(0)))",
    ),
    passed="A convolution is these windows times a kernel: week 5 builds it on this line.",
    equivalent=(
        Equivalent(
            before="step = x.stride(0)",
            after="step = x.stride(-1)",
            reason="x has one axis: the first is the last",
        ),
    ),
)
