"""Every op that the four models use, and their neighbors: forward and backward equal the CPU's."""

import numpy as np
import pytest
from compare import make, same_as_cpu

import labkit
from labkit.nn import functional as F

X, Y = make(0, 3, 5), make(1, 3, 5)
POSITIVE = make(2, 3, 5, low=0.5)
INDEX = np.array([[0, 4, 2], [2, 2, 1]])
IMAGE = make(3, 2, 4, 4, 5)
MASK = np.array([[True, False, True, True, False]] * 3)

ELEMENTWISE = {
    "neg": (lambda x: -x, X),
    "abs": (lambda x: x.abs(), X),
    "square": (lambda x: x.square(), X),
    "exp": (lambda x: x.exp(), X),
    "expm1": (lambda x: x.expm1(), X),
    "log": (lambda x: x.log(), POSITIVE),
    "log2": (lambda x: x.log2(), POSITIVE),
    "log10": (lambda x: x.log10(), POSITIVE),
    "log1p": (lambda x: x.log1p(), POSITIVE),
    "sin": (lambda x: x.sin(), X),
    "cos": (lambda x: x.cos(), X),
    "tanh": (lambda x: x.tanh(), X),
    "sigmoid": (lambda x: x.sigmoid(), X * 20),
    "sqrt": (lambda x: x.sqrt(), POSITIVE),
    "rsqrt": (lambda x: x.rsqrt(), POSITIVE),
    "reciprocal": (lambda x: x.reciprocal(), POSITIVE),
    "erf": (lambda x: x.erf(), X),
    "sign floor ceil trunc": (lambda x: x.sign() + x.floor() + x.ceil() + x.trunc(), X * 3),
    "relu": (F.relu, X),
    "gelu": (F.gelu, X),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "silu": (F.silu, X),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), X),
    "elu": (lambda x: F.elu(x, 0.7), X),
    "logsigmoid": (F.logsigmoid, X * 20),
    "add": (lambda x, y: x + y, X, Y),
    "add a row": (lambda x, y: x + y, X, Y[0]),
    "add a column": (lambda x, y: x + y, X, Y[:, :1]),
    "sub": (lambda x, y: x - 2 * y, X, Y),
    "mul": (lambda x, y: x * y, X, Y[:1]),
    "div": (lambda x, y: x / y, X, POSITIVE),
    "one over": (lambda x: 1 / x + (1 - x), POSITIVE),
    "pow": (lambda x, y: x**y, POSITIVE, X),
    "pow number": (lambda x: x**3, X),
    "maximum": (lambda x, y: labkit.maximum(x, y) + labkit.minimum(x, y), X, Y),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), X),
    "where": (lambda x, y, m: labkit.where(m, x, y), X, Y, MASK),
    "masked_fill": (lambda x, m: x.masked_fill(m, -2.0), X, MASK),
    "comparisons": (lambda x, y: (x > y) & (x >= 0) | (x < -1) & (x != y) | (x == y) | (x <= y), X, Y),
    "isnan": (lambda x: x.isnan() | x.isinf() | ~x.isfinite(), np.array([1, np.nan, np.inf, -np.inf])),
    "int arithmetic": (lambda i: (i * 3 - 7) // 2 + i % 3, INDEX),
    "round": (
        lambda x: x.round() + (x * 2).round(decimals=2),
        np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.4, 7.6]),
    ),
    "softplus": (lambda x: F.softplus(x, beta=2.0, threshold=9.0), X * 5),
    "cast": (lambda x: x.long().double() + x.bool(), X * 3),
}
SHAPE = {
    "reshape": (lambda x: x.reshape(5, 3) * 2, X),
    "transpose": (lambda x: x.T * 2 + x.T.reshape(5, 3), X),
    "permute": (lambda x: x.permute(2, 0, 3, 1).reshape(8, 20), IMAGE),
    "expand": (lambda x: x.unsqueeze(1).expand(3, 4, 5) * 2, X),
    "slice": (lambda x: x[1:, ::2] * 3, X),
    "select": (lambda x: x[-1] * 3 + x[0, 1], X),
    "index": (lambda x, i: x[:, i] * 2, X, INDEX),
    "cat": (lambda x, y: labkit.cat([x, y[:, :2], x], 1), X, Y),
    "stack": (lambda x, y: labkit.stack([x, y], 1), X, Y),
    "split": (lambda x: sum(x.split(2, dim=1)[:2]), X),
    "flip": (lambda x: x.flip(0) + x.flip((0, 1)), X),
    "tril": (lambda x: x.tril() - x.triu(1), X),
    "roll": (lambda x: x.roll(2) * 2 + x.roll((1, -2), (0, 1)), X),
    "diagonal": (lambda x: x.diagonal() * 2 + x.diagonal(2).exp() + x.diagonal(-1)[:1], X[:, :5]),
    "diag": (lambda x: labkit.diag_embed(x, 1), X),
    "as_strided": (lambda x: x.as_strided((3, 4), (1, 2)) * 2, X),
    "gather": (lambda x, i: x.gather(1, i), X[:2], INDEX),
    "scatter": (lambda x, i, y: x.scatter(1, i, y), X[:2], np.array([[0, 4, 2], [3, 3, 1]]), Y),
    "scatter_add": (lambda x, i, y: x.scatter_add(0, i, y), X, INDEX % 3, Y),
    "index_add": (lambda x, i, y: x.index_add(1, i, y[:, :4], alpha=0.5), X, INDEX.reshape(-1)[:4], Y),
    "index two": (lambda x, i, j: x[i, :, j] * 2, IMAGE, INDEX % 2, INDEX % 4),
    "index beside a number": (lambda x, i: x[1, i, 2:] * 2, IMAGE, INDEX % 4),
    "index mask": (lambda x, m: x[m] * 2 + 1, X, MASK),
    "index columns": (lambda x, m: x[:, m] * 2, X, MASK[0]),
    "write": (lambda x, y: write(x, (slice(1, None), 2), y[1:, 0]), X, Y),
    "write by index": (lambda x, i, y: write(x, i, y[:, :1]), X, np.array([2, 0, 2]), Y),
    "write by mask": (lambda x, m: write(x, m, -1.0), X, MASK),
    "sort": (lambda x: x.sort(1)[0] + x.sort(0, descending=True)[0], X),
    "argsort": (lambda i: i.argsort(1, stable=True) * 10 + i.argsort(-1, descending=True), INDEX),
    "topk": (lambda x: x.topk(3)[0] * x.topk(3, largest=False)[1], X),
    "nonzero": (lambda m: m.nonzero() + m.nonzero(), MASK),
    "repeat": (lambda x, i: x.repeat_interleave(2, 1) * 3, X, INDEX),
    "repeat each": (lambda x, i: x.repeat_interleave(i, 0), X, np.array([2, 0, 3])),
    "pad": (lambda x: F.pad(x, (1, -2, 2, 0), value=3.0) * 2, X),
    "pad reflect": (lambda x: F.pad(x, (1, 2), mode="reflect") * 2, IMAGE[0]),
    "resize": (lambda x: F.interpolate(x, (7, 4), mode="bilinear", align_corners=False), IMAGE[:1, :2]),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), IMAGE[:1, :2]),
    "many axes": (lambda x: (x.permute(4, 2, 0, 3, 1) * 2).exp(), make(4, 2, 2, 3, 2, 2)),
}
REDUCE = {
    "sum": (lambda x: x.sum(), IMAGE),
    "sum 0": (lambda x: x.sum(0), IMAGE),
    "sum 1": (lambda x: x.sum(1, keepdim=True), IMAGE),
    "sum 0 2": (lambda x: x.sum((0, 2)), IMAGE),
    "sum 1 3": (lambda x: x.sum((1, 3)), IMAGE),
    "mean": (lambda x: x.mean(-1) + x.mean(), IMAGE),
    "prod": (lambda x: x.prod(1) + x.prod(), np.where(np.arange(5) == 2, 0, X)),
    "cumsum": (lambda x: x.cumsum(1) * 2, make(0, 2, 19)),
    "cumprod": (lambda x: x.cumprod(0) * 2, np.where(np.arange(5) == 2, 0, X)),
    "logsumexp": (lambda x: x.logsumexp((1, 3)), IMAGE * 30),
    "amax": (lambda x: x.amax((0, 2)) + x.amin((0, 2)), IMAGE),
    "argmax": (lambda x: x.argmax(1) + x.argmin(1) + x.argmax(), X),
    "all any": (lambda x: (x > 0).any(0) & (x > -9).all(0), X),
    "var std norm": (lambda x: x.var(0) + x.std(1).sum() + x.norm(), X),
    "softmax": (lambda x: x.softmax(-1), X * 30),
    "softmax 0": (lambda x: x.softmax(0), X),
    "log_softmax": (lambda x: x.log_softmax(1), IMAGE * 30),
}
LINEAR = {
    "matmul": (lambda x, y: x @ y, X, make(5, 5, 7)),
    "matmul large": (lambda x, y: x @ y, make(5, 9, 13), make(6, 13, 11)),
    "matmul transposed": (lambda x, y: x.T @ y, make(5, 9, 10), make(6, 9, 11)),
    "batched": (lambda x, y: x @ y, make(5, 2, 3, 2, 5), make(6, 3, 5, 4)),
    "batch times matrix": (lambda x, y: x @ y, make(5, 2, 3, 5), make(6, 5, 4)),
    "vector": (lambda x, y: x @ y, X, Y[0]),
    "linear": (F.linear, make(5, 2, 3, 5), make(6, 4, 5), make(7, 4)),
    "einsum": (lambda x, y: labkit.einsum("bhqd,bkhd->bhqk", x, y), make(5, 2, 3, 2, 5), make(6, 2, 4, 3, 5)),
    "einsum sums": (lambda x, y: labkit.einsum("ij,kj,j->i", x, y, y[0]), X, Y),
}
FILTERS = make(8, 6, 4, 3, 2)
CONV = {
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), IMAGE[:, :2, :4], FILTERS[:5, :2], make(9, 5)),
    "conv2d strided": (lambda x, w: F.conv2d(x, w, stride=(2, 1), dilation=(1, 2)), IMAGE, FILTERS[:3]),
    "conv2d groups": (lambda x, w: F.conv2d(x, w, groups=2, padding=(0, 1)), IMAGE, FILTERS[:4, :2]),
    "conv2d direct": (lambda x, w, b: F.conv2d(x, w, b, padding=1), IMAGE, FILTERS[:3], make(9, 3)),
    "conv2d direct wide": (
        lambda x, w: F.conv2d(x, w, padding=2, stride=(1, 2)),
        make(4, 1, 2, 7, 9),
        make(5, 2, 2, 4, 5),
    ),
    "conv2d depthwise": (lambda x, w: F.conv2d(x, w, groups=4, padding="same"), IMAGE, FILTERS[:4, :1]),
    "conv2d too far for a patch": (
        lambda x, w: F.conv2d(x, w, padding=(0, 6), dilation=(1, 6)),
        make(4, 1, 1, 2, 9),
        make(5, 2, 1, 2, 3),
    ),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), make(4, 2, 3, 8), make(5, 2, 3, 3)),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, output_padding=1, padding=1),
        IMAGE[:1, :, :3, :3],
        FILTERS.transpose(1, 0, 2, 3)[:, :2],
    ),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), IMAGE),
    "max_pool2d overlapping": (lambda x: F.max_pool2d(x, 3, stride=1, padding=1, ceil_mode=True), IMAGE),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), IMAGE),
    "avg_pool2d padded": (
        lambda x: F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False, ceil_mode=True),
        IMAGE,
    ),
    "unfold": (lambda x: F.unfold(x, 2, padding=1, stride=2), IMAGE[:1, :2]),
    "fold": (lambda x: F.fold(x, (4, 5), 2, padding=1, stride=2), make(4, 1, 8, 9)),
}
W5, B5 = make(10, 5), make(11, 5)
NORM = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (5,), w, b), make(1, 2, 6, 5), W5, B5),
    "layer_norm plain": (lambda x: F.layer_norm(x, (3, 5)), make(1, 2, 3, 5)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (5,), w), make(1, 7, 5), W5),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        make(1, 3, 5, 2, 3),
        W5,
        B5,
    ),
    "batch_norm running": (
        lambda x, m, v: F.batch_norm(x, m.detach(), v.detach().abs() + 1),
        make(1, 3, 5, 4),
        W5,
        B5,
    ),
}
Q, K, V = make(1, 2, 2, 5, 3), make(2, 2, 2, 6, 3), make(3, 2, 2, 6, 7)
sdpa = F.scaled_dot_product_attention
ATTENTION = {
    "attention": (sdpa, Q, K, V),
    "attention causal": (lambda q, k, v: sdpa(q, k, v, is_causal=True), Q, Q[..., ::-1], V[:, :, :5]),
    "attention bool mask": (sdpa, Q, K, V, np.tri(5, 6, 1, dtype=bool)),
    "attention masked rows": (sdpa, Q, K, V, np.arange(5)[:, None] > np.array([1, 1, 2, 2, 2, 2])),
    "attention float mask": (sdpa, Q, K, V, make(4, 2, 1, 5, 6)),
    "attention shared keys": (sdpa, Q, K[:1], V[:, :1]),
    "attention large scores": (sdpa, Q * 6, K * 6, V),
}


