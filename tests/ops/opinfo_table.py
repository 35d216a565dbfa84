"""Which labkit function answers to which entry of PyTorch's operator database.

Keys are the database's names, with the variant after a slash where it has one. `REFUSED` counts the samples
that labkit refuses by name (`NotSupported`), so that a refusal more or less is noticed.
"""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as TF

import labkit
import labkit.nn.functional as F
from labkit import Tensor

_SAME_NAME = """
    abs add addcdiv addcmul addmm addmm/decomposed all allclose amax amin any argmax argmin argsort
    as_strided bmm broadcast_tensors broadcast_to cat ceil chunk clamp clone contiguous cos count_nonzero
    cumprod cumsum diag diag_embed diagonal div/floor_rounding div/no_rounding_mode div/trunc_rounding dot
    eq equal erf exp expand expand_as expm1 flatten flip floor floor_divide gather ge gt index_add
    index_put index_select isclose isfinite isinf isnan le lerp log log10 log1p log2 log_softmax
    log_softmax/with_dtype logical_and logical_not logical_or logical_xor logsumexp lt masked_fill
    masked_select matmul max/binary max/reduction_no_dim max/reduction_with_dim maximum mean min/binary
    min/reduction_no_dim min/reduction_with_dim minimum mm movedim mul mv narrow ne neg nonzero norm
    norm/fro norm/inf norm/nuc outer permute pow prod ravel reciprocal remainder repeat repeat_interleave
    reshape reshape_as roll round round/decimals_0 round/decimals_3 round/decimals_neg_3 rsqrt scatter
    scatter_add select sigmoid sign sin softmax softmax/with_dtype sort split split/list_args sqrt square
    squeeze squeeze/multiple stack std std/unbiased sub sum t take_along_dim tanh tile topk transpose tril
    triu trunc unbind unflatten unsqueeze var var/unbiased view view_as
""".split()

CORE = {
    key: getattr(labkit, key.split("/")[0], None) or getattr(Tensor, key.split("/")[0]) for key in _SAME_NAME
}
CORE["einsum"] = lambda tensors, equation: labkit.einsum(equation, *tensors)
CORE["where"] = lambda input, condition, other: labkit.where(condition, input, other)
CORE["__getitem__"] = Tensor.__getitem__

_FUNCTIONAL_SAME_NAME = """
    adaptive_avg_pool2d avg_pool2d batch_norm binary_cross_entropy_with_logits conv1d conv2d
    conv_transpose2d cosine_similarity cross_entropy elu gelu group_norm interpolate/area
    interpolate/bicubic interpolate/bilinear interpolate/linear interpolate/nearest
    interpolate/nearest-exact interpolate/trilinear kl_div l1_loss layer_norm leaky_relu linear
    logsigmoid max_pool2d mse_loss nll_loss normalize pad/circular pad/constant pad/reflect
    pad/replicate pad/replicate_negative relu rms_norm silu smooth_l1_loss softplus unfold
""".split()


def _on_torchs_draw(function, torch_mask):
    """`function`, with dropout that keeps what torch keeps; the database seeds each call of torch with 42."""

    def call(*args, **kwargs):
        with torch.random.fork_rng():
            torch.manual_seed(42)
            mask = torch_mask(*args, **kwargs)
        draw = SimpleNamespace(random=lambda shape, dtype: mask.reshape(shape))  # kept if draw >= p
        with (
            patch("labkit.ops.dropout.source", lambda _: draw),
            patch("labkit.ops.attention.source", lambda _: draw),
        ):
            return function(*args, **kwargs)

    return call


def _kept(drop, shape, p):
    """Ones where torch's dropout keeps, zeros where it drops."""
    return drop(torch.ones(shape), p).numpy().astype(bool).astype(np.float32)


def _dropout_mask(input, p=0.5, training=True):
    return _kept(TF.dropout, input.shape, p)


def _dropout2d_mask(input, p=0.5, training=True):
    return _kept(TF.dropout2d, (*input.shape[:2], 1, 1), p)


def _attention_mask(query, key, value, dropout_p=0.0, **_):
    batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    return _kept(TF.dropout, (*batch, query.shape[-2], key.shape[-2]), dropout_p)


FUNCTIONAL = {f"nn.functional.{key}": getattr(F, key.split("/")[0]) for key in _FUNCTIONAL_SAME_NAME}
FUNCTIONAL["nn.functional.embedding"] = lambda weight, index, **kwargs: F.embedding(index, weight, **kwargs)
FUNCTIONAL["nn.functional.dropout"] = _on_torchs_draw(F.dropout, _dropout_mask)
FUNCTIONAL["nn.functional.dropout2d"] = _on_torchs_draw(F.dropout2d, _dropout2d_mask)
FUNCTIONAL["nn.functional.scaled_dot_product_attention"] = _on_torchs_draw(
    F.scaled_dot_product_attention, _attention_mask
)

REFUSED = {"norm/nuc": 2}
