"""Memory of the device, kept for reuse: asking the driver for memory makes it wait for all work to finish.

A buffer that is no longer used goes back to the pool and serves the next request of the same size. Sizes are
rounded up so that requests of nearly the same size share buffers. Buffers belong to the stream that they were
first used on: work of another stream might still be reading them.
"""

import weakref
from collections import defaultdict
from typing import Any

from labkit import cuda as device
from labkit.kernels.cuda.launch import cuda

SMALL, LARGE = 512, 1 << 20  # bytes: sizes are multiples of the first; above the second, of the second


class Buffer:
    """Bytes on the device. When the last array in them is gone, the pool takes them back."""

    __slots__ = ("__weakref__", "bytes")

    def __init__(self, size: int) -> None:
        stream = device.current_handle()
        self.bytes = pool.take(size, stream)
        weakref.finalize(self, pool.give, self.bytes, size, stream)


class Pool:
    """Device memory that was used before, by size and stream."""

    def __init__(self) -> None:
        self.free: defaultdict[Any, list[Any]] = defaultdict(list)
        self.used = self.kept = self.most = 0

    def take(self, size: int, stream: Any) -> Any:
        free = self.free[size, stream]
        if free:
            memory = free.pop()
            self.kept -= size
        else:
            memory = cuda.device_array(size, "uint8")
        if device.SIMULATED:
            memory._ary.fill(0xFF)  # what was never written reads as NaN or -1, so that it shows
        self.used += size
        self.most = max(self.most, self.used)
        return memory

    def give(self, memory: Any, size: int, stream: Any) -> None:
        self.free[size, stream].append(memory)
        self.used -= size
        self.kept += size

    def release(self) -> None:
        self.free.clear()
        self.kept = 0


def rounded(size: int) -> int:
    """A size with room for `size` bytes that many requests share; never 0."""
    unit = LARGE if size > LARGE else SMALL
    return max(-(-size // unit), 1) * unit


pool = Pool()
