"""The real kernels under the stepper: no race, no divergent barrier, no access out of bounds in any launch of
the op tests and of a training step; and bugs planted in copies of them are found."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest
import test_ops
import test_training
from compare import make, same_as_cpu

import labkit
from labkit import cuda, simt
from labkit.kernels.cuda import compiled, embedding, launch, linear, reduce
from labkit.nn import functional as F

pytestmark = pytest.mark.skipif(not cuda.SIMULATED, reason="the stepper reads arrays of the simulator")
STEPPED: set[str] = set()


@pytest.fixture
def stepped(monkeypatch):
    """Run every launch under the stepper instead of the simulator, in an order that changes each time."""
    seeds = itertools.count()

    def step(kernel, blocks, threads, *arguments):
        blocks = blocks if isinstance(blocks, tuple) else (blocks,)
        if 0 not in blocks:
            passed = [a.argument()._ary if hasattr(a, "argument") else a for a in arguments]
            report = simt.run(kernel.function, blocks, threads, *passed, seed=next(seeds))
            assert report.ok and report.finished, f"{kernel.name}: {report}"
            STEPPED.add(kernel.name)

    monkeypatch.setattr(launch.Kernel, "__call__", step)


@pytest.mark.parametrize("name", test_ops.CASES)
def test_no_false_alarm(stepped, name):
    function, *arrays = test_ops.CASES[name]
    same_as_cpu(function, *arrays)


@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer"])
def test_training_steps(stepped, name):
    assert np.isfinite(test_training.step(name, "cuda")[0].item())


def test_the_kernels_that_no_other_test_here_uses(stepped):
    x = labkit.tensor(make(0, 4, 3), dtype=labkit.float32, device="cuda")
    i = labkit.tensor([[0, 1, 2], [3, 0, 1]], device="cuda")
    (i & 1) | (i ^ 2) | ~i
    labkit.logical_xor(i, 0 * i)
    F.dropout(x, 0.5)
    embedding.embedding_grad_atomic(x.data, i.data.reshape(6)[:4], 5)
    launch_arange = launch.ALL["memory.arange"]
    launch_arange(1, launch.THREADS, 0, 1, labkit.zeros(5, dtype=labkit.int64, device="cuda").data)
    missing = compiled.all_kernels().keys() - STEPPED
    assert not missing, f"never stepped: {sorted(missing)}"


# ---- planted bugs ----


def planted(tmp_path, module, before, after):
    """A copy of a kernel file with one piece of text replaced, as a module."""
    text = Path(module.__file__).read_text()
    assert text.count(before) >= 1, before
    path = tmp_path / "planted.py"
    path.write_text(text.replace(before, after))
    spec = importlib.util.spec_from_file_location("planted", path)
    copy = importlib.util.module_from_spec(spec)
    known = dict(launch.ALL)
    spec.loader.exec_module(copy)
    launch.ALL.clear()
    launch.ALL.update(known)  # the copies are not kernels of the device
    return copy


def product(copy):
    n, rows, inner, columns = linear.TILE, 2 * linear.TILE + 1, linear.TILE + 2, linear.TILE + 3
    shapes = (1, rows, inner), (1, inner, columns), (1, rows, columns)
    arguments = [make(i, *shape).astype(np.float32) for i, shape in enumerate(shapes)]
    return simt.check(copy._matmul_tile.function, (3, 2, 1), (n, n), *arguments, schedules=3)


def row_sums(copy):
    x, out = make(0, 1, 2, 3, 7).astype(np.float32), np.zeros((1, 2), np.float32)
    return simt.check(copy._sum.function, 2, launch.THREADS, np.float32(0), x, out, schedules=3)


def scatter(copy):
    g, index, out = make(0, 9, 3).astype(np.float32), np.array([3, 0, 3, 3, 4, 0, 1, 1, 3]), np.zeros((5, 3))
    arguments = g, index, out.astype(np.float32)
    return simt.check(copy._add_atomic.function, 4, launch.THREADS, *arguments, schedules=3)


BUGS = {
    "first barrier removed": (product, linear, "T(0)\n            cuda.syncthreads()\n", "T(0)\n", "race"),
    "second barrier removed": (
        product,
        linear,
        "            cuda.syncthreads()  # all have read",
        "            # all have read",
        "race",
    ),
    "guard removed": (
        product,
        linear,
        "        if i < rows and j < columns:\n",
        "        if True:\n",
        "bounds",
    ),
    "guard too wide": (
        product,
        linear,
        "if i < rows and k + tx < inner",
        "if i <= rows and k + tx < inner",
        "bounds",
    ),
    "index swapped": (product, linear, "x[n, i, k + tx] if", "x[n, k + tx, i] if", "bounds"),
    "barrier in a branch": (
        row_sums,
        reduce,
        "                partial[t] = f(partial[t], partial[t + half])\n            cuda.syncthreads()\n",
        "                partial[t] = f(partial[t], partial[t + half])\n                cuda.syncthreads()\n",
        "divergent",
    ),
    "barrier of the tree removed": (
        row_sums,
        reduce,
        "f(partial[t], partial[t + half])\n            cuda.syncthreads()\n",
        "f(partial[t], partial[t + half])\n",
        "race",
    ),
    "off by one in the tree": (row_sums, reduce, "partial[t + half])", "partial[t + half + 1])", ""),
    "scatter without atomics": (
        scatter,
        embedding,
        "        cuda.atomic.add(gw, (index[n], d), g[n, d])\n",
        "        gw[index[n], d] += g[n, d]\n",
        "race",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(tmp_path, name):
    run, module, before, after, kind = BUGS[name]
    assert run(module).ok  # the real kernel, with the same arguments
    report = run(planted(tmp_path, module, before, after))
    assert not report.ok
    errors = [f for f in report.findings if f.severity == "error"]
    assert any(kind in f.kind for f in errors), [str(f) for f in errors]
    first = (tmp_path / "planted.py").read_text().splitlines()
    assert all(1 <= f.line <= len(first) for f in errors)
