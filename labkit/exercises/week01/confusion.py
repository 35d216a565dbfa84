"""Count the pairs of true and predicted class in a matrix."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch


def _confusion(truth, guess, classes):
    return torch.bincount(truth * classes + guess, minlength=classes**2).reshape(classes, classes)


def _confusion_once(truth, guess, classes):
    counts = torch.zeros(classes, classes, dtype=torch.long)
    counts[truth, guess] += 1
    return counts


exercise = Implement(
    title="Count the confusions",
    minutes=10,
    needs=("w01.pick",),
    also=("confusion matrix",),
    cases=[
        Case(
            "a pair that occurs three times",
            lambda draw: {
                "truth": np.array([0, 1, 1, 2, 1, 3]),
                "guess": np.array([0, 2, 2, 0, 2, 3]),
                "classes": 4,
            },
        ),
        Case(
            "a class that never occurs",
            lambda draw: {"truth": draw.integers(0, 3, 9), "guess": draw.integers(0, 2, 9), "classes": 5},
        ),
        Case(
            "not contiguous",
            lambda draw: {
                "truth": draw.integers(0, 3, 16)[::2],
                "guess": draw.integers(0, 3, 16)[::2],
                "classes": 3,
            },
        ),
        Case("one example", lambda draw: {"truth": np.array([1]), "guess": np.array([0]), "classes": 2}),
        Case(
            "no examples",
            lambda draw: {"truth": draw.integers(0, 2, 0), "guess": draw.integers(0, 2, 0), "classes": 3},
            extreme=True,
        ),
    ],
    oracle=_confusion,
    rules=Rules(loops=False),
    mistakes=[
        Mistake(
            "repeats lost",
            "A pair that occurs three times is counted once: `+=`, or `index_put_` without `accumulate=True`, writes the same 1 again.",
            _confusion_once,
        ),
        Mistake(
            "transposed",
            "Rows and columns are swapped: the truth is the row, the guess the column.",
            lambda truth, guess, classes: _confusion(guess, truth, classes),
        ),
        Mistake(
            "floats",
            "The counts are floats, because `torch.zeros` makes float32 unless told otherwise: `dtype=torch.long`.",
            lambda truth, guess, classes: _confusion(truth, guess, classes).float(),
        ),
        Mistake(
            "hits only",
            "Only right guesses are counted; the confusions are the rest of the table.",
            lambda truth, guess, classes: _confusion(truth[truth == guess], guess[truth == guess], classes),
        ),
        Mistake(
            "shares",
            "These are shares of all examples; counts are wanted.",
            lambda truth, guess, classes: _confusion(truth, guess, classes) / len(truth),
        ),
        Mistake(
            "one axis",
            "The counts are right and in one long row: give them two axes.",
            lambda truth, guess, classes: _confusion(truth, guess, classes).reshape(-1),
        ),
        Mistake(
            "a copy counted",
            "The counts are all 0: `index_put` without `_`, and `counts[truth][guess]`, write to a copy that is thrown away.",
            lambda truth, guess, classes: torch.zeros(classes, classes, dtype=torch.long),
        ),
    ],
    hints=(
        "Start from zeros of shape (classes, classes) and add 1 at the place (truth, guess) of each example.",
        "`counts[truth, guess] += 1` forgets repeats; `index_put_` with `accumulate=True` adds them up.",
        "counts.index_put_((truth, guess), torch.tensor(1), accumulate=True)",
    ),
    passed="The gradient of an embedding layer has the same trap: a word that occurs twice must be added twice.",
    excused={"delegation": "torch has no confusion matrix; each of its tools for counting is a good answer"},
)
