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
from labkit.exercises.declare import Exercise, Item, Predict, Rules

HEADING = "## Exercise"
QUESTIONS = "{questions}"
REFERENCE = re.compile(r"\{(w\d\d\.\w+)\}")
TYPED = re.compile(r"\b[Ee]xercises? \d+")
TABLE_HEAD = re.compile(r"\|(?:\s*:?-+:?\s*\|)+$")
MOST_NAMES = 10  # of forbidden operations on a page

NumberOf = Callable[[str], int | None]


@dataclass(frozen=True)
class Filled:
    """A line of a source, and the lines that a reader sees in its place."""

    written: str | None  # None for lines that stand in no source
    shown: tuple[str, ...]


def fill(
    cells: Sequence[Cell], declared: Mapping[str, Exercise], number_elsewhere: NumberOf = lambda ex: None
) -> tuple[list[Cell], list[tuple[int, str]]]:
    """The cells as readers see them, and what could not be filled in: (line of the source, sentence).

    `number_elsewhere` knows the exercises of other lessons.
    """
    problems = list[tuple[int, str]]()
    lines = filled_lines(cells, declared, number_elsewhere, problems)
    return [
        replace(cell, source="\n".join(line for part in lines[cell.id] for line in part.shown))
        if cell.id in lines
        else cell
        for cell in cells
    ], problems


def filled_lines(
    cells: Sequence[Cell],
    declared: Mapping[str, Exercise],
    number_elsewhere: NumberOf = lambda ex: None,
    problems: list[tuple[int, str]] | None = None,
) -> dict[str, list[Filled]]:
    """The lines of every text cell by its id, each with what is shown for it."""
    numbers = exercise_numbers(cells)
    below = _exercise_below(cells)
    headed = set[str]()
    found = dict[str, list[Filled]]()
    for place, cell in enumerate(cells):
        if cell.kind != "markdown":
            continue
        ex = below[place]
        parts = list[Filled]()
        written = cell.source.split("\n")
        for number, line in enumerate(written, cell.end - len(written) + 1):
            before = parts[-1].written if parts else None
            try:
                if line == HEADING and cell.role == "text":
                    parts.append(Filled(line, (_heading(ex, numbers, declared, headed),)))
                elif line == QUESTIONS:
                    parts.append(Filled(line, tuple(_questions(ex, declared, before or ""))))
                else:
                    _refuse_typed(line, cell, ex)
                    parts.append(Filled(line, (_with_numbers(line, numbers, number_elsewhere),)))
            except _Unknown as unknown:
                parts.append(Filled(line, (line,)))
                if problems is not None:
                    problems.append((number, str(unknown)))
        if ex is not None and _is_last_text(cells, place):
            rules = getattr(declared.get(ex), "rules", None)
            parts += [Filled(None, ("", words))] if (words := rules and not_allowed(rules)) else []
        found[cell.id] = parts
    return found


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


def _heading(
    ex: str | None, numbers: Mapping[str, int], declared: Mapping[str, Exercise], headed: set[str]
) -> str:
    if ex is None or ex in headed:
        raise _Unknown(f"`{HEADING}` stands above no exercise of its own; one heading belongs to each")
    headed.add(ex)
    words = f"{HEADING} {numbers[ex]}"
    return f"{words} · {declared[ex].title} ({declared[ex].minutes} minutes)" if ex in declared else words


def _questions(ex: str | None, declared: Mapping[str, Exercise], before: str) -> Iterator[str]:
    exercise = declared.get(ex or "")
    if not isinstance(exercise, Predict):
        raise _Unknown(f"`{QUESTIONS}` stands above no prediction; the next exercise is {ex}")
    if not TABLE_HEAD.match(before):
        last = len(exercise.items) - 1
        for place, (key, item) in enumerate(exercise.items.items()):
            yield f"- `{key}`: {item.question}{'.' if place == last else ';'}"
        return
    groups = (before.count("|") - 1) // 2
    yield from _rows(list(exercise.items.items()), max(1, groups))


def _rows(items: list[tuple[str, Item]], groups: int) -> Iterator[str]:
    """Key and question, in as many groups side by side, read from top to bottom and then to the right."""
    height = -(-len(items) // groups)
    for row in range(height):
        cells = [f" {key} | {item.question} |" for key, item in items[row::height]]
        yield "|" + "".join(cells) + " | |" * (groups - len(cells))


def _with_numbers(line: str, numbers: Mapping[str, int], number_elsewhere: NumberOf) -> str:
    def number(reference: re.Match[str]) -> str:
        ex = reference[1]
        found = numbers.get(ex) or number_elsewhere(ex)
        if found is None:
            raise _Unknown(f"{reference[0]} refers to no exercise that stands in a lesson")
        return str(found)

    return REFERENCE.sub(number, line)


def _refuse_typed(line: str, cell: Cell, ex: str | None) -> None:
    if cell.role == "text" and line.startswith(f"{HEADING} "):
        raise _Unknown(f"write `{HEADING}` only; number, title and minutes come from the declaration of {ex}")
    typed = TYPED.search(line)
    if typed:
        raise _Unknown(f"`{typed[0]}` is a typed number; name the exercise, such as {{{ex or 'w03.adamw'}}}")


def not_allowed(rules: Rules) -> str | None:
    """The line that says what an answer may not use, or None where everything goes."""
    words = [] if rules.loops else ["loops"]
    if rules.allows is None:
        words += [f"`{name}`" + " (`@`)" * (name == "matmul") for name in _shortened(rules.forbids)]
        left = len(rules.forbids) - len(_shortened(rules.forbids))
        words += [f"{left} others like them"] if left else []
    else:
        words += ["`@`"] if "matmul" in rules.forbids else []
        allowed = [*(f"`{name}`" for name in rules.allows), "operators", "indexing"]
        words.append(f"any tensor operation except {_listed(allowed, 'and')}")
    if rules.max_ops is not None:
        words.append(f"more than {rules.max_ops} tensor operations in one call")
    return f"Not allowed here: {_listed(words, 'and')}." if words else None


def _shortened(names: tuple[str, ...]) -> tuple[str, ...]:
    return names if len(names) <= MOST_NAMES else names[: MOST_NAMES - 1]


def _listed(words: Sequence[str], last: str) -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]
