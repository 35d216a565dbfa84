"""`descent`: gradient descent on a small loss surface, path and loss; `learning_rate_explorer`: by slider."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from labkit.text import number, plural, table
from labkit.viz.charts import draw_lines, new_chart
from labkit.viz.explore import Explorer
from labkit.viz.figure import Figure
from labkit.viz.svg import CARD, GREEN, INK, LINE, ORANGE

MOST_STEPS, FAR = 200, 1e6  # a loss beyond FAR counts as diverged, and the descent ends there


class Surface(NamedTuple):
    """A loss of two weights, its gradient, where the descent starts, and what to draw.

    `curvature` is that of the steepest direction, if it is the same everywhere: it limits the learning rate.
    """

    loss: Callable[[Any, Any], Any]
    gradient: Callable[[float, float], tuple[float, float]]
    start: tuple[float, float]
    curvature: float | None
    minimum: tuple[float, float]
    window: tuple[float, float]  # half of its width and of its height


SURFACES = {
    "bowl": Surface(
        lambda a, b: (a**2 + b**2) / 2, lambda a, b: (a, b), (4.0, 2.0), 1.0, (0.0, 0.0), (5.0, 3.0)
    ),
    "narrow valley": Surface(
        lambda a, b: (a**2 + 25 * b**2) / 2,
        lambda a, b: (a, 25 * b),
        (4.0, 0.8),
        25.0,
        (0.0, 0.0),
        (5.0, 1.2),
    ),
    "two basins": Surface(  # the left one is deeper; 1.31 lifts its floor to about 0
        lambda a, b: a**4 / 16 - a**2 / 2 + 0.15 * a + 1.31 + b**2,
        lambda a, b: (a**3 / 4 - a + 0.15, 2 * b),
        (3.6, 1.5),
        None,
        (-2.0712, 0.0),
        (4.2, 2.4),
    ),
}


def path(
    surface: Surface, lr: float, momentum: float, steps: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """The places visited, the start first, and their losses, as torch's SGD steps; ends early beyond FAR."""
    (a, b), va, vb = surface.start, 0.0, 0.0
    places, losses = [(a, b)], [float(surface.loss(a, b))]
    for _ in range(steps):
        ga, gb = surface.gradient(a, b)
        va, vb = momentum * va + ga, momentum * vb + gb
        a, b = a - lr * va, b - lr * vb
        places.append((a, b))
        losses.append(float(surface.loss(a, b)))
        if losses[-1] > FAR:
            break
    return places, losses


def descent(
    surface: str = "narrow valley",
    *,
    lr: float = 0.03,
    momentum: float = 0.0,
    steps: int = 40,
    title: str = "",
) -> Figure:
    """Gradient descent with momentum on a surface of two weights: the path over contours, and the loss.

    `surface` is "bowl", "narrow valley" or "two basins". Steps that leave the picture are named in the text.
    """
    import numpy as np

    if surface not in SURFACES:
        raise ValueError(f"surface is one of {', '.join(map(repr, SURFACES))}, not {surface!r}")
    if lr <= 0 or not 0 <= momentum < 1 or not 1 <= steps <= MOST_STEPS:
        raise ValueError(f"lr is above 0, momentum from 0 to below 1, steps from 1 to {MOST_STEPS}")
    found = SURFACES[surface]
    places, losses = path(found, lr, momentum, steps)
    heading = title or f"{surface}: learning rate {number(lr)}, momentum {number(momentum)}"
    facts = [outcome(found, lr, momentum, losses), *_left(found, places)]
    with new_chart(8.8, 3.6, 2, share=False) as chart:
        _contours(chart.axes[0], found, np)
        ax, (wide, high) = chart.axes[0], found.window
        ax.plot(
            *zip(*places, strict=True), "-o", color=ORANGE, ms=3.5, lw=1.4, mec=CARD, mew=0.4, label="path"
        )
        ax.plot(*found.start, "s", color=INK, ms=7, label="start")
        ax.plot(*found.minimum, "*", color=GREEN, ms=12, mec=INK, mew=0.6, label="lowest point")
        ax.set(xlim=(-wide, wide), ylim=(-high, high), xlabel="weight 1", ylabel="weight 2")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, ncols=3, borderaxespad=0.2)
        xs = np.arange(len(losses), dtype=float)
        remarks = draw_lines(chart.axes[1], {"": xs}, {"": np.array(losses)}, "y")
        ran = f"loss {number(losses[0])} → {number(losses[-1])} in {plural(len(losses) - 1, 'step')}"
        chart.axes[1].set(xlabel="step", ylabel="loss")
        chart.axes[1].set_title(ran, fontsize=9.5, fontweight="normal")
        chart.axes[1].xaxis.get_major_locator().set_params(integer=True)
        chart.page.suptitle(heading, fontsize=10.5, fontweight="bold", x=0.02, ha="left")
        return chart.figure(f"{heading}; {facts[0]}.", [heading, *facts, *_steps(places, losses), *remarks])


