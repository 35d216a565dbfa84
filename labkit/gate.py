"""`make test`: everything that CI runs, side by side where the machine has room.

python -m labkit test              the whole gate: kernels compiled, then tests, browser and solutions
python -m labkit test --week 8     what an author of one week needs: its notebooks, its audit, its solutions

What a job prints is shown when it ends, in one piece. `make test` lints first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from labkit import paths
from labkit.text import ruled

POLL_SECONDS = 0.2
STILL_SECONDS = 60  # after so long without a word, say what is running
PYTEST = ("pytest", "-n", "2", "--dist", "loadfile")


@dataclass
class Job:
    """One command, `python -m …`. Jobs of the same lane run one after the other, lanes side by side."""

    name: str
    command: tuple[str, ...]
    lane: int = 0
    seconds: float = 0.0
    code: int | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    output: IO[bytes] | None = field(default=None, repr=False)
    began: float = 0.0

    def start(self, root: Path) -> None:
        self.output = tempfile.TemporaryFile()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", *self.command],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ended(self) -> bool:
        assert self.process is not None
        self.code = self.process.poll()
        self.seconds = time.monotonic() - self.began
        return self.code is not None

    def said(self) -> str:
        """What it printed, once it has ended."""
        assert self.output is not None
        with self.output:
            self.output.seek(0)
            return self.output.read().decode("utf-8", "replace").rstrip()


def whole() -> list[Job]:
    """The browser waits more than it computes, so the solutions run behind it, beside the other tests."""
    return [
        Job("tests", (*PYTEST, "--no-loadscope-reorder", "--ignore", "tests/browser"), lane=0),
        Job("browser", (*PYTEST, "tests/browser"), lane=1),
        Job("solutions", ("labkit", "solutions"), lane=1),
    ]


def of_week(week: int) -> list[Job]:
    number = str(week)
    return [
        Job("notebooks are built", ("labkit", "build", "--check", "--week", number)),
        Job("audit", ("labkit", "audit", "--week", number)),
        Job("solutions", ("labkit", "solutions", "--week", number)),
    ]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m labkit test", description="Everything that CI runs.")
    parser.add_argument("--week", type=int, help="only what an author of this week needs")
    options = parser.parse_args(argv)
    root = paths.root()
    if options.week is not None:
        jobs = of_week(options.week)
    else:
        if subprocess.run([sys.executable, "-m", "labkit", "warm"], cwd=root).returncode:
            return 1
        jobs = whole()
    run(jobs, root)
    rows = [[job.name, "ok" if job.code == 0 else "FAILED", f"{job.seconds:.0f}"] for job in jobs]
    print(ruled(["job", "", "seconds"], rows), flush=True)
    return int(any(job.code for job in jobs))


def run(jobs: list[Job], root: Path) -> None:
    """Run them all, whatever fails; show what each said as soon as it has ended."""
    waiting, running, told = list(jobs), list[Job](), time.monotonic()
    try:
        while waiting or running:
            taken = {job.lane for job in running}
            for job in list(waiting):
                if job.lane not in taken:
                    taken.add(job.lane)
                    waiting.remove(job)
                    running.append(job)
                    job.start(root)
                    print(f"{job.name} ...", flush=True)
            time.sleep(POLL_SECONDS)
            for job in [job for job in running if job.ended()]:
                running.remove(job)
                told = time.monotonic()
                words = "" if job.code == 0 else f" failed with {job.code}"
                print(f"\n{job.name}{words}, {job.seconds:.0f} s\n{job.said()}\n", flush=True)
            if running and time.monotonic() - told > STILL_SECONDS:
                told = time.monotonic()
                print("still running: " + ", ".join(job.name for job in running), flush=True)
    finally:
        for job in running:
            _end(job)


def _end(job: Job) -> None:
    """End a job and the processes it started."""
    assert job.process is not None and job.output is not None
    job.output.close()
    if hasattr(os, "killpg"):
        os.killpg(job.process.pid, 15)
    else:
        job.process.terminate()
    job.process.wait()
