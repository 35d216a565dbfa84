# %% [markdown] id=w06c-title
# # Week 6 · 03 In PyTorch
#
# In about 45 minutes you will know torch's recurrent layers: which shape everything has, where the weights are, how
# packed sequences go in and out, what an embedding is, and where a gradient is clipped. At the end a model reads a
# surname and names its language.
# %% id=w06c-setup role=setup
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence, pad_sequence
from tqdm import tqdm

import labkit
from labkit import check, datasets, viz

torch.set_num_threads(1)  # small steps: more threads would cost more than they bring

# %% [markdown] id=w06c-surprise
# ## A surprise first
#
# Two ways to get "the last output" of a bidirectional LSTM: the last row of the outputs, and the last states. For a
# layer in one direction they are the same thing. And for two directions? Decide, then run it.
# %% id=w06c-surprise-code
torch.manual_seed(0)
for directions in (1, 2):
    layer = nn.LSTM(3, 4, bidirectional=directions == 2)
    outputs, (h, c) = layer(torch.randn(6, 2, 3))  # (T, N, 4 * directions), (directions, N, 4)
    row, states = outputs[-1], torch.cat([*h], -1)
    same = [torch.equal(a, b) for a, b in zip(row.split(4, -1), states.split(4, -1), strict=True)]
    print(f"{directions} direction{'s'[: directions - 1]}: last row equals last states:", same)
# %% [markdown] id=w06c-surprise-after
# The way back ends at step 0. In the last row it has read one single step, and a model that uses that row throws half
# of its reading away without noticing.
#
# ## The layer
#
# [`nn.LSTM`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.LSTM.html),
# [`nn.GRU`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.GRU.html) and
# [`nn.RNN`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.RNN.html) take the same arguments:
#
# | argument | meaning |
# |---|---|
# | `LSTM(10, 20)` | size of an input, size of the state |
# | `num_layers=2` | your `lstm_stack`; `dropout=0.2` acts between the layers, not inside |
# | `bidirectional=True` | your `bidirectional`, in every layer |
# | `batch_first=True` | inputs and outputs are (N, T, ...); states stay as they are |
#
# The weights are called `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, the next layer's `..._l1`, and
# those of the way back `..._l0_reverse`. They have the order of gates that you know, so they go into your functions as
# they are:
# %% id=w06c-layer
cells = labkit.mine.of("rnn_and_lstm")  # your answers, or the reference where one is still open
torch.manual_seed(0)
layer = nn.LSTM(3, 5, bidirectional=True).double()
print(", ".join(name for name, _ in layer.named_parameters()))
names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
forward, backward = (tuple(getattr(layer, name + end) for name in names) for end in ("", "_reverse"))
x, zeros = torch.randn(6, 4, 3, dtype=torch.float64), torch.zeros(2, 4, 5, dtype=torch.float64)
theirs, (their_h, their_c) = layer(x)
mine, (my_h, my_c) = cells.bidirectional(x, (zeros, zeros), forward, backward)
print("your bidirectional layer gives the same:", torch.allclose(mine, theirs), torch.allclose(my_h, their_h))
# %% [markdown] id=w06c-shapes-md
# ## Exercise
#
# Predict, without running anything, and set `sure` to how many of the nine you expect to have right. x is (7, 3, 10),
# seven steps of three sequences; where it says *batch first* it is (3, 7, 10) and the layer has `batch_first=True`.
# Shapes are tuples, i is a number.
#
# | | |
# |---|---|
# {questions}
# %% id=w06c-shapes role=exercise ex=w06.shapes
### BEGIN SOLUTION
prediction = {
    "a": (7, 3, 20),
    "b": (1, 3, 20),
    "c": (3, 7, 20),
    "d": (1, 3, 20),
    "e": (7, 3, 40),
    "f": (4, 3, 20),
    "g": (80, 10),
    "h": (80, 40),
    "i": 3 * 20 * (10 + 20 + 1 + 1),
}
sure = 7
### STUB
# prediction = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ..., "g": ..., "h": ..., "i": ...}
# sure = ...
### END SOLUTION
# %% id=w06c-shapes-check role=check ex=w06.shapes
check("w06.shapes", prediction, sure=sure)
# %% [markdown] id=w06c-packed-md
# ## Packed, by torch
#
# The four tensors that your `pack` returned are a `PackedSequence`. A recurrent layer that gets one returns one, with
# the same order; the last states come back in the order of the batch, as if nothing had been sorted. With
# `enforce_sorted=True`, which is what you get if you say nothing, torch refuses lengths that do not fall. It is meant
# for export to other systems; say `enforce_sorted=False`.
# %% id=w06c-packed
x, lengths = torch.arange(12.0).reshape(4, 3, 1), torch.tensor([1, 4, 2])  # (T, N, 1)
packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
print("data:       ", packed.data.flatten().int().tolist())
print("batch sizes:", packed.batch_sizes.tolist(), "| order:", packed.sorted_indices.tolist())
torch.manual_seed(0)
outputs, h = nn.GRU(1, 2)(packed)
print("a PackedSequence comes back:", isinstance(outputs, PackedSequence), "| h_n:", tuple(h.shape))
padded, lengths_again = pad_packed_sequence(outputs)
print("padded again:", tuple(padded.shape), "| lengths:", lengths_again.tolist())
try:
    pack_padded_sequence(x, lengths)
