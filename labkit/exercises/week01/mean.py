"""A mean over any axes, kept or dropped."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="A mean over several axes",
    minutes=6,
    needs=("w01.shape_quiz",),
    cases=[
        Case("one axis", lambda draw: {"x": draw.normal(3, 4), "dims": (1,), "keepdim": False}),
        Case("two axes, kept", lambda draw: {"x": draw.normal(2, 3, 5), "dims": (0, 2), "keepdim": True}),
        Case(
            "counted from the end",
            lambda draw: {"x": draw.normal(4, 2, 3), "dims": (-1, -2), "keepdim": False},
        ),
        Case("not contiguous", lambda draw: {"x": draw.transposed(5, 1, 2), "dims": (0,), "keepdim": True}),
        Case("every axis", lambda draw: {"x": draw.strided(3, 2), "dims": (0, 1), "keepdim": False}),
    ],
    oracle=lambda x, dims, keepdim: torch.mean(x, dims, keepdim=keepdim),
    grads=("x",),
    rules=Rules(forbids=("mean", "nanmean", "avg_pool1d", "std_mean", "var_mean")),
    mistakes=[
        Mistake(
            "first axis counted",
            "The sum is divided by the size of one axis; there are as many terms as the product of all reduced sizes.",
            lambda x, dims, keepdim: x.sum(dims, keepdim=keepdim) / x.shape[dims[0]],
        ),
        Mistake(
            "sizes added",
            "The sizes of the reduced axes are added; multiply them.",
            lambda x, dims, keepdim: x.sum(dims, keepdim=keepdim) / sum(x.shape[d] for d in dims),
        ),
        Mistake(
            "everything counted",
            "The sum is divided by all elements of x: count only those that went into one sum.",
            lambda x, dims, keepdim: x.sum(dims, keepdim=keepdim) / x.numel(),
        ),
        Mistake(
            "keepdim ignored",
            "keepdim is ignored: pass it on to sum.",
            lambda x, dims, keepdim: torch.mean(x, dims),
        ),
        Mistake(
            "sum",
            "This is the sum; divide by how many terms went into it.",
            lambda x, dims, keepdim: x.sum(dims, keepdim=keepdim),
        ),
        Mistake(
            "always kept",
            "The axes are kept whatever keepdim says: pass it on to sum.",
            lambda x, dims, keepdim: torch.mean(x, dims, keepdim=True),
        ),
    ],
    hints=(
        "`x.sum(dims, keepdim=keepdim)` takes several axes. How many numbers went into each result?",
        "The count is the product of x.shape[d] for d in dims; that works for negative d as well.",
        "return x.sum(dims, keepdim=keepdim) / math.prod(x.shape[d] for d in dims)",
    ),
    passed="Layer norm, batch norm and group norm differ in nothing but `dims`.",
)
