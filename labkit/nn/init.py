"""Starting values of parameters: each function fills a tensor in place and returns it.

The bounds are torch's; the random numbers are labkit's own: a seed gives other values than in torch.
"""

import math
from typing import Any

import labkit
from labkit.tensor import Tensor


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """How much to scale weights so that this nonlinearity keeps the variance of its input."""
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"no gain is known for the nonlinearity {nonlinearity!r}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Evenly between a and b."""
    with labkit.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    with labkit.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Normal, but values outside [a, b] are drawn again."""
    with labkit.no_grad():
        tensor.normal_(mean, std, generator=generator)
        while (outside := (tensor < a) | (tensor > b)).any():
            again = labkit.empty_like(tensor).normal_(mean, std, generator=generator)
            tensor.copy_(labkit.where(outside, again, tensor))
    return tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    with labkit.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_ fills a matrix, got shape {tuple(tensor.shape)}")
    with labkit.no_grad():
        return tensor.copy_(labkit.eye(*tensor.shape))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Evenly within ±gain·√(6 / (fan_in + fan_out)): keeps the variance of both passes, for tanh."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with std gain·√(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Evenly within ±gain·√(3 / fan): keeps the variance of one pass, for ReLU and its relatives."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal with std gain / √fan."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Rows (or columns, whichever are fewer) of length `gain` and at right angles to each other."""
    import numpy as np

    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_ needs at least 2 axes, got shape {tuple(tensor.shape)}")
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    sample = labkit.empty(max(rows, columns), min(rows, columns)).normal_(generator=generator)
    q, r = np.linalg.qr(sample.numpy())
    q = q * np.sign(np.diag(r))  # makes the decomposition unique, hence evenly distributed
    values = labkit.from_numpy(np.ascontiguousarray(q if rows >= columns else q.T) * gain)
    with labkit.no_grad():
        return tensor.copy_(values.reshape(tensor.shape))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode should be 'fan_in' or 'fan_out', got {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[mode == "fan_out"])


def _fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs one output sees, and how many outputs one input reaches: weight (out, in, *window)."""
    if tensor.ndim < 2:
        raise ValueError(
            f"fan_in and fan_out need a tensor with at least 2 axes, got shape {tuple(tensor.shape)}"
        )
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window
