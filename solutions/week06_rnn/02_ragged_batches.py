# %% [markdown] id=w06b-title
# # Week 6 · 02 Ragged batches
#
# In about 80 minutes you will learn to put sequences of unequal length into one batch, in three ways: padded and
# masked, packed, and sorted into buckets. At the end your LSTM, trained on nine thousand surnames, writes names that
# nobody has, and predicts names it has not seen better than a tuned trigram does.
# %% id=w06b-setup role=setup
import math
import random
from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F
from tqdm import tqdm

import labkit
from labkit import check, datasets, viz

torch.set_num_threads(1)  # small steps: more threads would cost more than they bring

# %% [markdown] id=w06b-surprise
# ## A surprise first
#
# A network reads a name and ends in a state that should describe it. Here your `lstm` from notebook 01 reads the name
# *li* three times: alone, in a batch with *ito*, in a batch with *virtanen*. Same letters, same weights. Will it be the
# same state three times?
# %% id=w06b-surprise-code
cells = labkit.mine.of("rnn_and_lstm")  # your answers, or the reference where one is still open
LETTERS = "abcdefghijklmnopqrstuvwxyz"
source = torch.Generator().manual_seed(0)
weights = tuple(torch.randn(*shape, generator=source) for shape in [(24, 27), (24, 6), (24,), (24,)])


def one_hot(names: list[str]) -> torch.Tensor:
    """Names as a padded batch of one-hot vectors, (T, N, 27); number 26 stands for padding."""
    table = torch.full((max(map(len, names)), len(names)), 26)
    for column, name in enumerate(names):
        table[: len(name), column] = torch.tensor([LETTERS.index(letter) for letter in name])
    return F.one_hot(table, 27).float()


zeros = torch.zeros(2, 6)
alone = cells.lstm(one_hot(["li"]), (zeros[:1], zeros[:1]), weights)[0][-1, 0]
for other in ("ito", "virtanen"):
    outputs, _ = cells.lstm(one_hot(["li", other]), (zeros, zeros), weights)
    print(f"li beside {other:9} same state at the end: {torch.allclose(outputs[-1, 0], alone)!s:6}", end="")
    print("same at its own last step:", torch.allclose(outputs[1, 0], alone))
# %% [markdown] id=w06b-picture-md
# The batch is a table, and a table has one length. The rest of a row is *padding*, and a network that reads on reads
# padding: the state of *li* depends on its neighbor. No error, no warning, only a model that is worse than it should
# be.
# %% id=w06b-picture
viz.padded_batch(["li", "virtanen", "smith", "ito"], title="four names, one table")


