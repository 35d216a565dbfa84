"""Write a CUDA kernel. It is stepped without a GPU, thread by thread, under several orders of the threads.

error -> rule -> hazard -> type -> shape -> dtype -> values -> memory -> extremes -> cost -> pass

A hazard comes before values: threads run one at a time here, so a race may well give the right numbers.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.exercises.declare import Case, Kernel, Limit, Mistake
from labkit.grade.judge import ladder, rules, trials
from labkit.grade.judge.compare import Difference, compare, same
from labkit.grade.judge.disguise import disguise
from labkit.grade.judge.kinds.usual import delegation, mutants, remember  # noqa: F401
from labkit.grade.judge.ladder import Problem
from labkit.grade.judge.run import expected, quiet
from labkit.text import plural
from labkit.verdict import STATUSES, Verdict, hint_line, is_blank, not_started, wrapped

if TYPE_CHECKING:  # the stepper brings its pictures along: only those who judge a kernel wait for it
    from labkit.simt import Finding, Report

COUNTED = (
    *(f"{space} {deed}" for space in ("global", "shared") for deed in ("reads", "writes", "atomics")),
    *("barriers", "int operations", "float32 operations", "float64 operations", "shared bytes"),
)
ACCESSES = 500_000  # in one run; a kernel of an exercise makes a few thousand
# What the stepper may find, in words for a headline. The rest of its errors do not run at all.
HAZARDS = {
    "out of bounds": "an index on line {line} is out of bounds.",
    "divergent": "not all threads of a block come to the barrier on line {line}.",
    "race": "two threads meet on one element, at least one to write (line {line}).",
    "uninitialized": "line {line} reads memory that no thread has written.",
    "division": "line {line} divides by zero.",
    "order": "the result depends on the order in which the threads run.",
}


def judge(exercise: Kernel, answer: Any) -> Verdict:
    """Step the kernel on every case and climb the ladder."""
    from labkit.simt.source import python_function

    if is_blank(answer):
        return not_started(exercise, "nothing here yet.")
    kernel = python_function(answer)
    if kernel is None:
        words = f"the answer is {type(answer).__name__}; a kernel, that is a function, is wanted."
        return Verdict(exercise.id, "type", words, (hint_line(exercise),))
    attempt = trial(exercise, kernel)
    if _is_stub(kernel, attempt):
        return not_started(exercise, "the kernel still reaches `raise NotImplementedError`.")
    problem = _first_problem(exercise, kernel, attempt)
    if problem is None:
        return _passed(exercise, attempt)
    mistake = None if problem.status == "rule" else _recognize(exercise, attempt)
    return ladder.explained(exercise, problem, mistake, _again(exercise, kernel, problem.case))


# running it


@dataclass
class Stepped:
    """What a kernel did with one case. `error`: it could not be stepped at all, and the rest is empty."""

    error: Exception | None = None
    report: Report | None = None
    value: Any = None
    changed: tuple[str, ...] = ()
    unwritten: dict[str, int] = field(default_factory=dict)  # NaN that is still there, by output
    exceeded: tuple[str, ...] = ()  # limits, by what they count

    def found(self, exercise: Kernel) -> list[Finding]:
        """Errors, and the slow accesses that this exercise refuses."""
        findings = self.report.findings if self.report else []
        return [f for f in findings if f.severity == "error" or f.kind in exercise.refuses]

    def kinds(self, exercise: Kernel) -> set[str]:
        return {finding.kind for finding in self.found(exercise)}


def trial(exercise: Kernel, kernel: Any) -> list[Stepped]:
    return [_step(exercise, kernel, case) for case in exercise.cases]


def inputs(exercise: Kernel, case: Case) -> dict[str, Any]:
    """All arguments of the kernel in its order: fresh inputs, and outputs that nobody has written yet."""
    given = case.inputs(exercise.id, exercise.dtype)
    every = given | {name: make(*given.values()) for name, make in exercise.outputs.items()}
    return {name: every[name] for name in exercise.takes or every}


def _launch(exercise: Kernel, case: Case) -> tuple[Any, Any]:
    return exercise.launch(*case.inputs(exercise.id, exercise.dtype).values())


def _step(exercise: Kernel, kernel: Any, case: Case) -> Stepped:
    from labkit import simt

    arguments, (grid, block) = inputs(exercise, case), _launch(exercise, case)
    before = {name: value.copy() for name, value in arguments.items() if isinstance(value, np.ndarray)}
    try:
        report = simt.check(
            kernel, grid, block, *arguments.values(), schedules=exercise.schedules, limit=ACCESSES
        )
    except (TypeError, ValueError) as error:  # the stepper's own words: what it cannot launch, and why
        return Stepped(error)
    outputs = tuple(arguments[name] for name in exercise.outputs)
    changed = [
        n for n in before if n not in exercise.outputs and arguments[n].tobytes() != before[n].tobytes()
    ]
    blank = {n: int(np.isnan(arguments[n]).sum()) for n in exercise.outputs if arguments[n].dtype.kind == "f"}
    over = [limit.counted for limit in exercise.limits if _over(exercise, case, limit, report)]
    value = outputs[0] if len(outputs) == 1 else outputs
    return Stepped(None, report, value, tuple(changed), blank, tuple(over))


def _counted(limit: Limit, report: Report) -> int:
    if limit.counted == "shared bytes":
        return report.shared_bytes
    counts = report.per_thread.get(limit.counted)
    if counts is None or not counts.size:
        return 0
    return int({"thread": counts.max, "block": counts.sum(1).max, "grid": counts.sum}[limit.per]())


def _over(exercise: Kernel, case: Case, limit: Limit, report: Report) -> bool:
    return _counted(limit, report) > limit.of(case.inputs(exercise.id, exercise.dtype))


def _is_stub(kernel: Any, attempt: list[Stepped]) -> bool:
    """Whether its own `raise NotImplementedError` was reached; that of a helper above is an error."""
    findings = [f for stepped in attempt if stepped.report for f in stepped.report.findings]
    reached = any(f.kind == "exception" and "NotImplementedError" in f.message for f in findings)
    return reached and "NotImplementedError" in inspect.getsource(kernel)


# the ladder

Judged = list[tuple[Case, Stepped]]


def _first_problem(exercise: Kernel, kernel: Any, attempt: list[Stepped]) -> Problem | None:
    judged = list(zip(exercise.cases, attempt, strict=True))
    ordinary = [item for item in judged if not item[0].extreme]
    extreme = [item for item in judged if item[0].extreme]
    return (
        _errors(exercise, judged)
        or _rules(exercise, kernel)
        or _hazards(exercise, judged)
        or _values(exercise, ordinary)
        or _memory(judged)
        or _extremes(exercise, extreme)
        or _cost(exercise, judged)
    )


def _errors(exercise: Kernel, judged: Judged) -> Problem | None:
    for case, stepped in judged:
        if stepped.error is not None:
            return Problem("error", "the kernel cannot be launched:", wrapped(str(stepped.error)), case)
        for finding in stepped.found(exercise):
            if finding.severity == "error" and finding.kind not in HAZARDS:
                return Problem("error", f"line {finding.line} stops it:", _told(finding), case)
    return None


def _rules(exercise: Kernel, kernel: Any) -> Problem | None:
    sentence = rules.broken_by_source(kernel, exercise.rules)
    return Problem("rule", sentence) if sentence else None


def _hazards(exercise: Kernel, judged: Judged) -> Problem | None:
    for case, stepped in judged:
        for finding in stepped.found(exercise):
            if finding.kind in HAZARDS:
                return Problem(
                    "hazard", HAZARDS[finding.kind].format(line=finding.line), _told(finding), case
                )
    return None


def _told(finding: Finding) -> tuple[str, ...]:
    """What the stepper saw, with thread and line; then what to do about it."""
    message = finding.message[:1].upper() + finding.message[1:]
    stop = "" if message.endswith((".", "?")) else "."
    return *wrapped(message + stop), *wrapped(finding.advice)


def _values(exercise: Kernel, judged: Judged) -> Problem | None:
    found = [(case, stepped, _difference(exercise, case, stepped)) for case, stepped in judged]
    wrong = [(case, stepped, difference) for case, stepped, difference in found if difference]
    if not wrong:
        return None
    case, stepped, worst = min(wrong, key=lambda item: STATUSES.index(item[2].status))
    lines = (*worst.lines, *_unwritten(stepped))
    return Problem(worst.status, worst.headline, lines, case, worst)


def _difference(exercise: Kernel, case: Case, stepped: Stepped) -> Difference | None:
    terms = ladder.terms_of(exercise, case)
    return compare(stepped.value, _as_arrays(expected(exercise, case)), "numpy", terms)


def _as_arrays(truth: Any) -> Any:
    """The oracle's tensors as arrays, which is what a kernel fills."""
    if isinstance(truth, tuple | list):
        return tuple(map(_as_arrays, truth))
    return np.asarray(truth)


