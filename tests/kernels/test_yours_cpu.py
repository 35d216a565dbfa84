"""A learner's kernels over those of the CPU. On the device: `tests/cuda/device/test_yours.py`."""

import types

import numpy as np
import pytest

import labkit
from labkit import backends


def matmul(x, y):
    """Products of matrices as sums of outer products"""
    shape = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    out = np.zeros((*shape, x.shape[-2], y.shape[-1]), x.dtype)
    for i in range(x.shape[-1]):
        out += x[..., :, i, None] * y[..., None, i, :]
    return out


def relu(x):
    return np.where(x > 0, x, np.zeros_like(x))


def relu_grad(g, y):
    return np.where(y > 0, g, np.zeros_like(g))


MINE = {"matmul": matmul, "relu": relu, "relu_grad": relu_grad}


def losses(device="cpu", steps=5):
    """Train a network with two layers on two clouds of points: the loss of every step"""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((6, 2)).astype(np.float32)
    x = labkit.tensor(points, device=device)
    target = labkit.tensor((points[:, 0] > 0).astype(np.int64), device=device)
    weights = [rng.standard_normal(s).astype(np.float32) * 0.5 for s in ((2, 5), (5,), (5, 2), (2,))]
    w1, b1, w2, b2 = parameters = [labkit.tensor(w, device=device).requires_grad_() for w in weights]
    optimizer = labkit.optim.SGD(parameters, lr=0.5)
    found = []
    for _ in range(steps):
        loss = labkit.nn.functional.cross_entropy((x @ w1 + b1).relu() @ w2 + b2, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_a_learners_kernels_train_a_network():
    expected = losses()
    with labkit.use_kernels(MINE) as k:
        np.testing.assert_allclose(losses(), expected, rtol=1e-5)
    assert k.yours == ("matmul", "relu", "relu_grad")
    assert k.calls == {"matmul": 5 * (2 + 3), "relu": 5, "relu_grad": 5}  # x needs no gradient: 3, not 4
    assert repr(k) == (
        "<kernels cpu, yours: matmul (called 25 times), relu (called 5 times), relu_grad (called 5 times)>"
    )
    assert expected[-1] < expected[0]
    before = dict(k.calls)
    losses(steps=1)
    assert k.calls == before, "after the block labkit's own run again"


def test_the_way_back_uses_the_kernels_of_the_way_there():
    x = labkit.tensor([-1.0, 2.0], requires_grad=True)
    with labkit.use_kernels(MINE) as k:
        y = x.relu()
    y.sum().backward()
    assert k.calls == {"relu": 1, "relu_grad": 1}


def test_a_module_and_helpers_in_it():
    mine = types.ModuleType("mine")
    exec(
        "import numpy as np\nfrom math import exp\n"
        "def relu(x): return _positive(x)\ndef _positive(x): return np.maximum(x, 0)\ndef draw(x): return x",
        mine.__dict__,
    )
    with labkit.use_kernels(mine) as k:
        assert labkit.tensor([-1.0, 2.0]).relu().tolist() == [0, 2]
        assert "relu" in k.yours and "draw" not in k.yours
    exec("def relu_grads(g, y): return g", mine.__dict__)
    with pytest.raises(ValueError, match=r"cpu has no kernel 'relu_grads'\. Did you mean 'relu_grad'\?"):
        labkit.use_kernels(mine).__enter__()


def test_nested_and_after_an_error():
    plain = backends.current_kernels
    with labkit.use_kernels({"relu": lambda x: x + 1}) as outer:
        with labkit.use_kernels({"exp": lambda x: x + 2}) as inner:
            assert labkit.tensor([1.0]).relu().tolist() == [2]
            assert labkit.tensor([1.0]).exp().tolist() == [3]
            assert inner.yours == ("exp", "relu")
            assert repr(inner) == "<kernels cpu, yours: exp (called once), relu (called once)>"
        assert labkit.tensor([1.0]).exp().item() == pytest.approx(np.e)
        with labkit.use_kernels("numpy") as k:  # all of labkit's, none of yours
            assert labkit.tensor([1.0]).relu().tolist() == [1] and not hasattr(k, "yours")
        with pytest.raises(ZeroDivisionError), labkit.use_kernels({"relu": lambda x: 1 / 0}):
            labkit.tensor([1.0]).relu()
        assert backends.current_kernels is outer
    assert backends.current_kernels is plain


def test_each_device_has_its_own():
    cpu, cuda = backends.of("cpu"), backends.of("cuda")
    with labkit.use_kernels({"relu": relu}, device="cuda") as k:
        assert backends.of("cuda") is k and backends.of("cpu") is cpu
        with labkit.use_kernels({"relu": relu}):
            assert backends.of("cuda") is k and backends.of("cpu") is not cpu
        assert backends.of("cpu") is cpu
    assert backends.of("cuda") is cuda


@pytest.mark.parametrize(
    ("mine", "device", "words"),
    [
        ({"matmull": matmul}, "cpu", r"cpu has no kernel 'matmull'\. Did you mean 'matmul'\?"),
        ({"warp_drive_9": matmul}, "cuda", r"cuda has no kernel 'warp_drive_9'\.$"),
        ({}, "cpu", "there is no kernel in mine"),
        ({"relu_grad": lambda g: g}, "cpu", r"relu_grad takes \(g, y\), yours takes \(g\)"),
        ({"exp": lambda: 1}, "cpu", r"exp takes 1 arguments, yours takes \(\)"),
        ({"relu": relu}, "tpu", "device is 'cpu' or 'cuda', not 'tpu'"),
        ("numpy", "cuda", "work on arrays of the CPU"),
    ],
)
def test_what_does_not_fit_is_said(mine, device, words):
    before = backends.of("cpu"), backends.of("cuda")
    with pytest.raises(ValueError, match=words):
        labkit.use_kernels(mine, device=device).__enter__()
    assert before == (backends.of("cpu"), backends.of("cuda"))
