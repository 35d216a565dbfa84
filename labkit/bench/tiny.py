"""The four training steps for tinygrad, compiled by its TinyJit."""

from typing import Any

from tinygrad import Tensor, TinyJit, nn  # type: ignore[import-not-found]

from labkit.bench.functional import shapes
from labkit.steps import OPTIMIZERS, RATES, Case

Weights = dict[str, Any]


def _linear(p: Weights, name: str, x: Any) -> Any:
    return x.linear(p[name + ".weight"].transpose(), p[name + ".bias"])


def _mlp(p: Weights, x: Any, case: Case) -> Any:
    return _linear(p, "2", _linear(p, "0", x).relu())


def _cnn(p: Weights, x: Any, case: Case) -> Any:
    for layer in ("0", "3"):
        x = x.conv2d(p[layer + ".weight"], p[layer + ".bias"], padding=1).relu().max_pool2d(2)
    return _linear(p, "7", x.flatten(1))


def _lstm(p: Weights, x: Any, case: Case) -> Any:
    h = c = Tensor.zeros(case.batch, case.width)
    inputs = x.linear(p["lstm.weight_ih_l0"].transpose(), p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"])
    for t in range(case.length):
        i, f, g, o = (inputs[t] + h @ p["lstm.weight_hh_l0"].transpose()).chunk(4, dim=1)
        c = (f.sigmoid() * c + i.sigmoid() * g.tanh()).contiguous()  # as its own LSTMCell does: ends a kernel
        h = (o.sigmoid() * c.tanh()).contiguous()
    return _linear(p, "head", h)


def _norm(p: Weights, name: str, x: Any) -> Any:
    return x.layernorm(eps=1e-5) * p[name + ".weight"] + p[name + ".bias"]


def _gpt(p: Weights, index: Any, case: Case) -> Any:
    x = p["tokens.weight"][index] + p["places.weight"]
    for b in ("blocks.0.", "blocks.1."):
        B, T, C = x.shape
        qkv = _linear(p, b + "qkv", _norm(p, b + "norm1", x)).reshape(B, T, 3, 4, C // 4)
        q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
        y = q.scaled_dot_product_attention(k, v, is_causal=True)
        x = x + _linear(p, b + "out", y.transpose(1, 2).reshape(B, T, C))
        x = x + _linear(p, b + "down", _linear(p, b + "up", _norm(p, b + "norm2", x)).gelu())
    return _linear(p, "head", _norm(p, "norm", x)).reshape(-1, 65)


MODELS = {"mlp": _mlp, "cnn": _cnn, "lstm": _lstm, "gpt": _gpt}


class Trainer:
    """Weights, optimizer and a compiled step."""

    def __init__(self, engine: str, case: Case) -> None:
        p = {k: Tensor(a).is_param_(True) for k, a in case.weights(shapes(case)).items()}
        x, target = (Tensor(a) for a in case.data())
        kind = OPTIMIZERS[case.model]
        optimizer = getattr(nn.optim, kind)(list(p.values()), lr=RATES[kind])

        def step() -> Any:
            optimizer.zero_grad()
            loss = MODELS[case.model](p, x, case).sparse_categorical_crossentropy(target)
            loss.backward()
            return loss.realize(*optimizer.schedule_step())

        self.compiled = TinyJit(step)

    def step(self) -> float:
        return float(self.compiled().item())
