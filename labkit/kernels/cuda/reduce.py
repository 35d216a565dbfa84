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
from labkit.kernels.cuda.memory import cast, copy, copy_, empty, full, zeros
from labkit.kernels.cuda.sort import beats
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


def _running(combine):
    """The kernel that gives each element of a row combined with all before it (a "scan")."""
    f = function_of_thread(combine)

    @kernel("f F2 F2", f"reduce.running_{combine.__name__.strip('_')}")
    def scan_rows(start, x, out):
        """Block i owns row i and walks it in pieces of THREADS; thread t owns element t of each piece.

        Shared: the piece. After the round with `step`, cell t holds the 2 step elements up to t combined:
        log2(THREADS) rounds. `carry` is everything in the pieces before. Reads and writes a row once.
        """
        held = cuda.shared.array(THREADS, x.dtype)
        i, t, columns = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[1]
        carry = start
        for first in range(0, columns, THREADS):
            held[t] = x[i, first + t] if first + t < columns else start
            cuda.syncthreads()
            step = 1
            while step < THREADS:
                value = f(held[t - step], held[t]) if t >= step else held[t]
                cuda.syncthreads()  # all have read before anyone writes
                held[t] = value
                cuda.syncthreads()
                step *= 2
            if first + t < columns:
                out[i, first + t] = f(carry, held[t])
            carry = f(carry, held[THREADS - 1])
            cuda.syncthreads()

    return scan_rows


def _plus(x, y):
    return x + y


def _times(x, y):
    return x * y


_running_sum, _running_product = _running(_plus), _running(_times)


@kernel("F2 F2 F2")
def _cumprod_grad(g, x, gx):
    """Thread i owns row i: gx[j] = x[0] ... x[j-1] h[j], where h[j] = g[j] + x[j+1] h[j+1].

    A walk forward writes the products, a walk backward carries h: no division, so zeros in x do no harm.
    Reads 3 elements per output, writes 2. One thread per row: long single rows are slow.
    """
    i = cuda.grid(1)
    if i < x.shape[0]:
        T, columns = x.dtype.type, x.shape[1]
        before = T(1)
        for j in range(columns):
            gx[i, j] = before
            before *= x[i, j]
        h = T(0)
        for j in range(columns - 1, -1, -1):
            h = g[i, j] + (x[i, j + 1] * h if j + 1 < columns else T(0))
            gx[i, j] *= h


@kernel("I2 F2 i")
def _argmax(out, x, sign):
    """Block i owns out[i, 0], the place of the largest element of row i (of the smallest, if sign is -1).

    Shared: a value and its place per thread. Of equal values the first wins; nan wins over numbers. Reads
    every element once, writes one place.
    """
    values = cuda.shared.array(THREADS, x.dtype)
    places = cuda.shared.array(THREADS, out.dtype)
    i, t = cuda.blockIdx.x, cuda.threadIdx.x
    values[t] = x[i, min(t, x.shape[1] - 1)]
    places[t] = min(t, x.shape[1] - 1)
    for r in range(t + THREADS, x.shape[1], THREADS):
        if beats(x[i, r], values[t], sign):
            values[t] = x[i, r]
            places[t] = r
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            a, b = values[t], values[t + half]
            if beats(b, a, sign) or (not beats(a, b, sign) and places[t + half] < places[t]):
                values[t] = b
                places[t] = places[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[i, 0] = places[0]


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
    """Block i owns row i, as in softmax; x - top - log(total) never takes the logarithm of a tiny number.

    Shared: one tree. Reads a row three times (twice from cache, if it fits), writes it once.
    """
    partial = cuda.shared.array(THREADS, x.dtype)
    i, t = cuda.blockIdx.x, cuda.threadIdx.x
    top, total = _shift(x, partial)
    for c in range(t, x.shape[1], THREADS):
        out[i, c] = x[i, c] - top - scalar.log(total)


@kernel("F2 F2")
def _logsumexp(x, out):
    """Block i owns out[i, 0] = top + log(sum of exp(x - top)): two walks over row i. Shared: one tree.

    Reads a row twice (once from cache, if it fits), writes one number.
    """
    partial = cuda.shared.array(THREADS, x.dtype)
    top, total = _shift(x, partial)
    if cuda.threadIdx.x == 0:
        out[cuda.blockIdx.x, 0] = top + scalar.log(total)


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
    """Block i owns row i: y (g - sum(g y)). Two walks. Shared: one tree. Reads 4 elements per output."""
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
    """Block i owns row i: g - exp(y) sum(g). Two walks. Shared: one tree. Reads 3 elements per output."""
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


def _to_rows(x, axis):  # -> (rows, the axis), and what brings an array of that shape back
    order = [*(a for a in range(x.ndim) if a != axis), axis]
    back = [order.index(a) for a in range(x.ndim)]
    shape = [x.shape[a] for a in order]
    rows = x.transpose(order).reshape(math.prod(shape[:-1]), x.shape[axis])
    return rows, lambda out: out.reshape(shape).transpose(back)


def _scan(k, start, x, axis):
    if x.size == 0:
        return copy(x)
    rows, back = _to_rows(x, axis)
    out = empty(rows.shape, x.dtype)
    k(rows.shape[0], THREADS, x.dtype.type(start), rows, out)
    return back(out)


def cumsum(x, axis):
    return _scan(_running_sum, 0, x, axis)


def cumprod(x, axis):
    return _scan(_running_product, 1, x, axis)


def cumprod_grad(g, x, axis):
    if x.size == 0:
        return copy(g)
    (grads, _), (rows, back) = _to_rows(g, axis), _to_rows(x, axis)
    gx = empty(rows.shape, x.dtype)
    _cumprod_grad(blocks_for(rows.shape[0]), THREADS, grads, rows, gx)
    return back(gx)


def prod_others(x, axis):  # the slopes of the product of a row: of the last of its running products
    g = zeros(x.shape, x.dtype)
    if x.size:
        copy_(g[(slice(None),) * axis + (slice(-1, None),)], 1)
    return cumprod_grad(g, x, axis)


def logsumexp(x, axes, keepdim):
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    kept = [a for a in range(x.ndim) if a not in axes]
    shape = [1 if a in axes else n for a, n in enumerate(x.shape)]
    out = full(shape, -math.inf, x.dtype)
    if x.size:
        rows = x.transpose((*kept, *axes)).reshape(out.size, x.size // out.size)
        _logsumexp(out.size, THREADS, rows, out.reshape(out.size, 1))
    return out if keepdim else out.reshape([x.shape[a] for a in kept])


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
    (rows, back), *others = (_to_rows(a, axis % x.ndim) for a in arrays)
    out = empty(rows.shape, x.dtype)
    k(out.shape[0], THREADS, rows, *(rows for rows, _ in others), out)
    return back(out)


def softmax(x, axis):
    return _along(_softmax, axis, x)


def softmax_grad(g, y, axis):
    return _along(_softmax_grad, axis, g, y)


def log_softmax(x, axis):
    return _along(_log_softmax, axis, x)


def log_softmax_grad(g, y, axis):
    return _along(_log_softmax_grad, axis, g, y)
