"""Many elements to one along axes (a tuple), or a running result along one axis."""

import numpy as np


def sum(x, axes, keepdim):
    return np.add.reduce(x, axis=axes, keepdims=keepdim)


def prod(x, axes, keepdim):
    return np.multiply.reduce(x, axis=axes, keepdims=keepdim)


def amax(x, axes, keepdim):
    return np.maximum.reduce(x, axis=axes, keepdims=keepdim)


def amin(x, axes, keepdim):
    return np.minimum.reduce(x, axis=axes, keepdims=keepdim)


def all(x, axes, keepdim):
    return np.all(x, axis=axes, keepdims=keepdim)


def any(x, axes, keepdim):
    return np.any(x, axis=axes, keepdims=keepdim)


def argmax(x, axis, keepdim):  # axis None: the position in the flat array
    return np.argmax(x, axis, keepdims=keepdim)


def argmin(x, axis, keepdim):
    return np.argmin(x, axis, keepdims=keepdim)


def cumsum(x, axis):
    return np.add.accumulate(x, axis)


def cumprod(x, axis):
    return np.multiply.accumulate(x, axis)


def cumprod_grad(g, x, axis):  # gx[j] = x[0]...x[j-1] h[j], h[j] = g[j] + x[j+1] h[j+1]: no division by x
    g, x = np.moveaxis(g, axis, 0), np.moveaxis(x, axis, 0)
    h, before = g.copy(), np.ones_like(x)
    for j in reversed(range(len(x) - 1)):
        h[j] += x[j + 1] * h[j + 1]
    np.multiply.accumulate(x[:-1], 0, out=before[1:])
    return np.moveaxis(before * h, 0, axis)


def prod_others(x, axis):  # out[i] = the product of all x[j], j != i, along the axis; right where x has zeros
    x = np.moveaxis(x, axis, -1)
    before, after = np.ones_like(x), np.ones_like(x)
    np.multiply.accumulate(x[..., :-1], -1, out=before[..., 1:])
    np.multiply.accumulate(x[..., :0:-1], -1, out=after[..., -2::-1])
    return np.moveaxis(before * after, -1, axis)


def _shifted(x, axes):  # x - max(x), and the max; a row of -inf stays as it is
    top = np.array(np.max(x, axes, keepdims=True, initial=-np.inf), x.dtype)
    top[np.isinf(top)] = 0
    return x - top, top


def logsumexp(x, axes, keepdim):
    d, top = _shifted(x, axes)
    y = np.log(np.exp(d).sum(axes, keepdims=True)) + top
    return y if keepdim else y.squeeze(axes)


def softmax(x, axis):
    y = np.exp(_shifted(x, axis)[0])
    return y / y.sum(axis, keepdims=True)


def softmax_grad(g, y, axis):
    gy = g * y
    return gy - y * gy.sum(axis, keepdims=True)


def log_softmax(x, axis):
    d = _shifted(x, axis)[0]
    return d - np.log(np.exp(d).sum(axis, keepdims=True))


def log_softmax_grad(g, y, axis):
    return g - np.exp(y) * g.sum(axis, keepdims=True)