except RuntimeError as error:
    print("RuntimeError:", str(error).split(".")[0])
# %% [markdown] id=w06c-embedding-md
# ## Embeddings
#
# A letter is a number, and the number means nothing: b is not twice a. [`nn.Embedding(V,
# E)`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Embedding.html) is a table with a row of E learned numbers
# for each of V symbols, and reading row 7 is the same as multiplying a one-hot vector with the table, without the
# zeros. `padding_idx=0` makes row 0 zero and keeps it so: its gradient is left out.
# %% id=w06c-embedding
torch.manual_seed(0)
embedding = nn.Embedding(6, 4, padding_idx=0)
letters = torch.tensor([[3, 1, 5], [2, 0, 0]])
read = embedding(letters)  # (2, 3, 4)
print("one-hot times table:", torch.equal(read, F.one_hot(letters, 6).float() @ embedding.weight))
read.sum().backward()
print("rows with a gradient:", embedding.weight.grad.abs().sum(1).nonzero().flatten().tolist())


# %% [markdown] id=w06c-classifier-md
# ## Exercise
#
# Put it together: letters in, one score per language out. The parts are made in `__init__`; write `forward`. Embed the
# letters, (N, T) to (N, T, E); pack them (the table is batch first, the lengths are in no order); let the LSTM read;
# join the last states of both directions, forward first; and give them to the linear layer.
#
# It is checked with unsorted names, each of which must get the answer that it would get alone.
# %% id=w06c-classifier role=exercise ex=w06.classifier
class NameClassifier(nn.Module):
    """Letters (N, T) padded with 0, and lengths (N,) -> one score per class (N, classes)"""

    def __init__(self, vocabulary: int, embedded: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedded, padding_idx=0)
        self.lstm = nn.LSTM(embedded, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, classes)

    def forward(self, letters: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        x = self.embedding(letters)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.fc(torch.cat([h[0], h[1]], -1))
        ### END SOLUTION


# %% id=w06c-classifier-check role=check ex=w06.classifier
check("w06.classifier", NameClassifier)


# %% [markdown] id=w06c-train-md
# ## Train it, and clip
#
# Surnames of thirteen languages; a quarter of them for the test. Recurrent gradients now and then explode, so nearly
# every training loop with a recurrent layer has a line between `backward` and `step`: [`clip_grad_norm_(parameters,
# max_norm)`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.clip_grad_norm_.html), your `clip` of week 3.
# It returns the norm before clipping, which is worth a curve of its own. About fifteen seconds.
# %% id=w06c-train
languages = datasets.names()
pairs = [(name.lower(), kind) for kind, names in enumerate(languages.values()) for name in names]
random.Random(0).shuffle(pairs)
alphabet = sorted({letter for name, _ in pairs for letter in name})
rows = [torch.tensor([alphabet.index(letter) + 1 for letter in name]) for name, _ in pairs]
kinds = torch.tensor([kind for _, kind in pairs])
quarter = len(rows) // 4


def batch_of(numbers: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Letters (N, T), lengths (N,) and languages (N,) of some names"""
    chosen = [rows[n] for n in numbers]
    lengths = torch.tensor([len(row) for row in chosen])
    return pad_sequence(chosen, batch_first=True), lengths, kinds[numbers]


torch.manual_seed(0)
model = NameClassifier(
    len(alphabet) + 1, 16, 32, len(languages)
).double()  # float64: the same curve everywhere
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
norms = []
for _ in tqdm(range(300), desc="steps"):
    letters, lengths, truth = batch_of(torch.randint(quarter, len(rows), (64,)).tolist())
    optimizer.zero_grad()
    F.cross_entropy(model(letters, lengths), truth).backward()
    norms.append(clip_grad_norm_(model.parameters(), 1.0).item())
    optimizer.step()
with torch.no_grad():
    letters, lengths, truth = batch_of(list(range(quarter)))
    scores = model(letters, lengths)
right = (scores.argmax(1) == truth).double().mean().item()
commonest = truth.bincount().max().item() / len(truth)
print("the most common language has fewer than a quarter of the names:", commonest < 0.25)
print("right for more than 6 of 10 names that it has not seen:", right > 0.6)
viz.curves({"before clipping to 1": norms}, ylabel="gradient norm", title="what clip_grad_norm_ returns")
# %% [markdown] id=w06c-ask-md
# The norm never reached 1, so the line did nothing: an insurance, and cheap. In the clinic you will see a run that
# needed it.
#
# Ask it: five names that it has not read, all of one batch, of very different lengths.
# %% id=w06c-ask
asked = [next(n for n in range(quarter) if len(rows[n]) == length) for length in (4, 12, 7, 10, 5)]
letters, lengths, truth = batch_of(asked)
with torch.no_grad():
    together = model(letters, lengths).argmax(1)
    alone = torch.cat([model(rows[n][None], lengths[i : i + 1]).argmax(1) for i, n in enumerate(asked)])
print("asked one by one, the answers are the same:", torch.equal(together, alone))
# %% id=w06c-answers tags=nbval-ignore-output
for n, answer in zip(asked, together.tolist(), strict=True):
    print(f"{pairs[n][0].title():14} {list(languages)[answer]:12} (really {list(languages)[pairs[n][1]]})")
# %% [markdown] id=w06c-built
# ## What you know now
#
# - Outputs: time, batch, hidden times directions (or batch first). States: layers times directions, batch, hidden,
#   always.
# - `weight_ih_l0` has four blocks of rows in an LSTM, three in a GRU, in the order that you built; state dicts go over
#   as they are.
# - For a bidirectional layer, the last row of the outputs is not the last state.
# - `pack_padded_sequence(..., enforce_sorted=False)`, the layer, and `h_n`: that is all it takes to ignore padding.
# - `clip_grad_norm_` stands between `backward` and `step`, and what it returns is worth logging.
#
# The question people ask next: *why does nobody train big language models this way?* Because step t has to wait for
# step t − 1: a recurrent network cannot read a sentence in parallel. Week 7 builds the layer that can. First, the
# clinic.
#
# In torch's source: `torch/nn/modules/rnn.py` (look for `_flat_weights`), `torch/nn/utils/rnn.py`,
# `torch/nn/utils/clip_grad.py`.
#
# **Further reading.** torch's tutorial [NLP from scratch: classifying
# names](https://docs.pytorch.org/tutorials/intermediate/char_rnn_classification_tutorial.html), the same task one
# letter at a time · the [notes on cuDNN's
# reproducibility](https://docs.pytorch.org/docs/2.13/generated/torch.nn.LSTM.html) at the end of `nn.LSTM`'s page.
# %% [markdown] id=w06c-instructor role=instructor
# **Goals.** Learners can predict every shape that goes in and out of `nn.LSTM`, use packed sequences without a recipe,
# and know where clipping belongs.
#
# **50 minutes.** 5 the surprise by show of hands · 15 exercise {w06.shapes} alone, then in pairs; h and i last · 5
# packed, the printed data read against the table on the board · 15 exercise {w06.classifier} · 10 training and
# questions.
#
# **Misconceptions.** "batch_first changes the state" (1 d). "h_n has the outputs' width" (1 f). "The second layer reads
# x" (1 h). "outputs[:, -1] is the summary of the sequence" (2: not with padding, not with two directions).
# "enforce_sorted=True sorts for me" (2: it complains). "padding_idx makes the LSTM skip the padding" (it makes a row of
# zeros; the LSTM reads zeros).
#
# **To think about aloud.** Why does dropout act only between layers? Applied at every step to the state, it would erase
# the memory bit by bit. Why two biases, when one would do? Because cuDNN wants it so; their gradients are always equal.
# Which language is hardest to tell, and from which? Let somebody print the table of confusions.
