# %% [markdown] id=w05a-title
# # Week 5 · 01 Convolution
#
# In about 100 minutes you will build convolution four times: with loops, as a view of windows, as a matrix product, and
# backward. Then pooling and groups, and you will count what all of it costs. At the end the kernels that find edges in
# the picture below run on your code, and so do their gradients.
# %% id=w05a-setup role=setup
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from labkit import check, datasets, viz

# %% [markdown] id=w05a-surprise
# ## A surprise first
#
# An ankle boot has 784 pixels. How many numbers does it take to find its outline, its bright areas, its left edges?
# Here are three kernels of *nine* numbers each, slid over the same picture. Nothing was trained. Before you run the
# cell: what will each of them light up?
# %% id=w05a-surprise-code
fashion = datasets.fashion_mnist("test")
boot = (torch.from_numpy(fashion.images[0]) * 255).round()  # (28, 28), whole numbers
kernels = {
    "left - right": torch.tensor([[1.0, 0.0, -1.0], [1.0, 0.0, -1.0], [1.0, 0.0, -1.0]]),
    "above - below": torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [-1.0, -1.0, -1.0]]),
    "nine equal": torch.ones(3, 3),
}
found = [F.conv2d(boot[None, None], kernel[None, None])[0, 0] for kernel in kernels.values()]
viz.image_grid([boot, *found], titles=["boot", *kernels])
# %% [markdown] id=w05a-slide-fig-md
# One number of the result is one *window* of the picture times the kernel, element by element, added up. The next
# number is the window one step to the right. The same nine numbers are used everywhere: that is the whole idea, and the
# reason why a convolution needs so few of them.
# %% id=w05a-slide-fig
picture = torch.tensor([[0, 0, 1, 2, 0], [0, 1, 3, 3, 0], [0, 2, 5, 4, 1], [0, 1, 4, 5, 2]])
viz.convolution(picture, [[1, 0, -1], [1, 0, -1], [1, 0, -1]], at=(1, 2))


