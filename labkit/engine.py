"""The public names of the engine: `labkit.<name>`, as `torch.<name>`.

How to read it, by the example of a linear layer, with one name all the way:
1. `nn.Linear.forward` (nn/linear.py) calls `F.linear`, which is `linear` of ops/linear.py;
2. `linear` there is the value and, beside it, the gradient, written once for all devices;
3. `k.linear` is the loop: kernels/numpy/linear.py says it shortest, kernels/numba/ where a faster one pays.
In between, `@op` (autograd.py) picks `k` (backends.py), wraps arrays as tensors (tensor.py) and records a
Node; `loss.backward()` walks the nodes, newest first.
"""

from math import e, inf, nan, pi

from labkit import ops
from labkit.backends import use_kernels
from labkit.creation import (
    arange,
    as_tensor,
    bernoulli,
    empty,
    empty_like,
    eye,
    from_numpy,
    from_torch,
    full,
    full_like,
    linspace,
    meshgrid,
    multinomial,
    normal,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    tril_indices,
    triu_indices,
    zeros,
    zeros_like,
)
from labkit.dtypes import (
    bfloat16,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
)
from labkit.dtypes import bool_ as bool
from labkit.errors import NotSupported, ShapeError
from labkit.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from labkit.op_table import watch_ops
from labkit.plugging import plug
from labkit.random import Generator, get_rng_state, manual_seed, set_rng_state
from labkit.serialization import load, save
from labkit.tensor import Size, Tensor, tensor

float, double, half, long, int = float32, float64, float16, int64, int32

globals().update(ops.FUNCTIONS)

# fmt: off
__all__ = [
    "Tensor", "Size", "tensor", "as_tensor", "from_numpy", "from_torch", "Generator", "manual_seed",
    "get_rng_state", "set_rng_state", "arange", "bernoulli", "empty", "empty_like", "eye", "full",
    "full_like", "linspace", "meshgrid", "multinomial", "normal", "ones", "ones_like", "rand", "rand_like",
    "randint", "randn", "randn_like", "randperm", "tril_indices", "triu_indices", "zeros", "zeros_like",
    "float16", "bfloat16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool", "float",
    "double", "half", "long", "int", "get_default_dtype", "set_default_dtype", "e", "inf", "nan", "pi",
    "no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "is_grad_enabled", "use_kernels",
    "watch_ops", "plug", "load", "save", "NotSupported", "ShapeError",
    *ops.FUNCTIONS,
]
