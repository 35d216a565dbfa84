"""Reductions inside one block, as a tree in shared memory.

Each round, half of the threads that are left add a partner's number to their own: log2(THREADS) rounds,
always in the same order, so that the same input gives the same bits every time.
"""

from labkit.kernels.cuda import scalar
from labkit.kernels.cuda.launch import THREADS, cuda, function_of_thread


@function_of_thread
def block_sum(partial, value):
    """The sum of `value` over the block, known to every thread. `partial` is shared, one cell per thread."""
    t = cuda.threadIdx.x
    partial[t] = value
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            partial[t] += partial[t + half]
        cuda.syncthreads()
        half //= 2
    total = partial[0]
    cuda.syncthreads()  # all have read the total before anyone uses the cells again
    return total


@function_of_thread
def block_max(partial, value):
    """The largest `value` of the block, known to every thread; nan if one is nan."""
    t = cuda.threadIdx.x
    partial[t] = value
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            partial[t] = scalar.larger(partial[t], partial[t + half])
        cuda.syncthreads()
        half //= 2
    top = partial[0]
    cuda.syncthreads()
    return top
