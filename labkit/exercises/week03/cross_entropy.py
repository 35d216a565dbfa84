"""Cross-entropy from logits, without overflow."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import F, torch


def _mean_loss(logits, labels):
    return F.cross_entropy(logits, labels)


def _picked(values, labels):
    return values.gather(1, labels[:, None]).squeeze(1)


def _log_sum_minus_label(z, labels, picked=None):
    return (z.exp().sum(1).log() - (_picked(z, labels) if picked is None else picked)).mean()


def _shifted_softmax(logits):
    weights = (logits - logits.amax(1, keepdim=True)).exp()
    return weights / weights.sum(1, keepdim=True)


def _naive_cross_entropy(logits, labels):
    odds = logits.exp()
    return -(odds / odds.sum(1, keepdim=True))[torch.arange(len(labels)), labels].log().mean()


exercise = Implement(
    title="Cross-entropy from logits",
    minutes=12,
    needs=("w01.pick",),
    cases=[
        Case(
            "5 examples, 3 classes",
            lambda draw: {"logits": draw.normal(5, 3), "labels": draw.integers(0, 3, 5)},
        ),
        Case(
            "2 examples, 6 classes",
            lambda draw: {"logits": 3 * draw.normal(2, 6), "labels": np.array([4, 0])},
        ),
        Case(
            "not contiguous",
            lambda draw: {"logits": draw.transposed(4, 7), "labels": draw.integers(0, 7, 8)[::2]},
        ),
        Case("one example", lambda draw: {"logits": draw.normal(1, 4), "labels": np.array([2])}),
        Case(
            "logits of 10,000",
            lambda draw: {
                "logits": np.array([[1e4, 0, -1e4], [0, 1e4, 9.999e3]], "float32"),
                "labels": np.array([1, 2]),
            },
            extreme=True,
        ),
        Case(
            "rows far apart",
            lambda draw: {
                "logits": np.array([[1e4, 9.999e3, 0], [-1.0002e4, -1e4, -1.0001e4]], "float32"),
                "labels": np.array([1, 0]),
            },
            extreme=True,
        ),
        Case(
            "logits of -10,000",
            lambda draw: {"logits": np.array([[-1e4, -1.0001e4]], "float32"), "labels": np.array([0])},
            extreme=True,
        ),
    ],
    oracle=_mean_loss,
    grads=("logits",),
    rules=Rules(
        forbids=(
            *("cross_entropy", "CrossEntropyLoss", "log_softmax", "LogSoftmax", "softmax", "Softmax"),
            *("logsumexp", "nll_loss", "NLLLoss", "logaddexp", "logcumsumexp", "softmin"),
        )
    ),
    mistakes=[
        Mistake(
            "softmax twice",
            "Softmax was applied to the logits, and then the loss applied it again. Logits go in as they are.",
            lambda logits, labels: _mean_loss(logits.softmax(1), labels),
        ),
        Mistake(
            "wrong axis",
            "The sum runs over the examples. The classes of one example share its probability: sum over axis 1.",
            lambda logits, labels: F.nll_loss(logits.log_softmax(0), labels),
        ),
        Mistake(
            "sum over examples",
            "The losses are added up; their mean is wanted, so that the batch size does not change the learning rate.",
            lambda logits, labels: F.cross_entropy(logits, labels, reduction="sum"),
        ),
        Mistake(
            "one per example",
            "These are the losses of the single examples, all right. Return their mean.",
            lambda logits, labels: F.cross_entropy(logits, labels, reduction="none"),
        ),
        Mistake(
            "sign",
            "The sign is wrong: the loss is *minus* the log-probability of the label.",
            lambda logits, labels: -_mean_loss(logits, labels),
        ),
        Mistake(
            "overflow",
            "exp(10000) is infinite, and infinity by infinity is NaN. Subtract the largest logit of each row first.",
            _naive_cross_entropy,
        ),
        Mistake(
            "overflow in the sum",
            "exp(10000) is infinite, and so is the logarithm of the sum. Subtract the largest logit of each row first.",
            lambda logits, labels: _log_sum_minus_label(logits, labels),
        ),
        Mistake(
            "logarithm of 0",
            "A probability may be rounded to 0, and its logarithm is -inf. Subtract logs: the label's logit minus the log of the sum.",
            lambda logits, labels: -_picked(_shifted_softmax(logits), labels).log().mean(),
        ),
        Mistake(
            "one maximum for all",
            "The largest of all logits was subtracted: a row far below it underflows to log(0). Take it row by row.",
            lambda logits, labels: _log_sum_minus_label(logits - logits.max(), labels),
        ),
        Mistake(
            "label not shifted",
            "The largest logit is subtracted in the sum, and not from the label's logit: both or none.",
            lambda logits, labels: _log_sum_minus_label(
                logits - logits.amax(1, keepdim=True), labels, picked=_picked(logits, labels)
            ),
        ),
        Mistake(
            "all pairs",
            "`z[:, labels]` takes every label in every row. Each row has its own: `z[torch.arange(n), labels]`, or gather.",
            lambda logits, labels: _log_sum_minus_label(
                logits - logits.amax(1, keepdim=True),
                labels,
                picked=(logits - logits.amax(1, keepdim=True))[:, labels],
            ),
        ),
        Mistake(
            "best class for the label",
            "The loss of the most likely class is taken, whatever the label says.",
            lambda logits, labels: _mean_loss(logits, logits.argmax(1)),
        ),
        Mistake(
            "no log",
            "The probability of the label itself is averaged; take its logarithm.",
            lambda logits, labels: -logits.softmax(1).gather(1, labels[:, None]).mean(),
        ),
    ],
    hints=(
        "The loss of one example is log(sum of exp(logits)) minus the logit of its label. Start with that, then make it stable.",
        "Subtracting the same number from all logits of a row changes nothing: take its maximum, `logits.amax(1, keepdim=True)`.",
        "s = logits - logits.amax(1, keepdim=True); logp = s - s.exp().sum(1, keepdim=True).log(); pick the labels, mean, minus",
    ),
    passed="Its gradient is the softmax minus the one-hot label, divided by the batch size: the simplest gradient in this course.",
)
