"""Week 7, second half: norms, blocks, a tokenizer, the GPT and how it writes; then torch's own parts."""

import itertools
import math

import numpy as np

from labkit.exercises.declare import (
    Case,
    Fix,
    Implement,
    Item,
    Mistake,
    Predict,
    Rules,
)
from labkit.lazy import F, torch

_PROJECTIONS = "the projections of attention and the tables that follow them are square"
_NORMS = (
    *("layer_norm", "native_layer_norm", "LayerNorm", "rms_norm", "RMSNorm", "group_norm", "GroupNorm"),
    *("batch_norm", "BatchNorm1d", "instance_norm", "InstanceNorm1d"),
)
_LAYERS = (
    *("TransformerEncoderLayer", "TransformerEncoder", "TransformerDecoderLayer", "TransformerDecoder"),
    *("Transformer", "MultiheadAttention", "multi_head_attention_forward"),
)


# 02 the block and the GPT


def _layer_norm(x, weight, bias, eps, *, dims=(-1,), correction=0, outside=False, affine=True, power=0.5):
    """The answer, with one thing changed."""
    mean, var = x.mean(dims, keepdim=True), x.var(dims, correction=correction, keepdim=True)
    size = var**power + eps if outside else (var + eps) ** power
    y = (x - mean) / size
    return y * weight + bias if affine else y


def _norm_case(shape, eps, make="normal", scale=1.0, shift=0.0):
    return lambda draw: {
        "x": shift + scale * getattr(draw, make)(*shape),
        "weight": draw.normal(shape[-1]),
        "bias": draw.normal(shape[-1]),
        "eps": eps,
    }


layer_norm = Implement(
    id="w07.layer_norm",
    title="Layer norm",
    minutes=8,
    level=2,
    dtype="float64",
    cases=[
        Case("batch of sequences", _norm_case((2, 3, 5), 1e-5, shift=1.0)),
        Case("eps 0.3", _norm_case((4, 6), 0.3)),
        Case("not contiguous", _norm_case((3, 2, 4), 1e-5, "transposed")),
        Case("one position", _norm_case((3, 1, 4), 1e-3, shift=2.0)),
        Case("one vector", _norm_case((7,), 1e-5)),
        Case(
            "a row of equal numbers",
            lambda draw: {
                "x": np.full((2, 4), 3.0),
                "weight": draw.normal(4),
                "bias": draw.normal(4),
                "eps": 1e-5,
            },
            extreme=True,
        ),
    ],
    oracle=lambda x, weight, bias, eps: F.layer_norm(x, x.shape[-1:], weight, bias, eps),
    grads=("x", "weight", "bias"),
    rules=Rules(forbids=_NORMS),
    mistakes=[
        Mistake(
            "unbiased variance",
            "The variance divides by n - 1. Layer norm divides by n, as batch norm does: correction=0.",
            lambda x, weight, bias, eps: _layer_norm(x, weight, bias, eps, correction=1),
        ),
        Mistake(
            "eps outside the root",
            "eps is added to the root; it belongs under it: sqrt(var + eps).",
            lambda x, weight, bias, eps: _layer_norm(x, weight, bias, eps, outside=True),
        ),
        Mistake(
            "eps not used",
            "A fixed 1e-5 stands where eps belongs. It is an argument: sqrt(var + eps).",
            lambda x, weight, bias, eps: _layer_norm(x, weight, bias, 1e-5),
        ),
        Mistake(
            "over the batch",
            "Mean and variance run over the first axis, as in batch norm. Each vector is measured by itself: the last axis.",
            lambda x, weight, bias, eps: _layer_norm(x, weight, bias, eps, dims=(0,)),
        ),
        Mistake(
            "over everything",
            "One mean and one variance for the whole array: then a token changes when its neighbors do. Take the last axis.",
            lambda x, weight, bias, eps: _layer_norm(x, weight, bias, eps, dims=tuple(range(x.ndim))),
        ),
        Mistake(
            "no scale and shift",
            "The vectors are normalized, but weight and bias are not used.",
            lambda x, weight, bias, eps: _layer_norm(x, weight, bias, eps, affine=False),
        ),
        Mistake(
            "torch's standard deviation",
            "x.std divides by n - 1, and eps is added to it. The root of var + eps is wanted, with correction=0.",
            lambda x, weight, bias, eps: _layer_norm(x, weight, bias, eps, correction=1, outside=True),
        ),
        Mistake(
            "no shift",
            "The bias is not added.",
            lambda x, weight, bias, eps: _layer_norm(x, weight, 0 * bias, eps),
        ),
        Mistake(
            "divided by the variance",
            "The difference is divided by the variance; divide by its root.",
            lambda x, weight, bias, eps: _layer_norm(x, weight, bias, eps, power=1.0),
        ),
        Mistake(
            "mean not subtracted",
            "The mean is not subtracted: that comes before the division.",
            lambda x, weight, bias, eps: (
                x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * weight + bias
            ),
        ),
    ],
    hints=(
        "Which numbers belong together? All features of one token, and nothing else.",
        "x.mean(-1, keepdim=True) and x.var(-1, correction=0, keepdim=True) line up with x.",
        "return (x - mean) / (var + eps).sqrt() * weight + bias",
    ),
    passed="No running averages, no two modes: a token is normalized by itself, in training and in evaluation.",
)


