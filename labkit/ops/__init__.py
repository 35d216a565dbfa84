"""Every differentiable function of the library, one file per family; its gradient is written once, beside it.

Here the functions also become methods of Tensor: `x.exp()` is `exp(x)`, `x + y` is `add(x, y)`, and `x.add_(y)` is
x overwritten by `add(x, y)`.
"""

# ruff: noqa: F401, I001
# fmt: off
from labkit.tensor import Tensor, in_place
from labkit.ops import index, reduce, shape
from labkit.ops.elementwise import (
    abs, acos, add, addcdiv, addcmul, asin, atan, atan2, ceil, clamp, cos, cosh, div, erf, exp, exp2, expm1, floor,
    floor_divide, fmod, frac, lerp, log, log10, log1p, log2, masked_fill, maximum, minimum, mul, neg, pow, reciprocal,
    remainder, round, rsqrt, sigmoid, sign, sin, sinh, sqrt, square, sub, tan, tanh, trunc,
)
from labkit.ops.compare import (
    allclose, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, eq, equal, ge, gt, is_floating_point, isclose,
    isfinite, isinf, isnan, le, logical_and, logical_not, logical_or, logical_xor, lt, ne,
)
from labkit.ops.reduce import (
    all, amax, amin, any, argmax, argmin, count_nonzero, cumprod, cumsum, log_softmax, logsumexp, max, mean, min, norm,
    prod, softmax, std, std_mean, sum, var, var_mean,
)
from labkit.ops.shape import (
    as_strided, broadcast_tensors, broadcast_to, cat, chunk, clone, contiguous, diag, diag_embed, diagonal, expand,
    expand_as, flatten, flip, movedim, narrow, permute, ravel, repeat, reshape, reshape_as, roll,
    select, split, squeeze, stack, t, tile, transpose, tril, triu, unbind, unflatten, unsqueeze, view, view_as,
)
from labkit.ops.index import (
    argsort, gather, index_add, index_put, index_select, masked_select, nonzero, repeat_interleave, scatter, scatter_add, sort,
    take_along_dim, topk, where,
)
from labkit.ops.linear import addmm, baddbmm, bmm, dot, einsum, matmul, mm, mv, outer
from labkit.ops.activation import relu

# `labkit.f(x)` and `x.f()`
BOTH = """
    abs acos add addcdiv addcmul addmm all allclose amax amin any argmax argmin argsort as_strided asin atan atan2 baddbmm
    bitwise_and bitwise_not bitwise_or bitwise_xor bmm broadcast_to ceil chunk clamp clone cos cosh count_nonzero cumprod
    cumsum diag diag_embed diagonal div dot eq equal erf exp exp2 expm1 flatten flip floor floor_divide fmod frac gather
    ge gt index_add index_put index_select is_floating_point isclose isfinite isinf isnan le lerp log log10 log1p log2
    log_softmax logical_and logical_not logical_or logical_xor logsumexp lt masked_fill masked_select matmul max maximum
    mean min minimum mm movedim mul mv narrow ne neg nonzero norm outer permute pow prod ravel reciprocal relu remainder
    repeat_interleave reshape roll round rsqrt scatter scatter_add select sigmoid sign sin sinh softmax sort split sqrt
    square squeeze std sub sum t take_along_dim tan tanh tile topk transpose tril triu trunc unbind unflatten unsqueeze
    var where
""".split()
FUNCTIONS_ONLY = "broadcast_tensors cat einsum stack std_mean var_mean".split()
METHODS_ONLY = "contiguous expand expand_as repeat reshape_as view view_as".split()
ALIASES = {
    "absolute": "abs", "clip": "clamp", "concat": "cat", "divide": "div", "greater": "gt", "less": "lt",
    "moveaxis": "movedim", "multiply": "mul", "negative": "neg", "not_equal": "ne", "subtract": "sub",
    "swapaxes": "transpose", "true_divide": "div",
}
IN_PLACE = """
    abs add addcdiv addcmul addmm ceil clamp clip cos div erf exp expm1 floor index_add index_put lerp log log1p
    masked_fill mul neg pow reciprocal relu remainder round rsqrt scatter scatter_add sigmoid sign sin sqrt square sub
    tanh tril triu trunc
""".split()
OPERATORS = {
    "__add__": add, "__sub__": sub, "__mul__": mul, "__truediv__": div, "__floordiv__": floor_divide,
    "__mod__": remainder, "__pow__": pow, "__matmul__": matmul, "__neg__": neg, "__abs__": abs, "__invert__": bitwise_not,
    "__eq__": eq, "__ne__": ne, "__lt__": lt, "__le__": le, "__gt__": gt, "__ge__": ge,
    "__and__": bitwise_and, "__or__": bitwise_or, "__xor__": bitwise_xor,
}
# fmt: on

_ALL = {name: globals()[name] for name in {*BOTH, *FUNCTIONS_ONLY, *METHODS_ONLY}}
_ALL["norm"] = reduce.norm  # labkit.ops.norm is also a file
_ALL.update({alias: _ALL[name] for alias, name in ALIASES.items()})
FUNCTIONS = {name: _ALL[name] for name in sorted({*BOTH, *FUNCTIONS_ONLY, *ALIASES})}  # `labkit.<name>`


def _reflected(function):
    return lambda self, other: function(other, self)


def _make_methods():
    for name in {*BOTH, *METHODS_ONLY, *ALIASES} - {"concat"}:
        setattr(Tensor, name, _ALL[name])
    for name in IN_PLACE:
        setattr(Tensor, f"{name}_", in_place(_ALL[name]))
    for name, function in OPERATORS.items():
        setattr(Tensor, name, function)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
        setattr(Tensor, f"__r{name}__", _reflected(OPERATORS[f"__{name}__"]))
        setattr(Tensor, f"__i{name}__", in_place(OPERATORS[f"__{name}__"]))


_make_methods()
