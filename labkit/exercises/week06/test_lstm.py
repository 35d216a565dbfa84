"""Write a test for an LSTM."""

from labkit.exercises.declare import Equivalent, Mistake, WriteTest, vary
from labkit.exercises.week06.shared import lstm_variant, one_layer
from labkit.lazy import torch


def _good_lstm(x, state, weights):
    return one_layer(x, state, weights)


def _lstm_by_hand(cell=None):
    cell = cell or lstm_variant()

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


exercise = WriteTest(
    title="A test for an LSTM",
    minutes=12,
    needs=("w06.lstm_cell", "w06.stack"),
    good=[_good_lstm, _lstm_by_hand()],
    bugs={
        "gate order": (
            "it reads the blocks as i, f, o, g.",
            _lstm_by_hand(lstm_variant(order="ifog")),
        ),
        "missing tanh": ("it shows c without its tanh.", _lstm_by_hand(lstm_variant(out="clone"))),
        "swapped gates": (
            "it exchanges input and forget gate.",
            _lstm_by_hand(lstm_variant(order="figo")),
        ),
        "one bias": ("it forgets b_hh.", _lstm_by_hand(lstm_variant(both=False))),
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
            vary(_with_states, change=lambda outputs, h, c: (outputs[0], c)),
        ),
        "c squashed": (
            "it returns tanh(c) as the last c.",
            vary(_with_states, change=lambda outputs, h, c: (h, c.tanh())),
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
            vary(_try_lstm, shape_only=True),
        ),
        Mistake(
            "zeros to begin with",
            "A first state of zeros hides an implementation that ignores it. Start from random h and c.",
            vary(_try_lstm, first=False),
        ),
        Mistake(
            "outputs only",
            "The outputs are compared, the last states are not. Two bugs live there.",
            vary(_try_lstm, states=False),
        ),
        Mistake(
            "equal to the last digit",
            "The numbers are compared to the last digit. A sum in another order rounds differently: torch.allclose, atol=1e-5.",
            lambda lstm: _try_lstm(lstm, same=torch.equal),
        ),
        Mistake(
            "never as many steps as sequences",
            "Nearly all are caught. One bug shows only where there are as many steps as sequences: add such a case.",
            vary(_try_lstm, batch=2),
        ),
        Mistake(
            "one step",
            "With one step the first state is the last one, and nothing is carried. Use several steps.",
            vary(_try_lstm, steps=1, batch=1),
        ),
        Mistake(
            "biases of zeros",
            "Biases of zeros hide a bias that is forgotten. Use numbers that show.",
            vary(_try_lstm, bias=False),
        ),
    ],
    hints=(
        "Make an nn.LSTM, take its four weights, and compare outputs, h and c on random inputs.",
        "Start from random states, and use as many steps as sequences once.",
        "layer(x, (h[None], c[None])) returns outputs, (h_n, c_n); their first axis is the layer: h_n[0].",
    ),
    passed="Weights carried over, same numbers out: the test by which every port of a model is judged.",
    equivalent=(
        Equivalent(
            before="torch.manual_seed(0)",
            after="pass",
            reason="the seed makes the test repeatable; other random numbers catch the same bugs",
        ),
    ),
)
