"""Write a test that tokens in another order give the same outputs in that order."""

from labkit.exercises.declare import Mistake, WriteTest, vary
from labkit.exercises.week07.shared import causal, from_heads, into_heads, woven
from labkit.lazy import F, torch


def _set_layer(x, *, split=into_heads, merge=from_heads, mask=None):
    """Attention of two heads with fixed projections; `split` and `merge` may be done otherwise."""
    random = torch.Generator().manual_seed(4)
    q, k, v = (split(x @ torch.randn(8, 8, generator=random) / 2, 2) for _ in range(3))
    return merge(F.scaled_dot_product_attention(q, k, v, mask))


def _torchs_layer(x):
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 4, batch_first=True)
    with torch.no_grad():
        return layer(x, x, x)[0]


def _with_positions(x):
    angles = torch.arange(x.shape[1])[:, None] / 10 ** torch.arange(0, 8, 2)
    return _set_layer(x + woven(angles.sin(), angles.cos()))


def _neighbors(t):
    places = torch.arange(t)
    return (places[:, None] - places).abs() <= 1


def _last_forgotten(t):
    return (torch.arange(t) < max(t - 1, 1)).expand(t, t)


def _try_order(layer, order, *, axis=1, back=True, same=None):
    same = same or (lambda a, b: torch.allclose(a, b, atol=1e-5))
    x = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(0))
    order = torch.tensor(order)
    truth = layer(x).index_select(axis, order) if back else layer(x)
    assert same(layer(x.index_select(axis, order)), truth)


exercise = WriteTest(
    title="A test for order",
    minutes=8,
    needs=("w07.multi_head", "w07.test_causal"),
    good=[_set_layer, _torchs_layer, lambda x: x + x.mean(1, keepdim=True), lambda x: x.tanh()],
    bugs={
        "positions": ("positions are added to the tokens.", _with_positions),
        "causal": (
            "a causal mask was left in.",
            lambda x: _set_layer(x, mask=causal(x.shape[1], 0)),
        ),
        "cut by reshape": (
            "the heads are cut by a reshape alone, without a transpose.",
            vary(_set_layer, split=lambda x, heads: x.reshape(len(x), heads, x.shape[1], -1)),
        ),
        "merged by reshape": (
            "the heads are put together by a reshape alone, without a transpose.",
            vary(_set_layer, merge=lambda x: x.reshape(len(x), x.shape[2], -1)),
        ),
        "last forgotten": (
            "nobody looks at the last token.",
            lambda x: _set_layer(x, mask=_last_forgotten(x.shape[1])),
        ),
        "neighbors": (
            "a token looks at itself and its two neighbors only.",
            lambda x: _set_layer(x, mask=_neighbors(x.shape[1])),
        ),
        "one place further": (
            "every output comes out one place further on.",
            lambda x: _set_layer(x).roll(1, 1),
        ),
        "in a ring": (
            "a part of the token before is mixed in, and of the last one into the first.",
            lambda x: _set_layer(x + 0.3 * x.roll(1, 1)),
        ),
    },
    mistakes=[
        Mistake(
            "only reversed",
            "Nearly all are caught. In reverse order neighbors are still neighbors: shuffle the tokens, torch.randperm.",
            lambda layer: _try_order(layer, [5, 4, 3, 2, 1, 0]),
        ),
        Mistake(
            "only moved around",
            "Nearly all are caught. Moved around in a ring, every token still has the same one before it: shuffle, torch.randperm.",
            lambda layer: _try_order(layer, [5, 0, 1, 2, 3, 4]),
        ),
        Mistake(
            "sentences exchanged",
            "Nothing is caught: sentences are exchanged, or nothing at all. The tokens are axis 1: x[:, order].",
            lambda layer: _try_order(layer, [2, 0, 1], axis=0),
        ),
        Mistake(
            "outputs left alone",
            "The outputs do not stay as they were: they change places with their tokens. Compare with layer(x)[:, order].",
            lambda layer: _try_order(layer, [3, 0, 5, 1, 4, 2], back=False),
        ),
        Mistake(
            "only the sums",
            "Nearly all are caught. The outputs are added up before they are compared: that they stand in the right places is not seen.",
            lambda layer: _try_order(
                layer, [3, 0, 5, 1, 4, 2], same=lambda a, b: torch.allclose(a.sum(1), b.sum(1), atol=1e-4)
            ),
        ),
        Mistake(
            "equal to the last digit",
            "The numbers are compared to the last digit. A sum in another order rounds differently: torch.allclose, atol=1e-5.",
            lambda layer: _try_order(layer, [3, 0, 5, 1, 4, 2], same=lambda a, b: torch.equal(a, b)),
        ),
    ],
    hints=(
        "Two ways to the same result: exchange the tokens and apply the layer, or apply the layer and exchange its outputs.",
        "order = torch.randperm(7); compare layer(x[:, order]) with layer(x)[:, order].",
        "assert torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-5), for several random orders",
    ),
    passed="A function that commutes with a change of order is called equivariant. Convolutions commute with shifts; that can be tested as well.",
)
