"""Picking elements by position and putting them back."""

import numpy as np


def getitem(x, index):  # a view for integers and slices, new memory for arrays
    parts = index if isinstance(index, tuple) else (index,)
    if all(isinstance(i, int) for i in parts):  # the dots make a 0-d view where NumPy would copy the number
        parts = (*parts, ...)
    return x[parts]


def getitem_grad(g, shape, index, repeats):  # repeats: can one element have been picked twice?
    gx = np.zeros(shape, g.dtype)
    if repeats:
        np.add.at(gx, index, g)
    else:
        gx[index] = g
    return gx


def setitem_(x, index, value):
    x[index] = value


def add_at_(x, index, value):
    np.add.at(x, index, value)


def take(x, index, axis):  # whole slices, index 1-D
    return np.take(x, index, axis)


def take_grad(g, shape, index, axis):
    gx = np.zeros(shape, g.dtype)
    np.add.at(gx, (slice(None),) * axis + (index,), g)
    return gx


def _places(
    index, axis
):  # index arrays that pick index[i, j, ...] along the axis and the own place elsewhere
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[axis] = index
    return tuple(grid)


def gather(x, index, axis):  # out[i][j] = x[index[i][j]][j] for axis 0; index may be smaller than x
    return x[_places(index, axis)]


def scatter(x, index, src, axis):  # the inverse: a copy of x with out[index[i][j]][j] = src[i][j]
    out = x.copy()
    out[_places(index, axis)] = src
    return out


def scatter_add(x, index, src, axis):
    out = x.copy()
    np.add.at(out, _places(index, axis), src)
    return out


def argsort(x, axis, descending):  # stable both ways; NaN counts as largest
    if not descending:
        return np.argsort(x, axis, kind="stable")
    order = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(order, axis)


def repeat_places(repeats):  # 0 repeats[0] times, 1 repeats[1] times, ...
    return np.repeat(np.arange(len(repeats)), repeats)


def nonzero(x):  # (how many, ndim)
    return np.argwhere(x)
