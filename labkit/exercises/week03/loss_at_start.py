"""Predict the loss of a network that knows nothing yet."""

import math

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import F, torch


def _zero_loss(classes):
    return lambda: float(F.cross_entropy(torch.zeros(1, classes), torch.tensor([0])))


def _ten(right, wrong=0.0, twice=False):
    """The loss of ten logits: the label's, one wrong one, eight zeros; through softmax once more or not."""

    def truth():
        logits = torch.zeros(1, 10)
        logits[0, 3], logits[0, 4] = right, wrong
        return float(F.cross_entropy(logits.softmax(1) if twice else logits, torch.tensor([3])))

    return truth


exercise = Predict(
    title="The loss before training",
    minutes=8,
    needs=("w03.cross_entropy",),
    items={
        "a": Item("10 classes, all logits 0", _zero_loss(10)),
        "b": Item("1000 classes, all logits 0", _zero_loss(1000)),
        "c": Item(
            "2 classes, both logits 5",
            lambda: float(F.cross_entropy(torch.full((1, 2), 5.0), torch.tensor([1]))),
        ),
        "d": Item("10 classes, the label's logit is 100, the others 0", _ten(100.0)),
        "e": Item("10 classes, the logit of one wrong class is 100, the others 0", _ten(0.0, 100.0)),
        "f": Item(
            "as a, but somebody put a softmax between the network and the loss: the loss gets probabilities for logits",
            _ten(0.0, twice=True),
        ),
        "g": Item("as d, with that softmax: how good can this network ever look?", _ten(100.0, twice=True)),
    },
    mistakes=[
        Mistake(
            "zero logits, zero loss",
            "a: equal logits are equal probabilities, 1/10 each. The loss is -ln(1/10) = ln 10.",
            {"a": 0.0},
        ),
        Mistake("base ten", "a: torch's log is the natural one: ln 10, not log10 of 10.", {"a": 1.0}),
        Mistake(
            "same for any number",
            "b: with 1000 classes a guess is right once in 1000: ln 1000.",
            {"b": math.log(10)},
        ),
        Mistake(
            "logits count alone",
            "c: only differences of logits matter. Two equal ones are one bit: ln 2.",
            {"c": 5.0},
        ),
        Mistake(
            "never zero", "d: the label has probability 1 to 43 digits, and -ln 1 is 0.", {"d": math.log(10)}
        ),
        Mistake(
            "loss has a ceiling",
            "e: being surely wrong costs the difference of the two logits. There is no upper limit.",
            {"e": 1.0},
        ),
        Mistake(
            "softmax shows",
            "f: softmax of equal logits is equal again. At the start nothing looks wrong.",
            {"f": math.log(10) / 10},
        ),
        Mistake(
            "softmax twice is harmless",
            "g: after softmax the logits lie between 0 and 1, and a difference of 1 is all the confidence there is: ln(e + 9) - 1.",
            {"g": 0.0},
        ),
    ],
    hints=(
        "Write down the probability of the label first; the loss is minus its natural logarithm.",
        "Equal logits: probability 1/C. Very unequal logits: the loss is the difference from the largest.",
        "g: after softmax the label's logit is 1 and the nine others are 0. The loss is ln(e + 9) - 1.",
    ),
    passed="If the first loss you print is not near ln C, stop and look: the labels, the last layer or the loss is wrong.",
)
