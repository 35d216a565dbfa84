"""A learning rate that warms up and cools down along a cosine."""

import math

from labkit.exercises.declare import Case, Implement, Mistake, vary


def _rate(step, peak, warmup, total):
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= total:
        return 0.0
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def _rate_with(step, peak, warmup, total, *, rise=None, fall=None):
    """The schedule with its rise or its fall replaced."""
    if step < warmup and rise:
        return rise(step, peak, warmup, total)
    if step >= warmup and fall:
        return fall(step, peak, warmup, total)
    return _rate(step, peak, warmup, total)


def _cosine(share):
    return 0.5 * (1 + math.cos(math.pi * share))


exercise = Implement(
    title="Warm up, then cool down",
    minutes=8,
    also=(
        "learning rate schedule",
        "cosine schedule",
    ),
    engine="python",
    cases=[
        Case("first step", lambda draw: {"step": 0, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("warming up", lambda draw: {"step": 2, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("last step of the warm-up", lambda draw: {"step": 3, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("at the peak", lambda draw: {"step": 4, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("cooling down", lambda draw: {"step": 7, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("last step", lambda draw: {"step": 11, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("after the end", lambda draw: {"step": 15, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("no warm-up", lambda draw: {"step": 0, "peak": 0.3, "warmup": 0, "total": 5}, extreme=True),
        Case(
            "nothing but warm-up",
            lambda draw: {"step": 6, "peak": 0.3, "warmup": 6, "total": 6},
            extreme=True,
        ),
    ],
    oracle=_rate,
    reference="the formulas",
    mistakes=[
        Mistake(
            "starts at zero",
            "The first step has a learning rate of 0, so it does nothing. Count it as the first of `warmup`: step + 1.",
            vary(_rate_with, rise=lambda step, peak, warmup, total: peak * step / warmup),
        ),
        Mistake(
            "no warm-up",
            "The cosine starts at step 0: the learning rate is to rise first.",
            vary(_rate_with, rise=lambda step, peak, warmup, total: peak * _cosine(step / total)),
        ),
        Mistake(
            "warm-up not subtracted",
            "The cosine counts from step 0, so it jumps down at the end of the warm-up. Count from there: step - warmup.",
            vary(_rate_with, fall=lambda step, peak, warmup, total: peak * _cosine(min(step / total, 1))),
        ),
        Mistake(
            "ends too late",
            "The cosine takes `total` steps after the warm-up. It has only total - warmup of them.",
            vary(
                _rate_with,
                fall=lambda step, peak, warmup, total: (
                    peak * _cosine((step - warmup) / total) if step < total else 0.0
                ),
            ),
        ),
        Mistake(
            "climbs again",
            "After `total` steps the cosine comes back up. From there on the learning rate is 0.",
            vary(
                _rate_with,
                fall=lambda step, peak, warmup, total: (
                    peak * _cosine((step - warmup) / max(1, total - warmup))
                ),
            ),
        ),
        Mistake(
            "not halved",
            "1 + cos runs from 2 to 0: halve it, or the learning rate doubles at the peak.",
            vary(_rate_with, fall=lambda *b: 2 * _rate(*b)),
        ),
        Mistake(
            "straight line",
            "It falls in a straight line; half a wave of the cosine is asked for.",
            vary(
                _rate_with,
                fall=lambda step, peak, warmup, total: (
                    peak * max(0.0, (total - step) / max(1, total - warmup))
                ),
            ),
        ),
    ],
    hints=(
        "Three parts: before `warmup`, before `total`, after it.",
        "While cooling down, the share done is (step - warmup) / (total - warmup); the cosine of pi times it runs from 1 to -1.",
        "peak * (step + 1) / warmup; else peak * 0.5 * (1 + math.cos(math.pi * share)); 0 from `total` on",
    ),
    passed="A large step is dangerous while Adam's averages are young, and useless near the end: hence up, then down.",
)
