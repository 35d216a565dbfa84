"""torch.nn.functional's names. Everything is computed in `labkit.ops`; this file gathers it.

`rnn`, `lstm` and `gru` run one layer over a whole sequence; torch has them only as modules.
"""

from labkit.ops import activation
from labkit.ops.activation import gelu, logsigmoid, softplus
from labkit.ops.attention import scaled_dot_product_attention
from labkit.ops.conv import conv1d, conv2d, conv_transpose2d
from labkit.ops.dropout import dropout, dropout2d
from labkit.ops.elementwise import sigmoid, tanh
from labkit.ops.embedding import embedding, one_hot
from labkit.ops.linear import linear
from labkit.ops.loss import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from labkit.ops.norm import batch_norm, cosine_similarity, group_norm, layer_norm, normalize, rms_norm
from labkit.ops.pool import avg_pool2d, max_pool2d
from labkit.ops.recurrent import gru, lstm, rnn
from labkit.ops.reduce import log_softmax, softmax
from labkit.ops.vision import adaptive_avg_pool2d, interpolate, pad
from labkit.ops.windows import fold, unfold
from labkit.tensor import Tensor, in_place

__all__ = [
    "adaptive_avg_pool2d", "avg_pool2d", "batch_norm", "binary_cross_entropy_with_logits", "conv1d",
    "conv2d", "conv_transpose2d", "cosine_similarity", "cross_entropy", "dropout", "dropout2d",
    "elu", "embedding", "fold", "gelu", "group_norm", "gru", "interpolate", "kl_div",
    "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "lstm",
    "max_pool2d", "mse_loss", "nll_loss", "normalize", "one_hot", "pad", "relu", "rms_norm", "rnn",
    "scaled_dot_product_attention", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softplus",
    "tanh", "unfold",
]  # fmt: skip


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)"""
    return (in_place(activation.relu) if inplace else activation.relu)(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x)"""
    return (in_place(activation.silu) if inplace else activation.silu)(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, negative_slope x elsewhere"""
    return (in_place(activation.leaky_relu) if inplace else activation.leaky_relu)(
        input, negative_slope=negative_slope
    )


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, alpha (exp(x) - 1) elsewhere"""
    return (in_place(activation.elu) if inplace else activation.elu)(input, alpha=alpha)
