"""Picking elements by position and putting them back: views where an index allows, else copies."""

import numpy as np

from labkit.errors import NotSupported
from labkit.kernels.cuda.array import Array
from labkit.kernels.cuda.elementwise import add, lt, where
from labkit.kernels.cuda.embedding import index_outside
from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, kernel
from labkit.kernels.cuda.memory import copy, copy_, empty, zeros


@kernel("F3 I1 F3")
def _take(x, index, out):
    """Thread i owns out[a, n, b] = x[a, index[n], b]: one index and one element read, one written."""
    i = cuda.grid(1)
    if i < out.size:
        b = i % out.shape[2]
        n = i // out.shape[2] % out.shape[1]
        a = i // out.shape[2] // out.shape[1]
        out[a, n, b] = x[a, index[n], b]


@kernel("F3 I1 F3")
def _take_grad(g, index, gx):
    """Thread i owns g[a, n, b] and adds it to gx[a, index[n], b]: atomically, an index may come twice."""
    i = cuda.grid(1)
    if i < g.size:
        b = i % g.shape[2]
        n = i // g.shape[2] % g.shape[1]
        a = i // g.shape[2] // g.shape[1]
        cuda.atomic.add(gx, (a, index[n], b), g[a, n, b])


def _is_array(i):
    return isinstance(i, (Array, np.ndarray)) and i.ndim > 0


def _one_array(index):
    """The axis and the array of an index like [:, :, array]; None for a plain one; others are refused."""
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [i for i in parts if _is_array(i)]
    if not arrays:
        return None
    alone = len(arrays) == 1 and all(i == slice(None) for i in parts if not _is_array(i))
    if not alone or not isinstance(arrays[0], Array) or arrays[0].dtype == bool:
        raise NotSupported(
            "on cuda a tensor can be indexed by numbers, slices and one cuda tensor of integers. For other "
            "indices, move it to the CPU first: x.cpu()[...]."
        )
    return next(n for n, i in enumerate(parts) if _is_array(i)), arrays[0]


def _positions(index, size):
    """The index as one axis of places 0 to size - 1; negative ones count from the end."""
    places = where(lt(index, 0), add(index, size), index)
    outside = index_outside(places, size, None)
    if outside is not None:
        given = outside if outside >= 0 else outside - size
        raise IndexError(f"index {given} is out of bounds for an axis of size {size}")
    return places.reshape(index.size)


def getitem(x, index):  # a view for numbers and slices, new memory for an array
    found = _one_array(index)
    if found is None:
        return x[index]
    axis, array = found
    out = take(x, _positions(array, x.shape[axis]), axis)
    return out.reshape(*x.shape[:axis], *array.shape, *x.shape[axis + 1 :])


def getitem_grad(g, shape, index, repeats):  # repeats: can one element have been picked twice?
    gx, found = zeros(shape, g.dtype), _one_array(index)
    if found is None:
        copy_(gx[index], g)
        return gx
    axis, array = found
    rows = g.reshape(*shape[:axis], array.size, *shape[axis + 1 :])
    return take_grad(rows, shape, _positions(array, shape[axis]), axis)


def setitem_(x, index, value):
    if _one_array(index) is not None:
        raise NotSupported("on cuda a tensor can be written by numbers and slices; move it to the CPU first")
    copy_(x[index], value)


def _flat(x, axis):  # (a, n, b): what is before the axis, the axis, what is after it
    return x.reshape(int(np.prod(x.shape[:axis])), x.shape[axis], int(np.prod(x.shape[axis + 1 :])))


def take(x, index, axis):  # whole slices, index 1-D
    out = empty((*x.shape[:axis], index.size, *x.shape[axis + 1 :]), x.dtype)
    _take(blocks_for(out.size), THREADS, _flat(x, axis), index, _flat(out, axis))
    return out


def take_grad(g, shape, index, axis):
    gx = zeros(shape, g.dtype)
    _take_grad(blocks_for(g.size), THREADS, _flat(g, axis), index, _flat(gx, axis))
    return gx


@kernel("F4 I4 i F4")
def _gather(x, index, axis, out):
    """Thread i owns out[i], one index and one element. The axis is one of the four."""
    i = cuda.grid(1)
    if i < out.size:
        d = i % out.shape[3]
        c = i // out.shape[3] % out.shape[2]
        b = i // out.shape[3] // out.shape[2] % out.shape[1]
        a = i // out.shape[3] // out.shape[2] // out.shape[1]
        at = index[a, b, c, d]
        if axis == 0:
            out[a, b, c, d] = x[at, b, c, d]
        elif axis == 1:
            out[a, b, c, d] = x[a, at, c, d]
        elif axis == 2:
            out[a, b, c, d] = x[a, b, at, d]
        else:
            out[a, b, c, d] = x[a, b, c, at]


@kernel("F4 I4 i F4")
def _scatter_add(src, index, axis, out):
    """Thread i owns src[i] and adds it, atomically: an index may come twice."""
    i = cuda.grid(1)
    if i < src.size:
        d = i % src.shape[3]
        c = i // src.shape[3] % src.shape[2]
        b = i // src.shape[3] // src.shape[2] % src.shape[1]
        a = i // src.shape[3] // src.shape[2] // src.shape[1]
        at = index[a, b, c, d]
        if axis == 0:
            cuda.atomic.add(out, (at, b, c, d), src[a, b, c, d])
        elif axis == 1:
            cuda.atomic.add(out, (a, at, c, d), src[a, b, c, d])
        elif axis == 2:
            cuda.atomic.add(out, (a, b, at, d), src[a, b, c, d])
        else:
            cuda.atomic.add(out, (a, b, c, at), src[a, b, c, d])


def _four(x):
    if x.ndim > 4:
        raise NotSupported(f"gather on cuda works on up to 4 axes, got shape {x.shape}; flatten some first")
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def gather(x, index, axis):  # out[i][j] = x[index[i][j]][j] for axis 0; index may be smaller than x
    out = empty(index.shape, x.dtype)
    _gather(blocks_for(out.size), THREADS, _four(x), _four(index), axis + 4 - x.ndim, _four(out))
    return out


def scatter_add(x, index, src, axis):
    out = copy(x)
    src = src.broadcast_to(index.shape)
    _scatter_add(blocks_for(src.size), THREADS, _four(src), _four(index), axis + 4 - x.ndim, _four(out))
    return out
