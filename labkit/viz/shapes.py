"""`broadcast` and `broadcast_grid`: how shapes pair up, axis by axis, and what is repeated."""

import operator
from typing import Any

from labkit.text import number, plural, shorten, table
from labkit.viz.figure import Figure, as_array
from labkit.viz.svg import BLUE, GHOST, GREEN, INK, LINE, ORANGE, SOFT, TINTS, Canvas, text_width

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def broadcast(*shapes: Any, names: list[str] | None = None, title: str = "") -> Figure:
    """Draw shapes lined up at their last axis: which axes stretch, which are added, the result or the clash.

    Each argument is a shape, or anything that has one. Shapes that do not broadcast are drawn, not raised.
    """
    sizes = [_shape(s) for s in shapes]
    if not sizes:
        raise ValueError("broadcast needs at least one shape, for example broadcast((3, 1), (4,))")
    names = names or [chr(ord("a") + i % 26) for i in range(len(sizes))]
    if len(names) != len(sizes):
        raise ValueError(
            f"{plural(len(names), 'name')} for {plural(len(sizes), 'shape')}: give one name per shape"
        )
    axes = max(len(s) for s in sizes)
    padded = [(None,) * (axes - len(s)) + s for s in sizes]
    result = [_pair([p[axis] for p in padded]) for axis in range(axes)]
    notes = _notes(names, padded, result)
    canvas = Canvas()
    _draw_table(canvas, names, padded, result)
    listed = " and ".join(map(str, sizes))
    named = " and ".join(f"{name} {size}" for name, size in zip(names, sizes, strict=True))
    alt = f"{'; '.join([f'Broadcast of {named}', *notes])}.".replace("1 -> ", "from 1 to ")
    heading = title or f"Broadcast {listed}"
    text = "\n".join([heading, *_words(names, padded, result), *notes])
    return canvas.figure(heading, [n.replace("->", "→") for n in notes], alt, text)


def _shape(x: Any) -> tuple[int, ...]:
    x = getattr(x, "shape", x)
    items = tuple(x) if hasattr(x, "__iter__") and not isinstance(x, str) else (x,)
    if any(not hasattr(n, "__index__") or isinstance(n, bool) for n in items):
        raise TypeError(f"a shape is whole numbers, for example (3, 4); got {x!r}")
    if any(n < 0 for n in items):
        raise ValueError(f"a shape has no negative sizes, got {items}")
    return tuple(n.__index__() for n in items)


def _pair(sizes: list[int | None]) -> int | None:
    """The size all of `sizes` stretch to (absent and 1 stretch), or None when two differ."""
    fixed = {n for n in sizes if n is not None and n != 1}
    return None if len(fixed) > 1 else (fixed.pop() if fixed else 1)


def _tuple(result: list[int | None]) -> str:
    return "(" + ", ".join(map(str, result)) + (",)" if len(result) == 1 else ")")


def _notes(names: list[str], padded: list[tuple], result: list[int | None]) -> list[str]:
    axes, notes = len(result), []
    for name, sizes in zip(names, padded, strict=True):
        changes = []
        for axis, (n, full) in enumerate(zip(sizes, result, strict=True)):
            if full is None:
                continue
            if n is None:
                changes.append(f"axis {axis - axes} is added and stretches 1 -> {full}")
            elif n != full:
                changes.append(f"axis {axis - axes} stretches 1 -> {full}")
        if changes:
            notes.append(f"{name}: " + ", ".join(changes))
    for axis, full in enumerate(result):
        if full is None:
            clash = [
                (name, s[axis]) for name, s in zip(names, padded, strict=True) if s[axis] not in (None, 1)
            ]
            pairs = ", ".join(f"{name} has {n}" for name, n in clash)
            notes.append(f"fails at axis {axis - axes}: {pairs}; sizes must be equal, or one of them 1")
    if None not in result:
        notes.append(f"result: {_tuple(result)}" + ("" if notes else ", nothing stretches"))
    return notes


def _words(names: list[str], padded: list[tuple], result: list[int | None]) -> list[str]:
    rows = [["axis", *(str(a - len(result)) for a in range(len(result)))]]
    for name, sizes in zip(names, padded, strict=True):
        rows.append([name, *("." if n is None else str(n) for n in sizes)])
    rows.append(["result", *("!!" if n is None else str(n) for n in result)])
    return table(rows)


def _draw_table(canvas: Canvas, names: list[str], padded: list[tuple], result: list[int | None]) -> None:
    axes, h = len(result), 32
    left = max(text_width(n) for n in [*names, "result"]) + 14
    w = max(64.0, *(text_width(f"(1) → {n}") + 14 for n in [*result, 0]))
    canvas.text(0, -16, "axis", size=12, anchor="start", color=SOFT)
    for axis in range(axes):
        canvas.text(left + (axis + 0.5) * w, -16, str(axis - axes), size=12, mono=True, color=SOFT)
    for row, (name, sizes) in enumerate(zip(names, padded, strict=True)):
        y = row * (h + 6)
        canvas.text(0, y + h / 2, name, anchor="start", mono=True)
        for axis, n in enumerate(sizes):
            _draw_size(canvas, left + axis * w + 3, y, w - 6, h, n, result[axis])
        if not axes:
            canvas.text(left, y + h / 2, "no axes: a single number", anchor="start", color=SOFT)
    y = len(names) * (h + 6) + 10
    canvas.path([(0, y - 8), (left + max(axes, 1) * w, y - 8)], color=LINE)
    canvas.text(0, y + h / 2, "result", anchor="start", bold=True)
    for axis, n in enumerate(result):
        x = left + axis * w + 3
        canvas.rect(
            x, y, w - 6, h, stroke=ORANGE if n is None else INK, width=2, dash="5 3" if n is None else ""
        )
        canvas.text(
            x + w / 2 - 3,
            y + h / 2,
            "✕ clash" if n is None else str(n),
            bold=True,
            color=ORANGE if n is None else INK,
        )
    if not axes:
        canvas.text(left, y + h / 2, "()", anchor="start", mono=True)


