"""Which kernels run: a namespace `k` of plain functions on arrays.

A kernel package is a folder of `labkit/kernels/` with a table `KERNELS` (module -> names of its kernels).
`cpu` looks in `numba` first, then in `numpy`; a module is imported when one of its kernels is first used, so
Numba is only loaded for kernels it really has. `cuda` looks nowhere else: a silent copy to the host would
be a lie about cost.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PACKAGES = {"numpy": ("numpy",), "cpu": ("numba", "numpy"), "cuda": ("cuda",)}


class Kernels:
    """Kernels by name as attributes, found on first use: `k.exp(x)`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.device = "cuda" if name == "cuda" else "cpu"  # where its arrays are

    def __getattr__(self, kernel: str) -> Any:
        for package in _PACKAGES[self.name]:
            table = getattr(importlib.import_module(f"labkit.kernels.{package}"), "KERNELS", {})
            for module, names in table.items():
                if kernel in names:
                    found = getattr(importlib.import_module(f"labkit.kernels.{package}.{module}"), kernel)
                    setattr(self, kernel, found)
                    return found
        raise AttributeError(f"{self.name} has no kernel {kernel!r}")

    def __repr__(self) -> str:
        return f"<kernels {self.name}>"


_namespaces = {name: Kernels(name) for name in _PACKAGES}
current_kernels = _namespaces["cpu"]  # what tensors on the CPU use now


def get(name: str) -> Kernels:
    """The kernels called "cpu" (Numba over NumPy), "numpy" (plain) or "cuda"."""
    if name == "numba":
        name = "cpu"
    if name not in _namespaces:
        raise ValueError(f"there are no kernels {name!r}; choose one of {', '.join(_namespaces)}")
    return _namespaces[name]


def of(device: str) -> Kernels:
    """The kernels for tensors on `device`."""
    return _namespaces["cuda"] if device == "cuda" else current_kernels


@contextmanager
def use_kernels(name: str) -> Iterator[Kernels]:
    """Run CPU tensors on other kernels: `with labkit.use_kernels("numpy"): ...`."""
    global current_kernels
    before, current_kernels = current_kernels, get(name)
    try:
        yield current_kernels
    finally:
        current_kernels = before
