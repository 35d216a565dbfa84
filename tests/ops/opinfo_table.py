"""Which labkit function answers to which entry of PyTorch's operator database.

Keys are the database's names, with the variant after a slash where it has one. `REFUSED` counts the samples that labkit
refuses by name (`NotSupported`), so that a refusal more or less is noticed.
"""

import labkit
from labkit import Tensor

_SAME_NAME = """
    abs acos add addmm all amax amin any argmax argmin asin atan bmm broadcast_to cat ceil chunk clamp clone contiguous
    cos cosh cumsum diag diagonal div/floor_rounding div/no_rounding_mode div/trunc_rounding dot eq erf exp exp2
    expand expm1 flatten flip floor gather ge gt index_add index_put index_select isclose isfinite isinf isnan le lerp
    log log10 log1p log2 log_softmax log_softmax/with_dtype logical_and logical_not logical_or logical_xor logsumexp lt
    masked_fill masked_select matmul max/binary max/reduction_no_dim max/reduction_with_dim maximum mean min/binary
    min/reduction_no_dim min/reduction_with_dim minimum mm movedim mul mv narrow ne neg norm norm/fro norm/inf norm/nuc
    outer permute pow prod ravel reciprocal repeat reshape reshape_as roll round round/decimals_0 round/decimals_3
    round/decimals_neg_3 rsqrt scatter scatter_add select sigmoid sign sin sinh softmax softmax/with_dtype sort split
    split/list_args sqrt square squeeze squeeze/multiple stack std std/unbiased sub sum t take_along_dim tan tanh tile
    topk transpose tril triu trunc unbind unflatten unsqueeze var var/unbiased view view_as
    addcdiv addcmul addmm/decomposed allclose argsort as_strided atan2 baddbmm broadcast_tensors count_nonzero cumprod diag_embed equal expand_as floor_divide fmod frac
    nonzero remainder repeat_interleave std_mean var_mean
""".split()

CORE = {
    key: getattr(labkit, key.split("/")[0], None) or getattr(Tensor, key.split("/")[0]) for key in _SAME_NAME
}
CORE["einsum"] = lambda tensors, equation: labkit.einsum(equation, *tensors)
CORE["where"] = lambda input, condition, other: labkit.where(condition, input, other)
CORE["__getitem__"] = Tensor.__getitem__

FUNCTIONAL = {}

REFUSED = {"norm/nuc": 2}
