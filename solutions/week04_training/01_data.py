# %% [markdown] id=w04a-title
# # Week 4 · 01 Data
#
# In about 75 minutes you will build everything that stands between a file and a model: a dataset, the order in which it
# is read, the batches, the loader. Then you divide data into parts so that the second part can be believed, and test
# code that is random on purpose. At the end your loader serves 260 years of sunspots, and brings the same batches in
# the same order on every machine.
# %% id=w04a-setup role=setup
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from labkit import check, datasets, viz

# %% [markdown] id=w04a-surprise
# ## A surprise first
#
# 500 photographs of clothes are few. So somebody made four of each, shifted by a pixel, and got 2,000. Then a fifth was
# set aside at random for validation, as one should, and the simplest of all classifiers was tried: the label of the
# nearest training picture. Last, it was tried on 2,000 pictures of other clothes. How far apart will the two results
# be? Decide before you run the cell.
# %% id=w04a-surprise-code
clothes = datasets.fashion_mnist("train")
pictures = torch.from_numpy(clothes.images[::20]).double()  # (500, 28, 28)
kinds = torch.from_numpy(clothes.labels[::20])
shifts = [(0, 0), (0, 1), (1, 0), (0, -1)]
x = torch.cat([pictures.roll(shift, dims=(1, 2)) for shift in shifts]).flatten(1)  # (2000, 784)
y = kinds.repeat(len(shifts))
picture_number = torch.arange(len(pictures)).repeat(len(shifts))  # which photograph a row was made from


def nearest_is_right(train: torch.Tensor, other: torch.Tensor, other_labels: torch.Tensor) -> str:
    """How often the nearest of the training rows has the right label."""
    nearest = torch.cdist(other, x[train]).argmin(1)
    return f"{(y[train][nearest] == other_labels).double().mean():.0%}"


order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
train, validation = order[:1600], order[1600:]
new = datasets.fashion_mnist("test")
new_x, new_y = torch.from_numpy(new.images).double().flatten(1), torch.from_numpy(new.labels)
print("right on the validation part:", nearest_is_right(train, x[validation], y[validation]))
print("right on other clothes:      ", nearest_is_right(train, new_x, new_y))


# %% [markdown] id=w04a-surprise-after
# Nothing crashed, the split was random, and the validation result is worth nothing: of nearly every picture in the
# validation part a shifted copy stands in the training part. Remember the two numbers; you will mend this in exercise
# {w04.split}. Most of what goes wrong in training goes wrong before the model sees anything.
#
# ## Exercise
#
# A *dataset* answers two questions: how many samples are there (`len(data)`), and what is sample number i (`data[i]`).
# Any object with `__len__` and `__getitem__` will do, and it may make its samples when asked.
#
# The number of sunspots goes up and down in about 11 years. To forecast it, a sample is a *window*: `width` months in a
# row as the input, and as the target the value `ahead` months after the last of them. Windows overlap: sample 1 starts
# one month after sample 0. Only windows whose target exists count.
#
# ```
# series = [5, 7, 2, 8, 4, 9]   width = 3   ahead = 2
#
# sample 0:  [5, 7, 2] -> 4         sample 1:  [7, 2, 8] -> 9         2 samples
# ```
# %% id=w04a-dataset role=exercise ex=w04.dataset
class Windows:
    """Windows of a series (n,): sample i is (width,) values from i on, and the value `ahead` steps after them, ()."""

    def __init__(self, series: torch.Tensor, width: int, ahead: int) -> None:
        self.series, self.width, self.ahead = series, width, ahead

    def __len__(self) -> int:
        ### BEGIN SOLUTION
        return len(self.series) - self.width - self.ahead + 1
        ### END SOLUTION

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        ### BEGIN SOLUTION
        end = index + self.width
        return self.series[index:end], self.series[end + self.ahead - 1]
        ### END SOLUTION


# %% id=w04a-dataset-check role=check ex=w04.dataset
check("w04.dataset", Windows)
# %% id=w04a-dataset-fig
months, spots = datasets.sunspots()
windows = Windows(torch.from_numpy(spots), width=48, ahead=12)
past, future = windows[2520]  # January 1959 on
print(
    f"{len(windows)} windows; this one starts in {months[2520]}, its target is {future:.0f} sunspots in {months[2579]}"
)
viz.curves(
    {
        "window": past,
        "what came then": torch.cat([torch.full((48,), math.nan), torch.from_numpy(spots)[2568:2580]]),
    },
    xlabel="month",
    ylabel="sunspots",
    title="one sample: 48 months, and the last of the 12 that follow",
)


