"""Split rows so that no group is on both sides."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week04.shared import seeded
from labkit.lazy import torch


def _split(groups, share, seed, by_group=True, swapped=False, shuffled=True, count=round):
    kinds = groups.unique() if by_group else torch.arange(len(groups))
    order = torch.randperm(len(kinds), generator=seeded(seed)) if shuffled else torch.arange(len(kinds))
    chosen = kinds[order[: count(share * len(kinds))]]
    held_out = torch.isin(groups if by_group else torch.arange(len(groups)), chosen)
    parts = torch.where(~held_out)[0], torch.where(held_out)[0]
    return parts[::-1] if swapped else parts


def _split_global(groups, share, seed):
    return _split(groups, share, int(torch.randint(10**6, ())))


def _split_positions(groups, share, seed):
    count = len(groups.unique())
    chosen = torch.randperm(count, generator=seeded(seed))[: round(share * count)]
    held_out = torch.isin(groups, chosen)
    return torch.where(~held_out)[0], torch.where(held_out)[0]


def _split_masks(groups, share, seed):
    held_out = torch.isin(torch.arange(len(groups)), _split(groups, share, seed)[1])
    return ~held_out, held_out


def _split_group_numbers(groups, share, seed):
    train, validation = _split(groups, share, seed)
    return groups[train].unique(), groups[validation].unique()


def _split_facts(split, groups, share, seed):
    """What a split must be, whichever groups it happened to choose."""
    train, validation = split(groups, share, seed)
    again = split(groups, share, seed)
    others = [split(groups, share, seed + k)[1].tolist() for k in range(1, 6)]
    rows = sorted([*train.tolist(), *validation.tolist()])
    in_range = [row for row in rows if 0 <= row < len(groups)]
    both = set(groups[train].tolist()) & set(groups[validation].tolist()) if rows == in_range else set()
    return {
        "groups on both sides": len(both),
        "every row on one side": rows == list(range(len(groups))),
        "held-out groups": len(set(groups[validation].tolist())) if rows == in_range else -1,
        "the same again": again[0].tolist() == train.tolist() and again[1].tolist() == validation.tolist(),
        "other seeds, other splits": any(other != validation.tolist() for other in others),
    }


exercise = Implement(
    title="Split without a leak",
    minutes=10,
    needs=("w04.batches",),
    also=(
        "data leak",
        "train test split",
    ),
    cases=[
        Case(
            "three or four rows per group",
            lambda draw: {
                "groups": np.repeat(np.arange(8), [3, 4, 3, 3, 4, 4, 3, 4]),
                "share": 0.25,
                "seed": 0,
            },
        ),
        Case(
            "groups in no order",
            lambda draw: {
                "groups": draw.rng.permutation(np.repeat(np.arange(10) * 7, 3)),
                "share": 0.3,
                "seed": 4,
            },
        ),
        Case(
            "groups of one",
            lambda draw: {"groups": draw.rng.permutation(20), "share": 0.2, "seed": 1},
        ),
        Case(
            "not contiguous",
            lambda draw: {"groups": np.repeat(np.arange(9), 4)[::2], "share": 0.4, "seed": 2},
        ),
    ],
    use=_split_facts,
    oracle=vary(_split_facts, split=_split),
    reference="what a split must be",
    memory="any",
    rules=Rules(forbids=("random_split", "GroupShuffleSplit", "train_test_split")),
    delegate=lambda groups, share, seed: [
        torch.tensor(part.indices)
        for part in torch.utils.data.random_split(range(len(groups)), [1 - share, share])
    ],
    mistakes=[
        Mistake(
            "rows, not groups",
            "Rows are split, not groups: copies of one picture end up on both sides, and validation is no test.",
            vary(_split, by_group=False),
        ),
        Mistake(
            "sides swapped",
            "The two parts are swapped: the share is what is held out, and the training part comes first.",
            vary(_split, swapped=True),
        ),
        Mistake(
            "the first groups",
            "The held-out groups are always the first ones: shuffle the groups. Files are often sorted by something.",
            vary(_split, shuffled=False),
        ),
        Mistake(
            "seed ignored",
            "The split changes from call to call: draw from a generator of your own with this seed.",
            _split_global,
        ),
        Mistake(
            "numbers of groups",
            "These are the numbers of the groups; the indices of their rows are wanted.",
            _split_group_numbers,
        ),
        Mistake(
            "one group too few",
            "One group too few is held out: `int` cuts off, `round` rounds.",
            vary(_split, count=int),
        ),
        Mistake(
            "a share of the rows",
            "The number of held-out groups is a share of the number of *rows*; take `round(share * number of groups)`.",
            lambda groups, share, seed: _split(
                groups, share, seed, count=lambda x: round(share * len(groups))
            ),
        ),
        Mistake(
            "positions for groups",
            "`randperm` draws positions in the list of groups; index `groups.unique()` with them to get the groups.",
            _split_positions,
        ),
        Mistake(
            "masks",
            "These are masks, True and False for each row; the indices of the rows are wanted: `torch.arange(n)[mask]`.",
            _split_masks,
        ),
    ],
    hints=(
        "Shuffle the groups, not the rows. Which groups are there? `groups.unique()`.",
        "Choose the first round(share * number of groups) of the shuffled groups; `torch.isin(groups, chosen)` marks their rows.",
        "rows = torch.arange(len(groups)); held_out = torch.isin(groups, chosen); return rows[~held_out], rows[held_out]",
    ),
    passed="Groups are patients, writers, cameras, days: whatever makes two rows more alike than two strangers.",
    excused={"size one": "one row cannot be split"},
)
