"""Measure a good learning rate with a range test."""

from labkit.exercises.declare import Equivalent, Measure, Mistake


def _accept_rate(value):
    if 0.1 <= value <= 0.5:
        return None
    if value <= 0:
        return "a learning rate is a positive number."
    return f"{value:g} is {'below' if value < 0.1 else 'above'} what the curve suggests."


exercise = Measure(
    title="Too low, too high",
    minutes=10,
    needs=("w03.sgd",),
    also=(
        "learning rate range test",
        "learning rate finder",
    ),
    accept=_accept_rate,
    mistakes=[
        Mistake(
            "the lowest point",
            "That is the lowest point, and the edge of the cliff: the next larger steps throw the network off. Stay 3 to 10 times below.",
            1.15,
            when=lambda value: 0.5 < value <= 1.6,
        ),
        Mistake(
            "over the cliff",
            "There the loss rises again: the steps jump over the valley, and the ReLUs die.",
            3.0,
            when=lambda value: value > 1.6,
        ),
        Mistake(
            "where nothing happens",
            "There the curve is still flat, or hardly falls. The network would learn, but your patience would end first.",
            1e-3,
            when=lambda value: 0 < value < 0.1,
        ),
        Mistake(
            "the exponent",
            "That is the exponent: 10 to the power of it is the learning rate.",
            -1.0,
            when=lambda value: value < 0,
        ),
    ],
    hints=(
        "Find the lowest point of the curve, then walk back to the left.",
        "The lowest point lies near 1. A good learning rate is 3 to 10 times smaller.",
        "0.3 is on the falling part and a factor of 4 from the edge.",
    ),
    passed="The test costs a minute and beats a week of guessing. It holds for this batch size, model and optimizer only.",
    equivalent=(
        Equivalent(
            before="rate = 0.3",
            after="rate = 0.33",
            reason="every rate on the falling part of the curve is a right answer",
        ),
    ),
)
