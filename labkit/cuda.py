"""The `cuda` device: is there one, its memory, its streams, and moving tensors to it and back.

Names follow torch.cuda. Without a GPU the device can run on Numba's simulator, slowly, to learn and to test;
it is used only when asked for: set LABKIT_CUDA=simulator before Python starts.
"""

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ASKED = os.environ.get("LABKIT_CUDA", "")
SIMULATED = _ASKED == "simulator"


@functools.cache
def _numba_cuda() -> Any:
    """Numba's CUDA module, real or simulated. The choice is made once, before it is first imported."""
    if _ASKED not in ("", "simulator"):
        raise RuntimeError(f"LABKIT_CUDA={_ASKED} means nothing; the only value is LABKIT_CUDA=simulator")
    if SIMULATED:
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
        import numba.core.config

        if "numba.cuda" in sys.modules and not numba.core.config.ENABLE_CUDASIM:
            raise RuntimeError("numba.cuda was imported before labkit.cuda: too late for the simulator")
        numba.core.config.ENABLE_CUDASIM = 1
        print(
            "labkit: device 'cuda' runs on Numba's simulator (LABKIT_CUDA=simulator). Results are real, "
            "times mean nothing.",
            file=sys.stderr,
        )
    from numba import cuda

    return cuda


def _why_not() -> str:
    """Why there is no device, or "" if there is one."""
    if SIMULATED:
        return ""
    cuda = _numba_cuda()
    try:
        if cuda.is_available() and len(cuda.gpus):
            return ""
        return "no GPU was found"
    except Exception as error:  # the driver may be missing, broken or too old: any failure means "not here"
        return str(error).strip().splitlines()[0]


def is_available() -> bool:
    """Can tensors be moved to `cuda`: is there a GPU, or was the simulator asked for?"""
    return not _why_not()


def require() -> Any:
    """Numba's CUDA module, or an error that says what is missing."""
    reason = _why_not()
    if reason:
        raise RuntimeError(
            f"device 'cuda' is not available: {reason}. Stay on device 'cpu', or learn without a GPU on the "
            "simulator: set LABKIT_CUDA=simulator in the environment, then start Python again."
        )
    return _numba_cuda()


def device_count() -> int:
    """1 where tensors can be moved to `cuda`, else 0: labkit uses the first GPU."""
    return int(is_available())


def get_device_name() -> str:
    """What the device calls itself"""
    cuda = require()
    if SIMULATED:
        return "Numba CUDA simulator"
    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else name


# ---- order of work ----


class Stream:
    """A queue of work on the device: what is queued on one stream runs in order."""

    def __init__(self) -> None:
        self.handle: Any = require().stream()

    def synchronize(self) -> None:
        """Wait until all work on this stream is done."""
        self.handle.synchronize()


_streams: list[Stream] = []


@contextmanager
def stream(stream: Stream) -> Iterator[Stream]:
    """Queue the kernels of the block on this stream. Wait for it before another stream reads the results."""
    _streams.append(stream)
    try:
        yield stream
    finally:
        _streams.pop()


def current_handle() -> Any:
    """Numba's stream that kernels are queued on now; 0 is the default one."""
    return _streams[-1].handle if _streams else 0


def synchronize() -> None:
    """Wait until all work on the device is done."""
    require().synchronize()


# ---- memory ----


def memory_allocated() -> int:
    """Bytes that arrays on the device use now"""
    return _pool().used


def max_memory_allocated() -> int:
    """The most bytes that were in use at one time"""
    return _pool().most


def memory_reserved() -> int:
    """Bytes taken from the device: those in use, and those kept for the next array"""
    return _pool().used + _pool().kept


def reset_peak_memory_stats() -> None:
    """Let max_memory_allocated() start again from what is in use now."""
    _pool().most = _pool().used


def empty_cache() -> None:
    """Give the memory that is kept for later back to the device."""
    _pool().release()


def _pool() -> Any:
    from labkit.kernels.cuda.buffer import pool

    return pool


# ---- moving arrays ----


def device_of(name: Any) -> str:
    """ "cpu" or "cuda" from "cpu", "cuda", "cuda:0"; labkit uses one GPU."""
    kind, _, number = str(name).partition(":")
    if kind not in ("cpu", "cuda") or number not in ("", "0"):
        raise ValueError(f"labkit has the devices 'cpu' and 'cuda', not {str(name)!r}")
    if kind == "cuda":
        require()
    return kind


def upload(array: Any) -> Any:
    """A copy of a NumPy array on the device."""
    from labkit.kernels.cuda import array as device_array

    return device_array.upload(array)


def download(array: Any) -> Any:
    """A copy of an array of the device in NumPy's memory."""
    from labkit.kernels.cuda import array as device_array

    return device_array.download(array)