def lstm(x, h, c, w_ih, w_hh, b_ih, b_hh):
    y, cells = labkit.ops.recurrent.lstm(x, h, c, w_ih, w_hh, b_ih, b_hh)
    return y + cells[-1]


def rnn(x, h, w_ih, w_hh, b_ih, b_hh):
    gates = labkit.ops.recurrent
    y = gates.rnn(x, h, w_ih, w_hh, b_ih, b_hh)
    return y + gates.rnn(x, h, w_ih, w_hh, nonlinearity="relu")


def write(x, index, value):
    y = x * 1
    y[index] = value
    return y * 2


def lookup(w, i):
    return F.embedding(i, w, padding_idx=2)


RECURRENT = {
    "lstm": (lstm, make(0, 3, 2, 4), X[:2], Y[:2], *(make(n, 20, m) for n, m in ((1, 4), (2, 5)))),
    "embedding": (lookup, X.T.copy(), INDEX),
}
RECURRENT["lstm"] += (make(3, 20), make(4, 20))
for name, function, rows in (("rnn", rnn, 5), ("gru", labkit.ops.recurrent.gru, 15)):
    weights = make(1, rows, 4), make(2, rows, 5), make(3, rows), make(4, rows)
    RECURRENT[name] = (function, make(0, 3, 2, 4), X[:2], *weights)
