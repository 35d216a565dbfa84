"""One of everything, ordinary and odd, for the tests that hold for every picture."""

import numpy as np
import torch

from labkit import viz

NAN = float("nan")


class Value:
    """A scalar with history, as a learner would write it; parents in a set, which has no order of its own."""

    def __init__(self, data, parents=(), op="", label=""):
        self.data, self._prev, self._op, self.label, self.grad = data, set(parents), op, label, 0.5

    def __add__(self, other):
        return Value(self.data + other.data, (self, other), "+")

    def __mul__(self, other):
        return Value(self.data * other.data, (self, other), "*")


def expression():
    a, b, c = Value(2.0, label="a"), Value(-3.0, label="b"), Value(10.0, label="c")
    loss = (a * b + c) * a + b * c
    loss.label = "loss"
    return loss


def chain(length):
    node, step = Value(1.0, label="start"), Value(1.0, label="step")
    for _ in range(length):
        node = node + step
    return node


def torch_loss():
    w = torch.arange(12.0).reshape(3, 4).requires_grad_()
    bias = torch.ones(3, requires_grad=True)
    loss = (torch.ones(5, 4) @ w.T + bias).relu().mean()
    loss.backward()
    return viz.graph(loss, names={"w": w, "bias": bias}, title="torch")


def moons():
    random = np.random.default_rng(0)
    points, labels = random.normal(size=(40, 2)), np.arange(40) % 2
    return viz.decision_boundary(lambda p: p[:, 0] + p[:, 1], points, labels, threshold=0.0)


def layers(scale):
    random = np.random.default_rng(1)
    return [random.normal(size=50) * scale**k for k in range(5)]


def shares(*shape):
    """Rows that sum to 1."""
    e = np.exp(np.random.default_rng(2).normal(size=shape) * 2)
    return e / e.sum(-1, keepdims=True)


def heat():
    a = np.arange(600.0).reshape(20, 30)
    b = a.copy()
    b[5:9, 3:12] += 100
    return viz.compare(a, b)


STEPS = 10.0 ** -np.arange(1, 9)

