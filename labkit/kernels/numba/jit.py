"""How a kernel is compiled: `@kernel` for loops, `@scalar` for the functions inside them, `@fast` in front.

A kernel file has private loops (`@kernel`) over contiguous float32 arrays and, under the same name as in
`numpy/`, the public function (`@fast`) that allocates the output and calls the loop.
"""

import functools
import importlib
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy import ndarray

from labkit.kernels.numba import heap, threads

# What the compiler may assume. "reassoc" lets it keep eight partial sums, "contract" lets it fuse a
# multiply and an add. Not the whole of fastmath: "nnan" and "ninf" would make every answer about NaN and
# inf arbitrary.
_FASTMATH = {"reassoc", "contract"}

_FLOAT32 = np.dtype(np.float32)

# From how many elements on threads are worth it: half of the loop, some 50 microseconds, is then well above
# the ten that waking an idle thread costs. On a busy machine that is milliseconds, so small loops stay away
# from it: one update of 200,000 weights in two threads doubled a step of a small network. `LIGHT` is for
# loops that do little with each element.
HEAVY, LIGHT = 100_000, 500_000


def _drop_stale_cache() -> None:
    """Numba's disk cache watches a kernel's file, not the files it calls: forget kernels older than those."""
    folder = Path(__file__).parent
    changed = max((folder / name).stat().st_mtime for name in ("jit.py", "linear.py", "scalar.py"))
    for entry in folder.glob("__pycache__/*.nbi"):
        if entry.stat().st_mtime < changed:
            entry.unlink(missing_ok=True)


_drop_stale_cache()
threads.start()
heap.keep_freed_memory()


def scalar(fn: Callable) -> Callable:
    """A function of numbers, put into the loop that calls it. No "reassoc": sums are meant as written."""
    return numba.njit(fn, fastmath={"contract"}, error_model="numpy", nogil=True, forceinline=True)


_always: str | None = None


@contextmanager
def always(choice: str) -> Iterator[None]:
    """Run every loop "serial" or "parallel", whatever its size: for compiling both, and for tests."""
    global _always
    before, _always = _always, choice
    try:
        yield
    finally:
        _always = before


def kernel(grain: int | None = HEAVY) -> Callable:
    """Compile a loop over arrays twice: with `prange` as a plain loop, and spread over threads.

    Threads are used when the first argument has `grain` elements or more; with `grain=None` there is only
    the plain loop (for the parts that other kernels call). Of the options, `error_model="numpy"` matters
    most: Python's check for a zero divisor is a branch, and a loop with such a branch is not vectorized.
    """
    options = {"fastmath": _FASTMATH, "error_model": "numpy", "cache": True, "nogil": True}

    def compiled(fn: Callable) -> Callable:
        serial = numba.njit(fn, **options)
        if grain is None:
            return serial
        # The disk cache tells kernels apart by name and line only, so the second one needs a name of its own.
        twin = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__ + "_parallel", fn.__defaults__)
        twin.__qualname__ = twin.__name__
        parallel = numba.njit(twin, parallel=True, **options)

        @functools.wraps(fn)
        def run(first: np.ndarray, *rest: Any) -> Any:
            large = first.size >= grain and threads.count() > 1 if _always is None else _always == "parallel"
            return (parallel if large else serial)(first, *rest)

        run.serial, run.parallel = serial, parallel  # type: ignore[attr-defined]
        return run

    return compiled


def fast(fn: Callable | None = None, *, strided: bool = False) -> Callable:
    """Send the call to `fn` if the first array and all floating ones are float32, else to the kernel of the
    same name in `numpy/`, which is kept as `.reference`.

    Arrays reach `fn` contiguous and writable, so that each loop is compiled for one layout only. Others are
    copied; if the kernel writes into its arguments (its name ends in `_`), they are left to NumPy. A kernel
    that only hands them to BLAS says `strided=True` and gets them as they are.
    """
    if fn is None:
        return functools.partial(fast, strided=strided)
    in_place = fn.__name__.endswith("_")
    module = fn.__module__.rpartition(".")[2]
    reference = getattr(importlib.import_module(f"labkit.kernels.numpy.{module}"), fn.__name__)

    @functools.wraps(fn)
    def call(*args: Any) -> Any:
        ready = True
        for a in args:
            if isinstance(a, ndarray):
                if a.dtype is not _FLOAT32 and (a is args[0] or a.dtype.kind == "f"):
                    return reference(*args)
                if not a.flags.carray:  # contiguous, aligned and writable
                    ready = False
        if ready or strided:
            return fn(*args)
        if in_place:
            return reference(*args)
        return fn(*(a.copy("C") if isinstance(a, ndarray) and not a.flags.carray else a for a in args))

    call.reference = reference  # type: ignore[attr-defined]
    return call


def run_flat(loop: Callable, *inputs: np.ndarray, number: Any = None) -> np.ndarray:
    """Run `loop(*inputs, out)`, and `number` if given, over flat views of arrays of one shape; return out."""
    out = np.empty_like(inputs[-1])
    flat = [a.reshape(-1) for a in (*inputs, out)]
    loop(*flat) if number is None else loop(*flat, number)
    return out
