"""Keep freed memory in the process, so that the arrays of the next training step are already there.

A step allocates and frees the same megabytes again and again. By default the C library returns large blocks
to the operating system at once, and every first touch of a page of the next block is then a fault that
fills it with zeros: 2,500 of them, a sixth of the time, in a step of a small GPT.
"""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # the names and numbers of <malloc.h>


def keep_freed_memory() -> None:
    """Blocks up to 32 MB (the most that every GNU C library accepts) come from the heap, which may stay
    large.
    """
    if sys.platform.startswith("linux"):
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have no such call
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, 32 << 20)
            mallopt(_M_TRIM_THRESHOLD, 512 << 20)
