"""The map of attention says where each token looks; its explorer goes through layers, heads and tokens."""

import numpy as np
import pytest
import torch

from labkit import viz

WORDS = "a cat sat".split()


def causal(t):
    return torch.ones(t, t).tril() / torch.arange(1, t + 1)[:, None]


def back(t, n, weight=0.75):
    """Every row looks n back with `weight`; the first rows, which cannot, look at themselves."""
    w = torch.full((t, t), (1 - weight) / (t - 1), dtype=torch.float64)
    for i in range(t):
        w[i, i - n if i >= n else i] = weight
    return w


def test_states_every_weight_and_the_strongest():
    figure = viz.attention([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.002, 0.9, 0.098]], WORDS)
    lines = figure.text.splitlines()
    assert 'Row 0, "a", looks most at column 0, "a": 100%' in lines and figure.alt.endswith("100%.")
    assert [line.split() for line in lines[-3:]] == [
        ["a", "100", "0", "0"],
        ["cat", "25", "75", "0"],
        ["sat", "<1", "90", "10"],
    ]


def test_darker_is_more_and_only_zero_has_a_dot():
    svg = viz.attention([[0.0, 1.0], [0.5, 0.5]]).svg
    assert svg.count('fill="#003c6e"') == 1 and svg.count('fill="#ffffff" stroke="#afb8c1"') >= 1
    assert svg.count(">·<") == 1
    assert ">·<" not in viz.attention([[1e-12, 1.0]]).svg


def test_picture_and_text_explain_only_the_signs_they_use():
    for weights, zeros in ([[0.0, 1.0], [0.5, 0.5]], True), ([[0.25, 0.75], [0.5, 0.5]], False):
        figure = viz.attention(weights)
        assert "Darker is more" in figure.svg and "Darker" not in figure.text
        assert ("a dot is exactly 0" in figure.svg) == zeros and "dot" not in figure.text
        assert ("0 is exactly 0" in figure.text) == zeros
    maps = viz.attention(causal(3)[None])
    assert "Darker" in maps.svg and "Darker" not in maps.text


def test_a_cut_token_says_so():
    lines = viz.attention(causal(2), ["unbelievable", "b"]).text.splitlines()
    assert lines[-3].split("  ")[-2:] == ["unbelie...", " b"] and lines[-2].startswith("unbelie... ")


def test_a_chosen_query_is_framed_and_listed():
    figure = viz.attention(causal(3), WORDS, query=1)
    assert "row 1 is framed" in figure.text and 'Row 1, "cat", looks most at column 0' in figure.text
    assert "cat looks at" in figure.svg and figure.svg.count(">50%<") == 2  # the bars


def test_queries_and_keys_may_be_different_words():
    lines = viz.attention([[0.5, 0.25, 0.25]], ["le"], WORDS).text.splitlines()
    assert lines[-2].split() == WORDS and lines[-1].split() == ["le", "50", "25", "25"]
    assert "Row 0 looks most at column 2: 90%" in viz.attention([[0.1, 0.0, 0.9]]).text
    assert viz.attention([[0.5, 0.5, 0.0]]).text.splitlines()[-2].split() == ["0", "1", "2"]


def test_blank_and_foreign_tokens_can_be_read():
    text = viz.attention(causal(3), [" ", "\n", "é"]).text
    assert "' '" in text and "'\\n'" in text and "\\xe9" in text


def test_several_maps_say_how_far_each_head_looks():
    w = torch.stack([back(9, 0), back(9, 1), back(9, 4), back(9, 4).flip(0, 1)])
    lines = viz.attention(w).text.splitlines()
    assert lines[2:] == [
        "A row's largest weight, on average:",
        "head 0: 75%, 9 of 9 rows look most at themselves",
        "head 1: 75%, 8 of 9 rows look most 1 back",
        "head 2: 75%, 5 of 9 rows look most 4 back",
        "head 3: 75%, 5 of 9 rows look most 4 ahead",
    ]
    layers = viz.attention(torch.stack([w, w.flip(0)])).text
    assert "layer 0, head 1: 75%, 8 of 9 rows look most 1 back" in layers
    assert "layer 1, head 1: 75%, 5 of 9 rows look most 4 back" in layers
    named = viz.attention(w[:2], names=["here", "before"])
    assert "before: 75%, 8 of 9 rows look most 1 back" in named.text and ">before<" in named.svg


