"""Count what a call costs: elements that its operations read and write, and floating-point operations.

An operation of torch, looked at below autograd, reads every element of its inputs and writes every element of
its outputs. A view moves nothing. What the hardware does (caches, fusion) is another matter; this count is
the same on every machine and on every run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Their first argument is written without being read, or is not touched at all.
_ONLY_WRITES = {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_"}
_WRITES_NOTHING = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
_LOOKS_UP = {"index", "index_select", "gather", "embedding", "take"}  # reads what it returns, not all it has


@dataclass
class Traffic:
    """What one call read, wrote and computed."""

    reads: int = 0
    writes: int = 0
    flops: int = 0


@contextmanager
def counted() -> Iterator[Traffic]:
    """Count what happens inside; the figures are there afterwards."""
    from torch.utils.flop_counter import FlopCounterMode

    traffic = Traffic()
    flops = FlopCounterMode(display=False, custom_mapping=_products_with_vectors())
    with flops, _counter(traffic):
        yield traffic
    traffic.flops = int(flops.get_total_flops())


def _products_with_vectors() -> dict[Any, Any]:
    """torch counts the products of matrices only; a vector costs the same per element."""
    from torch import ops

    def product(a: Any, b: Any, *_: Any, **__: Any) -> int:
        return 2 * math.prod(a)

    def sum_and_product(_: Any, a: Any, *__: Any, **___: Any) -> int:
        return 2 * math.prod(a)

    return {ops.aten.mv: product, ops.aten.dot: product, ops.aten.addmv: sum_and_product}


def _counter(traffic: Traffic) -> Any:
    from torch import Tensor
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    def tensors(value: Any) -> list[Any]:
        return list({id(leaf): leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)}.values())

    class Counter(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = func.overloadpacket.__name__
            returned = func(*args, **kwargs)
            changed, unread = _changed(func, args, kwargs)
            given, made = tensors((args, kwargs)), tensors(returned)
            if not changed and _is_view(given, made):
                return returned
            reads = [t for t in given if not any(t is other for other in unread)]
            reads += made if name in _LOOKS_UP else []
            traffic.reads += sum(map(_elements, reads))
            if name not in _WRITES_NOTHING:
                traffic.writes += sum(map(_elements, tensors(changed) or made))
            return returned

    return Counter()


def _changed(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The arguments that an operation writes to (`x` of `x.add_(y)`, `out=`), and those it does not read."""
    name = func.overloadpacket.__name__
    changed = []
    unread = [args[0]] if name in _ONLY_WRITES | _LOOKS_UP else []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            changed.append(args[place] if place < len(args) else kwargs.get(argument.name))
            unread += changed[-1:] if argument.is_out else []
    return changed, unread


def _is_view(given: list[Any], made: list[Any]) -> bool:
    """Whether all that came out is memory that went in."""
    return bool(made) and {_memory(t) for t in made} <= {_memory(t) for t in given}


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _elements(tensor: Any) -> int:
    """How many places in memory a tensor has: what `expand` repeats is there once."""
    count = 1
    for size, step in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if step or not size else 1
    return count
