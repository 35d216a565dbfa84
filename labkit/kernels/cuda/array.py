"""Arrays on the device: a buffer, and where in it the elements lie.

Shape, strides and offset are kept by the CPU, so that transposes, slices and expansions cost nothing: they
make another `Array` of the same buffer, as NumPy's views do. Strides and offsets count bytes.
"""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from labkit import cuda as device
from labkit.kernels.cuda.buffer import Buffer, rounded
from labkit.kernels.cuda.launch import cuda

DTYPES = frozenset(map(np.dtype, "float32 float64 int8 uint8 int16 int32 int64 bool".split()))


class Array:
    """A strided array on the device, with the part of NumPy's interface that the ops use."""

    __slots__ = ("__weakref__", "base", "buffer", "dtype", "offset", "shape", "strides", "writeable")

    def __init__(self, buffer: Any, dtype: Any, shape: Any, strides: Any, offset: int, base: Any) -> None:
        self.buffer = buffer
        self.dtype = dtype
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.offset = offset
        self.base: Array | None = base  # the array that was made with this memory; None if it is this one
        self.writeable = base is None or base.writeable

    def view(self, shape: Any, strides: Any, offset: int = 0) -> "Array":
        """Other elements of the same memory; `offset` counts from this array's first."""
        base = self if self.base is None else self.base
        return Array(self.buffer, self.dtype, shape, strides, self.offset + offset, base)

    # ---- what it is ----

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.size * self.itemsize)
    T = property(lambda self: self.transpose(tuple(reversed(range(self.ndim)))))

    @property
    def flags(self) -> Any:
        """c_contiguous: do the elements lie row by row, without gaps? writeable: one place per element?"""
        real = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        rows = row_major([n for n, _ in real], self.itemsize)
        dense = self.size == 0 or all(s == r for (_, s), r in zip(real, rows, strict=True))
        return SimpleNamespace(c_contiguous=dense, writeable=self.writeable)

    def __len__(self) -> int:
        return self.shape[0]

    # ---- views ----

    def transpose(self, axes: Any) -> "Array":
        return self.view([self.shape[a] for a in axes], [self.strides[a] for a in axes])

    def swapaxes(self, a: int, b: int) -> "Array":
        axes = list(range(self.ndim))
        axes[a], axes[b] = axes[b], axes[a]
        return self.transpose(axes)

    def reshape(self, *shape: Any) -> "Array":
        """A view if the strides allow, else a copy."""
        shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if -1 in shape:
            known = math.prod(n for n in shape if n != -1)
            shape = tuple(self.size // max(known, 1) if n == -1 else n for n in shape)
        if math.prod(shape) != self.size:
            raise ValueError(f"cannot reshape {self.shape} into {shape}")
        strides = reshaped_strides(self, shape)
        if strides is None:
            return self.copy().reshape(shape)
        return self.view(shape, strides)

    def broadcast_to(self, shape: Any) -> "Array":
        """Repeated along axes of size 1 and new leading axes, by stride 0."""
        shape = tuple(shape)
        extra = len(shape) - self.ndim
        if np.broadcast_shapes(self.shape, shape) != shape:
            raise ValueError(f"shape {self.shape} cannot be broadcast to {shape}")
        own = zip(self.shape, self.strides, shape[extra:], strict=True)
        out = self.view(shape, (*(0,) * extra, *(0 if n == 1 and m != 1 else s for n, s, m in own)))
        out.writeable = self.writeable and out.size == self.size
        return out

    def __getitem__(self, index: Any) -> "Array":
        """A view by whole numbers, slices, None and dots."""
        shape, strides, offset, axis = [], [], 0, 0
        for i in _full_index(index, self.ndim):
            if i is None:
                shape.append(1)
                strides.append(0)
                continue
            n, step = self.shape[axis], self.strides[axis]
            if isinstance(i, slice):
                places = range(*i.indices(n))
                shape.append(len(places))
                strides.append(step * places.step)
                offset += step * places.start if len(places) else 0
            else:
                if not -n <= i < n:
                    raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
                offset += step * (i % n)
            axis += 1
        return self.view(shape, strides, offset)

    # ---- copies ----

    def copy(self) -> "Array":
        return _memory().copy(self)

    def astype(self, dtype: Any, copy: bool = True) -> "Array":
        return self if not copy and self.dtype == dtype else _memory().cast(self, dtype)

    def any(self) -> bool:
        return bool(download(self).any())

    def item(self) -> Any:
        """The only element, as a Python number (this waits for the device)"""
        return download(self).item()

    def __int__(self) -> int:
        return int(self.item())

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.item())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            f"this array of shape {self.shape} is on the device 'cuda' and NumPy cannot read it there. "
            "Copy the tensor to the CPU first: x.cpu()."
        )

    # ---- for Numba and other libraries ----

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        address = self.buffer.bytes.__cuda_array_interface__["data"][0] + self.offset
        layout = {"shape": self.shape, "strides": self.strides, "typestr": self.dtype.str}
        return {**layout, "data": (address, not self.writeable), "version": 2}

    def argument(self) -> Any:
        """The same elements as Numba passes them to a kernel"""
        if not device.SIMULATED:
            return cuda.as_cuda_array(self, sync=False)
        memory = self.buffer.bytes._ary
        elements = np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)
        return type(self.buffer.bytes)(elements)

    def __repr__(self) -> str:
        return f"<array {self.shape} {self.dtype} on cuda>"


