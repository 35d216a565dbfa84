"""From what the machine noted to sentences for learners: what happened, why it matters, what to try."""

from typing import Any

from labkit.simt.limits import MAX_BLOCK, MAX_GRID, MAX_STATIC_SHARED, MAX_THREADS_PER_BLOCK
from labkit.simt.machine import Dim3, Event, Machine
from labkit.simt.memory import SHIFT
from labkit.simt.races import Race
from labkit.simt.report import Finding
from labkit.simt.rewrite import ATOMIC, READ, WRITE, Site
from labkit.simt.trace import Trace, Traffic
from labkit.simt.values import Refused

SCATTERED = 2.5  # times the best possible number of sectors
CROWDED = 2.0  # turns where one would do
VERBS = {READ: "reads", WRITE: "writes", ATOMIC: "atomically changes"}


def position(place: Dim3, size: Dim3) -> str:
    """`5`, `(5, 2)` or `(5, 2, 0)`: as many numbers as the launch has dimensions."""
    used = 3 if size.z > 1 else 2 if size.y > 1 else 1
    return str(place.x) if used == 1 else str(tuple(place[:used]))


def thread_name(thread: int, machine: Machine) -> str:
    """`thread 5`, or `thread 5 of block 1` when there are several blocks."""
    block, local = divmod(thread, machine.block.size)
    name = f"thread {position(machine.block.at(local), machine.block)}"
    if machine.grid.size == 1:
        return name
    return f"{name} of block {position(machine.grid.at(block), machine.grid)}"


def from_event(kind: str, site: Site, event: Event, machine: Machine) -> Finding:
    threads = tuple(thread_name(t, machine) for t in event.threads)
    who = threads[0] + (f" and {event.count - 1} more times" if event.count > 1 else "")
    message, advice, severity = _EVENTS[kind](site, event, who, machine)
    lines = (site.line, *event.detail[3]) if kind == "divergent" else (site.line,)
    return Finding(kind if kind != "bounds" else "out of bounds", message, advice, lines, threads, severity)


def _bounds(site: Site, event: Event, who: str, _: Machine) -> tuple[str, str, str]:
    array, index = event.detail
    shown = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    numbers = [i for i in index if isinstance(i, int)]
    negative = any(i < 0 for i in numbers)
    why = "Python counts a negative index from the end; a GPU" if negative else "A GPU does not check: it"
    message = (
        f"`{site.text}` has index {shown}, but {array.name} has shape {array.shape} ({who}). "
        f"{why} touches whatever lies there, and may change other data or crash."
    )
    advice = "Guard the access: if 0 <= i < n, for every index that can leave the array."
    if not negative:
        advice = "Guard the access with if i < n; the last block usually has threads to spare. Check the array's size."
    return message, advice, "error"


def _uninitialized(site: Site, event: Event, who: str, _: Machine) -> tuple[str, str, str]:
    array, index = event.detail
    shown = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    message = (
        f"`{site.text}` is read at index {shown} before any thread wrote it ({who}). "
        f"{'Shared' if array._space == 'shared' else 'Local'} memory starts with leftovers, not with zeros."
    )
    return (
        message,
        "Write every element that is read, also those of threads past the end (0 there), then wait.",
        "error",
    )


def _divergent(site: Site, event: Event, _: str, machine: Machine) -> tuple[str, str, str]:
    here, missing, absent, lines = event.detail
    where = f"wait on line {' and '.join(map(str, lines))}" if lines else "never come here"
    message = (
        f"{here} of {machine.block.size} threads of a block wait at {site.text}, while {absent} "
        f"({thread_name(missing, machine)}) {where}. A GPU hangs or goes on with wrong data."
    )
    return (
        message,
        "Move the barrier out of the if or the loop, and do not return before it: guard the work only.",
        "error",
    )


def _endless(site: Site, event: Event, who: str, _: Machine) -> tuple[str, str, str]:
    message = f"the loop `while {site.text}` did not end ({who}); the run was stopped."
    advice = "Change in the loop what its test reads. Threads here run one at a time, so waiting for another never ends."
    return message, advice, "error"


def _too_long(site: Site, event: Event, who: str, machine: Machine) -> tuple[str, str, str]:
    message = f"the run made more than {machine.limit:,} memory accesses and was stopped."
    return (
        message,
        "Step a smaller grid: a few blocks show the same mistakes. run(..., limit=...) raises the limit.",
        "error",
    )


def _overflow(site: Site, event: Event, who: str, _: Machine) -> tuple[str, str, str]:
    message = f"`{site.text}` does not fit: {event.detail} ({who}). The number wraps around silently."
    return message, "Use a wider type, or keep the numbers in range.", "note"


def _division(site: Site, event: Event, who: str, _: Machine) -> tuple[str, str, str]:
    message = f"`{site.text}` divides a whole number by zero ({who}). A GPU raises nothing and gives a wrong number."
    return message, "Guard the division with if.", "error"


_EVENTS: dict[str, Any] = {
    "bounds": _bounds,
    "uninitialized": _uninitialized,
    "divergent": _divergent,
    "endless": _endless,
    "too long": _too_long,
    "overflow": _overflow,
    "division": _division,
}


