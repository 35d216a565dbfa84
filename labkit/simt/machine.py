"""The pretend GPU: the `cuda` that a kernel sees, the thread that is running, and what it did.

One `Machine` is one launch under one schedule. The scheduler calls `enter` before a thread continues;
everything logged until the next `enter` belongs to that thread.
"""

import math
import types
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from labkit.simt.memory import CONSTANT, LOCAL, SHARED, Array, Buffer, Memory, as_dtype
from labkit.simt.rewrite import Program
from labkit.simt.values import OPERATORS, MathStandIn, Refused, make_operator

WARP = 32
ROUNDS, BARRIERS = 10_000, 1_000  # turns of while loops, and barriers in them, that one thread may take


class Dim3(NamedTuple):
    """A position or size in x, y, z, as CUDA writes it."""

    x: int = 1
    y: int = 1
    z: int = 1

    @property
    def size(self) -> int:
        return self.x * self.y * self.z

    def at(self, i: int) -> "Dim3":
        """Position number `i`, x running fastest."""
        return Dim3(i % self.x, i // self.x % self.y, i // (self.x * self.y))


def dim3(given: Any, what: str) -> Dim3:
    sizes = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, (int, np.integer)) and n >= 0 for n in sizes):
        raise ValueError(f"{what} must be one to three whole numbers, got {given!r}")
    return Dim3(*(int(n) for n in sizes))


@dataclass
class Event:
    """Something worth reporting at one site: how often, and the first threads that met it."""

    count: int = 0
    threads: list[int] = field(default_factory=list)
    detail: Any = None


class Stopped(Exception):
    """The run was cut short: it would not have ended by itself."""


class Cuda:
    """The stand-in for `numba.cuda` inside a kernel; `rewrite` handles barriers, atomics and arrays."""

    warpsize = WARP

    def __init__(self, grid: Dim3, block: Dim3) -> None:
        self.gridDim, self.blockDim = grid, block
        self.threadIdx = self.blockIdx = Dim3(0, 0, 0)
        self.laneid = 0
        self.const = types.SimpleNamespace()

    def grid(self, ndim: int) -> Any:
        """The thread's position in the whole grid: i, or (i, j), or (i, j, k)."""
        places = zip(self.blockIdx, self.blockDim, self.threadIdx, strict=True)
        position = tuple(b * n + t for b, n, t in places)[:ndim]
        return position[0] if ndim == 1 else position

    def gridsize(self, ndim: int) -> Any:
        sizes = tuple(g * b for g, b in zip(self.gridDim, self.blockDim, strict=True))[:ndim]
        return sizes[0] if ndim == 1 else sizes

    def threadfence(self) -> None:
        """Orders one thread's own writes; it makes nobody wait, so the stepper has nothing to do."""

    threadfence_block = threadfence_system = threadfence

    def popc(self, x: int) -> int:
        return int(x).bit_count()

    def selp(self, condition: Any, yes: Any, no: Any) -> Any:
        return yes if condition else no

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return type(c)(float(a) * float(b) + float(c))

    def __getattr__(self, name: str) -> Any:
        raise Refused(f"cuda.{name}", "the stepper does not know it; see labkit.simt for what it runs")


class Machine:
    """State of one launch: memory, log, counters, and the thread that is running now."""

    def __init__(self, program: Program, grid: Dim3, block: Dim3, *, shared_bytes: int, limit: int) -> None:
        self.program, self.grid, self.block = program, grid, block
        self.cuda = Cuda(grid, block)
        self.memory = Memory(self)
        self.memory.limit = 2 * limit  # the log holds two numbers per access
        self.limit, self.shared_bytes = limit, shared_bytes
        self.log = array("q")
        self.written: list[Any] = []
        self.segments: list[tuple[int, int, int, int]] = []  # log position, thread, epoch, epoch of its warp
        self.events: dict[tuple[str, int], Event] = {}
        self.wide: dict[int, int] = {}  # site of float64 arithmetic -> first thread
        self.tallies: list[Counter[type]] = [Counter() for _ in range(grid.size * block.size)]
        self.barriers = np.zeros(grid.size * block.size, int)
        self.thread = 0
        self.tally: Counter[type] = Counter()
        self.rounds: Counter[int] = Counter()
        self.shared_arrays: dict[int, Array] = {}
        self.shared_size = 0
        self.positions = [block.at(i) for i in range(block.size)]

    def helpers(self) -> dict[str, Any]:
        """The names that rewritten code uses."""
        self.cuda.const.array_like = self.constant
        operators = {f"_{name}": make_operator(name, self) for name in OPERATORS}
        mathematics = MathStandIn(self)

        def stand_in(value: Any) -> Any:
            if value is math:
                return mathematics
            if isinstance(value, types.BuiltinFunctionType) and value.__module__ == "math":
                return getattr(mathematics, value.__name__)
            return self.constant(value) if isinstance(value, np.ndarray) else value

        memory = self.memory
        return operators | {
            "_cuda": self.cuda,
            "_stand_in": stand_in,
            "_read": memory.read,
            "_write": memory.write,
            "_atomic": memory.atomic,
            "_shared": self.shared,
            "_local": self.local,
            "_loop": self.loop,
        }

    # The running thread

    def enter_block(self, block: int) -> None:
        self.cuda.blockIdx = self.grid.at(block)
        self.shared_arrays = {}

    def enter(self, thread: int, epoch: int, warp_epoch: int) -> None:
        """`thread` (counted over the whole grid) runs from here on."""
        self.thread = thread
        self.tally = self.tallies[thread]
        local = thread % self.block.size
        self.cuda.threadIdx = self.positions[local]
        self.cuda.laneid = local % WARP
        self.segments.append((len(self.log) // 2, thread, epoch, warp_epoch))

    def note(self, kind: str, site: int, detail: Any = None) -> None:
        event = self.events.setdefault((kind, site), Event(detail=detail))
        event.count += 1
        if len(event.threads) < 4 and self.thread not in event.threads:
            event.threads.append(self.thread)

    def loop(self, test: Any, site: int) -> Any:
        """The test of a while loop; one that turns this often has gone astray."""
        self.rounds[self.thread] += 1
        if self.rounds[self.thread] > ROUNDS or self.barriers[self.thread] > BARRIERS:
            self.note("endless", site)
            raise Stopped
        return test

    def too_long(self, site: int) -> None:
        self.note("too long", site)
        raise Stopped

    # Arrays declared in the kernel

    def shared(self, site: int, shape: Any, dtype: Any, **_: Any) -> Array:
        """The block's array for this line: the first thread makes it, the others find it."""
        if site not in self.shared_arrays:
            size = self.shared_bytes // as_dtype(dtype).itemsize if shape == 0 else shape
            name = self.program.sites[site].text
            self.shared_arrays[site] = self.memory.declare(name, SHARED, size, dtype)
            used = sum(array._data.nbytes for array in self.shared_arrays.values())
            self.shared_size = max(self.shared_size, used)
        return self.shared_arrays[site]

    def local(self, site: int, shape: Any, dtype: Any, **_: Any) -> Array:
        return self.memory.declare(self.program.sites[site].text, LOCAL, shape, dtype)

    def constant(self, data: Any) -> Array:
        """Constant memory: `cuda.const.array_like`, and arrays that the kernel sees as globals."""
        if isinstance(data, Array):
            return data
        start = self.memory.add(Buffer("constant", CONSTANT, data.itemsize, data.size))
        return Array(data, start, "constant", CONSTANT)
