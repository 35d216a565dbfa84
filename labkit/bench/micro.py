"""Single operations, forward and backward, in torch's names: `lib` is labkit or torch."""

from collections.abc import Callable
from typing import Any

import numpy as np


def _gelu_chain(F: Any, x: Any) -> Any:
    return (F.gelu(x * 1.1, approximate="tanh") + x) * 0.5


# name -> (shapes of the inputs that get gradients, function of lib.nn.functional and the inputs)
OPS: dict[str, tuple[list[tuple[int, ...]], Callable[..., Any]]] = {
    "matmul 512": ([(512, 512), (512, 512)], lambda F, a, b: a @ b),
    "gelu chain 1e6": ([(1000, 1000)], _gelu_chain),
    "relu 1e6": ([(1000, 1000)], lambda F, x: F.relu(x)),
    "add row, sum back": ([(1000, 1000), (1000,)], lambda F, x, b: x + b),
    "softmax (1024, 1024)": ([(1024, 1024)], lambda F, x: F.softmax(x, dim=-1)),
    "layer_norm (4096, 256)": (
        [(4096, 256), (256,), (256,)],
        lambda F, x, w, b: F.layer_norm(x, (256,), w, b),
    ),
    "conv2d 16->32, 28x28": (
        [(64, 16, 28, 28), (32, 16, 3, 3), (32,)],
        lambda F, x, w, b: F.conv2d(x, w, b, padding=1),
    ),
    "max_pool2d 2": ([(64, 16, 28, 28)], lambda F, x: F.max_pool2d(x, 2)),
    "attention (16, 4, 64, 32)": (
        [(16, 4, 64, 32)] * 3,
        lambda F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    ),
    "add of 4x4 (overhead)": ([(4, 4), (4, 4)], lambda F, a, b: a + b),
}


def build(lib: Any, name: str) -> tuple[Callable[[], None], Callable[[], list[float]]]:
    """A step that runs the operation and its gradients, and a function whose numbers two engines must
    share.
    """
    shapes, function = OPS[name]
    F, rng = lib.nn.functional, np.random.default_rng(0)
    inputs = [lib.tensor(rng.standard_normal(s).astype(np.float32)) for s in shapes]
    for t in inputs:
        t.requires_grad_()
    g = lib.tensor(rng.standard_normal(tuple(function(F, *inputs).shape)).astype(np.float32))

    def step() -> None:
        for t in inputs:
            t.grad = None
        function(F, *inputs).backward(g)

    def facts() -> list[float]:
        step()
        arrays = [t.detach().numpy() for t in (function(F, *inputs), *(t.grad for t in inputs))]
        return [float(np.square(a, dtype=np.float64).mean()) for a in arrays]

    return step, facts
