"""Parameter updates in place, one launch per parameter: everything is read once, changed, written once."""

import math

from labkit.kernels.cuda import scalar
from labkit.kernels.cuda.launch import cuda, kernel
from labkit.kernels.cuda.memory import empty, place, sweep


@kernel("f f f f i i F4 F4 F4")
def _sgd(lr, momentum, keep, weight_decay, nesterov, has_buffer, g, buf, p):
    """Thread i owns p[i] and buf[i]: reads 3, writes 2 (1 without momentum)."""
    i = cuda.grid(1)
    if i < p.size:
        a, b, c, d = place(i, p.shape)
        step = g[a, b, c, d] + weight_decay * p[a, b, c, d]
        if has_buffer:
            moving = momentum * buf[a, b, c, d] + keep * step
            buf[a, b, c, d] = moving
            step = step + momentum * moving if nesterov else moving
        p[a, b, c, d] -= lr * step


@kernel("f f f f f f i i F4 F4 F4 F4 F4")
def _rmsprop(lr, alpha, rest, eps, weight_decay, momentum, centered, has_buffer, g, v, mean, buf, p):
    """Thread i owns p[i] and v[i] (and mean[i], buf[i]): reads 3 to 5, writes 2 to 4. `rest` is 1 - alpha."""
    i = cuda.grid(1)
    if i < p.size:
        a, b, c, d = place(i, p.shape)
        grad = g[a, b, c, d] + weight_decay * p[a, b, c, d]
        square = alpha * v[a, b, c, d] + rest * grad * grad
        v[a, b, c, d] = square
        if centered:
            middle = mean[a, b, c, d] + rest * (grad - mean[a, b, c, d])
            mean[a, b, c, d] = middle
            square = square - middle * middle
        step = grad / (scalar.sqrt(square) + eps)
        if has_buffer:
            step = momentum * buf[a, b, c, d] + step
            buf[a, b, c, d] = step
        p[a, b, c, d] -= lr * step


@kernel("f f f f f f f f i F4 F4 F4 F4 F4")
def _adam(rate, rest1, beta2, rest2, root, eps, shrink, weight_decay, amsgrad, g, m, v, vmax, p):
    """Thread i owns p[i], m[i], v[i] (and vmax[i]): reads 4, writes 3. Unfused, this is a dozen launches.

    `rate` is lr / (1 - beta1^step), `root` sqrt(1 - beta2^step), `rest1` 1 - beta1, `rest2` 1 - beta2.
    """
    i = cuda.grid(1)
    if i < p.size:
        a, b, c, d = place(i, p.shape)
        value = p[a, b, c, d] * shrink
        grad = g[a, b, c, d] + weight_decay * value
        mean = m[a, b, c, d] + rest1 * (grad - m[a, b, c, d])
        square = beta2 * v[a, b, c, d] + rest2 * grad * grad
        m[a, b, c, d] = mean
        v[a, b, c, d] = square
        if amsgrad:
            square = scalar.larger(vmax[a, b, c, d], square)
            vmax[a, b, c, d] = square
        p[a, b, c, d] = value - rate * mean / (scalar.sqrt(square) / root + eps)


def sgd_(p, g, buf, lr, momentum, dampening, weight_decay, nesterov):  # buf None: no momentum
    numbers = [p.dtype.type(n) for n in (lr, momentum, 1 - dampening, weight_decay)]
    unused = empty((), p.dtype)
    flags = int(nesterov), int(buf is not None)
    sweep(_sgd, (g, unused if buf is None else buf, p), (*numbers, *flags))


def rmsprop_(p, g, v, buf, mean, lr, alpha, eps, weight_decay, momentum):  # None: not centered, no momentum
    numbers = [p.dtype.type(n) for n in (lr, alpha, 1 - alpha, eps, weight_decay, momentum)]
    unused = empty((), p.dtype)
    arrays = g, v, unused if mean is None else mean, unused if buf is None else buf, p
    sweep(_rmsprop, arrays, (*numbers, int(mean is not None), int(buf is not None)))


def adam_(p, g, m, v, vmax, lr, beta1, beta2, eps, weight_decay, decoupled, step):  # vmax None: no amsgrad
    shrink, decay = (1 - lr * weight_decay, 0) if decoupled else (1, weight_decay)
    rate, root = lr / (1 - beta1**step), math.sqrt(1 - beta2**step)
    rates = rate, 1 - beta1, beta2, 1 - beta2, root, eps, shrink, decay
    numbers = [p.dtype.type(n) for n in rates]
    unused = empty((), p.dtype)
    arrays = g, m, v, unused if vmax is None else vmax, p
    sweep(_adam, arrays, (*numbers, int(vmax is not None)))
