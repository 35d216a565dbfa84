# %% [markdown] id=w07d-title
# # Week 7 · 04 Clinic
#
# In about 65 minutes you will catch a model that sees the future, untangle the two meanings of a mask, find out by
# measuring what a trained head is for, and write two tests that every attention layer should have to pass.
#
# The order of work in every clinic: look at the symptom, *name* the fault, then mend it. Both are checked.
# %% id=w07d-setup role=setup
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

import labkit.mine
from labkit import check, viz

torch.set_num_threads(1)  # small models: more threads would cost more than they bring


# %% [markdown] id=w07d-noise-md
# ## Exercise
#
# Here is a test that every language model must *fail*: tokens drawn at random, six kinds, nothing to learn. The best
# anybody can do is to give each of the six the same probability, a loss of ln 6. The model below has one layer of
# attention, with torch's own causal mask. Before you run the cell: where will its loss end?
# %% id=w07d-noise
def attend_as_found(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    variance = x.var(1, correction=0, keepdim=True)
    normal = (x - x.mean(1, keepdim=True)) / torch.sqrt(variance + 1e-5)
    q, k, v = normal @ weights[:, None]  # weights (3, D, D): three products at once
    return x + F.scaled_dot_product_attention(q, k, v, is_causal=True)


def loss_on_noise(attend: Callable[..., torch.Tensor], steps: int = 300) -> float:
    """Train a next-token model around `attend` on random tokens; the mean loss of its last 50 steps."""
    torch.manual_seed(0)
    width, tokens, length = 32, 6, 6
    parts = nn.ModuleDict(
        {
            "token": nn.Embedding(tokens, width),
            "place": nn.Embedding(length, width),
            "head": nn.Linear(width, tokens),
        }
    )
    weights = nn.Parameter(torch.randn(3, width, width) / math.sqrt(width))
    optimizer = torch.optim.Adam([*parts.parameters(), weights], lr=0.01)
    losses = []
    for _ in tqdm(range(steps), desc="noise"):
        text = torch.randint(tokens, (64, length + 1))
        x = parts["token"](text[:, :-1]) + parts["place"].weight
        loss = F.cross_entropy(parts["head"](attend(x, weights)).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-50:]) / 50


print("the loss ends below half of ln 6:", loss_on_noise(attend_as_found) < math.log(6) / 2)


