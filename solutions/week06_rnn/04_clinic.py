# %% [markdown] id=w06d-title
# # Week 6 · 04 Clinic
#
# In about 55 minutes you will mend three recurrent networks that run without an error message: one that answers
# differently when asked twice, one that is dead after a single step, one whose loss is excellent and whose names are
# all the same. Then you write a test that tells a right LSTM from ten wrong ones.
#
# The order of work in every clinic: look at the symptom, *name* the fault, then mend it. Both are checked.
# %% id=w06d-setup role=setup
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

from labkit import check, datasets, viz

torch.set_num_threads(1)  # small steps: more threads would cost more than they bring


# %% [markdown] id=w06d-leak-md
# ## Exercise
#
# A trained GRU is asked about the same batch twice, with another batch in between. Will it give the same answer twice?
# %% id=w06d-leak-symptom
def answers_as_found(layer: nn.GRU, batches: list[torch.Tensor]) -> list[torch.Tensor]:
    answers, state = [], None
    with torch.no_grad():
        for x in batches:
            outputs, state = layer(x, state)
            answers.append(outputs[-1])
    return answers


torch.manual_seed(0)
layer = nn.GRU(3, 8)
monday, tuesday = (
    torch.randn(5, 4, 3),
    torch.randn(5, 4, 3),
)  # (T, N, I): sequences that have nothing in common
first, _, again = answers_as_found(layer, [monday, tuesday, monday])
print("the same batch, the same answer:", torch.allclose(first, again))
# %% [markdown] id=w06d-leak-menu
# Set `fault` to one of `"the state leaks"`, `"no detach"`, `"wrong step"`, and mend the code: the answer to a sequence
# must not depend on which batch came before. Batches may have different sizes.
# %% id=w06d-leak role=exercise ex=w06.leak
### BEGIN SOLUTION
fault = "the state leaks"


def answers(layer: nn.GRU, batches: list[torch.Tensor]) -> list[torch.Tensor]:
    """For each batch (T, N, I) the output of every sequence's last step (N, H)"""
    answers = []
    with torch.no_grad():
        for x in batches:
            outputs, _ = layer(x)
            answers.append(outputs[-1])
    return answers


### STUB
# fault = ...
#
#
# def answers(layer: nn.GRU, batches: list[torch.Tensor]) -> list[torch.Tensor]:
#     """For each batch (T, N, I) the output of every sequence's last step (N, H)"""
#     answers, state = [], None
#     with torch.no_grad():
#         for x in batches:
#             outputs, state = layer(x, state)
#             answers.append(outputs[-1])
#     return answers
### END SOLUTION
# %% id=w06d-leak-check role=check ex=w06.leak
check("w06.leak", answers, fault=fault)


# %% [markdown] id=w06d-leak-after
# In truncated training the very same line is right: there the next segment *continues* the sequences of the last. The
# question to ask of every carried state: whose past is this? In an evaluation the leak shows as a score that changes
# with the order of the test data.
#
# ## Exercise
#
# A plain RNN with ReLU learns to remember its first input over 40 steps. Its recurrent matrix begins a little too
# large. The loop clips the gradient to norm 1, and the learning rate is 0.001: no weight should move by more than that
# in one step. Look at two steps.
# %% id=w06d-explode-symptom
def step_as_found(
    model: nn.RNN, optimizer: torch.optim.Optimizer, x: torch.Tensor, target: torch.Tensor, max_norm: float
) -> float:
    optimizer.zero_grad()
    outputs, _ = model(x)
    loss = (outputs[-1] - target).square().mean()
    loss.backward()
    optimizer.step()
    norm = clip_grad_norm_(model.parameters(), max_norm)
    return norm.item()


def run(step: Callable[..., float], steps: int = 30) -> tuple[list[float], nn.RNN]:
    """The norms that `step` returns, and the model after training."""
    torch.manual_seed(0)
    model = nn.RNN(2, 6, nonlinearity="relu").double()
    with torch.no_grad():
        model.weight_hh_l0.copy_(1.25 * torch.eye(6))
        model.weight_ih_l0.abs_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    x = torch.zeros(40, 16, 2, dtype=torch.float64)
    x[0] = torch.rand(16, 2, dtype=torch.float64)  # something at the first step, then silence
    target = x[0].sum(1, keepdim=True).expand(16, 6)
    return [step(model, optimizer, x, target, 1.0) for _ in range(steps)], model


