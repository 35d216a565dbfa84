"""Races: two threads, the same element, at least one write, and nothing that puts them in order.

Inside a block a barrier puts accesses in order, inside a warp `syncwarp` does; between blocks of one launch
nothing does. Two atomic operations do not race with each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.simt.machine import WARP, Machine
from labkit.simt.memory import GLOBAL, SHARED
from labkit.simt.rewrite import ATOMIC, READ, WRITE
from labkit.simt.trace import Trace


@dataclass
class Race:
    """Two sites that meet on some elements: the rows of one example, and on how many elements."""

    first: int
    second: int
    between_blocks: bool
    same_value: bool
    elements: int = 0


def find_races(trace: Trace, machine: Machine) -> list[Race]:
    """Every pair of sites that race, with an example; the pair with a write first."""
    found: dict[tuple[int, int, bool], Race] = {}
    shared = np.flatnonzero(np.isin(trace.space, (GLOBAL, SHARED)))
    for rows in _suspects(trace, shared, [trace.epoch, trace.block, trace.address], trace.thread):
        _add_pairs(found, trace, machine, rows, trace.thread, between_blocks=False)
    outer = np.flatnonzero(trace.space == GLOBAL)
    for rows in _suspects(trace, outer, [trace.address], trace.block):
        _add_pairs(found, trace, machine, rows, trace.block, between_blocks=True)
    return list(found.values())


def _suspects(trace: Trace, rows: Any, keys: list[Any], actor: Any) -> Iterator[Any]:
    """Groups of accesses to one element by several actors, with a write among them."""
    if len(rows) == 0:
        return
    rows = rows[np.lexsort([key[rows] for key in keys])]
    new = np.ones(len(rows), bool)
    new[1:] = np.any([key[rows][1:] != key[rows][:-1] for key in keys], axis=0)
    starts = np.flatnonzero(new)
    kind, who = trace.kind[rows], actor[rows]
    several = np.minimum.reduceat(who, starts) != np.maximum.reduceat(who, starts)
    written = np.logical_or.reduceat(kind == WRITE, starts)
    mixed = np.logical_or.reduceat(kind == ATOMIC, starts) & np.logical_or.reduceat(kind == READ, starts)
    ends = np.append(starts[1:], len(rows))
    for group in np.flatnonzero(several & (written | mixed)):
        yield np.sort(rows[starts[group] : ends[group]])


def _add_pairs(
    found: dict, trace: Trace, machine: Machine, rows: Any, actor: Any, *, between_blocks: bool
) -> None:
    writes = rows[trace.kind[rows] == WRITE]
    values = [machine.written[i] for i in trace.value[writes]]
    same = all(v == values[0] for v in values[1:])
    seen: set[tuple[int, int, bool]] = set()
    kept = _representatives(trace, rows, actor)
    for i, a in enumerate(kept):
        for b in kept[i:]:
            if actor[a] == actor[b] or not _conflict(trace, a, b) or _ordered(trace, machine, a, b):
                continue
            first, second = (a, b) if trace.kind[a] >= trace.kind[b] else (b, a)
            key = (int(trace.site[first]), int(trace.site[second]), between_blocks)
            both_write = trace.kind[a] == trace.kind[b] == WRITE
            race = found.setdefault(key, Race(int(first), int(second), between_blocks, True))
            race.same_value &= bool(both_write and same)
            race.elements += key not in seen
            seen.add(key)


def _representatives(trace: Trace, rows: Any, actor: Any) -> list[int]:
    """Enough rows to show every pair of sites: two actors for each, and for each warp if syncwarp is used."""
    kept: dict[tuple[int, ...], list[int]] = {}
    epochs = trace.warp_epoch[rows]
    warps = trace.thread[rows] // WARP if epochs.min() != epochs.max() else np.zeros_like(epochs)
    keys = zip(trace.site[rows].tolist(), epochs.tolist(), warps.tolist(), strict=True)
    for row, key in zip(rows.tolist(), keys, strict=True):
        chosen = kept.setdefault(key, [])
        if len(chosen) < 2 and all(actor[row] != actor[other] for other in chosen):
            chosen.append(row)
    return [row for chosen in kept.values() for row in chosen]


def _conflict(trace: Trace, a: int, b: int) -> bool:
    kinds = {int(trace.kind[a]), int(trace.kind[b])}
    return kinds not in ({READ}, {ATOMIC})


def _ordered(trace: Trace, machine: Machine, a: int, b: int) -> bool:
    """Same warp of the same block, with a syncwarp between."""
    if trace.block[a] != trace.block[b] or trace.warp_epoch[a] == trace.warp_epoch[b]:
        return False
    lanes = [trace.thread[row] % machine.block.size // WARP for row in (a, b)]
    return bool(lanes[0] == lanes[1])
