# %% [markdown] id=w02b-title
# # Week 2 · 02 Tensor autograd
#
# In about 110 minutes your engine learns arrays. The walk back through the graph stays as it is; what changes is what a
# step of it does. You write the way back through stretched axes, quotients, maxima, indices and matrix products, put
# them on a tape, and prove them with a gradcheck. At the end of the week, in the clinic, a network trains on it.
# %% id=w02b-setup role=setup
import itertools

import numpy as np
import torch

from labkit import check, viz

# %% [markdown] id=w02b-surprise
# ## A surprise first
#
# A bias of three numbers is added to four rows, and everything is added up. Raising a number of the bias by 1 raises
# the total by how much? What does the last line print? Decide before you run the cell.
# %% id=w02b-surprise-code
x = torch.zeros(4, 3)
bias = torch.zeros(3, requires_grad=True)
everything = (x + bias).sum()
everything.backward()
print("gradient of the bias:", bias.grad.tolist())
# %% id=w02b-surprise-fig
viz.broadcast((4, 3), (3,), names=["x", "bias"])
# %% [markdown] id=w02b-surprise-after
# Each number of the bias was used in four places, and where a value is used several times its contributions add up.
# Stretching an axis is using a value several times. It is the diamond of notebook 01 once more, in another dress.
# %% [markdown] id=w02b-products-md
# ## Exercise
#
# For numbers a slope was one number. A function with `n` numbers in and `m` out has a table of them, its *Jacobian*
# `J`: one row per output, one column per input. The tables get large; nobody writes them down. What is needed is a
# product with one:
#
# - `J @ v`, *Jacobian times vector*: `v` is a change of the inputs, the product is the change of the outputs. Forward
#   mode.
# - `g @ J`, *vector times Jacobian*: `g` holds the slope of some final result by each output, the product its slope by
#   each input. This is what `backward` computes, one operation at a time.
#
# With `v` or `g` all zeros but for a single 1, the product is one column or one row of `J`. Predict. Shapes are tuples
# such as `(3,)`.
#
# | | |
# |---|---|
# {questions}
# %% id=w02b-products role=exercise ex=w02.products
### BEGIN SOLUTION
prediction = {
    "a": (2, 3),
    "b": (3,),
    "c": (2,),
    "d": (3,),
    "e": 1,
    "f": 1_000_000,
    "g": "J @ v",
    "h": 1000,
}
sure = 6
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ..., "h": ...}
# sure = ...
### END SOLUTION
# %% id=w02b-products-check role=check ex=w02.products
check("w02.products", prediction, sure=sure)


