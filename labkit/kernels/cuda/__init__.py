"""CUDA kernels, written in Python and compiled by Numba. Read README.md first, then any file beside its twin
in `numpy/`. A kernel that is not in these files does not exist on the device: there is no silent way around.
"""

from labkit.kernels import written_in

KERNELS = written_in(__path__[0])
