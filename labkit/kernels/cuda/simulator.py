"""Numba's CUDA simulator, made to fit: shared arrays by block, and barriers without polling.

The simulator runs each CUDA thread as a Python thread. Its own loop asks all threads again and again whether
they have reached a barrier, which takes more time than the kernel. Here each thread tells: `arrived` is
released once per thread and round, at a barrier or at the thread's end.
"""

import math
import sys
import threading
from typing import Any

import numpy as np
from numba.cuda.simulator import kernel


class Simulated:
    """The simulator's `cuda` of the kernel that runs now, for all files; its own way serves one at a time."""

    def __init__(self, numba_cuda: Any) -> None:
        self._numba = numba_cuda
        kernel.BlockManager = Block

    def __getattr__(self, name: str) -> Any:
        return getattr(kernel._get_kernel_context() or self._numba, name)

    @property
    def shared(self) -> Any:
        """Shared arrays by block and source line. The simulator's own may give two threads two arrays."""
        return self

    def array(self, shape: Any, dtype: Any) -> Any:
        caller, block = sys._getframe(1), self.blockIdx
        arrays = self._const.__dict__  # lives as long as the launch
        key = f"{caller.f_code.co_filename}:{caller.f_lineno}:{block.x}:{block.y}:{block.z}"
        fresh = np.frombuffer(b"\xff" * (math.prod(np.atleast_1d(shape)) * dtype.itemsize), dtype)
        return arrays.setdefault(key, fresh.reshape(shape).copy())  # not yet written: NaN or -1


class Thread(kernel.BlockThread):
    """One CUDA thread, which tells its block when it waits at a barrier and when it is done"""

    done = False

    def run(self) -> None:
        super().run()
        self.done = True
        self._manager.arrived.release()

    def syncthreads(self) -> None:
        self._manager.arrived.release()
        self.syncthreads_event.wait()
        self.syncthreads_event.clear()
        if self.abort:
            raise RuntimeError("another thread of the block failed")


class Block(kernel.BlockManager):
    """The threads of one block, from barrier to barrier; threads that are done are not waited for"""

    def run(self, grid_point: Any, *arguments: Any) -> None:
        self.arrived = threading.Semaphore(0)
        places = np.ndindex(*self._block_dim)
        threads = [Thread(lambda: self._f(*arguments), self, grid_point, p, self._debug) for p in places]
        for thread in threads:
            thread.start()
        while threads:
            for _ in threads:
                self.arrived.acquire()
            failed = next((t.exception for t in threads if t.exception), None)
            threads = [t for t in threads if not t.done]
            for thread in threads:
                thread.abort = failed is not None
                thread.syncthreads_event.set()
            if failed:
                raise failed[0].with_traceback(failed[1])
