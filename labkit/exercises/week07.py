"""Week 7: attention and its clinic. The block, the GPT and torch's own API are in `week07_gpt.py`."""

import math

import numpy as np

from labkit.exercises.declare import Case, Fix, Implement, Item, Measure, Mistake, Predict, Rules, WriteTest
from labkit.lazy import F, torch

_ATTENTIONS = (
    *("scaled_dot_product_attention", "multi_head_attention_forward", "MultiheadAttention"),
    *("TransformerEncoderLayer", "TransformerDecoderLayer", "flex_attention"),
)


# 01 attention


def _scores(q, k):
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def _weights(q, k):
    """The weights as torch makes them: with the identity for values, the output is the weights."""
    eye = torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:-1], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, eye)


def _pair(q, k, make="normal", scale=1):
    return lambda draw: {"q": scale * getattr(draw, make)(*q), "k": scale * getattr(draw, make)(*k)}


weights = Implement(
    id="w07.weights",
    title="Who looks at whom",
    minutes=8,
    level=1,
    needs=("w01.mask",),
    dtype="float64",
    cases=[
        Case("4 queries, 6 keys", _pair((4, 3), (6, 3))),
        Case("a batch of 2", _pair((2, 5, 7), (2, 3, 7))),
        Case("2 sentences, 3 heads", _pair((2, 3, 4, 5), (2, 3, 6, 5))),
        Case("not contiguous", _pair((5, 4), (3, 4), "transposed")),
        Case("one query", _pair((1, 2), (4, 2))),
        Case("one key", _pair((3, 2), (1, 2)), extreme=True),
        Case("large numbers", _pair((3, 4), (5, 4), scale=300), extreme=True),
    ],
    oracle=_weights,
    grads=("q", "k"),
    rules=Rules(forbids=_ATTENTIONS),
    mistakes=[
        Mistake(
            "no scale",
            "The scores are not divided by the square root of d, the number of features of a query.",
            lambda q, k: (q @ k.transpose(-1, -2)).softmax(-1),
        ),
        Mistake(
            "no softmax",
            "These are the scores. A softmax over the last axis makes weights of them, each row with the sum 1.",
            _scores,
        ),
        Mistake(
            "divided by d",
            "The scores are divided by d itself; the square root of d keeps their variance at 1.",
            lambda q, k: (_scores(q, k) / math.sqrt(q.shape[-1])).softmax(-1),
        ),
        Mistake(
            "root of the number of keys",
            "The scale is the square root of the number of keys. It is that of d, the last size of q and k.",
            lambda q, k: (q @ k.transpose(-1, -2) / math.sqrt(k.shape[-2])).softmax(-1),
        ),
        Mistake(
            "axis 1",
            "Axis 1 is the axis of the keys only where there is no batch. Counted from the end it always is the last: dim=-1.",
            lambda q, k: _scores(q, k).softmax(1),
        ),
        Mistake(
            "softmax over the queries",
            "The softmax runs over the queries, so columns sum to 1. Each query shares out its attention: rows do, dim -1.",
            lambda q, k: _scores(q, k).softmax(-2),
        ),
        Mistake(
            "scaled too late",
            "The weights are divided by the square root of d after the softmax: a row no longer sums to 1.",
            lambda q, k: (q @ k.transpose(-1, -2)).softmax(-1) / math.sqrt(q.shape[-1]),
        ),
        Mistake(
            "keys look at queries",
            "Rows and columns have changed places: one row per query is asked for, q @ k.transpose(-1, -2).",
            lambda q, k: _scores(k, q).softmax(-1),
        ),
        Mistake(
            "k.T",
            "`k.T` reverses all axes, the batch too. `k.mT` or `k.transpose(-1, -2)` exchanges the last two.",
            lambda q, k: (q @ k.T / math.sqrt(q.shape[-1])).softmax(-1),
        ),
    ],
    hints=(
        "Entry [t, s] is how well query t fits key s: a dot product. All of them at once are one matrix product.",
        "q @ k.transpose(-1, -2) has shape (..., T, S). Divide it by math.sqrt(q.shape[-1]), then softmax over the last axis.",
        "return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1)",
    ),
    passed="A sum of d products of independent numbers of variance 1 has variance d; the root brings it back to 1.",
)


def _causal(t, past, diagonal=0):
    return torch.ones(t, past + t, dtype=torch.bool).tril(past + diagonal)


causal_mask = Implement(
    id="w07.causal_mask",
    title="Not into the future",
    minutes=6,
    level=1,
    cases=[
        Case("4 queries", lambda draw: {"t": 4, "past": 0}),
        Case("2 queries after 3", lambda draw: {"t": 2, "past": 3}),
        Case("5 queries after 1", lambda draw: {"t": 5, "past": 1}),
        Case("one query after 4", lambda draw: {"t": 1, "past": 4}),
        Case("one query", lambda draw: {"t": 1, "past": 0}, extreme=True),
    ],
    oracle=_causal,
    reference="the page",
    mistakes=[
        Mistake(
            "itself hidden",
            "Off by one diagonal: a query may not look at its own position. Then the first one can see nothing at all.",
            lambda t, past: _causal(t, past, -1),
        ),
        Mistake(
            "one step ahead",
            "Off by one diagonal: every query sees one token of the future, and that is the one to predict.",
            lambda t, past: _causal(t, past, 1),
        ),
        Mistake(
            "inverted",
            "True and False are exchanged: here, as in torch's scaled_dot_product_attention, True means may look.",
            lambda t, past: ~_causal(t, past),
        ),
        Mistake(
            "only the future",
            "The triangle is the upper one: each query sees itself and what comes later.",
            lambda t, past: torch.ones(t, past + t, dtype=torch.bool).triu(past),
        ),
        Mistake(
            "past ignored",
            "Query i stands at position past + i, not at i: the triangle has to move to the right by `past`.",
            lambda t, past: torch.ones(t, past + t, dtype=torch.bool).tril(),
        ),
        Mistake(
            "past left out",
            "The columns of the past are missing: there are past + t keys.",
            lambda t, past: torch.ones(t, t, dtype=torch.bool).tril(),
        ),
        Mistake(
            "transposed",
            "Rows and columns have changed places: one row per query, one column per key.",
            lambda t, past: _causal(t, past).T,
        ),
        Mistake(
            "numbers",
            "The triangle is right, and made of numbers. A mask is boolean: dtype=torch.bool, or a comparison.",
            lambda t, past: torch.ones(t, past + t).tril(past),
        ),
    ],
    hints=(
        "Write down the mask for t = 2 and past = 1: two rows, three columns.",
        "`x.tril(d)` keeps what is on or below the d-th diagonal. For past = 0 it is the main one.",
        "torch.ones(t, past + t, dtype=torch.bool).tril(past)",
    ),
    passed="torch has both habits: `is_causal=True` starts the triangle at the left, `causal_lower_right` as you do.",
    lint={"delegation": "tril is a tool here, the diagonal is the answer"},
)


def _real(lengths, longest):
    """Which tokens are text, padded on the left: (B,) -> (B, T)"""
    return torch.arange(longest) >= longest - lengths[:, None]


def _batch_mask(lengths, longest):
    return _causal(longest, 0) & _real(lengths, longest)[:, None, None, :]


def _lengths(numbers, longest):
    return lambda draw: {"lengths": np.array(numbers), "longest": longest}


