"""Ranks in one process: messages, collectives against torch's own, counts, and what can get stuck."""

import _thread
import threading
import time

import numpy as np
import pytest
import torch

from labkit.ranks import World
from labkit.ranks.report import RanksError


def ring(dist, x):
    """All-reduce: n - 1 steps in which pieces are summed, n - 1 in which they go round."""
    n, rank = dist.get_world_size(), dist.get_rank()
    out = x.copy()
    pieces = np.array_split(out, n)
    for step in range(n - 1):
        work = dist.isend(pieces[(rank - step) % n], (rank + 1) % n)
        arrived = np.empty_like(pieces[(rank - step - 1) % n])
        dist.recv(arrived, (rank - 1) % n)
        work.wait()
        pieces[(rank - step - 1) % n] += arrived
    for step in range(n - 1):
        work = dist.isend(pieces[(rank + 1 - step) % n], (rank + 1) % n)
        dist.recv(pieces[(rank - step) % n], (rank - 1) % n)
        work.wait()
    return out


def numbers(n, size, seed=0):
    """Whole numbers in float32, so that the order of a sum does not matter."""
    return [*np.random.default_rng(seed).integers(-99, 99, (n, size)).astype(np.float32)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_a_ring_gives_every_rank_the_sum_in_any_order_of_turns(n, seed):
    given = numbers(n, 10)
    result = World(n, seed=seed).run(ring, given)
    for value in result.values:
        np.testing.assert_array_equal(value, sum(given))


def test_bytes_messages_and_time_of_a_ring():
    result = World(8).run(ring, numbers(8, 16_000))
    assert [traffic.bytes for traffic in result.sent] == [112_000] * 8  # 2 * 7 / 8 of 64,000
    assert [traffic.messages for traffic in result.sent] == [14] * 8
    assert result.time == pytest.approx(14 * (10e-6 + 8_000e-9))
    assert (result.bytes, result.messages) == (896_000, 112)
    assert "all             112     896,000                112         896,000         252" in result.table()


def test_one_message_at_a_time_leaves_a_rank():
    def star(dist, x):
        if dist.get_rank():
            dist.recv(x, 0)
        else:
            for work in [dist.isend(x, peer) for peer in (1, 2, 3)]:
                work.wait()

    result = World(4, alpha=1.0, beta=0.0).run(star, numbers(4, 3))
    assert result.ok and result.seconds == [3.0, 1.0, 2.0, 3.0]


def test_ranks_differ_by_one_piece_where_sizes_do_not_divide():
    assert sorted(t.bytes for t in World(3).run(ring, numbers(3, 10)).sent) == [52, 52, 56]


# collectives are torch's


def gather(dist, x):
    out = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(out, x)
    return torch.stack(out)


def scatter(dist, x):
    out = torch.empty_like(x[:2])
    dist.reduce_scatter(out, [x[2 * r : 2 * r + 2].clone() for r in range(dist.get_world_size())])
    return out


def average(dist, x):
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    return x


def total(dist, x):
    dist.all_reduce(x)
    return x


def largest(dist, x):
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x


def smallest(dist, x):
    dist.all_reduce(x, op=dist.ReduceOp.MIN)
    return x


def product(dist, x):
    dist.all_reduce(x, op=dist.ReduceOp.PRODUCT)
    return x


def root(dist, x):
    dist.broadcast(x, 1)
    dist.barrier()
    return x


COLLECTIVES = [gather, scatter, average, total, largest, smallest, product, root]


@pytest.mark.parametrize("f", COLLECTIVES, ids=lambda f: f.__name__)
def test_the_same_function_under_the_stepper_and_under_torch(f):
    from labkit import ranks

    def given():
        return [torch.arange(6.0) * (r + 1) - 4 for r in range(3)]

    for mine, theirs in zip(World(3).run(f, given()).values, ranks.run(3, f, given()), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(
    ("f", "messages", "size"),
    [(gather, 3, 3 * 32), (scatter, 3, 3 * 8), (total, 6, 6 * 8)],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_collective_counts_as_a_ring(f, messages, size):
    result = World(4).run(f, [torch.ones(8) for _ in range(4)])
    assert [(t.messages, t.bytes) for t in result.sent] == [(messages, size)] * 4


def test_a_broadcast_counts_as_a_tree_and_a_barrier_as_no_bytes():
    result = World(6).run(root, [torch.ones(8) for _ in range(6)])
    assert sum(t.bytes for t in result.sent) == sum(t.bytes for t in result.received) == 5 * 32
    assert result.sent[1].bytes == 3 * 32  # the root sends in every one of three rounds
    assert result.sent[1].messages == 3 + 3


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32])
def test_messages_keep_their_dtype(dtype):
    def swap(dist, x):
        peer = 1 - dist.get_rank()
        work = dist.isend(x, peer)
        out = torch.empty_like(x)
        dist.irecv(out, peer).wait()
        work.wait()
        return out

    given = [torch.arange(3).to(dtype), torch.arange(3, 6).to(dtype)]
    values = World(2).run(swap, given).values
    assert torch.equal(values[0], given[1]) and torch.equal(values[1], given[0])


# what gets stuck


def send_first(dist, x):
    n, rank = dist.get_world_size(), dist.get_rank()
    dist.send(x, (rank + 1) % n)
    dist.recv(x, (rank - 1) % n)


def receive_first(dist, x):
    n, rank = dist.get_world_size(), dist.get_rank()
    dist.recv(x, (rank - 1) % n)
    dist.send(x, (rank + 1) % n)


def wrong_neighbor(dist, x):
    n, rank = dist.get_world_size(), dist.get_rank()
    work = dist.isend(x, (rank + 1) % n)
    dist.recv(torch.empty_like(x), (rank + 1) % n)
    work.wait()


def one_skips(dist, x):
    if dist.get_rank() != 1:
        dist.all_reduce(x)


def one_waits_elsewhere(dist, x):
    if dist.get_rank() == 1:
        dist.barrier()
    else:
        dist.all_reduce(x)


def other_operation(dist, x):
    dist.all_reduce(x, op=dist.ReduceOp.AVG if dist.get_rank() else dist.ReduceOp.SUM)


def other_shape(dist, x):
    dist.barrier()
    dist.all_reduce(x[: 1 + dist.get_rank()])


def other_root(dist, x):
    dist.broadcast(x, src=dist.get_rank())


def does_not_fit(dist, x):
    if dist.get_rank() == 0:
        dist.send(x, 1)
    elif dist.get_rank() == 1:
        dist.recv(x[:1], 0)


def nobody_receives(dist, x):
    if dist.get_rank() == 0:
        dist.isend(x, 2)


def nobody_sends(dist, x):
    if dist.get_rank() == 2:
        dist.irecv(x, 0)


def never_waits(dist, x):
    if dist.get_rank() == 0:
        dist.isend(x, 1)
    if dist.get_rank() == 1:
        dist.recv(x, 0)


def changes_what_it_sends(dist, x):
    if dist.get_rank() == 0:
        work = dist.isend(x, 1)
        x += 1
        work.wait()
    if dist.get_rank() == 1:
        dist.recv(x, 0)


def mixed(dist, x):
    if dist.get_rank() == 0:
        dist.recv(x, 1)
    dist.barrier()
    if dist.get_rank() == 1:
        dist.send(x, 0)


def line_of(f, offset):
    return f.__code__.co_firstlineno + offset


@pytest.mark.parametrize(
    ("f", "kind", "where", "advice"),
    [
        (send_first, "deadlock", f"rank 0 waits in send to 1, line {line_of(send_first, 2)}", "isend"),
        (receive_first, "deadlock", "rank 0 waits in recv from 2, line", "nobody has sent"),
        (wrong_neighbor, "deadlock", "rank 0 waits in recv from 1, line", "Rank 0 has sent to 1, line"),
        (
            one_skips,
            "ended",
            f"rank 2 waits in all_reduce, line {line_of(one_skips, 2)}",
            "every rank calls it",
        ),
        (one_skips, "ended", "rank 1 has ended", "inside an `if`"),
        (one_waits_elsewhere, "mismatch", "rank 1 calls barrier, line", "in the same order"),
        (other_operation, "mismatch", "rank 1 calls all_reduce of (2,) float32, AVG", "the same operation"),
        (other_shape, "mismatch", "rank 0 calls all_reduce of (1,) float32, SUM", "Shape and dtype"),
        (other_root, "mismatch", "rank 1 calls broadcast of (2,) float32, src=1", "the same root"),
        (does_not_fit, "mismatch", "rank 1 receives into (1,) float32, line", "in the order they were sent"),
        (nobody_receives, "leftover", "rank 0 sends (2,) float32 to rank 2, line", "one recv"),
        (nobody_sends, "leftover", "rank 2 asks for a message of rank 0, line", "one send"),
        (never_waits, "leftover", "rank 0 calls isend, line", "wait for it"),
        (changes_what_it_sends, "changed", "rank 0 sends it to rank 1, line", "a copy"),
        (mixed, "deadlock", "rank 0 waits in recv from 1, line", "from one wait to the next"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_what_went_wrong_is_told_with_rank_and_line(f, kind, where, advice):
    before = threading.active_count()
    result = World(3).run(f, [torch.ones(2) for _ in range(3)])
    assert not result.ok and result.hazard.kind == kind
    assert any(line.startswith(where) for line in result.hazard.where), result.hazard
    assert advice in result.hazard.advice
    assert threading.active_count() == before  # no rank is left behind
    with pytest.raises(RanksError, match=kind):
        _ = result.values


def test_many_waiting_ranks_are_told_in_few_lines():
    hazard = World(12).run(send_first, [np.ones(2) for _ in range(12)]).hazard
    assert len(hazard.where) == 4 and hazard.where[-1] == "and 9 more ranks wait"


def test_an_error_of_one_rank_stops_the_others_and_names_it():
    def fails(dist, x):
        if dist.get_rank() == 1:
            raise ValueError("no")
        dist.all_reduce(x)

    result = World(3).run(fails, numbers(3, 2))
    assert result.failed[0] == 1 and "rank 1 raised ValueError: no" in str(result)
    with pytest.raises(ValueError, match="no") as caught:
        _ = result.values
    assert caught.value.__notes__ == ["This was rank 1 of 3."]


def test_code_that_swallows_every_error_is_stopped_too():
    def stubborn(dist, x):
        try:
            dist.recv(x, 1 - dist.get_rank())
        except:  # noqa: E722 - the worst a learner can write
            dist.barrier()

    assert World(2).run(stubborn, numbers(2, 2)).hazard.kind == "deadlock"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda dist, x: dist.send(x, 3), "there is no rank 3; ranks are 0 to 2"),
        (lambda dist, x: dist.send(x, -1), "there is no rank -1"),
        (lambda dist, x: dist.send(x, dist.get_rank()), "to itself"),
        (lambda dist, x: dist.send(x, "left"), "the number of a rank"),
        (lambda dist, x: dist.send(1.0, 1), "this is float"),
        (lambda dist, x: dist.all_reduce([x]), "this is list"),
        (lambda dist, x: dist.all_reduce(x, op="add"), "ReduceOp.SUM, ReduceOp.AVG"),
        (lambda dist, x: dist.all_reduce(x.astype(int), op=dist.ReduceOp.AVG), "floating dtype"),
        (lambda dist, x: dist.all_gather([x], x), "a list of 3 tensors, one per rank; this is 1"),
        (lambda dist, x: dist.all_gather([x[:1], x, x], x), "tensor 0 of the list is (1,) float32, not (2,)"),
    ],
)
def test_wrong_arguments_are_refused_in_words(call, words):
    _, error = World(3).run(call, numbers(3, 2)).failed
    assert words in str(error)


def test_inputs_are_one_per_rank():
    with pytest.raises(ValueError, match="input 1 has 2 values for 3 ranks"):
        World(3).run(lambda dist, x, y: None, [1, 2, 3], [1, 2])
    assert World(2).run(lambda dist, x, y: x - y, [5, 6], [1, 2]).values == [4, 4]


def test_an_interruption_reaches_the_rank_that_runs_and_keeps_its_line():
    def forever(dist):
        while True:
            pass

    def interrupt():
        time.sleep(0.3)
        _thread.interrupt_main()

    before = threading.active_count()
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        World(2).run(forever)
    assert caught.traceback[-1].name == "forever"
    time.sleep(0.1)
    assert threading.active_count() == before
