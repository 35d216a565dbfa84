"""The exercises of the course by week; `get("w02.unbroadcast")` finds any of them.

A week is declared in `weekNN.py`; a long one also in files such as `weekNN_topic.py`. `LABKIT_EXERCISES` may
name a folder with further ones, such as a course's own.
"""

import importlib
import os
import pkgutil
from functools import cache

from labkit.exercises.declare import Exercise

__path__ = [*__path__, *filter(None, [os.environ.get("LABKIT_EXERCISES")])]


@cache
def _files() -> tuple[str, ...]:
    """The modules that declare exercises: week00, week01, …"""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return tuple(sorted(name for name in names if name.startswith("week")))


@cache
def weeks() -> tuple[int, ...]:
    """The weeks that have exercises."""
    return tuple(sorted({int(name[4:6]) for name in _files()}))


@cache
def of_week(week: int) -> dict[str, Exercise]:
    """Every exercise of one week by id, in the order of its file or files."""
    found: dict[str, Exercise] = {}
    for name in _files():
        if int(name[4:6]) != week:
            continue
        module = importlib.import_module(f"labkit.exercises.{name}")
        declared = {value.id: value for value in vars(module).values() if isinstance(value, Exercise)}
        strays = [key for key in declared if not key.startswith(f"w{week:02d}.")]
        if strays:
            raise ValueError(f"{name}.py declares exercises of another week: {', '.join(strays)}")
        twice = [key for key in declared if key in found]
        if twice:
            raise ValueError(f"{name}.py declares what another file has declared: {', '.join(twice)}")
        found |= declared
    return found


def all_exercises() -> dict[str, Exercise]:
    return {key: value for week in weeks() for key, value in of_week(week).items()}


def all_ids() -> set[str]:
    return set(all_exercises())


def get(exercise_id: str) -> Exercise:
    """The exercise with this id, or a KeyError that suggests the nearest one."""
    known = all_exercises()
    if exercise_id in known:
        return known[exercise_id]
    import difflib

    near = difflib.get_close_matches(exercise_id, known, n=1)
    advice = f" Did you mean {near[0]}?" if near else " `make progress` lists them all."
    raise KeyError(f"There is no exercise {exercise_id!r}.{advice}")
