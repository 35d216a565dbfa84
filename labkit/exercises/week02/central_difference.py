"""The slope of a function from two points beside x."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week02.shared import Formula
from labkit.lazy import torch

_cubic = Formula("x * x * x - 2 * x")


def _difference_truth(f, x, eps):
    """The central difference itself, in torch's float64."""
    at = torch.tensor(x, dtype=torch.float64)
    return float((f(at + eps) - f(at - eps)) / (2 * eps))


exercise = Implement(
    title="A slope from two points",
    minutes=4,
    also=(
        "finite difference",
        "numerical gradient",
    ),
    engine="python",
    cases=[
        Case("a cubic", lambda draw: {"f": _cubic, "x": 1.5, "eps": 1e-2}),
        Case("left of zero", lambda draw: {"f": _cubic, "x": -0.7, "eps": 1e-3}),
        Case("a wide step", lambda draw: {"f": _cubic, "x": 0.4, "eps": 0.5}),
    ],
    oracle=_difference_truth,
    rules=Rules(forbids=("grad", "backward", "jacobian", "gradient")),
    delegate=lambda f, x, eps: float(
        torch.autograd.functional.jacobian(f, torch.tensor(x, dtype=torch.float64))
    ),
    mistakes=[
        Mistake(
            "one-sided",
            "This is the forward difference: one point lies at x itself. Step eps to both sides.",
            lambda f, x, eps: (f(x + eps) - f(x)) / eps,
        ),
        Mistake(
            "divided by eps",
            "The two points are 2 * eps apart; dividing by eps doubles the slope.",
            lambda f, x, eps: (f(x + eps) - f(x - eps)) / eps,
        ),
        Mistake(
            "multiplied by eps",
            "`/ 2 * eps` divides by 2 and then multiplies by eps: put 2 * eps in parentheses.",
            lambda f, x, eps: (f(x + eps) - f(x - eps)) / 2 * eps,
        ),
        Mistake(
            "wrong sign",
            "The sign is turned: the value on the right minus the value on the left.",
            lambda f, x, eps: (f(x - eps) - f(x + eps)) / (2 * eps),
        ),
        Mistake(
            "not divided",
            "This is the rise; the slope is the rise divided by the distance.",
            lambda f, x, eps: f(x + eps) - f(x - eps),
        ),
    ],
    hints=(
        "A slope is rise over run. Which two points, and how far apart are they?",
        "Rise: f(x + eps) - f(x - eps). Run: 2 * eps.",
        "return (f(x + eps) - f(x - eps)) / (2 * eps)",
    ),
    passed="Its error shrinks with eps squared; the one-sided difference only with eps.",
)
