"""A budget for one call: so much computing, so much memory. Both are ended by an exception inside the call.

Computing is processor time, all threads together, so that a busy machine takes nothing away from anybody.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

GIB = 2**30
AGAIN = 0.5  # seconds until the signal comes again, should the answer have swallowed it


class BudgetSpent(BaseException):
    """No Exception, so that an answer's own `except Exception` lets it through."""


def spend(call: Callable[[], Any], computing: float, gib: float) -> tuple[Any, float]:
    """(what the call returns, the processor seconds it took), or BudgetSpent."""
    start = time.process_time()
    with _computing(computing), _memory(gib):
        value = call()
    used = time.process_time() - start
    if used > computing:  # where no signal can tell it in time: Windows, or a second thread
        raise BudgetSpent
    return value, used


@contextmanager
def _computing(seconds: float) -> Iterator[None]:
    """A signal once the processor time is used up. Needs POSIX and the main thread."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise BudgetSpent

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _memory(gib: float) -> Iterator[None]:
    """An allocation beyond what is in use now and `gib` more is an error. Linux only: others do not count."""
    used = _in_use()
    if used is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used + int(gib * GIB)
    soft = wanted if before[0] == resource.RLIM_INFINITY else min(wanted, before[0])
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _in_use() -> int | None:
    """Private writable memory of this process in bytes, as RLIMIT_DATA counts it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), None)


def is_out_of_memory(error: BaseException) -> bool:
    """MemoryError, or torch's own words for it."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)
