"""Table lookup by whole numbers."""

from typing import TYPE_CHECKING

from labkit.autograd import op
from labkit.errors import ShapeError, refuse

if TYPE_CHECKING:
    from labkit.tensor import Tensor


@op
def _embedding(k, index, w, *, padding_idx):
    """(...) (V, D) -> (..., D)"""
    check_index(k, "embedding", index, w.shape[0], "rows in the table")
    rows = w.shape[0]
    return k.embedding(w, index), lambda g: (None, k.embedding_grad(g, index, rows, padding_idx))


@op
def _one_hot(k, index, *, num_classes):
    """(...) -> (..., C), int64"""
    if num_classes == -1:
        if index.size == 0:
            raise ShapeError(
                f"one_hot: cannot guess num_classes from an empty input {tuple(index.shape)}; pass it"
            )
        num_classes = int(k.asarray(k.amax(index, tuple(range(index.ndim)), False))) + 1
    check_index(k, "one_hot", index, num_classes, "classes")
    return k.one_hot(index, num_classes), None


def check_index(k, function, index, size, what, ignore=None):
    """Raise IndexError for the first index that is not 0 <= index < size (or `ignore`)."""
    if index.dtype.kind not in "iu":
        raise TypeError(
            f"{function}: needs whole numbers as indices, got {index.dtype}; convert with .long()"
        )
    outside = k.index_outside(index, size, ignore)
    if outside is not None:
        raise IndexError(
            f"{function}: index {outside} is out of range: there are {size} {what}, 0 to {size - 1}"
        )


# composed


def embedding(
    input: "Tensor",
    weight: "Tensor",
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> "Tensor":
    """Row input[...] of the table weight (V, D); row padding_idx receives no gradient."""
    refuse("embedding", max_norm=max_norm, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    if weight.ndim != 2:
        raise ShapeError(f"embedding: the table must be (rows, size), got {tuple(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise IndexError(f"embedding: padding_idx {padding_idx} is outside of a table with {rows} rows")
        padding_idx %= rows
    return _embedding(input, weight, padding_idx=padding_idx)


def one_hot(input: "Tensor", num_classes: int = -1) -> "Tensor":
    """(...) -> (..., C): 1 where the class is, 0 elsewhere; -1 takes the largest class plus one."""
    return _one_hot(input, num_classes=num_classes)
