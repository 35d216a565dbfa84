"""Tensor: an array, its gradient and its history.

`data` is the array (NumPy on the CPU; torch's `.data` is a tensor), `grad` the gradient once `backward()` has
run, `node` the op call that made this tensor. Methods that compute are bound by name in `labkit.ops`.
"""

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from labkit import backends, cuda, dtypes
from labkit.dtypes import FLOATS, DType, as_dtype
from labkit.errors import ShapeError
from labkit.grad_mode import mode


class Size(tuple[int, ...]):
    """The shape of a tensor."""

    def numel(self) -> int:
        return int(np.prod(self, dtype=int))

    def __repr__(self) -> str:
        return f"labkit.Size({list(self)})"


if TYPE_CHECKING:  # the methods that labkit.ops binds, for editors: labkit/methods.pyi
    from labkit.methods import Methods
else:
    Methods = object


class Tensor(Methods):
    """A multi-dimensional array that can remember how it was computed."""

    __slots__ = (
        "__weakref__", "base", "data", "device", "edge", "grad", "requires_grad", "rewrites",
    )  # fmt: skip
    __array_priority__ = 1000  # NumPy leaves `array * tensor` to us

    def __init__(self, data: Any, requires_grad: bool = False, device: str = "cpu") -> None:
        if not hasattr(data, "dtype"):
            raise TypeError(
                f"Tensor() wraps an array, got {type(data).__name__}. labkit.tensor(...) makes a tensor of "
                "numbers and lists, labkit.empty(2, 3) one of a size."
            )
        self.data = data
        self.grad: Tensor | None = None
        self.requires_grad = requires_grad
        self.edge: tuple[Any, int] | None = None  # the node that made this tensor; which of its outputs
        self.device = device
        self.base: Tensor | None = None  # the tensor that this one is a view of
        # How many writes changed its history; for a view, how many of its base's are in its `edge`.
        self.rewrites = 0

    # ---- what it is ----

    @property
    def shape(self) -> Size:
        return Size(self.data.shape)

    @overload
    def size(self) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        return self.shape if dim is None else self.data.shape[axis_of("size", dim, self.ndim)]

    @property
    def dtype(self) -> DType:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return self.data.ndim

    def dim(self) -> int:
        return self.data.ndim

    def numel(self) -> int:
        return self.data.size

    def element_size(self) -> int:
        """Bytes per element"""
        return self.data.itemsize

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """How many elements of memory lie between neighbors along each axis."""
        strides = tuple(s // self.data.itemsize for s in self.data.strides)
        return strides if dim is None else strides[axis_of("stride", dim, self.ndim)]

    def storage_offset(self) -> int:
        """How many elements of the memory lie before this tensor's first."""
        return self._kernels.offset(self.data)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.data.__array_interface__["data"][0]

    def is_contiguous(self) -> bool:
        """Do the elements lie in memory row by row, without gaps?"""
        return self.data.flags.c_contiguous

    @property
    def T(self) -> "Tensor":
        """All axes in reverse order (a view)."""
        return ops.shape.permute(self, *reversed(range(self.ndim)))

    @property
    def mT(self) -> "Tensor":
        """The last two axes exchanged (a view)."""
        return ops.shape.transpose(self, -2, -1)

    @property
    def _kernels(self) -> Any:
        return backends.of(self.device)

    # ---- history ----

    @property
    def node(self) -> Any:
        """The op call that made this tensor; for a leaf, the place where its gradient is collected."""
        self.refresh()
        return None if self.edge is None else self.edge[0]

    def make_leaf(self) -> tuple[Any, int]:
        """Give a tensor without history a node where its gradient is collected."""
        self.edge = autograd.leaf_node(self), 0
        return self.edge

    @property
    def is_leaf(self) -> bool:
        self.refresh()
        return self.edge is None or self.edge[0].leaf is not None

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor, or None for a leaf."""
        return None if self.is_leaf else self.node

    @property
    def _version(self) -> int:
        """How often this memory was written in place."""
        return autograd.version_of(self._kernels.root(self.data))

    def backward(self, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add d(self)/d(leaf) to the `.grad` of every leaf that self was computed from."""
        autograd.backward(self, gradient, retain_graph, create_graph)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Start (or stop) recording what is computed from this tensor."""
        if requires_grad and self.dtype not in FLOATS:
            raise RuntimeError(
                f"only floating-point tensors have gradients, this one is {self.dtype.name}: use .float()"
            )
        if not requires_grad and not self.is_leaf:
            raise RuntimeError(
                "requires_grad can only be turned off on a leaf. Use detach() for a copy without history."
            )
        self.requires_grad = requires_grad
        return self

    def detach(self) -> "Tensor":
        """The same memory without history: gradients stop here."""
        return Tensor(self.data, device=self.device)

    def detach_(self) -> Self:
        self.edge, self.requires_grad, self.base = None, False, None
        return self

    def retain_grad(self) -> None:
        """Keep the gradient of this tensor in `.grad`, although it is not a leaf."""
        if self.is_leaf:
            return
        this = weakref.ref(self)

        def keep(g: Tensor) -> None:
            tensor = this()
            if tensor is not None:
                tensor.grad = g if tensor.grad is None else ops.elementwise.add(tensor.grad, g)

        self.register_hook(keep)

    def register_hook(self, hook: Callable[["Tensor"], Any]) -> "Hook":
        """Call `hook(grad)` when the gradient of this tensor is known; what it returns replaces it."""
        self.refresh()
        if not self.requires_grad:
            raise RuntimeError(
                "register_hook() needs a tensor that requires a gradient; this one never gets one."
            )
        node, slot = self.edge or self.make_leaf()
        node.hooks = node.hooks or {}
        node.hooks.setdefault(slot, []).append(hook)
        return Hook(node.hooks[slot], hook)

    # ---- writing in place ----

    def refresh(self) -> None:
        """Bring the history of a view up to date after its base was written in place."""
        base = self.base
        if base is not None and self.rewrites != base.rewrites:
            with autograd.enable_grad():
                view = ops.shape.as_strided(base, self.data.shape, self.stride(), self.storage_offset())
            self.edge, self.requires_grad = view.edge, view.requires_grad
            self.rewrites = base.rewrites

    def before_write(self, *others: Any) -> "Tensor":
        """Check that self may be written, and return its present value with its history, as an op's input."""
        self.refresh()
        if not self.data.flags.writeable:
            raise RuntimeError(
                "this tensor cannot be written in place: it is an expanded view, where one place in memory "
                "stands for many elements (or a read-only array). Copy it first: x.clone()."
            )
        if not autograd.is_grad_enabled() or not any(
            t.requires_grad for t in (self, *others) if isinstance(t, Tensor)
        ):
            return self
        for t in (self, self.base):
            if t is not None and t.requires_grad and t.is_leaf:
                raise RuntimeError(
                    "a leaf that requires a gradient was about to be changed in place: its value from before "
                    "would be lost to backward(). Use `with labkit.no_grad():`, or make a new tensor."
                )
        out = Tensor(self.data, self.requires_grad, self.device)
        out.edge = self.edge
        return out

    def after_write(self, value: "Tensor") -> Self:
        """Note that self's memory now holds `value`, and that its history is the one of `value`."""
        autograd.note_write(self._kernels.root(self.data))
        if autograd.is_grad_enabled() and (value.requires_grad or self.requires_grad):
            target: Tensor = self
            if self.base is not None:
                target = self.base
                region = {"size": self.data.shape, "stride": self.stride(), "offset": self.storage_offset()}
                value = ops.shape._overwritten(target, value, **region)
            target.edge, target.requires_grad = value.edge, value.requires_grad
            target.rewrites += 1
            self.refresh()
        return self

    def copy_(self, src: Any) -> Self:
        """Overwrite self with `src`, broadcast and cast."""
        src = (src if isinstance(src, Tensor) else tensor(src)).to(device=self.device)
        value = ops.shape._copy(self.before_write(src), src)
        self._kernels.copy_(self.data, value.data)
        return self.after_write(value)

    def __setitem__(self, index: Any, value: Any) -> None:
        before = self.before_write(value)
        before = before if before is not self else self.detach()
        self.after_write(ops.index._setitem(before, value, index=as_index(index)))

    def __getitem__(self, index: Any) -> "Tensor":
        return ops.index._getitem(self, index=as_index(index))

    # ---- conversion ----

    def to(
        self, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, **other: Any
    ) -> "Tensor":
        """In another dtype or on another device: `x.to(labkit.float64)`, `x.to("cpu")`, `x.to(y)`."""
        for a in args:
            if isinstance(a, Tensor):
                dtype, device = a.dtype, a.device
            elif isinstance(a, str) and a.split(":")[0] in ("cpu", "cuda"):
                device = a
            elif not isinstance(a, bool):
                dtype = a
        target = self.dtype if dtype is None else as_dtype(dtype)
        if device is not None and cuda.device_of(device) != self.device:
            if self.device == "cpu":  # the CPU knows more types: convert there
                return _moved(self.to(target), "cuda")
            return _moved(self, "cpu").to(target)
        if target != self.dtype:
            return ops.shape._cast(self, dtype=target)
        return ops.shape.clone(self) if copy else self

    def type_as(self, other: "Tensor") -> "Tensor":
        return self.to(other.dtype)

    def cpu(self) -> "Tensor":
        return self.to("cpu")

    def cuda(self) -> "Tensor":
        return self.to("cuda")

    def numpy(self, *, force: bool = False) -> Any:
        """The NumPy array that shares this tensor's memory."""
        if self.requires_grad and not force:
            raise RuntimeError("numpy() would lose the history of this tensor. Say so: x.detach().numpy().")
        if self.device != "cpu" and not force:
            raise TypeError(f"NumPy cannot read a tensor on {self.device}. Copy it first: x.cpu().numpy().")
        return self.data if self.device == "cpu" else self.detach().cpu().data

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.numpy()
        return (
            array.astype(dtype)
            if dtype is not None and array.dtype != dtype
            else array.copy()
            if copy
            else array
        )

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's functions see tensors as arrays and return arrays: np.mean(x), np.concatenate([x, y])."""
        given = {name: _plain(value, force=False) for name, value in kwargs.items()}
        return func(*_plain(args, force=False), **given)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        raise TypeError(
            f"torch's {name}() got a labkit tensor. Use labkit's own {name}(), or hand it over: x.to_torch() "
            "(and labkit.from_torch(y) for the way back)."
        )

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def to_torch(self) -> Any:
        """A torch tensor with the same memory (a copy for bfloat16)."""
        import torch

        if self.device != "cpu":
            return self.detach().cpu().requires_grad_(self.requires_grad).to_torch()
        if self.dtype == dtypes.bfloat16:
            return torch.from_numpy(self.data.astype(np.float32)).to(torch.bfloat16)
        data = self.data if self.data.flags.writeable else self.data.copy()
        return torch.from_numpy(data).requires_grad_(self.requires_grad and self.is_leaf)

    def item(self) -> Any:
        """The only element, as a Python number."""
        if self.numel() != 1:
            raise RuntimeError(
                f"a tensor of shape {tuple(self.shape)} has {self.numel()} elements; item(), bool(), int() "
                "and float() need exactly one. Reduce it first (.sum(), .all(), .any()) or pick one (x[0])."
            )
        value = self.data.item()
        return float(value) if self.dtype in FLOATS else value

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        data = self.detach().cpu().data
        return data.astype(np.float32).tolist() if self.dtype == dtypes.bfloat16 else data.tolist()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype in FLOATS:
            raise TypeError(
                f"only integer tensors can be used as an index, this one is {self.dtype.name}: use .long()"
            )
        return int(self.item())

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor: it is a single number")
        return self.data.shape[0]

    def __iter__(self) -> Iterator["Tensor"]:
        if self.ndim == 0:
            raise TypeError("a 0-d tensor is a single number and cannot be iterated over")
        return iter(ops.shape.unbind(self))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __repr__(self) -> str:
        return text_of(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 and spec else repr(self)

    def __deepcopy__(self, memo: dict[Any, Any]) -> "Tensor":
        if not self.is_leaf:
            raise RuntimeError(
                "only leaves can be deep-copied: use x.detach().clone(), which drops the history."
            )
        out = self.__class__.__new__(self.__class__)
        Tensor.__init__(out, self.data.copy(), self.requires_grad, self.device)
        out.grad = None if self.grad is None else self.grad.clone()
        memo[id(self)] = out
        return out

    def __reduce__(self) -> Any:  # pickling, for worker processes
        return _restore, (self.__class__, np.ascontiguousarray(self.numpy(force=True)), self.requires_grad)

    __hash__ = object.__hash__


def _moved(tensor: Tensor, device: str) -> Tensor:
    """A copy of the tensor on the other device; its gradient is moved back the same way."""
    tensor.refresh()
    move, back = (cuda.upload, cuda.download) if device == "cuda" else (cuda.download, cuda.upload)
    out = Tensor(move(tensor.data), device=device)
    if tensor.requires_grad and mode.recording:
        autograd.record_call("to", (tensor,), (out,), back, backends.of(device))
    return out


def _restore(cls: Any, data: Any, requires_grad: bool) -> Tensor:
    out = cls.__new__(cls)
    Tensor.__init__(out, data, requires_grad)
    return out


class Hook:
    """A registered hook; `remove()` takes it away again."""

    def __init__(self, hooks: list[Any], hook: Any) -> None:
        self.hooks, self.hook = hooks, hook

    def remove(self) -> None:
        if self.hook in self.hooks:
            self.hooks.remove(self.hook)


def in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The in-place form of a function: `x.add_(y)` overwrites x with `add(x, y)`."""

    @functools.wraps(function)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        before = self.before_write(*args, *kwargs.values())
        if (
            before is not self
        ):  # recorded: the op may keep its input, so it must not be the memory we overwrite
            before.data = self._kernels.copy(before.data)
        value = function(before, *args, **kwargs)
        if value.shape != self.shape:
            raise ShapeError(
                f"{function.__name__}_(): the result has shape {tuple(value.shape)} and cannot be written "
                f"into shape {tuple(self.shape)}. Only the other one can broadcast: x = x + y makes a new x."
            )
        if dtypes.kind(value.dtype) > dtypes.kind(self.dtype):
            raise RuntimeError(
                f"{function.__name__}_(): the result is {value.dtype.name} and cannot be written into "
                f"{self.dtype.name}. Convert first: x = x.to(...)."
            )
        value = value.to(self.dtype)
        self._kernels.copy_(self.data, value.data)
        return self.after_write(value)

    return method


def as_index(index: Any) -> Any:
    """An index with tensors and lists as arrays, and checked slices."""
    if isinstance(index, tuple):
        return tuple(as_index(i) for i in index)
    if isinstance(index, Tensor):
        if index.dtype in FLOATS:
            raise IndexError(
                f"an index must hold integers or bools, got {index.dtype.name}. Convert it: index.long()."
            )
        return int(index.data) if index.ndim == 0 and index.dtype != dtypes.bool_ else index.data
    if isinstance(index, (list, range)):
        return np.asarray(_plain(index), dtype=None if len(index) else np.int64)
    if isinstance(index, np.integer):
        return int(index)
    if not (index is None or index is ... or isinstance(index, (int, slice, np.ndarray, np.bool_))):
        raise IndexError(
            f"an index is a whole number, a slice, None, ..., or a list or tensor of whole numbers or bools, "
            f"not {index!r} ({type(index).__name__})"
        )
    if isinstance(index, slice) and index.step is not None and index.step < 1:
        raise ValueError(f"a slice cannot have step {index.step}. Use flip() to go backward.")
    return index


def tensor(data: Any, *, dtype: Any = None, device: str = "cpu", requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: a number, nested lists, an array or a tensor."""
    if type(data).__module__.partition(".")[0] == "torch":
        data = labkit.creation.from_torch(data)
    try:
        array = np.array(_plain(data), order="C")
    except ValueError:
        raise ShapeError(
            "nested lists make a tensor only if all lists of one level are equally long"
        ) from None
    if array.dtype.kind not in "biufV" or array.dtype.names:  # V: bfloat16
        raise TypeError(f"a tensor holds numbers up to 64 bits or bools; these do not fit: {data!r:.60}")
    if dtype is not None:
        array = array.astype(as_dtype(dtype), copy=False)
    elif array.dtype == np.float64 and not isinstance(data, (Tensor, np.ndarray, np.float64)):
        array = array.astype(dtypes.get_default_dtype())
    as_dtype(array.dtype)
    out = Tensor(array) if device == "cpu" else Tensor(array).to(device=device)
    return out.requires_grad_() if requires_grad else out


def _plain(data: Any, force: bool = True) -> Any:
    """Data with every tensor in it as an array."""
    if isinstance(data, (list, tuple)):
        plain = (_plain(x, force) for x in data)
        return list(plain) if isinstance(data, list) else tuple(plain)
    return data.numpy(force=force) if isinstance(data, Tensor) else data


class _Callable(ModuleType):
    """`labkit.tensor` is this file and torch's function at once: calling the module calls the function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        return tensor(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable

# These modules need Tensor, and two of them add methods to it: imported last, when it exists.
import labkit.creation  # noqa: E402
from labkit import autograd, ops  # noqa: E402
from labkit.ops.axes import axis_of  # noqa: E402
from labkit.printing import text_of  # noqa: E402
