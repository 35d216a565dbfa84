"""The parts of the report. Each function measures something and returns a table as text."""

import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from labkit.bench import plots
from labkit.bench.harness import Comparison, Worker, compare, prepare, with_workers
from labkit.bench.micro import OPS
from labkit.steps import STEPS
from labkit.text import ruled


@dataclass(frozen=True)
class Options:
    """What to measure and how long. `engines` starts with torch, to which all others are compared."""

    engines: list[str]
    threads: list[int]
    rounds: int
    seconds: float
    reports: Path


def _ratios(name: str, result: Comparison, engines: list[str], clock: str) -> list[str]:
    """A row: torch in milliseconds, every other engine relative to it."""
    torch = result.times.get("torch")
    row = [name, f"{torch.median(clock) * 1e3:.2f}" if torch else "-"]
    for engine in engines[1:]:
        ratio = result.ratio(engine, clock)
        row.append("-" if ratio is None else f"{ratio:.2f}")
    return row


def _reasons(results: dict[str, Comparison]) -> str:
    """Why a cell is empty."""
    return "".join(f"\n{n}: no {e}: {why}" for n, r in results.items() for e, why in r.missing.items())


def _steps(options: Options, workers: list[Worker]) -> dict[str, Comparison]:
    """The comparison of each training step; says where it is, as engines that compile take minutes."""
    results = {}
    for case in STEPS:
        print(f"{case.model}, threads: {workers[0].threads} …", file=sys.stderr, flush=True)
        results[case.model] = compare(workers, prepare(case), options.rounds, options.seconds)
    return results


def steps(options: Options) -> str:
    """Each training step on each number of threads: wall clock and processor time, relative to torch."""
    text, plotted = [], {}
    for threads in options.threads:
        results = with_workers(options.engines, threads, partial(_steps, options))
        for clock, words in (("wall", "wall clock"), ("cpu", "processor time of all threads")):
            rows = [_ratios(name, r, options.engines, clock) for name, r in results.items()]
            title = f"{threads} thread{'s'[: threads > 1]}, {words}; torch in ms, the others relative to it"
            text.append(f"{title}\n\n{ruled(['step', 'torch ms', *options.engines[1:]], rows)}")
        text[-1] += _reasons(results)
        plotted[threads] = results
    plots.steps(plotted, options.engines, options.reports / "steps.png")
    return "\n\n".join(text)


def micro_ops(options: Options) -> str:
    """labkit and torch, one thread, forward and backward of single operations."""
    engines = ["torch", "labkit"]

    def run(workers: list[Worker]) -> dict[str, Comparison]:
        seconds = options.seconds / 4
        return {op: compare(workers, {"do": "prepare_op", "op": op}, options.rounds, seconds) for op in OPS}

    results = with_workers(engines, 1, run)
    rows = [_ratios(name, r, engines, "cpu") for name, r in results.items()]
    title = "1 thread, processor time; torch in ms, labkit relative to it\n\n"
    return title + ruled(["operation", "torch ms", "labkit"], rows) + _reasons(results)


def memory(options: Options) -> str:
    """Resident memory that training adds, one process per engine (worker.peak_memory); torch and labkit."""
    if not sys.platform.startswith("linux"):
        return "Measured on Linux only: it reads /proc."

    def run(workers: list[Worker]) -> list[float]:
        ask = workers[0].ask
        return [median(ask(do="memory", case=asdict(case))["peak"] for _ in range(3)) for case in STEPS]

    rows = []
    peaks = zip(*(with_workers([engine], 1, run) for engine in ("torch", "labkit")), strict=True)
    for case, (torch, labkit) in zip(STEPS, peaks, strict=True):
        rows.append([case.model, f"{torch / 2**20:.1f}", f"{labkit / 2**20:.1f}", f"{labkit / torch:.2f}"])
    title = "Resident memory that three training steps add once all code is loaded (MB), median of 3\n\n"
    return title + ruled(["step", "torch", "labkit", "ratio"], rows)


GROWTH: dict[str, dict[str, list[int]]] = {
    "mlp": {"batch": [16, 64, 256], "width": [64, 256, 1024]},
    "cnn": {"batch": [16, 64, 128], "width": [8, 16, 32]},
    "lstm": {"batch": [8, 32, 64], "length": [16, 32, 64]},
    "gpt": {"batch": [4, 16, 32], "width": [64, 128, 256], "length": [32, 64, 128]},
}


def sizes(options: Options) -> str:
    """labkit and torch, one thread: one size of each step varied, the others as in `steps`."""
    base = {case.model: case for case in STEPS}
    curves: dict[tuple[str, str], list[tuple[int, float, float]]] = {}

    def run(workers: list[Worker]) -> None:
        for model, sizes in GROWTH.items():
            for size, values in sizes.items():
                for value in values:
                    case = replace(base[model], **{size: value})  # type: ignore[arg-type]
                    result = compare(workers, prepare(case), 3, options.seconds / 4)
                    torch, labkit = (result.times[e].median("cpu") * 1e3 for e in ("torch", "labkit"))
                    curves.setdefault((model, size), []).append((value, torch, labkit))

    with_workers(["torch", "labkit"], 1, run)
    plots.sizes(curves, options.reports / "sizes.png")
    rows = [
        [f"{model} {size} {value}", f"{torch:.2f}", f"{labkit:.2f}", f"{labkit / torch:.2f}"]
        for (model, size), points in curves.items()
        for value, torch, labkit in points
    ]
    title = "1 thread, processor time in ms; the other sizes as in the training steps\n\n"
    return title + ruled(["step", "torch", "labkit", "ratio"], rows)


def import_time(options: Options) -> str:
    """Wall clock of a fresh interpreter that imports something, less an idle one; median of 5."""

    def once(statement: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        return time.perf_counter() - start

    statements = ["pass", "import labkit", "import labkit; labkit.zeros(1)", "import numpy", "import torch"]
    times = {s: median(once(s) for _ in range(5)) for s in statements}
    rows = [[s, f"{(times[s] - times['pass']) * 1e3:.0f}"] for s in statements[1:]]
    return ruled(["statement", "ms"], rows)