def largest(model: nn.Module) -> float:
    """The largest of all weights, without its sign."""
    return max(p.abs().max().item() for p in model.parameters())


norms, model = run(step_as_found, steps=2)
print("gradient norm at the first step above a million:", norms[0] > 1e6)
print("gradient norm at the second step:", norms[1])
print("largest weight before: 1.25 | after two steps above 100,000:", largest(model) > 1e5)
# %% [markdown] id=w06d-explode-menu
# Set `fault` to one of `"clipped too late"`, `"learning rate too high"`, `"wrong loss"`, and mend the code. The step
# returns the norm of the gradient as it was before clipping.
# %% id=w06d-explode role=exercise ex=w06.explode
### BEGIN SOLUTION
fault = "clipped too late"


def training_step(
    model: nn.RNN, optimizer: torch.optim.Optimizer, x: torch.Tensor, target: torch.Tensor, max_norm: float
) -> float:
    """One step on x (T, N, I) and target (N, H), its gradient clipped; the norm before clipping is returned"""
    optimizer.zero_grad()
    outputs, _ = model(x)
    loss = (outputs[-1] - target).square().mean()
    loss.backward()
    norm = clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return norm.item()


### STUB
# fault = ...
#
#
# def training_step(
#     model: nn.RNN, optimizer: torch.optim.Optimizer, x: torch.Tensor, target: torch.Tensor, max_norm: float
# ) -> float:
#     """One step on x (T, N, I) and target (N, H), its gradient clipped; the norm before clipping is returned"""
#     optimizer.zero_grad()
#     outputs, _ = model(x)
#     loss = (outputs[-1] - target).square().mean()
#     loss.backward()
#     optimizer.step()
#     norm = clip_grad_norm_(model.parameters(), max_norm)
#     return norm.item()
### END SOLUTION
# %% id=w06d-explode-check role=check ex=w06.explode
check("w06.explode", training_step, fault=fault)
# %% id=w06d-explode-run
norms, model = run(training_step, steps=150)
print("largest weight after 150 steps below 2:", largest(model) < 2)
print("the gradient norm has come down to a hundredth:", norms[-1] < norms[0] / 100)
# %% id=w06d-explode-fig tags=nbval-ignore-output
viz.curves(
    {"before clipping": norms}, log="y", ylabel="gradient norm", title="a long gradient, many short steps"
)


# %% [markdown] id=w06d-explode-after
# One step of full length, and every unit was below zero for every input: a dead network, a gradient of exactly 0, and a
# loss that stays where it is. The gradient was 1.25 to the power of 40 times too long, and no learning rate fits: what
# is right for step 1 is far too small for step 150. Clipping keeps the direction and bounds the length. A run that is
# clipped at *every* step, though, is a run that nobody looked at: the norm is telling you that the recurrent matrix is
# too large.
#
# ## Exercise
#
# A model of Finnish surnames, trained for about ten seconds. Its loss has fallen well below that of letters drawn by
# their frequency. Here are eight names that it wrote.
# %% id=w06d-repeat-train
finnish = [name.lower() for name in datasets.names()["Finnish"] if len(name) <= 12]
letters = sorted(set("".join(finnish)))
rows = torch.zeros(14, len(finnish), dtype=torch.int64)  # 0 is the beginning, the end, and the padding
for column, name in enumerate(finnish):
    rows[1 : len(name) + 1, column] = torch.tensor([letters.index(letter) + 1 for letter in name])
real = torch.arange(13)[:, None] <= torch.tensor([len(name) for name in finnish])  # the end counts


