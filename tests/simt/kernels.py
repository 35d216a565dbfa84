"""Right kernels, as a lesson would write them, with inputs and what NumPy says; planted bugs start here."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float32, int32

TILE = 8
WIDE = 32
WIDE_PADDED = WIDE + 1
THREADS = 32
RADIUS = 2
WINDOW = THREADS + 2 * RADIUS
BINS = 7


@cuda.jit
def guarded_map(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * x[i]


@cuda.jit
def map_2d(x, out):
    j, i = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = x[i, j] + float32(1)


@cuda.jit
def broadcast(column, row, out):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = column[i, 0] * row[0, j]


@cuda.jit
def block_sum(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        s[t] = x[i]
    else:
        s[t] = 0
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@cuda.jit
def halo_convolution(x, weight, out):
    s = cuda.shared.array(WINDOW, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    k = t
    while k < WINDOW:
        source = cuda.blockIdx.x * THREADS + k - RADIUS
        if source >= 0 and source < x.size:
            s[k] = x[source]
        else:
            s[k] = 0
        k += THREADS
    cuda.syncthreads()
    if i < x.size:
        total = float32(0)
        for j in range(2 * RADIUS + 1):
            total += s[t + j] * weight[j]
        out[i] = total


@cuda.jit
def tiled_matmul(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    j, i = cuda.grid(2)
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        sa[ty, tx] = 0
        if i < a.shape[0] and start + tx < a.shape[1]:
            sa[ty, tx] = a[i, start + tx]
        sb[ty, tx] = 0
        if start + ty < b.shape[0] and j < b.shape[1]:
            sb[ty, tx] = b[start + ty, j]
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = total


@cuda.jit
def histogram(x, counts):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(counts, x[i], 1)


@cuda.jit
def shared_histogram(x, counts):
    s = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    if t < BINS:
        s[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(s, x[i], 1)
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(counts, t, s[t])


@cuda.jit(device=True)
def block_max(s, t, value):
    s[t] = value
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            s[t] = max(s[t], s[t + step])
        cuda.syncthreads()
        step //= 2
    result = s[0]
    cuda.syncthreads()
    return result


@cuda.jit(device=True)
def block_add(s, t, value):
    s[t] = value
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    result = s[0]
    cuda.syncthreads()
    return result


@cuda.jit
def online_softmax(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x
    biggest = float32(-math.inf)
    total = float32(0)
    for j in range(t, x.shape[1], THREADS):
        new = max(biggest, x[row, j])
        total = total * math.exp(biggest - new) + math.exp(x[row, j] - new)
        biggest = new
    top = block_max(s, t, biggest)
    if biggest > float32(-math.inf):
        total *= math.exp(biggest - top)
    total = block_add(s, t, total)
    for j in range(t, x.shape[1], THREADS):
        out[row, j] = math.exp(x[row, j] - top) / total


@cuda.jit
def transpose(x, out):
    s = cuda.shared.array((WIDE, WIDE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    j, i = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        s[ty, tx] = x[i, j]
    cuda.syncthreads()
    row = cuda.blockIdx.x * WIDE + ty
    column = cuda.blockIdx.y * WIDE + tx
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = s[tx, ty]


@cuda.jit
def padded_transpose(x, out):
    s = cuda.shared.array((WIDE, WIDE_PADDED), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    j, i = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        s[ty, tx] = x[i, j]
    cuda.syncthreads()
    row = cuda.blockIdx.x * WIDE + ty
    column = cuda.blockIdx.y * WIDE + tx
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = s[tx, ty]


@cuda.jit
def row_sums(x, out):
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    s = cuda.shared.array(THREADS, float32)
    s[t] = 0
    for j in range(t, x.shape[1], THREADS):
        s[t] += x[row, j]
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(THREADS):
            total += s[k]
        out[row] = total


@cuda.jit
def shift_right(x, out):
    i = cuda.grid(1)
    if i < x.size:
        if i >= 1:
            out[i] = x[i - 1]
        else:
            out[i] = 0


@dataclass
class Case:
    """A launch: the last argument is the output, `expected` computes it from the others."""

    kernel: Any
    grid: Any
    block: Any
    arguments: Callable[[], list[Any]]
    expected: Callable[..., np.ndarray]

    def __iter__(self):
        return iter((self.kernel, self.grid, self.block))


def _x(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def _labels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, BINS, 75)


def _convolve(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.correlate(np.pad(x, RADIUS), weight, "valid")


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _block_sums(x: np.ndarray) -> np.ndarray:
    return np.pad(x, (0, 21)).reshape(3, THREADS).sum(1)


def _count(x: np.ndarray) -> np.ndarray:
    return np.bincount(x, minlength=BINS)


CASES = {
    "guarded_map": Case(guarded_map, 3, 32, lambda: [_x(75), _zeros(75)], np.square),
    "map_2d": Case(map_2d, (3, 2), (8, 8), lambda: [_x(11, 19), _zeros(11, 19)], lambda x: x + 1),
    "broadcast": Case(
        broadcast,
        (3, 2),
        (8, 8),
        lambda: [_x(11, 1), _x(1, 19), _zeros(11, 19)],
        lambda column, row: column * row,
    ),
    "block_sum": Case(block_sum, 3, THREADS, lambda: [_x(75), _zeros(3)], _block_sums),
    "halo_convolution": Case(
        halo_convolution, 3, THREADS, lambda: [_x(75), _x(2 * RADIUS + 1), _zeros(75)], _convolve
    ),
    "tiled_matmul": Case(
        tiled_matmul, (2, 3), (TILE, TILE), lambda: [_x(19, 13), _x(13, 11), _zeros(19, 11)], np.matmul
    ),
    "histogram": Case(histogram, 3, 32, lambda: [_labels(), np.zeros(BINS, np.int32)], _count),
    "shared_histogram": Case(shared_histogram, 3, 32, lambda: [_labels(), np.zeros(BINS, np.int32)], _count),
    "online_softmax": Case(online_softmax, 3, THREADS, lambda: [_x(3, 75), _zeros(3, 75)], _softmax),
    "transpose": Case(transpose, (2, 2), (WIDE, WIDE), lambda: [_x(37, 40), _zeros(40, 37)], np.transpose),
    "padded_transpose": Case(
        padded_transpose, (2, 2), (WIDE, WIDE), lambda: [_x(37, 40), _zeros(40, 37)], np.transpose
    ),
    "row_sums": Case(row_sums, 3, THREADS, lambda: [_x(3, 75), _zeros(3)], lambda x: x.sum(1)),
    "shift_right": Case(
        shift_right, 3, 32, lambda: [_x(75), _zeros(75)], lambda x: np.concatenate([[0], x[:-1]])
    ),
}


def main(path: str) -> None:
    """Run every case on Numba (its simulator, if the environment says so) and save the outputs."""
    outputs = {}
    for name, case in CASES.items():
        arguments = case.arguments()
        case.kernel[case.grid, case.block](*arguments)
        outputs[name] = arguments[-1]
    np.savez(path, **outputs)


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
