import os
import random
import signal
import time

import numpy as np
import pytest
import torch
import torch.utils.data as theirs

import labkit
from labkit import data


class Squares(data.Dataset):
    def __len__(self):
        return 11

    def __getitem__(self, i):
        return labkit.tensor([i, i * i]), i


class Broken(Squares):
    def __getitem__(self, i):
        if i == 5:
            raise KeyError(f"no picture for sample {i}")
        return super().__getitem__(i)


class CustomError(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} {b}")


class BrokenOddly(Squares):
    def __getitem__(self, i):
        raise CustomError("two", "arguments")


class Unpicklable(Squares):
    def __getitem__(self, i):
        return lambda: i


class Dying(Squares):
    def __getitem__(self, i):
        os.kill(os.getpid(), signal.SIGKILL)


class Sleepy(Squares):
    def __getitem__(self, i):
        time.sleep(30)


class Chance(Squares):
    def __getitem__(self, i):
        worker = data.get_worker_info()
        legacy = np.random.rand()  # noqa: NPY002
        return worker.id, random.random(), legacy, labkit.rand(1).item(), worker.seed


class Stream(data.IterableDataset):
    def __iter__(self):
        worker = data.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(range(first, 11, step))


class TorchStream(theirs.IterableDataset):
    def __iter__(self):
        worker = theirs.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(range(first, 11, step))


def batches(loader):
    return [[t.tolist() for t in batch] if isinstance(batch, list) else batch.tolist() for batch in loader]


SETTINGS = [
    {},
    {"batch_size": 4},
    {"batch_size": 4, "drop_last": True},
    {"batch_size": 3, "sampler": [5, 1, 1, 9]},
    {"batch_sampler": [[1, 2], [3], [0, 10, 4]]},
]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_batches_equal_torch(settings, workers):
    pairs = [(torch.tensor([i, i * i]), i) for i in range(11)]
    loader = data.DataLoader(Squares(), num_workers=workers, **settings)
    expected = theirs.DataLoader(pairs, **settings)
    assert batches(loader) == batches(expected)
    assert len(loader) == len(expected)
    assert batches(loader) == batches(expected)  # a loader can be iterated again


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker")
@pytest.mark.parametrize(
    "settings", [{"batch_size": 4}, {"batch_size": 4, "drop_last": True}, {"batch_size": None}]
)
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_streams_equal_torch(settings, workers):
    if settings["batch_size"] is None:
        ours = [int(i) for i in data.DataLoader(Stream(), num_workers=workers, **settings)]
        assert ours == [int(i) for i in theirs.DataLoader(TorchStream(), num_workers=workers, **settings)]
    else:
        ours = batches(data.DataLoader(Stream(), num_workers=workers, **settings))
        assert ours == batches(theirs.DataLoader(TorchStream(), num_workers=workers, **settings))


def test_order_depends_on_the_seed_and_not_on_the_workers():
    def order(workers, seed):
        generator = labkit.Generator().manual_seed(seed)
        loader = data.DataLoader(Squares(), 3, shuffle=True, num_workers=workers, generator=generator)
        return batches(loader), batches(loader)

    epochs = order(0, 1)
    assert epochs == order(2, 1)
    assert epochs != order(0, 2)
    assert epochs[0] != epochs[1]
    labkit.manual_seed(3)
    first = batches(data.DataLoader(Squares(), 3, shuffle=True))
    labkit.manual_seed(3)
    assert batches(data.DataLoader(Squares(), 3, shuffle=True, num_workers=1)) == first


def test_each_worker_has_a_seed_of_its_own():
    def draws(seed):
        generator = labkit.Generator().manual_seed(seed)
        loader = data.DataLoader(
            Chance(), 1, num_workers=2, generator=generator, collate_fn=lambda samples: samples[0]
        )
        return list(loader)

    first = draws(0)
    assert first == draws(0)
    assert first != draws(1)
    assert [sample[0] for sample in first] == [0, 1] * 5 + [0]
    assert len({sample[1:4] for sample in first}) == 11
    assert first[1][4] == first[0][4] + 1


