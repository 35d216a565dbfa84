# %% [markdown] id=w01d-title
# # Week 1 · 04 Clinic
#
# In about 45 minutes you will find three faults that run without an error message, measure what one of them costs, and
# write a test that catches eight more. Each patient is a few lines long; inside a program of a thousand it takes days
# to find.
#
# The order of work in every clinic: look at the symptom, *name* the fault, then mend it. Both are checked.
# %% id=w01d-setup role=setup
import math
from collections.abc import Callable

import torch

from labkit import check, viz


# %% [markdown] id=w01d-alias-md
# ## Exercise
#
# `standardize` brings each column to mean 0 and standard deviation 1. Its result is right. Yet after calling it, a
# colleague's plot of the raw data is wrong. What will the last line print? Decide, then run it.
# %% id=w01d-alias-symptom
def standardize_as_found(x: torch.Tensor) -> torch.Tensor:
    z = x[:]  # work on a copy
    z -= z.mean(dim=0)
    z /= z.std(dim=0)
    return z


heights = torch.tensor([[150.0, 50.0], [160.0, 65.0], [176.0, 92.0]])
standardize_as_found(heights)
print("mean height of the raw data:", round(heights[:, 0].mean().item(), 1))
# %% [markdown] id=w01d-alias-menu
# Set `fault` to one of `"x[:] is a view"`, `"wrong axis"`, `"mean after std"`, and mend the code so that it leaves its
# input alone.
# %% id=w01d-alias role=exercise ex=w01.alias
### BEGIN SOLUTION
fault = "x[:] is a view"


def standardize(x: torch.Tensor) -> torch.Tensor:
    """Each column with mean 0 and standard deviation 1; x stays as it is: (n, features) -> (n, features)"""
    z = x - x.mean(dim=0)
    return z / z.std(dim=0)


### STUB
# fault = ...
#
#
# def standardize(x: torch.Tensor) -> torch.Tensor:
#     """Each column with mean 0 and standard deviation 1; x stays as it is: (n, features) -> (n, features)"""
#     z = x[:]  # work on a copy
#     z -= z.mean(dim=0)
#     z /= z.std(dim=0)
#     return z
### END SOLUTION
# %% id=w01d-alias-check role=check ex=w01.alias
check("w01.alias", standardize, fault=fault)
# %% [markdown] id=w01d-alias-after
# In plain Python, `values[:]` copies a list. In torch and NumPy the same three characters make a view, as you know from
# notebook 01. So do `x.view_as(x)`, `x.detach()` and, for a contiguous `x`, `x.contiguous()`. The word for a copy is
# `x.clone()`. The safer habit: write to nothing that came in through an argument.


