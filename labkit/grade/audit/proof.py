"""Prove one exercise: what must pass passes, what must fail fails, and for the stated reason.

The stub is not started, the solution passes, every mistake is recognized by its own name, calling torch's
version is refused, and no mutant of the solution passes unless it is listed as equivalent.
"""

from __future__ import annotations

import math
import time
import tomllib
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from labkit import exercises
from labkit.book.answers import Source, finish, prepare
from labkit.exercises.declare import Exercise, Fix, Implement, Mistake, Predict, WriteTest
from labkit.grade import processes
from labkit.grade.audit.lint import lint
from labkit.grade.audit.mutants import Mutant, mutants
from labkit.grade.audit.mutants import sample as sample_of
from labkit.grade.judge import judge, ladder
from labkit.grade.judge.rules import broken_by_use, watched
from labkit.grade.judge.run import expected, to_engine
from labkit.verdict import Verdict, is_blank

EQUIVALENT = Path(exercises.__file__).parent / "equivalent.toml"
# For a test, only these changes are mutants: other inputs make another good test.
TEST_CHANGES = ("dropped", "condition", "comparison")


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
    equivalent: Path = EQUIVALENT


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
    space = prepare(source)
    _warm(exercise)
    # In a fork, so that mutants start from a process in which no answer has run.
    for _, found in processes.forked(
        [report], lambda blank: _prove_declared(blank, exercise, source, space), 300
    ):
        report = found if isinstance(found, Report) else _lost(report, found)
    if task.sample != 0:
        _prove_mutants(report, task, source, space)
    return report


def _warm(exercise: Exercise) -> None:
    """Ask the oracle once: what torch imports on the way, no mutant has to import again."""
    if isinstance(exercise, Implement):
        for case in exercise.cases:
            expected(exercise, case)


def _lost(report: Report, lost: processes.Lost) -> Report:
    report.problems.append(f"could not be proven: {lost.why}")
    return report


def _prove_declared(report: Report, exercise: Exercise, source: Source, space: dict[str, Any]) -> Report:
    report.problems += [*_stub_problems(exercise, source, space)]
    given, extra = finish(source, dict(space), source.solution)
    start = time.perf_counter()
    verdict = judge(exercise, given, **extra)
    report.seconds = time.perf_counter() - start
    if not verdict.passed:
        report.problems.append(f"the solution does not pass: {_said(verdict)}")
    wrong = [words for mistake in exercise.mistakes if (words := _mistake_problem(exercise, mistake))]
    report.mistakes, report.caught = len(exercise.mistakes), len(exercise.mistakes) - len(wrong)
    report.problems += wrong
    report.problems += _kind_problems(exercise, given)
    if isinstance(exercise, Implement):
        report.delegation, words = _delegation(exercise)
        report.problems += [words] if words else []
    problems = lint(exercise)
    report.lint = (
        f"{len(problems)} problems"
        if problems
        else f"{len(exercise.lint)} excused"
        if exercise.lint
        else "ok"
    )
    report.problems += problems
    return report


def _said(verdict: Verdict) -> str:
    return f"{verdict.status}: {verdict.headline}"


def _stub_problems(exercise: Exercise, source: Source, space: dict[str, Any]) -> Iterator[str]:
    try:
        given, extra = finish(source, dict(space), source.stub)
    except Exception as error:
        yield f"the stub's cell raises {type(error).__name__}; give it a `### STUB` that runs"
        return
    verdict = judge(exercise, given, **extra)
    if verdict.status != "not started":
        yield f"the stub is judged {_said(verdict)}"


# mistakes


def disguise(thing: Any, readable: bool = False) -> Any:
    """A copy of a declared function or class that looks like the learner's, its source hidden or not."""
    if isinstance(thing, types.FunctionType):
        code = thing.__code__ if readable else thing.__code__.replace(co_filename="<answer>")
        twin = types.FunctionType(
            code, thing.__globals__, thing.__name__, thing.__defaults__, thing.__closure__
        )
        twin.__kwdefaults__ = thing.__kwdefaults__
        twin.__module__ = "__main__"
        return twin
    if isinstance(thing, type):
        return type(thing)(thing.__name__, (thing,), {"__module__": "__main__"})
    return thing


def _mistake_problem(exercise: Exercise, mistake: Mistake) -> str | None:
    """What is wrong with the diagnosis of a mistake. Rules are off: a mistake may call what it imitates."""
    verdict = _judge_mistake(exercise, mistake)
    if verdict.passed:
        return f"mistake {mistake.name!r} passes"
    if verdict.mistake is None:
        return f"mistake {mistake.name!r} is not recognized: {_said(verdict)}"
    if verdict.mistake != mistake.name:
        return f"mistakes {mistake.name!r} and {verdict.mistake!r} cannot be told apart; add a case"
    if verdict.headline.endswith("..."):
        return f"mistake {mistake.name!r}: the message is cut: {verdict.headline}"
    return None


def _judge_mistake(exercise: Exercise, mistake: Mistake) -> Verdict:
    if isinstance(exercise, Predict):
        truths = {key: item.truth() for key, item in exercise.items.items()}
        return judge(exercise, {**truths, **mistake.wrong})
    if not isinstance(exercise, Implement):
        return judge(exercise, mistake.wrong)
    extra = {"fault": exercise.fault} if isinstance(exercise, Fix) else {}
    rules = replace(exercise.rules, forbids=(), allows=None, loops=True)
    return judge(replace(exercise, rules=rules), disguise(mistake.wrong), **extra)


