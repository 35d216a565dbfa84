# %% [markdown] id=w01a-title
# # Week 1 · 01 Storage and strides
#
# In about 85 minutes you will take the cover off a tensor. Underneath is one flat row of numbers and a rule for reading
# it: a shape, a stride for each axis, and an offset. You write that rule yourself, and then get transposes, slices,
# sliding windows and diagonals out of it without moving a single number.
# %% id=w01a-setup role=setup
import math

import torch

from labkit import check, viz

# %% [markdown] id=w01a-surprise
# ## A surprise first
#
# Transposing a matrix moves every number to another place. So it should take longer for a larger matrix. Which of the
# two lines prints `True`? Decide before you run the cell.
# %% id=w01a-surprise-code
small, large = torch.zeros(3, 2), torch.zeros(3000, 2000)
print("small: same memory after .T?", small.T.data_ptr() == small.data_ptr())
print("large: same memory after .T?", large.T.data_ptr() == large.data_ptr())
# %% [markdown] id=w01a-storage-md
# Nothing moved. Here is what did change. The upper part of the picture is the tensor as you index it; the lower part is
# the *storage*, the numbers as they lie in memory. The small number in each cell says which storage position it reads.
# %% id=w01a-storage-fig
x = torch.arange(6).reshape(2, 3)
viz.strides(x)
# %% id=w01a-storage-fig-t
viz.strides(x.T)


# %% [markdown] id=w01a-strides-md
# The storage is the same six numbers. Only two tuples differ: the *shape*, and the *strides*. The stride of an axis is
# how many storage positions you move when its index grows by one. In `x`, one step down skips a row of 3, one step
# right moves by 1: the strides are (3, 1).
#
# ## Exercise
#
# A fresh tensor is *contiguous*, in *row-major* order: the last axis moves fastest, so its stride is 1, and one step
# along any axis jumps over everything to its right.
#
# | shape | strides |
# |---|---|
# | (5,) | (1,) |
# | (2, 3) | (3, 1) |
# | (2, 3, 4) | (12, 4, 1) |
# %% id=w01a-strides role=exercise ex=w01.strides
def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, counted in elements: (2, 3, 4) -> (12, 4, 1)."""
    ### BEGIN SOLUTION
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    ### END SOLUTION


# %% id=w01a-strides-check role=check ex=w01.strides
check("w01.strides", strides)


# %% [markdown] id=w01a-position-md
# ## Exercise
#
# A tensor may begin in the middle of its storage: that place is its *offset*. `x[1]` of the picture above is the row
# (3, 4, 5), with shape (3,), stride (1,) and offset 3. Element `index` then lies at
#
# $$\text{position} = \text{offset} + \sum_k \text{index}_k \cdot \text{stride}_k$$
#
# With stride (4, 1) and offset 0, index (1, 2) lies at 1 · 4 + 2 · 1 = 6.
# %% id=w01a-position role=exercise ex=w01.position
def position(index: tuple[int, ...], stride: tuple[int, ...], offset: int) -> int:
    """The storage position of one element: (1, 2), (4, 1), 0 -> 6."""
    ### BEGIN SOLUTION
    return offset + sum(i * s for i, s in zip(index, stride, strict=True))
    ### END SOLUTION


# %% id=w01a-position-check role=check ex=w01.position
check("w01.position", position)


# %% [markdown] id=w01a-index-md
# ## Exercise
#
# Now the other way, for a contiguous tensor. Position 7 of a tensor of shape (3, 4) lies one whole row in, and 3
# further: its index is (1, 3). Division tells how many whole rows fit, the remainder what is left for the next axis.
# Your `strides` is at hand, once exercise {w01.strides} passes.
# %% id=w01a-index role=exercise ex=w01.index
def index(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of a storage position in a contiguous tensor: 7, (3, 4) -> (1, 3)."""
    ### BEGIN SOLUTION
    found = []
    for stride in strides(shape):
        i, position = divmod(position, stride)
        found.append(i)
    return tuple(found)
    ### END SOLUTION


