"""The log of a run as columns, one row per access, and what can be counted from them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.simt.machine import WARP, Machine
from labkit.simt.memory import GLOBAL, SHARED, SHIFT
from labkit.simt.rewrite import ATOMIC, READ, WRITE

SECTOR = 32  # bytes that one global memory transaction moves
BANKS = 32  # shared memory: word w of 4 bytes lies in bank w mod 32


@dataclass
class Trace:
    """Columns of the log. `thread` counts over the whole grid; `epoch` is the number of barriers passed."""

    site: np.ndarray
    address: np.ndarray
    thread: np.ndarray
    epoch: np.ndarray
    warp_epoch: np.ndarray
    kind: np.ndarray
    buffer: np.ndarray
    space: np.ndarray
    block: np.ndarray
    itemsize: np.ndarray
    value: np.ndarray  # position in Machine.written, for plain writes


def make_trace(machine: Machine) -> Trace:
    site, address = np.frombuffer(machine.log, np.int64).reshape(-1, 2).T
    starts, thread, epoch, warp_epoch = np.array(machine.segments, np.int64).reshape(-1, 4).T
    lengths = np.diff(np.append(starts, len(site)))
    kinds = np.array([s.kind for s in machine.program.sites], np.int64)
    buffers = machine.memory.buffers
    buffer = address >> SHIFT
    kind = kinds[site] if len(site) else site
    thread = np.repeat(thread, lengths)
    return Trace(
        site=site,
        address=address,
        thread=thread,
        epoch=np.repeat(epoch, lengths),
        warp_epoch=np.repeat(warp_epoch, lengths),
        kind=kind,
        buffer=buffer,
        space=np.array([b.space for b in buffers] or [""])[buffer],
        block=thread // max(machine.block.size, 1),
        itemsize=np.array([b.itemsize for b in buffers] or [1])[buffer],
        value=np.cumsum(kind == WRITE) - 1,
    )


def counts(trace: Trace, machine: Machine) -> dict[str, np.ndarray]:
    """Name of the count -> how many, for every thread of the grid."""
    threads = machine.grid.size * machine.block.size
    per_thread: dict[str, np.ndarray] = {}
    for space in (GLOBAL, SHARED):
        for name, kind in (("reads", READ), ("writes", WRITE), ("atomics", ATOMIC)):
            chosen = trace.thread[(trace.space == space) & (trace.kind == kind)]
            per_thread[f"{space} {name}"] = np.bincount(chosen, minlength=threads)
    moved = np.where(trace.kind == ATOMIC, 2, 1) * trace.itemsize * (trace.space == GLOBAL)
    per_thread["global bytes"] = np.bincount(trace.thread, moved, threads).astype(int)
    per_thread["barriers"] = machine.barriers
    for name, kinds in (
        ("int", (int, np.uint64)),
        ("float32", (np.float32, np.float16)),
        ("float64", (float,)),
    ):
        per_thread[f"{name} operations"] = np.array(
            [sum(t.get(k, 0) for k in kinds) for t in machine.tallies], int
        )
    return per_thread


@dataclass(frozen=True)
class Traffic:
    """How a warp's accesses at one site meet the memory system, summed over warps."""

    line: int
    text: str
    space: str
    steps: int  # times a warp got here
    transactions: int
    best: int
    thread: int  # first thread of the worst step
    jumps: float  # share of neighboring threads whose elements do not lie side by side

    @property
    def ratio(self) -> float:
        return self.transactions / max(self.best, 1)


