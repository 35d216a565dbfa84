"""A GPT: embeddings, blocks, a last norm and tied weights."""

import math

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, Rules, vary
from labkit.exercises.week07.shared import LAYERS, PROJECTIONS, block_class, block_state, load, norm_state
from labkit.lazy import torch


def _gpt(
    vocab,
    context,
    width,
    heads,
    layers,
    *,
    tied=True,
    last=True,
    causal=True,
    places="right",
    scale=1.0,
    first=True,
    approximate="tanh",
    soft=False,
    shared=False,
    registered=True,
):
    """A GPT of torch's parts, with one thing changed."""
    nn = torch.nn

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(context, width)
            blocks = [block_class(width, heads, 4 * width, first, approximate) for _ in range(layers)]
            blocks = blocks[:1] * layers if shared else blocks
            self.blocks = nn.ModuleList(blocks) if registered else blocks
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocab, bias=False)
            if tied:
                self.head.weight = self.tokens.weight

        def forward(self, idx):
            steps = idx.shape[-1]
            x = self.tokens(idx) * scale
            if places == "right":
                x = x + self.positions(torch.arange(steps))
            elif places == "tokens":
                x = x + self.positions(idx % context)
            mask = torch.ones(steps, steps, dtype=torch.bool).tril() if causal else None
            for block in self.blocks:
                x = block(x, mask)
            logits = self.head(self.norm(x) if last else x)
            return logits.softmax(-1) if soft else logits

    return GPT()


def _use_gpt(answer, idx, state, vocab, context, width, heads, layers):
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # also for blocks that are not registered: their names tell
    try:
        model = answer(vocab, context, width, heads, layers)
    finally:
        torch.set_default_dtype(usual)
    names = load(model, state)
    head, table = getattr(model, "head", None), getattr(model, "tokens", None)
    tied = head is not None and table is not None and head.weight is table.weight
    return {"0 names": names, "1 head.weight is tokens.weight": tied, "2 logits": model(idx).detach()}


def _gpt_case(shape, vocab, context, width, heads, layers, flip=False):
    def inputs(draw):
        state = {"tokens.weight": draw.normal(vocab, width), "positions.weight": draw.normal(context, width)}
        for layer in range(layers):
            state |= block_state(draw, width, 4 * width, prefix=f"blocks.{layer}.")
        state |= norm_state(draw, "norm", width)
        state["head.weight"] = state["tokens.weight"]
        idx = draw.integers(0, vocab, *shape)
        return {
            "idx": draw.integers(0, vocab, *shape[::-1]).T if flip else idx,
            "state": state,
            "vocab": vocab,
            "context": context,
            "width": width,
            "heads": heads,
            "layers": layers,
        }

    return inputs


exercise = Implement(
    title="The GPT",
    minutes=15,
    needs=("w07.block",),
    dtype="float64",
    cases=[
        Case("one block", _gpt_case((2, 3), 7, 5, 4, 2, 1)),
        Case("two blocks, full context", _gpt_case((3, 5), 11, 5, 6, 3, 2)),
        Case("not contiguous", _gpt_case((2, 4), 9, 6, 4, 1, 1, flip=True)),
        Case("one sentence", _gpt_case((1, 6), 5, 8, 6, 2, 2)),
        Case("one token", _gpt_case((2, 1), 7, 3, 4, 2, 1), extreme=True),
    ],
    oracle=lambda *inputs: _use_gpt(_gpt, *inputs),
    use=_use_gpt,
    reduces=500,
    rules=Rules(forbids=LAYERS),
    excused={
        "equal axes": PROJECTIONS,
        "distinct": PROJECTIONS,
        "delegation": "torch has no GPT; its layers are refused by name",
    },
    mistakes=[
        Mistake(
            "not tied",
            "The head has a table of its own. Tie them: self.head.weight = self.tokens.weight.",
            vary(_gpt, tied=False),
        ),
        Mistake(
            "no last norm",
            "The stream goes to the head as it is. With norm first, one more norm comes after the last block.",
            vary(_gpt, last=False),
        ),
        Mistake(
            "no causal mask",
            "Every position sees the whole sentence, also what it is to predict: give each block the causal mask.",
            vary(_gpt, causal=False),
        ),
        Mistake(
            "no positions",
            "The positions are not added: the model cannot tell an early token from a late one.",
            vary(_gpt, places="none"),
        ),
        Mistake(
            "positions of tokens",
            "The table of positions is looked up with the tokens. It is looked up with 0, 1, 2, ...: torch.arange(T).",
            vary(_gpt, places="tokens"),
        ),
        Mistake(
            "embedding scaled",
            "The embeddings are multiplied by the root of the width, as in the paper of 2017. GPT does not do that.",
            lambda vocab, context, width, *a: _gpt(vocab, context, width, *a, scale=math.sqrt(width)),
        ),
        Mistake(
            "norm last",
            "The blocks normalize after the sum; a GPT has the norm first.",
            vary(_gpt, first=False),
        ),
        Mistake(
            "exact GELU",
            'The blocks use the exact GELU. GPT-2 has the other one: approximate="tanh".',
            vary(_gpt, approximate="none"),
        ),
        Mistake(
            "one block for all",
            "All layers are the same block: [block] * n repeats one object. Make a new one in each round.",
            vary(_gpt, shared=True),
        ),
        Mistake(
            "a plain list of blocks",
            "The blocks are in a plain list, where nobody finds their parameters: no optimizer, no state dict. Use nn.ModuleList.",
            vary(_gpt, registered=False),
        ),
        Mistake(
            "softmax",
            "These are probabilities. The model returns logits; the loss does the softmax.",
            vary(_gpt, soft=True),
        ),
    ],
    hints=(
        "Follow the table from top to bottom; forward is the same list again. A plain list of blocks would not be registered.",
        "x = self.tokens(idx) + self.positions(torch.arange(idx.shape[1])); each block gets causal_mask(idx.shape[1]).",
        "self.head = nn.Linear(width, vocab, bias=False); self.head.weight = self.tokens.weight; return self.head(self.norm(x))",
    ),
    passed="GPT-2 small is this with vocab 50257, context 1024, width 768, 12 heads and 12 layers.",
    equivalent=(
        Equivalent(
            before="self.head = nn.Linear(width, vocab, bias=False)",
            after="self.head = nn.Linear(vocab, width, bias=False)",
            reason="the weight of the head is replaced by the table of tokens in the next line, whatever shape it had",
        ),
    ),
)
