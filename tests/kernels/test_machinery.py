"""What makes the compiled kernels fast and safe: vector instructions, threads, forks, torch in the same
process.
"""

import math
import os
import platform
import re
import subprocess
import sys

import numba
import numpy as np
import pytest

from labkit.kernels.numba import (
    activation,
    attention,
    conv,
    jit,
    linear,
    loss,
    norm,
    optim,
    recurrent,
    reduce,
    threads,
)
from labkit.kernels.numba import scalar as functions
from labkit.kernels.numpy import optim as plain


def normal(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def numbers(*values):
    return tuple(np.float32(v) for v in values)


x, row = normal(6, 64), normal(64)
column = normal(6, 1)
LOOPS = {
    "gelu": (activation._gelu_tanh, (row, row.copy())),
    "gelu_grad": (activation._gelu_grad, (row, row.copy(), row.copy())),
    "relu": (activation._relu, (row, row.copy())),
    "layer_norm": (norm._layer_norm, (x, row, row, np.float32(1e-5), x.copy(), column, column.copy())),
    "softmax": (reduce._softmax, (x, x.copy())),
    "attention": (attention._softmax_rows, (normal(2, 8, 8), np.float32(1), True)),
    "cross_entropy": (
        loss._cross_entropy,
        (x, np.zeros(6, np.int64), row, -100, True, normal(6), x.copy()),
    ),
    "conv2d": (conv._add_taps, (row, 0, normal(4, 3), *normal(4, 32))),
    "conv2d_grad_weight": (conv._sum_taps, (row, 0, *normal(3, 32), normal(3, 3), 3)),
    "lstm": (recurrent._lstm_cell, (normal(6, 256), normal(6, 256), x, x.copy(), x.copy())),
    "linear": (linear.rows_by_rows, (x, normal(4, 64), normal(6), normal(4, 6))),
    "adam": (optim._adam, (row, row.copy(), row.copy(), abs(row), *numbers(1, 0.9, 0.9, 1e-8, 0, 1, 1))),
}


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("name", LOOPS)
def test_vector_instructions(name):
    """The loop works on whole vector registers: packed single-precision arithmetic in the machine code."""
    loop, args = LOOPS[name]
    source = getattr(loop, "serial", loop).py_func
    compiled = numba.njit(source, fastmath=jit._FASTMATH, error_model="numpy")
    compiled(*(a.copy() if isinstance(a, np.ndarray) else a for a in args))
    (code,) = compiled.inspect_asm().values()
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("reads the names of x86 instructions")
    assert re.search(r"\bv?(mul|add|max|cmp\w*|fmadd\d+)ps\b", code), f"no packed arithmetic in {name}"


def test_scalar_functions_are_accurate():
    """Within a few units in the last place over their whole range."""
    values = np.concatenate([np.linspace(-87, 88, 20_001), np.linspace(-4, 4, 20_001)]).astype(np.float32)
    wide = values.astype(np.float64)
    expected = {
        functions.exp: np.exp(wide),
        functions.tanh: np.tanh(wide),
        functions.sigmoid: 1 / (1 + np.exp(-wide)),
        functions.erf: np.vectorize(math.erf)(wide),
    }
    for function, true in expected.items():
        found = np.array([function(v) for v in values], np.float64)
        assert np.max(np.abs(found - true) / np.maximum(np.abs(true), 1e-30)) < 5e-7, function


ENDS = {"exp": (np.inf, 0), "tanh": (1, -1), "sigmoid": (1, 0), "erf": (1, -1)}


@pytest.mark.parametrize("name", ENDS)
def test_scalar_functions_at_infinity_and_nan(name):
    function = getattr(functions, name)
    assert (function(np.float32(np.inf)), function(np.float32(-np.inf))) == ENDS[name]
    assert np.isnan(function(np.float32(np.nan)))


def test_serial_and_parallel_give_the_same():
    """The result of a sum does not depend on the number of threads, bit by bit."""
    g, x, w = normal(300, 200), normal(300, 200)[::-1].copy(), normal(200)
    mean, rstd = norm.layer_norm(x, w, w, 1e-5)[1:]
    images, out, how = normal(5, 3, 9, 9), normal(5, 7, 9, 9), ((1, 1), (1, 1), (1, 1), 1)
    sequence = normal(4, 37, 3), normal(37, 5), normal(37, 5), normal(20, 3), normal(20, 5)
    results = []
    for choice in ("serial", "parallel"):
        with jit.always(choice):
            grads = norm.layer_norm_grad(g, x, w, mean, rstd)
            weights = conv.conv2d_grad_weight(out, images, (7, 3, 3, 3), *how)
            products = linear.linear(x[:50], g[:40], None)
            states = recurrent.lstm(*sequence, None, None)
            results.append((*grads, weights, products, *states))
    for serial, parallel in zip(*results, strict=True):
        np.testing.assert_array_equal(serial, parallel)


def test_parts_are_shared_out_and_wait_for_each_other(monkeypatch):
    """Every index once, kernels inside a part serial; an error in one part comes out when all are done."""
    monkeypatch.setattr(threads.numba, "get_num_threads", lambda: 3)
    seen, done = [], []
    threads.split(lambda part: seen.append((part, threads.count())), 8)
    assert sorted((part.start, part.stop, inside) for part, inside in seen) == [
        (0, 2, 1),
        (2, 5, 1),
        (5, 8, 1),
    ]
    assert threads.count() == 3
    threads.split(lambda part: done.append(part), 1)
    assert [(part.start, part.stop) for part in done] == [(None, 1)]

    def work(part):
        if part.start == 2:
            raise ValueError("the second part")
        done.append(part)

    with pytest.raises(ValueError, match="the second part"):
        threads.split(work, 8)
    assert len(done) == 3 and threads.count() == 3


SGD = [(None, 0.1, 0, 0, 0.01, False), ("buf", 0.1, 0.9, 0.5, 0.0, False), ("buf", 0.1, 0.9, 0, 0.1, True)]
ADAM = [(0.1, 0.9, 0.99, 1e-8, 0.01, False, 3), (0.1, 0.9, 0.99, 1e-8, 0.01, True, 1)]


@pytest.mark.parametrize("shape", [(1,), (0,), (7, 5), (300, 200)])
def test_updates(shape):
    """Both updates, in place, on contiguous arrays and on views that only NumPy can write."""
    for view in (lambda a: a, lambda a: np.repeat(a, 2, axis=-1)[..., ::2]):
        for buf, *numbers in SGD:
            p, g, b = (view(normal(*shape)) for _ in range(3))
            q, c = p.copy(), b.copy()
            optim.sgd_(p, g, b if buf else None, *numbers)
            plain.sgd_(q, g, c if buf else None, *numbers)
            np.testing.assert_allclose(p, q, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(b, c, rtol=1e-6, atol=1e-6)
        for numbers in ADAM:
            for amsgrad in (False, True):
                p, g, m, v = (view(normal(*shape)) for _ in range(4))
                v = abs(v)
                state = [p, m, v, *([abs(m)] if amsgrad else [None])]
                twin = [a if a is None else a.copy() for a in state]
                optim.adam_(state[0], g, *state[1:], *numbers)
                plain.adam_(twin[0], g, *twin[1:], *numbers)
                for a, e in zip(state, twin, strict=True):
                    if e is not None:
                        np.testing.assert_allclose(a, e, rtol=2e-6, atol=2e-6)


def run(code, **env):
    """Run code in a fresh interpreter with two threads; return what it prints."""
    env = {**os.environ, "NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", **env}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


KERNEL = """
import numpy as np
from labkit.kernels.numba import activation
big = np.linspace(-1, 1, 100_000, dtype=np.float32)
def use(): return float(activation.gelu(big, "tanh")[-1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_runs_serial():
    """OpenMP would end a child that starts a parallel loop after its parent has done so."""
    code = """
import os
use()
child = os.fork()
if child == 0:
    use()
    os._exit(7)
print(os.waitpid(child, 0)[1] >> 8)
"""
    assert run(KERNEL + code) == "7"


TORCH = """
import os, torch
def torch_use(): return float((torch.ones(300, 300) @ torch.ones(300, 300))[0, 0])
"""


@pytest.mark.parametrize("torch_first", [True, False])
def test_torch_in_the_same_process(torch_first):
    """Whoever comes first, both compute, and torch finds no setting of ours in the environment."""
    code = TORCH + KERNEL if torch_first else KERNEL + "use()" + TORCH
    code += "print(torch_use(), round(use(), 4), torch_use(), 'GOMP_SPINCOUNT' in os.environ)"
    assert run(code) == "300.0 0.8412 300.0 False"


@pytest.mark.parametrize("own, kept", [(None, "18"), ("26", "26")])
def test_matrix_products_give_their_threads_up(own, kept):
    """The setting is there before NumPy is loaded, unless the user has chosen one."""
    name = "OPENBLAS_THREAD_TIMEOUT"
    chosen = f"os.environ.pop({name!r}, None)" if own is None else f"os.environ[{name!r}] = {own!r}"
    code = f"import os, sys; {chosen}; import labkit; print('numpy' in sys.modules, os.environ[{name!r}])"
    assert run(code) == f"False {kept}"


def test_without_compiler():
    """The loops are plain Python too: NUMBA_DISABLE_JIT=1 runs them on small arrays."""
    code = """
import numpy as np
from labkit.kernels.numba import norm, conv, pool, reduce, optim
import labkit.kernels.numpy.norm as n, labkit.kernels.numpy.conv as c, labkit.kernels.numpy.pool as p
r = np.random.default_rng(0)
x, w = r.standard_normal((3, 5)).astype(np.float32), r.standard_normal(5).astype(np.float32)
assert np.allclose(norm.layer_norm(x, w, w, 1e-5)[0], n.layer_norm(x, w, w, 1e-5)[0], atol=1e-5)
x, w = r.standard_normal((2, 2, 6, 6)).astype(np.float32), r.standard_normal((3, 2, 3, 3)).astype(np.float32)
how = (1, 1), (1, 1), (1, 1), 1
assert np.allclose(conv.conv2d(x, w, None, *how), c.conv2d(x, w, None, *how), atol=1e-5)
pool_how = (2, 2), (2, 2), (0, 0), (1, 1), (3, 3)
assert np.array_equal(pool.max_pool2d(x, *pool_how)[1], p.max_pool2d(x, *pool_how)[1])
print("same")
"""
    assert run(code, NUMBA_DISABLE_JIT="1") == "same"
