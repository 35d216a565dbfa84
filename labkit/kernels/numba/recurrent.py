"""LSTM and GRU over a whole sequence: the products, gates and states of all steps in one kernel.

The rows of a batch never meet, so a thread takes some of them through the whole sequence alone and waits for
nobody. Their states stay in the nearest cache; the recurrent weights are read again at every step. With so
few rows `rows_by_rows` is as quick as BLAS, often quicker, and nothing is called between two steps.

A cell walks the rows, and for each row runs several short loops rather than one that does everything: a loop
is vectorized if it is cheap to prove that what it writes is not what it reads, so it may touch only a few
arrays. Inputs and weight gradients of all steps are one large product each: those go to BLAS.
"""

import numpy as np
from numba import prange

from labkit.kernels.numba import scalar
from labkit.kernels.numba.jit import fast, kernel
from labkit.kernels.numba.linear import rows_by_rows
from labkit.kernels.numba.scalar import ONE
from labkit.kernels.numpy.recurrent import _flat_grads, _inputs, _previous

_ROWS = 16  # of the batch that go through the sequence together
_rows_by_rows = rows_by_rows.serial  # a part of the batch has one thread


@kernel(grain=None)
def _add_sigmoid(x, a):
    for j in range(x.size):
        x[j] = scalar.sigmoid(x[j] + a[j])


@kernel(grain=None)
def _add_tanh(x, a):
    for j in range(x.size):
        x[j] = scalar.tanh(x[j] + a[j])


@kernel(grain=None)
def _lstm_cell(gates, a, c_prev, c, h):
    """gates += a, then in place  i, f, o = sigmoid, g = tanh;  c = f * c_prev + i * g;  h = o * tanh(c)"""
    H = c.shape[1]
    for n in range(c.shape[0]):
        gate, add, old, new, out = gates[n], a[n], c_prev[n], c[n], h[n]
        i, f, g, o = gate[:H], gate[H : 2 * H], gate[2 * H : 3 * H], gate[3 * H :]
        _add_sigmoid(gate[: 2 * H], add)
        _add_tanh(g, add[2 * H :])
        _add_sigmoid(o, add[3 * H :])
        for j in range(H):
            new[j] = f[j] * old[j] + i[j] * g[j]
        for j in range(H):
            out[j] = o[j] * scalar.tanh(new[j])


@kernel(grain=None)
def _lstm_cell_grad(ga, gy, gh, gcell, gates, c_prev, c):
    """From the gradients of h (gy + gh) and c to those of the four pre-activations; gcell becomes that of
    c_prev.
    """
    H = c.shape[1]
    for n in range(c.shape[0]):
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


@kernel(grain=None)
def _gru_cell(gates, a, h_prev, m, h):
    """r, z = sigmoid(gates + a);  m = a_n;  n = tanh(gates_n + r * m);  h = (1 - z) * n + z * h_prev"""
    H = h.shape[1]
    for k in range(h.shape[0]):
        gate, add, old, mid, out = gates[k], a[k], h_prev[k], m[k], h[k]
        r, z, n = gate[:H], gate[H : 2 * H], gate[2 * H :]
        mid[:] = add[2 * H :]
        _add_sigmoid(gate[: 2 * H], add)
        for j in range(H):
            n[j] = scalar.tanh(n[j] + r[j] * mid[j])
        for j in range(H):
            out[j] = (ONE - z[j]) * n[j] + z[j] * old[j]


@kernel(grain=None)
def _gru_cell_grad(ga, gr, gh, gates, m, h_prev):
    """From the gradient of h to those of the pre-activations of both sides; gh becomes its direct part, gh
    * z.
    """
    H = gh.shape[1]
    for k in range(gh.shape[0]):
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


