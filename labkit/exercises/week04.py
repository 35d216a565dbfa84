"""Week 4: the training loop. Data by hand, five loops, torch's own API, and the clinic for broken runs."""

import copy
import importlib
import itertools
import math
import os
import tempfile
from functools import cache

import numpy as np

from labkit import compat, datasets
from labkit.exercises.declare import (
    Case,
    Fix,
    Implement,
    Item,
    Measure,
    Mistake,
    Predict,
    Rules,
    WriteTest,
)
from labkit.lazy import F, torch

_NO_TRAINER = "torch has no function for it: the loop is written by hand in every program"
_STEPS = 10_000  # additions behind one weight after some steps of training: rounding grows with them


def _generator(seed):
    return torch.Generator().manual_seed(seed)


# 01 data


class _Windows:
    """What the exercise gives: the attributes, and a length and an item that the variants below change."""

    def __init__(self, series, width, ahead):
        self.series, self.width, self.ahead = series, width, ahead

    def __len__(self):
        return len(self.series) - self.width - self.ahead + 1

    def __getitem__(self, index):
        end = index + self.width
        return self.series[index:end], self.series[end + self.ahead - 1]


class _WindowsOneLate(_Windows):
    def __len__(self):
        return len(self.series) - self.width - self.ahead

    def __getitem__(self, index):
        end = index + self.width
        return self.series[index:end], self.series[end + self.ahead]


class _WindowsSeeTheTarget(_Windows):
    def __getitem__(self, index):
        return super().__getitem__(index)[0], self.series[index + self.width - 1]


class _WindowsNextOnly(_Windows):
    def __getitem__(self, index):
        return super().__getitem__(index)[0], self.series[index + self.width]


class _WindowsFromTheStart(_Windows):
    def __getitem__(self, index):
        return self.series[index : index + self.width], self.series[index + self.ahead]


class _WindowsAllAhead(_Windows):
    def __getitem__(self, index):
        end = index + self.width
        return self.series[index:end], self.series[end : end + self.ahead]


class _WindowsApart(_Windows):
    def __getitem__(self, index):
        return super().__getitem__(index * self.width)


class _WindowsApartAndCounted(_WindowsApart):
    def __len__(self):
        return (len(self.series) - self.ahead) // self.width


class _WindowsLengthOfSeries(_Windows):
    def __len__(self):
        return len(self.series)


class _WindowsLengthWithoutAhead(_Windows):
    def __len__(self):
        return len(self.series) - self.width


class _WindowsLengthOneShort(_Windows):
    def __len__(self):
        return len(self.series) - self.width - self.ahead


def _read_windows(Windows, series, width, ahead):
    data = Windows(series, width, ahead)
    return {"length": len(data), "items": list(itertools.islice(data, len(series)))}


dataset = Implement(
    id="w04.dataset",
    title="A dataset of windows",
    minutes=8,
    level=1,
    cases=[
        Case("the next value", lambda draw: {"series": draw.normal(7), "width": 3, "ahead": 1}),
        Case("three ahead", lambda draw: {"series": draw.normal(11), "width": 4, "ahead": 3}),
        Case("windows of one value", lambda draw: {"series": draw.normal(5), "width": 1, "ahead": 2}),
        Case("not contiguous", lambda draw: {"series": draw.strided(9), "width": 2, "ahead": 4}),
        Case("exactly one window", lambda draw: {"series": draw.normal(6), "width": 4, "ahead": 2}),
    ],
    use=_read_windows,
    oracle=lambda series, width, ahead: _read_windows(_Windows, series, width, ahead),
    reference="the page",
    memory="any",
    mistakes=[
        Mistake(
            "the window holds the target",
            "The target is the last value of the window itself: the model would only have to copy it.",
            _WindowsSeeTheTarget,
        ),
        Mistake(
            "always the next value",
            "The target is always the value right after the window; count `ahead` steps from its end.",
            _WindowsNextOnly,
        ),
        Mistake(
            "one step too far",
            "The target lies one step too far: ahead = 1 is the value right after the window.",
            _WindowsOneLate,
        ),
        Mistake(
            "windows side by side",
            "The windows do not overlap: item 1 starts at value 1, not after the whole of item 0.",
            _WindowsApart,
        ),
        Mistake(
            "windows side by side, and counted so",
            "The windows do not overlap: item 1 starts at value 1, so there are nearly as many windows as values.",
            _WindowsApartAndCounted,
        ),
        Mistake(
            "counted from the start",
            "The target lies `ahead` steps after the *start* of the window; count from its last value.",
            _WindowsFromTheStart,
        ),
        Mistake(
            "all values up to the target",
            "The target is every value after the window, up to the one asked for. That one alone is wanted, shape ().",
            _WindowsAllAhead,
        ),
        Mistake(
            "length of the series",
            "The length is that of the series. How many windows have a target inside it?",
            _WindowsLengthOfSeries,
        ),
        Mistake(
            "length without ahead",
            "The length counts every window, also those whose target lies beyond the end of the series.",
            _WindowsLengthWithoutAhead,
        ),
        Mistake(
            "length one short",
            "The length is one short: with 5 values, width 3 and ahead 1 there are two windows.",
            _WindowsLengthOneShort,
        ),
    ],
    hints=(
        "Draw a series of 6 values on paper, with width 3 and ahead 1. Where do windows start, and where do their targets lie?",
        "Item i starts at i and ends before i + width. Its target lies at i + width + ahead - 1, which must be below len(series).",
        "Length: len(series) - width - ahead + 1. Item: series[i : i + width], series[i + width + ahead - 1].",
    ),
    passed="`for x, y in windows` works without __iter__: Python asks for items 0, 1, 2, … until one raises IndexError.",
    lint={
        "size one": "a series of one value has no window with a target",
        "delegation": "slicing is the whole of it; torch has no such dataset",
    },
)


def _order(n, seed, epoch):
    return torch.randperm(n, generator=_generator(seed + epoch)).tolist()


def _chunks(order, batch_size, drop_last=False):
    found = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    return [batch for batch in found if len(batch) == batch_size] if drop_last else found


def _batches(n, batch_size, seed, epoch, drop_last=False):
    order = _order(n, seed, epoch)
    return list(torch.utils.data.BatchSampler(order, batch_size, drop_last))


def _batches_by_split(n, batch_size, seed, epoch, drop_last):
    found = [rows.tolist() for rows in torch.tensor(_order(n, seed, epoch)).long().split(batch_size)]
    return [rows for rows in found if len(rows) == batch_size] if drop_last else found


def _batches_reseeded(n, batch_size, seed, epoch, drop_last):
    torch.manual_seed(seed + epoch)
    return _chunks(torch.randperm(n).tolist(), batch_size, drop_last)


def _batches_in_blocks(n, batch_size, seed, epoch, drop_last):
    blocks = _chunks(list(range(n)), batch_size, drop_last)
    return [blocks[i] for i in _order(len(blocks), seed, epoch)]


def _batches_beside_chance(batches, n, batch_size, seed, epoch, drop_last):
    """The batches, and whether torch's own chance goes on as if nothing had been drawn."""
    before = torch.get_rng_state()
    found = batches(n, batch_size, seed, epoch, drop_last)
    return {"batches": found, "torch's own chance untouched": torch.equal(before, torch.get_rng_state())}


def _batches_minus_one(n, batch_size, seed, epoch, drop_last):
    found = _chunks(_order(n, seed, epoch), batch_size)
    return found[:-1] if drop_last else found


def _batch_case(n, batch_size, seed, epoch, drop_last):
    return lambda draw: {
        "n": n,
        "batch_size": batch_size,
        "seed": seed,
        "epoch": epoch,
        "drop_last": drop_last,
    }


batches = Implement(
    id="w04.batches",
    title="Shuffle and cut",
    minutes=8,
    level=1,
    needs=("w04.dataset",),
    engine="python",
    cases=[
        Case("ten in fours", _batch_case(10, 4, 0, 0, False)),
        Case("the next epoch", _batch_case(10, 4, 0, 1, False)),
        Case("another seed", _batch_case(10, 4, 5, 1, False)),
        Case("last one dropped", _batch_case(11, 3, 2, 4, True)),
        Case("nothing left over, drop_last", _batch_case(12, 4, 1, 2, True)),
        Case("batches of one", _batch_case(3, 1, 3, 0, False)),
        Case("fewer than one batch", _batch_case(5, 8, 3, 2, True), extreme=True),
        Case("no samples", _batch_case(0, 4, 3, 2, False), extreme=True),
    ],
    use=_batches_beside_chance,
    oracle=lambda *case: _batches_beside_chance(_batches, *case),
    rules=Rules(forbids=("BatchSampler", "RandomSampler", "DataLoader", "SubsetRandomSampler")),
    delegate=lambda n, batch_size, seed, epoch, drop_last: list(
        torch.utils.data.BatchSampler(_order(n, seed, epoch), batch_size, drop_last)
    ),
    mistakes=[
        Mistake(
            "the same every epoch",
            "Every epoch has the same order: the epoch must go into the seed of the generator.",
            lambda n, batch_size, seed, epoch, drop_last: _chunks(_order(n, seed, 0), batch_size, drop_last),
        ),
        Mistake(
            "seed ignored",
            "The order does not depend on the seed: two runs with different seeds would see the same batches.",
            lambda n, batch_size, seed, epoch, drop_last: _chunks(_order(n, 0, epoch), batch_size, drop_last),
        ),
        Mistake(
            "global chance",
            "The order comes from torch's global generator, which anybody may have moved on. Make one of your own.",
            lambda n, batch_size, seed, epoch, drop_last: _chunks(
                torch.randperm(n).tolist(), batch_size, drop_last
            ),
        ),
        Mistake(
            "global chance set back",
            "`torch.manual_seed` sets everybody's chance back: dropout would draw the same in every epoch. Make a generator.",
            _batches_reseeded,
        ),
        Mistake(
            "whole blocks",
            "Neighbors stay together: whole batches change places. Shuffle the samples, then cut.",
            _batches_in_blocks,
        ),
        Mistake(
            "seed times epoch",
            "Seed and epoch are multiplied: in epoch 0 all seeds are alike. Add them.",
            lambda n, batch_size, seed, epoch, drop_last: _chunks(
                _order(n, seed * epoch, 0), batch_size, drop_last
            ),
        ),
        Mistake(
            "an empty batch",
            "With no samples at all there is one empty batch: `split` gives that. No samples, no batches.",
            _batches_by_split,
        ),
        Mistake(
            "not shuffled",
            "The batches are in the order of the data: shuffle first, then cut.",
            lambda n, batch_size, seed, epoch, drop_last: _chunks(list(range(n)), batch_size, drop_last),
        ),
        Mistake(
            "last batch lost",
            "The last, smaller batch is lost although drop_last is False: those samples would be skipped.",
            lambda n, batch_size, seed, epoch, drop_last: _chunks(_order(n, seed, epoch), batch_size, True),
        ),
        Mistake(
            "drop_last ignored",
            "drop_last is True, and the smaller batch is still there.",
            lambda n, batch_size, seed, epoch, drop_last: _chunks(_order(n, seed, epoch), batch_size),
        ),
        Mistake(
            "full batch dropped",
            "drop_last drops the last batch even if it is full: only a batch that is too small is to go.",
            _batches_minus_one,
        ),
        Mistake(
            "with replacement",
            "These are independent draws: some samples come twice and others never. `randperm` visits each once.",
            lambda n, batch_size, seed, epoch, drop_last: _chunks(
                torch.randint(max(n, 1), (n,), generator=_generator(seed + epoch)).tolist(),
                batch_size,
                drop_last,
            ),
        ),
    ],
    hints=(
        "Two steps: an order of 0 … n - 1, then slices of it.",
        "`torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()`, then order[i : i + batch_size].",
        "[order[i : i + batch_size] for i in range(0, n, batch_size)]; with drop_last keep those of full length.",
    ),
    passed="Seed + epoch is what torch's DistributedSampler does: after a crash in epoch 7 you can make epoch 7 again.",
)


