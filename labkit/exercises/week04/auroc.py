"""AUROC: how often a positive is ranked above a negative."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules


def _auroc(scores, labels):
    """By ranks: the mean rank of the positives says how many negatives lie below them; ties share their ranks."""
    below = (scores[:, None] > scores).double().sum(1) + 0.5 * ((scores[:, None] == scores).sum(1) + 1)
    positives, negatives = labels.sum(), (~labels).sum()
    return (below[labels].sum() - positives * (positives + 1) / 2) / (positives * negatives)


def _pairs(compare):
    return lambda scores, labels: compare(scores[labels][:, None], scores[~labels]).double().mean()


def _auroc_all_pairs(scores, labels):
    difference = scores[labels][:, None] - scores[~labels]
    return ((difference > 0).sum() + 0.5 * (difference == 0).sum()).double() / (
        len(scores) * (len(scores) - 1) / 2
    )


def _scored(draw, n, levels=0):
    labels = draw.bools(n, share=0.35)
    labels[:3] = [True, False, True]
    scores = draw.normal(n) + 0.5 * labels
    return {"scores": np.round(scores * levels) / levels if levels else scores, "labels": labels}


def _scored_strided(draw):
    case = _scored(draw, 20, 2)
    return {"scores": case["scores"][::2], "labels": case["labels"][::2]}


exercise = Implement(
    title="AUROC: which of the two is higher?",
    minutes=10,
    needs=("w04.f1",),
    dtype="float64",
    cases=[
        Case("nine scores", lambda draw: _scored(draw, 9)),
        Case("with ties", lambda draw: _scored(draw, 14, levels=1)),
        Case("not contiguous", _scored_strided),
        Case(
            "one of each",
            lambda draw: {"scores": np.array([0.25, 0.75]), "labels": np.array([False, True])},
        ),
        Case(
            "all the same",
            lambda draw: {"scores": np.full(5, 0.5), "labels": np.array([True, False, False, True, False])},
            extreme=True,
        ),
    ],
    oracle=_auroc,
    reference="the rank formula of Mann and Whitney",
    rules=Rules(loops=False),
    mistakes=[
        Mistake(
            "ties lost",
            "Ties count as lost: a model that says the same for everything would get 0. A tie is worth ½.",
            _pairs(lambda p, n: p > n),
        ),
        Mistake(
            "ties won",
            "Ties count as won: a model that says the same for everything would get 1. A tie is worth ½.",
            _pairs(lambda p, n: p >= n),
        ),
        Mistake(
            "upside down",
            "You count the pairs where the negative one is higher.",
            lambda scores, labels: 1 - _auroc(scores, labels),
        ),
        Mistake(
            "all pairs",
            "You divide by all pairs of rows. Count only the pairs of one positive and one negative.",
            _auroc_all_pairs,
        ),
        Mistake(
            "every row against every row",
            "Every row meets every row. Only a positive against a negative counts: `scores[labels]` against `scores[~labels]`.",
            lambda scores, labels: (
                (scores[:, None] > scores).double() + 0.5 * (scores[:, None] == scores).double()
            ).mean(),
        ),
        Mistake(
            "counted, not averaged",
            "This is the number of pairs won; divide by the number of pairs.",
            lambda scores, labels: _auroc(scores, labels) * labels.sum() * (~labels).sum(),
        ),
        Mistake(
            "row against row",
            "Two rows of unequal length cannot be compared. Make one of them a column, `[:, None]`, and it becomes a table.",
            lambda scores, labels: (scores[labels] > scores[~labels]).double().mean(),
        ),
        Mistake(
            "accuracy at zero",
            "This is the accuracy with a threshold at 0; the point of this number is that it needs no threshold.",
            lambda scores, labels: ((scores > 0) == labels).double().mean(),
        ),
        Mistake(
            "difference of means",
            "This compares the two mean scores; what counts is how often one is higher, not by how much.",
            lambda scores, labels: scores[labels].mean() - scores[~labels].mean(),
        ),
    ],
    hints=(
        "Every positive meets every negative. Who has the higher score? (Week 1: a column against a row.)",
        "`scores[labels][:, None]` against `scores[~labels]`: a table of all pairs. Mean of >, plus half the mean of ==.",
        "d = scores[labels][:, None] - scores[~labels]; return (d > 0).double().mean() + 0.5 * (d == 0).double().mean()",
    ),
    passed="0.5 is chance and 1 is perfect, whether positives are one in two or one in twenty.",
    excused={
        "size one": "a single row has no pair",
        "delegation": "torch has no AUROC; comparing is the answer",
    },
)
