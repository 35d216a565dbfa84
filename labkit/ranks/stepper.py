"""`World(n).run(f)`: n ranks as threads that hand over one baton, so that every run is the same run."""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.ranks.arrays import copied
from labkit.ranks.calls import Call
from labkit.ranks.collectives import cost, perform
from labkit.ranks.dist import Dist
from labkit.ranks.report import Hazard, Result, Traffic
from labkit.ranks.words import changed, leftover, mismatch, nobody_can_go_on, wrong_size


class World:
    """n ranks and the network between them: alpha seconds a message, beta seconds a byte.

    `seed` chooses the order in which ranks have their turn; 0 is rank 0 first. Right code does not mind.
    """

    def __init__(self, n: int, *, alpha: float = 10e-6, beta: float = 1e-9, seed: int = 0) -> None:
        if n < 1:
            raise ValueError(f"a world has at least one rank; this is {n}.")
        self.n, self.alpha, self.beta, self.seed = n, alpha, beta, seed

    def run(self, f: Callable[..., Any], *inputs: Sequence[Any]) -> Result:
        """Call `f(dist, ...)` on every rank; of each of `inputs`, rank r is given the r-th."""
        for place, values in enumerate(inputs):
            if len(values) != self.n:
                raise ValueError(
                    f"input {place} has {len(values)} values for {self.n} ranks; one each is wanted."
                )
        order = [*range(self.n)]
        if self.seed:
            random.Random(self.seed).shuffle(order)
        return Run(self, order).go(f, [tuple(values[rank] for values in inputs) for rank in range(self.n)])


class Stop(BaseException):
    """Ends a rank from within when the run is over before it is. `except Exception` does not catch it."""


@dataclass(eq=False)
class Rank:
    """One rank: its thread, what it waits for, and the model's clocks."""

    number: int
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None
    blocked: Call | None = None
    ended: bool = False
    clock: float = 0.0
    out_free: float = 0.0
    in_free: float = 0.0
    collectives: int = 0

    @property
    def able(self) -> bool:
        return not self.ended and (self.blocked is None or self.blocked.done)


