"""Checking and completing axes and shapes, with errors that name them."""

import math
import operator
from collections.abc import Sequence

from labkit.errors import ShapeError

Pair = int | Sequence[int]  # a height and a width, or one number for both


def axis_of(name, dim, ndim, whose="the tensor"):
    """`dim` counted from the front; 0-d tensors count as having one axis."""
    n = ndim if ndim > 0 else 1
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"{name}(): dim must be a whole number, got {dim!r}")
    axis = dim.__index__()
    if not -n <= axis < n:
        count = f"{ndim} {'axis' if ndim == 1 else 'axes'}"
        raise IndexError(
            f"{name}(): dim {axis} does not exist: {whose} has {count}, so dim can be {-n} to {n - 1}"
        )
    return axis % n


def axes_of(name, dim, ndim):
    """The axes of a reduction as a sorted tuple; None or () means all."""
    if dim is None or (isinstance(dim, (tuple, list)) and len(dim) == 0):
        return tuple(range(ndim))
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    axes = sorted(axis_of(name, d, ndim) for d in dims)
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"{name}(): an axis is named twice in dim={tuple(dims)}")
    return tuple(axes) if ndim else ()


def sizes_of(sizes):
    """A shape given as `f(2, 3)`, `f((2, 3))` or `f([2, 3])`."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    try:
        return tuple(operator.index(n) for n in sizes)
    except TypeError:
        raise TypeError(
            f"sizes and axes must be whole numbers, got {sizes}. Divide with //, not /."
        ) from None


def fill_in(name, sizes, shape):
    """`sizes` with its one -1 replaced so that it holds as many elements as `shape`."""
    total, known = math.prod(shape), math.prod(n for n in sizes if n != -1)
    unknown = sum(n == -1 for n in sizes)
    if unknown > 1:
        raise ShapeError(f"{name}(): only one size can be -1, got {tuple(sizes)}")
    if unknown and known and total % known == 0:
        return tuple(total // known if n == -1 else n for n in sizes)
    if unknown or known != total:
        raise ShapeError(
            f"{name}(): shape {tuple(shape)} has {total} elements and does not fit into {tuple(sizes)}"
            + (f", which has {known}." if not unknown else f": {total} is not a multiple of {known}.")
        )
    return tuple(sizes)
