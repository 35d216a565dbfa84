"""A Transformer block with its norms first or last."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week07.shared import LAYERS, PROJECTIONS, block_class, block_state, load
from labkit.lazy import F, torch


def _use_block(answer, x, state, mask, heads, hidden, norm_first, approximate):
    block = answer(x.shape[-1], heads, hidden, norm_first, approximate).to(x.dtype)
    return {"0 names": load(block, state), "1 output": block(x, mask)}


def _torch_block(width, heads, hidden, norm_first, approximate):
    """torch's own layer; its mask is True where one may not look."""
    layer = torch.nn.TransformerEncoderLayer(
        width,
        heads,
        hidden,
        0.0,
        lambda x: F.gelu(x, approximate=approximate),
        batch_first=True,
        norm_first=norm_first,
    )
    forward = layer.forward
    layer.forward = lambda x, mask=None: forward(x, None if mask is None else ~mask)
    return layer


def _block_case(shape, heads, hidden, norm_first, causal=True, make="normal", approximate="none"):
    return lambda draw: {
        "x": getattr(draw, make)(*shape),
        "state": block_state(draw, shape[-1], hidden),
        "mask": np.tri(shape[1], dtype=bool) if causal else None,
        "heads": heads,
        "hidden": hidden,
        "norm_first": norm_first,
        "approximate": approximate,
    }


exercise = Implement(
    title="The block, norm first or last",
    minutes=15,
    needs=("w07.layer_norm", "w07.gelu"),
    dtype="float64",
    cases=[
        Case("norm first, causal", _block_case((2, 3, 4), 2, 7, True)),
        Case("norm last, causal", _block_case((3, 4, 6), 3, 5, False)),
        Case("norm first, no mask", _block_case((2, 5, 6), 2, 3, True, False, approximate="tanh")),
        Case("norm last, no mask, not contiguous", _block_case((3, 2, 4), 1, 9, False, False, "transposed")),
        Case("one position", _block_case((2, 1, 6), 3, 8, True), extreme=True),
    ],
    oracle=lambda *inputs: _use_block(_torch_block, *inputs),
    use=_use_block,
    grads=("x",),
    reduces=300,
    rules=Rules(forbids=LAYERS),
    delegate=lambda width, heads, hidden, norm_first, approximate: torch.nn.TransformerEncoderLayer(
        width, heads, hidden, 0.0, "gelu", batch_first=True, norm_first=norm_first
    ),
    excused={"equal axes": PROJECTIONS, "distinct": PROJECTIONS},
    mistakes=[
        Mistake(
            "always norm first",
            "norm_first=False computes norm first as well. There the norm comes after the sum: norm1(x + ...).",
            vary(block_class, style=True),
        ),
        Mistake(
            "always norm last",
            "norm_first=True still normalizes after the sum. There the branch reads norm1(x), and the sum stays as it is.",
            vary(block_class, style=False),
        ),
        Mistake(
            "the stream is normalized",
            "With norm first, x itself is replaced by norm1(x) and the branch added to that. x must pass untouched.",
            vary(block_class, style="normed"),
        ),
        Mistake(
            "no residual",
            "The input of a branch is not added to its output: x + ... is missing.",
            vary(block_class, style="lost"),
        ),
        Mistake(
            "no GELU",
            "Nothing stands between the two linear layers, so they are one linear layer. Your GELU belongs there.",
            vary(block_class, activation="identity"),
        ),
        Mistake(
            "hidden size not used",
            "The feed-forward network is 4 * width wide, whatever `hidden` says.",
            lambda width, heads, hidden, *a: block_class(width, heads, 4 * width, *a),
        ),
        Mistake(
            "second sum missing",
            "The attention is added to the stream, the feed-forward branch replaces it: x + ... is missing there.",
            vary(block_class, style="second lost"),
        ),
        Mistake(
            "keys not normalized",
            "Queries come from norm1(x), keys and values from x. All three read norm1(x).",
            vary(block_class, style="keys"),
        ),
        Mistake(
            "norm on the branch",
            "With norm last, only the branch is normalized, then added. It is the sum that is normalized.",
            vary(block_class, style="branch"),
        ),
        Mistake(
            "approximate not used",
            "The GELU is always the exact one: hand `approximate` on to it.",
            vary(block_class, activation="none"),
        ),
        Mistake(
            "ReLU",
            "Between the two linear layers is a ReLU; here it is your GELU.",
            vary(block_class, activation="relu"),
        ),
        Mistake(
            "mask forgotten",
            "The mask does not reach the attention: every position sees all others.",
            vary(block_class, use_mask=False),
        ),
        Mistake(
            "norms exchanged",
            "norm1 and norm2 are exchanged: norm1 belongs to the attention.",
            vary(block_class, swap=True),
        ),
    ],
    hints=(
        "Two branches, attention and feed-forward. Write norm first, then copy it and move the norms.",
        "feed-forward is self.linear2(gelu(self.linear1(x), self.approximate)); attention is self.self_attn(x, mask=mask).",
        "x = x + self.self_attn(self.norm1(x), mask=mask); norm last: x = self.norm1(x + self.self_attn(x, mask=mask))",
    ),
    passed="The same names and numbers as nn.TransformerEncoderLayer: its weights are yours, and the other way around.",
)
