import copy

import numpy as np
import pytest
import torch

import labkit
from labkit import nn, optim

SETTINGS = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.01, "maximize": True}),
    ("Adam", {"lr": 0.02}),
    ("Adam", {"lr": 0.02, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.02, "amsgrad": True}),
    ("AdamW", {"lr": 0.02}),
    ("AdamW", {"lr": 0.02, "weight_decay": 0.3, "maximize": True, "amsgrad": True}),
    ("RMSprop", {"lr": 0.005}),
    ("RMSprop", {"lr": 0.005, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
]


@pytest.fixture(params=["numpy", "cpu"])
def kernels(request):
    with labkit.use_kernels(request.param):
        yield


def pair():
    """The same small network twice, and data."""
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 2))
    ours = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 2))
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs, torch.randn(50, 8, 6), torch.randn(50, 8, 2)


def step(net, optimizer, x, y, lib=labkit):
    optimizer.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def train(ours, theirs, optimizer, optimizer_torch, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        loss = step(ours, optimizer, labkit.tensor(x.numpy()), labkit.tensor(y.numpy()))
        loss_torch = step(theirs, optimizer_torch, x, y)
        assert loss == pytest.approx(loss_torch, rel=1e-4)


def assert_equal(ours, theirs, tolerance=2e-5):
    for name, p in theirs.state_dict().items():
        mine = ours.state_dict()[name].numpy()
        np.testing.assert_allclose(mine, p.numpy(), rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=str)
def test_fifty_steps_equal_torch(kernels, name, settings):
    ours, theirs, xs, ys = pair()
    optimizer = getattr(optim, name)(ours.parameters(), **settings)
    optimizer_torch = getattr(torch.optim, name)(theirs.parameters(), **settings)
    train(ours, theirs, optimizer, optimizer_torch, xs, ys)
    assert_equal(ours, theirs)


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=str)
def test_state_passes_both_ways(name, settings):
    ours, theirs, xs, ys = pair()
    optimizer = getattr(optim, name)(ours.parameters(), **settings)
    optimizer_torch = getattr(torch.optim, name)(theirs.parameters(), **settings)
    train(ours, theirs, optimizer, optimizer_torch, xs[:20], ys[:20])
    state, state_torch = optimizer.state_dict(), optimizer_torch.state_dict()
    assert [set(s) for s in state["state"].values()] == [set(s) for s in state_torch["state"].values()]
    assert set(state["param_groups"][0]) <= set(state_torch["param_groups"][0])

    fresh = getattr(optim, name)(ours.parameters(), lr=9.0)
    fresh.load_state_dict(copy.deepcopy(state_torch))
    fresh_torch = getattr(torch.optim, name)(theirs.parameters(), lr=9.0)
    groups = [{**g, "params": list(g["params"])} for g in state["param_groups"]]
    numbers = {
        i: {k: torch.from_numpy(v.numpy().copy()) for k, v in s.items()} for i, s in state["state"].items()
    }
    fresh_torch.load_state_dict({"state": numbers, "param_groups": groups})
    train(ours, theirs, fresh, fresh_torch, xs[20:], ys[20:])
    assert_equal(ours, theirs)


def test_groups_with_settings_of_their_own(kernels):
    ours, theirs, xs, ys = pair()

    def groups(net):
        return [{"params": net[0].parameters(), "lr": 0.1}, {"params": [net[2].weight], "momentum": 0.5}]

    optimizer, optimizer_torch = optim.SGD(groups(ours), lr=0.01), torch.optim.SGD(groups(theirs), lr=0.01)
    optimizer.add_param_group({"params": ours[2].bias, "weight_decay": 0.2})
    optimizer_torch.add_param_group({"params": theirs[2].bias, "weight_decay": 0.2})
    train(ours, theirs, optimizer, optimizer_torch, xs, ys)
    assert_equal(ours, theirs)


def test_parameters_without_a_gradient_stay():
    ours, _, xs, ys = pair()
    ours[0].requires_grad_(False)
    before = ours[0].weight.detach().numpy().copy()
    optimizer = optim.Adam(ours.parameters())
    step(ours, optimizer, labkit.tensor(xs[0].numpy()), labkit.tensor(ys[0].numpy()))
    assert (ours[0].weight.detach().numpy() == before).all()
    assert len(optimizer.state) == 2


def test_float64_and_conversion_after_the_optimizer_was_made(kernels):
    ours, theirs, xs, ys = pair()
    optimizer = optim.AdamW(ours.parameters(), lr=0.02)
    ours.to(labkit.float64)
    theirs.double()
    optimizer_torch = torch.optim.AdamW(theirs.parameters(), lr=0.02)
    train(ours, theirs, optimizer, optimizer_torch, xs.double(), ys.double())
    assert_equal(ours, theirs, 1e-10)


def test_closure():
    w = nn.Parameter(labkit.tensor([3.0]))
    optimizer = optim.SGD([w], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with labkit.no_grad():
        assert optimizer.step(closure).item() == 9
    assert w.item() == 0


def test_a_graph_from_before_the_step_is_not_used():
    w = nn.Parameter(labkit.ones(3))
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    optim.SGD([w], lr=0.1).step()
    with pytest.raises(RuntimeError, match="overwritten by an in-place operation"):
        loss.backward()


def test_errors():
    w = nn.Parameter(labkit.ones(3))
    with pytest.raises(TypeError, match="got one tensor"):
        optim.SGD(w)
    with pytest.raises(ValueError, match="got no parameters"):
        optim.SGD([])
    with pytest.raises(TypeError, match="can only change labkit tensors, got <class 'str'>"):
        optim.SGD(["w"])
    with pytest.raises(ValueError, match="computed from others"):
        optim.SGD([w * 2])
    with pytest.raises(ValueError, match="appears twice"):
        optim.SGD([w, w])
    with pytest.raises(ValueError, match="SGD: lr should not be negative, got -1"):
        optim.SGD([w], lr=-1)
    with pytest.raises(ValueError, match="AdamW: betas should be"):
        optim.AdamW([w], betas=(0.9, 1.0))
    with pytest.raises(ValueError, match="nesterov=True needs"):
        optim.SGD([w], nesterov=True)
    with pytest.raises(NotImplementedError, match="fused=True"):
        optim.AdamW([w], fused=True)
    with pytest.raises(ValueError, match=r"groups of \[1\] parameters, the state dict has groups of \[2\]"):
        optim.SGD([w]).load_state_dict(optim.SGD([w, nn.Parameter(labkit.ones(1))]).state_dict())
