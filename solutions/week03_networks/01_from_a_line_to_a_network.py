# %% [markdown] id=w03a-title
# # Week 3 · 01 From a line to a network
#
# In about 75 minutes you will fit a line to 333 penguins with four lines of code, bend it into a network, and write the
# loss that nearly every classifier is trained with. Then you will see why a network may be dead before training begins,
# and switch off parts of it on purpose.
# %% id=w03a-setup role=setup
import math

import torch

from labkit import check, datasets, viz

# %% [markdown] id=w03a-surprise
# ## A surprise first
#
# The body mass of a penguin is to be predicted from seven facts: bill length, bill depth and flipper length in
# millimeters, whether it is male, and which of three species it is. Here is the same loop twice, same learning rate, 20
# steps. The second time each column has been shifted to mean 0 and divided by its standard deviation. What will the
# loss do? Decide before you run it.
# %% id=w03a-surprise-code
penguins = datasets.penguins()
raw = torch.from_numpy(penguins.inputs).double()  # (333, 7)
mass = torch.from_numpy(penguins.target).double() / 1000  # (333,) in kilograms
standardized = (raw - raw.mean(0)) / raw.std(0)


def losses(x: torch.Tensor, y: torch.Tensor, lr: float, steps: int) -> list[float]:
    """The mean squared error before each of some steps of gradient descent, gradients worked out by hand."""
    weights, bias, seen = torch.zeros(x.shape[1], dtype=x.dtype), 0.0, []
    for _ in range(steps):
        error = x @ weights + bias - y
        seen.append((error**2).mean().item())
        weights = weights - lr * 2 * x.T @ error / len(y)
        bias = bias - lr * 2 * error.mean()
    return seen


viz.curves(
    {"as measured": losses(raw, mass, 0.1, 20), "standardized": losses(standardized, mass, 0.1, 20)},
    log="y",
    title="one loop, one learning rate",
)
# %% [markdown] id=w03a-surprise-after
# Measured in millimeters, a flipper is 200 and "male" is 0 or 1. One learning rate must serve both, and the long column
# makes each step overshoot: the next error is larger, and so on for ever. This is why data are standardized before
# anything else.


