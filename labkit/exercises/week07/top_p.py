"""Chances cut to the fewest tokens that hold p of them."""

import numpy as np

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, vary
from labkit.lazy import torch


def _top_p(probs, p, *, rule="right", back=True, scale=True, descending=True):
    """The answer, with one thing changed."""
    ordered, order = probs.sort(-1, descending=descending)
    total = ordered.cumsum(-1)
    if rule == "right":
        keep = total - ordered < p
    elif rule == "under":
        keep = total <= p
    elif rule == "beyond":
        keep = total - ordered <= p
    elif rule == "each":
        keep = ordered >= p
    else:  # one more than needed
        keep = torch.cat([torch.ones_like(total[..., :1]), total[..., :-1] - ordered[..., :-1]], -1) < p
        keep[..., 0] = True
    kept = ordered * keep
    kept = torch.zeros_like(probs).scatter(-1, order, kept) if back else kept
    return kept / kept.sum(-1, keepdim=True) if scale else kept


def _top_p_case(shape, p, make="normal", spread=1.5):
    def inputs(draw):
        weights = np.exp(spread * getattr(draw, make)(*shape))
        return {"probs": weights / weights.sum(-1, keepdims=True), "p": p}

    return inputs


exercise = Implement(
    title="Top-p",
    minutes=10,
    also=("nucleus sampling",),
    dtype="float64",
    reference="the definition",
    cases=[
        Case("most of it", _top_p_case((8,), 0.9)),
        Case("half", _top_p_case((3, 6), 0.5)),
        Case("a little", _top_p_case((2, 5), 0.1)),
        Case("not contiguous", _top_p_case((2, 7), 0.8, "transposed")),
        Case("one row, nearly all", _top_p_case((1, 6), 0.97)),
        Case("exactly p", lambda draw: {"probs": np.array([[0.25, 0.5, 0.0625, 0.1875]]), "p": 0.5}),
        Case("all", _top_p_case((2, 5), 1.0), extreme=True),
        Case(
            "one certain token", lambda draw: {"probs": np.array([[0.0, 1.0, 0.0]]), "p": 0.5}, extreme=True
        ),
    ],
    oracle=lambda probs, p: _top_p(probs, p),
    excused={"delegation": "torch has no function for it; sort, cumsum and scatter are the tools here"},
    mistakes=[
        Mistake(
            "stops short",
            "Tokens are kept while their total is at most p, so the one that crosses p is lost. It belongs to the set.",
            vary(_top_p, rule="under"),
        ),
        Mistake(
            "one too many",
            "One more token is kept than needed to reach p.",
            vary(_top_p, rule="more"),
        ),
        Mistake(
            "more than p",
            "Where the total is exactly p, one more token is kept: at least p is enough, so compare with >=, or the total before with <.",
            vary(_top_p, rule="beyond"),
        ),
        Mistake(
            "each by itself",
            "Tokens with a probability of at least p are kept. It is the total of the largest that has to reach p.",
            vary(_top_p, rule="each"),
        ),
        Mistake(
            "left in sorted order",
            "The result is in sorted order: probabilities sit with the wrong tokens. Put them back with scatter.",
            vary(_top_p, back=False),
        ),
        Mistake(
            "not rescaled",
            "What is left does not add up to 1: divide by its sum.",
            vary(_top_p, scale=False),
        ),
        Mistake(
            "smallest first",
            "The tokens are sorted from the smallest up, so the unlikely ones are kept: descending=True.",
            vary(_top_p, descending=False),
        ),
    ],
    hints=(
        "Sort from the largest down and add up. A token stays if the total *before* it is still below p.",
        "ordered, order = probs.sort(-1, descending=True); before = ordered.cumsum(-1) - ordered.",
        "kept = torch.zeros_like(probs).scatter(-1, order, ordered * (before < p)); return kept / kept.sum(-1, keepdim=True)",
    ),
    passed="Where the model is sure, one or two tokens are left; where it is not, many. Top-k cannot do that.",
    equivalent=(
        Equivalent(
            before="kept = torch.zeros_like(probs).scatter(-1, order, ordered * (before < p))",
            after="kept = torch.ones_like(probs).scatter(-1, order, ordered * (before < p))",
            reason="the scatter writes to every place, so it does not matter what was there",
        ),
    ),
)
