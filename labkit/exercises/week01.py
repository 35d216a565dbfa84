"""Week 1: tensors. Storage and strides, broadcasting and reductions, torch's own API, and the clinic."""

import math

import numpy as np

from labkit.exercises.declare import Case, Implement, Item, Mistake, Predict, Rules
from labkit.lazy import torch

# 01 storage and strides


def _row_major(shape):
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


strides = Implement(
    id="w01.strides",
    title="Strides from a shape",
    minutes=8,
    level=1,
    engine="python",
    cases=[
        Case("three axes", lambda draw: {"shape": (2, 3, 4)}),
        Case("one axis", lambda draw: {"shape": (5,)}),
        Case("an axis of size 1", lambda draw: {"shape": (3, 1, 2)}),
        Case("a batch of images", lambda draw: {"shape": (7, 3, 5, 6)}),
        Case("no axes", lambda draw: {"shape": ()}, extreme=True),
    ],
    oracle=lambda shape: torch.empty(shape).stride(),
    rules=Rules(forbids=("stride",)),
    mistakes=[
        Mistake(
            "column-major",
            "These are the strides of column-major order, where the first axis moves fastest. Start at the right.",
            lambda shape: tuple(math.prod(shape[:axis]) for axis in range(len(shape))),
        ),
        Mistake(
            "reversed order",
            "The numbers are right and in reversed order: the last axis has stride 1.",
            lambda shape: _row_major(shape)[::-1],
        ),
        Mistake(
            "own axis included",
            "Each stride is too large by the size of its own axis: multiply only the sizes to its right.",
            lambda shape: tuple(math.prod(shape[axis:]) for axis in range(len(shape))),
        ),
        Mistake(
            "sum for product",
            "The sizes to the right are added; one step along an axis jumps over their product.",
            lambda shape: tuple(max(1, sum(shape[axis + 1 :])) for axis in range(len(shape))),
        ),
        Mistake(
            "bytes",
            "These are bytes, as NumPy counts; torch counts elements.",
            lambda shape: tuple(4 * stride for stride in _row_major(shape)),
        ),
    ],
    hints=(
        "How many elements lie between x[0, 0] and x[1, 0] if a row has 4 of them?",
        "The stride of an axis is the product of all sizes to its right. The last axis has none, and 1 is the empty product.",
        "Walk from the right: start with step = 1, put it in front, multiply step by the size of the axis.",
    ),
    passed="`x.stride()` gives the same tuple, and `x.T` changes nothing but its order.",
)

position = Implement(
    id="w01.position",
    title="From index to position",
    minutes=5,
    level=1,
    needs=("w01.strides",),
    engine="python",
    cases=[
        Case("a matrix", lambda draw: {"index": (1, 2), "stride": (4, 1), "offset": 0}),
        Case("a slice that starts later", lambda draw: {"index": (2, 1), "stride": (5, 1), "offset": 7}),
        Case("a transposed matrix", lambda draw: {"index": (3, 1), "stride": (1, 6), "offset": 2}),
        Case("three axes", lambda draw: {"index": (1, 0, 3), "stride": (20, 5, 1), "offset": 3}),
        Case("a stretched axis", lambda draw: {"index": (4, 2), "stride": (0, 1), "offset": 1}),
        Case("no axes", lambda draw: {"index": (), "stride": (), "offset": 6}, extreme=True),
    ],
    oracle=lambda index, stride, offset: int(
        torch.arange(1000).as_strided([i + 1 for i in index], stride, offset)[index]
    ),
    rules=Rules(forbids=("as_strided", "item")),
    mistakes=[
        Mistake(
            "offset forgotten",
            "The offset is missing: it is where element [0, 0, …] lies, and everything is counted from there.",
            lambda index, stride, offset: sum(i * s for i, s in zip(index, stride, strict=True)),
        ),
        Mistake(
            "offset at every axis",
            "The offset is added once for each axis: it belongs to the tensor, add it once.",
            lambda index, stride, offset: sum(offset + i * s for i, s in zip(index, stride, strict=True)),
        ),
        Mistake(
            "strides reversed",
            "Index and strides are paired in opposite order: index[k] goes with stride[k].",
            lambda index, stride, offset: (
                offset + sum(i * s for i, s in zip(index, stride[::-1], strict=True))
            ),
        ),
        Mistake(
            "strides ignored",
            "The index is added up without its strides: one step along axis k moves stride[k] places.",
            lambda index, stride, offset: offset + sum(index),
        ),
        Mistake(
            "counted from 1",
            "This is one too far: indices and positions both start at 0.",
            lambda index, stride, offset: offset + sum(i * s for i, s in zip(index, stride, strict=True)) + 1,
        ),
    ],
    hints=(
        "Where does x[0, 0] lie? Now take one step along each axis in turn.",
        "Each axis contributes index times stride; the offset is added once.",
        "return offset + sum(i * s for i, s in zip(index, stride))",
    ),
    passed="This one line is all the addressing there is: every view below only changes its three ingredients.",
)


