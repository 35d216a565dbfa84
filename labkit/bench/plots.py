"""The two pictures of the report."""

from pathlib import Path

from labkit.bench.harness import Comparison


def steps(results: dict[int, dict[str, Comparison]], engines: list[str], path: Path) -> None:
    """Bars: wall-clock ratio to torch per step and engine, one panel per number of threads."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(5 * len(results), 3.6), squeeze=False, sharey=True)
    for axis, (threads, comparisons) in zip(axes[0], results.items(), strict=True):
        width = 0.8 / max(1, len(engines) - 1)
        for i, engine in enumerate(engines[1:]):
            heights = [r.ratio(engine, "wall") or 0 for r in comparisons.values()]
            bars = axis.bar([x + i * width for x in range(len(heights))], heights, width, label=engine)
            axis.bar_label(bars, [f"{h:.2f}" for h in heights], fontsize=7)
        axis.axhline(1, color="black", linewidth=0.8, linestyle="--")
        axis.set_xticks([x + 0.4 - width / 2 for x in range(len(comparisons))], list(comparisons))
        if max(axis.get_ylim()) > 4:  # engines ten times slower: only then is a scale without a zero worth it
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("")
        axis.set_title(f"{threads} thread{'s'[: threads > 1]}")
    axes[0][0].set_ylabel("time of a step, torch = 1")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def sizes(curves: dict[tuple[str, str], list[tuple[int, float, float]]], path: Path) -> None:
    """Lines: processor time against one size, labkit and torch."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = 3
    rows = -(-len(curves) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.4 * columns, 2.6 * rows), squeeze=False)
    for axis in axes.flat[len(curves) :]:
        axis.set_axis_off()
    for axis, ((model, size), points) in zip(axes.flat, curves.items(), strict=False):
        values, torch, labkit = zip(*points, strict=True)
        axis.plot(values, torch, marker="o", label="torch")
        axis.plot(values, labkit, marker="o", label="labkit")
        axis.set(xscale="log", yscale="log", title=f"{model}: {size}", xticks=values, xticklabels=values)
        axis.minorticks_off()
    axes[0][0].set_ylabel("ms a step")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
