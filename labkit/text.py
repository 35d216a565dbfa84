"""Words and numbers as people write them, and tables of text: what every room that speaks shares."""

import math
from collections.abc import Sequence
from typing import Any


def number(value: Any, digits: int = 3) -> str:
    """A number as people write it: 2, -0.5, 1.23e-05, nan. At most `digits` significant digits."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, complex):
        return f"{value:.{digits}g}"
    if not math.isfinite(value):
        return str(float(value))
    return f"{value + 0.0:.{digits}g}"  # + 0.0 turns -0.0 into 0


def shorten(label: str, width: int) -> str:
    """`label` cut to `width` characters, the cut marked with an ellipsis."""
    return label if len(label) <= width else label[: width - 1] + "…"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def table(rows: Sequence[Sequence[str]], gap: str = "  ", *, left: int = 1, rule: bool = False) -> list[str]:
    """Lines of text with columns lined up: the first `left` columns to the left, the others to the right.

    `rule` draws a line below the first row.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [list(row) for row in rows]
    if rule:
        lines.insert(1, ["-" * width for width in widths])
    return [gap.join(_aligned(row, widths, left)).rstrip() for row in lines]


def _aligned(row: list[str], widths: list[int], left: int) -> list[str]:
    cells = zip(row, widths, strict=True)
    return [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(cells)]


def ruled(header: list[str], rows: list[list[str]]) -> str:
    """A table of numbers below a header, as one text."""
    return "\n".join(table([header, *rows], rule=True))
