"""Compiled kernels: loops that Numba turns into vector instructions, spread over threads when large.

Only what is worth it; a kernel missing here comes from `numpy/`, with the same name and signature. Read
`jit.py` first, then any file beside its twin in `numpy/`.
"""

KERNELS: dict[str, set[str]] = {
    "activation": {
        "relu",
        "relu_grad",
        "gelu",
        "gelu_grad",
        "silu",
        "silu_grad",
        "leaky_relu",
        "leaky_relu_grad",
    },
    "attention": {"attention", "attention_grad"},
    "conv": {"conv2d", "conv2d_grad_input", "conv2d_grad_weight", "conv2d_grad_bias"},
    "elementwise": {"erf", "sigmoid", "sigmoid_grad", "tanh", "tanh_grad"},
    "embedding": {"embedding_grad"},
    "linear": {"linear"},
    "loss": {"cross_entropy"},
    "norm": {"layer_norm", "layer_norm_grad", "rms_norm", "rms_norm_grad"},
    "optim": {"sgd_", "adam_"},
    "pool": {"max_pool2d", "max_pool2d_grad"},
    "reduce": {"softmax", "softmax_grad", "log_softmax", "log_softmax_grad"},
    "recurrent": {"lstm", "lstm_grad", "gru", "gru_grad"},
}