batch_mask = Implement(
    id="w07.batch_mask",
    title="Causal, and no padding",
    minutes=8,
    level=2,
    needs=("w07.causal_mask", "w01.sequence_mask"),
    cases=[
        Case("three sentences", _lengths([2, 5, 3], 5)),
        Case("two sentences", _lengths([4, 1], 6)),
        Case("not contiguous", lambda draw: {"lengths": np.array([1, 9, 4, 9, 3, 9])[::2], "longest": 4}),
        Case("one sentence", _lengths([3], 4)),
        Case("an empty sentence", _lengths([0, 2], 3), extreme=True),
    ],
    oracle=_batch_mask,
    reference="the page",
    mistakes=[
        Mistake(
            "padding on the right",
            "The padding is taken to be on the right. It is on the left: the last n of the columns are real.",
            lambda lengths, longest: (
                _causal(longest, 0) & (torch.arange(longest) < lengths[:, None])[:, None, None, :]
            ),
        ),
        Mistake(
            "causal only",
            "The padding is visible: the lengths are not used.",
            lambda lengths, longest: _causal(longest, 0).expand(len(lengths), 1, -1, -1).clone(),
        ),
        Mistake(
            "one too many",
            "One token of padding is visible: with n real ones of T, the first stands in column T - n.",
            lambda lengths, longest: (
                _causal(longest, 0) & (torch.arange(longest) >= longest - lengths[:, None] - 1)[:, None, None]
            ),
        ),
        Mistake(
            "padding only",
            "The future is visible: the causal triangle is missing.",
            lambda lengths, longest: _real(lengths, longest)[:, None, None, :].expand(-1, 1, longest, -1),
        ),
        Mistake(
            "either",
            "The two are joined by `or`. A key must be in the past and real: `&`.",
            lambda lengths, longest: _causal(longest, 0) | _real(lengths, longest)[:, None, None, :],
        ),
        Mistake(
            "rows for columns",
            "The padding is on the axis of the queries. What is to be hidden is the key: real[:, None, None, :].",
            lambda lengths, longest: _causal(longest, 0) & _real(lengths, longest)[:, None, :, None],
        ),
        Mistake(
            "no axis for heads",
            "The axis of the heads is missing: (B, 1, T, T), so that one mask serves all heads.",
            lambda lengths, longest: _batch_mask(lengths, longest)[:, 0],
        ),
        Mistake(
            "one too few",
            "One real token is hidden: with n real ones of T, the first stands in column T - n, and that one counts.",
            lambda lengths, longest: (
                _causal(longest, 0) & (torch.arange(longest) > longest - lengths[:, None])[:, None, None, :]
            ),
        ),
        Mistake(
            "padding sees itself",
            "Padded tokens see themselves. Nobody should look at padding; rows that see nothing are for the next exercise.",
            lambda lengths, longest: _batch_mask(lengths, longest) | torch.eye(longest, dtype=torch.bool),
        ),
        Mistake(
            "inverted",
            "True and False are exchanged: True means may look.",
            lambda lengths, longest: ~_batch_mask(lengths, longest),
        ),
    ],
    hints=(
        "Two masks, joined by `&`: the triangle (T, T), and the real keys with an axis for every other one.",
        "real = torch.arange(longest) >= longest - lengths[:, None] is (B, T). As keys: real[:, None, None, :], (B, 1, 1, T).",
        "return causal_mask(longest) & (torch.arange(longest) >= longest - lengths[:, None])[:, None, None, :]",
    ),
    passed="Broadcasting does the rest: (T, T) and (B, 1, 1, T) meet as (B, 1, T, T).",
    lint={"delegation": "torch has no function for it"},
)


def _attention(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, mask)


def _masked_scores(q, k, mask, fill=-math.inf):
    return _scores(q, k) if mask is None else _scores(q, k).masked_fill(~mask, fill)


def _masked_late(q, k, v, mask):
    weights = _scores(q, k).softmax(-1)
    return (weights if mask is None else weights * mask) @ v


def _masked_by_sum(q, k, v, mask):
    return (_scores(q, k) + (0 if mask is None else mask.to(q.dtype))).softmax(-1) @ v


def _painted_over(q, k, v, mask):
    hidden = 0 if mask is None else torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, -math.inf)
    return (_scores(q, k) + hidden).softmax(-1).nan_to_num(0.0) @ v


def _masked_by(fill):
    """Hidden scores filled with one number, hidden weights set to 0: right if the number is low enough."""

    def attend(q, k, v, mask):
        weights = _masked_scores(q, k, mask, fill).softmax(-1)
        return (weights if mask is None else weights.masked_fill(~mask, 0)) @ v

    return attend


