"""Your own answers, carried forward: `engine = labkit.mine.notebook(2, 2)`, then `engine.Tensor`.

A notebook's answers are made again from your file in weeks/, one exercise after another. Each is judged as
its check would judge it; one that does not pass is replaced by the reference, so that a missing piece never
blocks a later week. The object says which parts are yours.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from labkit import __version__, exercises, paths
from labkit.book import course
from labkit.book.merge import Problem, graded_copy, read_learner
from labkit.book.notebook import labkit_of, learner_notebook
from labkit.book.percent import Lesson
from labkit.grade import answers
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
    written = _written(root / "weeks" / found[0].parent.name / f"{found[0].stem}.ipynb", lesson)
    space: dict[str, Any] = {"__name__": "__main__"}
    yours: list[str] = []
    for source in answers.of_lesson(lesson):
        _run_setup(source, space)
        if source.id in written and _passes(source, space, written[source.id]):
            yours.append(source.id)
        else:
            answers.run_code(source.solution, space, f"<{source.cells[0].id}>")
    rest = [source.id for source in answers.of_lesson(lesson) if source.id not in yours]
    return Notebook(f"Week {week}, notebook {number:02d}", space, yours, rest)


def _written(path: Path, lesson: Lesson) -> dict[str, str]:
    """What the learner wrote, by exercise; helper cells of their own come in front of the answer below."""
    if os.environ.get("LABKIT_LANE") in ("build", "solutions"):
        return {}  # solution notebooks run on the reference, whatever stands in weeks/
    learner = read_learner(path)
    if isinstance(learner, Problem):
        return {}
    release = learner_notebook(lesson, __version__)
    stubs = {cell["id"]: cell["source"] for cell in release["cells"]}
    found: dict[str, str] = {}
    helpers: list[str] = []
    for cell in graded_copy(release, learner)["cells"]:
        role = labkit_of(cell).get("role", "helper")
        if role == "helper" and cell["cell_type"] == "code":
            helpers.append(cell["source"])
        if role == "exercise" and cell["source"] != stubs.get(cell["id"]):
            ex = labkit_of(cell)["ex"]
            found[ex] = "\n\n".join([*filter(None, [found.get(ex)]), *helpers, cell["source"]])
            helpers = []
    return found


def _run_setup(source: answers.Source, space: dict[str, Any]) -> None:
    for cell in source.before:
        if cell.role == "setup":
            answers.run_code(cell.source, space, f"<{cell.id}>")


def _passes(source: answers.Source, space: dict[str, Any], code: str) -> bool:
    """Whether the learner's cell runs and its check passes. Prints of the learner's are not repeated."""
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            answer, extra = answers.finish(source, space, code)
            return judge(exercises.get(source.id), answer, **extra).passed
    except Exception:
        return False