# %% [markdown] id=w03a-fit-md
# ## Exercise
#
# The *mean squared error* of predictions $p$ for targets $y$ is
#
# $$L = \frac1n \sum_i (p_i - y_i)^2 \qquad\text{with}\qquad \frac{\partial L}{\partial p_i} = \frac2n (p_i - y_i).$$
#
# By the chain rule the gradient for the weights is `2 * x.T @ error / n`, as in the loop above. You know since week 2
# who works that out for you. Fill in one step of the loop, four things in this order:
#
# 1. the loss of `x @ weights + bias`,
# 2. its gradients, by `backward`,
# 3. the update `weights -= lr * weights.grad`, and the same for the bias, inside `with torch.no_grad():`,
# 4. `.grad` back to `None`, because `backward` adds to what is there.
#
# With `x = [[1.], [3.]]`, `y = [2., 4.]`, `lr = 0.1`, the first step gives weight 1.4 and bias 0.6.
# %% id=w03a-fit role=exercise ex=w03.fit
def fit(x: torch.Tensor, y: torch.Tensor, lr: float, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient descent on the mean squared error: (n, features), (n,) -> weights (features,), bias ()"""
    weights = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    bias = torch.zeros((), dtype=x.dtype, requires_grad=True)
    for _ in range(steps):
        ### BEGIN SOLUTION
        loss = ((x @ weights + bias - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            weights -= lr * weights.grad
            bias -= lr * bias.grad
        weights.grad = bias.grad = None
        ### END SOLUTION
    return weights.detach(), bias.detach()


# %% id=w03a-fit-check role=check ex=w03.fit
check("w03.fit", fit)
# %% [markdown] id=w03a-fit-after
# Now on the penguins. The columns have the same scale, so their weights can be compared: which fact says most about the
# mass?
# %% id=w03a-fit-penguins
weights, bias = fit(standardized, mass, lr=0.1, steps=200)
errors = standardized @ weights + bias - mass
print("bias = mean mass:", torch.isclose(bias, mass.mean()).item())
print(f"share of the variance explained: {1 - (errors**2).mean() / mass.var(correction=0):.2f}")
for name, weight in sorted(
    zip(penguins.columns, weights.tolist(), strict=True), key=lambda pair: -abs(pair[1])
):
    print(f"{name:18} {weight:+.2f} kg per standard deviation")


# %% [markdown] id=w03a-hidden-md
# ## Exercise
#
# A line cannot bend. Put a second layer on top of the first, and it still cannot: a line of a line is a line. So bend
# the numbers in between. The *ReLU* keeps positive numbers and sets negative ones to 0, `z.clamp(min=0)`. The numbers
# in between are the *hidden* units.
#
# $$\text{hidden} = \text{ReLU}(x\, W_1^T + b_1) \qquad \text{out} = \text{hidden}\; W_2^T + b_2$$
#
# torch stores the weight of a layer as (out, in): one row for each unit it feeds, hence the transposes. By hand: `x =
# [[2.]]`, `w1 = [[1.], [-1.]]`, `b1 = [0., 1.]` gives sums [2, -1], hidden [2, 0]; with `w2 = [[3., 5.]]` and `b2 =
# [1.]` the output is [[7.]].
# %% id=w03a-hidden role=exercise ex=w03.hidden
def network(
    x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor
) -> torch.Tensor:
    """(n, features), w1 (hidden, features), b1 (hidden,), w2 (out, hidden), b2 (out,) -> (n, out)"""
    ### BEGIN SOLUTION
    hidden = (x @ w1.T + b1).clamp(min=0)
    return hidden @ w2.T + b2
    ### END SOLUTION


# %% id=w03a-hidden-check role=check ex=w03.hidden
check("w03.hidden", network)
# %% [markdown] id=w03a-wave-md
# Your `fit` and your `network` on the same task: 61 points of a wave. The loop is the one you wrote, for four
# parameters instead of two; `-=` does not care. It takes a few seconds.
# %% id=w03a-wave
at = torch.linspace(-3, 3, 61, dtype=torch.float64)
wave = torch.sin(2 * at) + 0.3 * at
slope, intercept = fit(at[:, None], wave, lr=0.1, steps=100)

random = torch.Generator().manual_seed(0)
shapes = {"w1": (16, 1), "b1": (16,), "w2": (1, 16), "b2": (1,)}
scales = {"w1": 1.0, "b1": 2.0, "w2": math.sqrt(2 / 16), "b2": 0.0}
parameters = [scales[k] * torch.randn(shapes[k], generator=random, dtype=torch.float64) for k in shapes]
for p in parameters:
    p.requires_grad_()
for _ in range(2000):
    ((network(at[:, None], *parameters).squeeze(1) - wave) ** 2).mean().backward()
    with torch.no_grad():
        for p in parameters:
            p -= 0.02 * p.grad
            p.grad = None

viz.curves(
    {
        "wave": wave,
        "line": at * slope + intercept,
        "16 hidden units": network(at[:, None], *parameters).detach().squeeze(1),
    },
    x=at,
    xlabel="x",
    ylabel="y",
    title="a line, and a line bent 16 times",
)


# %% [markdown] id=w03a-ce-md
# ## Exercise
#
# To choose among C classes a network gives C numbers per example, the *logits*. Softmax turns them into probabilities,
# and the loss is minus the logarithm of the probability of the right class, the label:
#
# $$L = -\log \frac{e^{z_\text{label}}}{\sum_k e^{z_k}} = \log \sum_k e^{z_k} - z_\text{label}$$
#
# averaged over the examples. One trap: `exp(100)` is infinite in float32. Subtracting the same number from all logits
# of a row does not change the loss, so subtract the largest: then no exponent is above 0. `logits.amax(1,
# keepdim=True)` finds it. To pick the label's entry of each row, use what you wrote in week 1: `x.gather(1, labels[:,
# None])`, or index with pairs.
#
# Logits `[[0., 0.], [ln 3, 0.]]` and labels `[1, 0]`: probabilities ½ and ¾, loss (0.693 + 0.288) / 2 = 0.490.
# %% id=w03a-ce role=exercise ex=w03.cross_entropy
def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean of -log softmax(logits)[label]: (n, classes), (n,) of int64 -> ()"""
    ### BEGIN SOLUTION
    shifted = logits - logits.amax(1, keepdim=True)
    log_probabilities = shifted - shifted.exp().sum(1, keepdim=True).log()
    return -log_probabilities.gather(1, labels[:, None]).mean()
    ### END SOLUTION


# %% id=w03a-ce-check role=check ex=w03.cross_entropy
check("w03.cross_entropy", cross_entropy)
# %% [markdown] id=w03a-start-md
# ## Exercise
#
# Before training, a network knows nothing: all classes should look alike to it. That gives you a number to check before
# you wait for hours. Predict the loss (natural logarithm, `math.log` is allowed), and set `sure` to how many of the
# seven you expect to have right.
#
# | | the logits of one example |
# |---|---|
# {questions}
# %% id=w03a-start role=exercise ex=w03.loss_at_start
### BEGIN SOLUTION
prediction = {
    "a": math.log(10),
    "b": 6.908,  # ln 1000
    "c": math.log(2),
    "d": 0.0,
    "e": 100.0,
    "f": math.log(10),
    "g": math.log(math.e + 9) - 1,
}
sure = 6
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ...}
# sure = ...
### END SOLUTION
# %% id=w03a-start-check role=check ex=w03.loss_at_start
check("w03.loss_at_start", prediction, sure=sure)
# %% [markdown] id=w03a-start-after
# Remember f and g together: a softmax too many starts at the right loss and can never get below 1.46 with ten classes.
# The network learns, slowly, and nobody gets an error message. torch's `cross_entropy`, like yours, wants logits.


