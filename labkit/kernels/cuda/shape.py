"""Views, which only change shape and strides, and rearrangements, which copy."""

import numpy as np

from labkit.kernels.cuda.elementwise import add
from labkit.kernels.cuda.index import scatter_add
from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, kernel
from labkit.kernels.cuda.memory import Array, arange, copy, copy_, empty, full, place, zeros


@kernel("i F4 F4")
def _flip(lines, x, out):
    """Thread i owns out[i] and reads the element on the other side of axis 2; `lines` is its size.

    2 elements move per thread.
    """
    i = cuda.grid(1)
    if i < out.size:
        a, b, c, d = place(i, out.shape)
        out[a, b, c, d] = x[a, b, lines - 1 - c, d]


@kernel("i i F4 F4")
def _triangle(diagonal, lower, x, out):
    """Thread i owns out[i]: the element of x on the kept side of the diagonal, 0 on the other.

    Reads one element or none, writes one.
    """
    i = cuda.grid(1)
    if i < out.size:
        a, b, c, d = place(i, out.shape)
        keep = d - c <= diagonal if lower else d - c >= diagonal
        out[a, b, c, d] = x[a, b, c, d] if keep else x.dtype.type(0)


def reshape(x, shape):
    return x.reshape(shape)


def permute(x, axes):
    return x.transpose(axes)


def broadcast_to(x, shape):
    return x.broadcast_to(shape)


def flip(x, axes):  # new memory
    for axis in axes:
        n = x.shape[axis]
        rows, columns = int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis + 1 :]))
        out = empty(x.shape, x.dtype)
        views = [a.reshape(1, rows, n, columns) for a in (x, out)]
        if out.size:
            _rows(_flip, (n,), views)
        x = out
    return x if axes else copy(x)


def _rows(k, numbers, views):  # one thread per element of the last of arrays with four axes
    k(blocks_for(views[-1].size), THREADS, *numbers, *views)


def concatenate(xs, axis):
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    out, start = empty(shape, xs[0].dtype), 0
    for x in xs:
        copy_(out[(slice(None),) * axis + (slice(start, start + x.shape[axis]),)], x)
        start += x.shape[axis]
    return out


def roll(x, shifts, axes):  # axes None: of the flat array
    if axes is None:
        return roll(x.reshape(x.size), (shifts,), (0,)).reshape(x.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        start, before = -shift % max(x.shape[axis], 1), (slice(None),) * axis
        x = concatenate([x[(*before, slice(start, None))], x[(*before, slice(0, start))]], axis)
    return x if axes else copy(x)


def diagonal(x, offset, axis1, axis2):  # a view; the diagonal is the last axis
    (n, m), (s, t) = ([of[axis1], of[axis2]] for of in (x.shape, x.strides))
    count = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
    start = (offset * t if offset >= 0 else -offset * s) if count else 0
    rest = [a for a in range(x.ndim) if a not in (axis1, axis2)]
    return x.view([*(x.shape[a] for a in rest), count], [*(x.strides[a] for a in rest), s + t], start)


def diagonal_grad(g, shape, offset, axis1, axis2):
    gx = zeros(shape, g.dtype)
    copy_(diagonal(gx, offset, axis1, axis2), g)
    return gx


def tril(x, diagonal):
    return _keep_side(x, diagonal, 1)


def triu(x, diagonal):
    return _keep_side(x, diagonal, 0)


def _keep_side(x, diagonal, lower):
    out = empty(x.shape, x.dtype)
    if out.size:
        _rows(_triangle, (diagonal, lower), [a.reshape(1, -1, *x.shape[-2:]) for a in (x, out)])
    return out


def _memory(x):  # all of the memory that x lives in, as a flat array
    owner = x if x.base is None else x.base
    return Array(x.buffer, x.dtype, (owner.size,), (x.itemsize,), 0, owner)


def room(x):  # how many elements that memory has
    return _memory(x).size


def offset(x):  # how many of them lie before x's first
    return x.offset // x.itemsize


def as_strided(x, shape, strides, offset):  # strides and offset count elements
    return _memory(x).view(shape, [s * x.itemsize for s in strides], offset * x.itemsize)


def add_strided_(memory, g, strides, offset):  # memory[offset + i strides[0] + j strides[1]] += g[i, j]
    places = full(g.shape, offset, np.int64)
    for axis, (n, stride) in enumerate(zip(g.shape, strides, strict=True)):
        places = add(places, arange(0, n * stride, stride).reshape((n,) + (1,) * (g.ndim - axis - 1)))
    added = scatter_add(memory, places.reshape(g.size), g.reshape(g.size), 0)
    copy_(memory, added)