def _full_index(index: Any, ndim: int) -> list[Any]:
    """One entry per axis (and None for new ones), with the dots and what was left out written as slices."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis not in parts:
        parts.append(Ellipsis)
    named = sum(i is not None and i is not Ellipsis for i in parts)
    if named > ndim:
        raise IndexError(f"too many indices: the array has {ndim} axes, {named} were indexed")
    at = parts.index(Ellipsis)
    return [*parts[:at], *[slice(None)] * (ndim - named), *parts[at + 1 :]]


def row_major(shape: Any, itemsize: int) -> tuple[int, ...]:
    """The strides of an array whose elements lie row by row, without gaps."""
    strides = [itemsize]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * max(n, 1))
    return tuple(reversed(strides)) if shape else ()


def reshaped_strides(x: Array, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides that show x in another shape, or None if no strides do.

    Walk both shapes from the right: as soon as a group of old axes holds as many elements as a group of new
    ones, the old group must be evenly spaced, and the new axes divide it up.
    """
    if x.size == 0:
        return row_major(shape, x.itemsize)
    old = [(n, s) for n, s in zip(x.shape, x.strides, strict=True) if n != 1]
    strides: list[int] = []
    spacing, left = x.itemsize, 1  # of the old group in hand, and how many of its elements are not yet used
    for n in reversed(shape):
        while left % n or left < n:
            if left > 1 and (not old or old[-1][1] != spacing * left):
                return None
            if left == 1 and n > 1:
                spacing = old[-1][1]
            left *= old.pop()[0]
        strides.append(spacing)
        spacing, left = spacing * n, left // n
    return tuple(reversed(strides))


# ---- making ----


def empty(shape: Any, dtype: Any) -> Array:
    """New memory, row-major; its contents are whatever was there."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    dtype = np.dtype(dtype)
    if dtype not in DTYPES:
        raise TypeError(f"device 'cuda' has no {dtype.name}: convert first, for example x.float()")
    buffer = Buffer(rounded(math.prod(shape) * dtype.itemsize))
    return Array(buffer, dtype, shape, row_major(shape, dtype.itemsize), 0, None)


def upload(host: Any) -> Array:
    """A copy of a NumPy array on the device"""
    out = empty(host.shape, host.dtype)
    if out.size:
        data = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
        out.buffer.bytes[: out.nbytes].copy_to_device(data, stream=device.current_handle())
        if device._streams:  # the host's memory may change as soon as we return
            device._streams[-1].synchronize()
    return out


def download(x: Array) -> Any:
    """A copy of the array as a NumPy array; this waits for the device."""
    if x.size == 0:
        return np.empty(x.shape, x.dtype)
    if not x.flags.c_contiguous:
        x = x.copy()
    stream = device.current_handle()
    data = x.buffer.bytes[x.offset : x.offset + x.nbytes].copy_to_host(stream=stream)
    if device._streams:
        device._streams[-1].synchronize()
    return data.view(x.dtype).reshape(x.shape)


def _memory() -> Any:
    from labkit.kernels.cuda import memory  # copying needs a kernel, and kernels need arrays

    return memory
