"""What a lesson does not say twice: facts of its exercises, filled in from their declarations.

    ## Exercise         the heading of the exercise below: its number, title and minutes
    {questions}         the questions of the prediction below: rows of the table whose head stands above the
                        line (two columns for each group of them), or a list if there is no table
    {w03.adamw}         the number of an exercise in its notebook: "as in exercise {w03.adamw}"

And at the end of the last text above an exercise that has rules stands what is not allowed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from labkit.book.percent import Cell
from labkit.exercises.declare import Exercise, Item, Rules

HEADING = "## Exercise"
QUESTIONS = "{questions}"
REFERENCE = re.compile(r"\{(w\d\d\.\w+)\}")
TYPED = re.compile(r"\b[Ee]xercises? \d+")
TABLE_HEAD = re.compile(r"\|(?:\s*:?-+:?\s*\|)+$")
# In what the names of one operation differ: a class, its cell or layer, dimensions, torch's inner version.
VARIANT = re.compile(r"^native|^lazy|_|(?:[123]d|cell|loss|layer)$")

NumberOf = Callable[[str], int | None]


@dataclass(frozen=True)
class Filled:
    """A line of a source, and the lines that a reader sees in its place."""

    written: str | None  # None for lines that stand in no source
    shown: tuple[str, ...]


def fill(cells: Sequence[Cell], shown: Mapping[str, list[Filled]]) -> Iterator[Cell]:
    """The cells as readers see them."""
    for cell in cells:
        lines = [line for part in shown.get(cell.id, ()) for line in part.shown]
        yield replace(cell, source="\n".join(lines)) if cell.id in shown else cell


def filled_lines(
    cells: Sequence[Cell], declared: Mapping[str, Exercise], number_elsewhere: NumberOf = lambda ex: None
) -> tuple[dict[str, list[Filled]], list[tuple[int, str]]]:
    """The lines of every text cell by its id, and what cannot be filled in: (line of the source, sentence).

    `number_elsewhere` knows the exercises of other lessons.
    """
    lesson = _Lesson(cells, declared, number_elsewhere)
    below = _exercise_below(cells)
    found, problems = dict[str, list[Filled]](), list[tuple[int, str]]()
    for place, cell in enumerate(cells):
        if cell.kind != "markdown":
            continue
        lines, parts = cell.source.split("\n"), list[Filled]()
        for number, line in enumerate(lines, cell.end - len(lines) + 1):
            try:
                shown = lesson.shown(line, cell, below[place], before=parts[-1].written if parts else None)
            except _Unknown as unknown:
                problems.append((number, str(unknown)))
                shown = (line,)
            parts.append(Filled(line, shown))
        rules = getattr(declared.get(below[place] or ""), "rules", Rules())
        words = not_allowed(rules) if _is_last_text(cells, place) else None
        found[cell.id] = [*parts, Filled(None, ("", words))] if words else parts
    return found, problems


class _Lesson:
    """The facts that the lines of one lesson may ask for."""

    def __init__(
        self, cells: Sequence[Cell], declared: Mapping[str, Exercise], number_elsewhere: NumberOf
    ) -> None:
        self.numbers = exercise_numbers(cells)
        self.declared = declared
        self.number_elsewhere = number_elsewhere
        self.headed = set[str]()

    def shown(self, line: str, cell: Cell, ex: str | None, before: str | None) -> tuple[str, ...]:
        """What stands for one line of a text above the exercise `ex`."""
        if cell.role == "text" and line == HEADING:
            return (self.heading(ex),)
        if line == QUESTIONS:
            return tuple(self.questions(ex, before or ""))
        if cell.role == "text" and line.startswith(f"{HEADING} "):
            raise _Unknown(f"write `{HEADING}` only; `make build` adds number, title and minutes")
        typed = TYPED.search(line)
        if typed:
            raise _Unknown(
                f"{typed[0]!r} is a typed number; name the exercise, such as {{{ex or 'w03.adamw'}}}"
            )
        return (REFERENCE.sub(self.number, line),)

    def heading(self, ex: str | None) -> str:
        if ex is None or ex in self.headed:
            raise _Unknown(f"`{HEADING}` has no exercise of its own below it")
        self.headed.add(ex)
        words, declared = f"{HEADING} {self.numbers[ex]}", self.declared.get(ex)
        return f"{words} · {declared.title} ({declared.minutes} minutes)" if declared else words

    def questions(self, ex: str | None, before: str) -> Iterator[str]:
        asked = getattr(self.declared.get(ex or ""), "items", None)
        if asked is None:
            raise _Unknown(f"`{QUESTIONS}` stands above no prediction; the next exercise is {ex}")
        items = list(asked.items())
        if TABLE_HEAD.match(before):
            return _rows(items, groups=max(1, (before.count("|") - 1) // 2))
        return _list(items)

    def number(self, reference: re.Match[str]) -> str:
        found = self.numbers.get(reference[1]) or self.number_elsewhere(reference[1])
        if found is None:
            raise _Unknown(f"{reference[0]} is no exercise that stands in a lesson")
        return str(found)


def exercise_numbers(cells: Sequence[Cell]) -> dict[str, int]:
    """The exercises of a lesson, numbered from 1 in the order of their cells."""
    asked = dict.fromkeys(cell.ex for cell in cells if cell.role == "exercise" and cell.ex)
    return {ex: number for number, ex in enumerate(asked, 1)}


class _Unknown(Exception):
    """What cannot be filled in, and what to write instead."""


def _exercise_below(cells: Sequence[Cell]) -> list[str | None]:
    """For each cell the exercise whose cell comes next."""
    found, ex = list[str | None](), None
    for cell in reversed(cells):
        found.append(ex)
        ex = cell.ex if cell.role == "exercise" else ex
    return found[::-1]


def _is_last_text(cells: Sequence[Cell], place: int) -> bool:
    """Whether no other text stands between this text and the first cell of an exercise."""
    if cells[place].role != "text":
        return False
    for number, cell in enumerate(cells[place + 1 :], place + 1):
        if cell.role == "text":
            return False
        if cell.role == "exercise":
            return all(earlier.ex != cell.ex for earlier in cells[:number])
    return False


def _rows(items: list[tuple[str, Item]], groups: int) -> Iterator[str]:
    """Key and question, in as many groups side by side, read from top to bottom and then to the right."""
    height = -(-len(items) // groups)
    for row in range(height):
        cells = [f" {key} | {item.question} |" for key, item in items[row::height]]
        yield "|" + "".join(cells) + " | |" * (groups - len(cells))


def _list(items: list[tuple[str, Item]]) -> Iterator[str]:
    for place, (key, item) in enumerate(items, 1):
        yield f"- `{key}`: {item.question}{'.' if place == len(items) else ';'}"


def not_allowed(rules: Rules) -> str | None:
    """The line that says what an answer may not use, or None where everything goes."""
    words = [] if rules.loops else ["loops"]
    if rules.allows is None:
        names = _without_variants(rules.forbids)
        quoted = [f"`{name}`" + " (`@`)" * (name == "matmul") for name in names]
        words += [f"a library's {quoted[0]}", *quoted[1:]] if quoted else []  # one's own may have that name
        words += (
            [f"{'its' if len(names) == 1 else 'their'} variants"] if len(names) < len(rules.forbids) else []
        )
    else:
        words += ["`@`"] if "matmul" in rules.forbids else []
        allowed = [*(f"`{name}`" for name in rules.allows), "operators", "indexing"]
        words.append(f"any tensor operation except {_listed(allowed)}")
    if rules.max_ops is not None:
        words.append(f"more than {rules.max_ops} tensor operations in one call")
    return f"Not allowed here: {_listed(words)}." if words else None


def _without_variants(names: Sequence[str]) -> list[str]:
    """The first name of each operation: `conv1d` stands for `Conv2d`, `cross_entropy` for its class."""
    first = dict[str, str]()
    for name in names:
        first.setdefault(VARIANT.sub("", name.lower()), name)
    return list(first.values())


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
