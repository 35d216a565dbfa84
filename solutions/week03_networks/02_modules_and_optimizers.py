# %% [markdown] id=w03b-title
# # Week 3 · 02 Modules and optimizers
#
# In about 80 minutes you will write the two halves of every PyTorch program: modules, which know their parameters, and
# optimizers, which move them. Both use torch's names and layout, so weights pass both ways; and both touch so little of
# torch that in the clinic they will drive the engine you wrote in week 2.
# %% id=w03b-setup role=setup
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from labkit import check, viz

# %% [markdown] id=w03b-surprise
# ## A surprise first
#
# A module of torch with four attributes. Nobody tells it which of them are to be trained. Which names will it list?
# Decide before you run the cell.
# %% id=w03b-surprise-code
surprise = torch.nn.Module()
surprise.weight = torch.nn.Parameter(torch.zeros(2, 3))
surprise.mean = torch.zeros(3)
surprise.rate = 0.1
surprise.layer = torch.nn.Linear(3, 1)
print([name for name, _ in surprise.named_parameters()])


# %% [markdown] id=w03b-module-md
# It knew, and it made dotted names like the path of a file. The whole trick is one method: Python calls
# `__setattr__(name, value)` for every assignment `self.name = value`, and a module looks at what it is given.
#
# ## Exercise
#
# Fill in three methods; the rest is given.
#
# - `__setattr__` puts a `Module` into `self._modules` and a parameter into `self._parameters`, under its name. A
#   parameter is a tensor that wants a gradient: `getattr(value, "requires_grad", False)`. Then it sets the attribute as
#   usual, for any value, with `super().__setattr__(name, value)`.
# - `named_parameters` yields (name, parameter), its own first, then those of each child with the child's name and a dot
#   in front: `weight`, `layer.weight`, `layer.bias`. `prefix` is what stands in front of all of them. `yield from`
#   passes on what a child yields.
# - `train` sets `self.training` here and in everything below, and returns `self`.
# %% id=w03b-module role=exercise ex=w03.module
class Module:
    """Remembers the parameters and modules that are assigned to it, by name and in order."""

    def __init__(self) -> None:
        self.__dict__.update(_parameters={}, _modules={}, training=True)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; keep parameters and modules in their dicts as well."""
        ### BEGIN SOLUTION
        if isinstance(value, Module):
            self._modules[name] = value
        elif getattr(value, "requires_grad", False):
            self._parameters[name] = value
        super().__setattr__(name, value)
        ### END SOLUTION

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """(name, parameter): the own ones, then the children's as "child.name"."""
        ### BEGIN SOLUTION
        for name, value in self._parameters.items():
            yield prefix + name, value
        for name, child in self._modules.items():
            yield from child.named_parameters(f"{prefix}{name}.")
        ### END SOLUTION

    def train(self, mode: bool = True) -> "Module":
        """Set `training` to `mode` in this module and in all below it; return self."""
        ### BEGIN SOLUTION
        self.training = mode
        for child in self._modules.values():
            child.train(mode)
        return self
        ### END SOLUTION

    def eval(self) -> "Module":
        return self.train(False)

    def parameters(self) -> list[Any]:
        return [value for _, value in self.named_parameters()]

    def state_dict(self) -> dict[str, Any]:
        return {name: value.data for name, value in self.named_parameters()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in self.named_parameters():
            value.data[...] = state[name]

    def __call__(self, *inputs: Any) -> Any:
        return self.forward(*inputs)


# %% id=w03b-module-check role=check ex=w03.module
check("w03.module", Module)
# %% [markdown] id=w03b-module-after
# Everything else is one line on top of `named_parameters`: the list of parameters for an optimizer, the *state dict*
# that is saved to a file, and loading it. Look at them again in the cell above; they were given, and now they work.


# %% [markdown] id=w03b-linear-md
# ## Exercise
#
# `Linear(n_in, n_out, rng)` computes `x @ weight.T + bias`. As in torch, the weight has shape (n_out, n_in), and weight
# and bias start uniform between -bound and bound with bound = 1 / √n_in. Draw them in this order, weight first, with
# `rng.uniform(low, high, shape)`. That gives a NumPy array; `make` turns it into a parameter of the engine in use, here
# torch.
#
# Below it stand two modules that need no parameters of their own: `ReLU`, and `Sequential`, whose children are named
# "0", "1", "2".
# %% id=w03b-linear role=exercise ex=w03.linear
def parameter(array: np.ndarray) -> torch.Tensor:
    """Numbers as a torch tensor that wants a gradient."""
    return torch.tensor(array, requires_grad=True)


class Linear(Module):
    """x (..., n_in) -> x @ weight.T + bias (..., n_out), weight (n_out, n_in), bias (n_out,)"""

    def __init__(
        self, n_in: int, n_out: int, rng: np.random.Generator, make: Callable[[np.ndarray], Any] = parameter
    ) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        bound = 1 / math.sqrt(n_in)
        self.weight = make(rng.uniform(-bound, bound, (n_out, n_in)))
        self.bias = make(rng.uniform(-bound, bound, n_out))
        ### END SOLUTION

    def forward(self, x: Any) -> Any:
        ### BEGIN SOLUTION
        return x @ self.weight.T + self.bias
        ### END SOLUTION


class ReLU(Module):
    """Keeps what is positive; 0 elsewhere."""

    def forward(self, x: Any) -> Any:
        return x.relu()


class Sequential(Module):
    """One module after another; they are named "0", "1", ..."""

    def __init__(self, *modules: Module) -> None:
        super().__init__()
        for i, module in enumerate(modules):
            setattr(self, str(i), module)

    def forward(self, x: Any) -> Any:
        for module in self._modules.values():
            x = module(x)
        return x


# %% id=w03b-linear-check role=check ex=w03.linear
check("w03.linear", Linear)
# %% [markdown] id=w03b-linear-after
# A network of yours, one of torch's with the same layers, and your state dict loaded into it. If names, shapes or order
# differed, torch would refuse; if the arithmetic differed, the outputs would.
# %% id=w03b-roundtrip
rng = np.random.default_rng(0)
yours = Sequential(Linear(4, 6, rng), ReLU(), Linear(6, 3, rng))
torchs = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).double()
print("keys:", list(yours.state_dict()))
print("loaded into torch:", torchs.load_state_dict(yours.state_dict()))
x = torch.from_numpy(rng.normal(size=(5, 4)))
print("same outputs:", torch.allclose(yours(x), torchs(x)))
torch.nn.init.ones_(torchs[0].weight)
yours.load_state_dict(torchs.state_dict())
print("and back:", torch.allclose(yours(x), torchs(x)))


