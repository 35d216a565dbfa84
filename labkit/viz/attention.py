"""`attention`: who looks at whom, as a map; `attention_explorer`: pick a layer, a head and a token."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from labkit.text import shorten, table
from labkit.viz.arrays import png
from labkit.viz.explore import Explorer
from labkit.viz.figure import Figure, as_array
from labkit.viz.svg import BLUE, INK, ORANGE, SOFT, Canvas, text_width

MOST, MOST_MAPS = 16, 24  # tokens of a map with words; maps in one picture
LETTERS, HEIGHT = 10, 28  # of a token's name, and of a cell in pixels
WIDEST = 828
CHOICE = "A row's largest weight, on average"


def attention(
    weights: Any,
    queries: Sequence[Any] | None = None,
    keys: Sequence[Any] | None = None,
    *,
    query: int | None = None,
    names: Sequence[str] | None = None,
    title: str = "",
) -> Figure:
    """A map of attention weights, one row per query: (T, S), or (H, T, S) for heads, (L, H, T, S) for layers.

    One map is drawn with its tokens; `keys` are the queries unless given. A weight of exactly 0 has a dot.
    With `query` that row is framed and its weights stand beside it as bars. Several maps are drawn small,
    under the `names` of the heads.
    """
    w = as_array(weights)
    if not 2 <= w.ndim <= 4 or not w.size:
        raise ValueError(f"weights have shape (T, S), (H, T, S) or (L, H, T, S), none 0; got {w.shape}")
    if not ((w >= -1e-6) & (w <= 1 + 1e-6)).all():
        raise ValueError("weights are numbers from 0 to 1, not NaN: take them after the softmax")
    if w.ndim > 2:
        if queries is not None or keys is not None or query is not None:
            raise ValueError("several maps are drawn without tokens: pass one of them, such as weights[0]")
        return _maps(w if w.ndim == 4 else w[None], w.ndim == 4, names, title)
    if names is not None:
        raise ValueError("names belong to several maps, (H, T, S); a single one has a title")
    rows, columns = _tokens(queries, keys, *w.shape)
    if query is not None and not 0 <= query < len(rows):
        raise ValueError(f"query {query} is not there: the map has {len(rows)} rows, counted from 0")
    return _map(w, rows, columns, query, title)


def _tokens(queries: Any, keys: Any, t: int, s: int) -> tuple[list[str], list[str]]:
    """The words for rows and columns: the tokens, or their positions."""
    keys = queries if keys is None and t == s else keys
    words = []
    for what, names, count in (("query", queries, t), ("key", keys, s)):
        names = range(count) if names is None else list(names)
        if len(names) != count:
            raise ValueError(f"{len(names)} tokens for the {what} axis, which has {count}: give one each")
        words.append([shorten(str(n) if str(n).strip() else repr(str(n)), LETTERS) for n in names])
    if max(t, s) > MOST:
        raise ValueError(
            f"up to {MOST} tokens fit beside a map, got {max(t, s)}: take a part, or add a head axis"
        )
    return words[0], words[1]


def _percent(weight: float) -> str:
    return "0" if weight == 0 else "<1" if weight < 0.005 else f"{100 * weight:.0f}"


def _ascii(name: str) -> str:
    return name.replace("…", "...").encode("ascii", "backslashreplace").decode()


def _in_table(name: str) -> str:
    """A token as a heading of the text's table: one that was cut shows it and is no wider for it."""
    return _ascii(f"{name[:-3]}..." if name.endswith("…") else name)


def _shade(weight: float) -> str:
    """White for 0, dark blue for 1: darker is more, in gray too."""
    part = min(max(weight, 0.0), 1.0)
    return "#" + "".join(f"{round(255 + (full - 255) * part):02x}" for full in (0, 60, 110))


