"""Which operations an answer uses, and whether it may: read from its source, and watched while it runs."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any

import numpy as np

from labkit.exercises.declare import Rules
from labkit.grade.judge.traffic import Traffic

_LIBRARIES = ("torch", "torchvision", "labkit", "numpy", "numba", "scipy", "jax")
_REFERENCE = ("labkit.exercises", "labkit.grade", "labkit.book")
# Calls that a list of allowed operations never means to exclude: Python's own, and looking at a tensor.
_PYTHON = {"len", "range", "tuple", "list", "dict", "int", "float", "bool", "enumerate", "zip", "max", "min"}
_PYTHON |= {"isinstance", "print", "super", "reversed", "abs", "type"}
_LOOKS = {"dim", "size", "item", "stride", "numel", "is_contiguous", "storage_offset", "data_ptr", "init"}
_LOOKS |= {"len", "index", "format", "repr", "str", "element_size", "ndimension"}
_TURNS = {"T", "mT", "H", "mH"}
_LOOKS |= _TURNS
_OPERATORS = {"add", "sub", "mul", "truediv", "div", "floordiv", "floor_divide", "mod", "remainder", "pow"}
_OPERATORS |= {"matmul", "neg", "pos", "abs", "invert", "bitwise_not", "and", "or", "xor", "lt", "le", "gt"}
_OPERATORS |= {"ge", "eq", "ne", "getitem", "setitem", "unbind", "iter", "rsub", "true_divide", "contains"}


def asks_to_watch(rules: Rules) -> bool:
    """Whether the rules can be broken by what an answer calls, so that it has to run under a watcher."""
    return bool(rules.forbids) or rules.allows is not None or rules.max_ops is not None


@contextmanager
def watched() -> Iterator[Counter[str]]:
    """Count the tensor operations called inside by bare name: `x @ w` and `torch.matmul` are "matmul"."""
    used: Counter[str] = Counter()
    with ExitStack() as stack:
        if "torch" in sys.modules:
            stack.enter_context(_torch_watcher(used))
        if "labkit.op_table" in sys.modules:
            watch_ops = sys.modules["labkit.op_table"].watch_ops
            stack.enter_context(watch_ops(lambda name: used.update([_bare(name)])))
        yield used


def _torch_watcher(used: Counter[str]) -> Any:
    from torch.overrides import TorchFunctionMode

    class Watcher(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name == "__get__":  # x.shape and its kin are not operations, x.T is one
                name = getattr(getattr(func, "__self__", None), "__name__", "")
                used.update([name] if name in _TURNS else [])
            elif name not in ("__set__", "_set_grad_enabled"):  # no_grad switches, it computes nothing
                used.update([_bare(name)])
            return func(*args, **(kwargs or {}))

    return Watcher()


def _bare(name: str) -> str:
    """`__rmatmul__` -> "matmul", `relu_` -> "relu"; `float(x)` takes the number out, as `x.item()` does."""
    if name.startswith("__") and name.endswith("__"):
        bare = name.strip("_")
        if bare in ("float", "int", "bool"):
            return "item"
        return bare[1:] if bare[:1] in "ri" and bare[1:] in _OPERATORS else bare
    return name.strip("_")


def broken_by_source(answer: Any, rules: Rules) -> str | None:
    """A sentence about the first rule that the answer's source breaks, or None. Own helpers are read too."""
    while isinstance(answer, functools.partial):
        answer = answer.func
    if _comes_from_library(answer):
        return "This is the library's own implementation. Write yours; the check compares the two."
    for base in answer.__mro__ if inspect.isclass(answer) else ():
        if _comes_from_library(base) and base.__name__ in rules.forbids:
            return f"Your class inherits the library's `{base.__name__}`, which is the thing to build here."
    own = _own_names(answer)
    waiting, seen = _functions(answer), set[Any]()
    while waiting:
        function = waiting.pop(0)
        tree = None if function in seen else _tree(function)
        seen.add(function)
        if tree is None:
            continue
        sentence = _first_broken(tree, function, rules, own)
        if sentence:
            return sentence
        waiting += _helpers(tree, function)
    return None


