# %% [markdown] id=w02c-title
# # Week 2 · 03 In PyTorch
#
# In about 45 minutes you will meet what you built under torch's names, and the few things torch's autograd does beyond
# it: leaves, modes without recording, hooks, gradients that are returned instead of stored, second derivatives, and
# operations of your own. And you will see what a graph costs.
# %% id=w02c-setup role=setup
import torch

from labkit import check, viz

# %% [markdown] id=w02c-surprise
# ## A surprise first
#
# Four ways to write a ReLU. For every input they give the same value. Which of them have the same slope at exactly 0?
# Decide before you run the cell.
# %% id=w02c-surprise-code
ways = {
    "torch.relu(x)": torch.relu,
    "x.clamp(min=0)": lambda x: x.clamp(min=0),
    "torch.maximum(x, zero)": lambda x: torch.maximum(x, torch.zeros(())),
    "torch.where(x > 0, x, 0)": lambda x: torch.where(x > 0, x, 0.0),
}
for name, relu in ways.items():
    x = torch.tensor(0.0, requires_grad=True)
    relu(x).backward()
    print(f"{name:26} slope at 0: {x.grad.item()}")
# %% [markdown] id=w02c-surprise-after
# At a corner there is no slope, so each operation returns the one its author chose. `maximum` has a tie and shares it,
# as your `amax` does. It rarely matters; when two versions of a network differ in the third digit, remember it.
#
# ## Leaves
#
# A tensor that you made is a *leaf*; a tensor that an operation made is not. Gradients are stored in `.grad` for leaves
# with `requires_grad=True`, and only for them. Those inside the graph are passed on and dropped.
# %% id=w02c-leaves
w = torch.ones(3, requires_grad=True)  # a leaf that wants a gradient
x = torch.arange(3.0)  # a leaf that does not
hidden = w * x  # made by an operation
hidden.retain_grad()  # keep this one as well
loss = (hidden**2).sum()
loss.backward()
print("w      leaf:", w.is_leaf, "| grad:", w.grad.tolist())
print("x      leaf:", x.is_leaf, "| grad:", x.grad)
print("hidden leaf:", hidden.is_leaf, "| grad:", hidden.grad.tolist(), "(because of retain_grad)")
# %% [markdown] id=w02c-leaves-fig-md
# The graph of a torch tensor can be drawn like your own. Torch keeps no values inside, so they show at the ends only;
# and `x`, which wants no gradient, is not part of the graph at all.
# %% id=w02c-leaves-fig
w, b = torch.ones(3, requires_grad=True), torch.zeros(1, requires_grad=True)
loss = ((w * x + b) ** 2).sum()
loss.backward()
viz.graph(loss, names={"w": w, "b": b}, title="sum of (w x + b)²")
# %% [markdown] id=w02c-modes-md
# ## Not recording
#
# | you write | what it does | use it for |
# |---|---|---|
# | `x.detach()` | the same numbers, without history, memory shared | a target, a value to log |
# | `with torch.no_grad():` | nothing inside is recorded | validation; changing weights by hand |
# | `with torch.inference_mode():` | the same, and the results may never enter a graph | serving: a little faster |
# | `w.requires_grad_(False)` | this leaf is a constant from now on | freezing a layer |
#
# Changing a weight that wants a gradient, in place and while recording, is an error: the step itself would become part
# of the graph.
# %% id=w02c-modes
w = torch.ones(2, requires_grad=True)
try:
    w -= 0.5
except RuntimeError as error:
    print("RuntimeError:", error)
with torch.no_grad():
    w -= 0.5
print("under no_grad:", w.tolist())
with torch.inference_mode():
    y = w * 2
try:
    (y * w).sum().backward()
except RuntimeError as error:
    print("RuntimeError:", str(error).split(".")[0])
