"""From what the machine noted to sentences for learners: what happened; why it matters and what to try."""

from collections.abc import Iterable, Iterator
from typing import Any

from labkit.simt.limits import MAX_BLOCK, MAX_GRID, MAX_STATIC_SHARED, MAX_THREADS_PER_BLOCK
from labkit.simt.machine import Dim3, Event, Machine
from labkit.simt.memory import SHARED
from labkit.simt.races import Race
from labkit.simt.report import Finding
from labkit.simt.rewrite import ATOMIC, READ, WRITE, Site
from labkit.simt.trace import Trace, Traffic
from labkit.simt.values import Refused

SCATTERED = 2.0  # times the best possible number of sectors, and most neighboring threads apart
CROWDED = 2.0  # turns where one would do
VERBS = {READ: "reads", WRITE: "writes", ATOMIC: "changes (atomic)"}


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


# Bounds, barriers, shared memory, loops: what the machine saw while running


def from_events(machine: Machine) -> Iterator[Finding]:
    """One finding per kind and line; divergent barriers after the first follow from it and are left out."""
    grouped: dict[tuple[str, int], list[tuple[Site, Event]]] = {}
    for (kind, number), event in machine.events.items():
        site = machine.program.sites[number]
        grouped.setdefault((kind, site.line if kind != "divergent" else 0), []).append((site, event))
    for (kind, _), found in grouped.items():
        (site, event), *rest = found
        texts = list(dict.fromkeys(f"`{s.text}`" for s, _ in rest if s.text != site.text))
        threads = tuple(thread_name(t, machine) for t in event.threads)
        who = threads[0] + (f", {event.count} times" if event.count > 1 else "")
        name, message, advice, severity = _EVENTS[kind](site, event, who, machine)
        if texts and kind != "divergent":
            message += f"; likewise {', '.join(texts)}"
        lines = (site.line, *event.detail[3]) if kind == "divergent" else (site.line,)
        yield Finding(name, message, advice, lines, threads, severity)


Words = tuple[str, str, str, str]  # kind, message, advice, severity


def _index(index: Any) -> Any:
    return index[0] if isinstance(index, tuple) and len(index) == 1 else index


def _bounds(site: Site, event: Event, who: str, _: Machine) -> Words:
    array, index = event.detail
    message = f"`{site.text}` has index {_index(index)}, but {array.name} has shape {array.shape} ({who})"
    inside = [0 <= i < n for i, n in zip(reversed(index), array.shape, strict=False) if isinstance(i, int)]
    if any(isinstance(i, int) and i < 0 for i in index):
        advice = (
            "Python counts a negative index from the end; a GPU touches what lies before the array. "
            "Guard it with if i >= 0."
        )
    elif len(index) > 1 and all(inside):
        advice = (
            "In the other order the indices would fit: are rows and columns swapped? A GPU does not check."
        )
    elif array._space == SHARED:
        advice = (
            "A GPU does not check and touches other data. Compare the array's size with the indices in use."
        )
    else:
        advice = (
            "A GPU does not check: it touches other data or crashes. Guard it with if i < n; "
            "the last block has threads to spare."
        )
    return "out of bounds", message, advice, "error"


def _uninitialized(site: Site, event: Event, who: str, _: Machine) -> Words:
    array, index = event.detail
    verb = f"changes {array.name}" if site.kind == ATOMIC else "is read"
    message = f"`{site.text}` {verb} at index {_index(index)}, which nobody wrote before ({who})"
    space = "Shared" if array._space == SHARED else "Local"
    advice = (
        f"{space} memory starts with leftovers, not zeros. Write every element that is read, 0 if need be."
    )
    return "uninitialized", message, advice, "error"


def _divergent(site: Site, event: Event, _: str, machine: Machine) -> Words:
    here, missing, absent, lines = event.detail
    where = f"wait on line {' and '.join(map(str, lines))}" if lines else "never come here"
    message = (
        f"{here} of {machine.block.size} threads of a block wait at {site.text}, "
        f"while {absent} ({thread_name(missing, machine)}) {where}"
    )
    advice = (
        "A GPU hangs or goes on with wrong data. Move the barrier out of the if or the loop; "
        "guard the work, and do not return early."
    )
    return "divergent", message, advice, "error"


def _endless(site: Site, _: Event, who: str, __: Machine) -> Words:
    message = f"the loop `while {site.text}` did not end ({who}); the run was stopped"
    advice = (
        "Change in the loop what its test reads. Waiting for another thread never ends here, and hangs a GPU."
    )
    return "endless", message, advice, "error"


def _too_long(_: Site, __: Event, ___: str, machine: Machine) -> Words:
    message = f"the run made more than {machine.limit:,} memory accesses and was stopped"
    advice = "Step a smaller grid: a few blocks show the same mistakes. run(..., limit=...) raises the limit."
    return "too long", message, advice, "error"


def _overflow(site: Site, event: Event, who: str, _: Machine) -> Words:
    message = f"`{site.text}` does not fit: {event.detail} ({who})"
    return (
        "overflow",
        message,
        "The number wraps around silently. Use a wider type, or keep it in range.",
        "note",
    )


def _division(site: Site, _: Event, who: str, __: Machine) -> Words:
    message = f"`{site.text}` divides a whole number by zero ({who})"
    return "division", message, "A GPU raises nothing and gives a wrong number. Guard it with if.", "error"


_EVENTS: dict[str, Any] = {
    "bounds": _bounds,
    "uninitialized": _uninitialized,
    "divergent": _divergent,
    "endless": _endless,
    "too long": _too_long,
    "overflow": _overflow,
    "division": _division,
}


# Races


