"""What ranks do to the arrays they are given: NumPy's, or torch's tensors on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def require_array(value: Any, caller: str) -> None:
    """A TypeError in the caller's words unless `value` can be sent, or filled by what arrives."""
    if isinstance(value, np.ndarray) or (hasattr(value, "detach") and hasattr(value, "copy_")):
        return
    kind = type(value).__name__
    raise TypeError(
        f"`{caller}` takes a tensor or a NumPy array; this is {kind}. A number: `torch.tensor([x])`."
    )


def copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value.detach().clone()


def fill(target: Any, source: Any) -> None:
    """Write `source` into the memory of `target`."""
    if isinstance(target, np.ndarray):
        target[...] = source
    else:
        target.detach().copy_(source)


def shape_of(value: Any) -> tuple[int, ...]:
    return tuple(value.shape)


def dtype_of(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def bytes_of(value: Any) -> int:
    return int(value.nbytes)


def content(value: Any) -> bytes:
    """Its values as bytes, so that NaN equals NaN."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    import torch

    return value.detach().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()


def reduced(values: Sequence[Any], op: str) -> Any:
    """One array from one of each rank, rank 0 first."""
    total = copied(values[0])
    for value in map(copied, values[1:]):
        if op in ("SUM", "AVG"):
            total = total + value
        elif op == "PRODUCT":
            total = total * value
        else:
            total = _extreme(total, value, "maximum" if op == "MAX" else "minimum")
    return total / len(values) if op == "AVG" else total


def _extreme(a: Any, b: Any, name: str) -> Any:
    return getattr(np, name)(a, b) if isinstance(a, np.ndarray) else getattr(a, name)(b)
