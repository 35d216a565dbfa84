# %% [markdown] id=w04b-title
# # Week 4 · 02 Five loops
#
# In about 95 minutes you will write the training loop five times, each time from an empty cell, each time on other
# data: penguins, photographs, shelves with several things on them, sunspots, and a search for one rare garment. Every
# loop brings one new thing: a metric, an evaluation, a schedule, a checkpoint, a reason to stop. At the end all five
# stand in one picture.
# %% id=w04b-setup role=setup
import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

from labkit import check, datasets, viz

Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]
# One thread: for models this small more of them cost more than they bring, and with one the sums come out
# the same however many cores a machine has.
torch.set_num_threads(1)

# %% [markdown] id=w04b-surprise
# ## A surprise first
#
# Among 2,100 photographs of clothes 100 are shirts; a program has to find them. Below is a complete program. Guess how
# often it is right.
# %% id=w04b-surprise-code
clothes = datasets.fashion_mnist("train")
# float64, so that the curves below come out the same on every machine
pictures = torch.from_numpy(clothes.images).double()  # (10000, 28, 28)
kinds = torch.from_numpy(clothes.labels)
small = F.avg_pool2d(pictures[:, None], 2).flatten(1)  # (10000, 196): half the size, to be quick

mixed = torch.randperm(10_000, generator=torch.Generator().manual_seed(0))
shirts, others = mixed[kinds[mixed] == 6], mixed[kinds[mixed] != 6]
rows = torch.cat([shirts[:100], others[:2000]])
is_shirt = kinds[rows] == 6


def program(picture: torch.Tensor) -> bool:
    return False


answers = torch.tensor([program(picture) for picture in pictures[rows]])
print(
    f"right: {(answers == is_shirt).double().mean():.1%}, shirts found: {(answers & is_shirt).sum()} of 100"
)


# %% [markdown] id=w04b-surprise-after
# A number is only worth something beside what laziness gets, the *baseline*. And the number has to fit the question:
# "how often is it right" is *accuracy*, and for rare things it is the wrong question. Each loop below starts with its
# metric and its baseline.
#
# ## Loop 1 · Regression: how heavy is a penguin?
#
# ## Exercise
#
# For numbers, the lazy answer is the mean of the targets. R² says which share of *its* squared error you have removed:
#
# $$R^2 = 1 - \frac{\sum_i (p_i - y_i)^2}{\sum_i (y_i - \bar y)^2}$$
#
# Predictions [2, 4] for targets [1, 5]: errors 1 + 1 = 2, around the mean 4 + 4 = 8, so R² = 0.75.
# %% id=w04b-r2 role=exercise ex=w04.r2
def r2(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """1 minus the squared error over the squared error of the mean: (n,), (n,) -> ()"""
    ### BEGIN SOLUTION
    return 1 - ((prediction - target) ** 2).sum() / ((target - target.mean()) ** 2).sum()
    ### END SOLUTION


# %% id=w04b-r2-check role=check ex=w04.r2
check("w04.r2", r2)


# %% [markdown] id=w04b-epoch-md
# ## Exercise
#
# Now the loop. A model has two modes: in *training* mode dropout drops, in *eval* mode it does not. So first of all
# `model.train()`. Then, for every batch:
#
# 1. `optimizer.zero_grad()`: the gradients of the batch before are still there;
# 2. the loss, here the mean squared error. The model gives (n, 1), the targets are (n,): you know since week 1 what
#    happens otherwise;
# 3. `loss.backward()`;
# 4. `optimizer.step()`.
#
# Return the mean loss *per row* over the whole epoch. The last batch may be smaller, so a mean of the batch means is
# not it: with losses 1.0 for four rows and 4.0 for one row, the mean per row is 8 / 5 = 1.6, not 2.5. `loss.item()`
# takes the number out of the graph.
# %% id=w04b-epoch role=exercise ex=w04.epoch
def train_epoch(model: nn.Module, loader: Batches, optimizer: Optimizer) -> float:
    """One pass over the batches with the mean squared error, in training mode; returns the mean loss per row."""
    ### BEGIN SOLUTION
    model.train()
    total = count = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
        count += len(x)
    return total / count
    ### END SOLUTION


# %% id=w04b-epoch-check role=check ex=w04.epoch
check("w04.epoch", train_epoch)


# %% [markdown] id=w04b-regression-md
# Your loop on the penguins: 250 to learn from, 83 to be judged by, standardized with the statistics of the 250.
# Validation after every epoch, both curves drawn. Watch for three things in every such picture: whether the training
# loss falls, whether the validation score rises, and whether the two still agree at the end.
# %% id=w04b-regression
def batches_of(x: torch.Tensor, y: torch.Tensor, batch_size: int, seed: int = 0) -> DataLoader:
    """Shuffled batches; the order follows from the seed."""
    return DataLoader(
        TensorDataset(x, y), batch_size, shuffle=True, generator=torch.Generator().manual_seed(seed)
    )


penguins = datasets.penguins()
facts, mass = torch.from_numpy(penguins.inputs).double(), torch.from_numpy(penguins.target).double()
order = torch.randperm(len(mass), generator=torch.Generator().manual_seed(0))
train, validation = order[:250], order[250:]
facts = (facts - facts[train].mean(0)) / facts[train].std(0)
mass = (mass - mass[train].mean()) / mass[train].std()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 1)).double()
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
loader = batches_of(facts[train], mass[train], batch_size=10)
losses, scores = [], {}
scores["regression: R²"] = []
for _ in tqdm(range(12), desc="regression"):
    losses.append(train_epoch(model, loader, optimizer))
    with torch.no_grad():
        scores["regression: R²"].append(r2(model(facts[validation]).squeeze(1), mass[validation]).item())
