"""`image_grid` and `compare`: arrays as pictures, yours beside torch's."""

import base64
import io
import math
from collections.abc import Sequence
from typing import Any

from labkit.text import number, plural, shorten
from labkit.viz.figure import Figure, as_array
from labkit.viz.svg import INK, ORANGE, SOFT, TINTS, Canvas, text_width

SHADES = " .:-=+*#%@"  # from 0 to 1
MOST_IMAGES, IN_WORDS = 64, 16  # images in a picture, and those of them that its text draws
ROWS, COLUMNS = 10, 8  # larger arrays are drawn as heat maps
SIDE_BY_SIDE = 600  # pixels; what is wider would shrink in a notebook until nobody can read it


def image_grid(
    images: Any, titles: Sequence[Any] | None = None, *, columns: int = 0, title: str = ""
) -> Figure:
    """Small images in rows. Shape (N, H, W), (N, H, W, 3), (N, 1, H, W) or (N, 3, H, W), or a list of images.

    Each gray image is scaled to its own range; color is read as 0 to 1, or 0 to 255 for integers.
    """
    pictures = [_picture(image) for image in images]
    if not 1 <= len(pictures) <= MOST_IMAGES:
        raise ValueError(f"image_grid draws 1 to {MOST_IMAGES} images, got {len(pictures)}")
    names = [str(t) for t in titles] if titles is not None else [str(i) for i in range(len(pictures))]
    if len(names) != len(pictures):
        raise ValueError(f"{plural(len(names), 'title')} for {plural(len(pictures), 'image')}: give one each")
    columns = columns or math.ceil(len(pictures) / math.ceil(len(pictures) / 8))
    largest = 320 if len(pictures) == 1 else 112
    side = max(56, min(largest, 680 // columns - 10))
    letters = max(3, int(side / text_width("m", 12)))
    canvas = Canvas()
    for i, (picture, name) in enumerate(zip(pictures, names, strict=True)):
        row, column = divmod(i, columns)
        h, w = picture.shape[:2]
        scale = side / max(h, w)
        x, y = column * (side + 10), row * (side + 32)
        canvas.text(x + side / 2, y - 11, shorten(name, letters), size=12)
        canvas.image(x + (side - w * scale) / 2, y, w * scale, h * scale, png(picture))
    alt = (
        f"{plural(len(pictures), 'image')}: "
        + ", ".join(names[:IN_WORDS])
        + ("." if len(names) <= IN_WORDS else ", and more.")
    )
    lines = [title or plural(len(pictures), "image"), f"from dark to bright: '{SHADES}'"]
    width = min(32, 64 // min(4, len(pictures)))
    for first in range(0, min(len(pictures), IN_WORDS), 4):
        lines += _art(pictures[first : first + 4], names[first : first + 4], width)
    if len(pictures) > IN_WORDS:
        lines.append("and: " + ", ".join(names[IN_WORDS:]))
    return canvas.figure(title, [], alt, "\n".join(lines))


def _picture(image: Any) -> Any:
    """An (H, W) or (H, W, 3) array of bytes."""
    import numpy as np

    a = as_array(image)
    if a.ndim == 3 and a.shape[0] in (1, 3) and a.shape[-1] not in (1, 3):
        a = np.moveaxis(a, 0, -1)
    if a.ndim == 3 and a.shape[-1] == 1:
        a = a[..., 0]
    if not a.size or not (a.ndim == 2 or (a.ndim == 3 and a.shape[-1] == 3)):
        raise ValueError(f"an image has shape (H, W), (H, W, 3) or (3, H, W), none of them 0; got {a.shape}")
    if a.ndim == 3:
        return (a if a.dtype.kind in "iu" else np.clip(np.nan_to_num(a), 0, 1) * 255).astype(np.uint8)
    return (_unit(a) * 255).round().astype(np.uint8)


def _unit(a: Any) -> Any:
    """`a` moved to 0 … 1; values that are not finite become 0."""
    import numpy as np

    a = a.astype(float)
    finite = a[np.isfinite(a)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    return np.where(np.isfinite(a), (a - low) / (high - low), 0.0) if high > low else np.zeros(a.shape)


def png(picture: Any) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "png", optimize=False)
    return base64.b64encode(buffer.getvalue()).decode()


def _art(pictures: list, names: list[str], width: int) -> list[str]:
    """Images side by side as characters, dark to bright, at most `width` wide; one alone keeps its name."""
    blocks = []
    for picture, name in zip(pictures, names, strict=True):
        gray = picture if picture.ndim == 2 else picture.mean(-1)
        step = max(1, math.ceil(max(gray.shape) / width))
        means = _means(gray, 2 * step, step)
        brightest = means.max() or 1.0  # a mean is darker than the brightest of its pixels
        rows = ["".join(SHADES[round(9 * v / brightest)] for v in row) for row in means]
        cut = len(name) > width and len(pictures) > 1
        blocks.append([name[: width - 3] + "..." if cut else name, *rows])
    height = max(map(len, blocks))
    lines = [
        "  ".join((b[i] if i < len(b) else "").ljust(width) for b in blocks).rstrip() for i in range(height)
    ]
    return ["", *lines]


def _means(gray: Any, high: int, wide: int) -> Any:
    """The means of blocks of `high` by `wide` pixels; a character is about twice as high as wide."""
    import numpy as np

    rows, columns = range(0, gray.shape[0], high), range(0, gray.shape[1], wide)
    sums = np.add.reduceat(np.add.reduceat(gray.astype(float), rows, 0), columns, 1)
    counts = np.add.reduceat(np.add.reduceat(np.ones(gray.shape), rows, 0), columns, 1)
    return sums / counts


def compare(
    yours: Any,
    torchs: Any,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    wrong: Any = None,
    caption: bool = True,
    title: str = "",
    names: tuple[str, str] = ("yours", "torch"),
) -> Figure:
    """Your array beside torch's, differing elements marked; small arrays as numbers, larger as heat maps.

    Elements differ when |yours - torch| > atol + rtol |torch|; NaN equals NaN. Where somebody has
    judged already, the mask `wrong` says it. With more than 2 axes the first 2-D slice that differs is drawn.
    """
    import numpy as np

    a, b = as_array(yours), as_array(torchs)
    if a.shape != b.shape:
        return _compare_shapes(a, b, names, title)
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True) if wrong is None else as_array(wrong)
    count = int(wrong.sum())
    fact = f"{count} of {plural(a.size, 'value')} {'differs' if a.size == 1 else 'differ'}"
    lines = [title or f"{names[0]} and {names[1]}, shape {a.shape}", fact]
    where: tuple[int, ...] = ()
    if count:
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = first[:-2]
        lines.append(
            f"first at {list(first)}: {names[0]} {number(a[first], 6)}, {names[1]} {number(b[first], 6)}"
        )
    elif a.ndim > 2 and a.size:
        where = (0,) * (a.ndim - 2)
    if a.ndim > 2 and a.size:
        a, b, wrong = a[where], b[where], wrong[where]
        lines.append(f"drawn: slice [{', '.join(map(str, where))}, :, :]")
    facts = lines[1:]
    a, b, wrong = (np.atleast_2d(array) for array in (a, b, wrong))
    canvas = Canvas()
    if a.ndim == 2 and a.shape[0] <= ROWS and a.shape[1] <= COLUMNS:
        marks = _draw_numbers(canvas, a, b, wrong, names)
        lines += _number_words(a, wrong, names[0]) + _number_words(b, wrong, names[1]) + [marks]
    elif a.size:
        _draw_heat(canvas, a, b, wrong, names)
        lines += _wrong_words(wrong)
    alt = f"{names[0]} beside {names[1]}: " + "; ".join(facts) + "."
    return canvas.figure(lines[0], facts if caption else [], alt, "\n".join(lines))


def _compare_shapes(a: Any, b: Any, names: tuple[str, str], title: str) -> Figure:
    fact = f"shapes differ: {names[0]} {a.shape}, {names[1]} {b.shape}"
    canvas = Canvas()
    for i, (name, shape) in enumerate(zip(names, (a.shape, b.shape), strict=True)):
        canvas.text(0, i * 36, name, anchor="start", bold=True)
        differs = [n != m for n, m in zip(shape[::-1], (b, a)[i].shape[::-1], strict=False)]
        differs = (differs + [True] * (len(shape) - len(differs)))[::-1]
        for axis, n in enumerate(shape):
            x = 70 + (axis + max(a.ndim, b.ndim) - len(shape)) * 56
            canvas.rect(
                x,
                i * 36 - 14,
                50,
                28,
                stroke=ORANGE if differs[axis] else INK,
                width=2 if differs[axis] else 1,
            )
            canvas.text(x + 25, i * 36, str(n), mono=True, bold=differs[axis])
        if not shape:
            canvas.text(70, i * 36, "() a single number", anchor="start", mono=True)
    caption = [fact, "values are compared once the shapes agree"]
    return canvas.figure(
        title or "Shapes differ",
        caption,
        fact[0].upper() + fact[1:] + ".",
        "\n".join([title, *caption] if title else caption),
    )


def _draw_numbers(canvas: Canvas, a: Any, b: Any, wrong: Any, names: tuple[str, str]) -> str:
    """Two grids of numbers, one below the other if they are wide; differing cells have a thick border, an
    orange tint and a mark."""
    cells = [shorten(number(v, 4), 10) for v in (*a.ravel(), *b.ravel())]
    w, x, y = max([40.0, *(text_width(c) + 14 for c in cells)]), 0.0, 0.0
    step = max(a.shape[1] * w, 90) + 28
    stacked = 2 * step > SIDE_BY_SIDE
    for name, grid in zip(names, (a, b), strict=True):
        canvas.text(x, y - 16, name, anchor="start", bold=True)
        for i, j in sorted(
            ((i, j) for i in range(grid.shape[0]) for j in range(grid.shape[1])),
            key=lambda at: bool(wrong[at]),
        ):
            bad = bool(wrong[i, j])
            canvas.rect(
                x + j * w,
                y + i * 30,
                w,
                30,
                fill=TINTS[1] if bad else "#ffffff",
                stroke=ORANGE if bad else "#afb8c1",
                width=2.5 if bad else 1,
            )
            canvas.text(
                x + (j + 0.5) * w, y + i * 30 + 15, shorten(number(grid[i, j], 4), 10), mono=True, bold=bad
            )
        if not grid.size:
            canvas.text(x, y + 15, "no elements", anchor="start", color=SOFT)
        x, y = (x, y + grid.shape[0] * 30 + 44) if stacked else (x + step, y)
    return "* marks values that differ" if wrong.any() else "no value differs"


def _number_words(grid: Any, wrong: Any, name: str) -> list[str]:
    cells = [
        [number(v, 4) + ("*" if bad else " ") for v, bad in zip(*rows, strict=True)]
        for rows in zip(grid, wrong, strict=True)
    ]
    if not grid.size:
        return [f"{name}:", "  no elements"]
    width = max(len(c) for row in cells for c in row)
    return [f"{name}:"] + ["  " + " ".join(c.rjust(width) for c in row).rstrip() for row in cells]


def _draw_heat(canvas: Canvas, a: Any, b: Any, wrong: Any, names: tuple[str, str]) -> None:
    """Both arrays in the same gray scale, then where they differ."""
    import numpy as np

    both = _unit(np.stack([a, b]))
    where = np.where(wrong[..., None], np.array([213, 94, 0]), np.array([243, 244, 246])).astype(np.uint8)
    panels = [*((255 - both * 255).astype(np.uint8)), where]
    h, w = a.shape
    scale = min(210 / w, 210 / h)
    width, height = max(w * scale, 8), max(h * scale, 8)
    for i, (name, panel) in enumerate(zip((*names, "where they differ"), panels, strict=True)):
        x = i * (max(width, 130) + 24)
        canvas.text(x, -14, name, anchor="start", bold=True)
        canvas.image(x, 0, width, height, png(panel))


def _wrong_words(wrong: Any) -> list[str]:
    """A coarse map of where elements differ, and the rows and columns that do."""
    h, w = wrong.shape
    dh, dw = math.ceil(h / 12), math.ceil(w / 48)
    blocks = [[wrong[i : i + dh, j : j + dw].any() for j in range(0, w, dw)] for i in range(0, h, dh)]
    rows, columns = int(wrong.any(1).sum()), int(wrong.any(0).sum())
    return [
        f"in {rows} of {plural(h, 'row')} and {columns} of {plural(w, 'column')}",
        "where ('#' differs):",
    ] + ["  " + "".join("#" if v else "." for v in row) for row in blocks]
