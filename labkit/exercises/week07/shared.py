"""What several exercises of week 7 need: heads, angles, the block, its state, and names that rules forbid."""

import math

from labkit.lazy import F, torch

ATTENTIONS = (
    *("scaled_dot_product_attention", "multi_head_attention_forward", "MultiheadAttention"),
    *("TransformerEncoderLayer", "TransformerDecoderLayer", "flex_attention"),
)


def scores(q, k):
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def causal(t, past, diagonal=0):
    return torch.ones(t, past + t, dtype=torch.bool).tril(past + diagonal)


def into_heads(x, heads):
    return torch.stack(x.chunk(heads, -1), 1)


def from_heads(x):
    return torch.cat(x.unbind(1), -1)


def angles_of(positions, width, base=10000.0, power=2.0):
    pairs = torch.arange(width // 2, dtype=positions.dtype)
    return positions[:, None] / base ** (power * pairs / width)


def woven(even, odd):
    return torch.stack([even, odd], -1).flatten(-2)


def sinusoids(positions, width):
    angles = angles_of(positions, width)
    return woven(angles.sin(), angles.cos())


PROJECTIONS = "the projections of attention and the tables that follow them are square"
NORMS = (
    *("layer_norm", "native_layer_norm", "LayerNorm", "rms_norm", "RMSNorm", "group_norm", "GroupNorm"),
    *("batch_norm", "BatchNorm1d", "instance_norm", "InstanceNorm1d"),
)
LAYERS = (
    *("TransformerEncoderLayer", "TransformerEncoder", "TransformerDecoderLayer", "TransformerDecoder"),
    *("Transformer", "MultiheadAttention", "multi_head_attention_forward"),
)


def unfit(given, wanted):
    """In words, the first names that are missing and those that nobody asked for."""
    missing, unknown = sorted({*wanted} - {*given}), sorted({*given} - {*wanted})
    words = [f"missing: {', '.join(missing[:3])}"] * bool(missing)
    return words + [f"not asked for: {', '.join(unknown[:3])}"] * bool(unknown)


def load(model, state):
    """Put weights in by name, and say in words which names do not fit."""
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    fits = {name: value for name, value in state.items() if shapes.get(name) == tuple(value.shape)}
    model.load_state_dict(fits, strict=False)
    words = unfit(shapes, state)
    words += [
        f"{name} is {shapes[name]}, not {tuple(value.shape)}"
        for name, value in state.items()
        if name in shapes and name not in fits
    ][:1]
    return "; ".join(words) or "all names fit"


def by_head(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def attend_with(layer, x, memory, mask, heads):
    """Multi-head attention with the names of nn.MultiheadAttention; the mask is True where one may look."""
    weights, biases = layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3)
    q, k, v = (
        by_head(F.linear(t, w, b), heads)
        for t, w, b in zip((x, memory, memory), weights, biases, strict=True)
    )
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return layer.out_proj(y.transpose(-2, -3).flatten(-2))


def block_class(
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
            return attend_with(layer.self_attn, t, t if m is None else m, mask, heads)

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


def linear_state(draw, name, rows, columns):
    return {
        f"{name}.weight": draw.normal(rows, columns) / math.sqrt(columns),
        f"{name}.bias": draw.normal(rows),
    }


def norm_state(draw, name, width):
    return {f"{name}.weight": draw.uniform(0.5, 2, width), f"{name}.bias": draw.normal(width)}


def attention_state(draw, name, width):
    return {
        f"{name}.in_proj_weight": draw.normal(3 * width, width) / math.sqrt(width),
        f"{name}.in_proj_bias": draw.normal(3 * width),
        **linear_state(draw, f"{name}.out_proj", width, width),
    }


def block_state(draw, width, hidden, crosses=False, prefix=""):
    state = attention_state(draw, f"{prefix}self_attn", width)
    if crosses:
        state |= attention_state(draw, f"{prefix}multihead_attn", width)
    state |= linear_state(draw, f"{prefix}linear1", hidden, width)
    state |= linear_state(draw, f"{prefix}linear2", width, hidden)
    for number in range(1, 4 if crosses else 3):
        state |= norm_state(draw, f"{prefix}norm{number}", width)
    return state


def merge_pair(ids, pair, new, *, step=2, first_only=False, end=0):
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


TABLE = [(98, 99), (97, 98), (256, 100), (97, 256), (101, 101)]  # bc, ab, bcd, abc, ee


def by_name(given, wanted):
    """In words which names do not fit, then the values by name."""
    return {
        "0 names": "; ".join(unfit(given, wanted)) or "all names fit",
        "1 weights": {name: given.get(name, value) for name, value in wanted.items()},
    }
