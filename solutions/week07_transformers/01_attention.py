# %% [markdown] id=w07a-title
# # Week 7 · 01 Attention
#
# In about 100 minutes you will build attention: the weights, the masks, the heads, and three ways to say where a token
# stands. At the end your module gives the numbers of `nn.MultiheadAttention`, with its weights; the GPT of the next
# notebook runs on it.
# %% id=w07a-setup role=setup
import math

import torch
import torch.nn.functional as F
from torch import nn

from labkit import check, viz

# %% [markdown] id=w07a-surprise
# ## A surprise first
#
# Eight tokens. Each has a *query*, what it looks for, and a *key*, what it offers: two vectors of random numbers. Their
# dot product says how well the two fit, and a softmax turns each token's eight scores into weights that sum to 1.
# Before you run the cell: what changes when the vectors have 1,024 numbers instead of 4?
# %% id=w07a-surprise-code
maps = []
for d in (4, 64, 1024):
    random = torch.Generator().manual_seed(3)
    q, k = torch.randn(2, 8, d, generator=random, dtype=torch.float64)
    maps.append(torch.softmax(q @ k.T, dim=-1))
viz.attention(torch.stack(maps), names=["4 numbers", "64 numbers", "1,024 numbers"])


# %% [markdown] id=w07a-weights-md
# The longer the vectors, the harder the choice: with 1,024 numbers most tokens put all their weight on a single one.
# Nothing was learned; the sums have become large. A sum of d products of independent numbers with variance 1 has
# variance d, so its typical size is √d. Divide by √d, and the scores have the same size for every d.
#
# ## Exercise
#
# For T queries and S keys of d numbers each, in all leading axes at once:
#
# $$\text{weights} = \text{softmax}\!\left(\frac{Q K^T}{\sqrt{d}}\right) \qquad \text{shape } (\ldots, T, S)$$
#
# Row t says how query t shares out its attention: it sums to 1. `k.mT` exchanges the last two axes, whatever stands
# before them, as does `k.transpose(-1, -2)`; [`torch.softmax(x,
# dim)`](https://docs.pytorch.org/docs/2.13/generated/torch.softmax.html) you may use.
#
# ```
# one query [2, 0, 0, 0], keys [1, 0, 0, 0] and [0, 1, 0, 0]:  scores [2, 0] / √4 = [1, 0]
# weights [e, 1] / (e + 1) = [0.73, 0.27]
# ```
# %% id=w07a-weights role=exercise ex=w07.weights
def attention_weights(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """How each query shares out its attention: (..., T, d), (..., S, d) -> (..., T, S), rows sum to 1"""
    ### BEGIN SOLUTION
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return torch.softmax(scores, dim=-1)
    ### END SOLUTION


# %% id=w07a-weights-check role=check ex=w07.weights
check("w07.weights", attention_weights)
# %% [markdown] id=w07a-weights-after
# The vectors of the beginning again, through your function:
# %% id=w07a-weights-fig
maps = []
for d in (4, 64, 1024):
    random = torch.Generator().manual_seed(3)
    q, k = torch.randn(2, 8, d, generator=random, dtype=torch.float64)
    maps.append(attention_weights(q, k))
viz.attention(torch.stack(maps), names=["4 numbers", "64 numbers", "1,024 numbers"])
# %% [markdown] id=w07a-sentence-md
# What are queries and keys for? Here they are written by hand, three numbers per word: *is it a thing, is it alive, is
# it a place?* The word "it" asks for something alive, "there" for a place, and every other word for nothing in
# particular. Where will "it" look?
# %% id=w07a-sentence
words = "the cat saw the garden and it slept there".split()
offers = torch.zeros(9, 3, dtype=torch.float64)  # keys: thing, alive, place
offers[1], offers[4] = torch.tensor([4.0, 4.0, 0.0]), torch.tensor([4.0, 0.0, 4.0])  # cat, garden
asks = torch.zeros(9, 3, dtype=torch.float64)  # queries
asks[6], asks[8] = torch.tensor([1.0, 2.0, 0.0]), torch.tensor([0.0, 0.0, 2.0])  # it, there
viz.attention(attention_weights(asks, offers), words, query=6)
# %% [markdown] id=w07a-sentence-after
# "It" finds the cat. A word that asks for nothing gets the mean of everything. In a real layer nobody writes these
# numbers: two linear layers make the queries and keys from the tokens, a third one makes the *values*, and what a token
# takes home is its weights times the values, a mean of what the others have to say:
#
# $$\text{attention}(Q, K, V) = \text{weights} \cdot V \qquad (T, S) \cdot (S, e) \to (T, e)$$


# %% [markdown] id=w07a-causal-md
# ## Exercise
#
# A model that predicts the next token must not see it. A *mask* says for every query which keys it may look at: here,
# as in torch's function, **True means may look**. Query i sees the keys up to its own position, and itself.
#
# When text is written token by token, `past` tokens are there already and t new ones come. The new ones are the
# queries; the keys are all past + t tokens. Query i then stands at position past + i.
#
# ```
# t = 2, past = 1:   [[True, True, False],
#                     [True, True, True ]]
# ```
#
# [`x.tril(d)`](https://docs.pytorch.org/docs/2.13/generated/torch.tril.html) keeps what lies on and below the d-th
# diagonal; comparing two `torch.arange` does it too.
# %% id=w07a-causal role=exercise ex=w07.causal_mask
def causal_mask(t: int, past: int = 0) -> torch.Tensor:
    """True where a query may look: (t, past + t) of bool; query i stands at position past + i"""
    ### BEGIN SOLUTION
    return torch.ones(t, past + t, dtype=torch.bool).tril(past)
    ### END SOLUTION


# %% id=w07a-causal-check role=check ex=w07.causal_mask
check("w07.causal_mask", causal_mask)


# %% [markdown] id=w07a-batch-md
# ## Exercise
#
# Sentences of a batch are filled up to one length. The filling, *padding*, is not text, and nobody should look at it.
# When sentences are to be continued, they are padded on the **left**, so that all of them end in the last column. In
# week 1 you wrote which tokens are real for padding on the right, `torch.arange(longest) < lengths[:, None]`; here a
# sentence of n tokens starts in column longest − n.
#
# Join the two: a query may look at a key that is not in its future *and* is real. The result is (B, 1, T, T): sentence,
# one axis that will stretch over all heads, query, key. Hide *keys*, the columns. A row of padding is then left with
# nothing to look at; keep that in mind for the next exercise.
#
# ```
# lengths [1, 2], longest 2:   [[[[False, False],      [[[True, False],
#                                 [False, True ]]],      [True, True ]]]]
# ```
# %% id=w07a-batch role=exercise ex=w07.batch_mask
def batch_mask(lengths: torch.Tensor, longest: int) -> torch.Tensor:
    """Causal, and only real keys: lengths (B,) -> (B, 1, longest, longest) of bool"""
    ### BEGIN SOLUTION
    real = torch.arange(longest) >= longest - lengths[:, None]  # (B, T)
    return causal_mask(longest) & real[:, None, None, :]
    ### END SOLUTION


# %% id=w07a-batch-check role=check ex=w07.batch_mask
check("w07.batch_mask", batch_mask)


# %% [markdown] id=w07a-attention-md
# ## Exercise
#
# How does one hide a key? Not by setting its weight to 0 at the end: the rest of the row would no longer sum to 1. Its
# *score* is replaced before the softmax, by something so negative that $e^{\text{score}}$ is 0.
# `scores.masked_fill(~mask, value)` writes `value` wherever the mask is False.
#
# The usual value is −∞, and it is a trap. A row in which *everything* is hidden, like those of the padding above, is
# then $0 / 0$, NaN, and one NaN in a batch ruins the next step of training. The output of such a row should be 0, and
# so should its gradient. Do not make the NaN in the first place: fill with a *finite* number,
# `torch.finfo(q.dtype).min`, the lowest there is; then set the hidden weights to 0 as well, so that a row without any
# visible key comes out as 0.
#
# `mask` has shape (T, S), or more axes in front, or is None: everything visible.
# %% id=w07a-attention role=exercise ex=w07.attention
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """(..., T, d), (..., S, d), (..., S, e), mask True = may look -> (..., T, e); 0 where nothing may be seen"""
    ### BEGIN SOLUTION
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is None:
        return torch.softmax(scores, dim=-1) @ v
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(q.dtype).min), dim=-1)
    return weights.masked_fill(~mask, 0.0) @ v
    ### END SOLUTION


