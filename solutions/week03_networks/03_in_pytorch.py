# %% [markdown] id=w03c-title
# # Week 3 · 03 In PyTorch
#
# In about 45 minutes you will meet torch's own modules and optimizers, which you have built already, and what they do
# beyond yours: buffers, hooks, groups of parameters, saved files that can be trusted. At the end the whole training
# loop stands on one screen.
# %% id=w03c-setup role=setup
import io
import math

import torch
from torch import nn
from torch.nn import functional as F

from labkit import check, datasets, viz

# %% [markdown] id=w03c-surprise
# ## A surprise first
#
# A linear layer from 3 numbers to 5. What is the shape of its weight? And what comes out if all inputs are zero? Decide
# before you run the cell.
# %% id=w03c-surprise-code
torch.manual_seed(0)
linear = nn.Linear(3, 5)
print("weight:", tuple(linear.weight.shape), "bias:", tuple(linear.bias.shape))
print("zeros in, zeros out?", bool((linear(torch.zeros(2, 3)) == 0).all()))


# %% [markdown] id=w03c-surprise-after
# (out, in), as in your own: row k holds what unit k multiplies its inputs with. And a fresh bias is not zero; torch
# draws it like the weight, uniform between ±1 / √in. Both are in the source of `nn.Linear`, which after two notebooks
# reads like an old acquaintance:
# [torch/nn/modules/linear.py](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/modules/linear.py).
#
# ## A module, torch's way
#
# Inherit from `nn.Module`, call `super().__init__()` first, assign layers in `__init__`, use them in `forward`. Call
# the module, not `forward`: the call runs hooks as well. Most of what you want to know about a model is one line on
# `named_parameters`.
# %% id=w03c-module
class Classifier(nn.Module):
    """64 pixels -> 10 logits, through one hidden layer with dropout."""

    def __init__(self, hidden: int = 64, p: float = 0.1) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(p))
        self.head = nn.Linear(hidden, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))  # (n, 64) -> (n, 10)


model = Classifier().double()  # float64, so that the numbers below are the same on every machine
for name, p in model.named_parameters():
    print(f"{name:15} {tuple(p.shape)!s:10} {p.numel():5}")
print("all together:", sum(p.numel() for p in model.parameters()))
print(model)


