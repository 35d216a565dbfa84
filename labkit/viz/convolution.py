"""`convolution`: one window of a convolution with its numbers; `convolution_explorer`: the kernel slides."""

from typing import Any

from labkit.text import number, table
from labkit.viz.explore import Explorer
from labkit.viz.figure import Figure, as_array
from labkit.viz.svg import GHOST, GREEN, INK, LINE, MINUS, ORANGE, SOFT, TINTS, Canvas, text_width

ROWS, COLUMNS, WIDEST = 12, 12, 828
HEIGHT = 30  # of a cell
Grid = tuple[str, Any, set, set | None]  # name, numbers, marked cells, cells that are not padding
KERNELS = {
    "edges": [[1, 0, -1], [1, 0, -1], [1, 0, -1]],
    "blur": [[1, 2, 1], [2, 4, 2], [1, 2, 1]],
    "sharpen": [[0, -1, 0], [-1, 5, -1], [0, -1, 0]],
    "shift": [[0, 0, 0], [1, 0, 0], [0, 0, 0]],
}
IMAGE = [
    [0, 0, 1, 2, 0, 0],
    [0, 1, 3, 3, 0, 0],
    [0, 2, 5, 4, 1, 0],
    [0, 1, 4, 5, 2, 0],
    [0, 0, 3, 4, 1, 0],
]


def convolution(
    image: Any,
    kernel: Any,
    at: tuple[int, int] = (0, 0),
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    title: str = "",
) -> Figure:
    """The window that makes output element `at`: image (H, W), kernel (KH, KW), and the whole output.

    As in torch the kernel is not flipped. Cells of the window have a thick border, padded zeros a dashed one.
    """
    import numpy as np

    x, w = as_array(image), as_array(kernel)
    if x.ndim != 2 or w.ndim != 2 or not w.size:
        raise ValueError(f"image and kernel have two axes each; got shapes {x.shape} and {w.shape}")
    if stride < 1 or dilation < 1 or padding < 0:
        raise ValueError("stride and dilation are at least 1, padding at least 0")
    padded = np.pad(x, padding)
    output = _output(padded, w, stride, dilation)
    if not all(0 <= i < n for i, n in zip(at, output.shape, strict=True)):
        raise ValueError(f"the output has shape {output.shape}: there is no element {list(at)}")
    window = [(i, j) for i in _reads(at[0], w.shape[0], stride, dilation)
              for j in _reads(at[1], w.shape[1], stride, dilation)]  # fmt: skip
    value = number(output[at], 4)
    heading = title or f"Output [{at[0]}, {at[1]}] = {value}"
    numbers = f"stride {stride}, padding {padding}, dilation {dilation}"
    sizes = f"image {x.shape}, kernel {w.shape}, {numbers}: output {output.shape}"
    products = f"{_terms([padded[place] for place in window], w.reshape(-1).tolist())} = {value}"
    left_out = [] if w.all() else ["Products with a 0 of the kernel are left out."]
    drawn = products.replace("*", "·").replace("-", MINUS)  # the words stay in ASCII
    inside = {(i + padding, j + padding) for i, j in np.ndindex(x.shape)}
    grids: list[Grid] = [
        ("image, padded" if padding else "image", padded, set(window), inside),
        ("kernel", w, set(), None),
        ("output", output, {at}, None),
    ]
    canvas = Canvas()
    _draw(canvas, grids)
    words = [line for grid in grids for line in _grid_words(*grid)]
    words.append("[ ] marks the window and its output" + (", ( ) a padded zero" if padding else ""))
    alt = f"A kernel of shape {w.shape} on an image of shape {x.shape}: output element {list(at)} is {value}."
    text = "\n".join([heading, sizes, products, *left_out, *words])
    return canvas.figure(heading, [sizes, drawn, *left_out], alt, text)


def _reads(i: int, size: int, stride: int, dilation: int) -> list[int]:
    """The positions along one axis that output position `i` reads."""
    return [i * stride + k * dilation for k in range(size)]


