"""What a run of several ranks gives back: values, traffic, modeled time, and what went wrong, in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from labkit.text import number, plural, table


@dataclass(frozen=True)
class Hazard:
    """Why the ranks could not finish, or must not be trusted though they did.

    kind    "deadlock", "ended" (a rank has gone, others wait), "mismatch", "leftover" or "changed"
    where   one line per rank that has to do with it
    calls   what each of these ranks waits in or calls, without line numbers: what two hazards are compared by
    """

    kind: str
    message: str
    where: tuple[str, ...]
    advice: str
    calls: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join([f"{self.kind}: {self.message}", *self.where, self.advice])


class RanksError(RuntimeError):
    """Asked for the values of a run that has none."""


@dataclass
class Traffic:
    """What one rank sent, or received."""

    messages: int = 0
    bytes: int = 0

    def add(self, messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size


@dataclass
class Result:
    """One run. `failed` is (rank, error) if a rank raised; the others were stopped then."""

    n: int
    alpha: float
    beta: float
    sent: list[Traffic] = field(default_factory=list)
    received: list[Traffic] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)  # of all ranks, by name
    seconds: list[float] = field(default_factory=list)  # by the model, per rank
    returned: list[Any] = field(default_factory=list)
    hazard: Hazard | None = None
    failed: tuple[int, BaseException] | None = None

    @property
    def ok(self) -> bool:
        return self.hazard is None and self.failed is None

    @property
    def values(self) -> list[Any]:
        """What each rank returned. Raises what a rank raised, or says what stopped them."""
        if self.failed:
            rank, error = self.failed
            error.add_note(f"This was rank {rank} of {self.n}.")
            raise error
        if self.hazard:
            raise RanksError(str(self.hazard))
        return self.returned

    @property
    def bytes(self) -> int:
        """Sent by all ranks together."""
        return sum(traffic.bytes for traffic in self.sent)

    @property
    def messages(self) -> int:
        return sum(traffic.messages for traffic in self.sent)

    @property
    def time(self) -> float:
        """Seconds until the last rank is done, by the model."""
        return max(self.seconds, default=0.0)

    def table(self) -> str:
        """Messages, bytes and modeled time, rank by rank and in all."""
        head = ["rank", "messages sent", "bytes sent", "messages received", "bytes received", "modeled us"]
        rows = [
            [str(rank), *_counts(sent), *_counts(received), number(1e6 * seconds, 4)]
            for rank, (sent, received, seconds) in enumerate(
                zip(self.sent, self.received, self.seconds, strict=True)
            )
        ]
        got = Traffic(sum(t.messages for t in self.received), sum(t.bytes for t in self.received))
        rows.append(
            ["all", *_counts(Traffic(self.messages, self.bytes)), *_counts(got), number(1e6 * self.time, 4)]
        )
        model = f"Modeled: {number(1e6 * self.alpha)} us a message and {number(1e9 * self.beta)} ns a byte."
        return "\n".join([*table([head, *rows], rule=True), model])

    def __str__(self) -> str:
        if self.failed:
            rank, error = self.failed
            return f"{plural(self.n, 'rank')}: rank {rank} raised {type(error).__name__}: {error}"
        if self.hazard:
            return f"{plural(self.n, 'rank')}, stopped. {self.hazard}"
        return f"{plural(self.n, 'rank')}, all done.\n{self.table()}"

    __repr__ = __str__


def _counts(traffic: Traffic) -> list[str]:
    return [f"{traffic.messages:,}", f"{traffic.bytes:,}"]
