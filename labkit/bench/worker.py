"""One engine in a process of its own, with its own thread count: `python -m labkit.bench.worker labkit 2`.

The harness writes one request a line to its standard input and reads one answer a line, both JSON. A worker
that is not asked anything waits for input, so engines never compete while one of them is measured.
"""

import ctypes
import gc
import importlib
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from labkit.steps import Case, Trainer

ENGINES = {
    "labkit": "labkit",
    "torch": "torch",
    "torch.compile": "torch",
    "jax": "labkit.bench.functional",
    "autograd": "labkit.bench.functional",
    "tinygrad": "labkit.bench.tiny",
}


def trainer(engine: str, case: Case) -> Any:
    """Something with `step() -> loss`, whatever the engine."""
    lib = importlib.import_module(ENGINES[engine])
    if engine in ("jax", "autograd", "tinygrad"):
        return lib.Trainer(engine, case)
    return Trainer(lib, case, lib.compile if engine == "torch.compile" else None)


def timed(step: Any, count: int) -> dict[str, float]:
    """Mean seconds of one call, by the wall clock and in processor time of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        step()
    return {"wall": (time.perf_counter() - wall) / count, "cpu": (time.process_time() - cpu) / count}


def _status(field: str) -> int:
    """Bytes, from Linux's account of this process: VmRSS (now) or VmHWM (highest since the last reset)."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found.group(1)) * 1024 if found else 0


def _resident() -> int:
    """Bytes in memory after everything that was freed has been handed back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return _status("VmRSS")


def peak_memory(engine: str, case: Case) -> dict[str, int]:
    """Resident memory that training adds to a process in which all code is already loaded.

    Train once and throw the model away, so that libraries, compiled kernels and their caches count as the
    start; then build it again, reset the high-water mark, train and read it. The same for every engine.
    """
    first = trainer(engine, case)
    for _ in range(3):
        first.step()
    del first
    start = _resident()
    again = trainer(engine, case)
    _resident()
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    for _ in range(3):
        again.step()
    return {"peak": _status("VmHWM") - start}


def main(engine: str, threads: int) -> None:
    if engine.startswith("torch"):
        import torch

        torch.set_num_threads(threads)
    if engine == "jax" and hasattr(
        os, "sched_setaffinity"
    ):  # it takes all cores it may use, whatever it is told
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    ready: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "prepare":  # build it and return the losses of the first steps
                ready = {"step": trainer(engine, Case(**request["case"])).step}
                answer: Any = [ready["step"]() for _ in range(3)]
            elif request["do"] == "prepare_op":
                from labkit.bench import micro

                step, facts = micro.build(importlib.import_module(ENGINES[engine]), request["op"])
                ready, answer = {"step": step}, facts()
            elif request["do"] == "memory":
                answer = peak_memory(engine, Case(**request["case"]))
            else:
                answer = timed(ready["step"], request["count"])
        except (
            Exception
        ) as error:  # an engine that cannot do a case is a line in the table, not the end of the run
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