def _unwritten(stepped: Stepped) -> Iterator[str]:
    for name, count in stepped.unwritten.items():
        if count:
            yield f"NaN is left in {plural(count, 'element')} of `{name}`: did a thread write there?"


def _memory(judged: Judged) -> Problem | None:
    for case, stepped in judged:
        if stepped.changed:
            words = f"the values are right, but the input `{stepped.changed[0]}` was changed."
            return Problem(
                "memory", words, ("Other blocks may still need it. Write to the output only.",), case
            )
    return None


def _extremes(exercise: Kernel, judged: Judged) -> Problem | None:
    for case, stepped in judged:
        difference = _difference(exercise, case, stepped)
        if difference:
            words = f"ordinary inputs are right; {difference.headline}"
            return Problem("extremes", words, (*difference.lines, *_unwritten(stepped)), case)
    return None


def _cost(exercise: Kernel, judged: Judged) -> Problem | None:
    for case, stepped in judged:
        assert stepped.report is not None
        for limit in exercise.limits:
            if limit.counted in stepped.exceeded:
                count, most = (
                    _counted(limit, stepped.report),
                    limit.of(case.inputs(exercise.id, exercise.dtype)),
                )
                who = {"thread": "one thread", "block": "one block", "grid": "the kernel"}[limit.per]
                words = f"the result is right. For it {who} needs {count} {limit.counted}; {most} will do."
                return Problem("cost", words, (limit.why,), case)
        for finding in stepped.found(exercise):
            return Problem("cost", f"the result is right. Line {finding.line} is slow:", _told(finding), case)
    return None


