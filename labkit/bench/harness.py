"""Fair timing on a busy machine: engines in turn, in random order, round after round.

What disturbs one engine in a round disturbs the others too, so a ratio within a round says more than any
time; what is reported is the median of these ratios.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from labkit.steps import Case

THREAD_VARIABLES = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"]


def environment(engine: str, threads: int) -> dict[str, str]:
    """The variables an engine reads its thread count from, to be set before the process starts."""
    env = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
    if engine == "jax":
        flags = "--xla_cpu_multi_thread_eigen=" + ("false" if threads == 1 else "true")
        env |= {"XLA_FLAGS": f"{flags} intra_op_parallelism_threads={threads}", "JAX_PLATFORMS": "cpu"}
    if engine == "tinygrad":
        env |= {"DEV": "CPU", "THREADS": str(threads), "TRAINING": "1"}
    return env


class Worker:
    """An engine in its own process (worker.py). One that ended, or was ended, is started again when asked."""

    def __init__(self, engine: str, threads: int, patience: float = 600) -> None:
        self.engine, self.threads = engine, threads
        self.patience = patience  # seconds for an answer: some engines compile for minutes, or for ever
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "labkit.bench.worker", self.engine, str(self.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(self.engine, self.threads),
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        """Send a request and wait for the answer; an engine's failure raises EngineError."""
        if self.process.poll() is not None:
            self.process = self._start()
        assert self.process.stdin is not None and self.process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.process.kill()

        limit = threading.Timer(self.patience, give_up)
        limit.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            limit.cancel()
        if not line:
            self._end()
            raise EngineError(
                f"no answer within {self.patience:g} s" if late.is_set() else "its process ended"
            )
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise EngineError(answer["error"])
        return answer

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]

    def close(self) -> None:
        """A worker ends when its input does."""
        if self.process.poll() is None:
            self.process.communicate(timeout=30)
        else:
            self._end()


class EngineError(RuntimeError):
    """An engine could not run a case."""


@dataclass
class Timing:
    """Seconds of one step in every round, for one engine."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def median(self, clock: str) -> float:
        return statistics.median(getattr(self, clock))

    def ratio(self, other: "Timing", clock: str) -> float:
        """The median over rounds of this engine's time divided by the other's in the same round."""
        pairs = zip(getattr(self, clock), getattr(other, clock), strict=True)
        return statistics.median(a / b for a, b in pairs)


@dataclass
class Comparison:
    """The engines that agreed with torch, timed; and why the others are missing."""

    times: dict[str, Timing] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def ratio(self, engine: str, clock: str) -> float | None:
        return self.times[engine].ratio(self.times["torch"], clock) if engine in self.times else None


def compare(workers: list[Worker], request: dict[str, Any], rounds: int, seconds: float) -> Comparison:
    """Prepare every worker, keep those whose results equal torch's, and time them in interleaved rounds.

    `seconds` is about how long an engine runs in one round.
    """
    result, ready, results, counts = Comparison(), [], {}, {}
    for worker in workers:
        try:
            results[worker.engine] = worker.ask(**request)
            worker.ask(do="time", count=1)
            once = worker.ask(do="time", count=2)["wall"]
            counts[worker.engine] = max(1, min(1000, round(seconds / once)))
            ready.append(worker)
        except EngineError as error:
            result.missing[worker.engine] = str(error)
    for worker in list(ready):
        if not _close(results[worker.engine], results.get("torch")):
            result.missing[worker.engine] = f"its results {results[worker.engine]} are not torch's"
            ready.remove(worker)
    result.times = {w.engine: Timing() for w in ready}
    for _ in range(rounds):
        for worker in random.sample(ready, len(ready)):
            taken = worker.ask(do="time", count=counts[worker.engine])
            result.times[worker.engine].wall.append(taken["wall"])
            result.times[worker.engine].cpu.append(taken["cpu"])
    return result


def _close(found: list[float], expected: list[float] | None, tolerance: float = 1e-3) -> bool:
    """Are all numbers equal up to rounding? Losses after two updates have been through the gradients."""
    if expected is None or len(found) != len(expected):
        return False
    return all(abs(a - b) <= tolerance * (1 + abs(b)) for a, b in zip(found, expected, strict=True))


def with_workers(engines: list[str], threads: int, run: Callable[[list[Worker]], Any]) -> Any:
    """Start one worker per engine, call `run` with them, and end them."""
    workers = [Worker(engine, threads) for engine in engines]
    try:
        return run(workers)
    finally:
        for worker in workers:
            worker.close()


def prepare(case: Case) -> dict[str, Any]:
    """The request that builds a training case."""
    return {"do": "prepare", "case": asdict(case)}
