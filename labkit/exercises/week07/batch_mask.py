"""A mask that hides the future and the padding of a batch."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.exercises.week07.shared import causal
from labkit.lazy import torch


def _real(lengths, longest):
    """Which tokens are text, padded on the left: (B,) -> (B, T)"""
    return torch.arange(longest) >= longest - lengths[:, None]


def _batch_mask(lengths, longest):
    return causal(longest, 0) & _real(lengths, longest)[:, None, None, :]


def _lengths(numbers, longest):
    return lambda draw: {"lengths": np.array(numbers), "longest": longest}


exercise = Implement(
    title="Causal, and no padding",
    minutes=8,
    needs=("w07.causal_mask", "w01.sequence_mask"),
    also=("padding mask",),
    cases=[
        Case("three sentences", _lengths([2, 5, 3], 5)),
        Case("two sentences", _lengths([4, 1], 6)),
        Case("not contiguous", lambda draw: {"lengths": np.array([1, 9, 4, 9, 3, 9])[::2], "longest": 4}),
        Case("one sentence", _lengths([3], 4)),
        Case("an empty sentence", _lengths([0, 2], 3), extreme=True),
    ],
    oracle=_batch_mask,
    reference="the page",
    mistakes=[
        Mistake(
            "padding on the right",
            "The padding is taken to be on the right. It is on the left: the last n of the columns are real.",
            lambda lengths, longest: (
                causal(longest, 0) & (torch.arange(longest) < lengths[:, None])[:, None, None, :]
            ),
        ),
        Mistake(
            "causal only",
            "The padding is visible: the lengths are not used.",
            lambda lengths, longest: causal(longest, 0).expand(len(lengths), 1, -1, -1).clone(),
        ),
        Mistake(
            "one too many",
            "One token of padding is visible: with n real ones of T, the first stands in column T - n.",
            lambda lengths, longest: (
                causal(longest, 0) & (torch.arange(longest) >= longest - lengths[:, None] - 1)[:, None, None]
            ),
        ),
        Mistake(
            "padding only",
            "The future is visible: the causal triangle is missing.",
            lambda lengths, longest: _real(lengths, longest)[:, None, None, :].expand(-1, 1, longest, -1),
        ),
        Mistake(
            "either",
            "The two are joined by `or`. A key must be in the past and real: `&`.",
            lambda lengths, longest: causal(longest, 0) | _real(lengths, longest)[:, None, None, :],
        ),
        Mistake(
            "rows for columns",
            "The padding is on the axis of the queries. What is to be hidden is the key: real[:, None, None, :].",
            lambda lengths, longest: causal(longest, 0) & _real(lengths, longest)[:, None, :, None],
        ),
        Mistake(
            "no axis for heads",
            "The axis of the heads is missing: (B, 1, T, T), so that one mask serves all heads.",
            lambda lengths, longest: _batch_mask(lengths, longest)[:, 0],
        ),
        Mistake(
            "one too few",
            "One real token is hidden: with n real ones of T, the first stands in column T - n, and that one counts.",
            lambda lengths, longest: (
                causal(longest, 0) & (torch.arange(longest) > longest - lengths[:, None])[:, None, None, :]
            ),
        ),
        Mistake(
            "padding sees itself",
            "Padded tokens see themselves. Nobody should look at padding; rows that see nothing are for the next exercise.",
            lambda lengths, longest: _batch_mask(lengths, longest) | torch.eye(longest, dtype=torch.bool),
        ),
        Mistake(
            "inverted",
            "True and False are exchanged: True means may look.",
            lambda lengths, longest: ~_batch_mask(lengths, longest),
        ),
    ],
    hints=(
        "Two masks, joined by `&`: the triangle (T, T), and the real keys with an axis for every other one.",
        "real = torch.arange(longest) >= longest - lengths[:, None] is (B, T). As keys: real[:, None, None, :], (B, 1, 1, T).",
        "return causal_mask(longest) & (torch.arange(longest) >= longest - lengths[:, None])[:, None, None, :]",
    ),
    passed="Broadcasting does the rest: (T, T) and (B, 1, 1, T) meet as (B, 1, T, T).",
    excused={"delegation": "torch has no function for it"},
)
