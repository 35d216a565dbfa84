"""Attention with a mask, zero where nothing may be seen."""

import math

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week07.shared import ATTENTIONS, scores
from labkit.lazy import F, torch


def _attention(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, mask)


def _masked_scores(q, k, mask, fill=-math.inf):
    return scores(q, k) if mask is None else scores(q, k).masked_fill(~mask, fill)


def _masked_late(q, k, v, mask):
    weights = scores(q, k).softmax(-1)
    return (weights if mask is None else weights * mask) @ v


def _masked_by_sum(q, k, v, mask):
    return (scores(q, k) + (0 if mask is None else mask.to(q.dtype))).softmax(-1) @ v


def _painted_over(q, k, v, mask):
    hidden = 0 if mask is None else torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, -math.inf)
    return (scores(q, k) + hidden).softmax(-1).nan_to_num(0.0) @ v


def _masked_by(fill):
    """Hidden scores filled with one number, hidden weights set to 0: right if the number is low enough."""

    def attend(q, k, v, mask):
        weights = _masked_scores(q, k, mask, fill).softmax(-1)
        return (weights if mask is None else weights.masked_fill(~mask, 0)) @ v

    return attend


def _shared_out_again(q, k, v, mask):
    weights = scores(q, k).softmax(-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
    return weights @ v


def _low_scores(draw):
    """Every score near -1800."""
    q, k = 30 + 0.1 * draw.normal(3, 4), -30 + 0.1 * draw.normal(5, 4)
    return {"q": q, "k": k, "v": draw.normal(5, 2), "mask": np.tri(3, 5, 2, dtype=bool)}


def _loud_hidden_key(draw):
    """Key 1 would get all the weight of every query, and is hidden."""
    q, k, mask = draw.uniform(1, 2, 3, 4), draw.normal(5, 4), np.tri(3, 5, 2, dtype=bool)
    k[1], mask[:, 1] = 1000.0, False
    return {"q": q, "k": k, "v": draw.normal(5, 2), "mask": mask}


def _qkv(q, k, v, mask=None, make="normal", scale=1):
    """Inputs of attention; `mask(draw)` makes the mask."""
    return lambda draw: {
        "q": scale * getattr(draw, make)(*q),
        "k": scale * getattr(draw, make)(*k),
        "v": getattr(draw, make)(*v),
        "mask": None if mask is None else mask(draw),
    }


def _blind_row(draw):
    mask = draw.bools(3, 5)
    mask[:, 1], mask[1] = True, False
    return mask


exercise = Implement(
    title="Attention with a mask",
    minutes=12,
    needs=("w07.weights", "w07.causal_mask"),
    dtype="float64",
    cases=[
        Case("no mask", _qkv((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7))),
        Case("causal, 3 after 2", _qkv((3, 4), (5, 4), (5, 2), lambda draw: np.tri(3, 5, 2, dtype=bool))),
        Case(
            "padded, 3 heads",
            _qkv(
                (2, 3, 4, 5),
                (2, 3, 7, 5),
                (2, 3, 7, 6),
                lambda draw: (np.arange(7) < np.array([[4], [6]]))[:, None, None, :],
            ),
        ),
        Case("a row that sees nothing", _qkv((3, 4), (5, 4), (5, 2), _blind_row)),
        Case(
            "not contiguous",
            _qkv((2, 4, 3), (2, 5, 3), (2, 5, 6), lambda draw: np.tri(4, 5, 1, dtype=bool), "transposed"),
        ),
        Case("one key", _qkv((3, 2), (1, 2), (1, 4)), extreme=True),
        Case(
            "nothing to see",
            _qkv((2, 3), (4, 3), (4, 5), lambda draw: np.zeros((2, 4), dtype=bool)),
            extreme=True,
        ),
        Case(
            "large numbers",
            _qkv((3, 4), (5, 4), (5, 2), lambda draw: np.tri(3, 5, 2, dtype=bool), scale=100),
            extreme=True,
        ),
        Case("scores far below 0", _low_scores, extreme=True),
        Case("a loud hidden key", _loud_hidden_key, extreme=True),
    ],
    oracle=_attention,
    grads=("q", "k", "v"),
    rules=Rules(forbids=ATTENTIONS),
    mistakes=[
        Mistake(
            "a row of NaN",
            "A query that may look at nothing has only -inf in its row: e^-inf / 0 is NaN. Its output should be 0.",
            lambda q, k, v, mask: _masked_scores(q, k, mask).softmax(-1) @ v,
        ),
        Mistake(
            "average of everything",
            "With one large negative number everywhere, a query that may see nothing looks at all keys alike. Its weights should be 0.",
            lambda q, k, v, mask: _masked_scores(q, k, mask, -1e30).softmax(-1) @ v,
        ),
        Mistake(
            "NaN in the gradient",
            "-inf was added to the scores, and the NaN painted over. On the way back it is still there: fill with a finite number.",
            _painted_over,
        ),
        Mistake(
            "inverted",
            "Keep and drop are exchanged: True means may look, so fill where the mask is False, ~mask.",
            lambda q, k, v, mask: _attention(q, k, v, None if mask is None else ~mask),
        ),
        Mistake(
            "filled with 0",
            "Hidden scores are set to 0, and e^0 is 1: they still get attention. They need a very negative number.",
            lambda q, k, v, mask: _masked_scores(q, k, mask, 0.0).softmax(-1) @ v,
        ),
        Mistake(
            "masked after the softmax",
            "The weights are masked after the softmax: what is left of a row no longer sums to 1.",
            _masked_late,
        ),
        Mistake(
            "not low enough",
            "Hidden scores are filled with a number that real scores can fall below. Take the lowest there is: torch.finfo(q.dtype).min.",
            _masked_by(-100.0),
        ),
        Mistake(
            "shared out again",
            "The softmax runs over all keys, then the visible weights are scaled up. Where a hidden key has them all, 0 is scaled up.",
            _shared_out_again,
        ),
        Mistake(
            "mask not used",
            "The mask is not used: every query sees every key.",
            lambda q, k, v, mask: _attention(q, k, v, None),
        ),
        Mistake(
            "mask added",
            "The mask is added as 0 and 1: hidden keys are only a little less attractive. Fill them with a very negative number.",
            _masked_by_sum,
        ),
        Mistake(
            "no scale",
            "The scores are not divided by the square root of d.",
            lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask, scale=1.0),
        ),
    ],
    hints=(
        "Scores, then the mask, then the softmax. Which number, put into a score, makes its weight 0?",
        "Fill with torch.finfo(q.dtype).min, which is finite; after the softmax set the hidden weights to 0 as well.",
        "weights = scores.masked_fill(~mask, torch.finfo(q.dtype).min).softmax(-1).masked_fill(~mask, 0); weights @ v",
    ),
    passed="torch's function gives 0 for such rows too; nn.MultiheadAttention gives NaN if it is asked for the weights as well.",
)
