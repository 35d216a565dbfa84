"""One call of one rank: what it asks for, where it stands in the learner's code, and how far it has come."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from labkit.ranks.arrays import bytes_of, dtype_of, shape_of

_HERE = str(Path(__file__).parent)


class ReduceOp(Enum):
    """How a collective makes one value of many; the names are torch's."""

    SUM = "sum"
    AVG = "average"
    PRODUCT = "product"
    MIN = "minimum"
    MAX = "maximum"


@dataclass(frozen=True)
class Place:
    """A line of the code that called."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}"


def calling_place() -> Place:
    """The innermost line on the stack that is not in this room."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return Place(frame.f_lineno, linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip())


@dataclass(eq=False)
class Call:
    """A call that others take part in. `peer`: the other rank of a message, or the root of a collective."""

    rank: int
    name: str
    place: Place
    array: Any = None
    peer: int | None = None
    op: str = ""
    lists: Any = None  # the list argument of all_gather and reduce_scatter
    posted: float = 0.0  # when, by the model
    ends: float = 0.0
    done: bool = False
    waited: bool = False
    data: Any = None  # what travels: a copy, made when it was sent
    shape: tuple[int, ...] = field(init=False, default=())
    dtype: str = field(init=False, default="")
    bytes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.array is not None:
            self.shape, self.dtype, self.bytes = (
                shape_of(self.array),
                dtype_of(self.array),
                bytes_of(self.array),
            )

    @property
    def sends(self) -> bool:
        return self.name in ("send", "isend")

    @property
    def key(self) -> tuple[Any, ...]:
        """What has to be the same on every rank of a collective."""
        return self.name, self.peer, self.op, self.shape, self.dtype

    def waits(self) -> str:
        """`send to 1`, `recv from 0`, `all_reduce`: what a rank that waits is waiting in."""
        if self.name in ("send", "recv", "isend", "irecv"):
            name = self.name if self.name in ("send", "recv") else f"wait() of {self.name}"
            return f"{name} {'to' if self.sends else 'from'} {self.peer}"
        return self.name

    def words(self) -> str:
        """The call with everything that is compared: `all_reduce of (3,) float32, SUM`."""
        words = self.name
        if self.dtype:
            words += f" of {self.shape} {self.dtype}"
        if self.op:
            words += f", {self.op}"
        return words if self.peer is None else f"{words}, src={self.peer}"
