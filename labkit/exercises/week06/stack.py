"""LSTM layers on top of each other."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week06.shared import RECURRENT, layer_weights, lstm, one_layer
from labkit.lazy import torch


def _stack_case(steps, batch, inputs, hidden, layers, make="normal"):
    def made(draw):
        sizes = [inputs, *[hidden] * (layers - 1)]
        return {
            "x": getattr(draw, make)(steps, batch, inputs),
            "h": draw.normal(layers, batch, hidden),
            "c": draw.normal(layers, batch, hidden),
            "layers": [tuple(layer_weights(draw, 4, size, hidden).values()) for size in sizes],
        }

    return made


def _stack(x, state, layers, start=lambda state, row: [s[row] for s in state]):
    """The answer, with another first state."""
    finals = []
    for row in range(len(layers)):
        x, last = one_layer(x, start(state, row), layers[row])
        finals.append(last)
    h, c = (torch.stack(states) for states in zip(*finals, strict=True))
    return x, (h, c)


def _stack_all_outputs(x, state, layers):
    tops = []
    finals = []
    for row, weights in enumerate(layers):
        x, last = one_layer(x, [s[row] for s in state], weights)
        tops.append(x)
        finals.append(last)
    h, c = (torch.stack(states) for states in zip(*finals, strict=True))
    return torch.stack(tops), (h, c)


def _stack_side_by_side(x, state, layers):
    finals = []
    for row, weights in enumerate(layers):
        outputs, last = one_layer(x, [s[row] for s in state], weights)
        finals.append(last)
    h, c = (torch.stack(states) for states in zip(*finals, strict=True))
    return outputs, (h, c)


def _stack_passing_on(x, state, layers):
    finals, last = [], [s[0] for s in state]
    for weights in layers:
        x, last = one_layer(x, last, weights)
        finals.append(last)
    h, c = (torch.stack(states) for states in zip(*finals, strict=True))
    return x, (h, c)


exercise = Implement(
    title="Layers on top of each other",
    minutes=8,
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
    oracle=lambda x, h, c, layers: lstm(x, (h, c), layers, len(layers)),
    grads=("x", "h", "c"),
    rules=Rules(forbids=RECURRENT),
    delegate=lambda x, state, layers: lstm(x, state, layers, len(layers)),
    excused={
        "equal axes": "a layer that reads what another wrote has a square weight",
        "distinct": "a layer that reads what another wrote has a square weight",
    },
    mistakes=[
        Mistake(
            "one state for all",
            "Every layer starts from the first layer's state. Layer l starts from h[l] and c[l].",
            vary(_stack, start=lambda state, row: [s[0] for s in state]),
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
                lstm(x, state, layers, len(layers))[0],
                tuple(s[-1] for s in lstm(x, state, layers, len(layers))[1]),
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
                lstm(x, state, layers, len(layers))[0],
                tuple(s.flip(0) for s in lstm(x, state, layers, len(layers))[1]),
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
