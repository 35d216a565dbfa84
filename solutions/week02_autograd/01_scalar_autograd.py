# %% [markdown] id=w02a-title
# # Week 2 · 01 Scalar autograd
#
# In about 80 minutes you will build the machine behind `loss.backward()`, for single numbers: a value that remembers
# how it was made, and a walk back through that memory which finds every slope. It is about forty lines, and nothing
# essential is added later: notebook 02 puts arrays where the numbers are.
# %% id=w02a-setup role=setup
import math
import operator
import sys
from collections.abc import Callable

import numpy as np
import torch

from labkit import check, viz

# %% [markdown] id=w02a-surprise
# ## A surprise first
#
# `y = x² + x` has the slope `2x + 1`, which is 7 at `x = 3`. Torch finds it without being told any calculus. Then the
# cell asks again, and again. What do the three lines print? Decide before you run it.
# %% id=w02a-surprise-code
x = torch.tensor(3.0, requires_grad=True)
for _ in range(3):
    y = x * x + x
    y.backward()
    print("slope of y by x:", x.grad.item())
# %% [markdown] id=w02a-surprise-after
# The first is right. The others are not random either: they are the first, two and three times. You will know why by
# the end, because your own engine will do the same, and for a good reason.


# %% [markdown] id=w02a-difference-md
# ## Exercise
#
# Before building a machine for slopes, get one you can trust without any machine. Take two points, `eps` to the left
# and `eps` to the right of `x`, and divide the rise by the distance. This is the *central difference*:
#
# | f | x | eps | slope |
# |---|---|---|---|
# | x² | 3 | 0.5 | (3.5² − 2.5²) / 1 = 6 |
# %% id=w02a-difference role=exercise ex=w02.central_difference
def central_difference(f: Callable[[float], float], x: float, eps: float) -> float:
    """The slope of f between x - eps and x + eps: x², 3, 0.5 -> 6.0"""
    ### BEGIN SOLUTION
    return (f(x + eps) - f(x - eps)) / (2 * eps)
    ### END SOLUTION


# %% id=w02a-difference-check role=check ex=w02.central_difference
check("w02.central_difference", central_difference)


# %% [markdown] id=w02a-epsilon-md
# ## Exercise
#
# The smaller the step, the nearer the two points are to `x`. So the best step should be the smallest one. The figure
# shows the error of your `central_difference` for a bump, `1 / (1 + x²)`, whose slope we know, for steps from 0.1 down
# to 10⁻¹²: once in float64, which is what Python's own numbers are, and once in float32.
# %% id=w02a-epsilon-fig
def bump(x):
    return 1 / (1 + x * x)


exact = -2 * 0.7 / (1 + 0.7 * 0.7) ** 2
steps = [10.0 ** (-k / 2) for k in range(2, 25)]
errors = {
    "float64": [abs(central_difference(bump, 0.7, eps) - exact) for eps in steps],
    "float32": [
        abs(float(central_difference(bump, np.float32(0.7), np.float32(eps))) - exact) for eps in steps
    ],
}
viz.error_vs_epsilon(steps, errors, title="Smaller is better, until it is not")
# %% [markdown] id=w02a-epsilon-md2
# Coming from the right, the error falls with eps²: the bump is curved, and a straight line between two points misses
# less of it when they are close. Then it rises again. `f(x + eps)` and `f(x - eps)` agree in more and more digits, the
# difference keeps fewer and fewer, and those few are divided by a tiny number.
#
# Set `best` to a good step for float64: read it off the figure, or work it out.
# %% id=w02a-epsilon role=exercise ex=w02.epsilon
### BEGIN SOLUTION
# rounding, about 1e-16 / eps, meets bending, about eps², at the cube root
best = sys.float_info.epsilon ** (1 / 3)
### STUB
# best = ...
### END SOLUTION
# %% id=w02a-epsilon-check role=check ex=w02.epsilon
check("w02.epsilon", best)


