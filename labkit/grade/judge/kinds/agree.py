"""When a value that a learner wrote down is the one that was wanted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """A Python number for an array or a tensor that holds one."""
    return value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value


def agrees(given: Any, truth: Any) -> bool:
    """Equal, with lists taken for tuples, floats to 1 %, and text without regard to capitals."""
    given = plain(given)
    if isinstance(truth, tuple | list):
        is_sequence = isinstance(given, tuple | list) and len(given) == len(truth)
        return is_sequence and all(agrees(a, b) for a, b in zip(given, truth, strict=True))
    if isinstance(truth, bool) or isinstance(given, bool):
        return given is truth
    if isinstance(truth, float) and isinstance(given, int | float):
        near = abs(given - truth) <= 0.01 * abs(truth) < math.inf
        return near or given == truth or (math.isnan(given) and math.isnan(truth))
    given = str(given) if type(given).__name__ == "dtype" else given
    if isinstance(truth, str) and isinstance(given, str):  # torch.float32 is as good as "float32"
        return given.strip().removeprefix("torch.").casefold() == truth.casefold()
    try:
        return bool(given == truth)
    except Exception:  # an array of several values, say
        return False