def from_races(races: Iterable[Race], trace: Trace, machine: Machine) -> Iterator[Finding]:
    """One finding for each array and line: the writes that meet what is done there."""
    grouped: dict[tuple[int, str, bool], list[Race]] = {}
    for race in races:
        site = machine.program.sites[trace.site[race.second]]
        name = machine.memory.buffers[trace.buffer[race.second]].name
        grouped.setdefault((site.line, name, race.same_value), []).append(race)
    for (_, name, same_value), found in grouped.items():
        found.sort(key=lambda race: (race.between_blocks, trace.kind[race.second], -race.elements))
        yield _race(found, name, same_value, trace, machine)


def _race(found: list[Race], name: str, same_value: bool, trace: Trace, machine: Machine) -> Finding:
    race = found[0]
    rows = (race.first, race.second)
    sites = [machine.program.sites[trace.site[row]] for row in rows]
    lines = {machine.program.sites[trace.site[row]].line for r in found for row in (r.first, r.second)}
    threads = tuple(thread_name(int(trace.thread[row]), machine) for row in rows)
    deeds = [
        f"{who} {VERBS[site.kind]} `{site.text}` (line {site.line})"
        for who, site in zip(threads, sites, strict=True)
    ]
    again = f", {race.elements} elements in all" if race.elements > 1 else ""
    message = f"{deeds[0]} while {deeds[1]}: the same element of {name}{again}"
    if same_value:
        advice = "All write the same value, so the result stands; still, let one thread write: if t == 0."
        return Finding("same-value race", message, advice, tuple(sorted(lines)), threads, "note")
    advice = "A GPU runs them in any order, so results change. " + _race_advice(race, sites, sorted(lines))
    return Finding("race", message, advice, tuple(sorted(lines)), threads)


def _race_advice(race: Race, sites: list[Site], lines: list[int]) -> str:
    if sites[0].line == sites[1].line and sites[0].text == sites[1].text and sites[1].kind == READ:
        return (
            "Use cuda.atomic.add (max, min), which reads and writes in one step, or one element per thread."
        )
    if race.between_blocks:
        return "Blocks cannot wait for each other: one owner per element, an atomic, or two launches."
    if {s.kind for s in sites} == {WRITE}:
        return "Let one thread own each element, or put cuda.syncthreads() between the writes."
    if len(lines) == 1:
        return f"Put cuda.syncthreads() after line {lines[0]}, in the loop but outside any if."
    return f"Put cuda.syncthreads() between lines {lines[0]} and {lines[-1]}; in a loop, also at its end."


# Memory traffic, types, launches, and what does not run


def from_traffic(found: Traffic, machine: Machine) -> Finding | None:
    threads = (thread_name(found.thread, machine),)
    if found.space == SHARED and found.ratio > CROWDED:
        message = (
            f"`{found.text}`: about {found.ratio:.0f} threads of a warp want different words of one bank, "
            f"{found.transactions} turns where {found.best} would do"
        )
        advice = "Neighboring threads should use neighboring words: pad the rows by one, or change the index."
        return Finding("bank conflict", message, advice, (found.line,), threads, "slow")
    if found.space != SHARED and found.ratio > SCATTERED and found.jumps > 0.5:
        message = (
            f"`{found.text}` moves {found.transactions} sectors of 32 bytes where {found.best} would do "
            f"({found.ratio:.1f} times): neighboring threads touch elements far apart"
        )
        advice = (
            "Let threadIdx.x run along the last axis; if the data lies otherwise, go through shared memory."
        )
        return Finding("uncoalesced", message, advice, (found.line,), threads, "slow")
    return None


def from_float64(machine: Machine) -> Finding:
    number, thread = min(machine.wide.items(), key=lambda item: machine.program.sites[item[0]].line)
    lines = tuple(sorted({machine.program.sites[s].line for s in machine.wide}))
    text = machine.program.sites[number].text
    message = f"`{text}` computes in float64, though the arrays are float32"
    advice = "To Numba 2.0 is float64, as is float32 with an int. GPUs are slow at it: write np.float32(2)."
    return Finding("float64", message, advice, lines, (thread_name(thread, machine),), "note")


def from_refusal(line: int, what: str, instead: str) -> Finding:
    return Finding("refused", f"{what} does not compile for a GPU", f"Instead: {instead}.", (line,), ())


def from_exception(error: BaseException, line: int, machine: Machine) -> Finding:
    if isinstance(error, Refused):
        return from_refusal(line, error.what, error.instead)
    name = thread_name(machine.thread, machine)
    message = f"{name} stopped with {type(error).__name__}: {error}"
    return Finding("exception", message, "Nothing after this was run.", (line,), (name,))


def from_launch(grid: Dim3, block: Dim3, shared_bytes: int, line: int) -> list[Finding]:
    """What the driver would refuse before the first thread runs."""
    problems = []
    if block.size > MAX_THREADS_PER_BLOCK or any(n > m for n, m in zip(block, MAX_BLOCK, strict=True)):
        limits = f"A block has at most {MAX_THREADS_PER_BLOCK} threads, 64 of them along z."
        problems.append((f"a block of {tuple(block)} threads", limits))
    if any(n > m for n, m in zip(grid, MAX_GRID, strict=True)):
        problems.append((f"a grid of {tuple(grid)} blocks", "y and z reach 65535: put the long axis in x."))
    if shared_bytes > MAX_STATIC_SHARED:
        limits = f"A block has {MAX_STATIC_SHARED}: use smaller tiles."
        problems.append((f"{shared_bytes} bytes of shared memory", limits))
    return [Finding("launch", f"{what} cannot be launched", why, (line,), ()) for what, why in problems]
