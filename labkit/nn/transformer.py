"""Multi-head attention and the transformer layers built on it.

In these modules, as in torch, a bool mask is True where attention is forbidden; a float mask is added to the
scores. (`F.scaled_dot_product_attention` has it the other way round: True where attention is allowed.)
"""

import copy
from collections.abc import Callable
from typing import Any

import labkit
from labkit.errors import ShapeError, refuse
from labkit.tensor import Tensor

from . import functional as F
from . import init
from .containers import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module, Parameter
from .normalization import LayerNorm


class MultiheadAttention(Module):
    """Attention in num_heads parallel parts of size embed_dim / num_heads each."""

    in_proj_weight: Parameter | None  # (3 · embed_dim, embed_dim): queries, keys and values in one product
    in_proj_bias: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        refuse("MultiheadAttention", add_bias_kv=add_bias_kv, add_zero_attn=add_zero_attn)
        if embed_dim % num_heads:
            raise ValueError(f"num_heads={num_heads} must divide embed_dim={embed_dim}")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        options = {"device": device, "dtype": dtype}
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = Parameter(labkit.empty(3 * embed_dim, embed_dim, **options))
        else:
            self.in_proj_weight = None
            for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
                self.register_parameter(
                    f"{name}_proj_weight", Parameter(labkit.empty(embed_dim, size, **options))
                )
        self.in_proj_bias = Parameter(labkit.zeros(3 * embed_dim, **options)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, **options)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, param in self.named_parameters(recurse=False):
            if name.endswith("weight"):
                init.xavier_uniform_(param)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(T, N, E), (N, T, E) with batch_first, or (T, E) -> the same, and the weights (N, T, S) or None.

        key_padding_mask (N, S); attn_mask (T, S) or (N · heads, T, S); is_causal: attn_mask is causal.
        """
        if is_causal and attn_mask is None:
            raise ValueError(
                "is_causal=True only describes attn_mask, so give both; "
                "Transformer.generate_square_subsequent_mask(T) makes a causal mask"
            )
        batched = query.ndim == 3
        same = key is query and value is query
        if self.batch_first or not batched:
            q, k, v = (t if batched else t.unsqueeze(0) for t in (query, key, value))
        else:
            q, k, v = (t.transpose(0, 1) for t in (query, key, value))
        if key_padding_mask is not None and key_padding_mask.ndim == 1:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        mask = self._mask(q, k, attn_mask, key_padding_mask)
        q, k, v = self._heads(q, k, v, same)  # (N, heads, T, D)
        drop = self.dropout if self.training else 0.0
        if need_weights:
            y, weights = _attention_with_weights(q, k, v, mask, drop)
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            y, weights = F.scaled_dot_product_attention(q, k, v, mask, drop), None
        y = self.out_proj(y.transpose(1, 2).flatten(2))  # (N, T, E)
        if not batched:
            return y.squeeze(0), None if weights is None else weights.squeeze(0)
        return y if self.batch_first else y.transpose(0, 1), weights

    def _heads(self, q: Tensor, k: Tensor, v: Tensor, same: bool) -> list[Tensor]:
        """Project (N, T, E) and cut the last axis into heads: (N, heads, T, D)."""
        if same and self.in_proj_weight is not None:  # self-attention: one product for all three
            projected = F.linear(q, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            if self.in_proj_weight is not None:
                weights = self.in_proj_weight.chunk(3)
            else:
                weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
            projected = tuple(F.linear(t, w, b) for t, w, b in zip((q, k, v), weights, biases, strict=True))
        return [t.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for t in projected]

    def _mask(self, q: Tensor, k: Tensor, attn_mask: Any, key_padding_mask: Any) -> Tensor | None:
        """Both masks as one that is added to the scores (N, heads, T, S)."""
        n, t, s = q.shape[0], q.shape[1], k.shape[1]
        masks = []
        if attn_mask is not None:
            if tuple(attn_mask.shape) not in ((t, s), (n * self.num_heads, t, s)):
                wanted = f"{(t, s)} or {(n * self.num_heads, t, s)}"
                raise ShapeError(f"attn_mask should have shape {wanted}, got {tuple(attn_mask.shape)}")
            shape = (1, 1, t, s) if attn_mask.ndim == 2 else (n, self.num_heads, t, s)
            masks.append(_added(attn_mask, q).reshape(*shape))
        if key_padding_mask is not None:
            if tuple(key_padding_mask.shape) != (n, s):
                shape = tuple(key_padding_mask.shape)
                raise ShapeError(f"key_padding_mask should have shape {(n, s)} (batch, keys), got {shape}")
            masks.append(_added(key_padding_mask, q).reshape(n, 1, 1, s))
        return None if not masks else masks[0] if len(masks) == 1 else masks[0] + masks[1]


def _added(mask: Tensor, like: Tensor) -> Tensor:
    """A mask that is added to scores: a bool mask becomes -inf where it is True."""
    if mask.dtype != labkit.bool:
        return mask
    return labkit.zeros(*mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, float("-inf"))


def _attention_with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, drop: float
) -> tuple[Tensor, Tensor]:
    """scaled_dot_product_attention in separate steps, to be able to return the weights."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    weights = F.softmax(scores if mask is None else scores + mask, -1)
    weights = F.dropout(weights, drop, drop > 0)
    return weights @ v, weights


