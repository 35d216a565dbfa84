"""Table lookup by whole numbers."""

from labkit.autograd import op
from labkit.errors import ShapeError, refuse


@op(functional=True)
def embedding(
    k, x, weight, *, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    """Row x[...] of the table weight: (...) (V, D) -> (..., D). Row padding_idx receives no gradient."""
    refuse("embedding", max_norm=max_norm, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    if weight.ndim != 2:
        raise ShapeError(f"embedding(): the table must be (rows, size), got {tuple(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise IndexError(f"embedding(): padding_idx {padding_idx} is outside of a table with {rows} rows")
    check_index(k, "embedding", x, rows, "rows in the table")
    return k.embedding(weight, x), lambda g: (None, k.embedding_grad(g, x, rows, padding_idx))


@op(functional=True)
def one_hot(k, x, *, num_classes=-1):
    """(...) -> (..., C): 1 where the class is, 0 elsewhere; -1 takes the largest class plus one."""
    if num_classes == -1:
        if x.size == 0:
            raise ShapeError(
                f"one_hot(): cannot guess num_classes from an empty input {tuple(x.shape)}; pass it"
            )
        num_classes = int(k.asarray(k.amax(x, tuple(range(x.ndim)), False))) + 1
    check_index(k, "one_hot", x, num_classes, "classes")
    return k.one_hot(x, num_classes), None


def check_index(k, function, index, size, what, ignore=None):
    """Raise IndexError for the first index that is not 0 <= index < size (or `ignore`)."""
    if index.dtype.kind not in "iu":
        raise TypeError(
            f"{function}(): needs whole numbers as indices, got {index.dtype}; convert with .long()"
        )
    outside = k.index_outside(index, size, ignore)
    if outside is not None:
        raise IndexError(
            f"{function}(): index {outside} is out of range: there are {size} {what}, 0 to {size - 1}"
        )
