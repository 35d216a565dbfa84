# %% [markdown] id=w01c-title
# # Week 1 · 03 In PyTorch
#
# In about 45 minutes you will know the part of PyTorch that every program of this course touches: how tensors are made,
# what dtype comes out, where they live, and the three ways to pick elements out of them. You have built most of it
# already; here it gets torch's names.
# %% id=w01c-setup role=setup
import numpy as np
import torch

from labkit import check, viz

# %% [markdown] id=w01c-surprise
# ## A surprise first
#
# Three tensors are made from one NumPy array. Then the array changes. Which of the three tensors change with it? Decide
# before you run the cell.
# %% id=w01c-surprise-code
array = np.zeros(3)
a = torch.tensor(array)
b = torch.from_numpy(array)
c = torch.as_tensor(array, dtype=torch.float32)
array += 1
print("torch.tensor      ", a.tolist())
print("torch.from_numpy  ", b.tolist())
print("torch.as_tensor   ", c.tolist())
# %% [markdown] id=w01c-surprise-after
# `torch.tensor` always copies. `torch.from_numpy` never does: tensor and array are two views of one storage.
# `torch.as_tensor` copies only if it must, and here it must: NumPy makes float64, and a float32 has other bytes.
# Sharing is free and fast, and it is a trap when you forget it. The clinic has that trap.
#
# ## Making tensors
#
# | you want | you write |
# |---|---|
# | these values, copied | `torch.tensor([[1.0, 2.0], [3.0, 4.0]])` |
# | a NumPy array, shared | `torch.from_numpy(array)`, and back: `x.numpy()` |
# | one value everywhere | `torch.zeros(2, 3)`, `torch.ones(2, 3)`, `torch.full((2, 3), 7.0)` |
# | numbers in a row | `torch.arange(5)` → 0 … 4, `torch.linspace(0, 1, 5)` → both ends included |
# | random values | `torch.rand(2, 3)` in [0, 1), `torch.randn(2, 3)` normal; `torch.manual_seed(0)` repeats them |
# | like another tensor | `torch.zeros_like(x)`: shape, dtype and device of `x` |
#
# Each takes `dtype=` and `device=`. Without them you get float32 for floats and random values, int64 for whole numbers,
# and the CPU.
# %% [markdown] id=w01c-dtypes-md
# ## Exercise
#
# Two dtypes meet, one comes out. There are three families, in this order: bool, whole numbers, floats. The result is in
# the higher family. Within that family, a tensor with axes outranks a tensor without axes (shape `()`), and that
# outranks a plain Python number; between equals the wider one wins. Two more rules: `/` always makes a float, the
# default float32 from whole numbers; and an in-place operation (`+=`, or a name that ends in `_`) cannot change the
# dtype of what it writes to, so it refuses if it would have to go down a family.
#
# `i = torch.tensor([1, 2])`, `h = torch.ones(2, dtype=torch.float16)`, `f = torch.ones(2)`. Predict the dtype of each
# as text, such as `"float32"`, or `"error"`. Set `sure` to how many of the nine you expect to have right.
#
# | | | | | | |
# |---|---|---|---|---|---|
# {questions}
# %% id=w01c-dtypes role=exercise ex=w01.dtypes
### BEGIN SOLUTION
prediction = {
    "a": "int64",
    "b": "float32",
    "c": "int64",
    "d": "float32",
    "e": "float32",
    "f": "float64",
    "g": "float32",
    "h": "int64",
    "i": "error",
}
sure = 7
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ..., "h": ..., "i": ...}
# sure = ...
### END SOLUTION
# %% id=w01c-dtypes-check role=check ex=w01.dtypes
check("w01.dtypes", prediction, sure=sure)
# %% [markdown] id=w01c-dtypes-after
# `torch.result_type(x, y)` answers such questions without computing anything. And a warning: within its dtype, a whole
# number that gets too large wraps around in silence.
# %% id=w01c-dtypes-run
print(torch.result_type(torch.tensor([1, 2]), 2.5))
print(torch.tensor([200], dtype=torch.uint8) + 100)  # 300 - 256
# %% [markdown] id=w01c-device-md
# ## Where a tensor lives
#
# A tensor is on one device, and both sides of an operation must be on the same one. A program picks its device once, at
# the top, and sends data there with `.to(device)`. `.to` also changes the dtype; if there is nothing to do it returns
# the tensor itself.
#
# The device `"meta"` holds shapes and no numbers. It is handy for trying out shapes too large for your machine, and it
# makes the classic error visible without a GPU.
# %% id=w01c-device
device = "cuda" if torch.cuda.is_available() else "cpu"  # the line at the top of every program
x = torch.ones(2, 3).to(device)
print("nothing to do:", x.to(device) is x, "| another dtype:", x.to(torch.float64) is x)

photos = torch.empty(64, 3, 224, 224, device="meta")
print("no memory used:", tuple(photos.mean(dim=(2, 3)).shape))
try:
    torch.ones(3) + torch.ones(3, device="meta")
