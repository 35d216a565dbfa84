"""Write a function that torch.compile takes in one piece. Its calls are the cases, one after the other.

error -> rule -> type -> shape -> dtype -> values -> extremes -> cost -> pass

The answer runs twice: as it stands, where its values are compared with torch's, and compiled, where they are
compared with its own. What was compiled is counted: graphs, breaks and versions are the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from labkit.exercises.declare import Case, Compiled, Limit, Mistake
from labkit.grade.judge import ladder, rules, trials
from labkit.grade.judge.compare import Difference, compare, same
from labkit.grade.judge.disguise import disguise
from labkit.grade.judge.graphs import Compilation, count, original
from labkit.grade.judge.kinds.usual import delegation, inputs, mutants, remember, texts  # noqa: F401
from labkit.grade.judge.ladder import Problem
from labkit.grade.judge.run import expected, is_own, is_stub, quiet, seed_everything, to_engine
from labkit.grade.judge.surroundings import as_usual
from labkit.text import plural
from labkit.verdict import STATUSES, Verdict, hint_line, is_blank, not_started, wrapped

COUNTED = ("graphs", "breaks", "versions")
SHOWN = 3  # breaks that are told one by one


def judge(exercise: Compiled, answer: Any) -> Verdict:
    """Run every call as it stands, then compiled, and climb the ladder."""
    if is_blank(answer):
        return not_started(exercise, "nothing here yet.")
    if not callable(answer):
        words = f"the answer is {type(answer).__name__}; a function or a module is wanted."
        return Verdict(exercise.id, "type", words, (hint_line(exercise),))
    attempt = trial(exercise, answer)
    own = original(answer)[0]
    if is_stub(attempt.error) and attempt.error is not None and is_own(attempt.error, own):
        return not_started(exercise, "the answer still reaches `raise NotImplementedError`.")
    problem = _before_compiling(exercise, answer, attempt)
    counted = None if problem else compilation(exercise, answer)
    if counted:
        problem = _after_compiling(exercise, attempt, counted)
        if problem is None:
            return _passed(exercise, counted)
    assert problem is not None
    mistake = None if problem.status == "rule" else _recognize(exercise, attempt, counted)
    return ladder.explained(exercise, problem, mistake)


# running it


@dataclass
class Tried:
    """What an answer did over all calls as it stands. Only what is right so far is worth compiling."""

    eager: list[Any] = field(default_factory=list)
    error: BaseException | None = None
    problem: Problem | None = None


@as_usual()
def trial(exercise: Compiled, answer: Any) -> Tried:
    tried = Tried()
    try:
        function = original(_made(exercise, answer))[0]
        for case in exercise.cases:
            tried.eager.append(function(*_maker(exercise, case)()))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        tried.error = error
        tried.problem = ladder.error_problem(exercise.cases[len(tried.eager)], error)
        return tried
    tried.problem = _values(exercise, tried.eager)
    return tried


@as_usual()
def compilation(exercise: Compiled, answer: Any) -> Compilation:
    calls = [_maker(exercise, case) for case in exercise.cases]
    with quiet():  # it has printed and warned once already
        return count(_made(exercise, answer), calls, exercise.dynamic)


def _made(exercise: Compiled, answer: Any) -> Any:
    return exercise.make(answer) if exercise.make else answer


def _maker(exercise: Compiled, case: Case) -> Callable[[], list[Any]]:
    """Fresh inputs and the same random numbers for every call."""

    def make() -> list[Any]:
        seed_everything()
        return [*to_engine(case.inputs(exercise.id, exercise.dtype), "torch").values()]

    return make


# the ladder


def _before_compiling(exercise: Compiled, answer: Any, attempt: Tried) -> Problem | None:
    return attempt.problem if attempt.error else _rules(exercise, answer) or attempt.problem


def _after_compiling(exercise: Compiled, attempt: Tried, counted: Compilation) -> Problem | None:
    return (
        _compiles(exercise, counted) or _same_compiled(exercise, attempt, counted) or _cost(exercise, counted)
    )


def _rules(exercise: Compiled, answer: Any) -> Problem | None:
    sentence = rules.broken_by_source(original(answer)[0], exercise.rules)
    return Problem("rule", sentence) if sentence else None


def _values(exercise: Compiled, values: list[Any]) -> Problem | None:
    """As it stands against torch: the worst difference of the ordinary calls, then the extreme ones."""
    wrong: list[tuple[Case, Difference]] = []
    for case, value in zip(exercise.cases, values, strict=True):
        difference = compare(value, expected(exercise, case), "torch", ladder.terms_of(exercise, case))
        if value is None:
            difference = Difference(
                "type", "the answer returns None.", ("Is there a `return` on every path?",)
            )
        if difference:
            wrong.append((case, difference))
    ordinary = [item for item in wrong if not item[0].extreme]
    if ordinary:
        case, worst = min(ordinary, key=lambda item: STATUSES.index(item[1].status))
        return Problem(worst.status, worst.headline, worst.lines, case, worst)
    for case, difference in wrong:
        words = f"ordinary inputs are right; {difference.headline}"
        return Problem("extremes", words, difference.lines, case)
    return None


def _compiles(exercise: Compiled, compilation: Compilation) -> Problem | None:
    if compilation.error is None:
        return None
    ladder.last_error = compilation.error
    case = exercise.cases[len(compilation.values)]
    words = str(compilation.error).strip().splitlines() or [""]
    kind = type(compilation.error).__name__
    return Problem("error", f"it runs as it stands; compiled, it raises `{kind}`:", wrapped(words[0]), case)


def _same_compiled(exercise: Compiled, attempt: Tried, compilation: Compilation) -> Problem | None:
    for case, mine, truth in zip(exercise.cases, compilation.values, attempt.eager, strict=True):
        difference = compare(mine, truth, "torch", ladder.terms_of(exercise, case))
        if difference:
            words = "compiled, it returns something else than as it stands."
            lines = (line.replace("torch", "as it stands") for line in difference.lines)
            advice = "A graph keeps what was a Python value when it was made: a flag, a counter, a time."
            return Problem("values", words, (*lines, advice), case)
    return None


def _cost(exercise: Compiled, compilation: Compilation) -> Problem | None:
    if not compilation.graphs:
        words = "the values are right, but torch.compile found nothing that it could put into a graph."
        return Problem("cost", words, tuple(_breaks(compilation)))
    for limit in exercise.limits:
        counted, most = compilation.count(limit.counted), limit.of({})
        if counted > most:
            words = (
                f"the values are right. {_calls(exercise)} made {_amount(counted, limit)}; {_enough(most)}."
            )
            return Problem("cost", words, (*_where(exercise, compilation, limit), limit.why))
    return None


def _calls(exercise: Compiled) -> str:
    return plural(len(exercise.cases), "call")


def _amount(counted: int, limit: Limit) -> str:
    noun = {"breaks": "graph break"}.get(limit.counted, limit.counted.removesuffix("s"))
    return plural(counted, noun)


def _enough(most: int) -> str:
    return "none is needed" if most == 0 else f"{most} will do"


def _where(exercise: Compiled, compilation: Compilation, limit: Limit) -> Iterator[str]:
    """The places of the breaks; for versions, the calls that had to be compiled."""
    if limit.counted != "versions":
        yield from _breaks(compilation)
        return
    names = [f"`{exercise.cases[number].name}`" for number in dict.fromkeys(compilation.graphs)]
    yield f"Compiled at {plural(len(names), 'call')}: {', '.join(names)}."


def _breaks(compilation: Compilation) -> Iterator[str]:
    for place in compilation.breaks[:SHOWN]:
        yield str(place)
    if len(compilation.breaks) > SHOWN:
        yield f"And {len(compilation.breaks) - SHOWN} more."


def _passed(exercise: Compiled, compilation: Compilation) -> Verdict:
    headline = f"{_calls(exercise)} agree with {exercise.reference}, as they stand and compiled."
    counted = [(what, compilation.count(what)) for what in COUNTED]
    words = [plural(n, {"breaks": "graph break"}.get(what, what[:-1])) for what, n in counted]
    return Verdict(exercise.id, "pass", headline, (f"Counted: {', '.join(words)}.", exercise.passed))


# which mistake it is


def _recognize(exercise: Compiled, attempt: Tried, counted: Compilation | None) -> Mistake | None:
    """The declared mistake that does the same on every call; compiled only if it does so as it stands."""
    for mistake in exercise.mistakes:
        with quiet():
            other = trials.once(exercise, mistake.wrong, trial)
            if not _same_eager(exercise, attempt, other):
                continue
            if counted is None or other.problem:
                return mistake
            if _same_counted(exercise, counted, trials.once(exercise, mistake.wrong, compilation)):
                return mistake
    return None


def _same_eager(exercise: Compiled, a: Tried, b: Tried) -> bool:
    if a.error is not None or b.error is not None:
        return type(a.error) is type(b.error) and str(a.error) == str(b.error)
    return same(a.eager, b.eager, _most_terms(exercise))


def _most_terms(exercise: Compiled) -> int:
    return max(ladder.terms_of(exercise, case) for case in exercise.cases)


def _same_counted(exercise: Compiled, a: Compilation, b: Compilation) -> bool:
    """The same values, the same reasons for breaks, and the same limit not kept."""
    if type(a.error) is not type(b.error) or not same(a.values, b.values, _most_terms(exercise)):
        return False
    return _counted(exercise, a) == _counted(exercise, b)


def _counted(exercise: Compiled, compilation: Compilation) -> tuple[Any, ...]:
    """Why graphs broke, and the limit that the verdict speaks of: what follows from it may differ."""
    over = [x.counted for x in exercise.limits if compilation.count(x.counted) > x.of({})]
    return sorted({place.name for place in compilation.breaks}), over[:1], bool(compilation.graphs)


# for the audit


def wrong_answer(exercise: Compiled, mistake: Mistake) -> tuple[Any, dict[str, Any]]:
    """Dynamo looks a function's file and module up, so it stays readable."""
    return disguise(mistake.wrong, readable=True), {}


