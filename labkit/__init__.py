"""labkit: learn PyTorch by building it.

`import labkit` is cheap on purpose: no torch, no NumPy. Every name below is loaded when it is first used,
so `labkit.check`, `labkit.tensor` and `labkit.nn.Linear` cost what they need and no more.
"""

import importlib
import os
from typing import Any

__version__ = "0.1.0"

# The threads of NumPy's matrix products keep spinning for 26 ms after a product, on a core that the compiled
# kernels want: a training step of a CNN on two threads took 11 ms. Told to give up after 2^18 cycles, about
# 0.1 ms, they let it take 6.5. It is read when NumPy is loaded, so it is set here, and for child processes.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "18")

_MODULES = (
    "autograd",
    "backends",
    "book",
    "compat",
    "cuda",
    "data",
    "datasets",
    "doctor",
    "dtypes",
    "exercises",
    "grade",
    "lane",
    "mine",
    "models",
    "nn",
    "ops",
    "optim",
    "paths",
    "ranks",
    "simt",
    "viz",
)
_GRADER = {
    "check": "labkit.grade.judge.check",
    "case": "labkit.grade.judge.check",
    "traceback": "labkit.grade.judge.check",
    "hint": "labkit.grade.progress.hint",
}


def __getattr__(name: str) -> Any:
    """Load a submodule, a grader function, or an engine name (`labkit.softmax`, `labkit.tensor`, …)."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _MODULES:
        return importlib.import_module(f"labkit.{name}")
    if name in _GRADER:
        value = getattr(importlib.import_module(_GRADER[name]), name)
    else:
        engine = importlib.import_module("labkit.engine")
        if not hasattr(engine, name):
            raise AttributeError(f"labkit has no name {name!r}{_nearest(name)}")
        value = getattr(engine, name)
    globals()[name] = value
    return value


def _nearest(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, __dir__(), 1)
    return f". Did you mean {near[0]!r}?" if near else ""


def __dir__() -> list[str]:
    engine = importlib.import_module("labkit.engine")
    return sorted({*_MODULES, *_GRADER, *engine.__all__, "__version__"})
