"""Which exercises changed on this branch: their cell, the setup above it, their file, or a helper it shares.

`make audit` tries every mutant of those and a sample of the others. A change in what judges answers changes
no exercise; it asks for a larger sample.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from labkit.book import percent
from labkit.book.source import Source, sources_of

MAIN = ("origin/main", "main")  # where branches start, in the order in which it is looked for
JUDGING = "labkit/grade/judge"  # what decides about answers
Read = Callable[[Path], str | None]  # a file below the course folder, now or at a revision


def base_commit(root: Path) -> str | None:
    """Where this branch left the main branch; on the main branch itself, the commit before this one.

    None if that cannot be told: in a shallow clone, at the first commit, without git.
    """
    head = commit(root)
    main = next((name for name in MAIN if commit(root, name)), None)
    base = (_git(root, "merge-base", main, "HEAD") or "").strip() if main else ""
    return base if base not in ("", head) else commit(root, "HEAD^1")


def commit(root: Path, revision: str = "HEAD") -> str | None:
    """The full hash of a revision, or None if it is not there."""
    found = _git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    return found.strip() if found else None


def judging_changed(base: str, root: Path) -> list[str]:
    """The files of the grader that decide about answers and are not what they were at `base`."""
    return (_git(root, "diff", "--name-only", "--relative", base, "--", JUDGING) or "").splitlines()


def changed_since(base: str, sources: Mapping[str, Source], root: Path) -> set[str]:
    """Ids of the exercises whose cells or declaration are not what they were at `base`."""

    def now(path: Path) -> str | None:
        return (root / path).read_text(encoding="utf-8") if (root / path).is_file() else None

    def then(path: Path) -> str | None:
        return _git(root, "show", f"{base}:./{path.as_posix()}")

    lessons = {source.lesson.path for source in sources.values()}
    old = {item.id: item for path in lessons for item in _lesson(then(path), path)}
    return {
        ex
        for ex, source in sources.items()
        if ex not in old or _text(source) != _text(old[ex]) or declaration(ex, now) != declaration(ex, then)
    }


def _text(source: Source) -> tuple[str, ...]:
    setup = [cell.source for cell in source.before if cell.role == "setup"]
    return (*setup, source.solution, source.check.source)


def _lesson(text: str | None, path: Path) -> list[Source]:
    if text is None:
        return []
    cells, problems = percent.parse(text)
    return [] if problems else list(sources_of(percent.Lesson(path, tuple(cells))))


def _git(root: Path, *words: str) -> str | None:
    """What git prints; None if it fails or is not there."""
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def declaration(ex: str, read: Read) -> str | None:
    """What an exercise's file says, with every shared helper that it uses, comments left out."""
    text = read(Path(f"labkit/exercises/week{ex[1:3]}/{ex[4:]}.py"))
    if text is None:
        return None
    tree = ast.parse(text)
    return "\n".join([ast.dump(tree), *_shared(tree.body, read)])


def _shared(statements: Iterable[ast.stmt], read: Read) -> list[str]:
    """The helpers that these statements import from a `shared.py`, with the helpers that those use."""
    found: list[str] = []
    for node in statements:
        if isinstance(node, ast.ImportFrom) and f"{node.module}".startswith("labkit.exercises"):
            if f"{node.module}".endswith(".shared"):
                text = read(Path(f"{node.module}".replace(".", "/") + ".py")) or ""
                found += _with_helpers([alias.name for alias in node.names], ast.parse(text).body, read)
    return found


def _with_helpers(names: list[str], statements: list[ast.stmt], read: Read) -> list[str]:
    """The statements of a file that bind these names, and those that they use in turn."""
    bodies = {name: node for node in statements for name in _bound(node)}
    waiting, seen = [*names], dict[str, ast.stmt]()
    while waiting:
        name = waiting.pop()
        if name in bodies and name not in seen:
            seen[name] = bodies[name]
            waiting += [node.id for node in ast.walk(bodies[name]) if isinstance(node, ast.Name)]
    return [*(ast.dump(seen[name]) for name in sorted(seen)), *_shared(seen.values(), read)]


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [node]
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
