"""LSTM and GRU over a whole sequence: the products go to BLAS, all that happens between two products is one
kernel.

A kernel walks the batch, and for each row runs several short loops rather than one that does everything: a
loop is vectorized if it is cheap to prove that what it writes is not what it reads, so it may touch only a
few arrays.

Backward collects the gradients of the pre-activations of all steps; each weight gradient is one product at
the end.
"""

import numpy as np
from numba import prange

from labkit.kernels.numba import scalar
from labkit.kernels.numba.jit import fast, kernel
from labkit.kernels.numba.scalar import ONE
from labkit.kernels.numpy.recurrent import _flat_grads, _inputs, _previous


@kernel(grain=None)
def _add_sigmoid(x, a, b):
    for j in range(x.size):
        x[j] = scalar.sigmoid(x[j] + a[j] + b[j])


@kernel(grain=None)
def _add_tanh(x, a, b):
    for j in range(x.size):
        x[j] = scalar.tanh(x[j] + a[j] + b[j])


@kernel()
def _lstm_cell(gates, a, b, c_prev, c, h):
    """i, f, o = sigmoid, g = tanh of gates + a + b, in place;  c = f * c_prev + i * g;  h = o * tanh(c)"""
    H = c.shape[1]
    for n in prange(c.shape[0]):
        gate, add, old, new, out = gates[n], a[n], c_prev[n], c[n], h[n]
        i, f, g, o = gate[:H], gate[H : 2 * H], gate[2 * H : 3 * H], gate[3 * H :]
        _add_sigmoid(gate[: 2 * H], add, b)
        _add_tanh(g, add[2 * H :], b[2 * H :])
        _add_sigmoid(o, add[3 * H :], b[3 * H :])
        for j in range(H):
            new[j] = f[j] * old[j] + i[j] * g[j]
        for j in range(H):
            out[j] = o[j] * scalar.tanh(new[j])


@kernel()
def _lstm_cell_grad(ga, gy, gh, gcell, gates, c_prev, c):
    """From the gradients of h (gy + gh) and c to those of the four pre-activations; gcell becomes that of
    c_prev.
    """
    H = c.shape[1]
    for n in prange(c.shape[0]):
        gate, old, new, g_y, g_h, g_c = gates[n], c_prev[n], c[n], gy[n], gh[n], gcell[n]
        i, f, g, o = gate[:H], gate[H : 2 * H], gate[2 * H : 3 * H], gate[3 * H :]
        gi, gf, gg, go = ga[n, :H], ga[n, H : 2 * H], ga[n, 2 * H : 3 * H], ga[n, 3 * H :]
        for j in range(H):
            g_h[j] += g_y[j]
        for j in range(H):
            go[j] = scalar.tanh(new[j])
        for j in range(H):
            g_c[j] += g_h[j] * o[j] * (ONE - go[j] * go[j])
        for j in range(H):
            go[j] *= g_h[j] * o[j] * (ONE - o[j])
        for j in range(H):
            gi[j] = g_c[j] * g[j] * i[j] * (ONE - i[j])
        for j in range(H):
            gf[j] = g_c[j] * old[j] * f[j] * (ONE - f[j])
        for j in range(H):
            gg[j] = g_c[j] * i[j] * (ONE - g[j] * g[j])
        for j in range(H):
            g_c[j] *= f[j]


@kernel()
def _gru_cell(gates, a, b, h_prev, m, h):
    """r, z = sigmoid(gates + a + b);  m = a_n + b_n;  n = tanh(gates_n + r m);  h = (1 - z) n + z h_prev"""
    H = h.shape[1]
    for k in prange(h.shape[0]):
        gate, add, old, mid, out = gates[k], a[k], h_prev[k], m[k], h[k]
        r, z, n = gate[:H], gate[H : 2 * H], gate[2 * H :]
        for j in range(H):
            mid[j] = add[2 * H + j] + b[2 * H + j]
        _add_sigmoid(gate[: 2 * H], add, b)
        for j in range(H):
            n[j] = scalar.tanh(n[j] + r[j] * mid[j])
        for j in range(H):
            out[j] = (ONE - z[j]) * n[j] + z[j] * old[j]


