"""The public names of the engine: `labkit.<name>`, as `torch.<name>`."""

from math import e, inf, nan, pi

from labkit import ops
from labkit.autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    plug,
    set_grad_enabled,
    watch_ops,
)
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
from labkit.random import Generator, get_rng_state, manual_seed, set_rng_state
from labkit.tensor import Size, Tensor, tensor

float, double, half, long, int = float32, float64, float16, int64, int32

globals().update({name: getattr(ops, name) for name in ops.FUNCTIONS})

__all__ = (
    """
    arange as_tensor bernoulli bfloat16 bool double e empty empty_like enable_grad eye float float16 float32
    float64 from_numpy from_torch full full_like Generator get_default_dtype get_rng_state half inf
    inference_mode int int16 int32 int64 int8 is_grad_enabled linspace long manual_seed meshgrid multinomial
    nan no_grad normal NotSupported ones ones_like pi plug rand rand_like randint randn randn_like randperm
    set_default_dtype set_grad_enabled set_rng_state ShapeError Size Tensor tensor tril_indices triu_indices
    uint8 use_kernels watch_ops zeros zeros_like
""".split()
    + ops.FUNCTIONS
)
