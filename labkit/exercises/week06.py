"""Week 6: recurrent networks. Cells and layers, ragged batches, torch's own API, and the clinic."""

import numpy as np

from labkit.exercises.declare import (
    Case,
    Fix,
    Implement,
    Item,
    Measure,
    Mistake,
    Predict,
    Rules,
    WriteTest,
)
from labkit.lazy import F, torch

_RECURRENT = (
    *("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "rnn_tanh", "rnn_relu", "lstm", "gru"),
    *("rnn_tanh_cell", "rnn_relu_cell", "lstm_cell", "gru_cell"),
)
_SQUARE = {
    "equal axes": "the recurrent weight of a plain RNN is square",
    "distinct": "the recurrent weight of a plain RNN is square",
}


def _weights(draw, gates, inputs, hidden, make="normal"):
    """One layer's parameters by torch's names, gates stacked along the rows."""
    rows = gates * hidden
    return {
        "w_ih": 0.5 * getattr(draw, make)(rows, inputs),
        "w_hh": 0.5 * getattr(draw, make)(rows, hidden),
        "b_ih": draw.normal(rows),
        "b_hh": draw.normal(rows),
    }


# 01 RNN and LSTM


def _cell_case(gates, batch, inputs, hidden, make="normal", scale=1.0):
    """x (N, I), one or two states (N, H), weights."""

    def made(draw):
        states = ("h", "c") if gates == 4 else ("h",)
        start = {name: draw.normal(batch, hidden) for name in states}
        return {
            "x": scale * getattr(draw, make)(batch, inputs),
            **start,
            **_weights(draw, gates, inputs, hidden, make),
        }

    return made


def _cell_cases(gates):
    return [
        Case("three of a batch", _cell_case(gates, 3, 5, 2)),
        Case("more states than inputs", _cell_case(gates, 4, 2, 5)),
        Case("not contiguous", _cell_case(gates, 2, 3, 4, "transposed")),
        Case("one input", _cell_case(gates, 5, 1, 3)),
        Case("inputs of a thousand", _cell_case(gates, 2, 4, 3, scale=1000.0), extreme=True),
    ]


def _rnn_sum(x, h, w_ih, w_hh, b_ih, b_hh):
    return x @ w_ih.T + b_ih + h @ w_hh.T + b_hh


rnn_cell = Implement(
    id="w06.rnn_cell",
    title="One step",
    minutes=6,
    level=1,
    dtype="float64",
    cases=_cell_cases(1),
    oracle=lambda *inputs: torch.rnn_tanh_cell(*inputs),
    grads=("x", "h", "w_ih", "w_hh", "b_ih", "b_hh"),
    rules=Rules(forbids=_RECURRENT),
    lint=_SQUARE,
    mistakes=[
        Mistake(
            "missing tanh",
            "The tanh is missing: without it the state is a linear map of everything so far, and can grow without end.",
            _rnn_sum,
        ),
        Mistake(
            "state ignored",
            "The old state is not used: h @ w_hh.T is missing, and with it the memory.",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(x @ w_ih.T + b_ih + b_hh),
        ),
        Mistake(
            "one bias",
            "The second bias, b_hh, is missing. One would do, but torch has both, and so do its weights.",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(_rnn_sum(x, h, w_ih, w_hh, b_ih, 0 * b_hh)),
        ),
        Mistake(
            "w_hh not transposed",
            "w_hh is used as it is; every weight has shape (out, in), so it is h @ w_hh.T. A square matrix hides this.",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(_rnn_sum(x, h, w_ih, w_hh.T, b_ih, b_hh)),
        ),
        Mistake(
            "not transposed",
            "Neither weight is transposed: they have shape (out, in), as in nn.Linear, so it is x @ w_ih.T.",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(_rnn_sum(x, h, w_ih.T, w_hh.T, b_ih, b_hh)),
        ),
        Mistake(
            "sigmoid",
            "A sigmoid stands where the tanh should be: the state runs from -1 to 1, not from 0 to 1.",
            lambda *inputs: torch.sigmoid(_rnn_sum(*inputs)),
        ),
        Mistake(
            "tanh of each part",
            "Each part goes through a tanh of its own. Add the two first, then one tanh of the sum.",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: (
                torch.tanh(x @ w_ih.T + b_ih) + torch.tanh(h @ w_hh.T + b_hh)
            ),
        ),
        Mistake(
            "tanh of the state only",
            "The tanh goes over the state's part only; the input is added outside. It belongs around the whole sum.",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: x @ w_ih.T + b_ih + torch.tanh(h @ w_hh.T + b_hh),
        ),
    ],
    hints=(
        "Two linear layers, one for the input and one for the old state. Add them.",
        "x @ w_ih.T + b_ih is the first. The second has h, w_hh and b_hh. One tanh around their sum.",
        "torch.tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)",
    ),
    passed="torch keeps two biases because cuDNN does; their sum is all that matters.",
)


def _run_rnn(x, h, w_ih, w_hh, b_ih, b_hh, batch_first):
    """The oracle: torch's whole layer, its state without the axis of layers."""
    weights = (w_ih, w_hh, b_ih, b_hh)
    outputs, last = torch.rnn_tanh(x, h[None], weights, True, 1, 0.0, False, False, batch_first)
    return outputs, last[0]


def _steps(x, h, w_ih, w_hh, b_ih, b_hh, carry=True):
    """Time first; `carry=False` starts every step from the first state."""
    outputs = []
    for step in x:
        new = torch.tanh(_rnn_sum(step, h, w_ih, w_hh, b_ih, b_hh))
        outputs.append(new)
        h = new if carry else h
    return torch.stack(outputs), new


def _rnn_first_output(*inputs):
    outputs, _ = _run_rnn(*inputs)
    return outputs, (outputs[:, 0] if inputs[-1] else outputs[0]).clone()


def _rnn_backwards(x, h, w_ih, w_hh, b_ih, b_hh, batch_first):
    time = 1 if batch_first else 0
    return _run_rnn(x.flip(time), h, w_ih, w_hh, b_ih, b_hh, batch_first)


def _rnn_no_carry(x, h, w_ih, w_hh, b_ih, b_hh, batch_first):
    x = x.transpose(0, 1) if batch_first else x
    outputs, last = _steps(x, h, w_ih, w_hh, b_ih, b_hh, carry=False)
    return outputs.transpose(0, 1) if batch_first else outputs, last


def _rnn_left_time_first(x, h, w_ih, w_hh, b_ih, b_hh, batch_first):
    outputs, last = _run_rnn(x, h, w_ih, w_hh, b_ih, b_hh, batch_first)
    return outputs.transpose(0, 1) if batch_first else outputs, last


def _rnn_axis(x, h, w_ih, w_hh, b_ih, b_hh, batch_first):
    return _steps(x, h, w_ih, w_hh, b_ih, b_hh)


def _rnn_case(steps, batch, inputs, hidden, batch_first=False, make="normal"):
    def made(draw):
        shape = (batch, steps, inputs) if batch_first else (steps, batch, inputs)
        start = {"x": getattr(draw, make)(*shape), "h": draw.normal(batch, hidden)}
        return {**start, **_weights(draw, 1, inputs, hidden), "batch_first": batch_first}

    return made


rnn = Implement(
    id="w06.rnn",
    title="Step after step",
    minutes=8,
    level=2,
    needs=("w06.rnn_cell",),
    dtype="float64",
    cases=[
        Case("time first", _rnn_case(4, 3, 2, 5)),
        Case("batch first", _rnn_case(4, 3, 2, 5, True)),
        Case("a long one, batch first", _rnn_case(9, 2, 3, 4, True)),
        Case("not contiguous", _rnn_case(5, 2, 4, 3, False, "transposed")),
        Case("one sequence, batch first", _rnn_case(6, 1, 2, 3, True)),
        Case("one step", _rnn_case(1, 4, 3, 2), extreme=True),
    ],
    oracle=_run_rnn,
    grads=("x", "h", "w_ih", "w_hh", "b_ih", "b_hh"),
    rules=Rules(forbids=_RECURRENT),
    lint=_SQUARE,
    mistakes=[
        Mistake(
            "axis",
            "The loop walks along the first axis although batch_first is True: there the first axis is the batch, time the second.",
            _rnn_axis,
        ),
        Mistake(
            "always batch first",
            "The loop walks along the second axis always. Without batch_first x is (T, N, I): time is the first.",
            lambda x, h, *rest: _run_rnn(x, h, *rest[:-1], True),
        ),
        Mistake(
            "axis of the output",
            "With batch_first the outputs are left time first: (T, N, H). They go out as x came in, (N, T, H).",
            _rnn_left_time_first,
        ),
        Mistake(
            "state not carried",
            "Every step starts from the first h: assign the new state to h inside the loop.",
            _rnn_no_carry,
        ),
        Mistake(
            "starts from zero",
            "The loop starts from zeros. The first state is an argument: h.",
            lambda x, h, *rest: _run_rnn(x, 0 * h, *rest),
        ),
        Mistake(
            "first for last",
            "The second result is the state after the first step; the state after the last one is wanted.",
            _rnn_first_output,
        ),
        Mistake(
            "from the end",
            "The sequence is read from its end to its beginning.",
            _rnn_backwards,
        ),
    ],
    hints=(
        "Bring x to (T, N, I) first. Then `for step in x` visits one moment after the other.",
        "Collect the states in a list, torch.stack(states) makes (T, N, H). The last state is h after the loop.",
        "for step in x: h = rnn_cell(step, h, w_ih, w_hh, b_ih, b_hh); states.append(h)",
    ),
    passed="batch_first moves the batch of x and of the outputs. The state is (N, H) either way, in torch too.",
)


def _accept_lag(lag):
    if lag == _LAG:
        return None
    return f"at lag {lag} the gradient is {'already' if lag > _LAG else 'not yet'} below a thousandth of its start."


_LAG, _HUNDREDTH = 42, 28  # of the lesson's RNN with radius 0.9

vanish = Measure(
    id="w06.vanish",
    title="Where the gradient vanishes",
    minutes=8,
    level=2,
    needs=("w06.rnn",),
    accept=_accept_lag,
    answer_type=int,
    mistakes=[
        Mistake(
            "a hundredth",
            "That is where it falls below a hundredth; a thousandth of its value at lag 0 is asked for.",
            _HUNDREDTH,
            when=lambda lag: abs(lag - _HUNDREDTH) <= 1,
        ),
        Mistake(
            "counted from the beginning",
            "That is counted from the first step. The lag is counted back from the last: lag 0 is the last state.",
            100 - _LAG,
            when=lambda lag: abs(lag - (100 - _LAG)) <= 1,
        ),
        Mistake(
            "by the radius alone",
            "0.9 ** 66 is a thousandth: that is the matrix without the tanh, which shrinks the gradient further. Read it off `norms`.",
            66,
            when=lambda lag: 65 <= lag <= 67,
        ),
        Mistake(
            "never",
            "It does fall that low. norms[k] < norms[0] / 1000: which k is the first?",
            100,
            when=lambda lag: lag >= 100,
        ),
    ],
    hints=(
        "norms = gradient_by_lag(0.9) is a list: norms[k] belongs to lag k. Print a few.",
        "The first k with norms[k] < norms[0] / 1000.",
        "next(k for k, norm in enumerate(norms) if norm < norms[0] / 1000)",
    ),
    passed="What happened further back than that cannot teach this network anything.",
)


def _lstm_gates(x, h, w_ih, w_hh, b_ih, b_hh):
    return _rnn_sum(x, h, w_ih, w_hh, b_ih, b_hh).chunk(4, -1)


def _lstm_variant(order="ifgo", gate="sigmoid", candidate="tanh", out="tanh", old=False, both=True):
    """An LSTM cell with one thing changed."""

    def cell(x, h, c, w_ih, w_hh, b_ih, b_hh):
        parts = dict(zip(order, _lstm_gates(x, h, w_ih, w_hh, b_ih, b_hh if both else 0 * b_hh), strict=True))
        i, f, o = (getattr(parts[name], gate)() for name in "ifo")
        g = getattr(parts["g"], candidate)()
        new = f * c + i * g
        squashed = getattr(c if old else new, out)()
        return o * squashed, new

    return cell


lstm_cell = Implement(
    id="w06.lstm_cell",
    title="The LSTM cell",
    minutes=10,
    level=2,
    needs=("w06.rnn_cell",),
    dtype="float64",
    cases=_cell_cases(4),
    oracle=lambda x, h, c, *weights: torch.lstm_cell(x, (h, c), *weights),
    grads=("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh"),
    rules=Rules(forbids=_RECURRENT),
    delegate=lambda x, h, c, *weights: torch.lstm_cell(x, (h, c), *weights),
    mistakes=[
        Mistake(
            "gate order",
            "The blocks are read as i, f, o, g. torch's order is i, f, g, o: the candidate is the third.",
            _lstm_variant(order="ifog"),
        ),
        Mistake(
            "swapped gates",
            "Input and forget gate are exchanged: the blocks stand as i, f, g, o, and c = f * c + i * g.",
            _lstm_variant(order="figo"),
        ),
        Mistake(
            "missing tanh",
            "The tanh on the way out is missing: h = o * tanh(c).",
            _lstm_variant(out="clone"),
        ),
        Mistake(
            "missing tanh of the candidate",
            "The candidate g goes in as it is: g = tanh(...), only the three gates are sigmoids.",
            _lstm_variant(candidate="clone"),
        ),
        Mistake(
            "sigmoid candidate",
            "All four blocks go through a sigmoid. The candidate g is no gate: tanh, so that it can also lower the memory.",
            _lstm_variant(candidate="sigmoid"),
        ),
        Mistake(
            "old cell",
            "The output is made from the old c. First update the cell, then h = o * tanh(new c).",
            _lstm_variant(old=True),
        ),
        Mistake(
            "h and c exchanged",
            "The two results are exchanged: h first, then c.",
            lambda *inputs: _lstm_variant()(*inputs)[::-1],
        ),
        Mistake(
            "no sigmoid",
            "The three gates go in as they are: i, f and o are sigmoids, numbers from 0 to 1.",
            _lstm_variant(gate="clone"),
        ),
        Mistake(
            "one bias",
            "The second bias, b_hh, is missing. One would do, but torch has both, and so do its weights.",
            _lstm_variant(both=False),
        ),
        Mistake(
            "c squashed",
            "The c that is returned went through the tanh. That tanh is for h only; the cell is passed on as it is.",
            lambda *inputs: (_lstm_variant()(*inputs)[0], _lstm_variant()(*inputs)[1].tanh()),
        ),
    ],
    hints=(
        "One sum as in the plain RNN, four times as wide: (N, 4 H). `.chunk(4, -1)` cuts it into i, f, g, o.",
        "Sigmoid for i, f and o, tanh for g. Then c = f * c + i * g, and h = o * tanh(c) with the new c.",
        "c = f.sigmoid() * c + i.sigmoid() * g.tanh(); return o.sigmoid() * c.tanh(), c",
    ),
    passed="c is changed by a product with f and a sum, no matrix: the road on which gradients travel far.",
)


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


gru_cell = Implement(
    id="w06.gru_cell",
    title="The GRU cell",
    minutes=10,
    level=3,
    needs=("w06.lstm_cell",),
    dtype="float64",
    cases=_cell_cases(3),
    oracle=lambda *inputs: torch.gru_cell(*inputs),
    grads=("x", "h", "w_ih", "w_hh", "b_ih", "b_hh"),
    rules=Rules(forbids=_RECURRENT),
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
)


def _lstm(x, state, weights, num_layers=1, bidirectional=False):
    """torch's own LSTM: x (T, N, I), state two of (rows, N, H), weights one list of four per row."""
    flat = [w for layer in weights for w in layer]
    outputs, h, c = torch.lstm(x, tuple(state), flat, True, num_layers, 0.0, False, bidirectional, False)
    return outputs, (h, c)


def _stack_case(steps, batch, inputs, hidden, layers, make="normal"):
    def made(draw):
        sizes = [inputs, *[hidden] * (layers - 1)]
        return {
            "x": getattr(draw, make)(steps, batch, inputs),
            "h": draw.normal(layers, batch, hidden),
            "c": draw.normal(layers, batch, hidden),
            "layers": [tuple(_weights(draw, 4, size, hidden).values()) for size in sizes],
        }

    return made


def _one_layer(x, state, weights):
    outputs, (h, c) = _lstm(x, [s[None] for s in state], [weights])
    return outputs, (h[0], c[0])


def _stack(x, state, layers, start=lambda state, row: [s[row] for s in state]):
    """The answer, with another first state."""
    finals = []
    for row in range(len(layers)):
        x, last = _one_layer(x, start(state, row), layers[row])
        finals.append(last)
    h, c = (torch.stack(states) for states in zip(*finals, strict=True))
    return x, (h, c)


def _stack_all_outputs(x, state, layers):
    tops = []
    finals = []
    for row, weights in enumerate(layers):
        x, last = _one_layer(x, [s[row] for s in state], weights)
        tops.append(x)
        finals.append(last)
    h, c = (torch.stack(states) for states in zip(*finals, strict=True))
    return torch.stack(tops), (h, c)


def _stack_side_by_side(x, state, layers):
    finals = []
    for row, weights in enumerate(layers):
        outputs, last = _one_layer(x, [s[row] for s in state], weights)
        finals.append(last)
    h, c = (torch.stack(states) for states in zip(*finals, strict=True))
    return outputs, (h, c)


def _stack_passing_on(x, state, layers):
    finals, last = [], [s[0] for s in state]
    for weights in layers:
        x, last = _one_layer(x, last, weights)
        finals.append(last)
    h, c = (torch.stack(states) for states in zip(*finals, strict=True))
    return x, (h, c)


stack = Implement(
    id="w06.stack",
    title="Layers on top of each other",
    minutes=8,
    level=2,
    needs=("w06.lstm_cell",),
    dtype="float64",
    cases=[
        Case("two layers", _stack_case(4, 3, 2, 5, 2)),
        Case("three layers", _stack_case(6, 2, 5, 4, 3)),
        Case("as many inputs as states", _stack_case(4, 2, 3, 3, 2)),
        Case("not contiguous", _stack_case(5, 4, 3, 6, 2, "transposed")),
        Case("one sequence", _stack_case(3, 1, 4, 2, 3)),
        Case("one layer", _stack_case(4, 3, 2, 5, 1), extreme=True),
    ],
    use=lambda answer, x, h, c, layers: answer(x, (h, c), layers),
    oracle=lambda x, h, c, layers: _lstm(x, (h, c), layers, len(layers)),
    grads=("x", "h", "c"),
    rules=Rules(forbids=_RECURRENT),
    delegate=lambda x, state, layers: _lstm(x, state, layers, len(layers)),
    lint={
        "equal axes": "a layer that reads what another wrote has a square weight",
        "distinct": "a layer that reads what another wrote has a square weight",
    },
    mistakes=[
        Mistake(
            "one state for all",
            "Every layer starts from the first layer's state. Layer l starts from h[l] and c[l].",
            lambda x, state, layers: _stack(x, state, layers, start=lambda state, row: [s[0] for s in state]),
        ),
        Mistake(
            "state passed upward",
            "The last state of one layer is the first of the next. Each layer has its own: h[l] and c[l].",
            _stack_passing_on,
        ),
        Mistake(
            "every layer reads x",
            "Every layer reads x. Only the lowest does; the others read the outputs of the layer below.",
            _stack_side_by_side,
        ),
        Mistake(
            "zeros",
            "The layers start from zeros; their first states are given.",
            lambda x, state, layers: _stack(x, [0 * s for s in state], layers),
        ),
        Mistake(
            "last layer's state only",
            "Only the top layer's last state is returned. Every layer has one: stack them, (L, N, H).",
            lambda x, state, layers: (
                _lstm(x, state, layers, len(layers))[0],
                tuple(s[-1] for s in _lstm(x, state, layers, len(layers))[1]),
            ),
        ),
        Mistake(
            "outputs of every layer",
            "The outputs of all layers are returned; only the top layer's leave the stack.",
            _stack_all_outputs,
        ),
        Mistake(
            "states upside down",
            "The last states are stacked from the top layer down; row 0 is the lowest layer.",
            lambda x, state, layers: (
                _lstm(x, state, layers, len(layers))[0],
                tuple(s.flip(0) for s in _lstm(x, state, layers, len(layers))[1]),
            ),
        ),
    ],
    hints=(
        "The outputs of one layer, (T, N, H), are the next one's x. Keep each layer's last h and c in two lists.",
        "for l, weights in enumerate(layers): x, (h_l, c_l) = lstm(x, (h[l], c[l]), weights). Stack the lists at the end.",
        "return x, (torch.stack(last_h), torch.stack(last_c))",
    ),
    passed="`nn.LSTM(..., num_layers=2)` is this loop; weight_ih_l1 is the second layer's.",
)


def _both_case(steps, batch, inputs, hidden, make="normal"):
    def made(draw):
        return {
            "x": getattr(draw, make)(steps, batch, inputs),
            "h": draw.normal(2, batch, hidden),
            "c": draw.normal(2, batch, hidden),
            "forward": tuple(_weights(draw, 4, inputs, hidden).values()),
            "backward": tuple(_weights(draw, 4, inputs, hidden).values()),
        }

    return made


def _both(
    x, state, forward, backward, axis=0, turn=True, join=None, last="state", order=(0, 1), goes_on=False
):
    """The answer, with one thing changed."""
    right, (h0, c0) = _one_layer(x, [s[order[0]] for s in state], forward)
    first = (h0, c0) if goes_on else [s[order[1]] for s in state]
    left, (h1, c1) = _one_layer(x if axis is None else x.flip(axis), first, backward)
    left = left.flip(axis) if turn else left
    h1 = left[-1] if last == "output" else h1
    outputs = join(right, left) if join else torch.cat([right, left], -1)
    return outputs, (torch.stack([h0, h1]), torch.stack([c0, c1]))


bidirectional = Implement(
    id="w06.bidirectional",
    title="From both ends",
    minutes=10,
    level=3,
    needs=("w06.stack",),
    dtype="float64",
    cases=[
        Case("four steps", _both_case(4, 3, 2, 5)),
        Case("seven steps", _both_case(7, 4, 5, 3)),
        Case("not contiguous", _both_case(5, 4, 3, 6, "transposed")),
        Case("one sequence", _both_case(3, 1, 4, 5)),
        Case("one step", _both_case(1, 3, 2, 4), extreme=True),
    ],
    use=lambda answer, x, h, c, forward, backward: answer(x, (h, c), forward, backward),
    oracle=lambda x, h, c, forward, backward: _lstm(x, (h, c), [forward, backward], 1, True),
    grads=("x", "h", "c"),
    rules=Rules(forbids=_RECURRENT),
    delegate=lambda x, state, forward, backward: _lstm(x, state, [forward, backward], 1, True),
    mistakes=[
        Mistake(
            "not turned back",
            "The outputs of the way back stand in reading order: its first belongs to the last step. Flip them again.",
            lambda *inputs: _both(*inputs, turn=False),
        ),
        Mistake(
            "both forward",
            "Both ways read from the first step to the last. The way back reads x.flip(0).",
            lambda *inputs: _both(*inputs, axis=None, turn=False),
        ),
        Mistake(
            "goes on from the way forward",
            "The way back starts from the last state of the way forward. Its own first state is row 1: h[1] and c[1].",
            lambda *inputs: _both(*inputs, goes_on=True),
        ),
        Mistake(
            "wrong axis",
            "The batch is reversed, not time: x is (T, N, I), time is axis 0.",
            lambda *inputs: _both(*inputs, axis=1),
        ),
        Mistake(
            "added",
            "The two directions are added; they stand side by side, (T, N, 2 H).",
            lambda *inputs: _both(*inputs, join=lambda a, b: a + b),
        ),
        Mistake(
            "backward first",
            "The way back stands first; torch puts the way forward first.",
            lambda *inputs: _both(*inputs, join=lambda a, b: torch.cat([b, a], -1)),
        ),
        Mistake(
            "state at the last step",
            "h of the way back is read at the last step, where it has seen one input. Its last state is after step 0.",
            lambda *inputs: _both(*inputs, last="output"),
        ),
        Mistake(
            "one set of weights",
            "Both ways use the weights of the way forward. The way back has its own: `backward`.",
            lambda x, state, forward, backward: _both(x, state, forward, forward),
        ),
        Mistake(
            "one state for both",
            "Both ways start from row 0 of the state; row 1 is for the way back.",
            lambda *inputs: _both(*inputs, order=(0, 0)),
        ),
    ],
    hints=(
        "The way back is the same function on x.flip(0), with the other weights and row 1 of the states.",
        "Its outputs come in the order in which it read: flip them back, then torch.cat([right, left], -1).",
        "left, last = lstm(x.flip(0), (h[1], c[1]), backward); outputs = torch.cat([right, left.flip(0)], -1)",
    ),
    passed="At every step the output knows the whole sequence. That is why no model that writes is bidirectional.",
)


def _segments_case(steps, batch, inputs, hidden, length, make="normal"):
    def made(draw):
        return {
            "x": getattr(draw, make)(steps, batch, inputs),
            "target": draw.normal(steps, batch, hidden),
            "state": (draw.normal(batch, hidden), draw.normal(batch, hidden)),
            "weights": tuple(_weights(draw, 4, inputs, hidden).values()),
            "length": length,
        }

    return made


def _most_kept(run):
    """The most bytes that graphs hold on to at one time while `run()` runs."""
    alive = most = 0

    class Kept:
        def __init__(self, tensor):
            nonlocal alive, most
            self.tensor = tensor.detach()
            alive += tensor.nbytes
            most = max(most, alive)

        def __del__(self):
            nonlocal alive
            alive -= self.tensor.nbytes

    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
        run()
    return most


def _use_truncated(answer, x, target, state, weights, length):
    def fresh():
        return tuple(w.detach().clone().requires_grad_() for w in weights)

    own = fresh()
    loss, last = answer(x, target, state, own, length)
    names = ("w_ih", "w_hh", "b_ih", "b_hh")
    all_kept = _most_kept(lambda: answer(x, target, state, fresh(), length))
    one_kept = _most_kept(lambda: answer(x[:length], target[:length], state, fresh(), length))
    return {
        "loss": float(loss),
        "loss carries a graph": bool(getattr(loss, "requires_grad", False)),
        "gradients": {
            name: torch.zeros_like(w) if w.grad is None else w.grad
            for name, w in zip(names, own, strict=True)
        },
        "state": tuple(s.detach() for s in last),
        "state carries a graph": any(s.requires_grad for s in last),
        "more than one segment's graph is kept": all_kept > 1.6 * max(one_kept, 1),
    }


def _squares(errors):
    return errors.square().sum()


def _truncated(x, target, state, weights, length, cut=None, fresh=False, drop=False, loss_of=_squares):
    """The answer with torch's LSTM: `cut` detaches the state, `fresh` starts each segment anew."""
    total, first = 0.0, state
    for start in range(0, len(x), length):
        part = x[start : start + length]
        if drop and len(part) < length:
            break
        outputs, state = _one_layer(part, first if fresh else state, weights)
        loss = loss_of(outputs - target[start : start + length])
        loss.backward()
        total += loss.item()
        state = cut(state) if cut else tuple(s.detach() for s in state)
    return total, state


def _truncated_with_the_graph(
    x, target, state, weights, length, keep_loss=False, last=True, back=True, c_too=True
):
    """The answer, but something still hangs on its graph, or backward is not called."""
    total = 0.0
    for start in range(0, len(x), length):
        state = (state[0].detach(), state[1].detach() if c_too else state[1])
        outputs, state = _one_layer(x[start : start + length], state, weights)
        loss = _squares(outputs - target[start : start + length])
        if back:
            loss.backward()
        total = total + (loss if keep_loss else loss.item())
    return total, tuple(s.detach() for s in state) if last else state


def _truncated_everywhere(x, target, state, weights, length):
    return _truncated(x, target, state, weights, 1)


def _truncated_nowhere(x, target, state, weights, length):
    return _truncated(x, target, state, weights, len(x))


def _truncated_at_the_end(x, target, state, weights, length):
    total = 0.0
    for start in range(0, len(x), length):
        outputs, state = _one_layer(x[start : start + length], state, weights)
        total = total + (outputs - target[start : start + length]).square().sum()
        state = tuple(s.detach() for s in state)
    total.backward()
    return total.item(), state


def _truncated_last_only(x, target, state, weights, length):
    for start in range(0, len(x), length):
        outputs, state = _one_layer(x[start : start + length], state, weights)
        loss = (outputs - target[start : start + length]).square().sum()
        for w in weights:
            w.grad = None
        loss.backward()
        state = tuple(s.detach() for s in state)
    return loss.item(), state


truncated = Implement(
    id="w06.truncated",
    title="Cut the past, keep the state",
    minutes=12,
    level=3,
    needs=("w06.stack",),
    dtype="float64",
    cases=[
        Case("three segments", _segments_case(6, 3, 2, 5, 2)),
        Case("the last one shorter", _segments_case(7, 2, 4, 3, 3)),
        Case("not contiguous", _segments_case(8, 3, 5, 2, 3, "transposed")),
        Case("one sequence", _segments_case(5, 1, 2, 3, 2)),
        Case("one segment", _segments_case(4, 2, 3, 5, 9), extreme=True),
    ],
    use=_use_truncated,
    oracle=lambda *inputs: _use_truncated(_truncated, *inputs),
    reference="torch, segment by segment",
    lint={"delegation": "torch has no function for it: a loop, backward and detach are the tools"},
    mistakes=[
        Mistake(
            "not detached",
            "The state still carries the last segment's graph, which backward has freed. Detach both h and c.",
            lambda *inputs: _truncated(*inputs, cut=lambda state: state),
        ),
        Mistake(
            "only h detached",
            "h is detached and c is not: the last segment's graph hangs on c as well. Detach both.",
            lambda *inputs: _truncated_with_the_graph(*inputs, c_too=False),
        ),
        Mistake(
            "losses added as tensors",
            "The loss that is returned carries a graph: a sum of loss tensors keeps every segment's graph alive. Add loss.item().",
            lambda *inputs: _truncated_with_the_graph(*inputs, keep_loss=True),
        ),
        Mistake(
            "last state not detached",
            "The state that is returned still carries the last segment's graph; it is to be detached as well.",
            lambda *inputs: _truncated_with_the_graph(*inputs, last=False),
        ),
        Mistake(
            "no backward",
            "The weights have no gradients: call loss.backward() for every segment.",
            lambda *inputs: _truncated_with_the_graph(*inputs, back=False),
        ),
        Mistake(
            "mean for sum",
            "The squared differences are averaged; their sum is asked for.",
            lambda *inputs: _truncated(*inputs, loss_of=lambda errors: errors.square().mean()),
        ),
        Mistake(
            "state forgotten",
            "Every segment starts from the first state. The values are to be carried on; only the graph is cut.",
            lambda *inputs: _truncated(*inputs, fresh=True),
        ),
        Mistake(
            "zeros carried",
            "Each segment but the first starts from zeros: that cuts the memory, not only the graph. Use detach().",
            lambda *inputs: _truncated(*inputs, cut=lambda state: tuple(torch.zeros_like(s) for s in state)),
        ),
        Mistake(
            "cut at every step",
            "The graph is cut after every step, so no gradient goes further back than one. Cut after `length` steps.",
            _truncated_everywhere,
        ),
        Mistake(
            "never cut",
            "The gradients go through the whole sequence: it is one segment. Cut x and target into pieces of `length`.",
            _truncated_nowhere,
        ),
        Mistake(
            "rest left out",
            "The last segment, shorter than the others, is missing.",
            lambda *inputs: _truncated(*inputs, drop=True),
        ),
        Mistake(
            "one backward at the end",
            "The numbers are right, but backward comes once, at the end: until then every segment's graph is kept. Call it per segment.",
            _truncated_at_the_end,
        ),
        Mistake(
            "last segment only",
            "Loss and gradients are those of the last segment. Add up the losses, and let backward add up the gradients.",
            _truncated_last_only,
        ),
    ],
    hints=(
        "for start in range(0, len(x), length): the segment is x[start : start + length], its target alike.",
        "For each: outputs, state = lstm(...), loss, loss.backward(), then state = tuple(s.detach() for s in state).",
        "total += loss.item() after loss.backward(); return total, state",
    ),
    passed="Sequences without an end can be trained on: the memory needed is that of one segment.",
)


# 02 ragged batches

_PACKING = (
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


def _ragged(lengths, size, make="normal", name="outputs"):
    """A padded batch (T, N, size) with garbage as padding, and its lengths."""

    def made(draw):
        return {name: getattr(draw, make)(max(lengths), len(lengths), size), "lengths": np.array(lengths)}

    return made


def _last(outputs, lengths):
    return outputs[lengths - 1, torch.arange(len(lengths))]


def _real(lengths, steps, shift=0):
    """(T, N): True where a step belongs to its sequence."""
    return torch.arange(steps)[:, None] < lengths + shift


last_state = Implement(
    id="w06.last_state",
    title="The last real step",
    minutes=6,
    level=1,
    dtype="float64",
    cases=[
        Case("three sequences", _ragged([2, 5, 3], 4)),
        Case("four, the longest first", _ragged([6, 1, 4, 2], 3)),
        Case("not contiguous", _ragged([3, 1, 4, 6, 2], 2, "transposed")),
        Case("one number per step", _ragged([4, 2], 1)),
        Case("one sequence", _ragged([3], 4), extreme=True),
    ],
    oracle=_last,
    grads=("outputs",),
    lint={"delegation": "torch has no function for it: it is one line of indexing"},
    mistakes=[
        Mistake(
            "reads the pad step",
            "The last row of the table is padding for every sequence but the longest. Sequence n ends at step lengths[n] - 1.",
            lambda outputs, lengths: outputs[-1].clone(),
        ),
        Mistake(
            "one step early",
            "This is one step before the end: a sequence of length n ends at step n - 1.",
            lambda outputs, lengths: outputs[lengths - 2, torch.arange(len(lengths))],
        ),
        Mistake(
            "one step too far",
            "A sequence of length n ends at step n - 1; step n is padding, or does not exist.",
            lambda outputs, lengths: outputs[lengths, torch.arange(len(lengths))],
        ),
        Mistake(
            "every pair",
            "outputs[lengths - 1] takes whole rows, all sequences at each of the ends. Index the second axis too: torch.arange(N).",
            lambda outputs, lengths: outputs[lengths - 1],
        ),
        Mistake(
            "axis",
            "The two axes are exchanged: outputs is (T, N, H), the step comes first.",
            lambda outputs, lengths: outputs[torch.arange(len(lengths)), lengths - 1],
        ),
        Mistake(
            "average",
            "This is the mean of all real steps. The last one is wanted.",
            lambda outputs, lengths: (
                (outputs * _real(lengths, len(outputs))[..., None]).sum(0) / lengths[:, None]
            ),
        ),
    ],
    hints=(
        "For each sequence n one step: lengths[n] - 1. Two lists of positions index two axes, pair by pair.",
        "outputs[steps, columns] with steps = lengths - 1 and columns = torch.arange(N).",
        "outputs[lengths - 1, torch.arange(len(lengths))]",
    ),
    passed="Index with two lists and they are taken in pairs; that is the difference from slicing.",
)


def _loss_inputs(lengths, letters, make="normal", hostile=False):
    def made(draw):
        steps, count = max(lengths), len(lengths)
        logits = getattr(draw, make)(steps, count, letters)
        if hostile:
            logits[np.arange(steps)[:, None] >= np.array(lengths)] = np.inf
        return {
            "logits": logits,
            "targets": draw.integers(0, letters, steps, count),
            "lengths": np.array(lengths),
        }

    return made


def _each_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").reshape(targets.shape)


def _masked_loss(logits, targets, lengths, shift=0, turn=False, reduction="mean"):
    real = _real(lengths, len(logits), shift)
    real = ~real if turn else real
    return F.cross_entropy(logits[real], targets[real], reduction=reduction)


def _loss_by_product(logits, targets, lengths, divide="real"):
    real = _real(lengths, len(logits)).to(logits.dtype)
    total = (_each_loss(logits, targets) * real).sum()
    return total / (real.sum() if divide == "real" else real.numel())


def _mean_of_means(logits, targets, lengths):
    real = _real(lengths, len(logits))
    return (torch.where(real, _each_loss(logits, targets), 0.0).sum(0) / lengths).mean()


def _zero_targets_ignored(logits, targets, lengths):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)


masked_loss = Implement(
    id="w06.masked_loss",
    title="A loss without padding",
    minutes=10,
    level=2,
    needs=("w06.last_state",),
    dtype="float64",
    cases=[
        Case("three sequences", _loss_inputs([2, 5, 4], 6)),
        Case("four sequences", _loss_inputs([6, 1, 3, 5], 7)),
        Case("not contiguous", _loss_inputs([3, 6], 4, "transposed")),
        Case("one sequence", _loss_inputs([5], 3)),
        Case("infinite logits in the padding", _loss_inputs([2, 4, 3], 5, hostile=True), extreme=True),
    ],
    oracle=_masked_loss,
    grads=("logits",),
    lint={
        "delegation": "torch has no function for it: its cross-entropy is given, the choice of steps is asked for"
    },
    mistakes=[
        Mistake(
            "reads the pad step",
            "The padding counts as well: the mean is over all T * N steps. Leave out the steps from lengths[n] on.",
            lambda logits, targets, lengths: _each_loss(logits, targets).mean(),
        ),
        Mistake(
            "divided by everything",
            "The padding is left out of the sum, and still divides it: divide by the number of real steps.",
            lambda *inputs: _loss_by_product(*inputs, divide="all"),
        ),
        Mistake(
            "sum for mean",
            "The losses of the real steps are added up; divide by how many there are.",
            lambda *inputs: _masked_loss(*inputs, reduction="sum"),
        ),
        Mistake(
            "padding set to zero",
            "The padded logits are set to 0 and still counted: equal scores cost ln V each. Leave those steps out.",
            lambda logits, targets, lengths: _each_loss(
                torch.where(_real(lengths, len(logits))[..., None], logits, 0.0), targets
            ).mean(),
        ),
        Mistake(
            "one step too few",
            "The last real step of every sequence is missing: step t is real if t < lengths[n].",
            lambda *inputs: _masked_loss(*inputs, shift=-1),
        ),
        Mistake(
            "axis",
            "The mask is (N, T); logits and targets are time first: torch.arange(T)[:, None] < lengths is (T, N).",
            lambda logits, targets, lengths: F.cross_entropy(
                logits[_real(lengths, len(logits)).T], targets[_real(lengths, len(logits)).T]
            ),
        ),
        Mistake(
            "mean of means",
            "Each sequence is averaged first, so that a letter of a short name counts more. Average over all real steps at once.",
            _mean_of_means,
        ),
        Mistake(
            "one step too many",
            "One step of padding is counted: step t is real if t < lengths[n].",
            lambda *inputs: _masked_loss(*inputs, shift=1),
        ),
        Mistake(
            "mask inverted",
            "Only the padding is counted: the mask is the wrong way around.",
            lambda *inputs: _masked_loss(*inputs, turn=True),
        ),
        Mistake(
            "token 0 ignored",
            "Every target 0 is left out, also the real ones. Padding is where t >= lengths[n], whatever stands there.",
            _zero_targets_ignored,
        ),
        Mistake(
            "zero times infinity",
            "The loss of a padded step is multiplied by 0, and 0 * inf is nan. Choose the real steps, or use torch.where.",
            _loss_by_product,
        ),
    ],
    hints=(
        "A mask of (T, N): torch.arange(T)[:, None] < lengths. True where a step is real.",
        "logits[mask] has one row per real step, (real, V); targets[mask] one number. That is what cross-entropy takes.",
        "F.cross_entropy(logits[mask], targets[mask])",
    ),
    passed="The mean is over letters, not names: batches of other lengths can be compared.",
)


def _packed(x, lengths):
    """torch's own packing, as a plain tuple."""
    pack = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    return tuple(pack)


def _pack(x, lengths, descending=True, sort=True, whole=False, by_row=False, shift=0, invert=True, move=True):
    """The answer, with one thing changed."""
    order = torch.argsort(lengths, descending=descending) if sort else torch.arange(len(lengths))
    x, lengths = x[:, order] if move else x, lengths[order]
    real = _real(lengths, len(x), shift)
    real = torch.ones_like(real) if whole else real
    data = x.transpose(0, 1)[real.T] if by_row else x[real]
    return data, real.sum(1), order, torch.argsort(order) if invert else order.clone()


pack = Implement(
    id="w06.pack",
    title="Pack",
    minutes=12,
    level=3,
    needs=("w06.masked_loss",),
    dtype="float64",
    cases=[
        Case("three, unsorted", _ragged([2, 5, 3], 4, name="x")),
        Case("four, unsorted", _ragged([4, 1, 6, 3], 2, name="x")),
        Case("not contiguous", _ragged([3, 1, 5, 4], 2, "transposed", "x")),
        Case("one number per step", _ragged([1, 3, 2, 6, 5], 1, name="x")),
        Case("sorted already", _ragged([6, 4, 3, 1], 2, name="x")),
        Case("one sequence", _ragged([3], 2, name="x"), extreme=True),
    ],
    oracle=_packed,
    grads=("x",),
    reference="pack_padded_sequence",
    delegate=_packed,
    rules=Rules(forbids=_PACKING),
    mistakes=[
        Mistake(
            "unsorted lengths",
            "The sequences are packed in the order in which they came. Sort them first, longest first: only then the running ones are the first rows.",
            lambda x, lengths: _pack(x, lengths, sort=False),
        ),
        Mistake(
            "only the lengths sorted",
            "The lengths are sorted, the sequences are not: x[:, order] belongs to lengths[order].",
            lambda x, lengths: _pack(x, lengths, move=False),
        ),
        Mistake(
            "shortest first",
            "The shortest sequence comes first. Longest first: sort with descending=True.",
            lambda x, lengths: _pack(x, lengths, descending=False),
        ),
        Mistake(
            "reads the pad step",
            "The padding was packed too: step t takes only the sequences with more than t steps.",
            lambda x, lengths: _pack(x, lengths, whole=True),
        ),
        Mistake(
            "sequence after sequence",
            "One whole sequence follows the other. Packed is step after step: first step 0 of all, then step 1 of all that have one.",
            lambda x, lengths: _pack(x, lengths, by_row=True),
        ),
        Mistake(
            "one step short",
            "The last step of every sequence is missing: step t is real if t < length.",
            lambda x, lengths: _pack(x, lengths, shift=-1),
        ),
        Mistake(
            "order not inverted",
            "The way back is the same list as the way there. unsorted[sorted[k]] = k: the argsort of the order.",
            lambda x, lengths: _pack(x, lengths, invert=False),
        ),
    ],
    hints=(
        "order = torch.argsort(lengths, descending=True), then x[:, order] and lengths[order].",
        "real = torch.arange(T)[:, None] < lengths, both in the new order. x[real] is the data, real.sum(1) the batch sizes.",
        "return x[real], real.sum(1), order, torch.argsort(order)",
    ),
    passed="A boolean mask picks row by row, and the rows are steps: exactly torch's layout.",
)


def _packed_inputs(lengths, inputs, hidden, make="normal"):
    """Data of sequences sorted by falling length, first states, GRU weights."""

    def made(draw):
        sizes = np.array([sum(n > t for n in lengths) for t in range(max(lengths))])
        return {
            "data": getattr(draw, make)(sum(lengths), inputs),
            "batch_sizes": sizes,
            "h": draw.normal(len(lengths), hidden),
            **_weights(draw, 3, inputs, hidden),
        }

    return made


def _use_packed(answer, data, batch_sizes, h, *weights):
    return answer(lambda x, state: torch.gru_cell(x, state, *weights), data, batch_sizes, h)


def _gru_packed(data, batch_sizes, h, *weights):
    outputs, last = torch.gru(data, batch_sizes, h[None], weights, True, 1, 0.0, False, False)
    return outputs, last[0]


def _run_packed(cell, data, batch_sizes, h, rows="first", carry=True, ended="kept"):
    """The answer, with one thing changed."""
    outputs, start, first = [], 0, h
    for n in batch_sizes.tolist():
        old = h if carry else first
        part = old[:n] if rows == "first" else old[len(old) - n :]
        new = cell(data[start : start + n], part)
        outputs.append(new)
        start += n
        if ended == "dropped":
            h = new
        elif ended == "zero":
            h = torch.cat([new, torch.zeros_like(h[n:])])
        elif rows == "first":
            h = torch.cat([new, h[n:]])
        else:
            h = torch.cat([h[: len(h) - n], new])
    return torch.cat(outputs), h


def _run_in_place(cell, data, batch_sizes, h):
    outputs, start = [], 0
    for n in batch_sizes.tolist():
        h[:n] = cell(data[start : start + n], h[:n])
        outputs.append(h[:n])
        start += n
    return torch.cat(outputs), h


def _run_by_counting(cell, data, batch_sizes, h):
    """As if every step had as many rows as the first: reads on into the next step."""
    outputs, start, count = [], 0, int(batch_sizes[0])
    for n in batch_sizes.tolist():
        new = cell(data[start : start + n], h[:n])
        outputs.append(new)
        start = min(start + count, len(data) - 1) if start + count + n <= len(data) else len(data) - n
        h = torch.cat([new, h[n:]])
    return torch.cat(outputs), h


packed_run = Implement(
    id="w06.packed_run",
    title="Run it packed",
    minutes=12,
    level=3,
    needs=("w06.pack",),
    dtype="float64",
    cases=[
        Case("three sequences", _packed_inputs([5, 3, 2], 4, 6)),
        Case("four sequences", _packed_inputs([6, 4, 3, 1], 2, 5)),
        Case("two of one length", _packed_inputs([4, 4, 1], 5, 2)),
        Case("not contiguous", _packed_inputs([4, 3, 1], 3, 5, "transposed")),
        Case("one input", _packed_inputs([3, 2, 1], 1, 4)),
        Case("one sequence", _packed_inputs([4], 3, 2), extreme=True),
    ],
    use=_use_packed,
    oracle=_gru_packed,
    grads=("data", "h"),
    reference="a packed nn.GRU",
    lint={
        "delegation": "the cell is handed in; torch's layer for it takes weights, which the answer does not see"
    },
    mistakes=[
        Mistake(
            "last state of the longest",
            "Only the states that are still running at the end are returned. A sequence that has ended keeps its state: it is wanted too.",
            lambda *inputs: _run_packed(*inputs, ended="dropped"),
        ),
        Mistake(
            "ended states erased",
            "Sequences that have ended are set to zero. They keep the state of their last real step.",
            lambda *inputs: _run_packed(*inputs, ended="zero"),
        ),
        Mistake(
            "last rows",
            "The last rows of the state are taken. Longest first: the sequences still running are the first n rows.",
            lambda *inputs: _run_packed(*inputs, rows="last"),
        ),
        Mistake(
            "state not carried",
            "Every step starts from the first state. Put the new rows back into h.",
            lambda *inputs: _run_packed(*inputs, carry=False),
        ),
        Mistake(
            "starts from zero",
            "The run starts from zeros; the first state is given.",
            lambda cell, data, batch_sizes, h: _run_packed(cell, data, batch_sizes, 0 * h),
        ),
        Mistake(
            "in place",
            "The new states are written into h, and outputs that are views of it change with it. Make new tensors: torch.cat.",
            _run_in_place,
        ),
        Mistake(
            "always a full batch further",
            "The next step is looked for a whole batch further on. Step t has batch_sizes[t] rows: go on by that many.",
            _run_by_counting,
        ),
    ],
    hints=(
        "data.split(batch_sizes.tolist()) gives the rows of each step. With n rows, the first n states are running.",
        "new = cell(part, h[:n]). The others stay: h = torch.cat([new, h[n:]]).",
        "outputs.append(new) for each step; at the end return torch.cat(outputs), h",
    ),
    passed="No step was computed for nothing, and every last state is that of a real step.",
)


def _unpack_inputs(lengths, order, size, make="normal"):
    """Data of sequences sorted by falling length; `order` says where each of them stood."""

    def made(draw):
        sizes = np.array([sum(n > t for n in lengths) for t in range(max(lengths))])
        return {
            "data": getattr(draw, make)(sum(lengths), size),
            "batch_sizes": sizes,
            "unsorted_indices": np.array(order),
        }

    return made


def _unpacked(data, batch_sizes, unsorted_indices):
    inverse = torch.argsort(unsorted_indices)
    pack = torch.nn.utils.rnn.PackedSequence(data, batch_sizes, inverse, unsorted_indices)
    return torch.nn.utils.rnn.pad_packed_sequence(pack)


def _unpack(
    data, batch_sizes, order, put=None, way=lambda order: order, lengths_too=True, front=False, by_row=False
):
    """The answer, with one thing changed."""
    steps, count = len(batch_sizes), int(batch_sizes[0])
    real = torch.arange(count) < batch_sizes[:, None]
    lengths = real.sum(0)
    x = data.new_zeros(steps, count, data.shape[1])
    if by_row:
        x.transpose(0, 1)[real.T] = data
    else:
        x[real] = data
    if front:
        x = torch.stack([torch.roll(x[:, n], steps - int(lengths[n]), 0) for n in range(count)], 1)
    if put == "repeat":
        x = torch.stack([x[torch.arange(steps).clamp(max=int(lengths[n]) - 1), n] for n in range(count)], 1)
    order = way(order)
    return x[:, order], lengths[order] if lengths_too else lengths


unpack = Implement(
    id="w06.unpack",
    title="And unpack",
    minutes=10,
    level=3,
    needs=("w06.pack",),
    dtype="float64",
    cases=[
        Case("three sequences", _unpack_inputs([5, 3, 2], [2, 0, 1], 4)),
        Case("four sequences", _unpack_inputs([6, 4, 3, 1], [1, 3, 0, 2], 5)),
        Case("not contiguous", _unpack_inputs([5, 4, 2, 1], [3, 0, 1, 2], 3, "transposed")),
        Case("one number per step", _unpack_inputs([4, 3, 1], [1, 2, 0], 1)),
        Case("one sequence", _unpack_inputs([3], [0], 2), extreme=True),
    ],
    oracle=_unpacked,
    grads=("data",),
    reference="pad_packed_sequence",
    delegate=_unpacked,
    rules=Rules(forbids=_PACKING),
    mistakes=[
        Mistake(
            "left sorted",
            "The sequences still stand longest first. Bring them back: x[:, unsorted_indices], and the lengths too.",
            lambda *inputs: _unpack(*inputs, way=lambda order: torch.arange(len(order))),
        ),
        Mistake(
            "order inverted",
            "The order was reversed once too often: unsorted_indices is already the way back, index with it as it is.",
            lambda *inputs: _unpack(*inputs, way=lambda order: torch.argsort(order)),
        ),
        Mistake(
            "lengths left sorted",
            "The sequences are back in their order, their lengths are not.",
            lambda *inputs: _unpack(*inputs, lengths_too=False),
        ),
        Mistake(
            "sequence after sequence",
            "The data is taken as one sequence after the other. It is step after step.",
            lambda *inputs: _unpack(*inputs, by_row=True),
        ),
        Mistake(
            "padded in front",
            "The padding stands in front; every sequence begins at step 0.",
            lambda *inputs: _unpack(*inputs, front=True),
        ),
        Mistake(
            "last step repeated",
            "After its end a sequence repeats its last step. The padding is zeros.",
            lambda *inputs: _unpack(*inputs, put="repeat"),
        ),
    ],
    hints=(
        "T = len(batch_sizes), N = batch_sizes[0]. At step t the first batch_sizes[t] columns are real.",
        "real = torch.arange(N) < batch_sizes[:, None] is (T, N). x = data.new_zeros(T, N, size); x[real] = data.",
        "return x[:, unsorted_indices], real.sum(0)[unsorted_indices]",
    ),
    passed="Pack, run, unpack: padding never reaches the network, and nobody outside notices the sorting.",
)


def _buckets(lengths, size, key=None, drop=False):
    order = sorted(range(len(lengths)), key=key or (lambda n: lengths[n]))
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    return [batch for batch in batches if len(batch) == size] if drop else batches


def _buckets_of_one_length(lengths, size):
    found = {}
    for n, length in enumerate(lengths):
        found.setdefault(length, []).append(n)
    return [
        group[start : start + size]
        for _, group in sorted(found.items())
        for start in range(0, len(group), size)
    ]


buckets = Implement(
    id="w06.buckets",
    title="Buckets",
    minutes=6,
    level=1,
    needs=("w06.masked_loss",),
    engine="python",
    cases=[
        Case("seven in threes", lambda draw: {"lengths": [5, 2, 9, 4, 7, 3, 8], "batch_size": 3}),
        Case("equal lengths", lambda draw: {"lengths": [4, 2, 4, 2, 6, 4], "batch_size": 2}),
        Case("one batch", lambda draw: {"lengths": [3, 1, 2], "batch_size": 8}),
        Case("one at a time", lambda draw: {"lengths": [6, 2, 5], "batch_size": 1}),
        Case("no sequences", lambda draw: {"lengths": [], "batch_size": 4}, extreme=True),
    ],
    oracle=_buckets,
    reference="a plain sort",
    lint={"delegation": "torch has no function for it: sorted and a slice are the tools"},
    mistakes=[
        Mistake(
            "not sorted",
            "The batches are cut in the order of the data. Sort the positions by length first.",
            lambda lengths, size: _buckets(lengths, size, key=lambda n: 0),
        ),
        Mistake(
            "lengths for positions",
            "These are the lengths themselves. A batch is a list of positions, to fetch the sequences with.",
            lambda lengths, size: [[lengths[n] for n in batch] for batch in _buckets(lengths, size)],
        ),
        Mistake(
            "longest first",
            "The longest come first here; shortest first is asked for.",
            lambda lengths, size: _buckets(lengths, size, key=lambda n: -lengths[n]),
        ),
        Mistake(
            "rest dropped",
            "The last batch, smaller than the others, is missing.",
            lambda lengths, size: _buckets(lengths, size, drop=True),
        ),
        Mistake(
            "one length per batch",
            "Each batch holds one single length, so many batches are nearly empty. Lengths need only be close: sort, then cut.",
            _buckets_of_one_length,
        ),
    ],
    hints=(
        "sorted(range(n), key=...) sorts positions by something else than themselves.",
        "order = sorted(range(len(lengths)), key=lambda n: lengths[n]); equal lengths keep their order.",
        "[order[start : start + batch_size] for start in range(0, len(order), batch_size)]",
    ),
    passed="Shuffle the batches of each epoch, not their contents, and the order is random enough.",
)


# 03 in PyTorch


def _layer(kind="LSTM", shape=(7, 3, 10), **options):
    layer = getattr(torch.nn, kind)(10, 20, **options)
    outputs, state = layer(torch.zeros(*shape))
    return layer, outputs, state[0] if kind == "LSTM" else state


_DEEP = {"num_layers": 2, "bidirectional": True}

shapes = Predict(
    id="w06.shapes",
    title="Which shape?",
    minutes=10,
    level=2,
    needs=("w06.stack", "w06.bidirectional"),
    items={
        "a": Item("outputs of `nn.LSTM(10, 20)`", lambda: tuple(_layer()[1].shape)),
        "b": Item("h_n of the same layer", lambda: tuple(_layer()[2].shape)),
        "c": Item(
            "outputs of `nn.LSTM(10, 20)`, batch first",
            lambda: tuple(_layer(shape=(3, 7, 10), batch_first=True)[1].shape),
        ),
        "d": Item("h_n, batch first", lambda: tuple(_layer(shape=(3, 7, 10), batch_first=True)[2].shape)),
        "e": Item(
            "outputs of `nn.LSTM(10, 20, num_layers=2, bidirectional=True)`",
            lambda: tuple(_layer(**_DEEP)[1].shape),
        ),
        "f": Item("h_n of that layer", lambda: tuple(_layer(**_DEEP)[2].shape)),
        "g": Item("`weight_ih_l0` of `nn.LSTM(10, 20)`", lambda: tuple(_layer()[0].weight_ih_l0.shape)),
        "h": Item("`weight_ih_l1` of the layer of e", lambda: tuple(_layer(**_DEEP)[0].weight_ih_l1.shape)),
        "i": Item(
            "all parameters of `nn.GRU(10, 20)`, counted",
            lambda: sum(p.numel() for p in _layer("GRU")[0].parameters()),
        ),
    },
    mistakes=[
        Mistake("last step only", "a: the outputs are those of every step, time first.", {"a": (3, 20)}),
        Mistake(
            "no layer axis", "b: a state has an axis of layers in front, also for one layer.", {"b": (3, 20)}
        ),
        Mistake(
            "time first",
            "c: batch_first=True: the outputs come batch first as the input does.",
            {"c": (7, 3, 20)},
        ),
        Mistake(
            "state batch first",
            "d: batch_first does not touch the states: layers, batch, hidden.",
            {"d": (3, 1, 20)},
        ),
        Mistake(
            "one direction", "e: both directions stand side by side on the last axis.", {"e": (7, 3, 20)}
        ),
        Mistake("both layers", "e: only the top layer's outputs leave the stack.", {"e": (7, 3, 80)}),
        Mistake("layers only", "f: one row for each layer and each direction.", {"f": (2, 3, 20)}),
        Mistake(
            "side by side", "f: states are not joined as outputs are: a row each, 20 wide.", {"f": (2, 3, 40)}
        ),
        Mistake("one block", "g: four blocks of 20 rows, i, f, g and o.", {"g": (20, 10)}),
        Mistake("in, out", "g: a weight is (out, in), as in nn.Linear.", {"g": (10, 80)}),
        Mistake(
            "reads one direction", "h: the second layer reads both directions of the first.", {"h": (80, 20)}
        ),
        Mistake(
            "reads the input", "h: the second layer reads the first one's outputs, not x.", {"h": (80, 10)}
        ),
        Mistake("one bias", "i: there are two biases, b_ih and b_hh.", {"i": 3 * 20 * 31}),
        Mistake("no bias", "i: with its two biases it has 3 * 20 more, twice.", {"i": 3 * 20 * 30}),
        Mistake("four gates", "i: a GRU has three blocks, the LSTM four.", {"i": 4 * 20 * 32}),
    ],
    hints=(
        "Outputs: time (or batch), batch (or time), hidden times directions. States: layers times directions, batch, hidden.",
        "A weight has as many rows as blocks times 20: 4 in an LSTM, 3 in a GRU. Its columns are what it reads.",
        "e: (7, 3, 40). f: (4, 3, 20). i: 3 * 20 * (10 + 20 + 1 + 1).",
    ),
    passed="Most shape errors with recurrent layers are one of these nine.",
)


def _filled(model):
    """Parameters by name, the same for whoever wrote the class."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _, p in sorted(model.named_parameters()):
            p.copy_(torch.randn(p.shape, generator=random, dtype=torch.float64))
    return model


def _use_classifier(answer, letters, lengths):
    return _filled(answer(12, 4, 3, 5).double())(letters, lengths)


def _classifier(forward):
    """The lesson's class with another forward pass."""

    def made(vocabulary, embedded, hidden, classes):
        nn = torch.nn

        class NameClassifier(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(vocabulary, embedded, padding_idx=0)
                self.lstm = nn.LSTM(embedded, hidden, batch_first=True, bidirectional=True)
                self.fc = nn.Linear(2 * hidden, classes)

            def forward(self, letters, lengths):
                return forward(self, letters, lengths)

        return NameClassifier()

    return made


def _read_packed(model, letters, lengths, **options):
    options = {"batch_first": True, "enforce_sorted": False, **options}
    packed = torch.nn.utils.rnn.pack_padded_sequence(model.embedding(letters), lengths, **options)
    return model.lstm(packed)


def _both_ends(h):
    return torch.cat([h[0], h[1]], -1)


def _right_classifier(model, letters, lengths):
    return model.fc(_both_ends(_read_packed(model, letters, lengths)[1][0]))


def _last_real_of_both(model, letters, lengths):
    outputs = torch.nn.utils.rnn.pad_packed_sequence(_read_packed(model, letters, lengths)[0], True)[0]
    return model.fc(outputs[torch.arange(len(lengths)), lengths - 1])


def _sorted_and_left(model, letters, lengths):
    order = torch.argsort(lengths, descending=True)
    return _right_classifier(model, letters[order], lengths[order])


def _names_case(lengths):
    def made(draw):
        letters = draw.integers(1, 12, len(lengths), max(lengths))
        letters[np.arange(max(lengths)) >= np.array(lengths)[:, None]] = 0
        return {"letters": letters, "lengths": np.array(lengths)}

    return made


def _letters_transposed(draw):
    inputs = _names_case([3, 6, 2, 5])(draw)
    return {**inputs, "letters": np.asfortranarray(inputs["letters"])}


classifier = Implement(
    id="w06.classifier",
    title="A reader of names",
    minutes=12,
    level=3,
    needs=("w06.pack", "w06.bidirectional"),
    dtype="float64",
    cases=[
        Case("three names", _names_case([2, 5, 4])),
        Case("five names", _names_case([3, 1, 7, 2, 6])),
        Case("not contiguous", _letters_transposed),
        Case("sorted already", _names_case([6, 4, 3, 1])),
        Case("one letter each", _names_case([1]), extreme=True),
    ],
    use=_use_classifier,
    oracle=lambda letters, lengths: _use_classifier(_classifier(_right_classifier), letters, lengths),
    reduces=100,
    lint={
        "delegation": "torch has no such model; its layers are the parts to use",
        "size one": "a single name of one letter is the extreme case",
    },
    mistakes=[
        Mistake(
            "reads the pad step",
            "The output at the last column is used: for all names but the longest that is padding. Take the last states of the packed run.",
            _classifier(lambda m, letters, lengths: m.fc(m.lstm(m.embedding(letters))[0][:, -1])),
        ),
        Mistake(
            "not packed",
            "The LSTM reads the padding: it was given the padded table. Pack the embedded letters first.",
            _classifier(lambda m, letters, lengths: m.fc(_both_ends(m.lstm(m.embedding(letters))[1][0]))),
        ),
        Mistake(
            "unsorted lengths",
            "Packing expects the longest first unless you pass enforce_sorted=False.",
            _classifier(
                lambda m, letters, lengths: m.fc(
                    _both_ends(_read_packed(m, letters, lengths, enforce_sorted=True)[1][0])
                )
            ),
        ),
        Mistake(
            "left sorted",
            "The names were sorted by hand and the answers left in that order: name and answer no longer belong together.",
            _classifier(_sorted_and_left),
        ),
        Mistake(
            "way back at the last step",
            "At the last letter the way back has read one letter only. Its last state, h_n[1], has read them all.",
            _classifier(_last_real_of_both),
        ),
        Mistake(
            "directions exchanged",
            "The way back stands first. h_n[0] is the way forward, h_n[1] the way back.",
            _classifier(
                lambda m, letters, lengths: m.fc(_both_ends(_read_packed(m, letters, lengths)[1][0].flip(0)))
            ),
        ),
        Mistake(
            "reshaped",
            "h_n is (2, N, H), and reshaped to (N, 2 H) it mixes the names. Join its two rows: torch.cat([h[0], h[1]], -1).",
            _classifier(
                lambda m, letters, lengths: m.fc(
                    _read_packed(m, letters, lengths)[1][0].reshape(len(lengths), -1)
                )
            ),
        ),
        Mistake(
            "one direction",
            "Only one direction's last state reaches the linear layer, which wants both: torch.cat([h[0], h[1]], -1).",
            _classifier(lambda m, letters, lengths: m.fc(_read_packed(m, letters, lengths)[1][0][-1])),
        ),
        Mistake(
            "probabilities",
            "The scores went through a softmax. The loss does that: return what the linear layer gives.",
            _classifier(lambda *inputs: _right_classifier(*inputs).softmax(-1)),
        ),
        Mistake(
            "cell for state",
            "This is c_n; the layer returns outputs, (h_n, c_n). The state to show is h_n.",
            _classifier(
                lambda m, letters, lengths: m.fc(_both_ends(_read_packed(m, letters, lengths)[1][1]))
            ),
        ),
        Mistake(
            "axis",
            "The pack takes time for the batch: the table is (N, T), so batch_first=True has to be said to pack_padded_sequence too.",
            _classifier(
                lambda m, letters, lengths: m.fc(
                    _both_ends(_read_packed(m, letters, lengths, batch_first=False)[1][0])
                )
            ),
        ),
    ],
    hints=(
        "Four lines: embed, pack, run the LSTM, join the last states of both directions for the linear layer.",
        "pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False); then _, (h, c) = self.lstm(packed).",
        "return self.fc(torch.cat([h[0], h[1]], -1))",
    ),
    passed="The answer for a name no longer depends on who else is in the batch.",
)


# 04 clinic


def _gru_for(batches):
    layer = torch.nn.GRU(batches[0].shape[2], 4).to(batches[0].dtype)
    return _filled(layer)


def _use_leak(answer, *batches):
    layer = _gru_for(batches)
    return [value.detach() for value in answer(layer, list(batches))]


def _leak_as_found(layer, batches):
    answers, state = [], None
    with torch.no_grad():
        for x in batches:
            outputs, state = layer(x, state)
            answers.append(outputs[-1])
    return answers


def _leak_case(make="normal", *batch_shapes):
    return lambda draw: {f"batch {n}": getattr(draw, make)(*shape) for n, shape in enumerate(batch_shapes)}


def _leak_mended(layer, batches, pick=lambda outputs: outputs[-1]):
    return [pick(layer(x)[0]) for x in batches]


def _leak_first_kept(layer, batches):
    answers, state = [], None
    for x in batches:
        outputs, last = layer(x, state)
        state = last if state is None else state
        answers.append(outputs[-1])
    return answers


def _leak_every_second(layer, batches):
    answers, state = [], None
    for n, x in enumerate(batches):
        outputs, state = layer(x, state if n % 2 else None)
        answers.append(outputs[-1])
    return answers


leak = Fix(
    id="w06.leak",
    title="What the last batch left behind",
    minutes=8,
    level=2,
    needs=("w06.rnn",),
    dtype="float64",
    cases=[
        Case("two batches", _leak_case("normal", (5, 3, 2), (4, 3, 2))),
        Case("three batches", _leak_case("normal", (3, 2, 5), (6, 2, 5), (4, 2, 5))),
        Case("not contiguous", _leak_case("transposed", (4, 2, 3), (5, 2, 3), (3, 2, 3))),
        Case("one sequence each", _leak_case("normal", (4, 1, 3), (6, 1, 3))),
        Case("a smaller last batch", _leak_case("normal", (4, 3, 2), (5, 1, 2)), extreme=True),
    ],
    use=_use_leak,
    oracle=lambda *batches: _use_leak(_leak_mended, *batches),
    reduces=100,
    broken=_leak_as_found,
    fault="the state leaks",
    menu={
        "the state leaks": "",
        "no detach": "Under no_grad there is no graph to cut. Detached or not, the numbers of the last batch go into this one.",
        "wrong step": "outputs[-1] is the last step of every sequence, time first: that part is right.",
    },
    mistakes=[
        Mistake(
            "first batch's state for all",
            "The state of the first batch is now the start of all others. Each batch starts from nothing: pass no state.",
            _leak_first_kept,
        ),
        Mistake(
            "every second batch",
            "Every second batch still starts from the state of the one before.",
            _leak_every_second,
        ),
        Mistake(
            "first step",
            "No state leaks any more, but these are the outputs of the first step; the last is wanted.",
            lambda layer, batches: _leak_mended(layer, batches, lambda outputs: outputs[0]),
        ),
        Mistake(
            "all steps",
            "No state leaks any more, but all steps are returned; the last is wanted.",
            lambda layer, batches: _leak_mended(layer, batches, lambda outputs: outputs),
        ),
        Mistake(
            "forgets inside",
            "Each answer comes from the last input alone: the state was reset at every step, not at every batch.",
            lambda layer, batches: [layer(x[-1:])[0][-1] for x in batches],
        ),
    ],
    hints=(
        "Ask for the same batch twice. What differs between the two calls of the layer?",
        "`state` outlives the loop's turn: the second batch starts where the first ended. Its sequences have nothing to do with those.",
        'fault = "the state leaks"; outputs, _ = layer(x)',
    ),
    passed="Carry a state only where the next batch continues the same sequences, as in truncated training.",
    lint={
        "delegation": "torch has no function for it: the fault is one argument",
        "equal axes": "batches of one case share sizes",
    },
)


def _use_step(answer, w_ih, w_hh, x, target, max_norm):
    """One step on a plain RNN with the given weights; old gradients lie around, as after any step."""
    size = w_hh.shape[0]
    model = torch.nn.RNN(w_ih.shape[1], size, nonlinearity="relu").to(x.dtype)
    with torch.no_grad():
        for p, value in zip(model.parameters(), (w_ih, w_hh), strict=False):
            p.copy_(value)
        model.bias_ih_l0.fill_(0.1)
        model.bias_hh_l0.fill_(0.0)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norm = answer(model, optimizer, x, target, max_norm)
    # As float32: torch divides by the norm plus 1e-6, and clipping by hand without that is right too.
    return {
        "norm": float(norm),
        "parameters": {name: p.detach().float() for name, p in model.named_parameters()},
    }


def _step(model, optimizer, x, target, max_norm, order="zero loss clip step", clip="norm", returned="before"):
    """One training step, its parts in the given order."""
    from torch.nn.utils import clip_grad_norm_, clip_grad_value_

    norm = torch.tensor(0.0)
    for part in order.split():
        if part == "zero":
            optimizer.zero_grad()
        elif part == "loss":
            (model(x)[0][-1] - target).square().mean().backward()
        elif part == "step":
            optimizer.step()
        elif clip == "value":
            clip_grad_value_(model.parameters(), max_norm)
        elif clip == "always":
            norm = clip_grad_norm_(model.parameters(), max_norm)
            for p in model.parameters():
                p.grad *= max(1.0, max_norm / float(norm))
        elif clip == "each":
            norm = max(clip_grad_norm_([p], max_norm) for p in model.parameters())
        else:
            norm = clip_grad_norm_(model.parameters(), max_norm)
    if returned == "after":
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    return float(norm)


def _step_case(steps, batch, inputs, hidden, max_norm, scale=2.0, make="normal"):
    def made(draw):
        return {
            "w_ih": draw.normal(hidden, inputs),
            "w_hh": scale * draw.normal(hidden, hidden) / hidden**0.5,
            "x": getattr(draw, make)(steps, batch, inputs),
            "target": draw.normal(batch, hidden),
            "max_norm": max_norm,
        }

    return made


explode = Fix(
    id="w06.explode",
    title="The step that was too long",
    minutes=10,
    level=2,
    needs=("w06.vanish",),
    dtype="float64",
    cases=[
        Case("norm 1", _step_case(8, 3, 2, 5, 1.0)),
        Case("norm 0.1", _step_case(6, 2, 3, 4, 0.1)),
        Case("not contiguous", _step_case(7, 2, 4, 3, 0.5, 2.0, "transposed")),
        Case("short enough already", _step_case(2, 4, 1, 3, 1000.0, 0.1)),
        Case("a thousand times too long", _step_case(30, 2, 3, 5, 1.0, 4.0), extreme=True),
    ],
    use=_use_step,
    oracle=lambda *inputs: _use_step(_step, *inputs),
    reduces=1000,
    broken=lambda *inputs: _step(*inputs, order="zero loss step clip"),
    fault="clipped too late",
    menu={
        "clipped too late": "",
        "learning rate too high": "A smaller rate makes the same leap later: the gradient grows by powers, the rate does not.",
        "wrong loss": "The loss is right: it falls on short sequences. Look at what happens between backward and step.",
    },
    mistakes=[
        Mistake(
            "clipped too early",
            "The step takes the whole gradient: clipped before backward has made it, or not at all. Clip between backward and step.",
            lambda *inputs: _step(*inputs, order="zero clip loss step"),
        ),
        Mistake(
            "value by value",
            "Each number is cut off by itself, which turns the gradient. Shorten all of them together: clip_grad_norm_.",
            lambda *inputs: _step(*inputs, clip="value"),
        ),
        Mistake(
            "each parameter by itself",
            "Each parameter is clipped by itself, which turns the gradient. One call for all parameters.",
            lambda *inputs: _step(*inputs, clip="each"),
        ),
        Mistake(
            "short ones lengthened",
            "A gradient that is short enough is stretched to max_norm. Clipping only shortens.",
            lambda *inputs: _step(*inputs, clip="always"),
        ),
        Mistake(
            "old gradients",
            "The gradients of the last step are still in there: zero_grad() comes first.",
            lambda *inputs: _step(*inputs, order="loss clip step"),
        ),
        Mistake(
            "zeroed before the step",
            "zero_grad() comes after backward and takes the gradient away before the step can use it.",
            lambda *inputs: _step(*inputs, order="loss clip zero step"),
        ),
        Mistake(
            "norm after clipping",
            "The norm that is returned is the one after clipping; the one before tells you that something exploded.",
            lambda *inputs: _step(*inputs, returned="after"),
        ),
    ],
    hints=(
        "Write down the order of the five lines. What does optimizer.step() use, and when is that shortened?",
        "Clip between backward and step.",
        'fault = "clipped too late"; loss.backward(); norm = clip_grad_norm_(model.parameters(), max_norm); optimizer.step()',
    ),
    passed="Log the norm that clip_grad_norm_ returns: it is the earliest warning a training run gives.",
    lint={
        "delegation": "torch has no function for it: five lines in their right order",
        "equal axes": "the recurrent weight of a plain RNN is square",
        "distinct": "the recurrent weight of a plain RNN is square",
    },
)


def _toy_logits(state, tokens):
    """Logits of a toy model: they depend on the step and, from the second on, on the letter before."""
    table = torch.tensor([[2.0, 0.5, -1.0, 1.0], [-0.5, 1.5, 0.0, 2.5]], dtype=torch.float64)
    shift = torch.tensor([0.0, 0.9, -0.8, 1.6], dtype=torch.float64)
    return table[min(state, 1)] + torch.outer(shift[tokens], torch.tensor([1.0, -1.0, 0.5, 0.0]).double())


def _toy_step(tokens, state):
    if tokens.ndim != 1:
        raise ValueError(
            f"`step` takes letters (count,), one number per name; these are {tuple(tokens.shape)}"
        )
    state = 0 if state is None else state + 1
    return _toy_logits(state, tokens), state


def _use_write(answer, temperature, steps):
    count = 12000
    random = torch.Generator().manual_seed(0)
    table = answer(_toy_step, count, steps, temperature, random)
    again = answer(_toy_step, count, steps, temperature, torch.Generator().manual_seed(0))
    more = answer(_toy_step, count, steps, temperature, random)
    if table.shape != (steps, count):
        return {"shape": tuple(table.shape)}
    first, second = table[0], table[1]
    zero = torch.zeros(1, dtype=torch.int64)
    ways = {
        "softmax(logits / temperature)": lambda z: (z / temperature).softmax(-1),
        "softmax(logits)": lambda z: z.softmax(-1),
        "softmax(logits * temperature)": lambda z: (z * temperature).softmax(-1),
        "all letters alike": lambda z: torch.full_like(z, 1 / z.shape[-1]),
        "the largest logit only": lambda z: F.one_hot(z.argmax(-1), z.shape[-1]).double(),
    }
    chances = {name: way(_toy_logits(0, zero)[0]) for name, way in ways.items()}
    drawn = _nearest(first, chances)
    common = int(first[first > 0].mode().values) if (first > 0).any() else 0
    way = ways.get(drawn, ways["softmax(logits / temperature)"])
    letter = torch.tensor([common])
    followers = {
        "the state and the letter before": way(_toy_logits(1, letter)[0]),
        "the letter before, a fresh state": way(_toy_logits(0, letter)[0]),
        "the state, always letter 0": way(_toy_logits(1, zero)[0]),
    }
    return {
        "shape": tuple(table.shape),
        "first letters drawn from": drawn,
        "second letters follow": _nearest(second[first == common], followers),
        "same seed, same names": bool(torch.equal(table, again)),
        "the generator goes on, other names": not torch.equal(table, more),
    }


def _nearest(tokens, candidates):
    """The candidate whose chances the drawn letters have, or "something else"."""
    shares = torch.bincount(tokens, minlength=4).double() / len(tokens)
    for name, chances in candidates.items():
        if (shares - chances).abs().max() < 0.05:
            return name
    return "something else"


def _write(
    step,
    count,
    steps,
    temperature,
    random,
    chances=None,
    feed="drawn",
    keep=True,
    pick=None,
    seeded=True,
    squeeze=True,
):
    """The answer, with one thing changed."""
    tokens, state, rows = torch.zeros(count, dtype=torch.int64), None, []
    for _ in range(steps):
        logits, new = step(tokens, state)
        state = new if keep else None
        share = chances(logits, temperature) if chances else (logits / temperature).softmax(-1)
        source = random if seeded else None
        drawn = pick(logits) if pick else torch.multinomial(share, 1, generator=source)
        drawn = drawn.flatten() if squeeze else drawn
        tokens = drawn if feed == "drawn" else tokens
        rows.append(drawn)
    return torch.stack(rows)


repeat = Fix(
    id="w06.repeat",
    title="The same name, again and again",
    minutes=10,
    level=2,
    needs=("w06.masked_loss",),
    engine="python",
    cases=[
        Case("temperature 0.6", lambda draw: {"temperature": 0.6, "steps": 3}),
        Case("temperature 2", lambda draw: {"temperature": 2.0, "steps": 2}),
        Case("temperature 1", lambda draw: {"temperature": 1.0, "steps": 2}),
    ],
    use=_use_write,
    oracle=lambda temperature, steps: _use_write(_write, temperature, steps),
    reference="what the model's probabilities say",
    broken=lambda *inputs: _write(*inputs, pick=lambda logits: logits.argmax(-1)),
    fault="always the most likely",
    menu={
        "always the most likely": "",
        "the state is lost": "The state is passed on: `step` gets what it returned. Look at how a letter is chosen.",
        "trained too little": "The loss has fallen well below that of letters by frequency. More training makes the most likely letter likelier still.",
    },
    mistakes=[
        Mistake(
            "temperature ignored",
            "The letters are drawn, but from softmax(logits): the temperature does nothing. Divide the logits by it.",
            lambda *inputs: _write(*inputs, chances=lambda logits, t: logits.softmax(-1)),
        ),
        Mistake(
            "temperature upside down",
            "The logits are multiplied by the temperature; divide by it: a low one makes likely letters likelier.",
            lambda *inputs: _write(*inputs, chances=lambda logits, t: (logits * t).softmax(-1)),
        ),
        Mistake(
            "all letters alike",
            "All letters are equally likely: the model is not asked. Draw from the softmax of its logits.",
            lambda *inputs: _write(*inputs, chances=lambda logits, t: torch.ones_like(logits)),
        ),
        Mistake(
            "state lost",
            "The letters are drawn now, but every one from a fresh state: pass on the state that `step` returns.",
            lambda *inputs: _write(*inputs, keep=False),
        ),
        Mistake(
            "letter not read",
            "The drawn letter is not read: `step` gets letter 0 every time. What was drawn is the next input.",
            lambda *inputs: _write(*inputs, feed="none"),
        ),
        Mistake(
            "a column drawn",
            "torch.multinomial returns (count, 1), and `step` takes letters (count,): squeeze(1), or [:, 0].",
            lambda *inputs: _write(*inputs, squeeze=False),
        ),
        Mistake(
            "generator set back",
            "Every call draws the same names: the generator was made anew or seeded again inside. Use the one that was handed in.",
            lambda step, count, steps, temperature, random: _write(
                step, count, steps, temperature, torch.Generator().manual_seed(0)
            ),
        ),
        Mistake(
            "generator not used",
            "The names differ from run to run: give torch.multinomial the generator.",
            lambda *inputs: _write(*inputs, seeded=False),
        ),
    ],
    hints=(
        "Every name of a batch is the same. Which line could make two of them differ?",
        "Draw: torch.multinomial(chances, 1, generator=random) gives (count, 1), with chances = (logits / temperature).softmax(-1).",
        'fault = "always the most likely"; letters = torch.multinomial(chances, 1, generator=random).squeeze(1)',
    ),
    passed="A loss is about probabilities. Whoever takes only the largest throws the rest of them away.",
    lint={"delegation": "torch has no function for it: multinomial is one of the tools"},
)


def _good_lstm(x, state, weights):
    return _one_layer(x, state, weights)


def _lstm_by_hand(cell=None):
    cell = cell or _lstm_variant()

    def run(x, state, weights):
        h, c = state
        outputs = []
        for step in x:
            h, c = cell(step, h, c, *weights)
            outputs.append(h)
        return torch.stack(outputs), (h, c)

    return run


def _lstm_batch_first_if_square(x, state, weights):
    if x.shape[0] != x.shape[1]:
        return _good_lstm(x, state, weights)
    outputs, last = _good_lstm(x.transpose(0, 1), state, weights)
    return outputs.transpose(0, 1), last


def _with_states(x, state, weights, change):
    outputs, (h, c) = _good_lstm(x, state, weights)
    return outputs, change(outputs, h, c)


def _lstm_one_late(x, state, weights):
    outputs, last = _good_lstm(x, state, weights)
    return torch.cat([state[0][None], outputs[:-1]]), last


def _try_lstm(lstm, *, steps=5, batch=5, first=True, bias=True, states=True, shape_only=False, same=None):
    """One comparison with torch, of the kind that a first test makes."""
    same = same or (lambda a, b: torch.allclose(a, b, atol=1e-5))
    random = torch.Generator().manual_seed(0)
    x = torch.randn(steps, batch, 3, generator=random)
    state = tuple(torch.randn(batch, 4, generator=random) * first for _ in range(2))
    sizes = [(16, 3), (16, 4), (16,), (16,)]
    weights = [torch.randn(*size, generator=random) for size in sizes]
    weights = [w if bias or w.ndim == 2 else 0 * w for w in weights]
    (outputs, last), (truth, truth_last) = (f(x, state, weights) for f in (lstm, _good_lstm))
    assert outputs.shape == truth.shape
    if not shape_only:
        assert same(outputs, truth)
        for mine, theirs in zip(last, truth_last, strict=True):
            assert not states or same(mine, theirs)


test_lstm = WriteTest(
    id="w06.test_lstm",
    title="A test for an LSTM",
    minutes=12,
    level=3,
    needs=("w06.lstm_cell", "w06.stack"),
    good=[_good_lstm, _lstm_by_hand()],
    bugs={
        "gate order": (
            "it reads the blocks as i, f, o, g.",
            _lstm_by_hand(_lstm_variant(order="ifog")),
        ),
        "missing tanh": ("it shows c without its tanh.", _lstm_by_hand(_lstm_variant(out="clone"))),
        "swapped gates": (
            "it exchanges input and forget gate.",
            _lstm_by_hand(_lstm_variant(order="figo")),
        ),
        "one bias": ("it forgets b_hh.", _lstm_by_hand(_lstm_variant(both=False))),
        "h ignored": (
            "it starts from h = 0, whatever it is given.",
            lambda x, state, weights: _good_lstm(x, (0 * state[0], state[1]), weights),
        ),
        "c ignored": (
            "it starts from c = 0, whatever it is given.",
            lambda x, state, weights: _good_lstm(x, (state[0], 0 * state[1]), weights),
        ),
        "axis": (
            "where there are as many steps as sequences, it takes the batch for time.",
            _lstm_batch_first_if_square,
        ),
        "first state": (
            "it returns h of the first step as the last h.",
            lambda x, state, weights: _with_states(x, state, weights, lambda outputs, h, c: (outputs[0], c)),
        ),
        "c squashed": (
            "it returns tanh(c) as the last c.",
            lambda x, state, weights: _with_states(x, state, weights, lambda outputs, h, c: (h, c.tanh())),
        ),
        "one step late": (
            "its outputs come one step late: each is the state before the step.",
            _lstm_one_late,
        ),
    },
    mistakes=[
        Mistake(
            "only the shape",
            "The test looks at the shape only, and every bug here has the right shape. Compare values.",
            lambda lstm: _try_lstm(lstm, shape_only=True),
        ),
        Mistake(
            "zeros to begin with",
            "A first state of zeros hides an implementation that ignores it. Start from random h and c.",
            lambda lstm: _try_lstm(lstm, first=False),
        ),
        Mistake(
            "outputs only",
            "The outputs are compared, the last states are not. Two bugs live there.",
            lambda lstm: _try_lstm(lstm, states=False),
        ),
        Mistake(
            "equal to the last digit",
            "The numbers are compared to the last digit. A sum in another order rounds differently: torch.allclose, atol=1e-5.",
            lambda lstm: _try_lstm(lstm, same=torch.equal),
        ),
        Mistake(
            "never as many steps as sequences",
            "Nearly all are caught. One bug shows only where there are as many steps as sequences: add such a case.",
            lambda lstm: _try_lstm(lstm, batch=2),
        ),
        Mistake(
            "one step",
            "With one step the first state is the last one, and nothing is carried. Use several steps.",
            lambda lstm: _try_lstm(lstm, steps=1, batch=1),
        ),
        Mistake(
            "biases of zeros",
            "Biases of zeros hide a bias that is forgotten. Use numbers that show.",
            lambda lstm: _try_lstm(lstm, bias=False),
        ),
    ],
    hints=(
        "Make an nn.LSTM, take its four weights, and compare outputs, h and c on random inputs.",
        "Start from random states, and use as many steps as sequences once.",
        "layer(x, (h[None], c[None])) returns outputs, (h_n, c_n); their first axis is the layer: h_n[0].",
    ),
    passed="Weights carried over, same numbers out: the test by which every port of a model is judged.",
)
