"""Normalization: of rows (N, C), or of channels (N, C, S) for batch norm. `w` and `b` may be None.

With n = (x - mean) * rstd the gradient of x is rstd * (gn - mean(gn) - n * mean(gn * n)): the two parts that
the mean and the variance carry are taken away again. A missing weight is one cell of 1 with stride 0.
"""

import numpy as np

from labkit.kernels.cuda import scalar
from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, kernel
from labkit.kernels.cuda.memory import empty, full
from labkit.kernels.cuda.reduce import LANES, LINES
from labkit.kernels.cuda.tree import block_sum


@kernel("F2 F1 F1 f F2 F2 F2")
def _layer_norm(x, w, b, eps, y, mean, rstd):
    """Block i owns row i: three walks (mean, variance, write) and two trees. Shared: one cell per thread.

    Reads a row three times (twice from cache, if it fits), writes it once, and two numbers per row.
    """
    partial = cuda.shared.array(THREADS, x.dtype)
    T = x.dtype.type
    i, t, C = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[1]
    total = T(0)
    for c in range(t, C, THREADS):
        total += x[i, c]
    middle = block_sum(partial, total) / T(C)
    total = T(0)
    for c in range(t, C, THREADS):
        total += (x[i, c] - middle) * (x[i, c] - middle)
    scale = T(1) / scalar.sqrt(block_sum(partial, total) / T(C) + eps)
    for c in range(t, C, THREADS):
        y[i, c] = (x[i, c] - middle) * scale * w[c] + b[c]
    if t == 0:
        mean[i, 0] = middle
        rstd[i, 0] = scale


@kernel("F2 F2 F1 F2 F2 F2")
def _layer_norm_grad(g, x, w, mean, rstd, gx):
    """Block i owns row i of gx: two sums over the row in two trees, then one walk.

    Shared: one cell per thread. Reads 6 C elements (g, x and w twice), writes C.
    """
    partial = cuda.shared.array(THREADS, x.dtype)
    T = x.dtype.type
    i, t, C = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[1]
    middle, scale = mean[i, 0], rstd[i, 0]
    total, dot = T(0), T(0)
    for c in range(t, C, THREADS):
        gn = g[i, c] * w[c]
        total += gn
        dot += gn * (x[i, c] - middle) * scale
    total = block_sum(partial, total) / T(C)
    dot = block_sum(partial, dot) / T(C)
    for c in range(t, C, THREADS):
        gx[i, c] = scale * (g[i, c] * w[c] - total - (x[i, c] - middle) * scale * dot)


@kernel("F2 F2 F2 F2 F1 F1")
def _column_sums(g, x, mean, rstd, gw, gb):
    """gw[c] = sum over rows of g n, gb[c] = sum of g. A block owns LANES columns, thread (ty, tx) every
    LINES-th row of column tx: neighbors read neighbors. Shared: both sums of every thread, added up by the
    first line. Reads g and x once, in rows of LANES elements.
    """
    products = cuda.shared.array((LINES, LANES), x.dtype)
    sums = cuda.shared.array((LINES, LANES), x.dtype)
    T = x.dtype.type
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    c = cuda.blockIdx.x * LANES + tx
    product, total = T(0), T(0)
    if c < g.shape[1]:
        for i in range(ty, g.shape[0], LINES):
            product += g[i, c] * (x[i, c] - mean[i, 0]) * rstd[i, 0]
            total += g[i, c]
    products[ty, tx] = product
    sums[ty, tx] = total
    cuda.syncthreads()
    if ty == 0 and c < g.shape[1]:
        for line in range(1, LINES):
            product += products[line, tx]
            total += sums[line, tx]
        gw[c] = product
        gb[c] = total


