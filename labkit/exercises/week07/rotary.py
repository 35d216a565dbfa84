"""Rotary positions: queries and keys turned by their place."""

import numpy as np

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake
from labkit.exercises.week07.shared import angles_of, sinusoids, woven
from labkit.lazy import torch


def _rotary(x, positions):
    """By complex numbers: each pair is one, and turning it is a product."""
    angles = angles_of(positions, x.shape[-1]).to(x.dtype)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def _turned(x, angles, sign=-1):
    even, odd = x[..., ::2], x[..., 1::2]
    return woven(even * angles.cos() + sign * odd * angles.sin(), even * angles.sin() + odd * angles.cos())


def _turned_halves(x, positions):
    angles = angles_of(positions, x.shape[-1])
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def _turned_in_two_steps(x, positions):
    angles = angles_of(positions, x.shape[-1])
    even = x[..., ::2] * angles.cos() - x[..., 1::2] * angles.sin()
    return woven(even, even * angles.sin() + x[..., 1::2] * angles.cos())


def _turned_in_place(x, positions):
    angles = angles_of(positions, x.shape[-1])
    x[..., ::2] = x[..., ::2] * angles.cos() - x[..., 1::2] * angles.sin()
    x[..., 1::2] = x[..., ::2] * angles.sin() + x[..., 1::2] * angles.cos()
    return x


def _turn(shape, positions, make="normal"):
    return lambda draw: {"x": getattr(draw, make)(*shape), "positions": np.array(positions, draw.dtype)}


exercise = Implement(
    title="Turn, do not add",
    minutes=12,
    needs=("w07.sinusoidal",),
    also=(
        "RoPE",
        "rotary position embedding",
    ),
    reduces=1000,
    cases=[
        Case("5 tokens, width 6", _turn((5, 6), [0, 1, 2, 3, 4])),
        Case("heads, from position 44", _turn((2, 3, 4, 8), [44, 45, 46, 47])),
        Case("out of order", _turn((2, 3, 4), [20, 5, 11])),
        Case("not contiguous", _turn((1, 3, 10), [0, 2, 1], "transposed")),
        Case("one token, one pair", _turn((1, 2), [3]), extreme=True),
    ],
    oracle=_rotary,
    grads=("x",),
    memory="fresh",
    reference="a product of complex numbers",
    mistakes=[
        Mistake(
            "halves",
            "Feature i is paired with feature i + D / 2, as some libraries do. Here neighbors are pairs: 2i and 2i + 1.",
            _turned_halves,
        ),
        Mistake(
            "turned backward",
            "The pairs turn the other way: the new first one is a cos - b sin, the new second one a sin + b cos.",
            lambda x, positions: _turned(x, -angles_of(positions, x.shape[-1])),
        ),
        Mistake(
            "minus forgotten",
            "The first of each pair is a cos - b sin; here the two are added. Without the minus it is no rotation.",
            lambda x, positions: _turned(x, angles_of(positions, x.shape[-1]), sign=1),
        ),
        Mistake(
            "second from the new first",
            "The first of each pair was replaced before the second was computed from it. Keep the old one until both are done.",
            _turned_in_two_steps,
        ),
        Mistake(
            "not woven",
            "All first ones of the pairs, then all second ones. They have to go back to their places: stack and flatten, as before.",
            lambda x, positions: torch.cat(_rotary(x, positions).unflatten(-1, (-1, 2)).unbind(-1), -1),
        ),
        Mistake(
            "doubled twice",
            "The exponent is 4i / D. `torch.arange(0, D, 2)` counts 2i already.",
            lambda x, positions: _turned(x, angles_of(positions, x.shape[-1], power=4.0)),
        ),
        Mistake(
            "positions ignored",
            "The tokens are counted from 0. Their positions are given, and may start anywhere.",
            lambda x, positions: _rotary(x, torch.arange(len(positions), dtype=positions.dtype)),
        ),
        Mistake(
            "added",
            "The sinusoids are added to x. A rotation multiplies: each pair keeps its length.",
            lambda x, positions: x + sinusoids(positions, x.shape[-1]),
        ),
        Mistake(
            "in place",
            "x itself was overwritten, so the second of each pair was computed from the new first one. Make a new tensor.",
            _turned_in_place,
        ),
    ],
    hints=(
        "The angles are those of the last exercise, (T, D / 2). The pairs are x[..., ::2] and x[..., 1::2], both (..., T, D / 2).",
        "a, b = x[..., ::2], x[..., 1::2]; the new pair is (a cos - b sin, a sin + b cos). Weave the two as before.",
        "torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)",
    ),
    passed="q and k turned so that their product knows only the distance: Llama and most models since use it, without parameters.",
    excused={"delegation": "torch has no function for it; complex numbers are a fair answer too"},
    equivalent=(
        Equivalent(
            before="angles = positions[:, None] / 10000 ** (torch.arange(0, width, 2, dtype=positions.dtype) / width)",
            after="angles = positions[:, None] / 10000 ** (torch.arange(0, width, 2) / width)",
            reason="the positions of the cases are float32, which is what whole numbers divided by a whole number become",
        ),
    ),
)