@kernel()
def _gru_cell_grad(ga, gr, gh, gates, m, h_prev):
    """From the gradient of h to those of the pre-activations of both sides; gh becomes its direct part, gh
    * z.
    """
    H = gh.shape[1]
    for k in prange(gh.shape[0]):
        g_h, mid, old = gh[k], m[k], h_prev[k]
        r, z, n = gates[k, :H], gates[k, H : 2 * H], gates[k, 2 * H :]
        g_r, g_z, g_n, rec = ga[k, :H], ga[k, H : 2 * H], ga[k, 2 * H :], gr[k]
        for j in range(H):
            g_n[j] = g_h[j] * (ONE - z[j]) * (ONE - n[j] * n[j])
        for j in range(H):
            g_z[j] = g_h[j] * (old[j] - n[j]) * z[j] * (ONE - z[j])
        for j in range(H):
            g_r[j] = g_n[j] * mid[j] * r[j] * (ONE - r[j])
        rec[: 2 * H] = ga[k, : 2 * H]
        for j in range(H):
            rec[2 * H + j] = g_n[j] * r[j]
        for j in range(H):
            g_h[j] *= z[j]


@fast
def lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh):  # -> y (T, N, H), c (T, N, H), gates i f g o (T, N, 4H)
    gates = _inputs(x, w_ih, None)  # the biases are added in the cell, where the numbers are at hand
    b = np.zeros(len(w_hh), np.float32) if b_ih is None else b_ih + b_hh
    y, c = np.empty((2, *x.shape[:2], h0.shape[1]), np.float32)
    w, a = np.ascontiguousarray(w_hh.T), np.empty(gates.shape[1:], np.float32)
    h, cell = h0, c0
    for t in range(len(x)):
        np.matmul(h, w, out=a)
        _lstm_cell(gates[t], a, b, cell, c[t], y[t])
        h, cell = y[t], c[t]
    return y, c, gates


@fast
def lstm_grad(gy, gc, x, h0, c0, w_ih, w_hh, y, c, gates, need_x):  # -> gx, gh0, gc0, gw_ih, gw_hh, gb
    ga, gh, gcell = np.empty_like(gates), np.zeros_like(h0), np.zeros_like(c0)
    gy = np.zeros_like(y) if gy is None else gy
    for t in reversed(range(len(x))):
        if gc is not None:
            gcell += gc[t]
        _lstm_cell_grad(ga[t], gy[t], gh, gcell, gates[t], c[t - 1] if t else c0, c[t])
        np.matmul(ga[t], w_hh, out=gh)
    gx, gw_ih, gw_hh, gb, _ = _flat_grads(ga, ga, x, _previous(h0, y), w_ih, need_x)
    return gx, gh, gcell, gw_ih, gw_hh, gb


@fast
def gru(x, h0, w_ih, w_hh, b_ih, b_hh):  # -> y (T, N, H), gates r z n (T, N, 3H), m (T, N, H)
    gates = _inputs(x, w_ih, b_ih)
    b = np.zeros(len(w_hh), np.float32) if b_hh is None else b_hh
    y, m = np.empty((2, *x.shape[:2], h0.shape[1]), np.float32)
    w, a = np.ascontiguousarray(w_hh.T), np.empty(gates.shape[1:], np.float32)
    h = h0
    for t in range(len(x)):
        np.matmul(h, w, out=a)
        _gru_cell(gates[t], a, b, h, m[t], y[t])
        h = y[t]
    return y, gates, m


@fast
def gru_grad(gy, x, h0, w_ih, w_hh, y, gates, m, need_x):  # -> gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh
    ga, gr, gh = np.empty_like(gates), np.empty_like(gates), np.zeros_like(h0)
    h_prev = _previous(h0, y)
    for t in reversed(range(len(x))):
        gh += gy[t]
        _gru_cell_grad(ga[t], gr[t], gh, gates[t], m[t], h_prev[t])
        gh += gr[t] @ w_hh
    gx, gw_ih, gw_hh, gb_ih, gb_hh = _flat_grads(ga, gr, x, h_prev, w_ih, need_x)
    return gx, gh, gw_ih, gw_hh, gb_ih, gb_hh
