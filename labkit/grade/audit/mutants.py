"""Small changes to a right answer, each of which a good check must notice.

A mutant is made at the syntax tree and written back into the text at the place it came from, so that
`before -> after` reads like a line of a diff. Only lines that learners write are changed.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from labkit.book.percent import solution_lines


@dataclass(frozen=True)
class Mutant:
    """One changed solution. `before` and `after` are the lines that differ, spaces evened out."""

    line: int
    change: str
    before: str
    after: str
    code: str

    def __str__(self) -> str:
        return f"{self.before}  ->  {self.after}"


_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_TWINS = (
    ("sum", "mean"), ("max", "min"), ("amax", "amin"), ("argmax", "argmin"), ("maximum", "minimum"),
    ("any", "all"), ("zeros", "ones"), ("zeros_like", "ones_like"), ("triu", "tril"), ("floor", "ceil"),
    ("cumsum", "cumprod"), ("var", "std"), ("sin", "cos"), ("add_", "sub_"), ("mul_", "div_"),
    ("logical_and", "logical_or"),
)  # fmt: skip
_CALLS = {**dict(_TWINS), **{b: a for a, b in _TWINS}}
_COMMUTES = {"max", "min", "maximum", "minimum", "add", "mul", "equal", "allclose", "gcd", "hypot", "print"}
_DIMS = {"dim", "axis", "dims", "axes", "start_dim", "end_dim"}
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Delete)
_STATEMENTS = (*_SIMPLE, ast.For, ast.While, ast.If, ast.With, ast.Continue, ast.Break)

Change = tuple[str, ast.AST, ast.AST]  # what was done, the node, what takes its place


def mutants(code: str, lines: set[int] | None = None) -> list[Mutant]:
    """Every mutant of the solution in `code`; `lines` are the lines to change, by default the marked ones."""
    lines = solution_lines(code) if lines is None else lines
    tree = ast.parse(code)
    found: list[Mutant] = []
    seen = {ast.dump(tree)}
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for change, node, other in _changes(tree):
        if getattr(node, "lineno", 0) not in lines:
            continue
        wanted = _dump_with(tree, parents[node], node, other)
        mutated = None if wanted in seen else _splice(code, node, other, wanted)
        seen.add(wanted)
        if mutated is not None and _compiles(mutated):
            found.append(Mutant(getattr(node, "lineno", 0), change, *_difference(code, mutated), mutated))
    return found


def sample(found: list[tuple[str, Mutant]], count: int, seed: int) -> list[tuple[str, Mutant]]:
    """The same `count` of them for the same seed."""
    return random.Random(seed).sample(found, min(count, len(found)))


# writing a changed node back


def _dump_with(tree: ast.AST, parent: ast.AST, node: ast.AST, other: ast.AST) -> str:
    """The dump of the tree with one child of `parent` replaced for the moment."""
    for name, value in ast.iter_fields(parent):
        if value is node:
            setattr(parent, name, other)
            text = ast.dump(tree)
            setattr(parent, name, node)
            return text
        if isinstance(value, list) and any(item is node for item in value):
            place = next(i for i, item in enumerate(value) if item is node)
            value[place] = other
            text = ast.dump(tree)
            value[place] = node
            return text
    raise ValueError("the node is no child of its parent")


def _splice(code: str, node: ast.AST, other: ast.AST, wanted: str) -> str | None:
    """The text with the node's part replaced, in parentheses where it would be read otherwise."""
    indent = " " * node.col_offset  # type: ignore[attr-defined]
    text = ast.unparse(other).replace("\n", "\n" + indent)
    for words in (text, f"({text})"):
        mutated = _replace(code, node, words)
        try:
            if ast.dump(ast.parse(mutated)) == wanted:
                return mutated
        except SyntaxError:
            continue
    return None


def _replace(code: str, node: ast.AST, words: str) -> str:
    lines = [line.encode() for line in code.splitlines(True)]
    first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
    head = lines[first][: node.col_offset]  # type: ignore[attr-defined]
    tail = lines[last][node.end_col_offset :]  # type: ignore[attr-defined]
    return b"".join([*lines[:first], head, words.encode(), tail, *lines[last + 1 :]]).decode()


