import math

import numpy as np
import pytest
import torch

import labkit
from labkit import nn
from labkit.nn import init, utils

FANS = [
    (init.xavier_uniform_, {}),
    (init.kaiming_uniform_, {"a": 0.1}),
    (init.kaiming_uniform_, {"mode": "fan_out"}),
]


@pytest.fixture(autouse=True)
def seeds():
    labkit.manual_seed(0)
    torch.manual_seed(0)


@pytest.mark.parametrize(("fill", "settings"), FANS)
@pytest.mark.parametrize("shape", [(200, 300), (40, 50, 5, 3)])
def test_uniform_bounds_are_torchs(fill, settings, shape):
    ours = fill(labkit.empty(*shape), **settings).numpy()
    theirs = getattr(torch.nn.init, fill.__name__)(torch.empty(shape), **settings).numpy()
    assert abs(ours).max() == pytest.approx(abs(theirs).max(), rel=1e-3)
    assert ours.std() == pytest.approx(theirs.std(), rel=0.02)


@pytest.mark.parametrize(
    "name", ["xavier_normal_", "kaiming_normal_", "normal_", "trunc_normal_", "uniform_"]
)
def test_spread_is_torchs(name):
    ours = getattr(init, name)(labkit.empty(300, 200)).numpy()
    theirs = getattr(torch.nn.init, name)(torch.empty(300, 200)).numpy()
    assert ours.std() == pytest.approx(theirs.std(), rel=0.02)
    assert ours.mean() == pytest.approx(theirs.mean(), abs=0.02)


def test_layers_start_within_torchs_bounds():
    for ours, theirs in [
        (nn.Linear(400, 100), torch.nn.Linear(400, 100)),
        (nn.Conv2d(20, 30, 5, groups=2), torch.nn.Conv2d(20, 30, 5, groups=2)),
        (nn.ConvTranspose2d(20, 30, 5), torch.nn.ConvTranspose2d(20, 30, 5)),
        (nn.LSTM(50, 60), torch.nn.LSTM(50, 60)),
        (nn.Embedding(100, 50), torch.nn.Embedding(100, 50)),
        (nn.MultiheadAttention(64, 4), torch.nn.MultiheadAttention(64, 4)),
    ]:
        for name, p in theirs.named_parameters():
            mine = ours.get_parameter(name).detach().numpy()
            assert mine.std() == pytest.approx(p.std().item(), rel=0.25), name


def test_exact_fillings():
    assert init.constant_(labkit.empty(3), 2.5).tolist() == [2.5] * 3
    assert init.eye_(labkit.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    q = init.orthogonal_(labkit.empty(4, 2, 3), gain=2).numpy().reshape(4, 6)
    np.testing.assert_allclose(q @ q.T, 4 * np.eye(4), atol=1e-5)
    inside = init.trunc_normal_(labkit.empty(1000), a=-0.5, b=0.25).numpy()
    assert inside.min() >= -0.5
    assert inside.max() <= 0.25
    assert init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)
    with pytest.raises(ValueError, match=r"at least 2 axes, got shape \(3,\)"):
        init.xavier_uniform_(labkit.empty(3))


def gradients(lib, scale):
    values = [[3.0, -4.0], [[1.0, 2.0], [0.5, -8.0]]]
    parameters = [lib.tensor(v, requires_grad=True) for v in values]
    sum((p * p * scale).sum() for p in parameters).backward()
    return parameters


@pytest.mark.parametrize("scale", [0.01, 1.0])
@pytest.mark.parametrize("norm_type", [1.0, 2.0, math.inf])
def test_clipping_equals_torch(scale, norm_type):
    ours, theirs = gradients(labkit, scale), gradients(torch, scale)
    total = utils.clip_grad_norm_(ours, 2.0, norm_type)
    total_torch = torch.nn.utils.clip_grad_norm_(theirs, 2.0, norm_type)
    assert total.item() == pytest.approx(total_torch.item(), rel=1e-6)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-6)
    utils.clip_grad_value_(ours, 0.3)
    torch.nn.utils.clip_grad_value_(theirs, 0.3)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-6)


def test_clipping_parameters_that_share_a_gradient():
    a, b = labkit.ones(3, requires_grad=True), labkit.ones(3, requires_grad=True)
    ((a + b) * 10).sum().backward()
    utils.clip_grad_norm_([a, b], 1.0)
    for p in (a, b):
        np.testing.assert_allclose(p.grad.numpy(), 1 / math.sqrt(6), rtol=1e-4)


def test_clipping_bad_gradients():
    assert utils.clip_grad_norm_([labkit.ones(2, requires_grad=True)], 1.0).item() == 0
    p = labkit.ones(2, requires_grad=True)
    (p * math.inf).sum().backward()
    with pytest.raises(RuntimeError, match="the norm of the gradients is inf"):
        utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)


def test_parameters_as_one_vector():
    net = nn.Linear(3, 2)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (8,)
    utils.vector_to_parameters(labkit.arange(8.0), net.parameters())
    assert net.bias.tolist() == [6, 7]
    with pytest.raises(ValueError, match="9 elements, the parameters 8"):
        utils.vector_to_parameters(labkit.zeros(9), net.parameters())
