"""Compile every kernel once and keep the result on disk: `python -m labkit warm`, part of `make lab`, `make
test`.

Without this the first call of each kernel would stop a lesson for a second or two. Every job below trains or
runs something tiny, so that each kernel is compiled for the types it is used with, serial and parallel; the
second run only loads what the first one left.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from tqdm import tqdm


def _jobs() -> dict[str, Callable[[], Any]]:
    """Name -> something small that runs a family of kernels, forward and backward."""
    import labkit
    from labkit.nn import functional as F
    from labkit.steps import STEPS, Trainer

    def through(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Any]:
        def run() -> None:
            inputs = [labkit.randn(*shape).requires_grad_() for shape in shapes]
            function(*inputs).sum().backward()

        return run

    x = (8, 40)
    elementwise: dict[str, Callable[..., Any]] = {
        "erf": labkit.erf,
        "sigmoid": labkit.sigmoid,
        "tanh": labkit.tanh,
        "gelu": F.gelu,
        "silu": F.silu,
        "leaky_relu": F.leaky_relu,
        "softmax": lambda t: F.softmax(t, dim=-1),
        "log_softmax": lambda t: F.log_softmax(t, dim=-1),
    }
    jobs: dict[str, Callable[[], Any]] = {case.model: Trainer(labkit, case).step for case in STEPS}
    jobs |= {name: through(function, x) for name, function in elementwise.items()}
    jobs["rms_norm"] = through(lambda t, w: F.rms_norm(t, (40,), w), x, (40,))
    jobs["gru"] = through(lambda t: labkit.nn.GRU(3, 4)(t)[0], (2, 5, 3))
    jobs["sgd"] = _momentum_step
    return jobs


def _momentum_step() -> None:
    import labkit

    p = labkit.nn.Parameter(labkit.zeros(4))
    p.grad = labkit.ones(4)
    labkit.optim.SGD([p], lr=0.1, momentum=0.9).step()


def _both_ways(job: Callable[[], Any]) -> None:
    """Run a job with every loop serial, then with every loop parallel."""
    from labkit.kernels.numba import jit

    for choice in ("serial", "parallel"):
        with jit.always(choice):
            job()


def main(argv: list[str]) -> int:
    """Compile, with a progress bar; a sentence at the end says how long it took."""
    if argv:
        print("python -m labkit warm takes no arguments: it compiles every kernel.", file=sys.stderr)
        return 2
    start = time.perf_counter()
    jobs = _jobs()
    for name in (bar := tqdm(jobs, desc="Compiling kernels", unit="family", leave=False, disable=None)):
        bar.set_postfix_str(name)
        _both_ways(jobs[name])
    print(f"Kernels are ready ({time.perf_counter() - start:.0f} s).")
    return 0
