"""Predict the shapes that recurrent layers take and give."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import torch


def _layer(kind="LSTM", shape=(7, 3, 10), **options):
    layer = getattr(torch.nn, kind)(10, 20, **options)
    outputs, state = layer(torch.zeros(*shape))
    return layer, outputs, state[0] if kind == "LSTM" else state


_DEEP = {"num_layers": 2, "bidirectional": True}


exercise = Predict(
    title="Which shape?",
    minutes=10,
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
