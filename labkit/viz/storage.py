"""`strides`: which cell of the flat storage each index of a view reads."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from labkit.text import number, plural, shorten
from labkit.viz.figure import Figure
from labkit.viz.svg import CARD, GHOST, INK, LINE, ORANGE, PALETTE, SOFT, TIMES, TINTS, Canvas, text_width

MOST_CELLS = 40
LEFT, WIDTH, HEIGHT = 100, 660, 34  # labels, then cells; longer storage continues on a new line


@dataclass
class View:
    """A strided view of a flat storage; `values` is None when only the numbers are known."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    cells: int
    values: list[str] | None = None

    def position(self, index: Sequence[int]) -> int:
        return self.offset + sum(i * s for i, s in zip(index, self.stride, strict=True))

    def indices(self) -> Iterator[tuple[int, ...]]:
        return product(*(range(n) for n in self.shape))

    def readers(self) -> dict[int, list[tuple[int, ...]]]:
        """Storage position -> the indices that read it."""
        readers: dict[int, list[tuple[int, ...]]] = {}
        for index in self.indices():
            readers.setdefault(self.position(index), []).append(index)
        return readers

    def value(self, position: int) -> str:
        return self.values[position] if self.values else str(position)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor: each axis steps over everything to its right."""
    return tuple(math.prod(max(n, 1) for n in shape[axis + 1 :]) for axis in range(len(shape)))


def strides(
    x_or_shape: Any,
    stride: Sequence[int] | None = None,
    offset: int = 0,
    storage: int | None = None,
    *,
    title: str = "",
    check: bool = True,
) -> Figure:
    """Draw a view above the flat storage it reads.

    Give a tensor (torch, labkit) or NumPy array, or the numbers: a shape, a stride per axis in elements
    (row-major if left out), an offset, and how many cells the storage has (as many as are read if left out).
    A view may have 0 to 3 axes. An index outside the storage is an error; with `check=False` it is drawn.
    """
    view = view_of(x_or_shape, stride, offset, storage)
    if len(view.shape) > 3:
        raise ValueError(
            f"strides draws views of up to 3 axes; shape {view.shape} has {len(view.shape)}. Index one away."
        )
    size = math.prod(view.shape)
    if view.cells > MOST_CELLS or size > MOST_CELLS:
        raise ValueError(
            f"strides draws up to {MOST_CELLS} cells; this view has {plural(size, 'element')} "
            f"over a storage of {plural(view.cells, 'cell')}. Draw a smaller tensor."
        )
    problem = outside(view)
    if problem and check:
        raise ValueError(problem)
    canvas = Canvas()
    bottom = _draw_view(canvas, view)
    _draw_storage(canvas, view, bottom + (46 if view.values else 24))
    facts = f"shape {view.shape}   stride {view.stride}   offset {view.offset}"
    read, cells = len([p for p in view.readers() if 0 <= p < view.cells]), plural(view.cells, "cell")
    alt = f"A view with {facts.replace('   ', ', ')} reads {read} of {cells} of its storage."
    caption = [*([facts] if title else []), *_key(view)]
    return canvas.figure(title or facts, caption, alt, _words(view, facts, title, problem))


def _key(view: View) -> list[str]:
    """What the signs in this picture mean; those that do not occur are left out."""
    readers = view.readers()
    unread = any(position not in readers for position in range(view.cells))
    shared = any(len({_row(view, index) for index in indices}) > 1 for indices in readers.values())
    often = max(map(len, readers.values()), default=0)
    parts = [
        "@n: place n of the storage." if readers or view.cells else "",
        "Dashed: not read." if unread else "",
        "White: read by more than one row." if shared else "",
        f"{TIMES}n: read n times." if often > 1 else "",
        "✕: outside the storage." if outside(view) else "",
    ]
    parts = [part for part in parts if part]
    return [" ".join(parts[:2]), " ".join(parts[2:])] if parts[2:] else [" ".join(parts)]


def outside(view: View) -> str:
    """Which index leaves the storage, and what to change; empty when all stay inside."""
    for index in view.indices():
        position = view.position(index)
        if not 0 <= position < view.cells:
            where = f"index {list(index)} would read storage position {position}"
            if position < 0:
                lowest = min(view.position(i) for i in view.indices())
                return f"{where}, before the first cell. Raise the offset to {view.offset - lowest} or more."
            room = f"the storage has {plural(view.cells, 'cell')}, 0 to {view.cells - 1}"
            return f"{where}, but {room}. Make the shape, the stride or the offset smaller."
    return ""


def view_of(x: Any, stride: Sequence[int] | None, offset: int, storage: int | None) -> View:
    if hasattr(x, "untyped_storage"):
        return _view_of_torch(x)
    if not hasattr(x, "__array_interface__"):
        inner = getattr(x, "data", None)
        x = inner if hasattr(inner, "__array_interface__") else x
    if hasattr(x, "__array_interface__"):
        return _view_of_array(x)
    shape = _integers(x, "shape")
    if any(n < 0 for n in shape):
        raise ValueError(f"a shape has no negative sizes, got {shape}")
    steps = row_major(shape) if stride is None else _integers(stride, "stride")
    if len(steps) != len(shape):
        raise ValueError(f"shape {shape} and stride {steps} differ in length: give one stride per axis")
    (start,) = _integers(offset, "offset")
    view = View(shape, steps, start, 0)
    if math.prod(shape) <= 10 * MOST_CELLS:  # beyond that the caller refuses, so do not walk it
        view.cells = max((view.position(i) + 1 for i in view.indices()), default=1)
    else:
        view.cells = math.prod(shape)
    if storage is not None:
        (view.cells,) = _integers(storage, "storage")
        if view.cells < 0:
            raise ValueError(f"a storage has no negative number of cells, got {view.cells}")
    return view


def _integers(x: Any, what: str) -> tuple[int, ...]:
    items = tuple(x) if isinstance(x, (tuple, list)) or type(x).__name__ == "Size" else (x,)
    if any(not hasattr(n, "__index__") or isinstance(n, bool) for n in items):
        raise TypeError(f"{what} must be whole numbers, for example (3, 4); got {x!r}")
    return tuple(n.__index__() for n in items)


def _view_of_torch(x: Any) -> View:
    x = x.detach()
    cells = x.untyped_storage().nbytes() // x.element_size()
    view = View(tuple(x.shape), tuple(x.stride()), x.storage_offset(), cells)
    if cells <= MOST_CELLS:
        view.values = [number(v) for v in x.as_strided((cells,), (1,), 0)]
    return view


def _view_of_array(x: Any) -> View:
    import numpy as np

    root = x
    while isinstance(root.base, np.ndarray):
        root = root.base
    flat = root.reshape(-1, order="A")  # memory order: no copy for any array that owns its memory
    if not np.shares_memory(flat, root) and root.size:
        raise ValueError("this array's memory has gaps, so its storage cannot be drawn; pass a copy")
    start = x.__array_interface__["data"][0] - flat.__array_interface__["data"][0]
    stride = tuple(s // x.itemsize for s in x.strides)
    view = View(x.shape, stride, start // x.itemsize if x.size else 0, flat.size)
    if flat.size <= MOST_CELLS:
        view.values = [number(v) for v in flat]
    return view


def _row(view: View, index: Sequence[int]) -> int:
    """Which color an index has: one per row, so that a row's cells can be found again in the storage."""
    row = 0
    for i, n in zip(index[:-1], view.shape, strict=False):
        row = row * n + i
    return row % len(TINTS)


