# %% [markdown] id=w04d-title
# # Week 4 · 04 Clinic
#
# In about 60 minutes you will learn the order in which experienced people look for the fault in a training run, and use
# it on five runs that are broken in the five most common ways. None of them stops with an error. Then you measure how
# far one step goes, a number that tells a sick run from a healthy one while it is still running.
# %% id=w04d-setup role=setup
import math

import torch
import torch.nn.functional as F
from torch import nn

from labkit import check, datasets, viz

# One thread: for models this small more of them cost more than they bring, and with one the sums come out
# the same however many cores a machine has.
torch.set_num_threads(1)
Loader = list[tuple[torch.Tensor, torch.Tensor]]

# %% [markdown] id=w04d-order-md
# ## The order
#
# When a run does not learn, the temptation is to change something and run it again. Look first, in this order; each
# step takes a minute and rules out everything before it.
#
# | | look at | what you should see | if not |
# |---|---|---|---|
# | 1 | **shapes** of input, output, target | what you would write on paper | week 1, clinic |
# | 2 | **loss at the start** | ln C for C classes; the variance for regression | wrong loss, wrong scale, softmax twice |
# | 3 | **one batch**, many steps | the loss goes to 0: it can be learned by heart | wrong gradient, wrong step, model too small |
# | 4 | **gradients** of every parameter | there, finite, none of them 0, of similar size | detached, dead, exploding |
# | 5 | **data**, as the model gets them | a person can tell the label | labels, order, scale, leak |
#
# Here is a healthy patient: 8 by 8 pictures of digits, a network with one hidden layer. Read the code once; the
# patients below are this one, with one thing broken.
# %% id=w04d-healthy
digits = datasets.digits()
# float64, so that the curves below come out the same on every machine
pictures = torch.from_numpy(digits.images).double().flatten(1)  # (1797, 64)
labels = torch.from_numpy(digits.labels)
x_train, y_train, x_new, y_new = pictures[:1000], labels[:1000], pictures[1000:], labels[1000:]


def network(drop: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Dropout(drop), nn.Linear(100, 10)).double()


def in_batches(x: torch.Tensor, y: torch.Tensor, size: int = 50) -> Loader:
    return list(zip(x.split(size), y.split(size), strict=True))


def share_right(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).double().mean().item()


model = network()
x, y = x_train[:16], y_train[:16]
print("1 shapes: ", tuple(x.shape), "->", tuple(model(x).shape), "against", tuple(y.shape))
start = F.cross_entropy(model(x_new), y_new).item()
print("2 loss at the start within 5 % of ln 10:", abs(start / math.log(10) - 1) < 0.05)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for _ in range(300):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
print("3 one batch learned by heart, loss below 0.02:", F.cross_entropy(model(x), y).item() < 0.02)
model = network()
F.cross_entropy(model(x), y).backward()
norms = {name: p.grad.norm().item() for name, p in model.named_parameters()}
print("4 every gradient finite and above 0:", all(0 < norm < math.inf for norm in norms.values()))
viz.image_grid(x[:8].reshape(-1, 8, 8), titles=[f"label {label}" for label in y[:8].tolist()])


# %% [markdown] id=w04d-zero-md
# ## Exercise
#
# The first patient starts better than any other, and ends worse than it began. Look at the curve, and remember what the
# gradients of one batch should have to do with those of the batch before.
# %% id=w04d-zero-symptom
def train_as_found(model: nn.Module, loader: Loader, epochs: int, lr: float) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model.train()
    losses = []
    for _ in range(epochs):
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


overshoots = train_as_found(network(), in_batches(x_train, y_train), epochs=4, lr=0.2)
viz.curves({"as found": overshoots, "ln 10": [math.log(10)] * len(overshoots)}, title="patient 1")
# %% [markdown] id=w04d-zero-menu
# Set `fault` to one of `"no zero_grad"`, `"learning rate too high"`, `"model too small"`, and mend the code.
# %% id=w04d-zero role=exercise ex=w04.no_zero
### BEGIN SOLUTION
fault = "no zero_grad"


