"""What a process that grades does first: limits that keep a wrong answer from hurting the machine."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

from labkit.grade.check import check as check  # kept before any cell can put another in its place
from labkit.grade.check import current_shell

GIB = 2**30


def prepare() -> None:
    """Limit the memory, and tell IPython that this is no ordinary session."""
    limit_memory()
    shell = current_shell()
    if shell is None:
        return
    shell.ask_exit = lambda: None  # `exit()` in a cell does not end the process
    shell.InteractiveTB.set_mode("Minimal")  # drawing the traceback of an endless recursion takes seconds
    streams = sys.stdout, sys.stderr

    def put_streams_back(_: Any) -> None:
        sys.stdout, sys.stderr = streams

    shell.events.register("post_run_cell", put_streams_back)


def limit_memory() -> None:
    """Make an allocation larger than the machine an error instead of a swap storm.

    The limit is on private writable memory (RLIMIT_DATA): `LABKIT_MEMORY` GiB, by default what the machine
    has and at most 32. The address space (RLIMIT_AS) is not limited: CUDA reserves far more than it uses.
    Where there is no such limit, Python's own MemoryError has to do.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    most = min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), 32 * GIB)
    limit = int(float(os.environ.get("LABKIT_MEMORY", most / GIB)) * GIB)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    with suppress(ValueError, OSError):  # some systems refuse a limit below what is in use
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
