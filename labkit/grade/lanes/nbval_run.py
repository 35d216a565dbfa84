"""Run nbval over notebooks: as many pytest processes as there are cores, and hear what they tell.

A plugin tells by printing a line of JSON behind `PREFIX`; the rest of what pytest prints explains breakdowns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.grade.processes import cores

PREFIX = "LABKIT "
# Without what pytest does for tests of code: rewritten asserts, a cache, a garbage collection at the end.
LEAN = ("--assert=plain", *("-p", "no:cacheprovider"), *("-p", "no:unraisableexception"))
BASE = [
    *(sys.executable, "-m", "pytest", "-s", "-q", "--no-header", "--tb=short", "--color=no", *LEAN),
    *("-c", os.devnull, "-p", "labkit.grade.lanes.nbval_quick", "-p", "nbval.plugin"),
    *("--nbval-current-env", "--nbval-kernel-startup-timeout=120"),
]


def tell(**content: Any) -> None:
    """Say something to the process that started this pytest."""
    print(f"\n{PREFIX}{json.dumps(content)}", file=sys.__stdout__, flush=True)


def run(
    files: list[Path],
    options: list[str],
    lane: str,
    hear: Callable[[dict[str, Any]], None],
    environment: dict[str, str],
) -> str:
    """Run the files, shared out to several processes. Returns the last words of one that broke down, or "".

    `hear` is called with each message, by one thread at a time.
    """
    jobs = min(len(files), cores())
    processes = [
        _start(files[job::jobs], options, {**environment, "LABKIT_LANE": lane}) for job in range(jobs)
    ]
    lock = threading.Lock()
    said: list[list[str]] = [[] for _ in processes]
    threads = [
        threading.Thread(target=_listen, args=(process, hear, lock, rest), daemon=True)
        for process, rest in zip(processes, said, strict=True)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        broken = [rest for process, rest in zip(processes, said, strict=True) if process.wait() not in (0, 1)]
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    return next((rest[-1] for rest in broken if rest), "pytest broke down") if broken else ""


def _start(files: list[Path], options: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    return subprocess.Popen(
        [*BASE, *options, *map(str, files)],
        env={**os.environ, **environment, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def _listen(
    process: subprocess.Popen[str],
    hear: Callable[[dict[str, Any]], None],
    lock: threading.Lock,
    rest: list[str],
) -> None:
    """Pass messages on until the process ends; other lines go to `rest`."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            if line.startswith(PREFIX):
                with lock:
                    hear(json.loads(line.removeprefix(PREFIX)))
            elif line.strip():
                rest.append(line.strip())
