"""Say what will happen before running it. The first complete prediction is remembered for calibration."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from labkit.book import events
from labkit.exercises.declare import Mistake, Predict
from labkit.grade.judge.kinds.agree import agrees, plain
from labkit.grade.judge.kinds.usual import (  # noqa: F401
    delegation,
    inputs,
    problems,
    survives,
    texts,
    warm,
    without_rules,
)
from labkit.verdict import Verdict, hint_line, is_blank, not_started


def judge(exercise: Predict, answer: Any, sure: Any = None) -> Verdict:
    if is_blank(answer):
        return not_started(exercise, "no predictions yet.")
    if not isinstance(answer, dict) or set(answer) != set(exercise.items):
        keys = ", ".join(exercise.items)
        return Verdict(exercise.id, "type", f"the predictions are a dict with exactly these keys: {keys}.")
    open_items = [key for key, value in answer.items() if is_blank(value)]
    open_items += ["sure"] if sure is ... else []
    if open_items:
        return not_started(exercise, f"still to predict: {', '.join(open_items)}.")
    if sure is not None and not (type(sure) is int and 0 <= sure <= len(answer)):
        words = f"`sure` is how many you expect to have right: a whole number from 0 to {len(answer)}."
        return Verdict(exercise.id, "type", words, (f"Yours {sure!r}.",))
    wrong = wrong_items(exercise, answer)
    if not wrong:
        return Verdict(exercise.id, "pass", f"all {len(answer)} predictions are right.", (exercise.passed,))
    seen = [m for m in exercise.mistakes if all(agrees(answer[key], value) for key, value in m.wrong.items())]
    lines = [f"Likely cause: {mistake.says}" for mistake in seen[:3]]
    strange = _mistyped(exercise, answer)
    if strange:
        status, (headline, *more) = "type", strange
        lines += more[:3]
    else:
        status = "values"
        headline = f"{len(answer) - len(wrong)} of {len(answer)} right; look again at {', '.join(wrong)}."
        lines.append("Your first answers are kept for calibration. Find out why, then correct them.")
    return Verdict(
        exercise.id, status, headline, (*lines, hint_line(exercise)), seen[0].name if seen else None
    )


def wrong_items(exercise: Predict, answer: dict[str, Any]) -> list[str]:
    return [key for key, item in exercise.items.items() if not agrees(answer[key], item.truth())]


def _mistyped(exercise: Predict, answer: dict[str, Any]) -> list[str]:
    """A sentence for each answer of a type that cannot be right, whatever the truth.

    Fair guesses are left alone: "error", any word where some item wants one, a shape where "error" is right.
    """
    truths = {key: _sort(item.truth()) for key, item in exercise.items.items()}
    sentences = []
    for key, wanted in truths.items():
        given = _sort(answer[key])
        if given == _TEXT:
            is_word = _sort(_unquoted(answer[key])) != wanted
            fair = is_word and (_TEXT in truths.values() or answer[key] == "error")
        else:
            fair = wanted == _TEXT and len({*truths.values()}) > 1
        if given != wanted and not fair:
            sentences.append(f"`{key}` is {answer[key]!r}, {given}; {wanted} is wanted.")
    return sentences


_TEXT = "text in quotes"


def _sort(value: Any) -> str:
    """Of which type an answer is, in words."""
    value = plain(value)
    if isinstance(value, str) or type(value).__name__ == "dtype":
        return _TEXT
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, int | float):
        return "a number"
    return "a tuple" if isinstance(value, tuple | list) else f"a {type(value).__name__}"


def _unquoted(text: Any) -> Any:
    """What a text would be without its quotes; the text itself if it is no number, tuple, True or False."""
    try:
        return ast.literal_eval(str(text).strip())
    except (ValueError, SyntaxError):
        return text


def remember(exercise: Predict, answer: Any, verdict: Verdict, sure: Any = None) -> None:
    """Store the first complete prediction before its result is shown."""
    if verdict.status not in ("pass", "values"):
        return
    known = any(e["kind"] == "prediction" and e.get("ex") == exercise.id for e in events.read())
    if not known:
        right = len(answer) - len(wrong_items(exercise, answer))
        events.append("prediction", ex=exercise.id, right=right, of=len(answer), sure=sure, answer=answer)


# for the audit


def wrong_answer(exercise: Predict, mistake: Mistake) -> tuple[Any, dict[str, Any]]:
    """Everything right but what the mistake gets wrong."""
    truths = {key: item.truth() for key, item in exercise.items.items()}
    return {**truths, **mistake.wrong}, {}


def must_fail(exercise: Predict, solution: Any) -> Iterator[str]:
    wrong = {key: "no such answer" for key in exercise.items}
    for mistake in exercise.mistakes:
        wrong.update(mistake.wrong)
    if judge(exercise, wrong).passed:
        yield "predictions that are all wrong pass"


def mutants(exercise: Predict, found: Sequence[Any]) -> list[Any]:
    """How sure one is cannot be wrong."""
    return [mutant for mutant in found if not mutant.before.startswith("sure =")]