def broken_by_use(used: Counter[str], rules: Rules) -> str | None:
    """A sentence about the first operation that was called while the answer ran and may not be, or None."""
    for name in rules.forbids:
        if used[name]:
            return _forbidden(name)
    if rules.allows is not None:
        strange = [name for name in used if name not in _OPERATORS | _LOOKS | {*rules.allows}]
        return _not_allowed(strange[0], rules.allows) if strange else None
    return None


def _forbidden(name: str) -> str:
    words = "`@` (matmul)" if name == "matmul" else f"`{name}`"
    return f"Your code uses {words}, which is the thing to build here."


def _not_allowed(name: str, allows: tuple[str, ...]) -> str:
    allowed = "".join(f"`{item}`, " for item in allows) + "operators and indexing"
    return f"`{name}` is not on this puzzle's list. Allowed: {allowed}{'' if allows else ' only'}."


def cost(used: Counter[str], rules: Rules) -> str | None:
    """A sentence if one call made more tensor operations than allowed."""
    used = Counter({name: count for name, count in used.items() if name not in _LOOKS})
    total = sum(used.values())
    if rules.max_ops is None or total <= rules.max_ops:
        return None
    common = ", ".join(f"{name} x{count}" for name, count in used.most_common(3))
    return f"One call made {total} tensor operations ({common}); {rules.max_ops} are enough."


_COUNTED = {
    "reads": "reads {} elements",
    "writes": "writes {} elements",
    "flops": "takes {} floating-point operations",
}


def over_a_limit(traffic: Traffic, rules: Rules, inputs: dict[str, Any]) -> tuple[str, str] | None:
    """About the first limit that one call went over: what yours costs and the limit; why that is enough."""
    for limit in rules.limits:
        yours, most = getattr(traffic, limit.counted), limit.of(inputs)
        if yours > most:
            did = _COUNTED[limit.counted].format(f"{yours:,}")
            return f"One call {did}; {most:,} are enough.", f"Why {most:,}: {limit.why.rstrip('.')}."
    return None


def _comes_from_library(answer: Any) -> bool:
    module = getattr(answer, "__module__", None) or type(answer).__module__
    if callable(answer) and type(answer).__name__ == "builtin_function_or_method":
        return True
    return str(module).split(".")[0] in _LIBRARIES


def _functions(answer: Any) -> list[Callable[..., Any]]:
    """The Python functions of an answer: itself, or the methods of a class or of an object's class."""
    if inspect.isfunction(answer) or inspect.ismethod(answer):
        return [inspect.unwrap(answer)]
    kind = answer if inspect.isclass(answer) else type(answer)
    found = []
    for base in kind.__mro__:
        if not _comes_from_library(base) and base.__module__ != "builtins":
            found += [_function_of(member) for member in vars(base).values()]
    return [function for function in found if inspect.isfunction(function)]


def own_code(answer: Any) -> list[CodeType]:
    """The code of a function, or of the methods that a class defines itself."""
    while isinstance(answer, functools.partial):
        answer = answer.func
    if inspect.isfunction(answer) or inspect.ismethod(answer):
        return [inspect.unwrap(answer).__code__]
    members = map(_function_of, vars(answer if inspect.isclass(answer) else type(answer)).values())
    return [member.__code__ for member in members if inspect.isfunction(member)]


def _own_names(answer: Any) -> set[str]:
    """The names of the methods that the learner's class, or its bases, define."""
    kind = answer if inspect.isclass(answer) else type(answer)
    bases = [base for base in kind.__mro__ if not _comes_from_library(base) and base.__module__ != "builtins"]
    return {name for base in bases for name in vars(base)}


def _function_of(member: Any) -> Any:
    """What stands behind a staticmethod, a classmethod, a property or a cached property."""
    for name in ("__func__", "fget", "func"):
        member = getattr(member, name, None) or member
    return member


