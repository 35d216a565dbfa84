import pytest
import torch

import labkit
from labkit import nn

PADDING = torch.tensor([[False, False, False, False, True], [False, False, True, True, True]])
CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)


def bias(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(5))


def build(kind, *args, **settings):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(*args, **settings)
    for p in theirs.parameters():  # biases start at zero, which would hide mistakes
        torch.nn.init.normal_(p, std=0.3)
    return getattr(nn, kind)(*args, **settings), theirs


MASKS = [
    {},
    {"attn_mask": CAUSAL},
    {"attn_mask": bias(5, 5)},
    {"attn_mask": bias(4, 5, 5)},
    {"key_padding_mask": PADDING},
    {"key_padding_mask": bias(2, 5), "attn_mask": bias(5, 5)},
    {"key_padding_mask": PADDING, "attn_mask": CAUSAL},
]


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masks", MASKS, ids=lambda m: "+".join(m) or "none")
def test_self_attention_equals_torch(same_as_torch, masks, need_weights):
    ours, theirs = build("MultiheadAttention", 6, 2, batch_first=True)
    x = bias(2, 5, 6).requires_grad_()
    same_as_torch(ours, theirs, x, x, x, need_weights=need_weights, **masks)


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"kdim": 4, "vdim": 3}], ids=str)
def test_cross_attention_equals_torch(same_as_torch, settings):
    ours, theirs = build("MultiheadAttention", 6, 3, **settings)
    key, value = bias(5, 2, settings.get("kdim", 6)), bias(5, 2, settings.get("vdim", 6))
    same_as_torch(ours, theirs, bias(4, 2, 6), key, value, average_attn_weights=False)
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_attention_without_a_batch_axis(same_as_torch):
    ours, theirs = build("MultiheadAttention", 6, 2)
    x = bias(5, 6)
    same_as_torch(ours, theirs, x, x, x, key_padding_mask=PADDING[0])


SETTINGS = [
    {"batch_first": True},
    {"batch_first": True, "norm_first": True, "activation": "gelu"},
    {"batch_first": True, "bias": False, "layer_norm_eps": 1e-2},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_encoder_equals_torch(same_as_torch, settings):
    ours, theirs = build("TransformerEncoderLayer", 6, 2, 8, dropout=0.0, **settings)
    same_as_torch(ours, theirs, bias(2, 5, 6), src_key_padding_mask=PADDING)
    norm, norm_torch = nn.LayerNorm(6), torch.nn.LayerNorm(6)
    ours = nn.TransformerEncoder(ours, 2, norm)
    theirs = torch.nn.TransformerEncoder(theirs, 2, norm_torch, enable_nested_tensor=False)
    theirs.zero_grad()
    ours.zero_grad()
    same_as_torch(ours, theirs, bias(2, 5, 6), mask=CAUSAL, is_causal=True)
    assert list(ours.state_dict()) == list(theirs.state_dict())


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_decoder_equals_torch(same_as_torch, settings):
    ours, theirs = build("TransformerDecoderLayer", 6, 2, 8, dropout=0.0, **settings)
    ours, theirs = nn.TransformerDecoder(ours, 2), torch.nn.TransformerDecoder(theirs, 2)
    with_bools = {"tgt_mask": CAUSAL[:4, :4], "memory_key_padding_mask": PADDING}
    same_as_torch(ours, theirs, bias(2, 4, 6), bias(2, 5, 6), **with_bools)
    theirs.zero_grad()
    ours.zero_grad()
    with_floats = {"tgt_mask": bias(4, 4), "memory_mask": bias(4, 5), "memory_key_padding_mask": bias(2, 5)}
    same_as_torch(ours, theirs, bias(2, 4, 6), bias(2, 5, 6), **with_floats)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_transformer_equals_torch(same_as_torch):
    ours, theirs = build("Transformer", 6, 2, 1, 2, 8, dropout=0.0)
    same_as_torch(ours, theirs, bias(5, 2, 6), bias(4, 2, 6), tgt_mask=CAUSAL[:4, :4])
    assert list(ours.state_dict()) == list(theirs.state_dict())
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == torch.nn.Transformer.generate_square_subsequent_mask(3).tolist()


def test_dropout_acts_in_training_only():
    labkit.manual_seed(0)
    layer, x = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.5), labkit.randn(5, 2, 6)
    assert (layer(x).detach().numpy() != layer(x).detach().numpy()).any()
    layer.eval()
    assert (layer(x).detach().numpy() == layer(x).detach().numpy()).all()


def test_errors_name_the_argument():
    layer, x = nn.MultiheadAttention(6, 2), labkit.zeros(5, 2, 6)
    with pytest.raises(
        RuntimeError, match=r"attn_mask should have shape \(5, 5\) or \(4, 5, 5\), got \(3, 3\)"
    ):
        layer(x, x, x, attn_mask=labkit.zeros(3, 3))
    with pytest.raises(RuntimeError, match=r"key_padding_mask should have shape \(2, 5\).*got \(5, 2\)"):
        layer(x, x, x, key_padding_mask=labkit.zeros(5, 2))
    with pytest.raises(ValueError, match="is_causal=True only describes attn_mask"):
        layer(x, x, x, is_causal=True)
    with pytest.raises(ValueError, match="num_heads=4 must divide embed_dim=6"):
        nn.MultiheadAttention(6, 4)
    with pytest.raises(ValueError, match="activation should be 'relu', 'gelu' or a function, got 'tanh'"):
        nn.TransformerEncoderLayer(6, 2, activation="tanh")