viz.curves(
    {"training loss": losses, "validation R²": scores["regression: R²"]},
    xlabel="epoch",
    ylabel="loss, and R²",
    title="penguins",
)


# %% [markdown] id=w04b-predict-md
# ## Loop 2 · Many classes: what garment is this?
#
# ## Exercise
#
# For the penguins the evaluation was one line, because all of them fit in one batch and the model had no dropout. In
# general it is a loop of its own, and it must leave no trace:
#
# - eval mode, and afterward *the mode that was before*: `model.training` says which it is, `model.train(mode)` sets it;
# - no graph: inside `with torch.no_grad():` nothing is recorded, which takes less memory and time;
# - outputs and targets of all batches, each as one tensor: `torch.cat(list_of_tensors)`. Metrics are computed from
#   these, not batch by batch: the mean of the F1 of batches is not the F1.
# %% id=w04b-predict role=exercise ex=w04.predict
def predict(model: nn.Module, loader: Batches) -> tuple[torch.Tensor, torch.Tensor]:
    """The outputs of the model in eval mode and the targets, of all batches: (n, …), (n, …)"""
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    with torch.no_grad():
        pairs = [(model(x), y) for x, y in loader]
    model.train(was_training)
    outputs, targets = zip(*pairs, strict=True)
    return torch.cat(outputs), torch.cat(targets)
    ### END SOLUTION


# %% id=w04b-predict-check role=check ex=w04.predict
check("w04.predict", predict)
# %% [markdown] id=w04b-classes-md
# The second loop, on 4,000 photographs of ten kinds. Compare it with yours of exercise {w04.epoch} line by line: what
# is different? The baseline is one in ten. Before training, the loss should be ln 10 ≈ 2.3, as you predicted in week 3;
# that is worth checking every time.
# %% id=w04b-classes
train, validation = mixed[:4000], mixed[4000:5000]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)).double()
optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
loader = batches_of(pictures[train].flatten(1), kinds[train], batch_size=64)
held_out = batches_of(pictures[validation].flatten(1), kinds[validation], batch_size=200)
print(
    "loss at start within 10 % of ln 10:",
    abs(F.cross_entropy(*predict(model, held_out)) / 2.3026 - 1).item() < 0.1,
)

