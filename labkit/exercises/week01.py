"""Week 1: tensors. Storage and strides, broadcasting and reductions, torch's own API, and the clinic."""

import math

import numpy as np

from labkit.exercises.declare import (
    Case,
    Fix,
    Implement,
    Item,
    Measure,
    Mistake,
    Predict,
    Raises,
    Rules,
    WriteTest,
)
from labkit.lazy import F, torch

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
        Mistake(
            "neighbor only",
            "Each stride is the size of the next axis alone: multiply all the sizes to its right.",
            lambda shape: (*shape[1:], 1),
        ),
    ],
    hints=(
        "How many elements lie between x[0, 0] and x[1, 0] if a row has 4 of them?",
        "The stride of an axis is the product of all sizes to its right. The last axis has none, and 1 is the empty product.",
        "Walk from the right: start with step = 1, put it in front, multiply step by the size of the axis.",
    ),
    passed="`x.stride()` gives the same tuple, and `x.T` changes nothing but its order.",
)


def _position_of_first_axis(index, stride, offset):
    for i, s in zip(index, stride, strict=True):
        return offset + i * s


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
        Mistake(
            "two axes only",
            "Only the first two axes are counted: an index may have any number of them.",
            lambda index, stride, offset: offset + index[0] * stride[0] + index[1] * stride[1],
        ),
        Mistake(
            "returned too early",
            "`return` stands inside the loop and ends it after the first axis: move it to the left.",
            _position_of_first_axis,
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


def _index_by_sizes(position, shape):
    found = []
    for size in shape:
        found.append(position // size)
        position %= size
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
            "The right numbers in reversed order: you collected them from the right and did not reverse them.",
            lambda position, shape: _index(position, shape)[::-1],
        ),
        Mistake("floats", "`/` makes fractions; whole steps come from `//`.", _index_with_floats),
        Mistake(
            "remainder kept",
            "The position is not reduced after each axis: take the remainder before you go on.",
            lambda position, shape: tuple(position // stride for stride in _row_major(shape)),
        ),
        Mistake(
            "sizes for strides",
            "The position is divided by the sizes; one step along an axis moves by its stride, so divide by that.",
            _index_by_sizes,
        ),
        Mistake(
            "remainders only",
            "These are the remainders: the index is how often the stride fits, `//`; what is left goes to the next axis.",
            lambda position, shape: tuple(position % stride for stride in _row_major(shape)),
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
        "a": Item("`x.T`", _shares(lambda x: x.T)),
        "b": Item("`x[1]`", _shares(lambda x: x[1])),
        "c": Item("`x[:, [0, 2]]`", _shares(lambda x: x[:, [0, 2]])),
        "d": Item("`x.reshape(2, 6)`", _shares(lambda x: x.reshape(2, 6))),
        "e": Item("`x.T.reshape(12)`", _shares(lambda x: x.T.reshape(12))),
        "f": Item("`x[x > 5]`", _shares(lambda x: x[x > 5])),
        "g": Item("`x.numpy()`", _shares(lambda x: x.numpy())),
        "h": Item("`x + 0`", _shares(lambda x: x + 0)),
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
            "The order is applied backward: order[k] says which old axis becomes the new axis k.",
            _permute_inverse,
        ),
        Mistake(
            "always reversed",
            "All axes are reversed whatever `order` says: that is right only for a matrix.",
            lambda shape, stride, order: (tuple(shape[::-1]), tuple(stride[::-1])),
        ),
        Mistake(
            "shape alone",
            "Only the new shape comes back: return two tuples, the new shape and the new strides.",
            lambda shape, stride, order: tuple(shape[k] for k in order),
        ),
        Mistake(
            "joined",
            "Shape and strides come back as one long tuple: put a comma between the two, not a `+`.",
            lambda shape, stride, order: (*(shape[k] for k in order), *(stride[k] for k in order)),
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
    if result is None:
        return None
    shares = isinstance(result, torch.Tensor) and np.shares_memory(x.numpy(), result.numpy())
    return {"result": result, "shares memory with x": bool(shares)}


reshape = Implement(
    id="w01.reshape",
    title="Reshape: a view when it can, a copy when it must",
    minutes=10,
    level=2,
    needs=("w01.strides", "w01.permute"),
    cases=[
        Case("contiguous", lambda draw: {"x": draw.normal(3, 4), "shape": (2, 6)}),
        Case("transposed", lambda draw: {"x": draw.transposed(3, 4), "shape": (6, 2)}),
        Case("all columns but the last", lambda draw: {"x": draw.normal(2, 6)[:, :5], "shape": (10,)}),
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
        Mistake(
            "clone for contiguous",
            "`clone` keeps the strides of a transposed x, so the copy has the old order too. `contiguous` lays it out anew.",
            lambda x, shape: torch.as_strided(
                x if x.is_contiguous() else x.clone(), shape, _row_major(shape)
            ),
        ),
        Mistake(
            "always cloned",
            "`clone` copies always, and keeps the strides of a transposed x. `contiguous` copies if it must, row by row.",
            lambda x, shape: torch.as_strided(x.clone(), shape, _row_major(shape)),
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
    if not range(*s.indices(size)):  # NumPy forgets where an empty slice began, torch does not
        empty = torch.arange(1000).as_strided((size,), (stride,), offset)[s]
        return (0, empty.stride(0), empty.storage_offset())
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
        Case("backward by two", lambda draw: {"size": 8, "stride": 3, "offset": 2, "s": slice(6, 1, -2)}),
        Case("one element", lambda draw: {"size": 8, "stride": 2, "offset": 1, "s": slice(3, 4, 2)}),
        Case(
            "past the end",
            lambda draw: {"size": 5, "stride": 2, "offset": 3, "s": slice(1, 99, 3)},
            extreme=True,
        ),
        Case(
            "nothing left",
            lambda draw: {"size": 8, "stride": 3, "offset": 2, "s": slice(5, 2)},
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
        Mistake(
            "step for stride",
            "The step replaces the stride; it multiplies it: 2 elements of an axis with stride 3 are 6 places.",
            lambda size, stride, offset, s: (
                len(range(*s.indices(size))),
                s.indices(size)[2],
                offset + s.indices(size)[0] * stride,
            ),
        ),
        Mistake(
            "negative size",
            "A slice that stops before it starts is empty: its size is 0, not negative. len(range(...)) says so.",
            lambda size, stride, offset, s: (
                math.ceil((s.indices(size)[1] - s.indices(size)[0]) / s.indices(size)[2]),
                stride * s.indices(size)[2],
                offset + s.indices(size)[0] * stride,
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
            lambda x, width: torch.as_strided(x, (len(x) - width, width), (x.stride(0), x.stride(0))),
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
            "Stacking, indexing and `clone` make new memory. `torch.as_strided` alone reads the memory of x again.",
            lambda x, width: torch.stack([x[i : i + width] for i in range(len(x) - width + 1)]),
        ),
        Mistake(
            "step right of 1",
            "One step right is written as 1: it too goes to the next element of x, x.stride(0) places on.",
            lambda x, width: torch.as_strided(x, (len(x) - width + 1, width), (x.stride(0), 1)),
        ),
        Mistake(
            "contiguous first",
            "`x.contiguous()` copies a row that is a slice. Leave x as it is and use its stride.",
            lambda x, width: torch.as_strided(x.contiguous(), (len(x) - width + 1, width), (1, 1)),
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
            "Stacking and indexing make new memory. `torch.as_strided` reads the diagonal where it lies.",
            lambda x: torch.stack([x[i, i] for i in range(min(x.shape))]),
        ),
        Mistake(
            "step right of 1",
            "One step right is written as 1; in a transposed matrix it is more: ask for x.stride(1).",
            lambda x: torch.as_strided(x, (min(x.shape),), (x.stride(0) + 1,)),
        ),
        Mistake(
            "contiguous first",
            "`x.contiguous()` copies a transposed matrix. Leave x as it is and use its two strides.",
            lambda x: torch.as_strided(x.contiguous(), (min(x.shape),), (x.shape[1] + 1,)),
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
        "images": Item("how many images are in the batch?", lambda: 64),
        "next image": Item(
            "how many elements is it from one image to the same place in the next?", _batch_stride(0)
        ),
        "next channel": Item("from the red to the green of the same pixel?", _batch_stride(1)),
        "pixel below": Item("from a pixel to the one below it, same channel?", _batch_stride(2)),
        "megabytes": Item("how large is it in memory?", lambda: 64 * 3 * 224 * 224 * 4 / 1e6),
        "position": Item("where does element [1, 2, 0, 5] lie?", lambda: 3 * 224 * 224 + 2 * 224 * 224 + 5),
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
        Mistake(
            "bytes",
            "These are bytes: a megabyte is a million of them.",
            {"megabytes": 64 * 3 * 224 * 224 * 4},
        ),
        Mistake(
            "mebibytes",
            "This counts 1024 * 1024 bytes to a megabyte; here it is a million.",
            {"megabytes": 64 * 3 * 224 * 224 * 4 / 2**20},
        ),
        Mistake(
            "one row on",
            "That is one row further in the same channel; a whole plane of 224 * 224 lies between red and green.",
            {"next channel": 224},
        ),
        Mistake(
            "width as height",
            "The last index, 5, counts along the row: its stride is 1, not 224.",
            {"position": 3 * 224 * 224 + 2 * 224 * 224 + 5 * 224},
        ),
    ],
    hints=(
        "Write the strides of (64, 3, 224, 224) first; you have a function for it.",
        "Axes are batch, channel, height, width. A stride is the product of the sizes to its right.",
        "strides: (150528, 50176, 224, 1). Position: 1 * 150528 + 2 * 50176 + 0 * 224 + 5.",
    ),
    passed="This layout is called NCHW. Channels-last (NHWC) is the same shape with permuted strides.",
)


# 02 broadcasting and reductions


def _broadcast_truth(a, b):
    try:
        return tuple(torch.broadcast_shapes(a, b))
    except RuntimeError:
        return Raises(ValueError)


def _stretch(a, b, pairs):
    """The broadcast of sizes already paired, with the error where they clash."""
    for x, y in pairs:
        if x != y and 1 not in (x, y):
            raise ValueError(f"{a} and {b} do not fit")
    return tuple(y if x == 1 else x for x, y in pairs)


def _aligned_left(a, b):
    n = max(len(a), len(b))
    return _stretch(a, b, list(zip(a + (1,) * (n - len(a)), b + (1,) * (n - len(b)), strict=True)))


def _aligned_right(a, b):
    n = max(len(a), len(b))
    return list(zip((1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b, strict=True))


def _larger_size(a, b):
    _stretch(a, b, _aligned_right(a, b))
    return tuple(max(x, y) for x, y in _aligned_right(a, b))


def _never_stretches(a, b):
    for x, y in _aligned_right(a, b)[-min(len(a), len(b)) :]:
        if x != y:
            raise ValueError(f"{a} and {b} do not fit")
    return max(a, b, key=len)


def _torch_broadcast_shapes(a, b):
    return tuple(torch.broadcast_shapes(a, b))


broadcast_shape = Implement(
    id="w01.broadcast_shape",
    title="The broadcast rule",
    minutes=10,
    level=1,
    needs=("w01.strides",),
    engine="python",
    cases=[
        Case("same length", lambda draw: {"a": (3, 1), "b": (1, 4)}),
        Case("a bias", lambda draw: {"a": (5, 3), "b": (3,)}),
        Case("a shorter first", lambda draw: {"a": (4,), "b": (2, 3, 4)}),
        Case("a number", lambda draw: {"a": (), "b": (2, 5)}),
        Case("they do not fit", lambda draw: {"a": (3, 2), "b": (3,)}),
        Case("fit from the left only", lambda draw: {"a": (2, 3), "b": (2,)}),
        Case("an empty axis", lambda draw: {"a": (2, 1), "b": (0,)}, extreme=True),
    ],
    oracle=_broadcast_truth,
    delegate=_torch_broadcast_shapes,
    rules=Rules(
        forbids=(
            "broadcast_shapes",
            "broadcast_tensors",
            "broadcast_to",
            "broadcast",
            "zeros",
            "ones",
            "empty",
        )
    ),
    mistakes=[
        Mistake(
            "aligned left",
            "The shapes are aligned at the left: (5, 3) and (3,) are compared from the right, 3 with 3.",
            _aligned_left,
        ),
        Mistake(
            "no error",
            "The larger size is taken without asking whether the two fit: 3 and 2 do not, and nobody would notice.",
            lambda a, b: tuple(max(x, y) for x, y in _aligned_right(a, b)),
        ),
        Mistake(
            "size 1 refused",
            "An axis of size 1 is refused: it stretches to any size.",
            _never_stretches,
        ),
        Mistake(
            "leading axes lost",
            "The extra axes of the longer shape are lost: `zip` stops at the shorter one.",
            lambda a, b: _stretch(a, b, _aligned_right(a, b)[max(len(a), len(b)) - min(len(a), len(b)) :]),
        ),
        Mistake(
            "the larger size",
            "`max` takes 1 where the other size is 0: a 1 stretches to whatever the other is, down to nothing.",
            _larger_size,
        ),
    ],
    hints=(
        "Write the two shapes under each other, aligned at the right. What may stand above what?",
        "Pad the shorter shape with 1s on the left. Two sizes fit if they are equal or one of them is 1.",
        "For each pair: if x == 1 take y; if y == 1 or x == y take x; else raise ValueError.",
    ),
    passed="This rule is NumPy's, torch's and JAX's alike. `torch.broadcast_shapes` is its name in torch.",
)

expand = Implement(
    id="w01.expand",
    title="Broadcast with a stride of 0",
    minutes=10,
    level=2,
    needs=("w01.broadcast_shape", "w01.windows"),
    cases=[
        Case("a row", lambda draw: {"x": draw.normal(3), "shape": (4, 3)}),
        Case("a column", lambda draw: {"x": draw.normal(4, 1), "shape": (4, 5)}),
        Case("both", lambda draw: {"x": draw.normal(2, 1, 3), "shape": (5, 2, 4, 3)}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(3, 2), "shape": (4, 3, 2)}),
        Case("nothing to do", lambda draw: {"x": draw.normal(2, 5), "shape": (2, 5)}),
        Case("one number", lambda draw: {"x": draw.normal(1), "shape": (3, 2)}, extreme=True),
    ],
    oracle=lambda x, shape: x.expand(shape),
    memory="view",
    rules=Rules(forbids=("expand", "broadcast_to", "expand_as", "broadcast_tensors", "repeat", "tile")),
    mistakes=[
        Mistake(
            "size 1 keeps its stride",
            "Only the missing axes got a stride of 0: an axis of size 1 that is stretched needs it as well.",
            lambda x, shape: torch.as_strided(x, shape, (0,) * (len(shape) - x.dim()) + x.stride()),
        ),
        Mistake(
            "fresh strides",
            "The strides are those of a contiguous tensor; ask x for its own with x.stride().",
            lambda x, shape: torch.as_strided(
                x,
                shape,
                (0,) * (len(shape) - x.dim())
                + tuple(0 if n == 1 else s for n, s in zip(x.shape, _row_major(x.shape), strict=True)),
            ),
        ),
        Mistake(
            "aligned left",
            "The zeros are on the wrong side: axes that x lacks are added at the front.",
            lambda x, shape: torch.as_strided(
                x,
                shape,
                tuple(0 if n == 1 else s for n, s in zip(x.shape, x.stride(), strict=True))
                + (0,) * (len(shape) - x.dim()),
            ),
        ),
        Mistake(
            "copied",
            "The values are right, but every repeat was stored: with a stride of 0 nothing is.",
            lambda x, shape: x + torch.zeros(shape, dtype=x.dtype),
        ),
        Mistake(
            "missing axes left out",
            "x has fewer axes than the shape: each that is missing needs a stride of 0 at the front.",
            lambda x, shape: torch.as_strided(
                x, shape, tuple(0 if n == 1 else s for n, s in zip(x.shape, x.stride(), strict=True))
            ),
        ),
        Mistake(
            "every stride 0",
            "All strides are 0, so the first element is read everywhere: axes that are not stretched keep theirs.",
            lambda x, shape: torch.as_strided(x, shape, (0,) * len(shape)),
        ),
    ],
    hints=(
        "Which stride reads the same element again and again?",
        "An axis that x lacks, or that has size 1 in x, gets stride 0; the others keep x.stride().",
        "Pad x.shape with 1s and x.stride() with 0s on the left; then 0 where the size is 1, and as_strided.",
    ),
    passed="A stride of 0 makes a million copies of a row cost nothing. `x.expand` is torch's name for it.",
)


def _shape_of(make):
    """The shape of an expression, or the word "error"."""

    def truth():
        try:
            return tuple(make(lambda *shape: torch.zeros(shape)).shape)
        except (RuntimeError, IndexError):
            return "error"

    return truth


shape_quiz = Predict(
    id="w01.shape_quiz",
    title="Twelve shapes",
    minutes=10,
    level=2,
    needs=("w01.broadcast_shape",),
    items={
        "a": Item("`z(3, 4) + z(4)`", _shape_of(lambda z: z(3, 4) + z(4))),
        "b": Item("`z(3, 4) + z(3)`", _shape_of(lambda z: z(3, 4) + z(3))),
        "c": Item("`z(3, 4) + z(3, 1)`", _shape_of(lambda z: z(3, 4) + z(3, 1))),
        "d": Item("`z(5) - z(5, 1)`", _shape_of(lambda z: z(5) - z(5, 1))),
        "e": Item("`z(2, 1, 4) * z(3, 1)`", _shape_of(lambda z: z(2, 1, 4) * z(3, 1))),
        "f": Item("`z(2, 3, 4).sum(dim=1)`", _shape_of(lambda z: z(2, 3, 4).sum(dim=1))),
        "g": Item("`z(2, 3, 4).mean(dim=(0, 2))`", _shape_of(lambda z: z(2, 3, 4).mean(dim=(0, 2)))),
        "h": Item(
            "`z(2, 3, 4).sum(dim=-1, keepdim=True)`",
            _shape_of(lambda z: z(2, 3, 4).sum(dim=-1, keepdim=True)),
        ),
        "i": Item("`z(2, 3) @ z(3, 5)`", _shape_of(lambda z: z(2, 3) @ z(3, 5))),
        "j": Item("`z(7, 2, 3) @ z(3)`", _shape_of(lambda z: z(7, 2, 3) @ z(3))),
        "k": Item("`z(6, 4)[:, None, 1]`", _shape_of(lambda z: z(6, 4)[:, None, 1])),
        "l": Item("`z(3, 4) / z(3, 4).norm(dim=1)`", _shape_of(lambda z: z(3, 4) / z(3, 4).norm(dim=1))),
    },
    mistakes=[
        Mistake(
            "left alignment",
            "b: 3 stands under 4, because shapes are aligned at the right. They do not fit.",
            {"b": (3, 4)},
        ),
        Mistake("no stretching", "c: the axis of size 1 stretches to 4.", {"c": "error"}),
        Mistake("vector minus column", "d: a row minus a column is a table of all differences.", {"d": (5,)}),
        Mistake(
            "column stays",
            "d: the row is stretched down and the column is stretched to the right.",
            {"d": (5, 1)},
        ),
        Mistake(
            "two axes win",
            "e: the missing axis of the second is added at the front: 1 stretches to 2.",
            {"e": (3, 4)},
        ),
        Mistake("wrong axis gone", "f: dim=1 is the axis that disappears.", {"f": (2, 3)}),
        Mistake("axes kept", "g: both named axes disappear; only axis 1 is left.", {"g": (2, 4)}),
        Mistake("keepdim forgotten", "h: keepdim=True leaves the summed axis with size 1.", {"h": (2, 3)}),
        Mistake(
            "column vector",
            "j: a vector on the right loses its axis: each of the seven results is a vector of 2.",
            {"j": (7, 2, 1)},
        ),
        Mistake(
            "index keeps the axis",
            "k: an integer index removes its axis, None adds one before it.",
            {"k": (6, 1, 1)},
        ),
        Mistake(
            "norm lines up",
            "l: the norms have shape (3,), and 3 stands under 4. keepdim=True would mend it.",
            {"l": (3, 4)},
        ),
        Mistake(
            "row refused", "a: 4 stands under 4, and the missing axis counts as 1. They fit.", {"a": "error"}
        ),
        Mistake(
            "unequal refused",
            "e: aligned at the right it is 1 under 4, 3 under 1, and a missing axis under 2. Every pair fits.",
            {"e": "error"},
        ),
        Mistake("kept unasked", "f: without keepdim=True the summed axis disappears.", {"f": (2, 1, 4)}),
        Mistake(
            "comma forgotten", "g: `(3)` is the number 3. A tuple of one needs its comma: `(3,)`.", {"g": 3}
        ),
        Mistake(
            "vector refused",
            "j: `@` accepts a vector on the right: 3 meets 3, in each of the seven matrices.",
            {"j": "error"},
        ),
        Mistake(
            "None overlooked", "k: the index 1 removes an axis, and None adds one of size 1.", {"k": (6,)}
        ),
        Mistake(
            "index overlooked", "k: None adds an axis; the index 1 removes the last one.", {"k": (6, 1, 4)}
        ),
    ],
    hints=(
        "Write each pair of shapes under each other, aligned at the right.",
        "A reduction removes the axes it names; keepdim=True leaves them with size 1. `@` contracts the last axis of the left one.",
        "Two of them are errors: b and l.",
    ),
    passed="Item l is the classic: normalizing rows without keepdim. On a square matrix it would even run.",
)


def _puzzle(id, title, minutes, cases, oracle, forbids, allows, mistakes, hints, passed, level=2, **more):
    """A one-line puzzle: a short list of allowed operations, and no loops."""
    return Implement(
        id=id,
        title=title,
        minutes=minutes,
        level=level,
        needs=("w01.broadcast_shape",),
        cases=cases,
        oracle=oracle,
        rules=Rules(forbids=forbids, allows=allows, loops=False),
        mistakes=mistakes,
        hints=hints,
        passed=passed,
        **more,
    )


outer = _puzzle(
    "w01.outer",
    "Puzzle: outer product",
    3,
    [
        Case("3 by 4", lambda draw: {"a": draw.normal(3), "b": draw.normal(4)}),
        Case("not contiguous", lambda draw: {"a": draw.strided(2), "b": draw.strided(5)}),
        Case("one by six", lambda draw: {"a": draw.normal(1), "b": draw.normal(6)}),
    ],
    lambda a, b: torch.outer(a, b),
    ("outer", "ger", "einsum", "matmul", "kron"),
    (),
    [
        Mistake(
            "transposed",
            "This is the transpose: a runs down, b runs to the right.",
            lambda a, b: b[:, None] * a,
        ),
        Mistake("sum", "These are all sums; an outer product multiplies.", lambda a, b: a[:, None] + b),
        Mistake(
            "flat",
            "The numbers are right, in one long row: keep two axes.",
            lambda a, b: torch.outer(a, b).flatten(),
        ),
        Mistake(
            "no new axis",
            "A row meets a row here: `a[:, None]` turns a into a column, and a column against a row is a table.",
            lambda a, b: a * b,
        ),
    ],
    (
        "A column times a row.",
        "`a[:, None]` has shape (n, 1).",
        "return a[:, None] * b[None, :]",
    ),
    "Every table of all pairs starts like this: one axis for each of the two.",
    level=1,
    grads=("a", "b"),
)

diag = _puzzle(
    "w01.diag",
    "Puzzle: a vector on the diagonal",
    4,
    [
        Case("three", lambda draw: {"v": draw.normal(3)}),
        Case("not contiguous", lambda draw: {"v": draw.strided(4)}),
        Case("one", lambda draw: {"v": draw.normal(1)}),
    ],
    lambda v: torch.diag(v),
    ("diag", "diagflat", "diag_embed", "eye"),
    ("arange", "where"),
    [
        Mistake(
            "rows filled",
            "Whole rows are filled: only where row and column number agree is there a value.",
            lambda v: v[:, None] * torch.ones(len(v), dtype=v.dtype),
        ),
        Mistake(
            "ones",
            "The diagonal holds ones: put the values of v there.",
            lambda v: (torch.arange(len(v))[:, None] == torch.arange(len(v))).to(v.dtype),
        ),
        Mistake(
            "other diagonal",
            "This is the other diagonal, from top right to bottom left.",
            lambda v: torch.diag(v).flip(1),
        ),
        Mistake(
            "off by one",
            "The values sit one column to the right of the diagonal.",
            lambda v: torch.where(torch.arange(len(v))[:, None] + 1 == torch.arange(len(v)), v, 0),
        ),
        Mistake(
            "whole ones",
            "The diagonal holds ones: put the values of v there. `torch.where(condition, v, 0)` does.",
            lambda v: torch.where(torch.arange(len(v))[:, None] == torch.arange(len(v)), 1, 0),
        ),
        Mistake(
            "no table",
            "A row is compared with a row: make one of the two a column, `i[:, None]`, and you get a table.",
            lambda v: torch.where(torch.arange(len(v)) == torch.arange(len(v)), v, 0),
        ),
    ],
    (
        "Compare a column of row numbers with a row of column numbers.",
        "`i[:, None] == i` is True on the diagonal. `torch.where(condition, x, 0)` picks.",
        "i = torch.arange(len(v)); return torch.where(i[:, None] == i, v, 0)",
    ),
    "A comparison of two aranges is the raw material of every mask.",
    grads=("v",),
)

triu = _puzzle(
    "w01.triu",
    "Puzzle: upper triangle",
    4,
    [
        Case("wide", lambda draw: {"x": draw.normal(3, 5)}),
        Case("tall", lambda draw: {"x": draw.normal(4, 2)}),
        Case("transposed", lambda draw: {"x": draw.transposed(2, 3)}),
        Case("one row", lambda draw: {"x": draw.normal(1, 4)}),
    ],
    lambda x: torch.triu(x),
    ("triu", "tril", "triu_indices", "tril_indices"),
    ("arange", "where"),
    [
        Mistake(
            "lower",
            "This is the lower triangle: keep what lies on the diagonal and to the right of it.",
            lambda x: torch.where(torch.arange(x.shape[0])[:, None] >= torch.arange(x.shape[1]), x, 0),
        ),
        Mistake(
            "diagonal lost",
            "The diagonal itself is missing: use <=, not <.",
            lambda x: torch.where(torch.arange(x.shape[0])[:, None] < torch.arange(x.shape[1]), x, 0),
        ),
        Mistake(
            "ones",
            "This is the mask; the values of x are wanted where it is True.",
            lambda x: (torch.arange(x.shape[0])[:, None] <= torch.arange(x.shape[1])).to(x.dtype),
        ),
        Mistake(
            "square assumed",
            "One arange serves both axes: rows and columns may differ in number, each needs its own.",
            lambda x: torch.where(torch.arange(len(x))[:, None] <= torch.arange(len(x)), x, 0),
        ),
    ],
    (
        "When is a cell above the diagonal, in terms of its row and column number?",
        "row <= column. Rows and columns may differ in number: two aranges.",
        "torch.where(torch.arange(x.shape[0])[:, None] <= torch.arange(x.shape[1]), x, 0)",
    ),
    "Turned around, this is the causal mask of week 7.",
    grads=("x",),
)

cumsum = _puzzle(
    "w01.cumsum",
    "Puzzle: running sum",
    5,
    [
        Case("five", lambda draw: {"x": draw.normal(5)}),
        Case("not contiguous", lambda draw: {"x": draw.strided(4)}),
        Case("one", lambda draw: {"x": draw.normal(1)}),
    ],
    lambda x: torch.cumsum(x, 0),
    ("cumsum", "cumulative_trapezoid", "logcumsumexp"),
    ("arange", "where", "sum"),
    [
        Mistake(
            "without itself",
            "Each sum stops one element early: element i counts in its own sum.",
            lambda x: torch.cumsum(x, 0) - x,
        ),
        Mistake(
            "from the end",
            "These sums run from each element to the end.",
            lambda x: x.flip(0).cumsum(0).flip(0),
        ),
        Mistake(
            "total", "This is the total, repeated.", lambda x: x.sum() * torch.ones(len(x), dtype=x.dtype)
        ),
        Mistake(
            "mean",
            "The running sum is divided by how many were added: that is a running mean.",
            lambda x: torch.cumsum(x, 0) / torch.arange(1, len(x) + 1),
        ),
        Mistake(
            "summed down",
            "The columns of the table are summed; result i stands in row i, so sum along the rows: dim 1.",
            lambda x: torch.where(torch.arange(len(x)) <= torch.arange(len(x))[:, None], x, 0).sum(0),
        ),
        Mistake(
            "itself again and again",
            "Row i repeats x[i], because x is a column too: leave x a row, so that column j holds x[j].",
            lambda x: torch.where(torch.arange(len(x)) <= torch.arange(len(x))[:, None], x[:, None], 0).sum(
                1
            ),
        ),
    ],
    (
        "Result i is a sum over all j <= i. Make a table with one row for each i.",
        "`torch.where(j <= i, x, 0)` with i a column and j a row; then sum each row.",
        "i = torch.arange(len(x)); return torch.where(i <= i[:, None], x, 0).sum(1)",
    ),
    "n numbers, n times n work: broadcasting buys clarity, not always speed. torch.cumsum does it in n steps.",
    grads=("x",),
)

one_hot = _puzzle(
    "w01.one_hot",
    "Puzzle: one-hot",
    3,
    [
        Case("five labels, four classes", lambda draw: {"labels": draw.integers(0, 4, 5), "classes": 4}),
        Case("a class that never occurs", lambda draw: {"labels": np.array([2, 0, 2, 1]), "classes": 6}),
        Case("not contiguous", lambda draw: {"labels": draw.integers(0, 3, 14)[::2], "classes": 3}),
        Case("one label", lambda draw: {"labels": np.array([1]), "classes": 2}),
    ],
    lambda labels, classes: F.one_hot(labels, classes),
    ("one_hot", "scatter", "eye"),
    ("arange", "long", "to", "where"),
    [
        Mistake(
            "truth values",
            "The table holds True and False: turn them into whole numbers with `.long()`.",
            lambda labels, classes: labels[:, None] == torch.arange(classes),
        ),
        Mistake(
            "transposed",
            "Classes run down: one row for each label.",
            lambda labels, classes: (torch.arange(classes)[:, None] == labels).long(),
        ),
        Mistake(
            "counted from 1",
            "Classes are counted from 1 here; labels start at 0.",
            lambda labels, classes: (labels[:, None] == torch.arange(1, classes + 1)).long(),
        ),
        Mistake(
            "cold",
            "0 and 1 are swapped.",
            lambda labels, classes: (labels[:, None] != torch.arange(classes)).long(),
        ),
        Mistake(
            "floats",
            "The table holds floats; whole numbers are asked for: `.long()`.",
            lambda labels, classes: (labels[:, None] == torch.arange(classes)).float(),
        ),
        Mistake(
            "no table",
            "A row of labels meets a row of classes: make the labels a column, `labels[:, None]`.",
            lambda labels, classes: (labels == torch.arange(classes)).long(),
        ),
    ],
    (
        "Each row answers: is it class 0? class 1? class 2?",
        "Compare a column of labels with a row of class numbers; `.long()` turns True into 1.",
        "return (labels[:, None] == torch.arange(classes)).long()",
    ),
    "A one-hot row times a matrix picks a row of it: that is what an embedding layer is.",
    level=1,
    lint={"constant": "labels are class numbers"},
)

bincount = _puzzle(
    "w01.bincount",
    "Puzzle: count the classes",
    3,
    [
        Case("nine labels", lambda draw: {"labels": np.array([0, 2, 1, 2, 2, 4, 0, 2, 1]), "classes": 5}),
        Case("a class that never occurs", lambda draw: {"labels": draw.integers(0, 3, 7), "classes": 4}),
        Case("not contiguous", lambda draw: {"labels": draw.integers(0, 3, 20)[::2], "classes": 3}),
        Case("one label", lambda draw: {"labels": np.array([1]), "classes": 2}),
    ],
    lambda labels, classes: torch.bincount(labels, minlength=classes),
    ("bincount", "histc", "unique", "scatter_add", "histogram"),
    ("arange", "sum", "long", "to", "where"),
    [
        Mistake(
            "summed the wrong way",
            "This sums each row, and every row holds a single 1. Sum down the columns.",
            lambda labels, classes: (labels[:, None] == torch.arange(classes)).sum(1),
        ),
        Mistake(
            "classes dropped",
            "Classes that never occur are missing: every class gets a count, also 0.",
            lambda labels, classes: torch.bincount(labels),
        ),
        Mistake(
            "labels added",
            "The labels themselves are added up: count them.",
            lambda labels, classes: torch.where(
                labels[:, None] == torch.arange(classes), labels[:, None], 0
            ).sum(0),
        ),
        Mistake(
            "shares",
            "These are shares, not counts.",
            lambda labels, classes: torch.bincount(labels, minlength=classes) / len(labels),
        ),
        Mistake(
            "no table",
            "A row of labels meets a row of classes: make the labels a column, `labels[:, None]`.",
            lambda labels, classes: (labels == torch.arange(classes)).sum(0),
        ),
    ],
    (
        "You have a one-hot table. What is the sum of a column?",
        "Sum the comparison over the axis of labels: dim 0.",
        "return (labels[:, None] == torch.arange(classes)).sum(0)",
    ),
    "Summing truth values counts them: True is 1.",
    level=1,
)

sequence_mask = _puzzle(
    "w01.sequence_mask",
    "Puzzle: mask of sequence lengths",
    3,
    [
        Case("three sequences", lambda draw: {"lengths": np.array([2, 5, 3]), "longest": 5}),
        Case("an empty sequence", lambda draw: {"lengths": np.array([4, 0]), "longest": 6}),
        Case(
            "not contiguous", lambda draw: {"lengths": np.array([1, 9, 3, 9, 2, 9, 4, 9])[::2], "longest": 4}
        ),
        Case("one", lambda draw: {"lengths": np.array([3]), "longest": 4}),
    ],
    lambda lengths, longest: torch.stack([torch.arange(longest) < n for n in lengths]),
    ("stack", "pad_sequence"),
    ("arange",),
    [
        Mistake(
            "one too many",
            "One step too many is kept: position n is already outside a sequence of length n.",
            lambda lengths, longest: torch.arange(longest) <= lengths[:, None],
        ),
        Mistake(
            "inverted",
            "True and False are swapped: True means keep.",
            lambda lengths, longest: torch.arange(longest) >= lengths[:, None],
        ),
        Mistake(
            "transposed",
            "Sequences run down: one row for each.",
            lambda lengths, longest: torch.arange(longest)[:, None] < lengths,
        ),
        Mistake(
            "no table",
            "A row of lengths meets a row of steps: make the lengths a column, `lengths[:, None]`.",
            lambda lengths, longest: torch.arange(longest) < lengths,
        ),
    ],
    (
        "Step t of a sequence of length n is real if t < n.",
        "Lengths as a column, steps as a row.",
        "return torch.arange(longest) < lengths[:, None]",
    ),
    "Padding masks for recurrent networks and attention are this line.",
    level=1,
    memory="any",
)

distances = _puzzle(
    "w01.distances",
    "Puzzle: all pairwise distances",
    6,
    [
        Case("3 and 4 points in the plane", lambda draw: {"a": draw.normal(3, 2), "b": draw.normal(4, 2)}),
        Case("five dimensions", lambda draw: {"a": draw.normal(2, 5), "b": draw.normal(3, 5)}),
        Case("not contiguous", lambda draw: {"a": draw.transposed(4, 3), "b": draw.strided(2, 3)}),
        Case("one point each, one dimension", lambda draw: {"a": draw.normal(1, 1), "b": draw.normal(2, 1)}),
    ],
    lambda a, b: torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist"),
    ("cdist", "pdist", "norm", "dist", "pairwise_distance", "vector_norm"),
    ("sum", "sqrt", "square", "pow"),
    [
        Mistake(
            "squared",
            "These are squared distances: the root is missing.",
            lambda a, b: (a[:, None] - b).square().sum(-1),
        ),
        Mistake(
            "city blocks",
            "This adds up absolute differences; Euclid squares them, adds, and takes the root.",
            lambda a, b: (a[:, None] - b).abs().sum(-1),
        ),
        Mistake(
            "transposed",
            "One row for each point of a, one column for each point of b.",
            lambda a, b: (b[:, None] - a).square().sum(-1).sqrt(),
        ),
        Mistake(
            "mean",
            "The squares are averaged over the coordinates; add them.",
            lambda a, b: (a[:, None] - b).square().mean(-1).sqrt(),
        ),
        Mistake(
            "no table",
            "Point i of a meets point i of b only: `a[:, None]` has shape (n, 1, d) and meets every point of b.",
            lambda a, b: (a - b).square().sum(-1).sqrt(),
        ),
        Mistake(
            "summed over points",
            "The sum runs over the points of b; it has to run over the coordinates, the last axis.",
            lambda a, b: (a[:, None] - b).square().sum(1).sqrt(),
        ),
    ],
    (
        "You need every difference: one axis for a, one for b, one for the coordinates.",
        "`a[:, None] - b` has shape (n, m, d). Square, sum over the last axis, root.",
        "return ((a[:, None] - b) ** 2).sum(-1).sqrt()",
    ),
    "The table of differences has n * m * d entries: for large n, torch.cdist multiplies matrices instead.",
)

mean = Implement(
    id="w01.mean",
    title="A mean over several axes",
    minutes=6,
    level=2,
    needs=("w01.shape_quiz",),
    cases=[
        Case("one axis", lambda draw: {"x": draw.normal(3, 4), "dims": (1,), "keepdim": False}),
        Case("two axes, kept", lambda draw: {"x": draw.normal(2, 3, 5), "dims": (0, 2), "keepdim": True}),
        Case(
            "counted from the end",
            lambda draw: {"x": draw.normal(4, 2, 3), "dims": (-1, -2), "keepdim": False},
        ),
        Case("not contiguous", lambda draw: {"x": draw.transposed(5, 1, 2), "dims": (0,), "keepdim": True}),
        Case("every axis", lambda draw: {"x": draw.strided(3, 2), "dims": (0, 1), "keepdim": False}),
    ],
    oracle=lambda x, dims, keepdim: torch.mean(x, dims, keepdim=keepdim),
    grads=("x",),
    rules=Rules(forbids=("mean", "nanmean", "avg_pool1d", "std_mean", "var_mean")),
    mistakes=[
        Mistake(
            "first axis counted",
            "The sum is divided by the size of one axis; there are as many terms as the product of all reduced sizes.",
            lambda x, dims, keepdim: x.sum(dims, keepdim=keepdim) / x.shape[dims[0]],
        ),
        Mistake(
            "sizes added",
            "The sizes of the reduced axes are added; multiply them.",
            lambda x, dims, keepdim: x.sum(dims, keepdim=keepdim) / sum(x.shape[d] for d in dims),
        ),
        Mistake(
            "everything counted",
            "The sum is divided by all elements of x: count only those that went into one sum.",
            lambda x, dims, keepdim: x.sum(dims, keepdim=keepdim) / x.numel(),
        ),
        Mistake(
            "keepdim ignored",
            "keepdim is ignored: pass it on to sum.",
            lambda x, dims, keepdim: torch.mean(x, dims),
        ),
        Mistake(
            "sum",
            "This is the sum; divide by how many terms went into it.",
            lambda x, dims, keepdim: x.sum(dims, keepdim=keepdim),
        ),
        Mistake(
            "always kept",
            "The axes are kept whatever keepdim says: pass it on to sum.",
            lambda x, dims, keepdim: torch.mean(x, dims, keepdim=True),
        ),
    ],
    hints=(
        "`x.sum(dims, keepdim=keepdim)` takes several axes. How many numbers went into each result?",
        "The count is the product of x.shape[d] for d in dims; that works for negative d as well.",
        "return x.sum(dims, keepdim=keepdim) / math.prod(x.shape[d] for d in dims)",
    ),
    passed="Layer norm, batch norm and group norm differ in nothing but `dims`.",
)


def _einsum(spec, a, b, sum_always=False, chosen=None):
    """`chosen` replaces the letters to be summed, for mistakes in finding them."""
    left, out = spec.split("->")
    ia, ib = left.split(",")
    letters = out + "".join(sorted(set(ia + ib) - set(out)) if chosen is None else chosen)

    def align(x, axes):
        x = x.permute([axes.index(letter) for letter in letters if letter in axes])
        return x[tuple(slice(None) if letter in axes else None for letter in letters)]

    product = align(a, ia) * align(b, ib)
    summed = tuple(range(len(out), len(letters)))
    return product.sum(summed) if summed or sum_always else product


def _pairs(spec, a, b):
    """How many products einsum makes: the product of the sizes of all letters."""
    left = spec.split("->")[0].split(",")
    return math.prod(
        ({**dict(zip(left[0], a.shape, strict=True)), **dict(zip(left[1], b.shape, strict=True))}).values()
    )


def _einsum_keeps_all(spec, a, b):
    """Forgets to sum: returns the product over all letters."""
    left, out = spec.split("->")
    return _einsum(f"{left}->{out + ''.join(sorted(set(left) - set(out) - {','}))}", a, b)


def _einsum_lists_twice(spec, a, b):
    """Lists a letter of both tensors twice."""
    left, out = spec.split("->")
    return _einsum(spec, a, b, chosen=[c for c in left.replace(",", "") if c not in out])


def _einsum_sums_common(spec, a, b):
    """Sums only what both tensors have."""
    left, out = spec.split("->")
    ia, ib = left.split(",")
    return _einsum(spec, a, b, chosen=[c for c in ia if c in ib and c not in out])


einsum = Implement(
    id="w01.einsum",
    title="Einsum for two",
    minutes=15,
    level=3,
    needs=("w01.expand", "w01.mean"),
    cases=[
        Case(
            "matrix product",
            lambda draw: {"spec": "ij,jk->ik", "a": draw.normal(2, 3), "b": draw.normal(3, 4)},
        ),
        Case("outer product", lambda draw: {"spec": "i,j->ij", "a": draw.normal(3), "b": draw.normal(5)}),
        Case(
            "transposed result",
            lambda draw: {"spec": "ij,jk->ki", "a": draw.transposed(2, 3), "b": draw.normal(3, 5)},
        ),
        Case(
            "batched",
            lambda draw: {"spec": "bij,bkj->bik", "a": draw.normal(2, 3, 4), "b": draw.strided(2, 5, 4)},
        ),
        Case("dot product", lambda draw: {"spec": "i,i->", "a": draw.normal(6), "b": draw.normal(6)}),
        Case(
            "an axis of size 1", lambda draw: {"spec": "ij,i->j", "a": draw.normal(1, 4), "b": draw.normal(1)}
        ),
        Case(
            "summed in one tensor only",
            lambda draw: {"spec": "ij,k->ik", "a": draw.normal(2, 3), "b": draw.normal(4)},
        ),
    ],
    oracle=lambda spec, a, b: torch.einsum(spec, a, b),
    grads=("a", "b"),
    rules=Rules(
        forbids=(
            "einsum",
            "matmul",
            "mm",
            "bmm",
            "mv",
            "dot",
            "inner",
            "outer",
            "tensordot",
            "kron",
            "baddbmm",
            "vdot",
        )
    ),
    mistakes=[
        Mistake(
            "sums everything",
            "With nothing to sum, `sum(())` adds up everything in torch: leave it out for an empty tuple of axes.",
            lambda spec, a, b: _einsum(spec, a, b, sum_always=True),
        ),
        Mistake(
            "never sums",
            "Letters that are not in the result have to be summed away.",
            _einsum_keeps_all,
        ),
        Mistake(
            "order of the result ignored",
            "The result has its letters in alphabetical order; the spec says in which order it wants them.",
            lambda spec, a, b: _einsum(
                f"{spec.split('->')[0]}->{''.join(sorted(spec.split('->')[1]))}", a, b
            ),
        ),
        Mistake(
            "mean for sum",
            "The products are averaged; einsum adds them.",
            lambda spec, a, b: _einsum(spec, a, b) * (_einsum(spec, a, b).numel() / _pairs(spec, a, b)),
        ),
        Mistake(
            "a letter twice",
            "A letter that both tensors have stands in your row of letters twice: list each letter once.",
            _einsum_lists_twice,
        ),
        Mistake(
            "common letters only",
            "Only letters of both tensors are summed: every letter that the result lacks is, also one that a alone has.",
            _einsum_sums_common,
        ),
    ],
    hints=(
        "Give every letter an axis of its own, in both tensors; then one product and one sum are left.",
        "Letters in order: those of the result first, then the summed ones. Permute each tensor into that order, and put None where it lacks a letter.",
        "align(x, axes): x.permute([axes.index(c) for c in letters if c in axes])[tuple(slice(None) if c in axes else None for c in letters)]",
    ),
    passed="Everything from a dot product to attention is a product over letters and a sum over some of them.",
)

mask = Implement(
    id="w01.mask",
    title="Three broadcasts: an attention mask",
    minutes=6,
    level=2,
    needs=("w01.sequence_mask",),
    cases=[
        Case(
            "two sequences, three heads",
            lambda draw: {
                "scores": draw.normal(2, 3, 4, 5),
                "keep": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], dtype=bool),
            },
        ),
        Case(
            "one head",
            lambda draw: {
                "scores": draw.normal(3, 1, 2, 4),
                "keep": np.array([[1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]], dtype=bool),
            },
        ),
        Case(
            "not contiguous",
            lambda draw: {
                "scores": draw.strided(2, 4, 5, 3),
                "keep": np.array([[1, 1, 0], [1, 0, 0]], dtype=bool),
            },
        ),
    ],
    oracle=lambda scores, keep: scores.masked_fill(~keep[:, None, None, :], -math.inf),
    grads=("scores",),
    rules=Rules(),
    mistakes=[
        Mistake(
            "inverted",
            "Keep and drop are swapped: True means that the position may be looked at.",
            lambda scores, keep: scores.masked_fill(keep[:, None, None, :], -math.inf),
        ),
        Mistake(
            "zeros",
            "Dropped scores are set to 0, and softmax gives exp(0) = 1 to them; minus infinity gives 0.",
            lambda scores, keep: scores.masked_fill(~keep[:, None, None, :], 0.0),
        ),
        Mistake(
            "queries masked",
            "The mask is on the axis of queries (rows): what may be looked at is the last axis.",
            lambda scores, keep: torch.where(
                (
                    keep[:, None, : scores.shape[2], None]
                    if keep.shape[1] >= scores.shape[2]
                    else keep[:, None, [0] * scores.shape[2], None]
                ),
                scores,
                torch.full_like(scores, -math.inf),
            ),
        ),
        Mistake(
            "large number",
            "A large negative number is not minus infinity: -1e9 shows in the result, and overflows in half precision.",
            lambda scores, keep: scores.masked_fill(~keep[:, None, None, :], -1e9),
        ),
        Mistake(
            "added",
            "-inf is added, not set: the scores come out right, but gradients still pass through the padded places.",
            lambda scores, keep: scores + torch.where(keep, 0.0, -math.inf)[:, None, None, :],
        ),
        Mistake(
            "softmax taken",
            "The softmax is taken already; return the scores, it follows later.",
            lambda scores, keep: scores.masked_fill(~keep[:, None, None, :], -math.inf).softmax(-1),
        ),
    ],
    hints=(
        "scores is (batch, head, query, key), keep is (batch, key). Which axes must be added to keep?",
        "`keep[:, None, None, :]` has shape (batch, 1, 1, key). `torch.where` or `masked_fill` puts -inf where it is False.",
        "return scores.masked_fill(~keep[:, None, None, :], -math.inf)",
    ),
    passed="Bias, normalization, mask: three layers of a Transformer are broadcasts that you can now read.",
    lint={"delegation": "masked_fill is the tool; the exercise is where the axes go"},
)


# 03 in PyTorch


def _dtype_of(make):
    """The dtype of an expression as text, or the word "error"."""

    def truth():
        i, h, f = torch.tensor([1, 2]), torch.ones(2, dtype=torch.float16), torch.ones(2)
        try:
            return str(make(i, h, f).dtype).removeprefix("torch.")
        except RuntimeError:
            return "error"

    return truth


dtypes = Predict(
    id="w01.dtypes",
    title="Which dtype comes out?",
    minutes=8,
    level=1,
    items={
        "a": Item("`i`", _dtype_of(lambda i, h, f: i)),
        "b": Item("`i / 2`", _dtype_of(lambda i, h, f: i / 2)),
        "c": Item("`i // 2`", _dtype_of(lambda i, h, f: i // 2)),
        "d": Item("`i * 2.5`", _dtype_of(lambda i, h, f: i * 2.5)),
        "e": Item("`h * f`", _dtype_of(lambda i, h, f: h * f)),
        "f": Item(
            "`f + torch.from_numpy(np.ones(2))`", _dtype_of(lambda i, h, f: f + torch.from_numpy(np.ones(2)))
        ),
        "g": Item(
            "`f + torch.tensor(1.0, dtype=torch.float64)`",
            _dtype_of(lambda i, h, f: f + torch.tensor(1.0, dtype=torch.float64)),
        ),
        "h": Item(
            "`torch.tensor([True, False]).sum()`",
            _dtype_of(lambda i, h, f: torch.tensor([True, False]).sum()),
        ),
        "i": Item("`i += 0.5`", _dtype_of(lambda i, h, f: i.add_(0.5))),
    },
    mistakes=[
        Mistake("whole numbers are floats", "a: a list of whole numbers makes int64.", {"a": "float32"}),
        Mistake("32 bits", "a: whole numbers get 64 bits, so that they can count anything.", {"a": "int32"}),
        Mistake("division stays whole", "b: `/` makes floats, whatever it divides.", {"b": "int64"}),
        Mistake(
            "division is double",
            "b: floats made from whole numbers get the default dtype, float32. float64 is NumPy's habit.",
            {"b": "float64"},
        ),
        Mistake("floor makes floats", "c: `//` rounds down and stays in the family.", {"c": "float32"}),
        Mistake(
            "tensor wins",
            "d: floats are the higher family, so even a plain 2.5 makes the result a float.",
            {"d": "int64"},
        ),
        Mistake(
            "Python's float",
            "d: a plain number says which family, never how wide: you get the default float32.",
            {"d": "float64"},
        ),
        Mistake("narrow wins", "e: both have axes, so the wider dtype wins.", {"e": "float16"}),
        Mistake(
            "torch's default wins",
            "f: NumPy makes float64, and both tensors have axes: the wider wins.",
            {"f": "float32"},
        ),
        Mistake(
            "number widens",
            "g: a tensor without axes counts as a number: within its family it does not widen a vector.",
            {"g": "float64"},
        ),
        Mistake("truth values stay", "h: a sum of truth values counts them, in int64.", {"h": "bool"}),
        Mistake(
            "rounded in place",
            "i: torch does not round in silence here. The result would be a float, and i cannot hold one.",
            {"i": "int64"},
        ),
        Mistake(
            "grows in place",
            "i: `+=` writes into the memory of i, which holds int64; `i = i + 0.5` would make a new tensor.",
            {"i": "float32"},
        ),
        Mistake("dtypes clash", "e: two dtypes never clash, torch converts; two devices do.", {"e": "error"}),
    ],
    hints=(
        "For each: which family is the result in, bool, whole numbers or floats?",
        "Then the width: tensors with axes decide; a number or a tensor of shape () decides only if it brings a higher family.",
        "Four are float32 (b, d, e, g), three int64 (a, c, h), one float64, one an error.",
    ),
    passed="Numbers do not widen tensors, so a model in float16 stays in float16 when you write `x * 0.5`.",
)


def _in_storage_order(x):
    """Reads the storage as it lies, whatever the strides say."""
    row = torch.as_strided(x, (x.numel(),), (1,))
    return row, row.reshape(x.shape)


flat = Implement(
    id="w01.flat",
    title="There and back, from memory",
    minutes=5,
    level=1,
    needs=("w01.reshape",),
    cases=[
        Case("10 by 5", lambda draw: {"x": draw.normal(10, 5)}),
        Case("2 by 3", lambda draw: {"x": draw.normal(2, 3)}),
        Case("transposed", lambda draw: {"x": draw.transposed(4, 3)}),
        Case("one column", lambda draw: {"x": draw.normal(6, 1)}),
        Case("no rows", lambda draw: {"x": draw.normal(0, 4)}),
    ],
    oracle=lambda x: (torch.flatten(x), torch.flatten(x).reshape(x.shape)),
    grads=("x",),
    memory="any",
    mistakes=[
        Mistake(
            "view",
            "`view` refuses a transposed matrix, because its rows do not follow each other in storage. `reshape` copies there.",
            lambda x: (x.view(-1), x.view(-1).view(x.shape)),
        ),
        Mistake(
            "shape turned",
            "The row is right; on the way back rows and columns have changed places: give it x.shape.",
            lambda x: (x.reshape(-1), x.reshape(-1).reshape(x.shape[::-1])),
        ),
        Mistake(
            "column by column",
            "The row is taken column by column. Row by row is the order in which `reshape` reads.",
            lambda x: (x.T.reshape(-1), x.T.reshape(-1).reshape(x.shape)),
        ),
        Mistake(
            "sizes written down",
            "The sizes 50, 10 and 5 are written into the code: ask x for its shape, and let -1 stand for the rest.",
            lambda x: (x.reshape(50), x.reshape(50).reshape(10, 5)),
        ),
        Mistake(
            "still two axes",
            "`reshape(1, -1)` has two axes, one of size 1. A row of shape (n,) has one: `reshape(-1)`.",
            lambda x: (x.reshape(1, -1), x.reshape(1, -1).reshape(x.shape)),
        ),
        Mistake(
            "storage order",
            "The numbers are read as they lie in storage; a transposed matrix has another order there.",
            _in_storage_order,
        ),
        Mistake(
            "-1 on the way back",
            "With no rows, -1 could stand for any number of columns, and torch refuses to guess: give it x.shape.",
            lambda x: (x.reshape(-1), x.reshape(-1).reshape(x.shape[0], -1)),
        ),
        Mistake(
            "row alone",
            "Only the row comes back: return two tensors, the row and the matrix made from it.",
            lambda x: x.reshape(-1),
        ),
    ],
    hints=(
        "It is one method, called twice.",
        "`x.reshape(-1)` flattens; `.reshape(x.shape)` brings the old shape back.",
        "row = x.reshape(-1); return row, row.reshape(x.shape)",
    ),
    passed="`flatten(1)` does the same from axis 1 on and keeps the batch: you will see it before every linear layer.",
    lint={"delegation": "torch's own reshape is the thing to know by heart"},
)

pick = Implement(
    id="w01.pick",
    title="Pick the score of the label",
    minutes=8,
    level=2,
    needs=("w01.dtypes",),
    cases=[
        Case(
            "four examples, three classes",
            lambda draw: {"scores": draw.normal(4, 3), "labels": np.array([2, 0, 1, 0])},
        ),
        Case(
            "three examples, five classes",
            lambda draw: {"scores": draw.normal(3, 5), "labels": np.array([1, 2, 0])},
        ),
        Case(
            "not contiguous",
            lambda draw: {
                "scores": draw.transposed(5, 2),
                "labels": np.array([1, 9, 0, 9, 0, 9, 1, 9, 1, 9])[::2],
            },
        ),
        Case("one example", lambda draw: {"scores": draw.normal(1, 6), "labels": np.array([3])}),
        Case(
            "a class that is ruled out",
            lambda draw: {
                "scores": np.array([[0.5, -np.inf, 2.0], [-np.inf, 1.5, 0.25]], dtype=np.float32),
                "labels": np.array([2, 1]),
            },
            extreme=True,
        ),
    ],
    oracle=lambda scores, labels: torch.gather(scores, 1, labels[:, None])[:, 0],
    grads=("scores",),
    rules=Rules(loops=False),
    mistakes=[
        Mistake(
            "whole columns",
            "`scores[:, labels]` takes a whole column for each label. Pair each label with its row number.",
            lambda scores, labels: scores[:, labels],
        ),
        Mistake(
            "whole rows",
            "`scores[labels]` takes whole rows: the label has to be the second index.",
            lambda scores, labels: scores[labels],
        ),
        Mistake(
            "axis left",
            "The result of `gather` has as many axes as `scores`; the last one has size 1 and has to go.",
            lambda scores, labels: scores.gather(1, labels[:, None]),
        ),
        Mistake(
            "the largest",
            "These are the largest scores, whatever the labels say.",
            lambda scores, labels: scores.max(1).values,
        ),
        Mistake(
            "index and row swapped",
            "The label is used as the row and the example as the column.",
            lambda scores, labels: scores[labels, torch.arange(len(labels))],
        ),
        Mistake(
            "gradient lost",
            "The values are right, but `.detach()`, `.data` or NumPy cut them off: no gradient could reach the scores.",
            lambda scores, labels: scores.detach()[torch.arange(len(labels)), labels],
        ),
        Mistake(
            "one-hot product",
            "Multiplying by a one-hot row works until a score is infinite: 0 times infinity is NaN. Pick, do not multiply.",
            lambda scores, labels: (scores * F.one_hot(labels, scores.shape[1])).sum(1),
        ),
        Mistake(
            "squeezed too far",
            "`squeeze()` removes every axis of size 1, with one example the axis of examples too: `squeeze(1)` or `[:, 0]`.",
            lambda scores, labels: scores.gather(1, labels[:, None]).squeeze(),
        ),
    ],
    hints=(
        "You need one pair (row, column) for each example. The columns are the labels. What are the rows?",
        "`scores[torch.arange(n), labels]`, or gather with a column of labels, `labels[:, None]`.",
        "return scores.gather(1, labels[:, None]).squeeze(1)",
    ),
    passed="Minus the mean of these, taken from log-probabilities, is cross-entropy.",
    lint={"delegation": "gather is the tool that this exercise is about"},
)


def _confusion(truth, guess, classes):
    return torch.bincount(truth * classes + guess, minlength=classes**2).reshape(classes, classes)


def _confusion_once(truth, guess, classes):
    counts = torch.zeros(classes, classes, dtype=torch.long)
    counts[truth, guess] += 1
    return counts


confusion = Implement(
    id="w01.confusion",
    title="Count the confusions",
    minutes=10,
    level=2,
    needs=("w01.pick",),
    cases=[
        Case(
            "a pair that occurs three times",
            lambda draw: {
                "truth": np.array([0, 1, 1, 2, 1, 3]),
                "guess": np.array([0, 2, 2, 0, 2, 3]),
                "classes": 4,
            },
        ),
        Case(
            "a class that never occurs",
            lambda draw: {"truth": draw.integers(0, 3, 9), "guess": draw.integers(0, 2, 9), "classes": 5},
        ),
        Case(
            "not contiguous",
            lambda draw: {
                "truth": draw.integers(0, 3, 16)[::2],
                "guess": draw.integers(0, 3, 16)[::2],
                "classes": 3,
            },
        ),
        Case("one example", lambda draw: {"truth": np.array([1]), "guess": np.array([0]), "classes": 2}),
        Case(
            "no examples",
            lambda draw: {"truth": draw.integers(0, 2, 0), "guess": draw.integers(0, 2, 0), "classes": 3},
            extreme=True,
        ),
    ],
    oracle=_confusion,
    rules=Rules(loops=False),
    mistakes=[
        Mistake(
            "repeats lost",
            "A pair that occurs three times is counted once: `+=`, or `index_put_` without `accumulate=True`, writes the same 1 again.",
            _confusion_once,
        ),
        Mistake(
            "transposed",
            "Rows and columns are swapped: the truth is the row, the guess the column.",
            lambda truth, guess, classes: _confusion(guess, truth, classes),
        ),
        Mistake(
            "floats",
            "The counts are floats, because `torch.zeros` makes float32 unless told otherwise: `dtype=torch.long`.",
            lambda truth, guess, classes: _confusion(truth, guess, classes).float(),
        ),
        Mistake(
            "hits only",
            "Only right guesses are counted; the confusions are the rest of the table.",
            lambda truth, guess, classes: _confusion(truth[truth == guess], guess[truth == guess], classes),
        ),
        Mistake(
            "shares",
            "These are shares of all examples; counts are wanted.",
            lambda truth, guess, classes: _confusion(truth, guess, classes) / len(truth),
        ),
        Mistake(
            "one axis",
            "The counts are right and in one long row: give them two axes.",
            lambda truth, guess, classes: _confusion(truth, guess, classes).reshape(-1),
        ),
        Mistake(
            "a copy counted",
            "The counts are all 0: `index_put` without `_`, and `counts[truth][guess]`, write to a copy that is thrown away.",
            lambda truth, guess, classes: torch.zeros(classes, classes, dtype=torch.long),
        ),
    ],
    hints=(
        "Start from zeros of shape (classes, classes) and add 1 at the place (truth, guess) of each example.",
        "`counts[truth, guess] += 1` forgets repeats; `index_put_` with `accumulate=True` adds them up.",
        "counts.index_put_((truth, guess), torch.tensor(1), accumulate=True)",
    ),
    passed="The gradient of an embedding layer has the same trap: a word that occurs twice must be added twice.",
    lint={"delegation": "torch has no confusion matrix; each of its tools for counting is a good answer"},
)


# 04 clinic


def _standardize_in_place(x):
    z = x[:]
    z -= z.mean(dim=0)
    z /= z.std(dim=0)
    return z


alias = Fix(
    id="w01.alias",
    title="The data that changed overnight",
    minutes=8,
    level=2,
    needs=("w01.share",),
    cases=[
        Case("5 by 2", lambda draw: {"x": draw.normal(5, 2)}),
        Case("3 by 4", lambda draw: {"x": draw.normal(3, 4)}),
        Case("transposed", lambda draw: {"x": draw.transposed(4, 3)}),
        Case("one column", lambda draw: {"x": draw.normal(6, 1)}),
        Case("large values", lambda draw: {"x": 1e4 * draw.normal(7, 2)}, extreme=True),
    ],
    oracle=lambda x: (x - x.mean(dim=0)) / x.std(dim=0),
    broken=_standardize_in_place,
    fault="x[:] is a view",
    menu={
        "x[:] is a view": "",
        "wrong axis": "dim=0 runs down each column, and that is what is asked for: the result is right.",
        "mean after std": "The order does not matter: shifting a column leaves its deviation as it is.",
    },
    mistakes=[
        Mistake(
            "contiguous for a copy",
            "`x.contiguous()` returns x itself if x is contiguous already, so the writes still reach it. `x.clone()` copies.",
            lambda x: _standardize_in_place(x.contiguous()),
        ),
        Mistake(
            "cloned too late",
            "The result is a copy, but x was written to before it was made: clone first, then write.",
            lambda x: _standardize_in_place(x).clone(),
        ),
        Mistake(
            "divided by n",
            "The deviation is now the one that divides by n; torch's `std` divides by n - 1 unless told otherwise.",
            lambda x: (x - x.mean(dim=0)) / x.std(dim=0, correction=0),
        ),
        Mistake(
            "not divided",
            "The mean is gone; the division by the deviation is missing now.",
            lambda x: x - x.mean(dim=0),
        ),
        Mistake(
            "one deviation for all",
            "All columns are divided by the same number: `std` needs dim=0 as well.",
            lambda x: (x - x.mean(dim=0)) / x.std(),
        ),
        Mistake(
            "one mean for all",
            "Mean and deviation are those of the whole table: each column has its own, dim=0.",
            lambda x: (x - x.mean()) / x.std(),
        ),
    ],
    hints=(
        "Which line makes the copy that the comment promises? Ask it: `z.data_ptr() == x.data_ptr()`.",
        "`x[:]` is a view, so `z -= ...` writes to x. Either copy with `x.clone()`, or write `z = x - ...` without in-place operators.",
        'fault = "x[:] is a view"; z = x - x.mean(dim=0); return z / z.std(dim=0)',
    ),
    passed="A function that writes to its argument announces it in torch with a name that ends in `_`, such as `x.add_`.",
    lint={"delegation": "torch has no function for it; any arithmetic that leaves x alone will do"},
)


def _every_pair(prediction, target):
    return ((prediction - target) ** 2).mean()


silent_loss = Fix(
    id="w01.silent_loss",
    title="The loss that loves the mean",
    minutes=8,
    level=2,
    needs=("w01.broadcast_shape",),
    cases=[
        Case("five examples", lambda draw: {"prediction": draw.normal(5, 1), "target": draw.normal(5)}),
        Case("two examples", lambda draw: {"prediction": draw.normal(2, 1), "target": draw.normal(2)}),
        Case("not contiguous", lambda draw: {"prediction": draw.strided(4, 1), "target": draw.strided(4)}),
        Case(
            "one example",
            lambda draw: {"prediction": draw.normal(1, 1), "target": draw.normal(1)},
            extreme=True,
        ),
    ],
    oracle=lambda prediction, target: F.mse_loss(prediction[:, 0], target),
    grads=("prediction", "target"),
    rules=Rules(forbids=("mse_loss", "MSELoss")),
    broken=_every_pair,
    fault="(n, 1) against (n,)",
    menu={
        "(n, 1) against (n,)": "",
        "no square root": "The mean squared error has no root; and with one, the perfect model would still lose.",
        "mean for sum": "A mean is what the name says. A sum would be as wrong: what is it taken over?",
    },
    mistakes=[
        Mistake(
            "sum",
            "The squares are added up now; the mean of them is wanted.",
            lambda prediction, target: ((prediction[:, 0] - target) ** 2).sum(),
        ),
        Mistake(
            "root",
            "A root was taken: that is the root mean squared error. No root is asked for.",
            lambda prediction, target: ((prediction[:, 0] - target) ** 2).mean().sqrt(),
        ),
        Mistake(
            "not reduced",
            "The squares are right, one per example. Their mean is wanted, one number.",
            lambda prediction, target: (prediction[:, 0] - target) ** 2,
        ),
        Mistake(
            "averaged too early",
            "The differences are averaged before they are squared, so that errors of opposite sign cancel.",
            lambda prediction, target: (prediction[:, 0] - target).mean() ** 2,
        ),
        Mistake(
            "absolute",
            "These are absolute differences; square them.",
            lambda prediction, target: (prediction[:, 0] - target).abs().mean(),
        ),
        Mistake(
            "table divided by n",
            "The table of all pairs is still there, only its sum is divided by n. Bring both to the same shape first.",
            lambda prediction, target: ((prediction - target) ** 2).sum() / len(target),
        ),
        Mistake(
            "first prediction only",
            "`prediction[0]` is the first prediction, compared with every target; `prediction[:, 0]` is the column.",
            lambda prediction, target: ((prediction[0] - target) ** 2).mean(),
        ),
    ],
    hints=(
        "Print the shape of `prediction - target`.",
        "Bring both to (n,): `prediction.squeeze(1)` or `prediction[:, 0]`. Or both to (n, 1): `target[:, None]`.",
        'fault = "(n, 1) against (n,)"; return ((prediction.squeeze(1) - target) ** 2).mean()',
    ),
    passed="Write `squeeze(1)`, not `squeeze()`: without a number it removes every axis of size 1, the batch of one included.",
)

_GIGABYTE = 10**9


def _accept_table(n):
    if n != int(n) or n < 1:
        return "a batch has a whole number of examples, at least one."
    if 4 * n * n <= _GIGABYTE:
        return f"for n = {int(n):,} the table takes {4 * int(n) ** 2:,} bytes: it still fits."
    if 4 * (n - 1) ** 2 > _GIGABYTE:
        return f"for n = {int(n):,} it is over, but already n = {int(n) - 1:,} is."
    return None


table = Measure(
    id="w01.table",
    title="What the table costs",
    minutes=6,
    level=2,
    needs=("w01.silent_loss", "w01.expand"),
    accept=_accept_table,
    mistakes=[
        Mistake(
            "last that fits", "That is the largest n that still fits; the next one is asked for.", 15_811
        ),
        Mistake(
            "elements",
            "That many elements are a gigabyte only if each takes one byte; a float32 takes 4.",
            31_623,
            when=lambda n: abs(n - 31_623) <= 1,
        ),
        Mistake(
            "eight bytes",
            "That is the answer for float64; torch's default float32 takes 4 bytes.",
            11_181,
            when=lambda n: abs(n - 11_181) <= 1,
        ),
        Mistake(
            "gibibyte",
            "That is the answer for 2**30 bytes; a gigabyte is 10**9 here.",
            16_385,
            when=lambda n: 16_384 <= n <= 16_385,
        ),
        Mistake(
            "a row, not a table",
            "That is a row of n numbers. (n, 1) against (n,) makes n times n.",
            250_000_001,
            when=lambda n: abs(n - 250_000_000) <= 1,
        ),
    ],
    hints=(
        "Try `table_bytes(1000)` and `table_bytes(2000)`. How does the size grow?",
        "It is 4 n² bytes. Look for the first n where that exceeds 10**9.",
        "The square root of 10**9 / 4 is 15811.4.",
    ),
    passed="Costs that grow with the square of something are where memory goes: week 7 meets this table again as attention.",
)


def _truncated_shares(counts):
    result = torch.zeros_like(counts)
    for row in range(len(counts)):
        result[row] = counts[row] / counts[row].sum()
    return result


shares = Fix(
    id="w01.shares",
    title="Everybody has nothing",
    minutes=6,
    level=2,
    needs=("w01.dtypes",),
    cases=[
        Case("2 by 3", lambda draw: {"counts": np.array([[1, 3, 4], [2, 2, 1]])}),
        Case("4 by 5", lambda draw: {"counts": draw.integers(0, 9, 4, 5) + 1}),
        Case("transposed", lambda draw: {"counts": draw.integers(1, 20, 2, 3).T}),
        Case("one row", lambda draw: {"counts": np.array([[7, 2, 6, 5]])}),
        Case("all in one place", lambda draw: {"counts": np.array([[0, 5, 0], [3, 0, 0]])}, extreme=True),
    ],
    oracle=lambda counts: counts / counts.sum(1, keepdim=True),
    broken=_truncated_shares,
    fault="zeros_like makes int64",
    menu={
        "zeros_like makes int64": "",
        "/ divides whole numbers": "`/` makes floats, also from whole numbers: print `counts[0] / counts[0].sum()`. It is lost later.",
        "sums the wrong axis": "`counts[row].sum()` adds up one row, which is what is asked for.",
    },
    mistakes=[
        Mistake(
            "converted too late",
            "The result is made of floats now, but they were cut off before: convert first, then divide.",
            lambda counts: (counts // counts.sum(1, keepdim=True)).float(),
        ),
        Mistake(
            "float64",
            "The shares are float64: dividing whole numbers gives float32, and so should this.",
            lambda counts: counts.double() / counts.sum(1, keepdim=True),
        ),
        Mistake(
            "share of all",
            "Each count is divided by the sum of the whole table; divide by the sum of its row.",
            lambda counts: counts / counts.sum(),
        ),
        Mistake(
            "share of the column",
            "Each count is divided by the sum of its column.",
            lambda counts: counts / counts.sum(0),
        ),
        Mistake(
            "percent",
            "These are percent; shares add up to 1.",
            lambda counts: 100 * counts / counts.sum(1, keepdim=True),
        ),
        Mistake(
            "stored as float64",
            "The place they are written to is float64; dividing whole numbers gives float32, and so should this.",
            lambda counts: (counts / counts.sum(1, keepdim=True)).double(),
        ),
    ],
    hints=(
        "Print `counts[0] / counts[0].sum()`, then look where it is put.",
        "`torch.zeros_like(counts)` has the dtype of counts, int64; `result[row] = ...` cuts the shares off to fit.",
        'fault = "zeros_like makes int64"; return counts / counts.sum(dim=1, keepdim=True)',
    ),
    passed="`torch.zeros_like(counts, dtype=torch.float32)` keeps the shape and changes the dtype, where you do need a place to write to.",
    lint={"delegation": "one division is the answer; the exercise is to see where the floats got lost"},
)


def _lengths(x):
    return x.float().square().sum(1, keepdim=True).sqrt()


def _normalize(x):
    """Divides by the length where there is one."""
    lengths = _lengths(x)
    return x / torch.where(lengths == 0, 1.0, lengths)


def _normalize_no_zero(x):
    return x / _lengths(x)


def _normalize_in_place(x):
    if not x.is_floating_point():
        return _normalize(x)
    x /= _lengths(x).clamp(min=1e-12)
    return x


def _normalize_like_input(x):
    result = torch.zeros_like(x)
    result[:] = _normalize(x)
    return result


def _normalize_tries_first(x):
    """Adds the axis only when torch complains, and on a square matrix it does not."""
    lengths = _lengths(x).squeeze(1)
    lengths = torch.where(lengths == 0, 1.0, lengths)
    try:
        return x / lengths
    except RuntimeError:
        return x / lengths[:, None]


def _normalize_columns(x):
    return _normalize(x.T).T


def _normalize_whole(x):
    return x / x.float().norm().clamp(min=1e-12)


def _normalize_without_sign(x):
    return _normalize(x).abs()


def _normalize_only_long_rows(x):
    return x / _lengths(x).clamp(min=1.0)


def _check_lengths(normalize_rows):
    result = normalize_rows(torch.tensor([[3.0, 4.0, 0.0], [1.0, 2.0, 2.0]]))
    assert torch.allclose(result.norm(dim=1), torch.ones(2))


def _check_one_row(normalize_rows):
    assert torch.allclose(normalize_rows(torch.tensor([[3.0, 4.0]])), torch.tensor([[0.6, 0.8]]))


def _check_shape(normalize_rows):
    x = torch.tensor([[3.0, 4.0, 12.0], [1.0, 2.0, 2.0]])
    assert normalize_rows(x).shape == x.shape


def _check_division(normalize_rows):
    x = torch.tensor([[3.0, -4.0], [0.0, 0.5]])
    assert torch.allclose(normalize_rows(x), torch.tensor([[0.6, -0.8], [0.0, 1.0]]))


def _check_zero_row_is_one(normalize_rows):
    x = torch.tensor([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0]])
    assert torch.allclose(normalize_rows(x).norm(dim=1), torch.ones(2))


test_normalize = WriteTest(
    id="w01.test_normalize",
    title="Write the test",
    minutes=12,
    level=3,
    needs=("w01.alias", "w01.silent_loss", "w01.shares"),
    good=[_normalize, lambda x: F.normalize(x if x.is_floating_point() else x.float(), dim=1)],
    bugs={
        "columns": ("it divides each column by its length.", _normalize_columns),
        "whole": ("it divides everything by one length, that of the whole matrix.", _normalize_whole),
        "square": (
            "on a square matrix it forgets `keepdim`; other shapes come out right.",
            _normalize_tries_first,
        ),
        "sign": ("it loses the sign of negative numbers.", _normalize_without_sign),
        "short": ("rows shorter than 1 stay as they are.", _normalize_only_long_rows),
        "zero": ("a row of zeros becomes NaN.", _normalize_no_zero),
        "in place": ("it changes its input.", _normalize_in_place),
        "whole numbers": ("whole numbers come out as whole numbers, cut off to 0.", _normalize_like_input),
    },
    mistakes=[
        Mistake(
            "values not compared",
            "Nothing fails where the values are wrong: compare the result with numbers you worked out, in an `assert`.",
            _check_shape,
        ),
        Mistake(
            "only the lengths",
            "The test looks at the lengths of the rows. Many wrong rows have length 1: compare the values with ones you worked out.",
            _check_lengths,
        ),
        Mistake(
            "one row",
            "With a single row, one length for the whole matrix and one for each row are the same. Use several rows.",
            _check_one_row,
        ),
        Mistake(
            "nothing accepted",
            "The test fails for every implementation: look at the line below. A row of zeros, for one, stays zeros.",
            _check_zero_row_is_one,
        ),
        Mistake(
            "division only",
            "The division is tested well. Not tested: a row of zeros, whole numbers, and whether x is left as it was.",
            _check_division,
        ),
    ],
    hints=(
        "Start with a matrix of two rows whose lengths you know, such as [3, -4] and [0, 0.5], and compare the values.",
        "Six inputs to think of: square, not square, negative, shorter than 1, zeros, whole numbers. And a clone of x to compare x with.",
        "before = x.clone(); y = normalize_rows(x); assert torch.equal(x, before); assert torch.allclose(y, ...)",
    ),
    passed="Each input of your test is there because of a bug it can see. That is what test data is for.",
)
