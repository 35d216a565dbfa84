"""Views (the result shares memory where NumPy can) and rearrangements."""

import numpy as np

broadcast_to, roll = np.broadcast_to, np.roll


def reshape(x, shape):
    return x.reshape(shape)


def permute(x, axes):
    return x.transpose(axes)


def flip(x, axes):  # new memory
    return np.flip(x, axes).copy()


def concatenate(xs, axis):
    return np.concatenate(xs, axis)


def diagonal(x, offset, axis1, axis2):  # a view; the diagonal is the last axis
    view = x.diagonal(offset, axis1, axis2)
    view.flags.writeable = x.flags.writeable
    return view


def diagonal_grad(g, shape, offset, axis1, axis2):
    gx = np.zeros(shape, g.dtype)
    diagonal(gx, offset, axis1, axis2)[...] = g
    return gx


def tril(x, diagonal):
    return np.tril(x, diagonal)


def triu(x, diagonal):
    return np.triu(x, diagonal)


def _memory(x):  # all of the memory that x lives in, as a flat array
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x.reshape(-1) if x.flags.c_contiguous else x.T.reshape(-1)


def room(x):  # how many elements that memory has
    return _memory(x).nbytes // x.itemsize


def offset(x):  # how many of them lie before x's first
    return (x.__array_interface__["data"][0] - _memory(x).__array_interface__["data"][0]) // x.itemsize


def as_strided(x, shape, strides, offset):  # strides and offset count elements
    memory = _memory(x).view(x.dtype)
    return np.lib.stride_tricks.as_strided(memory[offset:], shape, [s * x.itemsize for s in strides])


def add_strided_(memory, g, strides, offset):  # memory[offset + i strides[0] + j strides[1]] += g[i, j]
    place = np.full(g.shape, offset)
    for axis, stride in enumerate(strides):
        place += (np.arange(g.shape[axis]) * stride).reshape((-1,) + (1,) * (g.ndim - axis - 1))
    np.add.at(memory, place, g)