# %% id=w07a-attention-check role=check ex=w07.attention
check("w07.attention", attention)
# %% [markdown] id=w07a-attention-after
# A trick to see the weights of any attention: let the values be the identity matrix. The mean of its rows, weighted,
# *is* the weights. The sentence again, causal: no word can look at a later one.
# %% id=w07a-attention-fig
viz.attention(attention(asks, offers, torch.eye(9, dtype=torch.float64), causal_mask(9)), words)


# %% [markdown] id=w07a-split-md
# ## Exercise
#
# One map per layer is little: "it" would like to know who slept *and* where. So a layer has several *heads*, each with
# queries, keys and values of its own, and they work side by side. No new machinery: the D features of each token are
# cut into `heads` blocks of D / heads *neighboring* features, and the heads become one more leading axis, which
# `attention` leaves alone.
#
# (B, T, D) → (B, heads, T, D / heads)
#
# ```
# one token, 4 features [1, 2, 3, 4], 2 heads:  head 0 gets [1, 2], head 1 gets [3, 4]
# ```
# %% id=w07a-split role=exercise ex=w07.split_heads
def split_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(B, T, D) -> (B, heads, T, D / heads); a head is a block of neighboring features"""
    ### BEGIN SOLUTION
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)
    ### END SOLUTION


# %% id=w07a-split-check role=check ex=w07.split_heads
check("w07.split_heads", split_heads)


# %% [markdown] id=w07a-merge-md
# ## Exercise
#
# The way back: the heads of a token go side by side, head 0 first.
# %% id=w07a-merge role=exercise ex=w07.merge_heads
def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """(B, heads, T, D / heads) -> (B, T, D), undoing split_heads"""
    ### BEGIN SOLUTION
    return x.transpose(1, 2).flatten(2)
    ### END SOLUTION


# %% id=w07a-merge-check role=check ex=w07.merge_heads
check("w07.merge_heads", merge_heads)


# %% [markdown] id=w07a-multi-md
# ## Exercise
#
# The whole layer. `__init__` is given, with the names and shapes of torch's `nn.MultiheadAttention`, so that a state
# dict passes both ways. Write `forward`:
#
# 1. *Project.* `in_proj_weight` holds three matrices of (D, D) on top of each other, for queries, keys and values, in
#    this order; `in_proj_bias` holds their three biases. `tensor.chunk(3)` cuts the first axis into three; `F.linear(x,
#    weight, bias)` is `x @ weight.T + bias`.
# 2. *Cut* each of q, k and v into heads.
# 3. *Attend*, with the mask.
# 4. *Put together*, and apply `self.out_proj`, which mixes what the heads have found.
#
# Queries always come from `x`. Keys and values come from `memory` if there is one: a translator that writes a sentence
# (x) and looks at another one (memory). This is *cross-attention*. Without a memory, x looks at itself:
# *self-attention*.
# %% id=w07a-multi role=exercise ex=w07.multi_head
class MultiHeadAttention(nn.Module):
    """Multi-head attention with the parameter names of nn.MultiheadAttention, batch first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self, x: torch.Tensor, memory: torch.Tensor | None = None, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x (B, T, D), memory (B, S, D) or None, mask (..., T, S) True = may look -> (B, T, D)"""
        ### BEGIN SOLUTION
        memory = x if memory is None else memory
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (
            split_heads(F.linear(source, weight, bias), self.heads)
            for source, weight, bias in zip((x, memory, memory), weights, biases, strict=True)
        )
        return self.out_proj(merge_heads(attention(q, k, v, mask)))
        ### END SOLUTION


# %% id=w07a-multi-check role=check ex=w07.multi_head
check("w07.multi_head", MultiHeadAttention)
# %% [markdown] id=w07a-explorer-md
# The hand-made sentence with three heads. Head 0 asks who, head 1 asks where, head 2 asks for the word before. Choose a
# head and a word, and see where it looks.
# %% id=w07a-explorer
who, where = asks.clone(), asks.clone()
who[8] = torch.tensor([0.0, 2.0, 0.0])  # there: who was there?
where[6] = torch.tensor([0.0, 0.0, 2.0])  # it: where was it?
places = torch.eye(9, dtype=torch.float64)  # a key that says: I am word number i
before = 15 * places[(torch.arange(9) - 1).clamp(min=0)]
heads = [
    attention_weights(who, offers),
    attention_weights(where, offers),
    attention_weights(before, places),
]
viz.attention_explorer(torch.stack(heads), words)


# %% [markdown] id=w07a-order-md
# ## Who bit whom?
#
# Attention is a mean over a *set*. Give it the words in another order, and every word still finds the same partners.
# Run this before you believe it.
# %% id=w07a-order
torch.manual_seed(0)
layer = MultiHeadAttention(16, 4).double()
vectors = {word: torch.randn(16, dtype=torch.float64) for word in ("dog", "bites", "man")}
with torch.no_grad():
    one = layer(torch.stack([vectors[word] for word in ("dog", "bites", "man")])[None])[0]
    other = layer(torch.stack([vectors[word] for word in ("man", "bites", "dog")])[None])[0]
print("'dog' comes out the same in both sentences:", torch.allclose(one[0], other[2]))


# %% [markdown] id=w07a-sinusoidal-md
# Without help the layer cannot know who bit whom. So each token is told its position. Three ways, in the order in which
# they were invented.
#
# ## Exercise
#
# One number that grows with the position would soon be larger than the tokens themselves. A clock has a better idea:
# hands that turn at different speeds. Pair i of columns holds the sine and the cosine of one hand:
#
# $$\text{out}[p, 2i] = \sin\frac{p}{10000^{2i/D}} \qquad \text{out}[p, 2i + 1] = \cos\frac{p}{10000^{2i/D}}$$
#
# These rows are *added* to the tokens before the first layer. Sine and cosine alternate: `torch.stack([a, b], -1)` puts
# two tensors of shape (T, n) side by side as (T, n, 2), and `.flatten(1)` weaves them into (T, 2n).
#
# ```
# position 1, width 4:  [sin 1, cos 1, sin 0.01, cos 0.01]
# ```
# %% id=w07a-sinusoidal role=exercise ex=w07.sinusoidal
def sinusoidal(positions: torch.Tensor, width: int) -> torch.Tensor:
    """A row for each position, sine and cosine of width / 2 angles: (T,) of float -> (T, width)"""
    ### BEGIN SOLUTION
    pairs = torch.arange(0, width, 2, dtype=positions.dtype)  # 2i
    angles = positions[:, None] / 10000 ** (pairs / width)  # (T, width / 2)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
    ### END SOLUTION


# %% id=w07a-sinusoidal-check role=check ex=w07.sinusoidal
check("w07.sinusoidal", sinusoidal)
# %% id=w07a-sinusoidal-fig
rows = sinusoidal(torch.arange(48, dtype=torch.float64), 32)
hands = {f"column {column}": rows[:, column] for column in (0, 4, 8, 12)}
viz.curves(hands, title="Four hands of the clock", xlabel="position", ylabel="value")


# %% [markdown] id=w07a-rotary-md
# **Learned positions** need no formula: `nn.Embedding(longest, D)`, one row per position, trained like any weight and
# added to the tokens. GPT-2 does this. It costs longest · D parameters, and position `longest` does not exist.
#
# ## Exercise
#
# The third way does not touch the tokens at all. It turns *queries and keys*, in every layer: each pair of neighboring
# features is a point in the plane, and a token at position p has its pair i turned by the angle $\theta = p /
# 10000^{2i/D}$, the same angles as the clock:
#
# $$(a, b) \to (a \cos\theta - b \sin\theta,\; a \sin\theta + b \cos\theta)$$
#
# Turn two vectors by the same angle, and their dot product stays as it is; so after the turn, a score depends only on
# the *difference* of the two positions. This is *rotary* embedding.
#
# ```
# x = [1, 0], position 1:  [cos 1, sin 1]
# ```
# %% id=w07a-rotary role=exercise ex=w07.rotary
def rotary(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Each pair (2i, 2i + 1) turned by its angle: (..., T, D), positions (T,) of float -> (..., T, D)"""
    ### BEGIN SOLUTION
    width = x.shape[-1]
    angles = positions[:, None] / 10000 ** (torch.arange(0, width, 2, dtype=positions.dtype) / width)
    a, b = x[..., ::2], x[..., 1::2]
    turned = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(turned, -1).flatten(-2)
    ### END SOLUTION