@kernel()
def _lstm_steps(gates, w, b, h0, c0, a, y, c):
    """for each part of the batch, step t:  a = b + h @ w.T;  the cell, from there to y[t] and c[t]"""
    T, N, _ = y.shape
    parts = -(-N // _ROWS)
    for part in prange(parts):
        lo, hi = N * part // parts, N * (part + 1) // parts
        for t in range(T):
            h, cell = (y[t - 1], c[t - 1]) if t > 0 else (h0, c0)
            _rows_by_rows(w, h[lo:hi], b, a[lo:hi])
            _lstm_cell(gates[t, lo:hi], a[lo:hi], cell[lo:hi], c[t, lo:hi], y[t, lo:hi])


@kernel()
def _lstm_steps_grad(gates, w, b, gy, gc, c0, c, ga, gh, gcell):
    """for each part of the batch, step t, last first:  the cell, from there to ga[t];  gh = ga[t] @ w.T

    `gc` may have no steps; `b` is zeros.
    """
    T, N, _ = c.shape
    parts = -(-N // _ROWS)
    for part in prange(parts):
        lo, hi = N * part // parts, N * (part + 1) // parts
        for t in range(T - 1, -1, -1):
            if len(gc):
                gcell[lo:hi] += gc[t, lo:hi]
            before = c[t - 1] if t > 0 else c0
            _lstm_cell_grad(
                ga[t, lo:hi],
                gy[t, lo:hi],
                gh[lo:hi],
                gcell[lo:hi],
                gates[t, lo:hi],
                before[lo:hi],
                c[t, lo:hi],
            )
            _rows_by_rows(w, ga[t, lo:hi], b, gh[lo:hi])


@kernel()
def _gru_steps(gates, w, b, h0, a, m, y):
    """for each part of the batch, step t:  a = b + h @ w.T;  the cell, from there to y[t]"""
    T, N, _ = y.shape
    parts = -(-N // _ROWS)
    for part in prange(parts):
        lo, hi = N * part // parts, N * (part + 1) // parts
        for t in range(T):
            h = y[t - 1] if t > 0 else h0
            _rows_by_rows(w, h[lo:hi], b, a[lo:hi])
            _gru_cell(gates[t, lo:hi], a[lo:hi], h[lo:hi], m[t, lo:hi], y[t, lo:hi])


@kernel()
def _gru_steps_grad(gates, w, b, gy, m, h_prev, ga, gr, gh, add):
    """for each part of the batch, step t, last first:  the cell, from there to gr[t];  gh += gr[t] @ w.T"""
    T, N, _ = m.shape
    parts = -(-N // _ROWS)
    for part in prange(parts):
        lo, hi = N * part // parts, N * (part + 1) // parts
        for t in range(T - 1, -1, -1):
            gh[lo:hi] += gy[t, lo:hi]
            _gru_cell_grad(
                ga[t, lo:hi], gr[t, lo:hi], gh[lo:hi], gates[t, lo:hi], m[t, lo:hi], h_prev[t, lo:hi]
            )
            _rows_by_rows(w, gr[t, lo:hi], b, add[lo:hi])
            gh[lo:hi] += add[lo:hi]


def _zeros(size):
    return np.zeros(size, np.float32)


@fast
def lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh):  # -> y (T, N, H), c (T, N, H), gates i f g o (T, N, 4H)
    gates = _inputs(x, w_ih, None)  # both biases enter with the recurrent product
    y, c = np.empty((2, *x.shape[:2], h0.shape[1]), np.float32)
    b = _zeros(len(w_hh)) if b_ih is None else b_ih + b_hh
    _lstm_steps(gates, w_hh, b, h0, c0, np.empty(gates.shape[1:], np.float32), y, c)
    return y, c, gates


@fast
def lstm_grad(gy, gc, x, h0, c0, w_ih, w_hh, y, c, gates, need_x):  # -> gx, gh0, gc0, gw_ih, gw_hh, gb
    ga, gh, gcell = np.empty_like(gates), np.zeros_like(h0), np.zeros_like(c0)
    gy = np.zeros_like(y) if gy is None else gy
    gc = np.empty((0, *c0.shape), np.float32) if gc is None else gc
    w = np.ascontiguousarray(w_hh.T)
    _lstm_steps_grad(gates, w, _zeros(len(w)), gy, gc, c0, c, ga, gh, gcell)
    gx, gw_ih, gw_hh, gb, _ = _flat_grads(ga, ga, x, _previous(h0, y), w_ih, need_x)
    return gx, gh, gcell, gw_ih, gw_hh, gb


@fast
def gru(x, h0, w_ih, w_hh, b_ih, b_hh):  # -> y (T, N, H), gates r z n (T, N, 3H), m (T, N, H)
    gates = _inputs(x, w_ih, b_ih)
    y, m = np.empty((2, *x.shape[:2], h0.shape[1]), np.float32)
    b = _zeros(len(w_hh)) if b_hh is None else b_hh
    _gru_steps(gates, w_hh, b, h0, np.empty(gates.shape[1:], np.float32), m, y)
    return y, gates, m


@fast
def gru_grad(gy, x, h0, w_ih, w_hh, y, gates, m, need_x):  # -> gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh
    ga, gr, gh = np.empty_like(gates), np.empty_like(gates), np.zeros_like(h0)
    h_prev, w = _previous(h0, y), np.ascontiguousarray(w_hh.T)
    _gru_steps_grad(gates, w, _zeros(len(w)), gy, m, h_prev, ga, gr, gh, np.empty_like(gh))
    gx, gw_ih, gw_hh, gb_ih, gb_hh = _flat_grads(ga, gr, x, h_prev, w_ih, need_x)
    return gx, gh, gw_ih, gw_hh, gb_ih, gb_hh