scores["images: accuracy"] = []
for _ in tqdm(range(12), desc="images"):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    outputs, targets = predict(model, held_out)
    scores["images: accuracy"].append((outputs.argmax(1) == targets).double().mean().item())
viz.curves(
    {"accuracy": scores["images: accuracy"]},
    xlabel="epoch",
    ylabel="validation accuracy",
    title="ten kinds of clothes",
)


# %% [markdown] id=w04b-f1-md
# ## Loop 3 · Several labels: what is on the shelf?
#
# Now three garments stand side by side in one picture, put together from the same photographs; each row below is such a
# picture. The question is which of the ten kinds are on it: ten answers of yes or no for each picture, one to three of
# them yes. That is a *multi-label* task.
# %% id=w04b-shelves
def shelves(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Three photographs to a picture: (3 n,) -> pictures (n, 588), labels (n, 10) of 0 and 1"""
    three = rows.reshape(-1, 3)
    labels = F.one_hot(kinds[three], 10).amax(1).double()
    return small[three].reshape(-1, 3, 14, 14).transpose(1, 2).flatten(1), labels


shelf, on_it = shelves(mixed[:6000])
new_shelf, on_new = shelves(mixed[6000:7500])
print(f"always saying no is right in {1 - on_new.mean():.0%} of all answers")
words = [clothes.classes[kind] for kind in kinds[mixed[:9]]]
viz.image_grid(small[mixed[:9]].reshape(-1, 14, 14), titles=words, columns=3)


# %% [markdown] id=w04b-f1-md2
# ## Exercise
#
# Again accuracy praises who never says yes. Count instead, for each label: *true positives* (said and true), *false
# positives* (said, not true), *false negatives* (true, not said).
#
# $$F_1 = \frac{2\,TP}{2\,TP + FP + FN}$$
#
# Who says nothing has no true positives, and F1 is 0. A label that is never said and never true gets 0, too. Return the
# mean of the F1 of all labels (the *macro* F1), so that rare labels count as much as frequent ones. `predicted` and
# `target` are bool; `&` is "and"; `.sum(dim=0)` counts down a column. The result is float64: `.double()`.
#
# ```
# predicted   target      label 0: TP 1, FP 1, FN 0 -> 2/3
#   1 1        1 0        label 1: TP 0, FP 1, FN 1 -> 0
#   1 0        0 1        mean 1/3
# ```
# %% id=w04b-f1 role=exercise ex=w04.f1
def f1(predicted: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The mean over the labels of 2 TP / (2 TP + FP + FN), 0 where a label never occurs: (n, labels) bool, twice -> ()"""
    ### BEGIN SOLUTION
    hits = (predicted & target).sum(dim=0).double()
    total = predicted.sum(dim=0) + target.sum(dim=0)
    return (2 * hits / total.clamp(min=1)).mean()
    ### END SOLUTION


# %% id=w04b-f1-check role=check ex=w04.f1
check("w04.f1", f1)


# %% [markdown] id=w04b-multilabel-md
# ## Exercise
#
# The third loop, whole: epochs outside, batches inside. Two things are new.
#
# **The loss.** Softmax would make the labels compete. Here each logit is a yes or no of its own: sigmoid and binary
# cross-entropy, both in [`F.binary_cross_entropy_with_logits(logits,
# targets)`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.binary_cross_entropy_with_logits.html),
# targets as floats of the same shape.
#
# **The schedule.** A `scheduler` changes the learning rate of its optimizer when you call `scheduler.step()`, after
# `optimizer.step()`. This one was made to be stepped once per *batch*. Nobody can see that from the object; if it is
# stepped once per epoch, the learning rate hardly moves.
#
# Training mode first, because somebody may have evaluated before. Return the mean loss per row of each epoch.
# %% id=w04b-multilabel role=exercise ex=w04.multilabel
def fit_labels(
    model: nn.Module, loader: Batches, optimizer: Optimizer, scheduler: LRScheduler, epochs: int
) -> list[float]:
    """Train on (n, features) and (n, labels) of 0 and 1; the schedule moves per batch. Returns the loss of each epoch."""
    ### BEGIN SOLUTION
    losses = []
    for _ in range(epochs):
        model.train()
        total = count = 0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item() * len(x)
            count += len(x)
        losses.append(total / count)
    return losses
    ### END SOLUTION


# %% id=w04b-multilabel-check role=check ex=w04.multilabel
check("w04.multilabel", fit_labels)
# %% [markdown] id=w04b-multilabel-md2
# Your loop on 2,000 shelves, one epoch per call so that the F1 can be taken in between. The learning rate falls along
# half a cosine: large steps at the start, small ones at the end.
# %% id=w04b-multilabel-run
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(588, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)).double()
loader = batches_of(shelf, on_it, batch_size=50)
held_out = batches_of(new_shelf, on_new, batch_size=250)
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12 * len(loader))
scores["shelves: F1"], rates = [], []
for _ in tqdm(range(12), desc="shelves"):
    rates.append(optimizer.param_groups[0]["lr"] / 0.003)
    fit_labels(model, loader, optimizer, scheduler, epochs=1)
    outputs, targets = predict(model, held_out)
    scores["shelves: F1"].append(f1(outputs > 0, targets > 0.5).item())
