"""What a process that grades does first: limits that keep a wrong answer from hurting the machine."""

from __future__ import annotations

import sys
from typing import Any

from labkit.grade.judge.check import check as check  # kept before any cell can put another in its place
from labkit.grade.judge.check import current_shell
from labkit.grade.processes import limit_memory


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
