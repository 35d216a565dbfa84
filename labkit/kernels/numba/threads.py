"""Start Numba's threads so that they share the cores with the matrix products and with torch.

Three thread pools can live in one process: Numba's (an OpenMP library), NumPy's matrix products (OpenBLAS)
and torch's (an OpenMP library again). An OpenMP thread that has finished its part keeps spinning for
milliseconds in case more work comes; meanwhile OpenBLAS wants that core. A training step alternates between
kernels and products, and one pair of them was measured at 8.0 ms with that waiting, 0.35 ms without it. So
Numba's library is told to give the core up soon. Torch only ever waits for itself and likes to spin, so its
library must keep its own setting; the two are kept apart by loading two copies, whichever of torch and
labkit comes first.
"""

import ctypes
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numba
import numba.core.config as numba_config

# How long an idle thread spins (GNU OpenMP counts turns of a loop): about 10 microseconds, enough to catch
# the next kernel of a chain, far less than a matrix product. Other OpenMP libraries read only the policy.
_WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}

_forked = False
_pool: ThreadPoolExecutor | None = None


def _in_child() -> None:
    """GNU OpenMP does not survive a fork (a child that starts a parallel loop is ended): children stay
    serial.
    """
    global _forked
    _forked = True


def _load_torch_openmp() -> None:
    """Give torch its own copy of OpenMP, read with torch's settings, before ours takes the name (Linux)."""
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        library = Path(torch.origin).parent / "lib" / "libgomp.so.1"
        if library.exists():
            ctypes.CDLL(str(library))


def start() -> None:
    """Load the threading layer once, with `_WAITING` in force only while its OpenMP library reads it."""
    numba_config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
    chosen = "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ
    linux = sys.platform.startswith("linux")
    if linux and not chosen:
        _load_torch_openmp()
        flags = sys.getdlopenflags()
        sys.setdlopenflags(flags | os.RTLD_DEEPBIND)  # bind to our copy, not to the one torch made global
    if not chosen:
        os.environ.update(_WAITING)
    try:
        from numba.np.ufunc.parallel import _launch_threads

        _launch_threads()
    finally:
        if not chosen:
            for name in _WAITING:
                del os.environ[name]
        if linux and not chosen:
            sys.setdlopenflags(flags)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)


class _Inside(threading.local):
    part = False  # whether this thread runs a part of `split`


_inside = _Inside()


def count() -> int:
    """Threads a kernel may use now: `numba.set_num_threads(n)` changes it; a forked child and a part of
    `split` have one.
    """
    return 1 if _forked or _inside.part else numba.get_num_threads()


def split(work: Callable[[slice], None], size: int) -> None:
    """Call `work` with equal parts of range(size), one for each thread, and wait for all of them.

    For many products that are each too small for BLAS to share out. NumPy and compiled loops let go of
    Python's lock while they run, so plain Python threads are enough.
    """
    global _pool
    parts = min(count(), size)
    if parts < 2:
        return work(slice(size))
    if _pool is None:
        _pool = ThreadPoolExecutor(numba.config.NUMBA_NUM_THREADS, "labkit")
    slices = [slice(size * i // parts, size * (i + 1) // parts) for i in range(parts)]
    others = [_pool.submit(_run_part, work, part) for part in slices[1:]]
    try:
        _run_part(work, slices[0])
    finally:
        wait(others)  # they write into arrays of the caller
    for other in others:
        other.result()  # raises what the part raised


def _run_part(work: Callable[[slice], None], part: slice) -> None:
    _inside.part = True
    try:
        work(part)
    finally:
        _inside.part = False