# %% [markdown] id=w02a-local-md
# Now you can check any slope. But a network has a million inputs, and this would take two million evaluations for one
# step of training. There is a cheaper way: calculus for the small pieces, and bookkeeping for the rest.
#
# ## Exercise
#
# Every formula is made of a few operations. The *local derivatives* of an operation are its slopes by each of its
# inputs, at the values that they have, whatever stands around it. For `mul` at (2, −3.5): by `a` it is `b` = −3.5, and
# by `b` it is `a` = 2.
#
# | op | value | inputs |
# |---|---|---|
# | `"add"`, `"mul"`, `"div"` | `a + b`, `a * b`, `a / b` | both: return two slopes |
# | `"pow"` | `a ** b` | only `a`; `b` is a constant: one slope |
# | `"exp"`, `"log"`, `"tanh"` | `math.exp(a)`, `math.log(a)`, `math.tanh(a)` | one; the slope of tanh is 1 − tanh² |
# | `"relu"` | `a` if `a > 0` else 0 | one; at exactly 0 torch takes the slope 0 |
#
# Return a tuple in any case: `(1.0, 1.0)`, or `(0.5,)` with a comma.
# %% id=w02a-local role=exercise ex=w02.local
def local(op: str, a: float, b: float = 0.0) -> tuple[float, ...]:
    """The slopes of one operation by its inputs: "mul", 2.0, -3.5 -> (-3.5, 2.0)"""
    ### BEGIN SOLUTION
    if op == "add":
        return 1.0, 1.0
    if op == "mul":
        return b, a
    if op == "div":
        return 1 / b, -a / b**2
    if op == "pow":
        return (b * a ** (b - 1),)
    if op == "exp":
        return (math.exp(a),)
    if op == "log":
        return (1 / a,)
    if op == "tanh":
        return (1 - math.tanh(a) ** 2,)
    return (1.0 if a > 0 else 0.0,)
    ### END SOLUTION


# %% id=w02a-local-check role=check ex=w02.local
check("w02.local", local)


# %% [markdown] id=w02a-value-md
# ## Exercise
#
# A `Value` is a number with a history: `parents` are the Values it was made from, `local` holds one local derivative
# per parent. `apply` is given: it computes an operation on Values or plain numbers, asks your `local` for the slopes,
# and writes both down. Python turns `x * y` into `x.__mul__(y)`, so all that is left is to say which method applies
# what.
#
# Then there is `2 + x`. Python asks the number 2 first, which does not know what a Value is. Then it asks `x`, with the
# *reflected* method: `x.__radd__(2)`. The same goes for `3 * x`, `5 - x` and `1 / x`; the last two cannot be swapped.
# The page of all such methods is [Emulating numeric
# types](https://docs.python.org/3/reference/datamodel.html#emulating-numeric-types).
#
# | expression | data | parents | local |
# |---|---|---|---|
# | `Value(2.0) * Value(-3.5)` | −7.0 | both | (−3.5, 2.0) |
# %% id=w02a-value role=exercise ex=w02.value
FORWARD = {
    "add": operator.add,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
    "exp": math.exp,
    "log": math.log,
    "tanh": math.tanh,
    "relu": lambda a: max(a, 0.0),
}


def apply(op: str, *args: "Value | float") -> "Value":
    """Compute an operation, and remember its inputs and their local derivatives."""
    values = [arg if isinstance(arg, Value) else Value(arg) for arg in args]
    numbers = [value.data for value in values]
    slopes = local(op, *numbers)
    return Value(FORWARD[op](*numbers), values[: len(slopes)], slopes, op)


class Value:
    """A number that remembers how it was made."""

    def __init__(self, data: float, parents=(), local=(), op: str = "") -> None:
        self.data, self.grad = float(data), 0.0
        self.parents, self.local, self.op = tuple(parents), tuple(local), op

    def __add__(self, other: "Value | float") -> "Value":
        return apply("add", self, other)

    def exp(self) -> "Value":
        return apply("exp", self)

    def log(self) -> "Value":
        return apply("log", self)

    def tanh(self) -> "Value":
        return apply("tanh", self)

    def relu(self) -> "Value":
        return apply("relu", self)

    ### BEGIN SOLUTION
    def __mul__(self, other: "Value | float") -> "Value":
        return apply("mul", self, other)

    def __truediv__(self, other: "Value | float") -> "Value":
        return apply("div", self, other)

    def __pow__(self, exponent: float) -> "Value":
        return apply("pow", self, exponent)

    def __neg__(self) -> "Value":
        return self * -1

    def __sub__(self, other: "Value | float") -> "Value":
        return self + other * -1

    def __rsub__(self, other: float) -> "Value":
        return -self + other

    def __rtruediv__(self, other: float) -> "Value":
        return apply("div", other, self)

    __radd__, __rmul__ = __add__, __mul__
    ### STUB
    # def __mul__(self, other: "Value | float") -> "Value":
    #     raise NotImplementedError("your code here")
    #
    # def __truediv__(self, other: "Value | float") -> "Value":
    #     raise NotImplementedError("your code here")
    #
    # def __pow__(self, exponent: float) -> "Value":
    #     raise NotImplementedError("your code here")
    #
    # def __neg__(self) -> "Value":
    #     raise NotImplementedError("your code here")
    #
    # def __sub__(self, other: "Value | float") -> "Value":
    #     raise NotImplementedError("your code here")
    #
    # # and the reflected methods
    ### END SOLUTION


