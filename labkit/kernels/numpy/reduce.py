"""Many elements to one, along axes (a tuple)."""

import numpy as np


def sum(x, axes, keepdim):
    return np.add.reduce(x, axis=axes, keepdims=keepdim)