def _index(position, shape):
    found = []
    for size in reversed(shape):
        found.append(position % size)
        position //= size
    return tuple(reversed(found))


def _index_left_to_right(position, shape):
    found = []
    for size in shape:
        found.append(position % size)
        position //= size
    return tuple(found)


def _index_with_floats(position, shape):
    found = []
    for stride in _row_major(shape):
        found.append(position / stride)
        position %= stride
    return tuple(found)


index = Implement(
    id="w01.index",
    title="From position back to index",
    minutes=8,
    level=2,
    needs=("w01.position",),
    engine="python",
    cases=[
        Case("a matrix", lambda draw: {"position": 7, "shape": (3, 4)}),
        Case("the last element", lambda draw: {"position": 29, "shape": (2, 3, 5)}),
        Case("an axis of size 1", lambda draw: {"position": 3, "shape": (2, 1, 3)}),
        Case("three axes", lambda draw: {"position": 38, "shape": (4, 2, 7)}),
        Case("the first element", lambda draw: {"position": 0, "shape": (5, 6)}),
    ],
    oracle=lambda position, shape: tuple(int(i) for i in torch.unravel_index(torch.tensor(position), shape)),
    rules=Rules(forbids=("unravel_index", "nonzero")),
    mistakes=[
        Mistake(
            "left to right",
            "The first axis is peeled off first, as if it moved fastest; in row-major order the last one does.",
            _index_left_to_right,
        ),
        Mistake(
            "reversed order",
            "The right numbers in reversed order: you collected them from the right and did not turn them round.",
            lambda position, shape: _index(position, shape)[::-1],
        ),
        Mistake("floats", "`/` makes fractions; whole steps come from `//`.", _index_with_floats),
        Mistake(
            "remainder kept",
            "The position is not reduced after each axis: take the remainder before you go on.",
            lambda position, shape: tuple(position // stride for stride in _row_major(shape)),
        ),
    ],
    hints=(
        "How many whole rows fit into the position, and what is left over?",
        "Divide by the first stride: the quotient is the first index, go on with the remainder. `divmod` gives both.",
        "for s in strides(shape): i, position = divmod(position, s); collect i",
    ),
    passed="Position to index and back is what a CUDA thread does with its number in week 8.",
)


def _matrix():
    return torch.arange(12).reshape(3, 4)


def _shares(make):
    def truth():
        x = _matrix()
        return bool(np.shares_memory(x.numpy(), np.asarray(make(x))))

    return truth


share = Predict(
    id="w01.share",
    title="Which of these share memory?",
    minutes=6,
    level=1,
    needs=("w01.position",),
    items={
        "a": Item("x.T", _shares(lambda x: x.T)),
        "b": Item("x[1]", _shares(lambda x: x[1])),
        "c": Item("x[:, [0, 2]]", _shares(lambda x: x[:, [0, 2]])),
        "d": Item("x.reshape(2, 6)", _shares(lambda x: x.reshape(2, 6))),
        "e": Item("x.T.reshape(12)", _shares(lambda x: x.T.reshape(12))),
        "f": Item("x[x > 5]", _shares(lambda x: x[x > 5])),
        "g": Item("x.numpy()", _shares(lambda x: x.numpy())),
        "h": Item("x + 0", _shares(lambda x: x + 0)),
    },
    mistakes=[
        Mistake("transpose copies", "a: a transpose only swaps two strides; no number moves.", {"a": False}),
        Mistake("row copies", "b: a row is the same storage read from a later offset.", {"b": False}),
        Mistake(
            "list of columns",
            "c: a list of indices can be any pattern, and a stride cannot; torch gathers it into new memory.",
            {"c": True},
        ),
        Mistake(
            "reshape copies", "d: x is contiguous, so reshape only changes shape and strides.", {"d": False}
        ),
        Mistake(
            "reshape never copies",
            "e: no stride walks the columns of x one after the other, so reshape has to copy here.",
            {"e": True},
        ),
        Mistake(
            "mask is a view", "f: a mask picks an irregular pattern; the result is new memory.", {"f": True}
        ),
        Mistake("numpy copies", "g: `numpy()` shares memory with the tensor, both ways.", {"g": False}),
        Mistake(
            "adding zero", "h: arithmetic always makes a new tensor, even when nothing changes.", {"h": True}
        ),
    ],
    hints=(
        "Can the result be described by a shape, strides and an offset into the storage of x?",
        "Transposes, slices and reshapes of a contiguous tensor can. Lists, masks and arithmetic cannot.",
        "a, b, d and g share. For e: read x.T row by row and look at the positions you visit.",
    ),
    passed="What can be said with shape, strides and offset is free; everything else pays for a copy.",
)


def _permute_inverse(shape, stride, order):
    places = [order.index(axis) for axis in range(len(order))]
    return tuple(shape[p] for p in places), tuple(stride[p] for p in places)


permute = Implement(
    id="w01.permute",
    title="Permute without copying",
    minutes=6,
    level=1,
    needs=("w01.position",),
    engine="python",
    cases=[
        Case("a matrix", lambda draw: {"shape": (2, 3), "stride": (3, 1), "order": (1, 0)}),
        Case(
            "three axes, turned", lambda draw: {"shape": (2, 3, 4), "stride": (12, 4, 1), "order": (1, 2, 0)}
        ),
        Case(
            "channels last",
            lambda draw: {"shape": (8, 3, 5, 6), "stride": (90, 30, 6, 1), "order": (0, 2, 3, 1)},
        ),
        Case("a view of a view", lambda draw: {"shape": (4, 1, 3), "stride": (1, 7, 8), "order": (2, 0, 1)}),
    ],
    oracle=lambda shape, stride, order: (
        tuple(torch.empty_strided(shape, stride).permute(order).shape),
        torch.empty_strided(shape, stride).permute(order).stride(),
    ),
    rules=Rules(forbids=("permute", "transpose", "stride")),
    mistakes=[
        Mistake(
            "only the shape",
            "The shape is permuted and the strides are not, so the axes now walk through the wrong elements.",
            lambda shape, stride, order: (tuple(shape[k] for k in order), tuple(stride)),
        ),
        Mistake(
            "strides made new",
            "The strides are those of a fresh contiguous tensor: that would be true only after a copy.",
            lambda shape, stride, order: (
                tuple(shape[k] for k in order),
                _row_major(tuple(shape[k] for k in order)),
            ),
        ),
        Mistake(
            "inverse order",
            "The order is applied backwards: order[k] says which old axis becomes the new axis k.",
            _permute_inverse,
        ),
        Mistake(
            "always reversed",
            "All axes are reversed whatever `order` says: that is right only for a matrix.",
            lambda shape, stride, order: (tuple(shape[::-1]), tuple(stride[::-1])),
        ),
    ],
    hints=(
        "The numbers stay where they are. Which two tuples have to change?",
        "The new axis k is the old axis order[k]: take its size and its stride with it.",
        "tuple(shape[k] for k in order), and the same for stride",
    ),
    passed="A transpose costs the same for ten numbers and for ten billion: two tuples are reordered.",
)


def _as_view_anyway(x, shape):
    return torch.as_strided(x, shape, _row_major(shape))


def _reshape_result(reshape, x, shape):
    result = reshape(x, shape)
    return {"values": result, "is a view": bool(np.shares_memory(x.numpy(), result.numpy()))}


reshape = Implement(
    id="w01.reshape",
    title="Reshape: a view when it can, a copy when it must",
    minutes=10,
    level=2,
    needs=("w01.strides", "w01.permute"),
    cases=[
        Case("contiguous", lambda draw: {"x": draw.normal(3, 4), "shape": (2, 6)}),
        Case("transposed", lambda draw: {"x": draw.transposed(3, 4), "shape": (6, 2)}),
        Case("every second column", lambda draw: {"x": draw.strided(2, 5), "shape": (10,)}),
        Case("an axis of size 1", lambda draw: {"x": draw.normal(6, 1), "shape": (3, 2)}),
        Case("three axes", lambda draw: {"x": draw.normal(2, 3, 4), "shape": (4, 6)}),
    ],
    use=_reshape_result,
    oracle=lambda x, shape: _reshape_result(torch.reshape, x, shape),
    memory="any",
    rules=Rules(
        forbids=("reshape", "view", "flatten", "ravel", "unflatten", "view_as", "reshape_as", "resize")
    ),
    mistakes=[
        Mistake(
            "never copies",
            "A tensor that is not contiguous is read as if it were: the storage holds its numbers in another order.",
            _as_view_anyway,
        ),
        Mistake(
            "always copies",
            "The values are right, but a contiguous tensor was copied too: a view was possible there.",
            lambda x, shape: torch.as_strided(
                x.clone(memory_format=torch.contiguous_format), shape, _row_major(shape)
            ),
        ),
        Mistake(
            "column by column",
            "The elements are taken column by column: row-major order walks along the last axis first.",
            lambda x, shape: torch.as_strided(
                x.permute(*range(x.dim() - 1, -1, -1)).contiguous(), shape, _row_major(shape)
            ),
        ),
    ],
    hints=(
        "`torch.as_strided(x, shape, strides(shape))` is right for a contiguous x. Which x is it wrong for?",
        "`x.contiguous()` returns x itself if it is contiguous, and a contiguous copy if it is not.",
        "return torch.as_strided(x.contiguous(), shape, strides(shape))",
    ),
    passed="`view` is the half that refuses instead of copying. Use it when a copy would be a surprise.",
    delegate=lambda x, shape: torch.reshape(x, shape),
)


def _slice_truth(size, stride, offset, s):
    base = np.arange(1000)
    cut = np.lib.stride_tricks.as_strided(base[offset:], (size,), (stride * base.itemsize,))[s]
    return (len(cut), cut.strides[0] // base.itemsize, int(cut[0]))


slice_axis = Implement(
    id="w01.slice",
    title="A slice is an offset and a stride",
    minutes=10,
    level=2,
    needs=("w01.position",),
    engine="python",
    reference="NumPy (torch has no negative steps)",
    cases=[
        Case("from 2 to 5", lambda draw: {"size": 8, "stride": 1, "offset": 0, "s": slice(2, 5)}),
        Case("every second", lambda draw: {"size": 9, "stride": 3, "offset": 4, "s": slice(1, 8, 2)}),
        Case("reversed", lambda draw: {"size": 6, "stride": 2, "offset": 5, "s": slice(None, None, -1)}),
        Case("from the end", lambda draw: {"size": 7, "stride": 4, "offset": 1, "s": slice(-3, None)}),
        Case("backwards by two", lambda draw: {"size": 8, "stride": 3, "offset": 2, "s": slice(6, 1, -2)}),
        Case(
            "past the end",
            lambda draw: {"size": 5, "stride": 2, "offset": 3, "s": slice(1, 99, 3)},
            extreme=True,
        ),
    ],
    oracle=_slice_truth,
    mistakes=[
        Mistake(
            "stride not multiplied",
            "The step is missing from the stride: a step of 2 along an axis of stride 3 moves 6 places.",
            lambda size, stride, offset, s: (
                len(range(*s.indices(size))),
                stride,
                offset + s.indices(size)[0] * stride,
            ),
        ),
        Mistake(
            "start not scaled",
            "The start is added to the offset as it is: it counts elements of this axis, each `stride` places apart.",
            lambda size, stride, offset, s: (
                len(range(*s.indices(size))),
                stride * s.indices(size)[2],
                offset + s.indices(size)[0],
            ),
        ),
        Mistake(
            "rounded down",
            "The new size is rounded down: from 1 up to 8 by 2 there are four elements, 1, 3, 5 and 7.",
            lambda size, stride, offset, s: (
                (s.indices(size)[1] - s.indices(size)[0]) // s.indices(size)[2],
                stride * s.indices(size)[2],
                offset + s.indices(size)[0] * stride,
            ),
        ),
        Mistake(
            "old offset lost",
            "The old offset is lost: the axis may itself be a view that starts later.",
            lambda size, stride, offset, s: (
                len(range(*s.indices(size))),
                stride * s.indices(size)[2],
                s.indices(size)[0] * stride,
            ),
        ),
    ],
    hints=(
        "`s.indices(size)` turns any slice into start, stop, step with the missing parts filled in.",
        "The new stride is stride * step, the new offset is where element `start` lies.",
        "start, stop, step = s.indices(size); the new size is len(range(start, stop, step))",
    ),
    passed="NumPy reverses with a negative stride and copies nothing. torch allows no negative strides, so flip copies.",
    lint={"delegation": "the oracle is NumPy's own slicing, which needs an array to slice"},
)

windows = Implement(
    id="w01.windows",
    title="Sliding windows",
    minutes=8,
    level=2,
    needs=("w01.slice",),
    cases=[
        Case("seven, three wide", lambda draw: {"x": draw.normal(7), "width": 3}),
        Case("every second element of a longer row", lambda draw: {"x": draw.strided(6), "width": 2}),
        Case("one window", lambda draw: {"x": draw.normal(5), "width": 5}),
        Case("windows of one", lambda draw: {"x": draw.normal(4), "width": 1}),
        Case("a single element", lambda draw: {"x": draw.normal(1), "width": 1}, extreme=True),
    ],
    oracle=lambda x, width: x.unfold(0, width, 1),
    memory="view",
    rules=Rules(forbids=("unfold",)),
    mistakes=[
        Mistake(
            "one short",
            "The last window is missing: n elements hold n - width + 1 windows.",
            lambda x, width: torch.as_strided(x, (max(1, len(x) - width), width), (x.stride(0), x.stride(0))),
        ),
        Mistake(
            "stride of 1",
            "The stride is written as 1; ask x for it, since x may be a slice itself.",
            lambda x, width: torch.as_strided(x, (len(x) - width + 1, width), (1, 1)),
        ),
        Mistake(
            "axes swapped",
            "The axes are swapped: one window per row.",
            lambda x, width: torch.as_strided(x, (width, len(x) - width + 1), (x.stride(0), x.stride(0))),
        ),
        Mistake(
            "no overlap",
            "The windows do not overlap: the next window starts one element later, not one window later.",
            lambda x, width: torch.as_strided(
                x, (len(x) // width, width), (width * x.stride(0), x.stride(0))
            ),
        ),
        Mistake(
            "copied",
            "The values are right, but they were copied: windows of a view overlap in memory.",
            lambda x, width: torch.stack([x[i : i + width] for i in range(len(x) - width + 1)]),
        ),
    ],
    hints=(
        "The same element appears in several windows, and is stored once. Which strides say that?",
        "One step down goes to the next window, one step right to the next element: both move by the same stride.",
        "torch.as_strided(x, (n - width + 1, width), (x.stride(0), x.stride(0)))",
    ),
    passed="A convolution is these windows times a kernel: week 5 builds it on this line.",
)

diagonal = Implement(
    id="w01.diagonal",
    title="The diagonal of a matrix",
    minutes=6,
    level=2,
    needs=("w01.windows",),
    cases=[
        Case("wide", lambda draw: {"x": draw.normal(3, 5)}),
        Case("tall", lambda draw: {"x": draw.normal(4, 2)}),
        Case("transposed", lambda draw: {"x": draw.transposed(3, 4)}),
        Case("every second column", lambda draw: {"x": draw.strided(2, 3)}),
        Case("one row", lambda draw: {"x": draw.normal(1, 6)}, extreme=True),
    ],
    oracle=lambda x: torch.diagonal(x),
    memory="view",
    rules=Rules(forbids=("diagonal", "diag", "einsum")),
    mistakes=[
        Mistake(
            "contiguous assumed",
            "The stride is written as columns + 1, which holds for contiguous matrices only; ask x for its strides.",
            lambda x: torch.as_strided(x, (min(x.shape),), (x.shape[1] + 1,)),
        ),
        Mistake(
            "square assumed",
            "The length is the number of rows: a tall matrix has fewer columns than that.",
            lambda x: torch.as_strided(x, (x.shape[0],), (sum(x.stride()),)),
        ),
        Mistake(
            "first column",
            "This walks down the first column: one step along the diagonal is a step down and a step right.",
            lambda x: torch.as_strided(x, (min(x.shape),), (x.stride(0),)),
        ),
        Mistake(
            "copied",
            "The values are right, but they were copied; a diagonal can be a view.",
            lambda x: torch.stack([x[i, i] for i in range(min(x.shape))]),
        ),
    ],
    hints=(
        "One step along the diagonal is one step down and one step right. How far is that in storage?",
        "The stride is x.stride(0) + x.stride(1), and there are min(rows, columns) elements.",
        "torch.as_strided(x, (min(x.shape),), (x.stride(0) + x.stride(1),))",
    ),
    passed="The trace is its sum: `diagonal(x).sum()`.",
)


def _batch_stride(axis):
    return lambda: torch.empty(64, 3, 224, 224, device="meta").stride(axis)


batch = Predict(
    id="w01.batch",
    title="What (64, 3, 224, 224) means",
    minutes=6,
    level=1,
    needs=("w01.position",),
    items={
        "images": Item("how many images are in the batch", lambda: 64),
        "next image": Item("elements from one image to the next", _batch_stride(0)),
        "next channel": Item("elements from red to green of the same pixel", _batch_stride(1)),
        "pixel below": Item("elements from a pixel to the one below it", _batch_stride(2)),
        "megabytes": Item(
            "size in memory, float32, in millions of bytes", lambda: 64 * 3 * 224 * 224 * 4 / 1e6
        ),
        "position": Item("position of element [1, 2, 0, 5]", lambda: 3 * 224 * 224 + 2 * 224 * 224 + 5),
    },
    mistakes=[
        Mistake("three images", "The first axis is the batch: 64 images of 3 channels each.", {"images": 3}),
        Mistake(
            "one channel",
            "One image has three channels: the next image is 3 * 224 * 224 elements away.",
            {"next image": 224 * 224},
        ),
        Mistake(
            "channels interleaved",
            "Red and green of a pixel are not neighbors here: the whole red plane lies between them.",
            {"next channel": 1},
        ),
        Mistake(
            "rows are columns",
            "The pixel to the right is 1 away; the one below is a row away.",
            {"pixel below": 1},
        ),
        Mistake("one byte each", "A float32 takes 4 bytes.", {"megabytes": 64 * 3 * 224 * 224 / 1e6}),
        Mistake(
            "batch forgotten",
            "The 1 in front steps over one whole image.",
            {"position": 2 * 224 * 224 + 5},
        ),
    ],
    hints=(
        "Write the strides of (64, 3, 224, 224) first; you have a function for it.",
        "Axes are batch, channel, height, width. A stride is the product of the sizes to its right.",
        "strides: (150528, 50176, 224, 1). Position: 1 * 150528 + 2 * 50176 + 0 * 224 + 5.",
    ),
    passed="This layout is called NCHW. Channels-last (NHWC) is the same shape with permuted strides.",
)
