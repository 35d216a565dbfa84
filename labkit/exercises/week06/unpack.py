"""Bring packed outputs back to a padded batch in its own order."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week06.shared import PACKING
from labkit.lazy import torch


def _unpack_inputs(lengths, order, size, make="normal"):
    """Data of sequences sorted by falling length; `order` says where each of them stood."""

    def made(draw):
        sizes = np.array([sum(n > t for n in lengths) for t in range(max(lengths))])
        return {
            "data": getattr(draw, make)(sum(lengths), size),
            "batch_sizes": sizes,
            "unsorted_indices": np.array(order),
        }

    return made


def _unpacked(data, batch_sizes, unsorted_indices):
    inverse = torch.argsort(unsorted_indices)
    pack = torch.nn.utils.rnn.PackedSequence(data, batch_sizes, inverse, unsorted_indices)
    return torch.nn.utils.rnn.pad_packed_sequence(pack)


def _unpack(
    data, batch_sizes, order, put=None, way=lambda order: order, lengths_too=True, front=False, by_row=False
):
    """The answer, with one thing changed."""
    steps, count = len(batch_sizes), int(batch_sizes[0])
    real = torch.arange(count) < batch_sizes[:, None]
    lengths = real.sum(0)
    x = data.new_zeros(steps, count, data.shape[1])
    if by_row:
        x.transpose(0, 1)[real.T] = data
    else:
        x[real] = data
    if front:
        x = torch.stack([torch.roll(x[:, n], steps - int(lengths[n]), 0) for n in range(count)], 1)
    if put == "repeat":
        x = torch.stack([x[torch.arange(steps).clamp(max=int(lengths[n]) - 1), n] for n in range(count)], 1)
    order = way(order)
    return x[:, order], lengths[order] if lengths_too else lengths


exercise = Implement(
    title="And unpack",
    minutes=10,
    needs=("w06.pack",),
    dtype="float64",
    cases=[
        Case("three sequences", _unpack_inputs([5, 3, 2], [2, 0, 1], 4)),
        Case("four sequences", _unpack_inputs([6, 4, 3, 1], [1, 3, 0, 2], 5)),
        Case("not contiguous", _unpack_inputs([5, 4, 2, 1], [3, 0, 1, 2], 3, "transposed")),
        Case("one number per step", _unpack_inputs([4, 3, 1], [1, 2, 0], 1)),
        Case("one sequence", _unpack_inputs([3], [0], 2), extreme=True),
    ],
    oracle=_unpacked,
    grads=("data",),
    reference="pad_packed_sequence",
    delegate=_unpacked,
    rules=Rules(forbids=PACKING),
    mistakes=[
        Mistake(
            "left sorted",
            "The sequences still stand longest first. Bring them back: x[:, unsorted_indices], and the lengths too.",
            vary(_unpack, way=lambda order: torch.arange(len(order))),
        ),
        Mistake(
            "order inverted",
            "The order was reversed once too often: unsorted_indices is already the way back, index with it as it is.",
            vary(_unpack, way=lambda order: torch.argsort(order)),
        ),
        Mistake(
            "lengths left sorted",
            "The sequences are back in their order, their lengths are not.",
            vary(_unpack, lengths_too=False),
        ),
        Mistake(
            "sequence after sequence",
            "The data is taken as one sequence after the other. It is step after step.",
            vary(_unpack, by_row=True),
        ),
        Mistake(
            "padded in front",
            "The padding stands in front; every sequence begins at step 0.",
            vary(_unpack, front=True),
        ),
        Mistake(
            "last step repeated",
            "After its end a sequence repeats its last step. The padding is zeros.",
            vary(_unpack, put="repeat"),
        ),
    ],
    hints=(
        "T = len(batch_sizes), N = batch_sizes[0]. At step t the first batch_sizes[t] columns are real.",
        "real = torch.arange(N) < batch_sizes[:, None] is (T, N). x = data.new_zeros(T, N, size); x[real] = data.",
        "return x[:, unsorted_indices], real.sum(0)[unsorted_indices]",
    ),
    passed="Pack, run, unpack: padding never reaches the network, and nobody outside notices the sorting.",
)
