"""Attention weights: scaled scores and a softmax."""

import math

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week07.shared import ATTENTIONS, scores
from labkit.lazy import F, torch


def _weights(q, k):
    """The weights as torch makes them: with the identity for values, the output is the weights."""
    eye = torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:-1], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, eye)


def _pair(q, k, make="normal", scale=1):
    return lambda draw: {"q": scale * getattr(draw, make)(*q), "k": scale * getattr(draw, make)(*k)}


exercise = Implement(
    title="Who looks at whom",
    minutes=8,
    needs=("w01.mask",),
    also=(
        "scaled dot product",
        "query and key",
    ),
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
    rules=Rules(forbids=ATTENTIONS),
    mistakes=[
        Mistake(
            "no scale",
            "The scores are not divided by the square root of d, the number of features of a query.",
            lambda q, k: (q @ k.transpose(-1, -2)).softmax(-1),
        ),
        Mistake(
            "no softmax",
            "These are the scores. A softmax over the last axis makes weights of them, each row with the sum 1.",
            scores,
        ),
        Mistake(
            "divided by d",
            "The scores are divided by d itself; the square root of d keeps their variance at 1.",
            lambda q, k: (scores(q, k) / math.sqrt(q.shape[-1])).softmax(-1),
        ),
        Mistake(
            "root of the number of keys",
            "The scale is the square root of the number of keys. It is that of d, the last size of q and k.",
            lambda q, k: (q @ k.transpose(-1, -2) / math.sqrt(k.shape[-2])).softmax(-1),
        ),
        Mistake(
            "axis 1",
            "Axis 1 is the axis of the keys only where there is no batch. Counted from the end it always is the last: dim=-1.",
            lambda q, k: scores(q, k).softmax(1),
        ),
        Mistake(
            "softmax over the queries",
            "The softmax runs over the queries, so columns sum to 1. Each query shares out its attention: rows do, dim -1.",
            lambda q, k: scores(q, k).softmax(-2),
        ),
        Mistake(
            "scaled too late",
            "The weights are divided by the square root of d after the softmax: a row no longer sums to 1.",
            lambda q, k: (q @ k.transpose(-1, -2)).softmax(-1) / math.sqrt(q.shape[-1]),
        ),
        Mistake(
            "keys look at queries",
            "Rows and columns have changed places: one row per query is asked for, q @ k.transpose(-1, -2).",
            lambda q, k: scores(k, q).softmax(-1),
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
