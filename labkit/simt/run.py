"""`run` a kernel under one schedule, or `check` it under several."""

import inspect
from typing import Any

import numpy as np

from labkit.simt import words
from labkit.simt.limits import MAX_THREADS_PER_BLOCK, occupancy
from labkit.simt.machine import Dim3, Machine, Stopped, dim3
from labkit.simt.memory import GLOBAL, SHARED, SHIFT
from labkit.simt.races import find_races
from labkit.simt.report import SEVERITIES, Finding, Report
from labkit.simt.rewrite import READ, Program, rewrite
from labkit.simt.schedule import run_grid
from labkit.simt.trace import Trace, counts, make_trace, traffic
from labkit.simt.values import plain
from labkit.text import number

LIMIT = 5_000_000  # memory accesses in one run


def run(
    kernel: Any,
    grid: Any,
    block: Any,
    *arguments: Any,
    seed: int = 0,
    shared_bytes: int = 0,
    limit: int = LIMIT,
) -> Report:
    """Step `kernel[grid, block](*arguments)` once and report what happened.

    kernel: a plain function or a `@cuda.jit` object. arguments: NumPy arrays, changed in place, and numbers.
    seed: the order of the threads. shared_bytes: dynamic shared memory, for `cuda.shared.array(0, dtype)`.
    """
    return _run(
        rewrite(kernel), dim3(grid, "grid"), dim3(block, "block"), arguments, seed, shared_bytes, limit
    )


def check(
    kernel: Any,
    grid: Any,
    block: Any,
    *arguments: Any,
    schedules: int = 8,
    shared_bytes: int = 0,
    limit: int = LIMIT,
) -> Report:
    """Step `kernel` under several schedules from the same inputs; report findings and whether results differ.

    The arrays hold the results of the first schedule afterwards.
    """
    program, size, threads = rewrite(kernel), dim3(grid, "grid"), dim3(block, "block")
    arrays = [a for a in arguments if isinstance(a, np.ndarray) and a.flags.writeable]
    before = [a.copy() for a in arrays]
    report = _run(program, size, threads, arguments, 0, shared_bytes, limit)
    after = [a.copy() for a in arrays]
    for seed in range(1, schedules if report.finished else 1):
        _restore(arrays, before)
        other = _run(program, size, threads, arguments, seed, shared_bytes, limit)
        known = {(f.kind, f.lines) for f in report.findings}
        report.findings += [f for f in other.findings if (f.kind, f.lines) not in known]
        report.schedules += 1
        if not report.of("order"):
            report.findings += _differences(program, arguments, arrays, after, seed)
    _restore(arrays, after)
    report.findings = _worst_first(report.findings)
    return report


def _restore(arrays: list[np.ndarray], saved: list[np.ndarray]) -> None:
    for array, old in zip(arrays, saved, strict=True):
        array[...] = old


def _run(
    program: Program, grid: Dim3, block: Dim3, arguments: Any, seed: int, shared_bytes: int, limit: int
) -> Report:
    assert program.kernel is not None
    report = Report(program.kernel.plain.__name__, grid, block)
    report.findings = [words.from_refusal(*refusal) for refusal in dict.fromkeys(program.refusals)]
    if block.size > MAX_THREADS_PER_BLOCK or max(grid[1:]) > 65535:
        report.findings += words.from_launch(grid, block, 0, _first_line(program))
    if report.findings:
        return report
    machine = Machine(program, grid, block, shared_bytes=shared_bytes, limit=limit)
    function = program.bind(machine.helpers())
    values = _kernel_arguments(program, machine, arguments)
    try:
        with np.errstate(all="ignore"):
            run_grid(machine, function, values, seed)
        report.finished = True
    except Stopped:
        pass
    except Exception as error:
        report.findings.append(words.from_exception(error, _line(error, program), machine))
    _fill(report, machine, arguments)
    return report


def _kernel_arguments(program: Program, machine: Machine, arguments: Any) -> list[Any]:
    """Arrays wrapped, numbers as Numba types them; a kernel whose first parameter is `cuda` is given it."""
    assert program.kernel is not None
    names = _parameters(program)
    if len(names) != len(arguments):
        raise TypeError(
            f"{program.kernel.plain.__name__}({', '.join(names)}) takes {len(names)} arguments, "
            f"got {len(arguments)}"
        )
    named = list(zip(names, arguments, strict=True))
    for name, value in named:
        if not isinstance(value, (np.ndarray, np.generic, int, float, complex, bool, tuple)):
            raise TypeError(f"argument {name} must be a NumPy array or a number, got {type(value).__name__}")
    arrays = iter(machine.memory.arguments([(n, a) for n, a in named if isinstance(a, np.ndarray)]))
    values = [next(arrays) if isinstance(a, np.ndarray) else plain(a) for _, a in named]
    takes_cuda = len(inspect.signature(program.kernel.plain).parameters) > len(names)
    return [machine.cuda, *values] if takes_cuda else values


