"""How a language model chooses its next token, and what temperature, top-k and top-p leave to choose from."""

from typing import Any

from labkit.text import number, plural, shorten, table
from labkit.viz.charts import new_chart
from labkit.viz.explore import Explorer
from labkit.viz.figure import Figure, as_array
from labkit.viz.svg import INK, LINE

MOST = 24
FILL = "#3d98d3"  # dark enough for the white card, light enough for an outline in ink: 3:1 with both
# Scores as a small model might give them after "To be, or not to", and the words they belong to.
WORDS = ("be", "the", "see", "have", "me", "go", "thee", "say", "die", "make", "love", "bear", "a", "dream")
SCORES = (5.1, 3.4, 3.2, 3.0, 2.7, 2.6, 2.3, 2.1, 1.9, 1.7, 1.2, 0.8, 0.3, -0.4)


def sampling(
    logits: Any = SCORES,
    names: Any = None,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    title: str = "",
) -> Figure:
    """Bars of the most likely tokens: outlined as the model has it, filled as it is drawn from.

    logits (vocab,), names one per token. First the temperature, then the k largest, then the smallest set
    of likely tokens with a total of at least p; temperature 0 takes the largest.
    """
    import numpy as np

    scores = as_array(logits).astype(float).reshape(-1)
    labels = _names(names if names is not None or logits is not SCORES else WORDS, scores.size)
    model = _softmax(scores)
    drawn = chosen(scores, temperature, top_k, top_p)
    order = np.argsort(-scores, kind="stable")[:MOST]
    words = [labels[i] for i in order]
    kept = int((drawn > 0).sum())
    rows = [["token", "model", "drawn"], *([labels[i], number(model[i]), number(drawn[i])] for i in order)]
    rest = scores.size - order.size
    if rest:
        rows.append(
            [f"{rest} more", number(np.delete(model, order).sum()), number(np.delete(drawn, order).sum())]
        )
    settings = f"temperature {number(temperature)}"
    settings += f", top-k {top_k}" if top_k is not None else ""
    settings += f", top-p {number(top_p)}" if top_p < 1 else ""
    with new_chart(6.6, 1.1 + 0.2 * len(order)) as chart:
        places = np.arange(len(order))
        chart.ax.barh(places, drawn[order], 0.78, color=FILL, label="chances after these settings")
        chart.ax.barh(
            places,
            model[order],
            0.78,
            fill=False,
            edgecolor=INK,
            linewidth=1.3,
            label="chances the model gave",
        )
        chart.ax.set_yticks(places, [shorten(word, 14) for word in words])
        chart.ax.invert_yaxis()
        chart.ax.grid(axis="y", visible=False)
        chart.ax.set(xlabel="probability of the next token", xlim=(0, 1.05 * max(model.max(), drawn.max())))
        left = f"{kept} of {plural(scores.size, 'token')} can be drawn"
        chart.ax.set_title(f"{title or settings}\n{left}")
        chart.ax.legend(loc="lower right", frameon=True, edgecolor=LINE)
        alt = f"Probabilities of the next token, {settings}: {left}."
        return chart.figure(alt, [alt, *table(rows)])


def chosen(scores: Any, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0) -> Any:
    """The probabilities that a token is drawn with, as a NumPy array."""
    import numpy as np

    if temperature < 0:
        raise ValueError(f"a temperature is 0 or more, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k keeps at least 1 token, got {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p is above 0 and at most 1, got {top_p}")
    order = np.argsort(-scores, kind="stable")
    probabilities = np.zeros(scores.size)
    if temperature == 0:
        probabilities[order[0]] = 1.0
        return probabilities
    order = order[:top_k]
    probabilities[order] = _softmax(scores[order] / temperature)
    ranked = probabilities[order]
    probabilities[order] = np.where(np.cumsum(ranked) - ranked < top_p, ranked, 0.0)
    return probabilities / probabilities.sum()


def sampling_explorer(logits: Any = SCORES, names: Any = None) -> Explorer:
    """Move temperature, top-k and top-p, and see which tokens are left and how likely each becomes."""
    import ipywidgets as widgets

    size = as_array(logits).size

    def draw(temperature: float, top_k: int, top_p: float) -> tuple[Figure, str]:
        figure = sampling(logits, names, temperature=temperature, top_k=top_k, top_p=top_p)
        return figure, "temperature 0 is greedy: top-k and top-p change nothing" if temperature == 0 else ""

    wide = {"style": {"description_width": "8em"}, "layout": widgets.Layout(width="30em")}
    fields = {
        "temperature": widgets.FloatSlider(
            0.8, min=0.0, max=3.0, step=0.1, description="temperature", readout_format=".1f", **wide
        ),
        "top_k": widgets.IntSlider(min(10, size), 1, size, description="top-k", **wide),
        "top_p": widgets.FloatSlider(0.9, min=0.05, max=1.0, step=0.05, description="top-p", **wide),
    }
    return Explorer(fields, draw)


def _names(names: Any, size: int) -> list[str]:
    if names is None:
        return [str(i) for i in range(size)]
    labels = [str(name) for name in names]
    if len(labels) != size:
        raise ValueError(f"there are {plural(size, 'logit')} but {plural(len(labels), 'name')}")
    return [label if label.strip() else repr(label) for label in labels]


def _softmax(scores: Any) -> Any:
    import numpy as np

    weights = np.exp(scores - scores.max())
    return weights / weights.sum()