FIGURES = {
    "strides contiguous": lambda: viz.strides(torch.arange(12).reshape(3, 4)),
    "strides transposed": lambda: viz.strides(torch.arange(12).reshape(3, 4).T, title="x.T"),
    "strides of a slice": lambda: viz.strides(torch.arange(12).reshape(3, 4)[1:, ::2]),
    "strides negative": lambda: viz.strides(np.arange(6)[::-1]),
    "strides expanded": lambda: viz.strides(torch.tensor([1.0, 2.0, 3.0]).expand(4, 3)),
    "strides windows": lambda: viz.strides((4, 3), (1, 1)),
    "strides 3-D": lambda: viz.strides(torch.arange(24.0).reshape(2, 3, 4) / 7),
    "strides 3-D wrapped": lambda: viz.strides(np.arange(40.0).reshape(4, 2, 5) * -1234.5),
    "strides 0-d": lambda: viz.strides(torch.tensor(NAN)),
    "strides empty": lambda: viz.strides(torch.ones(0, 3)),
    "strides full": lambda: viz.strides((5, 8)),
    "strides outside": lambda: viz.strides((3, 4), (5, 1), 0, 12, check=False),
    "broadcast": lambda: viz.broadcast((4, 1), (2, 1, 3)),
    "broadcast clash": lambda: viz.broadcast((3, 4), (3,)),
    "broadcast many": lambda: viz.broadcast((8, 1, 6, 1), (7, 1, 5), (5,), names=["q", "mask", "bias"]),
    "broadcast 0-d": lambda: viz.broadcast((), ()),
    "broadcast empty": lambda: viz.broadcast((0, 3), (1,)),
    "broadcast grid": lambda: viz.broadcast_grid(np.arange(3)[:, None] * 10, np.arange(4)),
    "broadcast grid 0-d": lambda: viz.broadcast_grid(2.0, NAN, "*"),
    "broadcast grid empty": lambda: viz.broadcast_grid(np.ones((2, 0)), 1),
    "convolution": lambda: viz.convolution(np.arange(30).reshape(5, 6), [[1, 0], [0, -1], [2, 1]], (1, 2)),
    "convolution padded": lambda: viz.convolution(
        np.arange(12).reshape(3, 4) / 8, np.eye(3), (1, 1), stride=2, padding=2, dilation=2
    ),
    "convolution largest": lambda: viz.convolution(np.eye(10), np.ones((4, 4)), padding=1, title="all ones"),
    "convolution one cell": lambda: viz.convolution([[NAN]], [[0.0]]),
    "descent": lambda: viz.descent(lr=0.07, momentum=0.5),
    "descent diverges": lambda: viz.descent("bowl", lr=2.5, steps=200),
    "descent two basins": lambda: viz.descent("two basins", lr=0.1, momentum=0.9, title="over the hump"),
    "descent one step": lambda: viz.descent("bowl", lr=1.0, steps=1),
    "attention": lambda: viz.attention(shares(3, 5), ["the", "cat", "sat"], "le chat était assis !".split()),
    "attention of one token": lambda: viz.attention([[1.0]], [" "]),
    "attention largest": lambda: viz.attention(
        shares(16, 16), ["a long token", "b"] * 8, query=15, title="All of them"
    ),
    "attention heads": lambda: viz.attention(shares(7, 6, 9), title="Seven heads"),
    "attention layers": lambda: viz.attention(shares(2, 6, 24, 24)),
    "attention named": lambda: viz.attention(shares(2, 40, 40), names=["first", "second"]),
    "padded batch": lambda: viz.padded_batch(["li", "smith", "o'neill"], title="three names"),
    "padded batch of numbers": lambda: viz.padded_batch([[1, -2.5], [30], [4, 5, 6]], pad="0"),
    "padded batch of one": lambda: viz.padded_batch(["a"]),
    "graph": lambda: viz.graph(expression(), title="A small expression"),
    "graph leaf": lambda: viz.graph(Value(NAN)),
    "graph torch": torch_loss,
    "graph long": lambda: viz.graph(chain(5000)),
    "curves": lambda: viz.curves(
        {"SGD": [3, 2, 1.5], "Adam": [3, 1, 1.4], "other": [3, NAN, NAN]}, title="t"
    ),
    "curves log": lambda: viz.curves([3, 1, 0.1, 0], log="y"),
    "curves one point": lambda: viz.curves({"a": [1.0]}),
    "curves all nan": lambda: viz.curves({"a": [NAN, NAN]}),
    "error": lambda: viz.error_vs_epsilon(STEPS, {"forward": STEPS / 2, "central": STEPS**2 + 1e-12}),
    "variance": lambda: viz.variance_by_depth({"small": layers(0.5), "large": layers(1.5)}, title="init"),
    "variance one": lambda: viz.variance_by_depth([[1.0], [NAN], [0.0, 1.0]]),
    "boundary": moons,
    "boundary one point": lambda: viz.decision_boundary(lambda p: p[:, :1], [[0.0, 1.0]], [0]),
    "lr range": lambda: viz.lr_range([1e-4, 1e-3, 1e-2, 1e-1, 1], [2.3, 2.2, 1.1, 0.9, 400.0], title="lr"),
    "lr range nan": lambda: viz.lr_range([1e-4, 1e-3], [NAN, NAN]),
    "histogram": lambda: viz.histogram({"a": [1, 2, 2, NAN], "b": [0.0]}, bins=4),
    "histogram one": lambda: viz.histogram(3.0),
    "images": lambda: viz.image_grid(np.eye(6)[None].repeat(10, 0), [f"a long title {i}" for i in range(10)]),
    "images color": lambda: viz.image_grid(torch.arange(96.0).reshape(2, 3, 4, 4) / 96),
    "compare": lambda: viz.compare([[1.0, 2.0], [3.0, NAN]], [[1.0, 2.0], [7.0, NAN]]),
    "compare same": lambda: viz.compare(np.ones((2, 3)), np.ones((2, 3))),
    "compare shapes": lambda: viz.compare(np.ones((3, 1)), np.ones((2, 3, 4))),
    "compare 0-d": lambda: viz.compare(2.0, 3.0),
    "compare 3-D": lambda: viz.compare(np.ones((2, 3, 4)), np.arange(24).reshape(2, 3, 4)),
    "compare empty": lambda: viz.compare(np.ones((0, 3)), np.ones((0, 3))),
    "compare heat": heat,
    "sampling": lambda: viz.sampling(),
    "sampling, three knobs": lambda: viz.sampling(temperature=0.8, top_k=10, top_p=0.9),
    "sampling, greedy": lambda: viz.sampling([1.0, 3.0], ["\n", " a long piece of a word"], temperature=0.0),
    "sampling, many": lambda: viz.sampling(np.linspace(2, -2, 60), title="sixty tokens"),
}
