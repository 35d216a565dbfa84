"""One training step of each of the four models, on the device and on the CPU: losses, gradients and updated
parameters are equal."""

import numpy as np
import pytest

import labkit
from labkit import nn, optim
from labkit.nn import functional as F


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Dropout(0.0), nn.Linear(9, 5))

    def forward(self, x):
        return self.layers(x)


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        first = nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2)
        second = nn.Conv2d(2, 3, 3, padding=1), nn.GELU(), nn.AvgPool2d(2)
        self.layers = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(3, 5))

    def forward(self, x):
        return self.layers(x)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(6, 3)
        self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        y, _ = self.lstm(self.embedding(x))
        return self.head(y[:, -1])


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(6, 8), nn.Embedding(5, 8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 12), nn.Linear(12, 8)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(8), nn.LayerNorm(8), nn.RMSNorm(8)
        self.head = nn.Linear(8, 6, bias=False)
        self.head.weight = self.tokens.weight  # one table, two gradients

    def forward(self, index):  # (B, T) -> (B * T, 6)
        B, T = index.shape
        x = self.tokens(index) + self.positions(labkit.arange(T, device=index.device))
        q, k, v = (t.view(B, T, 2, 4).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(8, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, 8))
        x = x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return self.head(self.norm3(x)).flatten(0, 1)


def numbers(*shape):
    return labkit.tensor(np.random.default_rng(0).standard_normal(shape), dtype=labkit.float32)


def classes(high, *shape):
    return labkit.tensor(np.random.default_rng(1).integers(0, high, shape))


# The bias of keys changes nothing, so its gradient is rounding error: eps keeps Adam from blowing it up.
STEPS = {
    "mlp": (MLP, lambda: numbers(3, 7), lambda: classes(5, 3), "SGD", {"lr": 0.1, "momentum": 0.9}),
    "cnn": (CNN, lambda: numbers(2, 1, 5, 5), lambda: classes(5, 2), "Adam", {"lr": 1e-2}),
    "lstm": (Tagger, lambda: classes(6, 2, 3), lambda: classes(5, 2), "Adam", {"lr": 1e-2}),
    "transformer": (
        Transformer,
        lambda: classes(6, 2, 5),
        lambda: classes(6, 10),
        "AdamW",
        {"lr": 1e-2, "eps": 1e-4},
    ),
}


def step(name, device):
    """The loss of one step, and the model after it."""
    build, x, target, kind, settings = STEPS[name]
    labkit.manual_seed(0)
    model = build().to(device)
    optimizer = getattr(optim, kind)(model.parameters(), **settings)
    loss = F.cross_entropy(model(x().to(device)), target().to(device))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss, model


@pytest.mark.parametrize("name", STEPS)
def test_a_training_step_equals_the_cpu(name):
    loss, model = step(name, "cuda")
    expected, reference = step(name, "cpu")
    assert loss.device == "cuda"
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-5)
    found = dict(model.named_parameters())
    for key, p in reference.named_parameters():
        assert found[key].device == "cuda" and found[key].grad.device == "cuda"
        for mine, theirs in ((found[key].grad, p.grad), (found[key], p)):
            np.testing.assert_allclose(
                mine.numpy(force=True), theirs.numpy(force=True), rtol=1e-4, atol=1e-5, err_msg=key
            )
    for key, buffer in reference.named_buffers():
        mine = dict(model.named_buffers())[key].numpy(force=True)
        np.testing.assert_allclose(mine, buffer.numpy(force=True), rtol=1e-5, atol=1e-6, err_msg=key)
