"""Arrays that know who touches them.

Every buffer gets its own range of addresses. Arguments that overlap on the host share one, so a race through
two names for the same memory is found. An access checks its bounds, goes into the log as (site, address), and
then happens on the NumPy array, so results are visible after the run.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from labkit.simt.values import Refused, plain, wrap

SHIFT = 36  # addresses of buffer k start at k << SHIFT
OFFSET = (1 << SHIFT) - 1
OUTSIDE, PART = -1, -2  # in place of an address
GLOBAL, SHARED, LOCAL, CONSTANT = "global", "shared", "local", "constant"


@dataclass
class Buffer:
    """One stretch of memory: its name in the kernel, its space, and the size of an element in bytes."""

    name: str
    space: str
    itemsize: int
    elements: int


class Array:
    """An array argument, shared array or local array as the kernel sees it."""

    def __init__(
        self, data: np.ndarray, start: int, name: str, space: str, ready: bytearray | None = None
    ) -> None:
        self._data, self._start, self._space, self.name = data, start, space, name
        self._ready = ready  # per element: written since it was declared (shared and local memory)
        self._itemsize = data.itemsize
        self.shape, self.ndim, self._strides = data.shape, data.ndim, data.strides
        kind = data.dtype.kind
        whole = kind in "iu" and data.dtype != np.uint64
        self._convert = int if whole else bool if kind == "b" else float if data.dtype == np.float64 else None
        info = np.iinfo(data.dtype) if whole else None
        self._limits = (int(info.min), int(info.max)) if info else None

    @property
    def size(self) -> int:
        return self._data.size

    @property
    def dtype(self) -> np.dtype:
        return self._data.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        return self._strides

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        raise Refused(f"looping over the array {self.name}", f"write for i in range(len({self.name}))")

    def __getattr__(self, name: str) -> Any:
        raise Refused(
            f"{self.name}.{name}", "arrays in a kernel have indices, shape, ndim, size, dtype, strides"
        )

    def __float__(self) -> float:
        raise Refused(f"float({self.name}) of an array", f"convert one element, float({self.name}[i])")

    __int__ = __bool__ = __float__  # type: ignore[assignment]


class Memory:
    """All buffers of one run, the log of accesses, and the helpers `_read`, `_write` and `_atomic`."""

    array_type = Array

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.buffers: list[Buffer] = []
        self.limit = 0

    # Making arrays

    def add(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return (len(self.buffers) - 1) << SHIFT

    def arguments(self, named: list[tuple[str, np.ndarray]]) -> list[Array]:
        """Array arguments; those that overlap in host memory share a buffer."""
        ranges = [byte_bounds(data) for _, data in named]
        lows = _joined(ranges)
        bases: dict[int, int] = {}
        arrays = []
        for (name, data), low in zip(named, lows, strict=True):
            if low not in bases:
                end = max(r[1] for r, other in zip(ranges, lows, strict=True) if other == low)
                bases[low] = self.add(Buffer(name, GLOBAL, data.itemsize, (end - low) // data.itemsize))
            start = bases[low] + data.__array_interface__["data"][0] - low
            arrays.append(Array(data, start, name, GLOBAL))
        return arrays

    def declare(self, name: str, space: str, shape: Any, dtype: Any) -> Array:
        """A shared or local array: full of nonsense, as on hardware, until it is written."""
        kind = as_dtype(dtype)
        sizes = tuple(int(n) for n in shape) if isinstance(shape, tuple) else (int(shape),)
        data = np.empty(sizes, kind)
        if kind.kind in "fc":
            data.fill(np.nan)
        else:
            data.fill(np.array(0xCCCCCCCCCCCCCCCC, np.uint64).astype(kind))
        start = self.add(Buffer(name, space, kind.itemsize, data.size))
        return Array(data, start, name, space, bytearray(data.size))

    # Accesses

    def locate(self, array: Array, index: Any, site: int) -> int:
        """The address of one element; OUTSIDE or PART (both negative) if `index` does not name one."""
        sizes = array.shape
        if type(index) is int and len(sizes) == 1:
            if 0 <= index < sizes[0]:
                return array._start + index * array._strides[0]
        elif type(index) is tuple and len(index) == len(sizes) == 2:  # for speed; below is the general case
            i, j = index
            if type(i) is type(j) is int and 0 <= i < sizes[0] and 0 <= j < sizes[1]:
                return array._start + i * array._strides[0] + j * array._strides[1]
        if _is_part(array, index):
            return PART
        places = index if type(index) is tuple else (index,)
        numbers = tuple(_whole(i, array) for i in places)
        if all(0 <= i < size for i, size in zip(numbers, sizes, strict=True)):
            return array._start + sum(i * stride for i, stride in zip(numbers, array._strides, strict=True))
        self.machine.note("bounds", site, detail=(array, numbers))
        return OUTSIDE

    def read(self, array: Any, index: Any, site: int) -> Any:
        if type(array) is not Array:
            return array[index]
        address = self.locate(array, index, site)
        convert = array._convert
        if address < 0:
            if address == PART:
                return self.view(array, index, site)
            return convert(0) if convert else array._data.dtype.type(0)
        log = self.machine.log
        log.append(site)
        log.append(address)
        if len(log) > self.limit:
            self.machine.too_long(site)
        if array._ready is not None and not array._ready[(address & OFFSET) // array._itemsize]:
            self.machine.note("uninitialized", site, detail=(array, index))
        value = array._data[index]
        return convert(value) if convert else value

    def write(self, array: Any, index: Any, value: Any, site: int) -> None:
        address = self.target(array, index, site)
        if address < 0:
            return
        self.machine.written.append(value)
        self.store(array, address, index, value, site)

    def atomic(self, name: str, site: int, array: Any, *rest: Any) -> Any:
        """Read, change and write one element as a single step; returns the old value, as Numba does."""
        if name == "compare_and_swap":
            name, rest = "cas", (0, *rest)
        index, *values = rest
        if name not in ATOMICS:
            raise Refused(f"cuda.atomic.{name}", f"the stepper knows cuda.atomic.{', '.join(ATOMICS)}")
        address = self.target(array, index, site)
        if address < 0:
            return 0
        if array._ready is not None and not array._ready[(address & OFFSET) // array._itemsize]:
            self.machine.note("uninitialized", site, detail=(array, index))
        old = plain(array._data[index])
        self.store(array, address, index, ATOMICS[name](old, *(plain(v) for v in values)), site)
        return old

    def target(self, array: Any, index: Any, site: int) -> int:
        """The address of the one element to be written, logged; OUTSIDE if there is none."""
        if type(array) is not Array:
            raise Refused(f"assigning into a {type(array).__name__}", "only arrays can be written")
        address = self.locate(array, index, site)
        if address == PART:
            raise Refused(
                f"writing several elements of {array.name} at once",
                f"give {array.ndim} whole numbers as index, and write one element at a time",
            )
        if address != OUTSIDE:
            log = self.machine.log
            log.append(site)
            log.append(address)
            if len(log) > self.limit:
                self.machine.too_long(site)
        return address

    def store(self, array: Array, address: int, index: Any, value: Any, site: int) -> None:
        if type(value) is Array:
            raise Refused(f"storing the array {value.name} in one element", f"store {value.name}[i]")
        if array._limits:
            low, high = array._limits
            value = int(value) if value == value and abs(value) != float("inf") else low
            if not low <= value <= high:
                self.machine.note("overflow", site, detail=f"{value} in {array.name}, which is {array.dtype}")
                value = wrap(value, low, high)
        array._data[index] = value
        if array._ready is not None:
            array._ready[(address & OFFSET) // array._itemsize] = 1

    def view(self, array: Array, index: Any, site: int) -> Array:
        """A part of an array, `a[row]` or `a[:, j]`: bounds are checked, nothing is read yet."""
        index = index if isinstance(index, tuple) else (index,)
        if len(index) > array.ndim:
            raise Refused(f"{len(index)} indices for {array.name}", f"it has {array.ndim} dimensions")
        index = tuple(i if isinstance(i, slice) else _whole(i, array) for i in index)
        for i, size in zip(index, array.shape, strict=False):
            if isinstance(i, int) and not 0 <= i < size:
                self.machine.note("bounds", site, detail=(array, index))
                index = tuple(0 if isinstance(i, int) else i for i in index)
        data = array._data[index]
        pointers = [d.__array_interface__["data"][0] for d in (data, array._data)]
        return Array(data, array._start + pointers[0] - pointers[1], array.name, array._space, array._ready)


def as_dtype(dtype: Any) -> np.dtype:
    """NumPy's name for a type that a kernel gives: np.float32, x.dtype, or Numba's float32."""
    return np.dtype(dtype if isinstance(dtype, (type, np.dtype)) else str(dtype))


def _joined(ranges: list[tuple[int, int]]) -> list[int]:
    """For each range of addresses, where the stretch begins that it forms with those it overlaps."""
    lows = [0] * len(ranges)
    low = high = -1
    for i in sorted(range(len(ranges)), key=lambda i: ranges[i]):
        first, end = ranges[i]
        if first >= high:
            low = high = first
        high = max(high, end)
        lows[i] = low
    return lows


def _is_part(array: Array, index: Any) -> bool:
    """Whether `index` takes more than one element: too few numbers, or a slice."""
    if type(index) is not tuple:
        return array.ndim != 1 or type(index) is slice
    return len(index) != array.ndim or slice in map(type, index)


def _whole(i: Any, array: Array) -> int:
    if isinstance(i, (int, np.integer)) and not isinstance(i, bool):
        return int(i)
    raise Refused(
        f"an index of type {type(i).__name__} for {array.name}", "use //, not /, and int() where needed"
    )


def _inc(old: int, top: int) -> int:
    return 0 if old >= top else old + 1


def _dec(old: int, top: int) -> int:
    return top if old == 0 or old > top else old - 1


ATOMICS: dict[str, Any] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "max": lambda old, value: old if value != value else max(old, value),
    "min": lambda old, value: old if value != value else min(old, value),
    "nanmax": lambda old, value: value if old != old else old if value != value else max(old, value),
    "nanmin": lambda old, value: value if old != old else old if value != value else min(old, value),
    "and_": lambda old, value: old & value,
    "or_": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "inc": _inc,
    "dec": _dec,
    "exch": lambda old, value: value,
    "cas": lambda old, expected, value: value if old == expected else old,
}
