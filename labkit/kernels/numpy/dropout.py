"""Dropout: which elements to keep is drawn once, and used by both passes."""

import numpy as np


def dropout_keep(shape, p, rng):  # -> bool, True with probability 1 - p
    return rng.random(shape, np.float32) >= p


def dropout(x, keep, p):  # kept elements are scaled so that the mean stays
    return x * keep * x.dtype.type(0 if p == 1 else 1 / (1 - p))
