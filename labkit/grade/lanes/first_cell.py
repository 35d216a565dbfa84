"""What a process that grades does first: limits that keep a wrong answer from hurting others.

`prepare` runs once, `answer_follows` before an answer, its check, or a demo that calls it; whatever they
turn (the working directory, torch's default device, a seed) is put back after them.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from labkit.grade.judge.check import check as check  # kept before any cell can put another in its place
from labkit.grade.judge.check import current_shell
from labkit.grade.judge.surroundings import BUILTINS, Surroundings
from labkit.grade.processes import lead_family, limit_memory


class _Watch:
    """Stands before and after every cell. IPython calls it, so no cell can import another in its place."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.streams = sys.stdout, sys.stderr
        self.builtins = BUILTINS.copy()
        self.modules = {name: module for name, module in sys.modules.items() if name.startswith("labkit")}
        self.path = list(sys.path)
        self.follows = False
        self.before: Surroundings | None = None

    def before_cell(self, _: Any) -> None:
        if self.follows:
            self.follows, self.before = False, Surroundings(chance=True)

    def after_cell(self, _: Any) -> None:
        BUILTINS.update(self.builtins)
        if os.getpid() != self.pid:
            os._exit(0)  # an answer forked: only one of the two goes on
        sys.stdout, sys.stderr = self.streams
        sys.modules.update(self.modules)
        sys.path += [folder for folder in self.path if folder not in sys.path]
        if self.before is not None:
            self.before.put_back()
            self.before = None
            limit_memory()


_watch: _Watch | None = None


def prepare() -> None:
    """Limit the memory, guard what graded this far, and tell IPython that this is no ordinary session."""
    global _watch
    limit_memory()
    lead_family()
    _spare_the_grader()
    shell = current_shell()
    if shell is None:
        return
    shell.ask_exit = lambda: None  # `exit()` in a cell does not end the process
    shell.InteractiveTB.set_mode("Minimal")  # drawing the traceback of an endless recursion takes seconds
    _watch = _Watch()
    shell.events.register("pre_run_cell", _watch.before_cell)
    shell.events.register("post_run_cell", _watch.after_cell)


def answer_follows(gib: float | None = None) -> None:
    """The next cell is an answer or its check: put back what it turns, and limit its memory."""
    if _watch is not None:
        _watch.follows = True
    if gib is not None:
        limit_memory(gib)


def _spare_the_grader() -> None:
    """Let no answer kill the process that started this one, its group, or everything at once."""
    if not hasattr(os, "getpgid"):
        return
    parent = os.getppid()
    spared = {-1, parent, -parent, -os.getpgid(parent)}

    def refuse(event: str, given: tuple[Any, ...]) -> None:
        if event in ("os.kill", "os.killpg") and given[1]:
            target = given[0] if event == "os.kill" else -given[0]
            if target in spared:
                raise PermissionError("an answer cannot end the process that grades it")

    sys.addaudithook(refuse)
