"""Every compiled kernel gives what its NumPy twin gives: sizes 0 and 1, odd sizes, strided inputs, NaN and
inf.
"""

import importlib
import inspect

import numpy as np
import pytest

from labkit.kernels.numba import KERNELS

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def same_numbers():
    """Every test draws the same numbers, whichever tests ran before it."""
    global RNG
    RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def elementwise(*numbers):
    return [(normal(*s), *numbers) for s in [(), (0,), (1,), (7, 5), (3, 1, 33), (211, 203)]]


def elementwise_grad(*numbers):
    return [(normal(*a[0].shape), *a, *numbers) for a in elementwise()]


def rows():
    return [normal(*s) for s in [(1, 1), (5, 3), (40, 129), (0, 4), (700, 65)]]


def norm(x):
    return x, normal(x.shape[1]), normal(x.shape[1]), 1e-5


def norm_grad(x, reference):
    mean, rstd = reference.layer_norm(x, None, None, 1e-5)[1:]
    return normal(*x.shape), x, normal(x.shape[1]), mean, rstd


def softmax_cases():
    """(x, axis): every axis, and rows with infinities and NaN."""
    x = normal(4, 5)
    x[0, 1], x[1, 2], x[2, 3], x[3] = -np.inf, np.inf, np.nan, -np.inf
    return [(y, a) for y in [*rows(), normal(3, 4, 70), normal(300, 200), x] for a in (-1, 0, y.ndim - 1)]


def conv_cases():
    """(x, w, b, stride, padding, dilation, groups): the direct kernel, its edges, and what falls back."""
    for N, C, F, size, kernel, padding in [
        (2, 3, 5, (9, 7), (3, 3), (1, 1)),
        (1, 1, 1, (5, 5), (3, 3), (0, 0)),
        (3, 2, 4, (8, 6), (5, 5), (2, 2)),
        (2, 4, 8, (6, 6), (1, 1), (0, 0)),
        (17, 2, 3, (6, 9), (2, 4), (1, 0)),
        (2, 1, 2, (4, 4), (1, 7), (0, 3)),
        (5, 3, 4, (12, 12), (3, 3), (2, 2)),
        (0, 3, 4, (5, 5), (3, 3), (1, 1)),
        (2, 2, 3, (5, 5), (1, 1), (2, 1)),
    ]:
        yield normal(N, C, *size), normal(F, C, *kernel), normal(F), (1, 1), padding, (1, 1), 1
    yield normal(2, 4, 9, 9), normal(6, 2, 3, 3), None, (2, 1), (1, 1), (1, 2), 2
    yield normal(2, 4, 9, 9), normal(6, 4, 3, 3), None, (1, 1), (1, 1), (1, 1), 1


def conv_grad_cases(reference):
    for x, w, b, *how in conv_cases():
        yield normal(*reference.conv2d(x, w, b, *how).shape), x, w, how


