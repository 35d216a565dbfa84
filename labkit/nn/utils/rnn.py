"""Batches of sequences of different lengths: padded, or packed.

A packed sequence holds the steps of all sequences without padding, in time order: first the step 0 of every
sequence (longest sequence first), then step 1 of those that have one, and so on.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import labkit
from labkit.tensor import Tensor, tensor


class PackedSequence(NamedTuple):
    """`data` (total steps, ...), how many sequences have a step t, and the order by length if not sorted."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def lengths(self) -> list[int]:
        """The length of each sequence, longest first."""
        sizes = np.asarray(self.batch_sizes.tolist())
        return [int((sizes > n).sum()) for n in range(sizes[0])]


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Leave out the padding of (T, N, ...), or of (N, T, ...) with batch_first.

    The sequences must be sorted by length, longest first, unless enforce_sorted=False sorts them here.
    """
    sizes = [int(n) for n in (lengths.tolist() if hasattr(lengths, "tolist") else lengths)]
    if batch_first:
        input = input.transpose(0, 1)
    if len(sizes) != input.shape[1]:
        raise ValueError(f"got {len(sizes)} lengths for a batch of {input.shape[1]} sequences")
    if min(sizes) <= 0 or max(sizes) > input.shape[0]:
        raise ValueError(f"lengths should be between 1 and the padded length {input.shape[0]}, got {sizes}")
    order = np.argsort([-n for n in sizes], kind="stable")
    if enforce_sorted and sorted(sizes, reverse=True) != sizes:
        raise RuntimeError(f"lengths {sizes} are not sorted, longest first: pass enforce_sorted=False")
    steps, rows = _order([sizes[i] for i in order])
    data = input[tensor(steps), tensor(order[rows])]
    batch_sizes = tensor(np.bincount(steps))
    if enforce_sorted:
        return PackedSequence(data, batch_sizes)
    places = (tensor(i, device=input.device) for i in (order, np.argsort(order)))
    return PackedSequence(data, batch_sizes, *places)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch (T, N, ...) and the lengths (N,), in the order before packing."""
    lengths = sequence.lengths()
    longest = lengths[0] if total_length is None else total_length
    if longest < lengths[0]:
        raise ValueError(
            f"total_length={total_length} is shorter than the longest sequence, {lengths[0]} steps"
        )
    steps, rows = _order(lengths)
    where = np.full((longest, len(lengths)), -1)  # for each step and sequence, its row in data
    where[steps, rows] = np.arange(len(steps))
    if sequence.unsorted_indices is not None:
        unsorted = sequence.unsorted_indices.numpy(force=True)
        where, lengths = where[:, unsorted], [lengths[i] for i in unsorted]
    padded = sequence.data[tensor(where)]
    missing = tensor(where < 0, device=padded.device).reshape(*where.shape, *[1] * (padded.ndim - 2))
    padded = padded.masked_fill(missing, padding_value)
    return padded.transpose(0, 1) if batch_first else padded, tensor(lengths)


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (length, ...) as one batch (T, N, ...), filled up with padding_value."""
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side should be 'left' or 'right', got {padding_side!r}")
    longest = max(s.shape[0] for s in sequences)
    rows = []
    for s in sequences:
        rest = s.new_full((longest - s.shape[0], *s.shape[1:]), padding_value)
        rows.append(labkit.cat([s, rest] if padding_side == "right" else [rest, s]))
    return labkit.stack(rows, 0 if batch_first else 1)


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, ...) that are not padded yet."""
    return pack_padded_sequence(
        pad_sequence(sequences), [s.shape[0] for s in sequences], enforce_sorted=enforce_sorted
    )


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each in its own length."""
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [batch[i, :n] for i, n in enumerate(lengths.tolist())]


def _order(lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Step and sequence of every packed row, for lengths that fall: step by step, longest sequence first."""
    present = np.arange(lengths[0])[:, None] < np.asarray(lengths)
    steps, rows = np.nonzero(present)
    return steps, rows
