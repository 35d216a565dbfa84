"""Your own implementation in the place of one of labkit's: `with labkit.plug("layer_norm", layer_norm): ...`.

It is called as users call labkit's, on tensors: `layer_norm(x, normalized_shape, weight, bias, eps)`. It
returns

- a tensor, made of other ops, whose gradient follows by itself; or
- `value, backward`, as in week 2: `backward(g)` returns one gradient for each tensor among the arguments, in
  their order, None where there is none. If its first parameter is called `k`, it is written as the ops of
  labkit/ops are: it gets the kernels and, for tensors, arrays.
"""

import difflib
import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from labkit import autograd, backends
from labkit.errors import ShapeError
from labkit.grad_mode import mode, no_grad
from labkit.op_table import OPS, PUBLIC, Op, plugged
from labkit.tensor import Tensor

Slot = tuple[str, Any]  # the name of an argument, and its tensor or None


@contextmanager
def plug(name: str, implementation: Op) -> Iterator[None]:
    """Call `implementation` wherever the function `name` is called inside the block, with its arguments."""
    ours = _find(name)
    theirs = Plugged(name, ours, implementation)
    written = ours.__name__
    before = plugged.get(written)
    plugged[written] = theirs
    try:
        yield
    finally:
        plugged.pop(written, None)
        if before is not None:
            plugged[written] = before


def _find(name: str) -> Op:
    """The public function of this name or alias; or an op that has no public function, such as getitem."""
    names = {alias: public.call for own, public in PUBLIC.items() for alias in (own, *public.aliases)}
    if name not in names and name not in OPS:
        near = difflib.get_close_matches(name, [*names, *OPS], 1)
        raise KeyError(
            f"there is no op {name!r} to replace." + (f" Did you mean {near[0]!r}?" if near else "")
        )
    return names[name] if name in names else OPS[name]