# what each kind must refuse


def _kind_problems(exercise: Exercise, solution: Any) -> Iterator[str]:
    if isinstance(exercise, Fix):
        yield from _fix_problems(exercise, solution)
    if isinstance(exercise, Predict):
        wrong = {key: "no such answer" for key in exercise.items}
        for mistake in exercise.mistakes:
            wrong.update(mistake.wrong)
        if judge(exercise, wrong).passed:
            yield "predictions that are all wrong pass"
    if isinstance(exercise, WriteTest):
        if judge(exercise, _asserts_nothing).passed:
            yield "a test that asserts nothing passes"
        if judge(exercise, _always_fails).passed:
            yield "a test that always fails passes"


def _asserts_nothing(implementation: Any) -> None:
    pass


def _always_fails(implementation: Any) -> None:
    raise AssertionError


def _fix_problems(exercise: Fix, solution: Any) -> Iterator[str]:
    broken = disguise(exercise.broken)
    unnamed = judge(exercise, broken, fault=None)
    if unnamed.status != "not started":
        yield f"the broken code, unnamed, is judged {_said(unnamed)}"
    if judge(exercise, broken, fault=exercise.fault).passed:
        yield "the broken code passes once its fault is named"
    for choice, sentence in exercise.menu.items():
        if choice == exercise.fault:
            continue
        verdict = judge(exercise, solution, fault=choice)
        if verdict.passed or not sentence or sentence not in verdict.lines:
            yield f"the wrong choice {choice!r} is not refused with its sentence: {_said(verdict)}"


def _delegation(exercise: Implement) -> tuple[str, str | None]:
    """(word for the table, problem or None): an answer that hands the work to torch must be refused."""
    if "delegation" in exercise.lint:
        return "allowed", None
    with watched() as used:
        for case in exercise.cases:
            expected(exercise, case)
    if exercise.delegate is None and not used:
        return "-", None  # the oracle is plain Python: there is nothing to hand the work to
    if exercise.delegate is None and exercise.use is not None:
        refused = broken_by_use(used, exercise.rules) is not None
        verdict = None
    else:
        extra = {"fault": exercise.fault} if isinstance(exercise, Fix) else {}
        verdict = judge(exercise, disguise(exercise.delegate, readable=True) or _wrapped(exercise), **extra)
        refused = verdict.status == "rule"
    if refused:
        return "refused", None
    names = ", ".join(sorted(used))
    said = f" ({_said(verdict)})" if verdict else ""
    return "PASSES", f"an answer that calls torch's own version is not refused{said}; forbid some of: {names}"


def _wrapped(exercise: Implement) -> Callable[..., Any]:
    """An answer that turns its inputs into torch tensors, if need be, and asks the oracle."""
    if exercise.engine in ("torch", "python"):
        return disguise(exercise.oracle)

    def delegated(*inputs: Any) -> Any:
        plain = {str(place): _to_numpy(value) for place, value in enumerate(inputs)}
        return exercise.oracle(*to_engine(plain, "torch").values())

    return disguise(delegated)


def _to_numpy(value: Any) -> Any:
    return value.detach().numpy() if hasattr(value, "detach") else value


# mutants


@cache
def equivalent_mutants(path: Path = EQUIVALENT) -> dict[str, list[tuple[str, str]]]:
    """(before, after) of the mutants that were reviewed and do the same as the solution, by exercise."""
    listed = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for key, entries in listed.items():
        for entry in entries:
            if set(entry) != {"before", "after", "reason"} or not entry["reason"].strip():
                raise ValueError(f"{path.name}: {key}: an entry needs before, after and reason")
    return {key: [(entry["before"], entry["after"]) for entry in entries] for key, entries in listed.items()}


def mutants_of(exercise: Exercise, source: Source) -> list[Mutant]:
    found = mutants(source.solution)
    if isinstance(exercise, WriteTest):
        return [mutant for mutant in found if mutant.change in TEST_CHANGES]
    if isinstance(exercise, Predict):  # how sure one is cannot be wrong
        return [mutant for mutant in found if not mutant.before.startswith("sure =")]
    return found


def _prove_mutants(report: Report, task: Task, source: Source, space: dict[str, Any]) -> None:
    exercise, every = task.exercise, mutants_of(task.exercise, source)
    chosen = every
    if task.sample is not None:
        chosen = [mutant for _, mutant in sample_of([("", m) for m in every], task.sample, task.seed)]
    known = equivalent_mutants(task.equivalent).get(exercise.id, [])
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
        report.problems += [f"stale in {task.equivalent.name}: {a}  ->  {b}" for a, b in stale]


def survives(exercise: Exercise, source: Source, space: dict[str, Any], mutant: Mutant) -> bool:
    """Whether the check would pass a mutant."""
    try:
        given, extra = finish(source, space, mutant.code)
    except Exception:  # its cell does not run
        return False
    if not isinstance(exercise, Implement):
        return judge(exercise, given, **extra).passed
    named = not isinstance(exercise, Fix) or extra.get("fault") == exercise.fault
    return named and not is_blank(given) and ladder.passes(exercise, given)
