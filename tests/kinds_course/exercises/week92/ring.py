"""The average of all ranks' tensors by a ring: sum the pieces on their way round, then hand out the sums."""

from labkit.exercises.declare import Case, Limit, Mistake, Ranks, Rules
from labkit.lazy import torch


def _ranks(n, make):
    return {"x": [make() for _ in range(n)]}


def _average(x):
    return [torch.stack(list(x)).mean(0)] * len(x)


def _bytes(x):
    return 2 * (len(x) - 1) * -(-x[0].size // len(x)) * x[0].itemsize


def _ring(dist, x, *, first="isend", back=1, phases=2, start=1, adds=False, steps=0, divides=True):
    """The solution with one thing done otherwise."""
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - back) % n
    out = x.clone()
    pieces = list(out.tensor_split(n))

    def pass_on(mine, theirs, add):
        arrived = torch.empty_like(pieces[theirs])
        if first == "recv":
            dist.recv(arrived, left)
            dist.send(pieces[mine], right)
        elif first == "send":
            dist.send(pieces[mine], right)
            dist.recv(arrived, left)
        else:
            work = dist.isend(pieces[mine], right)
            dist.recv(arrived, left)
            work.wait()
        pieces[theirs].copy_(pieces[theirs] + arrived if add else arrived)

    for step in range(n - 1 + steps):
        pass_on((rank - step) % n, (rank - step - 1) % n, add=True)
    for step in range(n - 1 if phases == 2 else 0):
        pass_on((rank + start - step) % n, (rank + start - 1 - step) % n, add=adds)
    return out / n if divides else out


def send_first(dist, x):
    return _ring(dist, x, first="send")


def receive_first(dist, x):
    return _ring(dist, x, first="recv")


def wrong_neighbor(dist, x):
    return _ring(dist, x, back=-1)


def not_divided(dist, x):
    return _ring(dist, x, divides=False)


def one_phase(dist, x):
    return _ring(dist, x, phases=1)


def adds_twice(dist, x):
    return _ring(dist, x, adds=True)


def wrong_piece(dist, x):
    return _ring(dist, x, start=0)


def one_step_more(dist, x):
    return _ring(dist, x, steps=1)


def whole_tensor(dist, x):
    n, rank = dist.get_world_size(), dist.get_rank()
    total, passing = x.clone(), x.clone()
    for _ in range(n - 1):
        work = dist.isend(passing, (rank + 1) % n)
        arrived = torch.empty_like(passing)
        dist.recv(arrived, (rank - 1) % n)
        work.wait()
        total += arrived
        passing = arrived
    return total / n


def star(dist, x):
    n, rank = dist.get_world_size(), dist.get_rank()
    total = x.clone()
    if rank:
        dist.send(total, 0)
        dist.recv(total, 0)
        return total
    arrived = torch.empty_like(total)
    for peer in range(1, n):
        dist.recv(arrived, peer)
        total += arrived
    total /= n
    for peer in range(1, n):
        dist.send(total, peer)
    return total


def ready_made(dist, x):
    out = x.clone()
    dist.all_reduce(out)
    return out / dist.get_world_size()


exercise = Ranks(
    title="All-reduce by a ring",
    minutes=30,
    cases=[
        Case("three ranks, seven numbers", lambda draw: _ranks(3, lambda: draw.normal(7))),
        Case("two ranks, not contiguous", lambda draw: _ranks(2, lambda: draw.strided(6))),
        Case("four ranks, eight numbers", lambda draw: _ranks(4, lambda: draw.normal(8))),
        Case("one rank", lambda draw: _ranks(1, lambda: draw.normal(5))),
        Case("four ranks, one number", lambda draw: _ranks(4, lambda: draw.normal(1)), extreme=True),
    ],
    oracle=_average,
    rules=Rules(forbids=("all_reduce", "reduce_scatter", "all_gather", "broadcast")),
    delegate=ready_made,
    limits=[
        Limit(
            "bytes",
            _bytes,
            "Pieces, not tensors, go round: 2 (n - 1) of n pieces leave each rank, whatever n is.",
        ),
        Limit(
            "messages", lambda x: 2 * (len(x) - 1), "n - 1 steps to sum the pieces, n - 1 to hand them out."
        ),
    ],
    mistakes=[
        Mistake(
            "send first",
            "every rank sends before it receives, and a send waits for its recv: begin with `isend`.",
            send_first,
        ),
        Mistake(
            "receive first",
            "every rank receives before it sends, so nobody ever sends: begin with `isend`.",
            receive_first,
        ),
        Mistake(
            "wrong neighbor",
            "you send to the right and receive from the right: what arrives comes from the left, `rank - 1`.",
            wrong_neighbor,
        ),
        Mistake("not divided", "these are sums: divide by the number of ranks.", not_divided),
        Mistake(
            "one phase",
            "after n - 1 steps each rank has one finished piece; a second round has to hand the pieces out.",
            one_phase,
        ),
        Mistake(
            "adds twice",
            "in the second round the pieces are finished: they replace what is there, they are not added.",
            adds_twice,
        ),
        Mistake(
            "wrong piece",
            "the second round starts with the wrong piece: rank r has finished piece r + 1.",
            wrong_piece,
        ),
        Mistake(
            "one step more",
            "n - 1 steps bring a piece past all other ranks; after n it has the first rank's part twice.",
            one_step_more,
        ),
        Mistake(
            "whole tensor",
            "the whole tensor goes round: right, but n / 2 times the bytes. Cut it into n pieces.",
            whole_tensor,
        ),
        Mistake(
            "star", "rank 0 does all the work, and all bytes pass through it: share them in a ring.", star
        ),
    ],
    hints=(
        "Cut the tensor into n pieces. At each step, send one to the right and take one from the left.",
        "At step s rank r sends piece r - s and adds what arrives to piece r - s - 1. That ends at r + 1.",
        "Second round: send piece r + 1 - s, receive into r - s. `isend`, `recv`, `wait()`; divide by n.",
    ),
    passed="Less than twice the tensor, for any number of ranks: so gradients are summed in rings.",
)
