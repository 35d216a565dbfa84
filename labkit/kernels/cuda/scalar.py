"""Functions of one number, for use in kernels.

Where hardware gives inf or nan, Python's `math` raises an error. The simulator runs kernels as Python, so it
takes NumPy's functions; Numba compiles those of `math`.
"""

import math

import numpy as np

from labkit import cuda as device
from labkit.kernels.cuda.launch import function_of_thread

_library = np if device.SIMULATED else math
exp, erf = _library.exp, math.erf  # NumPy has no erf; this one never raises


def __getattr__(name):
    """`scalar.exp`, `scalar.log2`, ...: every function of `math` that NumPy calls by the same name"""
    if name.startswith("_") or not (hasattr(math, name) and hasattr(np, name)):
        raise AttributeError(
            f"math and NumPy do not both have {name!r}: write it in labkit/kernels/cuda/scalar.py"
        )
    return getattr(_library, name)


@function_of_thread
def sigmoid(x):
    """1 / (1 + e^-x). The exponent is at most 0, so that it never overflows."""
    T = type(x)
    e = exp(-abs(x))
    return (T(1) if x >= T(0) else e) / (T(1) + e)


@function_of_thread
def larger(x, y):
    """The larger one; nan if either is nan"""
    return x if x > y or x != x else y


@function_of_thread
def smaller(x, y):
    """The smaller one; nan if either is nan"""
    return x if x < y or x != x else y
