"""What an answer finds around it: settings of Python, NumPy and torch that any code can turn.

An answer that turns one must not cost the next exercise its verdict. `Surroundings()` notes how everything
stands, `put_back()` puts it there again; `as_usual` does both around a call and has torch's settings at their
usual values inside. The grader's lanes, the check in a notebook and the audit all use this.

An answer may also replace `len` or delete labkit from `sys.modules`. So `put_back` begins with the builtins,
and uses none until they are there again.
"""

from __future__ import annotations

import builtins
import os
import random
import sys
import warnings
from collections.abc import Callable
from contextlib import ContextDecorator, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

import numpy as np

BUILTINS = vars(builtins)
KEEP: Any = object()
_inference: list[Any] = []  # torch leaves this mode when the object that entered it is collected


@dataclass(frozen=True)
class Dial:
    """One setting: how to read it and how to set it. `usual` is where it stands while an answer runs."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    usual: Any = KEEP


class Surroundings:
    """How every dial stands now; with `chance`, also where the generators of random numbers are."""

    def __init__(self, chance: bool = False) -> None:
        self.builtins = BUILTINS.copy()
        self.kept = {dial.name: dial.read() for dial in dials()}
        self.chance = {dial.name: dial.read() for dial in generators()} if chance else {}

    def put_back(self) -> None:
        BUILTINS.update(self.builtins)
        for dial in dials():  # of a library imported meanwhile only the usual value is known
            _turn(dial, self.kept.get(dial.name, dial.usual))
        for dial in generators():
            if dial.name in self.chance:
                dial.write(self.chance[dial.name])


class as_usual(ContextDecorator):
    """Around a call of an answer: torch's settings as usual inside, everything as it was afterwards."""

    def __enter__(self) -> None:
        self.before = Surroundings()
        for dial in dials():
            _turn(dial, dial.usual)

    def __exit__(self, *error: object) -> None:
        self.before.put_back()

    def _recreate_cm(self) -> as_usual:
        return as_usual()  # as a decorator: each call has its own


def _turn(dial: Dial, value: Any) -> None:
    if value is not KEEP and dial.read() != value:
        dial.write(value)


def dials() -> tuple[Dial, ...]:
    """Every setting, of the libraries that are imported."""
    of_torch = _dials_of_torch() if "torch" in sys.modules else ()
    return _PYTHON + of_torch + (_dials_of_labkit() if "labkit.engine" in sys.modules else ())


def _read_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return None


def _write_folder(folder: str | None) -> None:
    with suppress(OSError, TypeError):
        os.chdir(folder)  # type: ignore[arg-type]


def _write_environment(kept: dict[str, str]) -> None:
    for name in {*os.environ} - {*kept}:
        del os.environ[name]
    os.environ.update(kept)


def _write_path(kept: list[Any]) -> None:
    sys.path[:] = kept


def _write_finders(kept: list[Any]) -> None:
    sys.meta_path[:] = kept


def _read_modules() -> dict[str, ModuleType]:
    return {name: sys.modules[name] for name in _needed(len(sys.modules)) if name in sys.modules}


@lru_cache(8)
def _needed(count: int) -> tuple[str, ...]:
    """The modules that the grader cannot do without; asked again only when their number has changed."""
    return tuple(name for name in sys.modules if name in ("torch", "numpy") or name.startswith("labkit"))


def _write_warnings(kept: list[Any]) -> None:
    warnings.filters[:] = kept  # type: ignore[index]
    forget = getattr(warnings, "_filters_mutated", None)
    if forget:  # else what was shown once stays silent
        forget()


def _write_recursion_limit(limit: int) -> None:
    with suppress(RecursionError):  # already deeper than that
        sys.setrecursionlimit(limit)


_PYTHON = (
    Dial("modules of the grader", _read_modules, lambda kept: sys.modules.update(kept)),
    Dial("sys.path", lambda: list(sys.path), _write_path),
    Dial("sys.meta_path", lambda: list(sys.meta_path), _write_finders),
    Dial("working directory", _read_folder, _write_folder),
    Dial("environment", lambda: dict(os.environ), _write_environment),
    Dial("recursion limit", sys.getrecursionlimit, _write_recursion_limit),
    Dial("filters of warnings", lambda: list(warnings.filters), _write_warnings),
    Dial("NumPy's errors", np.geterr, lambda kept: np.seterr(**kept)),
)


@cache
def _dials_of_torch() -> tuple[Dial, ...]:
    torch = sys.modules["torch"]

    def read_device() -> Any:
        """None if nobody set it. `torch.get_default_device` makes a device, which a watcher would count."""
        context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
        return context and context.device

    def write_inference(enabled: bool) -> None:
        _inference.append(torch.inference_mode(enabled))
        _inference[-1].__enter__()

    def read_deterministic() -> tuple[bool, bool]:
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )

    return (
        Dial("default device", read_device, torch.set_default_device, None),
        Dial("default dtype", torch.get_default_dtype, torch.set_default_dtype, torch.float32),
        Dial("inference mode", torch.is_inference_mode_enabled, write_inference, False),  # switches the next
        Dial("gradients", torch.is_grad_enabled, torch.set_grad_enabled, True),
        Dial(
            "anomaly mode",
            lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
            lambda kept: torch.set_anomaly_enabled(*kept),
            (False, True),
        ),
        Dial(
            "deterministic algorithms",
            read_deterministic,
            lambda kept: torch.use_deterministic_algorithms(kept[0], warn_only=kept[1]),
            (False, False),
        ),
        Dial(
            "autocast",
            lambda: torch.is_autocast_enabled("cpu"),
            lambda kept: torch.set_autocast_enabled("cpu", kept),
            False,
        ),
        Dial(
            "precision of matrix products",
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        Dial("number of threads", torch.get_num_threads, torch.set_num_threads),
    )


@cache
def _dials_of_labkit() -> tuple[Dial, ...]:
    modes, dtypes = sys.modules["labkit.grad_mode"], sys.modules["labkit.dtypes"]

    def write_modes(kept: tuple[bool, bool]) -> None:
        modes.mode.recording, modes.mode.anomaly = kept

    return (
        Dial(
            "labkit's gradients",
            lambda: (modes.mode.recording, modes.mode.anomaly),
            write_modes,
            (True, False),
        ),
        Dial("labkit's default dtype", dtypes.get_default_dtype, dtypes.set_default_dtype, dtypes.float32),
    )


def generators() -> tuple[Dial, ...]:
    """Where the random numbers of each library come from."""
    torch, engine = sys.modules.get("torch"), sys.modules.get("labkit.engine")
    found = [
        Dial("random", random.getstate, random.setstate),
        Dial("numpy.random", np.random.get_state, np.random.set_state),
    ]
    if torch:
        found.append(Dial("torch", torch.get_rng_state, torch.set_rng_state))
    if engine:
        found.append(Dial("labkit", engine.get_rng_state, engine.set_rng_state))
    return tuple(found)