def _pad(sequences, value):
    padded = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=value)
    return padded, torch.tensor([len(s) for s in sequences])


def _pad_left(sequences, value):
    table, lengths = _pad(sequences, value)
    table = torch.full_like(table, value)
    for row, sequence in zip(table, sequences, strict=True):
        row[-len(sequence) :] = sequence
    return table, lengths


def _pad_float(sequences, value):
    padded, lengths = _pad(sequences, value)
    return padded.float() if not padded.is_floating_point() else padded.long(), lengths


pad = Implement(
    id="w04.pad",
    title="Collate: sequences of unequal length",
    minutes=8,
    level=1,
    needs=("w04.batches",),
    cases=[
        Case(
            "three words",
            lambda draw: {"sequences": [draw.integers(1, 9, n) for n in (2, 5, 3)], "value": 0},
        ),
        Case(
            "floats and another value",
            lambda draw: {"sequences": [draw.normal(4), draw.normal(1)], "value": -1},
        ),
        Case(
            "not contiguous",
            lambda draw: {
                "sequences": [draw.strided(3), draw.strided(6), draw.normal(2), draw.normal(5)],
                "value": 7,
            },
        ),
        Case(
            "the value occurs in the data",
            lambda draw: {
                "sequences": [np.array([4, 0, 2]), np.array([0, 0, 7, 1]), np.array([0])],
                "value": 0,
            },
        ),
        Case("a single sequence", lambda draw: {"sequences": [draw.integers(1, 9, 4)], "value": 0}),
        Case(
            "one of them empty",
            lambda draw: {"sequences": [draw.integers(1, 9, 3), draw.integers(1, 9, 0)], "value": 0},
            extreme=True,
        ),
    ],
    oracle=_pad,
    rules=Rules(
        forbids=(
            *("pad_sequence", "nested_tensor", "as_nested_tensor"),
            *("to_padded_tensor", "pack_sequence", "pad_packed_sequence", "default_collate"),
        )
    ),
    mistakes=[
        Mistake(
            "padded on the left",
            "The values stand at the right end of each row. Fill up behind them.",
            _pad_left,
        ),
        Mistake(
            "cut to the shortest",
            "All sequences are cut to the shortest one; nothing may be lost.",
            lambda sequences, value: _pad([s[: min(map(len, sequences))] for s in sequences], value),
        ),
        Mistake(
            "time first",
            "Rows and columns are swapped: one row per sequence. (torch's default is the other way.)",
            lambda sequences, value: (_pad(sequences, value)[0].T, _pad(sequences, value)[1]),
        ),
        Mistake(
            "padded with zeros",
            "The rest is filled with 0, whatever `value` says.",
            lambda sequences, value: _pad(sequences, 0),
        ),
        Mistake(
            "dtype lost",
            "The dtype changed on the way: make the padded tensor with `dtype=sequences[0].dtype`.",
            _pad_float,
        ),
        Mistake(
            "padded lengths",
            "The lengths are those after padding, all the same: say how long each sequence really is.",
            lambda sequences, value: (
                _pad(sequences, value)[0],
                torch.full((len(sequences),), max(map(len, sequences))),
            ),
        ),
        Mistake(
            "lengths counted in the table",
            "The lengths count what is not `value` in the table; the value may occur in the data. Ask each sequence.",
            lambda sequences, value: (
                _pad(sequences, value)[0],
                (_pad(sequences, value)[0] != value).sum(1),
            ),
        ),
        Mistake(
            "lengths first",
            "The lengths come first; the table comes first, then the lengths.",
            lambda sequences, value: _pad(sequences, value)[::-1],
        ),
        Mistake(
            "dtype of the value",
            "The table has the dtype of `value`: make it with `dtype=sequences[0].dtype`.",
            lambda sequences, value: (_pad(sequences, value)[0].long(), _pad(sequences, value)[1]),
        ),
        Mistake(
            "cut, and measured before",
            "All sequences are cut to the shortest one; nothing may be lost.",
            lambda sequences, value: (
                torch.stack([s[: min(map(len, sequences))] for s in sequences]),
                _pad(sequences, value)[1],
            ),
        ),
        Mistake(
            "sorted by length",
            "The sequences were sorted by length, and no longer belong to their labels. Keep their order.",
            lambda sequences, value: _pad(sorted(sequences, key=len, reverse=True), value),
        ),
    ],
    hints=(
        "Make the full table first, filled with `value`, then copy each sequence into its row.",
        "`torch.full((rows, longest), value, dtype=...)`, then `padded[i, : len(s)] = s` for each.",
        "lengths = torch.tensor([len(s) for s in sequences]); padded = torch.full((len(sequences), max(lengths)), value, dtype=sequences[0].dtype)",
    ),
    passed="Keep the lengths: without them nobody can tell padding from data, and week 6 shows what happens then.",
)


class _Loader:
    def __init__(self, dataset, batch_size, seed, collate):
        self.dataset, self.batch_size, self.seed, self.collate = dataset, batch_size, seed, collate
        self.epoch = 0

    def __len__(self):
        return math.ceil(len(self.dataset) / self.batch_size)

    def batches(self):
        return _batches(len(self.dataset), self.batch_size, self.seed, self.epoch)

    def __iter__(self):
        plan = self.batches()
        self.epoch += 1
        for batch in plan:
            yield self.collate([self.dataset[i] for i in batch])


class _LoaderSameOrder(_Loader):
    def __iter__(self):
        self.epoch = 0
        return super().__iter__()


class _LoaderOnce(_Loader):
    def __init__(self, *args):
        super().__init__(*args)
        self.once = super().__iter__()

    def __iter__(self):
        return self.once


class _LoaderFloor(_Loader):
    def __len__(self):
        return len(self.dataset) // self.batch_size


class _LoaderCountsSamples(_Loader):
    def __len__(self):
        return len(self.dataset)


class _LoaderUncollated(_Loader):
    def __iter__(self):
        collate, self.collate = self.collate, list
        yield from super().__iter__()
        self.collate = collate


class _LoaderEpochAtEnd(_Loader):
    def __iter__(self):
        for batch in self.batches():
            yield self.collate([self.dataset[i] for i in batch])
        self.epoch += 1


class _LoaderEpochFirst(_Loader):
    def __iter__(self):
        self.epoch += 1
        for batch in self.batches():
            yield self.collate([self.dataset[i] for i in batch])


class _LoaderFloorPlusOne(_Loader):
    def __len__(self):
        return len(self.dataset) // self.batch_size + 1


class _LoaderDropsLast(_LoaderFloor):
    def batches(self):
        return _batches(len(self.dataset), self.batch_size, self.seed, self.epoch, drop_last=True)


class _LoaderReturnsList(_Loader):
    def __iter__(self):
        return list(super().__iter__())


class _LoaderInOrder(_Loader):
    def batches(self):
        return _chunks(list(range(len(self.dataset))), self.batch_size)


def _passes(Loader, samples, batch_size, seed):
    """Two whole passes, one that is broken off, and the first batch of the pass after that."""
    loader = Loader([samples[i] for i in range(len(samples))], batch_size, seed, torch.stack)
    first, second = (list(itertools.islice(loader, 30)) for _ in range(2))
    broken_off = list(itertools.islice(loader, 1))
    return {
        "length": len(loader),
        "epoch 0": first,
        "epoch 1": second,
        "epoch 2, broken off": broken_off,
        "epoch 3": list(itertools.islice(loader, 30)),
    }


