"""A mask that keeps what it should drop: name the fault and mend it."""

import numpy as np

from labkit.exercises.declare import Case, Equivalent, Fix, Mistake
from labkit.lazy import torch


def _padded_layer(x, heads):
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(x.shape[-1], heads, batch_first=True, dtype=x.dtype)
    torch.nn.init.normal_(layer.in_proj_bias)
    torch.nn.init.normal_(layer.out_proj.bias)
    return layer


def _inside(x, lengths):
    return torch.arange(x.shape[1]) < lengths[:, None]


def _use_encode(answer, x, lengths, heads):
    """What comes out at the tokens that are real."""
    return answer(_padded_layer(x, heads), x, lengths)[_inside(x, lengths)]


def _encode(mask, change=lambda x, real: x):
    """Self-attention of `change(x, real)` with `mask(real)` as key_padding_mask."""

    def encode(layer, x, lengths):
        real = _inside(x, lengths)
        x = change(x, real)
        return layer(x, x, x, key_padding_mask=mask(real), need_weights=False)[0]

    return encode


def _encode_one_more(layer, x, lengths):
    return _encode(lambda real: ~real)(layer, x, lengths + 1)


def _padded_case(shape, lengths, heads, make="normal"):
    return lambda draw: {"x": getattr(draw, make)(*shape), "lengths": np.array(lengths), "heads": heads}


exercise = Fix(
    title="Keep or drop?",
    minutes=10,
    needs=("w07.multi_head",),
    dtype="float64",
    cases=[
        Case("two sentences", _padded_case((2, 5, 6), [3, 4], 2)),
        Case("one of them full", _padded_case((3, 4, 8), [2, 4, 1], 4)),
        Case("one sentence", _padded_case((1, 7, 3), [5], 1)),
        Case("not contiguous", _padded_case((2, 6, 4), [5, 2], 2, "transposed")),
        Case("no padding", _padded_case((2, 3, 4), [3, 3], 2), extreme=True),
    ],
    use=_use_encode,
    oracle=lambda x, lengths, heads: _use_encode(_encode(lambda real: ~real), x, lengths, heads),
    grads=("x",),
    broken=_encode(lambda real: real),
    fault="keep and drop exchanged",
    menu={
        "keep and drop exchanged": "",
        "length off by one": "`arange < lengths` marks exactly the tokens of the sentence. What does the layer do with the marked ones?",
        "padding not zeroed": "Padding of zeros would still be looked at: a key of zeros has a score, and a weight. What does True mean to the layer?",
    },
    mistakes=[
        Mistake(
            "no mask",
            "The mask is gone, and everybody looks at the padding.",
            _encode(lambda real: None),
        ),
        Mistake(
            "padding zeroed",
            "The padding is set to 0 and still looked at: its keys and values are the biases. It needs a mask.",
            _encode(lambda real: None, lambda x, real: x * real[..., None]),
        ),
        Mistake(
            "a mask of numbers",
            "A mask of floats is added to the scores: 1 for a real token is a small favor, not a rule. Pass booleans, or 0 and -inf.",
            _encode(lambda real: real.double()),
        ),
        Mistake(
            "numbers exchanged",
            "A mask of floats is added to the scores: 1 for padding makes it more attractive. Pass booleans, or 0 and -inf.",
            _encode(lambda real: (~real).double()),
        ),
        Mistake(
            "one too many",
            "Keep and drop are right now, but the first padded token of each sentence is kept.",
            _encode_one_more,
        ),
        Mistake(
            "zeroed and exchanged",
            "The padding is set to 0, and it is still the only thing that is looked at: True means drop for this layer.",
            _encode(lambda real: real, lambda x, real: x * real[..., None]),
        ),
    ],
    hints=(
        "For a sentence without padding `real` is True everywhere. What is left to look at?",
        "nn.MultiheadAttention ignores the keys where key_padding_mask is True. Which are to be ignored?",
        'fault = "keep and drop exchanged"; key_padding_mask=~real',
    ),
    passed="nn.TransformerEncoder's src_key_padding_mask drops where True, too. When in doubt, change a padded token and see.",
    excused={"delegation": "the layer is given; one sign is the answer"},
    equivalent=(
        Equivalent(
            before="return layer(x, x, x, key_padding_mask=~real, need_weights=False)[0]",
            after="return layer(x, x, x, key_padding_mask=~real)[0]",
            reason="the weights are computed and thrown away; the output is the same wherever a token may look at something",
        ),
        Equivalent(
            before="return layer(x, x, x, key_padding_mask=~real, need_weights=False)[0]",
            after="return layer(x, x, x, key_padding_mask=~real, need_weights=True)[0]",
            reason="the weights are computed and thrown away; the output is the same wherever a token may look at something",
        ),
    ),
)
