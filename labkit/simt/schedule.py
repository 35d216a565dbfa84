"""Running the threads of a block between barriers, in an order that depends on the seed.

A GPU promises nothing about the order of threads between two barriers. Seed 0 takes them in order, seed 1
backwards, seed 2 warp by warp with the warps shuffled, and later seeds at random; blocks likewise.
"""

import inspect
import random
from typing import Any

from labkit.simt.machine import WARP, Machine

FULL_MASK = 0xFFFFFFFF


class Schedule:
    """The order in which blocks, and threads between barriers, take their turns."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)

    def order(self, items: list[int]) -> list[int]:
        if self.seed == 0:
            return items
        if self.seed == 1:
            return items[::-1]
        if self.seed == 2:
            warps = sorted({i // WARP for i in items}, key=lambda _: self.random.random())
            return [i for warp in warps for i in items if i // WARP == warp]
        return self.random.sample(items, len(items))


def run_grid(machine: Machine, kernel: Any, arguments: list[Any], seed: int) -> None:
    """Run every block to its end, one after the other."""
    schedule = Schedule(seed)
    for block in schedule.order(list(range(machine.grid.size))):
        machine.enter_block(block)
        Block(machine, block, schedule).run(kernel, arguments)


class Block:
    """The threads of one block: generators that pause at barriers and in shuffles."""

    def __init__(self, machine: Machine, block: int, schedule: Schedule) -> None:
        self.machine, self.schedule = machine, schedule
        self.count = machine.block.size
        self.first = block * self.count  # number of the block's thread 0 in the grid
        self.epoch = 0
        self.warp_epochs = [0] * (self.count // WARP + 1)
        self.waiting: dict[int, tuple[str, int, tuple[Any, ...]]] = {}  # thread -> call, site, arguments
        self.answers: dict[int, Any] = {}

    def run(self, kernel: Any, arguments: list[Any]) -> None:
        threads = list(range(self.count))
        if not inspect.isgeneratorfunction(kernel):  # no barrier anywhere
            for thread in self.schedule.order(threads):
                self.enter(thread)
                kernel(*arguments)
            return
        running = {thread: kernel(*arguments) for thread in threads}
        ready = threads
        while ready:
            for thread in self.schedule.order(ready):
                self.enter(thread)
                try:
                    self.waiting[thread] = running[thread].send(self.answers.pop(thread, None))
                except StopIteration:
                    del running[thread]
            ready = sorted(self.release_warps() or self.release_block())

    def enter(self, thread: int) -> None:
        self.machine.enter(self.first + thread, self.epoch, self.warp_epochs[thread // WARP])

    # Who may go on

    def release_warps(self) -> list[int]:
        """Let threads go on whose warp has met at a warp-wide call."""
        released: list[int] = []
        for warp in range((self.count + WARP - 1) // WARP):
            lanes = range(warp * WARP, min((warp + 1) * WARP, self.count))
            calls = {
                t: self.waiting[t] for t in lanes if t in self.waiting and _warp_wide(self.waiting[t][0])
            }
            if not calls:
                continue
            for site in sorted({call[1] for call in calls.values()}):
                group = {t: call for t, call in calls.items() if call[1] == site}
                wanted = {t for t in lanes if _mask(next(iter(group.values()))) >> t % WARP & 1}
                if missing := sorted(wanted - set(group)):
                    self.divergent(site, sorted(group), missing)
                released += self.answer_warp(group)
                self.warp_epochs[warp] += next(iter(group.values()))[0] == "syncwarp"
        return released

    def answer_warp(self, group: dict[int, tuple[str, int, tuple[Any, ...]]]) -> list[int]:
        for thread, (name, _, arguments) in group.items():
            lane = thread % WARP
            values = {t % WARP: call[2][1] for t, call in group.items() if len(call[2]) > 1}
            self.answers[thread] = _warp_result(name, lane, values, arguments)
        for thread in group:
            del self.waiting[thread]
        return list(group)

    def release_block(self) -> list[int]:
        """All threads that have not ended wait at barriers: note if not at one and the same, and go on."""
        if not self.waiting:
            return []
        sites: dict[int, list[int]] = {}
        for thread, (_, site, _) in sorted(self.waiting.items()):
            sites.setdefault(site, []).append(thread)
        for site, here in sites.items():
            if len(here) < self.count:
                self.divergent(site, here, [t for t in range(self.count) if t not in set(here)])
        predicates = [bool(call[2][0]) for call in self.waiting.values() if call[2]]
        results = {"count": sum(predicates), "and": int(all(predicates)), "or": int(any(predicates))}
        for thread, (name, _, _) in self.waiting.items():
            self.answers[thread] = results.get(name.removeprefix("syncthreads_"))
            self.machine.barriers[self.first + thread] += 1
        self.epoch += 1
        released = list(self.waiting)
        self.waiting.clear()
        return released

    def divergent(self, site: int, here: list[int], missing: list[int]) -> None:
        elsewhere = sorted({self.waiting[t][1] for t in missing if t in self.waiting})
        lines = sorted({self.machine.program.sites[s].line for s in elsewhere})
        self.machine.thread = self.first + here[0]
        self.machine.note("divergent", site, detail=(len(here), self.first + missing[0], len(missing), lines))


def _warp_wide(name: str) -> bool:
    return name == "syncwarp" or name.endswith("_sync")


def _mask(call: tuple[str, int, tuple[Any, ...]]) -> int:
    return int(call[2][0]) & FULL_MASK if call[2] else FULL_MASK


def _warp_result(name: str, lane: int, values: dict[int, Any], arguments: tuple[Any, ...]) -> Any:
    """What a warp-wide call gives one lane; a lane that reads from nobody keeps its own value."""
    if name == "syncwarp":
        return None
    if name == "ballot_sync":
        return sum(1 << other for other, value in values.items() if value)
    if name in ("any_sync", "all_sync"):
        return (any if name == "any_sync" else all)(values.values())
    step = int(arguments[2])
    source = {
        "shfl_sync": step % WARP,
        "shfl_up_sync": lane - step,
        "shfl_down_sync": lane + step,
        "shfl_xor_sync": lane ^ step,
    }[name]
    return values.get(source, values[lane])