# %% id=w02a-value-check role=check ex=w02.value
check("w02.value", Value)
# %% [markdown] id=w02a-value-after
# Here is what one of your Values remembers. `a` is used twice: once on the way through `b`, once directly. A shape like
# this, where the ways part and meet again, is called a *diamond*.
# %% id=w02a-value-fig
x, y = Value(2.0), Value(-3.5)
a = x * y
b = a * 2
out = b + a
viz.graph(
    out,
    names={"x": x, "y": y, "a": a, "b": b, "out": out},
    grad=lambda node: None,
    title="out = 2a + a, a = xy",
)


# %% [markdown] id=w02a-diamond-md
# ## Exercise
#
# The *chain rule*: along a path, local derivatives multiply; where several paths lead to the same input, they add up.
# Along `out ← b ← a ← x` it is 1 · 2 · y, along `out ← a ← x` it is 1 · y. Together the slope by `x` is 3y = −10.5.
#
# A recursive function does this in four lines. It is right for every formula without a diamond. What goes wrong here?
# %% id=w02a-diamond-symptom
def backward_as_found(node, arriving=1.0):
    node.grad += arriving
    for parent, slope in zip(node.parents, node.local, strict=True):
        backward_as_found(parent, slope * node.grad)


x, y = Value(2.0), Value(-3.5)
a = x * y
backward_as_found(a * 2 + a)
print("slope by x:", x.grad, "  should be", 3 * y.data)
# %% [markdown] id=w02a-diamond-menu
# Play it by hand: write down what `a.grad` holds at each visit, and what is passed on. Then set `fault` to one of
# `"passes on node.grad"`, `"adds instead of setting"`, `"starts at the wrong node"`, `"misses a parent"`, and mend the
# code.
# %% id=w02a-diamond role=exercise ex=w02.diamond
### BEGIN SOLUTION
fault = "passes on node.grad"


def backward_by_paths(node: Value, arriving: float = 1.0) -> None:
    """Add to node.grad what arrives, and pass it on to every parent."""
    node.grad += arriving
    for parent, slope in zip(node.parents, node.local, strict=True):
        backward_by_paths(parent, slope * arriving)


### STUB
# fault = ...
#
#
# def backward_by_paths(node: Value, arriving: float = 1.0) -> None:
#     """Add to node.grad what arrives, and pass it on to every parent."""
#     node.grad += arriving
#     for parent, slope in zip(node.parents, node.local, strict=True):
#         backward_by_paths(parent, slope * node.grad)
### END SOLUTION
# %% id=w02a-diamond-check role=check ex=w02.diamond
check("w02.diamond", backward_by_paths, fault=fault)
# %% [markdown] id=w02a-diamond-after
# It is right now. How much work is it? A diamond doubles the number of paths, and each path is walked by itself. Guess
# the number of visits for 12 diamonds in a row, which have 37 nodes.
# %% id=w02a-diamond-count
node = Value(0.5)
for _ in range(12):
    node = node * 0.5 + node
visits, waiting = 0, [node]
while waiting:
    visits += 1
    waiting.extend(waiting.pop().parents)
print(f"{visits:,} visits")