def train(model: nn.Module, loader: Loader, epochs: int, lr: float) -> list[float]:
    """Gradient descent on the cross-entropy; returns the loss of every batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model.train()
    losses = []
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


### STUB
# fault = ...
#
#
# def train(model: nn.Module, loader: Loader, epochs: int, lr: float) -> list[float]:
#     """Gradient descent on the cross-entropy; returns the loss of every batch."""
#     optimizer = torch.optim.SGD(model.parameters(), lr=lr)
#     model.train()
#     losses = []
#     for _ in range(epochs):
#         for x, y in loader:
#             loss = F.cross_entropy(model(x), y)
#             loss.backward()
#             optimizer.step()
#             losses.append(loss.item())
#     return losses
### END SOLUTION
# %% id=w04d-zero-check role=check ex=w04.no_zero
check("w04.no_zero", train, fault=fault)
# %% id=w04d-zero-after
healthy = train(network(), in_batches(x_train, y_train), epochs=4, lr=0.2)
viz.curves({"as found": overshoots, "mended": healthy}, title="patient 1, before and after")
# %% [markdown] id=w04d-zero-after-md
# Without `zero_grad` each step repeats all steps before it, like a ball that never loses speed: it runs through the
# valley and up the other side. **Seen at step 3 or 4 of the order**: on one batch the loss swings instead of falling,
# and the norm of the gradient grows from step to step.


# %% [markdown] id=w04d-mode-md
# ## Exercise
#
# This patient has 100 pictures to learn from and a dropout of 0.5 against learning them by heart, with validation after
# every epoch. `modes` notes what dropout does at the beginning of each epoch.
# %% id=w04d-mode-symptom
def fit_as_found(
    model: nn.Module, loader: Loader, validation: tuple[torch.Tensor, torch.Tensor], epochs: int, lr: float
) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model.train()
    losses = []
    for _ in range(epochs):
        modes.append("on" if model.training else "off")
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            losses.append(F.cross_entropy(model(validation[0]), validation[1]).item())
    return losses


modes = []
fit_as_found(network(drop=0.5), in_batches(x_train[:100], y_train[:100]), (x_new, y_new), epochs=4, lr=0.5)
print("dropout:", modes)
# %% [markdown] id=w04d-mode-menu
# Set `fault` to one of `"eval mode left on"`, `"dropout too weak"`, `"no_grad left on"`, and mend the code.
# %% id=w04d-mode role=exercise ex=w04.eval_mode
### BEGIN SOLUTION
fault = "eval mode left on"


def fit(
    model: nn.Module, loader: Loader, validation: tuple[torch.Tensor, torch.Tensor], epochs: int, lr: float
) -> list[float]:
    """Train on the batches; returns the validation loss after each epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    losses = []
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            losses.append(F.cross_entropy(model(validation[0]), validation[1]).item())
    return losses


### STUB
# fault = ...
#
#
# def fit(
#     model: nn.Module, loader: Loader, validation: tuple[torch.Tensor, torch.Tensor], epochs: int, lr: float
# ) -> list[float]:
#     """Train on the batches; returns the validation loss after each epoch."""
#     optimizer = torch.optim.SGD(model.parameters(), lr=lr)
#     model.train()
#     losses = []
#     for _ in range(epochs):
#         for x, y in loader:
#             optimizer.zero_grad()
#             F.cross_entropy(model(x), y).backward()
#             optimizer.step()
#         model.eval()
#         with torch.no_grad():
#             losses.append(F.cross_entropy(model(validation[0]), validation[1]).item())
#     return losses
### END SOLUTION
# %% id=w04d-mode-check role=check ex=w04.eval_mode
check("w04.eval_mode", fit, fault=fault)
# %% [markdown] id=w04d-mode-after
# One epoch of dropout, then none: the run behaves as if nobody had asked for it, and nothing looks wrong from outside.
# No curve gives it away. **Seen at step 4, if you ask**: put `assert model.training` before the first batch of each
# epoch. Your `predict` of notebook 02 cannot cause it, because it puts the mode back.


