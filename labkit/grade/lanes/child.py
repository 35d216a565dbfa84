"""The inside of the warm lane: a process that runs cells as a kernel would, told to over a pipe.

Every process that grades is a fork of a server that has imported torch and the checks already (`preload.py`);
where there is no fork, it is a fresh process that imports what its cells need.
"""

from __future__ import annotations

import builtins
import importlib
import json
import math
import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

BUILTINS = vars(builtins)
# What kernels have in their environment too.
ENVIRONMENT = {"LABKIT_LANE": "watch", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}


def serve(pipe: Connection, folder: str, environment: dict[str, str]) -> None:
    """Run cells until the pipe closes: a message is a source and its time limit, the answer its outcome."""
    if hasattr(os, "setsid"):
        os.setsid()  # a signal to "my whole group" stays in here
    os.environ.update(environment | ENVIRONMENT)
    os.chdir(folder)
    sys.path.insert(0, "")
    _be_silent()
    ipython = shell()
    check = importlib.import_module("labkit.grade.judge.check")
    records: list[dict[str, Any]] = []
    check.listeners.append(lambda verdict: records.append(verdict.record()))
    pipe.send_bytes(b"{}")  # ready
    while True:
        try:
            source, timeout = json.loads(pipe.recv_bytes())
        except EOFError:
            os._exit(0)
        records.clear()
        _expire(timeout)
        error = _run(ipython, source)
        words = f"{type(error).__name__}: {error}".strip().removesuffix(":") if error else None
        pipe.send_bytes(json.dumps({"record": records[-1] if records else None, "error": words}).encode())


def _run(ipython: Shell, source: str) -> BaseException | None:
    """What a cell raised. A cell that replaces Python's builtins can make IPython itself fail."""
    kept = BUILTINS.copy()
    try:
        result = ipython.run_cell(source, store_history=False)
        return result.error_before_exec or result.error_in_exec
    except Exception as error:
        return error
    finally:
        BUILTINS.update(kept)


def _be_silent() -> None:
    """What cells print goes nowhere, and nobody answers their questions."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    sys.stdin = open(0, closefd=False)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))


class Shell(InteractiveShell):
    """IPython as cells know it from a kernel: magics, display and top-level await work."""

    def enable_gui(self, gui: str | None = None) -> None:
        """`%matplotlib inline` asks for this; there is no window to open."""


def shell() -> Shell:
    """The IPython of this process, without history: that would be a file and a thread."""
    config = Config()
    config.HistoryManager.enabled = False
    ipython = Shell.instance(config=config)
    sys.modules["__main__"] = ipython.user_module
    return ipython


def _expire(timeout: float) -> None:
    """End by alarm if the process that asked is not there to end this one."""
    if hasattr(signal, "alarm"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(math.ceil(timeout) + 5)