except RuntimeError as error:
    print("RuntimeError:", error)


# %% [markdown] id=w01c-flat-md
# ## Exercise
#
# A linear layer wants one row per example, a picture wants two axes: you will flatten and unflatten all the time. Take
# a matrix `x`, say (10, 5); lay it out as one row, (50,), row by row; and turn that row into a matrix of the old shape
# again. Return both. It must work for any matrix, a transposed one included.
#
# Close the documentation for this one. `-1` as a size means "whatever is left".
#
# ```
# [[1, 2],        row  = [1, 2, 3, 4, 5, 6]
#  [3, 4],        back = [[1, 2], [3, 4], [5, 6]]
#  [5, 6]]
# ```
# %% id=w01c-flat role=exercise ex=w01.flat
def there_and_back(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, columns) -> the row (rows * columns,), and it again as (rows, columns)."""
    ### BEGIN SOLUTION
    row = x.reshape(-1)
    return row, row.reshape(x.shape)
    ### END SOLUTION


# %% id=w01c-flat-check role=check ex=w01.flat
check("w01.flat", there_and_back)
# %% [markdown] id=w01c-flat-after
# `x.view(-1)` would do for a contiguous `x` and refuse a transposed one, because the row it asks for is not in the
# storage. These two pictures are the same matrix before and after `.contiguous()`: equal as you index them, different
# as they lie in memory.
# %% id=w01c-flat-fig
turned = torch.arange(6).reshape(2, 3).T
viz.strides(turned)
# %% id=w01c-flat-fig-contiguous
viz.strides(turned.contiguous())
# %% [markdown] id=w01c-index-md
# ## Picking elements: three ways
#
# | you write | you get | memory |
# |---|---|---|
# | `x[1]`, `x[:, 2:4]`, `x[..., None]` | a box of `x` | a view |
# | `x[x > 5]` | the elements where the mask is `True`, in one row | a copy |
# | `x[rows, columns]`, two tensors of whole numbers | one element per *pair* (row, column) | a copy |
#
# On the left of `=` all three write into `x`. That makes two lines that look alike do different things. What do they
# print?
# %% id=w01c-index-write
x = torch.arange(8)
x[x > 5].zero_()
print("a:", x.tolist())
x[x > 5] = 0
print("b:", x.tolist())


# %% [markdown] id=w01c-pick-md
# In `a` the mask made a copy, the copy was set to zero and thrown away. In `b` the index stands on the left of `=`, so
# torch writes into `x` itself.
#
# ## Exercise
#
# A classifier gives one row of scores per example; `labels` says which class is right. Return the score of the right
# class, one per example. This is the heart of cross-entropy, the loss of week 3.
#
# ```
# scores = [[0.1, 0.7, 0.2],      labels = [1, 0]      pick -> [0.7, 0.5]
#           [0.5, 0.3, 0.2]]
# ```
#
# Two ways, both without a loop. Pairs: index with the row numbers and the labels together. Or [`torch.gather(x, 1,
# index)`](https://docs.pytorch.org/docs/2.13/generated/torch.gather.html), which reads `x[i, index[i, j]]` for every
# place `[i, j]` of `index`; its index has as many axes as `x`, and so has its result.
# %% id=w01c-pick role=exercise ex=w01.pick
def pick(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """For each row the element at its label: (n, classes), (n,) of int64 -> (n,)"""
    ### BEGIN SOLUTION
    return scores.gather(1, labels[:, None]).squeeze(1)
    ### END SOLUTION


# %% id=w01c-pick-check role=check ex=w01.pick
check("w01.pick", pick)


# %% [markdown] id=w01c-confusion-md
# ## Exercise
#
# Gather reads from places; *scatter* writes to places. The new question is what happens when a place is named twice. In
# `counts[i, j] += 1` torch reads all the places, adds 1, and writes them back: a place named three times gets the same
# new value three times. Adding up wants
# [`index_put_`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.index_put_.html) with `accumulate=True`, or
# [`scatter_add_`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.scatter_add_.html).
# %% id=w01c-confusion-twice
place = torch.tensor([0, 2, 2, 2])
lost = torch.zeros(3, dtype=torch.long)
lost[place] += 1
added = torch.zeros(3, dtype=torch.long)
added.index_put_((place,), torch.tensor(1), accumulate=True)
print("+=        ", lost.tolist())
print("index_put_", added.tolist())


# %% [markdown] id=w01c-confusion-md2
# A confusion matrix counts, for a classifier, how often class `i` was taken for class `j`: row = truth, column = guess,
# whole numbers (int64), no loop.
#
# ```
# truth = [0, 1, 1, 1]      confusion(truth, guess, 3) -> [[1, 0, 0],
# guess = [0, 2, 2, 1]                                     [0, 1, 2],
#                                                          [0, 0, 0]]
# ```
# %% id=w01c-confusion role=exercise ex=w01.confusion
def confusion(truth: torch.Tensor, guess: torch.Tensor, classes: int) -> torch.Tensor:
    """How often class i was taken for class j: (n,), (n,) of int64 -> (classes, classes) of int64"""
    ### BEGIN SOLUTION
    counts = torch.zeros(classes, classes, dtype=torch.long)
    return counts.index_put_((truth, guess), torch.tensor(1), accumulate=True)
    ### END SOLUTION


# %% id=w01c-confusion-check role=check ex=w01.confusion
check("w01.confusion", confusion)
# %% [markdown] id=w01c-einsum-md
# ## Einsum, torch's own
#
# You wrote it for two tensors. torch's takes any number, and `...` for axes that only come along. When a product has
# more than two axes, einsum is often the line that a reader understands first.
# %% id=w01c-einsum
torch.manual_seed(0)
queries, keys = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8)  # (batch, head, step, feature)
scores = torch.einsum("bhqd,bhkd->bhqk", queries, keys)
print("scores", tuple(scores.shape), "| as a matmul:", torch.allclose(scores, queries @ keys.mT, atol=1e-5))
print("trace", torch.einsum("ii->", torch.arange(9).reshape(3, 3)).item())
print("with ...", tuple(torch.einsum("...ij,jk->...ik", torch.ones(2, 7, 3, 4), torch.ones(4, 5)).shape))
# %% [markdown] id=w01c-torch
# ## Where to look it up
#
# | topic | torch's page |
# |---|---|
# | making tensors | [creation ops](https://docs.pytorch.org/docs/2.13/torch.html#creation-ops) |
# | dtypes, promotion, devices | [tensor attributes](https://docs.pytorch.org/docs/2.13/tensor_attributes.html), [`torch.result_type`](https://docs.pytorch.org/docs/2.13/generated/torch.result_type.html) |
# | `.to` | [`Tensor.to`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.to.html) |
# | views | [tensor views](https://docs.pytorch.org/docs/2.13/tensor_view.html): the list of all operations that share memory |
# | NumPy | [`torch.from_numpy`](https://docs.pytorch.org/docs/2.13/generated/torch.from_numpy.html), [`Tensor.numpy`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.numpy.html) |
# | gather, scatter | [`torch.gather`](https://docs.pytorch.org/docs/2.13/generated/torch.gather.html), [`torch.take_along_dim`](https://docs.pytorch.org/docs/2.13/generated/torch.take_along_dim.html), [`Tensor.scatter_add_`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.scatter_add_.html) |
# | einsum | [`torch.einsum`](https://docs.pytorch.org/docs/2.13/generated/torch.einsum.html) |
#
# In torch's source the promotion rule is `c10/core/ScalarType.h` and `aten/src/ATen/native/TypeProperties.cpp`;
# indexing with tensors is `aten/src/ATen/native/TensorAdvancedIndexing.cpp`.
# %% [markdown] id=w01c-built
# ## What you know now
#
# - `torch.tensor` copies, `torch.from_numpy` shares, `.to` copies only if there is something to change.
# - The higher family of dtypes wins; plain numbers and tensors without axes do not widen a tensor with axes.
# - `reshape(-1)` flattens anything; `view(-1)` refuses what it cannot do for free.
# - A mask or a list of indices reads a copy, but writes into the original.
# - Gather reads one element per place; scatter with accumulation adds one per place, repeats included.
#
# The question people ask next: *how do I know that my code has none of these traps in it?* By meeting them once. The
# clinic is the next notebook.
#
# **Further reading.** NumPy's [indexing](https://numpy.org/doc/stable/user/basics.indexing.html), whose rules torch
# follows · torch's notes on [broadcasting](https://docs.pytorch.org/docs/2.13/notes/broadcasting.html), the part on
# in-place operations.
# %% [markdown] id=w01c-instructor role=instructor
# **Goals.** Learners can make a tensor of a wanted dtype on a wanted device, say which operations copy, flatten and
# unflatten from memory, and read and write at places given by other tensors.
#
# **50 minutes.** 5 the surprise, with votes · 10 exercise {w01.dtypes} by show of hands, i last · 5 devices, the error
# read aloud · 5 exercise {w01.flat}, laptops closed until somebody has it on the board · 10 exercise {w01.pick}, both
# ways · 10 exercise {w01.confusion} in pairs, `+=` first · 5 einsum.
#
# **Misconceptions.** "A float64 number makes everything float64" (1d, 1g). "`//` makes floats" (1c). "`view` and
# `reshape` are two names for one thing" (2). "`scores[:, labels]` picks one per row": it picks whole columns (3). "`+=`
# at repeated places adds up" (4). "`x[mask].zero_()` changes x" (the two lines before exercise {w01.pick}).
#
# **To think about aloud.** Why does a tensor of shape () not widen a vector? So that `x * scale` keeps `x` in float16,
# wherever `scale` came from. Why does `x[mask]` copy? Its elements lie at irregular distances: no stride describes
# them.
