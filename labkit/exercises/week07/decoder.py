"""A decoder block that also looks at the encoder's output."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week07.shared import LAYERS, PROJECTIONS, attend_with, block_state, load
from labkit.lazy import F, torch


def _decoder(
    width,
    heads,
    hidden,
    *,
    cross="memory",
    order="right",
    residual=True,
    normed=False,
    use_mask=True,
    mask_memory=False,
):
    """A decoder block, norm first, of torch's parts, with one thing changed."""
    layer = torch.nn.TransformerDecoderLayer(width, heads, hidden, 0.0, batch_first=True)

    def forward(x, memory, mask=None):
        def attend(t):
            return attend_with(layer.self_attn, t, t, mask if use_mask else None, heads)

        def look(t):
            m = {"memory": memory, "self": t}.get(cross)
            if cross == "swapped":
                return attend_with(layer.multihead_attn, memory, t, None, heads)
            m = layer.norm2(m) if normed else m
            return attend_with(layer.multihead_attn, t, m, mask if mask_memory else None, heads)

        if order == "norm last":
            x = layer.norm1(x + attend(x))
            x = layer.norm2(x + look(x))
            return layer.norm3(x + layer.linear2(F.gelu(layer.linear1(x))))
        if order == "cross first":
            x = x + look(layer.norm2(x))
            x = x + attend(layer.norm1(x))
        else:
            x = x + attend(layer.norm1(x))
            y = look(layer.norm2(x))
            x = x + y if residual else y
        return x + layer.linear2(F.gelu(layer.linear1(layer.norm3(x))))

    layer.forward = forward
    return layer


def _use_decoder(answer, x, memory, state, mask, heads, hidden):
    block = answer(x.shape[-1], heads, hidden).to(x.dtype)
    return {"0 names": load(block, state), "1 output": block(x, memory, mask)}


def _torch_decoder(width, heads, hidden):
    layer = torch.nn.TransformerDecoderLayer(
        width, heads, hidden, 0.0, "gelu", batch_first=True, norm_first=True
    )
    forward = layer.forward
    layer.forward = lambda x, memory, mask=None: forward(x, memory, None if mask is None else ~mask)
    return layer


def _decoder_case(shape, length, heads, hidden, causal=True, make="normal"):
    return lambda draw: {
        "x": getattr(draw, make)(*shape),
        "memory": draw.normal(shape[0], length, shape[2]),
        "state": block_state(draw, shape[-1], hidden, crosses=True),
        "mask": np.tri(shape[1], dtype=bool) if causal else None,
        "heads": heads,
        "hidden": hidden,
    }


exercise = Implement(
    title="Cross-attention",
    minutes=10,
    needs=("w07.block",),
    also=("encoder decoder",),
    dtype="float64",
    cases=[
        Case("memory longer", _decoder_case((2, 3, 4), 5, 2, 7)),
        Case("memory shorter, no mask", _decoder_case((3, 5, 6), 2, 3, 4, causal=False)),
        Case("not contiguous", _decoder_case((3, 2, 4), 5, 1, 9, make="transposed")),
        Case("memory of one", _decoder_case((2, 5, 6), 1, 2, 3)),
        Case("one position", _decoder_case((3, 1, 4), 2, 2, 5), extreme=True),
    ],
    oracle=lambda *inputs: _use_decoder(_torch_decoder, *inputs),
    use=_use_decoder,
    grads=("x", "memory"),
    reduces=300,
    rules=Rules(forbids=LAYERS),
    delegate=lambda width, heads, hidden: torch.nn.TransformerDecoderLayer(
        width, heads, hidden, 0.0, "gelu", batch_first=True, norm_first=True
    ),
    excused={"equal axes": PROJECTIONS, "distinct": PROJECTIONS},
    mistakes=[
        Mistake(
            "the memory asks",
            "Queries come from the memory. The position that is being written asks; the memory has the keys and values.",
            vary(_decoder, cross="swapped"),
        ),
        Mistake(
            "memory not used",
            "The second attention looks at x again: give it the memory for keys and values.",
            vary(_decoder, cross="self"),
        ),
        Mistake(
            "memory normalized again",
            "norm2 is applied to the memory as well. The encoder's output comes normalized; norm2 is for x.",
            vary(_decoder, normed=True),
        ),
        Mistake(
            "cross-attention first",
            "The block looks at the memory before it looks at itself. Self-attention, cross-attention, feed-forward.",
            vary(_decoder, order="cross first"),
        ),
        Mistake(
            "mask on the memory too",
            "The causal mask reaches the cross-attention as well. All of the memory may be seen: no mask there.",
            vary(_decoder, mask_memory=True),
        ),
        Mistake(
            "norm last",
            "The norms come after the sums. Here each branch reads its norm of x, and the sum stays as it is.",
            vary(_decoder, order="norm last"),
        ),
        Mistake(
            "no residual",
            "What was found in the memory replaces x. It is added to x, as in every branch.",
            vary(_decoder, residual=False),
        ),
        Mistake(
            "mask forgotten",
            "The causal mask does not reach the self-attention.",
            vary(_decoder, use_mask=False),
        ),
    ],
    hints=(
        "Three branches, each with its own norm in front and a sum behind.",
        "self.multihead_attn(self.norm2(x), memory): queries from x, keys and values from the memory, no mask.",
        "x = x + self.self_attn(self.norm1(x), mask=mask); x = x + self.multihead_attn(self.norm2(x), memory); then linear1, gelu, linear2",
    ),
    passed="Translation, speech and image captions: whatever is written while looking at something else has this block.",
)
