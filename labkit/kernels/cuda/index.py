"""Picking elements by position and putting them back.

An index is split in two: its numbers and slices make a view, and its arrays of positions, joined to one, pick
whole rows of that view. A mask is the list of the places where it is true.
"""

import math
from typing import Any

import numpy as np

from labkit.errors import NotSupported
from labkit.kernels.cuda.array import Array
from labkit.kernels.cuda.elementwise import add, floor_divide, lt, mul, remainder, where
from labkit.kernels.cuda.embedding import index_outside
from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, function_of_thread, kernel
from labkit.kernels.cuda.memory import (
    asarray,
    cast,
    copy,
    copy_,
    empty,
    full,
    place,
    upload,
    zeros,
)
from labkit.kernels.cuda.reduce import cumsum
from labkit.kernels.cuda.sort import argsort as argsort

# ---- kernels ----


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
def _add_back(g, index, gx):
    """Thread i owns g[a, n, b] and adds it to gx[a, index[n], b]: atomically, an index may come twice.

    Reads an index and an element, changes one.
    """
    i = cuda.grid(1)
    if i < g.size:
        b = i % g.shape[2]
        n = i // g.shape[2] % g.shape[1]
        a = i // g.shape[2] // g.shape[1]
        cuda.atomic.add(gx, (a, index[n], b), g[a, n, b])


@function_of_thread
def _moved(a, b, c, d, axis, at):
    """Element (a, b, c, d), but at the place `at` along the axis"""
    return at if axis == 0 else a, at if axis == 1 else b, at if axis == 2 else c, at if axis == 3 else d


@kernel("F4 I4 i F4")
def _gather(x, index, axis, out):
    """Thread i owns out[i]: reads one index and the element that it points to, writes one."""
    i = cuda.grid(1)
    if i < out.size:
        a, b, c, d = place(i, out.shape)
        e, f, g, h = _moved(a, b, c, d, axis, index[a, b, c, d])
        out[a, b, c, d] = x[e, f, g, h]


@kernel("F4 I4 i F4")
def _scatter_add(src, index, axis, out):
    """Thread i owns src[i] and adds it where its index points to, atomically: an index may come twice.

    Reads one index and one element, changes one.
    """
    i = cuda.grid(1)
    if i < src.size:
        a, b, c, d = place(i, src.shape)
        cuda.atomic.add(out, _moved(a, b, c, d, axis, index[a, b, c, d]), src[a, b, c, d])


@kernel("I4 i I4")
def _last_writer(index, axis, writer):
    """Thread i owns index[i], and leaves its number where the index points to if it is the largest there.

    Two threads that wrote values to one place would race; with this, the last one in order wins every time.
    Reads one index, changes one number, atomically.
    """
    i = cuda.grid(1)
    if i < index.size:
        a, b, c, d = place(i, index.shape)
        cuda.atomic.max(writer, _moved(a, b, c, d, axis, index[a, b, c, d]), i)


@kernel("F4 I4 F4")
def _write(src, writer, out):
    """Thread i owns out[i] and fetches the value of its last writer, if it has one (-1: none).

    Reads one number, and one element where something is written.
    """
    i = cuda.grid(1)
    if i < out.size:
        a, b, c, d = place(i, out.shape)
        if writer[a, b, c, d] >= 0:
            e, f, g, h = place(writer[a, b, c, d], src.shape)
            out[a, b, c, d] = src[e, f, g, h]


@kernel("I1 I1")
def _list_places(count, out):
    """Thread i owns place i. Where the running count goes up, the element counts, and i is next in the list.

    Reads 2 counts, writes at most one place.
    """
    i = cuda.grid(1)
    if i < count.size:
        before = count[i - 1] if i > 0 else 0
        if count[i] > before:
            out[before] = i


@kernel("I1 I1")
def _owner(ends, out):
    """Thread i owns out[i], the first group that ends after i, found by bisection: log2(groups) reads."""
    i = cuda.grid(1)
    if i < out.size:
        low, high = 0, ends.size - 1
        while low < high:
            middle = (low + high) // 2
            if ends[middle] > i:
                high = middle
            else:
                low = middle + 1
        out[i] = low


# ---- whole slices, and elements along an axis ----


def _flat(x, axis):  # (a, n, b): what is before the axis, the axis, what is after it
    return x.reshape(math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))


