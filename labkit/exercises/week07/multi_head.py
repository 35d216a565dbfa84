"""Multi-head attention with the names of nn.MultiheadAttention."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week07.shared import ATTENTIONS, from_heads, into_heads
from labkit.lazy import F, torch


def _multi_head(
    x,
    memory,
    mask,
    p,
    heads,
    *,
    order="qkv",
    query_from=None,
    split=into_heads,
    merge=from_heads,
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


exercise = Implement(
    title="Multi-head attention",
    minutes=15,
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
    rules=Rules(forbids=ATTENTIONS),
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
    excused={"equal axes": "a projection maps a width to the same width; a transposed one is told by its values",
          "distinct": "the same: projections are square"},
)  # fmt: skip