loader = Implement(
    id="w04.loader",
    title="A data loader",
    minutes=12,
    level=2,
    needs=("w04.batches", "w04.pad"),
    cases=[
        Case("seven in threes", lambda draw: {"samples": draw.normal(7, 2), "batch_size": 3, "seed": 0}),
        Case("nothing left over", lambda draw: {"samples": draw.normal(8, 3), "batch_size": 4, "seed": 6}),
        Case("batches of one", lambda draw: {"samples": draw.normal(3, 1), "batch_size": 1, "seed": 2}),
        Case("not contiguous", lambda draw: {"samples": draw.transposed(9, 4), "batch_size": 5, "seed": 3}),
        Case(
            "a batch larger than the data",
            lambda draw: {"samples": draw.normal(4, 2), "batch_size": 6, "seed": 1},
            extreme=True,
        ),
    ],
    use=_passes,
    oracle=lambda samples, batch_size, seed: _passes(_Loader, samples, batch_size, seed),
    reference="torch's BatchSampler with the same order",
    rules=Rules(forbids=("DataLoader", "BatchSampler", "RandomSampler")),
    delegate=lambda dataset, batch_size, seed, collate: torch.utils.data.DataLoader(
        dataset, batch_size, shuffle=True, generator=_generator(seed), collate_fn=collate
    ),
    mistakes=[
        Mistake(
            "the same order in every pass",
            "Every pass has the order of epoch 0: count the passes in self.epoch.",
            _LoaderSameOrder,
        ),
        Mistake(
            "one pass only",
            "The second pass is empty: `__iter__` handed out the same, used-up iterator. Start afresh in `__iter__`.",
            _LoaderOnce,
        ),
        Mistake(
            "length rounded down",
            "The length leaves out the last, smaller batch: round up.",
            _LoaderFloor,
        ),
        Mistake(
            "length in samples",
            "The length is the number of samples; a loader counts batches.",
            _LoaderCountsSamples,
        ),
        Mistake(
            "not collated",
            "The batches are lists of samples: hand each list to `self.collate` before it goes out.",
            _LoaderUncollated,
        ),
        Mistake(
            "epoch counted at the end",
            "A pass that is broken off is not counted, because `self.epoch` grows only after the last batch. Count before the first.",
            _LoaderEpochAtEnd,
        ),
        Mistake(
            "starts at epoch 1",
            "The epoch is counted before the order is drawn, so the first pass has the order of epoch 1. Draw, then count.",
            _LoaderEpochFirst,
        ),
        Mistake(
            "one too many",
            "Where the data fill all batches the length is one too many: `//` and then 1 more is not rounding up.",
            _LoaderFloorPlusOne,
        ),
        Mistake(
            "last batch dropped",
            "The last, smaller batch is left out of every pass. All samples are wanted here.",
            _LoaderDropsLast,
        ),
        Mistake(
            "a list from __iter__",
            "`__iter__` has to return an iterator, and a list is none. Write `yield` for each batch instead of collecting them.",
            _LoaderReturnsList,
        ),
        Mistake(
            "not shuffled",
            "The samples come in the order of the data: take the order from your `batches`.",
            _LoaderInOrder,
        ),
    ],
    hints=(
        "`__iter__` is called once per `for`. With a `yield` inside, it starts afresh each time.",
        "Ask `batches(len(self.dataset), ...)` for the plan, count the epoch, then `yield self.collate([...])` for each batch.",
        "self.collate([self.dataset[i] for i in batch]); the length is math.ceil(len(self.dataset) / self.batch_size)",
    ),
    passed="This is the whole of a data loader. What torch adds is worker processes, and care for when they fail.",
)


def _split(groups, share, seed, by_group=True, swapped=False, shuffled=True, count=round):
    kinds = groups.unique() if by_group else torch.arange(len(groups))
    order = torch.randperm(len(kinds), generator=_generator(seed)) if shuffled else torch.arange(len(kinds))
    chosen = kinds[order[: count(share * len(kinds))]]
    held_out = torch.isin(groups if by_group else torch.arange(len(groups)), chosen)
    parts = torch.where(~held_out)[0], torch.where(held_out)[0]
    return parts[::-1] if swapped else parts


def _split_global(groups, share, seed):
    return _split(groups, share, int(torch.randint(10**6, ())))


def _split_positions(groups, share, seed):
    count = len(groups.unique())
    chosen = torch.randperm(count, generator=_generator(seed))[: round(share * count)]
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


split = Implement(
    id="w04.split",
    title="Split without a leak",
    minutes=10,
    level=2,
    needs=("w04.batches",),
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
    oracle=lambda groups, share, seed: _split_facts(_split, groups, share, seed),
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
            lambda groups, share, seed: _split(groups, share, seed, by_group=False),
        ),
        Mistake(
            "sides swapped",
            "The two parts are swapped: the share is what is held out, and the training part comes first.",
            lambda groups, share, seed: _split(groups, share, seed, swapped=True),
        ),
        Mistake(
            "the first groups",
            "The held-out groups are always the first ones: shuffle the groups. Files are often sorted by something.",
            lambda groups, share, seed: _split(groups, share, seed, shuffled=False),
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
            lambda groups, share, seed: _split(groups, share, seed, count=int),
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
    lint={"size one": "one row cannot be split"},
)


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


standardize = Implement(
    id="w04.standardize",
    title="Statistics of the training part",
    minutes=6,
    level=1,
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
            lambda train, other: _standardize(train, other, correction=0),
        ),
        Mistake(
            "divided by zero",
            "A column that never varies has deviation 0, and 0 / 0 is NaN. Divide by 1 there.",
            lambda train, other: _standardize(train, other, guard=False),
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
    lint={"delegation": "torch has no function for it; arithmetic is the answer"},
)


def _mirror_where(chosen, images):
    return torch.where(chosen[:, None, None], images.flip(2), images)


def _draws(images, generator):
    return torch.rand(len(images), generator=generator) < 0.5


def _flip(images, generator):
    return _mirror_where(_draws(images, generator), images)


def _flip_by_loop(images, generator):
    coins = torch.randint(2, (len(images),), generator=generator)
    return torch.stack([image.flip(1) if coin else image for image, coin in zip(images, coins, strict=True)])


def _flip_in_place(images, generator):
    images[:] = _flip(images, generator)
    return images


def _check_flip_half(flip):
    images = torch.arange(480.0).reshape(40, 3, 4)
    after = flip(images, _generator(0))
    assert sum(torch.equal(a, b) for a, b in zip(after, images, strict=True)) == 20


def _check_flip_one_call(flip):
    images = torch.arange(480.0).reshape(40, 3, 4)
    after = flip(images.clone(), _generator(0))
    same = [torch.equal(a, b) for a, b in zip(after, images, strict=True)]
    mirrored = [torch.equal(a, b.flip(1)) for a, b in zip(after, images, strict=True)]
    assert all(a or b for a, b in zip(same, mirrored, strict=True)) and any(same) and any(mirrored)


def _flip_all_or_none(images, generator):
    coin = torch.rand(1, generator=generator) < 0.5
    return images.flip(2) if coin else images.clone()


def _flip_rows(images, generator):
    chosen = torch.rand(images.shape[:2], generator=generator) < 0.5
    return torch.where(chosen[..., None], images.flip(2), images)


def _flip_same_seed(images, generator):
    return _flip(images, _generator(0))


def _check_flip_shape(flip):
    images = torch.arange(24.0).reshape(2, 3, 4)
    assert flip(images, _generator(0)).shape == images.shape


def _check_flip_repeats(flip):
    images = torch.arange(240.0).reshape(20, 3, 4)
    assert torch.equal(flip(images, _generator(0)), flip(images, _generator(0)))


def _check_flip_mirror(flip):
    images = torch.arange(240.0).reshape(20, 3, 4)
    for before, after in zip(images, flip(images.clone(), _generator(0)), strict=True):
        assert torch.equal(after, before) or torch.equal(after, before.flip(1))


def _check_flip_every(flip):
    images = torch.arange(240.0).reshape(20, 3, 4)
    assert torch.equal(flip(images, _generator(0)), images.flip(2))


def _check_flip_pattern(flip):
    images = torch.arange(240.0).reshape(20, 3, 4)
    assert torch.equal(flip(images, _generator(0)), _flip(images, _generator(0)))


test_augment = WriteTest(
    id="w04.test_augment",
    title="Test what is random",
    minutes=12,
    level=3,
    needs=("w04.batches",),
    good=[_flip, _flip_by_loop],
    bugs={
        "upside down": (
            "it turns pictures upside down instead of left to right.",
            lambda images, generator: torch.where(
                _draws(images, generator)[:, None, None], images.flip(1), images
            ),
        ),
        "all": ("it mirrors every picture.", lambda images, generator: images.flip(2)),
        "none": ("it mirrors no picture.", lambda images, generator: images.clone()),
        "all or none": (
            "it draws once for the whole batch: all pictures are mirrored, or none.",
            _flip_all_or_none,
        ),
        "rows": ("each row of a picture is mirrored or not on its own.", _flip_rows),
        "global": (
            "it draws from torch's global generator, so the same seed gives something else.",
            lambda images, generator: _flip(images, None),
        ),
        "same every time": (
            "it starts a generator of its own at each call: every epoch mirrors the same pictures.",
            _flip_same_seed,
        ),
        "in place": ("it changes the pictures it was given.", _flip_in_place),
    },
    mistakes=[
        Mistake(
            "only the shape",
            "Nothing is asserted that a bug breaks: no assert, or the shape only. What must be true of each picture?",
            _check_flip_shape,
        ),
        Mistake(
            "only that it repeats",
            "The test asks that the same seed gives the same result. A function that does nothing passes that.",
            _check_flip_repeats,
        ),
        Mistake(
            "only each picture",
            "Each picture is its old self or its mirror image: good. Not tested: some of each, seeds, and the input left alone.",
            _check_flip_mirror,
        ),
        Mistake(
            "expects every picture mirrored",
            "The test wants every picture mirrored; each one is mirrored with probability ½.",
            _check_flip_every,
        ),
        Mistake(
            "exactly half",
            "The test wants exactly 20 of 40. A fair coin seldom falls on exactly half: leave room, say 8 to 32.",
            _check_flip_half,
        ),
        Mistake(
            "one call only",
            "What one call does to each picture is tested well. Not tested: a second call, the same seed again, and the input left alone.",
            _check_flip_one_call,
        ),
        Mistake(
            "one pattern written down",
            "The test wants one particular pattern. Another right implementation draws in another way: test what must hold for all.",
            _check_flip_pattern,
        ),
    ],
    hints=(
        "Use 40 pictures with all values different. Then what was done to each of them can be seen.",
        "Six things: own self or mirror image; some of each; same seed, same result; a second call with the same generator differs; input unchanged.",
        "torch.equal(after, before) or torch.equal(after, before.flip(1)), for each picture; count how many are mirrored",
    ),
    passed="Random code is tested by what holds for every draw, and by its seed.",
)

# 02 five loops


def _reproducible(build):
    """A model whose first weights follow from nothing but `build`; the global generator starts at 0 afterward."""
    torch.manual_seed(1)
    model = build().double()
    torch.manual_seed(0)
    return model


def _loader(batch_size, *tensors):
    """Batches in the order of the data, the last one smaller: a list, so that it can be read again and again."""
    return list(zip(*(tensor.split(batch_size) for tensor in tensors), strict=True))