# %% id=w07a-rotary-check role=check ex=w07.rotary
check("w07.rotary", rotary)
# %% [markdown] id=w07a-rotary-after
# Is it true that only the distance counts? The same query and the same key, at positions (3, 1), (53, 51) and (503,
# 501), and then at a distance of 7:
# %% id=w07a-rotary-demo
random = torch.Generator().manual_seed(1)
query, key = torch.randn(2, 1, 32, generator=random, dtype=torch.float64)


def score(i: int, j: int) -> torch.Tensor:
    """The score of the query at position i with the key at position j."""
    at = torch.tensor([[i], [j]], dtype=torch.float64)
    return (rotary(query, at[0]) * rotary(key, at[1])).sum()


print(
    "same distance, same score:",
    torch.allclose(score(3, 1), score(53, 51)),
    torch.allclose(score(3, 1), score(503, 501)),
)
print("other distance, same score:", torch.allclose(score(3, 1), score(8, 1)))
ones = torch.ones(1, 32, dtype=torch.float64)
here = torch.zeros(1, dtype=torch.float64)
far = [(rotary(ones, here) * rotary(ones, here + n)).sum() / 32 for n in range(100)]
viz.curves(
    {"two equal vectors": far}, title="A score fades with the distance", xlabel="distance", ylabel="score"
)
# %% [markdown] id=w07a-positions
# | | sinusoidal | learned | rotary |
# |---|---|---|---|
# | what is done | added to the tokens, once | added to the tokens, once | queries and keys turned, in every layer |
# | parameters | none | longest · D | none |
# | a score knows | both positions | both positions | the distance, and the content |
# | beyond the training length | has a row, never trained on it | has no row | has an angle, never trained on it |
#
# A trap for people who load weights: some libraries pair feature i with i + D / 2 instead of neighbors. Both are
# rotary; a model trained with one is broken under the other.
#
# ## Exercise
#
# Two sentences of 128 tokens, width D = 64, 4 heads; a layer as in exercise {w07.multi_head}, with biases. A product of
# (n, k) and (k, m) takes n · k · m multiplications. Predict, and set `sure` to how many of the nine you expect to have
# right. Arithmetic in Python is fine, torch is not.
#
# | | |
# |---|---|
# {questions}
# %% id=w07a-cost role=exercise ex=w07.cost
### BEGIN SOLUTION
prediction = {
    "a": (2, 4, 128, 16),
    "b": (2, 4, 128, 128),
    "c": 4 * (64 * 64 + 64),
    "d": 16640,
    "e": 2 * 4 * 128 * 128 * 16,
    "f": 4 * 2 * 128 * 64 * 64,
    "g": 4,
    "h": 128,
    "i": 8,
}
sure = 7
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ..., "h": ..., "i": ...}
# sure = ...
### END SOLUTION
# %% id=w07a-cost-check role=check ex=w07.cost
check("w07.cost", prediction, sure=sure)
# %% [markdown] id=w07a-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it | True in its mask means |
# |---|---|---|
# | `attention` | [`F.scaled_dot_product_attention`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.scaled_dot_product_attention.html) | may look |
# | `MultiHeadAttention` | [`nn.MultiheadAttention`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.MultiheadAttention.html), with `batch_first=True` | **may not look** |
# | `causal_mask(t)` | `is_causal=True`; with a past, [`causal_lower_right`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.attention.bias.causal_lower_right.html) | |
#
# The two conventions are opposite; the clinic comes back to that. In torch's source the plain version is
# `_scaled_dot_product_attention_math` in `aten/src/ATen/native/transformers/attention.cpp`; which of several versions
# runs is decided there too. The layer is `torch/nn/modules/activation.py`.
# %% id=w07a-torch-code
theirs = nn.MultiheadAttention(16, 4, batch_first=True).double()
mine = MultiHeadAttention(16, 4).double()
print(mine.load_state_dict(theirs.state_dict()))
x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
mask = batch_mask(torch.tensor([5, 3]), 5)
drop = ~mask.expand(2, 4, 5, 5).flatten(0, 1)  # True = may not look, one mask per sentence and head
with torch.no_grad():
    print(
        "equal to nn.MultiheadAttention:",
        torch.allclose(mine(x, mask=mask), theirs(x, x, x, attn_mask=drop, need_weights=False)[0]),
    )
    blind = torch.ones(5, 5, dtype=torch.bool)  # nobody may look at anything
    asked = theirs(x, x, x, attn_mask=blind)[0].isnan().any().item()
    plain = theirs(x, x, x, attn_mask=blind, need_weights=False)[0].isnan().any().item()