# %% id=w01a-index-check role=check ex=w01.index
check("w01.index", index)
# %% [markdown] id=w01a-index-after
# You now have the whole of indexing: `position` reads any tensor, `index` finds its way back. Everything that follows
# only changes shape, strides and offset. Drag the fields and watch which cells are read.
# %% id=w01a-explorer
viz.strides_explorer()
# %% [markdown] id=w01a-share-md
# ## Exercise
#
# `x = torch.arange(12).reshape(3, 4)`. A result shares memory with `x` if writing to one shows in the other. Predict
# `True` or `False` for each, and set `sure` to how many of the eight you expect to have right.
#
# | | | | |
# |---|---|---|---|
# {questions}
# %% id=w01a-share role=exercise ex=w01.share
### BEGIN SOLUTION
prediction = {"a": True, "b": True, "c": False, "d": True, "e": False, "f": False, "g": True, "h": False}
sure = 7
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ..., "h": ...}
# sure = ...
### END SOLUTION
# %% id=w01a-share-check role=check ex=w01.share
check("w01.share", prediction, sure=sure)
# %% [markdown] id=w01a-share-after
# To find out why one surprised you, write into the result and see whether `x` changes. Put the others in place of
# `x.T`.
# %% id=w01a-share-run
x = torch.arange(12).reshape(3, 4)
result = x.T
result[0] = -1
print("x changed:", bool((x < 0).any()))


