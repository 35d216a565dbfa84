"""Name the fault in broken code, and mend it: the ladder of Implement, and a menu of faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from labkit.exercises.declare import Fix, Mistake
from labkit.grade.judge import ladder
from labkit.grade.judge.disguise import disguise
from labkit.grade.judge.kinds import implement
from labkit.grade.judge.kinds.implement import inputs, warm, without_rules  # noqa: F401
from labkit.grade.judge.kinds.usual import mutants, remember  # noqa: F401
from labkit.grade.judge.run import quiet
from labkit.verdict import Verdict, hint_line, is_blank, not_started, wrapped


def judge(exercise: Fix, answer: Any, fault: Any = None) -> Verdict:
    """Both halves are checked: the code must be mended, and the fault named."""
    mended = ladder.judge_implement(exercise, answer)
    named = None if is_blank(fault) else _choice(exercise, fault)
    if mended.status == "not started":
        return mended
    if not mended.passed:
        found = ladder.declared_trial(exercise, exercise.broken)
        with quiet():
            untouched = ladder.trial(exercise, answer).same(found, exercise)
        if not untouched:
            return mended
        if named is None:
            return not_started(
                exercise, "the code is as it was found. Run it, look, then mend it and name the fault."
            )
        if named == exercise.fault:
            return replace(
                mended, headline="you named the fault; the code still has it. Now mend it.", mistake=None
            )
        lines = (*_menu_lines(exercise, named), hint_line(exercise))
        return replace(mended, headline="the code still has the fault.", lines=lines, mistake=None)
    if named is None:
        return Verdict(
            exercise.id,
            "values",
            "the code is mended. Now name the fault.",
            wrapped(f"`fault` is one of {_menu(exercise)}.", 4),
        )
    if named != exercise.fault:
        known = _on_menu(exercise, named)
        words = f"but the fault was not {named!r}" if known else "but its fault is not named yet"
        lines = (*_menu_lines(exercise, named), hint_line(exercise))
        return Verdict(exercise.id, "values" if known else "type", f"the code is mended, {words}.", lines)
    return replace(mended, headline=f'fault "{exercise.fault}" named and mended; {mended.headline}')


def _menu(exercise: Fix) -> str:
    return ", ".join(f'"{key}"' for key in exercise.menu)


def _on_menu(exercise: Fix, named: Any) -> bool:
    return isinstance(named, str) and named in exercise.menu


def _choice(exercise: Fix, named: Any) -> Any:
    """The entry of the menu that was meant: spaces and capitals do not count."""

    def plain(text: str) -> str:
        return "".join(text.split()).casefold()

    return next((key for key in exercise.menu if plain(key) == plain(str(named))), named)


def _menu_lines(exercise: Fix, named: Any) -> tuple[str, ...]:
    """What to say about a wrong name for the fault."""
    if _on_menu(exercise, named):
        return (exercise.menu[named],)
    return wrapped(f"{named!r} is not on the menu. Choose from {_menu(exercise)}.", 4)


# for the audit


def wrong_answer(exercise: Fix, mistake: Mistake) -> tuple[Any, dict[str, Any]]:
    return disguise(mistake.wrong), {"fault": exercise.fault}


def must_fail(exercise: Fix, solution: Any) -> Iterator[str]:
    """The code as it was found, and the solution under any other fault of the menu."""
    broken = disguise(exercise.broken)
    unnamed = judge(exercise, broken, fault=None)
    if unnamed.status != "not started":
        yield f"the broken code, unnamed, is judged {unnamed.said}"
    if judge(exercise, broken, fault=exercise.fault).passed:
        yield "the broken code passes once its fault is named"
    for choice, sentence in exercise.menu.items():
        if choice == exercise.fault:
            continue
        verdict = judge(exercise, solution, fault=choice)
        if verdict.passed or not sentence or sentence not in verdict.lines:
            yield f"the wrong choice {choice!r} is not refused with its sentence: {verdict.said}"


def delegation(exercise: Fix) -> tuple[str, str | None]:
    return implement.delegation(exercise, partial(judge, fault=exercise.fault))


def survives(exercise: Fix, answer: Any, fault: Any = None) -> bool:
    return fault == exercise.fault and implement.survives(exercise, answer)


def texts(exercise: Fix) -> dict[str, str]:
    return {f"menu {key!r}": sentence for key, sentence in exercise.menu.items()}


def problems(exercise: Fix) -> Iterator[str]:
    if exercise.fault not in exercise.menu:
        yield f"the fault {exercise.fault!r} is not on its menu"