class Plugged:
    """A learner's implementation of one function, and how to call it in the way it was written."""

    def __init__(self, name: str, ours: Op, implementation: Op) -> None:
        self.name, self.written, self.implementation = name, ours.__name__, implementation
        self.signature = inspect.signature(ours)
        self.theirs = inspect.signature(implementation)
        names = list(self.theirs.parameters)
        self.wants_kernels = names[:1] == ["k"]
        self._check_parameters()

    def _check_parameters(self) -> None:
        """It must take what every call passes; what has a default it may leave out."""
        needed = [p for p in self.signature.parameters.values() if p.default is p.empty]
        given = [p.name for p in needed if p.kind is not p.VAR_POSITIONAL]
        try:
            args, kwargs = self._arranged(dict.fromkeys(given))
            self.theirs.bind(*([None] if self.wants_kernels else []), *args, **kwargs)
        except TypeError as error:
            raise TypeError(self._misfit(str(error))) from None

    def _misfit(self, reason: str) -> str:
        yours = f"{self.implementation.__name__}{self.theirs}"
        return f"{self.name} is called as {self.name}{self.signature}, but yours is {yours}: {reason}."

    def _arranged(self, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call in the places where the learner's parameters are.

        By position, so that parameters may have other names, but by name where a parameter is keyword-only.
        Defaults are passed on as far as they are needed: before an argument that was given, or where the
        learner's parameter has none.
        """
        yours = list(self.theirs.parameters.values())[self.wants_kernels :]
        only_by_name = {p.name for p in yours if p.kind is p.KEYWORD_ONLY}
        places = [p for p in yours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        used = 0
        for p in self.signature.parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                args += given.get(p.name, ())
                used = len(args)
            elif p.kind is p.KEYWORD_ONLY or p.name in only_by_name:
                if p.name in given:
                    kwargs[p.name] = given[p.name]
            else:
                args.append(given.get(p.name, p.default))
                required = len(args) <= len(places) and places[len(args) - 1].default is p.empty
                used = len(args) if p.name in given or required else used
        return args[:used], kwargs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = dict(self.signature.bind(*args, **kwargs).arguments)
        arguments = self._arranged(given)
        try:
            self.theirs.bind(*([None] if self.wants_kernels else []), *arguments[0], **arguments[1])
        except TypeError as error:
            raise TypeError(self._misfit(str(error))) from None
        inputs = [slot for name, value in given.items() for slot in _slots(name, value)]
        tensors = [t for _, t in inputs if t is not None]
        for t in tensors:
            t.refresh()
        k = backends.of(autograd.common_device(self.name, tensors))
        with self._ours_again():
            result = self._call(k, *arguments)
        if not (isinstance(result, tuple) and len(result) == 2 and callable(result[1])):
            return self._checked(result)
        return self._recorded(k, inputs, *result)

    def _call(self, k: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.wants_kernels:
            return self.implementation(k, *map(_plain, args), **{n: _plain(v) for n, v in kwargs.items()})
        return self.implementation(*args, **kwargs)

    @contextmanager
    def _ours_again(self) -> Iterator[None]:
        """Inside the learner's code the name means labkit's own function."""
        mine = plugged.pop(self.written, None)
        try:
            yield
        finally:
            if mine is not None:
                plugged[self.written] = mine

    def _checked(self, result: Any) -> Any:
        """What a function of tensors returned, if it can be a result."""
        parts = result if isinstance(result, (tuple, list)) else [result]
        if self.wants_kernels or not all(isinstance(part, (Tensor, bool)) for part in parts):
            wanted = "value, backward" if self.wants_kernels else "a tensor, or value, backward"
            raise TypeError(f"your {self.name} returned {_words(result)}; wanted: {wanted}.")
        return result

    def _recorded(self, k: Any, inputs: list[Slot], value: Any, backward: Callable[..., Any]) -> Any:
        """The value as a tensor, or several, whose history is one node: the learner's way back."""
        values = value if isinstance(value, tuple) else (value,)
        arrays = [v.data if isinstance(v, Tensor) else v for v in values]
        if not all(hasattr(a, "dtype") for a in arrays):
            raise TypeError(f"your {self.name} returned {_words(value)} as its value; wanted: a tensor.")
        tensors = [t for _, t in inputs if t is not None]
        outs = tuple(autograd.wrap(k, a, tensors, k.device) for a in arrays)
        if mode.recording and any(t.requires_grad for t in tensors):
            autograd.record_call(self.name, tensors, outs, self._way_back(k, inputs, backward), k)
        return outs if isinstance(value, tuple) else outs[0]

    def _way_back(self, k: Any, inputs: list[Slot], backward: Callable[..., Any]) -> Callable[..., Any]:
        """The learner's `backward` as the tape calls it: arrays in, one array or None per tensor out."""
        wanted = [(name, tuple(t.shape)) for name, t in inputs if t is not None]
        is_tensor = [t is not None for _, t in inputs]

        def way_back(*grads: Any) -> tuple[Any, ...]:
            if not self.wants_kernels:
                grads = tuple(None if g is None else Tensor(g, device=k.device) for g in grads)
            with no_grad(), self._ours_again():
                found = backward(*grads)
            found = found if isinstance(found, (tuple, list)) else (found,)
            if len(found) == len(is_tensor):  # also one for each argument that was None
                found = list(itertools.compress(found, is_tensor))
            if len(found) != len(wanted):
                raise RuntimeError(
                    f"backward of your {self.name} returned {len(found)} gradients; wanted {len(wanted)}: "
                    f"one for each of {', '.join(name for name, _ in wanted)}; None where there is none."
                )
            return tuple(self._gradient(k, g, *slot) for g, slot in zip(found, wanted, strict=True))

        return way_back

    def _gradient(self, k: Any, g: Any, name: str, shape: tuple[int, ...]) -> Any:
        """One gradient as an array of its own, after checking that it belongs to an input of this shape."""
        if g is None:
            return None
        array = g.data if isinstance(g, Tensor) else g
        if not hasattr(array, "dtype"):
            raise TypeError(
                f"backward of your {self.name} returned {_words(g)} for {name}; wanted: a tensor."
            )
        if not autograd.broadcasts(shape, array.shape):
            raise ShapeError(
                f"backward of your {self.name} returned a gradient of shape {tuple(array.shape)} for {name}; "
                f"wanted {shape}, the shape of {name}."
            )
        return k.copy(k.asarray(array))


def _slots(name: str, value: Any) -> list[Slot]:
    """The tensors in an argument, with its name; None stands for one that was left out."""
    if isinstance(value, (list, tuple)):
        return [(f"{name}[{i}]", v) for i, v in enumerate(value) if isinstance(v, Tensor)]
    return [(name, value)] if value is None or isinstance(value, Tensor) else []


def _plain(value: Any) -> Any:
    """Arrays for tensors, also in lists."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return value.data if isinstance(value, Tensor) else value


def _words(value: Any) -> str:
    """What came, in few words."""
    if isinstance(value, (tuple, list)):
        return f"{len(value)} values ({', '.join(type(v).__name__ for v in value)})"
    return "nothing (None)" if value is None else type(value).__name__