def _parameters(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


r2 = Implement(
    id="w04.r2",
    title="R², the share that is explained",
    minutes=4,
    level=1,
    dtype="float64",
    cases=[
        Case("six rows", lambda draw: {"prediction": draw.normal(6), "target": draw.normal(6) + 2}),
        Case("three rows", lambda draw: {"prediction": draw.normal(3) + 5, "target": draw.normal(3)}),
        Case("not contiguous", lambda draw: {"prediction": draw.strided(5), "target": draw.strided(5)}),
        Case("perfect", lambda draw: {"prediction": np.arange(4.0), "target": np.arange(4.0)}),
        Case(
            "far off",
            lambda draw: {"prediction": 1e4 + draw.normal(7), "target": draw.normal(7)},
            extreme=True,
        ),
    ],
    oracle=lambda prediction, target: 1 - F.mse_loss(prediction, target) / target.var(correction=0),
    reference="1 - mse_loss / variance",
    grads=("prediction",),
    mistakes=[
        Mistake(
            "the unexplained share",
            "This is the share that is *not* explained: subtract it from 1.",
            lambda prediction, target: F.mse_loss(prediction, target) / target.var(correction=0),
        ),
        Mistake(
            "arguments swapped",
            "The spread of the predictions stands below the line; it has to be the spread of the targets.",
            lambda prediction, target: 1 - F.mse_loss(prediction, target) / prediction.var(correction=0),
        ),
        Mistake(
            "n against n - 1",
            "Above the line you divide by n, below by n - 1. Use two sums, or two means.",
            lambda prediction, target: 1 - F.mse_loss(prediction, target) / target.var(),
        ),
        Mistake(
            "squared correlation",
            "This is the square of the correlation: it forgives predictions that are all 1000 too high.",
            lambda prediction, target: torch.corrcoef(torch.stack([prediction, target]))[0, 1] ** 2,
        ),
        Mistake(
            "spread around zero",
            "The targets are squared without taking their mean off first: then the baseline is 0, not the mean.",
            lambda prediction, target: 1 - F.mse_loss(prediction, target) / (target**2).mean(),
        ),
        Mistake(
            "mean of the predictions",
            "Below the line stands the distance of the targets from the mean *prediction*; take the mean of the targets.",
            lambda prediction, target: (
                1 - F.mse_loss(prediction, target) / ((target - prediction.mean()) ** 2).mean()
            ),
        ),
        Mistake(
            "spread of the errors",
            "The mean of the errors is taken off before squaring: predictions that are all 1000 too high would be forgiven.",
            lambda prediction, target: 1 - (prediction - target).var() / target.var(),
        ),
        Mistake(
            "mean of ratios",
            "Each error is divided by its own distance from the mean. Two sums first, then one division.",
            lambda prediction, target: (
                1 - ((prediction - target) ** 2 / (target - target.mean()) ** 2).mean()
            ),
        ),
        Mistake(
            "distance of the predictions",
            "Below the line stand the predictions' distances from the mean; the targets' are wanted.",
            lambda prediction, target: (
                1 - F.mse_loss(prediction, target) / ((prediction - target.mean()) ** 2).mean()
            ),
        ),
        Mistake(
            "not squared",
            "These are absolute errors; square them, above and below.",
            lambda prediction, target: (
                1 - (prediction - target).abs().sum() / (target - target.mean()).abs().sum()
            ),
        ),
    ],
    hints=(
        "What is the squared error of somebody who always says the mean of the targets?",
        "Divide your squared error by that one, and subtract from 1.",
        "1 - ((prediction - target) ** 2).sum() / ((target - target.mean()) ** 2).sum()",
    ),
    passed="R² is 1 at best, 0 for always saying the mean, and below 0 for anything worse: it has no lower end.",
    lint={"size one": "one row has no spread", "delegation": "torch has no R²; arithmetic is the answer"},
)


def _regression_net():
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.Dropout(0.25), torch.nn.Tanh(), torch.nn.Linear(4, 1)
    )


def _epoch_with(
    zero="batch", train=True, weighted=True, table=False, step_first=False, last=False, added=False, mode=True
):
    """One epoch with one thing about it changed."""

    def train_epoch(model, loader, optimizer):
        if train:
            model.train()
        if zero == "epoch":
            optimizer.zero_grad()
        losses, sizes = [], []
        for x, y in loader:
            if zero == "batch":
                optimizer.zero_grad()
            output = model(x) if table else model(x).squeeze(1)
            loss = ((output - y) ** 2).sum() if added else ((output - y) ** 2).mean()
            if step_first:
                optimizer.step()
                loss.backward()
            else:
                loss.backward()
                optimizer.step()
            losses.append(loss.item() / (len(x) if added else 1))
            sizes.append(len(x) if weighted else 1)
        model.train(mode and model.training)
        if last:
            return losses[-1]
        total = sum(loss * size for loss, size in zip(losses, sizes, strict=True))
        return total / (len(loader) if weighted == "divided by batches" else sum(sizes))

    return train_epoch


def _epoch_of_torch(model, loader, optimizer):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x)[:, 0], y, reduction="sum")
        (loss / len(x)).backward()
        optimizer.step()
        total += loss.item()
    return total / sum(len(x) for x, _ in loader)


def _two_epochs(train_epoch, x, y, batch_size):
    """Two epochs of a small network that was left in eval mode."""
    model = _reproducible(_regression_net)
    model.eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = _loader(batch_size, x, y)
    losses = [train_epoch(model, loader, optimizer) for _ in range(2)]
    return {"losses": losses, "training mode": model.training, "weights": _parameters(model)}


epoch = Implement(
    id="w04.epoch",
    title="Loop 1: one epoch",
    minutes=12,
    level=2,
    needs=("w04.r2",),
    dtype="float64",
    reduces=_STEPS,
    cases=[
        Case(
            "seven rows in threes",
            lambda draw: {"x": draw.normal(7, 3), "y": draw.normal(7) + 1, "batch_size": 3},
        ),
        Case("all in one batch", lambda draw: {"x": draw.normal(5, 3), "y": draw.normal(5), "batch_size": 5}),
        Case(
            "not contiguous",
            lambda draw: {"x": draw.transposed(8, 3), "y": draw.strided(8) * 2, "batch_size": 5},
        ),
        Case("batches of one", lambda draw: {"x": draw.normal(1, 3), "y": draw.normal(1), "batch_size": 1}),
    ],
    use=_two_epochs,
    oracle=lambda x, y, batch_size: _two_epochs(_epoch_of_torch, x, y, batch_size),
    mistakes=[
        Mistake(
            "no zero_grad",
            "The gradients of earlier batches are still there: `backward` adds to them. `optimizer.zero_grad()` before it.",
            _epoch_with(zero="never"),
        ),
        Mistake(
            "zero_grad once",
            "The gradients go away once, before the loop; within it they pile up. `zero_grad` for every batch.",
            _epoch_with(zero="epoch"),
        ),
        Mistake(
            "losses added up",
            "The step follows the *sum* of the squared errors of a batch, so larger batches take larger steps. Their mean is wanted.",
            _epoch_with(added=True),
        ),
        Mistake(
            "divided by the number of batches",
            "The weights are right; the total over all rows is divided by the number of batches. Divide by the number of rows.",
            _epoch_with(weighted="divided by batches"),
        ),
        Mistake(
            "left in eval mode",
            "The weights are right, but the model is put into eval mode at the end. That is the business of whoever evaluates.",
            _epoch_with(mode=False),
        ),
        Mistake(
            "no train mode",
            "The model came in eval mode and stayed there, so dropout did nothing. `model.train()` at the top.",
            _epoch_with(train=False),
        ),
        Mistake(
            "mean of means",
            "The weights are right; the loss is a mean of batch means, which counts the smaller last batch too much. Weight by len(x).",
            _epoch_with(weighted=False),
        ),
        Mistake(
            "(n, 1) against (n,)",
            "The model gives (n, 1), the targets are (n,): their difference is a table. `squeeze(1)` the output.",
            _epoch_with(table=True),
        ),
        Mistake(
            "weights never move",
            "The weights never move: `step` is missing, or finds gradients of 0. Order: zero_grad, backward, step.",
            _epoch_with(step_first=True),
        ),
        Mistake(
            "last batch only",
            "The weights are right; the loss returned is that of the last batch. The mean over all rows is wanted.",
            _epoch_with(last=True),
        ),
    ],
    hints=(
        "Say the five things aloud: mode, gradients away, loss, backward, step. Which of them stand inside the loop over batches?",
        "`loss.item()` is the mean over the batch: add up `loss.item() * len(x)`, and divide by the number of rows at the end.",
        "for x, y in loader: optimizer.zero_grad(); loss = F.mse_loss(model(x).squeeze(1), y); loss.backward(); optimizer.step()",
    ),
    passed="Every training program you will read has these lines in it, under more or less clothing.",
    lint={"delegation": _NO_TRAINER},
)


def _predict_with(evaluate=True, restore="before", gradients=False, last=False, join=None, for_good=False):
    """`predict` with one thing about it changed."""

    def predict(model, loader):
        before = model.training
        if evaluate:
            model.eval()
        if for_good:
            torch.set_grad_enabled(False)
        with torch.set_grad_enabled(gradients):
            pairs = [(model(x), y) for x, y in loader]
            pairs = [(output.detach() if gradients == "detached" else output, y) for output, y in pairs]
        if restore == "train":
            model.train()
        elif restore == "before":
            model.train(before)
        outputs, targets = zip(*(pairs[-1:] if last else pairs), strict=True)
        return (join or torch.cat)(outputs), (join or torch.cat)(targets)

    return predict


def _predictions(predict, x, y, batch_size, training):
    model = _reproducible(_regression_net)
    model.train(training)
    recorded = []
    model.register_forward_pre_hook(lambda *_: recorded.append(torch.is_grad_enabled()))
    found = predict(model, _loader(batch_size, x, y))
    if not (isinstance(found, tuple) and len(found) == 2):
        raise TypeError("two things are to be returned: outputs, targets")
    return {
        "outputs": found[0],
        "targets": found[1],
        "a graph was recorded": any(recorded),
        "gradients on afterward": torch.is_grad_enabled(),
        "training mode afterward": model.training,
    }


def _predict_case(n, batch_size, training):
    return lambda draw: {
        "x": draw.normal(n, 3),
        "y": draw.integers(0, 5, n),
        "batch_size": batch_size,
        "training": training,
    }


