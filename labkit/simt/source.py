"""From a kernel object to its syntax tree, and what CUDA Python would refuse in it.

Numba compiles a small part of Python for the GPU. Its simulator runs all of Python, so a kernel can pass
there and fail to compile; `refused` finds such lines from the syntax tree alone.
"""

import ast
import builtins
import inspect
import types
from collections.abc import Iterator
from typing import Any

# What the page "Supported Python features in CUDA Python" of Numba lists, with print and type.
BUILTINS = set(
    "abs bool complex divmod enumerate float int len max min pow print range round type zip".split()
)
NUMPY_SCALARS = set(
    "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 intp float16 float32 float64 finfo iinfo "
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt square abs absolute fabs sign maximum minimum fmax fmin "
    "sin cos tan sinh cosh tanh arcsin arccos arctan arctan2 floor ceil trunc isnan isinf isfinite "
    "power fmod hypot copysign signbit divmod".split()
)
_BLOCKS = "keep a fixed-size array with cuda.shared.array or cuda.local.array, and fill it in a loop"
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("try/except", "test the condition with if before the operation"),
    ast.With: ("a with block", "do that on the host, before or after the launch"),
    ast.ListComp: ("a list comprehension", _BLOCKS),
    ast.SetComp: ("a set comprehension", _BLOCKS),
    ast.DictComp: ("a dict comprehension", _BLOCKS),
    ast.GeneratorExp: ("a generator expression", "write the loop out"),
    ast.List: ("building a list", _BLOCKS),
    ast.Dict: ("building a dict", _BLOCKS),
    ast.Set: ("building a set", _BLOCKS),
    ast.JoinedStr: ("string formatting", "print plain values, print(i, x), or format on the host"),
    ast.Yield: ("yield", "write results into an array argument"),
    ast.YieldFrom: ("yield from", "write results into an array argument"),
    ast.Await: ("await", "kernels do not wait for the host"),
    ast.Lambda: ("a lambda", "write a function with @cuda.jit(device=True)"),
    ast.ClassDef: ("a class", "use arrays and numbers"),
    ast.Import: ("an import", "import at the top of the file"),
    ast.ImportFrom: ("an import", "import at the top of the file"),
    ast.Global: ("global", "pass an array and write into it"),
    ast.Nonlocal: ("nonlocal", "pass an array and write into it"),
    ast.Delete: ("del", "leave the name alone; it ends with the thread"),
    ast.Match: ("match", "use if and elif"),
    ast.MatMult: ("@ on whole arrays", "write the loop over k for one output element"),
    ast.Starred: ("a starred argument", "name every argument"),
    ast.FunctionDef: ("a function inside the kernel", "move it out and mark it @cuda.jit(device=True)"),
}


def python_function(obj: Any) -> types.FunctionType | None:
    """The plain function in `obj`: itself, or that of a `@cuda.jit` object, or of the simulator's."""
    for candidate in (obj, getattr(obj, "py_func", None), getattr(obj, "fn", None)):
        if isinstance(candidate, types.FunctionType):
            return candidate
    return None


def parse(function: types.FunctionType) -> ast.FunctionDef:
    """The syntax tree of `function`, with the line numbers of its file or notebook cell."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise ValueError(
            f"the source of {function.__name__} is not available, and the stepper runs source: "
            "define the kernel in a file or in a notebook cell, not through exec()"
        ) from None
    nested = lines[0][0].isspace()  # `if 1:` keeps the indentation of a kernel made inside another function
    tree = ast.parse(("if 1:\n" if nested else "") + "".join(lines))
    ast.increment_lineno(tree, first - 1 - nested)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            return node
    raise ValueError(f"{function.__name__} is not a def: write the kernel as a function with a name")


def namespace(function: types.FunctionType) -> dict[str, Any]:
    """The names `function` can see: globals, then the values of its closure."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    closed = {name: cell.cell_contents for name, cell in cells if _filled(cell)}
    return {**function.__globals__, **closed}


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def resolve(node: ast.AST, names: dict[str, Any], local: set[str]) -> Any:
    """The object that a name or `module.name` stands for before the kernel runs, or None."""
    if isinstance(node, ast.Name) and node.id not in local:
        return names.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        base = resolve(node.value, names, local)
        if isinstance(base, types.ModuleType):
            return getattr(base, node.attr, None)
    return None


def local_names(node: ast.FunctionDef) -> set[str]:
    """Parameters and every name assigned in the function."""
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}


Refusal = tuple[int, str, str]  # line, what is refused, what to write instead


def refused(node: ast.FunctionDef, names: dict[str, Any], *, kernel: bool) -> Iterator[Refusal]:
    """Lines of `node` that CUDA Python does not compile, each with what to write instead."""
    if node.args.vararg or node.args.kwarg:
        yield node.lineno, "*args or **kwargs", "name every argument: a kernel has a fixed signature"
    local = local_names(node)
    for part in node.body:
        for inner in ast.walk(part):
            yield from _refused_node(inner, names, local)
            if kernel and isinstance(inner, ast.Return) and not _is_none(inner.value):
                yield inner.lineno, "returning a value from a kernel", "write it into an output array"
            if isinstance(inner, ast.Call) and ast.unparse(inner.func).endswith(
                (".shared.array", ".local.array")
            ):
                yield from _refused_shape(inner, node, local)


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _refused_node(node: ast.AST, names: dict[str, Any], local: set[str]) -> Iterator[Refusal]:
    if isinstance(node, ast.BinOp):
        text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if what := _REFUSED.get(ast.JoinedStr if text else type(node.op)):
            yield node.lineno, *what
    elif isinstance(node, (ast.expr, ast.stmt)) and type(node) in _REFUSED:
        yield node.lineno, *_REFUSED[type(node)]
    if not isinstance(node, ast.Call):
        return
    target = resolve(node.func, names, local)
    name = ast.unparse(node.func)
    if isinstance(node.func, ast.Name) and getattr(builtins, name, None) is target is not None:
        if name not in BUILTINS and not issubclass(target if isinstance(target, type) else int, Exception):
            yield (
                node.lineno,
                f"{name}()",
                f"kernels have only {', '.join(sorted(BUILTINS))} of the built-ins",
            )
    elif isinstance(node.func, ast.Attribute):
        module = resolve(node.func.value, names, local)
        if getattr(module, "__name__", "") in ("numpy", "torch") and node.func.attr not in NUMPY_SCALARS:
            yield node.lineno, f"{name}()", "work on one element per thread, with math and plain loops"
        if isinstance(node.func.value, ast.Constant) and isinstance(node.func.value.value, str):
            yield node.lineno, *_REFUSED[ast.JoinedStr]


def _refused_shape(call: ast.Call, node: ast.FunctionDef, local: set[str]) -> Iterator[Refusal]:
    """Shapes of shared and local arrays must be numbers, or names for numbers, known when compiling."""
    given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "shape"), None)
    for size in given.elts if isinstance(given, ast.Tuple) else [given]:
        if size is None or isinstance(size, ast.Constant):
            continue
        if isinstance(size, ast.Name) and (size.id not in local or _constant_local(size.id, node)):
            continue
        yield (
            call.lineno,
            f"the array size {ast.unparse(size)}",
            "give a number, or one name set to a number outside the kernel; the compiler must know it",
        )


def _constant_local(name: str, node: ast.FunctionDef) -> bool:
    stores = [
        n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
    ]
    values = [
        n.value
        for n in ast.walk(node)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)
    ]
    return len(stores) == len(values) == 1 and isinstance(values[0], ast.Constant)
