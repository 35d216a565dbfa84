"""The answers that the lesson sources hold: each exercise's solution and stub, ready to be judged.

An answer is made as the notebook makes it: setup cells, the solutions of the exercises above it, its own
cell, then the arguments of its check cell. Demo cells are left out.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import paths
from labkit.book import course
from labkit.book.percent import Cell, Lesson


@dataclass(frozen=True)
class Source:
    """Where an exercise stands in its lesson. `before` is what its notebook has run when it gets there."""

    id: str
    lesson: Path
    before: tuple[Cell, ...]
    cells: tuple[Cell, ...]
    check: Cell
    text: tuple[str, ...]  # the prose above it, since the exercise before

    @property
    def solution(self) -> str:
        return "\n\n\n".join(cell.source for cell in self.cells)

    @property
    def stub(self) -> str:
        return "\n\n\n".join(cell.learner_source for cell in self.cells)

    @property
    def notebook(self) -> Path:
        """The learner's notebook, below the course folder."""
        return Path("weeks") / self.lesson.parent.name / f"{self.lesson.stem}.ipynb"


def sources(root: Path | None = None, week: int | None = None) -> dict[str, Source]:
    """Every exercise that stands in a lesson, by id, in course order."""
    root = root or paths.root()
    lessons = (course.read_lesson(root, path) for path in course.lesson_paths(root, week))
    return {source.id: source for lesson in lessons for source in of_lesson(lesson)}


def of_lesson(lesson: Lesson) -> Iterator[Source]:
    before: list[Cell] = []
    open_cells: dict[str, list[Cell]] = {}
    text: list[str] = []
    for cell in lesson.cells:
        if cell.role == "text":
            text.append(cell.source)
        elif cell.role == "setup":
            before.append(cell)
        elif cell.role == "exercise" and cell.ex:
            open_cells.setdefault(cell.ex, []).append(cell)
        elif cell.role == "check" and cell.ex in open_cells:
            cells = tuple(open_cells.pop(cell.ex))
            yield Source(cell.ex, lesson.path, tuple(before), cells, cell, tuple(text))
            before += cells
            text = []


def answer(source: Source, code: str | None = None) -> tuple[Any, dict[str, Any]]:
    """What the check cell passes to `check`: the answer, and what goes beside it (`fault=`, `sure=`).

    `code` stands in for the solution in the exercise's own cell: a stub, or a mutant.
    """
    return finish(source, prepare(source), source.solution if code is None else code)


def prepare(source: Source) -> dict[str, Any]:
    """The names that a notebook has when it reaches the exercise."""
    space: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(_folder(source)):
        for cell in source.before:
            run_code(cell.source, space, f"<{cell.id}>")
            space["check"] = _no_check
    return space


def _folder(source: Source) -> Path:
    """Where its notebook runs: data files are named from there."""
    folder = paths.root() / source.lesson.parent
    return folder if folder.is_dir() else Path.cwd()


def finish(source: Source, space: dict[str, Any], code: str) -> tuple[Any, dict[str, Any]]:
    """Run the exercise's cell, then read the arguments of its check."""
    with contextlib.chdir(_folder(source)):
        run_code(code, space, f"<{source.cells[0].id}>")
    tree = ast.parse(source.check.source)
    call = tree.body.pop()
    assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)  # the lesson parser saw to it
    space["check"] = _no_check
    run_code(ast.unparse(tree), space, f"<{source.check.id}>")
    given = eval(ast.unparse(call.value.args[1]), space)
    extra = {word.arg: eval(ast.unparse(word.value), space) for word in call.value.keywords if word.arg}
    return given, extra


def run_code(code: str, space: dict[str, Any], name: str) -> None:
    """Run a cell; its lines stay readable for `inspect`, as in a notebook."""
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    exec(compile(code, name, "exec"), space)


def _no_check(*_: Any, **__: Any) -> None:
    """What `check` means while an answer is made: nothing is judged or remembered."""