def _shared_out_again(q, k, v, mask):
    weights = _scores(q, k).softmax(-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
    return weights @ v


def _low_scores(draw):
    """Every score near -1800."""
    q, k = 30 + 0.1 * draw.normal(3, 4), -30 + 0.1 * draw.normal(5, 4)
    return {"q": q, "k": k, "v": draw.normal(5, 2), "mask": np.tri(3, 5, 2, dtype=bool)}


def _loud_hidden_key(draw):
    """Key 1 would get all the weight of every query, and is hidden."""
    q, k, mask = draw.uniform(1, 2, 3, 4), draw.normal(5, 4), np.tri(3, 5, 2, dtype=bool)
    k[1], mask[:, 1] = 1000.0, False
    return {"q": q, "k": k, "v": draw.normal(5, 2), "mask": mask}


def _qkv(q, k, v, mask=None, make="normal", scale=1):
    """Inputs of attention; `mask(draw)` makes the mask."""
    return lambda draw: {
        "q": scale * getattr(draw, make)(*q),
        "k": scale * getattr(draw, make)(*k),
        "v": getattr(draw, make)(*v),
        "mask": None if mask is None else mask(draw),
    }


def _blind_row(draw):
    mask = draw.bools(3, 5)
    mask[:, 1], mask[1] = True, False
    return mask


attention = Implement(
    id="w07.attention",
    title="Attention with a mask",
    minutes=12,
    level=3,
    needs=("w07.weights", "w07.causal_mask"),
    dtype="float64",
    cases=[
        Case("no mask", _qkv((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7))),
        Case("causal, 3 after 2", _qkv((3, 4), (5, 4), (5, 2), lambda draw: np.tri(3, 5, 2, dtype=bool))),
        Case(
            "padded, 3 heads",
            _qkv(
                (2, 3, 4, 5),
                (2, 3, 7, 5),
                (2, 3, 7, 6),
                lambda draw: (np.arange(7) < np.array([[4], [6]]))[:, None, None, :],
            ),
        ),
        Case("a row that sees nothing", _qkv((3, 4), (5, 4), (5, 2), _blind_row)),
        Case(
            "not contiguous",
            _qkv((2, 4, 3), (2, 5, 3), (2, 5, 6), lambda draw: np.tri(4, 5, 1, dtype=bool), "transposed"),
        ),
        Case("one key", _qkv((3, 2), (1, 2), (1, 4)), extreme=True),
        Case(
            "nothing to see",
            _qkv((2, 3), (4, 3), (4, 5), lambda draw: np.zeros((2, 4), dtype=bool)),
            extreme=True,
        ),
        Case(
            "large numbers",
            _qkv((3, 4), (5, 4), (5, 2), lambda draw: np.tri(3, 5, 2, dtype=bool), scale=100),
            extreme=True,
        ),
        Case("scores far below 0", _low_scores, extreme=True),
        Case("a loud hidden key", _loud_hidden_key, extreme=True),
    ],
    oracle=_attention,
    grads=("q", "k", "v"),
    rules=Rules(forbids=_ATTENTIONS),
    mistakes=[
        Mistake(
            "a row of NaN",
            "A query that may look at nothing has only -inf in its row: e^-inf / 0 is NaN. Its output should be 0.",
            lambda q, k, v, mask: _masked_scores(q, k, mask).softmax(-1) @ v,
        ),
        Mistake(
            "average of everything",
            "With one large negative number everywhere, a query that may see nothing looks at all keys alike. Its weights should be 0.",
            lambda q, k, v, mask: _masked_scores(q, k, mask, -1e30).softmax(-1) @ v,
        ),
        Mistake(
            "NaN in the gradient",
            "-inf was added to the scores, and the NaN painted over. On the way back it is still there: fill with a finite number.",
            _painted_over,
        ),
        Mistake(
            "inverted",
            "Keep and drop are exchanged: True means may look, so fill where the mask is False, ~mask.",
            lambda q, k, v, mask: _attention(q, k, v, None if mask is None else ~mask),
        ),
        Mistake(
            "filled with 0",
            "Hidden scores are set to 0, and e^0 is 1: they still get attention. They need a very negative number.",
            lambda q, k, v, mask: _masked_scores(q, k, mask, 0.0).softmax(-1) @ v,
        ),
        Mistake(
            "masked after the softmax",
            "The weights are masked after the softmax: what is left of a row no longer sums to 1.",
            _masked_late,
        ),
        Mistake(
            "not low enough",
            "Hidden scores are filled with a number that real scores can fall below. Take the lowest there is: torch.finfo(q.dtype).min.",
            _masked_by(-100.0),
        ),
        Mistake(
            "shared out again",
            "The softmax runs over all keys, then the visible weights are scaled up. Where a hidden key has them all, 0 is scaled up.",
            _shared_out_again,
        ),
        Mistake(
            "mask not used",
            "The mask is not used: every query sees every key.",
            lambda q, k, v, mask: _attention(q, k, v, None),
        ),
        Mistake(
            "mask added",
            "The mask is added as 0 and 1: hidden keys are only a little less attractive. Fill them with a very negative number.",
            _masked_by_sum,
        ),
        Mistake(
            "no scale",
            "The scores are not divided by the square root of d.",
            lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask, scale=1.0),
        ),
    ],
    hints=(
        "Scores, then the mask, then the softmax. Which number, put into a score, makes its weight 0?",
        "Fill with torch.finfo(q.dtype).min, which is finite; after the softmax set the hidden weights to 0 as well.",
        "weights = scores.masked_fill(~mask, torch.finfo(q.dtype).min).softmax(-1).masked_fill(~mask, 0); weights @ v",
    ),
    passed="torch's function gives 0 for such rows too; nn.MultiheadAttention gives NaN if it is asked for the weights as well.",
)


def _split(x, heads):
    return torch.stack(x.chunk(heads, -1), 1)


split_heads = Implement(
    id="w07.split_heads",
    title="Cut into heads",
    minutes=6,
    level=2,
    cases=[
        Case("3 heads of 4", lambda draw: {"x": draw.normal(2, 5, 12), "heads": 3}),
        Case("2 heads of 3", lambda draw: {"x": draw.normal(3, 4, 6), "heads": 2}),
        Case("one sentence", lambda draw: {"x": draw.normal(1, 3, 10), "heads": 5}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(2, 3, 8), "heads": 4}),
        Case("one head", lambda draw: {"x": draw.normal(2, 3, 4), "heads": 1}, extreme=True),
    ],
    oracle=_split,
    grads=("x",),
    memory="any",
    reference="torch's chunk and stack",
    mistakes=[
        Mistake(
            "reshaped in one go",
            "The shape is right, the numbers are shuffled: reshape alone mixes tokens into heads. First (B, T, heads, D / heads), then transpose.",
            lambda x, heads: x.reshape(len(x), heads, x.shape[1], -1),
        ),
        Mistake(
            "dealt like cards",
            "Each head gets every n-th feature. A head is a block of neighboring features: (B, T, heads, D / heads) in this order.",
            lambda x, heads: x.reshape(*x.shape[:2], -1, heads).permute(0, 3, 1, 2),
        ),
        Mistake(
            "not transposed",
            "Heads and tokens have to change places: (B, heads, T, D / heads).",
            lambda x, heads: x.reshape(*x.shape[:2], heads, -1),
        ),
        Mistake(
            "features before tokens",
            "Tokens and features have changed places too: (B, heads, T, D / heads).",
            lambda x, heads: _split(x, heads).transpose(2, 3),
        ),
        Mistake(
            "that many features",
            "`heads` is the number of heads, not of features in one: each has D / heads of them.",
            lambda x, heads: x.reshape(*x.shape[:2], -1, heads).transpose(1, 2),
        ),
        Mistake(
            "batch in the wrong place",
            "The batch comes first, then the heads: (B, heads, T, D / heads).",
            lambda x, heads: torch.stack(x.chunk(heads, -1)),
        ),
    ],
    hints=(
        "Which axis is cut? Only the features. So first make two axes of that one, and leave the rest alone.",
        "x.reshape(B, T, heads, D // heads), then exchange axes 1 and 2.",
        "return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)",
    ),
    passed="Nothing is copied: the heads are a view of the same numbers, with other strides.",
    lint={"delegation": "torch has no function for it; a reshape and a transpose are the answer"},
)


def _merge(x):
    return torch.cat(x.unbind(1), -1)


merge_heads = Implement(
    id="w07.merge_heads",
    title="And together again",
    minutes=4,
    level=2,
    needs=("w07.split_heads",),
    cases=[
        Case("3 heads of 4", lambda draw: {"x": draw.normal(2, 3, 5, 4)}),
        Case("4 heads of 3", lambda draw: {"x": draw.normal(1, 4, 2, 3)}),
        Case("2 heads of 6", lambda draw: {"x": draw.normal(3, 2, 5, 6)}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(2, 3, 4, 5)}),
        Case("one head", lambda draw: {"x": draw.normal(2, 1, 3, 4)}, extreme=True),
    ],
    oracle=_merge,
    grads=("x",),
    memory="any",
    reference="torch's unbind and cat",
    mistakes=[
        Mistake(
            "reshaped in one go",
            "The shape is right, the numbers are shuffled: heads and tokens have to change places before the reshape.",
            lambda x: x.reshape(len(x), x.shape[2], -1),
        ),
        Mistake(
            "view",
            "After a transpose the numbers lie in another order, and view refuses to copy. reshape copies where it must.",
            lambda x: x.transpose(1, 2).view(len(x), x.shape[2], -1),
        ),
        Mistake(
            "dealt like cards",
            "The features of the heads are interleaved. They go one head after the other: transpose axes 1 and 2.",
            lambda x: x.permute(0, 2, 3, 1).reshape(len(x), x.shape[2], -1),
        ),
        Mistake(
            "added up",
            "The heads are added. They go side by side: D / heads features each make D together.",
            lambda x: x.sum(1),
        ),
        Mistake(
            "averaged",
            "The heads are averaged. They go side by side: D / heads features each make D together.",
            lambda x: x.mean(1),
        ),
        Mistake(
            "heads left apart",
            "The last two axes are still apart: (B, T, heads, D / heads) becomes (B, T, D).",
            lambda x: x.transpose(1, 2).contiguous(),
        ),
    ],
    hints=(
        "Walk the way of split_heads backward: the last step first.",
        "Exchange axes 1 and 2: (B, T, heads, D / heads). Then make one axis of the last two.",
        "return x.transpose(1, 2).flatten(2)",
    ),
    passed="This one copies: after the transpose the features of a token do not lie side by side.",
    lint={"delegation": "torch has no function for it; a transpose and a reshape are the answer"},
)


