"""Every sample of PyTorch's operator database, forward and gradient, on every kernel module."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from opinfo_table import CORE, FUNCTIONAL, REFUSED
from torch.testing._internal.common_methods_invocations import op_db

import labkit
from labkit import NotSupported, Tensor

TABLE = {**CORE, **FUNCTIONAL}
ENTRIES = {
    f"{info.name}/{info.variant_test_name}" if info.variant_test_name else info.name: info for info in op_db
}


def to_labkit(value: Any) -> Any:
    """The same argument for labkit: tensors, dtypes, and what contains them."""
    if isinstance(value, torch.Tensor):
        array = value.detach().numpy()
        return Tensor(array, requires_grad=value.requires_grad)
    if isinstance(value, torch.dtype):
        return getattr(labkit, str(value).removeprefix("torch."))
    if isinstance(value, (list, tuple)):
        return type(value)(to_labkit(v) for v in value)
    if isinstance(value, dict):
        return {k: to_labkit(v) for k, v in value.items()}
    return value


def tensors_in(value: Any, kind: type) -> list[Any]:
    """All tensors in nested tuples, lists and dicts, in order."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_in(v, kind)]
    return [t for v in value.values() for t in tensors_in(v, kind)] if isinstance(value, dict) else []


def assert_same(what: str, ours: Any, theirs: torch.Tensor) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape), (
        f"{what}: shape {tuple(ours.shape)}, torch {tuple(theirs.shape)}"
    )
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch."), (
        f"{what}: {ours.dtype}, torch {theirs.dtype}"
    )
    theirs = theirs.detach().numpy()
    scale = max(
        1.0, float(np.abs(theirs, where=np.isfinite(theirs), out=np.zeros(theirs.shape)).max(initial=0))
    )
    np.testing.assert_allclose(
        ours.data, theirs, rtol=2e-5, atol=2e-5 * scale, err_msg=what
    )  # rounding of the sums


def check_sample(info: Any, function: Any, sample: Any) -> None:
    """Value, shape, dtype of all outputs, and the gradient of a random projection of them for all inputs."""
    arguments = (sample.input, sample.args, sample.kwargs)
    ours_in = to_labkit(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its arguments
        theirs = info.op(sample.input, *sample.args, **sample.kwargs)
    ours = function(ours_in[0], *ours_in[1], **ours_in[2])
    if not isinstance(theirs, (torch.Tensor, tuple, list)):
        assert ours == theirs
        return
    theirs, ours = tensors_in(theirs, torch.Tensor), tensors_in(ours, Tensor)
    assert len(theirs) == len(ours)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert_same(f"output {i}", a, b)
        assert a.requires_grad == b.requires_grad, f"output {i}: requires_grad {a.requires_grad}"
    wanted = [(a, b) for a, b in zip(ours, theirs, strict=True) if b.requires_grad]
    if not wanted:
        return
    seeds = [torch.randn(b.shape).to(b.dtype) for _, b in wanted]
    torch.autograd.backward([b for _, b in wanted], seeds)
    labkit.autograd.backward([a for a, _ in wanted], [Tensor(s.numpy()) for s in seeds])
    for i, (a, b) in enumerate(
        zip(tensors_in(ours_in, Tensor), tensors_in(arguments, torch.Tensor), strict=True)
    ):
        if b.requires_grad:
            assert (a.grad is None) == (b.grad is None), f"input {i}: one gradient is None"
            if b.grad is not None:
                assert_same(f"gradient of input {i}", a.grad, b.grad)


@cache
def samples(key: str) -> list[Any]:
    info = ENTRIES[key]
    torch.manual_seed(0)
    return list(info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd))


@pytest.mark.parametrize("kernels", ["numpy", "cpu"])
@pytest.mark.parametrize("key", TABLE)
def test_samples(key: str, kernels: str, record_property: Any) -> None:
    refused, wrong = 0, []
    for number, sample in enumerate(samples(key)):
        for t in tensors_in((sample.input, sample.args, sample.kwargs), torch.Tensor):
            t.grad = None
        try:
            with labkit.use_kernels(kernels):
                check_sample(ENTRIES[key], TABLE[key], sample)
        except NotSupported:
            refused += 1
        except Exception as error:
            wrong.append(f"sample {number}, {sample.summary()}:\n{type(error).__name__}: {error}")
    record_property("opinfo", (kernels, len(samples(key)), refused))
    assert not wrong, f"{len(wrong)} of {len(samples(key))} samples are wrong\n" + "\n".join(wrong[:3])
    assert refused == REFUSED.get(key, 0)


def test_few_refusals() -> None:
    total = sum(len(samples(key)) for key in TABLE)
    assert sum(REFUSED.values()) <= 0.05 * total
