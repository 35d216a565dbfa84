"""Predict what a cache of keys and values saves and costs."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import torch


def _scores(prompt, total, cached):
    """How many scores are computed while positions prompt .. total - 1 are written, one at a time."""
    keys = torch.zeros(total, 8)
    steps = range(prompt + 1, total + 1)
    return sum((keys[t - 1 if cached else 0 : t] @ keys[:t].T).numel() for t in steps)


exercise = Predict(
    title="What the cache saves",
    minutes=6,
    needs=("w07.cache",),
    items={
        "plain step": Item(
            "scores in a step that reads 10 tokens, without a cache", lambda: _scores(9, 10, False)
        ),
        "cached step": Item("the same step with a cache of the first 9", lambda: _scores(9, 10, True)),
        "plain": Item(
            "scores in ten such steps together, reading 1, 2, …, 10 tokens, without a cache",
            lambda: _scores(0, 10, False),
        ),
        "cached": Item("the same ten steps with a cache", lambda: _scores(0, 10, True)),
        "numbers": Item(
            "how many numbers the cache of a whole model holds after 64 tokens, with 3 layers of width 96",
            lambda: 3 * sum(torch.zeros(1, 4, 64, 24).numel() for _ in ("keys", "values")),
        ),
    },
    mistakes=[
        Mistake(
            "half the square",
            "A mask does not save work here: all 10 * 10 scores are computed, then some are hidden.",
            {"plain step": 55},
        ),
        Mistake(
            "one score",
            "The new query meets every key so far, its own included: 10 of them.",
            {"cached step": 1},
        ),
        Mistake(
            "its own key forgotten",
            "A token also looks at itself: 10 keys, not 9.",
            {"cached step": 9},
        ),
        Mistake(
            "the last step only",
            "Without a cache every one of the ten steps computes its own square: 1 + 4 + 9 + ... + 100.",
            {"plain": 100},
        ),
        Mistake(
            "every step as the last",
            "Ten steps of 100 would be 1000; the early steps are shorter: 1 + 4 + 9 + ... + 100.",
            {"plain": 1000},
        ),
        Mistake(
            "keys only",
            "The cache holds keys and values: twice as many.",
            {"numbers": 3 * 64 * 96},
        ),
        Mistake(
            "one layer",
            "Every layer has a cache of its own.",
            {"numbers": 2 * 64 * 96},
        ),
    ],
    hints=(
        "A score is one query against one key. Without a cache, t tokens mean t queries and t keys.",
        "With a cache there is one query per step, and as many keys as tokens so far: 1 + 2 + ... + 10 in all.",
        "100, 10, 385, 55, and 2 * 3 * 64 * 96",
    ),
    passed="Writing T tokens costs about T^3 / 3 scores without a cache and T^2 / 2 with one. Memory is the price.",
)
