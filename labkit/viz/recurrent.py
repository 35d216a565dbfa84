"""`padded_batch`: sequences of unequal length as one table, and what a packed batch keeps of it."""

from collections.abc import Sequence
from typing import Any

from labkit.text import plural, table
from labkit.viz.figure import Figure
from labkit.viz.svg import BLUE, GHOST, INK, LINE, SOFT, TINTS, Canvas, text_width

ROWS, STEPS, WIDEST = 12, 24, 828
HEIGHT = 28  # of a cell


def padded_batch(sequences: Sequence[Any], *, pad: str = ".", title: str = "") -> Figure:
    """One row per sequence, one column per step; below each column how many sequences are still running.

    A sequence is a string or a list of short things. Padding has a dashed border.
    """
    rows = [[str(item) for item in sequence] for sequence in sequences]
    if not rows or not all(rows):
        raise ValueError("a padded batch needs at least one sequence, and none of length 0")
    steps = max(len(row) for row in rows)
    if len(rows) > ROWS or steps > STEPS:
        raise ValueError(f"up to {ROWS} sequences of up to {STEPS} steps can be drawn")
    width = max(HEIGHT, *(text_width(item, 13) + 8 for row in rows for item in row))
    if width * steps > WIDEST:
        raise ValueError("these items are too long to draw side by side: shorten them")
    running = [sum(len(row) > t for row in rows) for t in range(steps)]
    real = sum(running)
    heading = title or f"{plural(len(rows), 'sequence')}, {plural(steps, 'step')}"
    share = 1 - real / (len(rows) * steps)
    caption = [f"{real} real steps and {len(rows) * steps - real} of padding: {share:.0%} of the table"]
    canvas = Canvas()
    _draw(canvas, rows, running, pad, width)
    cells = [[*row, *[f"({pad})"] * (steps - len(row)), f" length {len(row)}"] for row in rows]
    words = [*table(cells), *table([[str(n) for n in running]])]
    alt = f"{plural(len(rows), 'sequence')} padded to {plural(steps, 'step')}; still running at each step: "
    alt += ", ".join(map(str, running)) + "."
    return canvas.figure(
        heading, caption, alt, "\n".join([heading, *caption, *words[:-1], f"still running: {words[-1]}"])
    )


def _draw(canvas: Canvas, rows: list[list[str]], running: list[int], pad: str, width: float) -> None:
    for i, row in enumerate(rows):
        for t in range(len(running)):
            real = t < len(row)
            canvas.rect(
                t * width,
                i * HEIGHT,
                width,
                HEIGHT,
                fill=TINTS[0] if real else GHOST,
                stroke=BLUE if real else LINE,
                dash="" if real else "3 3",
            )
            item, color = (row[t], INK) if real else (pad, SOFT)
            canvas.text((t + 0.5) * width, (i + 0.5) * HEIGHT, item, mono=True, color=color)
        canvas.text(len(running) * width + 10, (i + 0.5) * HEIGHT, str(len(row)), anchor="start", color=SOFT)
    canvas.text(len(running) * width + 10, -14, "length", anchor="start", color=SOFT)
    bottom = len(rows) * HEIGHT + 16
    for t, count in enumerate(running):
        canvas.text((t + 0.5) * width, bottom, str(count), color=BLUE, bold=True)
    canvas.text(len(running) * width + 10, bottom, "still running", anchor="start", color=SOFT)
