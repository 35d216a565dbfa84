"""Charts: loss curves, gradient error, activation spread, decision boundary, learning rates, histograms."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from labkit.text import number, plural, table
from labkit.viz.charts import STYLES, against, argmax, argmin, as_runs, draw_lines, new_chart
from labkit.viz.figure import Figure, as_array
from labkit.viz.svg import BLUE, CARD, INK, ORANGE, PALETTE, TINTS


def curves(
    runs: Any, x: Any = None, *, log: str = "", xlabel: str = "step", ylabel: str = "loss", title: str = ""
) -> Figure:
    """Curves of one or more runs: {name: values}. `log` is "", "x", "y" or "xy".

    Points that are not finite (or not above 0 on a log axis) leave a gap and are named in the text.
    """
    arrays = as_runs(runs, "curves")
    xs = against(x, arrays)
    with new_chart() as chart:
        if x is None and "x" not in log:
            chart.ax.xaxis.get_major_locator().set_params(integer=True)
        remarks = draw_lines(chart.ax, xs, arrays, log)
        chart.ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
        return chart.figure(
            _curves_alt(xs, arrays, ylabel, xlabel), _curve_words(title, xs, arrays, xlabel, ylabel) + remarks
        )


def _curves_alt(xs: dict, arrays: dict[str, Any], ylabel: str, xlabel: str) -> str:
    """Where each run begins and ends, and its peak and its dip if they stand out from both."""
    parts = []
    for name, ys in arrays.items():
        low, high = argmin(ys), argmax(ys)
        if low is None or high is None:
            parts.append(f"{name or ylabel} has no finite value")
            continue
        first, last = _ends(ys)
        part = f"{name or ylabel} goes from {number(first)} to {number(last)}"
        least = 0.05 * (ys[high] - ys[low])  # noise reaches a little beyond the ends, and that is no peak
        if ys[high] - max(first, last) > least:
            part += f", highest {number(ys[high])} at {xlabel} {number(xs[name][high])}"
        if min(first, last) - ys[low] > least:
            part += f", lowest {number(ys[low])} at {xlabel} {number(xs[name][low])}"
        parts.append(part)
    return f"{ylabel} against {xlabel}: " + "; ".join(parts) + "."


def _curve_words(title: str, xs: dict, arrays: dict[str, Any], xlabel: str, ylabel: str) -> list[str]:
    """A row per run; the highest value has columns if it is not simply the first or the last of every run."""
    peaks = any((high := argmax(ys)) is not None and ys[high] > max(_ends(ys)) for ys in arrays.values())
    extremes = {"lowest": argmin, "highest": argmax} if peaks else {"lowest": argmin}
    between = [word for name in extremes for word in (name, f"at {xlabel}")]
    rows = [["run", "points", "first", *between, "last"]]
    for name, ys in arrays.items():
        first, last = ("-", "-") if argmin(ys) is None else map(number, _ends(ys))
        row = [name or ylabel, str(ys.size), first]
        for find in extremes.values():
            at = find(ys)
            row += ["-", "-"] if at is None else [number(ys[at]), number(xs[name][at])]
        rows.append([*row, last])
    return [title or f"{ylabel} against {xlabel}", *table(rows)]


def _ends(ys: Any) -> tuple[float, float]:
    """The first and the last finite value; there must be one."""
    import numpy as np

    finite = ys[np.isfinite(ys)]
    return finite[0], finite[-1]


def error_vs_epsilon(epsilons: Any, errors: Any, *, title: str = "") -> Figure:
    """Error of a numerical derivative against its step size, both on log axes; the best step is marked.

    `errors` is one sequence or {name: sequence}. An error of exactly 0 cannot be drawn and is named instead.
    """
    arrays = as_runs(errors, "error_vs_epsilon")
    xs = against(epsilons, arrays)
    lines = [title or "error against epsilon"]
    best = {}
    for name, ys in arrays.items():
        low = argmin(ys)
        if low is not None:
            best[name] = (xs[name][low], ys[low])
            lines.append(f"{name or 'error'}: smallest {number(ys[low])} at epsilon {number(xs[name][low])}")
    with new_chart() as chart:
        lines += draw_lines(chart.ax, xs, arrays, "xy", marks=True)
        for i, (x, y) in enumerate(best.values()):
            if x > 0 and y > 0:
                chart.ax.plot([x], [y], "o", ms=13, mfc="none", mec=PALETTE[i], mew=1.5)
        chart.ax.set(xlabel="step size ε (rings: smallest error)", ylabel="absolute error", title=title)
        rows = [["epsilon", *(name or "error" for name in arrays)]]
        for k, eps in enumerate(as_array(epsilons).reshape(-1)):
            rows.append([number(eps), *(number(ys[k]) if k < ys.size else "" for ys in arrays.values())])
        alt = "Error against step size, log-log: " + "; ".join(lines[1 : 1 + len(best)]) + "."
        return chart.figure(alt, lines + table(rows))


def variance_by_depth(activations: Any, *, title: str = "", ylabel: str = "activation") -> Figure:
    """A box per layer: the middle half of the activations, whiskers from 5 % to 95 %, variance in the text.

    `activations` is a list of arrays, first layer first, or {initialization: list} for up to 4 panels.
    """
    import numpy as np

    groups = dict(activations) if isinstance(activations, Mapping) else {"": list(activations)}
    groups = {
        name: [as_array(a).astype(float).reshape(-1) for a in layers] for name, layers in groups.items()
    }
    if not 1 <= len(groups) <= 4 or not all(groups.values()):
        raise ValueError("variance_by_depth needs 1 to 4 groups with at least one layer each")
    lines, ends = [title or f"{ylabel} by layer"], []
    with new_chart(max(5.0, 2.6 * len(groups)), 3.6, len(groups)) as chart:
        for ax, (name, layers) in zip(chart.axes, groups.items(), strict=True):
            finite = [a[np.isfinite(a)] for a in layers]
            boxes = ax.boxplot(finite, whis=(5, 95), showfliers=False, patch_artist=True, widths=0.6)
            for box in boxes["boxes"]:
                box.set(facecolor=TINTS[0], edgecolor=BLUE)
            for median in boxes["medians"]:
                median.set(color=ORANGE, linewidth=2)
            ticks = range(1, len(layers) + 1, max(1, math.ceil(len(layers) / 8)))
            ax.set_xticks(list(ticks), [str(t) for t in ticks])
            ax.set(xlabel="layer", title=name or title)
            variances = [number(a.var()) if a.size else "nan" for a in finite]
            ends.append(f"{name or 'variance'} from {variances[0]} to {variances[-1]}")
            rows = [["layer", "variance", "mean", "5 %", "95 %", "not finite"]]
            for i, (kept, a) in enumerate(zip(finite, layers, strict=True), 1):
                facts = [kept.mean(), *np.percentile(kept, [5, 95])] if kept.size else [np.nan] * 3
                rows.append([str(i), variances[i - 1], *map(number, facts), str(a.size - kept.size)])
            lines += ([name] if name else []) + table(rows)
        chart.ax.set_ylabel(ylabel)
        if title and any(groups):
            chart.page.suptitle(title, fontsize=10.5, fontweight="bold", x=0.02, ha="left")
        return chart.figure(f"Variance of the {ylabel} by layer: " + "; ".join(ends) + ".", lines)


def decision_boundary(
    predict: Callable[[Any], Any], points: Any, labels: Any, *, threshold: float = 0.5, title: str = ""
) -> Figure:
    """The two regions a classifier makes of the plane, with the points and their true classes.

    `predict` takes an (n, 2) array and returns one score per row (second class above `threshold`), or an
    (n, 2) array of scores per class. `points` is (n, 2); `labels` holds two distinct values. Points on the
    wrong side carry a ring.
    """
    import numpy as np

    points, labels = as_array(points).astype(float), as_array(labels).reshape(-1)
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise ValueError(f"points must have shape (n, 2) with n at least 1, got {points.shape}")
    if len(labels) != len(points):
        raise ValueError(f"{plural(len(points), 'point')} but {plural(len(labels), 'label')}")
    classes = np.unique(labels)
    if len(classes) > 2:
        raise ValueError(f"decision_boundary draws two classes, got {len(classes)}: {classes[:5].tolist()}")
    low, high = points.min(0), points.max(0)
    pad = np.where(high > low, (high - low) * 0.12, 1.0)
    gx, gy = np.meshgrid(*(np.linspace(a, b, 120) for a, b in zip(low - pad, high + pad, strict=True)))
    field = _score(predict, np.stack([gx.ravel(), gy.ravel()], 1), threshold).reshape(gx.shape)
    guess = _score(predict, points, threshold) > 0
    wrong = guess != (labels == classes[-1]) if len(classes) == 2 else guess != (classes[0] > 0)
    with new_chart(5.2, 4.2) as chart:
        ax = chart.ax
        ax.contourf(gx, gy, field > 0, levels=[-0.5, 0.5, 1.5], colors=[TINTS[0], TINTS[1]])
        if (field > 0).any() and (field <= 0).any():
            ax.contour(gx, gy, np.nan_to_num(field), levels=[0], colors=[INK], linewidths=1.5)
        for i, cls in enumerate(classes):
            here = points[labels == cls]
            ax.plot(
                *here.T,
                "o^"[i],
                color=PALETTE[i],
                mec=CARD,
                mew=0.6,
                ms=6,
                label=f"class {number(cls)}",
                ls="",
            )
        if wrong.any():
            ax.plot(*points[wrong].T, "o", mfc="none", mec=INK, mew=1.3, ms=12, label="wrong", ls="")
        ax.grid(False)
        ax.set(xlabel="x₀", ylabel="x₁", title=title)
        ax.legend(
            loc="upper left", bbox_to_anchor=(1, 1), frameon=False, handletextpad=0.2, borderaxespad=0.2
        )
        right = len(points) - int(wrong.sum())
        counts = ", ".join(f"{int((labels == c).sum())} of class {number(c)}" for c in classes)
        fact = f"{right} of {plural(len(points), 'point')} on the right side"
        return chart.figure(
            f"Decision boundary: {fact}.",
            [title or "decision boundary", f"points: {counts}", fact, *_map(field)],
        )


def _score(predict: Callable[[Any], Any], at: Any, threshold: float) -> Any:
    """One number per row, positive for the second class."""
    out = as_array(predict(at)).astype(float)
    if out.ndim == 2 and out.shape == (len(at), 2):
        return out[:, 1] - out[:, 0]
    if out.size != len(at):
        raise ValueError(
            f"predict returned shape {out.shape} for {len(at)} points: one score per point is needed"
        )
    return out.reshape(-1) - threshold


def _map(field: Any) -> list[str]:
    """The regions as characters, top row first: '.' first class, '#' second."""
    rows = field[::-15, :][:, ::4]
    return ["regions ('.' first class, '#' second):"] + [
        "  " + "".join("#" if v > 0 else "." for v in row) for row in rows
    ]


def lr_range(rates: Any, losses: Any, *, title: str = "") -> Figure:
    """Loss against learning rate in a range test; the steepest fall and the lowest loss are marked."""
    import numpy as np

    arrays = as_runs(losses, "lr_range")
    if len(arrays) > 1:
        raise ValueError("lr_range draws one run; use curves(..., log='x') for several")
    xs = against(rates, arrays)
    (name, ys), (x,) = next(iter(arrays.items())), xs.values()
    low = argmin(ys)
    lines = [title or "learning-rate range test"]
    marks = []
    if low is not None:
        slopes = np.diff(ys[: low + 1]) / np.diff(np.log(np.where(x > 0, x, np.nan)[: low + 1]))
        if slopes.size and np.nanmin(slopes) < 0:
            marks.append(("steepest fall", int(np.nanargmin(slopes)), "v", ORANGE))
        marks.append(("lowest loss", low, "D", BLUE))
    with new_chart() as chart:
        lines_left_out = draw_lines(chart.ax, xs, {name: ys}, "x")
        for what, i, marker, color in marks:
            label = f"{what}: {number(x[i], 2)}"
            chart.ax.plot([x[i]], [ys[i]], marker, color=color, ms=9, mec=CARD, label=label, ls="")
            lines.append(f"{what} at learning rate {number(x[i])}, loss {number(ys[i])}")
        if marks:
            chart.ax.legend(
                loc="lower left", bbox_to_anchor=(0, 1), frameon=False, ncols=2, borderaxespad=0.2
            )
        ceiling = (
            np.nanmax(np.where(np.isfinite(ys), ys, np.nan)[: max(1, ys.size // 2)]) if low is not None else 1
        )
        if low is not None and np.isfinite(ceiling) and np.nanmax(ys[np.isfinite(ys)]) > 3 * abs(ceiling):
            margin = 0.2 * (ceiling - ys[low]) + 1e-9
            chart.ax.set_ylim(ys[low] - margin, ceiling + 2 * margin)  # the blow-up would flatten the rest
        chart.ax.set(xlabel="learning rate", ylabel="loss")
        if title:
            chart.page.suptitle(title, fontsize=10.5, fontweight="bold", x=0.02, ha="left")
        return chart.figure(
            "Loss against learning rate: " + "; ".join(lines[1:]) + ".", lines + lines_left_out
        )


def histogram(values: Any, *, bins: int = 24, xlabel: str = "value", title: str = "") -> Figure:
    """How often values occur: one array or {name: array}, all in the same bins."""
    import numpy as np

    arrays = as_runs(values, "histogram")
    finite = {name: ys[np.isfinite(ys)] for name, ys in arrays.items()}
    pooled = np.concatenate(list(finite.values()))
    if not pooled.size:
        raise ValueError("none of the values is finite: there is nothing to count")
    edges = np.histogram_bin_edges(pooled, bins)
    lines = [title or f"histogram of {xlabel}"]
    with new_chart(6.0, 3.2) as chart:
        for i, (name, ys) in enumerate(finite.items()):
            counts = np.histogram(ys, edges)[0]
            chart.ax.stairs(counts, edges, color=PALETTE[i], ls=STYLES[i], lw=1.8, label=name)
            chart.ax.stairs(counts, edges, fill=True, color=PALETTE[i], alpha=0.15)
            dropped = arrays[name].size - ys.size
            spread_ = f"mean {number(ys.mean())}, sd {number(ys.std())}" if ys.size else "no finite value"
            lines.append(f"{name or xlabel}: {plural(ys.size, 'value')}, {spread_}, {dropped} not finite")
            lines += _bars(ys, edges)
        if any(finite):
            chart.ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, borderaxespad=0.2)
        chart.ax.set(xlabel=xlabel, ylabel="count", title=title)
        return chart.figure(f"Histogram of {xlabel}: {lines[1]}.", lines)


def _bars(ys: Any, edges: Any) -> list[str]:
    import numpy as np

    coarse = edges[:: max(1, (len(edges) - 1) // 8)]
    coarse[-1] = edges[-1]
    counts = np.histogram(ys, coarse)[0]
    rows = [
        [f"  {number(a)} to {number(b)}", str(c)] for a, b, c in zip(coarse, coarse[1:], counts, strict=False)
    ]
    most = max(1, counts.max())
    return [
        f"{line}  {'#' * round(24 * c / most)}".rstrip() for line, c in zip(table(rows), counts, strict=True)
    ]
