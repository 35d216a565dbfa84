"""Predict which runs are the same for the same seed."""

from functools import cache

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.exercises.week04.shared import seeded
from labkit.lazy import torch


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
    generator = None if seed is None else seeded(seed)
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


exercise = Predict(
    title="Which of these are the same?",
    minutes=8,
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
