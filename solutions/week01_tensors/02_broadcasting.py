# %% [markdown] id=w01b-title
# # Week 1 · 02 Broadcasting and reductions
#
# In about 100 minutes you will write the rule by which tensors of different shapes meet, see that it costs no memory,
# and solve eight one-line puzzles with it. At the end a picture is drawn on your code, with no loop anywhere.
# %% id=w01b-setup role=setup
import math

import torch

from labkit import check, viz

# %% [markdown] id=w01b-surprise
# ## A surprise first
#
# You subtract the mean of each row from a matrix, so that every row has mean 0. Which of the three rows will really
# have mean 0? Decide before you run it.
# %% id=w01b-surprise-code
x = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [5.0, 5.0, 8.0]])
centered = x - x.mean(dim=1)
print("row means afterward:", [round(v, 2) for v in centered.mean(dim=1).tolist()])
# %% [markdown] id=w01b-surprise-after
# None of them, and no error. The means have shape (3,), and a shape with one axis is a *row*: the first mean was
# subtracted from the first column, the second from the second. On a 3 by 4 matrix torch would have refused; a square
# one lets it pass. Two pictures: what was meant, and what happened.
# %% id=w01b-fig-meant
viz.broadcast((3, 3), (3, 1))
# %% id=w01b-fig-happened
viz.broadcast((3, 3), (3,))


