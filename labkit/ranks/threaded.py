"""`run(n, f)`: the same code on torch's own collectives, in threads of one process.

torch tests itself with a process group whose ranks are threads. It lives in private modules, which are safe
here because torch is pinned; only this file knows them. It has collectives, DDP and FSDP, but no send and
recv: for those there is `World`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from labkit.ranks.report import RanksError


def run(n: int, f: Callable[..., Any], *inputs: Sequence[Any], timeout: float = 30.0) -> list[Any]:
    """Call `f(torch.distributed, ...)` on n ranks and return what each returned.

    Of each of `inputs`, rank r is given the r-th. If a rank raises, so does this; if some rank never comes to
    a collective, this says which ranks wait after `timeout` seconds: `World` would say the line, at once.
    """
    import torch.distributed as dist
    from torch.testing._internal.distributed import multi_threaded_pg as threaded

    values: list[Any] = [None] * n
    errors: dict[int, BaseException] = {}
    threaded.ProcessLocalGroup.reset()  # what a run before this one may have left
    store = dist.HashStore()

    def live(rank: int) -> None:
        try:
            dist.init_process_group(backend="threaded", rank=rank, world_size=n, store=store)
            values[rank] = f(dist, *(given[rank] for given in inputs))
        except SystemExit:  # how the group ends those that wait when another has failed
            pass
        except BaseException as error:
            errors[rank] = error
            threaded.ProcessLocalGroup.exception_handle(error)
        finally:
            dist.destroy_process_group()

    threaded._install_threaded_pg()
    isolate = _isolation()
    isolate(True)
    try:
        threads = [threading.Thread(target=live, args=(rank,), daemon=True) for rank in range(n)]
        for thread in threads:
            thread.start()
        late = _join(threads, timeout)
        if late:
            threaded.ProcessLocalGroup.exception_handle(None)
            _join(threads, 5)
    finally:
        isolate(False)
        threaded._uninstall_threaded_pg()
    if errors:
        rank = min(errors)
        errors[rank].add_note(f"This was rank {rank} of {n}.")
        raise errors[rank]
    if late:
        raise RanksError(_waited(late, n, timeout))
    return values


def _isolation() -> Callable[[bool], None]:
    """torch's switch that keeps the groups of different threads apart."""
    import torch

    switch: Callable[[bool], None] = torch._C._distributed_c10d._set_thread_isolation_mode
    return switch


def _join(threads: list[threading.Thread], seconds: float) -> list[int]:
    """Wait for all of them together; the ranks that have not ended by then."""
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return [rank for rank, thread in enumerate(threads) if thread.is_alive()]


def _waited(late: list[int], n: int, timeout: float) -> str:
    ended = [rank for rank in range(n) if rank not in late]
    words = f"after {timeout:g} s these ranks still wait in a collective: {late}; these have ended: {ended}. "
    return words + "Every rank has to call the same collectives. `World(n).run(f)` names the line."
