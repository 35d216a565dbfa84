# %% [markdown] id=w04c-title
# # Week 4 · 03 In PyTorch
#
# In about 45 minutes you will know torch's own versions of what you built: the `DataLoader` and its options,
# torchvision's transforms, checkpoint files and what they may contain, logs that other programs can draw. And you will
# know which runs can be repeated exactly, and which cannot.
# %% id=w04c-setup role=setup
import multiprocessing
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from labkit import check, datasets, viz
from labkit.compat import torchvision

torchvision()  # loads it on any build of torch
from torchvision.transforms import v2

# %% [markdown] id=w04c-surprise
# ## A surprise first
#
# Two programs with the same seed. The second one makes a layer that nobody uses. Will the first batch be the same?
# %% id=w04c-surprise-code
rows = TensorDataset(torch.arange(8))

torch.manual_seed(0)
print("without:", [batch.tolist() for (batch,) in DataLoader(rows, batch_size=4, shuffle=True)])

torch.manual_seed(0)
nn.Linear(3, 3)
print("with:   ", [batch.tolist() for (batch,) in DataLoader(rows, batch_size=4, shuffle=True)])
# %% [markdown] id=w04c-surprise-after
# There is one global source of chance. First weights, dropout and the order of the data all draw from it, one after the
# other, and whoever draws moves it on for everybody. So a change in the model changes the order of the data, and two
# experiments differ in two things at once. The remedy is one argument: `DataLoader(...,
# generator=torch.Generator().manual_seed(0))`. You built that in notebook 01.
#
# ## The DataLoader
#
# | argument | what it does | default |
# |---|---|---|
# | `batch_size`, `drop_last` | your `batches` | 1, False |
# | `shuffle`, `sampler`, `batch_sampler` | who makes the order; `WeightedRandomSampler` brings rare rows more often | in order |
# | `generator` | where the order and the seeds of the workers come from | torch's global one |
# | `collate_fn` | your `pad`, or any other | stacks tensors, inside tuples and dicts too |
# | `num_workers` | processes that make batches; 0 is this process | 0 |
# | `prefetch_factor`, `persistent_workers` | batches each worker makes ahead; whether workers live on after an epoch | 2, False |
# | `pin_memory` | copies batches to page-locked memory, from which a GPU can fetch them while it computes; useless without one | False |
# | `worker_init_fn` | called in each worker at its start, for instance to open a file there | nothing |
#
# Here is `collate_fn` at work: names of unequal length, padded by torch's own
# [`pad_sequence`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.pad_sequence.html). And two workers,
# which change nothing but the time.
# %% id=w04c-loader
languages = datasets.names()


class Names(Dataset):
    """Names of two languages: sample i is the codes of its letters, and which language it is."""

    def __init__(self) -> None:
        self.pairs = [
            (name, kind) for kind, key in enumerate(("Finnish", "Irish")) for name in languages[key][:40]
        ]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        name, kind = self.pairs[index]
        time.sleep(0.002)  # as if it came from a disk
        return torch.tensor([ord(letter) for letter in name]), kind


