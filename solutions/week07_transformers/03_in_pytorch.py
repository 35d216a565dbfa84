# %% [markdown] id=w07c-title
# # Week 7 · 03 In PyTorch
#
# In about 60 minutes you will know torch's attention well enough not to be fooled by its masks, and load the weights of
# two famous models, GPT-2 and BERT, into the blocks you wrote. Nothing is downloaded: the names and the layout are the
# real ones, the sizes are small and the numbers come from a seed.
# %% id=w07c-setup role=setup
import torch
import torch.nn.functional as F
from torch import nn

import labkit
from labkit import check, models

torch.set_num_threads(1)  # small models: more threads would cost more than they bring

# %% [markdown] id=w07c-surprise
# ## A surprise first
#
# [`F.scaled_dot_product_attention`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.scaled_dot_product_attention.html)
# is your `attention` in one call, and `is_causal=True` makes the causal mask for you. Last notebook you wrote with a
# cache: one new query, five keys. The new token is the last one, so it may look at all five. Give this to torch with
# `is_causal=True`. How many of the five keys does it see? Decide, then run it.
# %% id=w07c-surprise-code
query, keys = torch.zeros(1, 1, 4), torch.zeros(1, 5, 4)  # all scores are equal
values = torch.eye(5)[None]  # so the output is the weights
print("is_causal=True: ", F.scaled_dot_product_attention(query, keys, values, is_causal=True).tolist())
last = torch.ones(1, 5, dtype=torch.bool).tril(4)
print(
    "with your mask: ",
    F.scaled_dot_product_attention(query, keys, values, attn_mask=last).mul(5).tolist(),
    "/ 5",
)
# %% [markdown] id=w07c-sdpa-md
# One key: the *oldest*. `is_causal` lines the queries up with the *first* keys, top left in the square of scores; with
# a cache they belong to the last ones, bottom right. No error, no warning, and a model that has forgotten all but the
# first word. torch has
# [`causal_lower_right`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.attention.bias.causal_lower_right.html)
# for the other case, and a mask of your own always works.
#
# What does the function do that yours does not? It never writes down the square of scores: it works through it in tiles
# that stay in the fast memory, forward and backward (week 8 builds this). With `enable_gqa=True` several heads of
# queries share one head of keys.
#
# ## Exercise
#
# Three conventions live in one library. One query, five keys, all scores equal, and
#
# ```python
# two = torch.tensor([[True, True, False, False, False]])
# ```
#
# How many of the five keys does the query see?
#
# | | call |
# |---|---|
# {questions}
#
# The documentation: [the
# function](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.scaled_dot_product_attention.html), [the
# layer](https://docs.pytorch.org/docs/2.13/generated/torch.nn.MultiheadAttention.html).
# %% id=w07c-masks role=exercise ex=w07.masks
### BEGIN SOLUTION
prediction = {"a": 2, "b": 3, "c": 3, "d": 2, "e": 5, "f": 1}
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ...}
### END SOLUTION
# %% id=w07c-masks-check role=check ex=w07.masks
check("w07.masks", prediction)


# %% [markdown] id=w07c-layers-md
# ## The layers
#
# | torch | yours | mind |
# |---|---|---|
# | [`nn.MultiheadAttention(width, heads)`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.MultiheadAttention.html) | `MultiHeadAttention` | `batch_first=False` unless you say so: then axis 0 is time. Returns output *and* weights; `need_weights=False` is faster |
# | [`nn.TransformerEncoderLayer`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.TransformerEncoderLayer.html) | `Block` | `norm_first=False`, `activation="relu"`, `dropout=0.1`, hidden 2048 unless you say so |
# | [`nn.TransformerDecoderLayer`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.TransformerDecoderLayer.html) | `DecoderBlock` | `memory` comes second |
# | [`nn.TransformerEncoder(layer, n)`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.TransformerEncoder.html) | a loop over blocks | *copies* the layer, so all n start with the same weights |
#
# A GPT in torch's words is an *encoder* with a causal mask: the decoder layer would want a memory.
# %% id=w07c-layers
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True)
stack = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
first, second = stack.layers[0].linear1.weight, stack.layers[1].linear1.weight
print("the copies start equal:", torch.equal(first, second), "| and are one object:", first is second)
time_first = nn.TransformerEncoderLayer(8, 2, 32, 0.0)
x = torch.randn(5, 3, 8)  # meant as 5 sentences of 3 tokens
changed = x.clone()
changed[1] = 0.0
leak = (time_first(x)[0] - time_first(changed)[0]).abs().max() > 1e-3
print("batch_first forgotten: another sentence changes the first one:", leak.item())