predict = Implement(
    id="w04.predict",
    title="Loop 2: evaluation",
    minutes=10,
    level=2,
    needs=("w04.epoch",),
    dtype="float64",
    reduces=_STEPS,
    cases=[
        Case("in the middle of training", _predict_case(7, 3, True)),
        Case("a model in eval mode", _predict_case(8, 4, False)),
        Case(
            "not contiguous",
            lambda draw: {"x": draw.transposed(5, 3), "y": draw.normal(5), "batch_size": 2, "training": True},
        ),
        Case("one row", _predict_case(1, 2, False)),
    ],
    use=_predictions,
    oracle=lambda x, y, batch_size, training: _predictions(_predict_with(), x, y, batch_size, training),
    reference="the page",
    memory="any",
    mistakes=[
        Mistake(
            "dropout still on",
            "The model stayed in training mode: dropout makes the predictions random. `model.eval()` first.",
            _predict_with(evaluate=False),
        ),
        Mistake(
            "left in eval mode",
            "The model is left in eval mode: training goes on without dropout. Put the mode back as it was.",
            _predict_with(restore="never"),
        ),
        Mistake(
            "always back to training",
            "`model.train()` at the end switches a model to training that was not in training. Remember `model.training` first.",
            _predict_with(restore="train"),
        ),
        Mistake(
            "graph kept",
            "A graph is recorded, with all intermediate results (`detach` comes too late). `with torch.no_grad():` around the model.",
            _predict_with(gradients=True),
        ),
        Mistake(
            "gradients off for good",
            "`set_grad_enabled(False)` holds for the rest of the program; no model could be trained afterward. `with torch.no_grad():` ends.",
            _predict_with(for_good=True),
        ),
        Mistake(
            "stacked",
            "`torch.stack` makes a new axis and wants batches of one size. `torch.cat` puts them one after the other.",
            _predict_with(join=lambda parts: torch.stack(parts)),
        ),
        Mistake(
            "last batch only",
            "Only the last batch is returned: collect all and `torch.cat` them.",
            _predict_with(last=True),
        ),
    ],
    hints=(
        "Four things around a short loop: remember the mode, switch to eval, no gradients, put the mode back.",
        "`was_training = model.training`, `model.eval()`, `with torch.no_grad():`, collect, `model.train(was_training)`, `torch.cat`.",
        "pairs = [(model(x), y) for x, y in loader]; outputs, targets = zip(*pairs); return torch.cat(outputs), torch.cat(targets)",
    ),
    passed="`model.train(mode)` takes the mode as an argument: that is how to put it back.",
    lint={"delegation": _NO_TRAINER},
)


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


f1 = Implement(
    id="w04.f1",
    title="F1 for each label",
    minutes=10,
    level=2,
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
            lambda predicted, target: _f1(predicted, target, dim=1),
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
            lambda predicted, target: _f1(predicted, target, empty=1.0),
        ),
        Mistake(
            "a little added",
            "A small number added below the line changes every F1 a little. Replace the 0 there, and only that: `clamp(min=1)`.",
            lambda predicted, target: _f1_counts(
                predicted, target, lambda tp, wrong: 2 * tp / (2 * tp + wrong + 1e-8)
            ),
        ),
        Mistake(
            "share of the union",
            "The factor 2 is missing, above and below: this is TP / (TP + FP + FN).",
            lambda predicted, target: _f1_counts(
                predicted, target, lambda tp, wrong: tp / (tp + wrong).clamp(min=1)
            ),
        ),
        Mistake(
            "2 only above",
            "The factor 2 stands above the line only: a perfect prediction would get 2.",
            lambda predicted, target: _f1_counts(
                predicted, target, lambda tp, wrong: 2 * tp / (tp + wrong).clamp(min=1)
            ),
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
    lint={"delegation": "torch has no F1; counting is the answer"},
)


def _label_net():
    return torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(5, 4)
    )


def _softmax_loss(output, y):
    return F.cross_entropy(output, y / y.sum(1, keepdim=True).clamp(min=1))


def _label_loop(loss=None, step="batch", zero=True, train=True, weighted=True, anew=True, moves=True):
    """The multi-label loop with one thing about it changed."""

    def fit_labels(model, loader, optimizer, scheduler, epochs):
        losses = []
        total, count = 0.0, 0
        for _ in range(epochs):
            if train:
                model.train()
            if anew:
                total, count = 0.0, 0
            for x, y in loader:
                if zero:
                    optimizer.zero_grad()
                found = (loss or F.binary_cross_entropy_with_logits)(model(x), y)
                found.backward()
                if step == "before":
                    scheduler.step()
                if moves:
                    optimizer.step()
                if step == "batch":
                    scheduler.step()
                size = len(x) if weighted else 1
                total, count = total + found.item() * size, count + size
            if step == "epoch":
                scheduler.step()
            losses.append(total / count)
        return losses

    return fit_labels


def _sigmoid_twice(output, y):
    return F.binary_cross_entropy_with_logits(torch.sigmoid(output), y)