# %% [markdown] id=w01a-permute-md
# ## Exercise
#
# `x.permute(1, 2, 0)` makes a new tensor whose axis 0 is the old axis 1, whose axis 1 is the old axis 2, and whose axis
# 2 is the old axis 0. No number moves. Given shape, strides and the order, return the new shape and strides.
#
# | shape | strides | order | new shape | new strides |
# |---|---|---|---|---|
# | (2, 3) | (3, 1) | (1, 0) | (3, 2) | (1, 3) |
# | (2, 3, 4) | (12, 4, 1) | (1, 2, 0) | (3, 4, 2) | (4, 1, 12) |
# %% id=w01a-permute role=exercise ex=w01.permute
def permute(
    shape: tuple[int, ...], stride: tuple[int, ...], order: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """New shape and strides: the new axis k is the old axis order[k]."""
    ### BEGIN SOLUTION
    return tuple(shape[k] for k in order), tuple(stride[k] for k in order)
    ### END SOLUTION


# %% id=w01a-permute-check role=check ex=w01.permute
check("w01.permute", permute)


# %% [markdown] id=w01a-reshape-md
# ## Exercise
#
# Reshaping asks for the same elements, in the same row-major order, under another shape. If `x` is contiguous its
# storage already holds them in that order, and new strides are enough. A transposed `x` has its elements in another
# order in storage; then they have to be copied first.
#
# Your tools: [`torch.as_strided(x, shape, stride)`](https://docs.pytorch.org/docs/2.13/generated/torch.as_strided.html)
# makes a view of the storage of `x`, from its offset on, with any shape and strides you give it, and asks no questions.
# `x.contiguous()` returns `x` itself if it is contiguous, and a contiguous copy if it is not. The strides of a shape
# come from your `strides` of exercise {w01.strides}.
# %% id=w01a-reshape role=exercise ex=w01.reshape
def reshape(x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """x under another shape of the same size: a view if x is contiguous, else a copy."""
    ### BEGIN SOLUTION
    return torch.as_strided(x.contiguous(), shape, strides(shape))
    ### END SOLUTION


# %% id=w01a-reshape-check role=check ex=w01.reshape
check("w01.reshape", reshape)
# %% [markdown] id=w01a-reshape-after
# `view` or `reshape`? `x.view(shape)` is the half without the copy: it refuses where a copy would be needed. Use `view`
# to say "this must be free", `reshape` to say "I only want the shape".
# %% id=w01a-reshape-view
try:
    torch.arange(6).reshape(2, 3).T.view(6)
except RuntimeError as error:
    print(error)


# %% [markdown] id=w01a-slice-md
# ## Exercise
#
# Take one axis: `size` elements, `stride` places apart, the first at `offset`. The slice `2:5` keeps three of them,
# starting at `offset + 2 * stride`. The slice `::2` doubles the stride. The slice `::-1` starts at the last element and
# makes the stride *negative*.
#
# `s.indices(size)` fills in what a slice leaves open and returns plain numbers (start, stop, step):
# `slice(None, None, -1).indices(6)` is `(5, -1, -1)`, and `range(5, -1, -1)` visits 5, 4, 3, 2, 1, 0.
#
# | size, stride, offset | slice | new size, stride, offset |
# |---|---|---|
# | 8, 1, 0 | `2:5` | 3, 1, 2 |
# | 6, 2, 5 | `::-1` | 6, -2, 15 |
# %% id=w01a-slice role=exercise ex=w01.slice
def slice_axis(size: int, stride: int, offset: int, s: slice) -> tuple[int, int, int]:
    """The axis after x[s]: new size, stride and offset."""
    ### BEGIN SOLUTION
    start, stop, step = s.indices(size)
    return len(range(start, stop, step)), stride * step, offset + start * stride
    ### END SOLUTION


# %% id=w01a-slice-check role=check ex=w01.slice
check("w01.slice", slice_axis)


# %% [markdown] id=w01a-windows-md
# ## Exercise
#
# Strides may do what no ordinary array does: read the same element twice. The windows of width 3 over (a, b, c, d, e)
# are
#
# ```
# a b c
# b c d
# c d e
# ```
#
# Nine entries, five numbers. Return all windows of a row as a view made with `torch.as_strided`. The row may itself be
# a slice, so ask it for its stride: `x.stride(0)`.
# %% id=w01a-windows role=exercise ex=w01.windows
def windows(x: torch.Tensor, width: int) -> torch.Tensor:
    """All windows of a row, one per line, without copying: (n,) -> (n - width + 1, width)."""
    ### BEGIN SOLUTION
    step = x.stride(0)
    return torch.as_strided(x, (len(x) - width + 1, width), (step, step))
    ### END SOLUTION


# %% id=w01a-windows-check role=check ex=w01.windows
check("w01.windows", windows)
# %% id=w01a-windows-fig
viz.strides((3, 3), stride=(1, 1), offset=0)


# %% [markdown] id=w01a-diagonal-md
# ## Exercise
#
# The diagonal of a matrix is a row that goes down and right at once. It too is a view. Return it for any matrix: wide,
# tall, transposed.
# %% id=w01a-diagonal role=exercise ex=w01.diagonal
def diagonal(x: torch.Tensor) -> torch.Tensor:
    """x[0, 0], x[1, 1], ... without copying: (rows, columns) -> (min(rows, columns),)."""
    ### BEGIN SOLUTION
    return torch.as_strided(x, (min(x.shape),), (x.stride(0) + x.stride(1),))
    ### END SOLUTION


# %% id=w01a-diagonal-check role=check ex=w01.diagonal
check("w01.diagonal", diagonal)
# %% [markdown] id=w01a-batch-md
# ## Exercise
#
# This is the shape of a batch of color photographs as most vision models take it: batch, channel, height, width, as
# float32. Work these out; no code is needed, your `strides` may help. `"megabytes"` is in millions of bytes, one
# decimal is enough; a float32 takes 4 bytes.
#
# | key | question |
# |---|---|
# {questions}
# %% id=w01a-batch role=exercise ex=w01.batch
### BEGIN SOLUTION
prediction = {
    "images": 64,
    "next image": 3 * 224 * 224,
    "next channel": 224 * 224,
    "pixel below": 224,
    "megabytes": 38.5,
    "position": 250_885,
}
sure = 5
### STUB
# prediction = {
#     "images": ...,
#     "next image": ...,
#     "next channel": ...,
#     "pixel below": ...,
#     "megabytes": ...,
#     "position": ...,
# }
# sure = ...
### END SOLUTION
# %% id=w01a-batch-check role=check ex=w01.batch
check("w01.batch", prediction, sure=sure)
# %% [markdown] id=w01a-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | `strides` | [`x.stride()`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.stride.html), `x.storage_offset()`, `x.is_contiguous()` |
# | `permute` | [`x.permute`](https://docs.pytorch.org/docs/2.13/generated/torch.permute.html), `x.transpose`, `x.T`, `x.mT` |
# | `reshape` | [`x.reshape`, `x.view`](https://docs.pytorch.org/docs/2.13/tensor_view.html), `x.contiguous()` |
# | `slice_axis` | `x[2:5]`, `x[::2]`; torch refuses negative steps, [`x.flip`](https://docs.pytorch.org/docs/2.13/generated/torch.flip.html) copies |
# | `windows` | [`x.unfold(0, width, 1)`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.unfold.html) |
# | `diagonal` | [`torch.diagonal`](https://docs.pytorch.org/docs/2.13/generated/torch.diagonal.html), `torch.trace` |
#
# In torch's source the addressing you wrote is `TensorImpl`, in `c10/core/TensorImpl.h`: sizes, strides, a storage
# pointer and an offset.
# %% id=w01a-torch-code
y = torch.arange(24).reshape(2, 3, 4)[:, 1:, ::2]
print(
    "shape",
    tuple(y.shape),
    "stride",
    y.stride(),
    "offset",
    y.storage_offset(),
    "contiguous",
    y.is_contiguous(),
)
print(
    "element [1, 0, 1] lies at",
    position((1, 0, 1), y.stride(), y.storage_offset()),
    "and holds",
    y[1, 0, 1].item(),
)
# %% [markdown] id=w01a-built
# ## What you built
#
# - A tensor is a storage, a shape, one stride per axis and an offset.
# - Index to position is a sum of products; a contiguous tensor can go back by division.
# - Transposes, permutes, slices, windows and diagonals rewrite tuples. They are free, and they *share* memory.
# - Lists of indices, masks and arithmetic cannot be said in strides. They copy.
# - `reshape` is free when it can be and copies when it must; `view` refuses to copy.
#
# The question people ask next: *what is a stride of 0?* It reads the same element over and over. That is how
# broadcasting works, and it is the next notebook.
#
# **Further reading.** E. Yang, [PyTorch internals](http://blog.ezyang.com/2019/05/pytorch-internals/), the part on
# strides · torch's page on [tensor views](https://docs.pytorch.org/docs/2.13/tensor_view.html) · NumPy's
# [as_strided](https://numpy.org/doc/stable/reference/generated/numpy.lib.stride_tricks.as_strided.html) and its
# warning.
# %% [markdown] id=w01a-instructor role=instructor
# **Goals.** Learners can read shape, stride and offset of any view, say whether an operation copies, and write a view
# with `as_strided`.
#
# **50 minutes.** 5 the surprise and the two pictures, storage drawn on the board · 10 exercises {w01.strides} and
# {w01.position} · 10 exercise {w01.share} by show of hands, each dispute settled by running it · 15 exercises
# {w01.permute} and {w01.reshape}, in pairs · 10 exercise {w01.windows} on the projector, predicted with the explorer
# before anybody types. Exercises {w01.index}, {w01.slice}, {w01.diagonal} and {w01.batch} are for home.
#
# **Misconceptions.** "The transpose moves numbers" (1, 4a, 5: strides made new). "A view of a non-contiguous tensor is
# read in its logical order" (6: never copies). "Strides are bytes" (NumPy's are). "A step of 2 changes only the size"
# (7: stride not multiplied). "The stride of a row is 1" (8, 9: contiguous assumed).
#
# **Answers to think about aloud.** Why does torch refuse negative strides? Many of its kernels assume that the data
# pointer is the lowest address in use. Why may `as_strided` read outside the tensor it is given? It only looks at the
# storage; this is why its documentation warns.
