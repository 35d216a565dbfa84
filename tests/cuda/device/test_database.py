"""The samples of PyTorch's operator database that judge the CPU's kernels, here on the device: the smallest
of each entry, forward and gradient, against torch."""

import pytest
import test_opinfo as plain  # from tests/ops
import torch

import labkit
from labkit import NotSupported, Tensor

MOST = 20  # elements of all inputs together: the simulator starts a thread for each
DRAWN = {"nn.functional.dropout"}  # the CPU's table fixes its generator; the device has another
REFUSED = {"masked_select", "norm/nuc"}  # a single bool as index; singular values


def on_device(value):
    """The same argument on the device: tensors, dtypes, and what contains them."""
    if isinstance(value, torch.Tensor):
        t = labkit.tensor(value.detach().numpy(), device="cuda")
        return t.requires_grad_() if value.requires_grad else t
    if isinstance(value, (list, tuple)):
        return type(value)(on_device(v) for v in value)
    if isinstance(value, dict):
        return {k: on_device(v) for k, v in value.items()}
    return plain.to_labkit(value)


def size(sample):
    return sum(t.numel() for t in plain.tensors_in((sample.input, sample.args, sample.kwargs), torch.Tensor))


def check(info, function, sample):
    """Values of all outputs, and the gradient of a random projection of them for all inputs."""
    arguments, seeds = (sample.input, sample.args, sample.kwargs), []
    mine_in = on_device(arguments)
    result, grads = plain.torch_results(info, arguments, seeds)
    mine = function(mine_in[0], *mine_in[1], **mine_in[2])
    if not isinstance(result, (torch.Tensor, tuple, list)):
        assert mine == result
        return
    result, mine = plain.tensors_in(result, torch.Tensor), plain.tensors_in(mine, Tensor)

    def exact():
        return plain.torch_results(info, plain.in_float64(arguments), seeds)

    for i, (a, b) in enumerate(zip(mine, result, strict=True)):
        assert a.device == "cuda"
        plain.assert_same(
            f"output {i}", a.cpu(), b, lambda i=i: plain.tensors_in(exact()[0], torch.Tensor)[i]
        )
    if seeds:
        wanted = [a for a in mine if a.requires_grad]
        labkit.autograd.backward(wanted, [on_device(s) for s in seeds])
    for i, (a, b) in enumerate(zip(plain.tensors_in(mine_in, Tensor), grads, strict=True)):
        assert (a.grad is None) == (b is None), f"input {i}: one gradient is None"
        if b is not None:
            plain.assert_same(f"gradient of input {i}", a.grad.cpu(), b, lambda i=i: exact()[1][i])


@pytest.mark.parametrize("key", [key for key in plain.TABLE if key not in DRAWN])
def test_samples(key):
    samples = sorted((s for s in plain.samples(key) if size(s) > 0), key=size)
    for sample in [s for s in samples[:2] if size(s) <= MOST] or samples[:1]:
        try:
            check(plain.ENTRIES[key], plain.TABLE[key], sample)
        except NotSupported:
            assert key in REFUSED