def _rms_norm(x, weight, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def _rms_case(shape, eps, make="normal", scale=1.0, shift=0.0):
    return lambda draw: {
        "x": shift + scale * getattr(draw, make)(*shape),
        "weight": draw.normal(shape[-1]),
        "eps": eps,
    }


rms_norm = Implement(
    id="w07.rms_norm",
    title="RMS norm",
    minutes=4,
    level=1,
    needs=("w07.layer_norm",),
    dtype="float64",
    cases=[
        Case("batch of sequences", _rms_case((2, 3, 5), 1e-5, shift=1.0)),
        Case("eps 0.3", _rms_case((4, 6), 0.3)),
        Case("not contiguous", _rms_case((3, 2, 4), 1e-5, "transposed")),
        Case("one feature", _rms_case((3, 1), 0.1)),
        Case(
            "zeros",
            lambda draw: {"x": np.zeros((2, 4)), "weight": draw.normal(4), "eps": 1e-6},
            extreme=True,
        ),
    ],
    oracle=lambda x, weight, eps: F.rms_norm(x, x.shape[-1:], weight, eps),
    grads=("x", "weight"),
    rules=Rules(forbids=_NORMS),
    mistakes=[
        Mistake(
            "mean subtracted",
            "The mean is subtracted: that is layer norm. RMS norm only divides.",
            lambda x, weight, eps: _rms_norm(x - x.mean(-1, keepdim=True), weight, eps),
        ),
        Mistake(
            "root of the sum",
            "The squares are summed: that makes vectors of length 1. Take their mean, then the size of a number is about 1.",
            lambda x, weight, eps: x / (x.square().sum(-1, keepdim=True) + eps).sqrt() * weight,
        ),
        Mistake(
            "eps outside the root",
            "eps is added to the root; it belongs under it.",
            lambda x, weight, eps: x / (x.square().mean(-1, keepdim=True).sqrt() + eps) * weight,
        ),
        Mistake(
            "eps not used",
            "eps is missing: add it to the mean square, under the root. It keeps a vector of zeros from becoming NaN.",
            lambda x, weight, eps: _rms_norm(x, weight, 0.0),
        ),
        Mistake(
            "no root",
            "The input is divided by the mean square; divide by its root.",
            lambda x, weight, eps: x / (x.square().mean(-1, keepdim=True) + eps) * weight,
        ),
        Mistake(
            "divided by the standard deviation",
            "x.var takes the mean away before it squares. The mean of x * x is wanted.",
            lambda x, weight, eps: x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * weight,
        ),
        Mistake(
            "over everything",
            "One mean square for the whole array. Each vector has its own: the last axis, kept.",
            lambda x, weight, eps: x / (x.square().mean() + eps).sqrt() * weight,
        ),
    ],
    hints=(
        "Root, mean, square: read the name from right to left.",
        "(x * x).mean(-1, keepdim=True) is the mean square; add eps, take the root.",
        "return x / ((x * x).mean(-1, keepdim=True) + eps).sqrt() * weight",
    ),
    passed="Llama, Gemma and most newer models use it: one pass over the numbers less, and nothing lost.",
)


def _gelu(x, approximate, *, root=2**0.5, half=0.5, cube=3, scale=(2 / math.pi) ** 0.5):
    """The answer, with one thing changed."""
    if approximate == "none":
        return half * x * (1 + torch.erf(x / root))
    return half * x * (1 + torch.tanh(scale * (x + 0.044715 * x**cube)))


gelu = Implement(
    id="w07.gelu",
    title="GELU, twice",
    minutes=6,
    level=1,
    dtype="float64",
    cases=[
        Case("exact", lambda draw: {"x": draw.normal(3, 5), "approximate": "none"}),
        Case("tanh", lambda draw: {"x": 2 * draw.normal(4, 3), "approximate": "tanh"}),
        Case("exact, not contiguous", lambda draw: {"x": 2 * draw.transposed(2, 4), "approximate": "none"}),
        Case("tanh, one row", lambda draw: {"x": draw.normal(1, 6), "approximate": "tanh"}),
        Case(
            "far out",
            lambda draw: {"x": 30 * draw.normal(2, 5), "approximate": "none"},
            extreme=True,
        ),
        Case(
            "far out, tanh",
            lambda draw: {"x": 30 * draw.normal(2, 5), "approximate": "tanh"},
            extreme=True,
        ),
    ],
    oracle=lambda x, approximate: F.gelu(x, approximate=approximate),
    grads=("x",),
    rules=Rules(forbids=("gelu", "GELU", "erfc")),
    mistakes=[
        Mistake(
            "erf without the root of 2",
            "erf gets x itself; the normal distribution's share below x is (1 + erf(x / sqrt(2))) / 2.",
            lambda x, approximate: _gelu(x, approximate, root=1.0),
        ),
        Mistake(
            "tanh always",
            'Both get the tanh formula. It is close, and not the same: "none" asks for erf.',
            lambda x, approximate: _gelu(x, "tanh"),
        ),
        Mistake(
            "erf always",
            '"tanh" gets the exact formula. GPT-2 was trained with the other one, and its weights expect it.',
            lambda x, approximate: _gelu(x, "none"),
        ),
        Mistake(
            "half forgotten",
            "The factor one half is missing: large x should come out as x, not as 2x.",
            lambda x, approximate: _gelu(x, approximate, half=1.0),
        ),
        Mistake(
            "square for cube",
            "Inside the tanh x is squared; it is the third power: 0.044715 * x ** 3.",
            lambda x, approximate: _gelu(x, approximate, cube=2),
        ),
        Mistake(
            "tanh unscaled",
            "The bracket inside the tanh is not multiplied by sqrt(2 / pi).",
            lambda x, approximate: _gelu(x, approximate, scale=1.0),
        ),
        Mistake(
            "only the share",
            "This is the share below x, a number from 0 to 1. GELU is x times it.",
            lambda x, approximate: _gelu(x, approximate) / x,
        ),
        Mistake(
            "sigmoid",
            "x * sigmoid(1.702 x) is a third formula, close to both and equal to neither.",
            lambda x, approximate: x * torch.sigmoid(1.702 * x),
        ),
    ],
    hints=(
        "Two formulas, one `if`.",
        'torch.erf(x / math.sqrt(2)) for "none"; torch.tanh(math.sqrt(2 / math.pi) * (...)) for "tanh".',
        "return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))",
    ),
    passed="The two differ by less than 0.001 anywhere: enough to see when weights meet the wrong one in a deep model.",
)


def _unfit(given, wanted):
    """In words, the first names that are missing and those that nobody asked for."""
    missing, unknown = sorted({*wanted} - {*given}), sorted({*given} - {*wanted})
    words = [f"missing: {', '.join(missing[:3])}"] * bool(missing)
    return words + [f"not asked for: {', '.join(unknown[:3])}"] * bool(unknown)


def _load(model, state):
    """Put weights in by name, and say in words which names do not fit."""
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    fits = {name: value for name, value in state.items() if shapes.get(name) == tuple(value.shape)}
    model.load_state_dict(fits, strict=False)
    words = _unfit(shapes, state)
    words += [
        f"{name} is {shapes[name]}, not {tuple(value.shape)}"
        for name, value in state.items()
        if name in shapes and name not in fits
    ][:1]
    return "; ".join(words) or "all names fit"


def _heads(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def _attend(layer, x, memory, mask, heads):
    """Multi-head attention with the names of nn.MultiheadAttention; the mask is True where one may look."""
    weights, biases = layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3)
    q, k, v = (
        _heads(F.linear(t, w, b), heads) for t, w, b in zip((x, memory, memory), weights, biases, strict=True)
    )
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return layer.out_proj(y.transpose(-2, -3).flatten(-2))


def _block(
    width,
    heads,
    hidden,
    norm_first=True,
    approximate="none",
    *,
    style=None,
    activation=None,
    use_mask=True,
    swap=False,
):
    """A block of torch's parts, with one thing changed."""
    layer = torch.nn.TransformerEncoderLayer(width, heads, hidden, 0.0, batch_first=True)
    first = norm_first if style is None else style

    def forward(x, mask=None):
        norm1, norm2 = (layer.norm2, layer.norm1) if swap else (layer.norm1, layer.norm2)
        mask = mask if use_mask else None

        def attend(t, m=None):
            return _attend(layer.self_attn, t, t if m is None else m, mask, heads)

        def feed(t):
            inner = layer.linear1(t)
            if activation in ("relu", "identity"):
                return layer.linear2(F.relu(inner) if activation == "relu" else inner)
            return layer.linear2(F.gelu(inner, approximate=activation or approximate))

        if first == "lost":
            x = attend(norm1(x)) if norm_first else norm1(attend(x))
            return feed(norm2(x)) if norm_first else norm2(feed(x))
        if first == "second lost":
            x = x + attend(norm1(x)) if norm_first else norm1(x + attend(x))
            return feed(norm2(x)) if norm_first else norm2(feed(x))
        if first == "normed":
            if not norm_first:
                x = norm1(x + attend(x))
                return norm2(x + feed(x))
            x = norm1(x)
            x = norm2(x + attend(x))
            return x + feed(x)
        if first == "keys":
            if not norm_first:
                x = norm1(x + attend(x))
                return norm2(x + feed(x))
            x = x + attend(norm1(x), x)
            return x + feed(norm2(x))
        if first == "branch":
            if norm_first:
                x = x + attend(norm1(x))
                return x + feed(norm2(x))
            x = x + norm1(attend(x))
            return x + norm2(feed(x))
        if first:
            x = x + attend(norm1(x))
            return x + feed(norm2(x))
        x = norm1(x + attend(x))
        return norm2(x + feed(x))

    layer.forward = forward
    return layer


def _use_block(answer, x, state, mask, heads, hidden, norm_first, approximate):
    block = answer(x.shape[-1], heads, hidden, norm_first, approximate).to(x.dtype)
    return {"0 names": _load(block, state), "1 output": block(x, mask)}


def _torch_block(width, heads, hidden, norm_first, approximate):
    """torch's own layer; its mask is True where one may not look."""
    layer = torch.nn.TransformerEncoderLayer(
        width,
        heads,
        hidden,
        0.0,
        lambda x: F.gelu(x, approximate=approximate),
        batch_first=True,
        norm_first=norm_first,
    )
    forward = layer.forward
    layer.forward = lambda x, mask=None: forward(x, None if mask is None else ~mask)
    return layer


def _linear_state(draw, name, rows, columns):
    return {
        f"{name}.weight": draw.normal(rows, columns) / math.sqrt(columns),
        f"{name}.bias": draw.normal(rows),
    }


def _norm_state(draw, name, width):
    return {f"{name}.weight": draw.uniform(0.5, 2, width), f"{name}.bias": draw.normal(width)}


def _attention_state(draw, name, width):
    return {
        f"{name}.in_proj_weight": draw.normal(3 * width, width) / math.sqrt(width),
        f"{name}.in_proj_bias": draw.normal(3 * width),
        **_linear_state(draw, f"{name}.out_proj", width, width),
    }


def _block_state(draw, width, hidden, crosses=False, prefix=""):
    state = _attention_state(draw, f"{prefix}self_attn", width)
    if crosses:
        state |= _attention_state(draw, f"{prefix}multihead_attn", width)
    state |= _linear_state(draw, f"{prefix}linear1", hidden, width)
    state |= _linear_state(draw, f"{prefix}linear2", width, hidden)
    for number in range(1, 4 if crosses else 3):
        state |= _norm_state(draw, f"{prefix}norm{number}", width)
    return state


def _block_case(shape, heads, hidden, norm_first, causal=True, make="normal", approximate="none"):
    return lambda draw: {
        "x": getattr(draw, make)(*shape),
        "state": _block_state(draw, shape[-1], hidden),
        "mask": np.tri(shape[1], dtype=bool) if causal else None,
        "heads": heads,
        "hidden": hidden,
        "norm_first": norm_first,
        "approximate": approximate,
    }


block = Implement(
    id="w07.block",
    title="The block, norm first or last",
    minutes=15,
    level=3,
    needs=("w07.layer_norm", "w07.gelu"),
    dtype="float64",
    cases=[
        Case("norm first, causal", _block_case((2, 3, 4), 2, 7, True)),
        Case("norm last, causal", _block_case((3, 4, 6), 3, 5, False)),
        Case("norm first, no mask", _block_case((2, 5, 6), 2, 3, True, False, approximate="tanh")),
        Case("norm last, no mask, not contiguous", _block_case((3, 2, 4), 1, 9, False, False, "transposed")),
        Case("one position", _block_case((2, 1, 6), 3, 8, True), extreme=True),
    ],
    oracle=lambda *inputs: _use_block(_torch_block, *inputs),
    use=_use_block,
    grads=("x",),
    reduces=300,
    rules=Rules(forbids=_LAYERS),
    delegate=lambda width, heads, hidden, norm_first, approximate: torch.nn.TransformerEncoderLayer(
        width, heads, hidden, 0.0, "gelu", batch_first=True, norm_first=norm_first
    ),
    lint={"equal axes": _PROJECTIONS, "distinct": _PROJECTIONS},
    mistakes=[
        Mistake(
            "always norm first",
            "norm_first=False computes norm first as well. There the norm comes after the sum: norm1(x + ...).",
            lambda *a: _block(*a, style=True),
        ),
        Mistake(
            "always norm last",
            "norm_first=True still normalizes after the sum. There the branch reads norm1(x), and the sum stays as it is.",
            lambda *a: _block(*a, style=False),
        ),
        Mistake(
            "the stream is normalized",
            "With norm first, x itself is replaced by norm1(x) and the branch added to that. x must pass untouched.",
            lambda *a: _block(*a, style="normed"),
        ),
        Mistake(
            "no residual",
            "The input of a branch is not added to its output: x + ... is missing.",
            lambda *a: _block(*a, style="lost"),
        ),
        Mistake(
            "no GELU",
            "Nothing stands between the two linear layers, so they are one linear layer. Your GELU belongs there.",
            lambda *a: _block(*a, activation="identity"),
        ),
        Mistake(
            "hidden size not used",
            "The feed-forward network is 4 * width wide, whatever `hidden` says.",
            lambda width, heads, hidden, *a: _block(width, heads, 4 * width, *a),
        ),
        Mistake(
            "second sum missing",
            "The attention is added to the stream, the feed-forward branch replaces it: x + ... is missing there.",
            lambda *a: _block(*a, style="second lost"),
        ),
        Mistake(
            "keys not normalized",
            "Queries come from norm1(x), keys and values from x. All three read norm1(x).",
            lambda *a: _block(*a, style="keys"),
        ),
        Mistake(
            "norm on the branch",
            "With norm last, only the branch is normalized, then added. It is the sum that is normalized.",
            lambda *a: _block(*a, style="branch"),
        ),
        Mistake(
            "approximate not used",
            "The GELU is always the exact one: hand `approximate` on to it.",
            lambda *a: _block(*a, activation="none"),
        ),
        Mistake(
            "ReLU",
            "Between the two linear layers is a ReLU; here it is your GELU.",
            lambda *a: _block(*a, activation="relu"),
        ),
        Mistake(
            "mask forgotten",
            "The mask does not reach the attention: every position sees all others.",
            lambda *a: _block(*a, use_mask=False),
        ),
        Mistake(
            "norms exchanged",
            "norm1 and norm2 are exchanged: norm1 belongs to the attention.",
            lambda *a: _block(*a, swap=True),
        ),
    ],
    hints=(
        "Two branches, attention and feed-forward. Write norm first, then copy it and move the norms.",
        "feed-forward is self.linear2(gelu(self.linear1(x), self.approximate)); attention is self.self_attn(x, mask=mask).",
        "x = x + self.self_attn(self.norm1(x), mask=mask); norm last: x = self.norm1(x + self.self_attn(x, mask=mask))",
    ),
    passed="The same names and numbers as nn.TransformerEncoderLayer: its weights are yours, and the other way around.",
)


def _decoder(
    width,
    heads,
    hidden,
    *,
    cross="memory",
    order="right",
    residual=True,
    normed=False,
    use_mask=True,
    mask_memory=False,
):
    """A decoder block, norm first, of torch's parts, with one thing changed."""
    layer = torch.nn.TransformerDecoderLayer(width, heads, hidden, 0.0, batch_first=True)

    def forward(x, memory, mask=None):
        def attend(t):
            return _attend(layer.self_attn, t, t, mask if use_mask else None, heads)

        def look(t):
            m = {"memory": memory, "self": t}.get(cross)
            if cross == "swapped":
                return _attend(layer.multihead_attn, memory, t, None, heads)
            m = layer.norm2(m) if normed else m
            return _attend(layer.multihead_attn, t, m, mask if mask_memory else None, heads)

        if order == "norm last":
            x = layer.norm1(x + attend(x))
            x = layer.norm2(x + look(x))
            return layer.norm3(x + layer.linear2(F.gelu(layer.linear1(x))))
        if order == "cross first":
            x = x + look(layer.norm2(x))
            x = x + attend(layer.norm1(x))
        else:
            x = x + attend(layer.norm1(x))
            y = look(layer.norm2(x))
            x = x + y if residual else y
        return x + layer.linear2(F.gelu(layer.linear1(layer.norm3(x))))

    layer.forward = forward
    return layer


def _use_decoder(answer, x, memory, state, mask, heads, hidden):
    block = answer(x.shape[-1], heads, hidden).to(x.dtype)
    return {"0 names": _load(block, state), "1 output": block(x, memory, mask)}


def _torch_decoder(width, heads, hidden):
    layer = torch.nn.TransformerDecoderLayer(
        width, heads, hidden, 0.0, "gelu", batch_first=True, norm_first=True
    )
    forward = layer.forward
    layer.forward = lambda x, memory, mask=None: forward(x, memory, None if mask is None else ~mask)
    return layer


def _decoder_case(shape, length, heads, hidden, causal=True, make="normal"):
    return lambda draw: {
        "x": getattr(draw, make)(*shape),
        "memory": draw.normal(shape[0], length, shape[2]),
        "state": _block_state(draw, shape[-1], hidden, crosses=True),
        "mask": np.tri(shape[1], dtype=bool) if causal else None,
        "heads": heads,
        "hidden": hidden,
    }


decoder = Implement(
    id="w07.decoder",
    title="Cross-attention",
    minutes=10,
    level=2,
    needs=("w07.block",),
    dtype="float64",
    cases=[
        Case("memory longer", _decoder_case((2, 3, 4), 5, 2, 7)),
        Case("memory shorter, no mask", _decoder_case((3, 5, 6), 2, 3, 4, causal=False)),
        Case("not contiguous", _decoder_case((3, 2, 4), 5, 1, 9, make="transposed")),
        Case("memory of one", _decoder_case((2, 5, 6), 1, 2, 3)),
        Case("one position", _decoder_case((3, 1, 4), 2, 2, 5), extreme=True),
    ],
    oracle=lambda *inputs: _use_decoder(_torch_decoder, *inputs),
    use=_use_decoder,
    grads=("x", "memory"),
    reduces=300,
    rules=Rules(forbids=_LAYERS),
    delegate=lambda width, heads, hidden: torch.nn.TransformerDecoderLayer(
        width, heads, hidden, 0.0, "gelu", batch_first=True, norm_first=True
    ),
    lint={"equal axes": _PROJECTIONS, "distinct": _PROJECTIONS},
    mistakes=[
        Mistake(
            "the memory asks",
            "Queries come from the memory. The position that is being written asks; the memory has the keys and values.",
            lambda *a: _decoder(*a, cross="swapped"),
        ),
        Mistake(
            "memory not used",
            "The second attention looks at x again: give it the memory for keys and values.",
            lambda *a: _decoder(*a, cross="self"),
        ),
        Mistake(
            "memory normalized again",
            "norm2 is applied to the memory as well. The encoder's output comes normalized; norm2 is for x.",
            lambda *a: _decoder(*a, normed=True),
        ),
        Mistake(
            "cross-attention first",
            "The block looks at the memory before it looks at itself. Self-attention, cross-attention, feed-forward.",
            lambda *a: _decoder(*a, order="cross first"),
        ),
        Mistake(
            "mask on the memory too",
            "The causal mask reaches the cross-attention as well. All of the memory may be seen: no mask there.",
            lambda *a: _decoder(*a, mask_memory=True),
        ),
        Mistake(
            "norm last",
            "The norms come after the sums. Here each branch reads its norm of x, and the sum stays as it is.",
            lambda *a: _decoder(*a, order="norm last"),
        ),
        Mistake(
            "no residual",
            "What was found in the memory replaces x. It is added to x, as in every branch.",
            lambda *a: _decoder(*a, residual=False),
        ),
        Mistake(
            "mask forgotten",
            "The causal mask does not reach the self-attention.",
            lambda *a: _decoder(*a, use_mask=False),
        ),
    ],
    hints=(
        "Three branches, each with its own norm in front and a sum behind.",
        "self.multihead_attn(self.norm2(x), memory): queries from x, keys and values from the memory, no mask.",
        "x = x + self.self_attn(self.norm1(x), mask=mask); x = x + self.multihead_attn(self.norm2(x), memory); then linear1, gelu, linear2",
    ),
    passed="Translation, speech and image captions: whatever is written while looking at something else has this block.",
)


def _merge(ids, pair, new, *, step=2, first_only=False, end=0):
    """The answer, with one thing changed."""
    merged, i, done = [], 0, False
    while i < len(ids) - end:
        if tuple(ids[i : i + 2]) == tuple(pair) and not (first_only and done):
            merged.append(new)
            i, done = i + step, True
        else:
            merged.append(ids[i])
            i += 1
    return merged


def _merge_in_place(ids, pair, new):
    i = 0
    while i < len(ids) - 1:
        if (ids[i], ids[i + 1]) == pair:
            ids[i : i + 2] = [new]
        i += 1
    return ids


def _merge_again(ids, pair, new):
    merged = []
    for token in ids:
        if merged and (merged[-1], token) == pair:
            merged[-1] = new
        else:
            merged.append(token)
    return merged


def _merge_overlapping(ids, pair, new):
    """Every pair of neighbors on its own, so that a token in the middle is used twice."""
    hits = [tuple(ids[i : i + 2]) == pair for i in range(len(ids))]
    used = {i for i, hit in enumerate(hits) if hit} | {i + 1 for i, hit in enumerate(hits) if hit}
    return [new if hits[i] else ids[i] for i in range(len(ids)) if hits[i] or i not in used]


def _merge_case(ids, pair, new):
    return lambda draw: {"ids": list(ids), "pair": pair, "new": new}


merge = Implement(
    id="w07.merge",
    title="Join a pair",
    minutes=6,
    level=1,
    engine="python",
    reference="the rule above",
    cases=[
        Case("two places", _merge_case([1, 2, 3, 1, 2, 4], (1, 2), 9)),
        Case("at the end", _merge_case([5, 1, 2], (1, 2), 300)),
        Case("three in a row", _merge_case([7, 7, 7, 1], (7, 7), 256)),
        Case("five in a row", _merge_case([1, 7, 7, 7, 7, 7], (7, 7), 256)),
        Case("the other way around", _merge_case([2, 1, 1, 3], (1, 2), 9)),
        Case("new meets old", _merge_case([1, 2, 2, 3], (1, 2), 1)),
        Case("longer numbers", _merge_case([11, 2, 1, 22, 1, 2], (1, 2), 9)),
        Case("nothing", _merge_case([], (1, 2), 9), extreme=True),
        Case("one token", _merge_case([1], (1, 1), 9), extreme=True),
    ],
    oracle=lambda ids, pair, new: _merge(ids, pair, new),
    lint={"delegation": "torch has no tokenizer"},
    mistakes=[
        Mistake(
            "used twice",
            "A token in the middle belongs to two pairs: [7, 7, 7] became two new tokens. Once joined, it is used up.",
            _merge_overlapping,
        ),
        Mistake(
            "one step after a match",
            "After a match the second token of the pair is still there: go on by two.",
            lambda ids, pair, new: _merge(ids, pair, new, step=1),
        ),
        Mistake(
            "first place only",
            "Only the first occurrence is replaced; replace all of them.",
            lambda ids, pair, new: _merge(ids, pair, new, first_only=True),
        ),
        Mistake(
            "last token lost",
            "The last token is gone when it is not part of a pair: the loop ends one too early.",
            lambda ids, pair, new: _merge(ids, pair, new, end=1),
        ),
        Mistake(
            "in place",
            "The list that was given is changed. Build a new one: training needs the old one unharmed.",
            _merge_in_place,
        ),
        Mistake(
            "merged again",
            "What was joined is joined again with its neighbor. One pass: a new token is not looked at in the same round.",
            _merge_again,
        ),
        Mistake(
            "from the right",
            "Pairs are taken from the right: in [7, 7, 7] the first two are joined, not the last two.",
            lambda ids, pair, new: _merge(ids[::-1], pair[::-1], new)[::-1],
        ),
    ],
    hints=(
        "A while loop with its own index: sometimes it goes on by one, sometimes by two.",
        "tuple(ids[i : i + 2]) == pair is safe at the end: there the slice is shorter.",
        "if it matches: merged.append(new); i += 2; else: merged.append(ids[i]); i += 1",
    ),
    passed="One pass, left to right. The whole tokenizer is this function and a rule for choosing pairs.",
)


def _train_bpe(
    counts, size, *, weigh=True, tie="small", start=256, once=False, stop=True, best="most", wrap=tuple
):
    """The answer, with one thing changed."""
    chunks = [(list(chunk), count if weigh else 1) for chunk, count in counts.items()]
    merges, ranked = [], None
    while len(merges) < size:
        pairs = {}
        for ids, count in chunks:
            for pair in itertools.pairwise(ids):
                pairs[pair] = pairs.get(pair, 0) + count
        if not pairs and stop:
            break
        if once:
            ranked = ranked or sorted(pairs, key=lambda pair: (-pairs[pair], pair))
            if len(merges) == len(ranked):
                break
            merges.append(ranked[len(merges)])
            continue
        sign = -1 if best == "most" else 1
        if tie == "small":
            chosen = min(pairs, key=lambda pair: (sign * pairs[pair], pair))
        elif tie == "large":
            chosen = max(pairs, key=lambda pair: (pairs[pair], pair))
        else:
            chosen = max(pairs, key=lambda pair: pairs[pair])
        chunks = [(_merge(ids, chosen, start + len(merges)), count) for ids, count in chunks]
        merges.append(chosen)
    return merges


def _train_on_all_rounds(counts, size):
    """The counts of earlier rounds are never cleared."""
    chunks, pairs, merges = [(list(chunk), count) for chunk, count in counts.items()], {}, []
    while len(merges) < size:
        for ids, count in chunks:
            for pair in itertools.pairwise(ids):
                pairs[pair] = pairs.get(pair, 0) + count
        if not pairs:
            break
        merges.append(min(pairs, key=lambda pair: (-pairs[pair], pair)))
        chunks = [(_merge(ids, merges[-1], 255 + len(merges)), count) for ids, count in chunks]
    return merges


def _train_joined(counts, size):
    """All chunks in one row: pairs reach from one into the next."""
    return _train_bpe({b"".join(chunk * count for chunk, count in counts.items()): 1}, size)


train_bpe = Implement(
    id="w07.train_bpe",
    title="Train the tokenizer",
    minutes=12,
    level=3,
    needs=("w07.merge",),
    engine="python",
    reference="the rule above",
    cases=[
        Case("by hand", lambda draw: {"counts": {b"aab": 2, b"ab": 1}, "size": 2}),
        Case("counts matter", lambda draw: {"counts": {b"xy": 1, b"xyz": 1, b"pq": 5, b"pqr": 1}, "size": 3}),
        Case("a tie", lambda draw: {"counts": {b"has": 3, b"bad": 3, b"gone": 1}, "size": 4}),
        Case(
            "words",
            lambda draw: {
                "counts": {b" the": 9, b" then": 4, b" he": 6, b"\n": 7, b" other": 3, b" hen": 2},
                "size": 6,
            },
        ),
        Case("one letter, again and again", lambda draw: {"counts": {b"aaaaaaa": 1, b"baa": 2}, "size": 3}),
        Case("nothing left to join", lambda draw: {"counts": {b"ab": 1, b"c": 4}, "size": 5}),
        Case("not ASCII", lambda draw: {"counts": {"é à".encode(): 2, "è".encode(): 3}, "size": 3}),
        Case("no text", lambda draw: {"counts": {}, "size": 3}, extreme=True),
    ],
    oracle=lambda counts, size: _train_bpe(counts, size),
    lint={"delegation": "torch has no tokenizer"},
    mistakes=[
        Mistake(
            "every chunk counted once",
            "Each chunk counts once. A pair occurs as often as its chunk does: add its count.",
            lambda counts, size: _train_bpe(counts, size, weigh=False),
        ),
        Mistake(
            "ties by first seen",
            "Among equally frequent pairs the one met first wins, so the order of the text decides. Take the smallest pair.",
            lambda counts, size: _train_bpe(counts, size, tie="first"),
        ),
        Mistake(
            "ties by largest",
            "Among equally frequent pairs the largest wins; the smallest should: min with the key (-count, pair).",
            lambda counts, size: _train_bpe(counts, size, tie="large"),
        ),
        Mistake(
            "counted once at the start",
            "The pairs are counted once and never merged. After each merge the text is another one: count again.",
            lambda counts, size: _train_bpe(counts, size, once=True),
        ),
        Mistake(
            "counts of all rounds",
            "The counts of earlier rounds are still there, of pairs that have been merged away. Start each round with none.",
            _train_on_all_rounds,
        ),
        Mistake(
            "numbered from 257",
            "The first new token is number 257; bytes are 0 to 255, so it is 256.",
            lambda counts, size: _train_bpe(counts, size, start=257),
        ),
        Mistake(
            "numbered from 0",
            "New tokens are numbered from 0, where the bytes are already: begin with 256.",
            lambda counts, size: _train_bpe(counts, size, start=0),
        ),
        Mistake(
            "rarest pair",
            "The rarest pair is chosen; the most frequent one should be.",
            lambda counts, size: _train_bpe(counts, size, best="least"),
        ),
        Mistake(
            "across chunks",
            "Pairs reach from one chunk into the next. Count inside each chunk only.",
            _train_joined,
        ),
        Mistake(
            "no stop",
            "When every chunk is a single token there is no pair to choose: stop there.",
            lambda counts, size: _train_bpe(counts, size, stop=False),
        ),
    ],
    hints=(
        "Keep a list of (ids, count), one per chunk; the merge makes a new list of them in each round.",
        "pairs[pair] += count for pair in zip(ids, ids[1:]); min(pairs, key=lambda pair: (-pairs[pair], pair)) is the best.",
        "chunks = [(merge(ids, best, 256 + len(merges)), count) for ids, count in chunks]; then merges.append(best)",
    ),
    passed="A stated rule for ties makes the tokenizer the same everywhere, whatever the order of its text.",
)


def _bpe_case(chunk, merges):
    return lambda draw: {"chunk": chunk, "merges": list(merges)}


def _encode(chunk, merges, *, start=256, backward=False):
    ids = list(chunk)
    order = list(enumerate(merges))
    for number, pair in reversed(order) if backward else order:
        ids = _merge(ids, pair, start + number)
    return ids


def _encode_greedy(chunk, merges):
    """The longest token that fits, from left to right."""
    spelled = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        spelled.append(spelled[first] + spelled[second])
    ids, i = [], 0
    while i < len(chunk):
        token = max(
            (t for t, s in enumerate(spelled) if chunk.startswith(s, i)), key=lambda t: len(spelled[t])
        )
        ids.append(token)
        i += len(spelled[token])
    return ids


def _encode_leftmost(chunk, merges):
    """Whatever pair is known and comes first in the text."""
    known = {pair: 256 + number for number, pair in enumerate(merges)}
    ids = list(chunk)
    while True:
        place = next((i for i in range(len(ids) - 1) if (ids[i], ids[i + 1]) in known), None)
        if place is None:
            return ids
        ids[place : place + 2] = [known[ids[place], ids[place + 1]]]


def _encode_one_merge(chunk, merges):
    ids = list(chunk)
    for number, pair in enumerate(merges):
        ids = _merge(ids, pair, 256 + number, first_only=True)
    return ids


_TABLE = [(98, 99), (97, 98), (256, 100), (97, 256), (101, 101)]  # bc, ab, bcd, abc, ee

encode = Implement(
    id="w07.encode",
    title="Encode",
    minutes=6,
    level=2,
    needs=("w07.merge", "w07.train_bpe"),
    engine="python",
    reference="the rule above",
    cases=[
        Case("by hand", _bpe_case(b"aab", [(97, 98), (97, 256)])),
        Case("earlier wins", _bpe_case(b"abcd", _TABLE)),
        Case("several pairs", _bpe_case(b"abcabxbcdeeebc", _TABLE)),
        Case("not ASCII", _bpe_case("aé".encode(), [(195, 169), (97, 256)])),
        Case("no merges", _bpe_case(b"abc", [])),
        Case("empty", _bpe_case(b"", _TABLE), extreme=True),
    ],
    oracle=lambda chunk, merges: _encode(chunk, merges),
    lint={"delegation": "torch has no tokenizer"},
    mistakes=[
        Mistake(
            "last learned first",
            "The merges are applied from the last to the first. Later pairs are made of earlier tokens: begin with the first.",
            lambda chunk, merges: _encode(chunk, merges, backward=True),
        ),
        Mistake(
            "longest token first",
            "From the left, always the longest token that fits: that is another tokenizer. Apply the merges in the order learned.",
            _encode_greedy,
        ),
        Mistake(
            "leftmost pair first",
            "The leftmost known pair is joined first. The pair that was learned first goes first, wherever it stands.",
            _encode_leftmost,
        ),
        Mistake(
            "numbered from 0",
            "New tokens are numbered from 0; the first one is 256.",
            lambda chunk, merges: _encode(chunk, merges, start=0),
        ),
        Mistake(
            "bytes only",
            "No merge is applied: these are the bytes.",
            lambda chunk, merges: list(chunk),
        ),
        Mistake(
            "one place per merge",
            "Each merge is applied to one place only; a pair may occur several times.",
            _encode_one_merge,
        ),
    ],
    hints=(
        "The order in which the pairs were learned is the order of the list.",
        "Start from list(chunk); pair number i becomes token 256 + i.",
        "for number, pair in enumerate(merges): ids = merge(ids, pair, 256 + number)",
    ),
    passed="Slow and right. Real tokenizers look up which of the pairs present was learned first; the result is the same.",
)


def _spelled(merges, flip=False):
    table = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        table.append(table[second] + table[first] if flip else table[first] + table[second])
    return table


def _decode(ids, merges, *, flip=False, codec="utf-8", errors="replace"):
    return b"".join(_spelled(merges, flip)[token] for token in ids).decode(codec, errors)


def _decode_each(ids, merges):
    return "".join(_spelled(merges)[token].decode("utf-8", "replace") for token in ids)


def _decode_shallow(ids, merges):
    """New tokens are taken for pairs of bytes."""
    pairs = ((token,) if token < 256 else merges[token - 256] for token in ids)
    return b"".join(bytes(pair) for pair in pairs).decode("utf-8", "replace")


decode = Implement(
    id="w07.decode",
    title="Decode",
    minutes=8,
    level=2,
    needs=("w07.train_bpe",),
    engine="python",
    reference="the rule above",
    cases=[
        Case("bytes", lambda draw: {"ids": [104, 105, 33], "merges": []}),
        Case("tokens of tokens", lambda draw: {"ids": [259, 120, 258, 97, 260], "merges": list(_TABLE)}),
        Case("a letter in two tokens", lambda draw: {"ids": [97, 195, 169, 98], "merges": list(_TABLE)}),
        Case("a letter in one token", lambda draw: {"ids": [257, 256], "merges": [(195, 169), (97, 256)]}),
        Case("half a letter", lambda draw: {"ids": [97, 195], "merges": [(97, 98)]}),
        Case("nothing", lambda draw: {"ids": [], "merges": [(97, 98)]}, extreme=True),
    ],
    oracle=lambda ids, merges: _decode(ids, merges),
    lint={"delegation": "torch has no tokenizer"},
    mistakes=[
        Mistake(
            "token by token",
            "Each token is turned into text by itself, so a letter that lies in two tokens is lost. Join the bytes first.",
            _decode_each,
        ),
        Mistake(
            "strict",
            'Half a letter raises an error. A model may stop there: errors="replace".',
            lambda ids, merges: _decode(ids, merges, errors="strict"),
        ),
        Mistake(
            "broken letters dropped",
            'What is not valid UTF-8 disappears; it should be seen: errors="replace".',
            lambda ids, merges: _decode(ids, merges, errors="ignore"),
        ),
        Mistake(
            "a byte is a letter",
            "Every byte is taken for a letter (latin-1, or chr). In UTF-8 a letter may have several bytes.",
            lambda ids, merges: _decode(ids, merges, codec="latin-1"),
        ),
        Mistake(
            "second half first",
            "The halves of a new token are joined in the wrong order.",
            lambda ids, merges: _decode(ids, merges, flip=True),
        ),
        Mistake(
            "pairs of bytes only",
            "A pair may be made of new tokens, not only of bytes: build the table in order, and look both halves up in it.",
            _decode_shallow,
        ),
    ],
    hints=(
        "First a table: what does each token spell? Then a look-up for each token.",
        "spelled = [bytes([b]) for b in range(256)], then append spelled[first] + spelled[second] for each pair.",
        'return b"".join(spelled[token] for token in ids).decode("utf-8", errors="replace")',
    ),
    passed="Any text at all survives encode and decode, in any language, because its bytes do.",
)


def _gpt(
    vocab,
    context,
    width,
    heads,
    layers,
    *,
    tied=True,
    last=True,
    causal=True,
    places="right",
    scale=1.0,
    first=True,
    approximate="tanh",
    soft=False,
    shared=False,
    registered=True,
):
    """A GPT of torch's parts, with one thing changed."""
    nn = torch.nn

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(context, width)
            blocks = [_block(width, heads, 4 * width, first, approximate) for _ in range(layers)]
            blocks = blocks[:1] * layers if shared else blocks
            self.blocks = nn.ModuleList(blocks) if registered else blocks
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocab, bias=False)
            if tied:
                self.head.weight = self.tokens.weight

        def forward(self, idx):
            steps = idx.shape[-1]
            x = self.tokens(idx) * scale
            if places == "right":
                x = x + self.positions(torch.arange(steps))
            elif places == "tokens":
                x = x + self.positions(idx % context)
            mask = torch.ones(steps, steps, dtype=torch.bool).tril() if causal else None
            for block in self.blocks:
                x = block(x, mask)
            logits = self.head(self.norm(x) if last else x)
            return logits.softmax(-1) if soft else logits

    return GPT()


