"""Classification losses on (N, C). Each returns the loss and its gradient in x: one pass makes both."""

import math

from labkit.kernels.cuda import scalar
from labkit.kernels.cuda.elementwise import div, mul
from labkit.kernels.cuda.launch import THREADS, cuda, kernel
from labkit.kernels.cuda.memory import empty, full
from labkit.kernels.cuda.reduce import sum
from labkit.kernels.cuda.tree import block_max, block_sum


@kernel("F2 I1 F1 i f i F1 F1 F2")
def _cross_entropy(x, target, w, ignore, smoothing, normalize, loss, weight, gx):
    """Block i owns row i. With p = softmax(x), the share of class c in the loss is -share[c] log p[c], where
    share[c] is w[target] at the target and a little of w[c] everywhere if labels are smoothed. So
    gx[c] = p[c] sum(share) - share[c]. Without `normalize`, x holds log p already, and gx[c] = -share[c].

    Shared: one tree, used up to four times. Reads the row three times, writes it once, and two numbers.
    """
    partial = cuda.shared.array(THREADS, x.dtype)
    T = x.dtype.type
    i, t, C = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[1]
    kept = target[i] != ignore
    own = w[target[i]] if kept else T(0)  # the weight of this row
    rest = smoothing / T(C) if kept else T(0)
    top, total = T(0), T(1)
    if normalize:
        top = T(-math.inf)
        for c in range(t, C, THREADS):
            top = scalar.larger(top, x[i, c])
        top = block_max(partial, top)
        total = T(0)
        for c in range(t, C, THREADS):
            total += scalar.exp(x[i, c] - top)
        total = block_sum(partial, total)
    shift = top + scalar.log(total)
    cost, shares = T(0), T(0)
    for c in range(t, C, THREADS):
        share = rest * w[c]
        if c == target[i]:
            share += (T(1) - smoothing) * own
        shares += share
        if share != T(0):  # a class of weight 0 counts nothing, even at -inf
            cost -= share * (x[i, c] - shift)
        gx[i, c] = -share
    cost = block_sum(partial, cost)
    shares = block_sum(partial, shares)
    if normalize:
        for c in range(t, C, THREADS):
            gx[i, c] += shares * scalar.exp(x[i, c] - shift)
    if t == 0:
        loss[i] = cost
        weight[i] = own


def _classify(x, target, w, ignore_index, label_smoothing, reduction, normalize):
    N, C = x.shape
    loss, weight, gx = empty((N,), x.dtype), empty((N,), x.dtype), empty((N, C), x.dtype)
    w = full((), 1, x.dtype).broadcast_to((C,)) if w is None else w
    smoothing = x.dtype.type(label_smoothing)
    _cross_entropy(N, THREADS, x, target, w, ignore_index, smoothing, normalize, loss, weight, gx)
    if reduction == "none":
        return loss, gx
    if reduction == "sum":
        return sum(loss, (0,), False), gx
    total = sum(weight, (0,), False)
    return div(sum(loss, (0,), False), total), div(gx, total)


def nll_loss(x, target, w, ignore_index, label_smoothing, reduction):  # -> loss, gx (N, C)
    return _classify(x, target, w, ignore_index, label_smoothing, reduction, 0)


def cross_entropy(x, target, w, ignore_index, label_smoothing, reduction):  # -> loss, gx (N, C)
    return _classify(x, target, w, ignore_index, label_smoothing, reduction, 1)


def scale_rows(gx, g):  # gx (N, C) times g, a scalar or (N,)
    return mul(gx, g if g.ndim == 0 else g.reshape(-1, 1))
