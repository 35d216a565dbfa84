"""Who touched what: threads down, elements across, one panel per array."""

from typing import TYPE_CHECKING

import numpy as np

from labkit.text import plural
from labkit.viz.figure import Figure
from labkit.viz.svg import BLUE, GHOST, LINE, ORANGE, SOFT, TINTS, Canvas

if TYPE_CHECKING:
    from labkit.simt.report import Report

CELL = 14
GAP = 46  # between panels
MARKS = {1: ("r", TINTS[0], BLUE), 2: ("w", TINTS[1], ORANGE), 3: ("b", TINTS[4], ORANGE)}
PANELS = 6


def draw(report: "Report") -> Figure:
    """The first 16 threads of block 0 and the first 40 elements of each array, in memory order."""
    canvas = Canvas()
    top = 0.0
    for name, marks in list(report.touched.items())[:PANELS]:
        top = _panel(canvas, top, name, marks)
    caption = [
        "r: read, w: written, b: both. Rows are threads of block 0, columns are elements in memory order."
    ]
    hidden = len(report.touched) - PANELS
    if hidden > 0:
        caption.append(f"{plural(hidden, 'array')} more not drawn.")
    facts = [_fact(name, marks) for name, marks in report.touched.items()]
    alt = f"Which thread of block 0 touched which element in {report.kernel}: {'; '.join(facts)}."
    return canvas.figure(f"{report.kernel}: who touched what", caption, alt, "\n".join([str(report), *facts]))


def _panel(canvas: Canvas, top: float, name: str, marks: np.ndarray) -> float:
    threads, elements = marks.shape
    canvas.text(0, top - 24, name, anchor="start", bold=True)
    for element in range(0, elements, 4):
        canvas.text((element + 0.5) * CELL, top - 8, str(element), size=9, color=SOFT)
    for thread in range(threads):
        y = top + thread * CELL
        canvas.text(-6, y + CELL / 2, str(thread), size=9, anchor="end", color=SOFT)
        canvas.rect(0, y, elements * CELL, CELL, fill=GHOST, stroke=LINE, width=0.5, radius=0)
        for element in np.flatnonzero(marks[thread]).tolist():
            letter, fill, stroke = MARKS[int(marks[thread, element])]
            canvas.rect(element * CELL, y, CELL, CELL, fill=fill, stroke=stroke, radius=0)
            canvas.text((element + 0.5) * CELL, y + CELL / 2, letter, size=9, mono=True)
    return top + threads * CELL + GAP


def _fact(name: str, marks: np.ndarray) -> str:
    read, written = ((marks & bit).astype(bool).sum() for bit in (1, 2))
    return f"{name} {plural(int(read), 'thread-element pair')} read, {int(written)} written"