# %% [markdown] id=w01b-rule-md
# ## Exercise
#
# Write the shapes under each other, **aligned at the right**. Missing axes count as 1. Two sizes fit if they are equal,
# or if one of them is 1; the 1 stretches to the other, whatever it is. Anything else is an error.
#
# ```
#   (5, 3)       (2, 3, 4)      (3, 2)
#      (3)          (4)            (3)
#   ------       ---------      ------
#   (5, 3)       (2, 3, 4)      ValueError
# ```
#
# Raise `ValueError` where the shapes do not fit. A good message names both shapes.
# %% id=w01b-rule role=exercise ex=w01.broadcast_shape
def broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a + b for tensors of shapes a and b: (5, 3), (3,) -> (5, 3)."""
    ### BEGIN SOLUTION
    n = max(len(a), len(b))
    padded = zip((1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b, strict=True)
    shape = []
    for x, y in padded:
        if x != y and x != 1 and y != 1:
            raise ValueError(f"shapes {a} and {b} do not fit: {x} against {y}")
        shape.append(y if x == 1 else x)
    return tuple(shape)
    ### END SOLUTION


# %% id=w01b-rule-check role=check ex=w01.broadcast_shape
check("w01.broadcast_shape", broadcast_shape)
# %% [markdown] id=w01b-rule-after
# Type two shapes and see how they pair, or where they clash.
# %% id=w01b-explorer
viz.broadcast_explorer()


# %% [markdown] id=w01b-expand-md
# ## Exercise
#
# Stretching sounds like copying. It is not: an axis whose stride is 0 reads the same element at every step. A row of 3
# seen as 4 rows of 3 has shape (4, 3) and strides (0, 1).
#
# Stretch `x` to `shape` as a view, with `torch.as_strided`. Axes are aligned at the right as before. Those that `x`
# lacks, or has with size 1, get stride 0; the others keep the strides of `x`.
# %% id=w01b-expand role=exercise ex=w01.expand
def expand(x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """x stretched to a shape it broadcasts to, without copying: (4, 1), (4, 5) -> (4, 5)."""
    ### BEGIN SOLUTION
    missing = len(shape) - x.dim()
    stride = tuple(0 if size == 1 else step for size, step in zip(x.shape, x.stride(), strict=True))
    return torch.as_strided(x, shape, (0,) * missing + stride)
    ### END SOLUTION


# %% id=w01b-expand-check role=check ex=w01.expand
check("w01.expand", expand)
# %% id=w01b-expand-fig
viz.strides((4, 3), stride=(0, 1))
# %% [markdown] id=w01b-quiz-md
# ## Exercise
#
# `z(3, 4)` stands for `torch.zeros(3, 4)`. Predict the shape of each, or write `"error"`. A reduction removes the axes
# that `dim` names; `keepdim=True` keeps them with size 1; `norm` is a reduction too. `@` makes (n, k) out of (n, m) and
# (m, k), and (n,) out of (n, m) and (m,), once for each place of the axes in front. As an index, `None` adds an axis of
# size 1, and a number removes its axis. Set `sure` to how many of the twelve you expect to have right.
#
# | | | | |
# |---|---|---|---|
# {questions}
# %% id=w01b-quiz role=exercise ex=w01.shape_quiz
### BEGIN SOLUTION
prediction = {
    "a": (3, 4),
    "b": "error",
    "c": (3, 4),
    "d": (5, 5),
    "e": (2, 3, 4),
    "f": (2, 4),
    "g": (3,),
    "h": (2, 3, 1),
    "i": (2, 5),
    "j": (7, 2),
    "k": (6, 1),
    "l": "error",
}
sure = 10
### STUB
# prediction = {
#     "a": ...,
#     "b": ...,
#     "c": ...,
#     "d": ...,
#     "e": ...,
#     "f": ...,
#     "g": ...,
#     "h": ...,
#     "i": ...,
#     "j": ...,
#     "k": ...,
#     "l": ...,
# }
# sure = ...
### END SOLUTION
# %% id=w01b-quiz-check role=check ex=w01.shape_quiz
check("w01.shape_quiz", prediction, sure=sure)


# %% [markdown] id=w01b-puzzles-md
# ## Eight puzzles
#
# Each of the next eight is one line. The rule is enforced by the check: no loops, and only the calls that each puzzle
# lists; operators (`+ - * / @ == <` and so on) and indexing are always allowed. `v[:, None]` turns a row of shape (n,)
# into a column of shape (n, 1): that is most of the art.
#
# ## Exercise
#
# Every element of `a` times every element of `b`. `@` would be the answer itself.
#
# ```
# outer([1, 2], [5, 6, 7])  ->  [[ 5,  6,  7],
#                                [10, 12, 14]]
# ```
# %% id=w01b-outer role=exercise ex=w01.outer
def outer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """(n,), (m,) -> (n, m)"""
    ### BEGIN SOLUTION
    return a[:, None] * b
    ### END SOLUTION


# %% id=w01b-outer-check role=check ex=w01.outer
check("w01.outer", outer)


# %% [markdown] id=w01b-diag-md
# ## Exercise
#
# Zero everywhere, `v` on the diagonal. [`torch.where`](https://docs.pytorch.org/docs/2.13/generated/torch.where.html)
# helps.
# %% id=w01b-diag role=exercise ex=w01.diag
def diag(v: torch.Tensor) -> torch.Tensor:
    """(n,) -> (n, n): [3, 4] -> [[3, 0], [0, 4]]"""
    ### BEGIN SOLUTION
    i = torch.arange(len(v))
    return torch.where(i[:, None] == i, v, 0)
    ### END SOLUTION


# %% id=w01b-diag-check role=check ex=w01.diag
check("w01.diag", diag)


# %% [markdown] id=w01b-triu-md
# ## Exercise
#
# Keep what lies on the diagonal or to the right of it, put 0 elsewhere, for any matrix.
# %% id=w01b-triu role=exercise ex=w01.triu
def triu(x: torch.Tensor) -> torch.Tensor:
    """(r, c) -> (r, c): [[1, 2, 3], [4, 5, 6]] -> [[1, 2, 3], [0, 5, 6]]"""
    ### BEGIN SOLUTION
    rows, columns = torch.arange(x.shape[0]), torch.arange(x.shape[1])
    return torch.where(rows[:, None] <= columns, x, 0)
    ### END SOLUTION


# %% id=w01b-triu-check role=check ex=w01.triu
check("w01.triu", triu)


# %% [markdown] id=w01b-cumsum-md
# ## Exercise
#
# Result `i` is the sum of the first `i + 1` elements.
# %% id=w01b-cumsum role=exercise ex=w01.cumsum
def cumsum(x: torch.Tensor) -> torch.Tensor:
    """(n,) -> (n,): [1, 5, 2] -> [1, 6, 8]"""
    ### BEGIN SOLUTION
    i = torch.arange(len(x))
    return torch.where(i <= i[:, None], x, 0).sum(1)
    ### END SOLUTION


# %% id=w01b-cumsum-check role=check ex=w01.cumsum
check("w01.cumsum", cumsum)


# %% [markdown] id=w01b-onehot-md
# ## Exercise
#
# One row per label, a 1 in the column of its class, 0 elsewhere, as whole numbers.
# %% id=w01b-onehot role=exercise ex=w01.one_hot
def one_hot(labels: torch.Tensor, classes: int) -> torch.Tensor:
    """(n,) whole numbers -> (n, classes): [2, 0], 3 -> [[0, 0, 1], [1, 0, 0]]"""
    ### BEGIN SOLUTION
    return (labels[:, None] == torch.arange(classes)).long()
    ### END SOLUTION


# %% id=w01b-onehot-check role=check ex=w01.one_hot
check("w01.one_hot", one_hot)


# %% [markdown] id=w01b-bincount-md
# ## Exercise
#
# How often does each class occur? Classes that never do count 0.
# %% id=w01b-bincount role=exercise ex=w01.bincount
def bincount(labels: torch.Tensor, classes: int) -> torch.Tensor:
    """(n,) whole numbers -> (classes,): [2, 0, 2], 4 -> [1, 0, 2, 0]"""
    ### BEGIN SOLUTION
    return (labels[:, None] == torch.arange(classes)).sum(0)
    ### END SOLUTION


# %% id=w01b-bincount-check role=check ex=w01.bincount
check("w01.bincount", bincount)


# %% [markdown] id=w01b-seqmask-md
# ## Exercise
#
# A batch of sentences is padded to one length. Say for each sentence which steps are real: `True` for those, `False`
# for padding.
# %% id=w01b-seqmask role=exercise ex=w01.sequence_mask
def sequence_mask(lengths: torch.Tensor, longest: int) -> torch.Tensor:
    """(n,) whole numbers -> (n, longest) of bool: [1, 3], 3 -> [[True, False, False], [True, True, True]]"""
    ### BEGIN SOLUTION
    return torch.arange(longest) < lengths[:, None]
    ### END SOLUTION


# %% id=w01b-seqmask-check role=check ex=w01.sequence_mask
check("w01.sequence_mask", sequence_mask)


# %% [markdown] id=w01b-dist-md
# ## Exercise
#
# Euclid's distance between every point of `a` and every point of `b`.
# %% id=w01b-dist role=exercise ex=w01.distances
def distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """(n, d), (m, d) -> (n, m): [[0, 0]], [[3, 4], [0, 1]] -> [[5, 1]]"""
    ### BEGIN SOLUTION
    return ((a[:, None] - b) ** 2).sum(-1).sqrt()
    ### END SOLUTION


# %% id=w01b-dist-check role=check ex=w01.distances
check("w01.distances", distances)


# %% [markdown] id=w01b-mean-md
# ## Exercise
#
# A reduction over several axes at once: `x.sum((0, 2))` adds over axes 0 and 2. Write the mean, with `sum` as your
# tool: divide by how many numbers went into each result. For `x` of shape (2, 3, 5) and `dims` (0, 2) that is 2 · 5 =
# 10.
# %% id=w01b-mean role=exercise ex=w01.mean
def mean(x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> torch.Tensor:
    """The mean over some axes: (2, 3, 5), (0, 2), True -> (1, 3, 1)"""
    ### BEGIN SOLUTION
    count = math.prod(x.shape[d] for d in dims)
    return x.sum(dims, keepdim=keepdim) / count
    ### END SOLUTION


# %% id=w01b-mean-check role=check ex=w01.mean
check("w01.mean", mean)


# %% [markdown] id=w01b-einsum-md
# ## Exercise
#
# `"ij,jk->ik"` names the axes of two tensors and of the result. Letters that are missing from the result are summed
# over. So it reads: multiply `a[i, j]` by `b[j, k]` for all i, j, k, and add up over j. That is a matrix product, and
# it is one broadcast and one sum:
#
# 1. Put all letters in a row: those of the result first, then the ones to be summed.
# 2. Bring each tensor into that order: `permute` its axes, and add an axis of size 1 (index with `None`) for each
#    letter it lacks.
# 3. Multiply. Sum over the letters at the end. If there are none, do not sum: `x.sum(())` adds up *everything* in
#    torch.
#
# For `"ij,jk->ik"` the letters are `ikj`; `a` becomes shape (i, 1, j) and `b` becomes (1, k, j).
# %% id=w01b-einsum role=exercise ex=w01.einsum
def einsum(spec: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Two-operand einsum; each letter occurs at most once in each tensor: "ij,jk->ik" -> a @ b"""
    ### BEGIN SOLUTION
    inputs, out = spec.split("->")
    in_a, in_b = inputs.split(",")
    letters = out + "".join(sorted(set(in_a + in_b) - set(out)))

    def align(x: torch.Tensor, axes: str) -> torch.Tensor:
        x = x.permute([axes.index(letter) for letter in letters if letter in axes])
        return x[tuple(slice(None) if letter in axes else None for letter in letters)]

    product = align(a, in_a) * align(b, in_b)
    summed = tuple(range(len(out), len(letters)))
    return product.sum(summed) if summed else product
    ### END SOLUTION


