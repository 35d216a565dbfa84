"""A data loader that shuffles, cuts and collates, with another order in each epoch."""

import itertools
import math

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week04.shared import chunks, seeded, torch_batches
from labkit.lazy import torch


class _Loader:
    def __init__(self, dataset, batch_size, seed, collate):
        self.dataset, self.batch_size, self.seed, self.collate = dataset, batch_size, seed, collate
        self.epoch = 0

    def __len__(self):
        return math.ceil(len(self.dataset) / self.batch_size)

    def batches(self):
        return torch_batches(len(self.dataset), self.batch_size, self.seed, self.epoch)

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
        return torch_batches(len(self.dataset), self.batch_size, self.seed, self.epoch, drop_last=True)


class _LoaderReturnsList(_Loader):
    def __iter__(self):
        return list(super().__iter__())


class _LoaderInOrder(_Loader):
    def batches(self):
        return chunks(list(range(len(self.dataset))), self.batch_size)


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


exercise = Implement(
    title="A data loader",
    minutes=12,
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
    oracle=vary(_passes, Loader=_Loader),
    reference="torch's BatchSampler with the same order",
    rules=Rules(forbids=("DataLoader", "BatchSampler", "RandomSampler")),
    delegate=lambda dataset, batch_size, seed, collate: torch.utils.data.DataLoader(
        dataset, batch_size, shuffle=True, generator=seeded(seed), collate_fn=collate
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