@kernel("F2 F1 f F2 F2")
def _rms_norm(x, w, eps, y, rstd):
    """Block i owns row i: two walks and one tree, as layer norm without the mean.

    Shared: one cell per thread. Reads a row twice (once from cache, if it fits); writes it and a number.
    """
    partial = cuda.shared.array(THREADS, x.dtype)
    T = x.dtype.type
    i, t, C = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[1]
    total = T(0)
    for c in range(t, C, THREADS):
        total += x[i, c] * x[i, c]
    scale = T(1) / scalar.sqrt(block_sum(partial, total) / T(C) + eps)
    for c in range(t, C, THREADS):
        y[i, c] = x[i, c] * scale * w[c]
    if t == 0:
        rstd[i, 0] = scale


@kernel("F2 F2 F1 F2 F2")
def _rms_norm_grad(g, x, w, rstd, gx):
    """Block i owns row i of gx: one tree, two walks. Shared: one cell per thread. Reads 6 C, writes C."""
    partial = cuda.shared.array(THREADS, x.dtype)
    T = x.dtype.type
    i, t, C = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[1]
    scale = rstd[i, 0]
    dot = T(0)
    for c in range(t, C, THREADS):
        dot += g[i, c] * w[c] * x[i, c] * scale
    dot = block_sum(partial, dot) / T(C)
    for c in range(t, C, THREADS):
        gx[i, c] = scale * (g[i, c] * w[c] - x[i, c] * scale * dot)