def _use_gpt(answer, idx, state, vocab, context, width, heads, layers):
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # also for blocks that are not registered: their names tell
    try:
        model = answer(vocab, context, width, heads, layers)
    finally:
        torch.set_default_dtype(usual)
    names = _load(model, state)
    head, table = getattr(model, "head", None), getattr(model, "tokens", None)
    tied = head is not None and table is not None and head.weight is table.weight
    return {"0 names": names, "1 head.weight is tokens.weight": tied, "2 logits": model(idx).detach()}


def _gpt_case(shape, vocab, context, width, heads, layers, flip=False):
    def inputs(draw):
        state = {"tokens.weight": draw.normal(vocab, width), "positions.weight": draw.normal(context, width)}
        for layer in range(layers):
            state |= _block_state(draw, width, 4 * width, prefix=f"blocks.{layer}.")
        state |= _norm_state(draw, "norm", width)
        state["head.weight"] = state["tokens.weight"]
        idx = draw.integers(0, vocab, *shape)
        return {
            "idx": draw.integers(0, vocab, *shape[::-1]).T if flip else idx,
            "state": state,
            "vocab": vocab,
            "context": context,
            "width": width,
            "heads": heads,
            "layers": layers,
        }

    return inputs


gpt = Implement(
    id="w07.gpt",
    title="The GPT",
    minutes=15,
    level=3,
    needs=("w07.block",),
    dtype="float64",
    cases=[
        Case("one block", _gpt_case((2, 3), 7, 5, 4, 2, 1)),
        Case("two blocks, full context", _gpt_case((3, 5), 11, 5, 6, 3, 2)),
        Case("not contiguous", _gpt_case((2, 4), 9, 6, 4, 1, 1, flip=True)),
        Case("one sentence", _gpt_case((1, 6), 5, 8, 6, 2, 2)),
        Case("one token", _gpt_case((2, 1), 7, 3, 4, 2, 1), extreme=True),
    ],
    oracle=lambda *inputs: _use_gpt(_gpt, *inputs),
    use=_use_gpt,
    reduces=500,
    rules=Rules(forbids=_LAYERS),
    lint={
        "equal axes": _PROJECTIONS,
        "distinct": _PROJECTIONS,
        "delegation": "torch has no GPT; its layers are refused by name",
    },
    mistakes=[
        Mistake(
            "not tied",
            "The head has a table of its own. Tie them: self.head.weight = self.tokens.weight.",
            lambda *a: _gpt(*a, tied=False),
        ),
        Mistake(
            "no last norm",
            "The stream goes to the head as it is. With norm first, one more norm comes after the last block.",
            lambda *a: _gpt(*a, last=False),
        ),
        Mistake(
            "no causal mask",
            "Every position sees the whole sentence, also what it is to predict: give each block the causal mask.",
            lambda *a: _gpt(*a, causal=False),
        ),
        Mistake(
            "no positions",
            "The positions are not added: the model cannot tell an early token from a late one.",
            lambda *a: _gpt(*a, places="none"),
        ),
        Mistake(
            "positions of tokens",
            "The table of positions is looked up with the tokens. It is looked up with 0, 1, 2, ...: torch.arange(T).",
            lambda *a: _gpt(*a, places="tokens"),
        ),
        Mistake(
            "embedding scaled",
            "The embeddings are multiplied by the root of the width, as in the paper of 2017. GPT does not do that.",
            lambda vocab, context, width, *a: _gpt(vocab, context, width, *a, scale=math.sqrt(width)),
        ),
        Mistake(
            "norm last",
            "The blocks normalize after the sum; a GPT has the norm first.",
            lambda *a: _gpt(*a, first=False),
        ),
        Mistake(
            "exact GELU",
            'The blocks use the exact GELU. GPT-2 has the other one: approximate="tanh".',
            lambda *a: _gpt(*a, approximate="none"),
        ),
        Mistake(
            "one block for all",
            "All layers are the same block: [block] * n repeats one object. Make a new one in each round.",
            lambda *a: _gpt(*a, shared=True),
        ),
        Mistake(
            "a plain list of blocks",
            "The blocks are in a plain list, where nobody finds their parameters: no optimizer, no state dict. Use nn.ModuleList.",
            lambda *a: _gpt(*a, registered=False),
        ),
        Mistake(
            "softmax",
            "These are probabilities. The model returns logits; the loss does the softmax.",
            lambda *a: _gpt(*a, soft=True),
        ),
    ],
    hints=(
        "Follow the table from top to bottom; forward is the same list again. A plain list of blocks would not be registered.",
        "x = self.tokens(idx) + self.positions(torch.arange(idx.shape[1])); each block gets causal_mask(idx.shape[1]).",
        "self.head = nn.Linear(width, vocab, bias=False); self.head.weight = self.tokens.weight; return self.head(self.norm(x))",
    ),
    passed="GPT-2 small is this with vocab 50257, context 1024, width 768, 12 heads and 12 layers.",
)


