"""A DataLoader's worker process: the loop it runs, the parent's handle on it, and how errors travel back."""

import importlib
import pickle
import queue
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import labkit

_POLL_SECONDS = 1.0  # how often a waiting parent looks whether the worker is still alive
_HERE = str(Path(__file__).parent)
_info: "WorkerInfo | None" = None


@dataclass(frozen=True)
class WorkerInfo:
    """Who this worker is. An IterableDataset uses it to yield its own share of the stream."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> WorkerInfo | None:
    """The WorkerInfo of this process, or None outside a worker."""
    return _info


class _Text(str):
    """A message that KeyError, which shows the repr of its argument, prints line by line."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class WorkerError:
    """An exception as plain strings: the object itself may not survive the way between processes."""

    name: str
    module: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: Exception) -> "WorkerError":
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_HERE)]
        kind = type(error)
        return cls(kind.__qualname__, kind.__module__, str(error), "".join(traceback.format_list(frames)))

    def throw(self, worker_id: int) -> NoReturn:
        """Raise the same type of exception here, with the lines of the user's code that led to it."""
        text = f"{self.name} in DataLoader worker {worker_id}: {self.message}\n{self.traceback}".rstrip()
        text = _Text(text)
        try:
            error = getattr(importlib.import_module(self.module), self.name)(text)
        except Exception:  # the type exists only in the worker, or its constructor wants something else
            error = RuntimeError(text)
        raise error


def run(info: WorkerInfo, fetcher: Callable[[Any], Any], init_fn: Any, tasks: Any, results: Any) -> None:
    """Answer each task, a batch of indices, with a pickled batch, until a task is None."""
    global _info
    _info = info
    random.seed(info.seed)
    np.random.seed(info.seed % 2**32)  # noqa: NPY002 - user code may draw from NumPy's global state
    labkit.manual_seed(info.seed)
    try:
        with labkit.use_kernels("numpy"):  # OpenMP's threads do not survive a fork
            if init_fn is not None:
                init_fn(info.id)
            fetch = fetcher(info.dataset)
            while (task := tasks.get()) is not None:
                results.put(_pickled(fetch(task)))
    except Exception as error:
        results.put(pickle.dumps(WorkerError.of(error)))
    except KeyboardInterrupt:  # the parent reports it
        pass


def _pickled(batch: Any) -> bytes:
    """The batch as bytes: made here, not in the queue's own thread, where a failure would go unseen."""
    try:
        return pickle.dumps(batch)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise TypeError(
            f"a batch goes from worker to parent by pickle, and this one cannot ({error}). Return tensors, "
            "arrays and numbers from the dataset, or use num_workers=0."
        ) from None


class Worker:
    """The parent's handle on one process: send tasks, receive their batches in the same order."""

    def __init__(self, context: Any, info: WorkerInfo, fetcher: Callable[[Any], Any], init_fn: Any) -> None:
        self.id = info.id
        self.start_method = context.get_start_method()
        self.tasks = context.Queue()
        self.results = context.Queue()
        arguments = (info, fetcher, init_fn, self.tasks, self.results)
        self.process = context.Process(target=run, args=arguments, daemon=True)
        self.process.start()

    def send(self, task: Any) -> None:
        self.tasks.put(task)

    def receive(self, timeout: float) -> Any:
        """The next batch; an error if it does not come within `timeout` seconds (0: wait forever)."""
        start = time.monotonic()
        while True:
            alive = self.process.is_alive()  # asked before the queue: what a dying worker sent still counts
            try:
                result = pickle.loads(self.results.get(timeout=min(_POLL_SECONDS, timeout or _POLL_SECONDS)))
            except queue.Empty:
                if not alive:
                    self._died()
                if timeout and time.monotonic() - start >= timeout:
                    raise RuntimeError(f"DataLoader worker {self.id} sent nothing for {timeout} s") from None
                continue
            if isinstance(result, WorkerError):
                result.throw(self.id)
            return result

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        for channel in (self.tasks, self.results):
            channel.cancel_join_thread()
            channel.close()

    def _died(self) -> NoReturn:
        advice = "A negative code is a signal; -9 usually means that the machine ran out of memory."
        if self.start_method != "fork":
            advice = (
                f"Processes start by {self.start_method!r} here: the dataset, collate_fn and worker_init_fn "
                "must be defined in a .py file that can be imported, not in a notebook."
            )
        raise RuntimeError(
            f"DataLoader worker {self.id} died with exit code {self.process.exitcode}. {advice} "
            "Run with num_workers=0 to see the error in this process."
        )
