"""Making, copying and comparing arrays; and `sweep`: a kernel with a thread per element of strided arrays."""

import math
from typing import Any

import numpy as np

from labkit.kernels.cuda.array import Array as Array
from labkit.kernels.cuda.array import download, upload
from labkit.kernels.cuda.array import empty as empty
from labkit.kernels.cuda.launch import THREADS, Kernel, blocks_for, cuda, function_of_thread, kernel

__all__ = ["Array", "download", "empty", "upload"]


@function_of_thread
def place(i, shape):
    """Where element i of an array with four axes is, counted row by row: (a, b, c, d)."""
    d = i % shape[3]
    i = i // shape[3]
    c = i % shape[2]
    i = i // shape[2]
    return i // shape[1], i % shape[1], c, d


@kernel("F4 F4")
def _copy(x, out):
    """Thread i owns out[i]. Neighbors write neighbors; they read neighbors if x is contiguous.

    Moves 2 elements per thread; a different type is converted on the way.
    """
    i = cuda.grid(1)
    if i < out.size:
        a, b, c, d = place(i, out.shape)
        out[a, b, c, d] = x[a, b, c, d]


@kernel("f F4")
def _fill(value, out):
    """Thread i owns out[i]: one element written, none read."""
    i = cuda.grid(1)
    if i < out.size:
        a, b, c, d = place(i, out.shape)
        out[a, b, c, d] = value


@kernel("i i I1")
def _arange(start, step, out):
    """Thread i owns out[i]: one element written, none read."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = start + i * step


def sweep(k: Kernel, arrays: Any, numbers: Any = ()) -> None:
    """Run a kernel with one thread per element of the last array, which the others broadcast to.

    Axes that lie evenly in all arrays are merged; what then has more than four axes is done slice by slice.
    """
    shape = arrays[-1].shape
    if 0 in shape:
        return
    shape, strides = _merged(shape, [x.broadcast_to(shape).strides for x in arrays])
    if len(shape) > 4:
        for i in range(shape[0]):
            rest = [x.view(shape[1:], s[1:], i * s[0]) for x, s in zip(arrays, strides, strict=True)]
            sweep(k, rest, numbers)
        return
    pad = (1,) * (4 - len(shape))
    views = [x.view(pad + shape, (0,) * len(pad) + s) for x, s in zip(arrays, strides, strict=True)]
    k(blocks_for(math.prod(shape)), THREADS, *numbers, *views)


def _merged(shape, strides):
    """Drop axes of size 1, and join two axes where stepping over the second's end is a step of the first."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(own[-1] == s[axis] * n for own, s in zip(steps, strides, strict=True)):
            sizes[-1] *= n
            for own, s in zip(steps, strides, strict=True):
                own[-1] = s[axis]
        else:
            sizes.append(n)
            for own, s in zip(steps, strides, strict=True):
                own.append(s[axis])
    return tuple(sizes), [tuple(own) for own in steps]


def asarray(x, dtype=None):
    """x as an array of the device. NumPy arrays with axes are refused: moving them is the user's decision."""
    if isinstance(x, Array):
        return x if dtype is None or x.dtype == dtype else cast(x, dtype)
    if isinstance(x, np.ndarray) and x.ndim:
        raise RuntimeError(
            f"an array of shape {x.shape} on the cpu met arrays on cuda. Move it: x.to('cuda')."
        )
    if dtype is None:
        dtype = np.float32 if isinstance(x, float) else np.asarray(x).dtype
    return full((), x.item() if hasattr(x, "item") else x, dtype)


def full(shape, value, dtype):
    out = empty(shape, dtype)
    sweep(_fill, (out,), (out.dtype.type(value),))
    return out


def zeros(shape, dtype):
    return full(shape, 0, dtype)


def arange(start, stop, step=1):
    out = empty((max(0, -(-(stop - start) // step)),), np.int64)
    _arange(blocks_for(out.size), THREADS, start, step, out)
    return out


def copy(x):  # new memory, row-major
    return cast(x, x.dtype)


def copy_(out, x):  # out[...] = x, broadcast and cast; x may be a number or come from the CPU
    if isinstance(x, np.ndarray):
        x = upload(x)
    x = asarray(x, None if isinstance(x, Array) else out.dtype)
    if x.buffer is out.buffer and x.size > 1:  # they may overlap: read everything before writing
        x = copy(x)
    sweep(_copy, (x, out))


def cast(x, dtype):
    out = empty(x.shape, dtype)
    sweep(_copy, (x, out))
    return out


def is_view(x):  # does x live in another array's memory?
    return isinstance(x, Array) and x.base is not None


def root(x):  # the array that owns x's memory
    return x if x.base is None else x.base
