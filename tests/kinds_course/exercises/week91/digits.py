"""A first model for the digits project: softmax regression, trained and measured inside a budget."""

import numpy as np

from labkit import datasets
from labkit.exercises.declare import Checkpoint, Mistake, Split

HELD_OUT = 450


def _split():
    data = datasets.digits()
    order = np.random.default_rng(7).permutation(len(data.labels))
    inputs, targets = data.images.reshape(-1, 64)[order], data.labels[order]
    return Split(inputs[HELD_OUT:], targets[HELD_OUT:], inputs[:HELD_OUT], targets[:HELD_OUT])


def _accuracy(predictions, targets):
    return float(np.mean(predictions == targets))


def _most_frequent(inputs, targets):
    digit = np.bincount(targets).argmax()
    return lambda inputs: np.full(len(inputs), digit)


def _train(inputs, targets, shift=0):
    weight = np.zeros((64, 10), np.float32)
    wanted = np.eye(10, dtype=np.float32)[(targets + shift) % 10]
    for _ in range(150):
        scores = inputs @ weight
        chances = np.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        weight -= inputs.T @ (chances - wanted) / len(inputs)
    return lambda inputs: (inputs @ weight).argmax(1)


def _shifted(inputs, targets):
    return _train(inputs, targets, shift=1)


def _same_for_all(inputs, targets):
    predict = _train(inputs, targets)
    return lambda inputs: np.full(len(inputs), predict(inputs.mean(0, keepdims=True))[0])


def _rows_apart(inputs, targets):
    return _train(np.random.default_rng(0).permutation(inputs), targets)


def _whole_data_set(inputs, targets):
    data = datasets.digits()
    known = {image.tobytes(): label for image, label in zip(data.images, data.labels, strict=True)}
    return lambda inputs: np.array([known[row.reshape(8, 8).tobytes()] for row in inputs])


def _never_ends(inputs, targets):
    weight = np.zeros((64, 10), np.float32)
    while np.abs(inputs @ weight).sum() < 1:
        weight *= 2
    return lambda inputs: (inputs @ weight).argmax(1)


exercise = Checkpoint(
    id="w91.digits",
    title="A model that reads digits",
    minutes=30,
    level=3,
    data=_split,
    metric=_accuracy,
    measured="accuracy",
    baseline=("always the most frequent digit", _most_frequent),
    target=0.90,
    computing=1.0,
    mistakes=[
        Mistake(
            "not in time",
            "the training does not end by itself: give it a number of steps.",
            _never_ends,
            when=lambda seen: not seen.finished,
        ),
        Mistake(
            "trained on the held-out rows",
            "it learned from the rows it is judged on, so its accuracy says nothing about new digits.",
            _whole_data_set,
            when=lambda seen: seen.leaked,
        ),
        Mistake(
            "constant",
            "every image gets the same digit: the prediction does not look at its own row.",
            _same_for_all,
            when=lambda seen: seen.constant,
        ),
        Mistake(
            "labels shifted",
            "the predictions are one digit too high: class 0 is the digit 0, there is nothing to add.",
            _shifted,
            when=lambda seen: seen.agreement(lambda digit: (digit - 1) % 10) > 0.8,
        ),
        Mistake(
            "rows apart",
            "no better than guessing: images and digits were shuffled apart, so each image has another's digit.",
            _rows_apart,
            when=lambda seen: seen.metric < 0.25,
        ),
    ],
    hints=(
        "One linear layer is enough: 64 pixels in, 10 scores out, and the largest score is the digit.",
        "The gradient of cross-entropy at the scores: softmax minus one-hot, divided by the number of rows.",
        "About 150 steps of full-batch gradient descent with rate 1: `weight -= images.T @ error`.",
    ),
    passed="A straight cut through 64 pixels reads nine digits in ten. What is left is what week 5 is for.",
)
