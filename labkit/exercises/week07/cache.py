"""Attention piece by piece with a cache of keys and values."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, Rules, vary
from labkit.exercises.week07.shared import PROJECTIONS, attention_state, by_head
from labkit.lazy import F, torch


def _cached(attend, x, cache, *, mask="right", order="append", keep="all", scale=None):
    """The answer, with one thing changed."""
    weights, biases = attend.in_proj_weight.chunk(3), attend.in_proj_bias.chunk(3)
    q, k, v = (by_head(F.linear(x, w, b), attend.heads) for w, b in zip(weights, biases, strict=True))
    if cache is not None:
        pairs = ((cache[0], k), (cache[1], v)) if order == "append" else ((k, cache[0]), (v, cache[1]))
        new = [torch.cat(pair, -2) for pair in pairs]
    else:
        new = [k, v]
    steps, past = x.shape[1], new[0].shape[-2] - x.shape[1]
    if mask == "right":
        may = torch.ones(steps, past + steps, dtype=torch.bool).tril(past)
    elif mask == "new only":
        may = torch.ones(steps, steps, dtype=torch.bool).tril()
    elif mask == "no past":
        may = torch.ones(steps, past + steps, dtype=torch.bool).tril()
    else:
        may = None
    y = F.scaled_dot_product_attention(q, *new, attn_mask=may)
    out = attend.out_proj(y.transpose(1, 2).flatten(2))
    return out, tuple(new) if keep == "all" else (k, v) if keep == "new" else (cache or tuple(new))


def _attention_module(x, state, heads):
    """Multi-head attention with the names of notebook 01."""
    module = torch.nn.MultiheadAttention(x.shape[-1], heads, batch_first=True).to(x.dtype)
    module.heads = heads
    module.load_state_dict(state)
    return module


def _use_cache(answer, x, state, heads, cuts):
    """The sequence in pieces: the outputs put together, and how long the last cache is."""
    attend = _attention_module(x, state, heads)
    outputs, cache = [], None
    for piece in x.split(cuts, 1):
        output, cache = answer(attend, piece, cache)
        outputs.append(output)
    return {"1 outputs": torch.cat(outputs, 1), "2 keys": cache[0], "3 values": cache[1]}


def _whole(x, state, heads, cuts):
    """torch's attention over the whole sequence at once, and the keys and values that it uses."""
    module = _attention_module(x, state, heads)
    future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    output = module(x, x, x, attn_mask=future, need_weights=False)[0]
    _, k, v = (
        by_head(F.linear(x, w, b), heads)
        for w, b in zip(module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3), strict=True)
    )
    return {"1 outputs": output, "2 keys": k, "3 values": v}


def _cache_case(shape, heads, cuts, make="normal"):
    def inputs(draw):
        state = {key[1:]: value for key, value in attention_state(draw, "", shape[-1]).items()}
        return {"x": getattr(draw, make)(*shape), "state": state, "heads": heads, "cuts": list(cuts)}

    return inputs


exercise = Implement(
    title="The KV cache",
    minutes=12,
    dtype="float64",
    cases=[
        Case("a prompt, then one by one", _cache_case((2, 5, 6), 3, [3, 1, 1])),
        Case("one by one", _cache_case((3, 4, 2), 1, [1, 1, 1, 1])),
        Case("two pieces", _cache_case((2, 5, 4), 2, [2, 3])),
        Case("not contiguous", _cache_case((3, 5, 4), 1, [1, 4], "transposed")),
        Case("all at once", _cache_case((1, 3, 4), 2, [3])),
        Case("one token", _cache_case((2, 1, 4), 2, [1]), extreme=True),
    ],
    use=_use_cache,
    oracle=_whole,
    grads=("x",),
    reduces=200,
    rules=Rules(forbids=("MultiheadAttention", "multi_head_attention_forward")),
    excused={
        "equal axes": PROJECTIONS,
        "distinct": PROJECTIONS,
        "delegation": "torch's layer keeps no cache",
    },
    mistakes=[
        Mistake(
            "cache ignored",
            "Each piece looks at itself only: put the cached keys and values in front of the new ones.",
            lambda attend, x, cache: _cached(attend, x, None),
        ),
        Mistake(
            "new ones in front",
            "The new keys and values stand before the old ones. Time runs forward: cache first, then new.",
            vary(_cached, order="front"),
        ),
        Mistake(
            "mask without the past",
            "The mask counts from the beginning: query 0 may see key 0 only. With a past, causal_mask(t, past).",
            vary(_cached, mask="no past"),
        ),
        Mistake(
            "mask for the new ones only",
            "The mask is (t, t); there are more keys than that. causal_mask(t, past) has a column for each of them.",
            vary(_cached, mask="new only"),
        ),
        Mistake(
            "no mask",
            "Inside a piece of several tokens each sees those after it. One token needs no mask, a prompt does.",
            vary(_cached, mask="none"),
        ),
        Mistake(
            "only the new ones kept",
            "The cache that is returned holds the newest piece only. Return all keys and values so far.",
            vary(_cached, keep="new"),
        ),
        Mistake(
            "old cache returned",
            "The cache comes back as it was given: the new keys and values are missing from it.",
            vary(_cached, keep="old"),
        ),
    ],
    hints=(
        "Queries only for the new tokens; keys and values for all: those of the past lie in the cache.",
        "torch.cat([cache[0], k], dim=-2) appends along time; the past is as long as cache[0].shape[-2].",
        "y = attention(q, k, v, causal_mask(t, k.shape[-2] - t)); return attend.out_proj(merge_heads(y)), (k, v)",
    ),
    passed="The same outputs and gradients, piece by piece: nothing about the past is computed twice.",
    equivalent=(
        Equivalent(
            before="k, v = torch.cat([cache[0], k], dim=-2), torch.cat([cache[1], v], dim=-2)",
            after="k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=-2)",
            reason="keys and values have four axes, (B, heads, time, d): 2 and -2 are the same",
        ),
        Equivalent(
            before="k, v = torch.cat([cache[0], k], dim=-2), torch.cat([cache[1], v], dim=-2)",
            after="k, v = torch.cat([cache[0], k], dim=-2), torch.cat([cache[1], v], dim=2)",
            reason="keys and values have four axes, (B, heads, time, d): 2 and -2 are the same",
        ),
        Equivalent(
            before="y = attention(q, k, v, causal_mask(steps, k.shape[-2] - steps))",
            after="y = attention(q, k, v, causal_mask(steps, k.shape[2] - steps))",
            reason="keys and values have four axes, (B, heads, time, d): 2 and -2 are the same",
        ),
    ),
)
