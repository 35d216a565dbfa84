"""A small drawing surface for diagrams: rectangles, lines, text, and a size that fits what was drawn.

Colors are those of Okabe and Ito, which stay apart for color-blind readers; every color is paired with a
shape, a label or a border, so nothing is lost in gray. Figures stand on their own white card and therefore
read the same in light and dark themes.
"""

from html import escape
from textwrap import wrap

from labkit.viz.figure import Figure

BLUE, ORANGE, GREEN, PINK, AMBER, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
PALETTE = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY)
TINTS = (
    "#d6e8f4",
    "#fbe0cc",
    "#d0ede4",
    "#f5e1ed",
    "#fbeccb",
    "#e3f2fc",
)  # the palette, pale enough for text
INK, SOFT, LINE, GHOST, CARD = "#1f2328", "#57606a", "#afb8c1", "#f3f4f6", "#ffffff"
TIMES, MINUS = "\u00d7", "\u2212"  # for pictures; their words in plain text stay ASCII
SANS = "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def text_width(string: str, size: float = 13, bold: bool = False) -> float:
    """Room to reserve for `string`, in pixels: wide enough for any of the fonts above."""
    return len(string) * size * (0.66 if bold else 0.61)


class Canvas:
    """Collects shapes at any coordinates; `figure` crops to them and adds a title and a caption."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.left = self.top = float("inf")
        self.right = self.bottom = float("-inf")

    def _cover(self, x0: float, y0: float, x1: float, y1: float) -> None:
        self.left, self.top = min(self.left, x0), min(self.top, y0)
        self.right, self.bottom = max(self.right, x1), max(self.bottom, y1)

    def rect(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        *,
        fill: str = CARD,
        stroke: str = LINE,
        width: float = 1,
        dash: str = "",
        radius: float = 2,
    ) -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius:g}" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="{width:g}"{dashes}/>'
        )
        self._cover(x, y, x + w, y + h)

    def path(
        self,
        points: list[tuple[float, float]],
        *,
        color: str = SOFT,
        arrow: bool = False,
        curved: bool = False,
    ) -> None:
        """A line through `points`; `curved` bends it so that it leaves and arrives vertically."""
        (x, y), *rest = points
        d = f"M{x:.1f} {y:.1f}"
        for u, v in rest:
            middle = (y + v) / 2
            d += (
                f"C{x:.1f} {middle:.1f} {u:.1f} {middle:.1f} {u:.1f} {v:.1f}"
                if curved
                else f"L{u:.1f} {v:.1f}"
            )
            x, y = u, v
        self.parts.append(f'<path d="{d}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        if arrow:
            dy = 7 if y >= points[-2][1] else -7
            head = f"M{x - 4:.1f} {y - dy:.1f}L{x + 4:.1f} {y - dy:.1f}L{x:.1f} {y:.1f}Z"
            self.parts.append(f'<path d="{head}" fill="{color}"/>')
        for u, v in points:
            self._cover(u, v, u, v)

    def text(
        self,
        x: float,
        y: float,
        string: str,
        *,
        size: int = 13,
        anchor: str = "middle",
        color: str = INK,
        mono: bool = False,
        bold: bool = False,
    ) -> None:
        """`string` centered vertically on `y`; `anchor` says which part of it stands at `x`."""
        style = f' font-family="{MONO}"' if mono else ""
        style += ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y + 0.35 * size:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{color}"{style} xml:space="preserve">{escape(string)}</text>'
        )
        w = text_width(string, size, bold)
        left = x - {"start": 0, "middle": w / 2, "end": w}[anchor]
        self._cover(left, y - size * 0.6, left + w, y + size * 0.6)

    def image(self, x: float, y: float, w: float, h: float, png: str) -> None:
        """A bitmap (base64 PNG) with sharp pixels and a thin frame."""
        self.parts.append(
            f'<image x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" preserveAspectRatio="none" '
            f'style="image-rendering:pixelated" href="data:image/png;base64,{png}"/>'
        )
        self.rect(x, y, w, h, fill="none", radius=0)

    def figure(self, title: str, caption: list[str], alt: str, text: str) -> Figure:
        """Crop, add a title above and caption lines below, and hand back the `Figure`."""
        if not self.parts:
            self._cover(0, 0, 0, 0)
        left = self.left
        if title:
            self.text(left, self.top - 20, title, size=14, anchor="start", bold=True)
        for i, line in enumerate([line for note in caption for line in wrap(note, 90)]):
            self.text(left, self.bottom + (18 if i == 0 else 12), line, anchor="start", color=SOFT)
        x, y = self.left - 16, self.top - 14
        w, h = round(self.right - x + 16), round(self.bottom - y + 14)
        body = "\n".join(self.parts)
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" '
            f'viewBox="{x:.1f} {y:.1f} {w} {h}" '
            f'role="img" aria-label="{escape(alt)}" font-family="{SANS}">\n<title>{escape(alt)}</title>\n'
            f'<rect x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" width="{w - 1}" height="{h - 1}" rx="8" '
            f'fill="{CARD}" stroke="{LINE}"/>\n{body}\n</svg>'
        )
        return Figure(svg, text, alt)


def spread(wanted: list[float], gaps: list[float]) -> list[float]:
    """Positions nearest to `wanted` (least squares) that keep order, with `gaps[i]` between i and i + 1."""
    shifts = [0.0]
    for gap in gaps:
        shifts.append(shifts[-1] + gap)
    blocks: list[tuple[float, int]] = []  # (mean, count) of runs pushed together
    for want, shift in zip(wanted, shifts, strict=True):
        mean, count = want - shift, 1
        while blocks and blocks[-1][0] > mean:
            before, n = blocks.pop()
            mean, count = (before * n + mean * count) / (n + count), n + count
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return [mean + shift for mean, shift in zip(means, shifts, strict=True)]
