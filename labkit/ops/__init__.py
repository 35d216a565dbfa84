"""Every differentiable function of the library, one file per family; its gradient is written once, beside it.

The decorator of a function says under which names it is offered; this file makes them: `labkit.exp(x)`, the
method `x.exp()`, `x.exp_()` for x overwritten by `exp(x)`, and the operator `x + y` for `add(x, y)`.
"""

import importlib
import pkgutil

from labkit import dtypes
from labkit.op_table import PUBLIC, check_all_are_offered
from labkit.tensor import Tensor, in_place

for _family in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_family.name}")
check_all_are_offered()

# fmt: off
CASTS = {
    "float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16,
    "long": dtypes.int64, "int": dtypes.int32, "bool": dtypes.bool_,
}
# Python's operators: `__invert__` is bitwise_not
UNARY = {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}
COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}
# fmt: on

# `labkit.<name>`, with aliases
FUNCTIONS = dict(
    sorted((name, p.call) for own, p in PUBLIC.items() if p.function for name in (own, *p.aliases))
)


def _reflected(function):
    return lambda self, other: function(other, self)


def _cast_to(dtype):
    return lambda self: self.to(dtype)


def _make_methods():
    for own, public in PUBLIC.items():
        for name in (own, *public.aliases) if public.method else ():
            setattr(Tensor, name, public.call)
        if public.in_place:
            setattr(Tensor, f"{own}_", in_place(public.call))
    for name, dtype in CASTS.items():
        setattr(Tensor, name, _cast_to(dtype))
    for name, function in {**UNARY, **COMPARISONS, **BINARY}.items():
        setattr(Tensor, f"__{name}__", PUBLIC[function].call)
    for name, function in BINARY.items():
        setattr(Tensor, f"__r{name}__", _reflected(PUBLIC[function].call))
        setattr(Tensor, f"__i{name}__", in_place(PUBLIC[function].call))


_make_methods()
