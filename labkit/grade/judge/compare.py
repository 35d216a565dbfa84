"""Yours against torch's. Type and shape and dtype come before values, because NumPy would broadcast.

The tolerance is `16 eps sqrt(n)`: eps is the spacing of the dtype, n the number of terms summed into one
value, and errors are relative to the larger of the value itself and the typical (root mean square) value.
Values far beyond the rest, such as the -1e9 of a mask, are not typical: they would excuse any other error.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labkit.exercises.declare import Engine

_TENSOR_NAMES = {"torch": "a torch tensor", "labkit": "a labkit tensor", "numpy": "a NumPy array"}
_MAKES = {
    "torch": "`torch.as_tensor(...)`, or work with tensors throughout.",
    "labkit": "`labkit.tensor(...)`, or work with tensors throughout.",
    "numpy": "`np.asarray(...)`, or work with arrays throughout.",
}
# The spacing of the floating dtypes of torch that NumPy does not have.
_NOT_NUMPY = {"bfloat16": 2.0**-7, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2}


@dataclass(frozen=True)
class Leaf:
    """One array or plain value of an output. `kind` says which library it came from."""

    kind: str  # "torch", "labkit", "numpy" or "python"
    value: Any
    dtype: str = ""

    @property
    def is_array(self) -> bool:
        return self.kind != "python"


@dataclass(frozen=True)
class Difference:
    """The first way in which two outputs differ."""

    status: str  # "type", "shape", "dtype" or "values"
    headline: str
    lines: tuple[str, ...] = ()
    yours: np.ndarray | None = None
    theirs: np.ndarray | None = None
    wrong: np.ndarray | None = None  # which of them differ
    dtypes: tuple[str, str] | None = None  # yours and theirs


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_labkit(value: Any) -> bool:
    tensor = sys.modules.get("labkit.tensor")
    return tensor is not None and isinstance(value, tensor.Tensor)


def leaf(value: Any) -> Leaf:
    """Take one value out of its library, keeping which library and dtype it had."""
    if is_torch(value):
        dtype = str(value.dtype).removeprefix("torch.")
        plain = value.detach().to_dense() if value.is_sparse else value.detach()
        plain = plain.float() if dtype in _NOT_NUMPY else plain.resolve_neg().resolve_conj()
        return Leaf("torch", plain.cpu().numpy(), dtype)
    if is_labkit(value):
        array = np.asarray(value.detach().numpy())
        return Leaf("labkit", array, array.dtype.name)
    if isinstance(value, np.ndarray | np.generic):
        return Leaf("numpy", np.asarray(value), value.dtype.name)
    return Leaf("python", value, type(value).__name__)


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Walk tuples, lists and dicts; yield (path, leaf) in order, and for a container its kind and size.

    The order in which a dict was filled does not count.
    """
    if isinstance(value, dict):
        keys = sorted(value, key=repr)
        yield path, ("dict", tuple(keys))
        for key in keys:
            yield from flatten(value[key], f"{path}[{key!r}]")
    elif isinstance(value, tuple | list):
        yield path, ("tuple" if isinstance(value, tuple) else "list", len(value))
        for index, item in enumerate(value):
            yield from flatten(item, f"{path}[{index}]")
    else:
        yield path, leaf(value)


def tolerance(dtype: str, terms: int) -> float:
    """16 eps sqrt(terms) for floating and complex dtypes, 0 for integers and booleans.

    Dtypes of 16 bits are summed in float32 and rounded once, so the number of terms does not count for them.
    """
    if dtype.startswith("float8"):
        return _NOT_NUMPY[dtype]
    if dtype in ("float16", "bfloat16"):
        return 4 * _NOT_NUMPY.get(dtype, 2.0**-10)
    if dtype == "float":
        eps = float(np.finfo(np.float64).eps)
    elif dtype.startswith(("float", "complex")):
        eps = float(np.finfo(dtype).eps)
    else:
        return 0.0
    return 16 * eps * math.sqrt(max(terms, 1))


def wrong_values(yours: np.ndarray, theirs: np.ndarray, tol: float) -> np.ndarray:
    """Which elements differ by more than the tolerance. NaN equals NaN; infinities must match."""
    if tol == 0.0:
        return np.asarray(yours != theirs)
    wide = np.complex128 if np.iscomplexobj(yours) or np.iscomplexobj(theirs) else np.float64
    a, b = yours.astype(wide), theirs.astype(wide)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(a - b) <= tol * np.maximum(np.abs(b), _typical(b))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.asarray(~np.where(finite, close, same))


def _typical(values: np.ndarray) -> float:
    """The root mean square of the finite values, without those 10,000 times beyond the lower quarter.

    The quarter counts as 1 at least: what is left of a cancellation must not make its neighbors look huge.
    """
    sizes = np.abs(values[np.isfinite(values)])
    if not sizes.any():
        return 0.0
    usual = 1e4 * max(1.0, float(np.quantile(sizes[sizes > 0], 0.25, method="lower")))
    return math.sqrt(float(np.mean(np.square(sizes[sizes <= usual]))))