def from_race(race: Race, trace: Trace, machine: Machine) -> Finding:
    rows = (race.first, race.second)
    sites = [machine.program.sites[trace.site[row]] for row in rows]
    names = [thread_name(int(trace.thread[row]), machine) for row in rows]
    verbs = [VERBS[s.kind] for s in sites]
    name = machine.memory.buffers[trace.address[rows[0]] >> SHIFT].name
    lines = tuple(sorted({s.line for s in sites}))
    again = "" if race.elements == 1 else f", and so for {race.elements} elements"
    deeds = [f"{n} {v} `{s.text}` on line {s.line}" for n, v, s in zip(names, verbs, sites, strict=True)]
    message = f"{deeds[0]} while {deeds[1]}: the same element of {name}{again}. "
    if race.same_value:
        message += (
            "All write the same value, so the result stands, but it is luck that readers should not need."
        )
        return Finding(
            "same-value race",
            message,
            "Let one thread write: if cuda.threadIdx.x == 0.",
            lines,
            tuple(names),
            "note",
        )
    message += "Their order is open, so a GPU can give another result each time."
    return Finding("race", message, _race_advice(race, sites), lines, tuple(names))


def _race_advice(race: Race, sites: list[Site]) -> str:
    update = sites[0].line == sites[1].line and {s.kind for s in sites} == {READ, WRITE}
    if update and sites[0].text == sites[1].text:
        return "Use cuda.atomic.add (or max, min), which reads and writes in one step, or one element per thread."
    if race.between_blocks:
        return "Blocks cannot wait for each other in one launch: one owner per element, an atomic, or two launches."
    if {s.kind for s in sites} == {WRITE}:
        return "Give every element one thread that writes it, or put cuda.syncthreads() between the writes."
    low, high = sorted(s.line for s in sites)
    return f"Put cuda.syncthreads() between lines {low} and {high}; in a loop, also before the next round writes."


def from_traffic(found: Traffic, machine: Machine) -> Finding | None:
    site = machine.program.sites[found.site]
    threads = (thread_name(found.thread, machine),)
    if found.space == "shared" and found.ratio > CROWDED:
        message = (
            f"`{site.text}` keeps {found.ratio:.0f} lanes of a warp waiting for the same bank: "
            f"{found.transactions} turns where {found.best} would do."
        )
        advice = (
            "Neighboring threads should use neighboring words: pad the rows (TILE + 1) or change the index."
        )
        return Finding("bank conflict", message, advice, (site.line,), threads, "slow")
    if found.space == "global" and found.ratio > SCATTERED:
        message = (
            f"`{site.text}` takes {found.transactions} memory transactions of 32 bytes where {found.best} would do "
            f"({found.ratio:.1f} times): neighboring threads touch elements that lie far apart."
        )
        advice = "Let threadIdx.x run along the last axis, so that thread i touches element i; go through shared memory if not."
        return Finding("uncoalesced", message, advice, (site.line,), threads, "slow")
    return None


def from_float64(machine: Machine) -> Finding:
    site, thread = min(machine.wide.items(), key=lambda item: machine.program.sites[item[0]].line)
    lines = tuple(sorted({machine.program.sites[s].line for s in machine.wide}))
    message = (
        f"`{machine.program.sites[site].text}` computes in float64 though the arrays are float32: to Numba a literal "
        "such as 2.0 is float64, and so is float32 with an int. Most GPUs are far slower at it."
    )
    return Finding(
        "float64",
        message,
        "Write np.float32(2) for constants.",
        lines,
        (thread_name(thread, machine),),
        "note",
    )


def from_refusal(line: int, what: str, instead: str) -> Finding:
    return Finding("refused", f"{what} does not compile for a GPU.", f"Instead: {instead}.", (line,), ())


def from_exception(error: BaseException, line: int, machine: Machine) -> Finding:
    if isinstance(error, Refused):
        return from_refusal(line, error.what, error.instead)
    name = thread_name(machine.thread, machine)
    message = f"{name} stopped with {type(error).__name__}: {error}. Nothing after this line was run."
    return Finding(
        "exception", message, "Read the line with this thread's numbers in mind.", (line,), (name,)
    )


def from_launch(grid: Dim3, block: Dim3, shared_bytes: int) -> list[Finding]:
    """What the driver would refuse before the first thread runs."""
    problems = []
    if block.size > MAX_THREADS_PER_BLOCK or any(n > m for n, m in zip(block, MAX_BLOCK, strict=True)):
        problems.append(
            (
                f"a block of {tuple(block)} threads",
                f"at most {MAX_THREADS_PER_BLOCK} threads fit, z at most 64",
            )
        )
    if any(n > m for n, m in zip(grid, MAX_GRID, strict=True)):
        problems.append(
            (f"a grid of {tuple(grid)} blocks", "y and z reach 65535 at most: put the long axis in x")
        )
    if shared_bytes > MAX_STATIC_SHARED:
        problems.append(
            (f"{shared_bytes} bytes of shared memory", f"a block has {MAX_STATIC_SHARED}: use smaller tiles")
        )
    return [Finding("launch", f"{what} cannot be launched.", f"{why}.", (0,), ()) for what, why in problems]
