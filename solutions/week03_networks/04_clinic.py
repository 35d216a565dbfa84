# %% [markdown] id=w03d-title
# # Week 3 · 04 Clinic
#
# In about 60 minutes you will treat three networks that train without an error message and learn nothing, or less than
# they could; find a learning rate by measuring; and write a test that catches eight broken optimizers. At the end your
# engine, your modules and your optimizer read handwritten digits.
# %% id=w03d-setup role=setup
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import labkit.mine
from labkit import check, datasets, viz

# %% [markdown] id=w03d-patients
# ## The first patient
#
# A hidden layer of 32 units looks at 1,797 handwritten digits, 64 pixels each, from 0 (paper) to 1 (ink). Its weights
# are made by the function below from uniform noise in [0, 1). How many of the 32 units will never be on? Decide, then
# run it.
# %% id=w03d-dead-symptom
digits = datasets.digits()
pixels = torch.from_numpy(digits.images).flatten(1)  # (1797, 64)
labels = torch.from_numpy(digits.labels)


def start_as_found(noise: torch.Tensor) -> torch.Tensor:
    """Weights from uniform noise, between -1 / sqrt(inputs) and 1 / sqrt(inputs)."""
    return (noise - 1) / math.sqrt(noise.shape[1])


noise = torch.rand(32, 64, generator=torch.Generator().manual_seed(0))
weight = start_as_found(noise).requires_grad_()
hidden = (pixels @ weight.T).clamp(min=0)
hidden.sum().backward()
print("units that are on for no image:", int((hidden == 0).all(0).sum()), "of 32")
print("largest gradient of a weight:", weight.grad.abs().max().item())


# %% [markdown] id=w03d-dead-md
# ## Exercise
#
# All of them are *dead*: off for every image. And the gradient of every weight is exactly 0, because the ReLU is flat
# where it is off. No optimizer, no learning rate, no amount of time will change these weights.
#
# Set `fault` to one of `"no bias"`, `"weights too small"`, `"weights all negative"`, and mend the function. With noise
# [[0., 0.25, 0.5, 0.75]] the weights are [[-0.5, -0.25, 0., 0.25]].
# %% id=w03d-dead role=exercise ex=w03.dead
### BEGIN SOLUTION
fault = "weights all negative"


def start(noise: torch.Tensor) -> torch.Tensor:
    """Uniform noise in [0, 1) to weights between ±1 / sqrt(inputs): (out, in) -> (out, in)"""
    return (2 * noise - 1) / math.sqrt(noise.shape[1])


### STUB
# fault = ...
#
#
# def start(noise: torch.Tensor) -> torch.Tensor:
#     """Uniform noise in [0, 1) to weights between ±1 / sqrt(inputs): (out, in) -> (out, in)"""
#     return (noise - 1) / math.sqrt(noise.shape[1])
### END SOLUTION
# %% id=w03d-dead-check role=check ex=w03.dead
check("w03.dead", start, fault=fault)
# %% id=w03d-dead-after
on = ((pixels @ start(noise).T) > 0).float().mean(0)
print("units that are on for no image:", int((on == 0).sum()), "of 32")
viz.histogram(on, bins=10, xlabel="share of images for which a unit is on", title="alive again")
# %% [markdown] id=w03d-dead-words
# A few may be dead from the start by bad luck; that is why layers are wider than they need to be. Units also die
# *during* training, when one large step drives a bias far below zero. You will see a whole network die of it in
# exercise {w03.rate}.


# %% [markdown] id=w03d-exploding-md
# ## The second patient
#
# A funnel of five layers, from 1,024 numbers down to 10 classes. The weights follow the rule of notebook 01, `std =
# sqrt(2 / fan_in)`; the author is sure of it. You ask for the loss at the start, as you learned to. What should it be?
# %% id=w03d-exploding-symptom
def scaled_as_found(noise: torch.Tensor) -> torch.Tensor:
    """Weights for a layer before a ReLU, from standard normal noise."""
    return noise * math.sqrt(2 / noise.shape[0])


