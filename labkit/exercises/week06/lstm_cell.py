"""One step of an LSTM."""

from labkit.exercises.declare import Equivalent, Implement, Mistake, Rules
from labkit.exercises.week06.shared import RECURRENT, cell_cases, lstm_variant
from labkit.lazy import torch

exercise = Implement(
    title="The LSTM cell",
    minutes=10,
    needs=("w06.rnn_cell",),
    also=(
        "LSTM",
        "long short-term memory",
    ),
    dtype="float64",
    cases=cell_cases(4),
    oracle=lambda x, h, c, *weights: torch.lstm_cell(x, (h, c), *weights),
    grads=("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh"),
    rules=Rules(forbids=RECURRENT),
    delegate=lambda x, h, c, *weights: torch.lstm_cell(x, (h, c), *weights),
    mistakes=[
        Mistake(
            "gate order",
            "The blocks are read as i, f, o, g. torch's order is i, f, g, o: the candidate is the third.",
            lstm_variant(order="ifog"),
        ),
        Mistake(
            "swapped gates",
            "Input and forget gate are exchanged: the blocks stand as i, f, g, o, and c = f * c + i * g.",
            lstm_variant(order="figo"),
        ),
        Mistake(
            "missing tanh",
            "The tanh on the way out is missing: h = o * tanh(c).",
            lstm_variant(out="clone"),
        ),
        Mistake(
            "missing tanh of the candidate",
            "The candidate g goes in as it is: g = tanh(...), only the three gates are sigmoids.",
            lstm_variant(candidate="clone"),
        ),
        Mistake(
            "sigmoid candidate",
            "All four blocks go through a sigmoid. The candidate g is no gate: tanh, so that it can also lower the memory.",
            lstm_variant(candidate="sigmoid"),
        ),
        Mistake(
            "old cell",
            "The output is made from the old c. First update the cell, then h = o * tanh(new c).",
            lstm_variant(old=True),
        ),
        Mistake(
            "h and c exchanged",
            "The two results are exchanged: h first, then c.",
            lambda *inputs: lstm_variant()(*inputs)[::-1],
        ),
        Mistake(
            "no sigmoid",
            "The three gates go in as they are: i, f and o are sigmoids, numbers from 0 to 1.",
            lstm_variant(gate="clone"),
        ),
        Mistake(
            "one bias",
            "The second bias, b_hh, is missing. One would do, but torch has both, and so do its weights.",
            lstm_variant(both=False),
        ),
        Mistake(
            "c squashed",
            "The c that is returned went through the tanh. That tanh is for h only; the cell is passed on as it is.",
            lambda *inputs: (lstm_variant()(*inputs)[0], lstm_variant()(*inputs)[1].tanh()),
        ),
    ],
    hints=(
        "One sum as in the plain RNN, four times as wide: (N, 4 H). `.chunk(4, -1)` cuts it into i, f, g, o.",
        "Sigmoid for i, f and o, tanh for g. Then c = f * c + i * g, and h = o * tanh(c) with the new c.",
        "c = f.sigmoid() * c + i.sigmoid() * g.tanh(); return o.sigmoid() * c.tanh(), c",
    ),
    passed="c is changed by a product with f and a sum, no matrix: the road on which gradients travel far.",
    equivalent=(
        Equivalent(
            before="i, f, g, o = sums.chunk(4, -1)",
            after="i, f, g, o = sums.chunk(4, 1)",
            reason="the sums have two axes: the last is axis 1",
        ),
    ),
)