def outcome(surface: Surface, lr: float, momentum: float, losses: list[float]) -> str:
    """What became of the run, in words."""
    limit = highest_rate(surface, momentum)
    words = (
        f"the loss goes from {number(losses[0])} to {number(losses[-1])} in {plural(len(losses) - 1, 'step')}"
    )
    if lr > limit:
        return f"{words} and grows without end: the rate is above {number(limit)}"
    return words + (
        f"; above a rate of {number(limit)} it would grow without end" if limit < math.inf else ""
    )


def highest_rate(surface: Surface, momentum: float) -> float:
    """From this rate on the steepest direction overshoots more at each step: 2 (1 + momentum) / curvature."""
    return 2 * (1 + momentum) / surface.curvature if surface.curvature else math.inf


def _left(surface: Surface, places: list[tuple[float, float]]) -> list[str]:
    wide, high = surface.window
    gone = [i for i, (a, b) in enumerate(places) if abs(a) > wide or abs(b) > high]
    return [f"leaves the picture at step {gone[0]}"] if gone else []


def _contours(ax: Any, surface: Surface, np: Any) -> None:
    wide, high = surface.window
    a, b = np.meshgrid(np.linspace(-wide, wide, 90), np.linspace(-high, high, 70))
    heights = surface.loss(a, b)
    levels = np.geomspace(max(heights.min(), 0.0) + 0.05, heights.max(), 9)
    ax.contour(a, b, heights, levels=levels, colors=[LINE], linewidths=1)
    ax.grid(False)


def _steps(places: list[tuple[float, float]], losses: list[float]) -> list[str]:
    """The first steps and then every tenth or so, as a table."""
    every = max(1, (len(losses) - 1) // 4)
    rows = [["step", "weight 1", "weight 2", "loss"]]
    for i in sorted({*range(min(4, len(losses))), *range(0, len(losses), every), len(losses) - 1}):
        rows.append([str(i), number(places[i][0]), number(places[i][1]), number(losses[i])])
    return table(rows)


def learning_rate_explorer(
    surface: str = "narrow valley", lr: float = 0.075, momentum: float = 0.0
) -> Explorer:
    """Learning rate, momentum and number of steps by slider; the path and the loss curve follow."""
    import ipywidgets as widgets

    def draw(surface: str, lr: float, momentum: float, steps: int) -> tuple[Figure, str]:
        limit = highest_rate(SURFACES[surface], momentum)
        figure = descent(surface, lr=lr, momentum=momentum, steps=steps)
        too_high = f"above a rate of {number(limit)} each step overshoots more than the one before"
        return figure, too_high if lr > limit else ""

    wide = {"style": {"description_width": "8em"}, "layout": widgets.Layout(width="32em")}
    fields = {
        "surface": widgets.Dropdown(options=list(SURFACES), value=surface, description="surface", **wide),
        "lr": widgets.FloatLogSlider(
            lr, min=-3, max=0.5, step=0.025, readout_format=".3g", description="learning rate", **wide
        ),
        "momentum": widgets.FloatSlider(momentum, min=0, max=0.98, step=0.02, description="momentum", **wide),
        "steps": widgets.IntSlider(40, 1, MOST_STEPS, description="steps", **wide),
    }
    return Explorer(fields, draw)
