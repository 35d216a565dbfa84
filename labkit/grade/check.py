"""`check("w02.unbroadcast", unbroadcast)`: what the check cell of every exercise calls."""

from __future__ import annotations

import os
import sys
import traceback as _traceback
from collections.abc import Callable
from typing import Any

from labkit import exercises
from labkit.exercises.declare import Implement, Predict
from labkit.grade import events, ladder
from labkit.grade.judge import judge
from labkit.grade.kinds import wrong_items
from labkit.grade.run import to_engine
from labkit.grade.verdict import RECORD_MIME, Verdict

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


def check(exercise_id: str, answer: Any, **extra: Any) -> None:
    """Judge an answer, show the verdict, remember the attempt; raise CheckFailed unless it passes."""
    exercise = exercises.get(exercise_id)
    in_notebook = "LABKIT_LANE" not in os.environ  # graders write their own record of the attempt
    verdict = judge(exercise, answer, **extra)
    if in_notebook and isinstance(exercise, Predict) and verdict.status in ("pass", "values"):
        _remember_prediction(exercise, answer, extra.get("sure"))
    if in_notebook:
        events.append("attempt", lane="notebook", **verdict.record())
    for listener in listeners:
        listener(verdict)
    show(verdict)
    if not verdict.passed:
        raise CheckFailed(verdict) from None


def show(verdict: Verdict) -> None:
    """Display a verdict: a box in a notebook, text elsewhere, and the record for whoever grades."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        encoding = sys.stdout.encoding or "utf-8"  # a terminal may know ASCII only
        print(verdict.text().encode(encoding, "replace").decode(encoding))
        return
    bundle = {"text/plain": verdict.text(), "text/html": verdict.html(), RECORD_MIME: verdict.record()}
    ipython.display.display(bundle, raw=True)


def _remember_prediction(exercise: Predict, answer: dict[str, Any], sure: Any) -> None:
    """Store the first complete prediction before its result is shown."""
    known = any(e["kind"] == "prediction" and e.get("ex") == exercise.id for e in events.read())
    if not known:
        right = len(answer) - len(wrong_items(exercise, answer))
        events.append("prediction", ex=exercise.id, right=right, of=len(answer), sure=sure, answer=answer)


def case(exercise_id: str, name: str) -> dict[str, Any]:
    """The inputs of one case of an exercise, as your answer gets them."""
    exercise = exercises.get(exercise_id)
    if not isinstance(exercise, Implement):
        raise KeyError(f"{exercise_id} has no cases.")
    for item in exercise.cases:
        if item.name == name:
            return to_engine(item.inputs(exercise.id, exercise.dtype), exercise.engine)
    raise KeyError(
        f"{exercise_id} has no case {name!r}. It has: {', '.join(c.name for c in exercise.cases)}."
    )


def traceback() -> None:
    """Print the whole traceback of the last error that a check caught."""
    error = ladder.last_error
    print("".join(_traceback.format_exception(error)) if error else "No check has met an error yet.")
