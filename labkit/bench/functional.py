"""The four training steps for jax and autograd: plain functions of arrays, with `np` either library's NumPy.

Both differentiate functions. jax compiles the whole step (its intended use); autograd runs it as NumPy would.
"""

import importlib
from typing import Any

import numpy

from labkit.steps import OPTIMIZERS, RATES, Case, build

Weights = dict[str, Any]


def _linear(p: Weights, name: str, x: Any) -> Any:
    return x @ p[name + ".weight"].T + p[name + ".bias"]


def _mlp(np: Any, p: Weights, x: Any, case: Case) -> Any:
    return _linear(p, "2", np.maximum(_linear(p, "0", x), 0))


def _conv(np: Any, x: Any, w: Any, b: Any) -> Any:
    """3x3, padding 1. jax has it; for autograd nine shifted products are the fastest way."""
    if np.__name__.startswith("jax"):
        from jax import lax

        return lax.conv(x, w, (1, 1), "SAME") + b[:, None, None]
    H, W = x.shape[2:]
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "constant")
    taps = [(i, j) for i in range(3) for j in range(3)]
    parts = [np.einsum("nchw,oc->nohw", x[:, :, i : i + H, j : j + W], w[:, :, i, j]) for i, j in taps]
    return sum(parts) + b[:, None, None]


def _pool(np: Any, x: Any) -> Any:
    N, C, H, W = x.shape
    return x.reshape(N, C, H // 2, 2, W // 2, 2).max(axis=(3, 5))


def _cnn(np: Any, p: Weights, x: Any, case: Case) -> Any:
    x = _pool(np, np.maximum(_conv(np, x, p["0.weight"], p["0.bias"]), 0))
    x = _pool(np, np.maximum(_conv(np, x, p["3.weight"], p["3.bias"]), 0))
    return _linear(p, "7", x.reshape(len(x), -1))


def _sigmoid(np: Any, x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm(np: Any, p: Weights, x: Any, case: Case) -> Any:
    H = case.width
    inputs = x @ p["lstm.weight_ih_l0"].T + p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"]
    w = p["lstm.weight_hh_l0"].T

    def cell(state: Any, a: Any) -> Any:
        h, c = state
        a = a + h @ w
        i, f, o = (_sigmoid(np, a[:, k * H : (k + 1) * H]) for k in (0, 1, 3))
        c = f * c + i * np.tanh(a[:, 2 * H : 3 * H])
        return (o * np.tanh(c), c), None

    state = numpy.zeros((2, case.batch, H), numpy.float32)
    carry = (np.array(state[0]), np.array(state[1]))
    if np.__name__.startswith("jax"):
        from jax import lax

        carry, _ = lax.scan(cell, carry, inputs)
    else:
        for t in range(case.length):
            carry, _ = cell(carry, inputs[t])
    return _linear(p, "head", carry[0])


def _norm(np: Any, p: Weights, name: str, x: Any) -> Any:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * p[name + ".weight"] + p[name + ".bias"]


def _block(np: Any, p: Weights, b: str, x: Any, mask: Any, heads: int = 4) -> Any:
    B, T, C = x.shape
    qkv = _linear(p, b + "qkv", _norm(np, p, b + "norm1", x)).reshape(B, T, 3, heads, C // heads)
    q, k, v = (np.swapaxes(qkv[:, :, i], 1, 2) for i in range(3))  # (B, heads, T, D)
    scores = q @ np.swapaxes(k, 2, 3) * (C // heads) ** -0.5 + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    y = (e / e.sum(-1, keepdims=True)) @ v
    x = x + _linear(p, b + "out", np.swapaxes(y, 1, 2).reshape(B, T, C))
    h = _linear(p, b + "up", _norm(np, p, b + "norm2", x))
    h = 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))
    return x + _linear(p, b + "down", h)


def _gpt(np: Any, p: Weights, index: Any, case: Case) -> Any:
    mask = numpy.triu(numpy.full((case.length, case.length), -1e9, numpy.float32), 1)
    x = p["tokens.weight"][index] + p["places.weight"]
    for i in range(2):
        x = _block(np, p, f"blocks.{i}.", x, mask)
    return _linear(p, "head", _norm(np, p, "norm", x)).reshape(-1, 65)


MODELS = {"mlp": _mlp, "cnn": _cnn, "lstm": _lstm, "gpt": _gpt}


def shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """The parameters of a case, by torch's names; labkit's model knows them."""
    import labkit

    return {name: tuple(p.shape) for name, p in build(labkit, case).named_parameters()}


class Trainer:
    """Weights, optimizer state and a step, for jax or autograd."""

    def __init__(self, engine: str, case: Case) -> None:
        lib = importlib.import_module(engine)
        np = importlib.import_module(f"{engine}.numpy")
        x, target = case.data()
        kind = OPTIMIZERS[case.model]
        rows = numpy.arange(len(target))

        def loss(p: Weights) -> Any:
            y = MODELS[case.model](np, p, x, case)
            top = y.max(-1, keepdims=True)
            logp = y - top - np.log(np.exp(y - top).sum(-1, keepdims=True))
            return -logp[rows, target].mean()

        def update(p: Weights, m: Weights, v: Weights, t: Any) -> Any:
            value, g = value_and_grad(p)
            if kind == "SGD":
                return value, {k: p[k] - RATES[kind] * g[k] for k in p}, m, v
            m = {k: 0.9 * m[k] + 0.1 * g[k] for k in p}
            v = {k: 0.999 * v[k] + 0.001 * g[k] * g[k] for k in p}
            rate, root = RATES[kind] / (1 - 0.9**t), (1 - 0.999**t) ** 0.5
            return value, {k: p[k] - rate * m[k] / (np.sqrt(v[k]) / root + 1e-8) for k in p}, m, v

        value_and_grad = lib.value_and_grad(loss)
        self.update = lib.jit(update) if engine == "jax" else update
        weights = case.weights(shapes(case))
        zeros = {k: numpy.zeros_like(a) for k, a in weights.items()}
        self.state, self.steps = (weights, zeros, dict(zeros)), 0

    def step(self) -> float:
        self.steps += 1
        value, *state = self.update(*self.state, numpy.float32(self.steps))
        self.state = tuple(state)
        return float(value)
