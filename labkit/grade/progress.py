"""`make progress`: what you have done, here and as a page that needs no network and no script.

python -m labkit progress           the weeks you are in
python -m labkit progress --all     every exercise
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from labkit import paths
from labkit.book.notebook import write_text
from labkit.grade.history import History, calibration_words, duration, failing_words, load
from labkit.grade.milestones import reached
from labkit.grade.page import page

MARKS = {"passed": "[x]", "failing": "[!]", "tried": "[~]", "open": "[ ]"}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m labkit progress", description="What you have done.")
    parser.add_argument("--all", action="store_true", help="every exercise of every week")
    options = parser.parse_args(argv)
    state, file = load(), paths.progress() / "progress.html"
    try:
        write_text(file, page(state, made=reached(paths.root())))
        where = f"As a page: {file.as_uri()}"
    except OSError as error:
        where = f"The page could not be written: {error.strerror}: {file}"
    print(*report(state, options.all), where, sep="\n")
    return 0 if where.startswith("As a page") else 1


def report(state: History, everything: bool = False) -> Iterator[str]:
    """The lines for a terminal, ASCII apart from what exercises are called."""
    yield summary(state)
    for week, keys in state.weeks().items():
        works = [state.work[key] for key in keys]
        done = sum(work.passed for work in works)
        yield ""
        failing = sum(work.kind == "failing" for work in works)
        bar = _bar(done - failing, len(keys))
        yield f"{state.week_name(week):28} {bar} {done} of {len(keys)}{failing_words(failing)}"
        begun = any(work.attempts for work in works)
        if everything or (begun and done - failing < len(keys)):
            yield from (f"  {MARKS[state.work[key].kind]} {_line(state, key)}".rstrip() for key in keys)
    yield ""
    words = calibration_words(state.predictions)
    if words:
        yield words
    yield next_words(state)


def summary(state: History) -> str:
    passed = state.passed
    if not any(work.attempts for work in state.work.values()):
        return f"Nothing tried yet: {len(state.work)} exercises are waiting."
    first = sum(state.work[key].first_try for key in passed)
    words = f"{len(passed)} of {len(state.work)} exercises passed, {first} on the first try"
    words += failing_words(len(state.failing))
    met = sum(len(work.mistakes) for work in state.work.values())
    if met:
        words += f"; {len(state.overcome())} of {met} mistakes overcome"
    return f"{words}; about {duration(state.seconds)}."


def _line(state: History, key: str) -> str:
    exercise, work = state.exercises[key], state.work[key]
    words = [f"{work.attempts} {'try' if work.attempts == 1 else 'tries'}"] if work.attempts else []
    if work.kind == "failing":
        words.append("passed before, not anymore")
    if work.mistakes:
        words.append("met: " + ", ".join(work.mistakes))
    wide = max(len(other.title) for other in state.exercises.values())
    longest = max(map(len, state.exercises))
    return f"{key:{longest}}  {exercise.title:{wide}}  {'; '.join(words)}"


def _bar(done: int, total: int, width: int = 20) -> str:
    full = width * done // total
    return f"[{'#' * full}{'.' * (width - full)}]"


def next_words(state: History) -> str:
    key = state.current
    if key is None:
        return "All done: every exercise of the course is passed."
    exercise = state.exercises[key]
    where = f", in {state.places[key].notebook.as_posix()}" if key in state.places else ""
    verb = "Go on with" if state.work[key].attempts else "Next"
    return f"{verb}: {key} ({exercise.title}), about {exercise.minutes} minutes{where}"