# %% [markdown] id=w07c-conv1d-md
# ## The state dict of a GPT-2
#
# GPT-2 is stored as the transformers library names it. Here it is in small, and into labkit's own GPT it goes as it is.
# Look at the shapes: which of them are not what `nn.Linear` would have?
# %% id=w07c-gpt2-state role=setup
def gpt2_state(vocab: int, context: int, width: int, layers: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights with the names and the layout of GPT-2."""
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return 0.3 * torch.randn(*shape, generator=random)

    state = {"transformer.wte.weight": draw(vocab, width), "transformer.wpe.weight": draw(context, width)}
    for i in range(layers):
        at = f"transformer.h.{i}"
        sizes = {
            "attn.c_attn": (width, 3 * width),
            "attn.c_proj": (width, width),
            "mlp.c_fc": (width, 4 * width),
            "mlp.c_proj": (4 * width, width),
        }
        for name, (size_in, size_out) in sizes.items():
            state |= {f"{at}.{name}.weight": draw(size_in, size_out), f"{at}.{name}.bias": draw(size_out)}
        for name in ("ln_1", "ln_2"):
            state |= {f"{at}.{name}.weight": 1 + draw(width), f"{at}.{name}.bias": draw(width)}
    state |= {"transformer.ln_f.weight": 1 + draw(width), "transformer.ln_f.bias": draw(width)}
    state["lm_head.weight"] = state["transformer.wte.weight"]
    return state


# %% id=w07c-gpt2-shapes
state = gpt2_state(vocab=50, context=16, width=12, layers=2)
reference = models.GPT(models.GPTConfig(vocab_size=50, n_positions=16, n_layer=2, n_head=3, n_embd=12)).eval()
print(
    "into labkit's GPT:",
    reference.load_state_dict({name: v.numpy() for name, v in state.items()}) or "loaded",
)
for name, value in state.items():
    if ".h.1." not in name and "ln_" not in name and not name.endswith(".bias"):
        print(f"{name:36}{tuple(value.shape)}")


# %% [markdown] id=w07c-conv1d-ex
# Everything named `c_…` is a *Conv1D*, a name from the model's first code for a linear layer whose weight is (in, out):
# it computes `x @ weight + bias`. `nn.Linear` has (out, in) and computes `x @ weight.T + bias`.
#
# ## Exercise
#
# A colleague's function turns Conv1D weights for `nn.Linear`. Every shape fits, nothing complains, and the model writes
# nonsense. Find out why; mend the function, and name the fault: `"square weights"`, `"biases"`, `"names"` or
# `"copies"`.
# %% id=w07c-conv1d role=exercise ex=w07.conv1d
def to_linear(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights of Conv1D layers as nn.Linear has them; biases as they are."""
    converted = {}
    for name, value in state.items():
        ### BEGIN SOLUTION
        converted[name] = value.T if value.ndim == 2 else value
        ### STUB
        # rows, columns = value.shape if value.ndim == 2 else (0, 0)
        # converted[name] = value.T if rows != columns else value
        ### END SOLUTION
    return converted


### BEGIN SOLUTION
fault = "square weights"
### STUB
# fault = ...
### END SOLUTION
# %% id=w07c-conv1d-check role=check ex=w07.conv1d
check("w07.conv1d", to_linear, fault=fault)


# %% [markdown] id=w07c-gpt2-md
# ## Exercise
#
# Your GPT has other names. `NAMES` says what each part of a name becomes; a name may contain two of them, so apply them
# all, in this order. GPT-2 stores queries, keys and values in one matrix, in the order of your `in_proj_weight`. What
# is left is to turn what has to be turned: the Conv1D weights, and nothing else.
# %% id=w07c-names role=setup
NAMES = {
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


# %% id=w07c-gpt2 role=exercise ex=w07.from_gpt2
def from_gpt2(state: dict[str, torch.Tensor], names: dict[str, str]) -> dict[str, torch.Tensor]:
    """A state dict of GPT-2 as one of your GPT: every name changed by `names`, Conv1D weights turned."""
    converted = {}
    for name, value in state.items():
        ### BEGIN SOLUTION
        ours = name
        for old, new in names.items():
            ours = ours.replace(old, new)
        converted[ours] = value.T if ".c_" in name and value.ndim == 2 else value
        ### END SOLUTION
    return converted


# %% id=w07c-gpt2-check role=check ex=w07.from_gpt2
check("w07.from_gpt2", from_gpt2)
# %% [markdown] id=w07c-gpt2-after
# Your GPT of notebook 02 with these weights, beside labkit's, which took them unchanged. `labkit.mine` brings your
# blocks here, or the reference where a part is still open.
# %% id=w07c-gpt2-run
parts = labkit.mine.of("the_block_and_the_gpt")
mine = parts.GPT(50, 16, 12, 3, 2)
print("names fit:", mine.load_state_dict(from_gpt2(state, NAMES)))
tokens = torch.randint(0, 50, (2, 9), generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    ours = mine(tokens)
theirs = torch.from_numpy(reference(labkit.from_numpy(tokens.numpy())).detach().numpy())
print("same logits as labkit's GPT:", torch.allclose(ours, theirs, atol=1e-4))
careless = {name: v.T if "out_proj.weight" in name else v for name, v in from_gpt2(state, NAMES).items()}
mine.load_state_dict(careless)
with torch.no_grad():
    wrong = mine(tokens)
print("with the square weights forgotten:", torch.allclose(wrong, theirs, atol=1e-4))


# %% [markdown] id=w07c-bert-md
# ## Exercise
#
# BERT reads instead of writing: no causal mask, norm last, the exact GELU. Its linear layers are `nn.Linear`, nothing
# to turn; but queries, keys and values have a layer each, and `in_proj_weight` wants them one below the other, queries
# first. Write the state dict of one block, number `number`. Every name begins with `encoder.layer.{number}.`, and
# `BERT_NAMES` says what the other parts become; weight and bias alike. `attention.self.query`, `.key` and `.value`
# become `self_attn.in_proj_weight` and `self_attn.in_proj_bias`.
# %% id=w07c-bert-names role=setup
BERT_NAMES = {
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "output.LayerNorm": "norm2",
}


# %% id=w07c-bert role=exercise ex=w07.bert_layer
def bert_layer(state: dict[str, torch.Tensor], number: int, names: dict[str, str]) -> dict[str, torch.Tensor]:
    """The weights of one of BERT's layers under the names of your block."""
    layer = {}
    ### BEGIN SOLUTION
    at = f"encoder.layer.{number}."
    for kind in ("weight", "bias"):
        heads = [state[f"{at}attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
        layer[f"self_attn.in_proj_{kind}"] = torch.cat(heads)
        for theirs, ours in names.items():
            layer[f"{ours}.{kind}"] = state[f"{at}{theirs}.{kind}"]
    ### END SOLUTION
    return layer


# %% id=w07c-bert-check role=check ex=w07.bert_layer
check("w07.bert_layer", bert_layer)


# %% [markdown] id=w07c-bert-after
# A small BERT by labkit, with its own random weights; its layers are rebuilt from your blocks and from torch's, and all
# three read two sentences, the second one padded. One more difference hides in BERT's configuration: the ε of its norms
# is 10⁻¹², not 10⁻⁵.
# %% id=w07c-bert-run
labkit.manual_seed(0)
config = models.BertConfig(50, 12, 2, 3, 24, 16)
bert = models.Bert(config).eval()
state = {name: torch.from_numpy(value.detach().numpy().copy()) for name, value in bert.state_dict().items()}
tokens = torch.randint(1, 50, (2, 7), generator=torch.Generator().manual_seed(2))
real = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])  # 1 is a token, 0 is padding
hidden = bert(labkit.from_numpy(tokens.numpy()), labkit.from_numpy(real.numpy()))[0]
hidden = torch.from_numpy(hidden.detach().numpy().copy())

embedding = state["embeddings.word_embeddings.weight"][tokens]
embedding = embedding + state["embeddings.token_type_embeddings.weight"][0]
embedding = embedding + state["embeddings.position_embeddings.weight"][:7]
norm = [state[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias")]
ours = theirs = F.layer_norm(embedding, (12,), *norm, eps=1e-12)
with torch.no_grad():
    for number in range(2):
        weights = bert_layer(state, number, BERT_NAMES)
        block = parts.Block(12, 3, 24, norm_first=False)
        block.norm1.eps = block.norm2.eps = 1e-12
        block.load_state_dict(weights)
        ours = block(ours, real.bool()[:, None, None, :])  # yours: True may look
        layer = nn.TransformerEncoderLayer(12, 3, 24, 0.0, "gelu", 1e-12, batch_first=True)
        layer.load_state_dict(weights)
        theirs = layer(theirs, src_key_padding_mask=~real.bool())  # torch's: True may not
tokens_only = real.bool()
print("your blocks equal labkit's BERT:", torch.allclose(ours[tokens_only], hidden[tokens_only], atol=1e-4))
print("torch's layers equal it:", torch.allclose(theirs[tokens_only], hidden[tokens_only], atol=1e-4))
# %% [markdown] id=w07c-built
# ## What you know now
#
# - In `F.scaled_dot_product_attention` True may look; in the layers True may not; a float mask is added. `is_causal`
#   starts at the first key.
# - `batch_first=False` is the default. Forgetting it mixes sentences, without an error.
# - A checkpoint is names and shapes. A shape that fits proves nothing: compare outputs.
# - GPT-2's Conv1D weights are (in, out). BERT keeps queries, keys and values apart.
# - GPT-2, BERT and torch's layers are your block, with the norm first or last, one GELU or the other.
#
# The question people ask next: *how do I get the real weights?* From a model hub, with a library such as transformers;
# `from_gpt2` then takes its `state_dict()` as it is. The file on the hub itself leaves out `transformer.` in front of
# the names, and brings along `attn.bias`, which is no bias but the causal mask, stored.
#
# **Further reading.** torch's source: `torch/nn/modules/transformer.py`, `torch/nn/modules/activation.py` (look for
# `MultiheadAttention`) · T. Dao et al., [FlashAttention](https://arxiv.org/abs/2205.14135), the tiles · J. Devlin et
# al., [BERT](https://arxiv.org/abs/1810.04805) · the transformers library, `models/gpt2/modeling_gpt2.py`, for the
# names.
# %% [markdown] id=w07c-instructor role=instructor
# **Goals.** Learners can say for each of torch's masks what True means, read a state dict they have never seen, and
# carry weights between two layouts with proof that it worked.
#
# **50 minutes.** 5 the surprise, by show of hands · 10 exercise {w07.masks} in pairs, the documentation open · 10
# exercise {w07.conv1d}; let them find it by comparing outputs, not by reading · 15 exercise {w07.from_gpt2} · 10
# exercise {w07.bert_layer}, or for home.
#
# **Misconceptions.** "True means keep everywhere" (1). "is_causal works with a cache" (1, and the surprise). "If it
# loads, it is right" (2, 3). "All matrices are stored alike" (3: the tables are turned). "Query, key, value is the
# alphabet's order" (4).
#
# **To think about aloud.** Why did GPT-2 store weights as (in, out)? Its first code computed x @ W, and a checkpoint
# outlives the code. How would you find the mistake in exercise {w07.conv1d} with hooks, as in week 5? The first part
# that differs is the first `c_proj`. Why may the outputs at padded positions differ? They attend to real tokens, but
# nobody reads them; how they are treated is a detail of each implementation.