def _difference(code: str, mutated: str) -> tuple[str, str]:
    """The lines that differ, each side as one line."""
    a, b = code.splitlines(), mutated.splitlines()
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return _joined(a[start : len(a) - end]), _joined(b[start : len(b) - end])


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def _compiles(code: str) -> bool:
    try:
        compile(code, "<mutant>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


# the changes


def _changes(tree: ast.AST) -> Iterator[Change]:
    """All changes in the order of the text."""
    found = [change for node, dim in _nodes(tree) for change in _changes_at(node, dim)]
    found.sort(key=lambda change: (getattr(change[1], "lineno", 0), getattr(change[1], "col_offset", 0)))
    return iter(found)


def _nodes(tree: ast.AST, dim: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Nodes that may change, with whether they say which axis. Annotations, texts and docstrings may not."""
    if isinstance(tree, ast.JoinedStr) or _is_text(tree):
        return
    yield tree, dim
    if isinstance(tree, ast.Raise) or _integer(tree) is not None or _is_strict(tree):
        return
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        children = value if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, ast.AST):
                yield from _nodes(child, dim or (isinstance(tree, ast.keyword) and tree.arg in _DIMS))


def _is_strict(node: ast.AST) -> bool:
    """Whether this is zip's `strict=`, a safety net that right code never falls into."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes_at(node: ast.AST, dim: bool) -> Iterator[Change]:
    for kind, change in _BY_KIND:
        if isinstance(node, kind):
            yield from change(node)
    number = _integer(node)
    if number is not None:
        steps = [number + 1, number - 1] + ([-number] if number < 0 else [])
        for step in steps:
            yield ("axis" if dim else "integer"), node, _constant(step)


def _integer(node: ast.AST) -> int | None:
    """The value of an integer literal, a minus sign included."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _integer(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def _constant(value: int) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def _binary(node: ast.BinOp) -> Iterator[Change]:
    other = _BINARY.get(type(node.op))
    if other:
        yield "operator", node, ast.BinOp(node.left, other(), node.right)


def _augmented(node: ast.AugAssign) -> Iterator[Change]:
    other = _BINARY.get(type(node.op))
    if other:
        yield "operator", node, ast.AugAssign(node.target, other(), node.value)
    yield "overwritten", node, ast.Assign([node.target], node.value, lineno=node.lineno)


def _comparison(node: ast.Compare) -> Iterator[Change]:
    for place, op in enumerate(node.ops):
        for other in _COMPARE[type(op)]:
            ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
            yield "comparison", node, ast.Compare(node.left, ops, node.comparators)


def _boolean(node: ast.BoolOp) -> Iterator[Change]:
    yield "and/or", node, ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)


def _unary(node: ast.UnaryOp) -> Iterator[Change]:
    if _integer(node) is None and not isinstance(node.op, ast.UAdd):
        yield "sign" if isinstance(node.op, ast.USub) else "not", node, node.operand


def _literal(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield "flag", node, ast.Constant(not node.value)
    elif isinstance(node.value, float):
        other = float(f"{1.1 * node.value:.6g}") if node.value else 1.0
        yield "float", node, ast.Constant(other)


def _condition(node: ast.If | ast.While | ast.IfExp | ast.Assert) -> Iterator[Change]:
    yield from _negated(node.test)


def _filter(node: ast.comprehension) -> Iterator[Change]:
    for test in node.ifs:
        yield from _negated(test)


def _negated(test: ast.expr) -> Iterator[Change]:
    """`not test`, except where another change says the same: `a == b` becomes `a != b`, `not a` `a`."""
    if not isinstance(test, ast.UnaryOp) and not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        yield "condition", test, ast.UnaryOp(ast.Not(), test)


def _call(node: ast.Call) -> Iterator[Change]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _CALLS:
        yield "twin", node.func, _renamed(node.func, _CALLS[name])
    if name not in _COMMUTES:
        for args in _swaps(node.args):
            yield "argument order", node, ast.Call(node.func, args, node.keywords)
    for place, word in enumerate(node.keywords):
        if _is_strict(word):
            continue
        rest = node.keywords[:place] + node.keywords[place + 1 :]
        yield "keyword dropped", node, ast.Call(node.func, node.args, rest)
    if name == "range":
        for place, bound in enumerate(node.args[:2]):
            for other in _off_by_one(bound):
                args = [*node.args[:place], other, *node.args[place + 1 :]]
                yield "range", node, ast.Call(node.func, args, node.keywords)


def _renamed(func: ast.expr, name: str) -> ast.expr:
    if isinstance(func, ast.Attribute):
        return ast.Attribute(func.value, name, func.ctx)
    return ast.Name(name, ast.Load())


def _slice(node: ast.Slice) -> Iterator[Change]:
    for field in ("lower", "upper"):
        bound = getattr(node, field)
        for other in _off_by_one(bound) if bound is not None else ():
            yield "slice", node, _resliced(node, field, other)
    for field in ("lower", "upper", "step"):
        if getattr(node, field) is not None:
            yield "slice", node, _resliced(node, field, None)


def _resliced(node: ast.Slice, field: str, bound: ast.expr | None) -> ast.Slice:
    other = ast.Slice(node.lower, node.upper, node.step)
    setattr(other, field, bound)
    return other


def _off_by_one(bound: ast.expr) -> Iterator[ast.expr]:
    """bound + 1 and bound - 1, unless it is a number, which changes anyway."""
    if _integer(bound) is None:
        for op in (ast.Add(), ast.Sub()):
            yield ast.BinOp(bound, op, ast.Constant(1))


def _tuple(node: ast.Tuple) -> Iterator[Change]:
    if isinstance(node.ctx, ast.Load):
        for items in _swaps(node.elts):
            yield "order", node, ast.Tuple(items, node.ctx)


def _swaps(items: list[ast.expr]) -> Iterator[list[ast.expr]]:
    """Each pair of neighbors exchanged."""
    for i in range(len(items) - 1):
        if not any(isinstance(item, ast.Starred) for item in items[i : i + 2]):
            yield [*items[:i], items[i + 1], items[i], *items[i + 2 :]]


def _dropped(node: ast.stmt) -> Iterator[Change]:
    if not _is_text(node):
        yield "dropped", node, ast.Pass()


_BY_KIND: tuple[tuple[type | tuple[type, ...], Callable[..., Iterator[Change]]], ...] = (
    (_STATEMENTS, _dropped),
    (ast.BinOp, _binary),
    (ast.AugAssign, _augmented),
    (ast.Compare, _comparison),
    (ast.BoolOp, _boolean),
    (ast.UnaryOp, _unary),
    (ast.Constant, _literal),
    ((ast.If, ast.While, ast.IfExp, ast.Assert), _condition),
    (ast.comprehension, _filter),
    (ast.Call, _call),
    (ast.Slice, _slice),
    (ast.Tuple, _tuple),
)