def pool_cases():
    """(x, size, stride, padding, dilation, out)"""
    ties = np.zeros((1, 2, 6, 6), np.float32)
    holes = normal(2, 3, 8, 8)
    holes[0, 0, 2, 3], holes[1, 1, 7, 7], holes[1, 2] = np.nan, np.inf, -np.inf
    for x in (normal(2, 3, 8, 8), normal(1, 1, 7, 9), normal(31, 5, 20, 20), ties, holes):
        H, W = x.shape[2:]
        yield x, (2, 2), (2, 2), (0, 0), (1, 1), (H // 2, W // 2)
        yield x, (3, 3), (2, 2), (1, 1), (1, 1), ((H - 1) // 2 + 1, (W - 1) // 2 + 1)
        yield x, (2, 3), (1, 2), (0, 0), (2, 1), (H - 2, (W - 3) // 2 + 1)
    yield normal(1, 2, 7, 7), (2, 2), (2, 2), (0, 0), (1, 1), (4, 4)  # ceil_mode: the last window hangs over


def pool_grad_cases(reference):
    for case in pool_cases():
        y, indices = reference.max_pool2d(*case)
        yield normal(*y.shape), indices, case[0].shape


def recurrent_cases(gates):
    for T, N, D, H in [(1, 1, 1, 1), (5, 3, 4, 6), (2, 40, 3, 257)]:
        k = gates * H
        weights = normal(k, D) / np.float32(D**0.5), normal(k, H) / np.float32(H**0.5), normal(k), normal(k)
        yield normal(T, N, D), normal(N, H), normal(N, H), *weights


def lstm_grad_cases(reference):
    for x, h0, c0, w_ih, w_hh, b_ih, b_hh in recurrent_cases(4):
        y, c, gates = reference.lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh)
        yield normal(*y.shape), normal(*c.shape), x, h0, c0, w_ih, w_hh, y, c, gates, True
        yield normal(*y.shape), None, x, h0, c0, w_ih, w_hh, y, c, gates, True


def gru_grad_cases(reference):
    for x, h0, _, w_ih, w_hh, b_ih, b_hh in recurrent_cases(3):
        y, gates, m = reference.gru(x, h0, w_ih, w_hh, b_ih, b_hh)
        yield normal(*y.shape), x, h0, w_ih, w_hh, y, gates, m, True


def linear_cases():
    """(x, w, b): the rows-by-rows kernel, sizes it does not divide, and what goes to BLAS."""
    for rows, inner, columns in [
        *((rows, 64, 5) for rows in (3, 4, 5, 7, 8)),
        *((6, 70, columns) for columns in (2, 3, 4, 9)),
        *((6, inner, 7) for inner in (0, 63, 64, 1024, 1025)),
        *((64, 784, 256), (65, 1024, 4), (0, 80, 4)),
    ]:
        yield normal(rows, inner), normal(columns, inner), normal(columns)
    x = normal(5, 80)
    x[1, 3], x[2, 4], x[3, 79] = np.nan, np.inf, -np.inf
    yield x, normal(6, 80), normal(6)
    yield normal(5, 80), normal(6, 80), None
    yield normal(2, 5, 80), normal(6, 80), normal(6)


def attention_cases():
    for batch, T, S, D in [
        ((), 1, 1, 1),
        ((2,), 5, 7, 3),
        ((2, 3), 9, 9, 4),
        ((4, 2), 80, 80, 8),
        ((4, 9), 60, 61, 8),  # large enough for threads
        ((2,), 0, 3, 2),
    ]:
        q, k, v = normal(*batch, T, D), normal(*batch, S, D), normal(*batch, S, D + 1)
        for is_causal in (False, True):
            yield q, k, v, None, None, 0.5, is_causal
    qkv = normal(2, 6, 3, 4, 5).transpose(2, 0, 3, 1, 4)  # heads as views of one buffer
    yield *qkv, None, None, 0.7, True
    yield *qkv, normal(6, 6) > 0, None, 0.7, False


def attention_grad_cases(reference):
    for q, k, v, *how in attention_cases():
        y, p = reference.attention(q, k, v, *how)
        yield normal(*y.shape), q, k, v, p, None, 0.5


def loss_cases():
    for x in rows():
        N, C = x.shape
        target = RNG.integers(0, C, N)
        for reduction in ("none", "sum", "mean"):
            yield x, target, None, -100, 0.0, reduction
            yield x, np.where(np.arange(N) % 3 == 1, -100, target), abs(normal(C)), -100, 0.0, reduction
        yield x, target, None, -100, 0.1, "mean"
    yield np.float32([[1, -np.inf, 3], [80, -200, 0]]), np.array([2, 1]), None, -100, 0.0, "none"


def embedding_cases():
    yield normal(3, 4, 5), RNG.integers(0, 6, (3, 4)), 6, None
    yield normal(900, 64), RNG.integers(0, 6, 900), 6, 2
    yield normal(0, 4), np.zeros(0, np.int64), 3, None


def cases(module, name, reference):
    """All argument tuples to try for one kernel."""
    table = {
        "erf": elementwise,
        "sigmoid": elementwise,
        "sigmoid_grad": elementwise_grad,
        "tanh": elementwise,
        "tanh_grad": elementwise_grad,
        "softmax": softmax_cases,
        "softmax_grad": lambda: [(normal(*x.shape), reference.softmax(x, a), a) for x, a in softmax_cases()],
        "log_softmax": softmax_cases,
        "log_softmax_grad": lambda: [
            (normal(*x.shape), reference.log_softmax(x, a), a) for x, a in softmax_cases()
        ],
        "relu": elementwise,
        "relu_grad": elementwise_grad,
        "gelu": lambda: elementwise("none") + elementwise("tanh"),
        "gelu_grad": lambda: elementwise_grad("none") + elementwise_grad("tanh"),
        "silu": elementwise,
        "silu_grad": elementwise_grad,
        "leaky_relu": lambda: elementwise(0.1),
        "leaky_relu_grad": lambda: elementwise_grad(0.1),
        "layer_norm": lambda: [norm(x) for x in rows()] + [(x, None, None, 1e-5) for x in rows()],
        "layer_norm_grad": lambda: [norm_grad(x, reference) for x in rows()],
        "rms_norm": lambda: [(x, normal(x.shape[1]), eps) for x in rows() for eps in (None, 1e-3)],
        "rms_norm_grad": lambda: [
            (normal(*x.shape), x, None, reference.rms_norm(x, None, 1e-5)[1]) for x in rows()
        ],
        "conv2d": conv_cases,
        "conv2d_grad_input": lambda: [(g, w, x.shape, *how) for g, x, w, how in conv_grad_cases(reference)],
        "conv2d_grad_weight": lambda: [(g, x, w.shape, *how) for g, x, w, how in conv_grad_cases(reference)],
        "conv2d_grad_bias": lambda: [(g,) for g, *_ in conv_grad_cases(reference)],
        "max_pool2d": pool_cases,
        "max_pool2d_grad": lambda: pool_grad_cases(reference),
        "lstm": lambda: recurrent_cases(4),
        "lstm_grad": lambda: lstm_grad_cases(reference),
        "gru": lambda: [(x, h, *weights) for x, h, _, *weights in recurrent_cases(3)],
        "gru_grad": lambda: gru_grad_cases(reference),
        "linear": linear_cases,
        "attention": attention_cases,
        "attention_grad": lambda: attention_grad_cases(reference),
        "cross_entropy": loss_cases,
        "embedding_grad": embedding_cases,
    }
    return list(table[name]())


def strided(a):
    """The same values in memory that is neither contiguous nor writable."""
    if not isinstance(a, np.ndarray) or a.ndim == 0:
        return a
    wide = np.repeat(a, 2, axis=-1)
    wide.flags.writeable = False
    return wide[..., ::2]


def assert_same(found, expected):
    found, expected = (v if isinstance(v, tuple) else (v,) for v in (found, expected))
    for f, e in zip(found, expected, strict=True):
        assert (np.shape(f), np.asarray(f).dtype) == (np.shape(e), np.asarray(e).dtype)
        size = np.abs(e[np.isfinite(e)]).max(
            initial=1
        )  # sums in another order: the error scales with the terms
        np.testing.assert_allclose(f, e, rtol=2e-5, atol=4e-6 * size)


def modules(module):
    return (importlib.import_module(f"labkit.kernels.{folder}.{module}") for folder in ("numba", "numpy"))


PURE = [(m, k) for m, names in KERNELS.items() for k in sorted(names) if not k.endswith("_")]
ALL = [(m, k) for m, names in KERNELS.items() for k in sorted(names)]


@pytest.mark.parametrize("module, name", ALL)
def test_signature(module, name):
    found, expected = (getattr(m, name) for m in modules(module))
    if isinstance(expected, np.ufunc):
        assert len(inspect.signature(found).parameters) == expected.nin
    else:
        assert inspect.signature(found) == inspect.signature(expected)


@pytest.mark.parametrize("layout", ["contiguous", "strided"])
@pytest.mark.parametrize("module, name", PURE)
def test_equal(module, name, layout):
    numba, numpy = modules(module)
    with np.errstate(all="ignore"):
        for args in cases(module, name, numpy):
            given = [strided(a) for a in args] if layout == "strided" else args
            before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
            assert_same(getattr(numba, name)(*given), getattr(numpy, name)(*args))
            for a, b in zip(args, before, strict=True):
                np.testing.assert_array_equal(a, b)  # inputs are only read


@pytest.mark.parametrize("module, name", PURE)
def test_float64_is_the_plain_path(module, name):
    numba, numpy = modules(module)
    with np.errstate(all="ignore"):
        args = cases(module, name, numpy)[1]
        args = [a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else a for a in args]
        found, expected = getattr(numba, name)(*args), getattr(numpy, name)(*args)
    found, expected = (v if isinstance(v, tuple) else (v,) for v in (found, expected))
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(f, e)
