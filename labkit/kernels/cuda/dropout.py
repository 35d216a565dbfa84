"""Dropout with a counter-based generator: element i's random number is a function of (seed, i) alone.

No state is carried from number to number, so every thread computes its own, in any order. The function is
Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), the one cuRAND uses.
"""

import numpy as np

from labkit.kernels.cuda.elementwise import mapped
from labkit.kernels.cuda.launch import cuda, function_of_thread, kernel
from labkit.kernels.cuda.memory import empty, place, sweep

MULTIPLY0, MULTIPLY1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL0, WEYL1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)  # 32 bits of a 64-bit number
TO_UNIT = np.float32(2**-24)
TOP24 = np.uint64(8)


@function_of_thread
def philox(counter, key):
    """32 random bits for a 64-bit counter and a 64-bit key: ten rounds of multiply, swap and mix."""
    a, b = counter & LOW, counter >> HALF
    c, d = counter & np.uint64(0), counter & np.uint64(0)
    k0, k1 = key & LOW, key >> HALF
    for _ in range(10):
        first, second = MULTIPLY0 * a, MULTIPLY1 * c  # 32 x 32 bits: never overflows 64
        a, b, c, d = (second >> HALF) ^ b ^ k0, second & LOW, (first >> HALF) ^ d ^ k1, first & LOW
        k0, k1 = (k0 + WEYL0) & LOW, (k1 + WEYL1) & LOW
    return a


@kernel("f u B4")
def _draw(p, key, out):
    """Thread i owns out[i], True with probability 1 - p. Nothing is read; one byte is written per thread."""
    i = cuda.grid(1)
    if i < out.size:
        a, b, c, d = place(i, out.shape)
        uniform = np.float32(philox(np.uint64(i), key) >> TOP24) * TO_UNIT  # in [0, 1), 24 bits
        out[a, b, c, d] = uniform >= p


def _scale(x, keep, factor):
    return x * factor if keep else x * type(x)(0)


_multiply = mapped(_scale, "F4 B4 F4 F4")


def dropout_keep(shape, p, rng):  # -> bool, True with probability 1 - p
    out = empty(shape, np.bool_)
    key = np.uint64(rng.integers(0, 2**63))  # the CPU's generator gives the seed, so manual_seed() counts
    sweep(_draw, (out,), (np.float32(p), key))
    return out


def dropout(x, keep, p):  # kept elements are scaled so that the mean stays
    return _multiply(x, keep, 0 if p == 1 else 1 / (1 - p))