CLASSES = np.array([1, 0, 4])
LOSS = {
    "cross_entropy": (F.cross_entropy, X * 10, CLASSES),
    "cross_entropy ignore": (lambda x, t: F.cross_entropy(x, t, ignore_index=0), X, CLASSES),
    "cross_entropy none": (lambda x, t: F.cross_entropy(x, t, reduction="none"), X, CLASSES),
    "cross_entropy smoothed": (
        lambda x, t, w: F.cross_entropy(x, t, w.detach().abs(), label_smoothing=0.1, reduction="sum"),
        X,
        CLASSES,
        W5,
    ),
    "cross_entropy images": (F.cross_entropy, IMAGE, np.arange(40).reshape(2, 4, 5) % 4),
    "nll_loss": (lambda x, t: F.nll_loss(x.log_softmax(1), t), X, CLASSES),
    "mse_loss": (F.mse_loss, X, Y),
    "bce": (F.binary_cross_entropy_with_logits, X, POSITIVE - 0.5),
    "one_hot": (lambda i: F.one_hot(i, 6), INDEX),
}
FAMILIES = (ELEMENTWISE, SHAPE, REDUCE, LINEAR, CONV, NORM, ATTENTION, RECURRENT, LOSS)
CASES = {name: case for family in FAMILIES for name, case in family.items()}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_cpu(name):
    function, *arrays = CASES[name]
    same_as_cpu(function, *arrays)


VIEWS = {
    "transposed": lambda t: t.T,
    "offset": lambda t: t[1:, 2:],
    "every second": lambda t: t[:, ::2],
    "stride 0": lambda t: t[:1].expand(4, 5),
    "one column": lambda t: t[:, :1],
    "nothing": lambda t: t[:0],
    "no columns": lambda t: t[:, :0],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ("exp", "softmax", "cat", "comparisons"))
def test_views(name, view):
    function, *arrays = CASES[name]
    same_as_cpu(function, *arrays, view=VIEWS[view])


DOUBLES = """
    gelu softplus div where tril scatter_add sort topk prod cumsum logsumexp softmax argmax matmul einsum
    conv2d max_pool2d avg_pool2d resize layer_norm rms_norm batch_norm attention rnn lstm gru embedding
    cross_entropy
""".split()


@pytest.mark.parametrize("name", [*DOUBLES, "sum 1 3", "conv2d direct", "index two"])
def test_float64(name):
    function, *arrays = CASES[name]
    same_as_cpu(function, *arrays, dtype=labkit.float64, tolerance=1e-12)
