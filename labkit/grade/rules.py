"""Which operations an answer uses, and whether it may: read from its source, and watched while it runs."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from labkit.exercises.declare import Rules

_LIBRARIES = ("torch", "labkit", "numpy", "numba", "scipy", "jax")
_REFERENCE = ("labkit.exercises", "labkit.grade", "labkit.book")
# Calls that a list of allowed operations never means to exclude.
_ALWAYS = {"len", "range", "tuple", "int", "float", "bool", "dim", "size", "item", "max", "min"}


@contextmanager
def watched() -> Iterator[Counter[str]]:
    """Count the tensor operations called inside by bare name: `x @ w` and `torch.matmul` are "matmul"."""
    used: Counter[str] = Counter()
    with ExitStack() as stack:
        if "torch" in sys.modules:
            stack.enter_context(_torch_watcher(used))
        if "labkit.autograd" in sys.modules:
            watch_ops = sys.modules["labkit.autograd"].watch_ops
            stack.enter_context(watch_ops(lambda name: used.update([_bare(name)])))
        yield used


def _torch_watcher(used: Counter[str]) -> Any:
    from torch.overrides import TorchFunctionMode

    class Watcher(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name not in ("__get__", "__set__"):  # x.shape and its kin are not operations
                used.update([_bare(name)])
            return func(*args, **(kwargs or {}))

    return Watcher()


def _bare(name: str) -> str:
    """`__rmatmul__` -> "matmul", `relu_` -> "relu"."""
    if name.startswith("__") and name.endswith("__"):
        bare = name.strip("_")
        return bare[1:] if bare[:1] in "ri" and bare[1:] in _OPERATORS else bare
    return name.strip("_")


_OPERATORS = {"add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"}


def broken_by_source(answer: Any, rules: Rules) -> str | None:
    """A sentence about the first rule that the answer's source breaks, or None."""
    if _comes_from_library(answer):
        return "This is the library's own implementation. Write yours; the check compares the two."
    for function in _functions(answer):
        tree = _tree(function)
        if tree is None:
            continue
        sentence = _first_broken(tree, function, rules)
        if sentence:
            return sentence
    return None


def broken_by_use(used: Counter[str], rules: Rules) -> str | None:
    """A sentence about the first forbidden operation that was called while the answer ran, or None."""
    for name in rules.forbids:
        if used[name]:
            return f"Your code calls `{name}`, which is the thing to build here."
    return None


def cost(used: Counter[str], rules: Rules) -> str | None:
    """A sentence if one call made more tensor operations than allowed."""
    total = sum(used.values())
    if rules.max_ops is None or total <= rules.max_ops:
        return None
    common = ", ".join(f"{name} x{count}" for name, count in used.most_common(3))
    return f"One call made {total} tensor operations ({common}); {rules.max_ops} are enough."


def _comes_from_library(answer: Any) -> bool:
    module = getattr(answer, "__module__", None) or type(answer).__module__
    if callable(answer) and type(answer).__name__ == "builtin_function_or_method":
        return True
    return str(module).split(".")[0] in _LIBRARIES


def _functions(answer: Any) -> list[Callable[..., Any]]:
    """The Python functions of an answer: itself, or the methods of a class."""
    if inspect.isclass(answer):
        return [member for member in vars(answer).values() if inspect.isfunction(member)]
    return [answer] if inspect.isfunction(answer) else []


def _tree(function: Callable[..., Any]) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (
        OSError,
        TypeError,
        SyntaxError,
    ):  # a lambda inside a call, code without a source: watched instead
        return None


def _first_broken(tree: ast.AST, function: Callable[..., Any], rules: Rules) -> str | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", None) or ""] + [alias.name for alias in node.names]
            if any(name.startswith(_REFERENCE) for name in names):
                return (
                    "The answer reads the grader's own files. Write it from the page above; hints are free."
                )
        if isinstance(node, ast.For | ast.While | ast.comprehension) and not rules.loops:
            return "This one is to be done without a loop: let broadcasting or indexing visit the elements."
        if isinstance(node, ast.Call):
            sentence = _broken_call(node, function, rules)
            if sentence:
                return sentence
    return None


def _broken_call(node: ast.Call, function: Callable[..., Any], rules: Rules) -> str | None:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    own = isinstance(node.func, ast.Name) and _is_own(name, function)
    bare = name.strip("_")
    if bare in rules.forbids and not own:
        return f"Your code calls `{name}`, which is the thing to build here."
    if rules.allows is not None and not own and bare not in _ALWAYS | set(rules.allows):
        allowed = ", ".join(f"`{item}`" for item in rules.allows)
        return f"`{name}` is not on this puzzle's list. Allowed: {allowed}, operators and indexing."
    return None


def _is_own(name: str, function: Callable[..., Any]) -> bool:
    """Whether a bare name means something the learner defined, rather than a library's function."""
    value = getattr(function, "__globals__", {}).get(name)
    if value is None:
        return not hasattr(builtins, name)
    return not _comes_from_library(value)
