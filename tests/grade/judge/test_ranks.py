"""Ranks: a deadlock before values, values rank by rank, counted bytes."""

from dataclasses import replace

import pytest
import torch

from labkit.exercises.declare import Case, Limit, Mistake, Ranks, Rules
from labkit.grade.judge import judge
from labkit.grade.judge.disguise import disguise
from labkit.grade.judge.kinds import ranks as kind


def _numbers(n, size):
    return lambda draw: {"x": [draw.normal(size) for _ in range(n)]}


def not_divided(dist, x):
    out = x.clone()
    dist.all_reduce(out)
    return out


def gathers(dist, x):
    out = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(out, x)
    return torch.stack(out).mean(0)


def only_some(dist, x):
    out = x.clone()
    if dist.get_rank():
        dist.all_reduce(out)
    return out / dist.get_world_size()


EXERCISE = Ranks(
    id="w00.mean",
    title="t",
    minutes=1,
    cases=[
        Case("three", _numbers(3, 6)),
        Case("one", _numbers(1, 1)),
        Case("nothing", _numbers(2, 0), extreme=True),
    ],
    oracle=lambda x: [torch.stack(list(x)).mean(0)] * len(x),
    limits=[Limit("bytes", lambda x: 2 * (len(x) - 1) * -(-x[0].nbytes // len(x)), "Pieces go round.")],
    mistakes=[
        Mistake("not divided", "These are sums.", not_divided),
        Mistake("gathers", "Everything goes everywhere.", gathers),
        Mistake("only some", "One rank skips it.", only_some),
    ],
    hints=("1", "2", "3"),
    passed="Good.",
)


def right(dist, x):
    out = x.clone()
    dist.all_reduce(out, op=dist.ReduceOp.AVG)
    return out


def stub(dist, x):
    raise NotImplementedError


def raises(dist, x):
    return x[99] if dist.get_rank() == 1 else x


def wrong_on_one(dist, x):
    return right(dist, x) + (dist.get_rank() == 2)


def list_of_numbers(dist, x):
    return right(dist, x).tolist()


def nothing(dist, x):
    right(dist, x)


def leaves_a_message(dist, x):
    if dist.get_rank() == 2:
        dist.isend(x, 0)
    return right(dist, x)


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (..., "not started", "nothing here yet"),
        (stub, "not started", "still reaches"),
        (3, "type", "a function that every rank calls is wanted"),
        (raises, "error", "for case `three`, rank 1 of 3: your code raises `IndexError`:"),
        (raises, "error", "return x[99] if dist.get_rank() == 1 else x"),
        (only_some, "hazard", "for case `three`, ranks wait for one that has ended."),
        (only_some, "hazard", "Likely cause: One rank skips it."),
        (leaves_a_message, "hazard", "a message was sent that nobody received."),
        (leaves_a_message, "hazard", "Rank 2 sends (6,) float32 to rank 0, line"),
        (list_of_numbers, "type", "rank 0 of 3: the output is a list of 6; a torch tensor is wanted"),
        (nothing, "type", "rank 0 of 3: the answer returns None."),
        (wrong_on_one, "values", "rank 2 of 3: the output has the right shape and the wrong values."),
        (wrong_on_one, "values", "Wrong on rank 2; right on the rest."),
        (wrong_on_one, "values", 'World(3).run(wrong_on_one, *labkit.case("w00.mean", "three").values())`'),
        (not_divided, "values", "Likely cause: These are sums."),
        (not_divided, "values", "All ranks are wrong."),
        (gathers, "cost", "the values are right. Rank 0 of 3 sends 48 bytes; 32 will do."),
        (gathers, "cost", "Pieces go round."),
        (right, "pass", "3 cases with 1, 2 and 3 ranks agree with torch, without a hazard."),
        (right, "pass", "With 3 ranks, rank 0 sent 32 bytes in 4 messages."),
    ],
)
def test_verdicts(answer, status, words):
    verdict = judge(EXERCISE, answer)
    assert verdict.status == status and words in verdict.text(), verdict.text()


def test_values_in_extreme_cases_come_after_the_ordinary_ones():
    def odd(dist, x):
        return right(dist, x) if x.numel() else x.new_zeros(1)

    verdict = judge(EXERCISE, odd)
    assert verdict.status == "extremes" and "ordinary inputs are right; rank 0 of 2" in verdict.headline


def test_a_forbidden_collective_is_refused_by_its_name_and_when_it_is_hidden():
    exercise = replace(EXERCISE, rules=Rules(forbids=("all_reduce",)))

    def hidden(dist, x):
        out = x.clone()
        getattr(dist, "all_" + "reduce")(out, op=dist.ReduceOp.AVG)
        return out

    for answer in (right, hidden):
        verdict = judge(exercise, answer)
        assert verdict.status == "rule" and "`all_reduce`" in verdict.headline


def test_ranks_that_share_a_list_are_found_by_another_order_of_turns():
    board = {}

    def shares(dist, x):
        if dist.get_rank() == 0:
            board["x"] = x
        dist.barrier()
        first = board.setdefault("first", dist.get_rank())
        out = right(dist, x)
        if dist.get_rank() == dist.get_world_size() - 1:
            board.pop("first")
        return out + first

    verdict = judge(EXERCISE, shares)
    assert verdict.status == "hazard" and "depends on the order" in verdict.headline
    assert "Ranks share nothing but messages" in verdict.text()


def test_what_the_audit_asks():
    assert [*kind.must_fail(EXERCISE, right)] == []
    assert [*kind.problems(EXERCISE)] == []
    for mistake in EXERCISE.mistakes:
        answer, extra = kind.wrong_answer(EXERCISE, mistake)
        assert judge(EXERCISE, answer, **extra).mistake == mistake.name
        assert not kind.survives(EXERCISE, answer)
    assert kind.survives(EXERCISE, disguise(right))
    assert kind.delegation(replace(EXERCISE, delegate=right))[0] == "PASSES"
    forbids = replace(EXERCISE, delegate=right, rules=Rules(forbids=("all_reduce",)))
    assert kind.delegation(forbids) == ("refused", None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cases": [Case("two", _numbers(2, 3))]}, "no case with three ranks"),
        ({"cases": [Case("odd", lambda draw: {"x": [1, 2, 3], "y": [1]})]}, "one value per rank"),
        ({"limits": [Limit("seconds", 1, "Why.")]}, "this counts 'seconds'"),
        ({"limits": [Limit("bytes", 1, "")]}, "says why"),
    ],
)
def test_declarations_that_hide_something(changes, words):
    assert words in "\n".join(kind.problems(replace(EXERCISE, **changes)))


def test_an_exercise_that_asks_for_nothing_is_found_out():
    lazy = replace(EXERCISE, oracle=list)
    assert "an answer that returns its own input passes" in [*kind.must_fail(lazy, None)]
    alone = replace(EXERCISE, cases=EXERCISE.cases[1:2])
    assert "an answer whose ranks share a dict passes" in [*kind.must_fail(alone, None)]