# %% [markdown] id=w06b-last-md
# ## Exercise
#
# Keep the lengths beside the table, and read each sequence where *it* ends. `outputs` is (T, N, H), time first as in
# notebook 01, whatever stands in the padding. Return the output of every sequence at its last real step, (N, H).
#
# Indexing with two lists of positions takes them in pairs: `x[[4, 0], [0, 1]]` is `x[4, 0]` and `x[0, 1]`.
#
# ```
# outputs of two sequences, H = 1:   step 0: 5, 7   step 1: 6, 9   lengths 2, 1  ->  6, 7
# ```
# %% id=w06b-last role=exercise ex=w06.last_state
def last_real(outputs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """(T, N, H), lengths (N,) of int64 -> the output at the last real step of each sequence (N, H)"""
    ### BEGIN SOLUTION
    return outputs[lengths - 1, torch.arange(len(lengths))]
    ### END SOLUTION


# %% id=w06b-last-check role=check ex=w06.last_state
check("w06.last_state", last_real)


# %% [markdown] id=w06b-loss-md
# ## Exercise
#
# A model that writes predicts the next letter at every step, so its loss is a cross-entropy at every step: of every
# *real* step. A *mask* of (T, N) says which they are: `torch.arange(T)[:, None] < lengths` compares every step with
# every length, by broadcasting.
#
# `F.cross_entropy(logits, targets)` takes one row of V logits and one target per example, and averages. Return the mean
# over the real steps of the whole batch. What stands in the padding must not matter at all, not even if it is infinite.
#
# ```
# losses of two sequences:  step 0: 1, 4  step 1: 3, (9)  lengths 2, 1  ->  (1 + 4 + 3) / 3
# ```
# %% id=w06b-loss role=exercise ex=w06.masked_loss
def masked_loss(logits: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """logits (T, N, V), targets (T, N) of int64, lengths (N,) -> the mean cross-entropy of the real steps ()"""
    ### BEGIN SOLUTION
    real = torch.arange(len(logits))[:, None] < lengths
    return F.cross_entropy(logits[real], targets[real])
    ### END SOLUTION


# %% id=w06b-loss-check role=check ex=w06.masked_loss
check("w06.masked_loss", masked_loss)


# %% [markdown] id=w06b-pack-md
# ## Exercise
#
# Masks make padding harmless; it is still computed. *Packing* leaves it out. Sort the sequences, longest first. Then at
# step t the ones that are still running are the first few columns, and the real cells of the table, taken *step after
# step*, make one list without gaps:
#
# ```
# lengths 3, 1, 2     sorted 3, 2, 1:   a a a     data: a c b | a c | a
#                                       c c .     batch sizes: 3, 2, 1
#                                       b . .
# ```
#
# Return four things, as torch does: the data (real steps, I); how many sequences run at each step (T,); the order in
# which the sequences were sorted, for the example 0, 2, 1; and the order that brings them back, so that
# `unsorted[sorted[k]] == k`. The argsort of a permutation is its inverse. All lengths are different here; equal ones
# may go in either order.
# %% id=w06b-pack role=exercise ex=w06.pack
def pack(
    x: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(T, N, I), lengths (N,) in any order -> data (real steps, I), batch_sizes (T,), sorted and unsorted indices (N,)"""
    ### BEGIN SOLUTION
    order = torch.argsort(lengths, descending=True)
    real = torch.arange(len(x))[:, None] < lengths[order]  # (T, N)
    return x[:, order][real], real.sum(1), order, torch.argsort(order)
    ### END SOLUTION


# %% id=w06b-pack-check role=check ex=w06.pack
check("w06.pack", pack)


# %% [markdown] id=w06b-run-md
# ## Exercise
#
# A cell does not care how many sequences it gets. At step t give it `batch_sizes[t]` rows: of the data the next ones,
# of the state the *first* ones. A sequence that has ended keeps its state, which is then the state of its last real
# step.
#
# `cell(x, h)` is any cell with one state, (n, I) and (n, H) to (n, H). Return all outputs in the layout of the data,
# and the last state of every sequence (N, H), all in sorted order. `data.split([3, 2, 1])` cuts the rows into pieces.
#
# ```
# batch sizes 3, 2, 1, data a c b a c a:
#   step 0  rows a c b, states 0 1 2
#   step 1  rows a c,   states 0 1      state 2 stays: it is b's last
#   step 2  row  a,     state  0        state 1 stays: it is c's last
# ```
# %% id=w06b-run role=exercise ex=w06.packed_run
def packed_run(
    cell: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    h: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """data (real steps, I), batch_sizes (T,), h (N, H) -> outputs (real steps, H), the last states (N, H)"""
    ### BEGIN SOLUTION
    outputs = []
    for x in data.split(batch_sizes.tolist()):
        new = cell(x, h[: len(x)])
        outputs.append(new)
        h = torch.cat([new, h[len(x) :]])
    return torch.cat(outputs), h
    ### END SOLUTION


# %% id=w06b-run-check role=check ex=w06.packed_run
check("w06.packed_run", packed_run)


# %% [markdown] id=w06b-unpack-md
# ## Exercise
#
# Outside, nobody wants to know about sorting. Put the data back into a table of (T, N, H), zeros where there is
# padding, and bring the sequences back into the order in which they came. Return the table and the lengths, both in
# that order.
#
# Sorted, the real cells of step t are the first `batch_sizes[t]` columns: a mask again. `x[mask] = data` fills the
# cells where the mask is True, row by row.
#
# ```
# data a c b a c a, batch sizes 3, 2, 1, unsorted 0, 2, 1:   a a a     lengths 3, 1, 2
#                                                            b 0 0
#                                                            c c 0
# ```
# %% id=w06b-unpack role=exercise ex=w06.unpack
def unpack(
    data: torch.Tensor, batch_sizes: torch.Tensor, unsorted_indices: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """data (real steps, H), batch_sizes (T,), unsorted_indices (N,) -> padded (T, N, H), lengths (N,)"""
    ### BEGIN SOLUTION
    real = torch.arange(int(batch_sizes[0])) < batch_sizes[:, None]  # (T, N), longest first
    padded = data.new_zeros(*real.shape, data.shape[1])
    padded[real] = data
    return padded[:, unsorted_indices], real.sum(0)[unsorted_indices]
    ### END SOLUTION


# %% id=w06b-unpack-check role=check ex=w06.unpack
check("w06.unpack", unpack)
# %% [markdown] id=w06b-all-md
# All three together, with your GRU cell, against torch's packed `nn.GRU`. The lengths are not sorted, the first state
# is not zero.
# %% id=w06b-all
torch.manual_seed(0)
layer = torch.nn.GRU(3, 5)
x, lengths, start = torch.randn(6, 4, 3), torch.tensor([2, 6, 3, 5]), torch.randn(4, 5)
gru_weights = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
data, batch_sizes, order, back = pack(x, lengths)
outputs, last = packed_run(lambda x, h: cells.gru_cell(x, h, *gru_weights), data, batch_sizes, start[order])
mine, mine_last = unpack(outputs, batch_sizes, back)[0], last[back]
packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
theirs, theirs_last = layer(packed, start[None])
theirs = torch.nn.utils.rnn.pad_packed_sequence(theirs)[0]
print(
    "outputs equal:",
    torch.allclose(mine, theirs, atol=1e-6),
    "| last states equal:",
    torch.allclose(mine_last, theirs_last[0], atol=1e-6),
)
print("steps computed:", len(data), "| in the table:", x.shape[0] * x.shape[1])


# %% [markdown] id=w06b-buckets-md
# ## Exercise
#
# The cheapest way to have little padding is to put sequences of similar length into one batch. Sort all positions by
# length, shortest first, equal lengths in the order of the data, and cut them into batches; the last may be smaller.
#
# ```
# lengths [5, 2, 9, 4], batch_size 2  ->  [[1, 3], [0, 2]]
# ```
# %% id=w06b-buckets role=exercise ex=w06.buckets
def buckets(lengths: list[int], batch_size: int) -> list[list[int]]:
    """Positions in batches of similar length, shortest first."""
    ### BEGIN SOLUTION
    order = sorted(range(len(lengths)), key=lambda n: lengths[n])
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    ### END SOLUTION


# %% id=w06b-buckets-check role=check ex=w06.buckets
check("w06.buckets", buckets)


# %% [markdown] id=w06b-waste-md
# How much of the work is padding, for all surnames of the data set in batches of 32? First in random order, then with
# your buckets.
# %% id=w06b-waste
def padding_share(batches: list[list[int]], lengths: list[int]) -> float:
    """The share of the cells of all tables that is padding."""
    cells = sum(len(batch) * max(lengths[n] for n in batch) for batch in batches)
    return 1 - sum(lengths) / cells


every = [name for names in datasets.names().values() for name in names]
sizes = [len(name) for name in every]
shuffled = random.Random(0).sample(range(len(every)), len(every))
mixed = [shuffled[start : start + 32] for start in range(0, len(shuffled), 32)]
print(f"random order: {padding_share(mixed, sizes):.0%} padding")
print(f"buckets:      {padding_share(buckets(sizes, 32), sizes):.0%} padding")


# %% [markdown] id=w06b-names-md
# ## Milestone: new names
#
# Surnames of thirteen languages, up to 14 letters, in small letters: 1,000 for the test, 1,000 to tune on, the others
# to learn from. Number 0 stands for the end of a name, and for its beginning. A model that writes reads 0 and a name,
# and predicts the name and 0: input and target are the same row, one step apart.
# %% id=w06b-names
names = sorted({name.lower() for name in every if len(name) <= 14})
random.Random(0).shuffle(names)
letters = sorted(set("".join(names)))
number = {letter: i for i, letter in enumerate(letters, 1)}
rows = [[0, *(number[letter] for letter in name), 0] for name in names]
test, valid, learn = rows[:1000], rows[1000:2000], rows[2000:]
VOCABULARY = len(letters) + 1
print(f"{len(learn):,} names to learn from, {VOCABULARY} symbols; the first:", ", ".join(names[2000:2005]))


# %% [markdown] id=w06b-trigram-md
# **The baseline.** Count which letter follows which two. Many pairs are rare, so the counts are mixed with what follows
# the last letter alone, and that with how frequent a letter is: the rarer a context, and the more different letters
# have followed it, the more its shorter version counts (Witten and Bell's rule). Two factors, `k2` and `k3`, say how
# much; they are tuned on the 1,000 names set aside for that. A trigram made with this care is hard to beat with nine
# thousand names.
#
# The measure is the mean loss per letter, end included, in nats: the lower, the better the next letter was foreseen.
# %% id=w06b-trigram
one, two, three = Counter(), Counter(), Counter()  # how often: a letter, a pair, a triple
for row in learn:
    for a, b, c in zip([0, *row], row, row[1:], strict=False):
        one.update([c])
        two.update([(b, c)])
        three.update([(a, b, c)])
seen2, seen3 = Counter(), Counter()  # of each context: how often it was seen
kinds2, kinds3 = Counter(), Counter()  # and how many different letters followed it
for (b, _), count in two.items():
    seen2[b] += count
    kinds2[b] += 1
for (a, b, _), count in three.items():
    seen3[a, b] += count
    kinds3[a, b] += 1
total = sum(one.values())


def mixed(count: int, seen: int, weight: float, shorter: float) -> float:
    """The chance of a letter after a context, mixed with its chance after the shorter context."""
    return (count + weight * shorter) / (seen + weight) if seen else shorter


def trigram_loss(rows: list[list[int]], k2: float, k3: float) -> float:
    """The mean loss per letter of names under the interpolated trigram."""
    losses = []
    for row in rows:
        for a, b, c in zip([0, *row], row, row[1:], strict=False):
            p = (one[c] + 1) / (total + VOCABULARY)
            p = mixed(two[b, c], seen2[b], k2 * kinds2[b], p)
            p = mixed(three[a, b, c], seen3[a, b], k3 * kinds3[a, b], p)
            losses.append(-math.log(p))
    return sum(losses) / len(losses)


choices = [(k2, k3) for k2 in (2, 4, 8, 16, 32) for k3 in (0.5, 1, 2, 4)]
k2, k3 = min(choices, key=lambda pair: trigram_loss(valid, *pair))
baseline = trigram_loss(test, k2, k3)
print(f"tuned: k2 = {k2}, k3 = {k3} | loss of the trigram on the test names: {baseline:.2f} nats per letter")


# %% [markdown] id=w06b-model-md
# **The model** is your LSTM cell between an *embedding*, a table with one learned row of 24 numbers per symbol, and a
# linear layer. Five seeds side by side with `torch.vmap`, as in notebook 01: every weight has an axis of seeds in
# front, and every network its own names in its own order. The loss is your `masked_loss`. It takes about half a minute.
# %% id=w06b-model
SEEDS, HIDDEN, EMBEDDED = 5, 64, 24


def table(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """A padded batch (16, N), and how many steps of each row are to be predicted (N,)"""
    padded = torch.zeros(16, len(rows), dtype=torch.int64)
    for column, row in enumerate(rows):
        padded[: len(row), column] = torch.tensor(row)
    return padded, torch.tensor([len(row) - 1 for row in rows])


def logits_of(
    letters: torch.Tensor, embedding: torch.Tensor, w: torch.Tensor, b: torch.Tensor, *weights: torch.Tensor
) -> torch.Tensor:
    """What comes next, at every step: letters (T, N) -> logits (T, N, V)"""
    x = F.embedding(letters, embedding)  # (T, N, 24)
    h = x.new_zeros(x.shape[1], HIDDEN)
    c, outputs = h, []
    for step in x:
        h, c = cells.lstm_cell(step, h, c, *weights)
        outputs.append(h)
    return torch.stack(outputs) @ w.T + b


# %% id=w06b-train
STEPS = 450
source = torch.Generator().manual_seed(0)
gates, bound = 4 * HIDDEN, 1 / math.sqrt(HIDDEN)
shapes = [(VOCABULARY, HIDDEN), (VOCABULARY,), (gates, EMBEDDED), (gates, HIDDEN), (gates,), (gates,)]
parameters = [torch.randn(SEEDS, VOCABULARY, EMBEDDED, generator=source, dtype=torch.float64) / 2]
parameters += [
    bound * (2 * torch.rand(SEEDS, *shape, generator=source, dtype=torch.float64) - 1) for shape in shapes
]
parameters[5][:, HIDDEN : 2 * HIDDEN] += 1  # forget gates open, to begin with
parameters = [p.requires_grad_() for p in parameters]
optimizer = torch.optim.AdamW(parameters, lr=0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=STEPS)
padded, steps = table(learn)
for _ in tqdm(range(STEPS), desc="five networks"):
    chosen = torch.randint(len(learn), (SEEDS, 64), generator=source)
    lengths = steps[chosen]  # (SEEDS, 64)
    batch = padded[: lengths.max() + 1, chosen].transpose(0, 1)  # (SEEDS, T + 1, 64)
    logits = torch.vmap(logits_of)(batch[:, :-1], *parameters)  # (SEEDS, T, 64, V)
    losses = [masked_loss(*each) for each in zip(logits, batch[:, 1:], lengths, strict=True)]
    optimizer.zero_grad()
    sum(losses).backward()
    optimizer.step()
    schedule.step()
# %% id=w06b-milestone
with torch.no_grad():
    padded, steps = table(test)
    held_out = [
        masked_loss(logits_of(padded[:-1], *[p[seed] for p in parameters]), padded[1:], steps).item()
        for seed in range(SEEDS)
    ]
print("seed   your LSTM beats the trigram on names that neither has seen")
for seed, loss in enumerate(held_out):
    print(f"{seed:4}   {'yes' if loss < baseline else 'no'}")
print("in at least 4 of 5 seeds:", sum(loss < baseline for loss in held_out) >= 4)


# %% [markdown] id=w06b-write-md
# And now it writes: start with 0, draw a letter from the probabilities it gives, read that letter, draw the next, until
# it draws 0. Dividing the logits by a *temperature* below 1 makes likely letters likelier still.
# %% id=w06b-write
def write(seed: int, source: torch.Generator, temperature: float = 0.8) -> str:
    """One name, letter by letter, from the network of one seed."""
    embedding, w, b, *weights = (p[seed].detach() for p in parameters)
    h = c = torch.zeros(1, HIDDEN, dtype=torch.float64)
    letter, name = 0, ""
    while len(name) < 20:
        h, c = cells.lstm_cell(embedding[[letter]], h, c, *weights)
        chances = ((h @ w.T + b) / temperature).softmax(-1)
        letter = int(torch.multinomial(chances[0], 1, generator=source))
        if letter == 0:
            break
        name += letters[letter - 1]
    return name


source = torch.Generator().manual_seed(7)
written = [write(seed, source) for seed in range(SEEDS) for _ in range(40)]
new = [name for name in written if name not in names]
print(f"of {len(written)} names, more than half are in no list:", len(new) > len(written) / 2)
print("nearly all of them differ:", len(set(written)) > 0.9 * len(written))
# %% [markdown] id=w06b-written-md
# Twenty of the new ones. They depend on the last bits of the arithmetic, so yours will read differently.
# %% id=w06b-written tags=nbval-ignore-output
for start in range(0, 20, 5):
    print("  ".join(f"{name.title():14}" for name in new[start : start + 5]).rstrip())
# %% [markdown] id=w06b-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | `pack`, `unpack` | [`pack_padded_sequence`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.pack_padded_sequence.html) with `enforce_sorted=False`, [`pad_packed_sequence`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.pad_packed_sequence.html) |
# | the four things that `pack` returns | [`PackedSequence`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.PackedSequence.html) |
# | `packed_run` | any of `nn.RNN`, `nn.LSTM`, `nn.GRU`, given a `PackedSequence` |
# | `masked_loss` | `F.cross_entropy(..., ignore_index=)`, if the padding has a number of its own in the targets |
# | `buckets` | a sampler of your own, as `batch_sampler` of a [`DataLoader`](https://docs.pytorch.org/docs/2.13/data.html) |
#
# In torch's source: `torch/nn/utils/rnn.py`, which is short and good to read, and
# `aten/src/ATen/native/PackedSequence.cpp`. `PackedLayer` in `aten/src/ATen/native/RNN.cpp` is your exercise
# {w06.packed_run}.
# %% [markdown] id=w06b-built
# ## What you built
#
# - Padding is read by whoever reads to the end of the table. Take the last *real* step, and average over *real* steps.
# - A mask is one comparison: `arange(T)[:, None] < lengths`. Choose with it; multiplying by 0 does not remove an
#   infinity.
# - Packed is step after step, longest first, with the number of running sequences at each step; the order is remembered
#   and undone.
# - Buckets save most of the padding before any of this is needed.
# - An LSTM of yours foresees letters better than a well-made trigram, because it remembers more than two of them.
#
# The question people ask next: *do I have to do all that by hand?* No. The next notebook does it with torch's own
# layers, in ten lines.
#
# **Further reading.** I. Witten, T. Bell, The zero-frequency problem (1991), on mixing contexts · S. Chen, J. Goodman,
# [An empirical study of smoothing techniques for language modeling](https://arxiv.org/abs/cmp-lg/9606011) · A.
# Karpathy, [The unreasonable effectiveness of recurrent neural
# networks](https://karpathy.github.io/2015/05/21/rnn-effectiveness/) · torch's own tutorial [NLP from scratch:
# generating names](https://docs.pytorch.org/tutorials/intermediate/char_rnn_generation_tutorial.html).
# %% [markdown] id=w06b-instructor role=instructor
# **Goals.** Learners can find out whether a model reads padding, write a mask without looking it up, explain the layout
# of a packed batch with three names on paper, and set up an honest baseline.
#
# **50 minutes.** 5 the surprise · 10 exercises {w06.last_state} and {w06.masked_loss} · 20 exercises {w06.pack} and
# {w06.packed_run} in pairs, with three names on squared paper, one letter per square · 5 exercise {w06.buckets} · 10
# the milestone; let the class vote which of the printed names is real before telling that none is. Exercise
# {w06.unpack} is for home.
#
# **Misconceptions.** "Padding with zeros is harmless" (1: the biases are still added, the state moves). "ignore_index=0
# masks the padding" (2: and every real 0 as well). "The mean of means is the mean" (2). "Packed is one sequence after
# the other" (3). "The inverse of an order is the order backward" (3, 5). "The last output is the last state" (4).
#
# **To think about aloud.** Why is the sort undone before anybody sees it? Because labels, names and weights of examples
# are in the order of the batch. Why does a trigram do so well? Two letters tell much of the next; the LSTM gains where
# the language of the name shows early. Is a lower loss a better name? Ask which temperature the class likes best, and
# what its loss would be.
