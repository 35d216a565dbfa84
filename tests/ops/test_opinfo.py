"""Every sample of PyTorch's operator database, forward and gradient, on every kernel module."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from opinfo_table import CORE, FUNCTIONAL, REFUSED
from torch.testing._internal.common_methods_invocations import op_db

import labkit
from labkit import NotSupported, Tensor

torch.set_num_threads(1)  # the samples are tiny: threads would only wait for each other

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


def in_float64(value: Any) -> Any:
    """The same argument with float64 instead of float32."""
    if isinstance(value, torch.Tensor):
        return (
            value.detach().double().requires_grad_(value.requires_grad)
            if value.dtype == torch.float32
            else value
        )
    if isinstance(value, (list, tuple)):
        return type(value)(in_float64(v) for v in value)
    if isinstance(value, dict):
        return {k: in_float64(v) for k, v in value.items()}
    return torch.float64 if value is torch.float32 else value


def torch_results(info: Any, arguments: Any, seeds: list[torch.Tensor]) -> tuple[Any, list[Any]]:
    """What torch returns, and the gradient of its projection on the seeds for every input (or None)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its arguments
        result = info.op(arguments[0], *arguments[1], **arguments[2])
    wanted = [t for t in tensors_in(result, torch.Tensor) if t.requires_grad]
    seeds.extend(torch.randn(t.shape).to(t.dtype) for t in wanted[len(seeds) :])
    inputs = tensors_in(arguments, torch.Tensor)
    leaves = [t for t in inputs if t.requires_grad]
    found = iter(
        torch.autograd.grad(
            wanted, leaves, [s.to(t.dtype) for s, t in zip(seeds, wanted, strict=True)], allow_unused=True
        )
        if wanted
        else [None] * len(leaves)
    )
    return result, [next(found) if t.requires_grad else None for t in inputs]


def assert_same(what: str, ours: Any, theirs: torch.Tensor, exact: Callable[[], torch.Tensor]) -> None:
    """Shape and dtype as torch's; values as torch's, or as near to float64 as torch's float32 comes."""
    assert tuple(ours.shape) == tuple(theirs.shape), (
        f"{what}: {tuple(ours.shape)}, torch {tuple(theirs.shape)}"
    )
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch."), (
        f"{what}: {ours.dtype}, {theirs.dtype}"
    )
    a, b = ours.data, theirs.detach().numpy()
    if not np.allclose(a, b, rtol=2e-5, atol=2e-5, equal_nan=True):
        referee = exact().detach().numpy()
        np.testing.assert_allclose(
            b, referee, rtol=1e-3, atol=1e-3, err_msg=f"{what}: torch is far off float64"
        )
        rounding = 2 * np.abs(b - referee).max(initial=0, where=np.isfinite(referee))
        np.testing.assert_allclose(a, referee, rtol=2e-5, atol=max(2e-5, rounding), err_msg=what)


def check_sample(info: Any, function: Any, sample: Any) -> None:
    """Value, shape, dtype of all outputs, and the gradient of a random projection of them for all inputs."""
    arguments, seeds = (sample.input, sample.args, sample.kwargs), []
    ours_in = to_labkit(arguments)
    theirs, their_grads = torch_results(info, arguments, seeds)
    exact = cache(lambda: torch_results(info, in_float64(arguments), seeds))
    ours = function(ours_in[0], *ours_in[1], **ours_in[2])
    if not isinstance(theirs, (torch.Tensor, tuple, list)):
        assert ours == theirs
        return
    theirs, ours = tensors_in(theirs, torch.Tensor), tensors_in(ours, Tensor)
    assert len(theirs) == len(ours)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert_same(f"output {i}", a, b, lambda i=i: tensors_in(exact()[0], torch.Tensor)[i])
        assert a.requires_grad == b.requires_grad, f"output {i}: requires_grad {a.requires_grad}"
    if seeds:
        wanted = [a for a in ours if a.requires_grad]
        labkit.autograd.backward(wanted, [Tensor(s.numpy()) for s in seeds])
    for i, (a, b) in enumerate(zip(tensors_in(ours_in, Tensor), their_grads, strict=True)):
        assert (a.grad is None) == (b is None), f"input {i}: one gradient is None"
        if b is not None:
            assert_same(f"gradient of input {i}", a.grad, b, lambda i=i: exact()[1][i])


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