Activation = str | Callable[[Tensor], Tensor]


class _Layer(Module):
    """What encoder and decoder layers share: self-attention, a feed-forward block, norms and dropouts."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(activation, str) and activation not in ("relu", "gelu"):
            raise ValueError(f"activation should be 'relu', 'gelu' or a function, got {activation!r}")
        self.activation = getattr(F, activation) if isinstance(activation, str) else activation
        self.norm_first = norm_first
        options = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **options)
        if self.crosses:
            self.multihead_attn = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, **options
            )
        self.linear1 = Linear(d_model, dim_feedforward, bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **options)
        for i in range(1, 4 if self.crosses else 3):
            self.register_module(f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **options))
        for i in range(1, 4 if self.crosses else 3):
            self.register_module(f"dropout{i}", Dropout(dropout))

    crosses = False  # does it attend to a memory as well?

    def _add(self, x: Tensor, block: Callable[[Tensor], Tensor], number: int) -> Tensor:
        """x + block(x) with dropout on the block, and the norm before it (norm_first) or after the sum."""
        norm, dropout = self._modules[f"norm{number}"], self._modules[f"dropout{number}"]
        if self.norm_first:
            return x + dropout(block(norm(x)))
        return norm(x + dropout(block(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a feed-forward block, each added to its input."""

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, src_key_padding_mask, need_weights=False, attn_mask=src_mask, is_causal=is_causal
            )[0]

        return self._add(self._add(src, attend, 1), self._feed_forward, 2)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output (memory), then a feed-forward block."""

    crosses = True

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, tgt_key_padding_mask, need_weights=False, attn_mask=tgt_mask, is_causal=tgt_is_causal
            )[0]

        def attend_to_memory(x: Tensor) -> Tensor:
            return self.multihead_attn(
                x,
                memory,
                memory,
                memory_key_padding_mask,
                need_weights=False,
                attn_mask=memory_mask,
                is_causal=memory_is_causal,
            )[0]

        x = self._add(tgt, attend, 1)
        x = self._add(x, attend_to_memory, 2)
        return self._add(x, self._feed_forward, 3)


class _Stack(Module):
    """num_layers copies of a layer, and a norm at the end."""

    def __init__(self, layer: _Layer, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def _run(self, x: Tensor, *args: Any, **masks: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args, **masks)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """A stack of encoder layers. torch's enable_nested_tensor and mask_check have no counterpart here."""

    def __init__(
        self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        return self._run(
            src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal)
        )


class TransformerDecoder(_Stack):
    """A stack of decoder layers."""

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        return self._run(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=bool(tgt_is_causal),
            memory_is_causal=memory_is_causal,
        )


class Transformer(Module):
    """Encoder and decoder together."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        refuse("Transformer", custom_encoder=custom_encoder, custom_decoder=custom_decoder)
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options: dict[str, Any] = {
            "batch_first": batch_first,
            "norm_first": norm_first,
            "bias": bias,
            "device": device,
            "dtype": dtype,
        }

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = TransformerEncoder(
            TransformerEncoderLayer(*sizes, **options), num_encoder_layers, norm()
        )
        self.decoder = TransformerDecoder(
            TransformerDecoderLayer(*sizes, **options), num_decoder_layers, norm()
        )
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        for param in self.parameters():
            if param.ndim > 1:
                init.xavier_uniform_(param)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz): -inf above the diagonal, 0 elsewhere, so that no step sees a later one."""
        return labkit.full((sz, sz), float("-inf"), device=device, dtype=dtype).triu(1)