def _output(padded: Any, w: Any, stride: int, dilation: int) -> Any:
    """Every output element; a ValueError where no window fits or the picture would be too large."""
    import numpy as np

    if padded.shape[0] > ROWS or padded.shape[1] > COLUMNS:
        raise ValueError(f"up to {ROWS} by {COLUMNS} cells with padding can be drawn, got {padded.shape}")
    span = [dilation * (k - 1) + 1 for k in w.shape]
    sizes = tuple((n - s) // stride + 1 for n, s in zip(padded.shape, span, strict=True))
    if min(sizes) < 1:
        raise ValueError(
            f"the kernel covers {span[0]} by {span[1]} cells, the padded image has {padded.shape[0]} by "
            f"{padded.shape[1]}: no window fits"
        )
    output = np.zeros(sizes, np.result_type(padded, w))
    for i, j in np.ndindex(sizes):
        rows, columns = _reads(i, w.shape[0], stride, dilation), _reads(j, w.shape[1], stride, dilation)
        output[i, j] = (padded[np.ix_(rows, columns)] * w).sum()
    return output


def _terms(cells: list, weights: list) -> str:
    """The sum in words, without the terms that the kernel multiplies by 0."""
    factors = [number(w) if w >= 0 else f"({number(w)})" for w in weights]
    parts = [f"{number(c)}*{f}" for c, w, f in zip(cells, weights, factors, strict=True) if w]
    more = f" + ... ({len(parts)} products)" if len(parts) > 9 else ""
    return " + ".join(parts[:9]).replace("+ -", "- ") + more if parts else "0"


def _draw(canvas: Canvas, grids: list[Grid]) -> None:
    """The grids side by side; the window and its output element marked."""
    widths = [
        max([HEIGHT, *(text_width(number(v), 12) + 8 for v in grid.reshape(-1))]) for _, grid, _, _ in grids
    ]
    total = -34 + sum(w * grid.shape[1] + 34 for w, (_, grid, _, _) in zip(widths, grids, strict=True))
    if total > WIDEST:
        raise ValueError("these numbers are too long to draw side by side: round them, or take fewer columns")
    x = 0.0
    for w, (name, grid, marked, real) in zip(widths, grids, strict=True):
        canvas.text(x, -14, name, anchor="start", bold=True)
        places = [(i, j) for i in range(grid.shape[0]) for j in range(grid.shape[1])]
        for i, j in sorted(places, key=lambda place: place in marked):  # thick borders on top
            hit, zero = (i, j) in marked, real is not None and (i, j) not in real
            color = GREEN if name == "output" else ORANGE
            fill = TINTS[2 if name == "output" else 1] if hit else GHOST if zero else "#ffffff"
            canvas.rect(
                x + j * w,
                i * HEIGHT,
                w,
                HEIGHT,
                fill=fill,
                stroke=color if hit else LINE,
                width=2.5 if hit else 1,
                dash="3 3" if zero and not hit else "",
            )
            ink = SOFT if zero else INK
            canvas.text(
                x + (j + 0.5) * w,
                (i + 0.5) * HEIGHT,
                number(grid[i, j]),
                size=12,
                mono=True,
                color=ink,
                bold=hit,
            )
        x += max(w * grid.shape[1], text_width(name, 13, True)) + 34


def _grid_words(name: str, grid: Any, marked: set, real: set | None) -> list[str]:
    def cell(i: int, j: int) -> str:
        left, right = ("[", "]") if (i, j) in marked else (" ", " ")
        if real is not None and (i, j) not in real and (i, j) not in marked:
            left, right = "(", ")"
        return left + number(grid[i, j]) + right

    rows = [[cell(i, j) for j in range(grid.shape[1])] for i in range(grid.shape[0])]
    return [f"{name}:", *("  " + line for line in table([["", *row] for row in rows], gap=""))]


def convolution_explorer(image: Any = None, kernel: str = "edges") -> Explorer:
    """Slide a kernel over a small image; padding, stride and dilation by slider."""
    import ipywidgets as widgets

    picture = as_array(IMAGE if image is None else image)

    def draw(kernel: str, padding: int, stride: int, dilation: int, step: int) -> tuple[Figure, str]:
        span = dilation * 2 + 1
        rows, columns = ((n + 2 * padding - span) // stride + 1 for n in picture.shape)
        count = max(rows, 0) * max(columns, 0)
        at = divmod(step % count, columns) if count else (0, 0)
        figure = convolution(picture, KERNELS[kernel], at, stride=stride, padding=padding, dilation=dilation)
        again = f"the output has {count} elements; the position starts again at the first"
        return figure, again if step >= count else ""

    wide = {"style": {"description_width": "6em"}, "layout": widgets.Layout(width="28em")}
    fields = {
        "kernel": widgets.Dropdown(options=list(KERNELS), value=kernel, description="kernel", **wide),
        "padding": widgets.IntSlider(0, 0, 2, description="padding", **wide),
        "stride": widgets.IntSlider(1, 1, 3, description="stride", **wide),
        "dilation": widgets.IntSlider(1, 1, 3, description="dilation", **wide),
        "step": widgets.IntSlider(5, 0, 40, description="position", **wide),
    }
    return Explorer(fields, draw)
