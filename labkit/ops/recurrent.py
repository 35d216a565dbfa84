"""Recurrent layers over a whole sequence: one layer, one direction, x (T, N, I), states (N, H).

Gates lie as in torch: LSTM i f g o, GRU r z n. The results are the states of all steps, (T, N, H): the last
hidden state is y[-1], the last cell state c[-1].
"""

from labkit.autograd import op
from labkit.errors import ShapeError


@op(functional=True)
def rnn(k, x, h0, w_ih, w_hh, b_ih=None, b_hh=None, *, nonlinearity="tanh", need):
    """h = f(w_ih x + b_ih + w_hh h + b_hh) at every step, f "tanh" or "relu" -> y"""
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"rnn(): nonlinearity must be 'tanh' or 'relu', not {nonlinearity!r}")
    _check("rnn", 1, x, h0, w_ih, w_hh, b_ih, b_hh)
    y = k.rnn(x, h0, w_ih, w_hh, b_ih, b_hh, nonlinearity)

    def backward(g):
        gx, gh0, gw_ih, gw_hh, gb = k.rnn_grad(g, x, h0, w_ih, w_hh, y, nonlinearity, need[0])
        return gx, gh0, gw_ih, gw_hh, gb, gb

    return y, backward


@op(functional=True, returns="tuple[Tensor, Tensor]")
def lstm(k, x, h0, c0, w_ih, w_hh, b_ih=None, b_hh=None, *, need):
    """c = f c + i g, h = o tanh(c) at every step -> y, c"""
    _check("lstm", 4, x, h0, w_ih, w_hh, b_ih, b_hh)
    if c0.shape != h0.shape:
        raise ShapeError(f"lstm(): h0 {tuple(h0.shape)} and c0 {tuple(c0.shape)} must have one shape")
    y, c, gates = k.lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh)

    def backward(gy, gc):
        gx, gh0, gc0, gw_ih, gw_hh, gb = k.lstm_grad(gy, gc, x, h0, c0, w_ih, w_hh, y, c, gates, need[0])
        return gx, gh0, gc0, gw_ih, gw_hh, gb, gb

    return (y, c), backward


@op(functional=True)
def gru(k, x, h0, w_ih, w_hh, b_ih=None, b_hh=None, *, need):
    """h = (1 - z) n + z h with n = tanh(x_n + r h_n) at every step -> y"""
    _check("gru", 3, x, h0, w_ih, w_hh, b_ih, b_hh)
    y, gates, m = k.gru(x, h0, w_ih, w_hh, b_ih, b_hh)
    return y, lambda g: k.gru_grad(g, x, h0, w_ih, w_hh, y, gates, m, need[0])


def _check(function, gates, x, h0, w_ih, w_hh, b_ih, b_hh):
    """Raise an error that names the shapes unless states, weights and biases fit the input."""
    given = f"x {tuple(x.shape)} and h0 {tuple(h0.shape)}"
    if x.ndim != 3 or h0.ndim != 2 or x.shape[1] != h0.shape[0]:
        raise ShapeError(f"{function}(): needs x (T, N, I) and h0 (N, H), got {given}")
    H = h0.shape[1]
    expected = {
        "w_ih": (gates * H, x.shape[2]),
        "w_hh": (gates * H, H),
        "b_ih": (gates * H,),
        "b_hh": (gates * H,),
    }
    for (name, shape), array in zip(expected.items(), (w_ih, w_hh, b_ih, b_hh), strict=True):
        if array is not None and array.shape != shape:
            raise ShapeError(f"{function}(): {name} is {tuple(array.shape)}, but {given} need {shape}")
    if (b_ih is None) != (b_hh is None):
        raise ValueError(f"{function}(): pass both biases or neither")
