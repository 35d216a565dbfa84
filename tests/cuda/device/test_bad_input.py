"""Shapes, layouts, indices and values that break kernels: each family of ops gives the CPU's answer, or
a clear error. Blocks have 8 threads on the simulator, tiles 4 x 4."""

import numpy as np
import pytest
from compare import make, same_as_cpu

import labkit
from labkit.nn import functional as F


def like(x, seed, *shape):
    """A constant for functions of one tensor: on its device, of its type"""
    return labkit.tensor(make(seed, *shape), dtype=x.dtype, device=x.device)


def places(x, values):
    return labkit.tensor(values, dtype=labkit.int64, device=x.device)


def recurrent(function, gates):
    def run(x):  # (T, N, 3)
        states = [like(x, 1, x.shape[1], 2) for _ in range(1 + (gates == 4))]
        y = function(x, *states, like(x, 2, gates * 2, 3), like(x, 3, gates * 2, 2))
        return y[0] if gates == 4 else y

    return run


# functions of a (A, B, 3) tensor, one or more for each family of kernels
FUNCTIONS = {
    "map": lambda x: F.gelu(x) * 2 + 1,
    "zip": lambda x: x * like(x, 0, 3) + like(x, 1, x.shape[1], 1),
    "sum": lambda x: x.sum(-1) + x.sum((0, 2)),
    "columns": lambda x: x.sum(1),
    "softmax": lambda x: x.softmax(-1) + x.log_softmax(-1),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(0),
    "logsumexp": lambda x: x.logsumexp(2),
    "sort": lambda x: x.sort(1)[0],
    "matmul": lambda x: x @ like(x, 0, 3, 5),
    "batched": lambda x: x @ x.transpose(1, 2),
    "linear": lambda x: F.linear(x, like(x, 0, 2, 3), like(x, 1, 2)),
    "conv1d": lambda x: F.conv1d(x.transpose(1, 2), like(x, 0, 2, 3, 3), padding=1),
    "conv1d wide": lambda x: F.conv1d(x.transpose(1, 2), like(x, 0, 5, 3, 2), padding=1),
    "depthwise": lambda x: F.conv1d(x.transpose(1, 2), like(x, 0, 3, 1, 3), padding=2, groups=3),
    "max pool": lambda x: F.max_pool2d(x.unsqueeze(1), (1, 2), padding=(0, 1)),
    "avg pool": lambda x: F.avg_pool2d(x.unsqueeze(1), (1, 2), padding=(0, 1)),
    "layer norm": lambda x: F.layer_norm(x * like(x, 2, 3), (3,), like(x, 0, 3), like(x, 1, 3)),
    "rms norm": lambda x: F.rms_norm(x, (3,)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True),
    "rnn": recurrent(labkit.ops.recurrent.rnn, 1),
    "lstm": recurrent(labkit.ops.recurrent.lstm, 4),
    "gru": recurrent(labkit.ops.recurrent.gru, 3),
    "take": lambda x: x[:, :, places(x, [2, 0, -1, 2])],
    "gather": lambda x: x.gather(2, places(x, np.arange(x.numel()).reshape(x.shape) % 3)),
    "cross entropy": lambda x: F.cross_entropy(x.reshape(-1, 3), places(x, np.arange(x[..., 0].numel()) % 3)),
    "cat": lambda x: labkit.cat([x, x * 2, x[:, :0]], 1),
    "pad": lambda x: F.pad(x, (1, -2, 0, 2)),
    "where": lambda x: x.masked_fill(x > 0, 0.0),
    "mask": lambda x: x[x.detach() > 0.3],
}


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 9, 3)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_of_one_and_beside_the_block(name, shape):
    same_as_cpu(FUNCTIONS[name], make(0, *shape))


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing(name, shape):
    if shape[0] == 0 and name in ("rnn", "lstm", "gru"):
        return  # a sequence of no steps: torch refuses it
    """What the CPU makes of no elements: the same result, or an error here too."""
    try:
        FUNCTIONS[name](labkit.tensor(np.zeros(shape), dtype=labkit.float32))
    except (ValueError, IndexError, RuntimeError) as error:
        with pytest.raises(type(error)):
            FUNCTIONS[name](labkit.tensor(np.zeros(shape), dtype=labkit.float32, device="cuda"))
    else:
        same_as_cpu(FUNCTIONS[name], np.zeros(shape))


LAYOUTS = {
    "transposed": lambda x: x.transpose(0, 1),
    "offset, every second": lambda x: x[1:, 1::2],
    "last axis apart": lambda x: x.permute(1, 2, 0)[:2],
    "stride 0": lambda x: x[:1].expand(2, 4, 3)[:, :2],
    "stride 0 inside": lambda x: x[:1, :2, :1].expand(1, 2, 3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_layouts(name, layout):
    same_as_cpu(lambda x: FUNCTIONS[name](LAYOUTS[layout](x)), make(0, 3, 4, 3))


BAD_INDEX = {
    "gather": lambda x, i: x.gather(1, i),
    "scatter": lambda x, i: x.scatter(1, i, 1.0),
    "scatter_add": lambda x, i: x.scatter_add(1, i, x[:, :1]),
    "index_select": lambda x, i: labkit.index_select(x, 1, i[0]),
    "embedding": lambda x, i: F.embedding(i, x.T),
    "cross_entropy": lambda x, i: F.cross_entropy(x, i[:, 0]),
    "pick": lambda x, i: x[:, i],
    "pick pairs": lambda x, i: x[i * 0, i],
    "write": lambda x, i: x.__setitem__((slice(None), i[0]), 1.0),
    "add": lambda x, i: x.index_add(1, i[0], x[:, :1]),
}


@pytest.mark.parametrize("bad", [5, -6, 2**40, -(2**40)])
@pytest.mark.parametrize("name", BAD_INDEX)
def test_an_index_out_of_range_is_an_error(name, bad):
    x = labkit.tensor(make(0, 2, 5), dtype=labkit.float32, device="cuda")
    before = x.tolist()
    with pytest.raises(IndexError, match="index"):
        BAD_INDEX[name](x, labkit.tensor([[bad], [0]], device="cuda"))
    assert x.tolist() == before


SPECIAL = np.array(
    [[1.0, np.nan, 2.0, 0.5], [np.inf, -np.inf, 0.0, 1.0], [-np.inf] * 4, [np.inf, 1.0, np.inf, 3]]
)
REDUCTIONS = {
    "sum": lambda x: x.sum(1),
    "sum of columns": lambda x: x.sum(0),
    "mean": lambda x: x.mean(1),
    "var": lambda x: x.var(1),
    "prod": lambda x: x.prod(1),
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin(0),
    "max": lambda x: x.max(1)[1],
    "argmin": lambda x: x.argmin(0),
    "any": lambda x: x.any(1) | x.all(1),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
    "sort": lambda x: x.sort(1, descending=True)[1],
    "sort up": lambda x: x.sort(1)[0],
    "topk": lambda x: x.topk(2)[0],
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "matmul": lambda x: x @ x,
    "max_pool2d": lambda x: F.max_pool2d(x[None, None], 2),
    "conv2d": lambda x: F.conv2d(x[None, None], x[None, None, :2, :2]),
    "cross_entropy": lambda x: F.cross_entropy(x, places(x, [0, 1, 2, 3]), reduction="none"),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_nan_and_infinities(name):
    same_as_cpu(lambda x: REDUCTIONS[name](x.detach()), SPECIAL)
