"""`make bench`: labkit beside torch and other engines, on the same weights, batches and number of threads.

Only equal computations are timed: an engine whose first losses differ from torch's is reported, not measured.
A section is a function of `Options` that returns text; to add one, write it and put it into `SECTIONS`.

Other engines are measured where they are installed; none is needed by the course:
- jax and autograd: `pip install jax autograd`.
- tinygrad: `pip install tinygrad`, and a clang to compile its kernels, as `clang` on the PATH or named in the
  variable CC. Version 19 works with tinygrad 0.14.0 (`apt install clang-19`, then `CC=clang-19 make bench`);
  with some older ones it stops with "unknown relocation type 10". It keeps what was compiled: after a change
  of compiler, point CACHEDB to a new file.
- torch.compile (`--compile`) needs a C++ compiler, and minutes to start.

An engine that has not answered after ten minutes is left out of that step.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import time
from pathlib import Path

from labkit.bench.grading import grader_speed
from labkit.bench.sections import Options, import_time, memory, micro_ops, sizes, steps

SECTIONS = {
    "steps": (steps, "the four training steps: time relative to torch"),
    "ops": (micro_ops, "single operations, forward and backward"),
    "memory": (memory, "peak memory of a training step"),
    "sizes": (sizes, "cost against batch, width and length"),
    "import": (import_time, "how long an import takes"),
    "grading": (grader_speed, "how quick the grader is"),
}
OTHERS = ["jax", "autograd", "tinygrad"]


def main(argv: list[str]) -> int:
    """Run the chosen sections; print the tables, keep them and the plots in reports/."""
    parser = argparse.ArgumentParser(
        prog="python -m labkit bench", description="Measure labkit beside torch."
    )
    parser.add_argument("sections", nargs="*", help=f"which parts (default: all): {', '.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of interleaved measurement")
    parser.add_argument("--seconds", type=float, default=0.2, help="about how long an engine runs in a round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--compile", action="store_true", help="measure torch.compile too (slow to start)")
    parser.add_argument("--reports", type=Path, default=Path("reports"), help="where tables and plots go")
    given = parser.parse_args(argv)
    unknown = [name for name in given.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}; choose from {', '.join(SECTIONS)}")

    installed = [name for name in OTHERS if importlib.util.find_spec(name)]
    engines = ["torch", "labkit", *(["torch.compile"] if given.compile else []), *installed]
    options = Options(engines, given.threads, given.rounds, given.seconds, given.reports)
    given.reports.mkdir(parents=True, exist_ok=True)
    absent = [name for name in OTHERS if name not in installed]
    lines = [f"{_machine()}, {_load()}", _versions(["torch", "numpy", "numba", *installed])]
    if absent:
        lines.append(f"Not installed, so not measured: {', '.join(absent)}.")
    print(*lines, sep="\n")
    for name in given.sections or SECTIONS:
        start = time.perf_counter()
        section, title = SECTIONS[name]
        text = f"\n## {title[0].upper()}{title[1:]}\n\n{section(options)}\n"
        print(text, f"({time.perf_counter() - start:.0f} s)", sep="", flush=True)
        lines.append(text)
    lines.append(f"At the end: {_load()}")
    print(f"\n{lines[-1]}")
    (given.reports / "bench.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"\nKept in {given.reports}/")
    return 0


def _machine() -> str:
    return f"{os.cpu_count()} cores {platform.processor() or platform.machine()}, {platform.system()}"


def _load() -> str:
    """How busy the machine is: what else runs disturbs wall-clock times, and processor time a little."""
    return f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"


def _versions(packages: list[str]) -> str:
    found = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    return ", ".join([f"Python {platform.python_version()}", *found])