def _again(exercise: Kernel, kernel: Any, case: Case | None) -> str | None:
    """The line that steps the same case again."""
    if case is None:
        return None
    grid, block = _launch(exercise, case)
    given = f'*labkit.case("{exercise.id}", "{case.name}").values()'
    return f"Step it: `import labkit; labkit.simt.check({kernel.__name__}, {grid}, {block}, {given})`"


def _passed(exercise: Kernel, attempt: list[Stepped]) -> Verdict:
    count, orders = plural(len(attempt), "case"), plural(exercise.schedules, "order")
    agree = "agrees" if len(attempt) == 1 else "agree"
    headline = f"{count} {agree} with {exercise.reference} in {orders} of the threads, without a hazard."
    return Verdict(exercise.id, "pass", headline, (*_most_per_thread(exercise, attempt), exercise.passed))


def _most_per_thread(exercise: Kernel, attempt: list[Stepped]) -> Iterator[str]:
    """What the busiest thread did in the case with the most threads."""
    reports = {c.name: s.report for c, s in zip(exercise.cases, attempt, strict=True) if s.report}
    name = max(reports, key=lambda name: reports[name].grid.size * reports[name].block.size)
    most = {what: int(n.max()) for what, n in reports[name].per_thread.items() if n.size}
    moved = [what for what in COUNTED if most.get(what) and "operations" not in what]
    said = [plural(most[what], what.removesuffix("s")) for what in moved]
    if said:
        yield f"Most that one thread did in case `{name}`: {', '.join(said)}."


