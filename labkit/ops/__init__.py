"""Every differentiable function of the library, one file per family; its gradient is written once, beside it.

This file gives the functions their public names: `labkit.exp(x)`, the method `x.exp()`, the operator `x + y`
for `add(x, y)`, and `x.add_(y)` for x overwritten by `add(x, y)`.
"""

from labkit import dtypes
from labkit.ops import activation, compare, elementwise, index, linear, reduce, shape
from labkit.tensor import Tensor, in_place

BOTH = """
    abs add addcdiv addcmul addmm all allclose amax amin any argmax argmin argsort as_strided bitwise_and
    bitwise_not bitwise_or bitwise_xor bmm broadcast_to ceil chunk clamp clone cos count_nonzero cumprod
    cumsum diag diag_embed diagonal div dot eq equal erf exp expm1 flatten flip floor floor_divide gather
    ge gt index_add index_put index_select is_floating_point isclose isfinite isinf isnan le lerp log
    log10 log1p log2 log_softmax logical_and logical_not logical_or logical_xor logsumexp lt masked_fill
    masked_select matmul max maximum mean min minimum mm movedim mul mv narrow ne neg nonzero norm outer
    permute pow prod ravel reciprocal relu remainder repeat_interleave reshape roll round rsqrt scatter
    scatter_add select sigmoid sign sin softmax sort split sqrt square squeeze std sub sum t
    take_along_dim tanh tile topk transpose tril triu trunc unbind unflatten unsqueeze var where
""".split()
FUNCTIONS_ONLY = "broadcast_tensors cat einsum stack".split()
METHODS_ONLY = "contiguous expand expand_as repeat reshape_as view view_as".split()
IN_PLACE = """
    abs add addcdiv addcmul addmm ceil clamp cos div erf exp expm1 floor index_add index_put lerp log
    log1p masked_fill mul neg pow reciprocal relu remainder round rsqrt scatter scatter_add sigmoid sign
    sin sqrt square sub tanh tril triu trunc
""".split()
# fmt: off
ALIASES = {
    "absolute": "abs", "clip": "clamp", "concat": "cat", "divide": "div", "moveaxis": "movedim",
    "multiply": "mul", "negative": "neg", "subtract": "sub", "swapaxes": "transpose", "true_divide": "div",
}
CASTS = {
    "float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16,
    "long": dtypes.int64, "int": dtypes.int32, "bool": dtypes.bool_,
}
UNARY = {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}
COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}
# fmt: on


def _find(name):
    """The function of this name; where two families have one, the later builds on the earlier."""
    families = (activation, linear, index, shape, reduce, compare, elementwise)
    return next(getattr(family, name) for family in families if hasattr(family, name))


_named = {name: _find(name) for name in (*BOTH, *FUNCTIONS_ONLY, *METHODS_ONLY)}
_named.update({alias: _named[name] for alias, name in ALIASES.items()})
FUNCTIONS = {name: f for name, f in sorted(_named.items()) if name not in METHODS_ONLY}  # `labkit.<name>`


def _reflected(function):
    return lambda self, other: function(other, self)


def _cast_to(dtype):
    return lambda self: self.to(dtype)


def _make_methods():
    for name, function in _named.items():
        if name not in FUNCTIONS_ONLY and name != "concat":
            setattr(Tensor, name, function)
    for name in IN_PLACE:
        setattr(Tensor, f"{name}_", in_place(_named[name]))
    for name, dtype in CASTS.items():
        setattr(Tensor, name, _cast_to(dtype))
    for name, function in {**UNARY, **COMPARISONS, **BINARY}.items():
        setattr(Tensor, f"__{name}__", _named[function])
    for name, function in BINARY.items():
        setattr(Tensor, f"__r{name}__", _reflected(_named[function]))
        setattr(Tensor, f"__i{name}__", in_place(_named[function]))


_make_methods()