# %% [markdown] id=w04d-shuffled-md
# ## Exercise
#
# This patient gets better and better on its training data, and stays at one in ten on new ones. More training makes it
# worse.
# %% id=w04d-shuffled-symptom
def batches_as_found(x: torch.Tensor, y: torch.Tensor, batch_size: int, seed: int) -> Loader:
    generator = torch.Generator().manual_seed(seed)
    x = x[torch.randperm(len(x), generator=generator)]
    y = y[torch.randperm(len(y), generator=generator)]
    return list(zip(x.split(batch_size), y.split(batch_size), strict=True))


model = network()
loader = batches_as_found(x_train[:200], y_train[:200], batch_size=50, seed=0)
learned = train(model, loader, epochs=400, lr=0.5)
seen_x, seen_y = (torch.cat(part) for part in zip(*loader, strict=True))
print(
    f"right on its own training data: {'nearly all' if share_right(model, seen_x, seen_y) > 0.95 else 'not many'}"
)
print(f"right on new data, below one in five: {share_right(model, x_new, y_new) < 0.2}")
# %% [markdown] id=w04d-shuffled-menu
# Steps 1 to 4 of the order find nothing here. Draw a batch with its labels, as in step 5, then set `fault` to one of
# `"labels shuffled against inputs"`, `"learning rate too low"`, `"classes out of balance"`, and mend the code: draw
# *one* order from the generator.
# %% id=w04d-shuffled role=exercise ex=w04.shuffled
### BEGIN SOLUTION
fault = "labels shuffled against inputs"


def batches(x: torch.Tensor, y: torch.Tensor, batch_size: int, seed: int) -> Loader:
    """Rows and their labels in a random order, in batches: (n, features), (n,)"""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    return list(zip(x[order].split(batch_size), y[order].split(batch_size), strict=True))


### STUB
# fault = ...
#
#
# def batches(x: torch.Tensor, y: torch.Tensor, batch_size: int, seed: int) -> Loader:
#     """Rows and their labels in a random order, in batches: (n, features), (n,)"""
#     generator = torch.Generator().manual_seed(seed)
#     x = x[torch.randperm(len(x), generator=generator)]
#     y = y[torch.randperm(len(y), generator=generator)]
#     return list(zip(x.split(batch_size), y.split(batch_size), strict=True))
### END SOLUTION
# %% id=w04d-shuffled-check role=check ex=w04.shuffled
check("w04.shuffled", batches, fault=fault)
# %% id=w04d-shuffled-after
wrong, right = (make(x_train, y_train, 4, seed=0)[0] for make in (batches_as_found, batches))
viz.image_grid(
    [*wrong[0].reshape(-1, 8, 8), *right[0].reshape(-1, 8, 8)],
    titles=[f"said {k}" for k in wrong[1].tolist()] + [f"mended {k}" for k in right[1].tolist()],
    columns=4,
)
# %% [markdown] id=w04d-shuffled-after-md
# A network can learn random labels by heart; a falling training loss proves only that it has room. The same fault comes
# in many clothes: two files sorted differently, a row dropped on one side, a join on the wrong column. **Seen at step
# 5**: look at pictures *with* labels, taken from the loader and not from the file.


