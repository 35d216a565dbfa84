"""The kernel as a generator: its syntax tree with every access, operation and barrier made visible.

The learner's text is not touched; a copy of the tree is changed and compiled with the same file name and line
numbers. `s[i] = a[j] * 2` becomes `_write(s, i, _Mult(_read(a, j, 0), 2, 1), 2)`, where the last numbers are
sites: entries of a table that knows the line and the words of each access. `cuda.syncthreads()` becomes a
`yield`, so that one Python generator is one thread and a barrier is a place where it pauses.
"""

import ast
import types
from dataclasses import dataclass, field
from typing import Any

from labkit.simt.source import Refusal, local_names, namespace, parse, python_function, refused, resolve

READ, WRITE, ATOMIC, OTHER = range(4)
COLLECTIVES = {"syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or", "syncwarp"} | {
    f"{name}_sync" for name in ("shfl", "shfl_up", "shfl_down", "shfl_xor", "any", "all", "ballot")
}


@dataclass(frozen=True)
class Site:
    """One place in the source: an access, an operation or a barrier."""

    kind: int
    line: int
    text: str


@dataclass
class Function:
    """A rewritten kernel or device function; `waits` if it can pause at a barrier or in a shuffle."""

    name: str
    plain: types.FunctionType
    waits: bool = False
    finished: bool = False
    code: types.CodeType | None = None


@dataclass
class Program:
    """A kernel with the device functions it calls, ready to be bound to the memory of one run."""

    sites: list[Site] = field(default_factory=list)
    functions: dict[types.FunctionType, Function] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    kernel: Function | None = None

    def bind(self, helpers: dict[str, Any]) -> Any:
        """The kernel as a callable that uses `helpers`; each function keeps the names of its own module."""
        made: dict[str, Any] = {}
        for function in self.functions.values():
            assert function.code is not None
            scope = {key: helpers["_stand_in"](value) for key, value in namespace(function.plain).items()}
            scope.update(helpers)
            made[function.name] = scope
            exec(function.code, scope)
        for scope in made.values():
            scope.update({name: other[name] for name, other in made.items()})
        assert self.kernel is not None
        return made[self.kernel.name][self.kernel.name]


def rewrite(kernel: Any) -> Program:
    """Rewrite `kernel` and, through its calls, every device function it uses."""
    plain = python_function(kernel)
    if plain is None:
        raise TypeError(f"expected a kernel (a function or a @cuda.jit object), got {type(kernel).__name__}")
    program = Program()
    program.kernel = _rewrite_function(plain, program, is_kernel=True)
    return program


def _rewrite_function(plain: types.FunctionType, program: Program, *, is_kernel: bool = False) -> Function:
    function = Function(f"_simt_{len(program.functions)}_{plain.__name__}", plain)
    program.functions[plain] = function
    node = parse(plain)
    found = list(refused(node, namespace(plain), kernel=is_kernel))
    program.refusals += found
    if not found:
        node = Rewriter(program, function, node).visit_function(node)
        module = ast.fix_missing_locations(ast.Module([node], []))
        function.code = compile(module, plain.__code__.co_filename, "exec")
    function.finished = True
    return function


