"""Compare gradients with central differences, element by element."""

import math

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, vary


class _Op:
    """An operation under test, (value, backward), that prints as a description."""

    def __init__(self, text, value, gradient):
        self.text, self.value, self.gradient = text, value, gradient

    def __call__(self, x):
        return self.value(x), lambda g: (self.gradient(x, g),)

    def __repr__(self):
        return self.text


def _cube_wrong_at(*places):
    def gradient(x, g):
        grad = 3 * x**2 * g
        for place in places:
            grad[place] += 0.5
        return grad

    return gradient


def _nan_gradient(x, g):
    grad = 2 * x * g
    grad[0, 1] = math.nan
    return grad


_CUBE = _Op("x**3", lambda x: x**3, lambda x, g: 3 * x**2 * g)
_SHIFT = _Op("2 * x", lambda x: 2 * x, lambda x, g: 2 * g)


def _gradcheck(op, x, g, eps, tolerance, places=None, step=None, bad=None, weights=None):
    """Central differences against backward, with a switch for each way to get it wrong."""
    analytic = op(x)[1](g)[0]
    wrong = []
    for index in places or np.ndindex(x.shape):
        nudge = np.zeros_like(x)
        nudge[index] = eps
        slope = (step or _two_sided)(op, x, nudge, g if weights is None else weights, eps)
        if (bad or _not_close)(slope, analytic[index], tolerance):
            wrong.append(index)
    return wrong


def _two_sided(op, x, nudge, g, eps):
    return ((op(x + nudge)[0] - op(x - nudge)[0]) * g).sum() / (2 * eps)


def _one_sided(op, x, nudge, g, eps):
    return ((op(x + nudge)[0] - op(x)[0]) * g).sum() / eps


def _in_float32(op, x, nudge, g, eps):
    x, nudge = x.astype(np.float32), nudge.astype(np.float32)
    return float(((op(x + nudge)[0] - op(x - nudge)[0]) * g.astype(np.float32)).sum() / np.float32(2 * eps))


def _not_close(slope, analytic, tolerance):
    return not abs(slope - analytic) <= tolerance


def _gradcheck_in_place(op, x, g, eps, tolerance):
    """Moves x itself, and never moves it back."""
    analytic = op(x)[1](g)[0]
    wrong = []
    for index in np.ndindex(x.shape):
        x[index] += eps
        right = op(x)[0].copy()
        x[index] -= 2 * eps
        slope = ((right - op(x)[0]) * g).sum() / (2 * eps)
        if _not_close(slope, analytic[index], tolerance):
            wrong.append(index)
    return wrong


def _use_gradcheck(gradcheck, op, x, g, eps, tolerance):
    """The places as one line of text."""
    found = gradcheck(op, x, g, eps, tolerance)
    if found is None:
        return None
    return {"wrong places": ", ".join(str(tuple(int(i) for i in place)) for place in found) or "none"}


def _check_case(name, op, make, eps=1e-5, tolerance=1e-4, weights=None, **more):
    def inputs(draw):
        x = make(draw)
        g = draw.normal(*x.shape) if weights is None else weights(draw)
        return {"op": op, "x": x, "g": g, "eps": eps, "tolerance": tolerance}

    return Case(name, inputs, **more)


exercise = Implement(
    title="Gradcheck",
    minutes=12,
    needs=("w02.central_difference", "w02.tape"),
    engine="python",
    dtype="float64",
    cases=[
        _check_case("a right gradient", _CUBE, lambda draw: draw.normal(2, 3)),
        _check_case(
            "wrong in two places",
            _Op("x**3, two wrong", lambda x: x**3, _cube_wrong_at((0, 2), (1, 1))),
            lambda draw: draw.normal(2, 3),
        ),
        _check_case(
            "wrong at the end",
            _Op("x**3, one wrong", lambda x: x**3, _cube_wrong_at((3, 0))),
            lambda draw: draw.transposed(4, 3),
        ),
        _check_case("strongly curved", _CUBE, lambda draw: 30 + draw.uniform(0, 5, 3, 1)),
        # quarters and halves: no rounding in any order of summation
        _check_case(
            "exactly right",
            _SHIFT,
            lambda draw: draw.integers(-3, 4, 2, 3) * 0.25,
            eps=0.5,
            tolerance=0.0,
            weights=lambda draw: draw.integers(1, 6, 2, 3) * 0.5,
        ),
        _check_case(
            "not a number",
            _Op("x**2, one NaN", lambda x: x**2, _nan_gradient),
            lambda draw: draw.normal(2, 3),
            extreme=True,
        ),
    ],
    use=_use_gradcheck,
    oracle=lambda *inputs: _use_gradcheck(_gradcheck, *inputs),
    reference="central differences",
    memory="any",
    mistakes=[
        Mistake(
            "one row only",
            "Only the first row is looked at: `np.ndindex(x.shape)` visits every element, whatever the shape.",
            lambda op, x, g, eps, tolerance: _gradcheck(
                op, x, g, eps, tolerance, places=[(0, k) for k in range(x.shape[1])]
            ),
        ),
        Mistake(
            "x left moved",
            "x was moved and not moved back, so every later element is checked somewhere else. Work on x + step.",
            _gradcheck_in_place,
        ),
        Mistake(
            "one-sided",
            "With a one-sided difference a right gradient looks wrong where the function is strongly curved.",
            vary(_gradcheck, step=_one_sided),
        ),
        Mistake(
            "float32",
            "In float32 the rounding error is larger than the tolerance: right gradients look wrong. Stay in float64.",
            vary(_gradcheck, step=_in_float32),
        ),
        Mistake(
            "g ignored",
            "The differences are added up without g, but backward was given g: weight each output with it.",
            vary(_gradcheck, weights=1.0),
        ),
        Mistake(
            "every place wrong",
            "Every place looks wrong. Divide by 2 * eps; and x + eps and x - eps need arrays of their own, x.copy() for each.",
            vary(_gradcheck, step=lambda *step: 0.0),
        ),
        Mistake(
            "NaN slips through",
            "`abs(nan - slope) > tolerance` is False: NaN is in no order to anything. Ask `not ... <= tolerance`.",
            vary(_gradcheck, bad=lambda a, b, t: abs(a - b) > t),
        ),
    ],
    hints=(
        "One element at a time: a step that is eps there and 0 elsewhere, the op at x + step and at x - step.",
        "slope = ((op(x + step)[0] - op(x - step)[0]) * g).sum() / (2 * eps); compare it with op(x)[1](g)[0][index].",
        "for index in np.ndindex(x.shape): step = np.zeros_like(x); step[index] = eps; ... if not abs(...) <= tolerance",
    ),
    passed="torch.autograd.gradcheck does the same, and warns you if the input is not float64.",
)