# %% [markdown] id=w03b-sgd-md
# ## Exercise
#
# Down a narrow valley the gradient points from wall to wall, hardly along the floor. *Momentum* keeps a velocity `v`
# per parameter: what goes back and forth cancels in it, what always points the same way adds up. *Weight decay* pulls
# each weight toward 0; in SGD it is added to the gradient. In torch's convention, with gradient g and weight p:
#
# $$g \leftarrow g + \text{decay}\cdot p \qquad v \leftarrow \text{momentum}\cdot v + g \qquad p \leftarrow p - \text{lr}\cdot v$$
#
# Fill in the update of one parameter. Three rules, so that your optimizer can drive any engine: read and write nothing
# but `p.data` and `p.grad`; use operators only (`p.data -= ...`); and leave `p.grad` as it is, somebody may want to
# plot it. `self.velocity[i]` starts as the number 0. The check takes 20 steps down a bowl with it, with plain NumPy
# arrays for `data` and `grad`, and compares them with those of torch's SGD.
#
# By hand: p = 1, g = 2 in both steps, lr = 0.1, momentum = 0.5, no decay. First v = 2, p = 0.8; then v = 3, p = 0.5.
# %% id=w03b-sgd role=exercise ex=w03.sgd
class Optimizer:
    """Has parameters, each with `data` and `grad`, and forgets their gradients when asked to."""

    def __init__(self, parameters: Iterable[Any], lr: float) -> None:
        self.parameters, self.lr = list(parameters), lr

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = 0 * p.data  # zeros, in whatever engine p belongs to


