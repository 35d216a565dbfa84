"""Write what every rank does. The ranks are stepped in one process, in more than one order of turns.

error -> rule -> hazard -> type -> shape -> dtype -> values -> extremes -> cost -> pass

A hazard (deadlock, calls that do not match, a message left over) comes before values: a rank may well have
the right numbers by then, and on a cluster the others would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labkit.exercises.declare import Case, Limit, Mistake, Ranks
from labkit.grade.judge import ladder, rules, trials
from labkit.grade.judge.compare import Difference, compare, same
from labkit.grade.judge.disguise import disguise
from labkit.grade.judge.kinds.usual import inputs, mutants, remember, texts  # noqa: F401
from labkit.grade.judge.ladder import Problem
from labkit.grade.judge.run import expected, is_own, is_stub, quiet, seed_everything, to_engine
from labkit.grade.judge.surroundings import as_usual
from labkit.text import plural
from labkit.verdict import LONGEST, STATUSES, Verdict, hint_line, is_blank, not_started

if TYPE_CHECKING:
    from labkit.ranks import Hazard, Result

COUNTED = ("bytes", "messages")


def judge(exercise: Ranks, answer: Any) -> Verdict:
    """Run the answer on every rank of every case and climb the ladder."""
    if is_blank(answer):
        return not_started(exercise, "nothing here yet.")
    if not callable(answer):
        words = f"the answer is {type(answer).__name__}; a function that every rank calls is wanted."
        return Verdict(exercise.id, "type", words, (hint_line(exercise),))
    attempt = trial(exercise, answer)
    errors = [result.failed[1] for result in attempt if result.failed]
    if any(is_stub(error) and is_own(error, answer) for error in errors):
        return not_started(exercise, "the answer still reaches `raise NotImplementedError`.")
    problem = _first_problem(exercise, answer, attempt)
    if problem is None:
        return _passed(exercise, attempt)
    mistake = None if problem.status == "rule" else _recognize(exercise, attempt)
    return ladder.explained(exercise, problem, mistake, _again(exercise, answer, problem.case))


# running it


def trial(exercise: Ranks, answer: Any) -> list[Result]:
    return [_run(exercise, answer, case) for case in exercise.cases]


def ranks_of(exercise: Ranks, case: Case) -> int:
    """Every input is a list with one value per rank."""
    return len(next(iter(case.inputs(exercise.id, exercise.dtype).values())))


def _run(exercise: Ranks, answer: Any, case: Case) -> Result:
    """The run in which rank 0 goes first, unless another order of turns shows something else."""
    first = _run_once(exercise, answer, case, 0)
    terms = ladder.terms_of(exercise, case)
    for seed in range(1, exercise.orders if first.ok else 1):
        with quiet():
            other = _run_once(exercise, answer, case, seed)
        if not other.ok:
            return other
        if not same(first.returned, other.returned, terms):
            return replace(first, hazard=_depends_on_the_order())
    return first


def _depends_on_the_order() -> Hazard:
    from labkit.ranks import Hazard

    advice = "Ranks share nothing but messages: no list, dict or `global` of the notebook may carry values."
    return Hazard("order", "the result depends on the order in which the ranks run.", (), advice)


@as_usual()
def _run_once(exercise: Ranks, answer: Any, case: Case, seed: int) -> Result:
    from labkit.ranks import World

    given = to_engine(case.inputs(exercise.id, exercise.dtype), exercise.engine)
    seed_everything()
    return World(ranks_of(exercise, case), seed=seed).run(answer, *given.values())


# the ladder

Judged = list[tuple[Case, "Result"]]


def _first_problem(exercise: Ranks, answer: Any, attempt: list[Result]) -> Problem | None:
    judged = list(zip(exercise.cases, attempt, strict=True))
    return (
        _errors(judged)
        or _rules(exercise, answer, attempt)
        or _hazards(judged)
        or _values(exercise, judged)
        or _cost(exercise, judged)
    )


def _errors(judged: Judged) -> Problem | None:
    for case, result in judged:
        if result.failed:
            rank, error = result.failed
            problem = ladder.error_problem(case, error)
            return replace(problem, headline=f"{_whose(rank, result.n)}: {problem.headline}")
    return None


def _whose(rank: int, n: int) -> str:
    return f"rank {rank} of {n}"


def _rules(exercise: Ranks, answer: Any, attempt: list[Result]) -> Problem | None:
    sentence = rules.broken_by_source(answer, exercise.rules)
    for result in attempt:
        sentence = sentence or rules.broken_by_use(result.calls, exercise.rules)
    return Problem("rule", sentence) if sentence else None


def _hazards(judged: Judged) -> Problem | None:
    for case, result in judged:
        if result.hazard:
            where = "; ".join(result.hazard.where)
            lines = (where[:1].upper() + where[1:] + ".",) if where else ()
            return Problem("hazard", result.hazard.message, (*lines, result.hazard.advice), case)
    return None


def _values(exercise: Ranks, judged: Judged) -> Problem | None:
    """The worst difference of the ordinary cases; then the extreme ones."""
    found = [(case, _difference(exercise, case, result)) for case, result in judged]
    wrong = [(case, difference) for case, difference in found if difference]
    ordinary = [item for item in wrong if not item[0].extreme]
    if ordinary:
        case, worst = min(ordinary, key=lambda item: STATUSES.index(item[1].status))
        return Problem(worst.status, worst.headline, worst.lines, case, worst)
    for case, difference in wrong:
        words = f"ordinary inputs are right; {difference.headline}"
        return Problem("extremes", words, difference.lines, case)
    return None


def _difference(exercise: Ranks, case: Case, result: Result) -> Difference | None:
    """The first rank that returned something else, and how many did."""
    terms, truths = ladder.terms_of(exercise, case), expected(exercise, case)
    found: dict[int, Difference] = {}
    for rank, (mine, truth) in enumerate(zip(result.returned, truths, strict=True)):
        difference = _returned_nothing(mine, truth) or compare(mine, truth, exercise.engine, terms)
        if difference:
            found[rank] = difference
    if not found:
        return None
    rank = min(found, key=lambda rank: (STATUSES.index(found[rank].status), rank))
    worst = found[rank]
    others = (
        "All ranks are wrong."
        if len(found) == result.n
        else f"Wrong on {_listed([*found])}; right on the rest."
    )
    return replace(
        worst,
        headline=f"{_whose(rank, result.n)}: {worst.headline}",
        lines=(*worst.lines, *([others] * (result.n > 1))),
    )


def _returned_nothing(mine: Any, truth: Any) -> Difference | None:
    if mine is None and truth is not None:
        return Difference("type", "the answer returns None.", ("Is there a `return` on every path?",))
    return None


def _listed(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _cost(exercise: Ranks, judged: Judged) -> Problem | None:
    for limit in exercise.limits:
        for case, result in judged:
            most, rank, count = limit.of(case.inputs(exercise.id, exercise.dtype)), *_busiest(limit, result)
            if count > most:
                words = f"the values are right. {_whose(rank, result.n).capitalize()} sends"
                return Problem(
                    "cost", f"{words} {count:,} {limit.counted}; {most:,} will do.", (limit.why,), case
                )
    return None


def _busiest(limit: Limit, result: Result) -> tuple[int, int]:
    """The rank that sends most of what is counted, and how much."""
    counts = [getattr(traffic, limit.counted) for traffic in result.sent]
    return counts.index(max(counts)), max(counts)


def _again(exercise: Ranks, answer: Any, case: Case | None) -> str | None:
    """The line that runs the same case again, if it fits."""
    if case is None:
        return None
    name, n = getattr(answer, "__name__", "answer"), ranks_of(exercise, case)
    given = f'*labkit.case("{exercise.id}", "{case.name}").values()'
    line = f"Run it: `import labkit; labkit.ranks.World({n}).run({name}, {given})`"
    return line if len(line) <= LONGEST - 2 else None


def _passed(exercise: Ranks, attempt: list[Result]) -> Verdict:
    counts = sorted({result.n for result in attempt})
    sizes = " and ".join(filter(None, [", ".join(map(str, counts[:-1])), str(counts[-1])]))
    cases = plural(len(attempt), "case")
    headline = f"{cases} with {sizes} ranks agree with {exercise.reference}, without a hazard."
    largest = max(attempt, key=lambda result: (result.n, result.bytes))
    sent = largest.sent[0]
    line = f"With {largest.n} ranks, rank 0 sent {sent.bytes:,} bytes in {plural(sent.messages, 'message')}."
    return Verdict(exercise.id, "pass", headline, (line, exercise.passed))


# which mistake it is


def _recognize(exercise: Ranks, attempt: list[Result]) -> Mistake | None:
    """The declared mistake that does the same on every case."""
    for mistake in exercise.mistakes:
        with quiet():
            other = trials.once(exercise, mistake.wrong, trial)
        results = zip(exercise.cases, attempt, other, strict=True)
        if all(_same(exercise, case, mine, theirs) for case, mine, theirs in results):
            return mistake
    return None


def _same(exercise: Ranks, case: Case, a: Result, b: Result) -> bool:
    """Stopped by the same thing; or else the same values, and the same limits kept."""
    if a.failed or b.failed:
        return bool(a.failed and b.failed) and _said(a) == _said(b)
    if a.hazard or b.hazard:
        return bool(a.hazard and b.hazard) and _stuck(a) == _stuck(b)
    if not same(a.returned, b.returned, ladder.terms_of(exercise, case)):
        return False
    return all(
        _over(exercise, case, limit, a) == _over(exercise, case, limit, b) for limit in exercise.limits
    )


def _over(exercise: Ranks, case: Case, limit: Limit, result: Result) -> list[int]:
    """What each rank sent, if one of them sent too much."""
    counts = [getattr(traffic, limit.counted) for traffic in result.sent]
    return counts if max(counts) > limit.of(case.inputs(exercise.id, exercise.dtype)) else []


def _said(result: Result) -> tuple[int, type, str] | None:
    return (result.failed[0], type(result.failed[1]), str(result.failed[1])) if result.failed else None


def _stuck(result: Result) -> tuple[str, tuple[str, ...]] | None:
    return (result.hazard.kind, result.hazard.calls) if result.hazard else None


# for the audit


def wrong_answer(exercise: Ranks, mistake: Mistake) -> tuple[Any, dict[str, Any]]:
    return disguise(mistake.wrong), {}


def without_rules(exercise: Ranks) -> Ranks:
    return replace(exercise, rules=replace(exercise.rules, forbids=(), allows=None, loops=True))


def survives(exercise: Ranks, answer: Any) -> bool:
    """One case after another, and no diagnosis."""
    if is_blank(answer) or not callable(answer):
        return False
    for case in exercise.cases:
        one = replace(exercise, cases=[case])
        if _first_problem(one, answer, trial(one, answer)):
            return False
    return True


def warm(exercise: Ranks) -> None:
    for case in exercise.cases:
        expected(exercise, case)


def delegation(exercise: Ranks) -> tuple[str, str | None]:
    """An answer that leaves the work to the ready collective must be refused."""
    if exercise.delegate is None:
        return "-", None
    verdict = judge(exercise, disguise(exercise.delegate, readable=True))
    if verdict.status == "rule":
        return "refused", None
    return "PASSES", f"an answer that uses the ready collective is not refused ({verdict.said})"


def must_fail(exercise: Ranks, solution: Any) -> Iterator[str]:
    """Ranks that say nothing to each other, and ranks that pass values through a list they share."""
    if judge(exercise, disguise(_alone)).passed:
        yield "an answer that returns its own input passes"
    board: dict[int, Any] = {}

    def shares(dist: Any, *given: Any) -> Any:
        """Right on the last rank that runs, at best: the others have not written yet."""
        board[dist.get_rank()] = given
        posted = [board.get(rank, given) for rank in range(dist.get_world_size())]
        return exercise.oracle(*map(list, zip(*posted, strict=True)))[dist.get_rank()]

    if judge(exercise, disguise(shares)).passed:
        yield "an answer whose ranks share a dict passes"


def _alone(dist: Any, *given: Any) -> Any:
    return given[0]


def problems(exercise: Ranks) -> Iterator[str]:
    """Cases that could hide a mistake, and limits on what is not counted."""
    sizes = []
    for case in exercise.cases:
        lengths = {len(values) for values in case.inputs(exercise.id, exercise.dtype).values()}
        sizes.append(max(lengths, default=0))
        if len(lengths) != 1 or 0 in lengths:
            words = "every input is a list with one value per rank; here they have lengths"
            yield f"case {case.name!r}: {words} {sorted(lengths)}"
    if max(sizes, default=0) < 3:
        yield "no case with three ranks: with two, the left neighbor is the right one"
    for limit in exercise.limits:
        if limit.counted not in COUNTED or not limit.why:
            yield f"a limit counts one of {', '.join(COUNTED)} and says why; this counts {limit.counted!r}"
