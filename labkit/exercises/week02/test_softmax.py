"""Write a test for softmax from its properties."""

import numpy as np

from labkit.exercises.declare import Mistake, WriteTest, vary


def _softmax(x, axis=-1, shift=True, grad=None, memory=None):
    """Softmax in the form (value, backward), with a switch for each planted bug."""
    top = x.max(axis=axis, keepdims=True) if shift else 0.0
    with np.errstate(all="ignore"):
        e = np.exp(x - top)
        y = e / e.sum(axis=axis, keepdims=True)

    def backward(g):
        found = (grad or _softmax_gradient)(y, g, axis)
        if memory is not None:
            memory.append(found)
            found = sum(memory)
        return (found,)

    return y, backward


def _softmax_gradient(y, g, axis):
    return y * (g - (y * g).sum(axis=axis, keepdims=True))


def _softmax_by_logarithm(x):
    log = x - np.logaddexp.reduce(x, axis=-1, keepdims=True)
    y = np.exp(log)
    return y, lambda g: (g * y - y * np.einsum("...i,...i->...", g, y)[..., None],)


_SCORES = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
_WEIGHTS = np.array([[0.3, -1.0, 2.0], [1.5, 0.7, -0.2]])


def _check_row_sums(softmax):
    assert np.allclose(softmax(_SCORES)[0].sum(axis=-1), 1)


def _check_forward(softmax):
    _check_row_sums(softmax)
    assert np.allclose(softmax(_SCORES + 1000)[0], softmax(_SCORES)[0])


def _check_zero_sum(softmax):
    _check_forward(softmax)
    (grad,) = softmax(_SCORES)[1](_WEIGHTS)
    assert np.allclose(grad.sum(axis=-1), 0)


def _check_slope(softmax):
    _check_forward(softmax)
    (grad,) = softmax(_SCORES)[1](_WEIGHTS)
    for index in np.ndindex(_SCORES.shape):
        step = np.zeros_like(_SCORES)
        step[index] = 1e-5
        rise = softmax(_SCORES + step)[0] - softmax(_SCORES - step)[0]
        assert abs((rise * _WEIGHTS).sum() / 2e-5 - grad[index]) < 1e-6


def _check_exactly(softmax):
    y, backward = softmax(_SCORES)
    assert (y.sum(axis=-1) == 1).all()
    assert (backward(_WEIGHTS)[0] == _softmax_gradient(y, _WEIGHTS, -1)).all()


exercise = WriteTest(
    title="Write the property test",
    minutes=12,
    needs=("w02.gradcheck", "w02.logsumexp"),
    good=[_softmax, _softmax_by_logarithm],
    bugs={
        "axis": ("it adds up to 1 along the first axis, not along the last.", vary(_softmax, axis=0)),
        "overflow": ("large scores become NaN.", vary(_softmax, shift=False)),
        "term": (
            "backward returns g * y: it forgets that the sum depends on x too.",
            vary(_softmax, grad=lambda y, g, axis: g * y),
        ),
        "sign": (
            "backward has the wrong sign.",
            vary(_softmax, grad=lambda y, g, axis: -_softmax_gradient(y, g, axis)),
        ),
        "memory": (
            "a second call of backward adds the gradient of the first.",
            lambda x: _softmax(x, memory=[]),
        ),
    },
    mistakes=[
        Mistake(
            "row sums only",
            "That the rows add up to 1 is tested, and nothing else: no large scores, no backward.",
            _check_row_sums,
        ),
        Mistake(
            "forward only",
            "The values are tested well. backward is not called at all.",
            _check_forward,
        ),
        Mistake(
            "zero sum only",
            "That the gradients of a row add up to 0 is true for the wrong sign too. Compare with a slope.",
            _check_zero_sum,
        ),
        Mistake(
            "called once",
            "Everything about one call is tested. What does a second call of the same backward return?",
            _check_slope,
        ),
        Mistake(
            "exactly equal",
            "Floats are compared with ==, and a right implementation rounds differently: use np.allclose.",
            _check_exactly,
        ),
    ],
    hints=(
        "Properties of the value: rows add up to 1; adding the same number to all scores changes nothing, even 1000.",
        "Properties of backward: it agrees with a central difference, and calling it twice gives the same twice.",
        "The slope of (softmax(x)[0] * g).sum() along any direction d is (backward(g)[0] * d).sum().",
    ),
    passed="Four properties and no expected values: such a test works for any input, also for random ones.",
)
