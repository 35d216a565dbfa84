"""The LSTM over a whole sequence, one layer and direction: x (T, N, I), states (N, H).

One product handles the inputs of all steps, one product per step the recurrence; everything between the two
is one fused kernel. Backward walks the steps in reverse and collects the gradients of the pre-activations;
each weight gradient is then a single product.
"""

from labkit.kernels.cuda import scalar
from labkit.kernels.cuda.elementwise import add
from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, kernel
from labkit.kernels.cuda.linear import matmul
from labkit.kernels.cuda.memory import empty, zeros
from labkit.kernels.cuda.reduce import sum
from labkit.kernels.cuda.shape import concatenate


@kernel("F2 F2 F2 F2 F2")
def _lstm_cell(gates, hidden, before, c, y):
    """Thread (n, j) owns unit j of sequence n: its four gates, its cell state and its output.

    `gates` comes in as the inputs' share (N, 4H) and leaves as i, f, g, o; `hidden` is the states' share.
    Reads 9 numbers, writes 6; unfused, every gate would go to memory and back several times.
    """
    k = cuda.grid(1)
    if k < c.size:
        H = c.shape[1]
        n, j = k // H, k % H
        i = scalar.sigmoid(gates[n, j] + hidden[n, j])
        f = scalar.sigmoid(gates[n, H + j] + hidden[n, H + j])
        g = scalar.tanh(gates[n, 2 * H + j] + hidden[n, 2 * H + j])
        o = scalar.sigmoid(gates[n, 3 * H + j] + hidden[n, 3 * H + j])
        cell = f * before[n, j] + i * g
        gates[n, j] = i
        gates[n, H + j] = f
        gates[n, 2 * H + j] = g
        gates[n, 3 * H + j] = o
        c[n, j] = cell
        y[n, j] = o * scalar.tanh(cell)


@kernel("F2 F2 F2 F2 F2 F2 F2 F2")
def _lstm_cell_grad(gy, gc, gates, before, c, gh, gcell, ga):
    """Thread (n, j) owns the same unit on the way back. `gh` and `gcell` carry gradients from later steps.

    Writes the gradients of the four pre-activations to `ga` (N, 4H), and of the former cell to `gcell`.
    """
    k = cuda.grid(1)
    if k < c.size:
        H, T = c.shape[1], c.dtype.type
        n, j = k // H, k % H
        i, f = gates[n, j], gates[n, H + j]
        g, o = gates[n, 2 * H + j], gates[n, 3 * H + j]
        squashed = scalar.tanh(c[n, j])
        of_y = gh[n, j] + gy[n, j]
        of_c = gcell[n, j] + gc[n, j] + of_y * o * (T(1) - squashed * squashed)
        ga[n, j] = of_c * g * i * (T(1) - i)
        ga[n, H + j] = of_c * before[n, j] * f * (T(1) - f)
        ga[n, 2 * H + j] = of_c * i * (T(1) - g * g)
        ga[n, 3 * H + j] = of_y * squashed * o * (T(1) - o)
        gcell[n, j] = of_c * f


def _inputs(x, w_ih, b):  # (T, N, I) (K*H, I) -> (T, N, K*H)
    y = matmul(x.reshape(-1, x.shape[2]), w_ih.T)
    return (y if b is None else add(y, b)).reshape(*x.shape[:2], w_ih.shape[0])


def _previous(h0, y):  # the state each step started from: h0, y[0], ..., y[T-2]
    return concatenate([h0.reshape(1, *h0.shape), y[:-1]], 0)


def lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh):  # -> y (T, N, H), c (T, N, H), gates i f g o (T, N, 4H)
    gates = _inputs(x, w_ih, None if b_ih is None else add(b_ih, b_hh))
    y, c = (empty((*x.shape[:2], h0.shape[1]), x.dtype) for _ in range(2))
    h, cell = h0, c0
    for t in range(x.shape[0]):
        hidden = matmul(h, w_hh.T)
        _lstm_cell(blocks_for(h0.size), THREADS, gates[t], hidden, cell, c[t], y[t])
        h, cell = y[t], c[t]
    return y, c, gates


def lstm_grad(gy, gc, x, h0, c0, w_ih, w_hh, y, c, gates, need_x):  # -> gx, gh0, gc0, gw_ih, gw_hh, gb
    """`gy` and `gc` are the gradients of all hidden and all cell states; either may be None."""
    nothing = zeros((), x.dtype).broadcast_to(y.shape)
    gy, gc = (nothing if g is None else g for g in (gy, gc))
    ga, gh, gcell = empty(gates.shape, x.dtype), zeros(h0.shape, x.dtype), zeros(c0.shape, x.dtype)
    c_prev = _previous(c0, c)
    for t in reversed(range(x.shape[0])):
        arrays = gy[t], gc[t], gates[t], c_prev[t], c[t], gh, gcell, ga[t]
        _lstm_cell_grad(blocks_for(h0.size), THREADS, *arrays)
        gh = matmul(ga[t], w_hh)
    flat, states = ga.reshape(-1, ga.shape[2]), _previous(h0, y)
    gx = matmul(flat, w_ih).reshape(x.shape) if need_x else None  # data rarely wants a gradient
    gw_ih = matmul(flat.T, x.reshape(-1, x.shape[2]))
    gw_hh = matmul(flat.T, states.reshape(-1, states.shape[2]))
    return gx, gh, gcell, gw_ih, gw_hh, sum(flat, (0,), False)
