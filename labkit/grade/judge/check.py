"""`check("w02.unbroadcast", unbroadcast)`: what the check cell of every exercise calls."""

from __future__ import annotations

import builtins
import sys
import traceback as _traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from labkit import exercises, lane
from labkit.book.work import here
from labkit.exercises.declare import Exercise
from labkit.grade.judge import judge, kinds, ladder
from labkit.grade.judge.run import where_it_failed
from labkit.verdict import RECORD_MIME, Verdict, hint_line

# Told of every verdict; `make watch` listens here.
listeners: list[Callable[[Verdict], None]] = []


class CheckFailed(AssertionError):
    """Raised by a check that does not pass, so that no runner can take it for a pass.

    IPython shows `_render_traceback_` instead of a traceback: the box above it has said everything.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.text())
        self.verdict = verdict

    def _render_traceback_(self) -> list[str]:
        return [f"{self.verdict.title}. Read the box above."]


def check(ex: str, answer: Any, **extra: Any) -> None:
    """Judge an answer, show the verdict, remember the attempt; raise CheckFailed unless it passes."""
    exercise = exercises.get(ex)
    remembered = lane.current().remembers  # graders write their own record of the attempt
    try:
        with _nobody_at_the_keyboard():
            verdict = judge(exercise, answer, **extra)
    except KeyboardInterrupt as error:
        verdict, remembered = _stopped(exercise, error), False  # no attempt: nobody knows what came of it
    if remembered:
        work = here()
        kinds.of(exercise).remember(work, exercise, answer, verdict, **extra)
        work.remember("attempt", lane="notebook", **verdict.record())
    for listener in listeners:
        listener(verdict)
    show(verdict)
    if not verdict.passed:
        raise CheckFailed(verdict) from None


@contextmanager
def _nobody_at_the_keyboard() -> Iterator[None]:
    """While an answer is judged, `input()` finds nothing to read and `exit()` raises, in every lane alike."""
    shell, ask = current_shell(), builtins.input
    leave = shell.ask_exit if shell else None

    def nothing_to_read(*_: Any) -> str:
        raise EOFError("EOF when reading a line")

    def raise_exit() -> None:
        raise SystemExit

    builtins.input = nothing_to_read
    if shell:
        shell.ask_exit = raise_exit  # IPython's own would end the kernel, after a verdict on None
    try:
        yield
    finally:
        builtins.input = ask
        if shell:
            shell.ask_exit = leave


def current_shell() -> Any:
    """IPython's shell, if this runs in one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _stopped(exercise: Exercise, error: KeyboardInterrupt) -> Verdict:
    line = where_it_failed(error)
    lines = (*((f"It was at {line}",) if line else ()), "Is there a loop that never ends?")
    headline = "the check was stopped before it came to an end."
    return Verdict(exercise.id, "error", headline, (*lines, hint_line(exercise)))


def show(verdict: Verdict) -> None:
    """Display a verdict: a box in a notebook, text elsewhere, and the record for whoever grades."""
    if current_shell() is None:
        encoding = sys.stdout.encoding or "utf-8"  # a terminal may know ASCII only
        print(verdict.text().encode(encoding, "replace").decode(encoding))
        return
    bundle = {"text/plain": verdict.text(), "text/html": verdict.html(), RECORD_MIME: verdict.record()}
    sys.modules["IPython"].display.display(bundle, raw=True)


def case(ex: str, name: str) -> dict[str, Any]:
    """The inputs of one case of an exercise, as your answer gets them."""
    exercise = exercises.get(ex)
    cases = {item.name: item for item in kinds.cases(exercise)}
    if not cases:
        raise KeyError(f"{ex} has no cases.")
    if name not in cases:
        raise KeyError(f"{ex} has no case {name!r}. It has: {', '.join(cases)}.")
    inputs: dict[str, Any] = kinds.of(exercise).inputs(exercise, cases[name])
    return inputs


def traceback() -> None:
    """Print the whole traceback of the last error that a check caught."""
    error = ladder.last_error
    print("".join(_traceback.format_exception(error)) if error else "No check has met an error yet.")
