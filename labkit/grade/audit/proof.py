"""Prove one exercise: what must pass passes, what must fail fails, and for the stated reason.

The stub is not started, the solution passes, every mistake is recognized by its own name, calling torch's
version is refused, and no mutant of the solution passes unless it is listed as equivalent.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.book.answers import finish, new_space, prepare
from labkit.book.source import Source
from labkit.exercises.declare import Exercise, Mistake
from labkit.grade import processes
from labkit.grade.audit.lint import lint
from labkit.grade.audit.mutants import Mutant, mutants
from labkit.grade.audit.mutants import sample as sample_of
from labkit.grade.judge import judge, kinds
from labkit.verdict import Verdict


@dataclass
class Report:
    """What the audit found out about one exercise. It is proven if there are no problems."""

    id: str
    kind: str
    cases: int = 0
    mistakes: int = 0
    caught: int = 0
    mutants: int = 0
    killed: int = 0
    equivalent: int = 0
    delegation: str = "-"
    lint: str = "ok"
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """One exercise to prove. `sample`: how many of its mutants to try, None for all of them."""

    exercise: Exercise
    source: Source | None
    sample: int | None = None
    seed: int = 0
    folder: Path | None = None  # where its notebook runs


def prove(task: Task) -> Report:
    """Run everything about one exercise; call it in a process that may be thrown away."""
    exercise, source = task.exercise, task.source
    report = Report(
        exercise.id, exercise.kind, len(getattr(exercise, "cases", getattr(exercise, "items", ())))
    )
    if source is None:
        report.problems.append("stands in no lesson, so its solution cannot be tried")
        return report
    processes.one_thread()
    if task.folder is not None:
        os.chdir(task.folder)
    space = prepare(source)
    kinds.of(exercise).warm(exercise)
    # In a fork, so that mutants start from a process in which no answer has run.
    for _, found in processes.forked(
        [report], lambda blank: _prove_declared(blank, exercise, source, space), 300
    ):
        report = found if isinstance(found, Report) else _lost(report, found)
    if task.sample != 0:
        _prove_mutants(report, task, source, space)
    return report


def _lost(report: Report, lost: processes.Lost) -> Report:
    report.problems.append(f"could not be proven: {lost.why}")
    return report


def _prove_declared(report: Report, exercise: Exercise, source: Source, space: dict[str, Any]) -> Report:
    report.problems += [*_stub_problems(exercise, source, space)]
    given, extra = finish(source, new_space(source.lesson, space), source.solution)
    start = time.perf_counter()
    verdict = judge(exercise, given, **extra)
    report.seconds = time.perf_counter() - start
    if not verdict.passed:
        report.problems.append(f"the solution does not pass: {verdict.said}")
    wrong = [words for mistake in exercise.mistakes if (words := _mistake_problem(exercise, mistake))]
    report.mistakes, report.caught = len(exercise.mistakes), len(exercise.mistakes) - len(wrong)
    report.problems += wrong
    report.problems += kinds.of(exercise).must_fail(exercise, given)
    report.delegation, words = kinds.of(exercise).delegation(exercise)
    report.problems += [words] if words else []
    problems = lint(exercise)
    if any("TODO" in text for text in (*source.text, source.stub)):
        problems.append("its cells in the lesson still say TODO")
    report.lint = (
        f"{len(problems)} problems"
        if problems
        else f"{len(exercise.excused)} excused"
        if exercise.excused
        else "ok"
    )
    report.problems += problems
    return report


def _stub_problems(exercise: Exercise, source: Source, space: dict[str, Any]) -> Iterator[str]:
    try:
        given, extra = finish(source, new_space(source.lesson, space), source.stub)
    except Exception as error:
        yield f"the stub's cell raises {type(error).__name__}; give it a `### STUB` that runs"
        return
    verdict = judge(exercise, given, **extra)
    if verdict.status != "not started":
        yield f"the stub is judged {verdict.said}"


# mistakes


def _mistake_problem(exercise: Exercise, mistake: Mistake) -> str | None:
    """What is wrong with the diagnosis of a mistake. Rules are off: a mistake may call what it imitates."""
    verdict = judge_mistake(exercise, mistake)
    if verdict.passed:
        return f"mistake {mistake.name!r} passes"
    if verdict.mistake is None:
        return f"mistake {mistake.name!r} is not recognized: {verdict.said}"
    if verdict.mistake != mistake.name:
        return f"mistakes {mistake.name!r} and {verdict.mistake!r} cannot be told apart; add a case"
    if verdict.headline.endswith("..."):
        return f"mistake {mistake.name!r}: the message is cut: {verdict.headline}"
    return None


def judge_mistake(exercise: Exercise, mistake: Mistake) -> Verdict:
    """What is said to a declared mistake when somebody hands it in."""
    kind = kinds.of(exercise)
    answer, extra = kind.wrong_answer(exercise, mistake)
    return judge(kind.without_rules(exercise), answer, **extra)


# mutants


def mutants_of(exercise: Exercise, source: Source) -> list[Mutant]:
    chosen: list[Mutant] = kinds.of(exercise).mutants(exercise, mutants(source.solution))
    return chosen


def _prove_mutants(report: Report, task: Task, source: Source, space: dict[str, Any]) -> None:
    exercise, every = task.exercise, mutants_of(task.exercise, source)
    chosen = every
    if task.sample is not None:
        chosen = [mutant for _, mutant in sample_of([("", m) for m in every], task.sample, task.seed)]
    known = [(same.before, same.after) for same in exercise.equivalent]
    same = Mutant(0, "none", "", "", source.solution)  # must survive, or nothing is proven
    enough = min(2 + 10 * report.seconds, exercise.seconds or math.inf)
    survived = {
        mutant
        for mutant, passed in processes.forked(
            [same, *chosen],
            lambda mutant: survives(exercise, source, space, mutant),
            10 * enough,
            cpu=enough,
            gib=exercise.gib,
        )
        if passed is True
    }
    if same not in survived:
        report.problems.append("the solution itself does not survive as a mutant; nothing is proven")
    pairs = {(mutant.before, mutant.after): mutant for mutant in chosen if mutant in survived}
    report.mutants = len(chosen)
    report.equivalent = sum((m.before, m.after) in known for m in chosen if m in survived)
    report.killed = sum(mutant not in survived for mutant in chosen)
    report.problems += [f"survives: {mutant}" for pair, mutant in pairs.items() if pair not in known]
    if task.sample is None:
        stale = [pair for pair in known if pair not in pairs]
        report.problems += [f"stale in `equivalent`: {a}  ->  {b}" for a, b in stale]


def survives(exercise: Exercise, source: Source, space: dict[str, Any], mutant: Mutant) -> bool:
    """Whether the check would pass a mutant."""
    try:
        given, extra = finish(source, space, mutant.code)
    except Exception:  # its cell does not run
        return False
    passed: bool = kinds.of(exercise).survives(exercise, given, **extra)
    return passed