def _multi_head(
    x,
    memory,
    mask,
    p,
    heads,
    *,
    order="qkv",
    query_from=None,
    split=_split,
    merge=_merge,
    scale=None,
    out=True,
):
    """Multi-head attention in which single steps can be done otherwise."""
    memory = x if memory is None else memory
    source = {"q": x if query_from is None else query_from(x, memory), "k": memory, "v": memory}
    blocks = dict(
        zip(order, zip(p["in_proj_weight"].chunk(3), p["in_proj_bias"].chunk(3), strict=True), strict=True)
    )
    q, k, v = (split(F.linear(source[name], *blocks[name]), heads) for name in "qkv")
    merged = merge(F.scaled_dot_product_attention(q, k, v, mask, scale=scale))
    return F.linear(merged, p["out_proj.weight"], p["out_proj.bias"]) if out else merged


def _attending(change):
    """(width, heads) -> a module with torch's parameter names whose forward is `change(x, memory, mask, p, heads)`."""

    def make(width, heads):
        class Attending(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.in_proj_weight = torch.nn.Parameter(torch.zeros(3 * width, width))
                self.in_proj_bias = torch.nn.Parameter(torch.zeros(3 * width))
                self.out_proj = torch.nn.Linear(width, width)

            def forward(self, x, memory=None, mask=None):
                return change(x, memory, mask, dict(self.named_parameters()), heads)

        return Attending()

    return make


def _variant(**changes):
    return _attending(lambda *inputs: _multi_head(*inputs, **changes))


_PARTS = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")


def _use_multi_head(answer, x, memory, mask, heads, *parameters):
    module = answer(x.shape[-1], heads)
    return torch.func.functional_call(module, dict(zip(_PARTS, parameters, strict=True)), (x, memory, mask))


def _torchs_multi_head(x, memory, mask, heads, *parameters):
    module = torch.nn.MultiheadAttention(x.shape[-1], heads, batch_first=True, dtype=x.dtype)
    memory = x if memory is None else memory
    if mask is not None:  # torch's True means drop, and it wants one mask per head
        mask = ~mask.expand(len(x), heads, x.shape[1], memory.shape[1]).flatten(0, 1)
    inputs, options = (x, memory, memory), {"attn_mask": mask, "need_weights": False}
    return torch.func.functional_call(module, dict(zip(_PARTS, parameters, strict=True)), inputs, options)[0]


def _heads_case(x, memory=None, heads=2, mask=None, make="normal"):
    def inputs(draw):
        width = x[-1]
        return {
            "x": getattr(draw, make)(*x),
            "memory": None if memory is None else getattr(draw, make)(*memory),
            "mask": None if mask is None else mask(draw),
            "heads": heads,
            "in_proj_weight": draw.normal(3 * width, width),
            "in_proj_bias": draw.normal(3 * width),
            "out_proj.weight": draw.normal(width, width),
            "out_proj.bias": draw.normal(width),
        }

    return inputs


multi_head = Implement(
    id="w07.multi_head",
    title="Multi-head attention",
    minutes=15,
    level=3,
    needs=("w07.attention", "w07.split_heads", "w07.merge_heads"),
    dtype="float64",
    cases=[
        Case("itself, 2 heads", _heads_case((2, 5, 6))),
        Case("a memory, 3 heads", _heads_case((2, 3, 12), (2, 5, 12), 3)),
        Case("padded memory", _heads_case((2, 3, 4), (2, 5, 4), 2, lambda draw: (np.arange(5) < np.array([[4], [2]]))[:, None, None, :])),
        Case("causal, not contiguous", _heads_case((2, 3, 8), None, 4, lambda draw: np.tri(3, dtype=bool), "transposed")),
        Case("one sentence, one head", _heads_case((1, 4, 3), None, 1), extreme=True),
    ],
    use=_use_multi_head,
    oracle=_torchs_multi_head,
    grads=("x", *_PARTS),
    rules=Rules(forbids=_ATTENTIONS),
    reference="nn.MultiheadAttention",
    mistakes=[
        Mistake(
            "scaled by the whole width",
            "The scores are divided by the root of the whole width: cut into heads before you attend, then d is that of one head.",
            _attending(lambda x, memory, mask, p, heads: _multi_head(x, memory, mask, p, heads, scale=x.shape[-1] ** -0.5)),
        ),
        Mistake(
            "keys and values exchanged",
            "The second third of in_proj_weight makes the keys, the last one the values; here it is the other way around.",
            _variant(order="qvk"),
        ),
        Mistake(
            "queries and keys exchanged",
            "The first third of in_proj_weight makes the queries, the second one the keys; here it is the other way around.",
            _variant(order="kqv"),
        ),
        Mistake(
            "no output layer",
            "The heads are put together and returned; out_proj, which mixes them, is missing.",
            _variant(out=False),
        ),
        Mistake(
            "memory ignored",
            "Keys and values come from x even where a memory is given.",
            _attending(lambda x, memory, mask, p, heads: _multi_head(x, None, mask, p, heads)),
        ),
        Mistake(
            "weights not transposed",
            "The projections use the weights as they are; a weight is (out, in): F.linear(x, weight, bias), or x @ weight.T + bias.",
            _attending(lambda x, memory, mask, p, heads: _multi_head(
                x, memory, mask, {**p, "in_proj_weight": torch.cat([w.T for w in p["in_proj_weight"].chunk(3)])}, heads)),
        ),
        Mistake(
            "biases not used",
            "The three projections leave out in_proj_bias.",
            _attending(lambda x, memory, mask, p, heads: _multi_head(
                x, memory, mask, {**p, "in_proj_bias": 0 * p["in_proj_bias"]}, heads)),
        ),
        Mistake(
            "queries from the memory",
            "The queries come from the memory. x asks; the memory has the keys and the values.",
            _variant(query_from=lambda x, memory: memory),
        ),
        Mistake(
            "mask forgotten",
            "The mask is not handed on to `attention`.",
            _attending(lambda x, memory, mask, p, heads: _multi_head(x, memory, None, p, heads)),
        ),
        Mistake(
            "one head",
            "All features are one head: `heads` is not used. Cut q, k and v with split_heads.",
            _attending(lambda x, memory, mask, p, heads: _multi_head(x, memory, mask, p, 1)),
        ),
    ],
    hints=(
        "Five steps: project, cut, attend, put together, project. You have a function for each of the middle three.",
        "wq, wk, wv = self.in_proj_weight.chunk(3), the biases likewise; q = F.linear(x, wq, bq), k = F.linear(memory, wk, bk).",
        "heads = (split_heads(t, self.heads) for t in (q, k, v)); return self.out_proj(merge_heads(attention(*heads, mask)))",
    ),
    passed="The state dict passes both ways: the names and shapes are those of nn.MultiheadAttention.",
    lint={"equal axes": "a projection maps a width to the same width; a transposed one is told by its values",
          "distinct": "the same: projections are square"},
)  # fmt: skip


def _angles(positions, width, base=10000.0, power=2.0):
    pairs = torch.arange(width // 2, dtype=positions.dtype)
    return positions[:, None] / base ** (power * pairs / width)


def _woven(even, odd):
    return torch.stack([even, odd], -1).flatten(-2)


def _sinusoidal(positions, width):
    angles = _angles(positions, width)
    return _woven(angles.sin(), angles.cos())


def _own_frequencies(positions, width):
    columns = torch.arange(width, dtype=positions.dtype)
    angles = positions[:, None] / 10000 ** (columns / width)
    return _woven(angles[:, ::2].sin(), angles[:, 1::2].cos())


def _at(positions, width, make=lambda values: values):
    return lambda draw: {"positions": make(np.array(positions, dtype=draw.dtype)), "width": width}


sinusoidal = Implement(
    id="w07.sinusoidal",
    title="A clock with many hands",
    minutes=8,
    level=2,
    reduces=1000,
    cases=[
        Case("5 positions, width 6", _at([0, 1, 2, 3, 4], 6)),
        Case("7 positions, width 4", _at([0, 1, 2, 3, 4, 5, 6], 4)),
        Case("far away, width 8", _at([12, 30, 47], 8)),
        Case("not contiguous", _at([3, 9, 1, 9, 8, 9], 10, lambda values: values[::2])),
        Case("one position, width 2", _at([5], 2), extreme=True),
    ],
    oracle=_sinusoidal,
    reference="the formula",
    mistakes=[
        Mistake(
            "halves",
            "All sines first, then all cosines. Here they alternate: sine in the even columns, cosine in the odd ones.",
            lambda positions, width: torch.cat(
                [_angles(positions, width).sin(), _angles(positions, width).cos()], -1
            ),
        ),
        Mistake(
            "cosine first",
            "Sine and cosine are exchanged: the even columns are sines.",
            lambda positions, width: _woven(_angles(positions, width).cos(), _angles(positions, width).sin()),
        ),
        Mistake(
            "slowed by half",
            "The exponent is i / width; it is 2i / width, with i counting the pairs.",
            lambda positions, width: _woven(
                _angles(positions, width, power=1.0).sin(), _angles(positions, width, power=1.0).cos()
            ),
        ),
        Mistake(
            "a frequency per column",
            "Sine and cosine of a pair have different frequencies. Columns 2i and 2i + 1 share one: exponent 2i / width.",
            _own_frequencies,
        ),
        Mistake(
            "faster and faster",
            "The positions are multiplied by the power of 10000; they are divided by it.",
            lambda positions, width: _woven(
                _angles(positions, width, power=-2.0).sin(), _angles(positions, width, power=-2.0).cos()
            ),
        ),
        Mistake(
            "counted from 1",
            "The positions have been moved by one: take them as they come.",
            lambda positions, width: _sinusoidal(positions + 1, width),
        ),
        Mistake(
            "sines only",
            "Every column is a sine. The odd columns are cosines.",
            lambda positions, width: _angles(positions, width).sin().repeat_interleave(2, -1),
        ),
        Mistake(
            "doubled twice",
            "The exponent is 4i / width. `torch.arange(0, width, 2)` counts 2i already.",
            lambda positions, width: _woven(
                _angles(positions, width, power=4.0).sin(), _angles(positions, width, power=4.0).cos()
            ),
        ),
    ],
    hints=(
        "First the angles: one row per position, one column per pair, (T, width / 2). Broadcasting does it.",
        "pairs = torch.arange(0, width, 2); angles = positions[:, None] / 10000 ** (pairs / width). Then weave sine and cosine.",
        "torch.stack([angles.sin(), angles.cos()], -1) is (T, width / 2, 2); .flatten(1) makes them alternate",
    ),
    passed="Any shift by n positions is one fixed rotation of every pair, whatever the position. Remember that for the next one.",
    lint={"delegation": "torch has no function for it", "equal axes": "positions have one axis"},
)


def _rotary(x, positions):
    """By complex numbers: each pair is one, and turning it is a product."""
    angles = _angles(positions, x.shape[-1]).to(x.dtype)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def _turned(x, angles, sign=-1):
    even, odd = x[..., ::2], x[..., 1::2]
    return _woven(even * angles.cos() + sign * odd * angles.sin(), even * angles.sin() + odd * angles.cos())


def _turned_halves(x, positions):
    angles = _angles(positions, x.shape[-1])
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def _turned_in_two_steps(x, positions):
    angles = _angles(positions, x.shape[-1])
    even = x[..., ::2] * angles.cos() - x[..., 1::2] * angles.sin()
    return _woven(even, even * angles.sin() + x[..., 1::2] * angles.cos())


def _turned_in_place(x, positions):
    angles = _angles(positions, x.shape[-1])
    x[..., ::2] = x[..., ::2] * angles.cos() - x[..., 1::2] * angles.sin()
    x[..., 1::2] = x[..., ::2] * angles.sin() + x[..., 1::2] * angles.cos()
    return x


def _turn(shape, positions, make="normal"):
    return lambda draw: {"x": getattr(draw, make)(*shape), "positions": np.array(positions, draw.dtype)}


rotary = Implement(
    id="w07.rotary",
    title="Turn, do not add",
    minutes=12,
    level=3,
    needs=("w07.sinusoidal",),
    reduces=1000,
    cases=[
        Case("5 tokens, width 6", _turn((5, 6), [0, 1, 2, 3, 4])),
        Case("heads, from position 44", _turn((2, 3, 4, 8), [44, 45, 46, 47])),
        Case("out of order", _turn((2, 3, 4), [20, 5, 11])),
        Case("not contiguous", _turn((1, 3, 10), [0, 2, 1], "transposed")),
        Case("one token, one pair", _turn((1, 2), [3]), extreme=True),
    ],
    oracle=_rotary,
    grads=("x",),
    memory="fresh",
    reference="a product of complex numbers",
    mistakes=[
        Mistake(
            "halves",
            "Feature i is paired with feature i + D / 2, as some libraries do. Here neighbors are pairs: 2i and 2i + 1.",
            _turned_halves,
        ),
        Mistake(
            "turned backward",
            "The pairs turn the other way: the new first one is a cos - b sin, the new second one a sin + b cos.",
            lambda x, positions: _turned(x, -_angles(positions, x.shape[-1])),
        ),
        Mistake(
            "minus forgotten",
            "The first of each pair is a cos - b sin; here the two are added. Without the minus it is no rotation.",
            lambda x, positions: _turned(x, _angles(positions, x.shape[-1]), sign=1),
        ),
        Mistake(
            "second from the new first",
            "The first of each pair was replaced before the second was computed from it. Keep the old one until both are done.",
            _turned_in_two_steps,
        ),
        Mistake(
            "not woven",
            "All first ones of the pairs, then all second ones. They have to go back to their places: stack and flatten, as before.",
            lambda x, positions: torch.cat(_rotary(x, positions).unflatten(-1, (-1, 2)).unbind(-1), -1),
        ),
        Mistake(
            "doubled twice",
            "The exponent is 4i / D. `torch.arange(0, D, 2)` counts 2i already.",
            lambda x, positions: _turned(x, _angles(positions, x.shape[-1], power=4.0)),
        ),
        Mistake(
            "positions ignored",
            "The tokens are counted from 0. Their positions are given, and may start anywhere.",
            lambda x, positions: _rotary(x, torch.arange(len(positions), dtype=positions.dtype)),
        ),
        Mistake(
            "added",
            "The sinusoids are added to x. A rotation multiplies: each pair keeps its length.",
            lambda x, positions: x + _sinusoidal(positions, x.shape[-1]),
        ),
        Mistake(
            "in place",
            "x itself was overwritten, so the second of each pair was computed from the new first one. Make a new tensor.",
            _turned_in_place,
        ),
    ],
    hints=(
        "The angles are those of the last exercise, (T, D / 2). The pairs are x[..., ::2] and x[..., 1::2], both (..., T, D / 2).",
        "a, b = x[..., ::2], x[..., 1::2]; the new pair is (a cos - b sin, a sin + b cos). Weave the two as before.",
        "torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)",
    ),
    passed="q and k turned so that their product knows only the distance: Llama and most models since use it, without parameters.",
    lint={"delegation": "torch has no function for it; complex numbers are a fair answer too"},
)


def _empty(*shape):
    return torch.empty(1).expand(shape)  # one number in memory, whatever the shape


def _multiplications(a, b):
    """Of a matrix product of two shapes: one for each number of the result and each term of its sum."""
    return lambda: (_empty(*a) @ _empty(*b)).numel() * a[-1]


def _parameters(heads):
    return lambda: sum(p.numel() for p in torch.nn.MultiheadAttention(64, heads).parameters())


def _break_even():
    """The first length at which scores and weighted values cost as much as the four projections."""
    return next(t for t in range(1, 4096) if 2 * t * t * 64 >= 4 * t * 64 * 64)


cost = Predict(
    id="w07.cost",
    title="What does looking cost?",
    minutes=10,
    level=2,
    needs=("w07.multi_head",),
    items={
        "a": Item("shape of q after `split_heads`", lambda: tuple(_split(_empty(2, 128, 64), 4).shape)),
        "b": Item(
            "shape of the weights",
            lambda: tuple((_empty(2, 4, 128, 16) @ _empty(2, 4, 16, 128)).shape),
        ),
        "c": Item("parameters of the layer, weights and biases", _parameters(4)),
        "d": Item("the same with 8 heads", _parameters(8)),
        "e": Item(
            "multiplications in `q @ k.mT`, both sentences, all heads",
            _multiplications((2, 4, 128, 16), (2, 4, 16, 128)),
        ),
        "f": Item(
            "multiplications in the four projections (three in, one out), biases not counted", lambda: 4 * _multiplications((2, 128, 64), (64, 64))()
        ),
        "g": Item(
            "twice as many tokens: how many times as many weights in the maps of b?",
            lambda: _split(_empty(1, 256, 64), 4).shape[2] ** 2 // 128**2,
        ),
        "h": Item("from how many tokens on do scores and weights · values together cost as much as the four projections?", _break_even),
        "i": Item(
            "a model with 32 heads reads one text of 8,192 tokens, float32: how many GiB (2³⁰ bytes) are the maps of one layer?",
            lambda: 4 * _empty(1, 32, 8192, 8192).numel() // 2**30,
        ),
    },
    mistakes=[
        Mistake("tokens before heads", "a: heads come before tokens: (B, heads, T, D / heads).", {"a": (2, 128, 4, 16)}),
        Mistake("heads keep the width", "a: the heads share the 64 features, 16 each.", {"a": (2, 4, 128, 64)}),
        Mistake("one map for all heads", "b: every head has a map of its own.", {"b": (2, 128, 128)}),
        Mistake("features in the map", "b: a map says who looks at whom: tokens by tokens.", {"b": (2, 4, 128, 16)}),
        Mistake("biases forgotten", "c: each of the four layers has 64 biases.", {"c": 4 * 64 * 64}),
        Mistake("three layers", "c: three projections in, and one out.", {"c": 3 * (64 * 64 + 64)}),
        Mistake("more heads, more parameters", "d: more heads are narrower heads. The matrices stay as they are.", {"d": 2 * 16640}),
        Mistake("every head at full width", "e: a head multiplies 16 features, not 64.", {"e": 2 * 4 * 128 * 128 * 64}),
        Mistake("one sentence", "e: there are two sentences.", {"e": 4 * 128 * 128 * 16}),
        Mistake("three projections", "f: the output layer is the fourth.", {"f": 3 * 2 * 128 * 64 * 64}),
        Mistake("twice as many", "g: rows and columns both double.", {"g": 2}),
        Mistake("scores alone", "h: the weights times the values cost as much as the scores: 2 T T D in all.", {"h": 256}),
        Mistake("numbers for bytes", "i: a float32 has 4 bytes.", {"i": 2}),
        Mistake("one head's share", "i: that is one head; there are 32.", {"i": 0.25}),
    ],
    hints=(
        "A product of (n, k) and (k, m) takes n k m multiplications. Count the heads and the sentences.",
        "e: 2 sentences, 4 heads, 128 by 128 scores, 16 products each. f: 2 times 128 tokens, four times 64 by 64.",
        "h: scores and weighted values, 2 T T D, against four projections, 4 T D D: equal at T = 2 D. i: 32 * 8192 ** 2 * 4 / 2 ** 30.",
    ),
    passed="Weights that nobody keeps are the idea of FlashAttention: it never writes the map to memory. Week 8 builds it.",
)  # fmt: skip


# 04 clinic


def _normalized(x, mean=-1, variance=-1):
    """x, its mean over some axes taken away, divided by the deviation over others."""
    return (x - x.mean(mean, keepdim=True)) / torch.sqrt(x.var(variance, correction=0, keepdim=True) + 1e-5)


def _attending_to(normal, **options):
    """x + causal attention of `normal(x)`."""
    options = options or {"is_causal": True}

    def attend(x, weights):
        q, k, v = normal(x) @ weights[:, None]
        return x + F.scaled_dot_product_attention(q, k, v, **options)

    return attend


def _hidden_itself(x, weights):
    q, k, v = _normalized(x, 1, 1) @ weights[:, None]
    return x + F.scaled_dot_product_attention(q, k, v, _causal(x.shape[1], 0, -1))


def _leak_case(shape, make="normal"):
    return lambda draw: {"x": getattr(draw, make)(*shape), "weights": draw.normal(3, shape[-1], shape[-1])}


leak = Fix(
    id="w07.leak",
    title="Better than possible",
    minutes=12,
    level=2,
    needs=("w07.attention",),
    dtype="float64",
    cases=[
        Case("2 sentences of 5", _leak_case((2, 5, 4))),
        Case("3 sentences of 4", _leak_case((3, 4, 6))),
        Case("one sentence", _leak_case((1, 7, 5))),
        Case("not contiguous", _leak_case((2, 3, 8), "transposed")),
        Case("one token", _leak_case((2, 1, 3)), extreme=True),
    ],
    oracle=lambda x, weights: _attending_to(lambda x: F.layer_norm(x, x.shape[-1:]))(x, weights),
    grads=("x", "weights"),
    broken=_attending_to(lambda x: _normalized(x, 1, 1)),
    fault="normalized over time",
    menu={
        "normalized over time": "",
        "mask off by one": "`is_causal=True` is torch's own triangle, and right. What else in this function mixes tokens?",
        "input added": "x is added place by place: it brings no token to another place. What does?",
    },
    mistakes=[
        Mistake(
            "not normalized",
            "The leak is closed, and the normalization is gone. It was to stay, over the features of each token.",
            _attending_to(lambda x: x),
        ),
        Mistake(
            "only the mean",
            "The mean is each token's own now; the variance is still taken over time, and leaks.",
            _attending_to(lambda x: _normalized(x, -1, 1)),
        ),
        Mistake(
            "only the variance",
            "The variance is each token's own now; the mean is still taken over time, and leaks.",
            _attending_to(lambda x: _normalized(x, 1, -1)),
        ),
        Mistake(
            "over both axes",
            "Mean and variance are taken over time and features together: the future is still in them.",
            _attending_to(lambda x: _normalized(x, (1, 2), (1, 2))),
        ),
        Mistake(
            "over the batch",
            "Mean and variance are taken over the batch: now sentences see each other. The features are axis -1.",
            _attending_to(lambda x: _normalized(x, 0, 0)),
        ),
        Mistake(
            "1e-5 outside the root",
            "The axis is right, the 1e-5 has moved out of the square root: a small difference in every number. Keep the formula.",
            _attending_to(
                lambda x: (
                    (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True).sqrt() + 1e-5)
                )
            ),
        ),
        Mistake(
            "another deviation",
            "The axis is right, the formula has changed: `std` divides by D - 1. Keep var(correction=0) and the 1e-5 inside the root.",
            _attending_to(
                lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5),
            ),
        ),
        Mistake(
            "mask moved",
            "The mask was moved by one, and hides the token itself. It was right; the leak is still open.",
            _hidden_itself,
        ),
    ],
    hints=(
        "Cover the last line: is there any other line in which one token's numbers depend on another token?",
        "x has axes (B, T, D). A mean over axis 1 is a mean over all tokens, the future ones too.",
        'fault = "normalized over time"; use -1 instead of 1 in the mean and in the variance',
    ),
    passed="Normalizing each token over its features is layer norm. A batch norm over time would have leaked as well.",
    lint={
        "delegation": "F.layer_norm is a fair way to mend it",
        "equal axes": "the three matrices map a width to the same width; their values tell them apart",
        "distinct": "the same: the matrices are square",
    },
)


