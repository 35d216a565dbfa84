"""Every kind has a module, every module every function; nobody else asks of what kind an exercise is."""

import inspect
import re
from pathlib import Path

import pytest

import labkit
from labkit.exercises import declare
from labkit.grade.judge import kinds

PACKAGE = Path(labkit.__file__).parent
FUNCTIONS = [name for name in vars(kinds.Kind) if not name.startswith("_")]
DECLARED = [
    value
    for value in vars(declare).values()
    if inspect.isclass(value) and issubclass(value, declare.Exercise) and value is not declare.Exercise
]


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.__name__)
def test_a_kind_has_a_module_with_every_function(declared):
    module = kinds.KINDS[declared]
    for name in FUNCTIONS:
        function = getattr(module, name)
        wanted = list(inspect.signature(getattr(kinds.Kind, name)).parameters)[1:]
        assert list(inspect.signature(function).parameters)[: len(wanted)] == wanted, name


@pytest.mark.parametrize("module", kinds.KINDS.values(), ids=lambda module: module.__name__.split(".")[-1])
def test_a_kind_says_itself_what_it_judges(module):
    usual = {name for name in FUNCTIONS if "usual" in getattr(module, name).__module__}
    assert "judge" not in usual


def test_the_contract_is_written_down():
    documented = set(re.findall(r"^    (\w+)\(", kinds.__doc__, re.M))
    assert documented == set(FUNCTIONS)


def test_nobody_else_asks_of_what_kind_an_exercise_is():
    names = "|".join(declared.__name__ for declared in DECLARED)
    asks = re.compile(rf"(isinstance|issubclass)\([^)]*\b({names})\b|type\(exercise\)")
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        if "kinds" not in path.parts
        for line in path.read_text(encoding="utf-8").splitlines()
        if asks.search(line)
    ]
    assert found == []
