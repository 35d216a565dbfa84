"""Every class of bad input is refused in words: what happened, the shapes or names, and what to try."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import labkit
from labkit import nn, optim
from labkit.errors import ShapeError
from labkit.serialization import CheckpointError

F = nn.functional


def zeros(*shape):
    return labkit.zeros(*shape)


def leaf(*shape):
    return labkit.ones(*shape, requires_grad=True)


SHAPES = {
    "add": (lambda: zeros(3, 4) + zeros(3), "(3, 4)", "(3,)", "unsqueeze"),
    "matmul": (lambda: zeros(3, 4) @ zeros(3, 5), "(3, 4)", "(3, 5)", "must equal"),
    "bmm": (lambda: labkit.bmm(zeros(2, 3, 4), zeros(3, 4, 5)), "(2, 3, 4)", "(3, 4, 5)", "batches"),
    "cat": (lambda: labkit.cat([zeros(2, 3), zeros(2, 4)]), "(2, 3)", "(2, 4)", "dim 0"),
    "where": (lambda: labkit.where(zeros(3) > 0, zeros(3), zeros(4)), "(3,)", "(4,)", "do not fit"),
    "view": (lambda: zeros(3, 4).view(5, 3), "(3, 4)", "(5, 3)", "15"),
    "linear": (lambda: nn.Linear(3, 4)(zeros(2, 5)), "(2, 5)", "(4, 3)", "in_features"),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3)(zeros(1, 2, 8, 8)), "(1, 2, 8, 8)", "(4, 3, 3, 3)", "channels"),
    "layer_norm": (lambda: nn.LayerNorm(3)(zeros(2, 4)), "(2, 4)", "(3,)", "normalized_shape"),
    "cross_entropy": (
        lambda: F.cross_entropy(zeros(4, 3), labkit.tensor([0, 1])),
        "(4, 3)",
        "(2,)",
        "one class per item",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_mismatch_names_the_op_and_both_shapes(name):
    call, *words = SHAPES[name]
    with pytest.raises(ShapeError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(f"{name}()")
    assert all(word in message for word in words), message


MESSAGES = {  # what is done -> (error, words of its message, in their order)
    "dtype of a product": (
        lambda: zeros(2, 3) @ zeros(3, 2).long(),
        RuntimeError,
        ["matmul()", "float32", "int64", "x.to("],
    ),
    "dtype of an input": (
        lambda: nn.Linear(3, 2)(zeros(2, 3).double()),
        RuntimeError,
        ["linear()", "float64", "weight float32", "x.to(labkit.float32)"],
    ),
    "dtype of an image": (
        lambda: nn.Conv2d(1, 1, 3)(zeros(1, 1, 4, 4).double()),
        TypeError,
        ["conv2d()", "float64", "weight float32", "x.to(labkit.float32)"],
    ),
    "mean of whole numbers": (lambda: labkit.tensor([1, 2]).mean(), RuntimeError, ["int64", "x.float()"]),
    "an array": (lambda: zeros(2) + np.ones(2), TypeError, ["NumPy array", "from_numpy"]),
    "an unknown device": (lambda: zeros(2).to("mps"), TypeError, ["'mps'", "device of labkit"]),
    "an axis": (lambda: zeros(2, 3).sum(2), IndexError, ["sum()", "dim 2", "2 axes", "-2 to 1"]),
    "the only axis": (lambda: zeros(2).size(1), IndexError, ["size()", "dim 1", "1 axis", "-1 to 0"]),
    "a new axis": (lambda: zeros(2).unsqueeze(3), IndexError, ["dim 3", "the result has 2 axes", "-2 to 1"]),
    "no steps": (lambda: nn.LSTM(3, 4)(zeros(0, 2, 3)), ShapeError, ["LSTM", "at least one step"]),
    "a pad that crops": (lambda: F.pad(zeros(2, 4), (-5, 6)), ShapeError, ["pad()", "(-5, 6)", "(2, 4)"]),
    "attention": (
        lambda: nn.MultiheadAttention(8, 2)(zeros(3, 2, 6), zeros(3, 2, 8), zeros(3, 2, 8)),
        ShapeError,
        ["MultiheadAttention", "query (3, 2, 6)", "size 8"],
    ),
    "backward of many": (
        lambda: (leaf(3) * 2).backward(),
        RuntimeError,
        ["single number", "(3,)", "loss.sum()", "gradient="],
    ),
    "backward of none": (lambda: zeros(3).sum().backward(), RuntimeError, ["history", "requires_grad=True"]),
}


@pytest.mark.parametrize("what", MESSAGES)
def test_the_message_says_what_and_what_to_try(what):
    call, error, words = MESSAGES[what]
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    places = [message.find(word) for word in words]
    assert -1 not in places and places == sorted(places), message


def test_backward_twice():
    loss = (leaf(3) ** 2).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match=r"a second time[\s\S]*retain_graph=True"):
        loss.backward()


def test_a_value_changed_before_backward():
    y = leaf(3).exp()
    loss = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"shape \(3,\) that <mul> needs[\s\S]*x\.clone\(\)"):
        loss.backward()


def test_a_step_between_two_backward_passes():
    layer = nn.Linear(2, 1)
    loss = layer(leaf(3, 2)).sum()
    loss.backward(retain_graph=True)
    optim.SGD(layer.parameters(), lr=0.1).step()
    with pytest.raises(RuntimeError, match=r"<linear> needs[\s\S]*optimizer\.step\(\)"):
        loss.backward()


def test_nan_in_anomaly_mode_names_the_op_and_the_line():
    x = labkit.zeros(2, requires_grad=True)
    with labkit.autograd.detect_anomaly(), pytest.raises(RuntimeError) as caught, np.errstate(all="ignore"):
        (x.sqrt() * 0).sum().backward()
    assert "<sqrt> returned NaN" in str(caught.value) and __file__ in str(caught.value)


INFINITE = """
import labkit
from labkit import nn

