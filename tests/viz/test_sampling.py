"""The picture of a choice shows the probabilities that torch would draw with; its explorer moves them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import viz
from labkit.viz.sampling import FILL, chosen
from labkit.viz.svg import CARD, INK


def by_torch(scores, temperature, k, p):
    """The same three steps with torch's own operations."""
    probs = (torch.tensor(scores) / temperature).softmax(-1)
    best = probs.topk(min(k, len(scores)))
    kept = torch.zeros_like(probs).scatter(-1, best.indices, best.values)
    kept = kept / kept.sum()
    ordered, order = kept.sort(descending=True, stable=True)
    inside = ordered.cumsum(-1) - ordered < p
    kept = torch.zeros_like(probs).scatter(-1, order, ordered * inside)
    return (kept / kept.sum()).numpy()


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(-60, 60), min_size=1, max_size=12, unique=True),
    st.sampled_from([0.3, 1.0, 2.5]),
    st.integers(1, 14),
    st.sampled_from([0.13, 0.57, 0.91, 1.0]),
)
def test_agrees_with_torch(tenths, temperature, k, p):
    scores = np.array(tenths) / 10
    np.testing.assert_allclose(
        chosen(scores, temperature, k, p), by_torch(scores, temperature, k, p), atol=1e-9
    )


def test_words_name_the_tokens_and_both_distributions():
    text = viz.sampling(np.log([1.0, 6.0, 3.0]), ["x", "y", " "], top_k=2).text
    assert "temperature 1, top-k 2: 2 of 3 tokens can be drawn" in text
    lines = [line.split() for line in text.splitlines()[2:]]
    assert lines == [["y", "0.6", "0.667"], ["'", "'", "0.3", "0.333"], ["x", "0.1", "0"]]


def luminance(color):
    r, g, b = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (r, g, b))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_the_outline_is_seen_on_the_bars_and_the_bars_on_the_card():
    assert f"fill: {FILL}" in viz.sampling().svg and f"stroke: {INK}" in viz.sampling().svg
    for dark, light in ((INK, FILL), (FILL, CARD)):
        assert (luminance(light) + 0.05) / (luminance(dark) + 0.05) >= 3


def test_what_does_not_fit_is_summed_up():
    text = viz.sampling(np.zeros(100), top_p=0.5).text
    assert "50 of 100 tokens can be drawn" in text and "76 more" in text and "0.76" in text


def test_temperature_zero_takes_the_largest():
    assert chosen(np.array([1.0, 4.0, 2.0]), 0.0, 1, 0.1).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(temperature=-0.1), "a temperature is 0 or more, got -0.1"),
        (dict(top_k=0), "at least 1 token, got 0"),
        (dict(top_p=0.0), "above 0 and at most 1, got 0.0"),
        (dict(logits=[1.0, 2.0], names=["a"]), "there are 2 logits but 1 name"),
    ],
)
def test_refuses_in_plain_words(arguments, words):
    with pytest.raises(ValueError, match=words):
        viz.sampling(**arguments)


def test_explorer_moves_and_explains():
    explorer = viz.sampling_explorer()
    assert "5 of 14 tokens can be drawn" in explorer.figure.text and explorer.message == ""
    explorer.fields["top_p"].value = 1.0
    assert "10 of 14 tokens can be drawn" in explorer.figure.text
    explorer.fields["top_k"].value = 2
    assert "2 of 14 tokens can be drawn" in explorer.figure.text
    explorer.fields["temperature"].value = 0.0
    assert "1 of 14 tokens can be drawn" in explorer.figure.text and "greedy" in explorer.message
