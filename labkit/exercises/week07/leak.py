"""A norm over time that leaks the future: name the fault and mend it."""

from labkit.exercises.declare import Case, Fix, Mistake, vary
from labkit.exercises.week07.shared import causal
from labkit.lazy import F, torch


def _normalized(x, mean=-1, variance=-1):
    """x, its mean over some axes taken away, divided by the deviation over others."""
    return (x - x.mean(mean, keepdim=True)) / torch.sqrt(x.var(variance, correction=0, keepdim=True) + 1e-5)


def _attending_to(normal, **options):
    """x + causal attention of `normal(x)`."""
    options = options or {"is_causal": True}

    def attend(x, weights):
        q, k, v = normal(x) @ weights[:, None]
        return x + F.scaled_dot_product_attention(q, k, v, **options)

    return attend


def _hidden_itself(x, weights):
    q, k, v = _normalized(x, 1, 1) @ weights[:, None]
    return x + F.scaled_dot_product_attention(q, k, v, causal(x.shape[1], 0, -1))


def _leak_case(shape, make="normal"):
    return lambda draw: {"x": getattr(draw, make)(*shape), "weights": draw.normal(3, shape[-1], shape[-1])}


exercise = Fix(
    title="Better than possible",
    minutes=12,
    needs=("w07.attention",),
    dtype="float64",
    cases=[
        Case("2 sentences of 5", _leak_case((2, 5, 4))),
        Case("3 sentences of 4", _leak_case((3, 4, 6))),
        Case("one sentence", _leak_case((1, 7, 5))),
        Case("not contiguous", _leak_case((2, 3, 8), "transposed")),
        Case("one token", _leak_case((2, 1, 3)), extreme=True),
    ],
    oracle=lambda x, weights: _attending_to(lambda x: F.layer_norm(x, x.shape[-1:]))(x, weights),
    grads=("x", "weights"),
    broken=_attending_to(vary(_normalized, mean=1, variance=1)),
    fault="normalized over time",
    menu={
        "normalized over time": "",
        "mask off by one": "`is_causal=True` is torch's own triangle, and right. What else in this function mixes tokens?",
        "input added": "x is added place by place: it brings no token to another place. What does?",
    },
    mistakes=[
        Mistake(
            "not normalized",
            "The leak is closed, and the normalization is gone. It was to stay, over the features of each token.",
            _attending_to(lambda x: x),
        ),
        Mistake(
            "only the mean",
            "The mean is each token's own now; the variance is still taken over time, and leaks.",
            _attending_to(vary(_normalized, mean=-1, variance=1)),
        ),
        Mistake(
            "only the variance",
            "The variance is each token's own now; the mean is still taken over time, and leaks.",
            _attending_to(vary(_normalized, mean=1, variance=-1)),
        ),
        Mistake(
            "over both axes",
            "Mean and variance are taken over time and features together: the future is still in them.",
            _attending_to(vary(_normalized, mean=(1, 2), variance=(1, 2))),
        ),
        Mistake(
            "over the batch",
            "Mean and variance are taken over the batch: now sentences see each other. The features are axis -1.",
            _attending_to(vary(_normalized, mean=0, variance=0)),
        ),
        Mistake(
            "1e-5 outside the root",
            "The axis is right, the 1e-5 has moved out of the square root: a small difference in every number. Keep the formula.",
            _attending_to(
                lambda x: (
                    (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True).sqrt() + 1e-5)
                )
            ),
        ),
        Mistake(
            "another deviation",
            "The axis is right, the formula has changed: `std` divides by D - 1. Keep var(correction=0) and the 1e-5 inside the root.",
            _attending_to(
                lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5),
            ),
        ),
        Mistake(
            "mask moved",
            "The mask was moved by one, and hides the token itself. It was right; the leak is still open.",
            _hidden_itself,
        ),
    ],
    hints=(
        "Cover the last line: is there any other line in which one token's numbers depend on another token?",
        "x has axes (B, T, D). A mean over axis 1 is a mean over all tokens, the future ones too.",
        'fault = "normalized over time"; use -1 instead of 1 in the mean and in the variance',
    ),
    passed="Normalizing each token over its features is layer norm. A batch norm over time would have leaked as well.",
    excused={
        "delegation": "F.layer_norm is a fair way to mend it",
        "equal axes": "the three matrices map a width to the same width; their values tell them apart",
        "distinct": "the same: the matrices are square",
    },
)