# %% [markdown] id=w02a-order-md
# ## Exercise
#
# Walking every path doubles the work with every diamond: with 100 of them it never ends. The way out: wait at each node
# until *everything* has arrived, then pass the sum on once. So a node may be handled only after all that were made from
# it. An order in which each node stands after its parents is called *topological*; read from the back, it is the order
# we need.
#
# One way to get it: append a node when all its parents are in the list. Do it with a list of things to do instead of
# recursion, because Python allows about 1,000 calls inside each other, and a chain of 5,000 operations is nothing
# unusual. Put pairs on the list:
#
# - `(node, False)`: to be looked at. If it was seen before, drop it. If not, remember that it was seen, put `(node,
#   True)` back, then `(parent, False)` on top for each parent.
# - `(node, True)`: all its parents are in by now. Append it.
# %% id=w02a-order role=exercise ex=w02.topological
def topological_order(root: Value) -> list[Value]:
    """Every node that root was made from, once, each after its parents; root is the last."""
    ### BEGIN SOLUTION
    order, seen, waiting = [], set(), [(root, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting.extend((parent, False) for parent in node.parents)
    return order
    ### END SOLUTION


# %% id=w02a-order-check role=check ex=w02.topological
check("w02.topological", topological_order)


# %% [markdown] id=w02a-backward-md
# ## Exercise
#
# Everything is there. The gradient of a node is the slope of the result by that node. Three steps:
#
# 1. Every node *with* parents starts at `grad = 0.0`. Nodes without parents, the inputs, keep what they have: like
#    torch, your engine adds to it.
# 2. The result has slope 1 by itself.
# 3. Walk the order from the back. One line per edge: `parent.grad += slope * node.grad`.
#
# For `x * y` at (2, −3.5) this leaves `x.grad = -3.5` and `y.grad = 2.0`.
# %% id=w02a-backward role=exercise ex=w02.backward
def backward(root: Value) -> None:
    """Add the slope of root by each input to the input's grad."""
    ### BEGIN SOLUTION
    order = topological_order(root)
    for node in order:
        if node.parents:
            node.grad = 0.0
    root.grad = 1.0
    for node in reversed(order):
        for parent, slope in zip(node.parents, node.local, strict=True):
            parent.grad += slope * node.grad
    ### END SOLUTION


# %% id=w02a-backward-check role=check ex=w02.backward
check("w02.backward", backward)
# %% [markdown] id=w02a-backward-after
# The diamond again, with your values and your gradients; the leaf without a name is the constant 2. Read the gradients
# from the bottom up: `a` gets 2 from `b` and 1 directly.
# %% id=w02a-backward-fig
x, y = Value(2.0), Value(-3.5)
a = x * y
b = a * 2
out = b + a
backward(out)
viz.graph(out, names={"x": x, "y": y, "a": a, "b": b, "out": out}, title="values down, gradients up")
# %% [markdown] id=w02a-descent-md
# ## What it bought you
#
# A slope tells in which direction a number should move. That is all of training. Here your engine looks for the number
# whose square is 2: it makes `(t² − 2)²` small, by steps against the slope.
# %% id=w02a-descent
t = Value(1.0)
for _ in range(40):
    loss = (t * t - 2) ** 2
    t.grad = 0.0  # leave this line out, and see
    backward(loss)
    t.data -= 0.05 * t.grad
print(f"t = {t.data:.6f}, t² = {t.data**2:.6f}")
# %% [markdown] id=w02a-accumulate-md
# ## Exercise
#
# Why does `backward` add to `grad` instead of setting it? Inside a graph it must: a value that is used twice gets two
# contributions. For inputs it is a choice, and it is useful: a batch too large for memory can be taken in parts, and
# the gradients add up to those of the whole. The price is that somebody has to clear them between steps. An optimizer's
# `zero_grad()` does it, by setting them to `None`.
#
# Three more words of torch: `x.detach()` is the same number without a history. Under `with torch.no_grad():` nothing is
# recorded. And after `backward()` torch throws away what it kept for it, unless you say `retain_graph=True`.
#
# Each item starts with `x = torch.tensor(3.0, requires_grad=True)`. Predict what `x.grad` holds at the end, as a
# number, or `"error"`.
#
# | | |
# |---|---|
# {questions}
# %% id=w02a-accumulate role=exercise ex=w02.accumulate
### BEGIN SOLUTION
prediction = {"a": 6, "b": 12, "c": 6, "d": 3, "e": "error", "f": 12, "g": "error", "h": 9}
sure = 6
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ..., "h": ...}
# sure = ...
### END SOLUTION
# %% id=w02a-accumulate-check role=check ex=w02.accumulate
check("w02.accumulate", prediction, sure=sure)
# %% [markdown] id=w02a-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | `Value.parents`, `Value.local` | [`y.grad_fn`](https://docs.pytorch.org/docs/2.13/autograd.html#torch.autograd.graph.Node) and its `next_functions`; what `local` needs is in `_saved_…` |
# | `Value(2.0)` as an input | a *leaf*: [`x.requires_grad`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.requires_grad.html), [`x.is_leaf`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.is_leaf.html) |
# | `local` | one entry per operation in `tools/autograd/derivatives.yaml` |
# | `backward` | [`y.backward()`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.backward.html), [`torch.autograd.grad`](https://docs.pytorch.org/docs/2.13/generated/torch.autograd.grad.html) |
# | `t.grad = 0.0` | [`optimizer.zero_grad()`](https://docs.pytorch.org/docs/2.13/generated/torch.optim.Optimizer.zero_grad.html) |
#
# The walk through the graph is `torch/csrc/autograd/engine.cpp`: a queue of nodes whose gradients are complete, counted
# by how many children are still to come. No recursion.
# %% id=w02a-torch-code
x, y = torch.tensor(2.0, requires_grad=True), torch.tensor(-3.5, requires_grad=True)
a = x * y
out = a * 2 + a
out.backward()
print("torch:", x.grad.item(), y.grad.item(), "| made by", type(out.grad_fn).__name__)
# %% [markdown] id=w02a-built
# ## What you built
#
# - A slope from two points; it needs two evaluations per input, float64, and a step near 10⁻⁵.
# - A table of eight local derivatives: all the calculus there is.
# - A number that writes down how it was made, reflected operators included.
# - An order in which each node comes after its parents, without recursion.
# - Backward: one line per edge, each node once, gradients added up.
#
# The question people ask next: *why topological order, is a recursion over the children not enough?* You have seen both
# answers. Passing on at every visit is wrong (the diamond), or right and exponential (2 to the number of diamonds).
# Waiting until a gradient is complete needs an order, and this is it. The next notebook asks what changes when the
# numbers are arrays.
#
# **Further reading.** A. Karpathy, [micrograd](https://github.com/karpathy/micrograd), the engine in 94 lines · A.
# Baydin and others, [Automatic differentiation in machine learning: a survey](https://arxiv.org/abs/1502.05767),
# sections 2 and 3 · torch's [autograd mechanics](https://docs.pytorch.org/docs/2.13/notes/autograd.html).
# %% [markdown] id=w02a-instructor role=instructor
# **Goals.** Learners can check a slope by a central difference with a sensible step, draw the graph of an expression,
# and explain why backward adds, why it needs an order, and what zero_grad is for.
#
# **50 minutes.** 5 the surprise, with guesses · 5 exercise {w02.central_difference} and the figure of exercise
# {w02.epsilon}, answered together · 10 exercises {w02.local} and {w02.value}, the reflected methods on the board · 15
# exercise {w02.diamond}, played with paper slips by five people standing in a diamond, then mended in pairs · 10
# exercise {w02.backward}, order given · 5 exercise {w02.accumulate} by show of hands. Exercise {w02.topological} is for
# home.
#
# **Misconceptions.** "The smallest eps is the best" (2). "`2 + x` calls `x.__add__`" (4). "A minus is a new number" (4:
# history lost). "A node can pass on what it holds" (5). "Breadth first is an order" (6: a long and a short way).
# "Accumulation is a bug of torch" (7, 8). "no_grad makes gradients zero" (8g, 8h: it makes a constant).
#
# **To think about aloud.** Why is the error of float32 so much worse? The spacing is 10⁻⁷ instead of 10⁻¹⁶, and it is
# divided by eps. What happens in the descent without the line that clears the gradient? Old slopes go on pushing, like
# a ball with inertia; week 3 calls it momentum and adds friction. Why does backward cost about as much as forward? It
# visits each edge once, and an edge is one multiplication and one addition.
