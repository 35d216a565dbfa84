# %% [markdown] id=w02d-title
# # Week 2 · 04 Clinic
#
# In about 75 minutes you will mend three programs whose gradients are missing, refused or kept for ever, take batch
# norm apart by hand, and write a test from properties alone. Then the milestone of the week: a network draws its
# boundary between two moons, on your own engine.
#
# As in every clinic: look at the symptom, *name* the fault, then mend it. Both are checked.
# %% id=w02d-setup role=setup
from collections.abc import Callable

import numpy as np
import torch

import labkit
from labkit import check, datasets, viz


# %% [markdown] id=w02d-none-md
# ## Exercise
#
# A network of two layers. It trains, a little: the second layer learns, the first does not. The author wanted NumPy's
# `maximum`; torch complained, *"Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy()
# instead."*, and the author did as told.
# %% id=w02d-none-symptom
def gradients_as_found(x, y, w1, w2):
    w1, w2 = w1.clone().requires_grad_(), w2.clone().requires_grad_()
    hidden = torch.from_numpy(np.maximum((x @ w1).detach().numpy(), 0))
    loss = ((hidden @ w2 - y) ** 2).mean()
    loss.backward()
    return w1.grad, w2.grad


x, y = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 2.0])
first, second = gradients_as_found(x, y, torch.ones(2, 3), torch.ones(3))
print("gradient of w1:", first)
print("gradient of w2:", second)
# %% [markdown] id=w02d-none-menu
# Set `fault` to one of `"w1 is not a leaf"`, `"relu has no slope"`, `"NumPy leaves the graph"`, `"backward is called
# too early"`, and mend the code.
# %% id=w02d-none role=exercise ex=w02.none
### BEGIN SOLUTION
fault = "NumPy leaves the graph"