# %% [markdown] id=w04a-batches-md
# ## Exercise
#
# A model is trained on small groups of samples, *batches*, in a new random order in each pass over the data, each
# *epoch*. Random, but repeatable: the order has to follow from a seed and the number of the epoch, and from nothing
# else. Nobody can find a fault in a run that never happens twice.
#
# `torch.Generator().manual_seed(s)` makes a source of chance of your own; `torch.randperm(n, generator=g)` draws an
# order from it. Use the seed `seed + epoch`. (`torch.manual_seed` would set everybody's chance back, that of dropout
# too.) Then cut the order into lists of numbers, the batches. The last one may be smaller; with `drop_last` it is left
# out. No samples, no batches.
#
# ```
# n = 10, batch_size = 4, order 9 0 7 3 1 8 4 6 5 2 -> [9, 0, 7, 3], [1, 8, 4, 6], [5, 2]
# ```
# %% id=w04a-batches role=exercise ex=w04.batches
def batches(n: int, batch_size: int, seed: int, epoch: int, drop_last: bool = False) -> list[list[int]]:
    """The indices 0 … n - 1 in the order of this epoch, in groups of batch_size."""
    ### BEGIN SOLUTION
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    groups = [order[i : i + batch_size] for i in range(0, n, batch_size)]
    return [group for group in groups if len(group) == batch_size] if drop_last else groups
    ### END SOLUTION


# %% id=w04a-batches-check role=check ex=w04.batches
check("w04.batches", batches)
# %% id=w04a-batches-run
for epoch in (0, 1, 0):
    print(f"epoch {epoch}:", batches(10, 4, seed=0, epoch=epoch))


