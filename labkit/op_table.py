"""All ops by name, how each may be called, and two ways to step in: watch every call, or replace an op."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from labkit.errors import NotSupported

Op = Callable[..., Any]
OPS: dict[str, Op] = {}
plugged: dict[str, Op] = {}  # a learner's implementations, used instead of ours
watchers: list[Callable[[str], None]] = []


class Form:
    """How an op may be called, read from its declaration."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        spec = inspect.getfullargspec(fn)
        self.name = fn.__name__.strip("_")
        self.arrays = spec.args[1:]
        self.count = None if spec.varargs else len(self.arrays)
        self.optional = dict(zip(reversed(self.arrays), reversed(spec.defaults or ()), strict=False))
        self.wants_need = "need" in spec.kwonlyargs
        self.parameters = [p for p in spec.kwonlyargs if p != "need"]
        shown = [p for p in list(inspect.signature(fn).parameters.values())[1:] if p.name != "need"]
        if self.count is not None:
            shown = [p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in shown]
        self.signature = inspect.Signature(shown)  # what a caller sees

    def bind(self, inputs: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Sort a call in torch's style into arrays (returned) and parameters (in `params`)."""
        given = list(inputs[: len(self.arrays)])
        for i, array in enumerate(self.arrays[len(given) :], len(given)):
            alias = "input" if i == 0 else "other"
            if array in params or alias in params:
                given.append(params.pop(array if array in params else alias))
            elif array in self.optional:
                given.append(self.optional[array])
            else:
                names = ", ".join(self.arrays)
                raise TypeError(f"{self.name}() needs {len(self.arrays)} tensors ({names}), got {i}")
        extra = inputs[len(self.arrays) :]
        takes = ", ".join(self.arrays + self.parameters)
        if len(extra) > len(self.parameters):
            raise TypeError(f"{self.name}() got {len(inputs)} arguments; it takes {takes}")
        params.update(zip(self.parameters, extra, strict=False))
        for unknown in params.keys() - set(self.parameters):
            raise NotSupported(f"{self.name}() has no argument {unknown!r} in labkit; it takes {takes}")
        return tuple(given)


@contextmanager
def watch_ops(callback: Callable[[str], None]) -> Iterator[None]:
    """Call `callback(name)` for every op that is called inside the block."""
    watchers.append(callback)
    try:
        yield
    finally:
        watchers.remove(callback)


@contextmanager
def plug(name: str, implementation: Op) -> Iterator[None]:
    """Use `implementation` (a function of tensors) wherever the op `name` is called inside the block."""
    if name not in OPS:
        raise KeyError(f"there is no op {name!r} to replace")
    before = plugged.get(name)
    plugged[name] = implementation
    try:
        yield
    finally:
        plugged.pop(name)
        if before is not None:
            plugged[name] = before


def call_plugged(name: str, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """Call the replacement; inside it, the name means our own op again."""
    implementation = plugged.pop(name)
    try:
        return implementation(*inputs, **params)
    finally:
        plugged[name] = implementation