# %% [markdown] id=w05a-correlate-md
# ## Exercise
#
# Write it with two loops, one over the rows of the result and one over its columns:
#
# $$\text{out}[i, j] = \sum_{a, b} \text{image}[i + a,\, j + b] \cdot \text{kernel}[a, b]$$
#
# A mathematician calls this *correlation*; a convolution in the strict sense turns the kernel by 180° first,
# $\text{image}[i - a, j - b]$. Deep learning does not turn it, and says convolution all the same: the numbers of the
# kernel are learned, and whether they are learned upside down makes no difference. torch follows this habit, and so do
# you.
#
# An image of H rows has room for H − KH + 1 windows from top to bottom. `image.new_zeros(rows, columns)` makes zeros of
# the image's dtype.
#
# ```
# [[1, 2, 3],  with  [[1,  0],  ->  [[1·1 + 5·(-1), 2·1 + 6·(-1)]] = [[-4, -4]]
#  [4, 5, 6]]         [0, -1]]
# ```
# %% id=w05a-correlate role=exercise ex=w05.correlate
def correlate(image: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """Every window times the kernel, summed: (H, W), (KH, KW) -> (H - KH + 1, W - KW + 1)"""
    ### BEGIN SOLUTION
    (height, width), (kh, kw) = image.shape, kernel.shape
    out = image.new_zeros(height - kh + 1, width - kw + 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = (image[i : i + kh, j : j + kw] * kernel).sum()
    return out
    ### END SOLUTION


# %% id=w05a-correlate-check role=check ex=w05.correlate
check("w05.correlate", correlate)
# %% [markdown] id=w05a-explorer-md
# Three numbers change the slide. *Padding* puts a frame of zeros around the image. *Stride* is the length of a step.
# *Dilation* spreads the kernel: its elements lie `dilation` apart, and 3 of them cover 5 pixels at dilation 2. Move the
# sliders and watch the shape of the output.
# %% id=w05a-explorer
viz.convolution_explorer()
# %% [markdown] id=w05a-sizes-md
# ## Exercise
#
# A kernel of size k with dilation d covers $d\,(k - 1) + 1$ pixels. It starts at the first pixel of the padded image
# and takes steps of s as long as it fits:
#
# $$\text{out} = \left\lfloor \frac{n + 2p - d\,(k - 1) - 1}{s} \right\rfloor + 1$$
#
# Predict the side of the output, one whole number each, and set `sure` to how many of the eight you expect to have
# right.
#
# | | side n, kernel k, stride s, padding p, dilation d |
# |---|---|
# {questions}
# %% id=w05a-sizes role=exercise ex=w05.sizes
### BEGIN SOLUTION
prediction = {"a": 26, "b": 28, "c": 14, "d": 112, "e": 5, "f": 3, "g": 12, "h": 7}
sure = 6
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ..., "h": ...}
# sure = ...
### END SOLUTION
# %% id=w05a-sizes-check role=check ex=w05.sizes
check("w05.sizes", prediction, sure=sure)


# %% [markdown] id=w05a-windows-md
# ## Exercise
#
# Two Python loops over a photograph are slow. In week 1 you made the windows of a row as a view: one stride to go to
# the next window, the same stride to go to the next element. Now two axes become four. From (N, C, H, W) make
#
# `(N, C, OH, OW, KH, KW)`: image, channel, *which window* (row, column), *where in it* (row, column).
#
# - One window down is `stride` rows further: `stride * x.stride(2)` places in storage.
# - One element down inside a window is `dilation` rows further: `dilation * x.stride(2)`.
# - To the right, the same with `x.stride(3)`. Image and channel keep their strides.
#
# Use `torch.as_strided(x, shape, strides)`. Nothing is copied: the nine-fold larger tensor is the same storage.
# `output_size` is the formula from above; name what you pass to it, `dilation=dilation`, since its fourth argument is
# the padding.
# %% id=w05a-windows role=exercise ex=w05.windows
def output_size(n: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    """How many windows fit along one axis."""
    return (n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def windows(x: torch.Tensor, kernel: tuple[int, int], stride: int = 1, dilation: int = 1) -> torch.Tensor:
    """Every window as a view: (N, C, H, W) -> (N, C, OH, OW, KH, KW)"""
    ### BEGIN SOLUTION
    (n, c, h, w), (kh, kw) = x.shape, kernel
    oh, ow = output_size(h, kh, stride, 0, dilation), output_size(w, kw, stride, 0, dilation)
    image, channel, down, right = x.stride()
    steps = (image, channel, stride * down, stride * right, dilation * down, dilation * right)
    return torch.as_strided(x, (n, c, oh, ow, kh, kw), steps)
    ### END SOLUTION


# %% id=w05a-windows-check role=check ex=w05.windows
check("w05.windows", windows)


# %% [markdown] id=w05a-conv2d-md
# ## Exercise
#
# Real pictures have channels, and a layer has several kernels, its *filters*. The weight has shape (O, C, KH, KW): O
# filters, each with one small kernel for every input channel. A filter looks at all channels at once and *adds up* over
# them; each filter makes one channel of the output.
#
# Three steps: pad with zeros, [`F.pad(x, (left, right, top,
# bottom))`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.pad.html); take all windows; multiply with
# the weight and sum over everything that the output does not have, which is one `torch.einsum`. Then add the bias, one
# number per output channel.
# %% id=w05a-conv2d role=exercise ex=w05.conv2d
def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
) -> torch.Tensor:
    """(N, C, H, W), weight (O, C, KH, KW), bias (O,) or None -> (N, O, OH, OW)"""
    ### BEGIN SOLUTION
    padded = F.pad(x, (padding, padding, padding, padding))
    views = windows(padded, weight.shape[2:], stride, dilation)
    out = torch.einsum("nchwij,ocij->nohw", views, weight)
    return out if bias is None else out + bias[:, None, None]
    ### END SOLUTION


# %% id=w05a-conv2d-check role=check ex=w05.conv2d
check("w05.conv2d", conv2d)
# %% [markdown] id=w05a-conv2d-after
# The three pictures of the beginning, now by your code, as three filters of one layer:
# %% id=w05a-conv2d-demo
filters = torch.stack(list(kernels.values()))[:, None]  # (3, 1, 3, 3)
maps = conv2d(boot[None, None], filters)[0]  # (3, 26, 26)
print("the same pictures:", all(torch.equal(mine, theirs) for mine, theirs in zip(maps, found, strict=True)))


# %% [markdown] id=w05a-col2im-md
# Lay the windows out as a matrix, one *column* per window, and the sum becomes a matrix product: (O, C·KH·KW) @
# (C·KH·KW, OH·OW). Matrix products are what processors are best at, so libraries have done it this way for years. The
# name is *im2col*, image to columns. `im2col` below is your `windows` in another order; unlike the view, it costs
# memory: each pixel is written once for every window that it is in.
#
# ## Exercise
#
# On the way back, every entry of every column holds a share of some pixel's gradient. A pixel that was in nine windows
# gets nine shares, and they *add up*: what was read several times is summed on the way back, as with every stretched
# axis in week 2.
#
# Walk over the places (i, j) *inside* the kernel, KH · KW of them. The entries at one such place belong to pixels that
# lie `stride` apart, beginning at `i * dilation`, OH of them down and OW to the right: a slice with a step. Add them
# there.
#
# ```
# windows of 2 over 3 pixels:  columns [[a, b],   ->  pixels [a, b + c, d]
#                                       [c, d]]
# ```
# %% id=w05a-col2im role=exercise ex=w05.col2im
def im2col(x: torch.Tensor, kernel: tuple[int, int], stride: int = 1, dilation: int = 1) -> torch.Tensor:
    """One column per window: (N, C, H, W) -> (N, C * KH * KW, OH * OW)"""
    views = windows(x, kernel, stride, dilation).permute(0, 1, 4, 5, 2, 3)  # (N, C, KH, KW, OH, OW)
    return views.reshape(x.shape[0], x.shape[1] * math.prod(kernel), -1)


def col2im(
    columns: torch.Tensor, size: tuple[int, int], kernel: tuple[int, int], stride: int = 1, dilation: int = 1
) -> torch.Tensor:
    """Add every entry to the pixel it came from: (N, C * KH * KW, OH * OW) -> (N, C, *size)"""
    (h, w), (kh, kw) = size, kernel
    oh, ow = output_size(h, kh, stride, 0, dilation), output_size(w, kw, stride, 0, dilation)
    parts = columns.reshape(len(columns), -1, kh, kw, oh, ow)  # (N, C, KH, KW, OH, OW)
    x = columns.new_zeros(*parts.shape[:2], h, w)
    ### BEGIN SOLUTION
    for i in range(kh):
        for j in range(kw):
            top, left = i * dilation, j * dilation
            x[:, :, top : top + oh * stride : stride, left : left + ow * stride : stride] += parts[:, :, i, j]
    return x
    ### END SOLUTION


# %% id=w05a-col2im-check role=check ex=w05.col2im
check("w05.col2im", col2im)
# %% [markdown] id=w05a-col2im-after
# Is `col2im` the inverse of `im2col`? Predict what comes back for an image of ones, then run it.
# %% id=w05a-col2im-demo
ones = torch.ones(1, 1, 4, 5)
print(col2im(im2col(ones, (3, 3)), (4, 5), (3, 3))[0, 0].int())


# %% [markdown] id=w05a-backward-md
# Not the inverse: it counts in how many windows each pixel was. It is the *transpose*, and that is what backward passes
# are made of.
#
# ## Exercise
#
# With columns $X$ of shape (K, L) and the weight as a matrix $W$ of shape (O, K), the convolution is $Y = W X + b$, a
# linear layer. Given the gradient $G$ of $Y$, shape (O, L):
#
# $$\frac{\partial}{\partial W} = G X^T \qquad \frac{\partial}{\partial X} = W^T G \qquad \frac{\partial}{\partial b} = \sum_L G$$
#
# Three things to see to: the batch is *summed* over for weight and bias (every image used the same ones), the gradient
# of the columns goes back to pixels by `col2im`, and the gradient of the padding is thrown away: cut out the part that
# was the image.
#
# The forward pass is given. Write `backward(g)`, which returns the gradients of `x`, `weight` and `bias`, and return
# the value with it.
# %% id=w05a-backward role=exercise ex=w05.conv_backward
def conv2d_with_backward(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, stride: int, padding: int
) -> tuple[torch.Tensor, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]]:
    """(N, C, H, W), (O, C, KH, KW), (O,) -> value (N, O, OH, OW), and backward: its gradient -> three gradients"""
    padded = F.pad(x, (padding, padding, padding, padding))
    columns = im2col(padded, weight.shape[2:], stride)  # (N, K, L) with K = C * KH * KW and L = OH * OW
    rows = weight.flatten(1)  # (O, K)
    oh, ow = (output_size(n, k, stride) for n, k in zip(padded.shape[2:], weight.shape[2:], strict=True))
    value = (rows @ columns + bias[:, None]).reshape(len(x), len(weight), oh, ow)

    ### BEGIN SOLUTION
    def backward(g: torch.Tensor) -> tuple[torch.Tensor, ...]:
        g = g.flatten(2)  # (N, O, L)
        grad_weight = torch.einsum("nol,nkl->ok", g, columns).reshape(weight.shape)
        grad_padded = col2im(rows.T @ g, padded.shape[2:], weight.shape[2:], stride)
        h, w = x.shape[2:]
        return grad_padded[:, :, padding : padding + h, padding : padding + w], grad_weight, g.sum(2).sum(0)

    return value, backward
    ### END SOLUTION


# %% id=w05a-backward-check role=check ex=w05.conv_backward
check("w05.conv_backward", conv2d_with_backward)


# %% [markdown] id=w05a-maxpool-md
# ## Exercise
#
# Pooling makes a picture smaller: the largest value of each window survives. It has no parameters, and every channel is
# pooled by itself. On the way back the winner gets the whole gradient, the others get nothing.
#
# And if two share the largest value? torch gives everything to the *first* one, reading the window row by row.
# `x.max(-1)` returns the values and the positions, and for ties the position of the first. Where windows overlap, a
# pixel may win twice: its gradients add up. Your `col2im` does that, once you have put each gradient at the place of
# its winner; it takes (N, C, size · size, OH, OW) as well, the same numbers in the same order.
#
# ```
# one window [[1, 7],  value 7, gradient 5  ->  [[0, 5],
#             [7, 2]]                            [0, 0]]
# ```
# %% id=w05a-maxpool role=exercise ex=w05.max_pool
def max_pool2d(
    x: torch.Tensor, size: int, stride: int
) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]:
    """(N, C, H, W) -> the largest of each size x size window (N, C, OH, OW), and backward: its gradient -> x's"""
    cells = windows(x, (size, size), stride).flatten(4)  # (N, C, OH, OW, size * size)
    ### BEGIN SOLUTION
    value, winner = cells.max(-1)

    def backward(g: torch.Tensor) -> torch.Tensor:
        won = torch.arange(size * size) == winner[..., None]  # (N, C, OH, OW, size * size)
        columns = (g[..., None] * won).permute(0, 1, 4, 2, 3)  # (N, C, size * size, OH, OW): col2im's order
        return col2im(columns, x.shape[2:], (size, size), stride)

    return value, backward
    ### END SOLUTION


