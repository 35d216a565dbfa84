"""GELU, exact and with tanh."""

import math

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.lazy import F, torch


def _gelu(x, approximate, *, root=2**0.5, half=0.5, cube=3, scale=(2 / math.pi) ** 0.5):
    """The answer, with one thing changed."""
    if approximate == "none":
        return half * x * (1 + torch.erf(x / root))
    return half * x * (1 + torch.tanh(scale * (x + 0.044715 * x**cube)))


exercise = Implement(
    title="GELU, twice",
    minutes=6,
    dtype="float64",
    cases=[
        Case("exact", lambda draw: {"x": draw.normal(3, 5), "approximate": "none"}),
        Case("tanh", lambda draw: {"x": 2 * draw.normal(4, 3), "approximate": "tanh"}),
        Case("exact, not contiguous", lambda draw: {"x": 2 * draw.transposed(2, 4), "approximate": "none"}),
        Case("tanh, one row", lambda draw: {"x": draw.normal(1, 6), "approximate": "tanh"}),
        Case(
            "far out",
            lambda draw: {"x": 30 * draw.normal(2, 5), "approximate": "none"},
            extreme=True,
        ),
        Case(
            "far out, tanh",
            lambda draw: {"x": 30 * draw.normal(2, 5), "approximate": "tanh"},
            extreme=True,
        ),
    ],
    oracle=lambda x, approximate: F.gelu(x, approximate=approximate),
    grads=("x",),
    rules=Rules(forbids=("gelu", "GELU", "erfc")),
    mistakes=[
        Mistake(
            "erf without the root of 2",
            "erf gets x itself; the normal distribution's share below x is (1 + erf(x / sqrt(2))) / 2.",
            vary(_gelu, root=1.0),
        ),
        Mistake(
            "tanh always",
            'Both get the tanh formula. It is close, and not the same: "none" asks for erf.',
            lambda x, approximate: _gelu(x, "tanh"),
        ),
        Mistake(
            "erf always",
            '"tanh" gets the exact formula. GPT-2 was trained with the other one, and its weights expect it.',
            lambda x, approximate: _gelu(x, "none"),
        ),
        Mistake(
            "half forgotten",
            "The factor one half is missing: large x should come out as x, not as 2x.",
            vary(_gelu, half=1.0),
        ),
        Mistake(
            "square for cube",
            "Inside the tanh x is squared; it is the third power: 0.044715 * x ** 3.",
            vary(_gelu, cube=2),
        ),
        Mistake(
            "tanh unscaled",
            "The bracket inside the tanh is not multiplied by sqrt(2 / pi).",
            vary(_gelu, scale=1.0),
        ),
        Mistake(
            "only the share",
            "This is the share below x, a number from 0 to 1. GELU is x times it.",
            lambda x, approximate: _gelu(x, approximate) / x,
        ),
        Mistake(
            "sigmoid",
            "x * sigmoid(1.702 x) is a third formula, close to both and equal to neither.",
            lambda x, approximate: x * torch.sigmoid(1.702 * x),
        ),
    ],
    hints=(
        "Two formulas, one `if`.",
        'torch.erf(x / math.sqrt(2)) for "none"; torch.tanh(math.sqrt(2 / math.pi) * (...)) for "tanh".',
        "return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))",
    ),
    passed="The two differ by less than 0.001 anywhere: enough to see when weights meet the wrong one in a deep model.",
)
