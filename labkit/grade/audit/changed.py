"""Which exercises changed since a git revision: their cell, the setup above it, or their declaration."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

from labkit.book import percent
from labkit.book.source import Source, sources_of


def changed_since(base: str, sources: dict[str, Source], root: Path) -> set[str]:
    """Ids of the exercises whose source or declaration is not what it was at `base`."""
    lessons = {source.lesson.path for source in sources.values()}
    old = {item.id: item for path in lessons for item in _lesson_at(base, path, root)}
    changed = {key for key, source in sources.items() if key not in old or _text(source) != _text(old[key])}
    for week in {key[1:3] for key in sources}:
        new, past = dict[str, str](), dict[str, str]()
        for now in (root / "labkit/exercises").glob(f"week{week}*.py"):
            new |= declarations(now.read_text(encoding="utf-8"))
            past |= declarations(_show(base, now.relative_to(root), root) or "")
        changed |= {key for key in sources if key[1:3] == week and new.get(key) != past.get(key)}
    return changed


def _text(source: Source) -> tuple[str, ...]:
    setup = [cell.source for cell in source.before if cell.role == "setup"]
    return (*setup, source.solution, source.check.source)


def _lesson_at(base: str, path: Path, root: Path) -> list[Source]:
    text = _show(base, path, root)
    if text is None:
        return []
    cells, problems = percent.parse(text)
    return [] if problems else list(sources_of(percent.Lesson(path, tuple(cells))))


def _show(base: str, path: Path, root: Path) -> str | None:
    """A file as it was at a revision; None if it, the revision or git is not there."""
    command = ["git", "-C", str(root), "show", f"{base}:./{path.as_posix()}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def declarations(text: str) -> dict[str, str]:
    """Each exercise's declaration with every helper of the module that it uses, as one text, by id."""
    bodies, ids = dict[str, ast.stmt](), dict[str, str]()
    for node in ast.parse(text).body:
        for name in _bound(node):
            bodies[name] = node
            found = _declared_id(node)
            if found:
                ids[found] = name
    return {key: _with_helpers(name, bodies) for key, name in ids.items()}


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _declared_id(node: ast.stmt) -> str | None:
    call = node.value if isinstance(node, ast.Assign) else None
    for word in call.keywords if isinstance(call, ast.Call) else ():
        if word.arg == "id" and isinstance(word.value, ast.Constant):
            return str(word.value.value)
    return None


def _with_helpers(name: str, bodies: dict[str, ast.stmt]) -> str:
    waiting, seen = [name], dict[str, str]()
    while waiting:
        current = waiting.pop()
        if current in seen or current not in bodies:
            continue
        seen[current] = ast.dump(bodies[current])
        waiting += [node.id for node in ast.walk(bodies[current]) if isinstance(node, ast.Name)]
    return "\n".join(seen[key] for key in sorted(seen))