def _label_run(fit_labels, x, y, batch_size, epochs):
    model = _reproducible(_label_net)
    model.eval()
    loader = _loader(batch_size, x, y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    losses = fit_labels(model, loader, optimizer, scheduler, epochs)
    return {
        "losses": losses,
        "learning rate": optimizer.param_groups[0]["lr"],
        "weights": _parameters(model),
    }


def _label_case(n, batch_size, epochs):
    def make(draw):
        y = draw.bools(n, 4, share=0.4).astype("float64")
        y[0] = [0, 1, 1, 1]
        return {"x": draw.normal(n, 3), "y": y, "batch_size": batch_size, "epochs": epochs}

    return make


def _label_strided(draw):
    case = _label_case(6, 4, 3)(draw)
    return {**case, "x": draw.transposed(6, 3)}


multilabel = Implement(
    id="w04.multilabel",
    title="Loop 3: several labels, and a schedule",
    minutes=12,
    level=2,
    needs=("w04.epoch", "w04.f1"),
    dtype="float64",
    reduces=_STEPS,
    cases=[
        Case("seven rows in threes", _label_case(7, 3, 2)),
        Case("one batch", _label_case(5, 5, 3)),
        Case("not contiguous", _label_strided),
        Case("one row", _label_case(1, 1, 2)),
    ],
    use=_label_run,
    oracle=lambda x, y, batch_size, epochs: _label_run(_label_loop(), x, y, batch_size, epochs),
    mistakes=[
        Mistake(
            "one label only",
            "Softmax lets the labels compete, as if one of them were right. Here each is a yes or no of its own.",
            _label_loop(loss=_softmax_loss),
        ),
        Mistake(
            "sigmoid twice",
            "There is a sigmoid before a loss that takes logits and has one inside. Give it the logits.",
            _label_loop(loss=_sigmoid_twice),
        ),
        Mistake(
            "schedule per epoch",
            "The schedule takes one step per epoch; it was made for one step per batch, and hardly moves.",
            _label_loop(step="epoch"),
        ),
        Mistake(
            "schedule never stepped",
            "The schedule never takes a step: the learning rate stays where it was. `scheduler.step()` after `optimizer.step()`.",
            _label_loop(step="never"),
        ),
        Mistake(
            "no zero_grad",
            "The gradients of earlier batches are still there. `optimizer.zero_grad()` for each batch.",
            _label_loop(zero=False),
        ),
        Mistake(
            "no train mode",
            "The model came in eval mode and stayed there, so dropout did nothing. `model.train()` before the first batch.",
            _label_loop(train=False),
        ),
        Mistake(
            "softmax over the labels",
            "`F.cross_entropy` lets the labels compete, as if one of them were right. Here each is a yes or no of its own.",
            _label_loop(loss=lambda output, y: F.cross_entropy(output, y)),
        ),
        Mistake(
            "schedule before the step",
            "The schedule moves before the optimizer does, so the first learning rate is never used: `optimizer.step()` first.",
            _label_loop(step="before"),
        ),
        Mistake(
            "mean of means",
            "The weights are right; the loss is a mean of batch means, which counts the smaller last batch too much. Weight by len(x).",
            _label_loop(weighted=False),
        ),
        Mistake(
            "total never set back",
            "The weights are right; from the second epoch on the loss is a mean over all epochs so far. Start the total anew in each.",
            _label_loop(anew=False),
        ),
        Mistake(
            "weights never move",
            "The weights never move: `optimizer.step()` is missing.",
            _label_loop(moves=False),
        ),
    ],
    hints=(
        "Two loops, epochs outside and batches inside. What stands in which?",
        "`F.binary_cross_entropy_with_logits(model(x), y)`; after `optimizer.step()`, `scheduler.step()`, both for every batch.",
        "As loop 1 inside `for _ in range(epochs)`, with another loss and one more line; collect total / count at the end of each epoch.",
    ),
    passed="Which unit a schedule counts in is not written on it: here it was made with epochs * len(loader) steps.",
    lint={"delegation": _NO_TRAINER},
)


# 02, loop 4: stop and go on


class _Checkpoint:
    """Everything that a run needs to go on as if nothing had happened."""

    leave_out: tuple[str, ...] = ()

    def __init__(self, model, optimizer, scheduler, generator):
        self.parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        self.generator = generator

    def save(self, path, epoch):
        state = {name: part.state_dict() for name, part in self.parts.items() if name not in self.leave_out}
        state |= {"order": self.generator.get_state(), "chance": torch.get_rng_state(), "epoch": epoch}
        torch.save(state, path)

    def load(self, path):
        state = torch.load(path)
        for name in state.keys() & self.parts.keys():
            self.parts[name].load_state_dict(state[name])
        if "order" not in self.leave_out:
            self.generator.set_state(state["order"])
        if "chance" not in self.leave_out:
            torch.set_rng_state(state["chance"])
        return state["epoch"]


class _CheckpointModel(_Checkpoint):
    leave_out = ("optimizer", "scheduler", "order", "chance")


class _CheckpointNoOptimizer(_Checkpoint):
    leave_out = ("optimizer",)


class _CheckpointNoScheduler(_Checkpoint):
    leave_out = ("scheduler",)


class _CheckpointNoOrder(_Checkpoint):
    leave_out = ("order",)


class _CheckpointNoChance(_Checkpoint):
    leave_out = ("chance",)


class _CheckpointOneMore(_Checkpoint):
    def load(self, path):
        return super().load(path) + 1


class _CheckpointReplaces(_Checkpoint):
    def save(self, path, epoch):
        torch.save(
            {
                **self.parts,
                "order": self.generator.get_state(),
                "chance": torch.get_rng_state(),
                "epoch": epoch,
            },
            path,
        )

    def load(self, path):
        state = torch.load(path, weights_only=False)
        self.parts = {name: state[name] for name in self.parts}
        self.generator.set_state(state["order"])
        torch.set_rng_state(state["chance"])
        return state["epoch"]


class _CheckpointObjects(_CheckpointReplaces):
    def load(self, path):
        return torch.load(path)["epoch"]


class _CheckpointSeeds(_Checkpoint):
    def save(self, path, epoch):
        super().save(path, epoch)
        seeds = {"order": self.generator.initial_seed(), "chance": torch.initial_seed()}
        torch.save({**torch.load(path), **seeds}, path)

    def load(self, path):
        state = torch.load(path)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        self.generator.manual_seed(state["order"])
        torch.manual_seed(state["chance"])
        return state["epoch"]


def _resume_run(Checkpoint, x, y, batch_size, stop, epochs):
    """Train `stop` epochs, save, make everything anew with other seeds, load, go on; beside a run in one piece."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.pt")
        first = _Run(x, y, batch_size, seed=3)
        losses = first.train(stop)
        Checkpoint(*first.parts).save(path, stop)
        if not os.path.exists(path):
            raise FileNotFoundError("`save` wrote no file at `path`")
        first.train(1)
        Checkpoint(*first.parts).save(os.path.join(folder, "later.pt"), stop + 1)  # not the one to load
        second = _Run(x, y, batch_size, seed=8)
        epoch = Checkpoint(*second.parts).load(path)
        if type(epoch) is not int:
            raise TypeError(f"`load` returns how many epochs are done, an int; yours returned {epoch!r}")
    losses += second.train(epochs - epoch)
    whole = _Run(x, y, batch_size, seed=3)
    straight = whole.train(epochs)
    same = all(
        torch.equal(a, b) for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True)
    )
    return {
        "epoch it goes on from": epoch,
        "losses": losses,
        "bit for bit the run in one piece": losses == straight and same,
    }


class _Run:
    """A small training run with chance in every place where chance can be: weights, order, dropout."""

    def __init__(self, x, y, batch_size, seed):
        torch.manual_seed(seed)
        self.x, self.y, self.batch_size = x, y, batch_size
        self.model = _regression_net().double()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 7)
        self.generator = _generator(seed)

    @property
    def parts(self):
        return self.model, self.optimizer, self.scheduler, self.generator

    def train(self, epochs):
        losses = []
        for _ in range(epochs):
            order = torch.randperm(len(self.x), generator=self.generator)
            for rows in order.split(self.batch_size):
                self.optimizer.zero_grad()
                loss = F.mse_loss(self.model(self.x[rows]).squeeze(1), self.y[rows])
                loss.backward()
                self.optimizer.step()
            self.scheduler.step()
            losses.append(loss.item())
        return losses


def _resume_case(n, batch_size, stop, epochs):
    return lambda draw: {
        "x": draw.normal(n, 3),
        "y": draw.normal(n),
        "batch_size": batch_size,
        "stop": stop,
        "epochs": epochs,
    }


resume = Implement(
    id="w04.resume",
    title="Loop 4: stop, and go on as if nothing had happened",
    minutes=15,
    level=3,
    needs=("w04.epoch",),
    dtype="float64",
    cases=[
        Case("two and two epochs", _resume_case(8, 3, 2, 4)),
        Case("one and two epochs", _resume_case(5, 3, 1, 3)),
        Case(
            "not contiguous",
            lambda draw: {
                "x": draw.transposed(7, 3),
                "y": draw.strided(7),
                "batch_size": 4,
                "stop": 1,
                "epochs": 3,
            },
        ),
        Case("batches of one", _resume_case(4, 1, 1, 2)),
    ],
    use=_resume_run,
    oracle=lambda x, y, batch_size, stop, epochs: _resume_run(_Checkpoint, x, y, batch_size, stop, epochs),
    reference="the same run in one piece, bit for bit",
    mistakes=[
        Mistake(
            "model only",
            "Only the weights come back. The optimizer's averages, the learning rate and the chance to come are part of the run.",
            _CheckpointModel,
        ),
        Mistake(
            "optimizer forgotten",
            "The optimizer starts anew: Adam's averages of earlier gradients are gone. It has a state_dict, too.",
            _CheckpointNoOptimizer,
        ),
        Mistake(
            "scheduler forgotten",
            "The scheduler starts anew: it counts from epoch 0 again.",
            _CheckpointNoScheduler,
        ),
        Mistake(
            "order forgotten",
            "The order of the batches is another one: save the generator's state, `get_state()`, and `set_state` it.",
            _CheckpointNoOrder,
        ),
        Mistake(
            "dropout forgotten",
            "Order and weights are right, but dropout draws other masks: save torch.get_rng_state() as well.",
            _CheckpointNoChance,
        ),
        Mistake(
            "one epoch too many",
            "`load` returns how many epochs are done, as `save` was told; yours is one more, so one epoch is skipped.",
            _CheckpointOneMore,
        ),
        Mistake(
            "other objects",
            "The stored objects are put in the place of your own, but the training loop still holds the old ones. `load_state_dict` fills those.",
            _CheckpointReplaces,
        ),
        Mistake(
            "whole objects saved",
            "Whole objects were saved; `torch.load` reads tensors, numbers and dicts only, as notebook 03 explains. Save `x.state_dict()`.",
            _CheckpointObjects,
        ),
        Mistake(
            "seeds for states",
            "A seed sets chance back to the *beginning* of the run. Save where it has got to: `get_state()`, `get_rng_state()`.",
            _CheckpointSeeds,
        ),
    ],
    hints=(
        "Which objects change during training? Model, optimizer, scheduler; and two sources of chance.",
        "Three state_dict(), generator.get_state(), torch.get_rng_state(), and the epoch: one dict, `torch.save(state, path)`.",
        "load: state = torch.load(path); three load_state_dict, generator.set_state, torch.set_rng_state, return state['epoch']",
    ),
    passed="A run that can be stopped anywhere can run on machines that are switched off at night, or crash.",
    lint={
        "size one": "x has three columns because the model has three inputs",
        "delegation": "torch.save is the tool to use",
    },
)


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


auroc = Implement(
    id="w04.auroc",
    title="AUROC: which of the two is higher?",
    minutes=10,
    level=2,
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
    lint={
        "size one": "a single row has no pair",
        "delegation": "torch has no AUROC; comparing is the answer",
    },
)


def _patience_with(
    better=None,
    copied=True,
    reset=True,
    extra=0,
    start=-math.inf,
    early=False,
    previous=False,
    only_if_stopped=False,
):
    """Early stopping with one thing about it changed."""

    def fit_with_patience(model, train_once, validate, patience, most):
        best, best_weights, waited, scores = start, copy.deepcopy(model.state_dict()), 0, []
        for _ in range(most):
            score = validate() if early else None
            train_once()
            scores.append(score if early else validate())
            if (better or (lambda score, best: score > best))(scores[-1], best):
                best = scores[-1]
                waited = 0 if reset else waited
                best_weights = copy.deepcopy(model.state_dict()) if copied else model.state_dict()
            else:
                waited += 1
                best = scores[-1] if previous else best
                if waited >= patience + extra:
                    break
        if not only_if_stopped or waited >= patience:
            model.load_state_dict(best_weights)
        return scores

    return fit_with_patience


def _lower_is_better(score, best):
    return best == -math.inf or score < best


def _scripted(fit_with_patience, scores, patience, most):
    """Training that adds 1 to a weight per epoch, and a validation that says what the case has for that weight."""
    model = torch.nn.Linear(1, 1, bias=False).double()
    torch.nn.init.zeros_(model.weight)

    def train_once():
        with torch.no_grad():
            model.weight += 1

    def validate():
        return [-1.0, *scores, *[0.0] * 99][int(model.weight.item())]

    seen = fit_with_patience(model, train_once, validate, patience, most)
    return {"scores": seen, "weight afterward": int(model.weight.item())}


patience = Implement(
    id="w04.patience",
    title="Loop 5: stop when it no longer helps",
    minutes=12,
    level=2,
    needs=("w04.auroc",),
    engine="python",
    cases=[
        Case(
            "best in the middle",
            lambda draw: {"scores": [0.5, 0.7, 0.6, 0.65, 0.9, 0.95], "patience": 2, "most": 6},
        ),
        Case(
            "a dip, then better",
            lambda draw: {"scores": [0.6, 0.5, 0.7, 0.65, 0.8, 0.7, 0.79, 0.6], "patience": 2, "most": 8},
        ),
        Case("no end to it", lambda draw: {"scores": [0.1, 0.2, 0.3, 0.4], "patience": 1, "most": 4}),
        Case("a tie is not better", lambda draw: {"scores": [0.4, 0.4, 0.4, 0.6], "patience": 2, "most": 4}),
        Case("all below zero", lambda draw: {"scores": [-0.9, -0.4, -0.6, -0.5], "patience": 2, "most": 4}),
        Case("no time to lose patience", lambda draw: {"scores": [0.2, 0.9, 0.5], "patience": 2, "most": 3}),
        Case("patience of one", lambda draw: {"scores": [0.8, 0.3, 0.9], "patience": 1, "most": 3}),
        Case("one epoch", lambda draw: {"scores": [0.3], "patience": 3, "most": 1}, extreme=True),
    ],
    use=_scripted,
    oracle=lambda scores, patience, most: _scripted(_patience_with(), scores, patience, most),
    reference="the page",
    mistakes=[
        Mistake(
            "last weights kept",
            "The model ends with its last weights. `state_dict()` is no copy: `copy.deepcopy` it when best, load it at the end.",
            _patience_with(copied=False),
        ),
        Mistake(
            "waiting never starts again",
            "The count of bad epochs goes on after a better one: start it again at 0. Patience means in a row.",
            _patience_with(reset=False),
        ),
        Mistake(
            "one epoch too many",
            "It waits one epoch too long: stop as soon as `patience` epochs in a row brought nothing.",
            _patience_with(extra=1),
        ),
        Mistake(
            "a tie counts as better",
            "A score that only equals the best counts as better: a model that has stopped learning would never stop.",
            _patience_with(better=lambda score, best: score >= best),
        ),
        Mistake(
            "better than 0",
            "The first best score is 0, and a score may be below that: R² is, at first. Start from -inf.",
            _patience_with(start=0.0),
        ),
        Mistake(
            "restored only after a stop",
            "If the epochs run out before patience does, the best weights are not put back. Load them after the loop.",
            _patience_with(only_if_stopped=True),
        ),
        Mistake(
            "compared with the epoch before",
            "Each score is compared with the one before it; compare with the best so far.",
            _patience_with(previous=True),
        ),
        Mistake(
            "validated before training",
            "`validate` is called before `train_once`: the score and the weights that are kept do not belong together.",
            _patience_with(early=True),
        ),
        Mistake(
            "lower is better",
            "It looks for the lowest score. This one is a score, not a loss: higher is better.",
            _patience_with(better=_lower_is_better),
        ),
    ],
    hints=(
        "Three things to remember between epochs: the best score, when that was, and a copy of the weights it had.",
        "If better: remember score, epoch and a deep copy of `model.state_dict()`. Else: stop if that epoch is `patience` epochs ago.",
        "best_weights = copy.deepcopy(model.state_dict()); at the end model.load_state_dict(best_weights); return scores",
    ),
    passed="You chose an epoch by looking at the validation part, so it is part of training now: the test part has the last word.",
    lint={"delegation": _NO_TRAINER},
)

# 03 in PyTorch


class _Noise:
    """Eight samples; each is its index, or a random number drawn when it is asked for. Importable by any worker."""

    def __init__(self, random):
        self.random = random

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.rand(()).item() if self.random else index


def _seen(loader):
    return [value for batch in loader for value in batch.tolist()]


def _order_of(seed=None, before=None, random=False, **options):
    """What a shuffled loader brings after `torch.manual_seed(0)` and perhaps something else."""
    torch.manual_seed(0)
    generator = None if seed is None else _generator(seed)
    if before is not None:
        before()
    return _seen(torch.utils.data.DataLoader(_Noise(random), 3, shuffle=True, generator=generator, **options))


def _two_passes():
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(_Noise(False), 3, shuffle=True)
    return _seen(loader) == _seen(loader)


def _same_dropped():
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(_Noise(False), 3, shuffle=True, drop_last=True)
    return set(_seen(loader)) == set(_seen(loader))


def _layer():
    return torch.nn.Linear(3, 3)


seeds = Predict(
    id="w04.seeds",
    title="Which of these are the same?",
    minutes=8,
    level=2,
    needs=("w04.loader",),
    items={
        "a": Item("seed, loop; seed, loop: the same order?", lambda: _order_of() == _order_of()),
        "b": Item("seed, then two loops over one loader: the same order in both?", _two_passes),
        "c": Item(
            "seed, loop; seed, `nn.Linear(3, 3)`, loop: the same order?",
            lambda: _order_of() == _order_of(before=_layer),
        ),
        "d": Item(
            "as c, but the loader has `generator=torch.Generator().manual_seed(1)` each time",
            lambda: _order_of(seed=1) == _order_of(seed=1, before=_layer),
        ),
        "e": Item(
            "`num_workers=0` against `num_workers=2`, same generator: the same order?",
            cache(lambda: _order_of(seed=1) == _order_of(seed=1, num_workers=2)),
        ),
        "f": Item(
            "each sample is a random number drawn in `__getitem__`; seed, then no workers against two: the same numbers?",
            cache(lambda: _order_of(random=True) == _order_of(random=True, num_workers=2)),
        ),
        "g": Item(
            "`len(DataLoader(range(10), batch_size=4))`",
            lambda: len(torch.utils.data.DataLoader(range(10), 4)),
        ),
        "h": Item(
            "`drop_last=True`, two loops over one loader: are the same samples left out?", _same_dropped
        ),
    },
    mistakes=[
        Mistake(
            "seed forgotten",
            "a: the order is drawn from torch's generator, and the seed sets it back.",
            {"a": False},
        ),
        Mistake("shuffled once", "b: a new order is drawn at the start of every pass.", {"b": True}),
        Mistake(
            "layers draw nothing",
            "c: making a layer draws its first weights from the same generator, so the order comes later in the stream.",
            {"c": True},
        ),
        Mistake(
            "generator shared",
            "d: a generator of its own is moved on by nobody else. That is what it is for.",
            {"d": False},
        ),
        Mistake(
            "workers change the order",
            "e: the order is drawn here and dealt out in turn; workers only make the batches.",
            {"e": False},
        ),
        Mistake(
            "workers share chance",
            "f: each worker has a seed of its own, so what samples draw does depend on the number of workers.",
            {"f": True},
        ),
        Mistake("rounded down", "g: the last, smaller batch counts, unless drop_last is set.", {"g": 2}),
        Mistake("samples are counted", "g: the length of a loader is in batches.", {"g": 10}),
        Mistake(
            "always the same ones",
            "h: what is left over depends on the order, so each epoch leaves out others.",
            {"h": True},
        ),
    ],
    hints=(
        "For each: from which generator is the order drawn, and who else draws from it in between?",
        "The order is drawn in the main process at the start of each pass; weights of layers come from torch's generator, too.",
        "Same: a, d and e. Not the same: b, c, f and h. Ten samples in fours are three batches.",
    ),
    passed="A generator of its own for the loader, and the order no longer depends on what the rest of the program draws.",
)


def _pipeline(
    training, mean, std, scale=True, flips=None, normalize=True, flip="RandomHorizontalFlip", p=0.5
):
    compat.torchvision()
    v2 = importlib.import_module("torchvision.transforms.v2")
    middle = [getattr(v2, flip)(p)] if (training if flips is None else flips) else []
    last = [v2.Normalize([mean], [std])] if normalize else []
    return v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=scale), *middle, *last])


def _pipeline_vertical(training, mean, std):
    return _pipeline(training, mean, std, flip="RandomVerticalFlip")


def _pipeline_swapped(training, mean, std):
    return _pipeline(training, std, mean)


def _transformed(pipeline, images, mean, std):
    """What both pipelines make of some pictures, chance set back before each."""
    found = {}
    for name, training in (("training", True), ("evaluation", False)):
        transform = pipeline(training, mean, std)
        torch.manual_seed(0)
        found[name] = torch.stack([transform(image.numpy()) for image in images])
    return found


def _photos(n, height, width):
    return lambda draw: {
        "images": draw.integers(0, 256, n, height, width).astype(np.uint8),
        "mean": 0.25,
        "std": 0.4,
    }


transforms = Implement(
    id="w04.transforms",
    title="One pipeline for training, one for evaluation",
    minutes=8,
    level=2,
    needs=("w04.test_augment", "w04.standardize"),
    cases=[
        Case("sixty pictures", _photos(60, 4, 5)),
        Case("narrow pictures", _photos(7, 6, 2)),
        Case("one row of pixels", _photos(9, 1, 8)),
        Case(
            "not contiguous",
            lambda draw: {"images": _photos(6, 5, 8)(draw)["images"][..., ::2], "mean": 0.6, "std": 0.15},
        ),
    ],
    use=_transformed,
    oracle=lambda images, mean, std: _transformed(_pipeline, images, mean, std),
    reference="torchvision's transforms in this order",
    mistakes=[
        Mistake(
            "not scaled",
            "The pixels still go from 0 to 255: `ToDtype` divides by 255 only with scale=True.",
            lambda training, mean, std: _pipeline(training, mean, std, scale=False),
        ),
        Mistake(
            "augments in evaluation",
            "Pictures are mirrored in evaluation as well: the same picture would get another score each time.",
            lambda training, mean, std: _pipeline(training, mean, std, flips=True),
        ),
        Mistake(
            "never augments",
            "Nothing is mirrored, also not in training.",
            lambda training, mean, std: _pipeline(training, mean, std, flips=False),
        ),
        Mistake(
            "the other way around",
            "Pictures are mirrored in evaluation and not in training: the condition is reversed.",
            lambda training, mean, std: _pipeline(training, mean, std, flips=not training),
        ),
        Mistake(
            "always mirrored",
            "Every picture is mirrored in training: the probability is ½.",
            lambda training, mean, std: _pipeline(training, mean, std, p=1.0),
        ),
        Mistake(
            "not normalized",
            "The pixels lie between 0 and 1; `Normalize` is missing.",
            lambda training, mean, std: _pipeline(training, mean, std, normalize=False),
        ),
        Mistake(
            "mean and deviation swapped",
            "Mean and deviation are swapped: Normalize takes the means first.",
            _pipeline_swapped,
        ),
        Mistake(
            "upside down",
            "Pictures are turned upside down. `RandomHorizontalFlip` exchanges left and right.",
            _pipeline_vertical,
        ),
    ],
    hints=(
        "Four steps in a list, one of them only in training, and `v2.Compose(list)` around it.",
        "`v2.ToImage()`, `v2.ToDtype(torch.float32, scale=True)`, `v2.RandomHorizontalFlip(0.5)`, `v2.Normalize([mean], [std])`.",
        "steps = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]; if training: steps.append(...); steps.append(v2.Normalize([mean], [std]))",
    ),
    passed="Evaluation has no chance in it: a score that changes from run to run cannot be compared with anything.",
    lint={"delegation": "torchvision's transforms are what this exercise is about"},
)

# 04 clinic


def _clinic_net():
    return torch.nn.Sequential(
        torch.nn.Linear(3, 6), torch.nn.ReLU(), torch.nn.Dropout(0.4), torch.nn.Linear(6, 4)
    )


def _class_case(n, batch_size):
    return lambda draw: {"x": draw.normal(n, 3), "y": draw.integers(0, 4, n), "batch_size": batch_size}


def _class_strided(draw):
    return {"x": draw.transposed(7, 3), "y": draw.integers(0, 4, 14)[::2], "batch_size": 4}


_CLASS_CASES = [
    Case("eight rows in threes", _class_case(8, 3)),
    Case("two even batches", _class_case(10, 5)),
    Case("not contiguous", _class_strided),
    Case("one row", _class_case(1, 1)),
]


def _train_with(zero="batch", scale=None, rate=1.0, reduction="mean", reported=None):
    """Gradient descent on cross-entropy with one thing about it changed."""

    def train(model, loader, epochs, lr):
        optimizer = torch.optim.SGD(
            model.parameters(), lr=lr * (rate if isinstance(rate, float) else rate(loader))
        )
        model.train()
        losses = []
        for _ in range(epochs):
            if zero == "epoch":
                optimizer.zero_grad()
            for x, y in loader:
                if zero == "batch":
                    optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y, reduction=reduction)
                loss = loss if scale is None else loss * scale(x, loader)
                loss.backward()
                if zero == "late":
                    optimizer.zero_grad()
                optimizer.step()
                losses.append(loss.item() * (1 if reported is None else reported(x)))
        return losses

    return train


def _trained(train, x, y, batch_size):
    model = _reproducible(_clinic_net)
    model.eval()
    losses = train(model, _loader(batch_size, x, y), 3, 0.3)
    return {"losses": losses, "weights": _parameters(model)}


no_zero = Fix(
    id="w04.no_zero",
    title="The run that overshoots",
    minutes=6,
    level=2,
    needs=("w04.epoch",),
    dtype="float64",
    reduces=_STEPS,
    cases=_CLASS_CASES,
    use=_trained,
    oracle=lambda x, y, batch_size: _trained(_train_with(), x, y, batch_size),
    broken=_train_with(zero="never"),
    fault="no zero_grad",
    menu={
        "no zero_grad": "",
        "learning rate too high": "The same rate trains the healthy run well. What makes every step larger than the one before?",
        "model too small": "A small model learns little; it does not get worse. Look at what is added up.",
    },
    mistakes=[
        Mistake(
            "once per epoch",
            "The gradients go away once per epoch; within it they still pile up. Every batch needs it.",
            _train_with(zero="epoch"),
        ),
        Mistake(
            "between backward and step",
            "The gradients go away between backward and step, so the step has nothing to go by and no weight moves.",
            _train_with(zero="late"),
        ),
        Mistake(
            "smaller steps",
            "A smaller learning rate hides it for a while; the gradients still pile up.",
            _train_with(zero="never", rate=0.5),
        ),
        Mistake(
            "rate and zero_grad",
            "The gradients are right now; the learning rate was changed as well. Mend one thing at a time.",
            _train_with(rate=0.5),
        ),
    ],
    hints=(
        "Print the norm of one weight's gradient for the first ten steps.",
        "`backward` adds to `.grad`. What sets it back, and how often must that happen?",
        'fault = "no zero_grad"; optimizer.zero_grad() as the first line of the loop over batches',
    ),
    passed="Adding gradients up is useful, too: week 10 does it on purpose, to imitate a batch that does not fit into memory.",
    lint={"delegation": _NO_TRAINER},
)


def _fit_modes(train="epoch", evaluate=True):
    """Training with validation after each epoch, with one thing about the modes changed."""

    def fit(model, loader, validation, epochs, lr):
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        model.train(train != "never")
        losses = []
        for _ in range(epochs):
            if train == "epoch":
                model.train()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if train == "after a batch":
                    model.train()
            if evaluate:
                model.eval()
            with torch.no_grad():
                losses.append(F.cross_entropy(model(validation[0]), validation[1]).item())
        return losses

    return fit


def _validated(fit, x, y, batch_size):
    model = _reproducible(_clinic_net)
    losses = fit(model, _loader(batch_size, x, y), (x.flip(0) + 0.1, y.flip(0)), 3, 0.3)
    return {"losses": losses, "weights": _parameters(model)}


eval_mode = Fix(
    id="w04.eval_mode",
    title="The run that learns by heart",
    minutes=6,
    level=2,
    needs=("w04.predict",),
    dtype="float64",
    reduces=_STEPS,
    cases=_CLASS_CASES,
    use=_validated,
    oracle=lambda x, y, batch_size: _validated(_fit_modes(), x, y, batch_size),
    broken=_fit_modes(train="once"),
    fault="eval mode left on",
    menu={
        "eval mode left on": "",
        "dropout too weak": "Half of all units are dropped, in the first epoch. Print `model.training` in the second one.",
        "no_grad left on": "`with` ends with its block: gradients are recorded again, and the training loss does fall.",
    },
    mistakes=[
        Mistake(
            "validates with dropout",
            "Training is right now, but validation runs with dropout: `model.eval()` has to stay, and be undone.",
            _fit_modes(evaluate=False),
        ),
        Mistake(
            "never in training mode",
            "The model is in eval mode all the time, so dropout never drops.",
            _fit_modes(train="never"),
        ),
        Mistake(
            "back one batch too late",
            "The first batch of each epoch still runs in eval mode: switch back before it, not after it.",
            _fit_modes(train="after a batch"),
        ),
    ],
    hints=(
        "Print `model.training` before each batch.",
        "`model.eval()` holds until somebody calls `model.train()`. Where does each epoch need it?",
        'fault = "eval mode left on"; move model.train() to the first line of the loop over epochs',
    ),
    passed="The two modes also decide what batch norm does, in week 5: there a wrong mode is worse than a missing dropout.",
    lint={"delegation": _NO_TRAINER},
)


def _cut(x, y, batch_size):
    return list(zip(x.split(batch_size), y.split(batch_size), strict=True))


def _two_orders(x, y, batch_size, seed):
    generator = _generator(seed)
    x = x[torch.randperm(len(x), generator=generator)]
    y = y[torch.randperm(len(y), generator=generator)]
    return _cut(x, y, batch_size)


def _one_order(x, y, batch_size, seed):
    order = torch.randperm(len(x), generator=_generator(seed))
    return _cut(x[order], y[order], batch_size)


def _one_side(x, y, batch_size, seed):
    return _cut(x[torch.randperm(len(x), generator=_generator(seed))], y, batch_size)


def _one_order_of_anybody(x, y, batch_size, seed):
    order = torch.randperm(len(x))
    return _cut(x[order], y[order], batch_size)


def _batches_not_rows(x, y, batch_size, seed):
    batches = _cut(x, y, batch_size)
    return [batches[i] for i in torch.randperm(len(batches), generator=_generator(seed))]


def _pair_case(n, batch_size, seed):
    return lambda draw: {
        "x": draw.normal(n, 2),
        "y": np.arange(n) * 10,
        "batch_size": batch_size,
        "seed": seed,
    }


shuffled = Fix(
    id="w04.shuffled",
    title="The run that learns nothing new",
    minutes=6,
    level=2,
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
    lint={"delegation": "indexing is the answer"},
)


def _copies_first(labels, share, times, seed):
    rare = torch.where(labels)[0]
    rows = torch.cat([torch.arange(len(labels)), rare.repeat(times - 1)])
    rows = rows[torch.randperm(len(rows), generator=_generator(seed))]
    held_out = round(share * len(rows))
    return rows[held_out:], rows[:held_out]


def _split_first(labels, share, times, seed):
    rows = torch.randperm(len(labels), generator=_generator(seed))
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


leak = Fix(
    id="w04.leak",
    title="The run that is too good",
    minutes=10,
    level=2,
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
    oracle=lambda labels, share, times, seed: _prepared(_copies_after, labels, share, times, seed),
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
    lint={"size one": "one row cannot be split", "delegation": "indexing is the answer"},
)

averaged_twice = Fix(
    id="w04.averaged_twice",
    title="The run that crawls",
    minutes=6,
    level=2,
    needs=("w04.epoch",),
    dtype="float64",
    reduces=_STEPS,
    cases=_CLASS_CASES[:3],
    use=_trained,
    oracle=lambda x, y, batch_size: _trained(_train_with(), x, y, batch_size),
    broken=_train_with(scale=lambda x, loader: 1 / len(x)),
    fault="loss averaged twice",
    menu={
        "loss averaged twice": "",
        "learning rate too low": "The healthy run has the same rate. But you are near: each step is 50 times too small. Why?",
        "vanishing gradients": "There are two layers; nothing vanishes on so short a way. All gradients are too small by one factor.",
    },
    mistakes=[
        Mistake(
            "sum",
            "The losses of a batch are added up now: a larger batch takes larger steps. Their mean is wanted.",
            _train_with(reduction="sum"),
        ),
        Mistake(
            "rate raised",
            "The rate was raised to make up for it. The loss is still wrong, and the smaller last batch gets too large a step.",
            _train_with(scale=lambda x, loader: 1 / len(x), rate=lambda loader: float(len(loader[0][0]))),
        ),
        Mistake(
            "only the report",
            "The reported loss is right now; the gradients still come from the loss divided by len(x). Mend the loss itself.",
            _train_with(scale=lambda x, loader: 1 / len(x), reported=len),
        ),
        Mistake(
            "only the gradient",
            "The steps are right now; the reported loss is still divided by len(x).",
            _train_with(reported=lambda x: 1 / len(x)),
        ),
        Mistake(
            "divided by the number of batches",
            "Each loss is divided by the number of batches: that belongs to the report, not to the gradient.",
            _train_with(scale=lambda x, loader: 1 / len(loader)),
        ),
        Mistake(
            "sum over a fixed size",
            "The sum is divided by the size of the first batch; the last one is smaller. Divide by len(x), or take the mean.",
            _train_with(reduction="sum", scale=lambda x, loader: 1 / len(loader[0][0])),
        ),
    ],
    hints=(
        "Compare the loss of the very first batch with ln 10.",
        "`F.cross_entropy` returns the mean over the batch. What does the division by len(x) do to a mean?",
        'fault = "loss averaged twice"; loss = F.cross_entropy(model(x), y), and no division',
    ),
    passed="The loss at the start would have told: ln 10 / 50 is 0.05, and no model knows that much before it has seen anything.",
    lint={"size one": "a batch of one has nothing to average", "delegation": _NO_TRAINER},
)


@cache
def _update_ratio(lr):
    """The experiment of the page: norm of the update over norm of the weight, middle of 20 steps, last layer."""
    digits = datasets.digits()
    x, y = torch.from_numpy(digits.images[:1000]).double().flatten(1), torch.from_numpy(digits.labels[:1000])
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    ratios = []
    for rows in torch.arange(1000).split(50):
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        before = model[2].weight.detach().clone()
        optimizer.step()
        ratios.append(((model[2].weight - before).norm() / before.norm()).item())
    return sorted(ratios)[10]


def _accept_rate(rate):
    if not 0 < rate < math.inf:
        return "a learning rate is a number above 0."
    ratio = _update_ratio(float(rate))
    if not 0.95e-3 <= ratio <= 1.05e-3:
        return f"at a rate of {rate:.3g} the middle ratio is {ratio:.2g}, not 0.001."
    return None


def _gives(low, high):
    return lambda rate: 0 < rate < math.inf and low <= _update_ratio(float(rate)) <= high


update_ratio = Measure(
    id="w04.update_ratio",
    title="How far does one step go?",
    minutes=8,
    level=2,
    needs=("w04.averaged_twice",),
    accept=_accept_rate,
    mistakes=[
        Mistake(
            "ten times too large",
            "The ratio is 0.01 there: ten times what is asked for.",
            0.063,
            when=_gives(0.7e-2, 1.5e-2),
        ),
        Mistake(
            "ten times too small",
            "The ratio is 0.0001 there: a tenth of what is asked for.",
            0.00063,
            when=_gives(0.7e-4, 1.5e-4),
        ),
        Mistake(
            "the ratio itself",
            "0.001 is the ratio that is asked for; the rate that leads to it is another number.",
            0.001,
            when=lambda rate: rate == 0.001,
        ),
        Mistake(
            "too rough",
            "The right size, but not within 5 %. For small rates the ratio grows in proportion: one more rule of three.",
            0.01,
            when=_gives(0.5e-3, 2e-3),
        ),
    ],
    hints=(
        "Measure once, for instance `middle_ratio(0.01)`. How will the ratio change if the rate is doubled?",
        "For plain gradient descent the update is the rate times the gradient: the ratio grows in proportion, as long as training has not moved far.",
        "rate = 0.01 * 0.001 / middle_ratio(0.01)",
    ),
    passed="About a thousandth per step is a common healthy size. A layer far from its neighbors is worth a look.",
)