# %% [markdown] id=w04d-leak-md
# ## Exercise
#
# Find the eights; only one row in 25 is one. So each rare row is repeated five times, as a simple way of giving it more
# weight. The judge is again the nearest neighbor: it finds nearly every eight of the validation part, and then it meets
# new data.
# %% id=w04d-leak-symptom
def prepare_as_found(
    labels: torch.Tensor, share: float, times: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    rare = torch.where(labels)[0]
    rows = torch.cat([torch.arange(len(labels)), rare.repeat(times - 1)])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
    held_out = round(share * len(rows))
    return rows[held_out:], rows[:held_out]


is_eight = labels == 8
few = torch.cat([torch.where(~is_eight)[0][:720], torch.where(is_eight)[0][:30]])  # 750 rows, 30 eights
noisy = pictures + 0.4 * torch.rand(
    pictures.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
)
later = torch.where(is_eight)[0][30:]


def eights_found(train: torch.Tensor, other: torch.Tensor) -> str:
    """Of the eights among some rows, the share whose nearest training row is an eight."""
    eights = other[is_eight[other]]
    nearest = torch.cdist(noisy[eights], noisy[train]).argmin(1)
    return f"{is_eight[train[nearest]].double().mean():.0%}"


parts = [few[part] for part in prepare_as_found(is_eight[few], share=0.3, times=5, seed=0)]
print("eights found in the validation part:", eights_found(parts[0], parts[1]))
print("eights found in new data:           ", eights_found(parts[0], later))
# %% [markdown] id=w04d-leak-menu
# Set `fault` to one of `"copies made before the split"`, `"validation part too small"`, `"not shuffled"`, and mend the
# code: hold out `round(share * n)` of the n *rows*; then every rare row of the training part occurs `times` times in
# it, all others once.
# %% id=w04d-leak role=exercise ex=w04.leak
### BEGIN SOLUTION
fault = "copies made before the split"


def prepare(labels: torch.Tensor, share: float, times: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Training rows, the rare ones (label True) `times` times, and validation rows: (n,) bool -> (train,), (validation,)"""
    rows = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    held_out = round(share * len(rows))
    train, validation = rows[held_out:], rows[:held_out]
    rare = train[labels[train]]
    return torch.cat([train, rare.repeat(times - 1)]), validation


### STUB
# fault = ...
#
#
# def prepare(labels: torch.Tensor, share: float, times: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
#     """Training rows, the rare ones (label True) `times` times, and validation rows: (n,) bool -> (train,), (validation,)"""
#     rare = torch.where(labels)[0]
#     rows = torch.cat([torch.arange(len(labels)), rare.repeat(times - 1)])
#     rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
#     held_out = round(share * len(rows))
#     return rows[held_out:], rows[:held_out]
### END SOLUTION
# %% id=w04d-leak-check role=check ex=w04.leak
check("w04.leak", prepare, fault=fault)
# %% id=w04d-leak-after
parts = [few[part] for part in prepare(is_eight[few], share=0.3, times=5, seed=0)]
print("eights found in the validation part:", eights_found(parts[0], parts[1]))
print("eights found in new data:           ", eights_found(parts[0], later))
# %% [markdown] id=w04d-leak-after-md
# The result got worse, and the program got better: as far as nine eights can tell, the two numbers now speak of the
# same thing. **Seen at step 5, by suspicion**: a result that is too good is a symptom. Ask of every step before the
# split whether it looked at more than one row: copies, as here; means and deviations; a choice of columns by how well
# they predict.


# %% [markdown] id=w04d-twice-md
# ## Exercise
#
# The last patient is not wrong, only tired: after four epochs it has hardly moved. The dashed line is the healthy run
# with the same learning rate. Compare the two at step 0, before anything was learned.
# %% id=w04d-twice-symptom
def slow_as_found(model: nn.Module, loader: Loader, epochs: int, lr: float) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model.train()
    losses = []
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) / len(x)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


crawls = slow_as_found(network(), in_batches(x_train, y_train), epochs=4, lr=0.2)
viz.curves({"as found": crawls, "healthy": healthy}, title="patient 5")
# %% [markdown] id=w04d-twice-menu
# Set `fault` to one of `"loss averaged twice"`, `"learning rate too low"`, `"vanishing gradients"`, and mend the code.
# %% id=w04d-twice role=exercise ex=w04.averaged_twice
### BEGIN SOLUTION
fault = "loss averaged twice"


def train_again(model: nn.Module, loader: Loader, epochs: int, lr: float) -> list[float]:
    """Gradient descent on the cross-entropy; returns the loss of every batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model.train()
    losses = []
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


### STUB
# fault = ...
#
#
# def train_again(model: nn.Module, loader: Loader, epochs: int, lr: float) -> list[float]:
#     """Gradient descent on the cross-entropy; returns the loss of every batch."""
#     optimizer = torch.optim.SGD(model.parameters(), lr=lr)
#     model.train()
#     losses = []
#     for _ in range(epochs):
#         for x, y in loader:
#             optimizer.zero_grad()
#             loss = F.cross_entropy(model(x), y) / len(x)
#             loss.backward()
#             optimizer.step()
#             losses.append(loss.item())
#     return losses
### END SOLUTION
# %% id=w04d-twice-check role=check ex=w04.averaged_twice
check("w04.averaged_twice", train_again, fault=fault)
# %% [markdown] id=w04d-twice-after
# The curve looks *better* than the healthy one: it starts at 0.05. That is the giveaway. **Seen at step 2**: ln 10 is
# 2.3, and no network knows anything before it has learned. The opposite mistake, a sum where a mean belongs, starts at
# 115 and explodes. Adam hides both, because it divides every gradient by its own size; weight decay and clipping then
# go wrong instead.


# %% [markdown] id=w04d-ratio-md
# ## Exercise
#
# A gradient norm alone says little: is 0.3 a lot? Compare what a step *changes* with what is *there*, for each layer:
#
# $$\text{update ratio} = \frac{\lVert w_\text{after} - w_\text{before} \rVert}{\lVert w_\text{before} \rVert}$$
#
# About 0.001 per step is a common healthy size. Much less, and the layer hardly learns; much more, and each batch
# overwrites what the last one taught. Below are the gradient norms and the update ratios of both layers over 20 steps,
# for the healthy run and for patient 5.
# %% id=w04d-ratio-fig
def one_epoch(lr: float, shrink: float = 1.0) -> dict[str, list[float]]:
    """20 steps with plain gradient descent: gradient norms and update ratios of the weights of both layers, per step."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    watched = {"first": model[0].weight, "last": model[3].weight}
    seen: dict[str, list[float]] = {f"{what}, {name}": [] for what in ("norm", "ratio") for name in watched}
    for x, y in in_batches(x_train, y_train):
        optimizer.zero_grad()
        (F.cross_entropy(model(x), y) * shrink).backward()
        before = {name: weight.detach().clone() for name, weight in watched.items()}
        optimizer.step()
        for name, weight in watched.items():
            seen[f"norm, {name}"].append(weight.grad.norm().item())
            seen[f"ratio, {name}"].append(((weight - before[name]).norm() / before[name].norm()).item())
    return seen


well, slow = one_epoch(0.1), one_epoch(0.1, shrink=1 / 50)
viz.curves(
    {
        "healthy, first": well["norm, first"],
        "healthy, last": well["norm, last"],
        "patient 5, first": slow["norm, first"],
        "patient 5, last": slow["norm, last"],
    },
    log="y",
    ylabel="gradient norm",
    title="gradient norms at rate 0.1",
)
# %% id=w04d-ratio-fig2
viz.curves(
    {
        "healthy, first": well["ratio, first"],
        "healthy, last": well["ratio, last"],
        "patient 5, first": slow["ratio, first"],
        "patient 5, last": slow["ratio, last"],
        "0.001": [0.001] * 20,
    },
    log="y",
    ylabel="update ratio",
    title="update ratios at rate 0.1",
)


# %% [markdown] id=w04d-ratio-md2
# So the healthy run takes rather long steps at a rate of 0.1, and patient 5 rather short ones. Measure: at which
# learning rate is the middle one (the median) of the 20 update ratios of the *last* layer 0.001? `middle_ratio` runs
# the experiment. Set `rate`, right to 5 %.
# %% id=w04d-ratio role=exercise ex=w04.update_ratio
def middle_ratio(lr: float) -> float:
    """The median update ratio of the last layer over one epoch of 20 steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    digits = datasets.digits()
    x, y = torch.from_numpy(digits.images[:1000]).double().flatten(1), torch.from_numpy(digits.labels[:1000])
    ratios = []
    for rows in torch.arange(1000).split(50):
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        before = model[2].weight.detach().clone()
        optimizer.step()
        ratios.append(((model[2].weight - before).norm() / before.norm()).item())
    return sorted(ratios)[10]


### BEGIN SOLUTION
rate = 0.01 * 0.001 / middle_ratio(0.01)  # the ratio grows in proportion to the rate
### STUB
# rate = ...
### END SOLUTION
# %% id=w04d-ratio-check role=check ex=w04.update_ratio
check("w04.update_ratio", rate)
# %% [markdown] id=w04d-ratio-after
# A thousandth is a rule of thumb for long runs with Adam-like optimizers, not a law: this small network trains well at
# 0.1, where its ratios are near 0.01, because it has only minutes to live. What the number is good for is comparison:
# layers with each other, today with yesterday, this run with the one that worked.
#
# ## The chart at the bedside
#
# | symptom | suspects, most common first |
# |---|---|
# | loss at the start is not ln C | averaged twice, summed, softmax twice, labels from 1 to C |
# | loss does not move | parameters not given to the optimizer, `zero_grad` after `backward`, rate too low, all units dead |
# | loss falls, then grows and swings | no `zero_grad`, rate too high |
# | loss is NaN | log of 0, division by a deviation of 0, rate far too high |
# | training good, validation bad | labels against inputs, dropout off, too few data, another scale in validation |
# | validation suspiciously good | copies or groups on both sides, statistics of all data, the answer is among the inputs |
# | validation noisy, changes from call to call | training mode in evaluation, augmentation in evaluation |
# | worse after a pause | checkpoint without optimizer or schedule |
# %% [markdown] id=w04d-built
# ## What you know now
#
# - The order: shapes, loss at the start, one batch, gradients, data. Change nothing before you have looked.
# - `zero_grad` for every batch; `train()` for every epoch; one order for inputs and labels; split before you copy; one
#   mean.
# - A falling training loss proves room, not learning. A validation result that is too good is a symptom.
# - A fault is named before it is mended, and one thing is changed at a time.
# - Update ratios compare a step with the weight it changes.
#
# The question people ask next: *my run is healthy and still only 85 % right; what now?* A model that knows what a
# picture is. Week 5 builds it.
#
# **Further reading.** A. Karpathy, [A recipe for training neural
# networks](http://karpathy.github.io/2019/04/25/recipe/) · C. Zhang and others, [Understanding deep learning requires
# rethinking generalization](https://arxiv.org/abs/1611.03530), networks that learn random labels · J. Howard and S.
# Gugger, *Deep Learning for Coders*, the chapter on the training process.
# %% [markdown] id=w04d-instructor role=instructor
# **Goals.** Learners follow the order before they change anything, recognize the five faults by their symptoms, and
# read a plot of update ratios.
#
# **50 minutes.** 5 the order, on the healthy patient · 30 the five patients in groups, one each: symptom, name, mend,
# and which step of the order would have found it; two minutes per group to present · 10 the two plots of exercise
# {w04.update_ratio} together, predictions first · 5 the chart, extended by what people have met.
#
# **Misconceptions.** "The rate was too high" (1: it hides the fault). "`no_grad` and `eval` are the same" (2). "The
# training loss falls, so it learns" (3). "Oversampling is part of cleaning the data" (4). "A lower loss is a better
# run" (5: it starts at 0.05). "The gradient norm has a right size" (6: compare with the weight).
#
# **To think about aloud.** Which of the five would a test have caught? 1, 3 and 5 by overfitting one batch with labels
# one knows; 2 by an assert on the mode; 4 only by asking whether a row is on both sides. Why does patient 3 get worse
# with more training? Its mistakes become more confident.
