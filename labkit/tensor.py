"""Tensor: an array, its gradient and its history.

`data` is the array (NumPy on the CPU; torch's `.data` is a tensor), `grad` the gradient once `backward()` has run,
`node` the op call that made this tensor. Methods that compute are the functions of `labkit.ops`, bound by name there.
"""

import sys
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from labkit.dtypes import FLOATS, DType, as_dtype, get_default_dtype
from labkit.errors import NotSupported


class Size(tuple[int, ...]):
    """The shape of a tensor."""

    def numel(self) -> int:
        return int(np.prod(self, dtype=int))

    def __repr__(self) -> str:
        return f"labkit.Size({list(self)})"


class Storage:
    """The memory that a tensor and its views share: how often it was written in place."""

    __slots__ = ("rewrites", "version", "written")

    def __init__(self) -> None:
        self.version = 0  # in-place writes
        self.rewrites = 0  # those that changed a recorded history
        self.written: Any = None  # weak reference to the array that was written


class Tensor:
    """A multi-dimensional array that can remember how it was computed."""

    __slots__ = (
        "__weakref__", "data", "device", "grad", "is_view", "node", "requires_grad", "rewrites", "slot", "storage",
    )  # fmt: skip
    __array_priority__ = 1000  # NumPy arrays leave `array * tensor` to us

    def __init__(self, data: Any, requires_grad: bool = False, device: str = "cpu") -> None:
        self.data = data
        self.grad: Tensor | None = None
        self.requires_grad = requires_grad
        self.node: Any = (
            None  # the op call that made this tensor; for a leaf, where its gradient is collected
        )
        self.slot = 0  # which output of that call
        self.device = device
        self.storage = Storage()
        self.rewrites = 0  # storage.rewrites when `node` was right
        self.is_view = False

    if TYPE_CHECKING:  # methods bound by labkit.ops

        def __getattr__(self, name: str) -> Any: ...

    # ---- what it is ----

    @property
    def shape(self) -> Size:
        return Size(self.data.shape)

    @property
    def dtype(self) -> DType:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return self.data.ndim

    def numel(self) -> int:
        return self.data.size

    # ---- history ----

    def edge(self) -> tuple[Any, int]:
        """Where this tensor's gradient goes: a node and which of its outputs."""
        if self.node is None:
            self.node = autograd.leaf_node(self)
        return self.node, self.slot

    @property
    def is_leaf(self) -> bool:
        return self.node is None or self.node.leaf is not None

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor, or None for a leaf."""
        return None if self.is_leaf else self.node

    def backward(self, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add d(self)/d(leaf) to the `.grad` of every leaf below."""
        autograd.backward(self, gradient, retain_graph, create_graph)

    # ---- operators ----

    def __add__(self, other: Any) -> "Tensor":
        return ops.add(self, other)

    def __mul__(self, other: Any) -> "Tensor":
        return ops.mul(self, other)

    __radd__, __rmul__ = __add__, __mul__


def tensor(data: Any, *, dtype: Any = None, device: str = "cpu", requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: a number, nested lists, an array or a tensor."""
    array = np.array(data.data if isinstance(data, Tensor) else data, order="C")
    if dtype is not None:
        array = array.astype(as_dtype(dtype), copy=False)
    elif not isinstance(data, (Tensor, np.ndarray, np.generic)) and array.dtype == np.float64:
        array = array.astype(get_default_dtype())
    return Tensor(array, requires_grad, device)


class _Callable(ModuleType):
    """`labkit.tensor` is this file and torch's function at once: calling the module calls the function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        return tensor(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable

# Each of these modules needs Tensor: imported last, when it exists.
from labkit import autograd, ops  # noqa: E402
