"""The exercises of the course; `get("w02.unbroadcast")` finds any of them.

An exercise is a file such as `week02/unbroadcast.py` that ends with `exercise = Implement(...)` or another
kind. Its id follows from its path. What several exercises of a week need stands in the week's `shared.py`.
`LABKIT_EXERCISES` may name a folder with further weeks, such as a course's own, or further files of a week.
"""

import importlib
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

from labkit.exercises.declare import Exercise, week_of

SHARED = "shared"  # the file of a week that declares no exercise
__path__ = [*__path__, *filter(None, [os.environ.get("LABKIT_EXERCISES")])]


@cache
def files() -> dict[str, Path]:
    """The file of every exercise by id, weeks in order, by name within a week. Nothing is imported."""
    found: dict[str, Path] = {}
    for path in [file for folder in __path__ for file in Path(folder).glob("week[0-9][0-9]/*.py")]:
        key = f"w{path.parent.name[4:]}.{path.stem}"
        if path.stem == SHARED or path.stem.startswith("_"):
            continue
        if key in found:
            raise ValueError(f"{key} is declared twice: in {found[key]} and in {path}. Delete or rename one.")
        found[key] = path
    return dict(sorted(found.items()))


@cache
def _load(ex: str) -> Exercise:
    """Import the one file that declares an exercise, and give the exercise its id."""
    path = files()[ex]
    try:
        module = importlib.import_module(f"labkit.exercises.{path.parent.name}.{path.stem}")
    except TypeError as error:  # a field that is missing, or that there is not
        raise ValueError(f"{path}: {error}") from error
    declared = getattr(module, "exercise", None)
    if not isinstance(declared, Exercise):
        raise ValueError(f"{path} declares no exercise: end it with `exercise = Implement(...)`.")
    if declared.id:
        raise ValueError(f"{path}: leave out id={declared.id!r}; the path says {ex}.")
    return replace(declared, id=ex)


@cache
def weeks() -> tuple[int, ...]:
    """The weeks that have exercises."""
    return tuple(sorted({week_of(key) for key in files()}))


@cache
def of_week(week: int) -> dict[str, Exercise]:
    """Every exercise of one week by id, by name. The order of the course is that of the lessons."""
    return {key: _load(key) for key in files() if key.startswith(f"w{week:02d}.")}


def all_exercises() -> dict[str, Exercise]:
    """Every exercise by id, weeks in order, by name within a week."""
    return {key: _load(key) for key in files()}


def all_ids() -> set[str]:
    return set(files())


def get(ex: str) -> Exercise:
    """The exercise with this id, or a KeyError that suggests the nearest one."""
    if ex in files():
        return _load(ex)
    import difflib

    near = difflib.get_close_matches(ex, files(), n=1)
    advice = f" Did you mean {near[0]}?" if near else " `make progress` lists them all."
    raise KeyError(f"There is no exercise {ex!r}.{advice}")
