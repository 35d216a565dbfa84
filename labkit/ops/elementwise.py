"""Unary and binary functions of each element. Inputs broadcast; gradients are summed back by `backward()`."""

from labkit.autograd import op
from labkit.dtypes import floating, promote


@op
def exp(k, x):
    """e^x"""
    y = k.exp(floating(x))

    def backward(g):
        return k.mul(g, y)

    return y, backward


@op
def add(k, x, y):
    """x + y"""
    x, y = promote(x, y)

    def backward(g):
        return g, g

    return k.add(x, y), backward


@op
def mul(k, x, y, *, need):
    """x y"""
    x, y = promote(x, y)

    def backward(g):
        return k.mul(g, y) if need[0] else None, k.mul(g, x) if need[1] else None

    return k.mul(x, y), backward
