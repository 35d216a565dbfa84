"""Recurrent layers over a whole sequence, one layer and direction: x (T, N, I), states (N, H).

One product handles the inputs of all steps, one product per step the recurrence. Backward walks the steps in
reverse and collects the gradients of the pre-activations; each weight gradient is then a single product.
"""

import numpy as np


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _inputs(x, w_ih, b):  # (T, N, I) (K*H, I) -> (T, N, K*H)
    y = (x.reshape(-1, x.shape[2]) @ w_ih.T).reshape(*x.shape[:2], len(w_ih))
    return y if b is None else np.add(y, b, out=y)


def _flat_grads(ga, gr, x, h_prev, w_ih, need_x):  # ga, gr: input and recurrent side, (T, N, K*H)
    ga2, gr2 = ga.reshape(-1, ga.shape[2]), gr.reshape(-1, gr.shape[2])
    gx = (ga2 @ w_ih).reshape(x.shape) if need_x else None  # data rarely wants a gradient
    gw_ih, gw_hh = ga2.T @ x.reshape(-1, x.shape[2]), gr2.T @ h_prev.reshape(-1, h_prev.shape[2])
    gb = ga2.sum(0)
    return gx, gw_ih, gw_hh, gb, gb if gr is ga else gr2.sum(0)


def _previous(h0, y):  # the state each step started from: h0, y[0], ..., y[T-2]
    return np.concatenate((h0[None], y[:-1]))


def rnn(x, h0, w_ih, w_hh, b_ih, b_hh, nonlinearity):  # -> y (T, N, H)
    f = np.tanh if nonlinearity == "tanh" else lambda a: np.maximum(a, 0)
    y = _inputs(x, w_ih, None if b_ih is None else b_ih + b_hh)
    h = h0
    for t in range(len(y)):
        h = y[t] = f(y[t] + h @ w_hh.T)
    return y


def rnn_grad(g, x, h0, w_ih, w_hh, y, nonlinearity, need_x):  # -> gx, gh0, gw_ih, gw_hh, gb
    ga, gh = np.empty_like(g), np.zeros_like(h0)
    for t in reversed(range(len(g))):
        gh = gh + g[t]
        ga[t] = gh * (1 - y[t] * y[t]) if nonlinearity == "tanh" else gh * (y[t] > 0)
        gh = ga[t] @ w_hh
    gx, gw_ih, gw_hh, gb, _ = _flat_grads(ga, ga, x, _previous(h0, y), w_ih, need_x)
    return gx, gh, gw_ih, gw_hh, gb


def lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh):  # -> y (T, N, H), c (T, N, H), gates i f g o (T, N, 4H)
    gates = _inputs(x, w_ih, None if b_ih is None else b_ih + b_hh)
    y, c = np.empty((2, *x.shape[:2], h0.shape[1]), gates.dtype)
    h, cell = h0, c0
    for t in range(len(x)):
        a = gates[t] + h @ w_hh.T
        i, f, g, o = np.split(a, 4, 1)
        i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
        cell = c[t] = f * cell + i * g
        h = y[t] = o * np.tanh(cell)
        gates[t] = np.concatenate((i, f, g, o), 1)
    return y, c, gates


def lstm_grad(gy, gc, x, h0, c0, w_ih, w_hh, y, c, gates, need_x):  # -> gx, gh0, gc0, gw_ih, gw_hh, gb
    """`gy` and `gc` are the gradients of all hidden and all cell states; either may be None."""
    ga, gh, gcell = np.empty_like(gates), np.zeros_like(h0), np.zeros_like(c0)
    c_prev = _previous(c0, c)
    for t in reversed(range(len(x))):
        i, f, g, o = np.split(gates[t], 4, 1)
        tanh_c = np.tanh(c[t])
        gh = gh if gy is None else gh + gy[t]
        gcell = gh * o * (1 - tanh_c * tanh_c) + (gcell if gc is None else gcell + gc[t])
        gi, gf, gg, go = gcell * g, gcell * c_prev[t], gcell * i, gh * tanh_c
        ga[t] = np.concatenate((gi * i * (1 - i), gf * f * (1 - f), gg * (1 - g * g), go * o * (1 - o)), 1)
        gcell = gcell * f
        gh = ga[t] @ w_hh
    gx, gw_ih, gw_hh, gb, _ = _flat_grads(ga, ga, x, _previous(h0, y), w_ih, need_x)
    return gx, gh, gcell, gw_ih, gw_hh, gb


def gru(x, h0, w_ih, w_hh, b_ih, b_hh):  # -> y (T, N, H), gates r z n (T, N, 3H), m (T, N, H)
    """h' = (1 - z) n + z h with n = tanh(x_n + r m), where m is the recurrent part of n, bias included."""
    H = h0.shape[1]
    gates = _inputs(x, w_ih, b_ih)
    y, m = np.empty((2, *x.shape[:2], H), gates.dtype)
    h = h0
    for t in range(len(x)):
        a = h @ w_hh.T if b_hh is None else h @ w_hh.T + b_hh
        r, z = np.split(_sigmoid(gates[t, :, : 2 * H] + a[:, : 2 * H]), 2, 1)
        m[t] = a[:, 2 * H :]
        n = np.tanh(gates[t, :, 2 * H :] + r * m[t])
        h = y[t] = (1 - z) * n + z * h
        gates[t] = np.concatenate((r, z, n), 1)
    return y, gates, m


def gru_grad(gy, x, h0, w_ih, w_hh, y, gates, m, need_x):  # -> gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh
    ga, gr, gh = np.empty_like(gates), np.empty_like(gates), np.zeros_like(h0)
    h_prev = _previous(h0, y)
    for t in reversed(range(len(x))):
        r, z, n = np.split(gates[t], 3, 1)
        gh = gh + gy[t]
        gn = gh * (1 - z) * (1 - n * n)
        gz = gh * (h_prev[t] - n) * z * (1 - z)
        g_r = gn * m[t] * r * (1 - r)
        ga[t], gr[t] = np.concatenate((g_r, gz, gn), 1), np.concatenate((g_r, gz, gn * r), 1)
        gh = gh * z + gr[t] @ w_hh
    gx, gw_ih, gw_hh, gb_ih, gb_hh = _flat_grads(ga, gr, x, h_prev, w_ih, need_x)
    return gx, gh, gw_ih, gw_hh, gb_ih, gb_hh
