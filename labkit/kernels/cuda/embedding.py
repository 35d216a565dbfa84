"""Table lookup: row `index` of the table, and its gradient added back into the rows.

The gradient is the hard part: many positions may add to one row. With atomics, a thread per element adds in
whatever order threads come, so that the last bits differ from run to run. Sorted, the positions of equal rows
lie side by side and one block adds them up in order. Sorting by counting compares all pairs, so it is used
while there are few.
"""

from typing import Any

import numpy as np

from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, kernel
from labkit.kernels.cuda.memory import copy_, empty, full, zeros
from labkit.kernels.cuda.sort import argsort

MOST_SORTED = 8192  # positions; above, atomics


@kernel("F2 I1 F2")
def _embedding(w, index, out):
    """Thread i owns out[n, d]: neighbors read neighbors of one table row. One index and one element read."""
    i = cuda.grid(1)
    if i < out.size:
        n, d = i // out.shape[1], i % out.shape[1]
        out[n, d] = w[index[n], d]


@kernel("F2 I1 F2")
def _add_atomic(g, index, gw):
    """Thread i owns g[n, d] and adds it to the table's gradient. Reads 2, changes 1; order not fixed."""
    i = cuda.grid(1)
    if i < g.size:
        n, d = i // g.shape[1], i % g.shape[1]
        cuda.atomic.add(gw, (index[n], d), g[n, d])


@kernel("F2 I1 I1 F2")
def _add_sorted(g, index, order, gw):
    """Block v owns row v of the table: finds its first position by bisection, then adds the rows of g in
    order, thread t the columns t, t + THREADS, ... Reads each row of g once in all; no atomics.
    """
    v, N = cuda.blockIdx.x, order.size
    low, high = 0, N
    while low < high:
        middle = (low + high) // 2
        if index[order[middle]] < v:
            low = middle + 1
        else:
            high = middle
    for d in range(cuda.threadIdx.x, g.shape[1], THREADS):
        total = g.dtype.type(0)
        at = low
        while at < N and index[order[at]] == v:
            total += g[order[at], d]
            at += 1
        gw[v, d] = total


@kernel("I1 i i i I1")
def _first_outside(index, size, ignore, has_ignore, first):
    """Thread i owns index[i] and reads it; if it is outside of [0, size), `first` becomes i, if smaller.

    Many threads may change that one number, so it is an atomic minimum; in a right index nobody does.
    """
    i = cuda.grid(1)
    if i < index.size:
        value = index[i]
        if (value < 0 or value >= size) and not (has_ignore and value == ignore):
            cuda.atomic.min(first, 0, i)


@kernel("I1 I2")
def _one_hot(index, out):
    """Thread i owns out[n, c]: reads one index (its neighbors the same), writes 1 or 0."""
    i = cuda.grid(1)
    if i < out.size:
        n, c = i // out.shape[1], i % out.shape[1]
        out[n, c] = 1 if index[n] == c else 0


def embedding(w, index):  # (V, D) (...) -> (..., D)
    out = empty((*index.shape, w.shape[1]), w.dtype)
    flat = out.reshape(index.size, w.shape[1])
    _embedding(blocks_for(out.size), THREADS, w, index.reshape(index.size), flat)
    return out


def embedding_grad(g, index, rows, padding_idx):  # (..., D) (...) -> (V, D)
    flat, index = g.reshape(index.size, g.shape[-1]), index.reshape(index.size)
    add: Any = embedding_grad_sorted if index.size <= MOST_SORTED else embedding_grad_atomic
    gw = add(flat, index, rows)
    if padding_idx is not None:
        copy_(gw[padding_idx], 0)
    return gw


def embedding_grad_atomic(g, index, rows):  # (N, D) (N,) -> (V, D)
    gw = zeros((rows, g.shape[1]), g.dtype)
    _add_atomic(blocks_for(g.size), THREADS, g, index, gw)
    return gw


def embedding_grad_sorted(g, index, rows):  # (N, D) (N,) -> (V, D)
    if g.size == 0:
        return zeros((rows, g.shape[1]), g.dtype)
    gw, order = empty((rows, g.shape[1]), g.dtype), argsort(index, 0, False)
    _add_sorted(rows, THREADS, g, index, order, gw)
    return gw


def one_hot(index, num_classes):  # (...) -> (..., C), int64
    out = empty((*index.shape, num_classes), np.int64)
    flat = out.reshape(index.size, num_classes)
    _one_hot(blocks_for(out.size), THREADS, index.reshape(index.size), flat)
    return out


def index_outside(index, size, ignore):  # the first index that is not in [0, size) nor `ignore`, or None
    """Waits for the device: a wrong index must not be read, and only the CPU can raise an error."""
    first, flat = full((1,), index.size, np.int64), index.reshape(index.size)
    limits = size, 0 if ignore is None else ignore, int(ignore is not None)
    _first_outside(blocks_for(index.size), THREADS, flat, *limits, first)
    at = first.item()
    return None if at == index.size else flat[at].item()
