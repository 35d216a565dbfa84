"""`make hint EX=w02.unbroadcast`: the next hint of an exercise, from a nudge to nearly the answer.

In a notebook: `labkit.hint("w02.unbroadcast")`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from labkit import exercises
from labkit.book.work import Work, here
from labkit.exercises.declare import Exercise
from labkit.grade.progress.history import History, load


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m labkit hint", description="The next hint.")
    parser.add_argument("ex", nargs="?", help="such as w02.unbroadcast; the one you are at if not given")
    options = parser.parse_args(argv)
    return 0 if _hint(options.ex) else 2


def hint(ex: str | None = None) -> None:
    """Print the next hint. After the third, all three stay, with what else there is to do."""
    _hint(ex)


def _hint(ex: str | None) -> bool:
    """Print the next hint, or that there is no such exercise; then False."""
    work = here()
    state = load(work)
    try:
        exercise = chosen(state, ex)
    except KeyError as error:
        print(error.args[0])
        return False
    if exercise is None:
        print("Every exercise is passed: there is nothing left to hint at.")
        return True
    print("\n".join(words(exercise, take(work, state, exercise))))
    return True


def take(work: Work, state: History, exercise: Exercise) -> int:
    """Count one more hint as given; returns how many were before."""
    given = state.standing[exercise.id].hints if exercise.id in state.standing else 0
    if given < len(exercise.hints):
        work.remember("hint", ex=exercise.id, number=given + 1)
    return given


def chosen(state: History, ex: str | None) -> Exercise | None:
    """The exercise asked for, else the one the learner is at; None when there is none left."""
    if ex:
        return exercises.get(ex)
    return state.exercises[state.current] if state.current else None


def words(exercise: Exercise, given: int) -> list[str]:
    """What to say to somebody who has had `given` hints."""
    total = len(exercise.hints)
    number = min(given + 1, total)
    lines = [f"{exercise.id}: {exercise.title}"]
    if given >= total:
        lines += [f"  {place}. {text}" for place, text in enumerate(exercise.hints, 1)]
        lines.append("These were all hints.")
    else:
        lines.append(f"  Hint {number} of {total}: {exercise.hints[number - 1]}")
    if number == total:
        lines += [
            f"The solution: `make solution EX={exercise.id} INSIST=1`.",
            "Or ask someone, and show them what the check says. Later exercises do not need this one.",
        ]
    else:
        lines.append(f"The next one: `make hint EX={exercise.id}`")
    return lines