def _cell_width(view: View) -> float:
    labels = [shorten(view.value(p), 8) for p in range(view.cells)] if view.values else []
    return max([30.0, *(text_width(label) + 8 for label in labels)])


def _draw_view(canvas: Canvas, view: View) -> float:
    """The view as one grid, or one grid per leading index for 3 axes; returns the lowest y."""
    w = _cell_width(view)
    canvas.text(0, HEIGHT / 2, "view", anchor="start", bold=True)
    if not math.prod(view.shape):
        canvas.text(LEFT, HEIGHT / 2, "no elements: one axis has size 0", anchor="start", color=SOFT)
        return canvas.bottom
    *lead, rows, columns = (1,) * (2 - len(view.shape)) + view.shape
    left, top = float(LEFT), 0.0
    for page in range(lead[0] if lead else 1):
        if page and left + columns * w > LEFT + WIDTH:
            left, top = float(LEFT), top + rows * HEIGHT + 62
        if lead:
            canvas.text(left, top - 32, f"[{page}, :, :]", anchor="start", mono=True, size=12)
        for j in range(columns if view.shape else 0):
            canvas.text(left + (j + 0.5) * w, top - 12, str(j), size=12, color=SOFT, mono=True)
        for i in range(rows):
            if len(view.shape) > 1:
                canvas.text(
                    left - 8, top + (i + 0.5) * HEIGHT, str(i), size=12, color=SOFT, mono=True, anchor="end"
                )
            for j in range(columns):
                index = (page, i, j)[3 - len(view.shape) :]
                _draw_element(canvas, view, index, left + j * w, top + i * HEIGHT, w)
        left += columns * w + 44
    return canvas.bottom


def _draw_element(canvas: Canvas, view: View, index: tuple[int, ...], x: float, y: float, w: float) -> None:
    position, row, middle = view.position(index), _row(view, index), x + w / 2
    if not 0 <= position < view.cells:
        canvas.rect(x + 1, y + 1, w - 2, HEIGHT - 2, stroke=ORANGE, width=2, dash="4 3")
        canvas.text(middle, y + 10, "✕", size=12, color=ORANGE, bold=True)
        canvas.text(middle, y + 24, f"@{position}", size=12, mono=True, color=ORANGE)
        return
    canvas.rect(x, y, w, HEIGHT, fill=TINTS[row], stroke=PALETTE[row])
    if view.values:
        canvas.text(middle, y + 10, shorten(view.value(position), 8), mono=True)
        canvas.text(middle, y + 24.5, f"@{position}", size=12, mono=True, color=SOFT)
    else:
        canvas.text(middle, y + HEIGHT / 2, f"@{position}", size=12, mono=True)


