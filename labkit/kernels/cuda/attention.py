"""Scaled dot-product attention without the (T, S) matrix of weights: fused, with online softmax.

A block owns ROWS queries and walks over the keys, LANES at a time. Thread (row, lane) first computes the
score of its query with key `lane` of the tile, then owns output column `lane`. The softmax is corrected as
it goes: when a larger score turns up, what was added so far is scaled down. Only y and one number per query,
the logarithm of its sum, are kept; backward computes the weights again from these (Dao et al.,
"FlashAttention", 2022). A mask is a number added to each score, 0 or -inf for bool masks; no mask is one cell
of 0.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from labkit import cuda as device
from labkit.kernels.cuda import scalar
from labkit.kernels.cuda.array import Array
from labkit.kernels.cuda.dropout import dropout_keep
from labkit.kernels.cuda.elementwise import add, exp, mul, sub, where
from labkit.kernels.cuda.launch import blocks_for, cuda, function_of_thread, kernel
from labkit.kernels.cuda.linear import matmul
from labkit.kernels.cuda.memory import cast, empty, full
from labkit.kernels.cuda.reduce import sum

LANES = 4 if device.SIMULATED else 32  # keys of a tile, and columns of a block
ROWS = 2 if device.SIMULATED else 8  # queries of a block
PAD = LANES + 1  # a row longer by one puts the elements of a column into different banks


@function_of_thread
def _dot(x, i, y, j, n, h, own, other, row, lane):
    """x[n, h, i] . y[n, h, j + lane]: a product of ROWS rows with LANES rows, through shared memory.

    `own` (ROWS, LANES) and `other` (LANES, PAD) hold LANES elements of each row at a time.
    """
    T = x.dtype.type
    size = x.shape[3]
    total = T(0)
    for d in range(0, size, LANES):
        at = d + lane
        own[row, lane] = x[n, h, i, at] if i < x.shape[2] and at < size else T(0)
        for r in range(row, LANES, ROWS):
            other[r, lane] = y[n, h, j + r, at] if j + r < y.shape[2] and at < size else T(0)
        cuda.syncthreads()
        for e in range(LANES):
            total += own[row, e] * other[lane, e]
        cuda.syncthreads()
    return total


@kernel("F4 F4 F4 F4 F4 f i F4 F3")
def _attention(q, k, v, mask, drop, scale, causal, y, logsum):
    """Block (nh, y, z): head nh, queries from y ROWS, output columns from z LANES; thread (row, lane) owns
    y[query row, column lane]. Shared: a tile of queries, of keys (then values), and the tile's weights.

    Reads q once, k and v once per ROWS queries (and k once per LANES columns); writes y and one number per
    query. The (T, S) weights exist only as ROWS x LANES numbers at a time.
    """
    own = cuda.shared.array((ROWS, LANES), q.dtype)
    other = cuda.shared.array((LANES, PAD), q.dtype)
    weights = cuda.shared.array((ROWS, LANES), q.dtype)
    T = q.dtype.type
    lane, row = cuda.threadIdx.x, cuda.threadIdx.y
    n, h = cuda.blockIdx.x // q.shape[1], cuda.blockIdx.x % q.shape[1]
    i, column = cuda.blockIdx.y * ROWS + row, cuda.blockIdx.z * LANES + lane
    rows, keys, columns = q.shape[2], k.shape[2], v.shape[3]
    top, total, result = T(-math.inf), T(0), T(0)
    for j in range(0, keys, LANES):
        score = _dot(q, i, k, j, n, h, own, other, row, lane) * scale
        seen = i < rows and j + lane < keys and not (causal and j + lane > i)
        score = score + mask[n, h, i, j + lane] if seen else T(-math.inf)
        weights[row, lane] = score
        for r in range(row, LANES, ROWS):
            other[r, lane] = v[n, h, j + r, column] if j + r < keys and column < columns else T(0)
        cuda.syncthreads()
        higher = top
        for e in range(LANES):
            higher = scalar.larger(higher, weights[row, e])
        base = higher if higher != T(-math.inf) else T(0)  # nothing seen yet: exp(-inf - 0) is 0
        shrink = scalar.exp(top - base)
        total *= shrink
        result *= shrink
        for e in range(LANES):
            p = scalar.exp(weights[row, e] - base)
            total += p
            if i < rows and j + e < keys:
                result += p * drop[n, h, i, j + e] * other[e, lane]
        top = higher
        cuda.syncthreads()
    if i < rows and column < columns:
        y[n, h, i, column] = result / total if total != T(0) else T(0)  # every key masked: zeros, as torch
    if i < rows and lane == 0 and cuda.blockIdx.z == 0:
        logsum[n, h, i] = top + scalar.log(total) if total != T(0) else T(0)


@kernel("F4 F4 F4 F4 F4 F4 F3 F3 f i F4")
def _attention_grad_query(g, q, k, v, mask, drop, logsum, delta, scale, causal, gq):
    """Block (nh, y, z): queries from y ROWS, columns from z LANES of gq; walks over the keys.

    With p = exp(score - logsum) and gs = p (g . v drop - delta), the gradient of the score,
    gq = scale * sum over keys of gs k. Shared: as forward. Thread (row, lane) owns one element of gq. Reads q
    and g once, k twice and v once per ROWS queries; writes gq once.
    """
    own = cuda.shared.array((ROWS, LANES), q.dtype)
    other = cuda.shared.array((LANES, PAD), q.dtype)
    slopes = cuda.shared.array((ROWS, LANES), q.dtype)
    T = q.dtype.type
    lane, row = cuda.threadIdx.x, cuda.threadIdx.y
    n, h = cuda.blockIdx.x // q.shape[1], cuda.blockIdx.x % q.shape[1]
    i, column = cuda.blockIdx.y * ROWS + row, cuda.blockIdx.z * LANES + lane
    rows, keys, columns = q.shape[2], k.shape[2], q.shape[3]
    result = T(0)
    for j in range(0, keys, LANES):
        score = _dot(q, i, k, j, n, h, own, other, row, lane) * scale
        gp = _dot(g, i, v, j, n, h, own, other, row, lane)
        slope = T(0)
        if i < rows and j + lane < keys and not (causal and j + lane > i):
            p = scalar.exp(score + mask[n, h, i, j + lane] - logsum[n, h, i])
            slope = p * (gp * drop[n, h, i, j + lane] - delta[n, h, i])
        slopes[row, lane] = slope
        for r in range(row, LANES, ROWS):
            other[r, lane] = k[n, h, j + r, column] if j + r < keys and column < columns else T(0)
        cuda.syncthreads()
        for e in range(LANES):
            result += slopes[row, e] * other[e, lane]
        cuda.syncthreads()
    if i < rows and column < columns:
        gq[n, h, i, column] = result * scale


@kernel("F4 F4 F4 F4 F4 F4 F3 F3 f i F4 F4")
def _attention_grad_key(g, q, k, v, mask, drop, logsum, delta, scale, causal, gk, gv):
    """The same with roles exchanged: block (nh, y, z) owns keys from y ROWS and walks over the queries.

    gk = scale * sum over queries of gs q, gv = sum over queries of p drop g. Thread (row, lane) owns column
    lane of both for key row; no two blocks write one place, so no atomics. Shared: as above, and a tile of
    slopes and of weights. Reads k and v once, q and g once per ROWS keys in each pass; writes gk and gv once.
    """
    own = cuda.shared.array((ROWS, LANES), q.dtype)
    other = cuda.shared.array((LANES, PAD), q.dtype)
    slopes = cuda.shared.array((ROWS, LANES), q.dtype)
    shares = cuda.shared.array((ROWS, LANES), q.dtype)
    T = q.dtype.type
    lane, row = cuda.threadIdx.x, cuda.threadIdx.y
    n, h = cuda.blockIdx.x // q.shape[1], cuda.blockIdx.x % q.shape[1]
    j, column = cuda.blockIdx.y * ROWS + row, cuda.blockIdx.z * LANES + lane
    rows, keys = q.shape[2], k.shape[2]
    of_k, of_v = T(0), T(0)
    for i in range(0, rows, LANES):
        score = _dot(k, j, q, i, n, h, own, other, row, lane) * scale
        gp = _dot(v, j, g, i, n, h, own, other, row, lane)
        slope, share = T(0), T(0)
        if j < keys and i + lane < rows and not (causal and j > i + lane):
            p = scalar.exp(score + mask[n, h, i + lane, j] - logsum[n, h, i + lane])
            share = p * drop[n, h, i + lane, j]
            slope = p * (gp * drop[n, h, i + lane, j] - delta[n, h, i + lane])
        slopes[row, lane] = slope
        shares[row, lane] = share
        cuda.syncthreads()
        for e in range(LANES):
            if i + e < rows:
                if column < q.shape[3]:
                    of_k += slopes[row, e] * q[n, h, i + e, column]
                if column < g.shape[3]:
                    of_v += shares[row, e] * g[n, h, i + e, column]
        cuda.syncthreads()
    if j < keys and column < gk.shape[3]:
        gk[n, h, j, column] = of_k * scale
    if j < keys and column < gv.shape[3]:
        gv[n, h, j, column] = of_v


class Kept(NamedTuple):
    """What backward needs instead of the weights"""

    y: Array
    logsum: Array  # (N, H, T)
    bias: Array  # what was added to the scores, (N, H, T, S), mostly of stride 0
    is_causal: bool
    float_mask: bool


def _four(x, batch):  # (..., A, B) -> (N, H, A, B), with the leading axes broadcast to `batch`
    heads = batch[-1] if batch else 1
    return x.broadcast_to((*batch, *x.shape[-2:])).reshape(math.prod(batch[:-1]), heads, *x.shape[-2:])


def _grid(queries, x, columns):  # blocks over heads, over rows, over columns
    return x.shape[0] * x.shape[1], blocks_for(queries, ROWS), blocks_for(columns, LANES)


def attention(q, k, v, mask, drop, scale, is_causal):  # (..., T, D) (..., S, D) (..., S, E) -> y, kept
    T, S = q.shape[-2], k.shape[-2]
    float_mask = mask is not None and mask.dtype != bool
    if mask is not None and not float_mask:
        mask = where(mask, full((), 0, q.dtype), full((), -math.inf, q.dtype))
    shapes = [a.shape[:-2] for a in (q, k, v, mask, drop) if a is not None]
    batch = np.broadcast_shapes(*shapes)
    bias = (full((), 0, q.dtype) if mask is None else mask).broadcast_to((*batch, T, S))
    factor = (full((), 1, q.dtype) if drop is None else drop).broadcast_to((*batch, T, S))
    y = empty((*batch, T, v.shape[-1]), q.dtype)
    a, b, c, m, f, out = (_four(x, batch) for x in (q, k, v, bias, factor, y))
    logsum = empty(a.shape[:3], q.dtype)
    if S == 0:
        y = full(y.shape, 0, q.dtype)
    else:
        numbers = q.dtype.type(scale), int(is_causal)
        _attention(_grid(T, a, v.shape[-1]), (LANES, ROWS), a, b, c, m, f, *numbers, out, logsum)
    return y, Kept(y, logsum, bias, is_causal, float_mask)


def attention_grad(g, q, k, v, p, drop, scale):  # p: what attention kept
    """-> gq, gk, gv and, for a float mask, gs, the gradient of the masked scores"""
    batch, T, S = g.shape[:-2], q.shape[-2], k.shape[-2]
    factor = (full((), 1, q.dtype) if drop is None else drop).broadcast_to((*batch, T, S))
    delta = sum(mul(g, p.y), (g.ndim - 1,), False).reshape(p.logsum.shape)  # = sum over keys of p gp
    gq, gk, gv = (empty((*batch, *x.shape[-2:]), q.dtype) for x in (q, k, v))
    if 0 in (T, S):
        return full(gq.shape, 0, q.dtype), full(gk.shape, 0, q.dtype), full(gv.shape, 0, q.dtype), None
    arrays = [_four(x, batch) for x in (g, q, k, v, p.bias, factor)]
    common = *arrays, p.logsum, delta, q.dtype.type(scale), int(p.is_causal)
    columns = max(q.shape[-1], v.shape[-1])
    block = LANES, ROWS
    _attention_grad_query(_grid(T, arrays[0], q.shape[-1]), block, *common, _four(gq, batch))
    keys = _four(gk, batch), _four(gv, batch)
    _attention_grad_key(_grid(S, arrays[0], columns), block, *common, *keys)
    gs = _scores_grad(g, q, k, v, p, factor, delta, scale) if p.float_mask else None
    return gq, gk, gv, gs


def _scores_grad(g: Any, q: Any, k: Any, v: Any, p: Kept, factor: Any, delta: Any, scale: float) -> Any:
    """The gradient of the scores as a (..., T, S) array: only a mask that is added can want it."""
    batch, T = g.shape[:-2], q.shape[-2]
    scores = add(mul(matmul(q, k.swapaxes(-1, -2)), scale), p.bias)
    weights = exp(sub(scores, p.logsum.reshape(*batch, T, 1)))
    gp = mul(matmul(g, v.swapaxes(-1, -2)), factor)
    return mul(weights, sub(gp, delta.reshape(*batch, T, 1)))


def attention_drop(shape, p, dtype, rng):  # what dropout multiplies the weights by: 0 or 1 / (1 - p)
    return mul(cast(dropout_keep(shape, p, rng), dtype), 0 if p == 1 else 1 / (1 - p))