# %% [markdown] id=w03c-init-md
# ## How the weights start
#
# torch's default for `nn.Linear` is the range you wrote, whatever activation follows. For deep ReLU networks choose
# He's rule yourself: [`nn.init`](https://docs.pytorch.org/docs/2.13/nn.init.html) has it under Kaiming He's first name,
# and `model.apply(f)` calls `f` on every module. Names that end in `_` write in place, and `nn.init` takes care of
# `no_grad`.
# %% id=w03c-init
def he(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        nn.init.zeros_(module.bias)


before = model.body[0].weight.std().item()
model.apply(he)
after = model.body[0].weight.std().item()
print(
    f"default: 1 / sqrt(3 * 64) = {1 / math.sqrt(3 * 64):.3f}, measured within 5 %: {abs(before * math.sqrt(192) - 1) < 0.05}"
)
print(
    f"He:      sqrt(2 / 64)     = {math.sqrt(2 / 64):.3f}, measured within 5 %: {abs(after / math.sqrt(2 / 64) - 1) < 0.05}"
)


# %% [markdown] id=w03c-layer-md
# ## Exercise
#
# Some numbers belong to a model without being trained: the mean and the deviation of its training data, say. They must
# be saved with it and move to the GPU with it, and no optimizer may touch them. torch calls them *buffers*:
# `self.register_buffer("mean", mean)` makes `self.mean`, lists it in the state dict, and keeps it out of
# `parameters()`. What is trained is an
# [`nn.Parameter`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.parameter.Parameter.html); a plain tensor is
# not registered, even if it wants a gradient.
#
# Write a layer that standardizes its input and then scales and shifts it: `(x - mean) / std * scale + shift`.
#
# | name | shape | kind | at the start |
# |---|---|---|---|
# | `mean`, `std` | (features,) | buffers | as given |
# | `scale` | (features,) | parameter | ones |
# | `shift` | (features,) | parameter | zeros |
# %% id=w03c-layer role=exercise ex=w03.layer
class Standardize(nn.Module):
    """(..., features) -> (..., features): (x - mean) / std * scale + shift"""

    def __init__(self, mean: torch.Tensor, std: torch.Tensor) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.scale = nn.Parameter(torch.ones(len(mean)))
        self.shift = nn.Parameter(torch.zeros(len(mean)))
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        return (x - self.mean) / self.std * self.scale + self.shift
        ### END SOLUTION


# %% id=w03c-layer-check role=check ex=w03.layer
check("w03.layer", Standardize)
# %% [markdown] id=w03c-state-md
# ## Saved and loaded
#
# Save the state dict, not the model: a file of names and numbers can be read by another program, and `torch.load` reads
# it with [`weights_only=True`](https://docs.pytorch.org/docs/2.13/generated/torch.load.html), its default, which
# refuses code. Loading is strict: what is missing and what is too much is named.
# %% id=w03c-state
layer = Standardize(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
file = io.BytesIO()
torch.save(layer.state_dict(), file)
file.seek(0)
state = torch.load(file)
print({name: value.tolist() for name, value in state.items()})
try:
    nn.Linear(2, 2).load_state_dict(state)
except RuntimeError as error:
    print(*str(error).splitlines()[:3], sep="\n")
# %% [markdown] id=w03c-groups-md
# ## Optimizers
#
# `torch.optim` takes parameters, or groups of them with options of their own. The usual pair: weight decay for the
# matrices, none for biases and scales, which have no reason to be small. A schedule changes `lr` in the groups;
# [`LambdaLR`](https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.LambdaLR.html) takes a function of
# the step, such as yours with peak 1.
# %% id=w03c-groups
matrices = [p for p in model.parameters() if p.dim() > 1]
vectors = [p for p in model.parameters() if p.dim() == 1]
optimizer = torch.optim.AdamW(
    [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=0.01
)
for group in optimizer.param_groups:
    print(f"{len(group['params'])} tensors, lr {group['lr']}, weight decay {group['weight_decay']}")
# %% [markdown] id=w03c-loop-md
# ## The whole loop
#
# Everything of this week in one cell: the network of above, on 1,797 handwritten digits of 8 by 8 pixels, 360 of them
# held back. Read it line by line; you have written every one of these lines' insides. `zero_grad` sets the gradients to
# `None`, which saves a pass over memory.
# %% id=w03c-loop
digits = datasets.digits()
random = torch.Generator().manual_seed(0)
order = torch.randperm(len(digits.labels), generator=random)
pixels = torch.from_numpy(digits.images).flatten(1).double()[order]  # (1797, 64)
labels = torch.from_numpy(digits.labels)[order]
train_x, train_y, test_x, test_y = pixels[:1437], labels[:1437], pixels[1437:], labels[1437:]

print(
    "loss at the start near ln 10:",
    abs(F.cross_entropy(Classifier().double()(train_x), train_y).item() - math.log(10)) < 0.1,
)
model.train()
for _ in range(15):
    for rows in torch.randperm(len(train_x), generator=random).split(64):
        loss = F.cross_entropy(model(train_x[rows]), train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
model.eval()
with torch.no_grad():
    right = (model(test_x).argmax(1) == test_y).float().mean().item()
print("at least 95 % of the digits it has not seen:", right >= 0.95)
# %% [markdown] id=w03c-hooks-md
# ## Hooks: looking inside
#
# A *forward hook* is called with what goes into a module and what comes out, without touching its code:
# `module.register_forward_hook(f)`, with `f(module, inputs, output)`. It returns a handle; `handle.remove()` takes the
# hook off again, and whoever forgets that collects for ever. Here it asks the hidden layer how often each of its units
# is on. The clinic does the same with a sick patient.
# %% id=w03c-hooks
seen = []
handle = model.body[1].register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
with torch.no_grad():
    model(test_x)
handle.remove()
on = (seen[0] > 0).float().mean(0)  # (64,): for what share of the images each unit is on
print("units that are never on:", int((on == 0).sum()), "| always on:", int((on == 1).sum()), "of", len(on))
viz.histogram(on, bins=10, xlabel="share of images for which a unit is on")
# %% [markdown] id=w03c-torch
# ## Where to look it up
#
# | topic | torch's page |
# |---|---|
# | modules | [`nn.Module`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html), the notes on [modules](https://docs.pytorch.org/docs/2.13/notes/modules.html) |
# | layers | [`nn`](https://docs.pytorch.org/docs/2.13/nn.html): all of them on one page |
# | initialization | [`nn.init`](https://docs.pytorch.org/docs/2.13/nn.init.html) |
# | optimizers and schedules | [`torch.optim`](https://docs.pytorch.org/docs/2.13/optim.html), with a section on groups of parameters |
# | saving | the notes on [serialization](https://docs.pytorch.org/docs/2.13/notes/serialization.html) |
# | hooks | [`register_forward_hook`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook) |
#
# In torch's source: `torch/nn/modules/module.py` for registration and hooks, `torch/optim/optimizer.py` for groups and
# state.
# %% [markdown] id=w03c-built
# ## What you know now
#
# - `nn.Linear` keeps (out, in) and draws weight and bias from ±1 / √in; `nn.init` and `apply` change that.
# - Parameters are trained, buffers are only kept; both are in the state dict, plain tensors are not.
# - Save state dicts. Loading names what is missing.
# - Groups give parameters options of their own; a schedule changes `lr` in the groups.
# - Hooks look inside without changing code; remove them.
#
# The question people ask next: *it runs, it learns nothing, and there is no error. Now what?* The clinic.
#
# **Further reading.** torch's tutorial [What is torch.nn
# really?](https://docs.pytorch.org/tutorials/beginner/nn_tutorial.html), which goes the way of this week in one page.
# %% [markdown] id=w03c-instructor role=instructor
# **Goals.** Learners can write a module with parameters and buffers, initialize it, save and load it, and look inside
# it with a hook.
#
# **50 minutes.** 5 the surprise, with votes · 10 reading `Classifier` and counting its parameters on paper (64 · 64 +
# 64 + 64 · 10 + 10 = 4,810) · 10 exercise {w03.layer} · 10 saving and the error of loading, read aloud · 15 the whole
# loop, one line per learner: what would break without it?
#
# **Misconceptions.** "`requires_grad` makes a parameter" (1: not registered; it did in notebook 02). "What is saved is
# trained" (1: measured and trained). "An attribute is saved" (1: plain attributes). "Biases start at 0" (the surprise).
# "`model.eval()` switches off gradients": it changes dropout and batch norm; `no_grad` is another thing.
#
# **To think about aloud.** Why does the default not depend on the activation? It is older than He's rule, and changing
# it would change every result obtained with it.
