"""Is an exercise declared well? Test data that cannot hide a mistake, hints, words that fit.

A square matrix hides a swapped axis, a constant array hides a wrong index, a contiguous one hides `view`.
A rule may be broken for a reason: `excused={"equal axes": "attention scores are square"}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.exercises.declare import Case, Exercise
from labkit.grade.judge import kinds
from labkit.grade.judge.compare import Leaf, flatten
from labkit.verdict import LONGEST

RULES = ("equal axes", "constant", "symmetric", "distinct", "size one", "not contiguous", "delegation")


def lint(exercise: Exercise) -> list[str]:
    """What is wrong with a declaration, one sentence each; excused rules are left out."""
    data = [words for rule, words in _data(exercise) if rule not in exercise.excused]
    return [*_declaration(exercise), *_words(exercise), *data]


def _declaration(exercise: Exercise) -> Iterator[str]:
    names = [mistake.name for mistake in exercise.mistakes]
    if len(names) < 3:
        yield f"{len(names)} mistakes; declare at least three"
    for name in {name for name in names if names.count(name) > 1}:
        yield f"two mistakes are called {name!r}"
    if len(exercise.hints) != 3 or not all(hint.strip() for hint in exercise.hints):
        yield "three hints are wanted"
    if exercise.minutes <= 0:
        yield "minutes must be positive"
    for rule, reason in exercise.excused.items():
        if rule not in RULES or not reason.strip():
            yield f"excused={{{rule!r}: {reason!r}}}: give a reason, for one of {', '.join(RULES)}"
    for same in exercise.equivalent:
        if not same.reason.strip():
            yield f"equivalent: {same.before}  ->  {same.after}: say why no input can show the difference"
    yield from kinds.of(exercise).problems(exercise)


def _words(exercise: Exercise) -> Iterator[str]:
    """Texts that a verdict would have to cut."""
    texts = {"passed": exercise.passed}
    texts |= {f"hint {number}": hint for number, hint in enumerate(exercise.hints, 1)}
    texts |= {f"mistake {m.name!r}": f"Likely cause: {m.says}" for m in exercise.mistakes}
    texts |= kinds.of(exercise).texts(exercise)
    for name, text in (texts | {"title": exercise.title}).items():
        if "TODO" in text:
            yield f"{name} still says TODO"
        longest = max(len(line) for line in text.splitlines() or [""])
        if longest > LONGEST - 2:
            yield f"{name}: a line of {longest} characters; {LONGEST - 2} fit"


def _data(exercise: Exercise) -> Iterator[tuple[str, str]]:
    """(rule, sentence) for everything that the test data could hide."""
    given = [(case, kinds.of(exercise).inputs(exercise, case)) for case in kinds.cases(exercise)]
    cases = [(case, arrays_of(inputs)) for case, inputs in given]
    for case, arrays in cases:
        for path, array in arrays:
            yield from _array(case, path.strip("[]'"), array)
    every = [array for _, arrays in cases for _, array in arrays]
    if not every:
        return
    if not any(arrays and all(_is_distinct(a) for _, a in arrays) for _, arrays in cases):
        yield "distinct", "no case where every array has all axes of different size"
    if not any(1 in array.shape for array in every):
        yield "size one", "no case with an axis of size 1"
    if all(_is_contiguous(inputs) for _, inputs in given):
        yield "not contiguous", "no case with an input that is not contiguous"


def arrays_of(inputs: dict[str, Any]) -> list[tuple[str, np.ndarray]]:
    leaves = flatten(inputs)
    return [(p, x.value) for p, x in leaves if isinstance(x, Leaf) and isinstance(x.value, np.ndarray)]


def _array(case: Case, name: str, array: np.ndarray) -> Iterator[tuple[str, str]]:
    where = f"case {case.name!r}: {name} {array.shape}"
    if not _is_distinct(array, larger_than=1):
        yield "equal axes", f"{where} has two axes of the same size; a swap of them could pass"
    if case.extreme or array.size < 2:
        return
    if (array == array.flat[0]).all():
        yield "constant", f"{where} is constant; a wrong index could pass"
    elif array.size > 3 and array.dtype != bool and np.array_equal(array, np.flip(array)):
        yield "symmetric", f"{where} reads the same backwards; a reversed axis could pass"


def _is_distinct(array: np.ndarray, larger_than: int = -1) -> bool:
    sizes = [size for size in array.shape if size > larger_than]
    return len(sizes) == len(set(sizes))


def _is_contiguous(inputs: dict[str, Any]) -> bool:
    """Whether all inputs are contiguous, as the engine's own: NumPy's order may get lost on the way."""
    values: list[Any] = [inputs]
    while values:
        value = values.pop()
        if isinstance(value, dict | list | tuple):
            values += list(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, np.ndarray):
            if not value.flags.c_contiguous:
                return False
        elif hasattr(value, "is_contiguous") and not value.is_contiguous():
            return False
    return True
