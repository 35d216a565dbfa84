"""The progress page: one HTML file, inline style, no script, no network, readable in light and dark."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path

from labkit.exercises.declare import Exercise
from labkit.grade.progress.history import (
    History,
    Standing,
    calibration,
    calibration_words,
    duration,
    failing_words,
)
from labkit.grade.progress.milestones import Milestone
from labkit.text import plural
from labkit.verdict import inline

SIGNS = {"passed": "✓", "failing": "!", "tried": "~", "open": ""}
WEEKS_SHOWN, MISTAKES_SHOWN = 18, 8
WIDE = 56  # characters of a printed line that need the whole row
ITEM = re.compile(r"(?:In )?(?P<item>[a-z])[:,] ")  # how a sentence on a prediction names its question


def page(state: History, now: datetime | None = None, made: Sequence[Milestone] = ()) -> str:
    """The whole page as text; `made` is what to show of the milestones."""
    now = now or datetime.now()
    parts = [
        _header(state),
        _cards(state) if state.latest else "",
        _weeks(state),
        _gallery(made),
        _mistakes(state),
    ]
    parts += [_predictions(state), _dates(state), _days(state, now.date())]
    end = f"Made by <code>make progress</code> on {now:%B} {now.day}, {now.year}; it stays on this machine."
    style = Path(__file__).with_name("progress.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>My progress in labkit</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>\n{style}</style></head><body><main>\n" + "\n".join(part for part in parts if part) + "\n"
        f'<footer class="soft">{end}</footer></main></body></html>\n'
    )


def _header(state: History) -> str:
    passed, total, failing = len(state.passed), len(state.standing), len(state.failing)
    if passed == total and total and not failing:
        title = "PyTorch, built by hand: all of it"
    elif passed:
        title = "Building PyTorch by hand"
    else:
        title = "Ready to build PyTorch by hand"
    return (
        f"<header>{_ring(passed, failing, total)}<div><h1>{title}</h1>"
        f"<p>{passed} of {total} exercises, each checked against torch{failing_words(failing)}.</p>"
        f'<p class="soft">{_next(state)}</p></div></header>'
    )


def _next(state: History) -> str:
    ex = state.current
    if ex is None:
        times = [one.passed_at for one in state.standing.values() if one.passed_at]
        return _span(min(times), max(times)) if times else "Nothing is left to do."
    exercise = state.exercises[ex]
    missing = state.first_missing(ex)
    first = f"; <code>{missing}</code> comes before it and is not passed yet" if missing else ""
    return f"Next: {html.escape(exercise.title)} (<code>{ex}</code>), about {exercise.minutes} minutes{first}"


def _ring(passed: int, failing: int, total: int) -> str:
    """The share that passes now, at least 1 % once something was passed."""
    share = (passed - failing) / total if total else 0.0
    percent = max(math.floor(100 * share), 1 if passed else 0)
    around = 2 * math.pi * 42
    return (
        '<svg class="ring" viewBox="0 0 100 100" role="img" '
        f'aria-label="{passed} of {total} exercises passed{failing_words(failing)}">'
        '<circle cx="50" cy="50" r="42" fill="none" stroke="var(--line)" stroke-width="9"/>'
        '<circle cx="50" cy="50" r="42" fill="none" stroke="var(--done)" stroke-width="9"'
        ' transform="rotate(-90 50 50)"'
        f' stroke-dasharray="{share * around:.1f} {around:.1f}"/>'
        '<text x="50" y="57" text-anchor="middle" font-size="22" font-weight="650" fill="var(--ink)">'
        f"{percent}%</text></svg>"
    )


def _cards(state: History) -> str:
    passed = state.passed
    met = sum(len(one.mistakes) for one in state.standing.values())
    first = sum(state.standing[ex].first_try for ex in passed)
    cards = [
        (f"{first} of {len(passed)}" if passed else "-", "passed on the first try"),
        (f"{len(state.overcome())} of {met}" if met else "-", "recognized mistakes overcome"),
        (duration(state.seconds), "at work, roughly"),
        (str(len(state.days)), "day with attempts" if len(state.days) == 1 else "days with attempts"),
    ]
    return (
        '<div class="cards">' + "".join(f'<div class="card"><b>{a}</b>{b}</div>' for a, b in cards) + "</div>"
    )


def _weeks(state: History) -> str:
    rows = []
    for week, keys in state.weeks().items():
        tiles = "".join(_tile(state, ex) for ex in keys)
        standings = [state.standing[ex] for ex in keys]
        done, failing = sum(one.passed for one in standings), sum(one.state == "failing" for one in standings)
        count = f"{done} of {len(keys)}" + (f'<div class="broken">{failing} failing</div>' if failing else "")
        rows.append(
            f'<div class="week"><div>{html.escape(state.week_name(week))}</div>'
            f'<div class="tiles">{tiles}</div><div class="count soft">{count}</div></div>'
        )
    legend = "✓ passed, ~ not yet, ! passed before, not anymore"
    if state.current is not None:
        legend += ', <span class="key"></span> outlined: next'
    names = f"<details><summary>The exercises by name</summary>{_names(state)}</details>"
    return (
        f'<h2>The course</h2><div class="box">{"".join(rows)}{names}</div><p class="soft legend">{legend}</p>'
    )


def _names(state: History) -> str:
    """What the squares stand for, where nothing can be pointed at: on a phone, by keyboard, for a friend."""
    parts = []
    for week, keys in state.weeks().items():
        items = "".join(_name(state.standing[ex], state.exercises[ex].title) for ex in keys)
        parts.append(f'<h3>{html.escape(state.week_name(week))}</h3><ul class="names">{items}</ul>')
    return "".join(parts)


def _name(one: Standing, title: str) -> str:
    tries = f'<span class="soft">{_tile_words(one).removeprefix(", ")}</span>'
    return f'<li><span class="sign">{SIGNS[one.state]}</span>{html.escape(title)} {tries}</li>'


def _tile(state: History, ex: str) -> str:
    one, exercise = state.standing[ex], state.exercises[ex]
    name, current = one.state, " current" if ex == state.current else ""
    words = _tile_words(one) + (", next" if current else "")
    label = html.escape(f"{ex}: {exercise.title}{words}", quote=True)
    shown = f'class="tile {name}{current}" role="img" title="{label}" aria-label="{label}"'
    return f"<div {shown}>{SIGNS[name]}</div>"


def _tile_words(one: Standing) -> str:
    if not one.attempts:
        return ""
    tries = "first try" if one.first_try else f"{one.attempts} {'try' if one.attempts == 1 else 'tries'}"
    return f", {tries}, failing now" if one.state == "failing" else f", {tries}"


def _gallery(made: Sequence[Milestone]) -> str:
    """What was built, as it looked when it ran on the learner's own code."""
    figures = "".join(
        f"<figure>{item.picture or _printed(item.text)}"
        f"<figcaption>Week {item.week}: {html.escape(item.title)}</figcaption></figure>"
        for item in made
    )
    return f'<h2>Milestones</h2><div class="gallery">{figures}</div>' if figures else ""