# %% id=w05a-maxpool-check role=check ex=w05.max_pool
check("w05.max_pool", max_pool2d)


# %% [markdown] id=w05a-grouped-md
# ## Exercise
#
# So far every filter looks at all channels. With `groups=G` the channels are divided into G blocks, and the filters
# too: block 1 of the filters sees only block 1 of the channels, and so on. It is G small convolutions side by side. The
# weight shrinks to (O, C / G, KH, KW). With G = C each channel has a filter of its own: a *depthwise* convolution.
#
# `x.chunk(groups, dim)` divides an axis into equal blocks, `torch.cat(parts, dim)` puts them together. Your `conv2d` is
# at hand.
# %% id=w05a-grouped role=exercise ex=w05.grouped
def grouped_conv2d(x: torch.Tensor, weight: torch.Tensor, groups: int) -> torch.Tensor:
    """(N, C, H, W), weight (O, C / groups, KH, KW) -> (N, O, OH, OW); stride 1, no padding, no bias"""
    ### BEGIN SOLUTION
    pairs = zip(x.chunk(groups, 1), weight.chunk(groups, 0), strict=True)
    return torch.cat([conv2d(channels, filters) for channels, filters in pairs], 1)
    ### END SOLUTION


# %% id=w05a-grouped-check role=check ex=w05.grouped
check("w05.grouped", grouped_conv2d)
# %% [markdown] id=w05a-average-md
# **Average pooling** needs no exercise any more: it is a depthwise convolution whose kernel is 1/k² everywhere, with
# the kernel's own size as stride. So its backward pass is the one you wrote, too: every pixel of a window gets g / k²,
# an equal share where max pooling has one winner.
# %% id=w05a-average
x = torch.arange(96, dtype=torch.float64).reshape(2, 3, 4, 4) ** 2
x.requires_grad_()
quarter = torch.full((1, 1, 2, 2), 0.25, dtype=torch.float64)
by_hand = torch.cat([conv2d(channel, quarter, stride=2) for channel in x.chunk(3, 1)], 1)
by_hand.sum().backward()
print("equals F.avg_pool2d:", torch.equal(by_hand, F.avg_pool2d(x, 2)))
print("gradient of every pixel:", x.grad.unique().tolist())
# %% [markdown] id=w05a-field-md
# ## How far does one output see?
#
# One 3×3 layer sees 3 pixels across. A second one on top sees 3 outputs of the first, which is 5 pixels. In general, a
# layer with kernel k and dilation d widens the *receptive field* by $d\,(k-1)$ steps of its own input, and one such
# step is the product of all strides below it, in pixels:
#
# | layer | step below it | widens by | receptive field |
# |---|---|---|---|
# | 3×3, stride 2 | 1 | 2 · 1 | 3 |
# | 3×3, stride 2 | 2 | 2 · 2 | 7 |
# | 3×3 | 4 | 2 · 4 | 15 |
#
# The gradient shows it: ask one output in the middle which pixels it depends on, and count them. The kernels are all
# ones, so that nothing cancels.
# %% id=w05a-field
pixels = torch.zeros(1, 1, 31, 31, dtype=torch.float64, requires_grad=True)
ones = torch.ones(1, 1, 3, 3, dtype=torch.float64)
top = conv2d(conv2d(conv2d(pixels, ones, stride=2, padding=1), ones, stride=2, padding=1), ones, padding=1)
top[0, 0, 4, 4].backward()
seen = (pixels.grad[0, 0] != 0).sum(1).max().item()
print("output side", top.shape[-1], "| one output sees", seen, "pixels across")
viz.image_grid([pixels.grad[0, 0]], titles=["how often each pixel counts"])
# %% [markdown] id=w05a-count-md
# Pixels near the middle count most: more windows lead to them. The pattern comes from the strides, which visit some
# rows more often than others.
#
# ## Exercise
#
# A convolution has O · (C / groups) · KH · KW weights, and a bias per filter if it has one. The size of the picture
# does not matter: that is what sharing buys. For every output position each weight is used once in a multiplication.
#
# Predict, and set `sure` to how many of the nine you expect to have right. Arithmetic in Python is fine, torch is not.
#
# | | |
# |---|---|
# {questions}
# %% id=w05a-count role=exercise ex=w05.count
### BEGIN SOLUTION
prediction = {
    "a": 32 * 3 * 3 * 3,
    "b": 896,
    "c": 64 * 32 * 9,
    "d": 288,
    "e": 288 + 64 * 32,
    "f": 864 * 30 * 30,
    "g": 3072 * 28800,
    "h": 7,
    "i": 8,
}
sure = 7
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ..., "h": ..., "i": ...}
# sure = ...
### END SOLUTION
# %% id=w05a-count-check role=check ex=w05.count
check("w05.count", prediction, sure=sure)
# %% [markdown] id=w05a-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | `conv2d`, `grouped_conv2d` | [`F.conv2d`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.conv2d.html) with `groups=` |
# | `windows` | [`x.unfold(2, k, s).unfold(3, k, s)`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.unfold.html), a view as yours |
# | `im2col`, `col2im` | [`F.unfold`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.unfold.html), [`F.fold`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.fold.html) |
# | `backward` for the input | [`F.conv_transpose2d`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.conv_transpose2d.html), as a layer of its own |
# | `max_pool2d` | [`F.max_pool2d`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.max_pool2d.html), [`F.avg_pool2d`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.avg_pool2d.html) |
#
# In torch's source the CPU version that works as yours does is `aten/src/ATen/native/ConvolutionMM2d.cpp`; which of
# many versions runs is decided in `aten/src/ATen/native/Convolution.cpp`. Pooling, with its "first of equals", is
# `aten/src/ATen/native/cpu/MaxPoolKernel.cpp`.
# %% id=w05a-torch-code
image = torch.randn(2, 3, 9, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
columns = im2col(image, (3, 2), stride=2, dilation=2)
theirs = F.unfold(image, (3, 2), stride=2, dilation=2)
print("im2col equals F.unfold:", torch.equal(columns, theirs), tuple(columns.shape))
print(
    "numbers in the picture:", image.numel(), "| in the columns at stride 1:", im2col(image, (3, 2)).numel()
)
# %% [markdown] id=w05a-built
# ## What you built
#
# - A convolution is one small kernel for all places: windows times weights, summed. torch does not flip the kernel.
# - All windows are one view with six strides; einsum or a matrix product does the rest.
# - What is read several times is added up on the way back: `col2im` is the transpose of `im2col`, not its inverse.
# - Max pooling sends a gradient to one winner, average pooling to everybody.
# - Weights do not depend on the size of the picture, multiplications do; groups save both.
#
# The question people ask next: *so what should the nine numbers be?* They are learned, like every other weight. The
# next notebook builds a network out of these layers that trains well even when it is deep.
#
# **Further reading.** V. Dumoulin, F. Visin, [A guide to convolution arithmetic for deep
# learning](https://arxiv.org/abs/1603.07285) · K. Chellapilla et al., High performance convolutional neural networks
# for document processing (2006), where im2col comes from · A. Araujo et al., [Computing receptive
# fields](https://distill.pub/2019/computing-receptive-fields/).
# %% [markdown] id=w05a-instructor role=instructor
# **Goals.** Learners can predict the shape of any convolution, write it as a view and one einsum, explain why `col2im`
# adds, and count weights and multiplications.
#
# **50 minutes.** 5 the surprise, titles covered · 10 exercise {w05.correlate}, then the explorer on the projector,
# shapes called out before the slider moves · 5 exercise {w05.sizes} by show of hands, f last · 15 exercises
# {w05.windows} and {w05.conv2d} in pairs · 10 exercise {w05.col2im}, the three-pixel example on the board · 5 exercise
# {w05.count}, g guessed aloud. Exercises {w05.conv_backward}, {w05.max_pool} and {w05.grouped} are for home.
#
# **Misconceptions.** "The kernel is flipped" (1: flipped kernel; scipy's convolve flips, its correlate does not). "A
# padded layer keeps the size" (2: only if p = d (k − 1) / 2). "Windows cost memory" (3: the view does not, im2col
# does). "Every channel is convolved by itself" (4, 8). "col2im undoes im2col" (5: overwritten). "All equal maxima share
# the gradient" (7: that is what `amax` does, not `max_pool2d`). "A larger picture needs more weights" (9).
#
# **To think about aloud.** Why is the middle of a receptive field counted most? It lies in the most windows, so far
# more paths lead to it; the effective field is smaller than the formula says. Why would anybody use 1×1 convolutions?
# They mix channels and leave space alone: a linear layer at every pixel. Why did exercise {w05.max_pool} ask for a rule
# about ties? Whole-number pixels and zeros after a ReLU tie all the time.