def test_several_maps_say_how_hard_each_chooses():
    """The surprise of week 7: the longer the vectors, the harder the choice, in no particular direction."""
    maps = []
    for d in (4, 64, 1024):
        q, k = torch.randn(2, 8, d, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        maps.append(torch.softmax(q @ k.T, -1))
    figure = viz.attention(torch.stack(maps), names=["4 numbers", "64 numbers", "1,024 numbers"])
    assert figure.text.splitlines()[-3:] == ["4 numbers: 38%", "64 numbers: 89%", "1,024 numbers: 91%"]
    assert all(line in figure.alt for line in figure.text.splitlines()[-3:])


def test_rows_that_are_even_look_nowhere_in_particular():
    assert viz.attention(torch.full((1, 8, 8), 1 / 8)).text.splitlines()[-1] == "head 0: 12%"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(weights=[1.0, 0.0]), r"shape \(T, S\), \(H, T, S\) or \(L, H, T, S\), none 0; got \(2,\)"),
        (dict(weights=np.ones((0, 3))), r"got \(0, 3\)"),
        (dict(weights=[[3.0, -1.0]]), "after the softmax"),
        (dict(weights=[[float("nan"), 0.5]]), "not NaN"),
        (dict(weights=causal(3), queries=["a", "b"]), "2 tokens for the query axis, which has 3"),
        (dict(weights=causal(3), keys=["a", "b"]), "2 tokens for the key axis, which has 3"),
        (dict(weights=causal(3), query=3), "query 3 is not there: the map has 3 rows"),
        (dict(weights=causal(17)), "up to 16 tokens"),
        (dict(weights=causal(3), names=["a"]), "names belong to several maps"),
        (dict(weights=causal(3)[None], queries=WORDS), "drawn without tokens"),
        (dict(weights=causal(3)[None], names=["a", "b"]), "2 names for 1 heads"),
        (dict(weights=causal(3).expand(25, 3, 3)), "up to 24 maps"),
        (dict(weights=causal(3).expand(1, 12, 3, 3)), "12 heads do not fit"),
    ],
)
def test_refuses_in_plain_words(arguments, words):
    with pytest.raises(ValueError, match=words):
        viz.attention(**arguments)


def test_explorer_goes_through_layers_heads_and_tokens():
    w = torch.stack([torch.stack([back(3, 0), back(3, 1)]), torch.stack([back(3, 2), causal(3).double()])])
    explorer = viz.attention_explorer(w, WORDS)
    assert explorer.figure == viz.attention(w[0, 0], WORDS, query=2, title="Layer 0, head 0")
    explorer.set(layer=1, head=1, token=1)
    assert explorer.figure == viz.attention(w[1, 1], WORDS, query=1, title="Layer 1, head 1")
    assert explorer.message == ""


def test_explorer_hides_what_cannot_be_chosen():
    for weights, hidden in ((causal(3), ["layer", "head"]), (causal(3)[None].expand(2, 3, 3), ["layer"])):
        fields = viz.attention_explorer(weights, WORDS).fields
        assert [name for name in fields if fields[name].layout.display == "none"] == hidden


def test_explorer_refuses_what_it_cannot_draw():
    with pytest.raises(ValueError, match="up to 16 tokens"):
        viz.attention_explorer(causal(17)[None])
    with pytest.raises(ValueError, match="2 tokens for the query axis"):
        viz.attention_explorer(causal(3)[None], ["a", "b"])