def _equal_logits_loss(vocab):
    return F.cross_entropy(torch.zeros(1, vocab), torch.tensor([3])).item()


start = Predict(
    id="w07.start",
    title="Before the first step",
    minutes=6,
    level=1,
    needs=("w07.gpt",),
    items={
        "loss": Item(
            "the loss per token, in nats, of a GPT with 320 tokens", lambda: _equal_logits_loss(320)
        ),
        "perplexity": Item("e to the power of that loss", lambda: math.exp(_equal_logits_loss(320))),
        "doubled": Item("the loss with 640 tokens", lambda: _equal_logits_loss(640)),
        "per byte": Item(
            "the first loss, per byte of text, if a token is 1.5 bytes on average",
            lambda: _equal_logits_loss(320) / 1.5,
        ),
        "saved": Item(
            "how many parameters tying saves, with 320 tokens and width 96",
            lambda: torch.nn.Embedding(320, 96).weight.numel(),
        ),
    },
    mistakes=[
        Mistake(
            "in bits",
            "That is log2(320), the loss in bits. torch's cross-entropy is in nats: the natural logarithm.",
            {"loss": math.log2(320)},
        ),
        Mistake(
            "one over V",
            "1/320 is the probability of each token. The loss is minus its logarithm.",
            {"loss": 1 / 320},
        ),
        Mistake(
            "perplexity is the loss",
            "e to the power of ln 320 is 320: the model is as unsure as if it had to choose among 320 equal tokens.",
            {"perplexity": math.log(320)},
        ),
        Mistake(
            "doubled with the tokens",
            "Twice the tokens do not double the loss: ln(2V) = ln V + ln 2, 0.69 more.",
            {"doubled": 2 * math.log(320)},
        ),
        Mistake(
            "times the bytes",
            "A token of 1.5 bytes pays for all of them at once: divide the loss per token by 1.5.",
            {"per byte": math.log(320) * 1.5},
        ),
        Mistake(
            "tying saves both",
            "One of the two tables of 320 * 96 numbers stays. Tying saves the other.",
            {"saved": 2 * 320 * 96},
        ),
    ],
    hints=(
        "An untrained model has no favorites: each of the 320 tokens gets about the same probability.",
        "The loss is minus the logarithm of the probability of the right token: -ln(1/320).",
        "math.log(320), 320, math.log(640), math.log(320) / 1.5, 320 * 96",
    ),
    passed="The first thing to look at in any run: a loss that does not start at ln V has a bug before its first step.",
)