def _draw_size(
    canvas: Canvas, x: float, y: float, w: float, h: float, n: int | None, full: int | None
) -> None:
    """One size: solid if it is used as it is, tinted if it stretches, dashed if the axis is added."""
    middle = (x + w / 2, y + h / 2)
    if full is None:
        clashes = n not in (None, 1)
        canvas.rect(
            x, y, w, h, stroke=ORANGE if clashes else LINE, width=2 if clashes else 1, dash="" if n else "3 3"
        )
        canvas.text(*middle, "" if n is None else str(n), mono=True, bold=clashes)
    elif n is None:
        canvas.rect(x, y, w, h, fill=GHOST, dash="3 3")
        canvas.text(*middle, f"(1) → {full}", mono=True, color=SOFT)
    elif n != full:
        canvas.rect(x, y, w, h, fill=TINTS[0], stroke=BLUE)
        canvas.text(*middle, f"1 → {full}", mono=True)
    else:
        canvas.rect(x, y, w, h)
        canvas.text(*middle, str(n), mono=True)


def broadcast_grid(a: Any, b: Any, op: str = "+", *, title: str = "") -> Figure:
    """Draw the values of `a op b` (op is one of + - * /), cells that broadcasting repeats drawn pale.

    The result may have at most 2 axes, 8 rows and 8 columns.
    """
    import numpy as np

    if op not in OPERATIONS:
        raise ValueError(f"op must be one of {' '.join(OPERATIONS)}, got {op!r}")
    a, b = as_array(a), as_array(b)
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return broadcast(a, b, title=title)
    if len(shape) > 2 or max(shape, default=1) > 8:
        raise ValueError(
            f"broadcast_grid draws results of up to 2 axes and 8 by 8 values; this one is {shape}"
        )
    with np.errstate(all="ignore"):
        result = OPERATIONS[op](a, b)
    canvas, x, words = Canvas(), 0.0, []
    for label, array, sign in (("a", a, op), ("b", b, "="), ("result", result, "")):
        grid, real = np.atleast_2d(np.broadcast_to(array, shape)), np.atleast_2d(_real(array, shape))
        x = _draw_values(canvas, x, f"{label} {array.shape}", grid, real)
        if sign:
            canvas.text(
                x + 16,
                grid.shape[0] * 15,
                sign,
                size=14,
                bold=True,
            )
            x += 32
        words += [f"{label} {array.shape}", *_value_words(grid, real)]
    heading = title or f"a {op} b"
    text = "\n".join([heading, *words, "[brackets]: repeated by broadcasting, not stored"])
    alt = f"Values of a {op} b: a has shape {a.shape}, b has shape {b.shape}, the result has shape {shape}."
    return canvas.figure(heading, ["pale, dashed cells are repeated by broadcasting, not stored"], alt, text)


def _real(array: Any, shape: tuple[int, ...]) -> Any:
    """True where a cell of the broadcast array is stored rather than repeated."""
    import numpy as np

    padded = (1,) * (len(shape) - array.ndim) + array.shape
    real = np.ones(shape, dtype=bool)
    for axis, (n, full) in enumerate(zip(padded, shape, strict=True)):
        if n != full:
            real &= (np.arange(full) == 0).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return real


def _draw_values(canvas: Canvas, x: float, label: str, grid: Any, real: Any) -> float:
    rows, columns = grid.shape
    w = max([34.0, *(text_width(shorten(number(v), 8)) + 10 for v in grid.ravel())])
    for i in range(rows):
        for j in range(columns):
            cell = shorten(number(grid[i, j]), 8)
            if real[i, j]:
                canvas.rect(x + j * w, i * 30, w, 30, fill=TINTS[2], stroke=GREEN)
            else:
                canvas.rect(x + j * w + 1, i * 30 + 1, w - 2, 28, dash="3 3")
            canvas.text(x + (j + 0.5) * w, i * 30 + 15, cell, mono=True, color=INK if real[i, j] else SOFT)
    if not grid.size:
        canvas.text(x, 15, "no elements", anchor="start", color=SOFT)
    canvas.text(x, -16, label, size=12, anchor="start", mono=True)
    return x + max(columns * w, text_width(label, 12), 0 if grid.size else text_width("no elements"))


def _value_words(grid: Any, real: Any) -> list[str]:
    if not grid.size:
        return ["  no elements"]
    cells = [
        [number(v) if r else f"[{number(v)}]" for v, r in zip(*rows, strict=True)]
        for rows in zip(grid, real, strict=True)
    ]
    return ["  " + line for line in table([["", *row] for row in cells])]