class SGD(Optimizer):
    """Gradient descent with momentum and weight decay."""

    def __init__(
        self, parameters: Iterable[Any], lr: float, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, lr)
        self.momentum, self.weight_decay = momentum, weight_decay
        self.velocity: list[Any] = [0.0 for _ in self.parameters]

    def step(self) -> None:
        """Move every parameter once."""
        for i, p in enumerate(self.parameters):
            ### BEGIN SOLUTION
            g = p.grad + self.weight_decay * p.data
            self.velocity[i] = self.momentum * self.velocity[i] + g
            p.data -= self.lr * self.velocity[i]
            ### END SOLUTION


# %% id=w03b-sgd-check role=check ex=w03.sgd
check("w03.sgd", SGD)
# %% [markdown] id=w03b-explorer-md
# What do the two numbers do? Two weights, one loss, and your update. The valley is 25 times as steep across as along.
# Move the sliders, and find out three things: the rate from which on it no longer comes down at all; what momentum does
# to the zigzag; and, in *two basins*, how to reach the deeper one.
# %% id=w03b-explorer
viz.learning_rate_explorer()
# %% [markdown] id=w03b-explorer-after
# Across the valley the gradient is 25 · w, so a step takes w to (1 − 25 lr) · w. Below lr = 2/25 that factor lies
# between −1 and 1 and the zigzag dies away; above it every step ends higher up the other wall. Along the floor the
# factor is 1 − lr: the steep direction sets the limit, the flat one has to live with it. Momentum lifts the limit to 2
# (1 + momentum) / 25, and speeds up the floor far more than that.


# %% [markdown] id=w03b-adam-md
# ## Exercise
#
# One learning rate for all weights is a compromise. Adam gives each weight its own: it keeps a running mean m of the
# gradient and a running mean v of its square, and steps by m / √v, which no longer depends on the scale of the
# gradient. Both means start at 0 and are too small at first; dividing by 1 − β^t, with t the number of steps so far,
# corrects that.
#
# $$m \leftarrow \beta_1 m + (1-\beta_1)\, g \qquad v \leftarrow \beta_2 v + (1-\beta_2)\, g^2$$
# $$\hat m = \frac{m}{1-\beta_1^t} \qquad \hat v = \frac{v}{1-\beta_2^t}$$
# $$p \leftarrow p - \text{lr}\cdot\text{decay}\cdot p \qquad p \leftarrow p - \text{lr}\cdot\frac{\hat m}{\sqrt{\hat v} + \varepsilon}$$
#
# The third line makes it Adam**W**: the decay shrinks the weight itself and does not pass through m and v. With decay 0
# it is Adam. Same rules as before: `p.data`, `p.grad`, operators; a root is `** 0.5`. `self.m[i]` and `self.v[i]` start
# as the number 0, and `self.steps` counts from 1.
# %% id=w03b-adam role=exercise ex=w03.adamw
class AdamW(Optimizer):
    """Adam with decoupled weight decay; plain Adam for weight_decay = 0."""

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, lr)
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.m: list[Any] = [0.0 for _ in self.parameters]
        self.v: list[Any] = [0.0 for _ in self.parameters]
        self.steps = 0

    def step(self) -> None:
        """Move every parameter once."""
        self.steps += 1
        beta1, beta2 = self.betas
        for i, p in enumerate(self.parameters):
            ### BEGIN SOLUTION
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * p.grad
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * p.grad**2
            m = self.m[i] / (1 - beta1**self.steps)
            v = self.v[i] / (1 - beta2**self.steps)
            p.data -= self.lr * self.weight_decay * p.data
            p.data -= self.lr * m / (v**0.5 + self.eps)
            ### END SOLUTION


# %% id=w03b-adam-check role=check ex=w03.adamw
check("w03.adamw", AdamW)