def _padded_layer(x, heads):
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(x.shape[-1], heads, batch_first=True, dtype=x.dtype)
    torch.nn.init.normal_(layer.in_proj_bias)
    torch.nn.init.normal_(layer.out_proj.bias)
    return layer


def _inside(x, lengths):
    return torch.arange(x.shape[1]) < lengths[:, None]


def _use_encode(answer, x, lengths, heads):
    """What comes out at the tokens that are real."""
    return answer(_padded_layer(x, heads), x, lengths)[_inside(x, lengths)]


def _encode(mask, change=lambda x, real: x):
    """Self-attention of `change(x, real)` with `mask(real)` as key_padding_mask."""

    def encode(layer, x, lengths):
        real = _inside(x, lengths)
        x = change(x, real)
        return layer(x, x, x, key_padding_mask=mask(real), need_weights=False)[0]

    return encode


def _encode_one_more(layer, x, lengths):
    return _encode(lambda real: ~real)(layer, x, lengths + 1)


def _padded_case(shape, lengths, heads, make="normal"):
    return lambda draw: {"x": getattr(draw, make)(*shape), "lengths": np.array(lengths), "heads": heads}


keep_or_drop = Fix(
    id="w07.keep_or_drop",
    title="Keep or drop?",
    minutes=10,
    level=2,
    needs=("w07.multi_head",),
    dtype="float64",
    cases=[
        Case("two sentences", _padded_case((2, 5, 6), [3, 4], 2)),
        Case("one of them full", _padded_case((3, 4, 8), [2, 4, 1], 4)),
        Case("one sentence", _padded_case((1, 7, 3), [5], 1)),
        Case("not contiguous", _padded_case((2, 6, 4), [5, 2], 2, "transposed")),
        Case("no padding", _padded_case((2, 3, 4), [3, 3], 2), extreme=True),
    ],
    use=_use_encode,
    oracle=lambda x, lengths, heads: _use_encode(_encode(lambda real: ~real), x, lengths, heads),
    grads=("x",),
    broken=_encode(lambda real: real),
    fault="keep and drop exchanged",
    menu={
        "keep and drop exchanged": "",
        "length off by one": "`arange < lengths` marks exactly the tokens of the sentence. What does the layer do with the marked ones?",
        "padding not zeroed": "Padding of zeros would still be looked at: a key of zeros has a score, and a weight. What does True mean to the layer?",
    },
    mistakes=[
        Mistake(
            "no mask",
            "The mask is gone, and everybody looks at the padding.",
            _encode(lambda real: None),
        ),
        Mistake(
            "padding zeroed",
            "The padding is set to 0 and still looked at: its keys and values are the biases. It needs a mask.",
            _encode(lambda real: None, lambda x, real: x * real[..., None]),
        ),
        Mistake(
            "a mask of numbers",
            "A mask of floats is added to the scores: 1 for a real token is a small favor, not a rule. Pass booleans, or 0 and -inf.",
            _encode(lambda real: real.double()),
        ),
        Mistake(
            "numbers exchanged",
            "A mask of floats is added to the scores: 1 for padding makes it more attractive. Pass booleans, or 0 and -inf.",
            _encode(lambda real: (~real).double()),
        ),
        Mistake(
            "one too many",
            "Keep and drop are right now, but the first padded token of each sentence is kept.",
            _encode_one_more,
        ),
        Mistake(
            "zeroed and exchanged",
            "The padding is set to 0, and it is still the only thing that is looked at: True means drop for this layer.",
            _encode(lambda real: real, lambda x, real: x * real[..., None]),
        ),
    ],
    hints=(
        "For a sentence without padding `real` is True everywhere. What is left to look at?",
        "nn.MultiheadAttention ignores the keys where key_padding_mask is True. Which are to be ignored?",
        'fault = "keep and drop exchanged"; key_padding_mask=~real',
    ),
    passed="nn.TransformerEncoder's src_key_padding_mask drops where True, too. When in doubt, change a padded token and see.",
    lint={"delegation": "the layer is given; one sign is the answer"},
)


