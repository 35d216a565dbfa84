"""A plain recurrent network over a whole sequence."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, Rules
from labkit.exercises.week06.shared import RECURRENT, SQUARE, layer_weights, rnn_sum
from labkit.lazy import torch


def _run_rnn(x, h, w_ih, w_hh, b_ih, b_hh, batch_first):
    """The oracle: torch's whole layer, its state without the axis of layers."""
    weights = (w_ih, w_hh, b_ih, b_hh)
    outputs, last = torch.rnn_tanh(x, h[None], weights, True, 1, 0.0, False, False, batch_first)
    return outputs, last[0]


def _steps(x, h, w_ih, w_hh, b_ih, b_hh, carry=True):
    """Time first; `carry=False` starts every step from the first state."""
    outputs = []
    for step in x:
        new = torch.tanh(rnn_sum(step, h, w_ih, w_hh, b_ih, b_hh))
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
        return {**start, **layer_weights(draw, 1, inputs, hidden), "batch_first": batch_first}

    return made


exercise = Implement(
    title="Step after step",
    minutes=8,
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
    rules=Rules(forbids=RECURRENT),
    excused=SQUARE,
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
    equivalent=(
        Equivalent(
            before="for step in x.transpose(0, 1) if batch_first else x:",
            after="for step in x.transpose(1, 0) if batch_first else x:",
            reason="exchanging two axes does not depend on which is named first",
        ),
        Equivalent(
            before="h = rnn_cell(step, h, w_ih, w_hh, b_ih, b_hh)",
            after="h = rnn_cell(step, h, w_ih, w_hh, b_hh, b_ih)",
            reason="a plain RNN uses its two biases only as a sum",
        ),
    ),
)
