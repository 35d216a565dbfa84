"""Launching kernels: Numba's CUDA module, block sizes, and a table of all kernels.

A kernel is declared with the types of its arguments, which `python -m labkit kernels` compiles it for:
"F4" is a float array with 4 axes, "I1" an int64 array, "B4" a bool array, "f" and "i" are numbers.
"""

import inspect
from collections.abc import Callable
from typing import Any

from numba.core import config

from labkit import cuda as device

cuda: Any
_numba = device._numba_cuda()
if device.SIMULATED:
    from labkit.kernels.cuda.simulator import Simulated

    cuda = Simulated(_numba)
else:  # Numba warns about grids too small to fill the GPU; a lesson's often are
    cuda = _numba
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

# Threads per block: a power of two. The simulator starts a Python thread for each, so it gets few.
THREADS = 8 if device.SIMULATED else 256

ALL: dict[str, "Kernel"] = {}


class Kernel:
    """A function that runs once in every thread, and what is known about it."""

    def __init__(self, function: Callable[..., None], types: str, name: str, note: str) -> None:
        self.function, self.types, self.name, self.note = function, types, name, note
        self.jit = cuda.jit(function)
        ALL[name] = self

    def __call__(self, blocks: Any, threads: Any, *arguments: Any) -> None:
        """Queue `blocks` blocks of `threads` threads on the current stream."""
        blocks = blocks if isinstance(blocks, tuple) else (blocks,)
        if 0 not in blocks:
            passed = [a.argument() if hasattr(a, "argument") else a for a in arguments]
            self.jit[blocks, threads, device.current_handle()](*passed)

    @property
    def lines(self) -> int:
        """How many lines its source has"""
        return len(inspect.getsource(self.function).splitlines())


def kernel(types: str, name: str = "", note: str = "") -> Callable[[Callable[..., None]], Kernel]:
    """Declare a kernel with the types of its arguments; `note` says why it may use local memory."""

    def declare(function: Callable[..., None]) -> Kernel:
        module = function.__module__.rpartition(".")[2]
        return Kernel(function, types, name or f"{module}.{function.__name__.strip('_')}", note)

    return declare


def function_of_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that kernels call; it runs in the calling thread."""
    return function if device.SIMULATED else cuda.jit(device=True)(function)


def blocks_for(count: int, each: int = THREADS) -> int:
    """How many blocks of `each` cover `count`"""
    return -(-count // each)
