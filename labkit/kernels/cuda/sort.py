"""Sorting by counting: an element's place in order is the number of elements that come before it.

All pairs of a row are compared, so the work grows with the square of its length; libraries sort by digits
(radix sort) instead. In return there is one kernel, every thread works alone, and equal elements keep their
order.
"""

import math

import numpy as np

from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, function_of_thread, kernel
from labkit.kernels.cuda.memory import empty


@function_of_thread
def beats(x, y, sign):
    """Is x larger than y (smaller, if sign is -1)? nan wins over numbers."""
    if x != x or y != y:
        return x != x and y == y
    return x > y if sign > 0 else x < y


@kernel("F2 i I2")
def _rank(x, descending, order):
    """Thread i owns x[row, c]: counts what comes before it in its row, and writes c to that place in order.

    Neighbors walk along one row together: one read serves all threads of a warp, so that a row is read about
    once per warp, not once per thread. No two elements have one place, so no two threads write one.
    """
    i = cuda.grid(1)
    if i < x.size:
        row, c = i // x.shape[1], i % x.shape[1]
        own, rank = x[row, c], 0
        for j in range(x.shape[1]):
            other = x[row, j]
            first, second = (other, own) if descending else (own, other)
            if beats(first, second, 1) or (j < c and not beats(second, first, 1)):
                rank += 1
        order[row, rank] = c


def argsort(x, axis, descending):  # stable both ways; nan counts as largest
    axes = [*(a for a in range(x.ndim) if a != axis), axis]
    shape = [x.shape[a] for a in axes]
    order = empty(shape, np.int64)
    if x.size:
        rows = math.prod(shape[:-1]), shape[-1]
        arrays = x.transpose(axes).reshape(rows), int(descending), order.reshape(rows)
        _rank(blocks_for(x.size), THREADS, *arrays)
    return order.transpose([axes.index(a) for a in range(x.ndim)])
