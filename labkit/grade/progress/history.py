"""What a learner has done, derived from the events and nothing else: attempts, passes, mistakes, time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from labkit import exercises
from labkit.book.course import week_title
from labkit.book.percent import LessonError
from labkit.book.source import Source
from labkit.book.work import Work
from labkit.exercises.declare import Exercise

PAUSE = 15 * 60  # seconds without an event after which nobody is counted as working
FAR = 1e11  # no clock is right beyond this
SKEW = 24 * 60 * 60  # seconds that a clock may have been ahead


@dataclass
class Standing:
    """Where a learner stands with one exercise.

    Attempts count until the first pass, the same verdict twice as one.
    """

    attempts: int = 0
    passed_at: float | None = None
    status: str = "not started"
    mistakes: list[str] = field(default_factory=list)
    hints: int = 0
    shown: bool = False  # the solution was shown before a pass
    seconds: float = 0.0
    last: tuple[Any, ...] | None = None

    @property
    def passed(self) -> bool:
        return self.passed_at is not None

    @property
    def first_try(self) -> bool:
        return self.passed and self.attempts == 1 and not self.shown

    @property
    def state(self) -> str:
        """In one word: open, tried, passed, or failing (passed once, and not anymore)."""
        if self.passed:
            return "passed" if self.status == "pass" else "failing"
        return "tried" if self.attempts else "open"


@dataclass(frozen=True)
class Prediction:
    ex: str
    right: int
    of: int
    sure: float | None


@dataclass
class History:
    """The whole course. `exercises` is in course order; `standing` has an entry for each of them."""

    exercises: dict[str, Exercise]
    places: Mapping[str, Source]
    standing: dict[str, Standing]
    predictions: list[Prediction] = field(default_factory=list)
    days: dict[date, int] = field(default_factory=dict)  # how many attempts on which day
    seconds: float = 0.0
    latest: str | None = None  # the exercise attempted last

    @property
    def passed(self) -> list[str]:
        return [ex for ex, one in self.standing.items() if one.passed]

    @property
    def failing(self) -> list[str]:
        """Those of `passed` that do not pass anymore: passed for the record, and to be mended."""
        return [ex for ex, one in self.standing.items() if one.state == "failing"]

    @property
    def current(self) -> str | None:
        """What to do next: the exercise tried last if it does not pass now, else the first that does not."""
        to_do = [ex for ex, one in self.standing.items() if one.state != "passed"]
        if self.latest in to_do:
            return self.latest
        return next(iter(to_do), None)

    def first_missing(self, ex: str) -> str | None:
        """The first exercise that this one needs and that is not passed: what to do before it."""
        needs = self.exercises[ex].needs
        return next(
            (need for need in needs if need in self.standing and not self.standing[need].passed), None
        )

    def overcome(self) -> list[tuple[str, str]]:
        """(exercise, mistake) for every mistake met and left behind without being shown the solution."""
        mended = [(ex, one) for ex, one in self.standing.items() if one.passed and not one.shown]
        return [(ex, name) for ex, one in mended for name in one.mistakes]

    def weeks(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for ex, exercise in self.exercises.items():
            found.setdefault(exercise.week, []).append(ex)
        return found

    def week_name(self, week: int) -> str:
        """`Week 1: tensors`, after the folder of its lessons."""
        places = [self.places[ex] for ex in self.weeks()[week] if ex in self.places]
        return week_title(places[0].lesson.folder) if places else f"Week {week}"

    def milestones(self) -> list[tuple[float, str]]:
        """(when, what) in order: the passes that are worth a line."""
        times = sorted(one.passed_at for one in self.standing.values() if one.passed_at is not None)
        found = [(times[count - 1], words) for count, words in _COUNTS.items() if len(times) >= count]
        for week, keys in self.weeks().items():
            passed = [self.standing[ex].passed_at for ex in keys]
            if all(passed):
                found.append((max(at for at in passed if at), f"Week {week} complete"))
        if times and len(times) == len(self.standing):
            found.append((times[-1], "The whole course"))
        return sorted(found, key=lambda item: item[0])  # at the same moment, the larger thing last


_COUNTS = {
    1: "First exercise passed",
    10: "10 exercises",
    25: "25 exercises",
    50: "50 exercises",
    100: "100 exercises",
}


def history(
    events: Iterable[Mapping[str, Any]],
    declared: dict[str, Exercise],
    places: Mapping[str, Source],
    now: float | None = None,
) -> History:
    """Replay the events. Exercises that no lesson has are left out, if any lesson is there at all.

    Of an event that is later than `now`, only its place in the order is believed, never its time.
    """
    now = time.time() if now is None else now
    order = {ex: declared[ex] for ex in places if ex in declared} or dict(declared)
    state = History(order, places, {ex: Standing() for ex in order})
    before = 0.0
    for event in events:
        at, ex = event.get("at"), event.get("ex")
        if not isinstance(at, int | float) or not 0 <= at < FAR or not isinstance(ex, str):
            continue
        if ex not in state.standing:
            continue
        dated = at <= now + SKEW
        at = at if dated else before or now
        spent = at - before if 0 < at - before <= PAUSE else 0.0
        before = at
        state.seconds += spent
        one = state.standing[ex]
        if not one.passed:
            one.seconds += spent
        if event["kind"] == "attempt":
            _attempt(state, ex, one, event, at, dated)
        elif event["kind"] == "hint":
            one.hints = max(one.hints, _whole(event.get("number")))
        elif event["kind"] == "solution":
            one.shown = one.shown or not one.passed
        elif event["kind"] == "prediction":
            state.predictions.append(_prediction(event))
    return state


def _attempt(
    state: History, ex: str, one: Standing, event: Mapping[str, Any], at: float, dated: bool
) -> None:
    status, mistake = event.get("status"), event.get("mistake")
    if not isinstance(status, str) or status == "not started":
        return
    state.latest = ex
    verdict = (status, mistake, event.get("headline"))
    if verdict == one.last:
        return
    one.last, one.status = verdict, status
    if dated:
        day = datetime.fromtimestamp(at).date()
        state.days[day] = state.days.get(day, 0) + 1
    if one.passed:
        return
    one.attempts += 1
    declared = [mistake.name for mistake in state.exercises[ex].mistakes]
    if mistake in declared and mistake not in one.mistakes:
        one.mistakes.append(mistake)
    if status == "pass":
        one.passed_at = at


def _prediction(event: Mapping[str, Any]) -> Prediction:
    sure: Any = event.get("sure")
    is_number = isinstance(sure, int | float) and not isinstance(sure, bool) and 0 <= sure < FAR
    of = max(0, _whole(event.get("of")))
    right = min(max(0, _whole(event.get("right"))), of)
    return Prediction(event["ex"], right, of, min(sure, of) if is_number else None)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def calibration(predictions: Iterable[Prediction]) -> tuple[int, int, float] | None:
    """(right, asked, expected to be right) over all predictions that said how sure they were."""
    said = [item for item in predictions if item.sure is not None]
    if not said:
        return None
    return sum(p.right for p in said), sum(p.of for p in said), sum(p.sure or 0 for p in said)


def calibration_words(predictions: Iterable[Prediction]) -> str | None:
    """One sentence on how well someone knows what they know."""
    found = calibration(predictions)
    if found is None or found[1] == 0:
        return None
    right, of, sure = found
    gap = (sure - right) / of
    if abs(gap) <= 0.1:
        verdict = "you know what you know"
    else:
        verdict = "a little too sure" if gap > 0 else "you know more than you think"
    return f"Predictions: {right} of {of} right where you expected {sure:g}; {verdict}."


def failing_words(count: int) -> str:
    """To be added to a count of the passed: how many of them do not pass anymore."""
    return f", {count} failing now" if count else ""


def load(work: Work) -> History:
    """The history of a learner."""
    try:
        places = work.course.sources
    except LessonError:  # an author's half-written lesson; then exercises come by name
        places = {}
    return history(work.events(), exercises.all_exercises(), places)


def duration(seconds: float) -> str:
    """`2 h 10 min`."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
