"""Making tensors: from numbers, from other libraries, and from chance."""

import math
from typing import Any

import numpy as np

from labkit import dtypes
from labkit.dtypes import as_dtype, get_default_dtype
from labkit.ops.axes import sizes_of
from labkit.random import Generator, source
from labkit.tensor import Tensor, tensor


def _new(array: Any, requires_grad: bool = False, device: Any = None) -> Tensor:
    out = Tensor(array) if device in (None, "cpu") else Tensor(array).to(device=device)
    return out.requires_grad_() if requires_grad else out


def _dtype(dtype: Any) -> dtypes.DType:
    return get_default_dtype() if dtype is None else as_dtype(dtype)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory if it is a tensor or array of that dtype already"""
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
    elif type(data).__module__.startswith("torch"):
        data = from_torch(data)
    elif not isinstance(data, Tensor):
        data = tensor(data, dtype=dtype)
    return data.to(dtype=dtype, device=device)


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array"""
    as_dtype(array.dtype)
    return Tensor(array)


def from_torch(data: Any) -> Tensor:
    """A tensor that shares the memory of a torch tensor (a copy for bfloat16); a leaf keeps requires_grad"""
    if str(data.dtype) == "torch.bfloat16":
        return tensor(data.detach().float().numpy(), dtype=dtypes.bfloat16)
    out = from_numpy(data.detach().cpu().numpy())
    return out.requires_grad_() if data.requires_grad and data.is_leaf else out


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor whose values are whatever the memory held"""
    return _new(np.empty(sizes_of(size), _dtype(dtype)), requires_grad, device)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _new(np.zeros(sizes_of(size), _dtype(dtype)), requires_grad, device)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _new(np.ones(sizes_of(size), _dtype(dtype)), requires_grad, device)


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of one value; its dtype follows the value"""
    kind = dtypes.result_type(fill_value.data if isinstance(fill_value, Tensor) else fill_value)
    return _new(np.full(size, fill_value, kind if dtype is None else as_dtype(dtype)), requires_grad, device)


def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... up to but without end"""
    start, end = (0, start) if end is None else (start, end)
    if dtype is None:
        dtype = get_default_dtype() if any(isinstance(v, float) for v in (start, end, step)) else dtypes.int64
    if step == 0 or (end - start) / step < 0:
        raise RuntimeError(f"arange(): with step {step} one never gets from {start} to {end}")
    count = math.ceil((end - start) / step)
    return _new((np.arange(count) * step + start).astype(as_dtype(dtype)), requires_grad, device)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers at equal distances from start to end, both included"""
    return _new(np.linspace(start, end, steps, dtype=_dtype(dtype)), requires_grad, device)