def _top_k(
    logits,
    temperature,
    k,
    *,
    after=False,
    times=False,
    extra=0,
    renew=True,
    fill=-math.inf,
    cold=True,
    strict=False,
):
    """The answer, with one thing changed."""
    if temperature == 0:
        if not cold:
            return (logits / temperature).softmax(-1)
        return F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
    scaled = logits * temperature if times else logits / (1 if after else temperature)
    least = scaled.topk(min(k + extra, logits.shape[-1])).values[..., -1:]
    if renew:
        out = scaled <= least if strict else scaled < least
        probs = scaled.masked_fill(out, fill).softmax(-1)
    else:
        probs = scaled.softmax(-1).masked_fill(scaled < least, 0.0)
    return probs / temperature if after else probs


def _top_k_case(shape, temperature, k, make="normal", scale=2.0, shift=0.0):
    return lambda draw: {
        "logits": shift + scale * getattr(draw, make)(*shape),
        "temperature": temperature,
        "k": k,
    }


top_k = Implement(
    id="w07.top_k",
    title="Temperature and top-k",
    minutes=10,
    level=2,
    dtype="float64",
    reference="the definition",
    cases=[
        Case("cool", _top_k_case((7,), 0.5, 3)),
        Case("hot", _top_k_case((2, 6), 2.0, 4)),
        Case("as it is", _top_k_case((3, 5), 1.0, 2)),
        Case("not contiguous", _top_k_case((2, 5), 0.7, 3, "transposed")),
        Case("only the best", _top_k_case((1, 4), 1.5, 1)),
        Case("temperature 0", _top_k_case((2, 3, 5), 0.0, 4)),
        Case("more than there are", _top_k_case((2, 5), 0.8, 50), extreme=True),
        Case("large logits", _top_k_case((2, 5), 0.5, 3, scale=1e4), extreme=True),
        Case("far below 0", _top_k_case((2, 5), 0.5, 3, shift=-1e6), extreme=True),
    ],
    oracle=lambda logits, temperature, k: _top_k(logits, temperature, k),
    lint={"delegation": "torch has no function for it; topk and softmax are the tools here"},
    mistakes=[
        Mistake(
            "multiplied",
            "The logits are multiplied by the temperature; divide. A low temperature makes differences larger.",
            lambda logits, temperature, k: _top_k(logits, temperature, k, times=True),
        ),
        Mistake(
            "temperature after the softmax",
            "The probabilities are divided by the temperature, so they no longer add up to 1. It acts on the logits.",
            lambda logits, temperature, k: _top_k(logits, temperature, k, after=True),
        ),
        Mistake(
            "not renewed",
            "The tokens outside are set to 0 after the softmax, and the rest does not add up to 1. Remove them before it.",
            lambda logits, temperature, k: _top_k(logits, temperature, k, renew=False),
        ),
        Mistake(
            "zero for minus infinity",
            "The logits outside become 0, and e to the 0 is 1: they still have a chance. Use -torch.inf.",
            lambda logits, temperature, k: _top_k(logits, temperature, k, fill=0.0),
        ),
        Mistake(
            "one too many",
            "k + 1 tokens are left; k are wanted.",
            lambda logits, temperature, k: _top_k(logits, temperature, k, extra=1),
        ),
        Mistake(
            "one too few",
            "k - 1 tokens are left: the smallest of the k largest is lost. Compare with < to remove, or >= to keep.",
            lambda logits, temperature, k: _top_k(logits, temperature, k, strict=True),
        ),
        Mistake(
            "all tokens",
            "The temperature is right; no token is removed.",
            lambda logits, temperature, k: _top_k(logits, temperature, logits.shape[-1]),
        ),
        Mistake(
            "division by zero",
            "Temperature 0 divides by zero. It stands for the limit: all probability on the largest logit.",
            lambda logits, temperature, k: _top_k(logits, temperature, k, cold=False),
        ),
    ],
    hints=(
        "Three steps: divide, remove, softmax. And temperature 0 by itself, first.",
        "scaled.topk(min(k, V)).values[..., -1:] is the smallest logit that stays; masked_fill the others with -torch.inf.",
        "F.one_hot(logits.argmax(-1), V) for 0; else scaled.masked_fill(scaled < least, -torch.inf).softmax(-1)",
    ),
    passed="Temperature 0 is greedy: always the same words. Real samplers write it as a special case, like you.",
)


