"""Numbers as Numba types them: what one operation gives, counted by type.

Numba is not NumPy here. Integers are 64 bits wide and wrap; float32 with an int or with a Python literal such
as 2.0 gives float64; dividing by zero gives inf or nan, not an exception. Inside the stepper an int is
Python's int, float64 is Python's float, and float32 and float16 are NumPy scalars.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
}
SETTLED = {int, float, np.float32, np.float16, np.uint64}  # two of the same kind need no promotion
LOWEST, HIGHEST = -(2**63), 2**63 - 1


class Refused(Exception):
    """The kernel did what CUDA Python would not compile; found while running."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(what)
        self.what, self.instead = what, instead


def plain(value: Any) -> Any:
    """A scalar as the stepper keeps it: see the top of this file."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, np.integer) and not isinstance(value, np.uint64):
        return int(value)
    return float(value) if isinstance(value, np.float64) else value


def wrap(value: int, low: int, high: int) -> int:
    """`value` as an integer that only reaches from `low` to `high` would hold it."""
    return (value - low) % (high - low + 1) + low


def make_operator(name: str, machine: Any) -> Callable[[Any, Any, int], Any]:
    """The helper for one operator: computes as Numba would, counts, and notes what is worth a word."""
    apply = OPERATORS[name]

    def compute(left: Any, right: Any, site: int) -> Any:
        try:
            if type(left) is not type(right) or type(left) not in SETTLED:
                left, right = promote(left, right, machine)
            result = apply(left, right)
        except ZeroDivisionError:
            result = _divided_by_zero(left, site, machine)
        kind = type(result)
        if kind is int:
            if not LOWEST <= result <= HIGHEST:
                machine.note("overflow", site, detail=f"{result} as a 64-bit integer")
                result = wrap(result, LOWEST, HIGHEST)
        elif kind is float:
            machine.wide.setdefault(site, machine.thread)
        elif kind is complex:
            result = math.nan  # a negative number to a fractional power
        machine.tally[kind] += 1
        return result

    return compute


def promote(left: Any, right: Any, machine: Any) -> tuple[Any, Any]:
    """Both operands in the type that Numba would compute in."""
    for value in (left, right):
        if isinstance(value, (machine.memory.array_type, np.ndarray)):
            raise Refused(
                "arithmetic on a whole array", "one thread works on one element: index it, a[i] + b[i]"
            )
    left, right = plain(left), plain(right)
    if isinstance(left, np.floating) and isinstance(right, np.floating):
        return left, right  # float16 with float32: NumPy and Numba agree
    floating = (float, np.floating)
    if isinstance(left, floating) or isinstance(right, floating):
        return float(left), float(right)
    return left, right


def _divided_by_zero(left: Any, site: int, machine: Any) -> Any:
    if isinstance(left, int):
        machine.note("division", site)
        return 0
    return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)


class MathStandIn:
    """`math` for kernels: float32 stays float32, and bad arguments give nan or inf, not an exception."""

    _WHOLE = ("floor", "ceil", "trunc", "gcd", "isnan", "isinf", "isfinite")

    def __init__(self, machine: Any) -> None:
        self._machine = machine

    def __getattr__(self, name: str) -> Any:
        original = getattr(math, name)
        if not callable(original):
            return original
        if name in self._WHOLE:
            return original
        vectorized = getattr(np, name, None) if name != "pow" else None

        def function(*values: Any) -> Any:
            narrow = all(isinstance(value, (np.float32, np.float16)) for value in values)
            if vectorized is not None:
                result = vectorized(*(value if narrow else float(value) for value in values))
            else:
                result = _quiet(original, values)
            result = values[0].dtype.type(result) if narrow else float(result)
            self._machine.tally[type(result)] += 1
            return result

        setattr(self, name, function)
        return function


def _quiet(function: Callable[..., Any], values: tuple[Any, ...]) -> float:
    try:
        return function(*(float(value) for value in values))
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan
