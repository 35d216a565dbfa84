"""The four training steps that are measured, written once: `lib` may be labkit or torch, the names are the
same.

A `Case` holds the sizes and makes the same weights and the same batch for every engine, from one seed.
`build` makes the model; `Trainer.step` is what the clock sees: forward, loss, backward, update.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

OPTIMIZERS = {"mlp": "SGD", "cnn": "Adam", "lstm": "Adam", "gpt": "Adam"}
RATES = {"SGD": 0.05, "Adam": 1e-3}


@dataclass(frozen=True)
class Case:
    """One training step with its sizes. `width` is hidden units, channels, state or embedding size."""

    model: str
    batch: int
    width: int
    length: int = 0  # image side or number of time steps

    @property
    def name(self) -> str:
        return f"{self.model}/{self.batch}/{self.width}/{self.length}"

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets."""
        rng = np.random.default_rng(0)
        if self.model == "gpt":
            tokens = rng.integers(0, 65, (self.batch, self.length + 1))
            return tokens[:, :-1].copy(), tokens[:, 1:].reshape(-1).copy()
        shape = {
            "mlp": (self.batch, 784),
            "cnn": (self.batch, 1, self.length, self.length),
            "lstm": (self.length, self.batch, 64),
        }[self.model]
        return rng.standard_normal(shape).astype(np.float32), rng.integers(0, 10, self.batch)

    def weights(self, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
        """A value for every parameter: vectors near 0 or 1, matrices scaled to keep the size of signals."""
        rng, values = np.random.default_rng(1), {}
        for name, shape in shapes.items():
            scale = 0.1 if len(shape) == 1 else float(np.prod(shape[1:])) ** -0.5
            center = 1.0 if len(shape) == 1 and "norm" in name and name.endswith("weight") else 0.0
            values[name] = (center + scale * rng.standard_normal(shape)).astype(np.float32)
        return values


STEPS = [
    Case("mlp", batch=64, width=256),
    Case("cnn", batch=64, width=16, length=28),
    Case("lstm", batch=32, width=128, length=32),
    Case("gpt", batch=16, width=128, length=64),
]


def build(lib: Any, case: Case) -> Any:
    """The model of a case, made of `lib.nn`."""
    nn, width = lib.nn, case.width
    if case.model == "mlp":
        return nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))
    if case.model == "cnn":
        first = nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        second = nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        return nn.Sequential(
            *first, *second, nn.Flatten(), nn.Linear(2 * width * (case.length // 4) ** 2, 10)
        )
    return (
        _lstm(lib, width) if case.model == "lstm" else _gpt(lib, width, heads=4, layers=2, length=case.length)
    )


def _lstm(lib: Any, width: int) -> Any:
    nn = lib.nn

    class Classifier(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(64, width)
            self.head = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:  # (T, B, 64) -> (B, 10)
            return self.head(self.lstm(x)[0][-1])

    return Classifier()


def _gpt(lib: Any, width: int, heads: int, layers: int, length: int, vocabulary: int = 65) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:  # (B, T, C) -> (B, T, C)
            B, T, C = x.shape
            q, k, v = self.qkv(self.norm1(x)).split(C, dim=2)
            q, k, v = (t.view(B, T, heads, C // heads).transpose(1, 2) for t in (q, k, v))  # (B, heads, T, D)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class GPT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, index: Any) -> Any:  # (B, T) -> (B * T, vocabulary)
            x = self.tokens(index) + self.places.weight
            return self.head(self.norm(self.blocks(x))).reshape(-1, vocabulary)

    return GPT()


class Trainer:
    """A model with its optimizer and its batch, ready to step."""

    def __init__(self, lib: Any, case: Case, wrap: Any = None) -> None:
        self.lib = lib
        self.model = build(lib, case)
        shapes = {name: tuple(p.shape) for name, p in self.model.named_parameters()}
        self.model.load_state_dict({n: lib.tensor(v) for n, v in case.weights(shapes).items()})
        self.x, self.target = (lib.tensor(a) for a in case.data())
        kind = OPTIMIZERS[case.model]
        self.optimizer = getattr(lib.optim, kind)(self.model.parameters(), lr=RATES[kind])
        self.forward = wrap(self.model) if wrap else self.model

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = self.lib.nn.functional.cross_entropy(self.forward(self.x), self.target)
        loss.backward()
        self.optimizer.step()
        return loss.item()
