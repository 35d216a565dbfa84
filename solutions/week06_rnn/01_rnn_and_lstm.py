# %% [markdown] id=w06a-title
# # Week 6 · 01 RNN and LSTM
#
# In about 100 minutes you will build networks with a memory: the plain RNN, the LSTM and the GRU, in layers, in both
# directions, and trained on sequences without an end. At the end five LSTMs made of your cell remember two numbers over
# a hundred steps, and five plain RNNs forget them.
# %% id=w06a-setup role=setup
import math
from collections.abc import Callable

import torch
from tqdm import tqdm

import labkit
from labkit import check, viz

torch.set_num_threads(1)  # small steps: more threads would cost more than they bring
Weights = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # w_ih, w_hh, b_ih, b_hh
State = tuple[torch.Tensor, torch.Tensor]  # h, c

# %% [markdown] id=w06a-surprise
# ## A surprise first
#
# A vector of length 1 goes through the same matrix a hundred times. The three matrices are rotations, made a little
# shorter, left alone, or made a little longer: by 0.9, by 1 and by 1.1. How long is the vector after a hundred steps?
# Write down three guesses, then run the cell.
# %% id=w06a-surprise-code
rotation, _ = torch.linalg.qr(
    torch.randn(32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
)


def lengths(factor: float, steps: int = 100) -> list[float]:
    """The length of a vector before each step, and after the last."""
    vector = torch.ones(32, dtype=torch.float64) / math.sqrt(32)
    seen = [1.0]
    for _ in range(steps):
        vector = factor * rotation @ vector
        seen.append(round(vector.norm().item(), 12))
    return seen


viz.curves(
    {f"times {factor}": lengths(factor) for factor in (0.9, 1.0, 1.1)},
    log="y",
    ylabel="length",
    title="the same matrix, a hundred times",
)


# %% [markdown] id=w06a-surprise-after
# More than ten thousand times shorter, or longer, for a tenth less or more. A recurrent network uses one matrix at
# every step, and so does its gradient on the way back. Everything in this notebook is about living with that.
#
# ## A network with a memory
#
# A sentence, a melody, a temperature curve: sequences have no fixed length, and order matters. A *recurrent* network
# reads one step at a time and keeps a *state*, a vector h of H numbers. At each step it makes the new state from the
# input and the old state, with the same weights every time:
#
# $$h_t = \tanh(W_{ih}\, x_t + b_{ih} + W_{hh}\, h_{t-1} + b_{hh})$$
#
# ## Exercise
#
# Two linear layers, added, and a tanh. As in `nn.Linear`, a weight has shape (out, in). `x` holds one step of N
# sequences.
#
# ```
# x = [[1.]], h = [[2.]], w_ih = [[0.5]], w_hh = [[0.25]], b_ih = [0.], b_hh = [0.]
# -> tanh(0.5 + 0.5) = 0.7616
# ```
# %% id=w06a-rnn-cell role=exercise ex=w06.rnn_cell
def rnn_cell(
    x: torch.Tensor,
    h: torch.Tensor,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor,
    b_hh: torch.Tensor,
) -> torch.Tensor:
    """x (N, I), h (N, H), w_ih (H, I), w_hh (H, H), both biases (H,) -> the new state (N, H)"""
    ### BEGIN SOLUTION
    return torch.tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)
    ### END SOLUTION


# %% id=w06a-rnn-cell-check role=check ex=w06.rnn_cell
check("w06.rnn_cell", rnn_cell)


