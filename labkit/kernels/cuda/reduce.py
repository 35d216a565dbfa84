"""Many elements to one along axes, and softmax along one axis.

The array is seen as rows: what is kept, then what is reduced. One block owns one row: its threads walk the
row with steps of THREADS (neighbors read neighbors), then combine what they have in a tree.
"""

import math

import numpy as np

from labkit import cuda as device
from labkit.kernels.cuda import scalar
from labkit.kernels.cuda.array import reshaped_strides
from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, function_of_thread, kernel
from labkit.kernels.cuda.memory import cast, copy, empty, full
from labkit.kernels.cuda.tree import block_max, block_sum

LANES = 4 if device.SIMULATED else 32  # columns of a block in `_sum_columns`
LINES = 2 if device.SIMULATED else 8  # rows that it reads at a time


def _reduction(combine, types="f F4 F2"):
    """The kernel that combines each row to one element; `start` changes nothing when combined."""
    f = function_of_thread(combine)

    @kernel(types, f"reduce.{combine.__name__.strip('_')}")
    def reduce_rows(start, x, out):
        """Block k owns out[i, j]; its row is x[i, j, :, :]. Shared: one element per thread.

        Reads every element once, writes one per block. Two axes may make up a row, because the reduced axes
        need not lie side by side in memory.
        """
        partial = cuda.shared.array(THREADS, x.dtype)
        i, j, t = cuda.blockIdx.x // x.shape[1], cuda.blockIdx.x % x.shape[1], cuda.threadIdx.x
        columns = x.shape[3]
        value = start
        for r in range(t, x.shape[2] * columns, THREADS):
            value = f(value, x[i, j, r // columns, r % columns])
        partial[t] = value
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:
            if t < half:
                partial[t] = f(partial[t], partial[t + half])
            cuda.syncthreads()
            half //= 2
        if t == 0:
            out[i, j] = partial[0]

    return reduce_rows


@_reduction
def _sum(x, y):
    return x + y


@_reduction
def _prod(x, y):
    return x * y


@_reduction
def _amax(x, y):
    return scalar.larger(x, y)


@_reduction
def _amin(x, y):
    return scalar.smaller(x, y)


@kernel("F3 F2")
def _sum_columns(x, out):
    """out[a, c] = sum of x[a, :, c]. A block owns LANES columns, thread (ty, tx) every LINES-th row of one.

    Neighbors read neighbors; with a block per output they would read a column with gaps of a whole row.
    Shared: one sum per thread, added up by the first line. Reads every element once.
    """
    partial = cuda.shared.array((LINES, LANES), x.dtype)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    a, c = cuda.blockIdx.x, cuda.blockIdx.y * LANES + tx
    total = x.dtype.type(0)
    if c < x.shape[2]:
        for r in range(ty, x.shape[1], LINES):
            total += x[a, r, c]
    partial[ty, tx] = total
    cuda.syncthreads()
    if ty == 0 and c < x.shape[2]:
        for line in range(1, LINES):
            total += partial[line, tx]
        out[a, c] = total


@kernel("I2 F2 i")
def _argmax(out, x, sign):
    """Block i owns out[i, 0], the place of the largest element of row i (of the smallest, if sign is -1).

    Shared: a value and its place per thread. Of equal values the first wins; nan counts as largest.
    """
    values = cuda.shared.array(THREADS, x.dtype)
    places = cuda.shared.array(THREADS, out.dtype)
    i, t = cuda.blockIdx.x, cuda.threadIdx.x
    values[t] = x[i, min(t, x.shape[1] - 1)]
    places[t] = min(t, x.shape[1] - 1)
    for r in range(t + THREADS, x.shape[1], THREADS):
        if _beats(x[i, r], values[t], sign):
            values[t] = x[i, r]
            places[t] = r
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            a, b = values[t], values[t + half]
            if _beats(b, a, sign) or (not _beats(a, b, sign) and places[t + half] < places[t]):
                values[t] = b
                places[t] = places[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[i, 0] = places[0]


@function_of_thread
def _beats(x, y, sign):
    """Does x win over y? nan wins over numbers."""
    if x != x or y != y:
        return x != x and y == y
    return x > y if sign > 0 else x < y


@kernel("F2 F2")
def _softmax(x, out):
    """Block i owns row i: three walks over it (largest, sum of exponentials, write). Shared: one tree.

    Reads a row three times (twice from cache, if it fits), writes it once.
    """
    partial = cuda.shared.array(THREADS, x.dtype)
    i, t = cuda.blockIdx.x, cuda.threadIdx.x
    top, total = _shift(x, partial)
    for c in range(t, x.shape[1], THREADS):
        out[i, c] = scalar.exp(x[i, c] - top) / total


@kernel("F2 F2")
def _log_softmax(x, out):
    """Block i owns row i, as in softmax; x - top - log(total) never takes the logarithm of a tiny number."""
    partial = cuda.shared.array(THREADS, x.dtype)
    i, t = cuda.blockIdx.x, cuda.threadIdx.x
    top, total = _shift(x, partial)
    for c in range(t, x.shape[1], THREADS):
        out[i, c] = x[i, c] - top - scalar.log(total)


@function_of_thread
def _shift(x, partial):
    """The largest element of the block's row (0 if it is infinite), and the sum of exp(x - largest)."""
    T = x.dtype.type
    i, t = cuda.blockIdx.x, cuda.threadIdx.x
    top = T(-math.inf)
    for c in range(t, x.shape[1], THREADS):
        top = scalar.larger(top, x[i, c])
    top = block_max(partial, top)
    if top - top != T(0):  # inf or nan: inf - inf would be nan
        top = T(0)
    total = T(0)
    for c in range(t, x.shape[1], THREADS):
        total += scalar.exp(x[i, c] - top)
    return top, block_sum(partial, total)


@kernel("F2 F2 F2")
def _softmax_grad(g, y, out):
    """Block i owns row i: y (g - sum(g y)). Two walks, one tree; reads 4 elements per output."""
    partial = cuda.shared.array(THREADS, g.dtype)
    i, t = cuda.blockIdx.x, cuda.threadIdx.x
    dot = g.dtype.type(0)
    for c in range(t, g.shape[1], THREADS):
        dot += g[i, c] * y[i, c]
    dot = block_sum(partial, dot)
    for c in range(t, g.shape[1], THREADS):
        out[i, c] = y[i, c] * (g[i, c] - dot)


@kernel("F2 F2 F2")
def _log_softmax_grad(g, y, out):
    """Block i owns row i: g - exp(y) sum(g). Two walks, one tree; reads 3 elements per output."""
    partial = cuda.shared.array(THREADS, g.dtype)
    i, t = cuda.blockIdx.x, cuda.threadIdx.x
    total = g.dtype.type(0)
    for c in range(t, g.shape[1], THREADS):
        total += g[i, c]
    total = block_sum(partial, total)
    for c in range(t, g.shape[1], THREADS):
        out[i, c] = g[i, c] - scalar.exp(y[i, c]) * total


# ---- launchers ----


def _reduce(k, start, x, axes, keepdim):
    """Move the reduced axes to the end, and give each remaining element a block."""
    axes = tuple(range(x.ndim)) if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
    kept = [a for a in range(x.ndim) if a not in axes]
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    if x.size == 0:
        out = full(shape, start, x.dtype)
    else:
        out = empty(shape, x.dtype)
        rows = _as_rows(x.transpose((*kept, *axes)), len(kept))
        k(out.size, THREADS, x.dtype.type(start), rows, out.reshape(rows.shape[:2]))
    return out if keepdim else out.reshape([x.shape[a] for a in kept])


def _as_rows(x, kept):
    """x with the kept axes as two and the reduced ones as two; a copy only if no such view exists."""
    for i in range(kept + 1):
        for j in range(kept, x.ndim + 1):
            groups = x.shape[:i], x.shape[i:kept], x.shape[kept:j], x.shape[j:]
            shape = tuple(math.prod(group) for group in groups)
            if reshaped_strides(x, shape) is not None:
                return x.reshape(shape)
    return x.reshape(shape)


def sum(x, axes, keepdim):
    columns = _as_columns(x, axes)
    if columns is None:
        return _reduce(_sum, 0, x, axes, keepdim)
    out = empty([1 if a in axes else n for a, n in enumerate(x.shape)], x.dtype)
    A, _, C = columns.shape
    _sum_columns((A, blocks_for(C, LANES)), (LANES, LINES), columns, out.reshape(A, C))
    return out if keepdim else out.reshape([n for a, n in enumerate(x.shape) if a not in axes])


def _as_columns(x, axes):
    """x as (A, R, C) if R are the reduced axes and the elements of C lie side by side; else None."""
    axes = sorted(axes)
    if x.size == 0 or not axes or axes != list(range(axes[0], axes[-1] + 1)) or axes[-1] == x.ndim - 1:
        return None
    groups = x.shape[: axes[0]], x.shape[axes[0] : axes[-1] + 1], x.shape[axes[-1] + 1 :]
    shape = tuple(math.prod(group) for group in groups)
    dense = x.strides[-1] == x.itemsize and reshaped_strides(x, shape) is not None
    return x.reshape(shape) if dense else None


def prod(x, axes, keepdim):
    return _reduce(_prod, 1, x, axes, keepdim)


def _extreme(k, x, axes, keepdim, largest):
    if x.dtype.kind == "f":
        start = -math.inf if largest else math.inf
    else:
        limits = np.iinfo(np.uint8 if x.dtype == bool else x.dtype)
        start = limits.min if largest else limits.max
    return _reduce(k, start, x, axes, keepdim)


def amax(x, axes, keepdim):
    return _extreme(_amax, x, axes, keepdim, True)


def amin(x, axes, keepdim):
    return _extreme(_amin, x, axes, keepdim, False)


def all(x, axes, keepdim):
    return cast(_reduce(_amin, 1, _truth(x), axes, keepdim), np.bool_)


def any(x, axes, keepdim):
    return cast(_reduce(_amax, 0, _truth(x), axes, keepdim), np.bool_)


def _truth(x):  # 0 or 1
    return cast(x if x.dtype == bool else cast(x, np.bool_), np.int32)


def argmax(x, axis, keepdim):  # axis None: the position in the flat array
    return _position(x, axis, keepdim, 1)


def argmin(x, axis, keepdim):
    return _position(x, axis, keepdim, -1)


def _position(x, axis, keepdim, sign):
    if axis is None:
        out = empty((), np.int64)
        _argmax(1, THREADS, out.reshape(1, 1), x.reshape(1, x.size), sign)
        return out.reshape((1,) * x.ndim) if keepdim else out
    kept = [a for a in range(x.ndim) if a != axis]
    shape = [x.shape[a] for a in kept]
    out = empty(shape, np.int64)
    rows = x.transpose((*kept, axis)).reshape(out.size, x.shape[axis])
    _argmax(out.size, THREADS, out.reshape(out.size, 1), rows, sign)
    return out.reshape(*shape[:axis], 1, *shape[axis:]) if keepdim else out


def _along(k, axis, *arrays):
    """Run a row kernel along one axis of arrays of one shape."""
    x = arrays[0]
    if x.ndim == 0 or x.size == 0:
        return _along(k, 0, *(a.reshape(1) for a in arrays)).reshape(()) if x.ndim == 0 else copy(x)
    axis = axis % x.ndim
    order = [*(a for a in range(x.ndim) if a != axis), axis]
    rows = [a.transpose(order).reshape(-1, x.shape[axis]) for a in arrays]
    out = empty(rows[0].shape, x.dtype)
    k(out.shape[0], THREADS, *rows, out)
    back = [order.index(a) for a in range(x.ndim)]
    return out.reshape([x.shape[a] for a in order]).transpose(back)


def softmax(x, axis):
    return _along(_softmax, axis, x)


def softmax_grad(g, y, axis):
    return _along(_softmax_grad, axis, g, y)


def log_softmax(x, axis):
    return _along(_log_softmax, axis, x)


def log_softmax_grad(g, y, axis):
    return _along(_log_softmax_grad, axis, g, y)
