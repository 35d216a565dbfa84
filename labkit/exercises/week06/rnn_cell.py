"""One step of a plain recurrent network."""

from labkit.exercises.declare import Implement, Mistake, Rules
from labkit.exercises.week06.shared import RECURRENT, SQUARE, cell_cases, rnn_sum
from labkit.lazy import torch

exercise = Implement(
    title="One step",
    minutes=6,
    dtype="float64",
    cases=cell_cases(1),
    oracle=lambda *inputs: torch.rnn_tanh_cell(*inputs),
    grads=("x", "h", "w_ih", "w_hh", "b_ih", "b_hh"),
    rules=Rules(forbids=RECURRENT),
    excused=SQUARE,
    mistakes=[
        Mistake(
            "missing tanh",
            "The tanh is missing: without it the state is a linear map of everything so far, and can grow without end.",
            rnn_sum,
        ),
        Mistake(
            "state ignored",
            "The old state is not used: h @ w_hh.T is missing, and with it the memory.",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(x @ w_ih.T + b_ih + b_hh),
        ),
        Mistake(
            "one bias",
            "The second bias, b_hh, is missing. One would do, but torch has both, and so do its weights.",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(rnn_sum(x, h, w_ih, w_hh, b_ih, 0 * b_hh)),
        ),
        Mistake(
            "w_hh not transposed",
            "w_hh is used as it is; every weight has shape (out, in), so it is h @ w_hh.T. A square matrix hides this.",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(rnn_sum(x, h, w_ih, w_hh.T, b_ih, b_hh)),
        ),
        Mistake(
            "not transposed",
            "Neither weight is transposed: they have shape (out, in), as in nn.Linear, so it is x @ w_ih.T.",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(rnn_sum(x, h, w_ih.T, w_hh.T, b_ih, b_hh)),
        ),
        Mistake(
            "sigmoid",
            "A sigmoid stands where the tanh should be: the state runs from -1 to 1, not from 0 to 1.",
            lambda *inputs: torch.sigmoid(rnn_sum(*inputs)),
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
