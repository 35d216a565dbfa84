"""A learner's CUDA kernels over labkit's: a network trains on both devices with the same losses."""

import sys
from pathlib import Path

import numpy as np
import pytest

import labkit
from labkit import cuda, simt
from labkit.kernels.cuda import launch
from labkit.kernels.cuda.launch import THREADS, blocks_for
from labkit.kernels.cuda.launch import cuda as numba_cuda
from labkit.kernels.cuda.memory import empty

sys.path.append(str(Path(__file__).parents[2] / "kernels"))
import test_yours_cpu as on_cpu


def product(x, y, out):
    """One thread per element of the result"""
    i = numba_cuda.grid(1)
    if i < out.size:
        row, column = i // out.shape[1], i % out.shape[1]
        total = type(x[0, 0])(0)
        for j in range(x.shape[1]):
            total += x[row, j] * y[j, column]
        out[row, column] = total


def positive(x, out):
    """One thread per element"""
    i = numba_cuda.grid(1)
    if i < out.size:
        row, column = i // out.shape[1], i % out.shape[1]
        v = x[row, column]
        out[row, column] = v if v > 0 else type(v)(0)


def positive_grad(g, y, out):
    """One thread per element"""
    i = numba_cuda.grid(1)
    if i < out.size:
        row, column = i // out.shape[1], i % out.shape[1]
        out[row, column] = g[row, column] if y[row, column] > 0 else type(g[row, column])(0)


@pytest.fixture
def mine():
    """Launchers around the kernels above; labkit's table of kernels is left as it was."""
    known = dict(launch.ALL)
    kernels = {
        f.__name__: launch.kernel("", f"mine.{f.__name__}")(f) for f in (product, positive, positive_grad)
    }
    launch.ALL.clear()
    launch.ALL.update(known)

    def run(name, shape, *arrays):
        out = empty(shape, arrays[0].dtype)
        kernels[name](blocks_for(out.size), THREADS, *arrays, out)
        return out

    return {
        "matmul": lambda x, y: run("product", (x.shape[0], y.shape[1]), x, y),
        "relu": lambda x: run("positive", x.shape, x),
        "relu_grad": lambda g, y: run("positive_grad", g.shape, g, y),
    }


def test_a_learners_kernels_train_a_network_on_both_devices(mine):
    expected = on_cpu.losses("cpu")
    with labkit.use_kernels(on_cpu.MINE) as k_cpu, labkit.use_kernels(mine, device="cuda") as k_cuda:
        np.testing.assert_allclose(on_cpu.losses("cpu"), expected, rtol=1e-5)
        np.testing.assert_allclose(on_cpu.losses("cuda"), expected, rtol=1e-5)
    assert k_cpu.calls == k_cuda.calls == {"matmul": 25, "relu": 5, "relu_grad": 5}
    assert "cuda, yours: matmul (called 25 times)" in repr(k_cuda)
    np.testing.assert_allclose(on_cpu.losses("cuda", 1), expected[:1], rtol=1e-5)
    assert k_cuda.calls["matmul"] == 25, "after the block labkit's own run again"


@pytest.mark.skipif(not cuda.SIMULATED, reason="the stepper reads arrays of the simulator")
def test_the_stepper_looks_at_a_learners_kernels(mine, monkeypatch):
    seen = []

    def step(kernel, blocks, threads, *arguments):
        blocks = blocks if isinstance(blocks, tuple) else (blocks,)
        passed = [a.argument()._ary if hasattr(a, "argument") else a for a in arguments]
        seen.append((kernel.name, simt.run(kernel.function, blocks, threads, *passed).ok))

    x, y = labkit.ones(2, 3, device="cuda"), labkit.ones(3, 2, device="cuda")
    monkeypatch.setattr(launch.Kernel, "__call__", step)
    with labkit.use_kernels(mine, device="cuda"):
        assert (x @ y).tolist() == [[3, 3], [3, 3]]
    assert ("mine.product", True) in seen


def test_a_missing_name_suggests_one_of_the_device(mine):
    with pytest.raises(ValueError, match=r"cuda has no kernel 'mat_mul'\. Did you mean 'matmul'"):
        labkit.use_kernels({"mat_mul": mine["matmul"]}, device="cuda").__enter__()
