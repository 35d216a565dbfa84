"""GPT-2's weights under the names of the learner's GPT."""

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week07.shared import by_name

_GPT2 = {
    "transformer.wte.": "tokens.",
    "transformer.wpe.": "positions.",
    "transformer.h.": "blocks.",
    "transformer.ln_f.": "norm.",
    "lm_head.": "head.",
    ".ln_1.": ".norm1.",
    ".ln_2.": ".norm2.",
    ".attn.c_attn.": ".self_attn.in_proj_",
    ".attn.c_proj.": ".self_attn.out_proj.",
    ".mlp.c_fc.": ".linear1.",
    ".mlp.c_proj.": ".linear2.",
}


def _from_gpt2(state, turn=lambda name, value: ".c_" in name and value.ndim == 2, change=lambda v: v.T):
    """The answer; `turn` says which weights are turned."""
    converted = {}
    for name, value in state.items():
        ours = name
        for old, new in _GPT2.items():
            ours = ours.replace(old, new)
        converted[ours] = change(value) if turn(name, value) else value
    return converted


def _gpt2_state(draw, vocab, context, width, layers, make="normal"):
    draws = getattr(draw, make)
    state = {"transformer.wte.weight": draws(vocab, width), "transformer.wpe.weight": draws(context, width)}
    for i in range(layers):
        h = f"transformer.h.{i}"
        state |= {
            f"{h}.{norm}.{kind}": draw.normal(width)
            for norm in ("ln_1", "ln_2")
            for kind in ("weight", "bias")
        }
        for name, size_in, size_out in (
            ("attn.c_attn", width, 3 * width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", width, 4 * width),
            ("mlp.c_proj", 4 * width, width),
        ):
            state |= {
                f"{h}.{name}.weight": draws(size_in, size_out),
                f"{h}.{name}.bias": draw.normal(size_out),
            }
    state |= {f"transformer.ln_f.{kind}": draw.normal(width) for kind in ("weight", "bias")}
    state["lm_head.weight"] = state["transformer.wte.weight"]
    return state


def _use_from_gpt2(answer, state):
    return by_name(answer(state, dict(_GPT2)), _from_gpt2(state))


def _gpt2_case(vocab, context, width, layers, make="normal"):
    return lambda draw: {"state": _gpt2_state(draw, vocab, context, width, layers, make)}


exercise = Implement(
    title="GPT-2's weights in your model",
    minutes=12,
    needs=("w07.gpt", "w07.conv1d"),
    dtype="float64",
    reference="GPT-2's layout",
    cases=[
        Case("one layer", _gpt2_case(7, 5, 2, 1)),
        Case("two layers", _gpt2_case(5, 7, 3, 2)),
        Case("not contiguous", _gpt2_case(6, 3, 4, 1, "transposed")),
        Case("as many tokens as features", _gpt2_case(4, 4, 4, 1)),
        Case("width 1, eleven layers", _gpt2_case(3, 2, 1, 11), extreme=True),
    ],
    use=_use_from_gpt2,
    oracle=vary(_use_from_gpt2, answer=lambda s, names: _from_gpt2(s)),
    memory="any",
    mistakes=[
        Mistake(
            "nothing turned",
            "No weight is turned. Weights named c_... are stored as (in, out); nn.Linear has (out, in).",
            lambda state, names: _from_gpt2(state, lambda name, value: False),
        ),
        Mistake(
            "tables turned",
            "All matrices are turned, the two embedding tables and the head included. Only those named c_... are Conv1D.",
            lambda state, names: _from_gpt2(state, lambda name, value: value.ndim == 2),
        ),
        Mistake(
            "square weights not turned",
            "Weights are turned unless they are square. attn.c_proj is square, fits either way, and has to be turned too.",
            lambda state, names: _from_gpt2(
                state,
                lambda name, value: ".c_" in name and value.ndim == 2 and value.shape[0] != value.shape[1],
            ),
        ),
        Mistake(
            "reshaped",
            "reshape and view keep the order in memory; the numbers land in wrong places. Turn: .T",
            lambda state, names: _from_gpt2(state, change=lambda v: v.reshape(v.shape[::-1])),
        ),
        Mistake(
            "names not changed",
            "The weights are turned, the names are still GPT-2's.",
            lambda state, names: {
                name: value.T if ".c_" in name and value.ndim == 2 else value for name, value in state.items()
            },
        ),
        Mistake(
            "first name only",
            "Only one part of each name is changed: a name such as transformer.h.0.ln_1.weight has two.",
            lambda state, names: {
                next((n.replace(old, new) for old, new in _GPT2.items() if old in n), n): v
                for (n, v) in ((n, v.T if ".c_" in n and v.ndim == 2 else v) for n, v in state.items())
            },
        ),
    ],
    hints=(
        "Two things happen to each entry: its name goes through all replacements, and some values are turned.",
        'Look at GPT-2\'s name before you change it: ".c_" in name and value.ndim == 2 is a Conv1D weight.',
        "for old, new in names.items(): ours = ours.replace(old, new); then converted[ours] = value.T or value",
    ),
    passed="The same twelve lines load the real GPT-2: only the sizes differ.",
    excused={
        "delegation": "torch has no function for it: names are a convention",
        "equal axes": "attn.c_proj is square in GPT-2",
        "distinct": "attn.c_proj is square in GPT-2",
    },
)
