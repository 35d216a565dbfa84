"""`make solution EX=w02.unbroadcast`: how the course does it. After a pass, or on insistence (INSIST=1)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from labkit.book.percent import parts
from labkit.book.source import Source
from labkit.book.work import here
from labkit.grade.progress.hint import chosen
from labkit.grade.progress.history import History, load


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m labkit solution", description="The solution.")
    parser.add_argument("ex", nargs="?", help="such as w02.unbroadcast; the one you are at if not given")
    parser.add_argument("--insist", action="store_true", help="show it before you have passed")
    options = parser.parse_args(argv)
    work = here()
    state = load(work)
    exercise = chosen(state, options.ex or state.latest)
    if exercise is None:
        print("Say which: `make solution EX=w02.unbroadcast`.")
        return 2
    if exercise.id not in state.places:
        print(f"The lesson of {exercise.id} is not here, and its solution is in the lesson.")
        return 1
    passed = state.standing[exercise.id].passed
    if not passed and not options.insist:
        print("\n".join(refusal(state, exercise.id)))
        return 1
    print(text(state.places[exercise.id]))
    if not passed:
        work.remember("solution", ex=exercise.id)
    return 0


def refusal(state: History, ex: str) -> list[str]:
    """Why not yet, and what to do instead. Nobody is kept from it who asks twice."""
    left = len(state.exercises[ex].hints) - state.standing[ex].hints
    lines = [
        f"{ex} is not passed yet. Read after a fight, a solution teaches; read before, it only looks easy."
    ]
    if left > 0:
        lines.append(f"You have {left} of {len(state.exercises[ex].hints)} hints left: `make hint EX={ex}`")
    lines.append(f"To see it all the same: `make solution EX={ex} INSIST=1`")
    return lines


def text(source: Source) -> str:
    """The prose above the exercise, from its heading on, then its solution without the markers."""
    code = parts(source.solution)[1]
    headings = [place for place, prose in enumerate(source.text) if prose.startswith("#")]
    prose = source.text[headings[-1] if headings else 0 :]
    return "\n\n".join([*prose, f"The solution ({source.lesson.path.as_posix()}):", _indented(code)])


def _indented(code: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in code.splitlines())