def without_rules(exercise: Compiled) -> Compiled:
    return replace(exercise, rules=replace(exercise.rules, forbids=(), allows=None, loops=True))


def survives(exercise: Compiled, answer: Any) -> bool:
    """Without a diagnosis."""
    if is_blank(answer) or not callable(answer):
        return False
    attempt = trial(exercise, answer)
    if _before_compiling(exercise, answer, attempt):
        return False
    return _after_compiling(exercise, attempt, compilation(exercise, answer)) is None


def warm(exercise: Compiled) -> None:
    """Compile something small, for two sizes: what torch imports on the way takes seconds."""
    import torch

    count(_scaled, [lambda: (torch.ones(2), 0.5), lambda: (torch.ones(3), 1.5)])
    for case in exercise.cases:
        expected(exercise, case)


def _scaled(x: Any, factor: float) -> Any:
    return x * factor


def must_fail(exercise: Compiled, solution: Any) -> Iterator[str]:
    """The solution with a break before it, and the solution kept out of graphs altogether."""
    if exercise.make is not None:
        return  # there is nothing general to put around a class
    import torch

    hidden = torch.compiler.disable(solution)

    def talks(*given: Any) -> Any:
        print("here")
        return solution(*given)

    def hides(*given: Any) -> Any:
        return hidden(*given)

    with quiet():
        if judge(exercise, disguise(talks)).passed and _limits_breaks(exercise):
            yield "the solution with a `print` before it passes"
        if judge(exercise, disguise(hides)).passed:
            yield "a solution that is kept out of graphs passes"


def _limits_breaks(exercise: Compiled) -> bool:
    return any(limit.counted in ("graphs", "breaks") for limit in exercise.limits)


def problems(exercise: Compiled) -> Iterator[str]:
    """Limits on what is not counted, or that nobody explains; calls that cannot show a second version."""
    for limit in exercise.limits:
        if limit.counted not in COUNTED or not limit.why:
            yield f"a limit counts one of {', '.join(COUNTED)} and says why; this counts {limit.counted!r}"
    if any(limit.counted == "versions" for limit in exercise.limits) and len(exercise.cases) < 3:
        yield "versions are counted over fewer than three calls; torch makes a size dynamic at the second"
