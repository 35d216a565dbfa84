"""Run tasks in forked processes, each with limits, several at a time; end a process with all it started.

A fork starts in milliseconds with torch already imported, and what a task breaks (a global, a seed, the
process itself) is gone with it. That is what thousands of mutants need.
"""

from __future__ import annotations

import ctypes
import math
import os
import pickle
import selectors
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
GIB = 2**30
PROC = Path("/proc")
TOKEN = "LABKIT_GRADER"  # in the environment of what an answer starts: the process it was started by
PR_SET_CHILD_SUBREAPER = 36
ROUNDS = 10  # a process that starts others while it is being ended is looked for again
_STARTED_IN = os.getpgrp() if hasattr(os, "getpgrp") else 0


@dataclass(frozen=True)
class Lost:
    """A task without a result: it took too long, or its process ended."""

    why: str


@dataclass
class _Child:
    task: Any
    pid: int
    deadline: float
    received: bytearray


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit_memory(more: float | None = None) -> None:
    """Make an allocation larger than the machine an error instead of a swap storm.

    The limit is on private writable memory (RLIMIT_DATA): `LABKIT_MEMORY` GiB, by default what the machine
    has and at most 32; with `more`, at most so many GiB beyond what this process has now. The address space
    (RLIMIT_AS) is not limited: CUDA reserves far more than it uses. Where there is no such limit, Python's
    own MemoryError has to do.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    most = min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), 32 * GIB)
    limit = int(float(os.environ.get("LABKIT_MEMORY", most / GIB)) * GIB)
    if more is not None:
        limit = min(limit, _memory_now() + int(more * GIB))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    with suppress(ValueError, OSError):  # some systems refuse a limit below what is in use
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _memory_now() -> int:
    """The bytes that RLIMIT_DATA counts in this process; 0 where nobody says."""
    try:
        lines = (PROC / "self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), 0)


# ending a process with all it started


def lead_family() -> None:
    """Make what this process starts, and what that starts, easy to find and to end with it.

    Its children carry its number in their environment, and on Linux an orphan among its grandchildren becomes
    its child. A session of its own is the business of whoever starts it.
    """
    os.environ[TOKEN] = str(os.getpid())
    with suppress(OSError, AttributeError, TypeError):  # Linux only
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_family(leader: int) -> None:
    """Kill a process that leads a session, and all it has started, also in sessions of their own.

    Where there is no /proc only its group is found.
    """
    if not hasattr(os, "killpg"):  # Windows; the caller ends the process itself
        return
    with suppress(ProcessLookupError, PermissionError):
        os.kill(leader, signal.SIGSTOP)  # it starts nothing more
    for _ in range(ROUNDS):
        found = family(leader)
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            break
    if not PROC.is_dir():
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                kill(leader, signal.SIGKILL)


def family(leader: int) -> set[int]:
    """The living processes that a process leads: its session and group, children, what has its token."""
    parents: dict[int, int] = {}
    found = set[int]()
    mark = f"{TOKEN}={leader}\0".encode()
    for folder in PROC.glob("[0-9]*"):
        try:
            # "PID (any name) STATE PARENT GROUP SESSION ..."
            state, parent, group, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if state in "ZX":
                continue
            pid = int(folder.name)
            parents[pid] = int(parent)
            if leader in (pid, int(group), int(session)) or mark in (folder / "environ").read_bytes():
                found.add(pid)
        except OSError:  # gone meanwhile, or somebody else's
            continue
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found - {os.getpid()}
        found |= more


def one_thread() -> None:
    """Keep torch to one thread: a fork does not inherit its parent's threads and would wait for them forever.

    Several processes share the cores anyway.
    """
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    import torch

    torch.set_num_threads(1)


def forked(
    tasks: Iterable[T],
    work: Callable[[T], Any],
    seconds: float,
    jobs: int = 1,
    cpu: float | None = None,
    gib: float | None = None,
) -> Iterator[tuple[T, Any]]:
    """Call `work(task)` in a fork for each task; yield (task, result or Lost) as they finish.

    A task may take `seconds` by the clock and, if given, `cpu` seconds of computing and `gib` GiB of memory
    beyond what there is. The limit on computing ends an endless loop soon; a busy machine does not move it.
    """
    if not hasattr(os, "fork"):
        raise OSError("This needs fork(): run it on Linux, on macOS, or on Windows inside WSL.")
    waiting = iter(tasks)

    def limited(task: T) -> Any:
        _limit(cpu, gib)
        return work(task)

    with selectors.DefaultSelector() as running:
        try:
            while _fill(running, waiting, limited, seconds, jobs):
                yield from _finished(running)
        finally:
            for key in list(running.get_map().values()):
                _end(running, key)


def _fill(
    running: selectors.BaseSelector,
    waiting: Iterator[Any],
    work: Callable[[Any], Any],
    seconds: float,
    jobs: int,
) -> bool:
    """Start tasks up to the limit; say whether any is running."""
    while len(running.get_map()) < jobs:
        try:
            task = next(waiting)
        except StopIteration:
            break
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of threads that a child would miss; these children use none of their parent's.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            os.close(reader)
            _work_and_exit(work, task, writer)
        os.close(writer)
        child = _Child(task, pid, time.monotonic() + seconds, bytearray())
        running.register(reader, selectors.EVENT_READ, child)
    return bool(running.get_map())


def _limit(seconds: float | None, gib: float | None) -> None:
    if seconds is not None or gib is not None:
        limit_memory(gib)
    if seconds is not None:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), most))


def _work_and_exit(work: Callable[[Any], Any], task: Any, writer: int) -> None:
    """The child's whole life. It is silent, and never returns into its parent's code."""
    try:
        if os.getpgrp() == _STARTED_IN:
            os.setpgid(0, 0)  # a group for the children it may have, so that all of them end together
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silence, descriptor)
        sys.stdout = sys.stderr = open(os.devnull, "w")
        result = work(task)
    except BaseException as error:
        result = Lost(f"{type(error).__name__}: {error}")
    try:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(pickle.dumps(result))
    finally:
        os._exit(0)


def _finished(running: selectors.BaseSelector) -> Iterator[tuple[Any, Any]]:
    """Wait for something to happen; yield what is complete or out of time."""
    children = [key.data for key in running.get_map().values()]
    soonest = min(child.deadline for child in children)
    for key, _ in running.select(max(0.0, soonest - time.monotonic())):
        part = os.read(key.fd, 1 << 16)
        key.data.received += part
        if not part:
            _end(running, key)
            yield key.data.task, _result(key.data)
    for key in list(running.get_map().values()):
        if time.monotonic() >= key.data.deadline:
            _end(running, key)
            yield key.data.task, Lost("took too long")


def _end(running: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    running.unregister(key.fd)
    os.close(key.fd)
    for kill, target in ((os.killpg, key.data.pid), (os.kill, key.data.pid)):
        try:
            kill(target, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    os.waitpid(key.data.pid, 0)


def _result(child: _Child) -> Any:
    try:
        return pickle.loads(bytes(child.received))
    except Exception:  # nothing or half of it arrived
        return Lost("the process ended")
