"""Whole models against torch: 20 training steps from the same weights and batches, and public state dicts."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import labkit
from labkit import compat, models, nn, optim


@pytest.fixture(params=["numpy", "cpu"])
def kernels(request):
    with labkit.use_kernels(request.param):
        yield


def ours(t):
    return labkit.tensor(t.detach().numpy().copy())


def assert_close(a, b, tolerance=1e-4):
    a, b = a.detach().numpy(), b.detach().numpy()
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


# ---- loss curves ----


def mlp(lib):
    return lib.Sequential(lib.Linear(20, 32), lib.ReLU(), lib.Linear(32, 5))


def cnn(lib):
    return lib.Sequential(
        lib.Conv2d(1, 4, 3, padding=1),
        lib.BatchNorm2d(4),
        lib.ReLU(),
        lib.MaxPool2d(2),
        lib.Conv2d(4, 8, 3, padding=1),
        lib.GELU(),
        lib.AvgPool2d(2),
        lib.Flatten(),
        lib.Linear(8 * 2 * 2, 5),
    )


def recurrent(lib):
    class Tagger(lib.Module):
        def __init__(self):
            super().__init__()
            self.embedding = lib.Embedding(11, 8)
            self.lstm = lib.LSTM(8, 12, num_layers=2, bidirectional=True, batch_first=True)
            self.head = lib.Linear(24, 5)

        def forward(self, x):
            y, _ = self.lstm(self.embedding(x))
            return self.head(y[:, -1])

    return Tagger()


def gpt(lib):
    class Small(lib.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = lib.Embedding(11, 16), lib.Embedding(6, 16)
            layer = lib.TransformerEncoderLayer(
                16, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.blocks = lib.TransformerEncoder(layer, 2)
            self.norm = lib.LayerNorm(16)
            self.head = lib.Linear(16, 11, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x):
            base = labkit if lib is nn else torch
            mask = base.ones(6, 6, dtype=base.bool).triu(1)
            h = self.tokens(x) + self.positions(base.arange(6))
            return self.head(self.norm(self.blocks(h, mask)))

    return Small()


CURVES = {
    "mlp": (mlp, "SGD", {"lr": 0.1, "momentum": 0.9}, lambda: torch.randn(16, 20), (16,), 5),
    "cnn": (cnn, "Adam", {"lr": 1e-2}, lambda: torch.randn(8, 1, 8, 8), (8,), 5),
    "lstm": (recurrent, "Adam", {"lr": 1e-2}, lambda: torch.randint(0, 11, (8, 6)), (8,), 5),
    "gpt": (gpt, "AdamW", {"lr": 1e-2}, lambda: torch.randint(0, 11, (4, 6)), (4, 6), 11),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("name", CURVES)
def test_twenty_steps_equal_torch(kernels, name):
    build, kind, settings, batch, target, classes = CURVES[name]
    torch.manual_seed(0)
    theirs, mine = build(torch.nn), build(nn)
    mine.load_state_dict(theirs.state_dict())
    optimizer_torch = getattr(torch.optim, kind)(theirs.parameters(), **settings)
    optimizer = getattr(optim, kind)(mine.parameters(), **settings)
    batches = [(batch(), torch.randint(0, classes, target)) for _ in range(4)]  # seen five times each
    losses = []
    for x, y in batches * 5:
        optimizer_torch.zero_grad()
        loss_torch = F.cross_entropy(theirs(x).flatten(0, -2), y.flatten())
        loss_torch.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        optimizer_torch.step()

        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(mine(ours(x)).flatten(0, -2), ours(y).flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(mine.parameters(), 1.0)
        optimizer.step()
        losses.append((loss.item(), loss_torch.item()))
    np.testing.assert_allclose(*np.transpose(losses), rtol=2e-4)
    assert losses[-1][0] < 0.9 * losses[0][0]  # it learned something


# ---- public state dicts ----


def test_torchvisions_resnet18(kernels):
    torch.manual_seed(0)
    theirs = compat.torchvision().models.resnet18(num_classes=7)
    mine = models.resnet18(num_classes=7)
    mine.load_state_dict(theirs.state_dict())
    assert list(mine.state_dict()) == list(theirs.state_dict())
    x = torch.randn(2, 3, 40, 33)
    y_torch = theirs(x)  # training mode: the statistics of the batch
    y = mine(ours(x))
    assert_close(y, y_torch, 1e-3)
    y_torch.square().sum().backward()
    y.square().sum().backward()
    for name in ("conv1.weight", "layer2.0.downsample.0.weight", "layer4.1.bn2.bias", "fc.weight"):
        assert_close(mine.get_parameter(name).grad, theirs.get_parameter(name).grad, 5e-3)
    assert_close(mine.bn1.running_var, theirs.bn1.running_var)
    assert_close(mine.eval()(ours(x)), theirs.eval()(x))


def attention(x, heads, q, k, v, mask):
    """(B, T, C): the textbook formula, written out in torch."""
    q, k, v = (t.view(*t.shape[:2], heads, -1).transpose(1, 2) for t in (q, k, v))
    scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    return (scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v).transpose(1, 2).reshape(x.shape)


def gpt2_in_torch(state, idx, layers, heads, size):
    """GPT-2's forward pass by the names of its checkpoint; Conv1D weights are (in, out)."""

    def norm(x, name):
        return F.layer_norm(x, (size,), state[f"{name}.weight"], state[f"{name}.bias"])

    def conv1d(x, name):
        return x @ state[f"{name}.weight"] + state[f"{name}.bias"]

    steps = idx.shape[1]
    x = state["transformer.wte.weight"][idx] + state["transformer.wpe.weight"][:steps]
    for i in range(layers):
        h = f"transformer.h.{i}"
        qkv = conv1d(norm(x, f"{h}.ln_1"), f"{h}.attn.c_attn").split(size, -1)
        causal = torch.ones(steps, steps, dtype=torch.bool).tril()
        x = x + conv1d(attention(x, heads, *qkv, causal), f"{h}.attn.c_proj")
        inner = F.gelu(conv1d(norm(x, f"{h}.ln_2"), f"{h}.mlp.c_fc"), approximate="tanh")
        x = x + conv1d(inner, f"{h}.mlp.c_proj")
    return norm(x, "transformer.ln_f") @ state["lm_head.weight"].T