# %% [markdown] id=w03b-race-md
# Your three optimizers in one narrow valley, fifty times as steep across as along. All start at the same place; each
# has a learning rate that suits it. The parameters are torch tensors this time: your code does not care.
# %% id=w03b-race
def race(make: Callable[[list[torch.Tensor]], Optimizer], steps: int = 60) -> list[float]:
    """The loss before each step down the valley."""
    place = torch.tensor([4.0, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer, seen = make([place]), []
    for _ in range(steps):
        loss = (torch.tensor([1.0, 50.0]) * place**2).sum() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


viz.curves(
    {
        "SGD": race(lambda p: SGD(p, lr=0.03)),
        "SGD, momentum 0.8": race(lambda p: SGD(p, lr=0.03, momentum=0.8)),
        "Adam": race(lambda p: AdamW(p, lr=0.3, weight_decay=0.0)),
    },
    log="y",
    title="down a narrow valley",
)


# %% [markdown] id=w03b-schedule-md
# ## Exercise
#
# The best learning rate changes on the way. In the first steps Adam's running means rest on a handful of gradients, so
# one starts small and rises in a straight line: the *warm-up*. Near the end small steps settle what large ones only
# stir: the rate follows half a wave of the cosine down to 0.
#
# - `step < warmup`: peak · (step + 1) / warmup, so that the first step already does something;
# - then ½ · peak · (1 + cos(π · share)), where share runs from 0 at `step = warmup` to 1 at `step = total`;
# - from `total` on: 0.
#
# With peak 0.4, warmup 4, total 12:
#
# | step | 0 | 1 | 2 | 3 | 4 | 8 | 12 |
# |---|---|---|---|---|---|---|---|
# | rate | 0.1 | 0.2 | 0.3 | 0.4 | 0.4 | 0.2 | 0 |
# %% id=w03b-schedule role=exercise ex=w03.schedule
def learning_rate(step: int, peak: float, warmup: int, total: int) -> float:
    """The learning rate of a step counted from 0: up in a line, down with a cosine, then 0."""
    ### BEGIN SOLUTION
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= total:
        return 0.0
    share = (step - warmup) / (total - warmup)
    return 0.5 * peak * (1 + math.cos(math.pi * share))
    ### END SOLUTION


# %% id=w03b-schedule-check role=check ex=w03.schedule
check("w03.schedule", learning_rate)
# %% id=w03b-schedule-fig
viz.curves(
    {"warm-up 20": [learning_rate(step, 0.4, 20, 100) for step in range(110)]},
    ylabel="learning rate",
    title="up, then down",
)


# %% [markdown] id=w03b-clip-md
# To use it, set `optimizer.lr = learning_rate(...)` before each step.
#
# ## Exercise
#
# Now and then a batch has a gradient a hundred times as long as usual, and one step throws the network far off.
# *Clipping* caps the length and keeps the direction. Take all gradients together as one long vector and compute its
# length, the *global norm*; multiply every gradient by the same factor
#
# $$\min\left(1,\; \frac{\text{max\_norm}}{\text{norm} + 10^{-6}}\right)$$
#
# and return the norm as it was before. Gradients that are short enough stay as they are. Again operators only; `.sum()`
# adds up an array. By hand: gradients [3.] and [0., 4.] have norm 5; with `max_norm = 1` they become [0.6] and [0.,
# 0.8].
# %% id=w03b-clip role=exercise ex=w03.clip
def clip(parameters: Iterable[Any], max_norm: float) -> Any:
    """Shorten the gradients of all parameters together to max_norm; the norm before that is returned."""
    parameters = list(parameters)
    ### BEGIN SOLUTION
    norm = sum((p.grad**2).sum() for p in parameters) ** 0.5
    factor = min(1.0, max_norm / (norm + 1e-6))
    for p in parameters:
        p.grad = p.grad * factor
    return norm
    ### END SOLUTION


# %% id=w03b-clip-check role=check ex=w03.clip
check("w03.clip", clip)
# %% [markdown] id=w03b-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | `Module` | [`nn.Module`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html); a parameter is marked by its class, [`nn.Parameter`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.parameter.Parameter.html) |
# | `Linear`, `Sequential` | [`nn.Linear`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Linear.html), [`nn.Sequential`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Sequential.html) |
# | `SGD` | [`torch.optim.SGD`](https://docs.pytorch.org/docs/2.13/generated/torch.optim.SGD.html) |
# | `AdamW` | [`torch.optim.AdamW`](https://docs.pytorch.org/docs/2.13/generated/torch.optim.AdamW.html); [`Adam`](https://docs.pytorch.org/docs/2.13/generated/torch.optim.Adam.html) adds its decay to the gradient |
# | `learning_rate` | [`LinearLR`](https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.LinearLR.html), [`CosineAnnealingLR`](https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.CosineAnnealingLR.html) and [`SequentialLR`](https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.SequentialLR.html) |
# | `clip` | [`nn.utils.clip_grad_norm_`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.clip_grad_norm_.html) |
#
# Why a class of its own for parameters? `self.last = self.layer(x)` stores a result that wants a gradient too, and your
# `Module` would take it for a parameter. In torch's source: `torch/nn/modules/module.py`, look for `__setattr__`;
# `torch/optim/adamw.py`.
# %% id=w03b-torch-code
weight = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.4)
rise = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / 20, total_iters=19)
fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=80)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], milestones=[20])
theirs = []
for _ in range(100):
    theirs.append(optimizer.param_groups[0]["lr"])
    optimizer.step()
    scheduler.step()