class Writer(nn.Module):
    """What comes next: letters (T, N) and a state -> logits (T, N, V) and the next state"""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 12)
        self.gru = nn.GRU(12, 48)
        self.fc = nn.Linear(48, vocabulary)

    def forward(
        self, letters: torch.Tensor, state: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        outputs, state = self.gru(self.embedding(letters), state)
        return self.fc(outputs), state


torch.manual_seed(0)
writer = Writer(len(letters) + 1).double()  # float64: the same names on every machine
optimizer = torch.optim.Adam(writer.parameters(), lr=0.01)
for _ in tqdm(range(250), desc="steps"):
    chosen = torch.randint(len(finnish), (48,))
    logits, _ = writer(rows[:-1, chosen])
    loss = F.cross_entropy(logits[real[:, chosen]], rows[1:, chosen][real[:, chosen]])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
shares = rows[1:][real].bincount().double() / real.sum()
by_frequency = -(shares * shares.clamp(min=1e-9).log()).sum().item()
print("the loss is below three quarters of that of letters by frequency:", loss.item() < 0.75 * by_frequency)


# %% id=w06d-repeat-symptom
def write_as_found(
    step: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    count: int,
    steps: int,
    temperature: float,
    random: torch.Generator,
) -> torch.Tensor:
    letters, state, written = torch.zeros(count, dtype=torch.int64), None, []
    for _ in range(steps):
        logits, state = step(letters, state)
        letters = (logits / temperature).argmax(-1)
        written.append(letters)
    return torch.stack(written)


def step(letters: torch.Tensor, state: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of the writer: letters (count,) -> logits (count, V), the next state"""
    with torch.no_grad():
        logits, state = writer(letters[None], state)
    return logits[0], state


def spelled(table: torch.Tensor) -> list[str]:
    """The columns of a table of letters (T, count) as names, up to the first 0."""
    words = ["".join(" " if i == 0 else letters[i - 1] for i in column) for column in table.T.tolist()]
    return [word.split(" ")[0].title() for word in words]


source = torch.Generator().manual_seed(0)
eight = spelled(write_as_found(step, 8, 12, 1.0, source))
print("different names among the eight:", len(set(eight)))
# %% id=w06d-repeat-names tags=nbval-ignore-output
print(", ".join(eight))
# %% [markdown] id=w06d-repeat-menu
# Another temperature changes nothing. Set `fault` to one of `"always the most likely"`, `"the state is lost"`,
# `"trained too little"`, and mend the code. `torch.multinomial(chances, 1, generator=random)` draws one position per
# row of (count, V), as (count, 1), and `.squeeze(1)` makes that (count,); the chances are the softmax of the logits
# divided by the temperature.
# %% id=w06d-repeat role=exercise ex=w06.repeat
### BEGIN SOLUTION
fault = "always the most likely"


def write(
    step: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    count: int,
    steps: int,
    temperature: float,
    random: torch.Generator,
) -> torch.Tensor:
    """`step` maps letters (count,) and a state to logits (count, V) and a state -> `count` names, (steps, count)"""
    letters, state, written = torch.zeros(count, dtype=torch.int64), None, []
    for _ in range(steps):
        logits, state = step(letters, state)
        chances = (logits / temperature).softmax(-1)
        letters = torch.multinomial(chances, 1, generator=random).squeeze(1)
        written.append(letters)
    return torch.stack(written)


### STUB
# fault = ...
#
#
# def write(
#     step: Callable[..., tuple[torch.Tensor, torch.Tensor]],
#     count: int,
#     steps: int,
#     temperature: float,
#     random: torch.Generator,
# ) -> torch.Tensor:
#     """`step` maps letters (count,) and a state to logits (count, V) and a state -> `count` names, (steps, count)"""
#     letters, state, written = torch.zeros(count, dtype=torch.int64), None, []
#     for _ in range(steps):
#         logits, state = step(letters, state)
#         letters = (logits / temperature).argmax(-1)
#         written.append(letters)
#     return torch.stack(written)
### END SOLUTION
# %% id=w06d-repeat-check role=check ex=w06.repeat
check("w06.repeat", write, fault=fault)
# %% id=w06d-repeat-run
drawn = {
    temperature: spelled(write(step, 200, 12, temperature, torch.Generator().manual_seed(0)))
    for temperature in (0.3, 0.8, 1.5)
}
kinds = [len(set(names)) for names in drawn.values()]
print("the higher the temperature, the more names differ:", kinds == sorted(kinds) and kinds[0] < kinds[2])
# %% id=w06d-repeat-drawn tags=nbval-ignore-output
for temperature, names in drawn.items():
    known = sum(name.lower() in finnish for name in names)
    print(
        f"temperature {temperature}: {len(set(names)):3} different names of 200, {known:2} of them real | {', '.join(names[:5])}"
    )


# %% [markdown] id=w06d-repeat-after
# The model gave chances for every letter all along. At a low temperature it is careful and repeats itself, at a high
# one it is original and wrong; neither changes its loss, which is measured on given names and never sees what it
# writes.
#
# ## Exercise
#
# Somebody has written `lstm(x, state, weights)`: x (T, N, I), state the pair h and c, each (N, H), weights the four
# tensors w_ih, w_hh, b_ih, b_hh of one layer. It returns the outputs (T, N, H) and the pair of last states. Write a
# test that takes such an implementation, calls it, and uses `assert`. It will be run on right implementations, which it
# must accept, and on ten wrong ones, which it must catch.
#
# Your oracle is [`nn.LSTM`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.LSTM.html): make a layer, take its
# four weights as they are (`list(layer.parameters())` has them in this order), and hand it states with one more axis in
# front, for the layer. Then choose inputs: what would hide an ignored state, a forgotten bias, an exchanged axis?
# Compare floats with `torch.allclose(a, b, atol=1e-5)`.
# %% id=w06d-test role=exercise ex=w06.test_lstm
### BEGIN SOLUTION
def test_lstm(lstm: Callable[..., tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]]) -> None:
    """Silent for a right `lstm`, an AssertionError for a wrong one."""
    torch.manual_seed(0)
    layer = nn.LSTM(3, 4)
    for steps, count in [(5, 2), (3, 3)]:
        x, h, c = torch.randn(steps, count, 3), torch.randn(count, 4), torch.randn(count, 4)
        outputs, (last_h, last_c) = lstm(x, (h, c), list(layer.parameters()))
        theirs, (their_h, their_c) = layer(x, (h[None], c[None]))
        assert torch.allclose(outputs, theirs, atol=1e-5)
        assert torch.allclose(last_h, their_h[0], atol=1e-5)
        assert torch.allclose(last_c, their_c[0], atol=1e-5)


### STUB
# def test_lstm(lstm: Callable[..., tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]]) -> None:
#     """Silent for a right `lstm`, an AssertionError for a wrong one."""
#     raise NotImplementedError("your code here")
### END SOLUTION
# %% id=w06d-test-check role=check ex=w06.test_lstm
check("w06.test_lstm", test_lstm)
# %% [markdown] id=w06d-built
# ## What you know now
#
# - A state belongs to a sequence. Carry it while the same sequences go on, and start anew with new ones.
# - Asking twice is a test: same input, same answer, whatever came in between.
# - zero_grad, loss, backward, clip, step. The norm before clipping is a curve to watch.
# - A falling loss says that the probabilities are good. What is made of them is another piece of code, with bugs of its
#   own.
# - A test of a layer carries weights over from an oracle, starts from states that are not zero, and compares everything
#   that is returned.
#
# The question people ask next: *a hundred steps are not much; what about a whole page?* Every step of a recurrent
# network passes through one state of fixed size. Week 7 lets each step look at all the others.
#
# **Further reading.** R. Pascanu et al., [On the difficulty of training recurrent neural
# networks](https://arxiv.org/abs/1211.5063), where clipping by norm comes from · A. Holtzman et al., [The curious case
# of neural text degeneration](https://arxiv.org/abs/1904.09751), why the most likely text is a bad text.
# %% [markdown] id=w06d-instructor role=instructor
# **Goals.** Learners can tell a carried state from a leaked one, put clipping where it acts, separate a model from the
# code that samples from it, and write a parity test for a layer.
#
# **50 minutes.** 10 exercise {w06.leak}; ask first what "asked twice" should print · 15 exercise {w06.explode}, the
# order of the five lines on five cards, sorted by a volunteer · 10 exercise {w06.repeat}, the class votes on a
# temperature · 15 exercise {w06.test_lstm}; collect the inputs on the board, one column per bug.
#
# **Misconceptions.** "A detach mends the leak" (1: it cuts the graph, the numbers stay). "A smaller learning rate mends
# an explosion" (2). "clip_grad_norm_ anywhere in the loop is fine" (2). "Greedy is the best sample" (3). "A better loss
# means better samples" (3). "Zero states are a neutral choice for a test" (4: they hide two bugs).
#
# **To think about aloud.** When is a stateful evaluation right? On one long text cut into pieces, in order. What would
# exercise {w06.explode} look like with a matrix of 0.8? The norm would vanish, and nothing would be clipped or learned.
# Why do low temperatures find so many real names? The likeliest names are those it has seen.
