"""Your own answers, carried forward: `engine = labkit.mine.of("tensor_autograd")`, then `engine.Tensor`.

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

from labkit import __version__, exercises, lane
from labkit.book import answers
from labkit.book.merge import Problem, graded_copy, read_learner
from labkit.book.notebook import digest, labkit_of, learner_notebook
from labkit.book.percent import Lesson
from labkit.book.source import Source, sources_of
from labkit.book.work import Work, here
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


def of(name: str, work: Work | None = None) -> Notebook:
    """The answers of a notebook: yours where they pass, the reference elsewhere.

    `name` is its topic, `tensor_autograd` for 02_tensor_autograd, or with its week where two weeks share one:
    `week02_autograd/03_in_pytorch`. `work` is whose answers; by default those of this course folder.
    """
    work = work or here()
    lesson = work.course.lesson(name)
    written = {} if lane.current().reference else _written(work.notebook(lesson), lesson)
    whose = "" if work == here() else f"_{digest(str(work.folder))[:8]}"  # several learners in one process
    space = answers.new_space(lesson, whose=whose)
    yours, reference, done = list[str](), list[str](), set[str]()
    with contextlib.chdir(work.course.root / lesson.path.parent):
        for source in sources_of(lesson):
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
    title = f"Week {lesson.week}, notebook {lesson.number:02d}"
    return Notebook(title, space, yours, reference)


def notebook(week: int, number: int) -> Notebook:
    """`of`, by number: how notebooks of the first release call it."""
    found = [x for x in here().course.of_week(week) if x.number == number]
    if not found:
        raise KeyError(f"week {week} has no notebook {number:02d}")
    return of(found[0].name)


@dataclass
class Written:
    """What a learner wrote for one exercise: the cells of the answer, and helper cells of their own above."""

    answer: str = ""
    helpers: list[str] = field(default_factory=list)


def _written(path: Path, lesson: Lesson) -> dict[str, Written]:
    """The answers in a learner's file that differ from the stub, by exercise."""
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


def _passes(source: Source, space: dict[str, Any], written: Written) -> bool:
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
