"""The exercises of the course, one file per week; `get("w02.unbroadcast")` finds any of them.

`LABKIT_EXERCISES` may name a folder with further `weekNN.py`, such as a course's own.
"""

import importlib
import os
import pkgutil
from functools import cache

from labkit.exercises.declare import Exercise

__path__ = [*__path__, *filter(None, [os.environ.get("LABKIT_EXERCISES")])]


@cache
def weeks() -> tuple[int, ...]:
    """The weeks that have exercises."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return tuple(sorted(int(name[4:]) for name in names if name.startswith("week")))


@cache
def of_week(week: int) -> dict[str, Exercise]:
    """Every exercise of one week by id, in the order of the lessons."""
    if week not in weeks():
        return {}
    module = importlib.import_module(f"labkit.exercises.week{week:02d}")
    found = {value.id: value for value in vars(module).values() if isinstance(value, Exercise)}
    strays = [key for key in found if not key.startswith(f"w{week:02d}.")]
    if strays:
        raise ValueError(f"week{week:02d}.py declares exercises of another week: {', '.join(strays)}")
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