# %% [markdown] id=w02c-hooks-md
# ## Hooks: look at a gradient on its way
#
# `hidden.register_hook(f)` calls `f` with the gradient of `hidden` when it is complete, in the middle of backward. What
# `f` returns takes its place; returning nothing leaves it as it is. This is how people find the layer where gradients
# become NaN, and how some clip them.
# %% id=w02c-hooks
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
hidden = x * x
hidden.register_hook(lambda g: print("gradient of hidden:", g.tolist()))
hidden.register_hook(lambda g: g.clamp(max=2.0))
(hidden * hidden).sum().backward()
print("x.grad:", x.grad.tolist(), "= 2 times 2x: the hook cut 2, 8 and 18 down to 2")
# %% [markdown] id=w02c-grad-md
# ## Gradients as values
#
# [`torch.autograd.grad(y, x)`](https://docs.pytorch.org/docs/2.13/generated/torch.autograd.grad.html) returns gradients
# in a tuple and leaves every `.grad` alone. With `create_graph=True` the backward pass is itself recorded, so a slope
# can be differentiated again. (Your tape could not do that: its gradients are plain arrays.)
# %% id=w02c-grad
x = torch.tensor(3.0, requires_grad=True)
(first,) = torch.autograd.grad(x**3, x, create_graph=True)
(second,) = torch.autograd.grad(first, x)
print("slope of x³ at 3:", first.item(), "| slope of the slope:", second.item(), "| x.grad:", x.grad)


