"""Functions for torch.compile: values, as they stand and compiled; graphs, breaks and versions counted."""

from dataclasses import replace

import pytest
import torch

from labkit.exercises.declare import Case, Compiled, Limit, Mistake, Rules
from labkit.grade.judge import judge
from labkit.grade.judge.graphs import count
from labkit.grade.judge.kinds import compiled as kind


def prints(x, gain):
    print("loud")
    return x * gain


def doubled(x, gain):
    return 2 * x * gain


def unrolled(x, gain):
    return torch.stack([row * gain for row in x])


EXERCISE = Compiled(
    id="w00.gain",
    title="t",
    minutes=1,
    cases=[
        Case("2 by 3", lambda draw: {"x": draw.normal(2, 3), "gain": 0.5}),
        Case("4 by 5", lambda draw: {"x": draw.normal(4, 5), "gain": 1.5}),
        Case("3 by 7", lambda draw: {"x": draw.normal(3, 7), "gain": 2.5}),
    ],
    oracle=lambda x, gain: x * gain,
    limits=[Limit("breaks", 0, "One piece."), Limit("versions", 2, "One for all sizes.")],
    mistakes=[
        Mistake("prints", "There is a print.", prints),
        Mistake("doubled", "Twice as loud.", doubled),
        Mistake("unrolled", "A version for every number of rows.", unrolled),
    ],
    hints=("1", "2", "3"),
    passed="Good.",
)


def right(x, gain):
    return gain * x


def stub(x, gain):
    raise NotImplementedError


def raises(x, gain):
    return x[99] * gain


def nothing(x, gain):
    x * gain


def takes_a_number(x, gain):
    return x * gain + 0 * x.sum().item()


def only_a_loop_with_print(x, gain):
    for _ in range(1):
        x = x * gain
        print("once")
    return x


def differs(x, gain):
    return x * gain + (1 if torch.compiler.is_compiling() else 0)


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (..., "not started", "nothing here yet"),
        (stub, "not started", "still reaches"),
        (3, "type", "a function or a module is wanted"),
        (raises, "error", "for case `2 by 3`, your code raises `IndexError`"),
        (raises, "error", "return x[99] * gain"),
        (nothing, "type", "the answer returns None"),
        (doubled, "values", "Likely cause: Twice as loud."),
        (differs, "values", "compiled, it returns something else than as it stands."),
        (prints, "cost", "the values are right. 3 calls made 1 graph break; none is needed."),
        (prints, "cost", '`print("loud")`: `print` has to happen in Python, between two graphs.'),
        (prints, "cost", "Likely cause: There is a print."),
        (takes_a_number, "cost", "a number is taken out of a tensor, and Python has to wait for it."),
        (only_a_loop_with_print, "cost", "found nothing that it could put into a graph."),
        (only_a_loop_with_print, "cost", "inside a loop or `try` torch gives up on the whole function"),
        (unrolled, "cost", "3 calls made 3 versions; 2 will do."),
        (unrolled, "cost", "Compiled at 3 calls: `2 by 3`, `4 by 5`, `3 by 7`."),
        (right, "pass", "Counted: 2 graphs, 0 graph breaks, 2 versions."),
        (torch.compile(right, backend="eager"), "pass", "Counted: 2 graphs"),
        (torch.compile(right, backend="eager", dynamic=False), "cost", "3 calls made 3 versions; 2 will do."),
    ],
)
def test_verdicts(answer, status, words):
    verdict = judge(EXERCISE, answer)
    assert verdict.status == status and words in verdict.text(), verdict.text()


class Gain(torch.nn.Module):
    """Counts its calls in a Python number, so that every call is another version."""

    def __init__(self, counts):
        super().__init__()
        self.counts, self.calls = counts, 0

    def forward(self, x, gain):
        self.calls += self.counts
        return x * gain + 0 * self.calls


def test_a_class_is_made_into_what_is_compiled():
    assert judge(replace(EXERCISE, make=lambda cls: cls(counts=False)), Gain).passed
    verdict = judge(replace(EXERCISE, make=lambda cls: cls(counts=True)), Gain)
    assert verdict.status == "cost" and "3 versions" in verdict.headline
    assert judge(
        replace(EXERCISE, make=lambda cls: torch.compile(cls(counts=False), backend="eager")), Gain
    ).passed


def test_a_rule_is_seen_in_the_function_that_was_compiled():
    exercise = replace(EXERCISE, rules=Rules(forbids=("stack",)))
    assert judge(exercise, torch.compile(unrolled, backend="eager")).status == "rule"


def test_what_cannot_be_compiled_is_told_in_one_line():
    def fails(x, gain):
        if torch.compiler.is_compiling():
            return x.reshape(99)
        return x * gain

    verdict = judge(EXERCISE, fails)
    assert verdict.status == "error" and "it runs as it stands; compiled, it raises" in verdict.headline


def test_what_the_audit_asks():
    kind.warm(EXERCISE)
    assert [*kind.must_fail(EXERCISE, right)] == [] and [*kind.problems(EXERCISE)] == []
    for mistake in EXERCISE.mistakes:
        answer, extra = kind.wrong_answer(EXERCISE, mistake)
        assert judge(EXERCISE, answer, **extra).mistake == mistake.name
        assert not kind.survives(EXERCISE, answer)
    assert kind.survives(EXERCISE, right)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limits": [Limit("kernels", 1, "Why.")]}, "this counts 'kernels'"),
        ({"limits": [Limit("graphs", 1, "")]}, "says why"),
        ({"cases": EXERCISE.cases[:2]}, "fewer than three calls"),
    ],
)
def test_declarations_that_hide_something(changes, words):
    assert words in "\n".join(kind.problems(replace(EXERCISE, **changes)))


def test_an_exercise_that_limits_nothing_is_found_out():
    loose = replace(EXERCISE, limits=[Limit("breaks", 9, "Many.")])
    assert [*kind.must_fail(loose, right)] == ["the solution with a `print` before it passes"]


# counting


def by_item(x):
    return x / x.sum().item()


def by_float(x):
    return x / float(x.sum())


def by_if(x):
    return x * 2 if x.sum() > 0 else x - 1


def by_while(x):
    while x.sum() > 1:
        x = x / 2
    return x


def by_tolist(x):
    return torch.tensor(x.tolist()) * 2


@torch.compiler.disable
def left_out(x):
    return x * 2


def by_disable(x):
    return left_out(x) + 1


def helper(x):
    print("h")
    return x + 1


def by_helper(x):
    return helper(x) * 2


@pytest.mark.parametrize(
    ("f", "name", "offset"),
    [
        (by_item, "item", 1),
        (by_float, "item", 1),
        (by_if, "branch", 1),
        (by_while, "branch", 1),
        (by_tolist, "tolist", 1),
        (by_disable, "disabled", 1),
        (by_helper, "print", 1),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_break_has_a_name_and_a_line(f, name, offset, capsys):
    found = count(f, [lambda: (torch.ones(3),)])
    line = (helper if f is by_helper else f).__code__.co_firstlineno + offset
    assert [(place.name, place.line) for place in found.breaks] == [(name, line)]
    assert found.error is None and found.breaks[0].file == __file__


def test_counts_over_sizes():
    def twice(x):
        return 2 * x

    calls = [lambda n=n: (torch.ones(n),) for n in (3, 5, 7, 9)]
    assert [count(twice, calls).count(what) for what in ("graphs", "breaks", "versions")] == [2, 0, 2]
    assert count(twice, calls, dynamic=False).versions == 4
    assert count(twice, calls).graphs == [0, 1]  # the calls that made one
