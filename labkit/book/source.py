"""Where an exercise stands in its lesson: its cells, its check, and what its notebook has run before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labkit.book.percent import Cell, Lesson


@dataclass(frozen=True)
class Source:
    """Where an exercise stands in its lesson. `before` is what its notebook has run when it gets there."""

    id: str
    lesson: Lesson
    before: tuple[Cell, ...]
    cells: tuple[Cell, ...]
    check: Cell
    text: tuple[str, ...]  # the prose above it, since the exercise before

    @property
    def solution(self) -> str:
        return "\n\n\n".join(cell.source for cell in self.cells)

    @property
    def stub(self) -> str:
        return "\n\n\n".join(cell.learner_source for cell in self.cells)


def sources_of(lesson: Lesson) -> Iterator[Source]:
    """Its exercises, in the order of the page."""
    before: list[Cell] = []
    open_cells: dict[str, list[Cell]] = {}
    text: list[str] = []
    for cell in lesson.cells:
        if cell.role == "text":
            text.append(cell.source)
        elif cell.role == "setup":
            before.append(cell)
        elif cell.role == "exercise" and cell.ex:
            open_cells.setdefault(cell.ex, []).append(cell)
        elif cell.role == "check" and cell.ex in open_cells:
            cells = tuple(open_cells.pop(cell.ex))
            yield Source(cell.ex, lesson, tuple(before), cells, cell, tuple(text))
            before += cells
            text = []