def _draw_storage(canvas: Canvas, view: View, top: float) -> None:
    """Storage cells in order, wrapped like text; under the line where the view starts, its steps."""
    w = _cell_width(view)
    per_line = int(WIDTH // w)
    canvas.text(0, top + 14, "storage", anchor="start", bold=True)
    if not view.cells:
        canvas.text(LEFT, top + 14, "empty", anchor="start", color=SOFT)
    readers = view.readers()
    for first in range(0, view.cells, per_line):
        line = range(first, min(first + per_line, view.cells))
        for position in line:
            _draw_stored(
                canvas, view, position, readers.get(position, []), LEFT + (position - first) * w, top, w
            )
        if view.offset in line and readers:
            _draw_steps(canvas, view, LEFT - first * w, w, canvas.bottom + 6, line)
        top = canvas.bottom + (34 if view.values else 14)


def _draw_stored(
    canvas: Canvas, view: View, position: int, read_by: list, x: float, top: float, w: float
) -> None:
    rows = {_row(view, index) for index in read_by}
    fill, stroke = (
        (TINTS[min(rows)], PALETTE[min(rows)]) if len(rows) == 1 else (CARD, INK) if rows else (GHOST, LINE)
    )
    canvas.rect(x, top, w, 28, fill=fill, stroke=stroke, dash="" if read_by else "3 3")
    ink = INK if read_by else SOFT
    if view.values:
        canvas.text(x + w / 2, top - 11, f"@{position}", size=12, mono=True, color=SOFT)
        canvas.text(x + w / 2, top + 14, shorten(view.value(position), 8), mono=True, color=ink)
    else:
        canvas.text(x + w / 2, top + 14, f"@{position}", size=12, mono=True, color=ink)
    if len(read_by) > 1:
        canvas.text(x + w / 2, top + 38, f"{TIMES}{len(read_by)}", size=12)


def _draw_steps(canvas: Canvas, view: View, left: float, w: float, top: float, line: range) -> None:
    """Under the storage: the jump that one step along each axis makes, short jumps first.

    An axis that stays where it is comes last: its longer label has no arrows below it to run into.
    """
    axes = sorted((s == 0, abs(s), a) for a, s in enumerate(view.stride) if view.shape[a] > 1)
    for lane, (stays, _, axis) in enumerate(axes):
        y, step = top + 22 * lane + 16, view.stride[axis]
        words = f"axis {axis}: {step:+d}" + (" (stays)" if stays else "")
        canvas.text(0, y, words, size=12, anchor="start", mono=True)
        if step and view.offset + step in line:
            start, end = (left + (view.offset + s + 0.5) * w for s in (0, step))
            canvas.path([(start, top), (start, y), (end, y), (end, top)], arrow=True)


def _words(view: View, facts: str, title: str, problem: str) -> str:
    lines = ([title] if title else []) + [facts]
    if not math.prod(view.shape):
        return "\n".join([*lines, "the view has no elements and reads nothing"])
    if view.shape:
        lines += ["", "view: value @ storage position" if view.values else "view: storage position"]
        width = max(len(_entry(view, i)) for i in view.indices())
        for row in product(*(range(n) for n in view.shape[:-1])):
            entries = [_entry(view, (*row, j)).rjust(width) for j in range(view.shape[-1])]
            lines.append(f"  [{', '.join(map(str, (*row, ':')))}]  " + "  ".join(entries))
    else:
        lines.append(f"  the one element reads {_entry(view, ())}")
    readers = view.readers()
    marks = [(len(readers.get(p, [])), p) for p in range(view.cells)]
    lines += ["", "storage: position = value" if view.values else "storage: position"]
    cells = [_stored(view, p, count) for count, p in marks]
    per_line = max(1, 100 // (max(map(len, cells), default=0) + 2))
    lines += ["  " + "  ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    lines.append("  (..) is not read" if any(c == 0 for c, _ in marks) else "  every cell is read")
    if any(c > 1 for c, _ in marks):
        lines.append("  xN is read N times")
    return "\n".join([*lines, problem] if problem else lines)


def _entry(view: View, index: tuple[int, ...]) -> str:
    position = view.position(index)
    inside = 0 <= position < view.cells
    return (
        f"{view.value(position)}@{position}"
        if view.values and inside
        else f"@{position}" + ("" if inside else "!")
    )


def _stored(view: View, position: int, count: int) -> str:
    cell = f"@{position}={view.values[position]}" if view.values else f"@{position}"
    return f"({cell})" if count == 0 else cell + (f"x{count}" if count > 1 else "")
