"""DataLoader: batches from a dataset, made in this process or by several worker processes."""

import itertools
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import labkit

from .collate import default_collate
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .worker import Worker, WorkerInfo


class DataLoader:
    """Batches of a dataset: `for x, y in DataLoader(dataset, batch_size=32, shuffle=True): ...`

    The order depends on `generator` (or `labkit.manual_seed`) and never on `num_workers`. With
    `batch_size=None` samples come one by one. Worker i starts from the seed `base + i`, where base is drawn
    from the generator; `worker_init_fn(i)` runs after that. pin_memory and persistent_workers are refused.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
    ) -> None:
        streaming = isinstance(dataset, IterableDataset)
        _refuse("pin_memory=True is not supported", pin_memory)
        _refuse("persistent_workers=True is not supported", persistent_workers)
        _refuse(f"num_workers should be 0 or more, got {num_workers}", num_workers < 0)
        _refuse(f"timeout should be 0 (wait forever) or seconds to wait, got {timeout}", timeout < 0)
        _refuse("give sampler or shuffle=True, not both", sampler is not None and shuffle)
        _refuse(
            "batch_sampler makes the batches: leave out batch_size, shuffle, sampler and drop_last",
            batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last),
        )
        _refuse(
            "an IterableDataset decides its own order: leave out shuffle, sampler and batch_sampler",
            streaming and (shuffle or sampler is not None or batch_sampler is not None),
        )
        _refuse("drop_last=True needs a batch_size", batch_size is None and drop_last)
        self.dataset = dataset
        self.batch_size = batch_size if batch_sampler is None else None
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        if streaming:
            sampler = itertools.repeat(0)  # its number of items is all that counts
        elif sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (_as_is if batch_sampler is None else default_collate)
        fetcher = _StreamFetcher if streaming else _IndexFetcher
        self._fetcher = partial(
            fetcher, collate_fn=self.collate_fn, batched=batch_sampler is not None, drop_last=drop_last
        )

    def __len__(self) -> int:
        """The number of batches."""
        if isinstance(self.dataset, IterableDataset):
            samples = range(len(self.dataset))  # type: ignore[arg-type]
            if self.batch_size is None:
                return len(samples)
            return len(BatchSampler(samples, self.batch_size, self.drop_last))
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        # Drawn even without workers, so that the order is the same with and without them.
        seed = int(labkit.randint(0, 2**31 - 1, (1,), generator=self.generator).item())
        tasks = iter(self.sampler if self.batch_sampler is None else self.batch_sampler)
        return self._load_here(tasks) if self.num_workers == 0 else self._load_in_workers(tasks, seed)

    def _load_here(self, tasks: Iterator[Any]) -> Iterator[Any]:
        fetch = self._fetcher(self.dataset)
        for task in tasks:
            batch = fetch(task)
            if isinstance(batch, _EndOfStream):
                return
            yield batch

    def _load_in_workers(self, tasks: Iterator[Any], seed: int) -> Iterator[Any]:
        """Deal tasks to the workers in turn and collect the batches in the same order."""
        context = multiprocessing.get_context(self.multiprocessing_context)
        workers: list[Worker] = []
        try:
            for i in range(self.num_workers):
                info = WorkerInfo(i, self.num_workers, seed + i, self.dataset)
                workers.append(Worker(context, info, self._fetcher, self.worker_init_fn))
            idle = deque(workers * self.prefetch_factor)  # who takes the next tasks
            busy: deque[Worker] = deque()  # who owes the next batches
            _deal(tasks, idle, busy)
            while busy:
                worker = busy.popleft()
                batch = worker.receive(self.timeout)
                if isinstance(batch, _EndOfStream):  # this worker gets no more tasks
                    continue
                idle.append(worker)
                _deal(tasks, idle, busy)
                yield batch
        finally:
            for worker in workers:
                worker.stop()


def _deal(tasks: Iterator[Any], idle: deque[Worker], busy: deque[Worker]) -> None:
    while idle and (task := next(tasks, None)) is not None:
        worker = idle.popleft()
        worker.send(task)
        busy.append(worker)


class _EndOfStream:
    """What a fetcher returns when an IterableDataset has no more samples."""


class _IndexFetcher:
    """Indices to batch."""

    def __init__(
        self, dataset: Any, collate_fn: Callable[[Any], Any], batched: bool, drop_last: bool
    ) -> None:
        self.dataset, self.collate_fn, self.batched = dataset, collate_fn, batched

    def __call__(self, task: Any) -> Any:
        return self.collate_fn([self.dataset[i] for i in task] if self.batched else self.dataset[task])


class _StreamFetcher:
    """As many samples of the stream as there are indices to batch."""

    def __init__(
        self, dataset: Any, collate_fn: Callable[[Any], Any], batched: bool, drop_last: bool
    ) -> None:
        self.stream = iter(dataset)
        self.collate_fn, self.batched, self.drop_last = collate_fn, batched, drop_last

    def __call__(self, task: Any) -> Any:
        wanted = len(task) if self.batched else 1
        samples = list(itertools.islice(self.stream, wanted))
        if not samples or (self.drop_last and len(samples) < wanted):
            return _EndOfStream()
        return self.collate_fn(samples if self.batched else samples[0])


def _as_is(sample: Any) -> Any:
    return sample


def _refuse(message: str, when: Any) -> None:
    if when:
        raise ValueError(f"DataLoader: {message}")