def take(x, index, axis):  # whole slices, index 1-D
    out = empty((*x.shape[:axis], index.size, *x.shape[axis + 1 :]), x.dtype)
    _take(blocks_for(out.size), THREADS, _flat(x, axis), index, _flat(out, axis))
    return out


def take_grad(g, shape, index, axis):
    gx = zeros(shape, g.dtype)
    _add_back(blocks_for(g.size), THREADS, _flat(g, axis), index, _flat(gx, axis))
    return gx


def _four(x):
    if x.ndim > 4:
        raise NotSupported(
            f"on cuda gather() and scatter() work on up to 4 axes, got shape {x.shape}; flatten some first"
        )
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def gather(x, index, axis):  # out[i][j] = x[index[i][j]][j] for axis 0; index may be smaller than x
    out = empty(index.shape, x.dtype)
    _gather(blocks_for(out.size), THREADS, _four(x), _four(index), axis + 4 - x.ndim, _four(out))
    return out


def scatter(x, index, src, axis):  # a copy of x with out[index[i][j]][j] = src[i][j]; of several, the last
    out, writer = copy(x), full(x.shape, -1, np.int64)
    src = copy(src.broadcast_to(index.shape))
    _last_writer(blocks_for(index.size), THREADS, _four(index), axis + 4 - x.ndim, _four(writer))
    _write(blocks_for(out.size), THREADS, _four(src), _four(writer), _four(out))
    return out


def scatter_add(x, index, src, axis):
    wide = x.dtype if x.dtype.itemsize >= 4 else np.int32  # hardware adds 4 or 8 bytes at a time
    out, src = cast(x, wide), cast(src, wide).broadcast_to(index.shape)
    _scatter_add(blocks_for(src.size), THREADS, _four(src), _four(index), axis + 4 - x.ndim, _four(out))
    return out if wide == x.dtype else cast(out, x.dtype)


# ---- any index ----


def _is_array(i):
    return isinstance(i, Array) and i.ndim > 0


def _is_mask(i):
    return _is_array(i) and i.dtype == bool


def _parts(index, shape):
    """The index with one entry per axis: numbers, slices, arrays of positions; and None for new axes."""
    given = list(index) if isinstance(index, tuple) else [index]
    given = [upload(i) if isinstance(i, np.ndarray) and i.ndim else i for i in given]
    if any(isinstance(i, bool) or (hasattr(i, "dtype") and i.ndim == 0 and i.dtype == bool) for i in given):
        raise NotSupported("on cuda a tensor cannot be indexed by a single bool")
    if not any(i is Ellipsis for i in given):
        given.append(Ellipsis)
    named = [i for i in given if i is not None and i is not Ellipsis]
    left = len(shape) - len(named) - sum(i.ndim - 1 for i in named if _is_mask(i))  # axes that dots stand for
    if left < 0:
        raise IndexError(
            f"too many indices: the array has {len(shape)} axes, {len(shape) - left} were indexed"
        )
    parts: list[Any] = []
    for i in given:
        axis = len([part for part in parts if part is not None])
        if i is Ellipsis:
            parts += [slice(None)] * left
        elif _is_mask(i):
            if i.shape != shape[axis : axis + i.ndim]:
                raise IndexError(f"a mask of shape {i.shape} does not fit axis {axis} on of shape {shape}")
            places = nonzero(i)
            parts += [places[:, n] for n in range(i.ndim)]
        else:
            parts.append(_part(i))
    return parts


def _part(i):
    if _is_array(i) and i.dtype.kind not in "iu":
        raise IndexError(f"an index holds integers or bools, not {i.dtype}")
    return int(i) if hasattr(i, "dtype") and i.ndim == 0 else i


def _picked(x, index):
    """What the arrays of an index pick from: (view, axes of it that have an array, the arrays, spot).

    `spot` is how many other axes come before those of the arrays in the result: as many as before the first
    array, or none if something stands between arrays. As in NumPy, a number beside an array counts as one.
    """
    parts = _parts(index, x.shape)
    fancy = [n for n, i in enumerate(parts) if _is_array(i) or isinstance(i, int)]
    view = x[tuple(slice(None) if _is_array(i) else i for i in parts)]
    stays = [i for i in parts if not isinstance(i, int)]  # one per axis of the view
    axes = [n for n, i in enumerate(stays) if _is_array(i)]
    spot = fancy[0] if fancy and fancy[-1] - fancy[0] < len(fancy) else 0
    return view, axes, [stays[n] for n in axes], spot


