"""The verdicts of the other kinds: name and fix a bug, predict, measure, write a test."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from typing import Any

import numpy as np

from labkit.exercises.declare import Fix, Measure, Predict, WriteTest
from labkit.grade.judge.compare import leaf
from labkit.grade.judge.ladder import judge_implement, trial
from labkit.grade.judge.run import is_stub, quiet, seed_everything, where_it_failed
from labkit.grade.judge.surroundings import as_usual
from labkit.verdict import Verdict, hint_line, is_blank, not_started, wrapped

# fix


def judge_fix(exercise: Fix, answer: Any, fault: Any = None) -> Verdict:
    """Both halves are checked: the code must be mended, and the fault named."""
    mended = judge_implement(exercise, answer)
    named = None if is_blank(fault) else _choice(exercise, fault)
    if mended.status == "not started":
        return mended
    if not mended.passed:
        with quiet():
            untouched = trial(exercise, answer).same(trial(exercise, exercise.broken), exercise)
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


# predict


def judge_predict(exercise: Predict, answer: Any, sure: Any = None) -> Verdict:
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
    seen = [
        m for m in exercise.mistakes if all(_agrees(answer[key], value) for key, value in m.wrong.items())
    ]
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
    return [key for key, item in exercise.items.items() if not _agrees(answer[key], item.truth())]


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
    value = _plain(value)
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


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value


def _agrees(given: Any, truth: Any) -> bool:
    """Equal, with lists taken for tuples, floats to 1 %, and text without regard to capitals."""
    given = _plain(given)
    if isinstance(truth, tuple | list):
        is_sequence = isinstance(given, tuple | list) and len(given) == len(truth)
        return is_sequence and all(_agrees(a, b) for a, b in zip(given, truth, strict=True))
    if isinstance(truth, bool) or isinstance(given, bool):
        return given is truth
    if isinstance(truth, float) and isinstance(given, int | float):
        near = abs(given - truth) <= 0.01 * abs(truth) < math.inf
        return near or given == truth or (math.isnan(given) and math.isnan(truth))
    given = str(given) if type(given).__name__ == "dtype" else given
    if isinstance(truth, str) and isinstance(given, str):  # torch.float32 is as good as "float32"
        return given.strip().removeprefix("torch.").casefold() == truth.casefold()
    try:
        return bool(given == truth)
    except Exception:  # an array of several values, say
        return False


# measure


def judge_measure(exercise: Measure, answer: Any) -> Verdict:
    if is_blank(answer):
        return not_started(exercise, "no measurement yet.")
    wanted = exercise.answer_type if isinstance(exercise.answer_type, tuple) else (exercise.answer_type,)
    plain = _plain(answer)
    if isinstance(plain, int) and not isinstance(plain, bool) and float in wanted:
        plain = plain if int in wanted else float(plain)
    if not isinstance(plain, wanted) or (isinstance(plain, bool) and bool not in wanted):
        names = " or ".join(kind.__name__ for kind in wanted)
        return Verdict(
            exercise.id,
            "type",
            f"the answer is {leaf(answer).dtype}; {names} is wanted.",
            (hint_line(exercise),),
        )
    sentence = exercise.accept(plain)
    if sentence is None:
        return Verdict(exercise.id, "pass", "the measurement holds.", (exercise.passed,))
    seen = next(
        (m for m in exercise.mistakes if (m.when(plain) if m.when else _agrees(plain, m.wrong))), None
    )
    lines = (f"Likely cause: {seen.says}",) if seen else ()
    return Verdict(
        exercise.id, "values", sentence, (*lines, hint_line(exercise)), seen.name if seen else None
    )


# write a test


def judge_test(exercise: WriteTest, answer: Any) -> Verdict:
    if is_blank(answer):
        return not_started(exercise, "no test yet.")
    results = _test_results(exercise, answer)
    if any(is_stub(error) for error in results):
        return not_started(exercise, "the test still reaches `raise NotImplementedError`.")
    good, found = results[: len(exercise.good)], results[len(exercise.good) :]
    missed = [name for name, error in zip(exercise.bugs, found, strict=True) if error is None]
    rejected = next((error for error in good if error is not None), None)
    if rejected is None and not missed:
        headline = f"accepts the right code and catches all {len(found)} planted bugs."
        return Verdict(exercise.id, "pass", headline, (exercise.passed,))
    shape = [error is None for error in results]
    seen = next(
        (m for m in exercise.mistakes if [e is None for e in _test_results(exercise, m.wrong)] == shape), None
    )
    lines = [f"Likely cause: {seen.says}"] if seen else []
    if rejected is not None:
        kind = type(rejected).__name__
        line = where_it_failed(rejected)
        lines += [*wrapped(f"It raised `{kind}` {rejected}".rstrip()), *([f"At {line}"] if line else [])]
        headline, status = "the test rejects a right implementation.", "error"
    else:
        lines.append(f"First one missed: {exercise.bugs[missed[0]][0]}")
        headline, status = f"{len(found) - len(missed)} of {len(found)} planted bugs caught.", "values"
    return Verdict(exercise.id, status, headline, (*lines, hint_line(exercise)), seen.name if seen else None)


def _test_results(exercise: WriteTest, test: Any) -> list[BaseException | None]:
    """What the test raised for each right implementation, then for each planted bug."""
    results: list[BaseException | None] = []
    for implementation in [*exercise.good, *(code for _, code in exercise.bugs.values())]:
        seed_everything()
        try:
            with as_usual():
                test(implementation)
            results.append(None)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest's own outcomes are not Exceptions
            results.append(error)
    return results
