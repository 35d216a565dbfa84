"""Is a gradient right? Compare it with the slope that small steps of the inputs show.

With v a random direction of the output and u one of the inputs, backward gives v J and two calls of the
function give J u: the numbers v J u must agree. One direction checks the whole gradient at once and misses an
error only by rare luck; `fast_mode=False` goes through every element instead and says which is wrong.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labkit import autograd, dtypes
from labkit.tensor import Tensor


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    fast_mode: bool = True,
) -> bool:
    """Whether the gradients of `func(*inputs)` agree with central differences. Inputs must be float64.

    Unlike torch's, the fast mode (random directions) is the default.
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not checked or any(x.dtype != dtypes.float64 for x in checked):
        raise ValueError("gradcheck() needs float64 inputs with requires_grad=True; float32 is too coarse.")
    outputs = _outputs(func, inputs)
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(y.shape) for y in outputs]
    grads = autograd.grad(outputs, checked, [Tensor(w) for w in weights], allow_unused=True)
    try:
        for i, (x, g) in enumerate(zip(checked, grads, strict=True)):
            analytic = np.zeros(x.shape) if g is None else g.data
            for where, direction in _directions(x, rng, fast_mode):
                slope = _slope(func, inputs, x, direction, weights, eps)
                expected = float((analytic * direction).sum())
                if not abs(slope - expected) <= atol + rtol * abs(slope):
                    raise RuntimeError(
                        f"the gradient of input {i}{where} is wrong: backward says {expected:.6g}, "
                        f"small steps of the input say {slope:.6g}."
                    )
    except RuntimeError:
        if raise_exception:
            raise
        return False
    return True


def _outputs(func: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    outputs = func(*inputs)
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    return [y for y in outputs if y.requires_grad]


def _directions(x: Tensor, rng: Any, fast: bool) -> Any:
    """One random direction, or every unit direction with its index."""
    if fast:
        yield " (in a random direction)", rng.standard_normal(x.shape)
        return
    for index in np.ndindex(*x.shape):
        direction = np.zeros(x.shape)
        direction[index] = 1
        yield f" at {index}", direction


def _slope(
    func: Callable[..., Any], inputs: Sequence[Any], x: Tensor, direction: Any, weights: list[Any], eps: float
) -> float:
    """(f(x + eps d) - f(x - eps d)) / 2 eps, projected on the weights."""
    original, sides = x.data, []
    for step in (eps, -eps):
        x.data = original + step * direction
        outputs = _outputs(func, inputs)
        sides.append(sum(float((y.data * w).sum()) for y, w in zip(outputs, weights, strict=True)))
    x.data = original
    return (sides[0] - sides[1]) / (2 * eps)
