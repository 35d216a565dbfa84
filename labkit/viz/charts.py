"""What the charts share: a matplotlib page that becomes a `Figure`, and runs drawn as labeled lines.

Every run has its own color, line style and a label at its end, so no legend has to be looked up. The same
data give the same bytes: fixed ids, no date, cut coordinates, glyphs as outlines of matplotlib's own font.
"""

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any

from labkit.text import plural, shorten
from labkit.viz.figure import Figure, as_array
from labkit.viz.svg import CARD, INK, LINE, PALETTE, SOFT, spread

STYLES = ("-", "--", "-.", ":", (0, (6, 2, 1, 2, 1, 2)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
SETTINGS = {
    "svg.hashsalt": "labkit", "svg.fonttype": "path", "font.family": ["DejaVu Sans"], "font.size": 9.5,
    "axes.titlesize": 10.5, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelsize": 9.5,
    "xtick.labelsize": 9, "ytick.labelsize": 9, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT, "axes.labelcolor": INK,
    "text.color": INK, "figure.constrained_layout.w_pad": 0.13, "figure.constrained_layout.h_pad": 0.11,
    "axes.grid": True, "grid.color": "#e6e8eb", "axes.axisbelow": True, "lines.linewidth": 1.8,
    "axes.unicode_minus": True, "figure.facecolor": "none", "axes.facecolor": CARD, "path.simplify": True,
}  # fmt: skip


class Chart:
    """A matplotlib figure on its way to becoming a `Figure`."""

    def __init__(self, width: float, height: float, panels: int, share: bool) -> None:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure as Page

        self.page = Page(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(self.page)
        self.axes = list(self.page.subplots(1, panels, sharey=share, squeeze=False)[0])
        self.ax = self.axes[0]

    def figure(self, alt: str, lines: list[str]) -> Figure:
        buffer = io.StringIO()
        self.page.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, pad_inches=0.12)
        drawing = re.sub(r"<metadata>.*?</metadata>\s*", "", buffer.getvalue(), flags=re.S)
        drawing = re.sub(r"<!--.*?-->\s*|^\s+", "", drawing[drawing.index("<svg") :], flags=re.S | re.M)
        w, h = (round(float(n) * 96 / 72) for n in re.findall(r' (?:width|height)="([\d.]+)pt"', drawing)[:2])
        cut = re.compile(r"(\d\.\d)\d+")  # a tenth of a point; what is left out is noise and half the file
        body = re.sub(
            r'\s(?:d|x|y)="[^"]*"', lambda m: cut.sub(r"\1", m[0]), drawing[drawing.index(">") + 1 :]
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{w}" '
            f'height="{h}" viewBox="0 0 {w * 0.75:g} {h * 0.75:g}" role="img" aria-label="{escape(alt)}">\n'
            f'<title>{escape(alt)}</title>\n<rect x="0.4" y="0.4" width="{w * 0.75 - 0.8:g}" '
            f'height="{h * 0.75 - 0.8:g}" rx="6" fill="{CARD}" stroke="{LINE}" stroke-width="0.75"/>'
        )
        return Figure(head + body.rstrip(), "\n".join(lines), alt)


@contextmanager
def new_chart(
    width: float = 6.4, height: float = 3.6, panels: int = 1, share: bool = True
) -> Iterator[Chart]:
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        yield Chart(width, height, panels, share)


def as_runs(runs: Any, what: str) -> dict[str, Any]:
    """{name: 1-D float array} from a mapping or a single sequence."""
    given = dict(runs) if isinstance(runs, Mapping) else {"": runs}
    if not given:
        raise ValueError(f"{what} needs at least one run, for example {{'mine': [2.3, 1.1]}}")
    if len(given) > len(PALETTE):
        raise ValueError(f"{what} tells up to {len(PALETTE)} runs apart, got {len(given)}: draw two figures")
    arrays = {str(name): as_array(ys).astype(float).reshape(-1) for name, ys in given.items()}
    for name, ys in arrays.items():
        if not ys.size:
            raise ValueError(f"run {name!r} is empty: there is nothing to draw")
    return arrays


def against(x: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """The x values of each run: `x` cut to its length, or 0, 1, 2, …"""
    import numpy as np

    longest = max(ys.size for ys in arrays.values())
    xs = np.arange(longest, dtype=float) if x is None else as_array(x).astype(float).reshape(-1)
    if xs.size < longest:
        raise ValueError(f"x has {plural(xs.size, 'value')} but the longest run has {longest}")
    return {name: xs[: ys.size] for name, ys in arrays.items()}


def draw_lines(
    ax: Any, xs: dict[str, Any], arrays: dict[str, Any], log: str, marks: bool = False
) -> list[str]:
    """Draw runs with labels at their ends; returns remarks on what could not be drawn."""
    import numpy as np

    if set(log) - set("xy"):
        raise ValueError(f"log must be '', 'x', 'y' or 'xy', got {log!r}")
    if "x" in log:
        ax.set_xscale("log")
        _plain_ticks(ax.xaxis)
    if "y" in log:
        ax.set_yscale("log")
        _plain_ticks(ax.yaxis)
    remarks, ends = [], []
    for i, (name, ys) in enumerate(arrays.items()):
        ok = np.isfinite(ys) & ((ys > 0) | ("y" not in log)) & ((xs[name] > 0) | ("x" not in log))
        if not ok.all():
            first = int(np.argmin(ok))
            bad = "not finite" if not np.isfinite(ys[first]) else "not above 0, so a log axis cannot show it"
            remarks.append(
                f"{name or 'run'}: {int((~ok).sum())} of {ys.size} points left out; point {first} is {bad}"
            )
        shown = np.where(ok, ys, np.nan)
        few = marks or ok.sum() < 2
        ax.plot(xs[name], shown, color=PALETTE[i], ls=STYLES[i], marker=MARKERS[i] if few else None, ms=5)
        if ok.any():
            last = int(np.argmax(np.where(ok, xs[name], -np.inf)))  # x may run backward
            ends.append((name, i, xs[name][last], ys[last]))
            if not few:
                ax.plot([xs[name][last]], [ys[last]], MARKERS[i], color=PALETTE[i], ms=6)
    _label_ends(ax, [end for end in ends if end[0]])
    return remarks


def _plain_ticks(axis: Any) -> None:
    """Ticks of a log axis as people write them, 0.5 or 2000, unless the axis leaves what is easy to read."""
    from matplotlib.ticker import LogFormatterSciNotation

    class Plain(LogFormatterSciNotation):
        def __call__(self, x: float, pos: int | None = None) -> str:
            shown = super().__call__(x, pos)  # empty where labels would be too many
            low, high = sorted(axis.get_view_interval())
            return f"{x:g}" if shown and low >= 1e-4 and high < 1e6 else shown

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain())


def _label_ends(ax: Any, ends: list[tuple[str, int, float, float]]) -> None:
    """Names to the right of the last points, pushed apart where they would meet."""
    if not ends:
        return
    ax.figure.draw_without_rendering()
    ends = sorted(ends, key=lambda e: ax.transData.transform((e[2], e[3]))[1])
    wanted = [
        float(ax.transAxes.inverted().transform(ax.transData.transform((x, y)))[1]) for _, _, x, y in ends
    ]
    gap = 18 / (ax.get_window_extent().height * 96 / ax.figure.dpi)  # 18 px, as a share of the height
    for (name, i, _, _), y in zip(ends, spread(wanted, [gap] * (len(ends) - 1)), strict=True):
        marker = ax.plot(
            [1.025], [y], MARKERS[i], color=PALETTE[i], ms=5, transform=ax.transAxes, clip_on=False
        )
        marker[0].set_in_layout(False)
        ax.text(1.05, y, shorten(name, 22), transform=ax.transAxes, va="center")


def argmin(ys: Any) -> int | None:
    """Index of the lowest finite value, or None."""
    import numpy as np

    return int(np.argmin(np.where(np.isfinite(ys), ys, np.inf))) if np.isfinite(ys).any() else None


def argmax(ys: Any) -> int | None:
    """Index of the highest finite value, or None."""
    return argmin(-ys)
