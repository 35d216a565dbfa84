"""Add up the numbers of each block in shared memory: a tree, a barrier after every step."""

import numpy as np

from labkit.exercises.declare import Case, Kernel, Limit, Mistake
from labkit.lazy import Lazy, torch

cuda = Lazy("numba.cuda")
float32 = np.float32

THREADS = 32


def _launch(x):
    return -(-x.size // THREADS), THREADS


def _blank(x):
    return np.full(-(-x.size // THREADS), np.nan, np.float32)


def _sums(x):
    padded = torch.nn.functional.pad(x, (0, -x.numel() % THREADS))
    return padded.reshape(-1, THREADS).sum(1)


def guard_around_all(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        s[t] = x[i]
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:
            if t < half:
                s[t] += s[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            out[cuda.blockIdx.x] = s[0]


def no_guard(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def no_zero(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        s[t] = x[i]
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def no_barrier_in_the_loop(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def no_barrier_after_the_load(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else float32(0)
    half = THREADS // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def one_too_few(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size - 1 else float32(0)
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def same_block(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    s[t] = x[t] if t < x.size else float32(0)
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def alone(x, out):
    i = cuda.grid(1)
    if i % THREADS == 0:
        total = float32(0)
        for j in range(i, min(i + THREADS, x.size)):
            total += x[j]
        out[cuda.blockIdx.x] = total


exercise = Kernel(
    id="w91.block_sum",
    title="The sum of each block",
    minutes=25,
    level=4,
    cases=[
        Case("a block and a half", lambda draw: {"x": draw.normal(49)}),
        Case("three blocks, the last with one", lambda draw: {"x": draw.normal(65)}),
        Case("strided", lambda draw: {"x": draw.strided(32)}),
        Case("one number", lambda draw: {"x": draw.normal(1)}),
    ],
    outputs={"out": _blank},
    launch=_launch,
    oracle=_sums,
    reduces=THREADS,
    limits=[
        Limit("global reads", 1, "Shared memory is there so that a thread reads one number and no more."),
        Limit(
            "global writes",
            1,
            "One thread writes the sum of its block; the others have nothing to add.",
            "block",
        ),
        Limit("barriers", 6, "One after the load and one after each of the five steps of the tree."),
        Limit("shared bytes", 4 * THREADS, "One number for each thread of the block."),
    ],
    mistakes=[
        Mistake(
            "barrier in the guard",
            "the guard is around the barriers, and threads past the end never come there; guard the load.",
            guard_around_all,
        ),
        Mistake(
            "no guard", "the last block has threads past the end of `x`; they must not read there.", no_guard
        ),
        Mistake(
            "no zero",
            "threads past the end leave their place in shared memory as it was; write a 0 there.",
            no_zero,
        ),
        Mistake(
            "no barrier in the loop",
            "each step of the tree reads what the step before wrote; a barrier belongs after each step.",
            no_barrier_in_the_loop,
        ),
        Mistake(
            "no barrier after the load",
            "the tree starts while other threads still fill shared memory; a barrier belongs after the load.",
            no_barrier_after_the_load,
        ),
        Mistake(
            "one too few",
            "the guard leaves out the last number: `i < x.size`, not `x.size - 1`.",
            one_too_few,
        ),
        Mistake(
            "every block the same",
            "every block reads the first numbers: `threadIdx` starts anew in each, `cuda.grid(1)` does not.",
            same_block,
        ),
        Mistake(
            "one thread does it all",
            "one thread adds up the whole block while 31 wait; share the work.",
            alone,
        ),
    ],
    hints=(
        "Load first: each thread puts its number into shared memory, or 0 if it has none. Then wait.",
        "Halve: with `half` = 16, thread t < 16 adds place t + 16 to place t. Then wait, and halve again.",
        "`while half > 0:` `if t < half: s[t] += s[t + half]`, `cuda.syncthreads()`, `half //= 2`.",
    ),
    passed="A sum of n numbers in log2(n) steps: this tree is inside every reduction that a GPU does.",
)
