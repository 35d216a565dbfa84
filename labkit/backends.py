"""Which kernels run: a namespace `k` of plain functions on arrays.

A kernel package is a folder of `labkit/kernels/` with a table `KERNELS` (module -> names of its kernels).
`cpu` looks in `numba` first, then in `numpy`; a module is imported when one of its kernels is first used, so
Numba is only loaded for kernels it really has. `cuda` looks nowhere else: a silent copy to the host would
be a lie about cost. A learner's own kernels lie over those of a device: `with labkit.use_kernels(mine): ...`.
"""

import difflib
import functools
import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from labkit.op_table import OPS

_PACKAGES = {"numpy": ("numpy",), "cpu": ("numba", "numpy"), "cuda": ("cuda",)}


class Kernels:
    """Kernels by name as attributes, found on first use: `k.exp(x)`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.device = "cuda" if name == "cuda" else "cpu"  # where its arrays are

    def __getattr__(self, kernel: str) -> Any:
        for package in _PACKAGES[self.name]:
            for module, names in _table(package).items():
                if kernel in names:
                    found = getattr(importlib.import_module(f"labkit.kernels.{package}.{module}"), kernel)
                    setattr(self, kernel, found)
                    return found
        raise AttributeError(_where_to_write(self.name, kernel))

    def __repr__(self) -> str:
        return f"<kernels {self.name}>"


class Mine(Kernels):
    """A learner's kernels over those of a device. `yours` names them, `calls` counts how often each ran."""

    def __init__(self, under: Kernels, mine: dict[str, Callable[..., Any]]) -> None:
        super().__init__(under.name)
        self._under = under
        self.yours = tuple(sorted({*mine, *getattr(under, "yours", ())}))
        self.calls: Counter[str] = Counter()
        for name, function in mine.items():
            setattr(self, name, self._counted(name, function))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any) -> Any:
            self.calls[name] += 1
            return function(*args)

        return call

    def __getattr__(self, kernel: str) -> Any:
        if kernel.startswith("_"):
            raise AttributeError(kernel)
        found = getattr(self._under, kernel)
        setattr(self, kernel, found)
        return found

    def __repr__(self) -> str:
        ran = ", ".join(f"{name} ({_times(self._calls_of(name))})" for name in self.yours)
        return f"<kernels {self.name}, yours: {ran}>"

    def _calls_of(self, name: str) -> int:
        under = self._under
        return self.calls[name] + (under._calls_of(name) if isinstance(under, Mine) else 0)


def _times(count: int) -> str:
    return "called once" if count == 1 else f"called {count} times" if count else "never called"


def _table(package: str) -> dict[str, set[str]]:
    return importlib.import_module(f"labkit.kernels.{package}").KERNELS


def _where_to_write(name: str, kernel: str) -> str:
    """There is no such kernel: which file would it belong in?"""
    twins = [module for module, names in _table("numpy").items() if kernel in names]
    if twins:
        own, twin = (f"labkit/kernels/{folder}/{twins[0]}.py" for folder in (name, "numpy"))
        return f"{name} has no kernel {kernel!r}. Write it in {own}, beside its twin in {twin}."
    family = OPS[kernel].__module__.rpartition(".")[2] if kernel in OPS else "<family>"
    text = f"{name} has no kernel {kernel!r}. Write it in labkit/kernels/numpy/{family}.py first"
    return text + (", then in labkit/kernels/cuda." if name == "cuda" else ".")


_namespaces = {name: Kernels(name) for name in _PACKAGES}
current_kernels = _namespaces["cpu"]  # what tensors on the CPU use now
current_cuda = _namespaces["cuda"]  # what tensors on the device `cuda` use now


def get(name: str) -> Kernels:
    """The kernels called "cpu" (Numba over NumPy), "numpy" (plain) or "cuda"."""
    if name == "numba":
        name = "cpu"
    if name not in _namespaces:
        raise ValueError(f"there are no kernels {name!r}; choose one of {', '.join(_namespaces)}")
    return _namespaces[name]


def of(device: str) -> Kernels:
    """The kernels for tensors on `device`."""
    return current_cuda if device == "cuda" else current_kernels


@contextmanager
def use_kernels(kernels: Any, device: str = "cpu") -> Iterator[Kernels]:
    """Run tensors on other kernels: labkit's by name, `use_kernels("numpy")`, or your own.

    Your own are a dict, a module or a notebook of functions with the names and arguments of kernels: they lie
    over the present ones of `device` ("cpu" or "cuda"), the rest stays. `as k` names them: `k.yours`, and
    `print(k)` says how often each was called.
    """
    global current_kernels, current_cuda
    if device not in ("cpu", "cuda"):
        raise ValueError(f"use_kernels(): device is 'cpu' or 'cuda', not {device!r}")
    if not isinstance(kernels, str):
        chosen: Kernels = Mine(of(device), _yours(kernels, device))
    elif device == "cuda" and kernels != "cuda":
        raise ValueError(f"use_kernels(): the kernels {kernels!r} work on arrays of the CPU, not of 'cuda'")
    else:
        chosen = get(kernels)
    before = current_kernels, current_cuda
    if device == "cuda":
        current_cuda = chosen
    else:
        current_kernels = chosen
    try:
        yield chosen
    finally:
        current_kernels, current_cuda = before


def _yours(source: Any, device: str) -> dict[str, Callable[..., Any]]:
    """The kernels in a dict (each name must be one), a module or a notebook (other functions are helpers)."""
    named = source if isinstance(source, dict) else {n: getattr(source, n) for n in dir(source)}
    functions = {n: f for n, f in named.items() if callable(f) and not n.startswith("_")}
    known = {name for names in _table("cuda" if device == "cuda" else "numpy").values() for name in names}
    where = getattr(source, "__name__", "mine")
    for name in functions.keys() - known:
        own = not isinstance(source, ModuleType) or getattr(functions[name], "__module__", "") == where
        near = difflib.get_close_matches(name, known, 1, 0.6 if isinstance(source, dict) else 0.85)
        if isinstance(source, dict) or (own and near):
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"use_kernels(): {device} has no kernel {name!r}.{meant}")
    mine = {name: f for name, f in functions.items() if name in known}
    if not mine:
        raise ValueError(f"use_kernels(): there is no kernel in {where}; a kernel is called as in k.relu(x)")
    for name, function in mine.items():
        _check_arguments(name, function, device)
    return mine


def _check_arguments(name: str, function: Callable[..., Any], device: str) -> None:
    """A kernel takes its arguments by position: yours must take as many as ours."""
    ours = getattr(_namespaces[device], name)
    try:
        count = ours.nin if hasattr(ours, "nin") else len(inspect.signature(ours).parameters)
        yours = inspect.signature(function)
    except (TypeError, ValueError):  # a compiled function may not say what it takes
        return
    try:
        yours.bind(*range(count))
    except TypeError:
        takes = f"{count} arguments" if hasattr(ours, "nin") else str(inspect.signature(ours))
        raise ValueError(f"use_kernels(): the kernel {name} takes {takes}, yours takes {yours}") from None
