"""The index of a place in storage, from the shape."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week01.shared import row_major
from labkit.lazy import torch


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
    for stride in row_major(shape):
        found.append(position / stride)
        position %= stride
    return tuple(found)


def _index_by_sizes(position, shape):
    found = []
    for size in shape:
        found.append(position // size)
        position %= size
    return tuple(found)


exercise = Implement(
    title="From position back to index",
    minutes=8,
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
            lambda position, shape: tuple(position // stride for stride in row_major(shape)),
        ),
        Mistake(
            "sizes for strides",
            "The position is divided by the sizes; one step along an axis moves by its stride, so divide by that.",
            _index_by_sizes,
        ),
        Mistake(
            "remainders only",
            "These are the remainders: the index is how often the stride fits, `//`; what is left goes to the next axis.",
            lambda position, shape: tuple(position % stride for stride in row_major(shape)),
        ),
    ],
    hints=(
        "How many whole rows fit into the position, and what is left over?",
        "Divide by the first stride: the quotient is the first index, go on with the remainder. `divmod` gives both.",
        "for s in strides(shape): i, position = divmod(position, s); collect i",
    ),
    passed="Position to index and back is what a CUDA thread does with its number in week 8.",
)