def _line(error: BaseException, program: Program) -> int:
    """The kernel's own line that `error` came through last."""
    names = {function.name for function in program.functions.values()}
    line, step = 0, error.__traceback__
    while step:
        if step.tb_frame.f_code.co_name in names:
            line = step.tb_lineno
        step = step.tb_next
    return line


def _fill(report: Report, machine: Machine, arguments: Any) -> None:
    trace = make_trace(machine)
    races = find_races(trace, machine)
    found = [*words.from_events(machine), *words.from_races(races, trace, machine)]
    report.traffic = traffic(trace, machine)
    found += [f for t in report.traffic if (f := words.from_traffic(t, machine))]
    floats = {a.dtype for a in arguments if isinstance(a, np.ndarray) and a.dtype.kind == "f"}
    if machine.wide and floats and np.dtype(np.float64) not in floats:
        found.append(words.from_float64(machine))
    found += words.from_launch(machine.grid, machine.block, machine.shared_size, _first_line(machine.program))
    report.findings = _worst_first(report.findings + found)
    shape = (machine.grid.size, machine.block.size)
    report.per_thread = {name: values.reshape(shape) for name, values in counts(trace, machine).items()}
    report.shared_bytes = machine.shared_size
    report.occupancy = occupancy(machine.block.size, machine.shared_size)
    report.touched = _touched(trace, machine)


KINDS = ("refused", "launch", "exception", "endless", "out of bounds", "divergent", "race", "uninitialized")


def _worst_first(findings: list[Finding]) -> list[Finding]:
    """Sorted by severity and kind, without those that only follow from another.

    Where barriers do not match, races and reads of unwritten memory follow from that; where a race is
    found, so does the read that came too early.
    """
    diverged = any(f.kind == "divergent" for f in findings)
    raced = {line for f in findings if f.kind == "race" for line in f.lines}
    kept: dict[Any, Finding] = {}
    for f in findings:
        follows = f.kind in ("race", "order", "uninitialized") and diverged
        if not follows and not (f.kind == "uninitialized" and f.line in raced):
            kept.setdefault((f.kind, f.lines, f.message.split(":")[0]), f)
    rank = {kind: i for i, kind in enumerate(KINDS)}
    return sorted(
        kept.values(),
        key=lambda f: (SEVERITIES.index(f.severity), rank.get(f.kind, len(rank)), f.lines, f.message),
    )


def _parameters(program: Program) -> list[str]:
    """Names of the kernel's parameters, without a first one that is given `cuda`."""
    assert program.kernel is not None
    names = list(inspect.signature(program.kernel.plain).parameters)
    return names[names[:1] == ["cuda"] :]


def _first_line(program: Program) -> int:
    assert program.kernel is not None
    return program.kernel.plain.__code__.co_firstlineno


def _differences(
    program: Program, arguments: Any, arrays: list[Any], first: list[Any], seed: int
) -> list[Finding]:
    """A finding if this schedule gave other results than the first."""
    names = _parameters(program)
    for now, then in zip(arrays, first, strict=True):
        if np.array_equal(now, then, equal_nan=now.dtype.kind in "fc"):
            continue
        name = next(n for n, argument in zip(names, arguments, strict=True) if argument is now)
        lines = (_first_line(program),)
        message = f"{name} differs between schedules 0 and {seed}, which run the threads in another order"
        if now.dtype.kind == "f" and np.allclose(now, then, rtol=1e-4, atol=1e-6, equal_nan=True):
            advice = "Float sums depend on their order. Add in a fixed order (a tree) to get equal bits."
            return [Finding("order", message + ", in the last digits", advice, lines, (), "note")]
        place = tuple(np.argwhere((now != then) & ((now == now) | (then == then)))[0].tolist())
        message += f": at {place} {number(then[place], 4)} and {number(now[place], 4)}"
        return [Finding("order", message, "A result must not depend on who is first.", lines, ())]
    return []


def _touched(trace: Trace, machine: Machine, threads: int = 16, elements: int = 40) -> dict[str, np.ndarray]:
    """For the picture: array name -> (threads, elements), 1 read, 2 written, 3 both; block 0 only."""
    touched: dict[str, np.ndarray] = {}
    inside = (trace.thread < min(threads, machine.block.size)) & np.isin(trace.space, (GLOBAL, SHARED))
    for which in np.unique(trace.buffer[inside]).tolist():
        buffer = machine.memory.buffers[which]
        rows = np.flatnonzero(inside & (trace.buffer == which))
        element = (trace.address[rows] & ((1 << SHIFT) - 1)) // buffer.itemsize
        rows, element = rows[element < elements], element[element < elements]
        marks = np.zeros((min(threads, machine.block.size), min(elements, buffer.elements)), np.uint8)
        bits = np.where(trace.kind[rows] == READ, 1, 2).astype(np.uint8)
        np.bitwise_or.at(marks, (trace.thread[rows], element), bits)
        touched[f"{buffer.name} ({buffer.space})"] = marks
    return touched