_FOUND = (1, 11)


def _accept_found(found):
    if found == _FOUND:
        return None
    if len(found) != 2 or not all(isinstance(part, int) for part in found):
        return "a pair of whole numbers is wanted: (layer, n)."
    layer, distance = found
    if distance == _FOUND[1]:
        return f"{distance} back is right; it does not happen in layer {layer}."
    return f"the heads of layer {layer} do not look mostly {distance} back, or that is not a large distance."


induction = Measure(
    id="w07.induction",
    title="What is this head for?",
    minutes=15,
    level=3,
    needs=("w07.rotary", "w07.attention"),
    accept=_accept_found,
    answer_type=tuple,
    mistakes=[
        Mistake(
            "the same token",
            "12 back stands the same token. The head looks at the one after it, since that is the answer. Measure once more.",
            (1, 12),
        ),
        Mistake(
            "the previous token",
            "That is the other half of the trick: heads of layer 0 look one back. Which layer looks far back?",
            (0, 1),
        ),
        Mistake("layers from 1", "The layers are counted from 0: the first index of `maps`.", (2, 11)),
        Mistake(
            "one too far",
            "Off by one on the other side: n is the number in `diagonal(-n)`; n = 0 is the token itself.",
            (1, 13),
        ),
        Mistake("exchanged", "Layer and n have changed places: (layer, n).", (11, 1)),
        Mistake(
            "the wrong layer", "11 back is right. Which layer does it: the first index of `maps`?", (0, 11)
        ),
        Mistake(
            "n with its sign",
            "n is how many tokens back, a positive number: the minus belongs to `diagonal(-n)`.",
            (1, -11),
        ),
    ],
    hints=(
        "Two stripes in the maps run parallel to the diagonal: one close to it, one far away. In which layer is the far one?",
        "for n in range(24): print(n, maps[1, 0].diagonal(-n).mean())",
        "found = (1, n), with the n of the largest mean; the same token stands 12 back, and the head looks at the one after it.",
    ),
    passed="It was never trained on pieces of 12: it does not count, it compares. This is how a model learns from its prompt.",
)


