"""`python -m labkit audit --texts FILE`: every verdict that the audit knows how to bring about, as JSON.

Two versions of the grader or of the declarations say the same if they write the same file: `git diff
--no-index before.json after.json`. In a mistake that raises, "line 12" is a line of its declaration.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from labkit.book.answers import finish, new_space, prepare
from labkit.exercises.declare import Exercise, Fix, Implement, Predict, WriteTest
from labkit.grade import processes
from labkit.grade.audit import proof
from labkit.grade.audit.lint import lint
from labkit.grade.audit.proof import Task, disguise
from labkit.grade.judge import judge
from labkit.verdict import Verdict

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
    about = {name: getattr(task.exercise, name) for name in ABOUT}
    verdicts = {name: verdict.record() for name, verdict in _verdicts(task)}
    return {"about": about, "lint": lint(task.exercise), "verdicts": verdicts}


def _verdicts(task: Task) -> Iterator[tuple[str, Verdict]]:
    exercise, source = task.exercise, task.source
    if source is None:
        return
    space = prepare(source)
    given, extra = finish(source, new_space(source.lesson, space), source.stub)
    yield "stub", judge(exercise, given, **extra)
    given, extra = finish(source, new_space(source.lesson, space), source.solution)
    yield "solution", judge(exercise, given, **extra)
    for mistake in exercise.mistakes:
        yield f"mistake {mistake.name}", proof.judge_mistake(exercise, mistake)
    yield from _of_its_kind(exercise, given)


def _of_its_kind(exercise: Exercise, solution: Any) -> Iterator[tuple[str, Verdict]]:
    if isinstance(exercise, Fix):
        broken = disguise(exercise.broken)
        yield "broken, unnamed", judge(exercise, broken, fault=None)
        yield "broken, named", judge(exercise, broken, fault=exercise.fault)
        for choice in exercise.menu:
            yield f"fault {choice}", judge(exercise, solution, fault=choice)
    if isinstance(exercise, Predict):
        yield "all wrong", judge(exercise, proof.all_wrong(exercise))
    if isinstance(exercise, WriteTest):
        yield "asserts nothing", judge(exercise, proof.asserts_nothing)
        yield "always fails", judge(exercise, proof.always_fails)
    if isinstance(exercise, Implement) and (exercise.delegate is not None or exercise.use is None):
        yield "delegate", proof.judge_delegate(exercise)