def _top_p(probs, p, *, rule="right", back=True, scale=True, descending=True):
    """The answer, with one thing changed."""
    ordered, order = probs.sort(-1, descending=descending)
    total = ordered.cumsum(-1)
    if rule == "right":
        keep = total - ordered < p
    elif rule == "under":
        keep = total <= p
    elif rule == "beyond":
        keep = total - ordered <= p
    elif rule == "each":
        keep = ordered >= p
    else:  # one more than needed
        keep = torch.cat([torch.ones_like(total[..., :1]), total[..., :-1] - ordered[..., :-1]], -1) < p
        keep[..., 0] = True
    kept = ordered * keep
    kept = torch.zeros_like(probs).scatter(-1, order, kept) if back else kept
    return kept / kept.sum(-1, keepdim=True) if scale else kept


def _top_p_case(shape, p, make="normal", spread=1.5):
    def inputs(draw):
        weights = np.exp(spread * getattr(draw, make)(*shape))
        return {"probs": weights / weights.sum(-1, keepdims=True), "p": p}

    return inputs


top_p = Implement(
    id="w07.top_p",
    title="Top-p",
    minutes=10,
    level=3,
    dtype="float64",
    reference="the definition",
    cases=[
        Case("most of it", _top_p_case((8,), 0.9)),
        Case("half", _top_p_case((3, 6), 0.5)),
        Case("a little", _top_p_case((2, 5), 0.1)),
        Case("not contiguous", _top_p_case((2, 7), 0.8, "transposed")),
        Case("one row, nearly all", _top_p_case((1, 6), 0.97)),
        Case("exactly p", lambda draw: {"probs": np.array([[0.25, 0.5, 0.0625, 0.1875]]), "p": 0.5}),
        Case("all", _top_p_case((2, 5), 1.0), extreme=True),
        Case(
            "one certain token", lambda draw: {"probs": np.array([[0.0, 1.0, 0.0]]), "p": 0.5}, extreme=True
        ),
    ],
    oracle=lambda probs, p: _top_p(probs, p),
    lint={"delegation": "torch has no function for it; sort, cumsum and scatter are the tools here"},
    mistakes=[
        Mistake(
            "stops short",
            "Tokens are kept while their total is at most p, so the one that crosses p is lost. It belongs to the set.",
            lambda probs, p: _top_p(probs, p, rule="under"),
        ),
        Mistake(
            "one too many",
            "One more token is kept than needed to reach p.",
            lambda probs, p: _top_p(probs, p, rule="more"),
        ),
        Mistake(
            "more than p",
            "Where the total is exactly p, one more token is kept: at least p is enough, so compare with >=, or the total before with <.",
            lambda probs, p: _top_p(probs, p, rule="beyond"),
        ),
        Mistake(
            "each by itself",
            "Tokens with a probability of at least p are kept. It is the total of the largest that has to reach p.",
            lambda probs, p: _top_p(probs, p, rule="each"),
        ),
        Mistake(
            "left in sorted order",
            "The result is in sorted order: probabilities sit with the wrong tokens. Put them back with scatter.",
            lambda probs, p: _top_p(probs, p, back=False),
        ),
        Mistake(
            "not rescaled",
            "What is left does not add up to 1: divide by its sum.",
            lambda probs, p: _top_p(probs, p, scale=False),
        ),
        Mistake(
            "smallest first",
            "The tokens are sorted from the smallest up, so the unlikely ones are kept: descending=True.",
            lambda probs, p: _top_p(probs, p, descending=False),
        ),
    ],
    hints=(
        "Sort from the largest down and add up. A token stays if the total *before* it is still below p.",
        "ordered, order = probs.sort(-1, descending=True); before = ordered.cumsum(-1) - ordered.",
        "kept = torch.zeros_like(probs).scatter(-1, order, ordered * (before < p)); return kept / kept.sum(-1, keepdim=True)",
    ),
    passed="Where the model is sure, one or two tokens are left; where it is not, many. Top-k cannot do that.",
)


def _beam_search(log_probs, start, width, steps, *, keep=None, worst=False, per_beam=False, combine="add"):
    """The answer, with one thing changed."""
    beams = [((start,), 1.0 if combine == "mul" else 0.0)]
    for _ in range(steps):
        grown = []
        for sequence, score in beams:
            scores = log_probs(sequence).tolist()
            more = [
                (
                    (*sequence, token),
                    score + s if combine == "add" else score * s if combine == "mul" else s,
                )
                for token, s in enumerate(scores)
            ]
            grown += [max(more, key=lambda beam: beam[1])] if per_beam and len(beams) >= width else more
        beams = sorted(grown, key=lambda beam: beam[1], reverse=not worst)[: keep or width]
    return beams


def _use_beam(answer, table, start, width, steps):
    """A model whose next token depends on the last token and on how many there are."""

    def log_probs(sequence):
        return (table[sequence[-1]] * (1 + len(sequence) / 4)).log_softmax(-1)

    return answer(log_probs, start, width, steps)


def _beam_case(vocab, start, width, steps, make="normal"):
    return lambda draw: {
        "table": getattr(draw, make)(vocab, vocab),
        "start": start,
        "width": width,
        "steps": steps,
    }


_SQUARE_TABLE = "a table from token to token is square"
beam = Implement(
    id="w07.beam",
    title="Beam search",
    minutes=12,
    level=3,
    dtype="float64",
    reference="the definition",
    cases=[
        Case("three beams", _beam_case(5, 1, 3, 4)),
        Case("two beams, six steps", _beam_case(4, 0, 2, 6)),
        Case("greedy", _beam_case(6, 2, 1, 5)),
        Case("not contiguous", _beam_case(5, 4, 4, 3, "transposed")),
        Case("more beams than sentences", _beam_case(3, 1, 20, 2)),
        Case("no step", _beam_case(3, 2, 4, 0), extreme=True),
    ],
    use=_use_beam,
    oracle=lambda *inputs: _use_beam(_beam_search, *inputs),
    lint={
        "delegation": "torch has no beam search",
        "equal axes": _SQUARE_TABLE,
        "distinct": _SQUARE_TABLE,
        "size one": "a vocabulary of one token has nothing to search",
    },
    mistakes=[
        Mistake(
            "greedy",
            "Only the best sentence is kept after each step, whatever the width.",
            lambda log_probs, start, width, steps: _beam_search(log_probs, start, width, steps, keep=1),
        ),
        Mistake(
            "each beam keeps its best",
            "Each beam goes on with its own best token. All continuations of all beams compete for the places.",
            lambda log_probs, start, width, steps: _beam_search(
                log_probs, start, width, steps, per_beam=True
            ),
        ),
        Mistake(
            "worst first",
            "The least likely sentences are kept: sort with reverse=True.",
            lambda log_probs, start, width, steps: _beam_search(log_probs, start, width, steps, worst=True),
        ),
        Mistake(
            "last step only",
            "A score is that of the last token alone. Add it to the score of the sentence so far.",
            lambda log_probs, start, width, steps: _beam_search(
                log_probs, start, width, steps, combine="last"
            ),
        ),
        Mistake(
            "multiplied",
            "Log-probabilities are multiplied. Probabilities multiply; their logarithms add up.",
            lambda log_probs, start, width, steps: _beam_search(
                log_probs, start, width, steps, combine="mul"
            ),
        ),
        Mistake(
            "best only",
            "Only the best sentence is returned; the whole list of beams is asked for, best first.",
            lambda log_probs, start, width, steps: _beam_search(log_probs, start, width, steps)[:1],
        ),
    ],
    hints=(
        "In each step: grow every beam by every token, then keep the best `width` of all of them.",
        "A grown beam is ((*sequence, token), score + log_prob); log_probs(sequence).tolist() gives one number per token.",
        "beams = sorted(grown, key=lambda beam: beam[1], reverse=True)[:width]",
    ),
    passed="With width 1 this is greedy; with a width of all sentences it is exact. Translators use 4 to 10.",
)


def _cached(attend, x, cache, *, mask="right", order="append", keep="all", scale=None):
    """The answer, with one thing changed."""
    weights, biases = attend.in_proj_weight.chunk(3), attend.in_proj_bias.chunk(3)
    q, k, v = (_heads(F.linear(x, w, b), attend.heads) for w, b in zip(weights, biases, strict=True))
    if cache is not None:
        pairs = ((cache[0], k), (cache[1], v)) if order == "append" else ((k, cache[0]), (v, cache[1]))
        new = [torch.cat(pair, -2) for pair in pairs]
    else:
        new = [k, v]
    steps, past = x.shape[1], new[0].shape[-2] - x.shape[1]
    if mask == "right":
        may = torch.ones(steps, past + steps, dtype=torch.bool).tril(past)
    elif mask == "new only":
        may = torch.ones(steps, steps, dtype=torch.bool).tril()
    elif mask == "no past":
        may = torch.ones(steps, past + steps, dtype=torch.bool).tril()
    else:
        may = None
    y = F.scaled_dot_product_attention(q, *new, attn_mask=may)
    out = attend.out_proj(y.transpose(1, 2).flatten(2))
    return out, tuple(new) if keep == "all" else (k, v) if keep == "new" else (cache or tuple(new))


def _attention_module(x, state, heads):
    """Multi-head attention with the names of notebook 01."""
    module = torch.nn.MultiheadAttention(x.shape[-1], heads, batch_first=True).to(x.dtype)
    module.heads = heads
    module.load_state_dict(state)
    return module


def _use_cache(answer, x, state, heads, cuts):
    """The sequence in pieces: the outputs put together, and how long the last cache is."""
    attend = _attention_module(x, state, heads)
    outputs, cache = [], None
    for piece in x.split(cuts, 1):
        output, cache = answer(attend, piece, cache)
        outputs.append(output)
    return {"1 outputs": torch.cat(outputs, 1), "2 keys": cache[0], "3 values": cache[1]}


def _whole(x, state, heads, cuts):
    """torch's attention over the whole sequence at once, and the keys and values that it uses."""
    module = _attention_module(x, state, heads)
    future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    output = module(x, x, x, attn_mask=future, need_weights=False)[0]
    _, k, v = (
        _heads(F.linear(x, w, b), heads)
        for w, b in zip(module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3), strict=True)
    )
    return {"1 outputs": output, "2 keys": k, "3 values": v}


def _cache_case(shape, heads, cuts, make="normal"):
    def inputs(draw):
        state = {key[1:]: value for key, value in _attention_state(draw, "", shape[-1]).items()}
        return {"x": getattr(draw, make)(*shape), "state": state, "heads": heads, "cuts": list(cuts)}

    return inputs