# %% [markdown] id=w04a-pad-md
# ## Exercise
#
# Turning a list of samples into one tensor is called *collating*. If all samples have the same shape, `torch.stack`
# does it. Words differ in length; the rows of a tensor cannot. So fill the shorter ones up with a value that stands for
# "nothing here", and say how long each sequence was. Ask the sequences for that, not the table: the value may occur in
# the data.
#
# ```
# [3, 8], [5, 1, 4]   value 0   ->   [[3, 8, 0],    lengths [2, 3]
#                                     [5, 1, 4]]
# ```
#
# The result has the dtype of the sequences.
# [`torch.full`](https://docs.pytorch.org/docs/2.13/generated/torch.full.html) makes a tensor of one value.
# %% id=w04a-pad role=exercise ex=w04.pad
def pad(sequences: list[torch.Tensor], value: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of unequal length as a table (rows, longest), filled up with value; and the lengths (rows,) of int64."""
    ### BEGIN SOLUTION
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = torch.full((len(sequences), int(lengths.max())), value, dtype=sequences[0].dtype)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return padded, lengths
    ### END SOLUTION


# %% id=w04a-pad-check role=check ex=w04.pad
check("w04.pad", pad)
# %% id=w04a-pad-run
finnish = datasets.names()["Finnish"][:4]
codes = [torch.tensor([ord(letter) for letter in name]) for name in finnish]
table, lengths = pad(codes, value=0)
for name, row, length in zip(finnish, table.tolist(), lengths.tolist(), strict=True):
    print(f"{name:12} {length:2}  {row}")


# %% [markdown] id=w04a-loader-md
# ## Exercise
#
# Now put the three together. A *loader* is something one can write `for batch in loader` with, again and again, and
# each time it is the next epoch. Python calls `__iter__` once per `for`; if there is a `yield` in it, each call starts
# afresh.
#
# Use your `batches`, with `self.seed` and `self.epoch`. The first pass is epoch 0, the next one epoch 1. Count when a
# pass *begins*: one that is broken off counts as well. `len(loader)` is the number of batches, the last smaller one
# included.
# %% id=w04a-loader role=exercise ex=w04.loader
class Loader:
    """Batches of a dataset, in a new order in every pass; `collate` turns a list of samples into one batch."""

    def __init__(self, dataset: Any, batch_size: int, seed: int, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset, self.batch_size, self.seed, self.collate = dataset, batch_size, seed, collate
        self.epoch = 0

    def __len__(self) -> int:
        ### BEGIN SOLUTION
        return math.ceil(len(self.dataset) / self.batch_size)
        ### END SOLUTION

    def __iter__(self) -> Iterator[Any]:
        ### BEGIN SOLUTION
        plan = batches(len(self.dataset), self.batch_size, seed=self.seed, epoch=self.epoch)
        self.epoch += 1
        for batch in plan:
            yield self.collate([self.dataset[i] for i in batch])
        ### END SOLUTION


# %% id=w04a-loader-check role=check ex=w04.loader
check("w04.loader", Loader)


# %% [markdown] id=w04a-loader-after
# Your loader on your windows. The collate function makes one tensor of all inputs and one of all targets. Two loaders
# with one seed bring the same batches; the second pass brings others.
# %% id=w04a-loader-run
def stack_pairs(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    """n samples (width,), () -> (n, width), (n,)"""
    inputs, targets = zip(*samples, strict=True)
    return torch.stack(inputs), torch.stack(targets)


one, two = (Loader(windows, batch_size=64, seed=0, collate=stack_pairs) for _ in range(2))
first, twin = next(iter(one)), next(iter(two))
print("batches:", len(one), "| shapes:", tuple(first[0].shape), tuple(first[1].shape))
print("same seed, same batch:", torch.equal(first[0], twin[0]))
print("next epoch, same batch:", torch.equal(next(iter(one))[0], twin[0]))
# %% [markdown] id=w04a-workers-md
# ## Workers
#
# What if making a sample takes time: reading a file, decoding a picture? Then the model waits. The remedy is *worker
# processes*: each makes whole batches while the model computes, and they are dealt out in turn, so the order stays what
# the sampler said. labkit's own loader does this in [`labkit/data/loader.py`](../../labkit/data/loader.py), about 60
# lines of it; torch's does the same. Here, making a sample takes 4 milliseconds. What will two workers change, and what
# not?
# %% id=w04a-workers
import multiprocessing
import sys
import time

import labkit


class Slow:
    """64 samples, each of which takes 4 milliseconds to make."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> int:
        time.sleep(0.004)
        return index


# On Windows, workers start from files and cannot see a class written in a notebook.
can_fork = "fork" in multiprocessing.get_all_start_methods()
seen, seconds = {}, {}
for workers in (0, 2 if can_fork else 0):
    loader = labkit.data.DataLoader(
        Slow(),
        batch_size=8,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
        generator=labkit.Generator().manual_seed(0),
    )
    start = time.perf_counter()
    seen[workers] = [batch.tolist() for batch in loader]
    seconds[workers] = time.perf_counter() - start
print("the same batches in the same order:", all(found == seen[0] for found in seen.values()))
print(
    {f"{n} workers": f"{s:.2f} s" for n, s in seconds.items()}, file=sys.stderr
)  # not stored: it differs each time


# %% [markdown] id=w04a-workers-after
# The batches are the same; the time is roughly halved. More workers help until something else is the bottleneck: the
# cores, the disk, or the starting of processes, which costs more than it brings for data that already lie in memory, as
# ours do.
#
# ## Exercise
#
# Back to the surprise. Copies of one photograph form a *group*, and a group must be on one side of the split as a
# whole. `groups` holds the group of each row. Hold out `round(share * number of groups)` groups, chosen at random with
# the seed, and return the indices of the rows of the two parts: training first.
#
# ```
# groups = [7, 7, 3, 5, 3, 9]   share = 0.25
# say group 3 is chosen   ->   train [0, 1, 3, 5], validation [2, 4]
# ```
#
# `groups.unique()` lists the groups; [`torch.isin`](https://docs.pytorch.org/docs/2.13/generated/torch.isin.html) says
# for each element whether it occurs in another tensor; a tensor of indices, such as `torch.arange(n)`, can be indexed
# with a mask.
# %% id=w04a-split role=exercise ex=w04.split
def group_split(groups: torch.Tensor, share: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of the training and of the validation part; no group is in both: (n,) -> (train,), (validation,)"""
    ### BEGIN SOLUTION
    kinds = groups.unique()
    order = torch.randperm(len(kinds), generator=torch.Generator().manual_seed(seed))
    chosen = kinds[order[: round(share * len(kinds))]]
    rows, held_out = torch.arange(len(groups)), torch.isin(groups, chosen)
    return rows[~held_out], rows[held_out]
    ### END SOLUTION


# %% id=w04a-split-check role=check ex=w04.split
check("w04.split", group_split)
# %% [markdown] id=w04a-split-after
# The same pictures, the same classifier, your split:
# %% id=w04a-split-run
train, validation = group_split(picture_number, 0.2, seed=0)
print("right on the validation part:", nearest_is_right(train, x[validation], y[validation]))
print("right on other clothes:      ", nearest_is_right(train, new_x, new_y))


# %% [markdown] id=w04a-parts-md
# Now the validation part tells the truth, within the luck of 100 photographs. Three parts are usual: *training* sets
# the weights, *validation* sets everything that you choose (when to stop, how large, which of five models), *test* is
# looked at once, at the end. Whatever you choose by looking at a part, that part can no longer judge. For series the
# order of time does the splitting: train on the past, validate on what came later; windows that overlap are copies,
# too.
#
# ## Exercise
#
# In week 3 you saw what standardized columns are worth: mean 0, deviation 1. Whose mean? Of the training part alone.
# The same two numbers per column are then used for every other row, in validation and years later. A model is going to
# be asked about one penguin at a time; it cannot ask for the mean of the others. A column that never varies is divided
# by 1.
#
# ```
# train = [[1.], [3.]]   other = [[5.]]
# mean 2, deviation √2   ->   [[-0.71], [0.71]],  [[2.12]]
# ```
# %% id=w04a-standardize role=exercise ex=w04.standardize
def standardize(train: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both parts, with the mean and deviation that the columns have in train: (n, f), (m, f) -> (n, f), (m, f)"""
    ### BEGIN SOLUTION
    mean, std = train.mean(dim=0), train.std(dim=0)
    std = torch.where(std == 0, 1.0, std)
    return (train - mean) / std, (other - mean) / std
    ### END SOLUTION


# %% id=w04a-standardize-check role=check ex=w04.standardize
check("w04.standardize", standardize)


# %% [markdown] id=w04a-augment-md
# ## Augmentation
#
# Copies made *before* the split were the trap. Made *after* it, and only in the training part, they help: a mirrored
# shoe is still a shoe, and the model sees more shoes. Such changes are drawn anew in every epoch, each picture on its
# own, from a generator with a seed. Here is one way to do it; the cell below shows eight pictures and what it makes of
# them.
# %% id=w04a-augment-fig
def flip_some(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each picture mirrored left to right with probability ½: (n, height, width) -> (n, height, width)"""
    chosen = torch.rand(len(images), generator=generator) < 0.5
    return torch.where(chosen[:, None, None], images.flip(2), images)


shoes = pictures[torch.isin(kinds, torch.tensor([5, 7, 9]))][:8]
flipped = flip_some(shoes, torch.Generator().manual_seed(0))
words = ["same" if torch.equal(old, new) else "mirrored" for old, new in zip(shoes, flipped, strict=True)]
viz.image_grid([*shoes, *flipped], titles=[f"shoe {i}" for i in range(8)] + words, columns=8)


# %% [markdown] id=w04a-augment-md2
# ## Exercise
#
# How does one test a function that does something else each time? By what must hold for every draw. The specification:
#
# - `flip(images, generator)`: images (n, height, width); the result has the same shape.
# - Each picture is mirrored left to right with probability ½, independently of the others. Nothing else happens to it.
# - All chance comes from `generator`: the same seed gives the same result. A second call with the *same generator* goes
#   on drawing, so it gives another result.
# - `images` is not changed.
#
# Write a test that takes an implementation and uses `assert`. It must accept right ones, however they draw, and catch
# eight wrong ones. With enough pictures, chance is no excuse: that 40 coins all fall on one side happens once in 500
# billion tests. `torch.equal(a, b)` compares two tensors; `torch.arange(480.0).reshape(40, 3, 4)` are 40 pictures with
# all values different.
# %% id=w04a-test role=exercise ex=w04.test_augment
### BEGIN SOLUTION
def test_flip(flip: Callable[[torch.Tensor, torch.Generator], torch.Tensor]) -> None:
    """Silent for a right `flip`, an AssertionError for a wrong one."""
    before = torch.arange(480.0).reshape(40, 3, 4)
    generator = torch.Generator().manual_seed(0)
    first, second = flip(before.clone(), generator), flip(before.clone(), generator)
    assert not torch.equal(first, second)

    mirrored = 0
    for old, new in zip(before, first, strict=True):
        assert torch.equal(new, old) or torch.equal(new, old.flip(1))
        mirrored += torch.equal(new, old.flip(1))
    assert mirrored not in (0, 40)

    images = before.clone()
    assert torch.equal(flip(images, torch.Generator().manual_seed(0)), first)
    assert torch.equal(images, before)


### STUB
# def test_flip(flip: Callable[[torch.Tensor, torch.Generator], torch.Tensor]) -> None:
#     """Silent for a right `flip`, an AssertionError for a wrong one."""
#     raise NotImplementedError("your code here")
### END SOLUTION
# %% id=w04a-test-check role=check ex=w04.test_augment
check("w04.test_augment", test_flip)
# %% [markdown] id=w04a-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | `Windows` | a subclass of [`torch.utils.data.Dataset`](https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.Dataset) |
# | `batches` | [`RandomSampler`](https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.RandomSampler) and [`BatchSampler`](https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.BatchSampler) |
# | `pad` | [`nn.utils.rnn.pad_sequence`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.pad_sequence.html), in a `collate_fn` |
# | `Loader` | [`DataLoader`](https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.DataLoader) |
# | `group_split` | nothing; `random_split` splits rows, and would bring the leak back |
# | `flip_some` | [`torchvision.transforms.v2.RandomHorizontalFlip`](https://docs.pytorch.org/vision/0.28/generated/torchvision.transforms.v2.RandomHorizontalFlip.html) |
#
# In torch's source: `torch/utils/data/sampler.py` reads in ten minutes; `dataloader.py` is the long one, because of the
# workers.
# %% [markdown] id=w04a-built
# ## What you built
#
# - A dataset is `len` and `[i]`; a loader is an order, a cut and a collate function.
# - The order follows from seed and epoch. Workers change the time, never the batches.
# - Padding needs the lengths beside it.
# - Groups stay on one side of a split; statistics come from the training part; augmentation comes after the split.
# - Random code is tested by what holds for every draw.
#
# The question people ask next: *how large should a batch be?* As small as keeps your machine busy, 32 to 256 for most
# things in this course. It acts together with the learning rate, and the next notebook has five loops to try it in.
#
# **Further reading.** torch's page on [torch.utils.data](https://docs.pytorch.org/docs/2.13/data.html), the part on
# workers and randomness · S. Kapoor and A. Narayanan, [Leakage and the reproducibility crisis in machine-learning-based
# science](https://doi.org/10.1016/j.patter.2023.100804), a catalog of leaks in published work.
# %% [markdown] id=w04a-instructor role=instructor
# **Goals.** Learners can write a dataset and a loader, say what makes an order repeatable, split grouped data, and test
# random code by its properties.
#
# **50 minutes.** 5 the surprise, with votes for the gap · 5 exercise {w04.dataset} on the board, the windows drawn · 10
# exercise {w04.batches} · 15 exercise {w04.loader} in pairs, with the question what `yield` does · 10 exercise
# {w04.split}, and where each learner's own data have groups · 5 the specification of exercise {w04.test_augment}, tests
# at home. Exercises {w04.pad} and {w04.standardize} are for home.
#
# **Misconceptions.** "The next value is `ahead = 0`" (1: one step too far). "Shuffled once is shuffled" (2: the same
# every epoch). "A global seed is enough" (2: anybody moves it on). "An iterator is an iterable" (4: one pass only). "A
# random split is a fair split" (5: rows, not groups). "The mean of all data is only a mean" (6: statistics of both).
# "Random code cannot be tested" (7).
#
# **To think about aloud.** Why is the epoch counted at the beginning of a pass? A `for` that ends in `break` never
# reaches the end. Why do workers not change the order? Batches are dealt to them in turn and collected in turn; a slow
# worker is waited for.