def traffic(trace: Trace, machine: Machine) -> list[Traffic]:
    """Transactions against the best possible, for each site that reads or writes global or shared memory.

    The accesses that the 32 threads of a warp make at one site for the k-th time since the last barrier count
    as one step. Global memory moves sectors of 32 bytes ("CUDA C++ Best Practices Guide", coalesced access
    for compute capability 6.0 and later); a shared memory step takes as many turns as different words fall in
    its fullest bank. Steps in which most lanes use the same few elements are broadcasts and are left out.
    """
    found: list[Traffic] = []
    warps = (trace.thread % machine.block.size) // WARP + trace.block * (machine.block.size // WARP + 1)
    for space, cost in ((GLOBAL, _sectors), (SHARED, _turns)):
        rows = np.flatnonzero((trace.space == space) & (trace.kind != ATOMIC))
        if len(rows) == 0:
            continue
        step = _steps(trace, warps, rows)
        total = int(step.max()) + 1
        first = np.full(total, np.iinfo(np.int64).max)
        np.minimum.at(first, step, trace.thread[rows])
        site = np.zeros(total, np.int64)
        site[step] = trace.site[rows]
        lanes = np.bincount(step, minlength=total)
        distinct = _distinct(step, trace.address[rows], total)
        jumps = _jumps(step, trace, rows, total)
        made, best = cost(step, trace.address[rows], trace.itemsize[rows], distinct, total)
        wide = (lanes >= 8) & (2 * distinct >= lanes)
        for s in np.unique(site[wide]):
            here = np.flatnonzero(wide & (site == s))
            worst = here[np.argmax(made[here] / best[here])]
            sums = int(made[here].sum()), int(best[here].sum())
            apart = jumps[here].sum() / (lanes[here] - 1).sum()
            line, text = machine.program.sites[s].line, machine.program.sites[s].text
            found.append(Traffic(line, text, space, len(here), *sums, int(first[worst]), float(apart)))
    return found


def _steps(trace: Trace, warps: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Number the steps: same site, warp and epoch, and the same count of visits by the thread."""
    thread, site, epoch = trace.thread[rows], trace.site[rows], trace.epoch[rows]
    order, new = _grouped(thread, site, epoch)
    starts = np.flatnonzero(new)
    visit = np.empty(len(rows), np.int64)
    visit[order] = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
    order, new = _grouped(site, warps[rows], epoch, visit)
    step = np.empty(len(rows), np.int64)
    step[order] = np.cumsum(new) - 1
    return step


def _grouped(*keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order that brings equal rows together (stable), and where in it a new group starts."""
    order = np.lexsort(keys)
    new = np.ones(len(order), bool)
    new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    return order, new


def _distinct(step: np.ndarray, values: np.ndarray, total: int) -> np.ndarray:
    """How many different values each step has."""
    order, new = _grouped(values, step)
    return np.bincount(step[order][new], minlength=total)


def _jumps(step: np.ndarray, trace: Trace, rows: np.ndarray, total: int) -> np.ndarray:
    """How many pairs of neighboring threads in each step touch elements that are not neighbors."""
    order = np.lexsort((trace.thread[rows], step))
    address, size = trace.address[rows][order], trace.itemsize[rows][order]
    apart = (np.abs(np.diff(address)) > size[1:]) & (np.diff(step[order]) == 0)
    return np.bincount(step[order][1:][apart], minlength=total)


def _sectors(step: Any, address: Any, itemsize: Any, distinct: Any, total: int) -> tuple[Any, Any]:
    size = np.zeros(total, np.int64)
    size[step] = itemsize
    return _distinct(step, address // SECTOR, total), -(-distinct * size // SECTOR)


def _turns(step: Any, address: Any, itemsize: Any, distinct: Any, total: int) -> tuple[Any, Any]:
    """Elements of 8 bytes fill two banks, and the hardware takes such a warp in two halves."""
    width = np.maximum(itemsize, 4)
    banks = BANKS * 4 // width
    order, new = _grouped(address // width, step)
    words = order[new]  # one row for every different word of a step: lanes on the same word share one read
    bank = (address // width % banks)[words]
    crowd = np.bincount(step[words] * BANKS + bank, minlength=total * BANKS).reshape(total, BANKS)
    size = np.zeros(total, np.int64)
    size[step] = width
    return crowd.max(1), np.maximum(-(-distinct * size // (BANKS * 4)), 1)
