"""The same code on torch's threaded process group: its private modules are where they were."""

import threading

import pytest
import torch

from labkit import ranks
from labkit.ranks.report import RanksError


def three(value=1.0):
    return [torch.full((2,), value * rank) for rank in range(3)]


def total(dist, x):
    dist.all_reduce(x)
    return x


def test_values_of_every_rank_and_nothing_left_behind():
    before = threading.active_count()
    assert [value.tolist() for value in ranks.run(3, total, three())] == [[3.0, 3.0]] * 3
    assert not torch.distributed.is_initialized() and threading.active_count() == before


def test_a_rank_that_skips_a_collective_is_told_after_the_time_out_and_the_next_run_works():
    def skips(dist, x):
        if dist.get_rank() != 1:
            dist.all_reduce(x)

    with pytest.raises(RanksError, match=r"still wait in a collective: \[0, 2\]; these have ended: \[1\]"):
        ranks.run(3, skips, three(), timeout=0.3)
    assert ranks.run(3, total, three())[0].tolist() == [3.0, 3.0]


def test_an_error_of_one_rank_is_raised_with_its_rank():
    def fails(dist, x):
        if dist.get_rank() == 2:
            raise ValueError("no")
        dist.all_reduce(x)

    with pytest.raises(ValueError, match="no") as caught:
        ranks.run(3, fails, three())
    assert caught.value.__notes__ == ["This was rank 2 of 3."]


def test_distributed_data_parallel_is_one_batch():
    x, y = torch.randn(4, 5, 3), torch.randn(4, 5, 1)
    weights = torch.nn.Linear(3, 1).state_dict()

    def gradient(model, x, y):
        model.load_state_dict(weights)
        parallel = torch.nn.parallel.DistributedDataParallel(model) if x.ndim == 2 and len(x) == 5 else model
        (parallel(x) - y).square().mean().backward()
        return model.weight.grad

    whole = gradient(torch.nn.Linear(3, 1), x.reshape(20, 3), y.reshape(20, 1))
    for part in ranks.run(4, lambda dist, x, y: gradient(torch.nn.Linear(3, 1), x, y), x, y):
        torch.testing.assert_close(part, whole)
