"""Every module is held against torch's: same weights, same inputs, then outputs, gradients and buffers."""

import numpy as np
import pytest
import torch

import labkit


@pytest.fixture(params=["numpy", "cpu"])
def kernels(request):
    with labkit.use_kernels(request.param):
        yield request.param


@pytest.fixture
def same_as_torch(kernels):
    """`same_as_torch(ours, theirs, *inputs, **keywords)`: torch tensors in, all compared."""

    def check(ours, theirs, *inputs, tolerance=1e-5, backward=True, **keywords):
        ours.load_state_dict(theirs.state_dict())
        ours.train(theirs.training)
        y_torch = theirs(*inputs, **keywords)
        y = ours(*translate(inputs), **translate(keywords))
        compare(y, y_torch, tolerance)
        if backward:
            torch.manual_seed(1)
            loss_torch, loss = 0, 0
            for a, b in zip(tensors(y), tensors(y_torch), strict=True):
                if b.requires_grad:
                    weight = torch.randn_like(b)
                    loss_torch = loss_torch + (b * weight).sum()
                    loss = loss + (a * labkit.tensor(weight.numpy())).sum()
            loss_torch.backward()
            loss.backward()
            mine = dict(ours.named_parameters())
            for name, p in theirs.named_parameters():
                assert (mine[name].grad is None) == (p.grad is None), name
                if p.grad is not None:
                    compare(mine[name].grad, p.grad, tolerance * 10, name)
        for name, buffer in theirs.named_buffers():
            compare(dict(ours.named_buffers())[name], buffer, tolerance, name)
        back = {name: torch.from_numpy(value.numpy().copy()) for name, value in ours.state_dict().items()}
        theirs.load_state_dict(back, strict=True)

    return check


def translate(value):
    """Torch tensors inside tuples and dicts to labkit's."""
    if isinstance(value, torch.Tensor):
        return labkit.tensor(value.detach().numpy().copy(), requires_grad=value.requires_grad)
    if isinstance(value, dict):
        return {key: translate(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(translate(item) for item in value)
    return value


def tensors(value):
    if isinstance(value, tuple | list):
        return [t for item in value for t in tensors(item)]
    return [] if value is None else [value]


def compare(ours, theirs, tolerance, name="output"):
    for a, b in zip(tensors(ours), tensors(theirs), strict=True):
        a, b = a.detach().numpy(), b.detach().numpy()
        assert a.shape == b.shape, name
        assert a.dtype == b.dtype, name
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=name)
