"""Number types and torch's promotion rules.

A labkit dtype is a NumPy dtype. What differs from NumPy is which type wins when two meet: an integer array
never turns a float32 into a float64, and a number or a 0-d tensor only wins with a higher *kind*
(bool < int < float) than the arrays it meets.
"""

from typing import Any

import ml_dtypes
import numpy as np

float16, float32, float64 = np.dtype("float16"), np.dtype("float32"), np.dtype("float64")
bfloat16 = np.dtype(ml_dtypes.bfloat16)
uint8, int8, int16 = np.dtype("uint8"), np.dtype("int8"), np.dtype("int16")
int32, int64, bool_ = np.dtype("int32"), np.dtype("int64"), np.dtype("bool")
DType = np.dtype[Any]

FLOATS = frozenset({float16, bfloat16, float32, float64})
INTS = frozenset({uint8, int8, int16, int32, int64})
_default = float32


def set_default_dtype(dtype: Any) -> None:
    """The dtype of new tensors made from Python floats; float32 unless set."""
    global _default
    _default = as_dtype(dtype)


def get_default_dtype() -> DType:
    return _default


def as_dtype(dtype: Any) -> DType:
    """A dtype from a labkit or NumPy dtype, or from Python's `float`, `int`, `bool`."""
    if dtype is float:
        return _default
    if str(dtype).startswith("torch."):
        raise TypeError(f"{dtype} is torch's; labkit has its own: labkit.{str(dtype).removeprefix('torch.')}")
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{dtype!r} is neither a dtype nor a device of labkit") from None
    if found not in FLOATS and found not in INTS and found != bool_:
        raise TypeError(f"labkit has no dtype {found.name}; use one of float32, float64, int64, bool, ...")
    return found


def kind(dtype: DType) -> int:
    """0 for bool, 1 for integers, 2 for floating point."""
    return 2 if dtype in FLOATS else int(dtype != bool_)


def promote_types(a: DType, b: DType) -> DType:
    """The type of `a op b` for two arrays: the higher kind wins, then the larger type."""
    if a == b:
        return a
    if kind(a) != kind(b):
        return a if kind(a) > kind(b) else b
    if {a, b} == {float16, bfloat16}:
        return float32
    return np.promote_types(a, b)


def result_type(*values: Any) -> DType:
    """Torch's result type of arrays, 0-d arrays and Python numbers, in falling priority."""
    groups: list[DType | None] = [None, None, None]  # arrays, 0-d arrays, numbers
    for v in values:
        level = (0 if v.ndim else 1) if hasattr(v, "ndim") else 2
        dtype = v.dtype if level < 2 else _number_type(v)
        seen = groups[level]
        groups[level] = dtype if seen is None else promote_types(seen, dtype)
    result: DType | None = None
    for dtype in filter(None, groups):
        if result is None or kind(dtype) > kind(result):
            result = dtype if result is None else promote_types(result, dtype)
    assert result is not None
    return result


def _number_type(value: Any) -> DType:
    if isinstance(value, bool):
        return bool_
    return int64 if isinstance(value, int) else _default


def promote(*values: Any) -> tuple[Any, ...]:
    """The values in their common type, as arrays; a number beside one float array may stay a number."""
    if len(values) == 2:  # the two cases that nearly every call is
        x, y = values
        if x.__class__ is y.__class__ and x.dtype is y.dtype:
            return values
        if y.__class__ in (float, int) and hasattr(x, "dtype") and x.dtype.kind == "f":
            return values
    dtype = result_type(*values)
    return tuple([_cast(v, dtype) for v in values])


def promote_float(*values: Any) -> tuple[Any, ...]:
    """`promote`, and whole numbers become the default float type."""
    dtype = result_type(*values)
    return tuple(_cast(v, dtype if dtype in FLOATS else _default) for v in values)


def floating(x: Any) -> Any:
    """`x`, or `x` in the default float type if it holds whole numbers."""
    return x if x.dtype in FLOATS else x.astype(_default)


def _cast(value: Any, dtype: DType) -> Any:
    return value.astype(dtype, copy=False) if hasattr(value, "dtype") else np.asarray(value, dtype)