cache = Implement(
    id="w07.cache",
    title="The KV cache",
    minutes=12,
    level=4,
    dtype="float64",
    cases=[
        Case("a prompt, then one by one", _cache_case((2, 5, 6), 3, [3, 1, 1])),
        Case("one by one", _cache_case((3, 4, 2), 1, [1, 1, 1, 1])),
        Case("two pieces", _cache_case((2, 5, 4), 2, [2, 3])),
        Case("not contiguous", _cache_case((3, 5, 4), 1, [1, 4], "transposed")),
        Case("all at once", _cache_case((1, 3, 4), 2, [3])),
        Case("one token", _cache_case((2, 1, 4), 2, [1]), extreme=True),
    ],
    use=_use_cache,
    oracle=_whole,
    grads=("x",),
    reduces=200,
    rules=Rules(forbids=("MultiheadAttention", "multi_head_attention_forward")),
    lint={
        "equal axes": _PROJECTIONS,
        "distinct": _PROJECTIONS,
        "delegation": "torch's layer keeps no cache",
    },
    mistakes=[
        Mistake(
            "cache ignored",
            "Each piece looks at itself only: put the cached keys and values in front of the new ones.",
            lambda attend, x, cache: _cached(attend, x, None),
        ),
        Mistake(
            "new ones in front",
            "The new keys and values stand before the old ones. Time runs forward: cache first, then new.",
            lambda attend, x, cache: _cached(attend, x, cache, order="front"),
        ),
        Mistake(
            "mask without the past",
            "The mask counts from the beginning: query 0 may see key 0 only. With a past, causal_mask(t, past).",
            lambda attend, x, cache: _cached(attend, x, cache, mask="no past"),
        ),
        Mistake(
            "mask for the new ones only",
            "The mask is (t, t); there are more keys than that. causal_mask(t, past) has a column for each of them.",
            lambda attend, x, cache: _cached(attend, x, cache, mask="new only"),
        ),
        Mistake(
            "no mask",
            "Inside a piece of several tokens each sees those after it. One token needs no mask, a prompt does.",
            lambda attend, x, cache: _cached(attend, x, cache, mask="none"),
        ),
        Mistake(
            "only the new ones kept",
            "The cache that is returned holds the newest piece only. Return all keys and values so far.",
            lambda attend, x, cache: _cached(attend, x, cache, keep="new"),
        ),
        Mistake(
            "old cache returned",
            "The cache comes back as it was given: the new keys and values are missing from it.",
            lambda attend, x, cache: _cached(attend, x, cache, keep="old"),
        ),
    ],
    hints=(
        "Queries only for the new tokens; keys and values for all: those of the past lie in the cache.",
        "torch.cat([cache[0], k], dim=-2) appends along time; the past is as long as cache[0].shape[-2].",
        "y = attention(q, k, v, causal_mask(t, k.shape[-2] - t)); return attend.out_proj(merge_heads(y)), (k, v)",
    ),
    passed="The same outputs and gradients, piece by piece: nothing about the past is computed twice.",
)


def _scores(prompt, total, cached):
    """How many scores are computed while positions prompt .. total - 1 are written, one at a time."""
    keys = torch.zeros(total, 8)
    steps = range(prompt + 1, total + 1)
    return sum((keys[t - 1 if cached else 0 : t] @ keys[:t].T).numel() for t in steps)


cache_cost = Predict(
    id="w07.cache_cost",
    title="What the cache saves",
    minutes=6,
    level=2,
    needs=("w07.cache",),
    items={
        "plain step": Item(
            "scores in a step that reads 10 tokens, without a cache", lambda: _scores(9, 10, False)
        ),
        "cached step": Item("the same step with a cache of the first 9", lambda: _scores(9, 10, True)),
        "plain": Item(
            "scores in ten such steps together, reading 1, 2, …, 10 tokens, without a cache",
            lambda: _scores(0, 10, False),
        ),
        "cached": Item("the same ten steps with a cache", lambda: _scores(0, 10, True)),
        "numbers": Item(
            "how many numbers the cache of a whole model holds after 64 tokens, with 3 layers of width 96",
            lambda: 3 * sum(torch.zeros(1, 4, 64, 24).numel() for _ in ("keys", "values")),
        ),
    },
    mistakes=[
        Mistake(
            "half the square",
            "A mask does not save work here: all 10 * 10 scores are computed, then some are hidden.",
            {"plain step": 55},
        ),
        Mistake(
            "one score",
            "The new query meets every key so far, its own included: 10 of them.",
            {"cached step": 1},
        ),
        Mistake(
            "its own key forgotten",
            "A token also looks at itself: 10 keys, not 9.",
            {"cached step": 9},
        ),
        Mistake(
            "the last step only",
            "Without a cache every one of the ten steps computes its own square: 1 + 4 + 9 + ... + 100.",
            {"plain": 100},
        ),
        Mistake(
            "every step as the last",
            "Ten steps of 100 would be 1000; the early steps are shorter: 1 + 4 + 9 + ... + 100.",
            {"plain": 1000},
        ),
        Mistake(
            "keys only",
            "The cache holds keys and values: twice as many.",
            {"numbers": 3 * 64 * 96},
        ),
        Mistake(
            "one layer",
            "Every layer has a cache of its own.",
            {"numbers": 2 * 64 * 96},
        ),
    ],
    hints=(
        "A score is one query against one key. Without a cache, t tokens mean t queries and t keys.",
        "With a cache there is one query per step, and as many keys as tokens so far: 1 + 2 + ... + 10 in all.",
        "100, 10, 385, 55, and 2 * 3 * 64 * 96",
    ),
    passed="Writing T tokens costs about T^3 / 3 scores without a cache and T^2 / 2 with one. Memory is the price.",
)


# 03 in PyTorch


def _seen(weights):
    """How many keys a query has a weight for."""
    return int((weights > 0).sum())


def _sdpa_sees(mask=None, causal=False, queries=1, keys=5):
    """The weights of the first query: the values are the rows of an identity matrix."""
    q, k, v = torch.zeros(1, queries, 2), torch.zeros(1, keys, 2), torch.eye(keys)[None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)[0, 0]


def _mha_sees(**masks):
    """The weights of one query over five keys in nn.MultiheadAttention."""
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(4, 1, batch_first=True)
    return layer(torch.zeros(1, 1, 4), torch.zeros(1, 5, 4), torch.zeros(1, 5, 4), **masks)[1][0, 0]


def _two_of_five():
    return torch.tensor([[True, True, False, False, False]])


masks = Predict(
    id="w07.masks",
    title="Who sees what",
    minutes=8,
    level=2,
    items={
        "a": Item(
            "`F.scaled_dot_product_attention(q, k, v, attn_mask=two)`",
            lambda: _seen(_sdpa_sees(_two_of_five())),
        ),
        "b": Item(
            "`nn.MultiheadAttention(...)(q, k, v, attn_mask=two)`",
            lambda: _seen(_mha_sees(attn_mask=_two_of_five())),
        ),
        "c": Item(
            "`nn.MultiheadAttention(...)(q, k, v, key_padding_mask=two)`",
            lambda: _seen(_mha_sees(key_padding_mask=_two_of_five())),
        ),
        "d": Item(
            "`F.scaled_dot_product_attention(q, k, v, attn_mask=[[0., -inf, -inf, -inf, 0.]])`, as a float tensor",
            lambda: _seen(_sdpa_sees(torch.tensor([[0.0, -math.inf, -math.inf, -math.inf, 0.0]]))),
        ),
        "e": Item(
            "`F.scaled_dot_product_attention(q, k, v, attn_mask=two.float())`",
            lambda: _seen(_sdpa_sees(_two_of_five().float())),
        ),
        "f": Item(
            "`F.scaled_dot_product_attention(q, k, v, is_causal=True)`",
            lambda: _seen(_sdpa_sees(causal=True)),
        ),
    },
    mistakes=[
        Mistake(
            "MultiheadAttention keeps",
            "In nn.MultiheadAttention True means may NOT look: two of five are hidden, three are seen.",
            {"b": 2},
        ),
        Mistake(
            "the function drops",
            "In scaled_dot_product_attention True means may look: two are seen. The layers have it the other way around.",
            {"a": 3},
        ),
        Mistake(
            "padding keeps",
            "key_padding_mask is True at the padding: those keys are ignored, as with its neighbor attn_mask.",
            {"c": 2},
        ),
        Mistake(
            "a float mask is multiplied",
            "A float mask is added to the scores: -inf hides, 0 leaves a score as it is. So two are seen here.",
            {"d": 3},
        ),
        Mistake(
            "a float mask of ones",
            "1.0 and 0.0 are added to the scores like any other numbers. Nothing is hidden: convert to bool first.",
            {"e": 2},
        ),
        Mistake(
            "the last query",
            "is_causal lines queries and keys up at the first: query 0 sees key 0 only, however many keys there are.",
            {"f": 5},
        ),
    ],
    hints=(
        "Two conventions for bool, one for float. The documentation of each says which; read the three links above.",
        "The function: True may look. The layers: True may not. Float: added to the scores. is_causal: aligned at the top left.",
        "2, 3, 3, 2, 5, 1",
    ),
    passed="With a cache, is_causal=True silently hides the past. Pass a mask, or use causal_lower_right.",
)


def _by_name(given, wanted):
    """In words which names do not fit, then the values by name."""
    return {
        "0 names": "; ".join(_unfit(given, wanted)) or "all names fit",
        "1 weights": {name: given.get(name, value) for name, value in wanted.items()},
    }


def _to_linear(state):
    return {name: value.T if name.endswith(".weight") else value for name, value in state.items()}


def _to_linear_as_found(state):
    converted = {}
    for name, value in state.items():
        rows, columns = value.shape if value.ndim == 2 else (0, 0)
        converted[name] = value.T if rows != columns else value
    return converted


def _to_linear_reshaped(state):
    return {
        name: value.reshape(value.shape[::-1]) if value.ndim == 2 else value for name, value in state.items()
    }


def _conv1d_case(width, hidden, make="normal"):
    return lambda draw: {
        "state": {
            "attn.c_attn.weight": getattr(draw, make)(width, 3 * width),
            "attn.c_attn.bias": draw.normal(3 * width),
            "attn.c_proj.weight": getattr(draw, make)(width, width),
            "attn.c_proj.bias": draw.normal(width),
            "mlp.c_fc.weight": draw.normal(width, hidden),
            "mlp.c_fc.bias": draw.normal(hidden),
        }
    }