# which mistake it is


def _recognize(exercise: Kernel, attempt: list[Stepped]) -> Mistake | None:
    """The declared mistake that does the same; with a hazard, else the only one with the same hazards.

    What a racing kernel leaves in memory depends on how its lines are arranged, so values may differ there.
    """
    others = [(mistake, _declared_trial(exercise, mistake)) for mistake in exercise.mistakes]
    for mistake, other in others:
        if _alike(exercise, attempt, other, values=True):
            return mistake
    alike = [mistake for mistake, other in others if _alike(exercise, attempt, other, values=False)]
    return alike[0] if len(alike) == 1 else None


def _declared_trial(exercise: Kernel, mistake: Mistake) -> list[Stepped]:
    with quiet():
        return trials.once(exercise, mistake.wrong, trial)


def _alike(exercise: Kernel, mine: list[Stepped], other: list[Stepped], *, values: bool) -> bool:
    terms = [ladder.terms_of(exercise, case) for case in exercise.cases]
    return all(_same(exercise, *pair, values) for pair in zip(mine, other, terms, strict=True))


def _same(exercise: Kernel, a: Stepped, b: Stepped, terms: int, values: bool) -> bool:
    if a.error is not None or b.error is not None:
        return str(a.error) == str(b.error)
    kinds = a.kinds(exercise)
    if kinds != b.kinds(exercise) or a.changed != b.changed:
        return False
    if not values and kinds & {*HAZARDS}:
        return True
    return a.exceeded == b.exceeded and same(a.value, b.value, terms)


# for the audit


def wrong_answer(exercise: Kernel, mistake: Mistake) -> tuple[Any, dict[str, Any]]:
    """The stepper runs source, so it stays readable."""
    return disguise(mistake.wrong, readable=True), {}


def without_rules(exercise: Kernel) -> Kernel:
    return replace(exercise, rules=replace(exercise.rules, forbids=(), allows=None, loops=True))


def must_fail(exercise: Kernel, solution: Any) -> Iterator[str]:
    if judge(exercise, _empty_kernel(exercise)).passed:
        yield "a kernel that does nothing passes"


def _empty_kernel(exercise: Kernel) -> Any:
    names = list(inputs(exercise, exercise.cases[0]))
    code, name = f"def nothing({', '.join(names)}):\n    pass\n", "<nothing>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, name, "exec"), space)
    return space["nothing"]


def survives(exercise: Kernel, answer: Any) -> bool:
    """One case after another, and no diagnosis."""
    from labkit.simt.source import python_function

    kernel = python_function(answer)
    if kernel is None:
        return False
    for case in exercise.cases:
        one = replace(exercise, cases=[case])
        if _first_problem(one, kernel, trial(one, kernel)):
            return False
    return True


def texts(exercise: Kernel) -> dict[str, str]:
    return {f"limit on {limit.counted}": limit.why for limit in exercise.limits}


def warm(exercise: Kernel) -> None:
    for case in exercise.cases:
        expected(exercise, case)


def problems(exercise: Kernel) -> Iterator[str]:
    for limit in exercise.limits:
        if limit.counted not in COUNTED:
            yield f"limit on {limit.counted!r}: what is counted is one of {', '.join(COUNTED)}"
    known = {*exercise.cases[0].inputs(exercise.id, exercise.dtype), *exercise.outputs}
    if exercise.takes and {*exercise.takes} != known:
        yield f"takes={exercise.takes!r} is not the inputs and outputs: {', '.join(sorted(known))}"