# %% [markdown] id=w02b-unbroadcast-md
# ## Exercise
#
# `g` is a gradient in the shape that came *out* of a broadcast. Bring it back to the shape of the input that was
# stretched: sum over every axis along which it was repeated. There are two kinds, and the rule of week 1 says which:
#
# | `g` | the input | what happened | way back |
# |---|---|---|---|
# | (4, 3) | (3,) | an axis was added in front | sum over axis 0 |
# | (4, 5) | (4, 1) | an axis of size 1 was stretched | sum over axis 1, keep it with size 1 |
# | (5, 2, 4, 3) | (2, 1, 3) | both | sum over axis 0, then over the one of size 4 |
#
# `g.sum(axis=(0, 2), keepdims=True)` sums over several axes at once; `axis=()` sums over none.
# %% id=w02b-unbroadcast role=exercise ex=w02.unbroadcast
def unbroadcast(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum g over the axes along which an array of `shape` was stretched: [[1, 2], [3, 4]], (2,) -> [4, 6]"""
    ### BEGIN SOLUTION
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)
    ### END SOLUTION


# %% id=w02b-unbroadcast-check role=check ex=w02.unbroadcast
check("w02.unbroadcast", unbroadcast)


# %% [markdown] id=w02b-given-md
# ## An operation and its way back
#
# From here on every operation has one form. It is a function of arrays that returns two things: its value, and a
# function `backward` that takes `g`, the gradient of the value, and returns a tuple with the gradient of each input.
# `backward` is defined inside, so it can use the inputs: what it needs is kept for it. Here are four to start with.
# %% id=w02b-given role=setup
def add(a, b):
    return a + b, lambda g: (unbroadcast(g, a.shape), unbroadcast(g, b.shape))


def mul(a, b):
    def backward(g):
        return unbroadcast(g * b, a.shape), unbroadcast(g * a, b.shape)

    return a * b, backward


def relu(x):
    return np.maximum(x, 0), lambda g: (g * (x > 0),)


def total(x, axis=None):
    """The sum along an axis; each element has the slope 1, so g is repeated."""

    def backward(g):
        g = g if axis is None else np.expand_dims(g, axis)
        return (np.broadcast_to(g, x.shape),)

    return x.sum(axis=axis), backward


# %% [markdown] id=w02b-div-md
# Read `mul` once more: the local derivatives by `a` and `b` are `b` and `a`, as in your table; each is multiplied by
# `g`; and each result is summed back to the shape of its input. A power with a constant exponent, `x ** n`, would be
# `lambda g: (g * n * x ** (n - 1),)`.
#
# ## Exercise
#
# Write `div` in the same form. With `a = [6.0]`, `b = [2.0]` and `g = [1.0]` the value is `[3.0]`, the gradients are
# `[0.5]` and `[-1.5]`.
# %% id=w02b-div role=exercise ex=w02.div
def div(a: np.ndarray, b: np.ndarray):
    """a / b, elementwise with broadcasting; returns (value, backward), backward(g) -> (gradient of a, of b)"""
    ### BEGIN SOLUTION

    def backward(g):
        return unbroadcast(g / b, a.shape), unbroadcast(-g * a / b**2, b.shape)

    return a / b, backward
    ### END SOLUTION


# %% id=w02b-div-check role=check ex=w02.div
check("w02.div", div)


# %% [markdown] id=w02b-amax-md
# ## Exercise
#
# A reduction loses an axis, so `g` has one axis less than `x`. To line it up again, give the axis back with size 1:
# `np.expand_dims(g, axis)`. For a sum that is all there is, as in `total`; a mean divides by the number of elements as
# well.
#
# A maximum passes its gradient to the element that was the largest; the others have no influence. And if two are
# equally large? The slope is not defined there, so somebody has to choose. `torch.max(x, dim)`, which also returns
# where the maximum was, gives everything to that one. `torch.amax` shares it equally. Do it like `amax`: the result
# does not depend on the order of the elements then.
#
# ```
# x = [[2, -1, 2],       amax(x, 1): value [2, 5]       backward([10, 7]) -> [[5, 0, 5],
#      [0,  5, 1]]                                                            [0, 7, 0]]
# ```
# %% id=w02b-amax role=exercise ex=w02.amax
def amax(x: np.ndarray, axis: int):
    """The largest along an axis, which disappears; returns (value, backward), backward(g) -> (gradient of x,)"""
    ### BEGIN SOLUTION
    top = x.max(axis=axis, keepdims=True)
    at = x == top
    share = at / at.sum(axis=axis, keepdims=True)
    return np.squeeze(top, axis), lambda g: (share * np.expand_dims(g, axis),)
    ### END SOLUTION


# %% id=w02b-amax-check role=check ex=w02.amax
check("w02.amax", amax)


# %% [markdown] id=w02b-take-md
# ## Exercise
#
# Operations that only move elements have no slopes to compute. Their way back moves the gradient where the elements
# came from:
#
# | forward | backward |
# |---|---|
# | `x.reshape(shape)` | `g.reshape(x.shape)` |
# | `x.transpose(order)` | `g.transpose(np.argsort(order))`: the inverse order, which is the same order only for two axes |
# | `np.broadcast_to(x, shape)` | `unbroadcast(g, x.shape)` |
# | `x[index]` | zeros in the shape of `x`, with `g` added at `index` |
#
# The last line has a trap that you know from the confusion matrix of week 1: an index may name the same place twice.
# `grad[index] += g` then keeps one of the two; [`np.add.at(grad, index,
# g)`](https://numpy.org/doc/stable/reference/generated/numpy.ufunc.at.html) adds both. `index` may be an array of row
# numbers, a slice, or a tuple of such things; `x[index]` and `np.add.at` take them all.
#
# ```
# x has 3 rows, index = [2, 0, 2], g = [[1], [10], [100]]
# backward(g) -> [[10], [0], [101]]
# ```
# %% id=w02b-take role=exercise ex=w02.take
def take(x: np.ndarray, index):
    """x[index]; returns (value, backward), backward(g) -> (gradient of x,)"""
    ### BEGIN SOLUTION

    def backward(g):
        grad = np.zeros_like(x)
        np.add.at(grad, index, g)
        return (grad,)

    return x[index], backward
    ### END SOLUTION


# %% id=w02b-take-check role=check ex=w02.take
check("w02.take", take)


# %% [markdown] id=w02b-matmul-md
# ## Exercise
#
# `a` is (n, k), `b` is (k, m), so `g` is (n, m), like the product. The gradient of `a` has the shape of `a`. There is
# only one way to make (n, k) out of `g` and `b`, and it is the right one: `g @ bᵀ`. In the same way `aᵀ @ g` has the
# shape of `b`. (Why it is right: `a[i, j]` is multiplied by the whole row `b[j]`, and what comes out is weighted with
# `g[i]`.)
#
# With more axes, all but the last two count a batch, and they broadcast: (5, 2, 3) @ (3, 4) uses the same (3, 4) five
# times. So turn only the last two axes, `np.swapaxes(x, -1, -2)`, and sum back what was stretched. Inputs with a single
# axis need not work.
# %% id=w02b-matmul role=exercise ex=w02.matmul
def matmul(a: np.ndarray, b: np.ndarray):
    """(..., n, k) @ (..., k, m) -> (..., n, m); returns (value, backward), backward(g) -> (gradient of a, of b)"""
    ### BEGIN SOLUTION

    def backward(g):
        ga = g @ np.swapaxes(b, -1, -2)  # (..., n, m) @ (..., m, k)
        gb = np.swapaxes(a, -1, -2) @ g  # (..., k, n) @ (..., n, m)
        return unbroadcast(ga, a.shape), unbroadcast(gb, b.shape)

    return a @ b, backward
    ### END SOLUTION


# %% id=w02b-matmul-check role=check ex=w02.matmul
check("w02.matmul", matmul)


# %% [markdown] id=w02b-logsumexp-md
# ## Exercise
#
# A classifier turns scores into probabilities with the *softmax*, `exp(x) / Σ exp(x)`, and its loss is made of their
# logarithm. Both go through `log Σ exp(x)`. Its value is harmless, a little above the largest score. The way there is
# not:
# %% id=w02b-logsumexp-overflow
scores = np.array([1000.0, 1001.0])
with np.errstate(over="ignore"):
    print("as written:", np.log(np.exp(scores).sum()))
print("torch:     ", round(torch.logsumexp(torch.tensor(scores), 0).item(), 4))


# %% [markdown] id=w02b-logsumexp-md2
# `exp(1000)` is beyond float64. The cure is one identity: `log Σ exp(x) = m + log Σ exp(x − m)`, for any number `m`.
# With `m` the largest along the axis, every exponent is 0 or below and at least one is exactly 0: nothing overflows,
# and the sum is at least 1.
#
# The slope by `x` is `exp(x) / Σ exp(x)`, the softmax. Compute it safely as well: `exp(x − value)`.
#
# | x | value | backward([1.0]) |
# |---|---|---|
# | [[0, 0]], axis 1 | [log 2] = [0.6931] | [[0.5, 0.5]] |
# %% id=w02b-logsumexp role=exercise ex=w02.logsumexp
def logsumexp(x: np.ndarray, axis: int):
    """log Σ exp(x) along an axis, which disappears; returns (value, backward), backward(g) -> (gradient of x,)"""
    ### BEGIN SOLUTION
    top = x.max(axis=axis, keepdims=True)
    value = top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True))
    return np.squeeze(value, axis), lambda g: (np.exp(x - value) * np.expand_dims(g, axis),)
    ### END SOLUTION


# %% id=w02b-logsumexp-check role=check ex=w02.logsumexp
check("w02.logsumexp", logsumexp)
# %% [markdown] id=w02b-softmax-md
# A stable softmax now costs one more line, at any size of the scores.
# %% id=w02b-softmax
scores = np.array([[1e4, 9999.0, -1e4], [-1e4, -9998.0, -9999.5]])
softmax = np.exp(scores - logsumexp(scores, 1)[0][:, None])
print(softmax.round(4).tolist())
print("equal to torch's:", np.allclose(softmax, torch.softmax(torch.tensor(scores), 1).numpy()))


# %% [markdown] id=w02b-tape-md
# ## Exercise
#
# Now the pieces become an engine. A `Tensor` is an array with a history, as `Value` was a number with one. Two methods
# are yours:
#
# - `record(op, *inputs, **params)` runs an operation such as `mul` on the `.data` of its inputs and returns a new
#   Tensor that knows its inputs (`parents`), the function that sends a gradient back (`send_back`) and the name of the
#   operation (`op.__name__`). Inputs that are plain numbers or arrays become Tensors first. `params` (`axis=1`, say)
#   are handed to the operation as they are.
# - `backward()` is that of notebook 01: tensors with parents start at zero, the result starts with ones, then newest
#   first `send_back(grad)` gives one gradient per parent, which is added to what the parent has. Inputs have no
#   `send_back`: there it is `None`.
#
# `history()` is given, and shorter than your `topological_order`: every Tensor notes the time it was made. Inputs are
# always older than what was made from them, so newest first *is* an order in which each tensor comes before its
# parents.
# %% id=w02b-tape role=exercise ex=w02.tape
clock = itertools.count()


class Tensor:
    """An array that remembers how it was made."""

    def __init__(self, data, parents=(), send_back=None, op: str = "") -> None:
        self.data = np.asarray(data, dtype=np.float64)
        self.grad = np.zeros_like(self.data)
        self.parents, self.send_back, self.op = tuple(parents), send_back, op
        self.time = next(clock)

    @staticmethod
    def record(op, *inputs, **params) -> "Tensor":
        """The result of an operation, with its history."""
        ### BEGIN SOLUTION
        inputs = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs]
        value, send_back = op(*(x.data for x in inputs), **params)
        return Tensor(value, inputs, send_back, op.__name__)
        ### END SOLUTION

    def backward(self) -> None:
        """Add the slope of this tensor by each input to the input's grad."""
        ### BEGIN SOLUTION
        nodes = self.history()
        for node in nodes:
            if node.parents:
                node.grad = np.zeros_like(node.data)
        self.grad = np.ones_like(self.data)
        for node in nodes:
            if node.parents:
                for parent, g in zip(node.parents, node.send_back(node.grad), strict=True):
                    parent.grad += g
        ### END SOLUTION

    def history(self) -> list["Tensor"]:
        """This tensor and all it was made from, newest first."""
        found, waiting = {self}, [self]
        while waiting:
            new = set(waiting.pop().parents) - found
            found |= new
            waiting += new
        return sorted(found, key=lambda node: node.time, reverse=True)

    def __add__(self, other):
        return Tensor.record(add, self, other)

    def __mul__(self, other):
        return Tensor.record(mul, self, other)

    def __truediv__(self, other):
        return Tensor.record(div, self, other)

    def __matmul__(self, other):
        return Tensor.record(matmul, self, other)

    def __getitem__(self, index):
        return Tensor.record(take, self, index=index)

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + other * -1

    def __rsub__(self, other):
        return -self + other

    def relu(self):
        return Tensor.record(relu, self)

    def sum(self, axis=None):
        return Tensor.record(total, self, axis=axis)

    def amax(self, axis):
        return Tensor.record(amax, self, axis=axis)

    def logsumexp(self, axis):
        return Tensor.record(logsumexp, self, axis=axis)

    __radd__, __rmul__ = __add__, __mul__


# %% id=w02b-tape-check role=check ex=w02.tape
check("w02.tape", Tensor)
# %% [markdown] id=w02b-tape-after
# One layer of a network, on your tape. The shapes on the edges are those of the values; follow `b` down, and see that
# its gradient came back in its own shape.
# %% id=w02b-tape-fig
rng = np.random.default_rng(0)
x, w, b = Tensor(rng.normal(size=(4, 3))), Tensor(rng.normal(size=(3, 2))), Tensor(np.zeros(2))
loss = (x @ w + b).relu().sum()
loss.backward()
viz.graph(loss, names={"x": x, "w": w, "b": b}, title="relu(x @ w + b).sum()")


# %% [markdown] id=w02b-gradcheck-md
# ## Exercise
#
# How do you know that a `backward` is right when there is no torch to ask? By the central difference of notebook 01, at
# *every* index. The value of an operation is an array, so weight it with `g` to get one number: `(value * g).sum()`.
# Its slope by `x[index]` must be what `backward(g)` says at `index`.
#
# Return the list of all places where they differ by more than `tolerance`; for a right operation it is empty. Three
# things to take care of: `x` itself must not change;
# [`np.ndindex(x.shape)`](https://numpy.org/doc/stable/reference/generated/numpy.ndindex.html) gives every index as a
# tuple, whatever the number of axes; and a gradient that is NaN differs, although `nan > tolerance` is `False`.
# %% id=w02b-gradcheck role=exercise ex=w02.gradcheck
def gradcheck(op, x: np.ndarray, g: np.ndarray, eps: float = 1e-5, tolerance: float = 1e-4) -> list[tuple]:
    """Where op(x)[1](g)[0] differs from the central difference of (op(x)[0] * g).sum(): [] or [(0, 2), ...]"""
    ### BEGIN SOLUTION
    (gradient,) = op(x)[1](g)
    wrong = []
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = eps
        slope = ((op(x + step)[0] - op(x - step)[0]) * g).sum() / (2 * eps)
        if not abs(slope - gradient[index]) <= tolerance:
            wrong.append(index)
    return wrong
    ### END SOLUTION


# %% id=w02b-gradcheck-check role=check ex=w02.gradcheck
check("w02.gradcheck", gradcheck)
# %% [markdown] id=w02b-gradcheck-after
# Now prove your own operations with it. And see its limits: at a tie the maximum has a corner, and a central difference
# across a corner measures neither side. A finite difference also cannot tell whether the *value* is the right one; for
# that the checks above ask torch.
# %% id=w02b-gradcheck-own
rng = np.random.default_rng(1)
x, w = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
print("div       ", gradcheck(lambda b: (div(x, b)[0], lambda g: div(x, b)[1](g)[1:]), 2 + rng.random(4), x))
print("amax      ", gradcheck(lambda x: amax(x, 1), x, rng.normal(size=3)))
print("matmul    ", gradcheck(lambda x: (matmul(x, w)[0], lambda g: matmul(x, w)[1](g)[:1]), x, x @ w))
print("logsumexp ", gradcheck(lambda x: logsumexp(x, 0), x, rng.normal(size=4)))
print("three tied", gradcheck(lambda x: amax(x, 0), np.array([1.0, 1.0, 0.0, 1.0]), np.array(2.0)))
# %% [markdown] id=w02b-torch
# ## The same in PyTorch, and in labkit
#
# labkit, the package that checks your work, has an engine of its own, written in the form you have used here. You can
# read it now.
#
# | you wrote | torch | labkit |
# |---|---|---|
# | `unbroadcast` | `sum_to_size` | `unbroadcast` in `labkit/autograd.py` |
# | `div`, `amax`, `take`, `matmul` | one line each in `tools/autograd/derivatives.yaml` | `labkit/ops/`: `elementwise.py`, `reduce.py`, `index.py`, `linear.py` |
# | `logsumexp` | [`torch.logsumexp`](https://docs.pytorch.org/docs/2.13/generated/torch.logsumexp.html), [`torch.softmax`](https://docs.pytorch.org/docs/2.13/generated/torch.softmax.html) | `labkit/ops/reduce.py` |
# | `Tensor.record` | generated code, `torch/csrc/autograd/` | the decorator `op` in `labkit/autograd.py` |
# | `Tensor.backward` | [`Tensor.backward`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.backward.html), `engine.cpp` | `backward` in `labkit/autograd.py`; newest first, as yours |
# | `gradcheck` | [`torch.autograd.gradcheck`](https://docs.pytorch.org/docs/2.13/generated/torch.autograd.gradcheck.gradcheck.html) | `labkit/gradcheck.py` |
# | `J @ v`, `g @ J` | [`torch.func.jvp`](https://docs.pytorch.org/docs/2.13/generated/torch.func.jvp.html), [`torch.func.vjp`](https://docs.pytorch.org/docs/2.13/generated/torch.func.vjp.html) | only backward |
#
# The two differ from yours in one thing: there, gradients inside the graph are dropped as soon as they are passed on,
# to save memory.
# %% id=w02b-torch-code
import labkit

start = rng.normal(size=(4, 3))
mine = Tensor(start)
(mine @ Tensor(w[:3]) / 2).logsumexp(1).sum().backward()
theirs = torch.tensor(start, requires_grad=True)
(theirs @ torch.tensor(w[:3]) / 2).logsumexp(1).sum().backward()
ours = labkit.tensor(start, requires_grad=True)
(ours @ labkit.tensor(w[:3]) / 2).logsumexp(1).sum().backward()
print("yours and torch's:", np.allclose(mine.grad, theirs.grad.numpy()))
print("yours and labkit's:", np.allclose(mine.grad, ours.grad.numpy()))
# %% [markdown] id=w02b-built
# ## What you built
#
# - An operation is a value and a way back; the way back is a product `g @ J` without the table `J`.
# - What was stretched is summed back; what was reduced is repeated; what was moved is moved back, repeats added up.
# - The gradients of a matrix product are two matrix products, found by their shapes.
# - Large scores are safe once the largest is subtracted, forward and backward.
# - A tape records as it computes and is replayed newest first; a gradcheck proves each operation at every index.
#
# The question people ask next: *do I have to write all this for every new function?* Only for operations that are not
# made of others. Everything made of recorded operations has its gradient for free. The next notebook does both in
# torch.
#
# **Further reading.** D. Maclaurin and others, [Autograd](https://github.com/HIPS/autograd), whose form of an operation
# is close to yours · M. Blondel and V. Roulet, [The Elements of Differentiable
# Programming](https://arxiv.org/abs/2403.14606), chapters on automatic differentiation · P. Blanchard and others,
# [Accurately computing the log-sum-exp and softmax functions](https://doi.org/10.1093/imanum/draa038).
# %% [markdown] id=w02b-instructor role=instructor
# **Goals.** Learners can say which of `J @ v` and `g @ J` training needs and why, derive the gradient of a matrix
# product from its shapes, sum a gradient back to the shape of a stretched input, and test any backward by finite
# differences.
#
# **50 minutes.** 5 the surprise · 10 exercise {w02.products} in pairs, e to g discussed · 10 exercise
# {w02.unbroadcast}, the table on the board · 5 reading `mul` aloud, line by line · 10 exercise {w02.matmul} with shapes
# only, nobody may differentiate · 10 exercise {w02.tape}, record together, backward alone. Exercises {w02.div},
# {w02.amax}, {w02.take}, {w02.logsumexp} and {w02.gradcheck} are for home.
#
# **Misconceptions.** "The Jacobian is computed" (1). "A gradient of a stretched input is an average" (2: mean). "Size 1
# needs no care" (2). "The local derivative is the gradient" (3: g forgotten). "A tie is an error" (4). "`+=` at an
# index adds" (5). "`.T` transposes the last two axes" (6). "Overflow is a problem of float16" (7). "backward may be
# called twice, the inner gradients take care of themselves" (8: not cleared). "NaN is larger than any tolerance" (9).
#
# **To think about aloud.** Why does the gradcheck complain about three tied elements? Each gets a third of the
# gradient; moving one of them up raises the maximum, moving it down does not, so the central difference says one half.
# (For two tied elements the two happen to agree.) Why is newest first an order? A result is made after its inputs.
# Where does it fail? Where something is changed in place: the clinic.