@kernel("F3 F1 F1")
def _batch_norm_stats(x, mean, var):
    """Block c owns channel c: its N * S elements in two walks (mean, then squared distances) and two trees.

    Shared: one cell per thread. Neighbors read neighbors within an image. Reads every element twice, writes
    two numbers.
    """
    partial = cuda.shared.array(THREADS, x.dtype)
    T = x.dtype.type
    c, t, S = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[2]
    count = x.shape[0] * S
    total = T(0)
    for r in range(t, count, THREADS):
        total += x[r // S, c, r % S]
    middle = block_sum(partial, total) / T(count)
    total = T(0)
    for r in range(t, count, THREADS):
        d = x[r // S, c, r % S] - middle
        total += d * d
    total = block_sum(partial, total)
    if t == 0:
        mean[c] = middle
        var[c] = total / T(count)


@kernel("F3 F1 F1 F1 F1 f F3")
def _batch_norm(x, w, b, mean, var, eps, y):
    """Thread i owns y[i]: one element read and written, and four numbers of its channel, from cache."""
    i = cuda.grid(1)
    if i < y.size:
        s, c, n = i % y.shape[2], i // y.shape[2] % y.shape[1], i // y.shape[2] // y.shape[1]
        scale = x.dtype.type(1) / scalar.sqrt(var[c] + eps) * w[c]
        y[n, c, s] = (x[n, c, s] - mean[c]) * scale + b[c]


@kernel("F3 F3 F1 F1 F1 f i F3 F1 F1")
def _batch_norm_grad(g, x, w, mean, var, eps, training, gx, gw, gb):
    """Block c owns channel c: two sums in two trees (they are gw and gb), then one walk writes gx.

    Shared: one cell per thread. Reads g and x twice, writes gx once. Without training the statistics were
    constants: no correction.
    """
    partial = cuda.shared.array(THREADS, x.dtype)
    T = x.dtype.type
    c, t, S = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[2]
    count = x.shape[0] * S
    scale = T(1) / scalar.sqrt(var[c] + eps)
    product, total = T(0), T(0)
    for r in range(t, count, THREADS):
        value = g[r // S, c, r % S]
        product += value * (x[r // S, c, r % S] - mean[c]) * scale
        total += value
    product = block_sum(partial, product)
    total = block_sum(partial, total)
    if t == 0:
        gw[c] = product
        gb[c] = total
    for r in range(t, count, THREADS):
        value = g[r // S, c, r % S]
        if training:
            n = (x[r // S, c, r % S] - mean[c]) * scale
            value = value - total / T(count) - n * product / T(count)
        gx[r // S, c, r % S] = value * scale * w[c]


@kernel("f f F1 F1 F1 F1")
def _batch_norm_update(momentum, unbiased, mean, var, running_mean, running_var):
    """Thread c owns channel c of both running statistics: reads 4 numbers, writes 2."""
    c = cuda.grid(1)
    if c < mean.size:
        running_mean[c] += momentum * (mean[c] - running_mean[c])
        running_var[c] += momentum * (var[c] * unbiased - running_var[c])


# ---- launchers ----


def _each(parameter, value, x, size):  # the parameter, or one cell seen `size` times
    return full((), value, x.dtype).broadcast_to((size,)) if parameter is None else parameter


def layer_norm(x, w, b, eps):  # (N, C) -> y (N, C), mean (N, 1), rstd (N, 1)
    N, C = x.shape
    y, mean, rstd = empty((N, C), x.dtype), empty((N, 1), x.dtype), empty((N, 1), x.dtype)
    w, b = _each(w, 1, x, C), _each(b, 0, x, C)
    _layer_norm(N, THREADS, x, w, b, x.dtype.type(eps), y, mean, rstd)
    return y, mean, rstd


def _weight_grads(g, x, mean, rstd):
    C = x.shape[1]
    gw, gb = full((C,), 0, x.dtype), full((C,), 0, x.dtype)
    if x.size:
        _column_sums(blocks_for(C, LANES), (LANES, LINES), g, x, mean, rstd, gw, gb)
    return gw, gb


def layer_norm_grad(g, x, w, mean, rstd):  # -> gx (N, C), gw (C,), gb (C,)
    gx = empty(x.shape, x.dtype)
    _layer_norm_grad(x.shape[0], THREADS, g, x, _each(w, 1, x, x.shape[1]), mean, rstd, gx)
    return gx, *_weight_grads(g, x, mean, rstd)


def rms_norm(x, w, eps):  # (N, C) -> y (N, C), rstd (N, 1)
    y, rstd = empty(x.shape, x.dtype), empty((x.shape[0], 1), x.dtype)
    eps = x.dtype.type(np.finfo(x.dtype).eps if eps is None else eps)
    _rms_norm(x.shape[0], THREADS, x, _each(w, 1, x, x.shape[1]), eps, y, rstd)
    return y, rstd


def rms_norm_grad(g, x, w, rstd):  # -> gx (N, C), gw (C,)
    gx = empty(x.shape, x.dtype)
    _rms_norm_grad(x.shape[0], THREADS, g, x, _each(w, 1, x, x.shape[1]), rstd, gx)
    return gx, _weight_grads(g, x, full((), 0, x.dtype).broadcast_to(rstd.shape), rstd)[0]


def batch_norm_stats(x):  # (N, C, S) -> mean (C,), var (C,), the biased one
    mean, var = empty((x.shape[1],), x.dtype), empty((x.shape[1],), x.dtype)
    _batch_norm_stats(x.shape[1], THREADS, x, mean, var)
    return mean, var


def batch_norm(x, w, b, mean, var, eps):  # (N, C, S) -> (N, C, S)
    y, C = empty(x.shape, x.dtype), x.shape[1]
    w, b = _each(w, 1, x, C), _each(b, 0, x, C)
    _batch_norm(blocks_for(y.size), THREADS, x, w, b, mean, var, x.dtype.type(eps), y)
    return y


def batch_norm_grad(g, x, w, mean, var, eps, training):  # -> gx (N, C, S), gw (C,), gb (C,)
    C = x.shape[1]
    gx, gw, gb = empty(x.shape, x.dtype), empty((C,), x.dtype), empty((C,), x.dtype)
    settings = x.dtype.type(eps), int(training)
    _batch_norm_grad(C, THREADS, g, x, _each(w, 1, x, C), mean, var, *settings, gx, gw, gb)
    return gx, gw, gb


def batch_norm_update_(running_mean, running_var, mean, var, count, momentum):  # (C,) each
    T = mean.dtype.type
    numbers = T(momentum), T(count / max(count - 1, 1))  # the unbiased variance
    _batch_norm_update(blocks_for(mean.size), THREADS, *numbers, mean, var, running_mean, running_var)