def _printed(text: str) -> str:
    kind = ' class="wide"' if max(map(len, text.split("\n"))) > WIDE else ""
    return f"<pre{kind}>{html.escape(text)}</pre>"


def _dates(state: History) -> str:
    found = state.milestones()
    items = "".join(f"<li><time>{_day(at)}</time>{html.escape(words)}</li>" for at, words in reversed(found))
    return f'<h2>Dates</h2><div class="box"><ol>{items}</ol></div>' if found else ""


def _mistakes(state: History) -> str:
    """The sentences behind the mistakes that were left behind: what was learned, in the teacher's words."""
    every = list(_mistake_items(state))[::-1]
    items = "".join(every[:MISTAKES_SHOWN])
    if every[MISTAKES_SHOWN:]:
        rest = "".join(every[MISTAKES_SHOWN:])
        label = f"{len(every) - MISTAKES_SHOWN} more"
        items += f"<li><details><summary>{label}</summary><ul>{rest}</ul></details></li>"
    return (
        f'<h2>Mistakes made, understood, mended</h2><div class="box"><ul>{items}</ul></div>' if items else ""
    )


def _mistake_items(state: History) -> Iterator[str]:
    for ex, name in state.overcome():
        exercise = state.exercises[ex]
        title = f"Week {exercise.week}: {exercise.title}"
        stop = "" if title.endswith("?") else "."
        yield f"<li><strong>{html.escape(title)}{stop}</strong> {_sentence(exercise, name)}</li>"


def _sentence(exercise: Exercise, name: str) -> str:
    """What the teacher says to a mistake, with the question of a prediction in place of its letter."""
    says = next(mistake.says for mistake in exercise.mistakes if mistake.name == name)
    letter = ITEM.match(says)
    question = exercise.questions.get(letter["item"]) if letter else None
    if not letter or not question:
        return inline(says)
    stop = "" if question.endswith("?") else ":"
    return f'<span class="soft">{inline(question)}{stop}</span> {inline(says[letter.end() :])}'


def _predictions(state: History) -> str:
    found, words = calibration(state.predictions), calibration_words(state.predictions)
    if found is None or words is None:
        return ""
    right, of, sure = found
    rows = (("expected", sure, ""), ("right", right, ' class="right"'))
    bars = "".join(
        f'<div>{name}</div><div class="bar"><i{style} style="width:{min(100.0, 100 * value / of):.0f}%"></i>'
        f'</div><div class="count">{value:g} / {of}</div>'
        for name, value, style in rows
    )
    text = f'<p>{html.escape(words)}</p><div class="bars">{bars}</div>'
    return f'<h2>Predictions</h2><div class="box">{text}</div>'


def _days(state: History, today: date) -> str:
    """One square per day, a column per week, the latest at the right."""
    if not state.days:
        return ""
    end, span = today, f"the last {WEEKS_SHOWN} weeks"
    if max(state.days) < _first_day(today):  # nothing of it would be seen
        end = max(state.days)
        span = f"the {WEEKS_SHOWN} weeks up to {end:%b} {end.day}, {end.year}"
    start = _first_day(end)
    days = [start + timedelta(days=n) for n in range((end - start).days + 1)]
    squares = "".join(_square(day, state.days.get(day, 0)) for day in days)
    legend = f"{span}, a column each from Monday to Sunday; stronger color is more attempts"
    box = f'<div class="box"><div class="days">{squares}</div></div>'
    return f'<h2>Days</h2>{box}<p class="soft legend">{legend}</p>'


def _first_day(end: date) -> date:
    """The Monday at the left, if this day is in the column at the right."""
    return end - timedelta(days=end.weekday() + 7 * (WEEKS_SHOWN - 1))


def _square(day: date, count: int) -> str:
    level = "" if not count else " on l1" if count < 4 else " on l2" if count < 10 else " on"
    return f'<div class="day{level}" title="{day}: {plural(count, "attempt")}"></div>'


def _span(first: float, last: float) -> str:
    """From when to when, the year named once if it is the same."""
    start, end = _day(first), _day(last)
    if start == end:
        return f"All on {end}."
    if start[-4:] == end[-4:]:
        start = start.partition(",")[0]
    return f"From {start} to {end}."


def _day(at: float) -> str:
    when = datetime.fromtimestamp(at)
    return f"{when:%b} {when.day}, {when.year}"