class Rewriter(ast.NodeTransformer):
    def __init__(self, program: Program, function: Function, node: ast.FunctionDef) -> None:
        self.program, self.function = program, function
        self.names = namespace(function.plain)
        self.local = local_names(node) - {"cuda"}
        self.temporaries = 0
        self.target: ast.Name | None = None  # the name that the current statement assigns to

    def visit_function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name, node.decorator_list, node.returns = self.function.name, [], None
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            argument.annotation = None
        node.body = [new for old in node.body for new in _as_list(self.visit(old))]
        return node

    def site(self, kind: int, node: ast.expr | ast.stmt) -> ast.Constant:
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        self.program.sites.append(Site(kind, node.lineno, text))
        return ast.Constant(len(self.program.sites) - 1)

    def temporary(self) -> str:
        self.temporaries += 1
        return f"_simt_t{self.temporaries}"

    # Names and calls

    def is_cuda(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name) and node.id == "cuda":
            return True
        return getattr(resolve(node, self.names, self.local), "__name__", "") == "numba.cuda"

    def cuda_path(self, node: ast.AST) -> str:
        """`cuda.atomic.add` -> "atomic.add"; "" for anything that does not start at cuda."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and not self.is_cuda(node):
            parts.insert(0, node.attr)
            node = node.value
        return ".".join(parts) if self.is_cuda(node) else ""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return _at(ast.Name("_cuda", ast.Load()), node) if self.is_cuda(node) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return _at(ast.Name("_cuda", ast.Load()), node) if self.is_cuda(node) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        path = self.cuda_path(node.func)
        if path in COLLECTIVES:
            site = self.site(OTHER, node)
            self.function.waits = True
            event = ast.Tuple(
                [ast.Constant(path), site, ast.Tuple(self._visit_all(node.args), ast.Load())], ast.Load()
            )
            return _at(ast.Yield(event), node)
        if path.startswith("atomic."):
            site = self.site(ATOMIC, node)
            return self._call("_atomic", node, [ast.Constant(path[7:]), site, *self._visit_all(node.args)])
        if path in ("shared.array", "local.array"):
            site = self.site(OTHER, self.target or node)
            call = self._call("_" + path[:-6], node, [site, *self._visit_all(node.args)])
            call.keywords = node.keywords
            return call
        plain = python_function(resolve(node.func, self.names, self.local))
        if plain is None or path:
            return self.generic_visit(node)
        return self._device_call(node, plain)

    def _device_call(self, node: ast.Call, plain: types.FunctionType) -> ast.AST:
        known = self.program.functions.get(plain)
        if known and not known.finished:
            self.program.refusals.append(
                (node.lineno, f"the recursive call {ast.unparse(node)}", "write it as a loop")
            )
            return node
        device = known or _rewrite_function(plain, self.program)
        node.func = _at(ast.Name(device.name, ast.Load()), node)
        node.args = self._visit_all(node.args)
        node.keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        if not device.waits:
            return node
        self.function.waits = True
        return _at(ast.YieldFrom(node), node)

    # Accesses and arithmetic

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        site = self.site(READ, node)
        return self._call("_read", node, [self.visit(node.value), self._index(node.slice), site])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        site = self.site(OTHER, node)
        name = "_" + type(node.op).__name__
        return self._call(name, node, [self.visit(node.left), self.visit(node.right), site])

    def visit_While(self, node: ast.While) -> ast.AST:
        site = self.site(OTHER, node.test)
        self.generic_visit(node)
        node.test = self._call("_loop", node.test, [node.test, site])
        return node

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        self.target = node.targets[0] if isinstance(node.targets[0], ast.Name) else None
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self._store(node.targets[0], value, node)
        name = self.temporary()
        first = _at(ast.Assign([ast.Name(name, ast.Store())], value), node)
        return [first] + [
            s for target in node.targets for s in self._store(target, ast.Name(name, ast.Load()), node)
        ]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        return self._store(node.target, self.visit(node.value), node) if node.value else []

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        site = self.site(OTHER, node.target)
        operator = "_" + type(node.op).__name__
        if not isinstance(node.target, ast.Subscript):
            old = ast.Name(ast.unparse(node.target), ast.Load())
            value = self._call(operator, node, [old, self.visit(node.value), site])
            return [_at(ast.Assign([node.target], value), node)]
        array, index = self.temporary(), self.temporary()
        read, write = self.site(READ, node.target), self.site(WRITE, node.target)
        places = [ast.Name(array, ast.Load()), ast.Name(index, ast.Load())]
        value = self._call(
            operator, node, [self._call("_read", node, [*places, read]), self.visit(node.value), site]
        )
        return [
            _at(ast.Assign([ast.Name(array, ast.Store())], self.visit(node.target.value)), node),
            _at(ast.Assign([ast.Name(index, ast.Store())], self._index(node.target.slice)), node),
            _at(ast.Expr(self._call("_write", node, [*places, value, write])), node),
        ]

    def _store(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> list[ast.stmt]:
        """Statements that assign `value` to `target`; elements of tuples go through temporaries."""
        if isinstance(target, ast.Subscript):
            site = self.site(WRITE, target)
            places = [self.visit(target.value), self._index(target.slice)]
            return [_at(ast.Expr(self._call("_write", node, [*places, value, site])), node)]
        if not isinstance(target, ast.Tuple):
            return [_at(ast.Assign([target], value), node)]
        names = [self.temporary() if isinstance(t, ast.Subscript) else "" for t in target.elts]
        elements = [ast.Name(n, ast.Store()) if n else t for n, t in zip(names, target.elts, strict=True)]
        first = _at(ast.Assign([ast.Tuple(elements, ast.Store())], value), node)
        pairs = [(t, n) for n, t in zip(names, target.elts, strict=True) if n]
        return [first] + [s for t, n in pairs for s in self._store(t, ast.Name(n, ast.Load()), node)]

    def _index(self, node: ast.expr) -> ast.expr:
        """An index as a value: `1:n` is written `slice(1, n)`, which an argument can be."""
        if isinstance(node, ast.Tuple):
            return _at(ast.Tuple([self._index(e) for e in node.elts], ast.Load()), node)
        if not isinstance(node, ast.Slice):
            return self.visit(node)
        ends = [self.visit(e) if e else ast.Constant(None) for e in (node.lower, node.upper, node.step)]
        return self._call("slice", node, ends)

    def _visit_all(self, nodes: list[ast.expr]) -> list[ast.expr]:
        return [self.visit(node) for node in nodes]

    def _call(self, name: str, node: ast.AST, arguments: list[Any]) -> ast.Call:
        return _at(ast.Call(ast.Name(name, ast.Load()), arguments, []), node)


def _at(new: Any, old: ast.AST) -> Any:
    return ast.copy_location(new, old)


def _as_list(result: Any) -> list[Any]:
    return result if isinstance(result, list) else [result]
