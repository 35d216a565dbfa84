"""Mutants: small, valid, different from the solution and from each other, on the learner's lines only."""

import ast

import pytest

from labkit.grade.audit.mutants import mutants, sample

CODE = '''import math


def f(x: int = 3, y=2):
    """The answer to 1 + 1."""
    before = x + 1
    ### BEGIN SOLUTION
    # a comment with an é
    total = 0.0
    for i in range(len(x) - 1):
        total += x[i] * (y + 1)
    if not y > 2 and x:
        raise ValueError(f"{y + 1} is too large" + "1")
    z = "é" * 2; w = x.sum(dim=-1, keepdim=True)[..., 1:y]
    return total / len(
        x
    ), z
    ### END SOLUTION
    after = x - 1
'''


def pairs(code, **kwargs):
    """before -> after of the mutants of a body."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    found = mutants(f"def f(x, y):\n    ### BEGIN SOLUTION\n{body}\n    ### END SOLUTION\n", **kwargs)
    return {mutant.after for mutant in found}


def test_every_mutant_is_another_program():
    found = mutants(CODE)
    trees = [ast.dump(ast.parse(mutant.code)) for mutant in found]
    assert len(found) > 30
    assert len(set(trees)) == len(trees) and ast.dump(ast.parse(CODE)) not in trees
    for mutant in found:
        compile(mutant.code, "<mutant>", "exec")
        assert mutant.before != mutant.after


def test_only_what_learners_write_is_changed():
    for mutant in mutants(CODE):
        assert 9 <= mutant.line <= 17
        for line in (
            "    before = x + 1",
            "    after = x - 1",
            "def f(x: int = 3, y=2):",
            "    # a comment with an é",
        ):
            assert line in mutant.code.splitlines()


def test_texts_and_messages_are_left_alone():
    changed = {mutant.before for mutant in mutants(CODE) if mutant.change != "dropped"}
    assert not any("too large" in line for line in changed)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("return x + y", {"return x - y", "pass"}),
        ("return x @ y", {"return x * y"}),
        ("return x // y % 3", {"return x / y % 3", "return x // y // 3", "return x // y % 4"}),
        ("return x * y * 2", {"return x / y * 2", "return x * y / 2"}),
        ("return x ** y", {"return x * y"}),
        ("return x < y", {"return x <= y", "return x >= y"}),
        ("return x is None", {"return x is not None"}),
        ("return x and y", {"return x or y"}),
        ("return not x", {"return x"}),
        ("return -x", {"return x"}),
        (
            "return x.sum(dim=-1)",
            {"return x.sum(dim=0)", "return x.sum(dim=-2)", "return x.sum(dim=1)", "return x.sum()"},
        ),
        ("return x.sum(dim=0)", {"return x.sum(dim=1)", "return x.sum(dim=-1)", "return x.mean(dim=0)"}),
        ("return x.max(keepdim=True)", {"return x.min(keepdim=True)", "return x.max(keepdim=False)"}),
        (
            "return [i for i in range(x)]",
            {"return [i for i in range(x + 1)]", "return [i for i in range(x - 1)]"},
        ),
        (
            "return x[1:y]",
            {
                "return x[2:y]",
                "return x[0:y]",
                "return x[1:y + 1]",
                "return x[1:y - 1]",
                "return x[:y]",
                "return x[1:]",
            },
        ),
        ("return x[::2]", {"return x[::3]", "return x[:]"}),
        ("return g(x, y)", {"return g(y, x)"}),
        ("return g(x, a=1)", {"return g(x)", "return g(x, a=2)"}),
        ("return x, y", {"return (y, x)"}),
        ("return True", {"return False"}),
        ("return 0.5 * x", {"return 0.55 * x", "return 0.5 / x"}),
        ("return x if y else 0", {"return x if not y else 0"}),
        ("return [i for i in x if i]", {"return [i for i in x if not i]"}),
        ("x += y\nreturn x", {"x -= y", "x = y", "pass"}),
        ("while x:\n    x = g(x)", {"while not x:", "pass"}),
        ("assert x == y", {"assert x != y", "pass"}),
        ("return x ^ y & 1", {"return x ^ (y | 1)"}),
    ],
)
def test_changes(code, wanted):
    assert wanted <= pairs(code)


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("return max(x, y)", "return max(y, x)"),
        ("return dict(zip(x, y, strict=True))", "return dict(zip(x, y))"),
        ("return x - -1", "return x - -0"),
        ("return g(*x, y)", "return g(y, *x)"),
    ],
)
def test_changes_that_would_say_nothing(code, unwanted):
    assert unwanted not in pairs(code)


def test_parentheses_keep_the_meaning():
    found = mutants("def f(a, b, c):\n    return a * (b + c) - a * b * c\n", {2})
    after = {mutant.after for mutant in found}
    assert "return a * (b - c) - a * b * c" in after and "return a / (b + c) - a * b * c" in after


def test_several_lines_read_as_one():
    (mutant,) = [m for m in mutants(CODE) if m.change == "order"]
    assert str(mutant) == "return total / len( x ), z  ->  return (z, total / len(x))"


def test_a_sample_is_the_same_for_the_same_seed():
    found = [("a", mutant) for mutant in mutants(CODE)]
    assert sample(found, 5, 1) == sample(found, 5, 1) != sample(found, 5, 2)
    assert len(sample(found, 10_000, 1)) == len(found)