def compare(yours: Any, theirs: Any, engine: Engine, terms: int) -> Difference | None:
    """The first difference between an answer's output and the oracle's, or None."""
    mine, truth = list(flatten(yours)), list(flatten(theirs))
    for stage in (_compare_type, _compare_shape, _compare_dtype, _compare_values):
        for (path, expected), (_, given) in zip(truth, mine, strict=False):
            difference = stage(_place(path), given, expected, engine, terms)
            if difference:
                return _whole(difference, yours, theirs)
    return None


def _whole(difference: Difference, yours: Any, theirs: Any) -> Difference:
    """Short tuples and lists of plain values say more side by side than the first place that differs."""
    if not (_is_short(yours) and _is_short(theirs)):
        return difference
    both = f"Yours {_shown(yours)}, wanted {_shown(theirs)}."
    if difference.status == "values":
        return Difference("values", "the output is wrong.", (both,))
    return replace(difference, lines=(both, *difference.lines))


def _shown(value: Any) -> str:
    """As Python writes it; `torch.Size` as the tuple it is."""
    return repr(value if type(value) is list else tuple(value))


def _is_short(value: Any) -> bool:
    plain = all(isinstance(item, Leaf) and not item.is_array for path, item in flatten(value) if path)
    return isinstance(value, tuple | list) and plain and len(_shown(value)) <= 60


def same(a: Any, b: Any, terms: int = 1) -> bool:
    """Whether two outputs cannot be told apart: same libraries, shapes, dtypes and, to tolerance, values."""
    left, right = list(flatten(a)), list(flatten(b))
    if len(left) != len(right):
        return False
    return all(_same_leaf(x, y, terms) for (_, x), (_, y) in zip(left, right, strict=True))


def _same_leaf(x: Any, y: Any, terms: int) -> bool:
    if not (isinstance(x, Leaf) and isinstance(y, Leaf)):
        return bool(x == y)
    if not x.is_array and not y.is_array:
        return _compare_type("", x, y, "python", 1) is None and _equal_plain(x.value, y.value, terms)
    if (x.kind, x.dtype) != (y.kind, y.dtype):
        return False
    if x.value.shape != y.value.shape:
        return False
    return not wrong_values(x.value, y.value, tolerance(x.dtype, terms)).any()


def _place(path: str) -> str:
    return f"output{path}" if path else "the output"


def _compare_type(place: str, given: Any, expected: Any, engine: Engine, terms: int) -> Difference | None:
    if isinstance(expected, tuple) or isinstance(given, tuple):
        if given == expected:
            return None
        return Difference("type", _container_words(place, given, expected), _advice(given, expected, engine))
    if expected.is_array:
        wanted = engine if engine != "python" else "torch"
        plain = wanted == "numpy" and type(given.value) in (bool, int, float) and expected.value.ndim == 0
        if given.kind == wanted or plain:
            return None
        words = f"{place} is {_type_words(given)}; {_TENSOR_NAMES[wanted]} is wanted."
        return Difference("type", words, _advice(given, expected, engine))
    if given.is_array:
        single = expected.value is not None and given.value.ndim == 0
        advice = ("`.item()` takes the number out.",) if single else ()
        words = f"{place} is {_type_words(given)}; {_type_words(expected)} is wanted."
        return Difference("type", words, advice)
    kinds = type(given.value), type(expected.value)
    if kinds[0] is kinds[1] or kinds == (int, float):
        return None
    advice = (f"Yours {given.value!r}: `/` gives a float, `//` and `int(...)` a whole number.",)
    words = f"{place} is {_type_words(given)}; {_type_words(expected)} is wanted."
    return Difference("type", words, advice if kinds == (float, int) else ())


def _advice(given: Any, expected: Any, engine: Engine) -> tuple[str, ...]:
    """How a value of the wrong kind becomes one of the right kind."""
    kind, value = ("", given.value) if isinstance(given, Leaf) else (given[0], ())
    if isinstance(expected, Leaf) and expected.is_array and type(value) in (bool, int, float):
        return ("Leave out `.item()`, `float` and `int`: they take the number out of its tensor.",)
    if kind == "dict" or isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return ()
    if isinstance(expected, Leaf):
        return (_MAKES["torch" if engine == "python" else engine],) if expected.is_array else ()
    if expected[0] in ("dict", kind):
        return ()
    if isinstance(given, Leaf) and given.is_array:
        if expected[0] == "list":  # `list(x)` would take it apart into tensors
            return ("`.tolist()` makes a list of it.",)
        if given.value.shape != (expected[1],):
            return (f"{expected[1]} things are to be returned: `return a, b{', ...' * (expected[1] > 2)}`.",)
    return (f"Wrap it: `{expected[0]}(...)`.",)


def _container_words(place: str, given: Any, expected: Any) -> str:
    def words(item: Any) -> str:
        if isinstance(item, Leaf):
            return _type_words(item)
        kind, content = item
        if kind == "dict":
            return "a dict with keys " + ", ".join(map(repr, content))
        return f"a {kind} of {content}"

    return f"{place} is {words(given)}; {words(expected)} is wanted."


