"""Recurrent layers over a whole sequence, one layer and direction: x (T, N, I), states (N, H).

One product handles the inputs of all steps, one product per step the recurrence; everything between the two
is one fused kernel. Backward walks the steps in reverse and collects the gradients of the pre-activations;
each weight gradient is then a single product.
"""

from labkit.kernels.cuda import scalar
from labkit.kernels.cuda.elementwise import add
from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, kernel
from labkit.kernels.cuda.linear import linear, matmul
from labkit.kernels.cuda.memory import empty, zeros
from labkit.kernels.cuda.reduce import sum
from labkit.kernels.cuda.shape import concatenate


@kernel("F2 i F2")
def _rnn_cell(hidden, relu, y):
    """Thread (n, j) owns unit j of sequence n. `y` comes in as the inputs' share and leaves as the new state;
    `hidden` is the states' share. Reads 2 numbers, writes 1.
    """
    k = cuda.grid(1)
    if k < y.size:
        n, j = k // y.shape[1], k % y.shape[1]
        a = y[n, j] + hidden[n, j]
        y[n, j] = scalar.larger(a, y.dtype.type(0)) if relu else scalar.tanh(a)


@kernel("F2 F2 F2 i F2")
def _rnn_cell_grad(gy, gh, y, relu, ga):
    """Thread (n, j) owns the same unit on the way back; `gh` carries the gradient from later steps.

    Reads 3 numbers, writes 1: the gradient of the pre-activation. The slope follows from the state itself.
    """
    k = cuda.grid(1)
    if k < y.size:
        T = y.dtype.type
        n, j = k // y.shape[1], k % y.shape[1]
        h = y[n, j]
        slope = T(h > T(0)) if relu else T(1) - h * h
        ga[n, j] = (gy[n, j] + gh[n, j]) * slope


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


@kernel("F2 F2 F2 F2 F2")
def _gru_cell(gates, hidden, before, m, y):
    """Thread (n, j) owns unit j of sequence n: its three gates and its output.

    `gates` comes in as the inputs' share (N, 3H) and leaves as r, z, n; `hidden` is the states' share and its
    bias. The last third of that goes to `m`: r multiplies it after the product. Reads 7, writes 5.
    """
    k = cuda.grid(1)
    if k < y.size:
        H, T = y.shape[1], y.dtype.type
        s, j = k // H, k % H
        r = scalar.sigmoid(gates[s, j] + hidden[s, j])
        z = scalar.sigmoid(gates[s, H + j] + hidden[s, H + j])
        n = scalar.tanh(gates[s, 2 * H + j] + r * hidden[s, 2 * H + j])
        m[s, j] = hidden[s, 2 * H + j]
        gates[s, j] = r
        gates[s, H + j] = z
        gates[s, 2 * H + j] = n
        y[s, j] = (T(1) - z) * n + z * before[s, j]


@kernel("F2 F2 F2 F2 F2 F2 F2")
def _gru_cell_grad(gy, gates, before, m, gh, ga, gr):
    """Thread (n, j) owns the same unit on the way back. `gh` comes in as the gradient from later steps and
    leaves as the part that passes through z. Reads 7 numbers, writes 7.

    `ga` are the gradients on the inputs' side, `gr` on the states' side: they differ by r in the last third.
    """
    k = cuda.grid(1)
    if k < before.size:
        H, T = before.shape[1], before.dtype.type
        s, j = k // H, k % H
        r, z, n = gates[s, j], gates[s, H + j], gates[s, 2 * H + j]
        g = gh[s, j] + gy[s, j]
        of_n = g * (T(1) - z) * (T(1) - n * n)
        of_z = g * (before[s, j] - n) * z * (T(1) - z)
        of_r = of_n * m[s, j] * r * (T(1) - r)
        ga[s, j] = of_r
        gr[s, j] = of_r
        ga[s, H + j] = of_z
        gr[s, H + j] = of_z
        ga[s, 2 * H + j] = of_n
        gr[s, 2 * H + j] = of_n * r
        gh[s, j] = g * z


