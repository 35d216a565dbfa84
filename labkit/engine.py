"""The public names of the engine: `labkit.<name>`."""

from labkit.autograd import enable_grad, no_grad
from labkit.backends import use_kernels
from labkit.ops import add, exp, mul, sum
from labkit.tensor import Tensor, tensor

__all__ = ["Tensor", "add", "enable_grad", "exp", "mul", "no_grad", "sum", "tensor", "use_kernels"]