# %% [markdown] id=w07d-influence-md
# It predicts noise. In text, such a model shows a wonderful loss and writes rubbish, because when it writes there is no
# future to look at.
#
# Who influences whom can be asked directly: the derivative of the output at place t with respect to the input at place
# s. `influence` draws it as a map, each row scaled to sum to 1. For a model that does not see the future, everything
# above the diagonal is 0.
# %% id=w07d-influence
def influence(layer: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """How much each output place depends on each input place: x (1, T, D) -> (T, T), rows sum to 1"""
    slopes = torch.autograd.functional.jacobian(layer, x)[0, :, :, 0]  # (T, D, T, D)
    size = slopes.abs().sum((1, 3))
    return size / size.sum(1, keepdim=True)


random = torch.Generator().manual_seed(0)
probe = torch.randn(1, 6, 4, generator=random, dtype=torch.float64)
matrices = torch.randn(3, 4, 4, generator=random, dtype=torch.float64)
viz.attention(
    influence(lambda x: attend_as_found(x, matrices), probe), title="Influence, as found, in percent"
)
# %% [markdown] id=w07d-leak-md
# Set `fault` to one of `"mask off by one"`, `"normalized over time"`, `"input added"`, and mend the code. Keep the
# normalization, its formula and its 1e-5: each token is to be normalized by itself.
# %% id=w07d-leak role=exercise ex=w07.leak
### BEGIN SOLUTION
fault = "normalized over time"


def attend(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Normalize, then add causal self-attention: x (B, T, D), weights (3, D, D) -> (B, T, D)"""
    variance = x.var(-1, correction=0, keepdim=True)
    normal = (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + 1e-5)
    q, k, v = normal @ weights[:, None]  # weights (3, D, D): three products at once
    return x + F.scaled_dot_product_attention(q, k, v, is_causal=True)


### STUB
# fault = ...
#
#
# def attend(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
#     """Normalize, then add causal self-attention: x (B, T, D), weights (3, D, D) -> (B, T, D)"""
#     variance = x.var(1, correction=0, keepdim=True)
#     normal = (x - x.mean(1, keepdim=True)) / torch.sqrt(variance + 1e-5)
#     q, k, v = normal @ weights[:, None]  # weights (3, D, D): three products at once
#     return x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
### END SOLUTION
# %% id=w07d-leak-check role=check ex=w07.leak
check("w07.leak", attend, fault=fault)
# %% id=w07d-leak-after
print("the loss ends near ln 6 now:", abs(loss_on_noise(attend) - math.log(6)) < 0.05)
viz.attention(influence(lambda x: attend(x, matrices), probe), title="Influence, mended, in percent")


# %% [markdown] id=w07d-keep-md
# One mean over the wrong axis, and the mask was worth nothing. A mask guards the attention only; anything else that
# mixes tokens, a normalization, a pooling, a batch norm over time, needs its own answer to "who may see whom".
#
# ## Exercise
#
# A batch of sentences, padded on the right, goes through `nn.MultiheadAttention`. Nobody is to look at padding. The
# function was tested on sentences without padding, and nothing was noticed. What will the two lines print?
# %% id=w07d-keep-symptom
def encode_as_found(layer: nn.MultiheadAttention, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    real = torch.arange(x.shape[1]) < lengths[:, None]  # (B, T), True for tokens of the sentence
    return layer(x, x, x, key_padding_mask=real, need_weights=False)[0]


torch.manual_seed(0)
layer = nn.MultiheadAttention(8, 2, batch_first=True).double()
x, lengths = torch.randn(2, 6, 8, dtype=torch.float64), torch.tensor([4, 3])
other_padding, other_token = x.clone(), x.clone()
other_padding[:, 5] += 1  # in both sentences padding
other_token[:, 0] += 1  # in both sentences text
with torch.no_grad():
    plain, padding, token = (
        encode_as_found(layer, batch, lengths)[:, 2] for batch in (x, other_padding, other_token)
    )
print("other padding, other answer:", not torch.allclose(plain, padding))
print("other text, other answer:   ", not torch.allclose(plain, token))
# %% [markdown] id=w07d-keep-menu
# The wrong way around, both. torch has two conventions:
#
# | | True means |
# |---|---|
# | `F.scaled_dot_product_attention(..., attn_mask=mask)` | may look (keep) |
# | `nn.MultiheadAttention(...)(..., attn_mask=mask, key_padding_mask=mask)`, `nn.Transformer*` | may not look (drop) |
#
# A mask of *floats* has one meaning everywhere: it is added to the scores, 0 to keep and −∞ to drop. Set `fault` to one
# of `"length off by one"`, `"keep and drop exchanged"`, `"padding not zeroed"`, and mend the code. Only what comes out
# at real tokens is compared.
# %% id=w07d-keep role=exercise ex=w07.keep_or_drop
### BEGIN SOLUTION
fault = "keep and drop exchanged"


def encode(layer: nn.MultiheadAttention, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Self-attention in which nobody looks at padding: x (B, T, D), lengths (B,) -> (B, T, D)"""
    real = torch.arange(x.shape[1]) < lengths[:, None]  # (B, T), True for tokens of the sentence
    return layer(x, x, x, key_padding_mask=~real, need_weights=False)[0]


### STUB
# fault = ...
#
#
# def encode(layer: nn.MultiheadAttention, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
#     """Self-attention in which nobody looks at padding: x (B, T, D), lengths (B,) -> (B, T, D)"""
#     real = torch.arange(x.shape[1]) < lengths[:, None]  # (B, T), True for tokens of the sentence
#     return layer(x, x, x, key_padding_mask=real, need_weights=False)[0]
### END SOLUTION
# %% id=w07d-keep-check role=check ex=w07.keep_or_drop
check("w07.keep_or_drop", encode, fault=fault)


# %% [markdown] id=w07d-induction-md
# ## Exercise
#
# A task that cannot be learned by heart: a random piece of text, then the same piece again, and again. Nobody can
# predict the first round. From the second on it is easy, *if* one can look up what came after the same token last time.
# The length of the piece changes from batch to batch, so counting a fixed number of steps back does not help.
#
# The model has two layers of attention, two heads each, and nothing else: no feed-forward part. It is made of what you
# wrote in notebook 01. Training takes about 20 seconds.
# %% id=w07d-induction-model
mine = labkit.mine.of("attention")


class Layer(nn.Module):
    """x + attention(norm(x)), causal and rotary. Keeps its last weights; heads can be silenced."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm, self.heads = nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.loud = torch.ones(heads, 1, 1)  # 0 silences a head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, D) -> (B, T, D)"""
        q, k, v = (mine.split_heads(part, self.heads) for part in self.qkv(self.norm(x)).chunk(3, -1))
        places = torch.arange(x.shape[1], dtype=x.dtype)
        q, k = mine.rotary(q, places), mine.rotary(k, places)
        everything = torch.eye(x.shape[1], dtype=x.dtype)  # as values: what comes out is the weights
        self.weights = mine.attention(q, k, everything, mine.causal_mask(x.shape[1]))  # (B, heads, T, T)
        return x + self.out(mine.merge_heads(self.weights @ v * self.loud))


class TwoLayers(nn.Sequential):
    """Tokens (B, T) -> logits (B, T, tokens)"""

    def __init__(self, tokens: int, width: int, heads: int) -> None:
        layers = [Layer(width, heads), Layer(width, heads)]
        super().__init__(nn.Embedding(tokens, width), *layers, nn.LayerNorm(width), nn.Linear(width, tokens))


def repeated(period: int, length: int, count: int, random: torch.Generator) -> torch.Tensor:
    """`count` texts, each a random piece of `period` tokens over and over: (count, length)"""
    piece = torch.randint(20, (count, period), generator=random)
    return piece.repeat(1, math.ceil(length / period))[:, :length]


# %% id=w07d-induction-train
def trained(seed: int, steps: int = 700) -> TwoLayers:
    """Trained on pieces of 6 to 15 tokens, never of 12. float64: the same on every machine."""
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    model = TwoLayers(20, 32, 2).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.003, total_steps=steps)
    periods = torch.tensor([6, 7, 8, 9, 10, 11, 13, 14, 15])
    for _ in tqdm(range(steps), desc="repeats"):
        period = int(periods[torch.randint(9, (), generator=random)])
        text = repeated(period, 32, 32, random)
        logits = model(text[:, :-1])[:, period - 1 :]
        loss = F.cross_entropy(logits.flatten(0, 1), text[:, period:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model


def right(model: TwoLayers, text: torch.Tensor) -> float:
    """The share of right predictions in the second round of pieces of 12."""
    with torch.no_grad():
        return (model(text[:, :-1])[:, 12:].argmax(-1) == text[:, 13:]).double().mean().item()


model = trained(seed=0)
text = repeated(12, 24, 64, torch.Generator().manual_seed(99))  # a period it has never seen
print("second round, at least 8 of 10 right:", right(model, text) > 0.8)
# %% [markdown] id=w07d-induction-look
# Where do its heads look? Each map is the mean over 64 texts, two rounds of 12 tokens. Look at the stripes.
# %% id=w07d-induction-fig tags=nbval-ignore-output
with torch.no_grad():
    model(text)
maps = torch.stack([model[1].weights.mean(0), model[2].weights.mean(0)])  # (layer, head, 24, 24)
viz.attention(maps, title="Two layers of two heads, on a piece of 12 tokens, twice")
# %% [markdown] id=w07d-induction-question
# In one of the layers at least one head, in the second round, looks a fixed and *large* number of tokens back. Measure
# it. `maps[layer, head].diagonal(-n)` holds the weights that look n tokens back, one per query that has such a key;
# take its mean for every n from 0 to 23, and find the largest.
#
# Set `found` to a pair: the layer, 0 or 1, in which this happens, and n. Before you look at the number: the same token
# stood exactly 12 back. Is it that one the head looks at?
# %% id=w07d-induction role=exercise ex=w07.induction
### BEGIN SOLUTION
found = (1, 11)  # max(range(24), key=lambda n: maps[1].diagonal(-n, 1, 2).mean()) is 11
### STUB
# found = ...
### END SOLUTION
# %% id=w07d-induction-check role=check ex=w07.induction
check("w07.induction", found)


# %% [markdown] id=w07d-ablation-md
# A head of layer 0 looks one back: at every place it writes down *which token came before*. A head of layer 1 asks for
# a place whose note says "before me came the token you are reading now", and finds the one *after* the last copy. What
# stands there is the prediction. Two heads, each of them useless alone. This is called an *induction head*; language
# models of every size have been found to have some.
#
# A map is a hint, not a proof. The proof is to take the heads away:
# %% id=w07d-ablation
def without(layer: int) -> float:
    """The share of right predictions with the heads of one layer silenced."""
    model[1 + layer].loud = torch.zeros(2, 1, 1)
    share = right(model, text)
    model[1 + layer].loud = torch.ones(2, 1, 1)
    return share


for silent in (0, 1):
    few = without(silent) < right(model, text) / 2
    print(f"heads of layer {silent} silenced, less than half as many right:", few)


# %% [markdown] id=w07d-causal-md
# ## Exercise
#
# A colleague sends you a language model: `model(tokens)` takes whole numbers below 11, shape (B, T), any T up to 30,
# and returns logits (B, T, 11). Write a test that fails if any place sees anything of its future. It will be run on
# right models, which it must accept, and on eight wrong ones, which it must catch. A call that raises counts as caught.
#
# There is no oracle, and none is needed: a *property* is tested. Change what comes later, and what was said before must
# not change. What is left to you is to choose where to change, where to look, and inputs that are large enough for
# leaks that show late. Compare with `torch.allclose(a, b, atol=1e-5)`.
# %% id=w07d-causal role=exercise ex=w07.test_causal
### BEGIN SOLUTION
def test_causal(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Silent for a model that does not see the future, an AssertionError for one that does."""
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(11, (3, 20), generator=random)
    logits = model(tokens)
    for t in range(1, 20):
        changed = tokens.clone()
        changed[:, t:] = torch.randint(11, (3, 20 - t), generator=random)
        assert torch.allclose(model(changed)[:, :t], logits[:, :t], atol=1e-5)


### STUB
# def test_causal(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
#     """Silent for a model that does not see the future, an AssertionError for one that does."""
#     raise NotImplementedError("your code here")
### END SOLUTION
# %% id=w07d-causal-check role=check ex=w07.test_causal
check("w07.test_causal", test_causal)


# %% [markdown] id=w07d-permutation-md
# ## Exercise
#
# The other property: attention without positions and without a mask treats its tokens as a set. Exchange the tokens,
# and the outputs are exchanged in the same way, each of them unchanged. `layer(x)` takes (B, T, 8) and returns (B, T,
# 8). Write a test that fails if the order of the tokens matters in any way. This catches heads that were cut with a
# reshape alone, which no check of shapes can see.
#
# `order = torch.tensor([2, 0, 1])` and `x[:, order]` puts token 2 first, then 0, then 1. Not every order is a good
# test: ask of each what it leaves as it was.
# %% id=w07d-permutation role=exercise ex=w07.test_permutation
### BEGIN SOLUTION
def test_permutation(layer: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Silent for a layer that treats tokens as a set, an AssertionError for one that does not."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, 7, 8, generator=random)
    for _ in range(5):
        order = torch.randperm(7, generator=random)
        assert torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-5)


### STUB
# def test_permutation(layer: Callable[[torch.Tensor], torch.Tensor]) -> None:
#     """Silent for a layer that treats tokens as a set, an AssertionError for one that does not."""
#     raise NotImplementedError("your code here")
### END SOLUTION
# %% id=w07d-permutation-check role=check ex=w07.test_permutation
check("w07.test_permutation", test_permutation)
# %% [markdown] id=w07d-mine-md
# Both tests on a layer of your own: your `MultiHeadAttention`, as it is and with a causal mask.
# %% id=w07d-mine
torch.manual_seed(0)
attending = mine.MultiHeadAttention(8, 2).eval()
embed, unembed = torch.randn(11, 8), torch.randn(8, 11)


def verdict(test: Callable[..., None], subject: Callable[..., torch.Tensor]) -> str:
    """What a test says about a subject, in one word."""
    try:
        with torch.no_grad():
            test(subject)
    except AssertionError:
        return "fails"
    return "passes"


def causal(x: torch.Tensor) -> torch.Tensor:
    """(B, T, 8) -> (B, T, 8), masked"""
    return attending(x, mask=mine.causal_mask(x.shape[1]))


print(
    "a test for the future:  without a mask",
    verdict(test_causal, lambda tokens: attending(embed[tokens]) @ unembed),
    "| with it",
    verdict(test_causal, lambda tokens: causal(embed[tokens]) @ unembed),
)
print(
    "a test for order:       without a mask",
    verdict(test_permutation, attending),
    "| with it",
    verdict(test_permutation, causal),
)
# %% [markdown] id=w07d-torch
# ## The same in PyTorch
#
# | here | in torch |
# |---|---|
# | `influence` | [`torch.func.jacrev`](https://docs.pytorch.org/docs/2.13/generated/torch.func.jacrev.html), for many inputs at once with `vmap` |
# | `model[1].weights` | a [forward hook](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook), or `need_weights=True, average_attn_weights=False` of `nn.MultiheadAttention` |
# | silencing a head | a hook that returns other numbers |
# | keep and drop | [`nn.MultiheadAttention`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.MultiheadAttention.html) drops where True, [`F.scaled_dot_product_attention`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.scaled_dot_product_attention.html) keeps |
#
# torch turns the one into the other in `multi_head_attention_forward`, in `torch/nn/functional.py`: a boolean mask
# becomes a float mask with −∞ where it was True.
# %% [markdown] id=w07d-built
# ## What you know now
#
# - A model that beats ln V on noise sees the future. The mask may be right and the leak elsewhere: in anything else
#   that mixes tokens.
# - True means keep in `scaled_dot_product_attention` and drop in `nn.MultiheadAttention`. Floats mean the same
#   everywhere.
# - A map of attention is a hypothesis. Measure it over many inputs, then take the head away and see what is lost.
# - An induction head copies what came after the last copy of a token, and needs a head in a layer below that looks one
#   back.
# - Two properties test most attention layers: change the future, nothing may happen; change the order, the outputs
#   change places.
#
# The question people ask next: *why is all this so slow?* It need not be. Week 8 goes down to the loops, the cache and
# the threads, and writes attention as a single kernel.
#
# **Further reading.** N. Elhage et al., [A mathematical framework for transformer
# circuits](https://transformer-circuits.pub/2021/framework/index.html), two-layer models taken apart · C. Olsson et
# al., [In-context learning and induction heads](https://arxiv.org/abs/2209.11895) · S. Wiegreffe, Y. Pinter, [Attention
# is not not explanation](https://arxiv.org/abs/1908.04626).
# %% [markdown] id=w07d-instructor role=instructor
# **Goals.** Learners can prove that a model sees the future or does not, use either of torch's mask conventions without
# guessing, say what a head does and how they know, and test a layer by its symmetries.
#
# **50 minutes.** 5 the noise, losses guessed aloud · 10 exercise {w07.leak}, the influence map on the projector · 5
# exercise {w07.keep_or_drop}, the table covered until both lines are explained · 15 exercise {w07.induction}; start the
# training, then let pairs draw by hand where the head should look · 15 exercise {w07.test_causal}, bugs collected on
# the board before anybody types. Exercise {w07.test_permutation} is for home.
#
# **Misconceptions.** "The mask is right, so nothing leaks" (1). "A low loss is good news" (1: ask what the lowest
# possible is). "True is True" (2). "It works on full sentences" (2: the only ones where an exchanged mask drops
# everything). "The head looks at the same token" (3: at the one after it, 11 back, not 12). "A map explains" (3:
# silence it). "Testing one place is testing all" (4: leaks at the first place, or after place 8). "Reversing is as good
# as any other order" (5: neighbors stay neighbors).
#
# **To think about aloud.** Why can a model with one layer not do exercise {w07.induction}? The query knows its own
# token and every key knows only its own token; "what came before you" has to be written down by a layer below. Why was
# the period 12 left out of training? A model could have learned nine fixed distances; that it finds a tenth shows that
# it compares tokens. Why does silencing layer 0 hurt as much as silencing layer 1? A chain breaks at either link.
