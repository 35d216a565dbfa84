"""Recurrent layers over a whole sequence: one layer, one direction, x (T, N, I), states (N, H).

Gates lie as in torch: LSTM i f g o, GRU r z n. The last hidden state is y[-1], the last cell state c[-1].
"""

from typing import TYPE_CHECKING

from labkit.autograd import op
from labkit.errors import ShapeError

if TYPE_CHECKING:
    from labkit.tensor import Tensor


@op
def _rnn(k, x, h0, w_ih, w_hh, b_ih, b_hh, *, nonlinearity, need):
    """h = f(w_ih x + b_ih + w_hh h + b_hh) at every step."""
    y = k.rnn(x, h0, w_ih, w_hh, b_ih, b_hh, nonlinearity)

    def backward(g):
        gx, gh0, gw_ih, gw_hh, gb = k.rnn_grad(g, x, h0, w_ih, w_hh, y, nonlinearity, need[0])
        return gx, gh0, gw_ih, gw_hh, gb, gb

    return y, backward


@op
def _lstm(k, x, h0, c0, w_ih, w_hh, b_ih, b_hh, *, need):
    """c = f c + i g, h = o tanh(c) at every step."""
    y, c, gates = k.lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh)

    def backward(gy, gc):
        gx, gh0, gc0, gw_ih, gw_hh, gb = k.lstm_grad(gy, gc, x, h0, c0, w_ih, w_hh, y, c, gates, need[0])
        return gx, gh0, gc0, gw_ih, gw_hh, gb, gb

    return (y, c), backward


@op
def _gru(k, x, h0, w_ih, w_hh, b_ih, b_hh, *, need):
    """h = (1 - z) n + z h with n = tanh(x_n + r h_n) at every step."""
    y, gates, m = k.gru(x, h0, w_ih, w_hh, b_ih, b_hh)
    return y, lambda g: k.gru_grad(g, x, h0, w_ih, w_hh, y, gates, m, need[0])


# composed


def rnn(
    x: "Tensor",
    h0: "Tensor",
    w_ih: "Tensor",
    w_hh: "Tensor",
    b_ih: "Tensor | None" = None,
    b_hh: "Tensor | None" = None,
    nonlinearity: str = "tanh",
) -> "Tensor":
    """All hidden states (T, N, H) of a plain recurrent layer; nonlinearity "tanh" or "relu"."""
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"rnn: nonlinearity must be 'tanh' or 'relu', not {nonlinearity!r}")
    _check("rnn", 1, x, h0, w_ih, w_hh, b_ih, b_hh)
    return _rnn(x, h0, w_ih, w_hh, b_ih, b_hh, nonlinearity=nonlinearity)


def lstm(
    x: "Tensor",
    h0: "Tensor",
    c0: "Tensor",
    w_ih: "Tensor",
    w_hh: "Tensor",
    b_ih: "Tensor | None" = None,
    b_hh: "Tensor | None" = None,
) -> tuple["Tensor", "Tensor"]:
    """All hidden and all cell states, (T, N, H) each."""
    _check("lstm", 4, x, h0, w_ih, w_hh, b_ih, b_hh)
    if c0.shape != h0.shape:
        raise ShapeError(f"lstm: h0 {tuple(h0.shape)} and c0 {tuple(c0.shape)} must have one shape")
    return _lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh)


def gru(
    x: "Tensor",
    h0: "Tensor",
    w_ih: "Tensor",
    w_hh: "Tensor",
    b_ih: "Tensor | None" = None,
    b_hh: "Tensor | None" = None,
) -> "Tensor":
    """All hidden states (T, N, H)."""
    _check("gru", 3, x, h0, w_ih, w_hh, b_ih, b_hh)
    return _gru(x, h0, w_ih, w_hh, b_ih, b_hh)


def _check(
    function: str,
    gates: int,
    x: "Tensor",
    h0: "Tensor",
    w_ih: "Tensor",
    w_hh: "Tensor",
    b_ih: "Tensor | None",
    b_hh: "Tensor | None",
) -> None:
    """Raise an error that names the shapes unless states, weights and biases fit the input."""
    if x.ndim != 3 or h0.ndim != 2 or x.shape[1] != h0.shape[0]:
        raise ShapeError(
            f"{function}: needs x (T, N, I) and h0 (N, H), got {tuple(x.shape)} and {tuple(h0.shape)}"
        )
    rows = gates * h0.shape[1]
    for name, t, expected in (
        ("w_ih", w_ih, (rows, x.shape[2])),
        ("w_hh", w_hh, (rows, h0.shape[1])),
        ("b_ih", b_ih, (rows,)),
        ("b_hh", b_hh, (rows,)),
    ):
        if t is not None and tuple(t.shape) != expected:
            raise ShapeError(
                f"{function}: {name} is {tuple(t.shape)}, but x {tuple(x.shape)} and h0 {tuple(h0.shape)} "
                f"need {expected}"
            )
    if (b_ih is None) != (b_hh is None):
        raise ValueError(f"{function}: pass both biases or neither")
