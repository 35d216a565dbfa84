"""CUDA kernels, written in Python and compiled by Numba. Read README.md first, then any file beside its twin
in `numpy/`. A kernel that is not listed here does not exist on the device: there is no silent way around.
"""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


KERNELS: dict[str, frozenset[str]] = {
    "memory": _names("Array asarray empty zeros full arange copy copy_ cast is_view root"),
    "elementwise": _names("""
        neg abs sign square exp expm1 log log2 log10 log1p sin cos tanh sqrt rsqrt floor ceil trunc round erf
        sigmoid isnan isinf isfinite logical_not bitwise_not add sub mul div pow floor_divide remainder
        maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or
        bitwise_xor sigmoid_grad tanh_grad where keep
    """),
    "activation": _names("""
        relu relu_grad gelu gelu_grad silu silu_grad leaky_relu leaky_relu_grad elu elu_grad softplus
        softplus_grad logsigmoid logsigmoid_grad
    """),
    "shape": _names("""
        reshape permute broadcast_to flip roll concatenate diagonal diagonal_grad tril triu room offset
        as_strided add_strided_
    """),
    "index": _names("""
        getitem getitem_grad setitem_ add_at_ take take_grad gather scatter scatter_add argsort nonzero
        repeat_places
    """),
    "reduce": _names("""
        sum prod prod_others amax amin all any argmax argmin cumsum cumprod cumprod_grad logsumexp softmax
        softmax_grad log_softmax log_softmax_grad
    """),
    "linear": _names("matmul einsum linear"),
    "conv": _names("conv2d conv2d_grad_input conv2d_grad_weight conv2d_grad_bias unfold fold"),
    "pool": _names("max_pool2d max_pool2d_grad avg_pool2d avg_pool2d_grad"),
    "norm": _names("""
        layer_norm layer_norm_grad rms_norm rms_norm_grad batch_norm_stats batch_norm batch_norm_grad
        batch_norm_update_
    """),
    "attention": _names("attention attention_grad attention_drop"),
    "recurrent": _names("rnn rnn_grad lstm lstm_grad gru gru_grad"),
    "embedding": _names("embedding embedding_grad one_hot index_outside"),
    "loss": _names("nll_loss cross_entropy scale_rows"),
    "vision": _names("resample resample_grad pad_taps resize_taps pad_constant"),
    "optim": _names("sgd_ rmsprop_ adam_"),
    "dropout": _names("dropout_keep dropout"),
}