# %% [markdown] id=w02c-function-md
# ## Exercise
#
# Most new layers are made of operations that torch knows, and need nothing. Sometimes you want your own way back:
# cheaper, more stable, or around code that torch cannot see. Then you write your `(value, backward)` pair as a class:
#
# ```
# class Double(torch.autograd.Function):
#     @staticmethod
#     def forward(ctx, x, factor):
#         ctx.factor = factor            # plain values: as attributes
#         ctx.save_for_backward(x)       # tensors: like this, and only those you need
#         return factor * x
#
#     @staticmethod
#     def backward(ctx, g):
#         (x,) = ctx.saved_tensors
#         return ctx.factor * g, None    # one per input; None: no gradient
#
# y = Double.apply(x, 2.0)
# ```
#
# Write the sigmoid of `scale * x`: `y = 1 / (1 + exp(−scale · x))`. Its slope by `x` is `scale · y · (1 − y)`: save
# `y`, and no exponential is computed twice. At `x = 0` with `scale = 2` the value is 0.5, the slope 0.5.
# %% id=w02c-function role=exercise ex=w02.function
class Sigmoid(torch.autograd.Function):
    """Sigmoid.apply(x, scale) = 1 / (1 + exp(-scale * x)), elementwise; scale is a plain number."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, scale: float) -> torch.Tensor:
        ### BEGIN SOLUTION
        y = 1 / (1 + torch.exp(-scale * x))
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, g: torch.Tensor):
        ### BEGIN SOLUTION
        (y,) = ctx.saved_tensors
        return g * ctx.scale * y * (1 - y), None
        ### END SOLUTION


# %% id=w02c-function-check role=check ex=w02.function
check("w02.function", Sigmoid)
# %% [markdown] id=w02c-gradcheck-md
# When there is no torch to compare with,
# [`torch.autograd.gradcheck`](https://docs.pytorch.org/docs/2.13/generated/torch.autograd.gradcheck.gradcheck.html) is
# the judge. It is your gradcheck of notebook 02: central differences, every index, float64. With a wrong backward it
# says where.
# %% id=w02c-gradcheck
x = torch.linspace(-2, 2, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
print("right:", torch.autograd.gradcheck(lambda x: Sigmoid.apply(x, 1.5), (x,)))


class NoScale(Sigmoid):
    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * (1 - y), None


try:
    torch.autograd.gradcheck(lambda x: NoScale.apply(x, 1.5), (x,))
except RuntimeError as error:
    print("wrong:", str(error).splitlines()[0].rstrip(","))
# %% [markdown] id=w02c-kept-md
# ## Exercise
#
# A dynamic graph is built anew at every forward pass. Its nodes are small. What costs memory are the tensors that the
# nodes keep for backward, from the forward pass until backward has used them. Which ones? Those that stand in the
# slope: `exp` needs its result, `sin` its input, a product of two tensors both of them, a sum nothing. A tensor that
# two nodes keep is counted once.
#
# `x = torch.ones(1000, requires_grad=True)` takes 4,000 bytes. Predict how many bytes are kept for backward by
#
# | | | | |
# |---|---|---|---|
# {questions}
# %% id=w02c-kept role=exercise ex=w02.kept
### BEGIN SOLUTION
prediction = {"a": 0, "b": 0, "c": 4000, "d": 4000, "e": 4000, "f": 8000, "g": 0, "h": 0}
sure = 6
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ..., "h": ...}
# sure = ...
### END SOLUTION
# %% id=w02c-kept-check role=check ex=w02.kept
check("w02.kept", prediction, sure=sure)
# %% [markdown] id=w02c-kept-after
# You can watch torch keep them: two functions are called whenever a tensor is put aside and whenever it is needed
# again.
# %% id=w02c-kept-watch
x = torch.ones(1000, requires_grad=True)


def put_aside(tensor):
    print("  kept  ", tuple(tensor.shape))
    return tensor


def take_back(tensor):
    print("  needed", tuple(tensor.shape))
    return tensor


with torch.autograd.graph.saved_tensors_hooks(put_aside, take_back):
    print("forward")
    y = x.sin().exp().sum()
print("backward")
y.backward()
# %% [markdown] id=w02c-torch
# ## Where to look it up
#
# | topic | torch's page |
# |---|---|
# | how it works | [autograd mechanics](https://docs.pytorch.org/docs/2.13/notes/autograd.html): modes, in-place operations, slopes at corners |
# | the API | [torch.autograd](https://docs.pytorch.org/docs/2.13/autograd.html) |
# | not recording | [`torch.no_grad`](https://docs.pytorch.org/docs/2.13/generated/torch.no_grad.html), [`torch.inference_mode`](https://docs.pytorch.org/docs/2.13/generated/torch.autograd.grad_mode.inference_mode.html), [`Tensor.detach`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.detach.html) |
# | hooks | [`Tensor.register_hook`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.register_hook.html), [`Tensor.retain_grad`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.retain_grad.html) |
# | your own operation | [`torch.autograd.Function`](https://docs.pytorch.org/docs/2.13/autograd.html#torch.autograd.Function), [extending PyTorch](https://docs.pytorch.org/docs/2.13/notes/extending.html) |
# | what is kept | [hooks for saved tensors](https://docs.pytorch.org/docs/2.13/autograd.html#torch.autograd.graph.saved_tensors_hooks) |
#
# In torch's source, each operation's way back is a line of `tools/autograd/derivatives.yaml`; look up `exp` there and
# find `grad * result.conj()`.
# %% [markdown] id=w02c-built
# ## What you know now
#
# - Leaves that want a gradient get one; what is inside the graph needs `retain_grad` or a hook to be seen.
# - `detach` cuts one tensor off, `no_grad` a block, `inference_mode` a block for good.
# - `autograd.grad` returns gradients; with `create_graph=True` they have a history themselves.
# - A `Function` is your value and backward as a class, with one gradient per input of forward.
# - A graph keeps what the slopes need, until backward has used it.
#
# The question people ask next: *my gradient is None, or backward complains about an in-place operation. Where do I
# look?* In the clinic, next.
#
# **Further reading.** A. Paszke and others, [PyTorch: an imperative style, high-performance deep learning
# library](https://arxiv.org/abs/1912.01703), section 4.3 · torch's tutorial on [double backward in a
# Function](https://docs.pytorch.org/tutorials/intermediate/custom_function_double_backward_tutorial.html).
# %% [markdown] id=w02c-instructor role=instructor
# **Goals.** Learners can say which tensors get a `.grad`, choose between detach, no_grad and inference_mode, write a
# Function with a constant argument, and estimate what a graph keeps in memory.
#
# **50 minutes.** 5 the surprise, with votes · 10 leaves and modes, each error read aloud · 10 hooks and
# `autograd.grad`, typed live · 15 exercise {w02.function}, then gradcheck on a planted fault · 10 exercise {w02.kept}
# by show of hands, e and f drawn on the board.
#
# **Misconceptions.** "Every tensor has a .grad" (leaves). "no_grad and detach make gradients zero" (modes). "backward
# of a Function gets x for free" (1: save it). "A constant needs no gradient, so it needs no place" (1: one gradient).
# "The graph keeps every intermediate result" (2a, 2b, 2g). "It keeps inputs" (2c: the result).
#
# **To think about aloud.** Why does torch not keep all gradients inside? They are as large as the activations, and
# almost nobody looks at them. Why may an inference tensor never enter a graph? Nobody counts the writes to it, so torch
# could not tell whether it was overwritten.
