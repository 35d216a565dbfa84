"""A BERT layer's weights under the names of the learner's block."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, vary
from labkit.exercises.week07.shared import by_name
from labkit.lazy import torch

_BERT = {
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "output.LayerNorm": "norm2",
}


def _bert_layer(state, number, parts=("query", "key", "value"), join=None, swap=False, turn=False, shift=0):
    """The answer, with one thing changed."""
    at, layer = f"encoder.layer.{number + shift}.", {}
    join = join or torch.cat
    for kind in ("weight", "bias"):
        layer[f"self_attn.in_proj_{kind}"] = join(
            [state[f"{at}attention.self.{part}.{kind}"] for part in parts]
        )
        for theirs, ours in _BERT.items():
            value = state[f"{at}{theirs}.{kind}"]
            if swap and ours.startswith("norm"):
                ours = {"norm1": "norm2", "norm2": "norm1"}[ours]
            layer[f"{ours}.{kind}"] = value.T if turn and value.ndim == 2 else value
    return layer


def _bert_state(draw, width, hidden, layers, make="normal"):
    state = {}
    for i in range(layers):
        at = f"encoder.layer.{i}."
        for name, rows, columns in (
            *((f"attention.self.{part}", width, width) for part in ("query", "key", "value")),
            ("attention.output.dense", width, width),
            ("intermediate.dense", hidden, width),
            ("output.dense", width, hidden),
        ):
            state |= {
                f"{at}{name}.weight": getattr(draw, make)(rows, columns),
                f"{at}{name}.bias": draw.normal(rows),
            }
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            state |= {f"{at}{name}.{kind}": draw.normal(width) for kind in ("weight", "bias")}
    return state


def _use_bert_layer(answer, state, number):
    return by_name(answer(state, number, dict(_BERT)), _bert_layer(state, number))


def _bert_case(width, hidden, layers, number, make="normal"):
    return lambda draw: {"state": _bert_state(draw, width, hidden, layers, make), "number": number}


def _stacked_last(tensors):
    """Side by side instead of one below the other; vectors have only one way."""
    return torch.cat(tensors, -1)


exercise = Implement(
    title="BERT's weights in your block",
    minutes=10,
    needs=("w07.block",),
    dtype="float64",
    reference="BERT's layout",
    cases=[
        Case("first of one", _bert_case(3, 5, 1, 0)),
        Case("second of three", _bert_case(2, 7, 3, 1)),
        Case("not contiguous", _bert_case(4, 6, 2, 1, "transposed")),
        Case("second of eleven", _bert_case(1, 3, 11, 1)),
        Case("hidden as wide as the stream", _bert_case(3, 3, 2, 0), extreme=True),
    ],
    use=_use_bert_layer,
    oracle=vary(_use_bert_layer, answer=lambda s, n, names: _bert_layer(s, n)),
    memory="any",
    mistakes=[
        Mistake(
            "alphabetical",
            "Key, query, value: that is the order of the alphabet. in_proj has queries first, then keys, then values.",
            lambda state, number, names: _bert_layer(state, number, ("key", "query", "value")),
        ),
        Mistake(
            "values before keys",
            "Query, value, key. in_proj has queries, keys, values, in this order.",
            lambda state, number, names: _bert_layer(state, number, ("query", "value", "key")),
        ),
        Mistake(
            "side by side",
            "The three matrices stand side by side (D, 3D). They belong one below the other, (3D, D): torch.cat along axis 0.",
            lambda state, number, names: _bert_layer(state, number, join=_stacked_last),
        ),
        Mistake(
            "stacked",
            "torch.stack makes a new axis, (3, D, D). torch.cat joins along an axis that is there: (3D, D).",
            lambda state, number, names: _bert_layer(state, number, join=torch.stack),
        ),
        Mistake(
            "turned",
            "The weights are turned. BERT uses nn.Linear, (out, in), as you do; only GPT-2 has Conv1D.",
            lambda state, number, names: _bert_layer(state, number, turn=True),
        ),
        Mistake(
            "norms exchanged",
            "norm1 and norm2 are exchanged: attention.output.LayerNorm is the one behind the attention.",
            lambda state, number, names: _bert_layer(state, number, swap=True),
        ),
    ],
    hints=(
        "First the five names that only change, then the three that become one.",
        'Every name begins with f"encoder.layer.{number}."; torch.cat([query, key, value]) makes in_proj, once for weight, once for bias.',
        'layer[f"{ours}.{kind}"] = state[f"encoder.layer.{number}.{theirs}.{kind}"] for theirs, ours in names.items()',
    ),
    passed="The same dict loads into nn.TransformerEncoderLayer: its names are your names.",
    excused={
        "delegation": "torch has no function for it: names are a convention",
        "equal axes": "the projections of attention are square",
        "distinct": "the projections of attention are square",
    },
    equivalent=(
        Equivalent(
            before='for kind in ("weight", "bias"):',
            after="for kind in ('bias', 'weight'):",
            reason="a state dict is the same in whatever order it was filled",
        ),
    ),
)
