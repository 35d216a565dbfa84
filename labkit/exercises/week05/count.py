"""Predict parameters, multiplications and receptive fields before building anything."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import torch


def _weights(make):
    """How many parameters a layer has; built without memory."""
    return lambda: sum(p.numel() for p in make().parameters())


def _layer(channels, filters, size, **options):
    return torch.nn.Conv2d(channels, filters, size, device="meta", **options)


def _receptive_field(layers):
    """(kernel, stride) of each layer, first to last -> pixels across."""
    field, step = 1, 1
    for kernel, stride in layers:
        field, step = field + (kernel - 1) * step, step * stride
    return field


exercise = Predict(
    title="Count before you build",
    minutes=10,
    needs=("w05.grouped",),
    items={
        "a": Item(
            "weights of 32 filters of 3×3 on 3 channels, no bias",
            _weights(lambda: _layer(3, 32, 3, bias=False)),
        ),
        "b": Item("the same layer with a bias: all its parameters", _weights(lambda: _layer(3, 32, 3))),
        "c": Item(
            "weights of 64 filters of 3×3 on 32 channels", _weights(lambda: _layer(32, 64, 3, bias=False))
        ),
        "d": Item(
            "weights of a depthwise 3×3 convolution on 32 channels",
            _weights(lambda: _layer(32, 32, 3, groups=32, bias=False)),
        ),
        "e": Item(
            "weights of d, followed by 64 filters of 1×1 (together they can stand in for c)",
            _weights(
                lambda: torch.nn.Sequential(
                    _layer(32, 32, 3, groups=32, bias=False), _layer(32, 64, 1, bias=False)
                )
            ),
        ),
        "f": Item(
            "multiplications of layer a on one picture of 32×32, without padding", lambda: 864 * 30 * 30
        ),
        "g": Item(
            "weights of a linear layer that maps the same picture, 3×32×32, to the same output, 32×30×30",
            lambda: 3 * 32 * 32 * 32 * 30 * 30,
        ),
        "h": Item(
            "receptive field (one side) of three 3×3 layers, one on top of the other",
            lambda: _receptive_field([(3, 1)] * 3),
        ),
        "i": Item(
            "receptive field of a 3×3 layer, then a 2×2 pooling with stride 2, then a 3×3 layer",
            lambda: _receptive_field([(3, 1), (2, 2), (3, 1)]),
        ),
    },
    mistakes=[
        Mistake("channels forgotten", "a: each filter has a kernel for each of the 3 channels.", {"a": 288}),
        Mistake("bias per kernel", "b: one bias per filter, not per kernel: 32, not 96.", {"b": 960}),
        Mistake("channels forgotten in c", "c: each of the 64 filters has 32 kernels.", {"c": 576}),
        Mistake("not depthwise", "d: each filter sees one channel: 32 kernels of 9.", {"d": 9216}),
        Mistake(
            "depthwise 64",
            "e: the depthwise part keeps 32 channels; the 1 by 1 part has 64 times 32.",
            {"e": 2624},
        ),
        Mistake("1x1 forgotten", "e: the 64 filters of 1 by 1 have 32 weights each: 2048 more.", {"e": 288}),
        Mistake("padded", "f: without padding the output has 30 by 30 places, not 32 by 32.", {"f": 884736}),
        Mistake("once", "f: the weights are used again at every place of the output: 900 times.", {"f": 864}),
        Mistake(
            "pixels only",
            "g: one weight for each pair of an input and an output number, channels included.",
            {"g": 32 * 32 * 30 * 30},
        ),
        Mistake("fields multiplied", "h: fields do not multiply: each layer adds 2 pixels.", {"h": 27}),
        Mistake("fields added", "h: the windows overlap: 3, then 5, then 7.", {"h": 9}),
        Mistake(
            "stride forgotten",
            "i: after the pooling one step is 2 pixels, so the last layer adds 4.",
            {"i": 6},
        ),
    ],
    hints=(
        "a: 32 filters, each of them 3 kernels of 9 numbers.",
        "g: (3 * 32 * 32) inputs times (32 * 30 * 30) outputs. i: field 3, then + 1, then + 2 * 2.",
        "a 864, b 864 + 32, c 64 * 32 * 9, d 32 * 9, e d + 64 * 32, f 864 * 900, h 7.",
    ),
    passed="88 million weights against 864 for the same map: the convolution says what no linear layer can, that place does not matter.",
)
