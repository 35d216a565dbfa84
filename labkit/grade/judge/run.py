"""Run one answer on one case and note everything the verdict needs."""

from __future__ import annotations

import inspect
import io
import linecache
import sys
import sysconfig
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from labkit.exercises.declare import Case, Implement, OnCases
from labkit.grade.judge.compare import Leaf, flatten, is_labkit, is_torch
from labkit.grade.judge.rules import asks_to_watch, own_code, watched
from labkit.grade.judge.surroundings import BUILTINS, as_usual

Watch = Callable[[], AbstractContextManager[Any]]


@dataclass
class Outcome:
    """What an answer did with one case. `error` excludes the rest.

    `used` has the operations it called, if they were watched. `again(watch)` calls it once more, quietly, and
    returns what `watch()` saw: for what is asked seldom, and for what would change how the answer runs.
    """

    value: Any = None
    error: BaseException | None = None
    grads: dict[str, Any] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    used: Counter[str] = field(default_factory=Counter)
    printed: bool = False
    again: Callable[[Watch], Any] | None = None

    def operations(self) -> Counter[str]:
        """The operations it calls, watched by now or not."""
        return self.used or (self.again(watched) if self.again else Counter())


class _Tee(io.TextIOBase):
    """Let prints through, and remember that there were any."""

    def __init__(self, target: Any) -> None:
        self.target, self.touched = target, False

    def write(self, text: str) -> int:
        self.touched = self.touched or bool(text.strip())
        return int(self.target.write(text) or 0)

    def flush(self) -> None:
        self.target.flush()

    def close(self) -> None:
        """Python calls this when the tee is collected; the target may be closed by then, and is not ours."""


def to_engine(inputs: dict[str, Any], engine: str) -> dict[str, Any]:
    """Hand NumPy arrays over as the engine's tensors, strides kept; other values pass unchanged."""
    return {name: _convert(value, engine) for name, value in inputs.items()}


