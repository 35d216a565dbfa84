"""The verdict ladder for answers that are code: run every case, say the first thing that is wrong.

error -> rule -> type -> shape -> dtype -> values -> gradients -> memory -> extremes -> cost -> pass
Kernels have one rung more, "hazard" after "rule": see `kinds/kernel.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, OnCases, Raises
from labkit.grade.judge import rules, trials
from labkit.grade.judge.compare import Difference, Leaf, compare, flatten, same
from labkit.grade.judge.run import (
    Outcome,
    expected,
    expected_gradients,
    gradients,
    is_own,
    is_stub,
    quiet,
    raised_in,
    run,
    warnings_at_the_learners_line,
    where_it_failed,
)
from labkit.grade.judge.traffic import counted
from labkit.verdict import STATUSES, Verdict, hint_line, is_blank, not_started, wrapped

# What makes a tensor of the default dtype, whatever the dtype of the inputs.
_CREATES = {"zeros", "ones", "empty", "full", "eye", "rand", "randn", "linspace", "tensor", "Tensor"}
_DEFAULT = {"torch": "float32", "labkit": "float32", "numpy": "float64"}

# The last error that an answer raised, for `labkit.traceback()`.
last_error: BaseException | None = None


@dataclass
class Trial:
    """An answer run on every case: what the ladder and the diagnosis look at.

    `terms` is how many numbers may be summed into an output value, by case; `grads` is by name of case.
    """

    outcomes: list[Outcome]
    terms: list[int]
    grads: dict[str, dict[str, Any]] = field(default_factory=dict)

    def same(self, other: Trial, exercise: Implement) -> bool:
        """Whether two answers did the same thing on every case. View or copy counts where it is judged."""
        pairs = zip(self.outcomes, other.outcomes, self.terms, strict=True)
        views = exercise.memory != "any"
        return all(_same_outcome(a, b, n, views) for a, b, n in pairs) and same(
            self.grads, other.grads, max(self.terms)
        )


def _same_outcome(a: Outcome, b: Outcome, terms: int, views: bool) -> bool:
    if a.error is not None or b.error is not None:
        return type(a.error) is type(b.error)
    if views and bool(a.shares) != bool(b.shares):
        return False
    return same(a.value, b.value, terms) and a.changed == b.changed


def trial(exercise: Implement, answer: Any) -> Trial:
    """Run an answer on all cases, then backward on the ordinary ones that returned something."""
    with warnings_at_the_learners_line():
        outcomes = [run(exercise, answer, case) for case in exercise.cases]
    results = zip(exercise.cases, outcomes, strict=True)
    returned = [case for case, outcome in results if outcome.error is None and not case.extreme]
    terms = [terms_of(exercise, case) for case in exercise.cases]
    if not exercise.grads:
        return Trial(outcomes, terms)
    return Trial(outcomes, terms, {case.name: _backward(exercise, answer, case) for case in returned})


def declared_trial(exercise: Implement, wrong: Any) -> Trial:
    """The trial of wrong code that the declaration has: nothing of it is shown, and it is run once."""
    with quiet():
        return trials.once(exercise, wrong, trial)


def _backward(exercise: Implement, answer: Any, case: Case) -> dict[str, Any]:
    try:
        with quiet():  # it has printed and warned once already
            return gradients(exercise, answer, case)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the backward pass is the learner's code too
        return {"error": f"{type(error).__name__}: {str(error).strip()}"}


def terms_of(exercise: OnCases, case: Case) -> int:
    """How many numbers may be summed into one output value: declared, else the size of the largest input."""
    if exercise.reduces is not None:
        return exercise.reduces
    leaves = [
        item.value for _, item in flatten(case.inputs(exercise.id, exercise.dtype)) if isinstance(item, Leaf)
    ]
    return max([1, *(value.size for value in leaves if isinstance(value, np.ndarray))])


def judge_implement(exercise: Implement, answer: Any) -> Verdict:
    """Run the answer on every case and climb the ladder."""
    if is_blank(answer):
        return not_started(exercise, "nothing here yet.")
    attempt = trial(exercise, answer)
    judged = _judged(exercise, attempt)
    stubs = [o.error for _, o, truth in judged if o.error and is_stub(o.error) and not _wanted(o, truth)]
    if any(is_own(error, answer) for error in stubs):
        return not_started(exercise, "the answer still reaches `raise NotImplementedError`.")
    problem = _first_problem(exercise, answer, attempt, judged)
    if problem is None:
        return Verdict(exercise.id, "pass", _proven(exercise), (exercise.passed,))
    mistake = None if problem.status == "rule" else recognize(exercise, attempt)
    return explained(exercise, problem, mistake)


@dataclass
class Problem:
    """The first rung of the ladder that failed."""

    status: str
    headline: str
    lines: tuple[str, ...] = ()
    case: Case | None = None
    difference: Difference | None = None


Judged = list[tuple[Case, Outcome, Any]]


def _judged(exercise: Implement, attempt: Trial) -> Judged:
    """Each case with what the answer did and what the oracle says."""
    truths = [expected(exercise, case) for case in exercise.cases]
    return list(zip(exercise.cases, attempt.outcomes, truths, strict=True))


def _wanted(outcome: Outcome, truth: Any) -> bool:
    """Whether the answer raised what it should raise."""
    return isinstance(truth, Raises) and isinstance(outcome.error, truth.kind)


def _first_problem(exercise: Implement, answer: Any, attempt: Trial, judged: Judged) -> Problem | None:
    ordinary = [item for item in judged if not item[0].extreme]
    extreme = [item for item in judged if item[0].extreme]
    return (
        _errors(ordinary)
        or _rules(exercise, answer, attempt)
        or _values(exercise, ordinary)
        or _gradients(exercise, attempt, ordinary)
        or _memory(exercise, ordinary)
        or _extremes(exercise, extreme)
        or _cost(exercise, ordinary)
    )


def passes(exercise: Implement, answer: Any) -> bool:
    """Whether `judge_implement` would pass the answer: one case at a time, no diagnosis, so a no is quick."""
    for case in exercise.cases:
        one = replace(exercise, cases=[case])
        attempt = trial(one, answer)
        if _first_problem(one, answer, attempt, _judged(one, attempt)):
            return False
    return True


def _errors(judged: Judged) -> Problem | None:
    for case, outcome, truth in judged:
        if outcome.error is not None and not isinstance(truth, Raises):
            return error_problem(case, outcome.error)
    return None


def error_problem(case: Case | None, error: BaseException) -> Problem:
    global last_error
    last_error = error
    kind, message = type(error).__name__, str(error).strip()
    if is_stub(error):  # the answer's own stub was found before
        headline = f"`{raised_in(error)}` above is not written yet; this exercise uses it."
        return Problem("error", headline, (), case)
    if isinstance(error, SystemExit):
        message = "the answer ends the program; return a value instead"
    if "EOF when reading a line" in message:
        message = "a check cannot type anything for `input()`; use what the answer is given"
    if isinstance(error, RecursionError):
        message = "the answer calls itself without end, or too deeply for Python"
    line = where_it_failed(error)
    lines = (*wrapped(message), *((f"At {line}",) if line else ()))
    return Problem("error", f"your code raises `{kind}`{':' if message else '.'}", lines, case)


def _rules(exercise: Implement, answer: Any, attempt: Trial) -> Problem | None:
    sentence = rules.broken_by_source(answer, exercise.rules)
    for outcome in attempt.outcomes:
        sentence = sentence or rules.broken_by_use(outcome.used, exercise.rules)
    return Problem("rule", sentence) if sentence else None


def _values(exercise: Implement, judged: Judged) -> Problem | None:
    """The worst difference first: a wrong shape anywhere is said before a wrong value anywhere."""
    found = [(case, _difference(exercise, case, outcome, truth)) for case, outcome, truth in judged]
    wrong = [(case, difference) for case, difference in found if difference]
    if not wrong:
        return None
    case, worst = min(wrong, key=lambda pair: STATUSES.index(pair[1].status))
    return Problem(worst.status, worst.headline, worst.lines, case, worst)


def _difference(exercise: Implement, case: Case, outcome: Outcome, truth: Any) -> Difference | None:
    if isinstance(truth, Raises):
        if _wanted(outcome, truth):
            return None
        value = " ".join(repr(outcome.value).split())
        returned = f"returns {value if len(value) <= 60 else value[:57] + '...'}"
        did = f"raises `{type(outcome.error).__name__}`" if outcome.error is not None else returned
        return Difference("values", f"these inputs should raise `{truth.kind.__name__}`; yours {did}.")
    if outcome.error is not None:
        problem = error_problem(case, outcome.error)
        return Difference("error", problem.headline, problem.lines)
    if outcome.value is None and truth is not None:
        advice = (
            "You print a result; `return` it as well."
            if outcome.printed
            else "Is there a `return` on every path?"
        )
        return Difference("type", "the answer returns None.", (advice,))
    difference = compare(outcome.value, truth, exercise.engine, terms_of(exercise, case))
    if difference and difference.dtypes:
        difference = replace(difference, lines=_dtype_advice(exercise, case, outcome, *difference.dtypes))
    if difference and exercise.use:
        difference = replace(difference, headline=_as_observed(difference.headline))
    return difference


def _as_observed(headline: str) -> str:
    """`losses` for output['losses']: that dict is what the grader noted, not what the answer returned."""
    return re.sub(r"""output\[(['"])(.+?)\1\]""", r"`\2`", headline)


def _dtype_advice(
    exercise: Implement, case: Case, outcome: Outcome, mine: str, truth: str
) -> tuple[str, ...]:
    """Only where it is the cause: the answer made a tensor of the default dtype, and an input has torch's."""
    inputs = case.inputs(exercise.id, exercise.dtype).items()
    like = [name for name, value in inputs if isinstance(value, np.ndarray) and value.dtype.name == truth]
    if not like or mine != _DEFAULT.get(exercise.engine):
        return ()
    if exercise.engine == "torch" and not _CREATES & {*outcome.operations()}:
        return ()
    return (f"What you create is {mine}, the default dtype, unless you pass `dtype={like[0]}.dtype`.",)


def draw(difference: Difference | None) -> str | None:
    """Yours beside torch's, for small grids of numbers, marked as the verdict says; the box has the words."""
    if difference is None:
        return None
    mine, truth = difference.yours, difference.theirs
    if mine is None or truth is None or mine.ndim not in (1, 2) or not 2 <= mine.size <= 64:
        return None
    from labkit import viz

    return viz.compare(mine, truth, wrong=difference.wrong, caption=False).html


def _gradients(exercise: Implement, attempt: Trial, judged: Judged) -> Problem | None:
    for case, outcome, truth in judged:
        if not exercise.grads or isinstance(truth, Raises):
            continue
        mine = attempt.grads[case.name]
        if "error" in mine:
            # Changing an input in place breaks the backward pass: then that is the thing to say.
            changed = _memory(exercise, [(case, outcome, truth)])
            kind, _, words = mine["error"].partition(": ")
            headline = f"the values are right; the backward pass raises `{kind}`{':' if words else '.'}"
            return changed or Problem("gradients", headline, wrapped(words), case)
        theirs = expected_gradients(exercise, case)
        for name in exercise.grads:
            problem = _gradient(exercise, case, name, mine.get(name), theirs[name])
            if problem:
                return problem
    return None


def _gradient(exercise: Implement, case: Case, name: str, mine: Any, truth: Any) -> Problem | None:
    if mine is None and truth is not None:
        why = "Some step leaves the graph: `.detach()`, `.item()`, `.data`, NumPy, or a tensor made anew."
        return Problem("gradients", f"the values are right, but no gradient reaches `{name}`.", (why,), case)
    difference = compare(mine, truth, exercise.engine, terms_of(exercise, case))
    if difference is None:
        return None
    words = difference.headline.replace("the output", f"the gradient of `{name}`")
    if difference.status != "shape":  # two shapes fill the line
        words = f"the values are right; {words}"
    return Problem("gradients", words, difference.lines, case, difference)


def _memory(exercise: Implement, judged: Judged) -> Problem | None:
    for case, outcome, _ in judged:
        changed = [name for name in outcome.changed if name not in exercise.changes]
        if changed:
            advice = "An operator with `=` in it (`+=`, `x[...] =`) or a name ending in `_` works in place."
            return Problem(
                "memory", f"the values are right, but the input `{changed[0]}` was changed.", (advice,), case
            )
        if exercise.memory == "fresh" and outcome.shares:
            advice = "Writing to the result would write to the input. Return a new tensor."
            return Problem("memory", f"the result shares memory with `{outcome.shares[0]}`.", (advice,), case)
        if exercise.memory == "view" and not outcome.shares:
            return Problem(
                "memory", "the values are right, but they were copied; a view is asked for.", (), case
            )
    return None


def _extremes(exercise: Implement, judged: Judged) -> Problem | None:
    for case, outcome, truth in judged:
        difference = _difference(exercise, case, outcome, truth)
        if difference:
            return Problem(
                "extremes", f"ordinary inputs are right; {difference.headline}", difference.lines, case
            )
    return None


def _cost(exercise: Implement, judged: Judged) -> Problem | None:
    for case, outcome, _ in judged:
        sentence = rules.cost(outcome.used, exercise.rules)
        if sentence:
            return Problem("cost", f"the result is right. {sentence}", (), case)
        if exercise.rules.limits and outcome.again:
            inputs = case.inputs(exercise.id, exercise.dtype)
            over = rules.over_a_limit(outcome.again(counted), exercise.rules, inputs)
            if over:
                return Problem("cost", f"the result is right. {over[0]}", over[1:], case)
    return None


def recognize(exercise: Implement, attempt: Trial) -> Mistake | None:
    """The declared mistake that does the same as this answer on every case, if there is one.

    Where every case raised, the words of the errors have to agree as well as their kind.
    """
    for mistake in exercise.mistakes:
        other = declared_trial(exercise, mistake.wrong)
        pairs = zip(attempt.outcomes, other.outcomes, strict=True)
        if attempt.same(other, exercise) and (
            any(outcome.error is None for outcome in attempt.outcomes)
            or all(_said(a.error) == _said(b.error) is not None for a, b in pairs)
        ):
            return mistake
    return None


def _said(error: BaseException | None) -> tuple[str, list[str]] | None:
    """What an error says: its first line without numbers, and the numbers in order of size.

    None if that could be said of anything: "list index out of range" has no number and quotes no name.
    """
    line = re.sub(r"0x[0-9a-fA-F]+", "", str(error).strip().split("\n")[0])
    words, numbers = re.sub(r"\d+", "", line), sorted(re.findall(r"\d+", line))
    telling = re.search("[a-z]{2}", words) and (numbers or "'" in words)
    return (words, numbers) if telling else None


def explained(exercise: Any, problem: Problem, mistake: Mistake | None, get: str | None = None) -> Verdict:
    """The verdict on a problem: its likely cause, its case and how to `get` it again, the next hint."""
    lines = [*problem.lines]
    if mistake:
        after = len(lines) if problem.headline.endswith(":") else 0  # what was raised comes first
        lines.insert(after, f"Likely cause: {mistake.says}")
    inputs = problem.case.inputs(exercise.id, exercise.dtype) if problem.case else {}
    if problem.case and inputs:
        lines.append(f"Inputs: {_describe(inputs)}")
        again = f'Get them: `import labkit; labkit.case("{exercise.id}", "{problem.case.name}")`'
        lines.append(get or again)
    if problem.status == "error" and not get:
        lines.append("Whole traceback: `import labkit; labkit.traceback()`")
    lines.append(hint_line(exercise))
    headline = f"for case `{problem.case.name}`, {problem.headline}" if problem.case else problem.headline
    name = problem.case.name if problem.case else None
    verdict = Verdict(
        exercise.id, problem.status, headline, tuple(lines), mistake.name if mistake else None, name
    )
    return replace(verdict, picture=draw(problem.difference))


def _describe(inputs: dict[str, Any]) -> str:
    """`x (3, 4) float32, dim = 1`."""
    words = []
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            order = "" if value.flags.c_contiguous else " not contiguous"
            words.append(f"{name} {value.shape} {value.dtype}{order}")
        else:
            text = _short(value)
            words.append(f"{name} = {text if len(text) <= 60 else text[:57] + '...'}")
    return ", ".join(words)


def _short(value: Any) -> str:
    """As Python writes it, but of an array inside a tuple, a list or a dict only the shape."""
    if isinstance(value, np.ndarray):
        return f"array {value.shape}" if value.shape else "a number"
    if isinstance(value, dict) and any(isinstance(item, np.ndarray) for item in value.values()):
        return "{" + ", ".join(f"{key}: {_short(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple) and any(isinstance(i, np.ndarray | list | tuple) for i in value):
        inner = ", ".join(map(_short, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)


def _proven(exercise: Implement) -> str:
    count = len(exercise.cases)
    words = f"{count} cases agree" if count > 1 else "agrees"
    words += f" with {exercise.reference}"
    if exercise.grads:
        words += f", and so do the gradients of {', '.join(exercise.grads)}"
    return words + "."
