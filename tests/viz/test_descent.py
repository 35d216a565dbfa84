"""The descent takes torch's steps, says when it diverges, and its explorer follows the sliders."""

import pytest
import torch

from labkit import viz
from labkit.viz.descent import SURFACES, highest_rate, path


@pytest.mark.parametrize("name", SURFACES)
@pytest.mark.parametrize(("lr", "momentum"), [(0.02, 0.0), (0.05, 0.9)])
def test_steps_are_torchs(name, lr, momentum):
    surface = SURFACES[name]
    weights = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in surface.start]
    optimizer = torch.optim.SGD(weights, lr=lr, momentum=momentum)
    seen = []
    for _ in range(31):
        loss = surface.loss(*weights)
        seen.append((*(w.item() for w in weights), loss.item()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    places, losses = path(surface, lr, momentum, 30)
    mine = torch.tensor([(*place, loss) for place, loss in zip(places, losses, strict=True)])
    torch.testing.assert_close(mine, torch.tensor(seen))


@pytest.mark.parametrize("name", [name for name, surface in SURFACES.items() if surface.curvature])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_the_highest_rate_is_the_border(name, momentum):
    limit = highest_rate(SURFACES[name], momentum)
    below = path(SURFACES[name], 0.98 * limit, momentum, 2000)[1]
    above = path(SURFACES[name], 1.02 * limit, momentum, 2000)[1]
    assert below[-1] < 1e-6 * below[0] and above[-1] > 1e6


@pytest.mark.parametrize("name", SURFACES)
def test_nothing_lies_below_the_marked_minimum(name):
    surface = SURFACES[name]
    wide, high = surface.window
    a, b = torch.meshgrid(torch.linspace(-wide, wide, 401), torch.linspace(-high, high, 201), indexing="ij")
    lowest = surface.loss(*surface.minimum)
    assert surface.loss(a, b).min() >= lowest - 1e-6 and 0 <= lowest < 0.01
    assert all(abs(slope) < 1e-3 for slope in surface.gradient(*surface.minimum))


def test_momentum_rolls_out_of_the_higher_basin():
    ends = {momentum: path(SURFACES["two basins"], 0.1, momentum, 200)[0][-1][0] for momentum in (0.0, 0.9)}
    assert ends[0.0] == pytest.approx(1.917, abs=0.01) and ends[0.9] == pytest.approx(-2.071, abs=0.01)


def test_the_words_state_the_run():
    text = viz.descent("bowl", lr=0.5, steps=2).text
    assert "the loss goes from 10 to 0.625 in 2 steps; above a rate of 2 it would grow without end" in text
    assert "2            1       0.5  0.625" in text


def test_what_leaves_the_picture_is_named():
    text = viz.descent(lr=0.09).text
    assert "grows without end: the rate is above 0.08" in text and "leaves the picture at step 2" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(surface="hill"), "'bowl', 'narrow valley', 'two basins', not 'hill'"),
        (dict(lr=0), "lr is above 0"),
        (dict(momentum=1.0), "momentum from 0 to below 1"),
        (dict(steps=201), "steps from 1 to 200"),
    ],
)
def test_refuses_in_plain_words(arguments, words):
    with pytest.raises(ValueError, match=words):
        viz.descent(**arguments)


def test_explorer_follows_the_sliders():
    explorer = viz.learning_rate_explorer()
    assert "narrow valley: learning rate 0.075" in explorer.figure.text and explorer.message == ""
    explorer.fields["lr"].value = 0.1
    assert "grows without end" in explorer.figure.text and "above a rate of 0.08" in explorer.message
    explorer.fields["momentum"].value = 0.5
    assert "momentum 0.5" in explorer.figure.text and explorer.message == ""
    explorer.set(surface="two basins", steps=7)
    assert "two basins" in explorer.figure.text and "in 7 steps" in explorer.figure.text