def _convert(value: Any, engine: str) -> Any:
    if isinstance(value, dict):
        return {key: _convert(item, engine) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_convert(item, engine) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if not isinstance(value, np.ndarray) or engine in ("numpy", "python"):
        return value
    if engine == "labkit":
        import labkit

        return labkit.from_numpy(value)
    import torch

    if any(step < 0 for step in value.strides):
        value = value.copy()
    if value.flags.c_contiguous or not value.size:
        return torch.from_numpy(value)
    # A view seldom starts where its storage does: what forgets the offset should be seen.
    steps = [step // value.itemsize for step in value.strides]
    span = 1 + sum((size - 1) * step for size, step in zip(value.shape, steps, strict=True))
    memory = np.lib.stride_tricks.as_strided(value, (span,), (value.itemsize,))
    storage = np.concatenate([memory[-1:], memory])
    return torch.from_numpy(storage).as_strided(value.shape, steps, 1)


@as_usual()
def expected(exercise: OnCases, case: Case) -> Any:
    """The oracle's value for a case, from torch tensors."""
    engine = "python" if exercise.engine == "python" else "torch"
    seed_everything()
    return exercise.oracle(*to_engine(case.inputs(exercise.id, exercise.dtype), engine).values())


@as_usual()
def run(exercise: Implement, answer: Any, case: Case) -> Outcome:
    """Call the answer on fresh inputs; note its value, what it changed, and which operations it used.

    Operations are watched only where the rules ask for it: `torch.compile` breaks its graph at a watcher.
    An output that cannot be read (a tensor without data, a list that contains itself) is an error too.
    """
    inputs = to_engine(case.inputs(exercise.id, exercise.dtype), exercise.engine)
    before = _plain(inputs, copied=True)
    outcome = Outcome(again=partial(_again, exercise, answer, case))
    watch = watched() if asks_to_watch(exercise.rules) else nullcontext(Counter[str]())
    tee = _Tee(sys.stdout)
    seed_everything()
    try:
        with redirect_stdout(tee), watch as outcome.used:
            outcome.value = call(exercise, answer, inputs)
        outcome.shares = tuple(name for name in inputs if _shares_memory(outcome.value, inputs[name]))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        outcome.error = None if _returned_nothing(exercise, answer, case) else error
    outcome.printed = tee.touched
    after = _plain(inputs)
    outcome.changed = tuple(name for name in inputs if not _same(before[name], after[name]))
    return outcome


@as_usual()
def _again(exercise: Implement, answer: Any, case: Case, watch: Watch) -> Any:
    """What a watcher sees of the answer on one case, whatever comes of it."""
    inputs = to_engine(case.inputs(exercise.id, exercise.dtype), exercise.engine)
    seed_everything()
    with quiet(), watch() as seen:
        try:
            call(exercise, answer, inputs)
        except KeyboardInterrupt:
            raise
        except BaseException:  # it returned before, so this says nothing new
            pass
    return seen


def _returned_nothing(exercise: Implement, answer: Any, case: Case) -> bool:
    """Whether it was the None of an answer without `return` over which the grader stumbled."""
    if exercise.use is None or not inspect.isfunction(answer):
        return False
    last: Any = "not called"

    def noted(*given: Any, **named: Any) -> Any:
        nonlocal last
        last = "inside"
        last = answer(*given, **named)
        return last

    try:
        with quiet():
            call(exercise, noted, to_engine(case.inputs(exercise.id, exercise.dtype), exercise.engine))
    except Exception:
        return last is None
    return False


@contextmanager
def quiet() -> Iterator[None]:
    """For a second run, or of code that is not the learner's: nothing it prints or warns of is shown."""
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def warnings_at_the_learners_line() -> Iterator[None]:
    """torch's warnings would name the line of `rules.py` that watches it; name the one that called torch."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_there(
            message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
        ) -> None:
            frame: FrameType | None = sys._getframe(1)
            while frame and not _is_learners(frame):
                frame = frame.f_back
            if frame and filename.startswith(_NOT_LEARNERS[0]):
                filename, lineno = frame.f_code.co_filename, frame.f_lineno
            show(message, category, filename, lineno, file, line)

        warnings.showwarning = show_there
        yield


def call(exercise: Implement, answer: Any, inputs: dict[str, Any]) -> Any:
    kept = BUILTINS.copy()
    try:
        if exercise.use is not None:
            return exercise.use(answer, *inputs.values())
        value = answer(*inputs.values())
    finally:
        BUILTINS.update(kept)  # before anything else runs: the answer may have replaced `len`
    return value[0] if exercise.vjp and isinstance(value, tuple) and value else value


def seed_everything() -> None:
    """The same random numbers for every call, so that a drawn mask or order is the same on both sides."""
    import random

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - learners' code may use the global generator
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    if "labkit.engine" in sys.modules:
        sys.modules["labkit.engine"].manual_seed(0)


def _plain(inputs: dict[str, Any], copied: bool = False) -> dict[str, list[Any]]:
    """Inputs as flat lists of arrays and values, to compare before with after."""

    def plain(item: Any) -> Any:
        value = item.value if isinstance(item, Leaf) else item
        return value.copy() if copied and isinstance(value, np.ndarray) else value

    return {name: [plain(item) for _, item in flatten(value)] for name, value in inputs.items()}


def _same(before: list[Any], after: list[Any]) -> bool:
    if len(before) != len(after):
        return False
    for old, new in zip(before, after, strict=True):
        if isinstance(old, np.ndarray):
            if not (isinstance(new, np.ndarray) and old.shape == new.shape and old.dtype == new.dtype):
                return False
            if old.tobytes() != new.tobytes():
                return False
        elif isinstance(old, tuple | int | float | str | bool | bytes) and old != new and old == old:
            return False
    return True


def _arrays(value: Any) -> list[np.ndarray]:
    return [
        item.value
        for _, item in flatten(value)
        if isinstance(item, Leaf) and isinstance(item.value, np.ndarray)
    ]


def _shares_memory(output: Any, given: Any) -> bool:
    return any(np.shares_memory(a, b) for a in _arrays(output) for b in _arrays(given) if a.size and b.size)


# gradients


@as_usual()
def gradients(exercise: Implement, answer: Any, case: Case, engine: str | None = None) -> dict[str, Any]:
    """Gradients of a fixed random projection of the output, by input name. None: no gradient arrived."""
    engine = engine or exercise.engine
    inputs = to_engine(case.inputs(exercise.id, exercise.dtype), engine)
    seed_everything()
    if exercise.vjp and answer is not None:
        return _returned_gradients(exercise, answer, case, inputs)
    for name in exercise.grads:
        inputs[name].requires_grad_(True)
    output = exercise.oracle(*inputs.values()) if answer is None else call(exercise, answer, inputs)
    leaves = [value for _, value in _tensors(output)]
    wanted = [value for value in leaves if value.requires_grad]
    if wanted:
        total = sum(
            (out * g).sum()
            for out, g in zip(leaves, _cotangents(output, engine), strict=True)
            if out.requires_grad
        )
        total.backward()
    return {name: inputs[name].grad for name in exercise.grads}


def _returned_gradients(
    exercise: Implement, answer: Any, case: Case, inputs: dict[str, Any]
) -> dict[str, Any]:
    """The gradients that the answer's own `backward` returns."""
    pair = answer(*inputs.values())
    if not (isinstance(pair, tuple) and len(pair) == 2 and callable(pair[1])):
        raise TypeError("the answer must return two things, (value, backward)")
    grads = pair[1](_cotangents(expected(exercise, case), exercise.engine)[0])
    grads = grads if isinstance(grads, tuple | list) else (grads,)
    if len(grads) != len(exercise.grads):
        raise TypeError(f"backward returns {len(grads)} gradients; wanted: {', '.join(exercise.grads)}")
    return dict(zip(exercise.grads, grads, strict=True))


def expected_gradients(exercise: Implement, case: Case) -> dict[str, Any]:
    return gradients(exercise, None, case, engine="torch")


def _tensors(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """The floating tensors of an output with their paths."""
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _tensors(item, f"{path}[{key!r}]")]
    if isinstance(value, tuple | list):
        return [pair for i, item in enumerate(value) for pair in _tensors(item, f"{path}[{i}]")]
    is_float = (is_torch(value) or is_labkit(value)) and "float" in str(value.dtype)
    return [(path, value)] if is_float else []


def _cotangents(output: Any, engine: str) -> list[Any]:
    """One fixed random array per floating output, the same for yours and torch's."""
    arrays = []
    for path, value in _tensors(output) or [("", output)]:
        rng = np.random.default_rng(zlib.crc32(path.encode()))
        array = rng.standard_normal(tuple(value.shape)).astype(str(value.dtype).split(".")[-1])
        arrays.append(_convert(array, engine))
    return arrays


# errors


LONGEST_SOURCE = 120
_NOT_LEARNERS = (str(Path(__file__).parents[2]), sysconfig.get_path("stdlib"), "<frozen")


def where_it_failed(error: BaseException) -> str | None:
    """The line of the learner's own code that raised: "line 3: `return x.sum(5)`"."""
    trace = _learners_trace(error)
    if trace is None:
        return None
    source = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
    source = source if len(source) <= LONGEST_SOURCE else source[: LONGEST_SOURCE - 3] + "..."
    quoted = source if "`" in source else f"`{source}`"
    return f"line {trace.tb_lineno}: {quoted}" if source else f"line {trace.tb_lineno}"


def _learners_trace(error: BaseException) -> TracebackType | None:
    """The innermost part of a traceback that is in the learner's own code."""
    found, trace = None, error.__traceback__
    while trace is not None:
        found = trace if _is_learners(trace.tb_frame) else found
        trace = trace.tb_next
    return found


def _is_learners(frame: FrameType) -> bool:
    filename = frame.f_code.co_filename
    return "site-packages" not in filename and not filename.startswith(_NOT_LEARNERS)


def is_stub(error: BaseException | None) -> bool:
    """Whether an error is a stub's `raise NotImplementedError`, not torch's for an odd dtype."""
    if not isinstance(error, NotImplementedError):
        return False
    return str(error) in ("", "your code here") or "NotImplementedError" in (where_it_failed(error) or "")


def is_own(error: BaseException, answer: Any) -> bool:
    """Whether the line that raised stands in the cell of the answer, as far as that can be told."""
    trace, cells = _learners_trace(error), {code.co_filename for code in own_code(answer)}
    return trace is None or not cells or trace.tb_frame.f_code.co_filename in cells


def raised_in(error: BaseException) -> str:
    """The name of the learner's function that raised."""
    trace = _learners_trace(error)
    return trace.tb_frame.f_code.co_qualname.split(".<locals>")[0] if trace else "a function"