def _language_model(mix):
    """tokens (B, T) -> logits (B, T, 11), the same for the same tokens; `mix(x)` exchanges between places."""

    def model(tokens):
        random = torch.Generator().manual_seed(5)
        embedding, out = (torch.randn(11, 16, generator=random) for _ in range(2))
        places = torch.randn(64, 16, generator=random)
        x = embedding[tokens] + 0.3 * places[: tokens.shape[1]]
        return (x + mix(x)) @ out.T

    return model


def _mixed_by(mask):
    """Attention of x to itself; `mask(T)` says who may look, a row without any sees everything alike."""
    return lambda x: (x @ x.mT / 8).masked_fill(~mask(x.shape[1]), -1e9).softmax(-1) @ x


def _triangle(diagonal=0):
    return lambda t: _causal(t, 0, diagonal)


def _short(t):
    mask = torch.ones(t, t, dtype=torch.bool)
    mask[:8, :8] = _causal(min(t, 8), 0)
    mask[:8, 8:] = False
    return mask


def _summary_first(t):
    mask = _causal(t, 0)
    mask[0] = True
    return mask


def _prefix(t):
    mask = _causal(t, 0)
    mask[:4, :4] = True
    return mask


def _looks_at_neighbor(x):
    ahead = F.pad(x[:, 1:], (0, 0, 0, 1)).roll(1, 0) if len(x) > 1 else 0
    return _mixed_by(_triangle())(x) + ahead