# %% [markdown] id=w06a-rnn-md
# ## Exercise
#
# A layer takes whole sequences. torch's usual order is *time first*, x of (T, N, I): then `x[t]` is one step of all
# sequences, in one piece. Data often comes *batch first*, (N, T, I); layers have a flag for it. With `batch_first=True`
# the outputs come batch first as well. The state does not: it has no time axis, and is (N, H) in both cases.
#
# Return all states, which are the outputs, and the last one. `x.transpose(0, 1)` exchanges two axes.
#
# ```
# T = 2, N = 1, I = H = 1, all weights 1, biases 0, x = 1 then 0, h = 0:
# outputs  tanh(1) = 0.7616,  tanh(0.7616) = 0.6420;  last state 0.6420
# ```
# %% id=w06a-rnn role=exercise ex=w06.rnn
def rnn(
    x: torch.Tensor,
    h: torch.Tensor,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor,
    b_hh: torch.Tensor,
    batch_first: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """x (T, N, I), h (N, H) -> outputs (T, N, H), last state (N, H); with batch_first x and outputs are (N, T, ...)"""
    ### BEGIN SOLUTION
    states = []
    for step in x.transpose(0, 1) if batch_first else x:
        h = rnn_cell(step, h, w_ih, w_hh, b_ih, b_hh)
        states.append(h)
    return torch.stack(states, 1 if batch_first else 0), h
    ### END SOLUTION


# %% id=w06a-rnn-check role=check ex=w06.rnn
check("w06.rnn", rnn)
# %% [markdown] id=w06a-chain-md
# Unrolled over T steps, the graph is a chain T cells long. A backward pass that calls itself from node to node would
# run into Python's recursion limit of 1,000; in week 2 you sorted the nodes in a loop for this reason. labkit's engine
# does the same, and here are 5,000 steps:
# %% id=w06a-chain
turn = labkit.tensor([[0.8, -0.6], [0.6, 0.8]], requires_grad=True)  # a rotation
h = start = labkit.tensor([[1e-3, 0.0]], requires_grad=True)
for _ in range(5000):
    h = (h @ turn).tanh()
h.sum().backward()
print(
    "the gradient has come back through 5,000 steps:",
    bool((start.grad != 0).any() and (turn.grad != 0).all()),
)


# %% [markdown] id=w06a-vanish-md
# ## Exercise
#
# How much does the last state depend on the state k steps before it? `gradient_by_lag` runs your cell for 100 steps
# with a recurrent matrix that is a rotation times `radius`, sends a gradient of length 1 into the last state, and
# returns the length of the gradient that arrives k steps earlier, for every lag k.
# %% id=w06a-vanish-code
def gradient_by_lag(radius: float, steps: int = 100) -> list[float]:
    """Entry k: the norm of the gradient at the state k steps before the last."""
    random = torch.Generator().manual_seed(1)
    w_ih = torch.randn(32, 8, dtype=torch.float64, generator=random) / math.sqrt(8)
    none = torch.zeros(32, dtype=torch.float64)
    h = torch.zeros(1, 32, dtype=torch.float64, requires_grad=True)
    states = [h]
    for step in 0.15 * torch.randn(steps, 1, 8, dtype=torch.float64, generator=random):
        h = rnn_cell(step, h, w_ih, radius * rotation, none, none)
        h.retain_grad()  # keep the gradient of something that is not a leaf
        states.append(h)
    h.backward(torch.ones_like(h) / math.sqrt(32))
    return [state.grad.norm().item() for state in reversed(states)]


viz.curves(
    {f"radius {radius}": gradient_by_lag(radius) for radius in (0.8, 0.9, 1.0, 1.2)},
    log="y",
    xlabel="lag",
    ylabel="gradient norm",
    title="plain RNN: what comes back",
)
# %% [markdown] id=w06a-vanish-question
# Every step multiplies by the matrix, and by the slope of tanh, which is at most 1. For radius 0.9: what is the first
# lag at which less than a thousandth of the gradient of lag 0 is left? The curve says roughly where;
# `gradient_by_lag(0.9)` is the list of its values, entry k for lag k. Set `lag` to it, a whole number.
# %% id=w06a-vanish role=exercise ex=w06.vanish
### BEGIN SOLUTION
lag = 42  # norms = gradient_by_lag(0.9); next(k for k in range(101) if norms[k] < norms[0] / 1000)
### STUB
# lag = ...
### END SOLUTION
# %% id=w06a-vanish-check role=check ex=w06.vanish
check("w06.vanish", lag)


# %% [markdown] id=w06a-lstm-md
# ## Exercise
#
# The way out is a second state, the *cell* c, which no matrix touches. Three *gates*, numbers from 0 to 1 for each
# unit, decide what happens to it: how much is let in (i), how much is kept (f, the forget gate), how much is shown (o).
# The *candidate* g is what would be written.
#
# $$c_t = f \cdot c_{t-1} + i \cdot g \qquad h_t = o \cdot \tanh(c_t)$$
#
# All four come from one sum, as in the plain RNN, with weights of 4H rows: the blocks of H rows stand in the order **i,
# f, g, o**. This is torch's order; papers and other libraries have others. i, f and o go through a sigmoid, g through a
# tanh. `sums.chunk(4, -1)` cuts the last axis into four.
#
# ```
# N = H = 1, c = 2, the four sums are 0, 0, 1, 0:  i = f = o = 0.5, g = tanh(1) = 0.7616
# c = 0.5·2 + 0.5·0.7616 = 1.3808,  h = 0.5·tanh(1.3808) = 0.4406
# ```
# %% id=w06a-lstm role=exercise ex=w06.lstm_cell
def lstm_cell(
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor,
    b_hh: torch.Tensor,
) -> State:
    """x (N, I), h and c (N, H), w_ih (4 H, I), w_hh (4 H, H), both biases (4 H,) -> the new h and c (N, H)"""
    ### BEGIN SOLUTION
    sums = x @ w_ih.T + b_ih + h @ w_hh.T + b_hh
    i, f, g, o = sums.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c
    ### END SOLUTION


# %% id=w06a-lstm-check role=check ex=w06.lstm_cell
check("w06.lstm_cell", lstm_cell)


# %% [markdown] id=w06a-lstm-after
# Does the gradient travel further now? On its way back along c it is multiplied by f, once per step. So it depends on
# the forget gate, and the forget gate starts where its bias puts it. With a bias of 0 the gate is half open, and an
# LSTM forgets *faster* than the RNN above; with a bias of 4, a gate of 0.98, something is left after a hundred steps.
# The gate is learned, so what matters is that the network can keep, not that it always does.
# %% id=w06a-lstm-fig
def lstm_gradient_by_lag(forget_bias: float, steps: int = 100) -> list[float]:
    """Entry k: the norm of the gradient at the cell k steps before the last."""
    random = torch.Generator().manual_seed(1)
    w_ih, w_hh = (0.01 * torch.randn(128, n, dtype=torch.float64, generator=random) for n in (8, 32))
    bias = torch.zeros(128, dtype=torch.float64)
    bias[32:64] = forget_bias  # the second block is f
    h = torch.zeros(1, 32, dtype=torch.float64)
    c = torch.zeros(1, 32, dtype=torch.float64, requires_grad=True)
    states = [c]
    for step in 0.15 * torch.randn(steps, 1, 8, dtype=torch.float64, generator=random):
        h, c = lstm_cell(step, h, c, w_ih, w_hh, bias, 0 * bias)
        c.retain_grad()
        states.append(c)
    c.backward(torch.ones_like(c) / math.sqrt(32))
    return [state.grad.norm().item() for state in reversed(states)]


viz.curves(
    {
        "RNN, radius 0.9": gradient_by_lag(0.9),
        **{f"LSTM, forget bias {bias}": lstm_gradient_by_lag(bias) for bias in (0, 2, 4)},
    },
    log="y",
    xlabel="lag",
    ylabel="gradient norm",
    title="how far the past can teach",
)


# %% [markdown] id=w06a-gru-md
# ## Exercise
#
# The GRU has the same idea with one state and two gates: *reset* r and *update* z. The blocks of 3H rows stand in the
# order **r, z, n**:
#
# $$r = \sigma(x_r + h_r) \qquad z = \sigma(x_z + h_z) \qquad n = \tanh(x_n + r \cdot h_n) \qquad h_t = (1 - z) \cdot n + z \cdot h_{t-1}$$
#
# where $x_r, x_z, x_n$ are the three blocks of $W_{ih} x + b_{ih}$, and $h_r, h_z, h_n$ those of $W_{hh} h + b_{hh}$,
# *bias included*. Because r multiplies only $h_n$, the two sums have to be kept apart. Two places where papers and
# libraries disagree: here z keeps the *old* state, and r comes *after* the matrix product.
#
# ```
# N = H = 1, h = 2, blocks of x: 0, 0, 1, blocks of h: 0, 0, 4:
# r = z = 0.5, n = tanh(1 + 0.5·4) = 0.9951
# h = 0.5·0.9951 + 0.5·2 = 1.4975
# ```
# %% id=w06a-gru role=exercise ex=w06.gru_cell
def gru_cell(
    x: torch.Tensor,
    h: torch.Tensor,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor,
    b_hh: torch.Tensor,
) -> torch.Tensor:
    """x (N, I), h (N, H), w_ih (3 H, I), w_hh (3 H, H), both biases (3 H,) -> the new state (N, H)"""
    ### BEGIN SOLUTION
    x_r, x_z, x_n = (x @ w_ih.T + b_ih).chunk(3, -1)
    h_r, h_z, h_n = (h @ w_hh.T + b_hh).chunk(3, -1)
    r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
    n = (x_n + r * h_n).tanh()
    return (1 - z) * n + z * h
    ### END SOLUTION


# %% id=w06a-gru-check role=check ex=w06.gru_cell
check("w06.gru_cell", gru_cell)


# %% [markdown] id=w06a-stack-md
# ## Exercise
#
# The outputs of a layer are a sequence again, so another layer can read them. Each layer has weights of its own and a
# state of its own: `state` is (h, c), each (L, N, H), row l for layer l. `lstm` below is your exercise {w06.rnn} with
# your LSTM cell; it runs one layer. Return the top layer's outputs and the last states, stacked in the same way.
#
# ```
# two layers, x (7, 3, 10), H = 20:   layer 0 reads (7, 3, 10) from h[0], c[0]
#                                     layer 1 reads (7, 3, 20) from h[1], c[1]
# returned: layer 1's outputs (7, 3, 20), and the last h and c of both, (2, 3, 20) each
# ```
# %% id=w06a-stack role=exercise ex=w06.stack
def lstm(x: torch.Tensor, state: State, weights: Weights) -> tuple[torch.Tensor, State]:
    """One layer: x (T, N, I), h and c (N, H) -> outputs (T, N, H), the last h and c (N, H)"""
    h, c = state
    outputs = []
    for step in x:
        h, c = lstm_cell(step, h, c, *weights)
        outputs.append(h)
    return torch.stack(outputs), (h, c)


def lstm_stack(x: torch.Tensor, state: State, layers: list[Weights]) -> tuple[torch.Tensor, State]:
    """L layers: x (T, N, I), h and c (L, N, H) -> the top outputs (T, N, H), the last h and c (L, N, H)"""
    ### BEGIN SOLUTION
    last_h, last_c = [], []
    for first_h, first_c, weights in zip(*state, layers, strict=True):
        x, (h, c) = lstm(x, (first_h, first_c), weights)
        last_h.append(h)
        last_c.append(c)
    return x, (torch.stack(last_h), torch.stack(last_c))
    ### END SOLUTION


# %% id=w06a-stack-check role=check ex=w06.stack
check("w06.stack", lstm_stack)


# %% [markdown] id=w06a-both-md
# ## Exercise
#
# To say what a word means it helps to have read the rest of the sentence. A *bidirectional* layer reads the sequence
# twice, once from each end, with two sets of weights. At each step the output is both, side by side: first the way
# forward, then the way back, (T, N, 2H).
#
# Mind the order: the way back produces its outputs from the last step to the first. `x.flip(0)` turns time around. Row
# 0 of the states belongs to the way forward, row 1 to the way back; a last state is the one after the last step *that
# was read*, and for the way back that is step 0.
#
# ```
# steps a b c      the way forward has read  a, ab, abc      the way back  c, cb, cba
# outputs          step 0: a, cba      step 1: ab, cb      step 2: abc, c
# ```
# %% id=w06a-both role=exercise ex=w06.bidirectional
def bidirectional(
    x: torch.Tensor, state: State, forward: Weights, backward: Weights
) -> tuple[torch.Tensor, State]:
    """x (T, N, I), h and c (2, N, H) -> outputs (T, N, 2 H), the last h and c (2, N, H)"""
    h, c = state
    ### BEGIN SOLUTION
    right, (right_h, right_c) = lstm(x, (h[0], c[0]), forward)
    left, (left_h, left_c) = lstm(x.flip(0), (h[1], c[1]), backward)
    outputs = torch.cat([right, left.flip(0)], -1)
    return outputs, (torch.stack([right_h, left_h]), torch.stack([right_c, left_c]))
    ### END SOLUTION


# %% id=w06a-both-check role=check ex=w06.bidirectional
check("w06.bidirectional", bidirectional)


# %% [markdown] id=w06a-truncated-md
# ## Exercise
#
# A book is one sequence of a million letters. Unrolled whole, its graph would not fit into any memory. So it is read in
# segments, and the state is *carried*: the last state of one segment is the first of the next. Carried as numbers, not
# as a graph: `h.detach()` is the same tensor without its history. The network still remembers what it read long ago;
# only the gradient stops at the border. This is *truncated backpropagation through time*.
#
# For each segment of `length` steps (the last may be shorter): run `lstm`, take the sum of squared differences to
# `target` as loss, call `backward`, which adds to the gradients of the weights, and go on with the state, detached.
# Return the sum of all losses as a number and the last state, detached as well.
#
# ```
# T = 7, length = 3:   steps 0 1 2 | 3 4 5 | 6
# three segments, three losses, three calls of backward
# ```
# %% id=w06a-truncated role=exercise ex=w06.truncated
def truncated(
    x: torch.Tensor, target: torch.Tensor, state: State, weights: Weights, length: int
) -> tuple[float, State]:
    """x (T, N, I), target (T, N, H), h and c (N, H) -> the loss of all segments, the last h and c; gradients are left in weights"""
    ### BEGIN SOLUTION
    total = 0.0
    for start in range(0, len(x), length):
        outputs, (h, c) = lstm(x[start : start + length], state, weights)
        loss = (outputs - target[start : start + length]).square().sum()
        loss.backward()
        total += loss.item()
        state = h.detach(), c.detach()
    return total, state
    ### END SOLUTION


# %% id=w06a-truncated-check role=check ex=w06.truncated
check("w06.truncated", truncated)


# %% [markdown] id=w06a-memory-md
# What does it buy? torch calls a *hook* for every tensor that a graph keeps for its backward pass; here it counts
# bytes, up when a tensor is kept and down when its graph is freed. A hundred segments of ten steps, once with your
# `truncated`, once as a single graph.
# %% id=w06a-memory
class Kept:
    """A tensor that some graph holds on to; `alive` counts the bytes of all of them, `most` the peak."""

    alive = most = 0

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.detach()
        Kept.alive += tensor.nbytes
        Kept.most = max(Kept.most, Kept.alive)

    def __del__(self) -> None:
        Kept.alive -= self.tensor.nbytes


random = torch.Generator().manual_seed(0)
book = torch.randn(1000, 4, 3, generator=random)  # (T, N, I)
weights = tuple(0.3 * torch.randn(*shape, generator=random) for shape in [(64, 3), (64, 16), (64,), (64,)])
weights = tuple(w.requires_grad_() for w in weights)
target, fresh = torch.zeros(1000, 4, 16), (torch.zeros(4, 16), torch.zeros(4, 16))
kilobytes: dict[str, list[float]] = {"one graph": [], "truncated": []}
with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
    state = fresh
    for segment in tqdm(book.split(10), desc="truncated"):
        Kept.most = 0
        _, state = truncated(segment, target[:10], state, weights, 10)
        kilobytes["truncated"].append(Kept.most / 1000)
    state, graphs = fresh, []
    for segment in tqdm(book.split(10), desc="one graph"):
        outputs, state = lstm(segment, state, weights)
        graphs.append(outputs)
        kilobytes["one graph"].append(Kept.alive / 1000)
print("truncated, every segment the same:", len(set(kilobytes["truncated"])) == 1)
growth = kilobytes["one graph"][-1] / kilobytes["one graph"][0]
print("one graph, after a hundred segments at least 100 times the first:", growth >= 100)
viz.curves(kilobytes, xlabel="segment", ylabel="kilobytes kept", title="what the graphs hold on to")


# %% [markdown] id=w06a-adding-md
# ## Milestone: a hundred steps
#
# The *adding problem* is the classic test of memory. Each step brings two numbers: a random one from 0 to 1, and a
# mark, which is 1 at two steps and 0 everywhere else. The first mark is in the first half, the second in the second. At
# the end the network says the sum of the two marked numbers. To always say 1 has a mean squared error of 1/6 = 0.167;
# whoever ends there has remembered nothing.
#
# Your `rnn_cell` and your `lstm_cell` get the same training: 24 units, five seeds, sequences of 10 steps first, then
# 30, 60 and 100, so that there is something easy to begin with. The LSTM's forget gates start with a bias of 1.
# `torch.vmap` runs all five networks side by side: every weight has one more axis in front, the seed. (It cannot write
# into a tensor made of plain zeros; a cell that computes its results without assigning to slices is safe.) It takes
# about half a minute.
# %% id=w06a-adding-task
SEEDS, HIDDEN = 5, 24


def adding(steps: int, count: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences (SEEDS, T, count, 2) of numbers and marks, and the sums of the marked numbers (SEEDS, count)"""
    numbers = torch.rand(SEEDS, steps, count, generator=random, dtype=torch.float64)
    marks = torch.zeros_like(numbers)
    half = steps // 2
    for begin in (0, half):
        places = torch.randint(begin, begin + half, (SEEDS, 1, count), generator=random)
        marks.scatter_(1, places, 1.0)
    return torch.stack([numbers, marks], -1), (numbers * marks).sum(1)


def answers_by_rnn(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    """What the network would answer after each step: x (T, N, 2) -> (T, N)"""
    h, said = x.new_zeros(x.shape[1], HIDDEN), []
    for step in x:
        h = rnn_cell(step, h, *weights)
        said.append(h @ w + b)
    return torch.stack(said)


def answers_by_lstm(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, *weights: torch.Tensor
) -> torch.Tensor:
    """The same with the LSTM's cell."""
    h, said = x.new_zeros(x.shape[1], HIDDEN), []
    c = h
    for step in x:
        h, c = lstm_cell(step, h, c, *weights)
        said.append(h @ w + b)
    return torch.stack(said)


# %% id=w06a-adding-train
STAGES = [10] * 225 + [30] * 100 + [60] * 60 + [100] * 45  # the length of the sequences, step by step


def train(answers: Callable[..., torch.Tensor], gates: int, lr: float) -> list[torch.Tensor]:
    """Five networks at once, one for each seed; the trained parameters, each with an axis of seeds in front."""
    random = torch.Generator().manual_seed(0)
    shapes = [
        (HIDDEN,),
        (),
        (gates * HIDDEN, 2),
        (gates * HIDDEN, HIDDEN),
        (gates * HIDDEN,),
        (gates * HIDDEN,),
    ]
    bound = 1 / math.sqrt(HIDDEN)  # torch's own way to begin
    parameters = [
        bound * (2 * torch.rand(SEEDS, *shape, generator=random, dtype=torch.float64) - 1) for shape in shapes
    ]
    if gates == 4:
        parameters[4][:, HIDDEN : 2 * HIDDEN] += 1  # keep, to begin with
    parameters = [p.requires_grad_() for p in parameters]
    optimizer = torch.optim.Adam(parameters, lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=len(STAGES), pct_start=0.2)
    for steps in tqdm(STAGES, desc=answers.__name__):
        x, y = adding(steps, 50, random)
        loss = (torch.vmap(answers)(x, *parameters)[:, -1] - y).square().mean(1)  # (SEEDS,)
        optimizer.zero_grad()
        loss.sum().backward()
        squares = sum(p.grad.square().reshape(SEEDS, -1).sum(1) for p in parameters)
        for p in parameters:  # clip each network's gradient to norm 1
            p.grad /= squares.sqrt().clamp(min=1).reshape(-1, *[1] * (p.ndim - 1))
        optimizer.step()
        schedule.step()
    return [p.detach() for p in parameters]


networks = {
    "plain RNN": (answers_by_rnn, train(answers_by_rnn, 1, 0.01)),
    "LSTM": (answers_by_lstm, train(answers_by_lstm, 4, 0.03)),
}
# %% id=w06a-adding
x, y = adding(100, 200, torch.Generator().manual_seed(1))
errors = {}
for name, (answers, parameters) in networks.items():
    with torch.no_grad():
        errors[name] = (torch.vmap(answers)(x, *parameters)[:, -1] - y).square().mean(1).tolist()
print("error at 100 steps; guessing has 0.167")
print("seed   LSTM below 0.02   plain RNN below 0.1")
for seed in range(SEEDS):
    solved, half_solved = errors["LSTM"][seed] < 0.02, errors["plain RNN"][seed] < 0.1
    print(f"{seed:4}   {'yes' if solved else 'no':15}   {'yes' if half_solved else 'no'}")
print("the LSTM solves it in at least 4 of 5 seeds:", sum(e < 0.02 for e in errors["LSTM"]) >= 4)
print("the plain RNN fails in at least 4 of 5 seeds:", sum(e > 0.1 for e in errors["plain RNN"]) >= 4)
# %% [markdown] id=w06a-adding-look-md
# Look into them: ask for an answer after every step of one sequence. The best possible answer is 1 before any mark, the
# first number plus a half between the marks, and the sum after the second. Nobody trained them to answer on the way.
# %% id=w06a-adding-look tags=nbval-ignore-output
best = min(range(SEEDS), key=lambda seed: errors["LSTM"][seed])
numbers, marks = x[best, :, 0].unbind(-1)  # (T,) each
said = {"best possible": (numbers * marks).cumsum(0) + 0.5 * (2 - marks.cumsum(0))}
for name, (answers, parameters) in networks.items():
    with torch.no_grad():
        said[name] = answers(x[best, :, :1], *[p[best] for p in parameters])[:, 0]
viz.curves(said, xlabel="step", ylabel="answer", title="what each would answer after every step")
# %% [markdown] id=w06a-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | `rnn_cell`, `lstm_cell`, `gru_cell` | [`nn.RNNCell`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.RNNCell.html), [`nn.LSTMCell`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.LSTMCell.html), [`nn.GRUCell`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.GRUCell.html) |
# | `rnn`, `lstm_stack`, `bidirectional` | [`nn.RNN`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.RNN.html), [`nn.LSTM`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.LSTM.html) with `num_layers=`, `bidirectional=` |
# | `truncated` | no name of its own: [`detach`](https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.detach.html), once per segment |
# | the counting hook | [`saved_tensors_hooks`](https://docs.pytorch.org/docs/2.13/autograd.html#torch.autograd.graph.saved_tensors_hooks) |
#
# In torch's source the layers are `torch/nn/modules/rnn.py`, the cells and loops `aten/src/ATen/native/RNN.cpp`: look
# for `LSTMCell`, whose `chunked_gates` are your four.
# %% id=w06a-torch-code
torch.manual_seed(0)
layer = torch.nn.LSTM(3, 5, num_layers=2)
layers = [
    tuple(getattr(layer, f"{name}_l{row}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    for row in range(2)
]
x, zeros = torch.randn(7, 4, 3), torch.zeros(2, 4, 5)
theirs, (h, c) = layer(x)
mine, (my_h, my_c) = lstm_stack(x, (zeros, zeros), layers)
print(
    "outputs equal nn.LSTM's:",
    torch.allclose(mine, theirs, atol=1e-6),
    "| states:",
    torch.allclose(my_h, h, atol=1e-6) and torch.allclose(my_c, c, atol=1e-6),
)
# %% [markdown] id=w06a-built
# ## What you built
#
# - A recurrent network is one cell, used again at every step; unrolled, it is a chain as long as the sequence.
# - One matrix at every step makes gradients vanish or explode. An LSTM's cell is changed by a gate and a sum; it keeps
#   as long as its forget gate stays open.
# - Gate order in torch: i, f, g, o and r, z, n. A wrong order trains all the same, and cannot take anybody's weights.
# - The state is (N, H) whatever `batch_first` says; stacks and directions add an axis in front.
# - Detach between segments: the memory goes on, the graph does not.
#
# The question people ask next: *my sequences are not all of the same length; what now?* The next notebook pads them,
# masks them, packs them, and teaches your LSTM to write names.
#
# **Further reading.** S. Hochreiter, J. Schmidhuber, [Long short-term
# memory](https://www.bioinf.jku.at/publications/older/2604.pdf) (1997), with the adding problem · F. Gers et al.,
# Learning to forget (2000), where the forget gate comes from · K. Cho et al., [Learning phrase representations using
# RNN encoder–decoder](https://arxiv.org/abs/1406.1078), the GRU · R. Pascanu et al., [On the difficulty of training
# recurrent neural networks](https://arxiv.org/abs/1211.5063) · R. Jozefowicz et al., [An empirical exploration of
# recurrent network architectures](https://proceedings.mlr.press/v37/jozefowicz15.html), on the forget bias of 1.
# %% [markdown] id=w06a-instructor role=instructor
# **Goals.** Learners can write each cell from its formulas, say which axis is time, explain with one plot why a plain
# RNN forgets, and cut a graph without cutting the memory.
#
# **50 minutes.** 5 the surprise, guesses on the board · 10 exercises {w06.rnn_cell} and {w06.rnn} · 5 exercise
# {w06.vanish}, the plot read together · 15 exercise {w06.lstm_cell} in pairs, the one-unit example worked by hand · 10
# exercise {w06.truncated}, the memory plot predicted first · 5 the milestone on the projector. Exercises
# {w06.gru_cell}, {w06.stack} and {w06.bidirectional} are for home.
#
# **Misconceptions.** "batch_first moves the state as well" (2). "LSTMs do not have vanishing gradients" (4: with a
# forget bias of 0 they vanish faster). "The gate order does not matter" (4: it does as soon as weights are loaded).
# "The candidate is a gate" (4, 5). "The last output of the way back is its last state" (7: there it has read one step).
# "Detaching erases the memory" (8).
#
# **To think about aloud.** Why are the slopes in the gradient plot straight lines at first? A constant factor per step
# is a line on a log axis. Why does radius 1.2 not explode for ever? The states grow, tanh flattens, and its slope goes
# below 1. Is the staircase of the LSTM exact? It never is; look at how it drifts between the marks, and ask which gate
# would have to be closed.
