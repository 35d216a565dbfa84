"""The block sizes of a GPU, which the simulator is too slow for: kernels stepped with 256 threads per block,
as they would be launched, and compared with the reference kernels."""

import numpy as np
import pytest

from labkit import cuda, simt
from labkit.kernels.cuda import attention, conv, embedding, launch, linear, loss, norm, reduce, sort
from labkit.kernels.numpy import attention as plain_attention
from labkit.kernels.numpy import conv as plain_conv
from labkit.kernels.numpy import loss as plain_loss
from labkit.kernels.numpy import norm as plain_norm
from labkit.kernels.numpy import reduce as plain_reduce

pytestmark = pytest.mark.skipif(cuda.SIMULATED, reason="the simulator has small blocks")


def make(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def step(kernel, blocks, threads, *arguments):
    report = simt.run(kernel.function, blocks, threads, *arguments)
    assert report.ok and report.finished, str(report)
    assert not report.of("bank conflict"), str(report)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_sizes():
    assert (launch.THREADS, linear.TILE, linear.OWN, attention.LANES, attention.ROWS) == (256, 16, 4, 32, 8)


@pytest.mark.parametrize("shape", [(17, 40, 33), (16, 16, 16)])
def test_matmul_tile(shape):
    rows, inner, columns = shape
    x, y, out = make(0, 2, rows, inner), make(1, 2, inner, columns), make(2, 2, rows, columns)
    grid = launch.blocks_for(rows, linear.TILE), launch.blocks_for(columns, linear.TILE), 1
    step(linear._matmul_tile, grid, (linear.TILE, linear.TILE), x, y, out)
    close(out, x @ y)


def test_matmul_registers():
    x, y, out = make(0, 1, 66, 17), make(1, 1, 17, 20), make(2, 1, 66, 20)
    step(linear._matmul_registers, (2, 1, 1), (linear.TILE, linear.TILE), x, y, out)
    close(out, x @ y)


@pytest.mark.parametrize("stride", [1, 2])
def test_direct_convolution(stride):
    x, w, b = make(0, 1, 2, 19, 18), make(1, 1, 2, 3, 5), make(2, 1)
    expected = plain_conv.conv2d(x, w, b, (stride, 1), (1, 2), (1, 1), 1)
    out, grid = np.empty_like(expected), [launch.blocks_for(n, conv.TILE) for n in expected.shape[:1:-1]]
    numbers = stride, 1, 1, 2, 1, 1
    step(conv._conv2d_direct, (*grid, 1), (conv.TILE, conv.TILE), x, w, b, *numbers, out)
    close(out, expected)


def test_running_sums():
    x = make(0, 1, 300)
    out = np.empty_like(x)
    step(reduce._running_sum, 1, launch.THREADS, np.float32(0), x, out)
    close(out, x.cumsum(1))


@pytest.mark.parametrize("columns", [1, 255, 256, 600])
def test_rows(columns):
    x = make(0, 2, columns)
    out, total = np.empty_like(x), np.zeros((1, 2), np.float32)
    step(reduce._sum, 2, launch.THREADS, np.float32(0), x.reshape(1, 2, 1, columns), total)
    close(total[0], x.sum(1))
    across = np.zeros((1, columns), np.float32)
    grid = 1, launch.blocks_for(columns, reduce.LANES)
    step(reduce._sum_columns, grid, (reduce.LANES, reduce.LINES), x.reshape(1, 2, columns), across)
    close(across[0], x.sum(0))
    step(reduce._softmax, 2, launch.THREADS, x, out)
    close(out, plain_reduce.softmax(x, 1))


def test_layer_norm():
    x, w, b, g = make(0, 2, 300), make(1, 300), make(2, 300), make(3, 2, 300)
    y, mean, rstd = np.empty_like(x), make(4, 2, 1), make(5, 2, 1)
    step(norm._layer_norm, 2, launch.THREADS, x, w, b, np.float32(1e-5), y, mean, rstd)
    close(y, plain_norm.layer_norm(x, w, b, 1e-5)[0])
    gx, gw, gb = np.empty_like(x), np.empty_like(w), np.empty_like(b)
    step(norm._layer_norm_grad, 2, launch.THREADS, g, x, w, mean, rstd, gx)
    grid = launch.blocks_for(300, norm.LANES)
    step(norm._column_sums, grid, (norm.LANES, norm.LINES), g, x, mean, rstd, gw, gb)
    for found, expected in zip((gx, gw, gb), plain_norm.layer_norm_grad(g, x, w, mean, rstd), strict=True):
        close(found, expected)


def test_cross_entropy():
    x, target = make(0, 2, 300), np.array([299, 7])
    cost, weight, gx = make(1, 2), make(2, 2), np.empty_like(x)
    arguments = x, target, np.ones(300, np.float32), -100, np.float32(0.1), 1, cost, weight, gx
    step(loss._cross_entropy, 2, launch.THREADS, *arguments)
    expected = plain_loss.cross_entropy(x, target, None, -100, 0.1, "none")
    close(cost, expected[0])
    close(gx, expected[1])


def test_attention():
    q, k, v, g = make(0, 1, 1, 9, 40), make(1, 1, 1, 35, 40), make(2, 1, 1, 35, 33), make(3, 1, 1, 9, 33)
    bias = np.where(np.tri(9, 35, 20, dtype=bool), 0, -np.inf).astype(np.float32)[None, None]
    drop, scale, block = np.ones_like(bias), np.float32(0.15), (attention.LANES, attention.ROWS)
    y, logsum = make(4, 1, 1, 9, 33), make(5, 1, 1, 9)
    step(attention._attention, (1, 2, 2), block, q, k, v, bias, drop, scale, 0, y, logsum)
    expected, p = plain_attention.attention(q, k, v, bias, None, scale, False)
    close(y, expected)
    gq, gk, gv = np.empty_like(q), np.empty_like(k), np.empty_like(v)
    common = g, q, k, v, bias, drop, logsum, (g * y).sum(-1), scale, 0
    step(attention._attention_grad_query, (1, 2, 2), block, *common, gq)
    step(attention._attention_grad_key, (1, 5, 2), block, *common, gk, gv)
    grads = plain_attention.attention_grad(g, q, k, v, p, None, scale)
    for found, theirs in zip((gq, gk, gv), grads[:3], strict=True):
        close(found, theirs)


def test_adding_rows():
    g, index = make(0, 300, 2), np.random.default_rng(1).integers(0, 5, 300)
    order, gw = np.empty(300, np.int64), np.empty((5, 2), np.float32)
    step(sort._rank, 2, launch.THREADS, index[None], 0, order[None])
    np.testing.assert_array_equal(order, np.argsort(index, kind="stable"))
    step(embedding._add_sorted, 5, launch.THREADS, g, index, order, gw)
    expected = np.zeros_like(gw)
    np.add.at(expected, index, g)
    close(gw, expected)
