"""Make answers as a notebook makes them, from the cells of a lesson.

Setup cells first, then the solutions of the exercises above, the answer's own cell, and the arguments of its
check cell. Demo cells are left out. Names live in a real module, one per notebook, because pickle and torch's
compiler look a function's module up. Call it in the notebook's folder: data files are named from there.
"""

from __future__ import annotations

import ast
import linecache
import sys
import types
from collections.abc import Mapping
from typing import Any

from labkit.book.percent import Lesson
from labkit.book.source import Source

WHOSE = "__whose__"  # in a module that stands for a notebook: "" if there is but one learner


def answer(source: Source, code: str | None = None) -> tuple[Any, dict[str, Any]]:
    """What the check cell passes to `check`: the answer, and what goes beside it (`fault=`, `sure=`).

    `code` stands in for the solution in the exercise's own cell: a stub, or a mutant.
    """
    return finish(source, prepare(source), source.solution if code is None else code)


def prepare(source: Source) -> dict[str, Any]:
    """The names that a notebook has when it reaches the exercise."""
    space = new_space(source.lesson)
    for cell in source.before:
        run_code(cell.source, space, f"<{cell.id}>")
        space["check"] = _no_check
    return space


def new_space(lesson: Lesson, names: Mapping[str, Any] | None = None, whose: str = "") -> dict[str, Any]:
    """The names of a new module that stands for a lesson's notebook, with `names` in it to begin with.

    `whose` tells the notebooks of several learners apart.
    """
    module = types.ModuleType(f"notebook_{lesson.folder}_{lesson.path.stem}{whose}")
    space = vars(module)
    space.update(names or {})
    space[WHOSE] = whose
    sys.modules[module.__name__] = module
    return space


def finish(source: Source, space: dict[str, Any], code: str) -> tuple[Any, dict[str, Any]]:
    """Run the exercise's cell, then read the arguments of its check."""
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
    name += space.get(WHOSE, "")
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    exec(compile(code, name, "exec"), space)


def _no_check(*_: Any, **__: Any) -> None:
    """What `check` means while an answer is made: nothing is judged or remembered."""
