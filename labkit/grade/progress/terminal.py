"""`make progress`: what you have done, here and as a page that needs no network and no script.

python -m labkit progress           the weeks you are in
python -m labkit progress --all     every exercise
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from labkit.book.notebook import write_text
from labkit.book.work import here
from labkit.grade.progress.history import History, calibration_words, duration, failing_words, load
from labkit.grade.progress.milestones import reached
from labkit.grade.progress.page import page

MARKS = {"passed": "[x]", "failing": "[!]", "tried": "[~]", "open": "[ ]"}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m labkit progress", description="What you have done.")
    parser.add_argument("--all", action="store_true", help="every exercise of every week")
    options = parser.parse_args(argv)
    work = here()
    state, file = load(work), work.progress / "progress.html"
    try:
        write_text(file, page(state, made=reached(work)))
        where = f"As a page: {file.as_uri()}"
    except OSError as error:
        where = f"The page could not be written: {error.strerror}: {file}"
    print(*report(state, options.all), where, sep="\n")
    return 0 if where.startswith("As a page") else 1


def report(state: History, everything: bool = False) -> Iterator[str]:
    """The lines for a terminal, ASCII apart from what exercises are called."""
    yield summary(state)
    for week, keys in state.weeks().items():
        standings = [state.standing[ex] for ex in keys]
        done = sum(one.passed for one in standings)
        yield ""
        failing = sum(one.state == "failing" for one in standings)
        bar = _bar(done - failing, len(keys))
        yield f"{state.week_name(week):28} {bar} {done} of {len(keys)}{failing_words(failing)}"
        begun = any(one.attempts for one in standings)
        if everything or (begun and done - failing < len(keys)):
            yield from (f"  {MARKS[state.standing[ex].state]} {_line(state, ex)}".rstrip() for ex in keys)
    yield ""
    words = calibration_words(state.predictions)
    if words:
        yield words
    yield next_words(state)


def summary(state: History) -> str:
    passed = state.passed
    if not any(one.attempts for one in state.standing.values()):
        return f"Nothing tried yet: {len(state.standing)} exercises are waiting."
    first = sum(state.standing[ex].first_try for ex in passed)
    words = f"{len(passed)} of {len(state.standing)} exercises passed, {first} on the first try"
    words += failing_words(len(state.failing))
    met = sum(len(one.mistakes) for one in state.standing.values())
    if met:
        words += f"; {len(state.overcome())} of {met} mistakes overcome"
    return f"{words}; about {duration(state.seconds)}."


def _line(state: History, ex: str) -> str:
    exercise, one = state.exercises[ex], state.standing[ex]
    words = [f"{one.attempts} {'try' if one.attempts == 1 else 'tries'}"] if one.attempts else []
    if one.state == "failing":
        words.append("passed before, not anymore")
    if one.mistakes:
        words.append("met: " + ", ".join(one.mistakes))
    wide = max(len(other.title) for other in state.exercises.values())
    longest = max(map(len, state.exercises))
    return f"{ex:{longest}}  {exercise.title:{wide}}  {'; '.join(words)}"


def _bar(done: int, total: int, width: int = 20) -> str:
    full = width * done // total
    return f"[{'#' * full}{'.' * (width - full)}]"


def next_words(state: History) -> str:
    ex = state.current
    if ex is None:
        return "All done: every exercise of the course is passed."
    exercise = state.exercises[ex]
    where = f", in {state.places[ex].lesson.notebook.as_posix()}" if ex in state.places else ""
    verb = "Go on with" if state.standing[ex].attempts else "Next"
    missing = state.first_missing(ex)
    first = f"; {missing} comes before it and is not passed yet" if missing else ""
    return f"{verb}: {ex} ({exercise.title}), about {exercise.minutes} minutes{where}{first}"