# ---- launchers ----


def _inputs(x, w_ih, b):  # (T, N, I) (K*H, I) -> (T, N, K*H)
    y = matmul(x.reshape(-1, x.shape[2]), w_ih.T)
    return (y if b is None else add(y, b)).reshape(*x.shape[:2], w_ih.shape[0])


def _previous(h0, y):  # the state each step started from: h0, y[0], ..., y[T-2]
    return concatenate([h0.reshape(1, *h0.shape), y[:-1]], 0)


def _flat_grads(ga, gr, x, h_prev, w_ih, need_x):  # ga, gr: input and recurrent side, (T, N, K*H)
    ga2, gr2 = ga.reshape(-1, ga.shape[2]), gr.reshape(-1, gr.shape[2])
    gx = matmul(ga2, w_ih).reshape(x.shape) if need_x else None  # data rarely wants a gradient
    gw_ih = matmul(ga2.T, x.reshape(-1, x.shape[2]))
    return gx, gw_ih, matmul(gr2.T, h_prev.reshape(-1, h_prev.shape[2])), sum(ga2, (0,), False)


def rnn(x, h0, w_ih, w_hh, b_ih, b_hh, nonlinearity):  # -> y (T, N, H)
    y = _inputs(x, w_ih, None if b_ih is None else add(b_ih, b_hh))
    h = h0
    for t in range(x.shape[0]):
        _rnn_cell(blocks_for(h0.size), THREADS, matmul(h, w_hh.T), int(nonlinearity == "relu"), y[t])
        h = y[t]
    return y


def rnn_grad(g, x, h0, w_ih, w_hh, y, nonlinearity, need_x):  # -> gx, gh0, gw_ih, gw_hh, gb
    ga, gh = empty(y.shape, y.dtype), zeros(h0.shape, y.dtype)
    for t in reversed(range(x.shape[0])):
        relu = int(nonlinearity == "relu")
        _rnn_cell_grad(blocks_for(h0.size), THREADS, g[t], gh, y[t], relu, ga[t])
        gh = matmul(ga[t], w_hh)
    gx, gw_ih, gw_hh, gb = _flat_grads(ga, ga, x, _previous(h0, y), w_ih, need_x)
    return gx, gh, gw_ih, gw_hh, gb


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
    gx, gw_ih, gw_hh, gb = _flat_grads(ga, ga, x, _previous(h0, y), w_ih, need_x)
    return gx, gh, gcell, gw_ih, gw_hh, gb


def gru(x, h0, w_ih, w_hh, b_ih, b_hh):  # -> y (T, N, H), gates r z n (T, N, 3H), m (T, N, H)
    gates = _inputs(x, w_ih, b_ih)
    y, m = (empty((*x.shape[:2], h0.shape[1]), x.dtype) for _ in range(2))
    h = h0
    for t in range(x.shape[0]):
        _gru_cell(blocks_for(h0.size), THREADS, gates[t], linear(h, w_hh, b_hh), h, m[t], y[t])
        h = y[t]
    return y, gates, m


def gru_grad(gy, x, h0, w_ih, w_hh, y, gates, m, need_x):  # -> gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh
    ga, gr, gh = empty(gates.shape, x.dtype), empty(gates.shape, x.dtype), zeros(h0.shape, x.dtype)
    h_prev = _previous(h0, y)
    for t in reversed(range(x.shape[0])):
        arrays = gy[t], gates[t], h_prev[t], m[t], gh, ga[t], gr[t]
        _gru_cell_grad(blocks_for(h0.size), THREADS, *arrays)
        gh = add(gh, matmul(gr[t], w_hh))
    gx, gw_ih, gw_hh, gb_ih = _flat_grads(ga, gr, x, h_prev, w_ih, need_x)
    return gx, gh, gw_ih, gw_hh, gb_ih, sum(gr.reshape(-1, gr.shape[2]), (0,), False)
