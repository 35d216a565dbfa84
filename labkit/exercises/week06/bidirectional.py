"""An LSTM from both ends."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week06.shared import RECURRENT, layer_weights, lstm, one_layer
from labkit.lazy import torch


def _both_case(steps, batch, inputs, hidden, make="normal"):
    def made(draw):
        return {
            "x": getattr(draw, make)(steps, batch, inputs),
            "h": draw.normal(2, batch, hidden),
            "c": draw.normal(2, batch, hidden),
            "forward": tuple(layer_weights(draw, 4, inputs, hidden).values()),
            "backward": tuple(layer_weights(draw, 4, inputs, hidden).values()),
        }

    return made


def _both(
    x, state, forward, backward, axis=0, turn=True, join=None, last="state", order=(0, 1), goes_on=False
):
    """The answer, with one thing changed."""
    right, (h0, c0) = one_layer(x, [s[order[0]] for s in state], forward)
    first = (h0, c0) if goes_on else [s[order[1]] for s in state]
    left, (h1, c1) = one_layer(x if axis is None else x.flip(axis), first, backward)
    left = left.flip(axis) if turn else left
    h1 = left[-1] if last == "output" else h1
    outputs = join(right, left) if join else torch.cat([right, left], -1)
    return outputs, (torch.stack([h0, h1]), torch.stack([c0, c1]))


exercise = Implement(
    title="From both ends",
    minutes=10,
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
    oracle=lambda x, h, c, forward, backward: lstm(x, (h, c), [forward, backward], 1, True),
    grads=("x", "h", "c"),
    rules=Rules(forbids=RECURRENT),
    delegate=lambda x, state, forward, backward: lstm(x, state, [forward, backward], 1, True),
    mistakes=[
        Mistake(
            "not turned back",
            "The outputs of the way back stand in reading order: its first belongs to the last step. Flip them again.",
            vary(_both, turn=False),
        ),
        Mistake(
            "both forward",
            "Both ways read from the first step to the last. The way back reads x.flip(0).",
            vary(_both, axis=None, turn=False),
        ),
        Mistake(
            "goes on from the way forward",
            "The way back starts from the last state of the way forward. Its own first state is row 1: h[1] and c[1].",
            vary(_both, goes_on=True),
        ),
        Mistake(
            "wrong axis",
            "The batch is reversed, not time: x is (T, N, I), time is axis 0.",
            vary(_both, axis=1),
        ),
        Mistake(
            "added",
            "The two directions are added; they stand side by side, (T, N, 2 H).",
            vary(_both, join=lambda a, b: a + b),
        ),
        Mistake(
            "backward first",
            "The way back stands first; torch puts the way forward first.",
            vary(_both, join=lambda a, b: torch.cat([b, a], -1)),
        ),
        Mistake(
            "state at the last step",
            "h of the way back is read at the last step, where it has seen one input. Its last state is after step 0.",
            vary(_both, last="output"),
        ),
        Mistake(
            "one set of weights",
            "Both ways use the weights of the way forward. The way back has its own: `backward`.",
            lambda x, state, forward, backward: _both(x, state, forward, forward),
        ),
        Mistake(
            "one state for both",
            "Both ways start from row 0 of the state; row 1 is for the way back.",
            vary(_both, order=(0, 0)),
        ),
    ],
    hints=(
        "The way back is the same function on x.flip(0), with the other weights and row 1 of the states.",
        "Its outputs come in the order in which it read: flip them back, then torch.cat([right, left], -1).",
        "left, last = lstm(x.flip(0), (h[1], c[1]), backward); outputs = torch.cat([right, left.flip(0)], -1)",
    ),
    passed="At every step the output knows the whole sequence. That is why no model that writes is bidirectional.",
)
