"""Three models to read from top to bottom: ResNet, GPT and Bert.

Their parameter names are those of the public checkpoints (torchvision's resnet18 and resnet34; GPT-2 and
BERT as the transformers library names them), so that `load_state_dict` takes such weights unchanged.
"""

from dataclasses import dataclass

import labkit
from labkit import nn
from labkit.nn import functional as F
from labkit.tensor import Tensor

# ---- ResNet ("Deep residual learning", He et al. 2015) ----


class BasicBlock(nn.Module):
    """relu(x + conv(relu(conv(x)))); a 1x1 convolution fits x when size or channels change."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample: nn.Module | None = None
        if stride != 1 or channels_in != channels:
            shortcut = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))  # (N, C, H/stride, W/stride)
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """`layers` blocks in each of four stages of 64, 128, 256, 512 channels; stages 2 to 4 halve the size."""

    def __init__(self, layers: tuple[int, int, int, int] = (2, 2, 2, 2), num_classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = self._stage(64, 64, layers[0], stride=1)
        self.layer2 = self._stage(64, 128, layers[1], stride=2)
        self.layer3 = self._stage(128, 256, layers[2], stride=2)
        self.layer4 = self._stage(256, 512, layers[3], stride=2)
        self.fc = nn.Linear(512, num_classes)

    @staticmethod
    def _stage(channels_in: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
        rest = [BasicBlock(channels, channels, 1) for _ in range(blocks - 1)]
        return nn.Sequential(BasicBlock(channels_in, channels, stride), *rest)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))  # (N, 3, H, W) -> (N, 64, H/2, W/2)
        x = F.max_pool2d(x, 3, stride=2, padding=1)  # (N, 64, H/4, W/4)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # (N, 512, H/32, W/32)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)  # (N, 512)
        return self.fc(x)


def resnet18(num_classes: int = 1000) -> ResNet:
    return ResNet((2, 2, 2, 2), num_classes)


def resnet34(num_classes: int = 1000) -> ResNet:
    return ResNet((3, 4, 6, 3), num_classes)


# ---- GPT-2 ("Language models are unsupervised multitask learners", Radford et al. 2019) ----


@dataclass(frozen=True)
class GPTConfig:
    vocab_size: int = 50257
    n_positions: int = 1024
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.1


class Conv1D(nn.Module):
    """A linear layer whose weight is stored as (in, out), as GPT-2's checkpoints have it."""

    def __init__(self, out_features: int, in_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(labkit.empty(in_features, out_features))
        self.bias = nn.Parameter(labkit.zeros(out_features))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.transpose(0, 1), self.bias)


class CausalSelfAttention(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.dropout = config.dropout
        self.c_attn = Conv1D(3 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.resid_dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.c_attn(x).unflatten(-1, (3, self.n_head, -1))  # (B, T, 3, nh, hs)
        q, k, v = (t.transpose(1, 2) for t in heads.unbind(2))  # (B, nh, T, hs) each
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        y = y.transpose(1, 2).flatten(2)  # (B, T, C)
        return self.resid_dropout(self.c_proj(y))


class GPTMLP(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_fc = Conv1D(4 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, 4 * config.n_embd)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class GPTBlock(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = GPTMLP(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Token numbers (B, T) -> logits of the next token (B, T, vocab_size)."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.n_positions, config.n_embd),
                "drop": nn.Dropout(config.dropout),
                "h": nn.ModuleList([GPTBlock(config) for _ in range(config.n_layer)]),
                "ln_f": nn.LayerNorm(config.n_embd),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        for name in ("wte", "wpe"):
            nn.init.normal_(self.transformer[name].weight, std=0.02)
        self.lm_head.weight = self.transformer["wte"].weight  # one table for reading and writing tokens

    def forward(self, idx: Tensor) -> Tensor:
        steps = idx.shape[1]
        if steps > self.config.n_positions:
            raise ValueError(
                f"the sequence has {steps} tokens, the model knows {self.config.n_positions} positions"
            )
        x = self.transformer["wte"](idx) + self.transformer["wpe"](labkit.arange(steps))  # (B, T, C)
        x = self.transformer["drop"](x)
        for block in self.transformer["h"]:  # type: ignore[attr-defined]
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))


# ---- BERT ("BERT: pre-training of deep bidirectional transformers", Devlin et al. 2018) ----


@dataclass(frozen=True)
class BertConfig:
    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    dropout: float = 0.1


def _named(**modules: nn.Module) -> nn.ModuleDict:
    return nn.ModuleDict(modules)


class BertEmbeddings(nn.Module):
    """The sum of what a token is, where it is and which of two sentences it belongs to."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=1e-12)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        x = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)  # (B, T, C)
        x = x + self.position_embeddings(labkit.arange(input_ids.shape[1]))
        return self.dropout(self.LayerNorm(x))


class BertOutput(nn.Module):
    """LayerNorm(residual + dense(x))"""

    def __init__(self, size_in: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(size_in, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=1e-12)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(residual + self.dropout(self.dense(x)))


class BertSelfAttention(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.dropout = config.dropout
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, nh, T, hs)
            for layer in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0)
        return y.transpose(1, 2).flatten(2)  # (B, T, C)


class BertLayer(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        attention = {"self": BertSelfAttention(config), "output": BertOutput(config.hidden_size, config)}
        self.attention = nn.ModuleDict(attention)
        self.intermediate = _named(dense=nn.Linear(config.hidden_size, config.intermediate_size))
        self.output = BertOutput(config.intermediate_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    """Token numbers (B, T) -> the last hidden states (B, T, C) and a vector per sequence (B, C).

    attention_mask (B, T) is 1 for tokens and 0 for padding; token_type_ids (B, T) tells two sentences apart.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.embeddings = BertEmbeddings(config)
        self.encoder = _named(
            layer=nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])
        )
        self.pooler = _named(dense=nn.Linear(config.hidden_size, config.hidden_size))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        if token_type_ids is None:
            token_type_ids = labkit.zeros_like(input_ids)
        mask = None
        if attention_mask is not None:
            mask = attention_mask.ne(0).reshape(
                attention_mask.shape[0], 1, 1, -1
            )  # (B, 1, 1, T): True is kept
        x = self.embeddings(input_ids, token_type_ids)
        for layer in self.encoder["layer"]:  # type: ignore[attr-defined]
            x = layer(x, mask)
        return x, F.tanh(self.pooler["dense"](x[:, 0]))
