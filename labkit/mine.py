"""Your own answers, carried forward: `engine = labkit.mine.notebook(2, 2)`, then `engine.Tensor`.

A notebook's answers are made again from your saved file in weeks/, one exercise after another. Each is
judged as its check would judge it; one that does not pass is replaced by the reference, so that a missing
piece never blocks a later week. The object says which parts are yours. Only code counts as a part:
predictions and measurements build nothing.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit import __version__, exercises, paths
from labkit.book import answers, course
from labkit.book.build import learner_path
from labkit.book.merge import Problem, graded_copy, read_learner
from labkit.book.notebook import labkit_of, learner_notebook
from labkit.book.percent import Lesson
from labkit.grade.judge import judge


class Notebook:
    """The names that one notebook defines; `yours` and `reference` say where each exercise came from."""

    def __init__(self, title: str, space: dict[str, Any], yours: list[str], reference: list[str]) -> None:
        self._title, self._space = title, space
        self.yours, self.reference = tuple(yours), tuple(reference)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._space:
            raise AttributeError(f"{self._title} defines no {name!r}")
        return self._space[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self._space if not name.startswith("_"))]

    def __repr__(self) -> str:
        lines = [
            f"{self._title}: {len(self.yours)} of {len(self.yours) + len(self.reference)} parts are yours."
        ]
        if self.yours:
            lines.append(f"  yours: {', '.join(self.yours)}")
        if self.reference:
            lines.append(f"  from the reference: {', '.join(self.reference)}")
        return "\n".join(lines)


def notebook(week: int, number: int) -> Notebook:
    """The answers of notebook `number` of a week: yours where they pass, the reference elsewhere."""
    root = paths.root()
    found = [path for path in course.lesson_paths(root, week) if path.stem.startswith(f"{number:02d}_")]
    if not found:
        raise KeyError(f"week {week} has no notebook {number:02d}")
    lesson = course.read_lesson(root, found[0])
    written = _written(learner_path(root, lesson), lesson)
    space: dict[str, Any] = {"__name__": "__main__"}
    yours, reference, done = list[str](), list[str](), set[str]()
    for source in answers.of_lesson(lesson):
        for cell in source.before:
            if cell.role == "setup" and cell.id not in done:
                answers.run_code(cell.source, space, f"<{cell.id}>")
                done.add(cell.id)
        is_code = exercises.get(source.id).builds  # predictions and measurements build nothing
        if is_code and source.id in written and _passes(source, space, written[source.id]):
            yours.append(source.id)
        else:
            answers.run_code(source.solution, space, f"<{source.cells[0].id}>")
            reference += [source.id] if is_code else []
    return Notebook(f"Week {week}, notebook {number:02d}", space, yours, reference)


@dataclass
class Written:
    """What a learner wrote for one exercise: the cells of the answer, and helper cells of their own above."""

    answer: str = ""
    helpers: list[str] = field(default_factory=list)


def _written(path: Path, lesson: Lesson) -> dict[str, Written]:
    """The answers in a learner's file that differ from the stub, by exercise."""
    if os.environ.get("LABKIT_LANE") in ("build", "solutions"):
        return {}  # solution notebooks run on the reference, whatever stands in weeks/
    learner = read_learner(path)
    if isinstance(learner, Problem):
        return {}
    release = learner_notebook(lesson, __version__)
    stubs = {cell["id"]: cell["source"] for cell in release["cells"]}
    found: dict[str, Written] = {}
    helpers: list[str] = []
    for cell in graded_copy(release, learner)["cells"]:
        role = labkit_of(cell).get("role", "helper")
        if role == "helper" and cell["cell_type"] == "code":
            helpers.append(cell["source"])
        if role == "exercise" and cell["source"] != stubs.get(cell["id"]):
            mine = found.setdefault(labkit_of(cell)["ex"], Written())
            mine.answer = "\n\n\n".join(filter(None, [mine.answer, cell["source"]]))
            mine.helpers += helpers
            helpers = []
    return found


def _passes(source: answers.Source, space: dict[str, Any], written: Written) -> bool:
    """Whether the learner's cells run and the check passes; names that were there before survive a failure.

    What the learner prints is not repeated. A helper cell that fails may still have defined what is needed.
    """
    before = dict(space)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        for number, code in enumerate(written.helpers):
            with contextlib.suppress(Exception, SystemExit):
                answers.run_code(code, space, f"<{source.cells[0].id}-helper-{number}>")
        try:
            answer, extra = answers.finish(source, space, written.answer)
            passed = judge(exercises.get(source.id), answer, **extra).passed
        except (Exception, SystemExit):
            passed = False
    if not passed:
        space.update(before)
    return passed
