"""Dropout: zero some elements at random, scale the others so that the mean stays."""

from labkit.autograd import op
from labkit.op_table import composed
from labkit.random import source
from labkit.tensor import in_place


@op
def _dropout(k, x, *, p, shape):
    """(...) -> (...): one draw per element of `shape`, which broadcasts to x."""
    keep = k.dropout_keep(shape, p, source(None))
    return k.dropout(x, keep, p), lambda g: k.dropout(g, keep, p)


# ---- composed ----


@composed(functional=True)
def dropout(input, p=0.5, training=True, inplace=False):
    """Zero each element with probability p, scale the rest by 1 / (1 - p); nothing if not training."""
    return _drop("dropout", input, p, training, inplace, tuple(input.shape))


@composed(functional=True)
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of (N, C, ...)."""
    return _drop("dropout2d", input, p, training, inplace, tuple(input.shape[:2]) + (1,) * (input.ndim - 2))


def _drop(function, input, p, training, inplace, shape):
    if not 0 <= p <= 1:
        raise ValueError(f"{function}(): p is a probability and must be between 0 and 1, got {p}")
    if not training or p == 0:
        return input
    return (in_place(_dropout) if inplace else _dropout)(input, p=p, shape=shape)
