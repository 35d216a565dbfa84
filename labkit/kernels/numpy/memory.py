"""Making, copying and comparing arrays."""

import numpy as np

Array = np.ndarray
asarray = np.asarray
empty = np.empty
zeros = np.zeros
full = np.full
arange = np.arange


def copy(x):  # new memory, row-major
    return np.array(x, order="C")


def copy_(out, x):  # out[...] = x, broadcast and cast
    np.copyto(out, x, casting="unsafe")


def cast(x, dtype):
    return x.astype(dtype)


def is_view(x):  # does x live in another array's memory?
    return isinstance(x.base, np.ndarray)


def root(x):  # the array that owns x's memory
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x
