"""What there is to grade: every lesson with its learner's file, and the graded copy made of the two.

The release is made from the lesson's source on the spot; of the learner's file only the answers and the cells
of their own are used. Nothing is written here.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit import __version__
from labkit.book.merge import Problem, graded_copy, read_learner
from labkit.book.notebook import Cell, Notebook, digest, labkit_of, learner_notebook, make_cell
from labkit.book.percent import Lesson
from labkit.book.work import Work
from labkit.grade.lanes.steps import NOTHING_YET, Step
from labkit.verdict import Verdict

PREPARE = "from labkit.grade.lanes.first_cell import prepare\nprepare()\ndel prepare"
FRESH_CHECK = "from labkit.grade.lanes.first_cell import check\n"


@dataclass(frozen=True)
class Paper:
    """One notebook to grade. `settled` has the verdicts that need no process; if it has all, `copy` is None.

    `answers` has a digest of each answer, by exercise: what changed between two looks at a notebook.
    """

    path: Path  # the learner's file
    work: Work  # whose it is
    exercises: tuple[str, ...]
    copy: Notebook | None
    settled: dict[str, Verdict]
    answers: dict[str, str] = field(default_factory=dict)
    note: str | None = None


def papers(work: Work, week: int | None = None, ex: str | None = None) -> list[Paper]:
    """The notebooks of a learner (of one week, of one exercise), in course order."""
    lessons = [lesson for lesson in work.course.of_week(week) if lesson.exercises]
    return [paper(work, lesson, ex) for lesson in lessons if ex is None or ex in lesson.exercises]


def paper(
    work: Work,
    lesson: Lesson,
    ex: str | None = None,
    shortcut: bool = True,
    learner: Notebook | Problem | None = None,
    path: Path | None = None,
) -> Paper:
    """Put a lesson and a learner's file together. `shortcut`: what comes after the last answer is not run.

    `learner` is what the file will hold once it is saved, by default what it holds; `path` is where it is, if
    it is a copy under another name.
    """
    path = path or work.notebook(lesson)
    exercises = lesson.exercises
    asked = exercises if ex is None else (ex,)
    learner = read_learner(path) if learner is None else learner
    if isinstance(learner, Problem):
        status = "not started" if learner.kind == "missing" else "error"
        settled = {item: Verdict(item, status, learner.sentence) for item in asked}
        return Paper(path, work, asked, None, settled, note=learner.sentence)
    release = learner_notebook(lesson, __version__)
    copy = graded_copy(release, learner)
    begun = _begun(release, copy) if shortcut else exercises
    settled = {item: Verdict(item, "not started", NOTHING_YET) for item in asked if item not in begun}
    graded = None if len(settled) == len(asked) else _with_steps(copy, release, lesson, path, ex or begun[-1])
    return Paper(path, work, asked, graded, settled, _answers(copy))


def steps(copy: Notebook) -> list[Step]:
    """The code cells of a graded copy, as the lanes run them."""
    return [step(cell) for cell in copy["cells"] if cell["cell_type"] == "code"]


def step(cell: Cell | Any) -> Step:
    meta = labkit_of(cell)
    return Step(
        cell["id"],
        meta.get("role", "helper"),
        cell["source"],
        meta.get("ex"),
        binds=tuple(meta.get("binds", ())),
        untouched=meta.get("untouched", False),
        seconds=meta.get("seconds"),
        gib=meta.get("gib"),
    )


def _answers(copy: Notebook) -> dict[str, str]:
    found: dict[str, str] = {}
    for cell in copy["cells"]:
        meta = labkit_of(cell)
        if meta.get("role") == "exercise":
            found[meta["ex"]] = found.get(meta["ex"], "") + digest(cell["source"])
    return found


def _begun(release: Notebook, copy: Notebook) -> tuple[str, ...]:
    """The exercises up to the last code that the learner wrote, in an answer or in a cell of their own."""
    released = {cell["id"]: digest(cell["source"]) for cell in release["cells"]}
    checked, begun, written = list[str](), 0, False
    for cell in copy["cells"]:
        if labkit_of(cell).get("role") == "check":
            checked.append(labkit_of(cell)["ex"])
            begun = len(checked) if written else begun
            written = False
        elif cell["cell_type"] == "code" and cell["source"].strip():
            written = written or digest(cell["source"]) != released.get(cell["id"])
    return tuple(checked[:begun])


def _with_steps(copy: Notebook, release: Notebook, lesson: Lesson, path: Path, last: str) -> Notebook:
    """Add what grading needs: a first cell that sets limits, checks nobody can shadow, a way to recover.

    The copy ends with the check of the exercise `last`.
    """
    cells = [_code("labkit-prepare", PREPARE, role="prepare")]
    released = {cell["id"]: digest(cell["source"]) for cell in release["cells"]}
    for cell in copy["cells"]:
        meta = labkit_of(cell)
        cell["metadata"].pop("tags", None)
        if meta.get("role") == "exercise":
            meta["binds"] = _names(_reference(lesson, meta["ex"]))
            meta["untouched"] = digest(cell["source"]) == released.get(cell["id"])
        if meta.get("role") in ("exercise", "check"):
            meta.update(_limits(meta["ex"]))
        if meta.get("role") != "check":
            cells.append(cell)
            continue
        cells.append({**cell, "source": FRESH_CHECK + cell["source"]})
        if meta["ex"] == last:
            break
        recover = _reference(lesson, meta["ex"])
        cells.append(_code(f"{cell['id'][:54]}-recover", recover, role="recover", ex=meta["ex"]))
    labkit = {**copy["metadata"]["labkit"], "folder": str(path.parent.resolve())}
    return {**copy, "cells": cells, "metadata": {**copy["metadata"], "labkit": labkit}}


def _limits(ex: str) -> dict[str, float]:
    """What an exercise says of its own time and memory."""
    from labkit import exercises

    declared = exercises.get(ex) if ex in exercises.all_ids() else None
    found = {"seconds": declared.seconds, "gib": declared.gib} if declared else {}
    return {name: value for name, value in found.items() if value is not None}


def _code(id: str, source: str, **labkit: str) -> Cell:
    return make_cell("code", source, id, {"labkit": labkit})


def _reference(lesson: Lesson, ex: str) -> str:
    return "\n\n".join(cell.source for cell in lesson.cells if cell.role == "exercise" and cell.ex == ex)


def _names(source: str) -> list[str]:
    """Names that a reference binds at the top level, except those it also reads (it may build on them)."""
    tree = ast.parse(source)
    bound: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign):
            bound.update(target.id for target in node.targets if isinstance(target, ast.Name))
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return sorted(bound - {name.id for name in names if isinstance(name.ctx, ast.Load)})
