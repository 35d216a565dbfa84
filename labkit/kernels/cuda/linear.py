"""Products of matrices, in tiles: what a block reads once into shared memory, its threads use many times.

Two kernels compute the same. In the plain one a thread owns one output; in the register-blocked one it owns
4 x 4, so that each number it reads from shared memory is used four times. Small products take the plain one:
they have too few large tiles to fill a GPU.
"""

import math

import numpy as np

from labkit import cuda as device
from labkit.kernels.cuda.elementwise import add
from labkit.kernels.cuda.launch import blocks_for, cuda, kernel
from labkit.kernels.cuda.memory import empty, zeros
from labkit.kernels.cuda.reduce import sum

TILE = 4 if device.SIMULATED else 16  # threads along each side of a block
OWN = 2 if device.SIMULATED else 4  # outputs of a thread along each side, register-blocked
EDGE = TILE * OWN  # outputs of a block along each side, register-blocked
PAD = TILE + 1  # a row longer by one puts the elements of a column into different banks


@kernel("F3 F3 F3")
def _matmul_tile(x, y, out):
    """out[n, i, j] = sum over k of x[n, i, k] y[n, k, j]; thread (ty, tx) owns one (i, j).

    Shared: a TILE x TILE piece of x and one of y, walked along k. Each thread loads one element of both
    pieces and reads 2 TILE from them, so global memory is read 2 / TILE times per multiply-add.
    """
    xs = cuda.shared.array((TILE, PAD), x.dtype)
    ys = cuda.shared.array((TILE, PAD), x.dtype)
    T = x.dtype.type
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.x * TILE + ty, cuda.blockIdx.y * TILE + tx
    rows, inner, columns = x.shape[1], x.shape[2], y.shape[2]
    for n in range(cuda.blockIdx.z, out.shape[0], cuda.gridDim.z):
        total = T(0)
        for k in range(0, inner, TILE):
            xs[ty, tx] = x[n, i, k + tx] if i < rows and k + tx < inner else T(0)
            ys[ty, tx] = y[n, k + ty, j] if k + ty < inner and j < columns else T(0)
            cuda.syncthreads()
            for d in range(TILE):
                total += xs[ty, d] * ys[d, tx]
            cuda.syncthreads()  # all have read the pieces before the next ones replace them
        if i < rows and j < columns:
            out[n, i, j] = total


@kernel("F3 F3 F3")
def _matmul_registers(x, y, out):
    """As above; thread (ty, tx) owns OWN x OWN outputs, TILE apart, and keeps their sums in registers.

    Shared: EDGE x TILE of x, TILE x EDGE of y. Per step along k a thread reads 2 OWN numbers from shared
    memory for OWN * OWN multiply-adds; global memory is read 2 / EDGE times per multiply-add.
    """
    xs = cuda.shared.array((EDGE, PAD), x.dtype)
    ys = cuda.shared.array((TILE, EDGE), x.dtype)
    total = cuda.local.array((OWN, OWN), x.dtype)  # fixed indices after unrolling: registers
    T = x.dtype.type
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.x * EDGE + ty, cuda.blockIdx.y * EDGE + tx
    rows, inner, columns = x.shape[1], x.shape[2], y.shape[2]
    for n in range(cuda.blockIdx.z, out.shape[0], cuda.gridDim.z):
        for a in range(OWN):
            for b in range(OWN):
                total[a, b] = T(0)
        for k in range(0, inner, TILE):
            for a in range(OWN):
                r, c = i + a * TILE, j + a * TILE
                xs[ty + a * TILE, tx] = x[n, r, k + tx] if r < rows and k + tx < inner else T(0)
                ys[ty, tx + a * TILE] = y[n, k + ty, c] if k + ty < inner and c < columns else T(0)
            cuda.syncthreads()
            for d in range(TILE):
                for a in range(OWN):
                    for b in range(OWN):
                        total[a, b] += xs[ty + a * TILE, d] * ys[d, tx + b * TILE]
            cuda.syncthreads()
        for a in range(OWN):
            for b in range(OWN):
                if i + a * TILE < rows and j + b * TILE < columns:
                    out[n, i + a * TILE, j + b * TILE] = total[a, b]


def matmul(x, y):  # (..., N, I) (..., I, O) -> (..., N, O)
    (rows, inner), columns = x.shape[-2:], y.shape[-1]
    if y.ndim == 2 and x.ndim > 2 and x.flags.c_contiguous:  # one large product instead of many small ones
        return matmul(x.reshape(-1, inner), y).reshape(*x.shape[:-1], columns)
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if inner == 0:
        return zeros((*batch, rows, columns), x.dtype)
    out = empty((*batch, rows, columns), x.dtype)
    count = math.prod(batch)
    a = x.broadcast_to((*batch, rows, inner)).reshape(count, rows, inner)
    b = y.broadcast_to((*batch, inner, columns)).reshape(count, inner, columns)
    large = min(rows, columns) >= EDGE
    k, edge = (_matmul_registers, EDGE) if large else (_matmul_tile, TILE)
    grid = blocks_for(rows, edge), blocks_for(columns, edge), min(count, 65535)
    k(grid, (TILE, TILE), a, b, out.reshape(count, rows, columns))
    return out


def einsum(equation, xs):
    """Operands are joined two at a time, each pair as one batched product; no letter is twice in a term."""
    terms, _, output = equation.partition("->")
    size: dict[str, int] = {}
    pairs = list(zip(terms.split(","), xs, strict=True))
    for term, x in pairs:
        size.update({c: n for c, n in zip(term, x.shape, strict=True) if size.get(c, 1) == 1})
    pairs = [(term, x.broadcast_to([size[c] for c in term])) for term, x in pairs]
    while len(pairs) > 1:
        (a, x), (b, y), *rest = pairs
        wanted = set(output).union(*(term for term, _ in rest))
        pairs = [_joined(a, x, b, y, wanted, size), *rest]
    return _only(*pairs[0], output)


def _only(term, x, wanted):  # sum over the letters that are not wanted, and bring the others into its order
    axes = tuple(i for i, c in enumerate(term) if c not in wanted)
    x = sum(x, axes, False) if axes else x
    kept = [c for c in term if c in wanted]
    return x.transpose([kept.index(c) for c in wanted])


def _joined(a, x, b, y, wanted, size):
    """The product of two operands over the letters that both have and nobody wants: (term, array)"""
    batch = "".join(c for c in a if c in b and c in wanted)
    inner = "".join(c for c in a if c in b and c not in wanted)
    left, right = ("".join(c for c in t if c not in batch + inner and c in wanted) for t in (a, b))

    def as_matrices(term, array, letters):  # (batch, rows, columns)
        groups = [[size[c] for c in group] for group in (batch, *letters)]
        return _only(term, array, batch + "".join(letters)).reshape([math.prod(g) for g in groups])

    out = matmul(as_matrices(a, x, (left, inner)), as_matrices(b, y, (inner, right)))
    term = batch + left + right
    return term, out.reshape([size[c] for c in term])


def linear(x, w, b):  # (..., I) (O, I) (O,) -> (..., O)
    y = matmul(x, w.T)
    return y if b is None else add(y, b)