# %% [markdown] id=w01d-loss-md
# ## Exercise
#
# A model's last layer gives predictions of shape (n, 1). The targets come from a file, with shape (n,). The model
# trains without complaint, and ends up predicting the same number for everything. Here is its loss, on two models: one
# is perfect, one always says 2. Which gets the lower loss?
# %% id=w01d-loss-symptom
def mse_as_found(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((prediction - target) ** 2).mean()


target = torch.tensor([1.0, 2.0, 3.0])
perfect = torch.tensor([[1.0], [2.0], [3.0]])
always_two = torch.tensor([[2.0], [2.0], [2.0]])
print(f"perfect    {mse_as_found(perfect, target):.3f}")
print(f"always two {mse_as_found(always_two, target):.3f}")
# %% id=w01d-loss-fig
viz.broadcast_grid(perfect, target, "-")


# %% [markdown] id=w01d-loss-menu
# The perfect model loses. Every prediction is compared with every target, and the number with the least squared
# distance to all targets is their mean: training did exactly what it was asked to do.
#
# Set `fault` to one of `"no square root"`, `"(n, 1) against (n,)"`, `"mean for sum"`, and mend the code. The result is
# one number, without axes. Mend the arithmetic itself; torch's own loss would hide what was wrong.
# %% id=w01d-loss role=exercise ex=w01.silent_loss
### BEGIN SOLUTION
fault = "(n, 1) against (n,)"


def mse(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The mean squared error of n predictions: (n, 1), (n,) -> ()"""
    return ((prediction.squeeze(1) - target) ** 2).mean()


### STUB
# fault = ...
#
#
# def mse(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
#     """The mean squared error of n predictions: (n, 1), (n,) -> ()"""
#     return ((prediction - target) ** 2).mean()
### END SOLUTION
# %% id=w01d-loss-check role=check ex=w01.silent_loss
check("w01.silent_loss", mse, fault=fault)
# %% [markdown] id=w01d-loss-after
# One line at the top of a loss prevents this for ever: `assert prediction.shape == target.shape`. torch's `F.mse_loss`
# warns, and goes on.
#
# ## Exercise
#
# The silent table is wrong, and it is also large. Two ways to ask a tensor for its size: `x.nbytes` counts the elements
# you can index, `x.untyped_storage().nbytes()` counts what is really in memory. For which of the three will they
# differ?
# %% id=w01d-table-demo
row = torch.zeros(1000)
stretched = row.expand(1000, 1000)  # strides (0, 1), as in notebook 02
written = stretched + 1
for name, x in {"row": row, "stretched": stretched, "written": written}.items():
    print(f"{name:10} nbytes {x.nbytes:9,}   in memory {x.untyped_storage().nbytes():9,}")


# %% [markdown] id=w01d-table-md
# Stretching is free; the first operation that writes its result down pays for all of it. Now measure: from which batch
# size `n` on does the table `prediction - target` of exercise {w01.silent_loss} take more than one gigabyte (10⁹ bytes,
# float32)? `table_bytes` makes the table on the device `"meta"`, so nothing is allocated and you can try any `n`.
# Search by halving, or work it out and confirm it with `table_bytes`. Set `smallest` to the smallest such `n`.
# %% id=w01d-table role=exercise ex=w01.table
def table_bytes(n: int) -> int:
    """The size of prediction - target for shapes (n, 1) and (n,)."""
    prediction, target = torch.empty(n, 1, device="meta"), torch.empty(n, device="meta")
    return (prediction - target).nbytes


### BEGIN SOLUTION
smallest = math.isqrt(10**9 // 4) + 1  # the first n with 4 n² above 10⁹
### STUB
# smallest = ...
### END SOLUTION
# %% id=w01d-table-check role=check ex=w01.table
check("w01.table", smallest)
# %% id=w01d-table-confirm
for n in (smallest - 1, smallest, 2 * smallest):
    print(f"n = {n:6,}: targets {4 * n:9,} bytes, table {table_bytes(n):13,} bytes")
# %% [markdown] id=w01d-table-after
# The targets fit into 63 kilobytes. Twice the batch takes four times the table: if a small change of batch size ends in
# "out of memory", look for a table that nobody asked for.


# %% [markdown] id=w01d-shares-md
# ## Exercise
#
# `shares` turns the counts of each row into shares of that row. It runs, and everybody gets 0.
# %% id=w01d-shares-symptom
def shares_as_found(counts: torch.Tensor) -> torch.Tensor:
    result = torch.zeros_like(counts)
    for row in range(len(counts)):
        result[row] = counts[row] / counts[row].sum()
    return result


print(shares_as_found(torch.tensor([[1, 3, 4], [2, 2, 1]])).tolist())
# %% [markdown] id=w01d-shares-menu
# Set `fault` to one of `"/ divides whole numbers"`, `"zeros_like makes int64"`, `"sums the wrong axis"`, and mend the
# code. With or without the loop is up to you.
#
# ```
# [[1, 3, 4],   ->   [[0.125, 0.375, 0.5],
#  [2, 2, 1]]         [0.4,   0.4,   0.2]]
# ```
# %% id=w01d-shares role=exercise ex=w01.shares
### BEGIN SOLUTION
fault = "zeros_like makes int64"


def shares(counts: torch.Tensor) -> torch.Tensor:
    """Each count as a share of its row: (n, m) of int64 -> (n, m) of float32"""
    return counts / counts.sum(dim=1, keepdim=True)


### STUB
# fault = ...
#
#
# def shares(counts: torch.Tensor) -> torch.Tensor:
#     """Each count as a share of its row: (n, m) of int64 -> (n, m) of float32"""
#     result = torch.zeros_like(counts)
#     for row in range(len(counts)):
#         result[row] = counts[row] / counts[row].sum()
#     return result
### END SOLUTION
# %% id=w01d-shares-check role=check ex=w01.shares
check("w01.shares", shares, fault=fault)
# %% [markdown] id=w01d-shares-after
# `x += 0.5` refuses to put a float into whole numbers, as you predicted in notebook 03. `x[0] = 0.5` does not: writing
# through an index converts in silence, and cuts off what does not fit.


# %% [markdown] id=w01d-test-md
# ## Exercise
#
# All four patients had one thing in common: nobody had tried them on the input that shows the fault. Now you choose the
# inputs. `normalize_rows` is specified like this:
#
# - `x` has shape (n, m), floats or whole numbers; the result has the same shape, and is made of floats.
# - Each row is divided by its length, the root of the sum of its squares: `[3, -4]` becomes `[0.6, -0.8]`.
# - A row of zeros stays a row of zeros.
# - `x` itself is not changed.
#
# Write a test that takes an implementation, calls it, and uses `assert`. It will be run on right implementations, which
# it must accept, and on eight wrong ones, which it must catch. A call that raises counts as caught. Compare floats with
# [`torch.allclose(a, b)`](https://docs.pytorch.org/docs/2.13/generated/torch.allclose.html), never with `==`.
#
# Think of the week: which shape hides a wrong axis, which one hides a missing `keepdim`, which values hide a lost sign?
# %% id=w01d-test role=exercise ex=w01.test_normalize
### BEGIN SOLUTION
def test_normalize_rows(normalize_rows: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Silent for a right `normalize_rows`, an AssertionError for a wrong one."""
    square = torch.tensor([[3.0, -4.0], [0.0, 0.5]])  # a negative number, a row shorter than 1
    before = square.clone()
    result = normalize_rows(square)
    assert torch.allclose(result, torch.tensor([[0.6, -0.8], [0.0, 1.0]]))
    assert torch.equal(square, before)

    with_zeros = normalize_rows(torch.tensor([[0.0, 0.0, 0.0], [2.0, 1.0, 2.0]]))
    assert torch.allclose(with_zeros, torch.tensor([[0.0, 0.0, 0.0], [2 / 3, 1 / 3, 2 / 3]]))

    whole = normalize_rows(torch.tensor([[3, 4]]))
    assert torch.allclose(whole, torch.tensor([[0.6, 0.8]]))


### STUB
# def test_normalize_rows(normalize_rows: Callable[[torch.Tensor], torch.Tensor]) -> None:
#     """Silent for a right `normalize_rows`, an AssertionError for a wrong one."""
#     raise NotImplementedError("your code here")
### END SOLUTION
# %% id=w01d-test-check role=check ex=w01.test_normalize
check("w01.test_normalize", test_normalize_rows)
# %% [markdown] id=w01d-milestone-md
# ## The milestone once more
#
# At the end of notebook 02 you drew a picture on your own `distances` and `outer`. Here is how short such a picture can
# be: a column of whole numbers against a row of them, three operators, one for each color. Change an operator and see
# what happens; then go back to your own picture and show it to somebody.
# %% id=w01d-milestone
i = torch.arange(128)
red, green, blue = i[:, None] ^ i, i[:, None] | i, (i[:, None] * i) % 128  # three tables of shape (128, 128)
viz.image_grid([torch.stack([red, green, blue], -1) / 127], titles=["^, | and * %"])
# %% [markdown] id=w01d-built
# ## What you know now
#
# - `x[:]` is a view. What came in through an argument is not yours to write to; `x.clone()` is.
# - (n,) against (n, 1) is a table. Assert that two shapes are equal where they should be.
# - A stretched tensor is free, a table that is written down is not: `untyped_storage().nbytes()` tells.
# - Writing floats into whole numbers through an index cuts them off without a word.
# - A test is as good as its inputs: square and not, negative, short, zero, whole numbers.
#
# The question people ask next: *so far I told torch what to compute. How does it know what to change so that a loss
# gets smaller?* By keeping a record of every operation and walking it backward. You build that in week 2, from a single
# number to tensors, and the first thing you will need is what you know now: what happens on the way back through a
# stretched axis, a slice, a transpose.
#
# **Further reading.** torch's page on [tensor views](https://docs.pytorch.org/docs/2.13/tensor_view.html) ·
# [`torch.testing.assert_close`](https://docs.pytorch.org/docs/2.13/testing.html), which compares shape and dtype as
# well as values, and says where they differ.
# %% [markdown] id=w01d-instructor role=instructor
# **Goals.** Learners can name the three silent faults of tensor code (alias, broadcast, dtype), say what a broadcast
# costs, and choose inputs that make a fault visible.
#
# **50 minutes.** 10 exercise {w01.alias}, the symptom on the projector, guesses first · 10 exercise {w01.silent_loss},
# the table drawn on the board before the picture is shown · 5 exercise {w01.table} together · 5 exercise {w01.shares} ·
# 20 exercise {w01.test_normalize} in pairs; collect the inputs on the board, one column per bug.
#
# **Misconceptions.** "`x[:]` copies" (1). "`contiguous()` copies" (1: it returns x itself if it can). "A clone at the
# end is enough" (1). "torch would have complained about the shapes" (2). "Broadcasting needs the memory of the large
# shape" (3: only the result does). "`/` was the culprit" (4: `/` is right, the place where its result is put is not).
# "One example is a test" (5).
#
# **To think about aloud.** Why does the broken loss prefer the mean? The mean squared difference of p to all targets is
# the variance of the targets plus (p − mean)², for each prediction alone. Why does the broken loss pass a test with n =
# 1? (1, 1) against (1,) is one number: the smallest test hides it.
