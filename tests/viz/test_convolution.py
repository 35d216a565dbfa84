"""The picture of a convolution shows what torch computes; its explorer slides and explains."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import viz


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(1, 2),
)
def test_agrees_with_torch(size, kernel, stride, padding, dilation):
    random = np.random.default_rng(0)
    x, w = random.integers(-9, 9, size), random.integers(-3, 4, kernel)
    try:
        truth = torch.conv2d(
            torch.tensor(x)[None, None], torch.tensor(w)[None, None], None, stride, padding, dilation
        )[0, 0]
    except RuntimeError:
        with pytest.raises(ValueError, match="no window fits"):
            viz.convolution(x, w, stride=stride, padding=padding, dilation=dilation)
        return
    last = tuple(n - 1 for n in truth.shape)
    text = viz.convolution(x, w, last, stride=stride, padding=padding, dilation=dilation).text
    assert f"output {tuple(truth.shape)}" in text
    assert f"= {truth[last].item()}\n" in text


def test_names_the_products_and_marks_the_window():
    text = viz.convolution([[1, 2, 3], [4, 5, 6]], [[1, 0], [0, -1]], (0, 1)).text
    assert "2*1 + 6*(-1) = -4\nProducts with a 0 of the kernel are left out." in text
    assert "1 [2][3]" in text and "4 [5][6]" in text and "-4 [-4]" in text


def test_padding_is_told_from_the_image():
    text = viz.convolution([[7]], [[1, 1]], padding=1).text
    assert "(0)" in text and "[0][0](0)" in text and "a padded zero" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(image=[1, 2], kernel=[[1]]), r"two axes each; got shapes \(2,\) and \(1, 1\)"),
        (dict(image=[[1, 2]], kernel=[[1], [1]]), "covers 2 by 1 cells, the padded image has 1 by 2"),
        (dict(image=[[1, 2]], kernel=[[1]], at=(0, 2)), r"shape \(1, 2\): there is no element \[0, 2\]"),
        (dict(image=[[1, 2]], kernel=[[1]], stride=0), "at least 1"),
        (dict(image=np.ones((13, 2)), kernel=[[1]]), "up to 12 by 12"),
        (dict(image=np.ones((2, 9)) / 30000, kernel=[[1]]), "too long to draw"),
    ],
)
def test_refuses_in_plain_words(arguments, words):
    with pytest.raises(ValueError, match=words):
        viz.convolution(**arguments)


def test_explorer_slides_and_wraps():
    explorer = viz.convolution_explorer()
    assert "Output [1, 1]" in explorer.figure.text and explorer.message == ""
    explorer.fields["step"].value = 6
    assert "Output [1, 2]" in explorer.figure.text
    explorer.fields["stride"].value = 2
    assert "starts again" in explorer.message
    explorer.set(stride=1, dilation=3, padding=0)
    assert "no window fits" in explorer.message and "last numbers that worked" in explorer.message
    explorer.fields["padding"].value = 2
    assert "dilation 3: output (3, 4)" in explorer.figure.text
