"""Predict what attention costs in weights, scores and memory."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.exercises.week07.shared import into_heads
from labkit.lazy import torch


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


exercise = Predict(
    title="What does looking cost?",
    minutes=10,
    needs=("w07.multi_head",),
    items={
        "a": Item("shape of q after `split_heads`", lambda: tuple(into_heads(_empty(2, 128, 64), 4).shape)),
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
            lambda: into_heads(_empty(1, 256, 64), 4).shape[2] ** 2 // 128**2,
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