print("same schedule:", np.allclose(theirs, [learning_rate(step, 0.4, 20, 100) for step in range(100)]))
# %% [markdown] id=w03b-built
# ## What you built
#
# - A module sorts what is assigned to it; names are paths, and everything walks the tree.
# - State dicts of yours and torch's are the same, because names, shapes and order are.
# - SGD keeps a velocity. Adam keeps two running means, corrected for their start; AdamW shrinks the weight, not the
#   gradient.
# - A learning rate is a function of the step: up in a line, down with a cosine.
# - Clipping takes one norm over everything, and never makes a gradient longer.
#
# The question people ask next: *which optimizer should I use?* AdamW with warm-up and cosine for nearly everything you
# will build here; SGD with momentum still wins on some vision models. More than the choice matters the learning rate,
# and the clinic shows how to find it.
#
# **Further reading.** D. Kingma and J. Ba, [Adam](https://arxiv.org/abs/1412.6980), algorithm 1 · I. Loshchilov and F.
# Hutter, [Decoupled weight decay regularization](https://arxiv.org/abs/1711.05101), algorithm 2 · G. Goh, [Why momentum
# really works](https://distill.pub/2017/momentum/).
# %% [markdown] id=w03b-instructor role=instructor
# **Goals.** Learners can say how a parameter gets registered, read a state dict, and write SGD with momentum, AdamW and
# clipping from their formulas.
#
# **50 minutes.** 5 the surprise, with votes · 15 exercise {w03.module}, the tree of names on the board · 10 exercise
# {w03.sgd}, two steps by hand first · 15 exercise {w03.adamw}, one formula per learner · 5 the race. Exercises
# {w03.linear}, {w03.schedule} and {w03.clip} are for home.
#
# **Misconceptions.** "The optimizer finds the parameters by itself" (1). "The weight of a layer is (in, out)" (2).
# "Momentum averages, with 1 − momentum in front" (3: averaged; Adam's does). "Weight decay and L2 in the loss are the
# same" (4: decay coupled; they are for SGD, not for Adam). "The corrected mean is stored" (4). "Clipping works per
# tensor" (6: each on its own). "Clipping brings the norm *to* max_norm" (6: scales up).
#
# **To think about aloud.** Why may SGD's velocity start as the number 0? Zero times momentum plus g is g, whatever its
# shape. Why does plain SGD need lr < 2 / 50 in this valley? Across, p is multiplied by 1 − 50 lr in each step, and that
# must stay within −1 and 1.
