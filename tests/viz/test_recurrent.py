"""The picture of a padded batch says what torch's packed sequence holds."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence

from labkit import viz


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_running_counts_are_torchs_batch_sizes(lengths):
    packed = pack_sequence([torch.zeros(n) for n in lengths], enforce_sorted=False)
    figure = viz.padded_batch(["x" * n for n in lengths])
    counts = ", ".join(map(str, packed.batch_sizes.tolist()))
    assert figure.alt.endswith(f"at each step: {counts}.")
    assert f"{len(packed.data)} real steps" in figure.text


def test_padding_is_told_from_the_data():
    text = viz.padded_batch(["li", "ross"]).text
    assert "l  i  (.)  (.)   length 2" in text and "r  o    s    s   length 4" in text
    assert "6 real steps and 2 of padding: 25% of the table" in text
    assert text.endswith("still running: 2  2  1  1")


@pytest.mark.parametrize(
    ("sequences", "words"),
    [
        ([], "at least one sequence"),
        (["a", ""], "none of length 0"),
        (["a"] * 13, "up to 12 sequences of up to 24 steps"),
        (["a" * 25], "up to 12 sequences of up to 24 steps"),
        ([["a long item here", "another long item"] * 6], "too long to draw"),
    ],
)
def test_refuses_in_plain_words(sequences, words):
    with pytest.raises(ValueError, match=words):
        viz.padded_batch(sequences)