class Run:
    """The state of one run. Whoever holds the baton may touch it; so there are no locks."""

    def __init__(self, world: World, order: list[int]) -> None:
        self.n, self.alpha, self.beta = world.n, world.alpha, world.beta
        self.ranks = [Rank(number) for number in range(self.n)]
        self.order = [self.ranks[number] for number in order]
        self.back = threading.Semaphore(0)  # the baton comes back to `go`
        self.stopping = False
        self.messages: dict[tuple[int, int], list[Call]] = {}  # unmatched, by (from, to), in order
        self.unwaited: list[Call] = []
        self.collectives: list[dict[int, Call]] = []  # the k-th collective of each rank
        self.result = Result(self.n, self.alpha, self.beta, _traffic(self.n), _traffic(self.n))
        self.result.returned = [None] * self.n

    # the turns

    def go(self, f: Callable[..., Any], inputs: list[tuple[Any, ...]]) -> Result:
        for rank, given in zip(self.ranks, inputs, strict=True):
            name = f"rank {rank.number}"
            rank.thread = threading.Thread(target=self._live, args=(rank, f, given), name=name, daemon=True)
            rank.thread.start()
        running: Rank | None = None
        try:
            while self.result.ok and (running := next((rank for rank in self.order if rank.able), None)):
                running.go.release()
                while not self.back.acquire(timeout=0.1):  # not for good: an interruption must be seen
                    pass
        except KeyboardInterrupt:
            raise self._interrupted(running) from None
        finally:
            self._stop()
        self.result.seconds = [rank.clock for rank in self.ranks]
        if self.result.ok:
            self.result.hazard = self._last_words()
        return self.result

    def _live(self, rank: Rank, f: Callable[..., Any], given: tuple[Any, ...]) -> None:
        """The life of a rank's thread: nothing before its first turn, and the baton goes back at the end."""
        rank.go.acquire()
        try:
            if not self.stopping:
                self.result.returned[rank.number] = f(Dist(self, rank.number), *given)
        except Stop:
            pass
        except BaseException as error:
            if not self.stopping or isinstance(error, KeyboardInterrupt):
                self.result.failed = (rank.number, error)
        finally:
            rank.ended = True
            self.back.release()

    def _stop(self) -> None:
        """End the ranks that have not ended; a second is enough for any but the most stubborn code."""
        self.stopping = True
        for rank in self.ranks:
            if rank.thread and not rank.ended:
                rank.go.release()
                rank.thread.join(1)

    def _interrupted(self, rank: Rank | None) -> BaseException:
        """Pass an interruption on to the rank that is running, so that its line is known."""
        if rank and rank.thread and rank.thread.ident and not rank.ended:
            thread = ctypes.c_ulong(rank.thread.ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(KeyboardInterrupt))
            rank.thread.join(1)
        failed = self.result.failed
        return failed[1] if failed and isinstance(failed[1], KeyboardInterrupt) else KeyboardInterrupt()

    def _last_words(self) -> Hazard | None:
        """What is wrong once no rank can have a turn: some wait, or all have ended and something is left."""
        blocked = [rank.blocked for rank in self.ranks]
        open_calls = [call for calls in self.messages.values() for call in calls]
        if any(blocked):
            under_way = [call for call in open_calls if call.sends and call not in blocked]
            return nobody_can_go_on(blocked, under_way)
        open_calls += [call for call in self.unwaited if not call.waited and call not in open_calls]
        return leftover(open_calls[0]) if open_calls else None

    # what ranks ask for, called in their threads

    def wait(self, call: Call) -> None:
        """Hand the baton over until the call is done."""
        rank = self.ranks[call.rank]
        self._stop_here()
        if not call.done:
            rank.blocked = call
            self.back.release()
            rank.go.acquire()
            self._stop_here()
            rank.blocked = None
        rank.clock = max(rank.clock, call.ends)

    def _stop_here(self) -> None:
        if self.stopping or self.result.hazard:
            raise Stop

    def post(self, call: Call) -> None:
        """A message is sent or asked for: match it with the first one waiting on the other side."""
        self._stop_here()
        self.result.calls[call.name] += 1
        call.posted = self.ranks[call.rank].clock
        self.unwaited.append(call)
        way = (call.rank, call.peer or 0) if call.sends else (call.peer or 0, call.rank)
        waiting = self.messages.setdefault(way, [])
        if waiting and waiting[0].sends != call.sends:
            other = waiting.pop(0)
            self._deliver(*((call, other) if call.sends else (other, call)))
        else:
            waiting.append(call)

    def _deliver(self, sent: Call, wanted: Call) -> None:
        if (sent.shape, sent.dtype) != (wanted.shape, wanted.dtype):
            self.result.hazard = wrong_size(sent, wanted)
            raise Stop
        source, target = self.ranks[sent.rank], self.ranks[wanted.rank]
        start = max(sent.posted, wanted.posted, source.out_free, target.in_free)
        end = start + self.alpha + self.beta * sent.bytes
        source.out_free = target.in_free = sent.ends = wanted.ends = end
        self.result.sent[sent.rank].add(1, sent.bytes)
        self.result.received[wanted.rank].add(1, sent.bytes)
        wanted.data = copied(sent.data)
        sent.done = wanted.done = True

    def join(self, call: Call) -> None:
        """A rank comes to its next collective; the last one to come does the work for all."""
        self._stop_here()
        self.result.calls[call.name] += 1
        rank = self.ranks[call.rank]
        call.posted, number = rank.clock, rank.collectives
        rank.collectives += 1
        if number == len(self.collectives):
            self.collectives.append({})
        together = self.collectives[number]
        first = next(iter(together.values()), call)
        if call.key != first.key:
            self.result.hazard = mismatch(number, first, call)
            raise Stop
        together[call.rank] = call
        if len(together) == self.n:
            self._finish([together[number] for number in range(self.n)])

    def _finish(self, calls: list[Call]) -> None:
        perform(calls)
        start = max(call.posted for call in calls)
        for call in calls:
            price = cost(call, self.n)
            self.result.sent[call.rank].add(*price.sent)
            self.result.received[call.rank].add(*price.received)
            call.ends = start + self.alpha * price.steps[0] + self.beta * price.steps[1]
            call.done = True

    def report_changed(self, call: Call) -> None:
        self.result.hazard = changed(call)
        raise Stop


def _traffic(n: int) -> list[Traffic]:
    return [Traffic() for _ in range(n)]