def _map(w: Any, rows: list[str], columns: list[str], query: int | None, title: str) -> Figure:
    canvas = Canvas()
    width = max(32.0, *(text_width(name, 12) + 8 for name in columns))
    bars = 0 if query is None else 250
    width = min(width, max(32.0, (WIDEST - 110 - bars) / len(columns)))
    letters = max(3, int((width - 6) / text_width("m", 12)))
    canvas.text(-8, -30, "query", size=12, anchor="end", color=SOFT)
    canvas.text(0, -30, "key", size=12, anchor="start", color=SOFT)
    for j, name in enumerate(columns):
        canvas.text((j + 0.5) * width, -11, shorten(name, letters), size=12, mono=True)
    for i, name in enumerate(rows):
        canvas.text(-8, (i + 0.5) * HEIGHT, name, size=12, mono=True, anchor="end", bold=i == query)
        for j in range(len(columns)):
            canvas.rect(j * width, i * HEIGHT, width, HEIGHT, fill=_shade(w[i, j]), radius=0)
            ink = "#ffffff" if w[i, j] > 0.45 else INK if w[i, j] else SOFT
            words = _percent(w[i, j]) if w[i, j] else "·"
            canvas.text((j + 0.5) * width, (i + 0.5) * HEIGHT, words, size=12, color=ink)
    if query is not None:
        canvas.rect(0, query * HEIGHT, width * len(columns), HEIGHT, fill="none", stroke=ORANGE, width=3)
        _bars(canvas, len(columns) * width + 34, w[query], rows[query], columns)
    heading = title or f"Attention of {len(rows)} queries to {len(columns)} keys, in percent"
    i, j = (query, int(w[query].argmax())) if query is not None else divmod(int(w.argmax()), w.shape[1])
    here, there = (f', "{names[n]}"' if names[n] != str(n) else "" for names, n in ((rows, i), (columns, j)))
    strongest = f"Row {i}{here}{',' if here else ''} looks most at column {j}{there}: {_percent(w[i, j])}%"
    zeros = bool((w == 0).any())
    full = "Each row adds up to 100%"
    caption = [f"{full}. Darker is more{', a dot is exactly 0' if zeros else ''}.", strongest]
    said = [f"{full}{', 0 is exactly 0' if zeros else ''}.", strongest]
    grid = [["", *map(_in_table, columns)]]
    grid += [[_in_table(name), *map(_percent, row)] for name, row in zip(rows, w, strict=True)]
    frame = "" if query is None else f"; row {query} is framed"
    lines = [heading, *said, f"rows are queries, columns are keys{frame}:", *table(grid)]
    return canvas.figure(heading, caption, f"{heading}. {strongest}.", _ascii("\n".join(lines)))


def _bars(canvas: Canvas, x: float, row: Any, name: str, columns: list[str]) -> None:
    """One row of the map as bars, from the first key down."""
    canvas.text(x, -11, f"{name} looks at", size=12, anchor="start", bold=True)
    room = max(text_width(column, 12) for column in columns) + 8
    for j, (column, weight) in enumerate(zip(columns, row, strict=True)):
        y = (j + 0.5) * HEIGHT
        canvas.text(x + room - 8, y, column, size=12, mono=True, anchor="end")
        canvas.rect(x + room, y - 8, max(100 * float(weight), 0.5), 16, fill=BLUE, stroke=BLUE, radius=0)
        canvas.text(x + room + 100 * float(weight) + 8, y, f"{_percent(weight)}%", size=12, anchor="start")


