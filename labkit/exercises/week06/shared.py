"""What several exercises of week 6 need: weights, torch's LSTM, ragged batches, names that rules forbid."""

import numpy as np

from labkit.exercises.declare import Case
from labkit.lazy import torch

RECURRENT = (
    *("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "rnn_tanh", "rnn_relu", "lstm", "gru"),
    *("rnn_tanh_cell", "rnn_relu_cell", "lstm_cell", "gru_cell"),
)
SQUARE = {
    "equal axes": "the recurrent weight of a plain RNN is square",
    "distinct": "the recurrent weight of a plain RNN is square",
}


def layer_weights(draw, gates, inputs, hidden, make="normal"):
    """One layer's parameters by torch's names, gates stacked along the rows."""
    rows = gates * hidden
    return {
        "w_ih": 0.5 * getattr(draw, make)(rows, inputs),
        "w_hh": 0.5 * getattr(draw, make)(rows, hidden),
        "b_ih": draw.normal(rows),
        "b_hh": draw.normal(rows),
    }


def cell_case(gates, batch, inputs, hidden, make="normal", scale=1.0):
    """x (N, I), one or two states (N, H), weights."""

    def made(draw):
        states = ("h", "c") if gates == 4 else ("h",)
        start = {name: draw.normal(batch, hidden) for name in states}
        return {
            "x": scale * getattr(draw, make)(batch, inputs),
            **start,
            **layer_weights(draw, gates, inputs, hidden, make),
        }

    return made


def cell_cases(gates):
    return [
        Case("three of a batch", cell_case(gates, 3, 5, 2)),
        Case("more states than inputs", cell_case(gates, 4, 2, 5)),
        Case("not contiguous", cell_case(gates, 2, 3, 4, "transposed")),
        Case("one input", cell_case(gates, 5, 1, 3)),
        Case("inputs of a thousand", cell_case(gates, 2, 4, 3, scale=1000.0), extreme=True),
    ]


def rnn_sum(x, h, w_ih, w_hh, b_ih, b_hh):
    return x @ w_ih.T + b_ih + h @ w_hh.T + b_hh


def lstm_gates(x, h, w_ih, w_hh, b_ih, b_hh):
    return rnn_sum(x, h, w_ih, w_hh, b_ih, b_hh).chunk(4, -1)


def lstm_variant(order="ifgo", gate="sigmoid", candidate="tanh", out="tanh", old=False, both=True):
    """An LSTM cell with one thing changed."""

    def cell(x, h, c, w_ih, w_hh, b_ih, b_hh):
        parts = dict(zip(order, lstm_gates(x, h, w_ih, w_hh, b_ih, b_hh if both else 0 * b_hh), strict=True))
        i, f, o = (getattr(parts[name], gate)() for name in "ifo")
        g = getattr(parts["g"], candidate)()
        new = f * c + i * g
        squashed = getattr(c if old else new, out)()
        return o * squashed, new

    return cell


def lstm(x, state, weights, num_layers=1, bidirectional=False):
    """torch's own LSTM: x (T, N, I), state two of (rows, N, H), weights one list of four per row."""
    flat = [w for layer in weights for w in layer]
    outputs, h, c = torch.lstm(x, tuple(state), flat, True, num_layers, 0.0, False, bidirectional, False)
    return outputs, (h, c)


def one_layer(x, state, weights):
    outputs, (h, c) = lstm(x, [s[None] for s in state], [weights])
    return outputs, (h[0], c[0])


PACKING = (
    *("pack_padded_sequence", "pad_packed_sequence", "pack_sequence", "unpack_sequence", "PackedSequence"),
    *(
        "unpad_sequence",
        "pad_sequence",
        "invert_permutation",
        "RNN",
        "LSTM",
        "GRU",
        "lstm",
        "gru",
        "rnn_tanh",
    ),
)


def ragged(lengths, size, make="normal", name="outputs"):
    """A padded batch (T, N, size) with garbage as padding, and its lengths."""

    def made(draw):
        return {name: getattr(draw, make)(max(lengths), len(lengths), size), "lengths": np.array(lengths)}

    return made


def real_steps(lengths, steps, shift=0):
    """(T, N): True where a step belongs to its sequence."""
    return torch.arange(steps)[:, None] < lengths + shift


def filled(model):
    """Parameters by name, the same for whoever wrote the class."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _, p in sorted(model.named_parameters()):
            p.copy_(torch.randn(p.shape, generator=random, dtype=torch.float64))
    return model
