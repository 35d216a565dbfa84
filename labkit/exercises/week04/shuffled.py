"""Labels shuffled apart from their inputs: name the fault and mend it."""

import numpy as np

from labkit.exercises.declare import Case, Fix, Mistake
from labkit.exercises.week04.shared import seeded
from labkit.lazy import torch


def _cut(x, y, batch_size):
    return list(zip(x.split(batch_size), y.split(batch_size), strict=True))


def _two_orders(x, y, batch_size, seed):
    generator = seeded(seed)
    x = x[torch.randperm(len(x), generator=generator)]
    y = y[torch.randperm(len(y), generator=generator)]
    return _cut(x, y, batch_size)


def _one_order(x, y, batch_size, seed):
    order = torch.randperm(len(x), generator=seeded(seed))
    return _cut(x[order], y[order], batch_size)


def _one_side(x, y, batch_size, seed):
    return _cut(x[torch.randperm(len(x), generator=seeded(seed))], y, batch_size)


def _one_order_of_anybody(x, y, batch_size, seed):
    order = torch.randperm(len(x))
    return _cut(x[order], y[order], batch_size)


def _batches_not_rows(x, y, batch_size, seed):
    batches = _cut(x, y, batch_size)
    return [batches[i] for i in torch.randperm(len(batches), generator=seeded(seed))]


def _pair_case(n, batch_size, seed):
    return lambda draw: {
        "x": draw.normal(n, 2),
        "y": np.arange(n) * 10,
        "batch_size": batch_size,
        "seed": seed,
    }


exercise = Fix(
    title="The run that learns nothing new",
    minutes=6,
    needs=("w04.batches",),
    cases=[
        Case("seven rows in threes", _pair_case(7, 3, 0)),
        Case("eight rows in fours", _pair_case(8, 4, 5)),
        Case(
            "not contiguous",
            lambda draw: {"x": draw.transposed(6, 3), "y": np.arange(12)[::2], "batch_size": 4, "seed": 2},
        ),
        Case("one row", _pair_case(1, 3, 1)),
    ],
    oracle=_one_order,
    memory="any",
    broken=_two_orders,
    fault="labels shuffled against inputs",
    menu={
        "labels shuffled against inputs": "",
        "learning rate too low": "Then the training loss would not fall either. It does: the labels are learned by heart.",
        "classes out of balance": "Count them: each digit occurs about as often as any other.",
    },
    mistakes=[
        Mistake(
            "not shuffled at all",
            "Inputs and labels belong together again, but the rows are no longer shuffled.",
            lambda x, y, batch_size, seed: _cut(x, y, batch_size),
        ),
        Mistake(
            "only the inputs",
            "The inputs are shuffled and the labels are not: they still do not belong together. One order, used twice.",
            _one_side,
        ),
        Mistake(
            "global chance",
            "Inputs and labels belong together again, but the order no longer follows from the seed: draw it from `generator`.",
            _one_order_of_anybody,
        ),
        Mistake(
            "whole batches",
            "Whole batches change places, and each holds the same rows in every epoch. Shuffle rows, then cut.",
            _batches_not_rows,
        ),
    ],
    hints=(
        "Look at one batch: draw the pictures with their labels above.",
        "`torch.randperm` draws a new order at each call. Draw one, and index both tensors with it.",
        'fault = "labels shuffled against inputs"; order = torch.randperm(len(x), generator=generator); x[order], y[order]',
    ),
    passed="A network can learn random labels by heart. Only data it has not seen can tell whether it learned anything.",
    excused={"delegation": "indexing is the answer"},
)
