"""Transformer layers: attention and feed-forward blocks, each added to its input."""

import copy
from collections.abc import Callable
from typing import Any

import labkit
from labkit.errors import refuse
from labkit.tensor import Tensor

from . import functional as F
from . import init
from .attention import MultiheadAttention
from .containers import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

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
