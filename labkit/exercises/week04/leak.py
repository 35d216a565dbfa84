"""Rare rows copied before the split: name the fault and mend it."""

import numpy as np

from labkit.exercises.declare import Case, Fix, Mistake, vary
from labkit.exercises.week04.shared import seeded
from labkit.lazy import torch


def _copies_first(labels, share, times, seed):
    rare = torch.where(labels)[0]
    rows = torch.cat([torch.arange(len(labels)), rare.repeat(times - 1)])
    rows = rows[torch.randperm(len(rows), generator=seeded(seed))]
    held_out = round(share * len(rows))
    return rows[held_out:], rows[:held_out]


def _split_first(labels, share, times, seed):
    rows = torch.randperm(len(labels), generator=seeded(seed))
    held_out = round(share * len(rows))
    return rows[held_out:], rows[:held_out]


def _with_copies(rows, labels, times):
    return torch.cat([rows, rows[labels[rows]].repeat(times - 1)])


def _copies_after(labels, share, times, seed):
    train, validation = _split_first(labels, share, times, seed)
    return _with_copies(train, labels, times), validation


def _copies_in_both(labels, share, times, seed):
    train, validation = _split_first(labels, share, times, seed)
    return _with_copies(train, labels, times), _with_copies(validation, labels, times)


def _copies_of_all(labels, share, times, seed):
    train, validation = _split_first(labels, share, times, seed)
    return train.repeat(times), validation


def _copies_once_more(labels, share, times, seed):
    return _copies_after(labels, share, times + 1, seed)


def _copies_of_rare_anywhere(labels, share, times, seed):
    train, validation = _split_first(labels, share, times, seed)
    return torch.cat([train, torch.where(labels)[0].repeat(times - 1)]), validation


def _copies_of_places(labels, share, times, seed):
    train, validation = _split_first(labels, share, times, seed)
    return torch.cat([train, torch.where(labels[train])[0].repeat(times - 1)]), validation


def _copies_unshuffled(labels, share, times, seed):
    rows = torch.arange(len(labels))
    held_out = round(share * len(rows))
    return _with_copies(rows[held_out:], labels, times), rows[:held_out]


def _copies_swapped(labels, share, times, seed):
    validation, train = _split_first(labels, share, times, seed)
    return _with_copies(train, labels, times), validation


def _copies_dropped(labels, share, times, seed):
    train, validation = _copies_first(labels, share, times, seed)
    return train[~torch.isin(train, validation)], validation.unique()


def _prepared(prepare, labels, share, times, seed):
    """What must be true of the two parts, whichever rows were held out."""
    train, validation = (part.tolist() for part in prepare(labels, share, times, seed))
    common = [row for row in set(train) if not labels[row]]
    rare = [row for row in set(train) if labels[row]]
    return {
        "rows in both parts": len(set(train) & set(validation)),
        "copies in the validation part": len(validation) - len(set(validation)),
        "rows held out": len(set(validation)),
        "rows left out of both": len(labels) - len(set(train) | set(validation)),
        "how often a rare row is in the training part": sorted({train.count(row) for row in rare}),
        "how often a common row is": sorted({train.count(row) for row in common}),
        "the same seed, the same split": prepare(labels, share, times, seed)[1].tolist() == validation,
        "another seed, another split": prepare(labels, share, times, seed + 1)[1].tolist() != validation,
    }


def _rare(draw, n, count):
    labels = np.zeros(n, dtype=bool)
    labels[draw.rng.permutation(n)[:count]] = True
    return labels


exercise = Fix(
    title="The run that is too good",
    minutes=10,
    needs=("w04.split",),
    cases=[
        Case(
            "forty rows, eight rare",
            lambda draw: {"labels": _rare(draw, 40, 8), "share": 0.25, "times": 5, "seed": 0},
        ),
        Case(
            "a third held out",
            lambda draw: {"labels": _rare(draw, 33, 9), "share": 1 / 3, "times": 3, "seed": 4},
        ),
        Case(
            "not contiguous",
            lambda draw: {"labels": _rare(draw, 50, 20)[::2], "share": 0.4, "times": 4, "seed": 2},
        ),
        Case(
            "nothing to copy",
            lambda draw: {"labels": _rare(draw, 20, 6), "share": 0.2, "times": 1, "seed": 7},
            extreme=True,
        ),
    ],
    use=_prepared,
    oracle=vary(_prepared, prepare=_copies_after),
    reference="what two honest parts must be",
    memory="any",
    broken=_copies_first,
    fault="copies made before the split",
    menu={
        "copies made before the split": "",
        "validation part too small": "A larger part of the same rows would be as wrong. Where do the copies of a held-out row go?",
        "not shuffled": "The rows are shuffled before they are cut. Count how many rows are in both parts.",
    },
    mistakes=[
        Mistake(
            "no copies any more",
            "The leak is closed, but the rare rows are no longer repeated in the training part.",
            _split_first,
        ),
        Mistake(
            "copies in both parts",
            "No row is on both sides, but the validation part has copies, too: it no longer looks like the world.",
            _copies_in_both,
        ),
        Mistake(
            "everything copied",
            "All training rows are repeated, so the rare ones are as rare as before.",
            _copies_of_all,
        ),
        Mistake(
            "one copy too many",
            "A rare row occurs once more than `times`: it is there already, so add `times - 1` copies.",
            _copies_once_more,
        ),
        Mistake(
            "rare rows of both parts",
            "All rare rows are copied into the training part, the held-out ones too: the leak is still there. Copy `train[labels[train]]`.",
            _copies_of_rare_anywhere,
        ),
        Mistake(
            "places for rows",
            "`torch.where(labels[train])` gives places *within* `train`; the rows are `train` at those places.",
            _copies_of_places,
        ),
        Mistake(
            "no longer shuffled",
            "The leak is closed, but the held-out rows are always the first ones: keep the shuffle, before the split.",
            _copies_unshuffled,
        ),
        Mistake(
            "parts swapped",
            "The share is what is held out, and the training part comes first: the two are swapped.",
            _copies_swapped,
        ),
        Mistake(
            "copies removed afterward",
            "Rows found in both parts were taken out of training afterward: too much is held out, most of all rare rows. Split first.",
            _copies_dropped,
        ),
    ],
    hints=(
        "How many rows are in both parts? `set(train.tolist()) & set(validation.tolist())`.",
        "Change the order of the two steps: split the rows first, then copy the rare ones of the training part.",
        "rare = train[labels[train]]; return torch.cat([train, rare.repeat(times - 1)]), validation",
    ),
    passed="Whatever looks at several rows at once, copying, averaging, choosing columns, belongs after the split.",
    excused={"size one": "one row cannot be split", "delegation": "indexing is the answer"},
)
