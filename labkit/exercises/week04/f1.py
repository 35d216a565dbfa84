"""The F1 score of each label."""

import numpy as np

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, vary
from labkit.lazy import torch


def _counts(predicted, target, dim=0):
    hits = (predicted & target).sum(dim).double()
    return hits, predicted.sum(dim), target.sum(dim)


def _f1(predicted, target, dim=0, empty=0.0):
    hits, said, true = _counts(predicted, target, dim)
    return torch.where(said + true == 0, empty, 2 * hits / (said + true).clamp(min=1)).mean()


def _precision(predicted, target):
    hits, said, _ = _counts(predicted, target)
    return (hits / said.clamp(min=1)).mean()


def _recall(predicted, target):
    hits, _, true = _counts(predicted, target)
    return (hits / true.clamp(min=1)).mean()


def _f1_micro(predicted, target):
    hits, said, true = (count.sum() for count in _counts(predicted, target))
    return 2 * hits / (said + true).clamp(min=1)


def _f1_from_parts(predicted, target):
    hits, said, true = _counts(predicted, target)
    precision, recall = hits / said, hits / true
    return (2 * precision * recall / (precision + recall)).mean()


def _f1_counts(predicted, target, formula):
    return formula((predicted & target).sum(0).double(), (predicted ^ target).sum(0)).mean()


def _labels(draw, n, labels, rare=0.3):
    target = draw.bools(n, labels, share=rare)
    target[0], target[1] = True, False
    flips = draw.bools(n, labels, share=0.3)
    flips[0] = np.arange(labels) % 2 == 0
    flips[2] = False
    target[2] = True
    return {"predicted": target ^ flips, "target": target}


def _with_empty_label(draw):
    case = _labels(draw, 7, 4)
    case["predicted"][:, 2] = case["target"][:, 2] = False
    return case


exercise = Implement(
    title="F1 for each label",
    minutes=10,
    needs=("w04.predict",),
    dtype="float64",
    cases=[
        Case("nine rows, three labels", lambda draw: _labels(draw, 9, 3)),
        Case("four labels", lambda draw: _labels(draw, 6, 4, rare=0.4)),
        Case("one label", lambda draw: _labels(draw, 8, 1)),
        Case(
            "not contiguous",
            lambda draw: {name: np.asfortranarray(array) for name, array in _labels(draw, 7, 2).items()},
        ),
        Case("a label that never occurs", _with_empty_label, extreme=True),
    ],
    oracle=_f1,
    reference="2 TP / (2 TP + FP + FN), averaged over the labels",
    mistakes=[
        Mistake(
            "accuracy",
            "This is the share of right answers. With rare labels, always saying no gets most of them right.",
            lambda predicted, target: (predicted == target).double().mean(),
        ),
        Mistake(
            "precision",
            "This is the precision: of what was said, how much is true. What was missed does not count in it.",
            _precision,
        ),
        Mistake(
            "recall",
            "This is the recall: of what is true, how much was said. Saying yes to everything would get 1.",
            _recall,
        ),
        Mistake(
            "all labels in one pot",
            "All labels are counted together, so frequent ones drown rare ones. One F1 per label, then their mean.",
            _f1_micro,
        ),
        Mistake(
            "per row",
            "This is one F1 per row, averaged over the rows. Labels are the columns: count down each column.",
            vary(_f1, dim=1),
        ),
        Mistake(
            "NaN for an empty label",
            "A label that was never said and never true gives 0 / 0. Here its F1 is 0.",
            _f1_from_parts,
        ),
        Mistake(
            "empty labels left out",
            "Labels that never occur are left out of the mean. Here each of them counts, with an F1 of 0.",
            lambda predicted, target: _f1(
                *(part[:, (predicted | target).any(0)] for part in (predicted, target))
            ),
        ),
        Mistake(
            "empty labels are perfect",
            "A label that is never said and never true gets 1 here. The page asks for 0.",
            vary(_f1, empty=1.0),
        ),
        Mistake(
            "a little added",
            "A small number added below the line changes every F1 a little. Replace the 0 there, and only that: `clamp(min=1)`.",
            vary(_f1_counts, formula=lambda tp, wrong: 2 * tp / (2 * tp + wrong + 1e-8)),
        ),
        Mistake(
            "share of the union",
            "The factor 2 is missing, above and below: this is TP / (TP + FP + FN).",
            vary(_f1_counts, formula=lambda tp, wrong: tp / (tp + wrong).clamp(min=1)),
        ),
        Mistake(
            "2 only above",
            "The factor 2 stands above the line only: a perfect prediction would get 2.",
            vary(_f1_counts, formula=lambda tp, wrong: 2 * tp / (tp + wrong).clamp(min=1)),
        ),
        Mistake(
            "twice too small",
            "The factor 2 is missing above the line: a perfect prediction should get 1.",
            lambda predicted, target: _f1(predicted, target) / 2,
        ),
    ],
    hints=(
        "Count, for each column, how often both say yes (TP), and how often each of them says yes.",
        "Predicted yes + truly yes = 2 TP + FP + FN. So F1 = 2 TP / (predicted yes + truly yes).",
        "hits = (predicted & target).sum(0); total = predicted.sum(0) + target.sum(0); return (2 * hits / total.clamp(min=1)).double().mean()",
    ),
    passed="F1 is 0 for somebody who never says yes, whatever the accuracy: that is why it is used for rare labels.",
    excused={"delegation": "torch has no F1; counting is the answer"},
    equivalent=(
        Equivalent(
            before="return (2 * hits / total.clamp(min=1)).mean()",
            after="return (2 * hits / total.clamp(min=2)).mean()",
            reason="where the total is 1 there is no hit, and 0 / 2 is 0 / 1",
        ),
    ),
)
