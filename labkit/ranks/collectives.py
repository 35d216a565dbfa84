"""What a collective does once every rank has called it, and what it costs.

The cost is that of the usual algorithm: a ring for all_reduce, reduce_scatter and all_gather, a tree for
broadcast, rounds of doubling distance for barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.ranks.arrays import bytes_of, copied, fill, reduced
from labkit.ranks.calls import Call


@dataclass(frozen=True)
class Cost:
    """(messages, bytes) that one rank sends and receives, and those that follow one another in time."""

    sent: tuple[int, int]
    received: tuple[int, int]
    steps: tuple[int, int]


def perform(calls: Sequence[Call]) -> None:
    """Do the collective: `calls` holds one call of each rank, in order of rank."""
    name, arrays = calls[0].name, [call.array for call in calls]
    if name == "all_reduce":
        total = reduced(arrays, calls[0].op)
        for array in arrays:
            fill(array, total)
    elif name == "broadcast":
        value = copied(arrays[calls[0].peer or 0])
        for array in arrays:
            fill(array, value)
    elif name == "all_gather":
        values = [copied(array) for array in arrays]
        for call in calls:
            for place, value in zip(call.lists, values, strict=True):
                fill(place, value)
    elif name == "reduce_scatter":
        totals = [reduced([call.lists[rank] for call in calls], calls[0].op) for rank in range(len(calls))]
        for call, total in zip(calls, totals, strict=True):
            fill(call.array, total)


def cost(call: Call, n: int) -> Cost:
    """What a collective costs the rank that called it, among n."""
    if call.name == "broadcast":
        return _tree((call.rank - (call.peer or 0)) % n, call.bytes, n)
    if call.name == "barrier":
        rounds = (n - 1).bit_length()
        return Cost((rounds, 0), (rounds, 0), (rounds, 0))
    steps, size = n - 1, call.bytes
    if call.name == "all_reduce":
        steps, size = 2 * (n - 1), _chunk(call.array, n)
    ring = (steps, steps * size)
    return Cost(ring, ring, ring)


def _chunk(array: Any, n: int) -> int:
    """The bytes of the largest of n pieces."""
    elements = 1
    for size in array.shape:
        elements *= size
    return -(-elements // n) * (bytes_of(array) // max(elements, 1))


def _tree(place: int, size: int, n: int) -> Cost:
    """Place 0 is the root. In round k, every place below 2**k that has the value sends to place + 2**k."""
    rounds = (n - 1).bit_length()
    first = place.bit_length()  # the round after the one in which it received
    sends = sum(place + 2**k < n for k in range(first, rounds))
    got = int(place > 0)
    return Cost((sends, sends * size), (got, got * size), (rounds, rounds * size))
