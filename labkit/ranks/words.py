"""The sentences about ranks that do not fit together: what happened, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.ranks.calls import Call
from labkit.ranks.report import Hazard

SHOWN = 4  # ranks that are listed one by one


def nobody_can_go_on(blocked: Sequence[Call | None], under_way: Sequence[Call]) -> Hazard:
    """`blocked` is each rank's open call, or None for one that has ended; `under_way` nobody has received."""
    calls = [call for call in blocked if call]
    gone = [rank for rank, call in enumerate(blocked) if call is None]
    where = [f"rank {call.rank} waits in {call.waits()}, {call.place}" for call in calls]
    where = _some(where)
    if gone:
        where.append(f"{_ranks(gone)} ended")
    signature = tuple(call.waits() if call else "ended" for call in blocked)
    if gone:
        message = (
            "a rank waits for another that has ended."
            if len(calls) == 1
            else "ranks wait for one that has ended."
        )
        return Hazard("ended", message, tuple(where), _why_ended(calls), signature)
    return Hazard("deadlock", "nobody can go on.", tuple(where), _why_stuck(calls, under_way), signature)


def _why_ended(calls: list[Call]) -> str:
    if all(call.peer is None or call.name == "broadcast" for call in calls):
        words = f"`{calls[0].name}` comes back only when every rank calls it"
        return f"{words}: is one inside an `if`, or in a loop of unequal length?"
    return "Each send needs one recv and each recv one send: count both, and look at the ranks at the ends."


def _why_stuck(calls: list[Call], under_way: Sequence[Call]) -> str:
    names = {call.name for call in calls}
    if names <= {"send", "isend"}:
        words = "All of them send first, and a send waits for its recv"
        return f"{words}: `isend`, `recv`, then `wait()`, or every second rank receives first."
    if names <= {"recv", "irecv"} and under_way:
        sent = under_way[0]
        words = f"Rank {sent.rank} has sent to {sent.peer}, {sent.place}, and nobody asks for it"
        return f"{words}: does each rank receive from the one that sends to it?"
    if names <= {"recv", "irecv"}:
        return "All of them wait for a message that nobody has sent: send first, with `isend`."
    return (
        "Follow the ranks from one wait to the next: each needs another to come to a line it never reaches."
    )


def mismatch(number: int, first: Call, second: Call) -> Hazard:
    """Two ranks whose collectives number `number` differ."""
    first, second = sorted((first, second), key=lambda call: call.rank)
    where = tuple(f"rank {call.rank} calls {call.words()}, {call.place}" for call in (first, second))
    if first.name != second.name:
        advice = "Collectives are matched in order: every rank has to call the same ones, in the same order."
    elif (first.shape, first.dtype) != (second.shape, second.dtype):
        advice = (
            "Shape and dtype have to be the same on every rank: pad the shorter one, or send the sizes first."
        )
    else:
        what = "the same root" if first.op == second.op else "the same operation"
        advice = f"Every rank has to name {what}."
    message = f"collective {number + 1} of the ranks differs."
    return Hazard("mismatch", message, where, advice, (first.words(), second.words()))


def wrong_size(sent: Call, wanted: Call) -> Hazard:
    """A message that does not fit the tensor that is to take it."""
    where = (
        f"rank {sent.rank} sends {sent.shape} {sent.dtype}, {sent.place}",
        f"rank {wanted.rank} receives into {wanted.shape} {wanted.dtype}, {wanted.place}",
    )
    message = "a message does not fit the tensor that receives it."
    advice = "Messages between two ranks arrive in the order they were sent: do both mean the same piece?"
    return Hazard("mismatch", message, where, advice, (sent.waits(), wanted.waits()))


def leftover(call: Call) -> Hazard:
    """All ranks have ended; this call has not been answered, or not been waited for."""
    signature = (call.waits(),)
    if call.done:
        where = (f"rank {call.rank} calls {call.name}, {call.place}",)
        kept = "the tensor may still be on its way" if call.sends else "the tensor was never filled"
        advice = f"Without `wait()` {kept}: keep what `{call.name}` returns and wait for it."
        return Hazard("leftover", f"an `{call.name}` was never waited for.", where, advice, signature)
    if call.sends:
        where = (f"rank {call.rank} sends {call.shape} {call.dtype} to rank {call.peer}, {call.place}",)
        advice = "Each send needs one recv: one step too many, or the wrong neighbor?"
        return Hazard("leftover", "a message was sent that nobody received.", where, advice, signature)
    where = (f"rank {call.rank} asks for a message of rank {call.peer}, {call.place}",)
    advice = "Each recv needs one send: one step too many, or the wrong neighbor?"
    return Hazard("leftover", "a message was asked for that nobody sent.", where, advice, signature)


def changed(call: Call) -> Hazard:
    where = (f"rank {call.rank} sends it to rank {call.peer}, {call.place}",)
    advice = "Until `wait()` comes back the tensor may still be read: wait first, or send a copy of it."
    return Hazard(
        "changed", "a tensor was changed while `isend` was sending it.", where, advice, (call.waits(),)
    )


def _some(lines: list[str]) -> list[str]:
    if len(lines) <= SHOWN:
        return lines
    return [*lines[: SHOWN - 1], f"and {len(lines) - SHOWN + 1} more ranks wait"]


def _ranks(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]} has"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} have"
