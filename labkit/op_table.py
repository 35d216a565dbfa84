"""All ops by name, how each may be called, under which names it is offered, and watching every call."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from labkit.errors import NotSupported

Op = Callable[..., Any]
OPS: dict[str, Op] = {}
plugged: dict[str, Op] = {}  # by name in its file: a learner's implementation, called instead (plugging.py)
watchers: list[Callable[[str], None]] = []


@dataclass(frozen=True)
class Public:
    """Under which names a function is offered, as its decorator says."""

    call: Op
    function: bool  # labkit.f(x)
    method: bool  # x.f()
    in_place: bool  # x.f_()
    functional: bool | str  # labkit.nn.functional.f(x); "inplace": it also takes torch's argument `inplace`
    aliases: tuple[str, ...]  # other names of the function and the method
    returns: str  # the type of the result, for editors (stubs.py)


PUBLIC: dict[str, Public] = {}


def publish(
    call: Op,
    *,
    method: bool = False,
    function: bool | None = None,
    in_place: bool = False,
    functional: bool | str = False,
    aliases: str = "",
    returns: str = "Tensor",
) -> None:
    """Offer `call` under its name: as a method and so, if nothing else is said, also as `labkit.f`."""
    name = call.__name__
    if name in PUBLIC:
        raise TypeError(
            f"two functions are called {name}: in {file_of(PUBLIC[name].call)} and {file_of(call)}"
        )
    as_function = method if function is None else function
    others = tuple(aliases.split())
    PUBLIC[name] = Public(call, as_function, method, in_place, functional, others, returns)


def composed(**names: Any) -> Callable[[Op], Op]:
    """Declare a public function made of ops: under which names it is offered (see `publish`)."""

    def declare(function: Op) -> Op:
        name = function.__name__

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if plugged and name in plugged:
                return plugged[name](*args, **kwargs)
            return function(*args, **kwargs)

        publish(call, **names)
        return call

    return declare


def file_of(call: Op) -> str:
    """The file that a function of labkit is written in: "labkit/ops/reduce.py"."""
    return call.__module__.replace(".", "/") + ".py"


def check_all_are_offered() -> None:
    """An op of labkit/ops with a public name and no place where users find it was forgotten."""
    for call in OPS.values():
        name = call.__name__
        if call.__module__.startswith("labkit.ops.") and not name.startswith("_") and name not in PUBLIC:
            raise TypeError(
                f"{file_of(call)}: the op {name} is offered nowhere. Say where in its decorator: "
                f"@op(method=True) for labkit.{name}(x) and x.{name}(), in_place=True for x.{name}_(), "
                f"functional=True for nn.functional.{name}(x). A part of another function is called _{name}."
            )


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