def _rows(view, axes, arrays):
    """The view as (what the arrays choose from, the rest), and the chosen rows as one array of positions."""
    rest = [n for n in range(view.ndim) if n not in axes]
    shape = np.broadcast_shapes(*(i.shape for i in arrays))
    places = full(shape, 0, np.int64)
    for axis, array in zip(axes, arrays, strict=True):
        size = view.shape[axis]
        places = add(mul(places, size), _positions(cast(array, np.int64), size))
    turned = view.transpose((*axes, *rest))
    count, width = (math.prod(view.shape[n] for n in of) for of in (axes, rest))
    return turned, (count, width), places


def _positions(index, size):
    """The index as places 0 to size - 1; negative ones count from the end."""
    places = where(lt(index, 0), add(index, size), index)
    outside = index_outside(places, size, None)
    if outside is not None:
        given = outside if outside >= 0 else outside - size
        raise IndexError(f"index {given} is out of bounds for an axis of size {size}")
    return places


def _arrays_first(x, spot, count):  # the axes of the arrays to the front; `_arrays_back` is the reverse
    return x.transpose((*range(spot, spot + count), *range(spot), *range(spot + count, x.ndim)))


def _arrays_back(x, spot, count):
    return x.transpose((*range(count, count + spot), *range(count), *range(count + spot, x.ndim)))


def getitem(x, index):  # a view for numbers and slices, new memory for arrays
    view, axes, arrays, spot = _picked(x, index)
    if not arrays:
        return view
    if len(axes) == 1 and spot == axes[0]:  # whole slices along one axis: no need to turn it to the front
        places = _positions(cast(arrays[0], np.int64), view.shape[spot])
        out = take(view, places.reshape(places.size), spot)
        return out.reshape(*view.shape[:spot], *places.shape, *view.shape[spot + 1 :])
    turned, shape, places = _rows(view, axes, arrays)
    out = take(turned.reshape(shape), places.reshape(places.size), 0)
    return _arrays_back(out.reshape(*places.shape, *turned.shape[len(axes) :]), spot, places.ndim)


def _with_rows(x, index, value, put):
    """x[index] becomes put(rows, positions, value): rows (count, width), value one row per position."""
    view, axes, arrays, spot = _picked(x, index)
    turned, shape, places = _rows(view, axes, arrays)
    rest = turned.shape[len(axes) :]
    value = value.broadcast_to((*rest[:spot], *places.shape, *rest[spot:]))
    value = _arrays_first(value, spot, places.ndim).reshape(places.size, shape[1])
    index = places.reshape(places.size, 1).broadcast_to(value.shape)
    copy_(turned, put(turned.reshape(shape), index, value, 0).reshape(turned.shape))


def getitem_grad(g, shape, index, repeats):  # repeats: can one element have been picked twice?
    gx = zeros(shape, g.dtype)
    if _picked(gx, index)[2]:
        _with_rows(gx, index, g, scatter_add)
    else:
        copy_(gx[index], g)
    return gx


def setitem_(x, index, value):
    if not _picked(x, index)[2]:
        copy_(getitem(x, index), value)
        return
    value = upload(value) if isinstance(value, np.ndarray) else value
    _with_rows(x, index, asarray(value, x.dtype), scatter)


def add_at_(x, index, value):
    _with_rows(x, index, asarray(value, x.dtype), scatter_add)


# ---- lists of places ----


def nonzero(x):  # (how many, ndim)
    """Waits for the device: how many there are decides the shape. One block counts, along the flat array."""
    count = cumsum(cast(x if x.dtype == bool else cast(x, np.bool_), np.int64).reshape(x.size), 0)
    places = empty((int(count[-1]) if x.size else 0,), np.int64)
    _list_places(blocks_for(x.size), THREADS, count, places)
    out = empty((places.size, x.ndim), np.int64)
    for axis in reversed(range(x.ndim)):
        copy_(out[:, axis], remainder(places, x.shape[axis]))
        places = floor_divide(places, x.shape[axis])
    return out


def repeat_places(repeats):  # 0 repeats[0] times, 1 repeats[1] times, ...
    ends = cumsum(repeats, 0)
    out = empty((int(ends[-1]) if repeats.size else 0,), np.int64)
    _owner(blocks_for(out.size), THREADS, ends, out)
    return out