# %% [markdown] id=w03a-init-md
# ## Exercise
#
# Weights have to start somewhere. All zeros will not do: every hidden unit would get the same gradient and stay the
# twin of all others. So they are drawn at random, with mean 0 and some standard deviation. A unit sums over `fan_in`
# inputs; a sum of n independent terms has n times the variance, so the deviation is taken as
#
# $$\text{std} = \frac{c}{\sqrt{\text{fan\_in}}}$$
#
# with a factor c near 1. Near is not good enough: the factor acts once per layer. `activations(c)` sends random inputs
# through 20 layers of 256 units with ReLU. Before you run the next cell: what will c = 1 look like at layer 20?
# %% id=w03a-init-fig
def activations(c: float, depth: int = 20, width: int = 256) -> list[torch.Tensor]:
    """What comes out of each layer of a fresh network for 200 random inputs; weights have std c / sqrt(width)."""
    random = torch.Generator().manual_seed(1)
    x, seen = torch.randn(200, width, generator=random, dtype=torch.float64), []
    for _ in range(depth):
        weight = torch.randn(width, width, generator=random, dtype=torch.float64) * c / math.sqrt(width)
        x = (x @ weight.T).clamp(min=0)
        seen.append(x)
    return seen


viz.variance_by_depth({"c = 1": activations(1.0), "c = 1.2": activations(1.2), "c = 1.6": activations(1.6)})


# %% [markdown] id=w03a-init-md2
# At c = 1 the signal halves at every layer and nothing arrives; at 1.6 it grows without end. Gradients go back through
# the same weights and suffer the same fate. Measure with `activations`: for which factor does the mean square of the
# activations stay the same from layer to layer? Here is a function for it, and one try. Go on in the same way, then set
# `factor`, to two digits after the point.
# %% id=w03a-init-try
def growth(c: float) -> float:
    """By which factor the mean square of the activations changes per layer, averaged over all layers."""
    layers = activations(c)
    return ((layers[-1] ** 2).mean() / (layers[0] ** 2).mean()).item() ** (1 / (len(layers) - 1))


print(f"c = 1.2: the mean square becomes {growth(1.2):.2f} times as large per layer")
# %% id=w03a-init role=exercise ex=w03.init
### BEGIN SOLUTION
factor = math.sqrt(2)
### STUB
# factor = ...
### END SOLUTION
# %% id=w03a-init-check role=check ex=w03.init
check("w03.init", factor)
# %% [markdown] id=w03a-init-after
# Why this number: a sum is as often negative as positive, so the ReLU sets half of the units to 0 and loses half of the
# squares. To make up for it the weights need twice the variance.
# %% id=w03a-init-good
viz.variance_by_depth({"c = 1": activations(1.0), "your factor": activations(factor)})


# %% [markdown] id=w03a-dropout-md
# ## Exercise
#
# A network with many units can learn its training data by heart. *Dropout* sets each unit to 0 with probability `p`,
# anew for every batch, so that no unit can rely on one other. What is kept is divided by `1 - p`: the expected value
# stays what it was, and in evaluation nothing has to be done at all.
#
# So that the check can compare, chance comes in from outside: `noise` has the shape of `x` and is uniform in [0, 1).
# Drop where `noise < p`, keep where `noise >= p`. If `training` is `False`, return `x` as it is.
#
# ```
# x = [2., 4., 6.]    noise = [0.1, 0.9, 0.5]    p = 0.5    ->    [0., 8., 12.]
# ```
#
# For `p = 1` everything is dropped: zeros, not NaN.
# %% id=w03a-dropout role=exercise ex=w03.dropout
def dropout(x: torch.Tensor, p: float, noise: torch.Tensor, training: bool) -> torch.Tensor:
    """Zero where noise < p, x / (1 - p) elsewhere; x itself if not training. Same shape as x."""
    ### BEGIN SOLUTION
    if not training:
        return x
    return torch.where(noise >= p, x / (1 - p), 0)
    ### END SOLUTION