def _helpers(tree: ast.AST, function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """The functions of the learner's own that a function mentions."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    values = [value for name in names if (value := _value(name, function)) is not None]
    return [f for value in values if not _comes_from_library(value) for f in _functions(value)]


def _value(name: str, function: Callable[..., Any]) -> Any:
    """What a bare name means inside a function, as far as that can be told before it runs."""
    code, cells = function.__code__, function.__closure__ or ()
    for free, cell in zip(code.co_freevars, cells, strict=False):
        if free == name:
            return cell.cell_contents if _is_filled(cell) else None
    return None if name in code.co_varnames else function.__globals__.get(name)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _tree(function: Callable[..., Any]) -> ast.AST | None:
    """The syntax tree of exactly this function, or None where its source cannot be found."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    wanted = ast.Lambda if function.__name__ == "<lambda>" else ast.FunctionDef | ast.AsyncFunctionDef
    found = [node for node in ast.walk(tree) if isinstance(node, wanted)]
    return found[0] if found else None


def _first_broken(tree: ast.AST, function: Callable[..., Any], rules: Rules, own: set[str]) -> str | None:
    for node in ast.walk(tree):
        if _mentions_grader(node, function):
            return "The answer reads the grader's own files. Write it from the page above; hints are free."
        if isinstance(node, ast.For | ast.While | ast.comprehension) and not rules.loops:
            return "This one is to be done without a loop: let broadcasting or indexing visit the elements."
        if isinstance(node, ast.MatMult) and "matmul" in rules.forbids:
            return _forbidden("matmul")
        if isinstance(node, ast.Attribute) and _reads(node, rules.forbids):
            return _forbidden(node.attr)
        if isinstance(node, ast.Call):
            sentence = _broken_call(node, function, rules, own)
            if sentence:
                return sentence
    return None


def _reads(node: ast.Attribute, forbids: tuple[str, ...]) -> bool:
    """Whether an attribute of tensors or arrays is forbidden: `x.T`, or NumPy's `x.strides` for "stride"."""
    if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
        return False
    torch = sys.modules.get("torch")
    known = hasattr(np.ndarray, node.attr) or (torch is not None and hasattr(torch.Tensor, node.attr))
    return known and (node.attr in forbids or node.attr.removesuffix("s") in forbids)


def _mentions_grader(node: ast.AST, function: Callable[..., Any]) -> bool:
    """Whether a node imports the exercises or the grader, or reaches for them by name."""
    if isinstance(node, ast.Import):
        return any(alias.name.startswith(_REFERENCE) for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return any(f"{node.module}.{alias.name}".startswith(_REFERENCE) for alias in node.names)
    if isinstance(node, ast.Attribute):
        return ast.unparse(node).startswith(_REFERENCE)
    if isinstance(node, ast.Name):
        value = _value(node.id, function)
        module = value.__name__ if inspect.ismodule(value) else getattr(type(value), "__module__", "")
        return str(module).startswith(_REFERENCE) or _is_reference(value)
    return False


def _is_reference(value: Any) -> bool:
    return callable(value) and str(getattr(value, "__module__", "")).startswith("labkit.exercises")


def _broken_call(node: ast.Call, function: Callable[..., Any], rules: Rules, own: set[str]) -> str | None:
    if isinstance(node.func, ast.Name):
        name = node.func.id
        if name in function.__code__.co_varnames + function.__code__.co_cellvars:
            return None
        value = _value(name, function)
        if value is None and not hasattr(builtins, name):
            return None  # defined inside, or an argument
        if value is not None and not _comes_from_library(value):
            return None  # the learner's own; read as a helper
        name = getattr(value, "__name__", name) if value is not None else name
        free = value is None and (name in _PYTHON or _is_exception(name))
    elif isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name in own and isinstance(node.func.value, ast.Name) and node.func.value.id in ("self", "cls"):
            return None
        free = _bare(name) in _LOOKS
    else:
        return None
    bare = _bare(name)
    if bare in rules.forbids:
        return _forbidden(bare)
    if rules.allows is not None and not free and bare not in rules.allows:
        return _not_allowed(bare, rules.allows)
    return None


def _is_exception(name: str) -> bool:
    value = getattr(builtins, name)
    return inspect.isclass(value) and issubclass(value, BaseException)