def test_gpt2_state_dict(kernels):
    torch.manual_seed(0)
    size, layers, vocab = 12, 2, 17
    shapes = {"transformer.wte.weight": (vocab, size), "transformer.wpe.weight": (10, size)}
    for i in range(layers):
        h = f"transformer.h.{i}"
        for name, fan_in, fan_out in (
            ("attn.c_attn", size, 3 * size),
            ("attn.c_proj", size, size),
            ("mlp.c_fc", size, 4 * size),
            ("mlp.c_proj", 4 * size, size),
        ):
            shapes |= {f"{h}.{name}.weight": (fan_in, fan_out), f"{h}.{name}.bias": (fan_out,)}
        for name in ("ln_1", "ln_2"):
            shapes |= {f"{h}.{name}.weight": (size,), f"{h}.{name}.bias": (size,)}
    shapes |= {"transformer.ln_f.weight": (size,), "transformer.ln_f.bias": (size,)}
    state = {name: torch.randn(shape) * 0.3 for name, shape in shapes.items()}
    state["lm_head.weight"] = state["transformer.wte.weight"]

    config = models.GPTConfig(vocab_size=vocab, n_positions=10, n_layer=layers, n_head=3, n_embd=size)
    model = models.GPT(config).eval()
    model.load_state_dict(state)
    idx = torch.randint(0, vocab, (3, 8))
    assert_close(model(ours(idx)), gpt2_in_torch(state, idx, layers, 3, size))
    assert model.lm_head.weight is model.transformer["wte"].weight
    with pytest.raises(ValueError, match="11 tokens, the model knows 10 positions"):
        model(labkit.zeros(1, 11, dtype=labkit.int64))


def bert_in_torch(state, ids, mask, types, layers, heads, size):
    """BERT's forward pass by the names of its checkpoint."""

    def norm(x, name):
        return F.layer_norm(x, (size,), state[f"{name}.weight"], state[f"{name}.bias"], 1e-12)

    def dense(x, name):
        return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    x = (
        state["embeddings.word_embeddings.weight"][ids]
        + state["embeddings.token_type_embeddings.weight"][types]
    )
    x = norm(x + state["embeddings.position_embeddings.weight"][: ids.shape[1]], "embeddings.LayerNorm")
    for i in range(layers):
        at = f"encoder.layer.{i}"
        qkv = (dense(x, f"{at}.attention.self.{name}") for name in ("query", "key", "value"))
        y = attention(x, heads, *qkv, mask[:, None, None].bool())
        x = norm(x + dense(y, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        y = dense(F.gelu(dense(x, f"{at}.intermediate.dense")), f"{at}.output.dense")
        x = norm(x + y, f"{at}.output.LayerNorm")
    return x, torch.tanh(dense(x[:, 0], "pooler.dense"))


def test_bert_state_dict(kernels):
    torch.manual_seed(0)
    size, layers, vocab = 12, 2, 17
    state = {}

    def add(name, rows, columns=None):
        state[f"{name}.weight"] = torch.randn((rows,) if columns is None else (rows, columns)) * 0.3
        if "embeddings.weight" not in f"{name}.weight":
            state[f"{name}.bias"] = torch.randn(rows) * 0.3

    add("embeddings.word_embeddings", vocab, size)
    add("embeddings.position_embeddings", 10, size)
    add("embeddings.token_type_embeddings", 2, size)
    add("embeddings.LayerNorm", size)
    for i in range(layers):
        at = f"encoder.layer.{i}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            add(f"{at}.attention.{name}", size, size)
        add(f"{at}.attention.output.LayerNorm", size)
        add(f"{at}.intermediate.dense", 24, size)
        add(f"{at}.output.dense", size, 24)
        add(f"{at}.output.LayerNorm", size)
    add("pooler.dense", size, size)

    config = models.BertConfig(
        vocab_size=vocab,
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=3,
        intermediate_size=24,
        max_position_embeddings=10,
    )
    model = models.Bert(config).eval()
    model.load_state_dict(state)
    ids, types = torch.randint(0, vocab, (2, 8)), torch.randint(0, 2, (2, 8))
    mask = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    hidden_torch, pooled_torch = bert_in_torch(state, ids, mask, types, layers, 3, size)
    hidden, pooled = model(ours(ids), ours(mask), ours(types))
    assert_close(hidden, hidden_torch)
    assert_close(pooled, pooled_torch)


def test_gpt_trains():
    labkit.manual_seed(0)
    config = models.GPTConfig(vocab_size=5, n_positions=8, n_layer=1, n_head=2, n_embd=8, dropout=0.1)
    model = models.GPT(config)
    optimizer = optim.AdamW(model.parameters(), lr=3e-2)
    x = labkit.arange(9) % 5
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        logits = model(x[:-1].unsqueeze(0))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), x[1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