def gradients(
    x: torch.Tensor, y: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of mean((relu(x @ w1) @ w2 - y)²) by w1 and w2: x (n, f), y (n,), w1 (f, h), w2 (h,)"""
    w1, w2 = w1.clone().requires_grad_(), w2.clone().requires_grad_()
    hidden = torch.relu(x @ w1)
    loss = ((hidden @ w2 - y) ** 2).mean()
    loss.backward()
    return w1.grad, w2.grad


### STUB
# fault = ...
#
#
# def gradients(
#     x: torch.Tensor, y: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor
# ) -> tuple[torch.Tensor, torch.Tensor]:
#     """The gradients of mean((relu(x @ w1) @ w2 - y)²) by w1 and w2: x (n, f), y (n,), w1 (f, h), w2 (h,)"""
#     w1, w2 = w1.clone().requires_grad_(), w2.clone().requires_grad_()
#     hidden = torch.from_numpy(np.maximum((x @ w1).detach().numpy(), 0))
#     loss = ((hidden @ w2 - y) ** 2).mean()
#     loss.backward()
#     return w1.grad, w2.grad
### END SOLUTION
# %% id=w02d-none-check role=check ex=w02.none
check("w02.none", gradients, fault=fault)
# %% [markdown] id=w02d-none-after
# When a gradient is `None`, the tensor is not on the tape of the loss. There are four ways to fall off it: NumPy,
# `.item()` or `.data` on the way; a block under `no_grad`; a tensor made anew with `torch.tensor(y)`; or `w =
# torch.ones(3, requires_grad=True) / 10`, where the leaf is the tensor before the division, and `w` is not one.


# %% [markdown] id=w02d-inplace-md
# ## Exercise
#
# `shares` turns scores into positive shares that add up to 1 in each row. The values are right. Backward refuses.
# %% id=w02d-inplace-symptom
def shares_as_found(x):
    y = torch.exp(x)
    y /= y.sum(dim=1, keepdim=True)  # in place, to save memory
    return y


x = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0]], requires_grad=True)
y = shares_as_found(x)
print("rows add up to", y.sum(dim=1).tolist())
try:
    y[0, 0].backward()
except RuntimeError as error:
    print("RuntimeError:", str(error).split(" Hint")[0])
# %% [markdown] id=w02d-inplace-menu
# Read the message to its end; you know from exercise {w02.kept} of notebook 03 what `exp` keeps. Set `fault` to one of
# `"sum has no gradient"`, `"/= overwrites what exp kept"`, `"x must not require a gradient"`, `"the graph was used
# twice"`, and mend the code.
# %% id=w02d-inplace role=exercise ex=w02.in_place
### BEGIN SOLUTION
fault = "/= overwrites what exp kept"


def shares(x: torch.Tensor) -> torch.Tensor:
    """exp(x) divided by its sum in each row: (n, m) -> (n, m)"""
    y = torch.exp(x)
    return y / y.sum(dim=1, keepdim=True)


### STUB
# fault = ...
#
#
# def shares(x: torch.Tensor) -> torch.Tensor:
#     """exp(x) divided by its sum in each row: (n, m) -> (n, m)"""
#     y = torch.exp(x)
#     y /= y.sum(dim=1, keepdim=True)
#     return y
### END SOLUTION
# %% id=w02d-inplace-check role=check ex=w02.in_place
check("w02.in_place", shares, fault=fault)
# %% [markdown] id=w02d-inplace-after
# An in-place operation is safe when nobody kept the old value: `x.relu_()` after a linear layer is, since a linear
# layer does not keep its result. You need not remember which. Torch counts the writes to every tensor, and refuses
# instead of computing a wrong gradient. Going around that with `.data` gives you the wrong gradient.
# %% id=w02d-inplace-version
y = torch.exp(x)
print("writes before:", y._version)
y /= 2
print("writes after: ", y._version)


# %% [markdown] id=w02d-kept-md
# ## Exercise
#
# `evaluate` computes the loss of each validation batch. With every batch the program takes more memory, until it is
# killed. The list it returns has ten entries. How many nodes of the graph do they keep alive?
# %% id=w02d-kept-symptom
def evaluate_as_found(batches, w):
    log = []
    for x, y in batches:
        loss = ((x @ w - y) ** 2).mean()
        log.append(loss)
    return log


def nodes_kept(values):
    """How many nodes of the graph hang on a list of tensors."""
    seen, waiting = set(), [value.grad_fn for value in values if value.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += [parent for parent, _ in node.next_functions if parent is not None]
    return len(seen)


torch.manual_seed(0)
batches = [(torch.randn(50, 3), torch.randn(50)) for _ in range(10)]
w = torch.zeros(3, requires_grad=True)
log = evaluate_as_found(batches, w)
print("first entry: a tensor made by", log[0].grad_fn.name())
print("nodes kept: ", nodes_kept(log))
# %% [markdown] id=w02d-kept-menu
# Each node keeps what its slope needs: batch, prediction, difference. Set `fault` to one of `"the list is too long"`,
# `"the log keeps the graph"`, `"backward is missing"`, `"w is copied in each batch"`, and mend the code. `w` must still
# be able to learn afterward.
# %% id=w02d-kept role=exercise ex=w02.kept_alive
### BEGIN SOLUTION
fault = "the log keeps the graph"


def evaluate(batches: list[tuple[torch.Tensor, torch.Tensor]], w: torch.Tensor) -> list:
    """The loss of each batch as a number: batches of x (n, features) and y (n,), w (features,)"""
    log = []
    for x, y in batches:
        loss = ((x @ w - y) ** 2).mean()
        log.append(loss.item())
    return log


### STUB
# fault = ...
#
#
# def evaluate(batches: list[tuple[torch.Tensor, torch.Tensor]], w: torch.Tensor) -> list:
#     """The loss of each batch as a number: batches of x (n, features) and y (n,), w (features,)"""
#     log = []
#     for x, y in batches:
#         loss = ((x @ w - y) ** 2).mean()
#         log.append(loss)
#     return log
### END SOLUTION
# %% id=w02d-kept-check role=check ex=w02.kept_alive
check("w02.kept_alive", evaluate, fault=fault)
# %% [markdown] id=w02d-kept-after
# `loss.item()` is a number, `loss.detach()` a tensor without history; both let go of the graph. For validation `with
# torch.no_grad():` is better still: nothing is kept even inside a batch.


# %% [markdown] id=w02d-batchnorm-md
# ## Exercise
#
# Batch norm brings each column of a batch to mean 0 and variance 1, then scales and shifts it. Its gradient has a
# reputation. It is nothing but your chain rule, line by line from the end; the art is to miss no path. Two of the names
# are used twice: find them before you start.
#
# The forward lines are given. Return a dict with the gradient of every line, in this order: `beta`, `gamma`, `normal`,
# `rstd`, `var`, `centered`, `mean`, `x`. `g` is the gradient of `y`. All of them are compared with torch, in this
# order, so that the first wrong one is named.
#
# | line | its way back |
# |---|---|
# | `y = gamma * normal + beta` | `beta`: sum of `g` over the batch (it was stretched). `gamma` and `normal`: the other factor times `g`, summed where stretched |
# | `normal = centered * rstd` | both factors get the other one times the gradient of `normal` |
# | `rstd = (var + eps) ** -0.5` | a power: the exponent comes down, and goes down by one, to −1.5: that is `rstd**3` |
# | `var = (centered**2).mean(0)` | each square has the weight 1 / n |
# | `centered = x - mean` | the mean is subtracted from every row |
# | `mean = x.mean(0)` | each row has the weight 1 / n |
# %% id=w02d-batchnorm role=exercise ex=w02.batchnorm
def batchnorm_backward(
    g: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor, eps: float
) -> dict[str, torch.Tensor]:
    """The gradients of y = gamma * (x - mean) / sqrt(var + eps) + beta, step by step: g, x (n, f), gamma (f,)"""
    n = len(x)
    mean = x.mean(0)  # (f,)
    centered = x - mean  # (n, f)
    var = (centered**2).mean(0)  # (f,)
    rstd = (var + eps) ** -0.5  # (f,)
    normal = centered * rstd  # (n, f)
    d = {}  # d["var"] is the gradient of var, and so on
    ### BEGIN SOLUTION
    d["beta"] = g.sum(0)
    d["gamma"] = (g * normal).sum(0)
    d["normal"] = g * gamma
    d["rstd"] = (d["normal"] * centered).sum(0)
    d["var"] = d["rstd"] * -0.5 * rstd**3
    d["centered"] = d["normal"] * rstd + d["var"] * 2 * centered / n
    d["mean"] = -d["centered"].sum(0)
    d["x"] = d["centered"] + d["mean"] / n
    return d
    ### END SOLUTION


# %% id=w02d-batchnorm-check role=check ex=w02.batchnorm
check("w02.batchnorm", batchnorm_backward)
# %% [markdown] id=w02d-batchnorm-after
# Look at what you found: `d["x"]` of one row contains the mean over all rows. In batch norm every example has a say in
# the gradient of every other one. Week 5 comes back to it.


# %% [markdown] id=w02d-test-md
# ## Exercise
#
# In week 1 you tested with values worked out by hand. For gradients nobody wants to do that. A *property* is something
# that is true for every input, so no expected values are needed. Here is the specification of a softmax in the form of
# notebook 02:
#
# - `y, backward = softmax(x)` for `x` of shape (n, m), a NumPy array; the rows of `y` are positive and add up to 1.
# - Adding the same number to all scores changes nothing, also if the number is 1000.
# - `(grad,) = backward(g)` is the gradient of `(y * g).sum()` by `x`. The slope of that sum in a direction `d` is
#   `(grad * d).sum()`, and a central difference can measure it: `x + eps * d` against `x - eps * d`.
# - `backward` may be called any number of times, and gives the same each time.
#
# Turn them into a test. It must accept right implementations and catch five wrong ones. Compare with
# [`np.allclose`](https://numpy.org/doc/stable/reference/generated/numpy.allclose.html).
# %% id=w02d-test role=exercise ex=w02.test_softmax
### BEGIN SOLUTION
def test_softmax(softmax: Callable) -> None:
    """Silent for a right `softmax`, an AssertionError for a wrong one."""
    rng = np.random.default_rng(0)
    x, g, d = rng.normal(size=(3, 2, 4))  # three arrays of shape (2, 4)
    y, backward = softmax(x)
    assert np.allclose(y.sum(axis=-1), 1)
    assert np.allclose(softmax(x + 1000)[0], y)
    (grad,) = backward(g)
    eps = 1e-5
    rise = ((softmax(x + eps * d)[0] - softmax(x - eps * d)[0]) * g).sum()
    assert np.allclose(rise / (2 * eps), (grad * d).sum())
    assert np.allclose(backward(g)[0], grad)


### STUB
# def test_softmax(softmax: Callable) -> None:
#     """Silent for a right `softmax`, an AssertionError for a wrong one."""
#     raise NotImplementedError("your code here")
### END SOLUTION
# %% id=w02d-test-check role=check ex=w02.test_softmax
check("w02.test_softmax", test_softmax)
# %% [markdown] id=w02d-milestone-md
# ## Milestone: two moons on your own engine
#
# Everything is there for a network: matrix products, a ReLU, log-sum-exp for the loss, indices to pick the score of the
# right class, a tape. `labkit.mine.of("tensor_autograd")` collects your engine from your saved notebook 02: each answer
# that passes its check is yours, for each that does not, the reference steps in, so that nothing blocks you here. It
# says which is which. (In the solution notebook all of it is the reference.)
# %% id=w02d-milestone-engine
engine = labkit.mine.of("tensor_autograd")
print(engine)
# %% [markdown] id=w02d-milestone-md2
# 200 points in two half circles, which no line separates. Two layers, 16 hidden units, 500 steps against the slope. The
# loss is the cross-entropy: log-sum-exp of the scores minus the score of the right class; week 3 takes it apart. It
# takes about a second.
# %% id=w02d-milestone-train
Tensor = engine.Tensor
points, labels = datasets.two_moons(200)
rng = np.random.default_rng(0)
w1, b1 = Tensor(2 * rng.normal(size=(2, 16))), Tensor(rng.normal(size=16))
w2, b2 = Tensor(rng.normal(size=(16, 2)) / 4), Tensor(np.zeros(2))


def scores(x):
    """(n, 2) -> (n, 2), one score per class"""
    return (Tensor(x) @ w1 + b1).relu() @ w2 + b2


for _ in range(500):
    out = scores(points)
    loss = (out.logsumexp(1) - out[np.arange(200), labels]).sum() / 200
    for parameter in (w1, b1, w2, b2):
        parameter.grad = np.zeros_like(parameter.data)
    loss.backward()
    for parameter in (w1, b1, w2, b2):
        parameter.data -= parameter.grad

right = (scores(points).data.argmax(axis=1) == labels).mean()
print("at least 97 % of the points on the right side:", right >= 0.97)
# %% id=w02d-milestone-fig
viz.decision_boundary(lambda at: scores(at).data, points, labels, title="Two moons, an engine made by hand")
# %% [markdown] id=w02d-built
# ## What you know now
#
# - `grad is None`: the tensor is not on the tape of the loss. Look for NumPy, `.item()`, `.data`, `no_grad`, or a leaf
#   that is not one.
# - In-place operations destroy what a slope needs; torch counts writes and refuses.
# - A logged loss keeps its whole graph: log `loss.item()`.
# - A long gradient is a walk through the forward lines from the end, adding up wherever a name was used twice.
# - Properties test gradients without expected values: sums, shifts, slopes, repeated calls.
#
# The question people ask next: *so a network is a few matrix products and this loop. What makes it train well?* The
# start, the loss, the step. That is week 3, on this engine.
#
# **Further reading.** S. Ioffe and C. Szegedy, [Batch normalization](https://arxiv.org/abs/1502.03167), whose section 3
# has the gradients you found · torch's note on [in-place
# operations](https://docs.pytorch.org/docs/2.13/notes/autograd.html#in-place-operations-with-autograd) and its
# [FAQ](https://docs.pytorch.org/docs/2.13/notes/faq.html), which begins with memory that grows ·
# [Hypothesis](https://hypothesis.readthedocs.io/), which searches for the input that breaks a property.
# %% [markdown] id=w02d-instructor role=instructor
# **Goals.** Learners can find out why a gradient is missing, why backward refuses, why memory grows; derive a gradient
# of several lines without losing a path; and state properties that a gradient must have.
#
# **50 minutes.** 8 exercise {w02.none}, four ways to fall off the tape collected on the board · 7 exercise
# {w02.in_place}, the message read word by word · 5 exercise {w02.kept_alive} · 15 exercise {w02.batchnorm} in pairs,
# the graph drawn first, arrows from `centered` and `x` counted · 10 exercise {w02.test_softmax}, properties collected
# before anybody types · 5 the milestone on the projector.
#
# **Misconceptions.** "torch's advice in an error message is the mend" (1: detach). "None means zero" (1: zeros for
# None). "`.data` is the way around the error" (2: behind the back). "Memory grows because of the list" (3).
# "requires_grad_(False) ends with the function" (3: w frozen). "The variance does not depend on x" (4: variance
# forgotten). "The mean has no gradient of its own" (4: mean forgotten). "A gradient whose rows add up to 0 is right"
# (5).
#
# **To think about aloud.** Why does the mean of `centered` being 0 not make the path through the mean vanish? Because
# the *gradient* of `centered` does not have mean 0. Why do training losses leak less than validation losses when they
# are logged? backward has freed what the nodes kept; only the nodes themselves remain. Why 16 hidden units? Try 3: some
# starts fail.