viz.curves(
    {"F1": scores["shelves: F1"], "learning rate": rates},
    xlabel="epoch",
    ylabel="share of its start, and F1",
    title="shelves",
)


# %% [markdown] id=w04b-resume-md
# ## Loop 4 · A sequence: sunspots in a year's time
#
# Given 48 months, how many sunspots will there be 12 months later? The model is a *recurrent network*, `nn.GRU`, which
# reads the months one by one and keeps 16 numbers in mind; you build it in week 6. Training takes longer here, so this
# is the loop that gets interrupted.
#
# ## Exercise
#
# A *checkpoint* is a file with everything that a run needs to go on. The test is strict: 2 epochs, stop, a new process,
# 2 more epochs must give the same weights as 4 epochs in one piece, *bit for bit*. So ask of every object: does it
# change during training?
#
# | what | out | in |
# |---|---|---|
# | weights, optimizer (Adam keeps two averages per weight), schedule | `x.state_dict()` | `x.load_state_dict(state)` |
# | the order of the batches: a generator | `generator.get_state()` | `generator.set_state(state)` |
# | dropout: torch's own chance | `torch.get_rng_state()` | `torch.set_rng_state(state)` |
# | how many epochs are done | an int | |
#
# [`torch.save(a_dict, path)`](https://docs.pytorch.org/docs/2.13/generated/torch.save.html) writes, `torch.load(path)`
# reads. `load` puts everything back in place and returns the number of epochs done.
# %% id=w04b-resume role=exercise ex=w04.resume
class Checkpoint:
    """Everything that a run needs to go on as if nothing had happened."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, scheduler: LRScheduler, generator: torch.Generator
    ) -> None:
        self.model, self.optimizer, self.scheduler, self.generator = model, optimizer, scheduler, generator

    def save(self, path: Path, epoch: int) -> None:
        """Write the state of the run after `epoch` epochs."""
        ### BEGIN SOLUTION
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "order": self.generator.get_state(),
            "chance": torch.get_rng_state(),
            "epoch": epoch,
        }
        torch.save(state, path)
        ### END SOLUTION

    def load(self, path: Path) -> int:
        """Put the stored state in place; returns how many epochs are done."""
        ### BEGIN SOLUTION
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.generator.set_state(state["order"])
        torch.set_rng_state(state["chance"])
        return state["epoch"]
        ### END SOLUTION


# %% id=w04b-resume-check role=check ex=w04.resume
check("w04.resume", Checkpoint)


# %% [markdown] id=w04b-sequence-md
# Now for real. The past, up to 1948, is for training, what came later for validation. The run below trains for 4
# epochs, saves, and is thrown away; a second one, made from another seed, loads the file and trains for 4 more. Beside
# it runs one that is never interrupted. The baseline is the last value of the window: next year will be like this
# month. It takes about 10 seconds.
# %% id=w04b-sequence
_, spots = datasets.sunspots()
series = torch.from_numpy(spots).double() / 100


def windows(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """48 months, and the value 12 months after the last of them: (n, 48, 1), (n,)"""
    count = len(part) - 48 - 12 + 1
    return part.unfold(0, 48, 1)[:count, :, None], part[48 + 12 - 1 :]


class Forecast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reads = nn.GRU(1, 16, batch_first=True)
        self.drops, self.says = nn.Dropout(0.1), nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.reads(x)  # (n, 48, 1) -> (n, 48, 16), one state per month
        return self.says(self.drops(states[:, -1])).squeeze(1)  # the last one -> (n,)


past, later = windows(series[:2400]), windows(series[2400:])


class Run:
    """A model with all that goes with it, from one seed."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = Forecast().double()
        self.loader = batches_of(*past, batch_size=64, seed=seed)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=5, gamma=0.3)
        self.checkpoint = Checkpoint(self.model, self.optimizer, self.scheduler, self.loader.generator)

    def train(self, epochs: int) -> list[float]:
        """The validation R² after each of some epochs."""
        found = []
        for _ in tqdm(range(epochs), desc="sunspots"):
            self.model.train()
            for x, y in self.loader:
                self.optimizer.zero_grad()
                F.mse_loss(self.model(x), y).backward()
                self.optimizer.step()
            self.scheduler.step()  # this schedule counts epochs
            found.append(r2(*predict(self.model, [later])).item())
        return found


