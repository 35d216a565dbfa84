"""Which lines of labkit.viz a lesson draws with.

A solution notebook stores its figures, and what they look like is compared by nobody. So it is run again when
a definition changes that its figures come from; an import line, a docstring, a comment line or a neighbor in
the same file changes no figure.
"""

import ast
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from labkit import viz


@dataclass
class _Module:
    definitions: dict[str, ast.stmt] = field(default_factory=dict)  # by the name they bind
    always: list[ast.stmt] = field(default_factory=list)  # statements that bind none
    imported: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # name: its module in viz, its name there
    lines: list[str] = field(default_factory=list)


def drawing_lines(code: str) -> list[str]:
    """The lines of every definition that `viz.…` in `code` leads to, in the order of files and lines."""
    folder = Path(viz.__file__).parent
    waiting = [("__init__", name) for name in re.findall(r"\bviz\.(\w+)", code)]
    found = dict[tuple[str, int], list[str]]()
    seen = set[tuple[str, str]]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        path = folder / f"{name[0]}.py"
        module = _read(path, path.stat().st_mtime_ns)
        if name[1] in module.imported:
            waiting.append(module.imported[name[1]])
            continue
        reached = [module.definitions[name[1]], *module.always] if name[1] in module.definitions else []
        for node in reached:
            found[name[0], node.lineno] = _lines(module, node)
            waiting += [(name[0], used.id) for used in ast.walk(node) if isinstance(used, ast.Name)]
    return [line for place in sorted(found) for line in found[place]]


@lru_cache(maxsize=64)
def _read(path: Path, stamp: int) -> _Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    module = _Module(lines=text.splitlines())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("labkit.viz."):
            home = str(node.module).rpartition(".")[2]
            module.imported |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}
    for node in tree.body:
        names = _bound(node)
        module.definitions |= dict.fromkeys(names, node)
        if not names and not isinstance(node, ast.Import | ast.ImportFrom) and not _is_text(node):
            module.always.append(node)
    return module


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [
        name.id for target in targets if target for name in ast.walk(target) if isinstance(name, ast.Name)
    ]


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _lines(module: _Module, node: ast.stmt) -> list[str]:
    first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", ()))])
    texts = {
        number
        for inner in ast.walk(node)
        if isinstance(inner, ast.stmt) and _is_text(inner)
        for number in range(inner.lineno, (inner.end_lineno or 0) + 1)
    }
    kept = [module.lines[n - 1] for n in range(first, (node.end_lineno or 0) + 1) if n not in texts]
    return [line for line in kept if line.strip() and not line.lstrip().startswith("#")]
