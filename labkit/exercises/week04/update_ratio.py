"""Measure at which learning rate a layer moves by a thousandth per step."""

import math
from functools import cache

from labkit import datasets
from labkit.exercises.declare import Measure, Mistake
from labkit.lazy import F, torch


@cache
def _update_ratio(lr):
    """The experiment of the page: norm of the update over norm of the weight, middle of 20 steps, last layer."""
    digits = datasets.digits()
    x, y = torch.from_numpy(digits.images[:1000]).double().flatten(1), torch.from_numpy(digits.labels[:1000])
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    ratios = []
    for rows in torch.arange(1000).split(50):
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        before = model[2].weight.detach().clone()
        optimizer.step()
        ratios.append(((model[2].weight - before).norm() / before.norm()).item())
    return sorted(ratios)[10]


def _accept_rate(rate):
    if not 0 < rate < math.inf:
        return "a learning rate is a number above 0."
    ratio = _update_ratio(float(rate))
    if not 0.95e-3 <= ratio <= 1.05e-3:
        return f"at a rate of {rate:.3g} the middle ratio is {ratio:.2g}, not 0.001."
    return None


def _gives(low, high):
    return lambda rate: 0 < rate < math.inf and low <= _update_ratio(float(rate)) <= high


exercise = Measure(
    title="How far does one step go?",
    minutes=8,
    needs=("w04.averaged_twice",),
    accept=_accept_rate,
    mistakes=[
        Mistake(
            "ten times too large",
            "The ratio is 0.01 there: ten times what is asked for.",
            0.063,
            when=_gives(0.7e-2, 1.5e-2),
        ),
        Mistake(
            "ten times too small",
            "The ratio is 0.0001 there: a tenth of what is asked for.",
            0.00063,
            when=_gives(0.7e-4, 1.5e-4),
        ),
        Mistake(
            "the ratio itself",
            "0.001 is the ratio that is asked for; the rate that leads to it is another number.",
            0.001,
            when=lambda rate: rate == 0.001,
        ),
        Mistake(
            "too rough",
            "The right size, but not within 5 %. For small rates the ratio grows in proportion: one more rule of three.",
            0.01,
            when=_gives(0.5e-3, 2e-3),
        ),
    ],
    hints=(
        "Measure once, for instance `middle_ratio(0.01)`. How will the ratio change if the rate is doubled?",
        "For plain gradient descent the update is the rate times the gradient: the ratio grows in proportion, as long as training has not moved far.",
        "rate = 0.01 * 0.001 / middle_ratio(0.01)",
    ),
    passed="About a thousandth per step is a common healthy size. A layer far from its neighbors is worth a look.",
)
