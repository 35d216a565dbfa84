"""One step of a GRU."""

from labkit.exercises.declare import Equivalent, Implement, Mistake, Rules
from labkit.exercises.week06.shared import RECURRENT, cell_cases
from labkit.lazy import torch


def _gru_variant(
    order="rzn",
    swap=False,
    before=False,
    inside=True,
    everything=False,
    squash="tanh",
    reset=True,
    whole=False,
):
    """A GRU cell with one thing changed."""

    def cell(x, h, w_ih, w_hh, b_ih, b_hh):
        xs = dict(zip(order, (x @ w_ih.T + b_ih).chunk(3, -1), strict=True))
        hs = dict(zip(order, (h @ w_hh.T + b_hh).chunk(3, -1), strict=True))
        r, z = (xs["r"] + hs["r"]).sigmoid(), (xs["z"] + hs["z"]).sigmoid()
        block = slice(order.index("n") * h.shape[-1], (order.index("n") + 1) * h.shape[-1])
        w_n, b_n = w_hh[block], b_hh[block]
        part = r * hs["n"] if reset else hs["n"]
        if before:
            part = (r * h) @ w_n.T + b_n
        elif not inside:
            part = r * (h @ w_n.T) + b_n
        n = getattr(r * (xs["n"] + hs["n"]) if everything else xs["n"] + part, squash)()
        if whole:
            return n + z * h
        return z * n + (1 - z) * h if swap else (1 - z) * n + z * h

    return cell


exercise = Implement(
    title="The GRU cell",
    minutes=10,
    needs=("w06.lstm_cell",),
    also=(
        "GRU",
        "gated recurrent unit",
    ),
    dtype="float64",
    cases=cell_cases(3),
    oracle=lambda *inputs: torch.gru_cell(*inputs),
    grads=("x", "h", "w_ih", "w_hh", "b_ih", "b_hh"),
    rules=Rules(forbids=RECURRENT),
    mistakes=[
        Mistake(
            "gate order",
            "The blocks are read as z, r, n. torch's order is r, z, n.",
            _gru_variant(order="zrn"),
        ),
        Mistake(
            "swapped gates",
            "z keeps the new and 1 - z the old. In torch z keeps the old: h = (1 - z) * n + z * h.",
            _gru_variant(swap=True),
        ),
        Mistake(
            "reset before the product",
            "r multiplies h before the matrix, as in the first paper. torch resets after it: r * (h @ w.T + b).",
            _gru_variant(before=True),
        ),
        Mistake(
            "bias outside the reset",
            "The bias of the candidate's state part is added after the reset; torch has it inside: r * (h @ w.T + b_hh).",
            _gru_variant(inside=False),
        ),
        Mistake(
            "no reset",
            "r is never used: the state's part of the candidate is to be multiplied by it.",
            _gru_variant(reset=False),
        ),
        Mistake(
            "everything reset",
            "r multiplies the input's part as well. It resets the state's part only.",
            _gru_variant(everything=True),
        ),
        Mistake(
            "sigmoid candidate",
            "The candidate n goes through a sigmoid. It is no gate: tanh.",
            _gru_variant(squash="sigmoid"),
        ),
        Mistake(
            "candidate whole",
            "The candidate is added whole, n + z * h. z shares out between old and new: (1 - z) * n + z * h.",
            _gru_variant(whole=True),
        ),
    ],
    hints=(
        "Keep the two sums apart this time: one of x, one of h, each (N, 3 H), each cut with chunk(3, -1).",
        "r and z are sigmoids of x's block plus h's block. n = tanh(x's block + r * h's block).",
        "n = (xn + r * hn).tanh(); return (1 - z) * n + z * h",
    ),
    passed="Two gates, one state, three quarters of the LSTM's parameters. Some papers write z the other way around.",
    equivalent=(
        Equivalent(
            before="x_r, x_z, x_n = (x @ w_ih.T + b_ih).chunk(3, -1)",
            after="x_r, x_z, x_n = (x @ w_ih.T + b_ih).chunk(3, 1)",
            reason="the sums have two axes: the last is axis 1",
        ),
        Equivalent(
            before="h_r, h_z, h_n = (h @ w_hh.T + b_hh).chunk(3, -1)",
            after="h_r, h_z, h_n = (h @ w_hh.T + b_hh).chunk(3, 1)",
            reason="the sums have two axes: the last is axis 1",
        ),
    ),
)