def test_worker_init_fn_and_custom_collate():
    loader = data.DataLoader(
        Squares(),
        5,
        num_workers=2,
        worker_init_fn=lambda i: random.seed(i),
        collate_fn=lambda samples: (random.random(), [i for _, i in samples]),
        prefetch_factor=1,
    )
    seen = list(loader)
    assert [s[1] for s in seen] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10]]
    assert [seen[0][0], seen[1][0]] == [random.Random(0).random(), random.Random(1).random()]


def test_leaving_early_stops_the_workers():
    import multiprocessing

    for batch in data.DataLoader(Squares(), 1, num_workers=2):
        assert batch[1].tolist() == [0]
        break
    del batch
    deadline = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not multiprocessing.active_children()


def test_errors_of_the_dataset_keep_their_type_and_show_the_users_line():
    with pytest.raises(KeyError) as error:
        list(data.DataLoader(Broken(), 2, num_workers=2))
    text = str(error.value)
    assert len(text.splitlines()) == 3  # the message, the file and line, and the line itself
    assert "KeyError in DataLoader worker 0: 'no picture for sample 5'" in text
    assert "test_loader.py" in text
    assert "labkit/data" not in text
    with pytest.raises(KeyError, match="no picture"):
        list(data.DataLoader(Broken(), 2))
    with pytest.raises(RuntimeError, match="CustomError in DataLoader worker 0: two arguments"):
        list(data.DataLoader(BrokenOddly(), 2, num_workers=1))


def fail(worker_id):
    raise OSError("no such disk")


def test_errors_around_the_dataset():
    with pytest.raises(OSError, match="OSError in DataLoader worker 0: no such disk"):
        list(data.DataLoader(Squares(), num_workers=1, worker_init_fn=fail))
    with pytest.raises(TypeError, match=r"DataLoader worker 0: .*by pickle.*lambda.*num_workers=0"):
        list(data.DataLoader(Unpicklable(), None, num_workers=1))
    with pytest.raises(RuntimeError, match=r"DataLoader worker 0 died with exit code -9.*out of memory"):
        list(data.DataLoader(Dying(), num_workers=1))
    with pytest.raises(RuntimeError, match=r"DataLoader worker 0 sent nothing for 0.2 s"):
        list(data.DataLoader(Sleepy(), num_workers=1, timeout=0.2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shuffle": True, "sampler": [0]}, "sampler or shuffle=True, not both"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "leave out batch_size"),
        ({"batch_size": None, "drop_last": True}, "drop_last=True needs a batch_size"),
        ({"num_workers": -1}, "num_workers should be 0 or more, got -1"),
        ({"timeout": -1}, "timeout should be 0"),
        ({"pin_memory": True}, "pin_memory=True is not supported"),
        ({"persistent_workers": True}, "persistent_workers=True is not supported"),
        ({"batch_size": 0}, "batch_size should be a positive whole number, got 0"),
    ],
)
def test_arguments_that_contradict(settings, message):
    with pytest.raises(ValueError, match=message):
        data.DataLoader(Squares(), **settings)
    with pytest.raises(ValueError, match="an IterableDataset decides its own order"):
        data.DataLoader(Stream(), shuffle=True)


class Heavy(Squares):
    def __getitem__(self, i):
        x = labkit.ones(300, 300) * i
        return x.exp().sum()


def test_workers_compute_after_the_parent_used_its_threads():
    labkit.ones(500, 500).exp().sum()  # large enough for the compiled kernels to start their threads
    sums = [batch.item() for batch in data.DataLoader(Heavy(), num_workers=2)]
    np.testing.assert_allclose(sums, 90_000 * np.exp(np.arange(11)), rtol=1e-5)


def test_processes_that_start_afresh():
    dataset = data.TensorDataset(labkit.arange(5))
    loader = data.DataLoader(dataset, 2, num_workers=1, multiprocessing_context="spawn")
    assert batches(loader) == [[[0, 1]], [[2, 3]], [[4]]]
