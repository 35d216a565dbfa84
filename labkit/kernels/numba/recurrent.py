"""LSTM and GRU over a whole sequence: the products go to BLAS, all that happens between two products is one loop.

Backward collects the gradients of the pre-activations of all steps; each weight gradient is one product at the end.
"""

import numpy as np
from numba import prange

from labkit.kernels.numba import scalar
from labkit.kernels.numba.jit import fast, kernel
from labkit.kernels.numba.scalar import ONE
from labkit.kernels.numpy.recurrent import _flat_grads, _inputs, _previous


@kernel()
def _lstm_cell(gates, a, c_prev, c, h):
    """gates += a, then in place  i, f, o = sigmoid, g = tanh;  c = f * c_prev + i * g;  h = o * tanh(c)"""
    H = c.shape[1]
    for n in prange(c.shape[0]):
        gate, add, old, new, out = gates[n], a[n], c_prev[n], c[n], h[n]
        for j in range(H):
            i = scalar.sigmoid(gate[j] + add[j])
            f = scalar.sigmoid(gate[H + j] + add[H + j])
            g = scalar.tanh(gate[2 * H + j] + add[2 * H + j])
            o = scalar.sigmoid(gate[3 * H + j] + add[3 * H + j])
            cell = f * old[j] + i * g
            gate[j], gate[H + j], gate[2 * H + j], gate[3 * H + j] = i, f, g, o
            new[j] = cell
            out[j] = o * scalar.tanh(cell)


@kernel()
def _lstm_cell_grad(ga, gh, gcell, gates, c_prev, c):
    """From the gradients of h and c to those of the four pre-activations; gcell becomes that of c_prev."""
    H = c.shape[1]
    for n in prange(c.shape[0]):
        out, gate, old, new, gh_row, gc = ga[n], gates[n], c_prev[n], c[n], gh[n], gcell[n]
        for j in range(H):
            i, f, g, o = gate[j], gate[H + j], gate[2 * H + j], gate[3 * H + j]
            t = scalar.tanh(new[j])
            gc_j = gc[j] + gh_row[j] * o * (ONE - t * t)
            out[j] = gc_j * g * i * (ONE - i)
            out[H + j] = gc_j * old[j] * f * (ONE - f)
            out[2 * H + j] = gc_j * i * (ONE - g * g)
            out[3 * H + j] = gh_row[j] * t * o * (ONE - o)
            gc[j] = gc_j * f


@kernel()
def _gru_cell(gates, a, h_prev, m, h):
    """r, z = sigmoid(gates + a);  m = a_n;  n = tanh(gates_n + r * m);  h = (1 - z) * n + z * h_prev"""
    H = h.shape[1]
    for k in prange(h.shape[0]):
        gate, add, old, mid, out = gates[k], a[k], h_prev[k], m[k], h[k]
        for j in range(H):
            r = scalar.sigmoid(gate[j] + add[j])
            z = scalar.sigmoid(gate[H + j] + add[H + j])
            n = scalar.tanh(gate[2 * H + j] + r * add[2 * H + j])
            mid[j] = add[2 * H + j]
            gate[j], gate[H + j], gate[2 * H + j] = r, z, n
            out[j] = (ONE - z) * n + z * old[j]


@kernel()
def _gru_cell_grad(ga, gr, gh, gates, m, h_prev):
    """From the gradient of h to those of the pre-activations of both sides; gh becomes its direct part, gh * z."""
    H = gh.shape[1]
    for k in prange(gh.shape[0]):
        out, rec, gh_row, gate, mid, old = ga[k], gr[k], gh[k], gates[k], m[k], h_prev[k]
        for j in range(H):
            r, z, n = gate[j], gate[H + j], gate[2 * H + j]
            gn = gh_row[j] * (ONE - z) * (ONE - n * n)
            gz = gh_row[j] * (old[j] - n) * z * (ONE - z)
            g_r = gn * mid[j] * r * (ONE - r)
            out[j], out[H + j], out[2 * H + j] = g_r, gz, gn
            rec[j], rec[H + j], rec[2 * H + j] = g_r, gz, gn * r
            gh_row[j] = gh_row[j] * z


@fast
def lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh):  # -> y (T, N, H), c (T, N, H), gates i f g o (T, N, 4H)
    gates = _inputs(x, w_ih, None if b_ih is None else b_ih + b_hh)
    y, c = np.empty((2, *x.shape[:2], h0.shape[1]), np.float32)
    w, a = np.ascontiguousarray(w_hh.T), np.empty(gates.shape[1:], np.float32)
    h, cell = h0, c0
    for t in range(len(x)):
        np.matmul(h, w, out=a)
        _lstm_cell(gates[t], a, cell, c[t], y[t])
        h, cell = y[t], c[t]
    return y, c, gates


@fast
def lstm_grad(gy, gc, x, h0, c0, w_ih, w_hh, y, c, gates):  # -> gx, gh0, gc0, gw_ih, gw_hh, gb
    ga, gh, gcell = np.empty_like(gates), np.zeros_like(h0), np.zeros_like(c0)
    for t in reversed(range(len(x))):
        if gy is not None:
            gh += gy[t]
        if gc is not None:
            gcell += gc[t]
        _lstm_cell_grad(ga[t], gh, gcell, gates[t], c[t - 1] if t else c0, c[t])
        np.matmul(ga[t], w_hh, out=gh)
    gx, gw_ih, gw_hh, gb, _ = _flat_grads(ga, ga, x, _previous(h0, y), w_ih)
    return gx, gh, gcell, gw_ih, gw_hh, gb


@fast
def gru(x, h0, w_ih, w_hh, b_ih, b_hh):  # -> y (T, N, H), gates r z n (T, N, 3H), m (T, N, H)
    gates = _inputs(x, w_ih, b_ih)
    y, m = np.empty((2, *x.shape[:2], h0.shape[1]), np.float32)
    w, a = np.ascontiguousarray(w_hh.T), np.empty(gates.shape[1:], np.float32)
    h = h0
    for t in range(len(x)):
        np.matmul(h, w, out=a)
        if b_hh is not None:
            a += b_hh
        _gru_cell(gates[t], a, h, m[t], y[t])
        h = y[t]
    return y, gates, m


@fast
def gru_grad(gy, x, h0, w_ih, w_hh, y, gates, m):  # -> gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh
    ga, gr, gh = np.empty_like(gates), np.empty_like(gates), np.zeros_like(h0)
    h_prev = _previous(h0, y)
    for t in reversed(range(len(x))):
        gh += gy[t]
        _gru_cell_grad(ga[t], gr[t], gh, gates[t], m[t], h_prev[t])
        gh += gr[t] @ w_hh
    gx, gw_ih, gw_hh, gb_ih, gb_hh = _flat_grads(ga, gr, x, h_prev, w_ih)
    return gx, gh, gw_ih, gw_hh, gb_ih, gb_hh
