"""`python -m labkit audit --texts FILE`: every verdict that the audit knows how to bring about, as JSON.

Two versions of the grader or of the declarations say the same if they write the same file: `git diff
--no-index before.json after.json`. In a mistake that raises, "line 12" is a line of its declaration.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labkit.book.answers import finish, new_space, prepare
from labkit.grade import processes
from labkit.grade.audit.lint import lint
from labkit.grade.audit.proof import Task, judge_mistake
from labkit.grade.judge import judge, kinds

ABOUT = ("kind", "title", "minutes", "needs", "also", "hints", "passed")


def write(tasks: Sequence[Task], path: Path, seconds: float) -> list[str]:
    """Write what is said about each exercise, by id in the order of `tasks`; return what went wrong."""
    found: dict[str, Any] = {task.exercise.id: None for task in tasks}
    problems = []
    for task, result in processes.forked(tasks, texts, seconds, processes.cores()):
        found[task.exercise.id] = result if isinstance(result, dict) else None
        if not isinstance(result, dict):
            problems.append(f"{task.exercise.id}: could not be judged: {result.why}")
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return problems


def texts(task: Task) -> dict[str, Any]:
    """Everything that is said about one exercise; call it in a process that may be thrown away."""
    processes.one_thread()
    exercise, source, kind = task.exercise, task.source, kinds.of(task.exercise)
    found: dict[str, Any] = {name: getattr(exercise, name) for name in ABOUT}
    found |= {"lint": lint(exercise), "texts": kind.texts(exercise), "verdicts": {}}
    if source is None:
        return found
    if task.folder is not None:
        os.chdir(task.folder)
    space = prepare(source)
    for name, code in (("stub", source.stub), ("solution", source.solution)):
        given, extra = finish(source, new_space(source.lesson, space), code)
        found["verdicts"][name] = judge(exercise, given, **extra).record()
    for mistake in exercise.mistakes:
        found["verdicts"][f"mistake {mistake.name}"] = judge_mistake(exercise, mistake).record()
    found["must fail"] = list(kind.must_fail(exercise, given))
    found["delegation"] = kind.delegation(exercise)
    return found