def _type_words(item: Leaf) -> str:
    if item.value is None:
        return "None"
    if item.kind == "numpy" and item.value.ndim == 0:
        return f"a NumPy {item.dtype}"
    if item.is_array:
        return _TENSOR_NAMES[item.kind]
    article = "an" if item.dtype[0] in "aeiou" else "a"
    return f"{article} {item.dtype}"


def _compare_shape(place: str, given: Any, expected: Any, engine: Engine, terms: int) -> Difference | None:
    if isinstance(expected, tuple) or not expected.is_array:
        return None
    mine, truth = np.shape(given.value), expected.value.shape
    if mine == truth:
        return None
    return Difference("shape", f"{place} has shape {mine}; torch's has shape {truth}.")


def _compare_dtype(place: str, given: Any, expected: Any, engine: Engine, terms: int) -> Difference | None:
    if isinstance(expected, tuple) or not expected.is_array or given.kind == "python":
        return None
    if given.dtype == expected.dtype:
        return None
    words = f"{place} is {given.dtype}; torch's is {expected.dtype}."
    return Difference("dtype", words, dtypes=(given.dtype, expected.dtype))


def _compare_values(place: str, given: Any, expected: Any, engine: Engine, terms: int) -> Difference | None:
    if isinstance(expected, tuple):
        return None
    if not expected.is_array:
        return _compare_plain(place, given, expected, terms)
    mine, truth = np.asarray(given.value), expected.value
    tol = tolerance(expected.dtype, terms)
    wrong = wrong_values(mine, truth, tol)
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = f" at {list(first)}" if first else ""
    count = f"{int(wrong.sum())} of {wrong.size} values differ; first{at}" if first else "The value differs"
    left, right = _pair(mine[first], truth[first])
    lines = [f"{count}: yours {left}, torch {right}."]
    pattern = _pattern(mine, truth, tol)
    if pattern:
        lines.append(pattern)
    if tol:
        terms = 1 if tolerance(expected.dtype, 1) == tol else terms
        many = f", up to {terms} terms per value" if terms > 1 else ""
        lines.append(f"Tolerance {tol:.0e} relative: {expected.dtype}{many}.")
    headline = f"{place} has the right shape and the wrong values."
    return Difference("values", headline, tuple(lines), mine, truth, wrong)


def _compare_plain(place: str, given: Any, expected: Any, terms: int) -> Difference | None:
    mine, truth = given.value, expected.value
    if _equal_plain(mine, truth, terms):
        return None
    left, right = _pair(mine, truth) if type(mine) is type(truth) is float else (repr(mine), repr(truth))
    return Difference("values", f"{place} is wrong.", (f"Yours {left}, wanted {right}.",))


def _equal_plain(mine: Any, truth: Any, terms: int) -> bool:
    """Equality of two plain values of the same type; floats to tolerance, NaN equal to NaN."""
    if type(mine) is float or type(truth) is float:
        tol = tolerance("float", terms)
        return not wrong_values(np.array(float(mine)), np.array(float(truth)), tol).any()
    try:
        return mine is truth or bool(mine == truth)
    except Exception:  # an object that cannot be compared is not equal
        return False


def _pair(mine: Any, truth: Any) -> tuple[str, str]:
    """Two numbers in as few digits as tell them apart."""
    if not isinstance(truth, np.floating | float):
        return str(mine), str(truth)
    for digits in (6, 9, 17):
        left, right = f"{mine:.{digits}g}", f"{truth:.{digits}g}"
        if left != right:
            break
    return left, right


def _pattern(mine: np.ndarray, truth: np.ndarray, tol: float) -> str | None:
    """A relation between the two that says more than the first difference does."""
    if not tol or mine.size < 2 or np.iscomplexobj(truth):
        return None
    if not (np.isfinite(mine).all() and np.isfinite(truth).all()):
        return None
    mine, truth = mine.astype(np.float64), truth.astype(np.float64)
    used = np.abs(truth) > 1e-3 * np.abs(truth).max() if truth.any() else np.zeros(truth.shape, bool)
    if not mine.any():
        return "Yours is all zeros."
    if tol < 1e-9 and not wrong_values(mine, truth, 4 * float(np.finfo(np.float32).eps)).any():
        return "They agree to about seven digits, as if one step were done in float32."
    if used.sum() > 1:
        ratio = mine[used] / truth[used]
        if (
            np.ptp(ratio) <= 1e-4 * abs(ratio[0])
            and not wrong_values(mine, truth * ratio[0], max(tol, 1e-5)).any()
            and f"{ratio[0]:.6g}" != "1"
        ):
            return f"Every value is {ratio[0]:.6g} times torch's."
    offset = mine - truth
    if np.ptp(offset) <= 1e-4 * abs(offset.flat[0]):
        return f"Every value is torch's plus {offset.flat[0]:.6g}."
    return None
