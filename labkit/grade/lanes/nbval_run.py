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

from labkit.grade import processes as running

PREFIX = "LABKIT "
LAST_WORDS_SECONDS = 5  # to read what a pytest that has ended left in the pipe
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
    jobs = min(len(files), running.cores())
    environment = {**environment, "LABKIT_LANE": lane}
    processes = [_start(files[job::jobs], options, environment) for job in range(jobs)]
    lock = threading.Lock()
    said: list[list[str]] = [[] for _ in processes]
    threads = [
        threading.Thread(target=_listen, args=(process, hear, lock, rest), daemon=True)
        for process, rest in zip(processes, said, strict=True)
    ]
    try:
        for thread in threads:
            thread.start()
        for process, thread in zip(processes, threads, strict=True):
            process.wait()
            thread.join(LAST_WORDS_SECONDS)  # the pipe may never end: whatever an answer started has it too
    finally:
        for process in processes:
            if process.poll() is None:
                running.end_family(process.pid)
                process.kill()
            process.wait()
    ends = [(process.returncode, rest) for process, rest in zip(processes, said, strict=True)]
    return next((_last_words(code, rest) for code, rest in ends if code not in (0, 1)), "")


def _last_words(code: int, rest: list[str]) -> str:
    """Why a pytest broke down. Its row of dots, one for each cell that ran, is no reason."""
    if code < 0:
        return f"the process that runs the checks was ended from outside (signal {-code})"
    words = [line for line in rest if line.strip(".FEsx[]%0123456789 ")]
    return words[-1] if words else "pytest broke down"


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