print("a fully masked row gives NaN: with need_weights", asked, "| without", plain)
# %% [markdown] id=w07a-built
# ## What you built
#
# - Attention is a soft look-up: queries meet keys, a softmax shares out the weights, values are averaged. The √d keeps
#   the softmax soft at any width.
# - A mask acts on the scores, before the softmax. True means may look; a row that may see nothing gives 0, not NaN.
# - Heads are one more leading axis: blocks of features that look at different things. Reshape *and* transpose.
# - Attention does not know order. Positions are added (sinusoidal, learned) or turned into queries and keys (rotary).
# - The maps cost T² numbers per head and layer; the parameters do not depend on T or on the number of heads.
#
# The question people ask next: *is a weight of 0.9 an explanation?* It says where a number came from, not what was done
# with it. In the clinic you will find a head whose map does tell what it is for, and prove it by taking the head away.
#
# **Further reading.** A. Vaswani et al., [Attention is all you need](https://arxiv.org/abs/1706.03762), sections 3.2
# and 3.5 · J. Su et al., [RoFormer](https://arxiv.org/abs/2104.09864), rotary positions · S. Jain, B. Wallace,
# [Attention is not explanation](https://arxiv.org/abs/1902.10186), and S. Wiegreffe, Y. Pinter, [Attention is not not
# explanation](https://arxiv.org/abs/1908.04626).
# %% [markdown] id=w07a-instructor role=instructor
# **Goals.** Learners can write attention with any mask, say why the scores are divided by √d and why −∞ is a trap, cut
# and merge heads without shuffling numbers, and count what a layer costs.
#
# **50 minutes.** 5 the surprise, predicted by show of hands · 10 exercise {w07.weights}, the two-key example on the
# board first · 10 exercises {w07.causal_mask} and {w07.batch_mask} in pairs, the 2 × 3 mask drawn before it is typed ·
# 10 exercise {w07.attention}; let somebody project the NaN · 10 exercises {w07.split_heads} and {w07.merge_heads}, with
# the four-feature example as paper strips · 5 exercise {w07.cost}, d and i guessed aloud. Exercises {w07.multi_head},
# {w07.sinusoidal} and {w07.rotary} are for home.
#
# **Misconceptions.** "The scale is a detail" (1: the surprise shows what it prevents). "Softmax over dim −2 is the same
# by symmetry" (1: columns sum to 1). "A token must not look at itself" (2: then the first sees nothing). "A causal mask
# hides the padding anyway" (3: only padding on the right). "−∞ is the clean way" (4), "`nan_to_num` repairs it" (4:
# where −∞ was added, the gradient is NaN). "reshape to (B, heads, T, d) is enough" (5: right shape, wrong numbers).
# "More heads, more parameters" (10 d). "Attention knows the order" (the dog and the man).
#
# **To think about aloud.** Why three projections, when x could look at x directly? Then every token would look mostly
# at itself, and what it looks for would have to be what it offers. Why is the diagonal visible although the token knows
# itself already? It may decide that nobody else matters. Why does rotary leave the values alone? Where a token stands
# should decide who listens, not what it says.
