"""Chances with a temperature, cut to the k likeliest tokens."""

import math

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.lazy import F


def _top_k(
    logits,
    temperature,
    k,
    *,
    after=False,
    times=False,
    extra=0,
    renew=True,
    fill=-math.inf,
    cold=True,
    strict=False,
):
    """The answer, with one thing changed."""
    if temperature == 0:
        if not cold:
            return (logits / temperature).softmax(-1)
        return F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
    scaled = logits * temperature if times else logits / (1 if after else temperature)
    least = scaled.topk(min(k + extra, logits.shape[-1])).values[..., -1:]
    if renew:
        out = scaled <= least if strict else scaled < least
        probs = scaled.masked_fill(out, fill).softmax(-1)
    else:
        probs = scaled.softmax(-1).masked_fill(scaled < least, 0.0)
    return probs / temperature if after else probs


def _top_k_case(shape, temperature, k, make="normal", scale=2.0, shift=0.0):
    return lambda draw: {
        "logits": shift + scale * getattr(draw, make)(*shape),
        "temperature": temperature,
        "k": k,
    }


exercise = Implement(
    title="Temperature and top-k",
    minutes=10,
    dtype="float64",
    reference="the definition",
    cases=[
        Case("cool", _top_k_case((7,), 0.5, 3)),
        Case("hot", _top_k_case((2, 6), 2.0, 4)),
        Case("as it is", _top_k_case((3, 5), 1.0, 2)),
        Case("not contiguous", _top_k_case((2, 5), 0.7, 3, "transposed")),
        Case("only the best", _top_k_case((1, 4), 1.5, 1)),
        Case("temperature 0", _top_k_case((2, 3, 5), 0.0, 4)),
        Case("more than there are", _top_k_case((2, 5), 0.8, 50), extreme=True),
        Case("large logits", _top_k_case((2, 5), 0.5, 3, scale=1e4), extreme=True),
        Case("far below 0", _top_k_case((2, 5), 0.5, 3, shift=-1e6), extreme=True),
    ],
    oracle=lambda logits, temperature, k: _top_k(logits, temperature, k),
    excused={"delegation": "torch has no function for it; topk and softmax are the tools here"},
    mistakes=[
        Mistake(
            "multiplied",
            "The logits are multiplied by the temperature; divide. A low temperature makes differences larger.",
            vary(_top_k, times=True),
        ),
        Mistake(
            "temperature after the softmax",
            "The probabilities are divided by the temperature, so they no longer add up to 1. It acts on the logits.",
            vary(_top_k, after=True),
        ),
        Mistake(
            "not renewed",
            "The tokens outside are set to 0 after the softmax, and the rest does not add up to 1. Remove them before it.",
            vary(_top_k, renew=False),
        ),
        Mistake(
            "zero for minus infinity",
            "The logits outside become 0, and e to the 0 is 1: they still have a chance. Use -torch.inf.",
            vary(_top_k, fill=0.0),
        ),
        Mistake(
            "one too many",
            "k + 1 tokens are left; k are wanted.",
            vary(_top_k, extra=1),
        ),
        Mistake(
            "one too few",
            "k - 1 tokens are left: the smallest of the k largest is lost. Compare with < to remove, or >= to keep.",
            vary(_top_k, strict=True),
        ),
        Mistake(
            "all tokens",
            "The temperature is right; no token is removed.",
            lambda logits, temperature, k: _top_k(logits, temperature, logits.shape[-1]),
        ),
        Mistake(
            "division by zero",
            "Temperature 0 divides by zero. It stands for the limit: all probability on the largest logit.",
            vary(_top_k, cold=False),
        ),
    ],
    hints=(
        "Three steps: divide, remove, softmax. And temperature 0 by itself, first.",
        "scaled.topk(min(k, V)).values[..., -1:] is the smallest logit that stays; masked_fill the others with -torch.inf.",
        "F.one_hot(logits.argmax(-1), V) for 0; else scaled.masked_fill(scaled < least, -torch.inf).softmax(-1)",
    ),
    passed="Temperature 0 is greedy: always the same words. Real samplers write it as a special case, like you.",
)
