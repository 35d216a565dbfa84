"""Standardize both parts with the statistics of the training part."""

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.lazy import torch


def _standardize(train, other, dim=0, correction=1, guard=True):
    mean, std = train.mean(dim, keepdim=True), train.std(dim, keepdim=True, correction=correction)
    std = torch.where(std == 0, 1.0, std) if guard else std
    return (train - mean) / std, (other - mean) / std


def _standardize_rows(train, other):
    mean, std = train.mean(1, keepdim=True), train.std(1, keepdim=True)
    return (train - mean) / std, (other - mean) / std


def _standardize_eps(train, other):
    mean, std = train.mean(0), train.std(0) + 1e-8
    return (train - mean) / std, (other - mean) / std


def _standardize_clamped(train, other):
    mean, std = train.mean(0), train.std(0).clamp(min=1.0)
    return (train - mean) / std, (other - mean) / std


def _standardize_variance(train, other):
    mean, variance = train.mean(0), train.var(0)
    variance = torch.where(variance == 0, 1.0, variance)
    return (train - mean) / variance, (other - mean) / variance


def _standardize_pooled(train, other):
    both = torch.cat([train, other])
    return _standardize(both, train)[1], _standardize(both, other)[1]


def _table(draw, n, m, features):
    scale, shift = draw.uniform(1, 9, features), draw.uniform(-5, 5, features)
    return {
        "train": draw.normal(n, features) * scale + shift,
        "other": draw.normal(m, features) * scale + shift,
    }


def _constant_column(draw):
    table = _table(draw, 5, 4, 3)
    table["train"][:, 1] = 2.0
    return table


exercise = Implement(
    title="Statistics of the training part",
    minutes=6,
    needs=("w04.split",),
    cases=[
        Case("five and four rows", lambda draw: _table(draw, 5, 4, 3)),
        Case("two new rows", lambda draw: _table(draw, 6, 2, 3)),
        Case(
            "not contiguous",
            lambda draw: {"train": draw.transposed(7, 4) * 3 + 1, "other": draw.strided(3, 4) * 3 + 1},
        ),
        Case("one column", lambda draw: _table(draw, 4, 5, 1)),
        Case("a column that never varies", _constant_column, extreme=True),
    ],
    oracle=_standardize,
    mistakes=[
        Mistake(
            "each part its own",
            "The second part is standardized with its own statistics: the same penguin gets two descriptions.",
            lambda train, other: (_standardize(train, other)[0], _standardize(other, other)[0]),
        ),
        Mistake(
            "statistics of both",
            "Mean and deviation come from both parts together: the training data know something about the validation data.",
            _standardize_pooled,
        ),
        Mistake(
            "one number for all",
            "One mean and one deviation for all columns: each column needs its own, dim=0.",
            lambda train, other: (
                (train - train.mean()) / train.std(),
                (other - train.mean()) / train.std(),
            ),
        ),
        Mistake(
            "second part untouched",
            "The second part is still in millimeters and grams: the model would not know it again.",
            lambda train, other: (_standardize(train, other)[0], other.clone()),
        ),
        Mistake(
            "divided by n",
            "The deviation divides by n; torch's `std` divides by n - 1 unless told otherwise.",
            vary(_standardize, correction=0),
        ),
        Mistake(
            "divided by zero",
            "A column that never varies has deviation 0, and 0 / 0 is NaN. Divide by 1 there.",
            vary(_standardize, guard=False),
        ),
        Mistake(
            "a little added",
            "A small number added to the deviation blows up a column that never varied: the next row is 100 million deviations off. Divide by 1.",
            _standardize_eps,
        ),
        Mistake(
            "at least 1",
            "Every deviation below 1 counts as 1 now. Only a deviation of 0 is to be replaced.",
            _standardize_clamped,
        ),
        Mistake(
            "divided by the variance",
            "This divides by the variance; the deviation is its square root, `std`.",
            _standardize_variance,
        ),
        Mistake(
            "along the rows",
            "Mean and deviation are taken along each row; each *column* has its own: dim=0.",
            _standardize_rows,
        ),
    ],
    hints=(
        "Two numbers per column, learned from `train` alone; then the same arithmetic for both parts.",
        "`train.mean(dim=0)` and `train.std(dim=0)`; where the deviation is 0, put 1: `torch.where(std == 0, 1.0, std)`.",
        "return (train - mean) / std, (other - mean) / std",
    ),
    passed="Mean and deviation are parameters of the model: store them with its weights, or nobody can use it.",
    excused={"delegation": "torch has no function for it; arithmetic is the answer"},
)