def _over_time(x):
    return _mixed_by(_triangle())(x - x.mean(1, keepdim=True))


def _recurrent(tokens):
    torch.manual_seed(3)
    cell, embedding = torch.nn.GRU(6, 11, batch_first=True), torch.randn(11, 6)
    with torch.no_grad():
        return cell(embedding[tokens])[0]


def _try_causal(model, *, sentences=3, length=20, looks=lambda t: slice(0, t), values=True, places=None):
    """Change everything from t on, for every t of `places`, and compare the places that `looks` names."""
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(11, (sentences, length), generator=random)
    before = model(tokens)
    for t in places or range(1, length):
        changed = tokens.clone()
        changed[:, t:] = torch.randint(11, (sentences, length - t), generator=random)
        after = model(changed)
        assert after.shape == before.shape
        assert not values or torch.allclose(after[:, looks(t)], before[:, looks(t)], atol=1e-5)


test_causal = WriteTest(
    id="w07.test_causal",
    title="A test for the future",
    minutes=12,
    level=3,
    needs=("w07.leak",),
    good=[
        _language_model(_mixed_by(_triangle())),
        _language_model(lambda x: x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]),
        _recurrent,
    ],
    bugs={
        "no mask": ("it has no mask at all.", _language_model(_mixed_by(lambda t: _causal(t, 0) | True))),
        "one ahead": ("every place sees one token ahead.", _language_model(_mixed_by(_triangle(1)))),
        "only the future": (
            "the triangle is the upper one.",
            _language_model(_mixed_by(lambda t: _causal(t, 0).T)),
        ),
        "normalized over time": (
            "the mask is right, and a mean over all tokens is taken before it.",
            _language_model(_over_time),
        ),
        "short mask": (
            "its mask was made for 8 tokens; later places see everything.",
            _language_model(_mixed_by(_short)),
        ),
        "a place for the summary": (
            "the first place sees the whole text, the others do not.",
            _language_model(_mixed_by(_summary_first)),
        ),
        "an open beginning": (
            "the first four places see each other, the others do not see ahead.",
            _language_model(_mixed_by(_prefix)),
        ),
        "the neighbor's future": (
            "a sentence sees one token ahead in another sentence of the batch.",
            _language_model(_looks_at_neighbor),
        ),
    },
    mistakes=[
        Mistake(
            "only the shape",
            "Nothing is caught: the test looks at shapes, or at places that nothing could reach. Compare values before the change.",
            lambda model: _try_causal(model, values=False),
        ),
        Mistake(
            "too short",
            "Nearly all are caught. One mask was made for a few tokens only: test with a longer text, 20 or more.",
            lambda model: _try_causal(model, length=8),
        ),
        Mistake(
            "one sentence",
            "Nearly all are caught. With a single sentence nobody can look at a neighbor in the batch: use several.",
            lambda model: _try_causal(model, sentences=1),
        ),
        Mistake(
            "one place of change",
            "Nearly all are caught. One leak shows at the beginning only: change from every place t on, from 1 to the last.",
            lambda model: _try_causal(model, places=[10]),
        ),
        Mistake(
            "one sentence, and short",
            "Most are caught. Use several sentences, and more tokens than a small mask would hold.",
            lambda model: _try_causal(model, sentences=1, length=6),
        ),
        Mistake(
            "only the place before",
            "Only the place right before the change is compared. A leak may reach further back, to the very first place.",
            lambda model: _try_causal(model, looks=lambda t: slice(max(t - 1, 1), max(t, 1))),
        ),
        Mistake(
            "the changed place too",
            "The place that was changed is compared as well. It may change; only those before it may not.",
            lambda model: _try_causal(model, looks=lambda t: slice(0, t + 1)),
        ),
    ],
    hints=(
        "logits = model(tokens). Change tokens from place t on, ask again, and compare the logits before t.",
        "Use several sentences of 20 tokens, and every t from 1 to 19; compare all places before t.",
        "changed = tokens.clone(); changed[:, t:] = other tokens; assert torch.allclose(model(changed)[:, :t], logits[:, :t], atol=1e-5)",
    ),
    passed="It holds for any causal model, recurrent ones too, and needs no reference implementation. Run it on everything you write.",
)


def _set_layer(x, *, split=_split, merge=_merge, mask=None):
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
    return _set_layer(x + _woven(angles.sin(), angles.cos()))


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


test_permutation = WriteTest(
    id="w07.test_permutation",
    title="A test for order",
    minutes=8,
    level=2,
    needs=("w07.multi_head", "w07.test_causal"),
    good=[_set_layer, _torchs_layer, lambda x: x + x.mean(1, keepdim=True), lambda x: x.tanh()],
    bugs={
        "positions": ("positions are added to the tokens.", _with_positions),
        "causal": (
            "a causal mask was left in.",
            lambda x: _set_layer(x, mask=_causal(x.shape[1], 0)),
        ),
        "cut by reshape": (
            "the heads are cut by a reshape alone, without a transpose.",
            lambda x: _set_layer(x, split=lambda x, heads: x.reshape(len(x), heads, x.shape[1], -1)),
        ),
        "merged by reshape": (
            "the heads are put together by a reshape alone, without a transpose.",
            lambda x: _set_layer(x, merge=lambda x: x.reshape(len(x), x.shape[2], -1)),
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