in_one_piece = Run(seed=0)
scores["sunspots: R²"] = in_one_piece.train(8)

first = Run(seed=0)
halves = first.train(4)
with TemporaryDirectory() as folder:
    first.checkpoint.save(Path(folder) / "run.pt", epoch=4)
    second = Run(seed=1)
    done = second.checkpoint.load(Path(folder) / "run.pt")
halves += second.train(8 - done)

pairs = zip(in_one_piece.model.parameters(), second.model.parameters(), strict=True)
print("the same curve:", halves == scores["sunspots: R²"])
print("the same weights, bit for bit:", all(torch.equal(a, b) for a, b in pairs))
lazy = r2(later[0][:, -1, 0], later[1]).item()
print("better than the baseline:", scores["sunspots: R²"][-1] > lazy)
viz.curves(
    {"4 + 4 epochs": halves, "the lazy answer": [lazy] * 8},
    xlabel="epoch",
    ylabel="validation R²",
    title="sunspots, 12 months ahead",
)


# %% [markdown] id=w04b-auroc-md
# ## Loop 5 · One in twenty-one: find the shirts
#
# Back to the surprise. Rather than yes or no, let the model give a *score*, and ask: if you take one shirt and one
# other garment at random, how often has the shirt the higher score? That is the *AUROC* (area under the receiver
# operating characteristic, named after a curve that gives the same number). It needs no threshold, and its baseline is
# ½ however rare shirts are.
#
# ## Exercise
#
# Every positive meets every negative. Count 1 if its score is higher, ½ for a tie, 0 if it is lower; return the mean
# over all pairs, as float64. Without a loop: a column against a row is a table.
#
# ```
# scores [0.9, 0.4, 0.4, 0.1]   labels [True, True, False, False]
# 0.9 beats 0.4 and 0.1; 0.4 ties with 0.4 and beats 0.1:   (1 + 1 + ½ + 1) / 4 = 0.875
# ```
# %% id=w04b-auroc role=exercise ex=w04.auroc
def auroc(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """How often a positive scores higher than a negative, ties ½: (n,) floats, (n,) bool -> ()"""
    ### BEGIN SOLUTION
    difference = scores[labels][:, None] - scores[~labels]
    return (difference > 0).double().mean() + 0.5 * (difference == 0).double().mean()
    ### END SOLUTION


# %% id=w04b-auroc-check role=check ex=w04.auroc
check("w04.auroc", auroc)


# %% [markdown] id=w04b-patience-md
# ## Exercise
#
# With 100 shirts the model will soon know them by heart, and after that it gets worse on others. So stop when the
# validation score has not become better for `patience` epochs in a row, and *put the best weights back*. One trap:
# `model.state_dict()` holds the weights themselves. They go on changing; `copy.deepcopy(model.state_dict())` keeps
# them.
#
# The loop gets two functions: `train_once()` trains for one epoch, `validate()` returns the score, higher is better. At
# most `most` epochs. The best weights go back however the loop ends, and a score may be below 0, as R² is at first.
# Return all scores.
#
# ```
# patience 2, scores 0.5, 0.7, 0.6, 0.65: stop after four epochs, weights of the second
# a tie is not better
# ```
# %% id=w04b-patience role=exercise ex=w04.patience
def fit_with_patience(
    model: nn.Module,
    train_once: Callable[[], Any],
    validate: Callable[[], float],
    patience: int,
    most: int,
) -> list[float]:
    """Train until `patience` epochs in a row are not better than the best; leaves the best weights in the model."""
    ### BEGIN SOLUTION
    best, scores = float("-inf"), []
    for epoch in range(most):
        train_once()
        scores.append(validate())
        if scores[-1] > best:
            best, best_epoch, best_weights = scores[-1], epoch, copy.deepcopy(model.state_dict())
        elif epoch - best_epoch == patience:
            break
    model.load_state_dict(best_weights)
    return scores
    ### END SOLUTION


# %% id=w04b-patience-check role=check ex=w04.patience
check("w04.patience", fit_with_patience)


# %% [markdown] id=w04b-rare-md
# Your loop on the shirts, twice. The first time each photograph counts the same. The second time each shirt counts
# twenty times in the loss, `pos_weight=20`, so that both sides weigh alike. How many of 100 new shirts does each find,
# if you call everything with a positive score a shirt?
# %% id=w04b-rare
def two_kinds(shirts: torch.Tensor, others: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.cat([shirts, others])
    return small[rows], (kinds[rows] == 6).double()


held_out = batches_of(*two_kinds(shirts[100:200], others[2000:4000]), batch_size=300)


def search(weight: float) -> tuple[list[float], torch.Tensor, torch.Tensor]:
    """The validation AUROC of each epoch, and the final scores and labels."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(196, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1)).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    loader = batches_of(*two_kinds(shirts[:100], others[:2000]), batch_size=60)

    def train_once() -> None:
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            logits = model(x).squeeze(1)
            F.binary_cross_entropy_with_logits(logits, y, pos_weight=torch.tensor(weight)).backward()
            optimizer.step()

    def validate() -> float:
        outputs, labels = predict(model, held_out)
        return auroc(outputs.squeeze(1), labels > 0.5).item()

    found = fit_with_patience(model, train_once, validate, patience=4, most=60)
    outputs, labels = predict(model, held_out)
    return found, outputs.squeeze(1), labels > 0.5


for weight in tqdm((1.0, 20.0), desc="shirts"):
    scores["shirts: AUROC"], outputs, labels = search(weight)
    said = outputs > 0
    print(f"weight {weight:2.0f}: stopped after {len(scores['shirts: AUROC'])} epochs,", end=" ")
    print(f"calls {said.sum()} things shirts, and {(said & labels).sum()} of the 100 shirts are among them")
    print(f"           best AUROC above 0.9: {max(scores['shirts: AUROC']) > 0.9}")
# %% [markdown] id=w04b-rare-after
# Both rank about equally well; the AUROC says so. Yet the first finds next to nothing: with one in twenty-one its best
# guess is nearly always "no". Only its *threshold* is wrong, and the weight moved the threshold, at the price of many
# false alarms. When a rare class is never predicted, look at the scores before you look for a larger model.
#
# ## Milestone: one report
#
# Five tasks, five loops, your metrics, your evaluation, your checkpoint, your patience. One page:
# %% id=w04b-report
viz.curves(scores, xlabel="epoch", ylabel="validation score", title="five tasks, five loops")
# %% id=w04b-report-table
baselines = {
    "regression: R²": ("the mean", 0.0),
    "images: accuracy": ("one in ten", 0.1),
    "shelves: F1": ("always yes", f1(torch.ones_like(on_new) > 0, on_new > 0).item()),
    "sunspots: R²": ("the last value", lazy),
    "shirts: AUROC": ("a coin", 0.5),
}
print(f"{'task':18} {'lazy answer':15} beaten")
for task, (name, value) in baselines.items():
    print(f"{task:18} {name:15} {'yes' if max(scores[task]) > value else 'no'}")
# %% [markdown] id=w04b-report-after
# Five pages of code, and what differs? The data, the model, the loss, the metric. The rest was the same each time:
# mode, gradients away, loss, backward, step; evaluate without a trace; keep the best. Put those four things into
# arguments and you have one function that trains everything in this course. Write it now, in a cell of your own, and
# run one of the five with it.
#
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | `train_epoch`, `fit_labels` | nothing: torch leaves the loop to you, on purpose |
# | `predict` | `model.eval()` and [`torch.no_grad()`](https://docs.pytorch.org/docs/2.13/generated/torch.no_grad.html) or [`torch.inference_mode()`](https://docs.pytorch.org/docs/2.13/generated/torch.autograd.grad_mode.inference_mode.html) |
# | the schedule | [`torch.optim.lr_scheduler`](https://docs.pytorch.org/docs/2.13/optim.html#how-to-adjust-learning-rate) |
# | `Checkpoint` | [saving and loading](https://docs.pytorch.org/docs/2.13/notes/serialization.html); the dict is a convention, not a class |
# | a shirt counts twenty times | `pos_weight`; `weight` in [`F.cross_entropy`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.cross_entropy.html) |
# | `r2`, `f1`, `auroc` | not in torch; the packages torchmetrics and scikit-learn have them |
#
# In torch's source, `torch/optim/lr_scheduler.py` and `torch/optim/adam.py` are plain Python.
# %% [markdown] id=w04b-built
# ## What you built
#
# - A metric beside its baseline: R² and the mean, F1 and "always yes", AUROC and a coin.
# - The loop: `train()`, then for each batch `zero_grad`, loss, `backward`, `step`; the mean per row, not per batch.
# - An evaluation that leaves no trace: eval mode, no graph, mode put back, all batches in one tensor.
# - A checkpoint that goes on bit for bit: weights, optimizer, schedule, two sources of chance, the epoch.
# - Patience: stop when nothing gets better, and put a *copy* of the best weights back.
#
# The question people ask next: *my loss does not go down; what now?* That is the clinic. Before that, notebook 03 shows
# what torch's own loader can do.
#
# **Further reading.** T. Fawcett, [An introduction to ROC analysis](https://doi.org/10.1016/j.patrec.2005.10.010) · L.
# Prechelt, Early stopping, but when?, in *Neural Networks: Tricks of the Trade* · torch's note on
# [reproducibility](https://docs.pytorch.org/docs/2.13/notes/randomness.html).
# %% [markdown] id=w04b-instructor role=instructor
# **Goals.** Learners can write a training loop and an evaluation from memory, choose a metric and its baseline, and say
# what a checkpoint must hold.
#
# **50 minutes.** 5 the surprise · 15 exercise {w04.epoch} from an empty cell, then compared in pairs · 10 exercise
# {w04.predict}, with the question "what would be left behind?" · 10 the table of exercise {w04.resume}, filled in by
# the class before it is shown · 10 exercise {w04.patience}, the trap of the state dict on the board. Metrics and loop 3
# are for home; they take an hour.
#
# **Misconceptions.** "Accuracy is the score" (surprise, 4). "A mean of means is the mean" (2). "Evaluation cannot
# change the model" (3: left in eval mode, batch norm). "`no_grad` switches dropout off" (3: dropout still on). "The
# schedule knows what a step is" (5). "The weights are the run" (6: model only). "`state_dict` is a copy" (8: not a
# copy).
#
# **To think about aloud.** Why does the weight of 20 not change the AUROC much? The order of the scores stays, only
# their level moves. Why may a good R² on the sunspots still be of no use? The lazy answer is the yardstick, not 0.