def _maps(w: Any, layers: bool, names: Sequence[str] | None, title: str) -> Figure:
    """Small maps: one row of them per layer, one column per head; heads alone wrap."""
    import numpy as np

    count = w.shape[0] * w.shape[1]
    heads = [f"head {head}" for head in range(w.shape[1])] if names is None else [str(name) for name in names]
    if len(heads) != w.shape[1]:
        raise ValueError(f"{len(heads)} names for {w.shape[1]} heads: give one each")
    if count > MOST_MAPS:
        raise ValueError(f"up to {MOST_MAPS} maps fit into one picture, got {count}")
    across = w.shape[1] if layers else math.ceil(count / math.ceil(count / 5))
    side = min(200.0, (WIDEST - 14 * across) / across)
    if side < 110:  # the words above a map
        raise ValueError(f"{across} heads do not fit beside each other: pass one layer, weights[0]")
    scale = side / max(w.shape[2:])
    canvas, lines = Canvas(), list[str]()
    for n in range(count):
        layer, head = divmod(n, w.shape[1])
        name = f"layer {layer}, {heads[head]}" if layers else heads[head]
        down, right = divmod(n, across)
        x, y = right * (side + 14), down * (side * w.shape[2] / max(w.shape[2:]) + 34)
        one = w[layer, head]
        gray = np.stack([255 + (full - 255) * np.clip(one, 0, 1) for full in (0, 60, 110)], -1)
        canvas.text(x, y - 11, name, size=12, anchor="start")
        canvas.image(x, y, w.shape[3] * scale, w.shape[2] * scale, png(gray.round().astype(np.uint8)))
        lines.append(f"{_ascii(name)}: {_habit(one)}")
    heading = title or (
        f"{w.shape[0]} layers of {w.shape[1]} heads"
        if layers
        else f"{count} {'heads' if names is None else 'maps'}"
    )
    caption = ["Rows are queries, columns are keys, both from the first token. Darker is more."]
    size = f"{w.shape[2]} queries and {w.shape[3]} keys each"
    alt = f"{heading}: {size}. {CHOICE}: {'; '.join(lines)}."
    return canvas.figure(heading, caption, alt, "\n".join([_ascii(heading), size, f"{CHOICE}:", *lines]))


def _habit(one: Any) -> str:
    """How hard the rows of a map choose, and how far away, if at least 2 of 5 choose the same distance."""
    largest = one.max(1)
    alone = (one > largest[:, None] - 1e-6).sum(1) == 1  # a row that is even chooses nothing
    distances = [i - int(one[i].argmax()) for i in range(len(one)) if alone[i]]
    said = f"{_percent(largest.mean())}%"
    back, count = max(Counter(distances).items(), key=lambda item: (item[1], -abs(item[0])), default=(0, 0))
    if 5 * count < 2 * len(one):
        return said
    where = "at themselves" if back == 0 else f"{abs(back)} {'back' if back > 0 else 'ahead'}"
    return f"{said}, {count} of {len(one)} rows look most {where}"


def attention_explorer(
    weights: Any, tokens: Sequence[Any] | None = None, keys: Sequence[Any] | None = None
) -> Explorer:
    """Choose a token, and a layer and a head if there are several, and see where it looks."""
    import ipywidgets as widgets

    w = as_array(weights)
    attention(w, *((tokens, keys) if w.ndim == 2 else ()))  # refuses what cannot be drawn
    w = w.reshape((1,) * (4 - w.ndim) + w.shape)
    rows, _ = _tokens(tokens, keys, *w.shape[2:])

    def draw(layer: int, head: int, token: int) -> tuple[Figure, str]:
        title = ", ".join(
            f"{name} {i}"
            for name, i, n in zip(("layer", "head"), (layer, head), w.shape, strict=False)
            if n > 1
        )
        return attention(w[layer, head], tokens, keys, query=token, title=title.capitalize()), ""

    style = {"description_width": "6em"}

    def wide(choices: int = 2) -> dict[str, Any]:
        """How wide a control is; with one choice there is nothing to choose, and it is hidden."""
        return {"style": style, "layout": {"width": "28em", "display": None if choices > 1 else "none"}}

    layers, heads = w.shape[:2]
    fields = {
        "layer": widgets.IntSlider(0, 0, layers - 1, description="layer", **wide(layers)),
        "head": widgets.IntSlider(0, 0, heads - 1, description="head", **wide(heads)),
        "token": widgets.Dropdown(
            options=[(f"{i}: {name}", i) for i, name in enumerate(rows)],
            value=len(rows) - 1,
            description="token",
            **wide(),
        ),
    }
    return Explorer(fields, draw)