conv1d = Fix(
    id="w07.conv1d",
    title="It loads, and babbles",
    minutes=8,
    level=2,
    dtype="float64",
    cases=[
        Case("width 3", _conv1d_case(3, 5)),
        Case("width 4", _conv1d_case(4, 16)),
        Case("not contiguous", _conv1d_case(2, 7, "transposed")),
        Case("hidden as wide as the stream", _conv1d_case(5, 5)),
        Case("width 1", _conv1d_case(1, 4), extreme=True),
    ],
    use=lambda answer, state: _by_name(answer(state), state),
    oracle=lambda state: _by_name(_to_linear(state), state),
    broken=_to_linear_as_found,
    memory="any",
    reference="nn.Linear",
    fault="square weights",
    menu={
        "square weights": "",
        "biases": "The biases are vectors; turning a vector changes nothing.",
        "names": "The names pass through as they are, and that is what the next step wants.",
        "copies": "A turned view is as good as a copy here: load_state_dict copies the numbers.",
    },
    mistakes=[
        Mistake(
            "reshaped",
            "reshape keeps the order in memory and only cuts it differently; the numbers land in wrong places. Turn: .T",
            _to_linear_reshaped,
        ),
        Mistake(
            "nothing turned",
            "No weight is turned now. Conv1D has (in, out), nn.Linear (out, in), whatever the shape.",
            lambda state: dict(state),
        ),
        Mistake(
            "only the square ones",
            "Now only the square weights are turned, and the others are left. All of them are stored as (in, out).",
            lambda state: {
                name: value.T if value.ndim == 2 and value.shape[0] == value.shape[1] else value
                for name, value in state.items()
            },
        ),
        Mistake(
            "biases lost",
            "The biases are missing from the result.",
            lambda state: {name: value.T for name, value in state.items() if value.ndim == 2},
        ),
    ],
    hints=(
        "Which weights does the function leave as they are? Try it on one that is as high as it is wide.",
        "A square weight has the same shape either way, so no error would ever tell. Every weight has to be turned.",
        'fault = "square weights"; converted[name] = value.T if value.ndim == 2 else value',
    ),
    passed="A shape that fits proves nothing. Compare outputs with a model that is known to be right.",
    lint={
        "delegation": "torch has no function for it: it is a convention",
        "equal axes": "the square weight is the point of this exercise",
        "distinct": "the square weight is the point of this exercise",
    },
)

_GPT2 = {
    "transformer.wte.": "tokens.",
    "transformer.wpe.": "positions.",
    "transformer.h.": "blocks.",
    "transformer.ln_f.": "norm.",
    "lm_head.": "head.",
    ".ln_1.": ".norm1.",
    ".ln_2.": ".norm2.",
    ".attn.c_attn.": ".self_attn.in_proj_",
    ".attn.c_proj.": ".self_attn.out_proj.",
    ".mlp.c_fc.": ".linear1.",
    ".mlp.c_proj.": ".linear2.",
}


def _from_gpt2(state, turn=lambda name, value: ".c_" in name and value.ndim == 2, change=lambda v: v.T):
    """The answer; `turn` says which weights are turned."""
    converted = {}
    for name, value in state.items():
        ours = name
        for old, new in _GPT2.items():
            ours = ours.replace(old, new)
        converted[ours] = change(value) if turn(name, value) else value
    return converted


def _gpt2_state(draw, vocab, context, width, layers, make="normal"):
    draws = getattr(draw, make)
    state = {"transformer.wte.weight": draws(vocab, width), "transformer.wpe.weight": draws(context, width)}
    for i in range(layers):
        h = f"transformer.h.{i}"
        state |= {
            f"{h}.{norm}.{kind}": draw.normal(width)
            for norm in ("ln_1", "ln_2")
            for kind in ("weight", "bias")
        }
        for name, size_in, size_out in (
            ("attn.c_attn", width, 3 * width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", width, 4 * width),
            ("mlp.c_proj", 4 * width, width),
        ):
            state |= {
                f"{h}.{name}.weight": draws(size_in, size_out),
                f"{h}.{name}.bias": draw.normal(size_out),
            }
    state |= {f"transformer.ln_f.{kind}": draw.normal(width) for kind in ("weight", "bias")}
    state["lm_head.weight"] = state["transformer.wte.weight"]
    return state


def _use_from_gpt2(answer, state):
    return _by_name(answer(state, dict(_GPT2)), _from_gpt2(state))


def _gpt2_case(vocab, context, width, layers, make="normal"):
    return lambda draw: {"state": _gpt2_state(draw, vocab, context, width, layers, make)}


from_gpt2 = Implement(
    id="w07.from_gpt2",
    title="GPT-2's weights in your model",
    minutes=12,
    level=3,
    needs=("w07.gpt", "w07.conv1d"),
    dtype="float64",
    reference="GPT-2's layout",
    cases=[
        Case("one layer", _gpt2_case(7, 5, 2, 1)),
        Case("two layers", _gpt2_case(5, 7, 3, 2)),
        Case("not contiguous", _gpt2_case(6, 3, 4, 1, "transposed")),
        Case("as many tokens as features", _gpt2_case(4, 4, 4, 1)),
        Case("width 1, eleven layers", _gpt2_case(3, 2, 1, 11), extreme=True),
    ],
    use=_use_from_gpt2,
    oracle=lambda state: _use_from_gpt2(lambda s, names: _from_gpt2(s), state),
    memory="any",
    mistakes=[
        Mistake(
            "nothing turned",
            "No weight is turned. Weights named c_... are stored as (in, out); nn.Linear has (out, in).",
            lambda state, names: _from_gpt2(state, lambda name, value: False),
        ),
        Mistake(
            "tables turned",
            "All matrices are turned, the two embedding tables and the head included. Only those named c_... are Conv1D.",
            lambda state, names: _from_gpt2(state, lambda name, value: value.ndim == 2),
        ),
        Mistake(
            "square weights not turned",
            "Weights are turned unless they are square. attn.c_proj is square, fits either way, and has to be turned too.",
            lambda state, names: _from_gpt2(
                state,
                lambda name, value: ".c_" in name and value.ndim == 2 and value.shape[0] != value.shape[1],
            ),
        ),
        Mistake(
            "reshaped",
            "reshape and view keep the order in memory; the numbers land in wrong places. Turn: .T",
            lambda state, names: _from_gpt2(state, change=lambda v: v.reshape(v.shape[::-1])),
        ),
        Mistake(
            "names not changed",
            "The weights are turned, the names are still GPT-2's.",
            lambda state, names: {
                name: value.T if ".c_" in name and value.ndim == 2 else value for name, value in state.items()
            },
        ),
        Mistake(
            "first name only",
            "Only one part of each name is changed: a name such as transformer.h.0.ln_1.weight has two.",
            lambda state, names: {
                next((n.replace(old, new) for old, new in _GPT2.items() if old in n), n): v
                for (n, v) in ((n, v.T if ".c_" in n and v.ndim == 2 else v) for n, v in state.items())
            },
        ),
    ],
    hints=(
        "Two things happen to each entry: its name goes through all replacements, and some values are turned.",
        'Look at GPT-2\'s name before you change it: ".c_" in name and value.ndim == 2 is a Conv1D weight.',
        "for old, new in names.items(): ours = ours.replace(old, new); then converted[ours] = value.T or value",
    ),
    passed="The same twelve lines load the real GPT-2: only the sizes differ.",
    lint={
        "delegation": "torch has no function for it: names are a convention",
        "equal axes": "attn.c_proj is square in GPT-2",
        "distinct": "attn.c_proj is square in GPT-2",
    },
)

_BERT = {
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "output.LayerNorm": "norm2",
}


def _bert_layer(state, number, parts=("query", "key", "value"), join=None, swap=False, turn=False, shift=0):
    """The answer, with one thing changed."""
    at, layer = f"encoder.layer.{number + shift}.", {}
    join = join or torch.cat
    for kind in ("weight", "bias"):
        layer[f"self_attn.in_proj_{kind}"] = join(
            [state[f"{at}attention.self.{part}.{kind}"] for part in parts]
        )
        for theirs, ours in _BERT.items():
            value = state[f"{at}{theirs}.{kind}"]
            if swap and ours.startswith("norm"):
                ours = {"norm1": "norm2", "norm2": "norm1"}[ours]
            layer[f"{ours}.{kind}"] = value.T if turn and value.ndim == 2 else value
    return layer


def _bert_state(draw, width, hidden, layers, make="normal"):
    state = {}
    for i in range(layers):
        at = f"encoder.layer.{i}."
        for name, rows, columns in (
            *((f"attention.self.{part}", width, width) for part in ("query", "key", "value")),
            ("attention.output.dense", width, width),
            ("intermediate.dense", hidden, width),
            ("output.dense", width, hidden),
        ):
            state |= {
                f"{at}{name}.weight": getattr(draw, make)(rows, columns),
                f"{at}{name}.bias": draw.normal(rows),
            }
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            state |= {f"{at}{name}.{kind}": draw.normal(width) for kind in ("weight", "bias")}
    return state


def _use_bert_layer(answer, state, number):
    return _by_name(answer(state, number, dict(_BERT)), _bert_layer(state, number))


def _bert_case(width, hidden, layers, number, make="normal"):
    return lambda draw: {"state": _bert_state(draw, width, hidden, layers, make), "number": number}


def _stacked_last(tensors):
    """Side by side instead of one below the other; vectors have only one way."""
    return torch.cat(tensors, -1)


bert_layer = Implement(
    id="w07.bert_layer",
    title="BERT's weights in your block",
    minutes=10,
    level=3,
    needs=("w07.block",),
    dtype="float64",
    reference="BERT's layout",
    cases=[
        Case("first of one", _bert_case(3, 5, 1, 0)),
        Case("second of three", _bert_case(2, 7, 3, 1)),
        Case("not contiguous", _bert_case(4, 6, 2, 1, "transposed")),
        Case("second of eleven", _bert_case(1, 3, 11, 1)),
        Case("hidden as wide as the stream", _bert_case(3, 3, 2, 0), extreme=True),
    ],
    use=_use_bert_layer,
    oracle=lambda state, number: _use_bert_layer(lambda s, n, names: _bert_layer(s, n), state, number),
    memory="any",
    mistakes=[
        Mistake(
            "alphabetical",
            "Key, query, value: that is the order of the alphabet. in_proj has queries first, then keys, then values.",
            lambda state, number, names: _bert_layer(state, number, ("key", "query", "value")),
        ),
        Mistake(
            "values before keys",
            "Query, value, key. in_proj has queries, keys, values, in this order.",
            lambda state, number, names: _bert_layer(state, number, ("query", "value", "key")),
        ),
        Mistake(
            "side by side",
            "The three matrices stand side by side (D, 3D). They belong one below the other, (3D, D): torch.cat along axis 0.",
            lambda state, number, names: _bert_layer(state, number, join=_stacked_last),
        ),
        Mistake(
            "stacked",
            "torch.stack makes a new axis, (3, D, D). torch.cat joins along an axis that is there: (3D, D).",
            lambda state, number, names: _bert_layer(state, number, join=torch.stack),
        ),
        Mistake(
            "turned",
            "The weights are turned. BERT uses nn.Linear, (out, in), as you do; only GPT-2 has Conv1D.",
            lambda state, number, names: _bert_layer(state, number, turn=True),
        ),
        Mistake(
            "norms exchanged",
            "norm1 and norm2 are exchanged: attention.output.LayerNorm is the one behind the attention.",
            lambda state, number, names: _bert_layer(state, number, swap=True),
        ),
    ],
    hints=(
        "First the five names that only change, then the three that become one.",
        'Every name begins with f"encoder.layer.{number}."; torch.cat([query, key, value]) makes in_proj, once for weight, once for bias.',
        'layer[f"{ours}.{kind}"] = state[f"encoder.layer.{number}.{theirs}.{kind}"] for theirs, ours in names.items()',
    ),
    passed="The same dict loads into nn.TransformerEncoderLayer: its names are your names.",
    lint={
        "delegation": "torch has no function for it: names are a convention",
        "equal axes": "the projections of attention are square",
        "distinct": "the projections of attention are square",
    },
)
