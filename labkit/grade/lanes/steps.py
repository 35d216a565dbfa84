"""How a notebook is graded, one cell after another, whatever runs the cells.

`make check` runs them in a Jupyter kernel, `make watch` in a forked process. Both are a `Session`; everything
that decides a verdict is here, so that the two cannot disagree.

- An exercise passes only if its check cell showed a record that says so. No record: not passed.
- After a check that did not pass, the reference solution is bound, so that later exercises are judged on
  their own merits.
- A cell that kills the process or does not end costs its own exercise. A new process takes over, with all
  that ran before except that cell.
- An answer and its check may take as long, and as much memory, as the exercise says.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from labkit.verdict import HINT, Verdict

MAX_LINE = 300
OURS = ("prepare", "setup", "demo", "recover")  # cells of the release: a first import, a short training
OUR_SECONDS = 120
USUAL_SECONDS = 30.0
NOTHING_YET = "nothing here yet."
FOLLOWS = "from labkit.grade.lanes.first_cell import answer_follows as _follows\n_follows({})\ndel _follows\n"


@dataclass(frozen=True)
class Step:
    """One code cell of the graded copy. Roles beside those of lessons: prepare, helper, recover."""

    id: str
    role: str
    source: str
    ex: str | None = None
    binds: tuple[str, ...] = ()  # for an exercise: the names its answer defines
    untouched: bool = False  # for an exercise: its cell is as it was released
    seconds: float | None = None  # what the exercise says of itself: how long it may take
    gib: float | None = None  # and how much memory


@dataclass(frozen=True)
class Ran:
    """What came of running one cell. `ended` says why the process is gone, if it is."""

    record: dict[str, Any] | None = None
    error: str | None = None  # "NameError: name 'relu' is not defined"
    ended: Literal["slow", "died"] | None = None


class Session(Protocol):
    """A process that runs cells."""

    def run(self, source: str, timeout: float) -> Ran: ...

    def close(self) -> None: ...


def timeout(usual: float = USUAL_SECONDS) -> float:
    """Seconds that one cell may take: `LABKIT_TIMEOUT`, else the usual. Limits of exercises go with it."""
    given = os.environ.get("LABKIT_TIMEOUT") or usual
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        words = f"LABKIT_TIMEOUT={given} is not a number of seconds. For two minutes: LABKIT_TIMEOUT=120"
        raise ValueError(words)
    return seconds


class Grading:
    """Runs steps in order and keeps the verdicts. `do` returns a verdict for a check, else None."""

    def __init__(self, open_session: Callable[[], Session], seconds: float | None = None) -> None:
        self.open_session = open_session
        self.seconds = seconds or timeout()
        self.session: Session | None = None
        self.verdicts: dict[str, Verdict] = {}
        self._ran: list[Step] = []  # what a new process has to run again
        self._trouble: dict[str, Verdict] = {}  # by exercise: its own cell failed
        self._written: set[str] = set()  # exercises in whose cells the learner wrote something
        self._setup_error: str | None = None

    def do(self, step: Step) -> Verdict | None:
        if step.role == "check":
            return self._check(step)
        if step.role == "recover" and self.verdicts[step.ex or ""].passed:
            return None
        if step.role == "exercise":
            self._written |= set() if step.untouched else {step.ex or ""}
        if step.role in ("exercise", "demo"):  # a demo calls answers
            self._announce(step)
        ran = self._run(step)
        if step.role == "setup" and (ran.error or ran.ended):
            self._setup_error = self._setup_error or ran.error or f"it {self._why(step, ran)}"
        if step.role == "exercise" and step.ex and (ran.error or ran.ended):
            self._trouble.setdefault(step.ex, self._cell_failed(step, ran))
        return None

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    def _check(self, step: Step) -> Verdict:
        ex = step.ex or ""
        if ex not in self._trouble:
            self._announce(step)
        verdict = self._trouble.get(ex) or self._judged(step, self._run(step))
        if verdict.status == "not started" and ex not in self._written:
            verdict = Verdict(ex, "not started", NOTHING_YET)
        self.verdicts[ex] = verdict
        return verdict

    def _announce(self, step: Step) -> None:
        """Tell the process that learner's code follows, and unbind the names that an answer will define."""
        follows = FOLLOWS.format("" if step.gib is None else step.gib)
        self._run(Step(f"{step.id}-follows", "prepare", follows + _forget(step.binds)))

    def _judged(self, step: Step, ran: Ran) -> Verdict:
        ex = step.ex or ""
        if ran.ended:
            return _error(ex, f"the answer {self._why(step, ran)}", *self._advice(ran))
        if ran.record is not None and ran.record.get("ex") == ex:
            verdict = Verdict.from_record(ran.record)
            if not (verdict.passed and ran.error):
                return _short(_with_memory(verdict, step))
        if self._setup_error:
            return _error(
                ex,
                f"a setup cell of the page does not run: {self._setup_error}",
                "`make doctor` looks for the cause.",
            )
        if ran.error and ran.error.startswith("NameError"):
            name = ran.error.split("'")[1] if "'" in ran.error else "of the answer"
            said = f"the check looks for the name `{name}`, which the answer cell does not define."
            return _error(ex, said, "Keep the name that the page gives the answer.")
        if ran.error:
            return _error(ex, f"the check could not run: {ran.error}")
        return _error(
            ex,
            "the check gave no verdict.",
            "Does a cell change labkit itself? Take that out, then try again.",
        )

    def _cell_failed(self, step: Step, ran: Ran) -> Verdict:
        ex = step.ex or ""
        if ran.ended:
            return _error(ex, f"your cell {self._why(step, ran)}", *self._advice(ran))
        if (ran.error or "").startswith("NotImplementedError"):
            return Verdict(ex, "not started", "the answer still reaches `raise NotImplementedError`.")
        # IPython makes up a file name for a cell: "incomplete input (3774037511.py, line 2)".
        said = re.sub(r" \([^()]*, line (\d+)\)$", r", line \1 of the cell", ran.error or "")
        return _with_memory(_error(ex, f"your cell does not run from a fresh start: {said}"), step)

    def _why(self, step: Step, ran: Ran) -> str:
        if ran.ended == "slow":
            whose = "" if step.seconds is None else ", the limit of this exercise,"
            return f"took more than {self._limit(step):g} s{whose} and was stopped."
        return "ended the whole process."

    def _advice(self, ran: Ran) -> tuple[str, ...]:
        if ran.ended == "slow":
            return ("Is there a loop that never ends? `LABKIT_TIMEOUT=120 make check` waits longer.",)
        return ("`os._exit` does that, and so does running out of memory.",)

    # processes

    def _run(self, step: Step) -> Ran:
        session = self.session or self._new_session()
        ran = session.run(step.source, self._limit(step))
        if ran.ended:
            self.close()
        elif step.role != "check":
            self._ran.append(step)
        return ran

    def _new_session(self) -> Session:
        """A process with everything that ran before; whatever ends this one too is left out."""
        while True:
            self.session = self.open_session()
            fatal = next((s for s in self._ran if self.session.run(s.source, self._limit(s)).ended), None)
            if fatal is None:
                return self.session
            self.close()
            self._ran.remove(fatal)

    def _limit(self, step: Step) -> float:
        """Seconds for a step. `self.seconds` is for an exercise that says nothing of itself."""
        if step.role in OURS:
            return max(self.seconds, OUR_SECONDS)
        return self.seconds * (step.seconds or USUAL_SECONDS) / USUAL_SECONDS


def _forget(names: tuple[str, ...]) -> str:
    """Unbind the names of an answer, so that a check never judges what an earlier cell left under them."""
    return f"for _name in {names!r}:\n    globals().pop(_name, None)\ndel _name" if names else ""


def _error(ex: str, headline: str, *lines: str) -> Verdict:
    return _short(Verdict(ex, "error", headline, (*lines, f"{HINT}{ex}`")))


def _with_memory(verdict: Verdict, step: Step) -> Verdict:
    """Where an allocation failed and the exercise limits memory: with the limit in words."""
    text = verdict.text()
    if step.gib is None or not ("MemoryError" in text or "can't allocate memory" in text):
        return verdict
    *lines, hint = verdict.lines or ("",)
    return replace(verdict, lines=(f"This exercise is to be done in {step.gib:g} GiB.", *lines, hint))


def _short(verdict: Verdict) -> Verdict:
    """Without the megabytes that an error message can hold."""
    lines = tuple(line[:MAX_LINE] for line in verdict.lines)
    return replace(verdict, headline=verdict.headline[:MAX_LINE], lines=lines)
