"""One output per element; inputs broadcast."""

import math

import numpy as np

add, sub, mul, div = np.add, np.subtract, np.multiply, np.true_divide
neg, exp, log, sqrt, tanh = np.negative, np.exp, np.log, np.sqrt, np.tanh
isnan = np.isnan

_erf = np.vectorize(math.erf, otypes=[np.float64])  # NumPy has no erf


def erf(x):
    return _erf(x).astype(x.dtype)