# %% id=w03a-dropout-check role=check ex=w03.dropout
check("w03.dropout", dropout)
# %% [markdown] id=w03a-dropout-after
# The average over many masks is `x` again. That is what the division bought:
# %% id=w03a-dropout-mean
x = torch.tensor([2.0, 4.0, 6.0])
noise = torch.rand(100_000, 3, generator=torch.Generator().manual_seed(0))
average = dropout(x.expand(100_000, 3), 0.4, noise, training=True).mean(0)
print("average within 1 % of x:", torch.allclose(average, x, rtol=0.01))
# %% [markdown] id=w03a-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | the mean squared error | [`F.mse_loss`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.mse_loss.html) |
# | `weights -= lr * weights.grad` | [`torch.optim.SGD`](https://docs.pytorch.org/docs/2.13/generated/torch.optim.SGD.html) |
# | `x @ w.T + b`, `clamp(min=0)` | [`F.linear`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.linear.html), [`torch.relu`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.relu.html) |
# | `cross_entropy` | [`F.cross_entropy`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.cross_entropy.html): logits in, mean out |
# | the factor √2 | [`nn.init.kaiming_normal_`](https://docs.pytorch.org/docs/2.13/nn.init.html#torch.nn.init.kaiming_normal_) |
# | `dropout` | [`F.dropout`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.dropout.html), which draws the noise itself |
#
# In torch's source the losses are `aten/src/ATen/native/Loss.cpp` and `LossNLL.cpp`; `torch/nn/init.py` is plain Python
# and reads well.
# %% id=w03a-torch-code
logits, labels = torch.tensor([[0.5, 2.0, -1.0], [3.0, 0.0, 1.0]]), torch.tensor([1, 2])
print(
    "cross_entropy:",
    torch.allclose(cross_entropy(logits, labels), torch.nn.functional.cross_entropy(logits, labels)),
)
# %% [markdown] id=w03a-built
# ## What you built
#
# - Training is four lines: loss, `backward`, `p -= lr * p.grad`, gradients gone.
# - Standardized inputs, or one learning rate cannot serve all columns.
# - A network is layers with a bend between them; without the bend it is a line.
# - Cross-entropy takes logits, subtracts the largest, and starts at ln C.
# - Weights of deviation √(2 / fan_in) keep the signal alive through any number of ReLU layers; dropout scales up what
#   it keeps.
#
# The question people ask next: *a real network has hundreds of parameter tensors. Who keeps track of them, and is `p -=
# lr * p.grad` the best one can do?* A module keeps track, and no. Both are the next notebook.
#
# **Further reading.** K. He and others, [Delving deep into rectifiers](https://arxiv.org/abs/1502.01852), section 2.2,
# the √2 · X. Glorot and Y. Bengio, [Understanding the difficulty of training deep feedforward neural
# networks](https://proceedings.mlr.press/v9/glorot10a.html) · N. Srivastava and others,
# [Dropout](https://jmlr.org/papers/v15/srivastava14a.html).
# %% [markdown] id=w03a-instructor role=instructor
# **Goals.** Learners can write a training step from memory, say what a hidden layer adds, compute the loss at the
# start, and choose the scale of the first weights with a reason.
#
# **50 minutes.** 5 the surprise, with votes · 10 exercise {w03.fit}, the four things on the board first · 5 exercise
# {w03.hidden} · 15 exercise {w03.cross_entropy}, the naive formula first, then logits of 1000 · 10 exercise
# {w03.loss_at_start} by show of hands, g last · 5 the pictures of exercise {w03.init}. The rest of {w03.init} and all
# of {w03.dropout} are for home.
#
# **Misconceptions.** "`backward` replaces the gradient" (1: gradients pile up). "Two linear layers are more than one"
# (2: no bend). "The loss wants probabilities" (3: softmax twice, 4 f and g). "Zero logits, zero loss" (4a). "Somewhere
# near 1 is fine" (5). "Dropout is switched off by multiplying with 1 - p" (6: scaled in evaluation, true in the first
# paper, not in torch).
#
# **To think about aloud.** Why does the bias of exercise {w03.fit} end at the mean mass? The inputs have mean 0, so at
# the minimum nothing else can set the level. Why are the weights of the three species not determined? Their columns add
# up to 1, so one of them is redundant; the walk from zero picks the smallest weights among all that fit.