def funnel(scaled: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
    """What comes out of each of five layers, the logits last, for 200 random inputs."""
    random = torch.Generator().manual_seed(0)
    sizes = [1024, 512, 128, 64, 32, 10]
    x, seen = torch.randn(200, 1024, generator=random, dtype=torch.float64), []
    for n_in, n_out in pairwise(sizes):
        weight = scaled(torch.randn(n_out, n_in, generator=random, dtype=torch.float64))
        x = x @ weight.T
        x = x if n_out == 10 else x.clamp(min=0)
        seen.append(x)
    return seen


some_labels = torch.arange(200) % 10
loss = F.cross_entropy(funnel(scaled_as_found)[-1], some_labels).item()
print(f"ln 10 is {math.log(10):.1f}; the loss at the start is {loss:.0f}")
# %% id=w03d-exploding-fig
viz.variance_by_depth({"as found": funnel(scaled_as_found)}, title="the funnel")


# %% [markdown] id=w03d-exploding-menu
# ## Exercise
#
# A loss far above ln C means logits that are far too large: the network is sure of itself before it has seen anything.
# Gradients are as large, and the first step may be the last.
#
# Set `fault` to one of `"too many layers"`, `"factor 2 too large"`, `"outputs counted for inputs"`, and mend the
# function. For noise of shape (2, 8) the factor is sqrt(2 / 8) = 0.5.
# %% id=w03d-exploding role=exercise ex=w03.exploding
### BEGIN SOLUTION
fault = "outputs counted for inputs"


def scaled(noise: torch.Tensor) -> torch.Tensor:
    """Standard normal noise to weights that keep the spread through a ReLU: (out, in) -> (out, in)"""
    return noise * math.sqrt(2 / noise.shape[1])


### STUB
# fault = ...
#
#
# def scaled(noise: torch.Tensor) -> torch.Tensor:
#     """Standard normal noise to weights that keep the spread through a ReLU: (out, in) -> (out, in)"""
#     return noise * math.sqrt(2 / noise.shape[0])
### END SOLUTION
# %% id=w03d-exploding-check role=check ex=w03.exploding
check("w03.exploding", scaled, fault=fault)
# %% id=w03d-exploding-after
loss = F.cross_entropy(funnel(scaled)[-1], some_labels).item()
print("loss at the start between ln 10 and 2 ln 10:", math.log(10) < loss < 2 * math.log(10))


# %% [markdown] id=w03d-unregistered-md
# Not exactly ln 10: the last layer has no ReLU after it, so its factor 2 is one too many. Many models make their last
# layer smaller for this reason.
#
# ## The third patient
#
# A network with as many hidden layers as you ask for. It trains, its loss falls, and it is beaten by networks half its
# size. Which parameters will be listed?
# %% id=w03d-unregistered-symptom
class StackAsFound(nn.Module):
    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        pairs = pairwise(sizes[:-1])
        self.hidden = [nn.Linear(n_in, n_out) for n_in, n_out in pairs]
        self.out = nn.Linear(sizes[-2], sizes[-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.hidden:
            x = layer(x).relu()
        return self.out(x)


found = StackAsFound([64, 32, 16, 10])
optimizer = torch.optim.SGD(found.parameters(), lr=0.1)
before = found.hidden[0].weight.clone()
for _ in range(100):
    optimizer.zero_grad()
    F.cross_entropy(found(pixels), labels).backward()
    optimizer.step()
print([name for name, _ in found.named_parameters()])
print("first layer after 100 steps as it was:", torch.equal(found.hidden[0].weight, before))


# %% [markdown] id=w03d-unregistered-menu
# ## Exercise
#
# The hidden layers compute, but the optimizer has never heard of them; only the last layer learns, on top of random
# features. They would not be saved either, nor moved to a GPU.
#
# Set `fault` to one of `"zero_grad missing"`, `"layers in a plain list"`, `"learning rate too low"`, and mend the
# class.
# %% id=w03d-unregistered role=exercise ex=w03.unregistered
### BEGIN SOLUTION
fault = "layers in a plain list"


class Stack(nn.Module):
    """Linear layers with ReLU between them: sizes [in, hidden, ..., out]; (n, in) -> (n, out)"""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        pairs = pairwise(sizes[:-1])
        self.hidden = nn.ModuleList([nn.Linear(n_in, n_out) for n_in, n_out in pairs])
        self.out = nn.Linear(sizes[-2], sizes[-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.hidden:
            x = layer(x).relu()
        return self.out(x)


### STUB
# fault = ...
#
#
# class Stack(nn.Module):
#     """Linear layers with ReLU between them: sizes [in, hidden, ..., out]; (n, in) -> (n, out)"""
#
#     def __init__(self, sizes: list[int]) -> None:
#         super().__init__()
#         pairs = pairwise(sizes[:-1])
#         self.hidden = [nn.Linear(n_in, n_out) for n_in, n_out in pairs]
#         self.out = nn.Linear(sizes[-2], sizes[-1])
#
#     def forward(self, x: torch.Tensor) -> torch.Tensor:
#         for layer in self.hidden:
#             x = layer(x).relu()
#         return self.out(x)
### END SOLUTION
# %% id=w03d-unregistered-check role=check ex=w03.unregistered
check("w03.unregistered", Stack, fault=fault)


# %% [markdown] id=w03d-rate-md
# ## Exercise
#
# One question is asked of every new network: which learning rate? The *range test* answers it in 80 steps. Start with a
# tiny rate, make it a little larger at every step, and write down the loss. First nothing happens, then the loss falls,
# then it turns around and flies off.
# %% id=w03d-rate-fig
def small_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).double()


def batches(count: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randint(len(pixels), (128,), generator=random) for _ in range(count)]


def range_test(rates: np.ndarray) -> list[float]:
    """The loss before each step of a run in which every step has a larger learning rate."""
    model, seen = small_network(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for rate, rows in zip(rates, batches(len(rates)), strict=True):
        loss = F.cross_entropy(model(pixels[rows].double()), labels[rows])
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


rates = np.geomspace(1e-4, 10, 80)
viz.lr_range(rates, range_test(rates), title="learning-rate range test, SGD on digits")
# %% [markdown] id=w03d-rate-md2
# The lowest point is not the answer: there the falling is over. Take a rate on the falling part, 3 to 10 times below
# the lowest point. Set `rate` to the learning rate you would train this network with.
# %% id=w03d-rate role=exercise ex=w03.rate
### BEGIN SOLUTION
rate = 0.3
### STUB
# rate = ...
### END SOLUTION
# %% id=w03d-rate-check role=check ex=w03.rate
check("w03.rate", rate)


# %% [markdown] id=w03d-rate-after
# Your rate beside 0.003 and 3. Look where the last one stays: near 2.3, which is ln 10. The first large steps killed
# every ReLU, and a dead network says the same to every image.
# %% id=w03d-rate-three
def run(rate: float, steps: int = 60) -> list[float]:
    model, seen = small_network(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for rows in batches(steps):
        loss = F.cross_entropy(model(pixels[rows].double()), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


viz.curves({"0.003": run(0.003), "yours": run(rate), "3": run(3.0)}, title="three learning rates")


# %% [markdown] id=w03d-test-md
# ## Exercise
#
# An optimizer can be wrong in ways that only cost you accuracy, and nobody notices for months. The specification of
# notebook 02:
#
# - `SGD(parameters, lr, momentum=0.0, weight_decay=0.0)`; `parameters` is a list of tensors, each with a `.grad` when
#   `step()` is called.
# - One `step()`: g = grad + weight_decay · p, then v = momentum · v + g, then p = p − lr · v. v starts at 0, and every
#   parameter has its own.
# - `.grad` is not changed.
#
# Write a test that takes an implementation and uses `assert`. It is run on right ones, written in different ways, and
# on eight wrong ones. To set the scene:
#
# ```
# p = torch.tensor([1.0]); p.grad = torch.tensor([2.0])
# optimizer = SGD([p], lr=0.1, momentum=0.5)
# optimizer.step()                                   # p is now 0.8
# ```
#
# How many steps does it take to see a velocity? How many parameters?
# %% id=w03d-test role=exercise ex=w03.test_sgd
### BEGIN SOLUTION
def test_sgd(SGD: Callable[..., Any]) -> None:
    """Silent for a right SGD, an AssertionError for a wrong one."""
    p, q = torch.tensor([1.0]), torch.tensor([5.0])
    p.grad, q.grad = torch.tensor([2.0]), torch.tensor([-1.0])
    optimizer = SGD([p, q], lr=0.1, momentum=0.5)
    for expected in [[0.8, 5.1], [0.5, 5.25], [0.15, 5.425]]:  # v: 2, 3, 3.5 and -1, -1.5, -1.75
        optimizer.step()
        assert torch.allclose(torch.cat([p, q]), torch.tensor(expected))

    w = torch.tensor([4.0])
    w.grad = torch.tensor([2.0])
    SGD([w], lr=0.1, weight_decay=0.5).step()
    assert torch.allclose(w, torch.tensor([3.6]))  # g = 2 + 0.5 * 4
    assert torch.equal(w.grad, torch.tensor([2.0]))


### STUB
# def test_sgd(SGD: Callable[..., Any]) -> None:
#     """Silent for a right SGD, an AssertionError for a wrong one."""
#     raise NotImplementedError("your code here")
### END SOLUTION
# %% id=w03d-test-check role=check ex=w03.test_sgd
check("w03.test_sgd", test_sgd)
# %% [markdown] id=w03d-milestone-md
# ## Milestone: handwritten digits, read by your own code
#
# No torch from here on. `labkit.mine` brings back your answers: the engine of week 2, the modules and optimizers of
# this week. Where an answer of yours does not pass yet, the reference stands in, and you are told which parts are
# yours.
# %% id=w03d-mine
engine = labkit.mine.of("tensor_autograd")
parts = labkit.mine.of("modules_and_optimizers")
digits = datasets.digits()
print(engine)
print(parts)


# %% [markdown] id=w03d-adapter-md
# Your engine has no transpose, and your `Linear` asks for one. In the form of week 2 an operation is a value and a way
# back: two lines. And a parameter is a tensor that says so.
# %% id=w03d-adapter
def transpose(x: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], tuple[np.ndarray]]]:
    return x.T, lambda g: (g.T,)


class Parameter(engine.Tensor):
    """A tensor of your engine that is to be trained."""

    requires_grad = True

    @property
    def T(self) -> Any:
        return engine.Tensor.record(transpose, self)


def cross_entropy(logits: Any, labels: np.ndarray) -> Any:
    """Notebook 01's loss in your engine's words: log sum exp minus the label's logit, averaged."""
    n = len(labels)
    return (logits.logsumexp(1) - logits[np.arange(n), labels]).sum() / n


# %% [markdown] id=w03d-train-md
# 64 pixels, 64 hidden units, 10 classes. The learning rate warms up and cools down, the gradients are clipped, AdamW
# takes the steps. 1,437 images are for training; the other 360 are not looked at until the end. Five runs, each with
# its own split and its own start, a few seconds in all.
# %% id=w03d-train
def train(seed: int, epochs: int = 15, batch: int = 64, peak: float = 0.01) -> tuple[Any, np.ndarray]:
    """A trained network, and which images it has not seen."""
    rng = np.random.default_rng(seed)
    x, y = digits.images.reshape(-1, 64).astype(np.float64), digits.labels
    order = rng.permutation(len(y))
    seen, unseen = order[:1437], order[1437:]
    model = parts.Sequential(
        parts.Linear(64, 64, rng, make=Parameter), parts.ReLU(), parts.Linear(64, 10, rng, make=Parameter)
    )
    optimizer = parts.AdamW(model.parameters(), lr=peak)
    total, step = epochs * math.ceil(len(seen) / batch), 0
    for _ in range(epochs):
        shuffled = rng.permutation(seen)
        for first in range(0, len(seen), batch):
            rows = shuffled[first : first + batch]
            loss = cross_entropy(model(engine.Tensor(x[rows])), y[rows])
            optimizer.zero_grad()
            loss.backward()
            parts.clip(optimizer.parameters, max_norm=1.0)
            optimizer.lr = parts.learning_rate(step, peak, warmup=total // 10, total=total)
            optimizer.step()
            step += 1
    return model, unseen


def read(model: Any, rows: np.ndarray) -> np.ndarray:
    """The digit that a network sees in each of some images."""
    return model(engine.Tensor(digits.images[rows].reshape(-1, 64))).data.argmax(1)


runs = [train(seed) for seed in range(5)]
for seed, (model, unseen) in enumerate(runs):
    share = np.mean(read(model, unseen) == digits.labels[unseen])
    print(f"seed {seed}: {'at least 95 %' if share >= 0.95 else 'below 95 %'}")
# %% [markdown] id=w03d-picture-md
# Sixteen images that the first network had not seen, with what it reads in each. Below, what it gets wrong. Say for
# each whether you would have known.
# %% id=w03d-picture
model, unseen = runs[0]
guesses, truth = read(model, unseen), digits.labels[unseen]
viz.image_grid(
    digits.images[unseen[:16]], [str(guess) for guess in guesses[:16]], title="read by your own engine"
)
# %% id=w03d-picture-wrong
wrong = unseen[guesses != truth][:8]
titles = [f"{digits.labels[i]} → {guess}" for i, guess in zip(wrong, read(model, wrong), strict=True)]
viz.image_grid(digits.images[wrong], titles, title="what it got wrong: what is meant → what it reads")
# %% [markdown] id=w03d-built
# ## What you know now
#
# - A dead ReLU has gradient 0: look at how often each unit is on, before training and after.
# - A loss at the start far from ln C is a fault; look for the layer where the spread changes.
# - fan_in is the number of columns. Square layers hide the difference.
# - What is not registered is not trained, not saved, not moved: count the parameters.
# - A learning rate is measured, not guessed; too high can look like "learns nothing", at exactly ln C.
#
# And you have a library: tensors with gradients, layers, losses, optimizers, schedules. It reads handwriting, and there
# is no line in it that you could not explain.
#
# The question people ask next: *my network is right; what about everything around it?* Data, splits, batches,
# validation, checkpoints: the training loop, five times, is week 4.
#
# **Further reading.** L. Smith, [Cyclical learning rates](https://arxiv.org/abs/1506.01186), section 3.3, the range
# test · A. Karpathy, [A recipe for training neural networks](https://karpathy.github.io/2019/04/25/recipe/) · L. Lu and
# others, [Dying ReLU and initialization](https://arxiv.org/abs/1903.06733).
# %% [markdown] id=w03d-instructor role=instructor
# **Goals.** Learners can tell a dead from an exploding network by two measurements, find layers that are not trained,
# choose a learning rate from a curve, and test an optimizer.
#
# **50 minutes.** 10 exercise {w03.dead}, the zero gradient discussed · 10 exercise {w03.exploding}, ln 10 asked for
# before the number is shown · 5 exercise {w03.unregistered} by show of hands · 10 exercise {w03.rate}, everybody names
# a rate first · 10 the milestone, run together · 5 what it got wrong. Exercise {w03.test_sgd} is for home, or for a
# second hour: collect the cases on the board, one column per bug.
#
# **Misconceptions.** "It will recover if I train longer" (1). "fan_in is the first axis" (2). "If the loss falls,
# everything learns" (3). "The best learning rate is where the loss is lowest" (4). "A loss that stays at 2.3 means too
# low a rate" (4: here it was too high). "One step is a test" (5).
#
# **To think about aloud.** Why does the mended funnel start above ln 10? The logits have spread √2 because the last
# layer's factor 2 has no ReLU to make up for. Why is a square weight a bad test of exercise {w03.exploding}? Both axes
# have the same size.
