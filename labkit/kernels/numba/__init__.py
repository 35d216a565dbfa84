"""Compiled kernels: loops that Numba turns into vector instructions, spread over threads when large.

Only what is worth it; a kernel missing here comes from `numpy/`, with the same name and signature. Read
`jit.py` first, then any file beside its twin in `numpy/`.
"""

from labkit.kernels import written_in

KERNELS = written_in(__path__[0])