inf, nan = float("inf"), float("nan")
for kernels in ("numpy", "cpu"):
    with labkit.use_kernels(kernels):
        for f in (nn.LayerNorm(4), nn.RMSNorm(4), nn.GroupNorm(2, 4), nn.BatchNorm1d(4), nn.Softmax(1)):
            x = labkit.tensor([[0.0, -1.0, inf, 3.0], [nan, -inf, 1e38, 2.0]], requires_grad=True)
            y = f(x)
            y.sum().backward()
            assert y.isnan().any(), f
"""


def test_infinity_and_nan_are_values_not_warnings():
    subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", INFINITE], check=True)


def test_layers_that_the_module_does_not_see():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(2, 2)]

    with pytest.warns(UserWarning, match=r"self\.layers is a plain list[\s\S]*nn\.ModuleList"):
        model = Hidden()
    with pytest.raises(ValueError, match=r"no parameters[\s\S]*nn\.ModuleList"):
        optim.SGD(model.parameters(), lr=0.1)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda state: state.pop("0.bias"), ["0.bias is missing", "strict=False"]),
        (lambda state: state.update(extra=zeros(1)), ["extra is not part of the model", "strict=False"]),
        (lambda state: state.update({"0.weight": zeros(3, 5)}), ["(3, 5)", "needs (3, 2)", "sizes"]),
    ],
)
def test_a_state_dict_that_does_not_fit(change, words):
    model = nn.Sequential(nn.Linear(2, 3))
    state = dict(model.state_dict())
    change(state)
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    assert all(word in str(caught.value) for word in ["Sequential", *words]), caught.value


class Trap:
    """Unpickling it would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("name", ["a.pt", "a.npz", "a.npy", "a.safetensors"])
@pytest.mark.parametrize("kind", ["pickle", "objects", "noise", "cut"])
def test_a_malformed_checkpoint_runs_nothing(tmp_path, name, kind):
    trap, path = tmp_path / "trap", tmp_path / name
    if kind == "pickle":
        path.write_bytes(pickle.dumps(Trap(str(trap))))
    elif kind == "objects":
        with path.open("wb") as file:
            np.savez(file, w=np.array([Trap(str(trap))], dtype=object))
    else:
        labkit.save({"w": labkit.ones(50)}, tmp_path / "good.npz")
        path.write_bytes(b"\x00noise" * 9 if kind == "noise" else (tmp_path / "good.npz").read_bytes()[:-60])
    with pytest.raises((CheckpointError, ValueError), match=f"{name}'"):
        labkit.load(path)
    assert not trap.exists()