# %% id=w01b-einsum-check role=check ex=w01.einsum
check("w01.einsum", einsum)


# %% [markdown] id=w01b-mask-md
# ## Exercise
#
# A *bias* is a row added to every row of a batch: (N, F) + (F,). A *normalization* subtracts a column of means: (N, F)
# − (N, 1). A *mask* says which positions may be looked at. The last one needs two new axes:
#
# `scores` of shape (batch, head, query, key) say how much each query attends to each key; `keep` of shape (batch, key)
# is `True` for real keys and `False` for padding. Set the scores of padded keys to minus infinity (`-math.inf`), for
# every head and every query, so that the softmax that follows gives them exactly 0. `torch.where` is the tool, as in
# the puzzles.
# %% id=w01b-mask role=exercise ex=w01.mask
def mask_scores(scores: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """-inf where the key is padding: (B, H, Q, K), (B, K) of bool -> (B, H, Q, K)"""
    ### BEGIN SOLUTION
    return torch.where(keep[:, None, None, :], scores, -math.inf)
    ### END SOLUTION


# %% id=w01b-mask-check role=check ex=w01.mask
check("w01.mask", mask_scores)
# %% [markdown] id=w01b-milestone-md
# ## Milestone: a picture with nothing but broadcasting
#
# Your `distances` and `outer`, on a grid of pixels. Every pixel is computed at once; there is no loop. Change the
# centers, the frequencies, the colors, and show it to somebody.
# %% id=w01b-milestone
side = torch.linspace(-2, 2, 240)
pixels = torch.stack([side[:, None].expand(240, 240), side.expand(240, 240)], -1).reshape(-1, 2)  # (57600, 2)
centers = torch.tensor([[0.0, 0.9], [-0.8, -0.6], [0.8, -0.6]])
rings = torch.sin(14 * distances(pixels, centers)).reshape(240, 240, 3)  # one ring pattern per color channel
fade = outer(torch.cos(side * 0.7), torch.cos(side * 0.7))  # bright in the middle
picture = ((rings * 0.5 + 0.5) * fade[:, :, None]).clamp(0, 1)
viz.image_grid([picture], titles=["three waves, no loop"])
# %% [markdown] id=w01b-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | `broadcast_shape` | [`torch.broadcast_shapes`](https://docs.pytorch.org/docs/2.13/generated/torch.broadcast_shapes.html); the rule is on the page on [broadcasting](https://docs.pytorch.org/docs/2.13/notes/broadcasting.html) |
# | `expand` | [`x.expand`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.expand.html), `torch.broadcast_to`; `x.repeat` copies |
# | the puzzles | `torch.outer`, `torch.diag`, `torch.triu`, `torch.cumsum`, `F.one_hot`, `torch.bincount`, `torch.cdist` |
# | `mean` | [`torch.mean`](https://docs.pytorch.org/docs/2.13/generated/torch.mean.html) with `dim=(0, 2)` |
# | `einsum` | [`torch.einsum`](https://docs.pytorch.org/docs/2.13/generated/torch.einsum.html), any number of tensors |
# | `mask_scores` | [`x.masked_fill`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.masked_fill_.html), `torch.where` |
#
# In torch's source the rule you wrote is `infer_size`, in `aten/src/ATen/ExpandUtils.cpp`.
# %% [markdown] id=w01b-built
# ## What you built
#
# - The broadcast rule: align at the right, 1 stretches, anything else is an error.
# - Stretching is a stride of 0: it costs nothing until you write the result down.
# - A column against a row makes a table of all pairs; comparisons of two aranges make every mask.
# - `dim` names the axes that disappear; `keepdim=True` leaves them with size 1 so that the result lines up again.
# - Einsum is one broadcast and one sum.
#
# The question people ask next: *how does a gradient go back through a stretched axis?* It is summed over it. That is
# `unbroadcast`, in week 2.
#
# **Further reading.** NumPy's page on [broadcasting](https://numpy.org/doc/stable/user/basics.broadcasting.html) · S.
# Rush, [Tensor Puzzles](https://github.com/srush/Tensor-Puzzles), the puzzles that began this genre · T. Rocktäschel,
# [Einsum is all you need](https://rockt.github.io/2018/04/30/einsum).
# %% [markdown] id=w01b-instructor role=instructor
# **Goals.** Learners can predict the shape of any expression, name the axis a reduction removes, and read `x[:, None] -
# y` as a table of all pairs.
#
# **50 minutes.** 5 the surprise, with votes · 10 exercise {w01.broadcast_shape}, shapes written under each other on the
# board · 10 exercise {w01.shape_quiz} in pairs, disputes settled by running · 20 puzzles {w01.outer} to
# {w01.distances}, as many as come, one learner at the keyboard · 5 the milestone. Exercises {w01.mean} to {w01.mask}
# are for home.
#
# **Misconceptions.** "A vector is a column" (surprise, quiz b, d, l). "Stretching copies" (2). "dim=0 means along the
# rows" (quiz f, g). "`sum` of an empty tuple of axes does nothing" (13). "0 masks a score" (14).
#
# **To think about aloud.** Why does torch not refuse (n,) against (n, 1)? Because outer sums are wanted as often as
# they are a bug; the clinic has the bug.
