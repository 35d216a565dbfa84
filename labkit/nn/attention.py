"""Multi-head attention.

Here and in the transformer layers, as in torch, a bool mask is True where attention is forbidden; a float
mask is added to the scores. (`F.scaled_dot_product_attention` is the other way around: True where allowed.)
"""

from typing import Any

import labkit
from labkit.errors import ShapeError, refuse
from labkit.tensor import Tensor

from . import functional as F
from . import init
from .linear import Linear
from .module import Module, Parameter


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
        for name, t, size in (
            ("query", query, self.embed_dim),
            ("key", key, self.kdim),
            ("value", value, self.vdim),
        ):
            if t.ndim not in (2, 3) or t.shape[-1] != size:
                raise ShapeError(
                    f"MultiheadAttention: {name} {tuple(t.shape)} needs 2 or 3 axes, the last of size {size}"
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
