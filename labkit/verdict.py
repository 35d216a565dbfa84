"""What the grader says: one status, one headline, at most ten lines, as text, HTML and a record."""

from __future__ import annotations

import html
import re
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a verdict is read back in processes that need no NumPy
    from labkit.exercises.declare import Exercise

# In the order in which they are judged; the first that fails is the verdict.
STATUSES = (
    "not started",
    "error",
    "rule",
    "hazard",
    "type",
    "shape",
    "dtype",
    "values",
    "gradients",
    "memory",
    "extremes",
    "cost",
    "pass",
)
RECORD_MIME = "application/vnd.labkit.result+json"
_COLORS = {"pass": "#00875a", "not started": "#6b7280"}
_WRONG = "#c8450c"
HINT = "Hint: `make hint EX="
MOST_LINES, LONGEST = 10, 160


@dataclass(frozen=True)
class Verdict:
    """The judgment of one answer. `mistake` names the recognized mistake, `case` where it showed."""

    exercise: str
    status: str
    headline: str
    lines: tuple[str, ...] = ()
    mistake: str | None = None
    case: str | None = None
    picture: str | None = None  # an image tag, where a drawing says it better

    def __post_init__(self) -> None:
        """Whatever an answer returned or raised, the message stays short and the same on every run."""
        lines = [_short(line) for line in self.lines]
        if len(lines) > MOST_LINES - 1:
            lines = [*lines[: MOST_LINES - 2], lines[-1]]
        object.__setattr__(self, "headline", _short(self.headline, LONGEST - len(self.title) - 2))
        object.__setattr__(self, "lines", tuple(lines))

    @property
    def passed(self) -> bool:
        return self.status == "pass"

    @property
    def title(self) -> str:
        if self.passed:
            return f"PASS  {self.exercise}"
        if self.status == "not started":
            return f"NOT STARTED  {self.exercise}"
        return f"NOT YET  {self.exercise} ({self.status})"

    @property
    def said(self) -> str:
        """Status and headline in one line, for those who prove the grader."""
        return f"{self.status}: {self.headline}"

    def text(self) -> str:
        return "\n".join([f"{self.title}: {self.headline}", *(f"  {line}" for line in self.lines)])

    def html(self) -> str:
        """A short box that reads in light and dark themes, in print and without styles.

        Every word has the page's own color; only lines are drawn in one of ours.
        """
        color = _COLORS.get(self.status, _WRONG)
        word, _, name = self.title.partition("  ")
        badge = f"border:2px solid {color};padding:0 6px;border-radius:4px"
        body = "".join(f"<div>{_marked(line)}</div>" for line in self.lines)
        return (
            f'<div role="status" style="border-left:4px solid {color};padding:6px 12px;margin:4px 0;'
            f'line-height:1.5;max-width:52em"><div style="margin-bottom:2px">'
            f'<strong style="{badge}">{word}</strong> <strong>{html.escape(name)}</strong>'
            f" {inline(self.headline)}</div>{body}{self.picture or ''}</div>"
        )

    def record(self) -> dict[str, Any]:
        """What is stored and sent between processes: plain data, no times, the same on every run."""
        return {
            "ex": self.exercise,
            "status": self.status,
            "headline": self.headline,
            "lines": list(self.lines),
            "mistake": self.mistake,
            "case": self.case,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Verdict:
        return cls(
            exercise=record["ex"],
            status=record["status"],
            headline=record["headline"],
            lines=tuple(record["lines"]),
            mistake=record["mistake"],
            case=record["case"],
        )


def redrawn(record: dict[str, Any], box: str) -> str:
    """The box of a stored verdict as it looks now, with the picture of the stored one."""
    picture = re.search(r"<img [^>]*>(?=</div>$)", box)
    return replace(Verdict.from_record(record), picture=picture[0] if picture else None).html()


def not_started(exercise: Exercise, why: str) -> Verdict:
    return Verdict(exercise.id, "not started", why, (hint_line(exercise),))


def hint_line(exercise: Exercise) -> str:
    return f"{HINT}{exercise.id}`"


def _marked(line: str) -> str:
    """A line of the box. Where the panel is, its style sheet names the Hint button before the command."""
    if not line.startswith(HINT):
        return inline(line)
    return f'Hint: <span class="labkit-hint">{inline(line.removeprefix("Hint: "))}</span>'


def is_blank(value: Any) -> bool:
    """Whether a variable of an answer still holds the `...` of the stub."""
    return value is None or value is Ellipsis


def wrapped(text: str, most: int = 2) -> tuple[str, ...]:
    """A text as at most that many lines: what was not written for one line, such as torch's own words."""
    plain = _short(text, most * LONGEST)
    return tuple(textwrap.wrap(plain, LONGEST - 2, max_lines=most, placeholder="..."))


def _short(text: str, most: int = LONGEST - 2) -> str:
    """One line of at most `most` characters, without addresses of objects or colors of a terminal."""
    line = " ".join(re.sub(r" at 0x[0-9a-fA-F]+|\x1b\[[0-9;]*m", "", text[:10_000]).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def inline(text: str) -> str:
    """Escape, and set what stands between backticks as code, between stars as stressed."""
    code_or_stress = r"`([^`]+)`|(?<![^\s(])\*([^\s*`](?:[^*`]*[^\s*`])?)\*(?![^\s.,;:?)])"

    def marked(match: re.Match[str]) -> str:
        return f"<code>{match[1]}</code>" if match[1] else f"<em>{match[2]}</em>"

    return re.sub(code_or_stress, marked, html.escape(text, quote=False))