def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones on the diagonal, zeros elsewhere"""
    return _new(np.eye(n, m, dtype=_dtype(dtype)), requires_grad, device)


def tril_indices(row: int, col: int, offset: int = 0) -> Tensor:
    """The rows and columns of the lower triangle, (2, count)"""
    return _new(np.stack(np.tril_indices(row, offset, col)))


def triu_indices(row: int, col: int, offset: int = 0) -> Tensor:
    """The rows and columns of the upper triangle, (2, count)"""
    return _new(np.stack(np.triu_indices(row, offset, col)))


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """The coordinates of a grid, one tensor per axis"""
    given = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    return tuple(_new(a) for a in np.meshgrid(*(t.data for t in given), indexing=indexing))  # type: ignore[call-overload]


# ---- like another tensor ----


def _like(make: Any, input: Tensor, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    dtype, device = input.dtype if dtype is None else as_dtype(dtype), device or input.device
    return _new(make(input.data.shape, dtype), requires_grad, device)


def empty_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    return _like(np.empty, input, dtype, device, requires_grad)


def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    return _like(np.zeros, input, dtype, device, requires_grad)


def ones_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _like(np.ones, input, dtype, device, requires_grad)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    return _like(lambda shape, d: np.full(shape, fill_value, d), input, dtype, device, requires_grad)


def rand_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _like(lambda shape, d: rand(shape, dtype=d).data, input, dtype, device, requires_grad)


def randn_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    return _like(lambda shape, d: randn(shape, dtype=d).data, input, dtype, device, requires_grad)


# ---- random ----


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform between 0 and 1"""
    array = source(generator).random(
        sizes_of(size), np.float32 if _dtype(dtype) == dtypes.float32 else np.float64
    )
    return _new(np.asarray(array, _dtype(dtype)), requires_grad, device)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal with mean 0 and variance 1"""
    kind = np.float32 if _dtype(dtype) == dtypes.float32 else np.float64
    return _new(
        np.asarray(source(generator).standard_normal(sizes_of(size), kind), _dtype(dtype)),
        requires_grad,
        device,
    )


def normal(
    mean: float = 0.0, std: float = 1.0, size: Any = (), *, generator: Generator | None = None
) -> Tensor:
    """Normal with this mean and standard deviation"""
    return randn(*size, generator=generator).mul(std).add(mean)


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Whole numbers from low (0 if left out) up to but without high"""
    if size is None:
        low, high, size = 0, low, high
    array = source(generator).integers(low, high, size)
    return _new(np.asarray(array, dtypes.int64 if dtype is None else as_dtype(dtype)), device=device)


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """The numbers 0 to n - 1 in random order"""
    array = source(generator).permutation(n)
    return _new(array.astype(dtypes.int64 if dtype is None else as_dtype(dtype)), device=device)


def bernoulli(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """1 with probability input[i], else 0"""
    drawn = source(generator).random(input.shape) < input.numpy(force=True)
    return _new(drawn.astype(input.dtype)).to(input.device)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Places drawn with probability in proportion to the weights in each row, (..., num_samples)"""
    rows = input.numpy(force=True).reshape(-1, input.shape[-1]).astype(np.float64)  # the CPU draws
    if (rows < 0).any() or not np.isfinite(rows).all() or (rows.sum(1) == 0).any():
        raise RuntimeError("multinomial(): weights must be finite, not negative, and not all 0 in a row")
    if not replacement and num_samples > (rows > 0).sum(1).min():
        raise RuntimeError(
            f"multinomial(): {num_samples} samples without replacement need as many weights above 0"
        )
    draw = source(generator).choice
    picks = [draw(rows.shape[1], num_samples, replacement, row / row.sum()) for row in rows]
    return _new(np.asarray(picks).reshape(*input.shape[:-1], num_samples)).to(input.device)


# ---- filling and making from a method ----


def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with normal numbers"""
    return self.copy_(source(generator).standard_normal(self.shape) * std + mean)


def uniform_(self: Tensor, from_: float = 0, to: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with uniform numbers"""
    return self.copy_(source(generator).uniform(from_, to, self.shape))


def bernoulli_(self: Tensor, p: float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with 1 with probability p, else 0"""
    return self.copy_((source(generator).random(self.shape) < p).astype(np.float32))


def new_tensor(self: Tensor, data: Any, *, dtype: Any = None) -> Tensor:
    return tensor(data, dtype=dtype or self.dtype, device=self.device)


def new_zeros(self: Tensor, *size: Any, dtype: Any = None) -> Tensor:
    return zeros(*size, dtype=dtype or self.dtype, device=self.device)


def new_ones(self: Tensor, *size: Any, dtype: Any = None) -> Tensor:
    return ones(*size, dtype=dtype or self.dtype, device=self.device)


def new_empty(self: Tensor, *size: Any, dtype: Any = None) -> Tensor:
    return empty(*size, dtype=dtype or self.dtype, device=self.device)


def new_full(self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None) -> Tensor:
    return full(size, fill_value, dtype=dtype or self.dtype, device=self.device)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with one number"""
    return self.copy_(value)


def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with 0"""
    return self.copy_(0)


METHODS = (fill_, zero_, normal_, uniform_, bernoulli_, new_tensor, new_zeros, new_ones, new_empty, new_full)
for _method in METHODS:
    setattr(Tensor, _method.__name__, _method)