def pad_names(samples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes (n, longest), lengths (n,), languages (n,)"""
    codes, kinds = zip(*samples, strict=True)
    padded = nn.utils.rnn.pad_sequence(codes, batch_first=True)
    return padded, torch.tensor([len(code) for code in codes]), torch.tensor(kinds)


can_fork = "fork" in multiprocessing.get_all_start_methods()  # else workers cannot see classes of a notebook
found, seconds = {}, {}
for workers in (0, 2 if can_fork else 0):
    loader = DataLoader(
        Names(),
        batch_size=16,
        shuffle=True,
        collate_fn=pad_names,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
        generator=torch.Generator().manual_seed(0),
    )
    start = time.perf_counter()
    found[workers] = list(loader)
    seconds[workers] = time.perf_counter() - start
codes, lengths, kinds = found[0][0]
print(
    "first batch:",
    tuple(codes.shape),
    "| longest name:",
    lengths.max().item(),
    "| Irish:",
    kinds.sum().item(),
)
pairs = [
    (a, b) for one, two in zip(found[0], found[workers], strict=True) for a, b in zip(one, two, strict=True)
]
print("the same batches with two workers:", all(torch.equal(a, b) for a, b in pairs))
print({f"{n} workers": f"{s:.2f} s" for n, s in seconds.items()}, file=sys.stderr)  # not stored
# %% [markdown] id=w04c-seeds-md
# ## Exercise
#
# All loaders are `DataLoader(data, batch_size=3, shuffle=True)` over 8 samples unless something else is said. "Seed"
# means `torch.manual_seed(0)`. Answer `True` or `False`, and a number for g; set `sure` to how many of the eight you
# expect to have right.
#
# | | |
# |---|---|
# {questions}
# %% id=w04c-seeds role=exercise ex=w04.seeds
### BEGIN SOLUTION
prediction = {"a": True, "b": False, "c": False, "d": True, "e": True, "f": False, "g": 3, "h": False}
sure = 7
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ..., "h": ...}
# sure = ...
### END SOLUTION
# %% id=w04c-seeds-check role=check ex=w04.seeds
check("w04.seeds", prediction, sure=sure)


# %% [markdown] id=w04c-transforms-md
# ## Transforms
#
# torchvision's [transforms v2](https://docs.pytorch.org/vision/0.28/transforms.html) turn a picture into another one,
# or into a tensor. `v2.Compose([...])` does several in turn. Usual order:
#
# 1. `v2.ToImage()`: an array (height, width) of bytes becomes an image tensor (1, height, width), channels first;
# 2. `v2.ToDtype(torch.float32, scale=True)`: bytes 0 … 255 become floats 0 … 1; without `scale` they become floats 0 …
#    255;
# 3. what is random, in training only: `v2.RandomHorizontalFlip(p)`, `v2.RandomCrop(28, padding=2)`,
#    `v2.RandomErasing()`, …
# 4. `v2.Normalize([mean], [std])`: one mean and one deviation per channel, from the training part.
#
# ## Exercise
#
# Return a transform with these steps; in training, pictures are mirrored left to right with probability ½. In
# evaluation there is no chance at all. A byte of 51 is 0.2; with mean 0.2 and deviation 0.5 it becomes 0.
# %% id=w04c-transforms role=exercise ex=w04.transforms
def pipeline(training: bool, mean: float, std: float) -> v2.Compose:
    """Bytes (height, width) -> float32 (1, height, width), normalized; mirrored with probability ½ if training."""
    ### BEGIN SOLUTION
    steps = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    if training:
        steps.append(v2.RandomHorizontalFlip(0.5))
    return v2.Compose([*steps, v2.Normalize([mean], [std])])
    ### END SOLUTION


# %% id=w04c-transforms-check role=check ex=w04.transforms
check("w04.transforms", pipeline)
# %% [markdown] id=w04c-transforms-after
# Where does a transform go? Into the dataset: `__getitem__` applies it, so workers do the work, and every epoch draws
# anew. Below, one shoe eight times, through a stronger pipeline. Look at such a picture before every long run: is each
# of these still a shoe for you?
#
# (torchvision also fetches data. The course ships a fifth of Fashion-MNIST; `datasets.fashion_mnist("train",
# full=True)` downloads all 60,000 through `torchvision.datasets.FashionMNIST`, once, and returns them in the same
# form.)
# %% id=w04c-transforms-fig
shoe = (datasets.fashion_mnist("test").images[0] * 255).astype("uint8")
strong = v2.Compose(
    [
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.RandomHorizontalFlip(0.5),
        v2.RandomCrop(28, padding=4),
        v2.RandomErasing(p=0.5, scale=(0.05, 0.15)),
    ]
)
torch.manual_seed(0)
viz.image_grid([strong(shoe) for _ in range(8)], titles=[f"draw {i}" for i in range(8)])
# %% [markdown] id=w04c-files-md
# ## Checkpoints
#
# `torch.save` writes Python's pickle format, and reading a pickle can run any code. Since torch 2.6 `torch.load`
# therefore reads with `weights_only=True`: tensors, numbers, strings, and dicts and lists of them. That is one reason
# to save `state_dict()` and not the model; the other is that a pickled model needs the same source files again. What is
# printed last?
# %% id=w04c-files
model = nn.Linear(3, 2)
with TemporaryDirectory() as folder:
    torch.save(model.state_dict(), Path(folder) / "weights.pt")
    torch.save(model, Path(folder) / "model.pt")
    print("state dict:", list(torch.load(Path(folder) / "weights.pt")))
    try:
        torch.load(Path(folder) / "model.pt")
    except Exception as error:
        print("whole model:", type(error).__name__)
# %% [markdown] id=w04c-files-after
# `torch.load(path, map_location="cpu")` reads on a laptop what was written on a GPU. For weights alone the format
# [safetensors](https://huggingface.co/docs/safetensors) is common: tensors and nothing else. `labkit.save` writes it,
# and never a pickle.
#
# ## Logs
#
# Long runs are watched while they run. *TensorBoard* is a web page that draws what a run has logged so far; torch
# writes its files with a [`SummaryWriter`](https://docs.pytorch.org/docs/2.13/tensorboard.html). One folder per run,
# and the page lays runs over each other:
#
# | call | what it logs |
# |---|---|
# | `writer.add_scalar("loss/train", loss, step)` | one number per step or epoch; what stands before the `/` groups the charts |
# | `writer.add_histogram("first/weight", weight, step)` | how the values of a tensor are spread |
# | `writer.add_image("batch/0", image, step)` | a picture (channels, height, width): look at the data *as the model gets them* |
#
# Below, two runs on the digits with two learning rates. The files are then read back, as the page does it.
# %% id=w04c-log
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

digits = datasets.digits()
x, y = torch.from_numpy(digits.images).double().flatten(1), torch.from_numpy(digits.labels)
read = {}
with TemporaryDirectory() as folder:
    for rate in (0.1, 2.0):
        torch.manual_seed(0)
        model = nn.Linear(64, 10).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        with SummaryWriter(Path(folder) / f"rate {rate}") as writer:  # `with` closes the file
            for step in range(40):
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                writer.add_scalar("loss/train", loss.item(), step)
    for run in sorted(Path(folder).iterdir()):
        events = EventAccumulator(str(run)).Reload()
        read[run.name] = [event.value for event in events.Scalars("loss/train")]
viz.curves(read, title="read back from two runs")
# %% [markdown] id=w04c-log-after
# For a run of your own write to a folder that stays: `SummaryWriter("runs/first try")`, which lies beside this
# notebook. Then open a terminal in the course folder; the page is at the address that this prints:
#
# ```
# .venv/bin/tensorboard --logdir weeks/week04_training/runs
# ```
#
# No TensorBoard at hand? One line of text per epoch, appended to a file and flushed, does most of it: every program can
# read it, also after a crash.
# %% [markdown] id=w04c-repeat-md
# ## Can a run be repeated?
#
# | what changes a run | what holds it still |
# |---|---|
# | first weights, dropout, global draws | `torch.manual_seed(0)`, which also seeds GPUs |
# | order of the data | a generator of the loader's own |
# | chance inside `__getitem__` | the same number of workers; or draw from (seed, epoch, index) |
# | Python's `random`, NumPy | `random.seed`, `numpy.random.default_rng(seed)`; torch seeds both in workers |
# | GPU kernels that add in any order | [`torch.use_deterministic_algorithms(True)`](https://docs.pytorch.org/docs/2.13/generated/torch.use_deterministic_algorithms.html): slower, or an error that names the operation |
# | another machine, another number of threads, another version of torch | nothing: sums are taken in another order |
#
# The last line is not a fault of torch's. Floats are rounded after every addition, so the order counts:
# %% id=w04c-repeat
print("(0.1 + 0.2) + 0.3 == 0.1 + (0.2 + 0.3):", (0.1 + 0.2) + 0.3 == 0.1 + (0.2 + 0.3))
# %% [markdown] id=w04c-repeat-after
# That is why this course never asks for a loss to five digits. Bit for bit on one machine, as in your checkpoint, is a
# fair demand; across machines ask for properties: the loss at the start, the baseline beaten, in four of five seeds.
#
# ## What torch does that ours does not
#
# - Workers hand tensors over through shared memory; labkit's send them through a pipe.
# - An `IterableDataset` streams data that has no index; each worker asks `get_worker_info()` which share is its own.
# - `DistributedSampler` gives each of many machines its part of the same order. You will need its `set_epoch` in week
#   10.
#
# To read: `torch/utils/data/_utils/collate.py`, then `worker.py` beside it.
# %% [markdown] id=w04c-built
# ## What you know now
#
# - A loader gets its own generator, or the model's chance becomes the data's chance.
# - Workers change the time, not the order; what samples draw *inside* themselves does depend on them.
# - Two pipelines: chance in training, none in evaluation; statistics of the training part in both.
# - Files hold state dicts. Whole models are pickles, and torch refuses to read them without being asked twice.
# - A log is written while the run goes on: one folder per run, one number per step, drawn by TensorBoard.
#
# The question people ask next: *which seed should I take?* Any, and then a few others. A result that holds for one seed
# only is an anecdote.
#
# **Further reading.** torch's notes on [reproducibility](https://docs.pytorch.org/docs/2.13/notes/randomness.html) and
# on [serialization](https://docs.pytorch.org/docs/2.13/notes/serialization.html) · [getting started with transforms
# v2](https://docs.pytorch.org/vision/0.28/auto_examples/transforms/plot_transforms_getting_started.html).
# %% [markdown] id=w04c-instructor role=instructor
# **Goals.** Learners can configure a DataLoader, write the two pipelines of an image task, save and load safely, and
# say what can be repeated.
#
# **50 minutes.** 5 the surprise, with votes · 10 the table of arguments, each tied to what was built in notebook 01 ·
# 15 exercise {w04.seeds} by show of hands, c and f longest · 10 exercise {w04.transforms} · 5 why a pickle is code · 5
# the last table, filled in from experience.
#
# **Misconceptions.** "One seed at the top is enough" (1c). "Workers shuffle differently" (1e). "More workers, more
# speed" (they start as processes, and data in memory need none). "`ToDtype` scales" (2: not scaled). "Augmentation
# helps evaluation, too" (2: augments in evaluation; averaging over several draws is another matter, and comes with the
# projects). "A checkpoint is the pickled model" (files).
#
# **To think about aloud.** In 1f, how would one make the numbers the same? Let each sample draw from its own generator,
# seeded by seed, epoch and index.
