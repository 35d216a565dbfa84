"""The stepper itself: values as Numba computes them, ways to write a kernel, awkward inputs, the report."""

import linecache
import math
import subprocess
import sys
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba import cuda, float32, int32
from numpy.lib.stride_tricks import as_strided

from labkit import simt

from .kernels import CASES, THREADS, block_add, guarded_map, shift_right

SIZE = 64
TABLE = np.array([2.0, 3.0, 5.0], np.float32)


def kinds(report: simt.Report) -> list[str]:
    return [finding.kind for finding in report.findings]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def arange(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


# Ways to write a kernel


def doubled(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + x[i]


def given_cuda(cuda, x, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < len(x):
        out[i] = x[i] + x[i]


def long_name(x, out):
    i = numba.cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + x[i]


def made(shift):
    def closure(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + x[i] + shift

    return closure


def grid_stride(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = x[i] + x[i]


def by_rows(x, out):
    i = cuda.grid(1)
    if i < 1:
        row, target = x[:], out[0:]
        for j in range(row.size):
            target[j] = row[j] + row[j]


@pytest.mark.parametrize(
    "kernel", [doubled, given_cuda, long_name, made(np.float32(0)), grid_stride, by_rows]
)
def test_kernels_run_unchanged(kernel) -> None:
    x, out = arange(40), np.zeros(40, np.float32)
    report = simt.check(kernel, 2, 32, x, out)
    assert report.findings == []
    np.testing.assert_array_equal(out, 2 * x)


def in_three_dimensions(out):
    i, j, k = cuda.grid(3)
    if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:
        out[i, j, k] = 100 * cuda.threadIdx.z + 10 * cuda.blockIdx.y + cuda.blockDim.x


def test_three_dimensions_and_the_objects_of_the_simulator() -> None:
    out = np.zeros((3, 3, 2), np.int64)
    kernel = SimpleNamespace(fn=in_three_dimensions)  # where the simulator keeps the function
    assert simt.check(kernel, (2, 2, 1), (2, 2, 2), out).findings == []
    assert out[2, 2, 1] == 112 and out[0, 0, 0] == 2
    report = simt.check(no_guard, (1, 1, 1), (2, 2, 2), arange(1), arange(1))
    assert "thread (1, 0, 0)" in str(report)


def uses_device_function_of_another_file(x, out):
    s = cuda.shared.array(THREADS, float32)
    total = block_add(s, cuda.threadIdx.x, x[cuda.threadIdx.x])
    if cuda.threadIdx.x == 0:
        out[0] = total


def test_device_functions_with_barriers() -> None:
    out = np.zeros(1, np.float32)
    report = simt.check(uses_device_function_of_another_file, 1, THREADS, arange(THREADS), out)
    assert report.findings == [] and out[0] == arange(THREADS).sum()
    assert report.counts["barriers"] == THREADS * 7


def assignments(x):
    i = cuda.grid(1)
    if i == 0:
        x[0], x[1] = x[1], x[0]
        a = x[2] = x[3]
        b: float = a
        x[4] += b
        x[5] -= 1
        x[6] *= x[6]
        c, x[7] = 1, 8
        x[7] += c


def test_every_form_of_assignment() -> None:
    x = arange(8).astype(np.float64)
    assert simt.run(assignments, 1, 2, x).findings == []
    assert x.tolist() == [1, 0, 3, 3, 7, 4, 36, 9]


def warp_sum(x, out):
    t = cuda.threadIdx.x
    value = x[t]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if t % 32 == 0:
        out[t // 32] = value


def warp_votes(x, out):
    t = cuda.threadIdx.x
    swapped = cuda.shfl_xor_sync(0xFFFFFFFF, x[t], 1)
    first = cuda.shfl_sync(0xFFFFFFFF, x[t], 0)
    before = cuda.shfl_up_sync(0xFFFFFFFF, x[t], 1)
    some = cuda.any_sync(0xFFFFFFFF, x[t] > 30)
    ballot = cuda.ballot_sync(0xFFFFFFFF, x[t] < 2)
    count = cuda.syncthreads_count(x[t] > 9)
    out[t, 0], out[t, 1], out[t, 2] = swapped, first, before
    out[t, 3], out[t, 4], out[t, 5] = some, ballot, count


def test_warp_shuffles_and_votes() -> None:
    x, out = arange(64), np.zeros(2, np.float32)
    assert simt.check(warp_sum, 1, 64, x, out).findings == []
    assert out.tolist() == [x[:32].sum(), x[32:].sum()]
    votes = np.zeros((32, 6), np.int64)
    assert simt.run(warp_votes, 1, 32, np.arange(32), votes).ok
    assert votes[4].tolist() == [5, 0, 3, 1, 0b11, 22]
    assert votes[0].tolist() == [1, 0, 0, 1, 0b11, 22]


def shuffle_in_branch(x, out):
    t = cuda.threadIdx.x
    if t < 16:
        out[t] = cuda.shfl_down_sync(0xFFFFFFFF, x[t], 1)


def test_shuffle_that_half_a_warp_misses() -> None:
    report = simt.run(shuffle_in_branch, 1, 32, arange(32), np.zeros(32, np.float32))
    assert kinds(report) == ["divergent"] and "16 of 32" in report.findings[0].message


def neighbor_in_warp(x, out):
    s = cuda.shared.array(SIZE, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    out[t] = s[t ^ 1]


def neighbor_in_block(x, out):
    s = cuda.shared.array(SIZE, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    out[t] = s[t ^ 32]


def neighbor_without_sync(x, out):
    s = cuda.shared.array(SIZE, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[t ^ 1]


def test_syncwarp_orders_a_warp_and_no_more() -> None:
    out = np.zeros(SIZE, np.float32)
    assert simt.check(neighbor_in_warp, 1, SIZE, arange(SIZE), out).findings == []
    assert out[:4].tolist() == [1, 0, 3, 2]
    assert "race" in kinds(simt.check(neighbor_in_block, 1, SIZE, arange(SIZE), out))
    assert "race" in kinds(simt.check(neighbor_without_sync, 1, SIZE, arange(SIZE), out))


def local_array(x, out):
    mine = cuda.local.array(3, float32)
    i = cuda.grid(1)
    for k in range(3):
        mine[k] = x[i]
    out[i] = mine[0] + mine[1] + mine[2]


def local_array_not_written(x, out):
    mine = cuda.local.array(3, float32)
    i = cuda.grid(1)
    mine[0] = x[i]
    out[i] = mine[0] + mine[1]


def constants(x, out):
    i = cuda.grid(1)
    table = cuda.const.array_like(TABLE)
    out[i] = table[i % 3] * TABLE[i % 3] + x[i]


def dynamic_shared(x, out):
    s = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[cuda.blockDim.x - 1 - t]


def test_local_constant_and_dynamic_shared_memory() -> None:
    x, out = arange(8), np.zeros(8, np.float32)
    assert simt.check(local_array, 1, 8, x, out).findings == []
    np.testing.assert_array_equal(out, 3 * x)
    report = simt.check(local_array_not_written, 1, 8, x, out)
    assert kinds(report) == ["uninitialized"] and "mine[1]" in report.findings[0].message
    assert simt.check(constants, 1, 8, x, out).findings == []
    assert out[:3].tolist() == [4, 10, 27]
    assert simt.check(dynamic_shared, 1, 8, x, out, shared_bytes=32).findings == []
    assert out.tolist() == x[::-1].tolist()
    assert "out of bounds" in kinds(simt.run(dynamic_shared, 1, 8, x, out, shared_bytes=16))


def atomics(x, out):
    i = cuda.grid(1)
    cuda.atomic.add(out, 0, x[i])
    cuda.atomic.max(out, 1, x[i])
    cuda.atomic.min(out, 2, x[i])
    cuda.atomic.sub(out, 3, 1)
    cuda.atomic.cas(out, 4, 0, 7)
    cuda.atomic.exch(out, 5, 5)
    cuda.atomic.or_(out, 6, 1 << i)


def test_atomics() -> None:
    out = np.zeros(7, np.int64)
    assert simt.check(atomics, 2, 4, np.arange(8), out).findings == []
    assert out.tolist() == [28, 7, 0, -8, 7, 5, 255]


# Numbers


def numbers(x, out):
    out[0] = x[0] / 0
    out[1] = math.exp(np.float32(1000))
    out[2] = math.log(np.float32(0))
    out[3] = math.sqrt(np.float32(-1))
    out[4] = 2 ** np.float32(0.5)
    out[5] = math.floor(x[0] / x[1])
    out[6] = math.pow(x[0], x[1])
    out[7] = math.erf(x[0])


def test_bad_numbers_give_inf_and_nan_not_exceptions() -> None:
    out = np.zeros(8)
    report = simt.run(numbers, 1, 1, f32(1, 2), out)
    assert report.ok, str(report)
    np.testing.assert_allclose(out, [np.inf, np.inf, -np.inf, np.nan, 2**0.5, 0, 1, math.erf(1)], rtol=1e-6)


def mixed(x, i, out):
    out[0] = x[0] * i[0]
    out[1] = x[0] * 2.1
    out[2] = x[0] * x[1]
    out[3] = i[1] * i[1]
    out[4] = i[0] // i[2]
    out[5] = i[0] % i[2]
    out[6] = i[0] / i[2]
    out[7] = x[0] ** 2
    out[8] = x[1] // x[0]
    out[9] = math.exp(x[0]) + math.sqrt(x[1])
    out[10] = (i[1] << 3) ^ (i[0] & 5)
    out[11] = i[1] * i[1] * i[1] * i[1] * i[1]
    out[12] = abs(x[2]) - max(x[0], x[1])


def test_mixed_types_give_the_numbers_of_numba() -> None:
    x, i = f32(0.1, 7.3, -2.7), np.array([7, 2**30, -2], np.int32)
    expected, out = np.zeros(13), np.zeros(13)
    numba.njit(mixed)(x, i, expected)
    assert simt.run(mixed, 1, 1, x, i, out).ok
    np.testing.assert_allclose(out, expected, rtol=2e-7)
    exact = [0, 1, 2, 3, 4, 5, 6, 8, 10, 11, 12]  # the others round inside exp and pow
    np.testing.assert_array_equal(out[exact], expected[exact])


def types(x, out):
    a = x[0] * x[0]
    b = x[0] * 2
    c = x[0] * 2.0
    d = 7 // 2
    out[0] = a + b + c + d


def test_arithmetic_is_counted_in_the_type_that_numba_uses() -> None:
    report = simt.run(types, 1, 1, f32(3), f32(0))
    assert report.counts["float32 operations"] == 1
    assert report.counts["float64 operations"] == 5
    assert report.counts["int operations"] == 1
    assert kinds(report) == ["float64"] and report.ok


def whole_numbers(x, out):
    out[0] = x[0] * 3
    out[1] = x[1] // x[2]
    y = (1 << 62) * 4
    out[2] = y


def test_integers_wrap_and_division_by_zero_is_named() -> None:
    out = np.ones(3, np.int32)
    report = simt.run(whole_numbers, 1, 1, np.array([2**30, 1, 0], np.int32), out)
    assert out.tolist() == [-(2**30), 0, 0]
    assert [(f.kind, f.severity) for f in report.findings] == [
        ("division", "error"), ("overflow", "note"), ("overflow", "note"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.uint64, bool]
)
def test_dtypes(dtype) -> None:
    x = np.array([0, 1, 1, 0, 1]).astype(dtype)
    out = np.zeros(5, dtype)
    assert simt.check(guarded_map, 1, 8, x, out).findings == []
    np.testing.assert_array_equal(out, x)


# Awkward inputs


def test_nothing_to_do() -> None:
    empty = np.zeros(0, np.float32)
    report = simt.check(guarded_map, 0, 32, arange(5), arange(5))
    assert report.findings == [] and report.counts["global reads"] == 0
    assert simt.check(guarded_map, 1, 32, empty, empty).findings == []
    assert "no memory access" in str(simt.run(guarded_map, 1, 32, empty, empty))
    assert str(report)


def no_guard(x, out):
    i = cuda.grid(1)
    out[i] = x[i]


def test_empty_array_without_a_guard() -> None:
    report = simt.run(no_guard, 1, 4, np.zeros(0, np.float32), arange(4))
    assert kinds(report) == ["out of bounds"] and "shape (0,)" in report.findings[0].message


def test_views_with_negative_and_zero_strides() -> None:
    base, out = arange(10), np.zeros(20, np.float32)
    assert simt.check(guarded_map, 1, 32, base[::-2], out[::4]).findings == []
    np.testing.assert_array_equal(out[::4], base[::-2] ** 2)
    assert not out[1::4].any()
    assert simt.check(guarded_map, 1, 32, np.broadcast_to(f32(3), (5,)), out[:5]).findings == []
    assert out[:5].tolist() == [9] * 5


def test_writing_through_a_stride_of_zero_is_a_race() -> None:
    target = as_strided(f32(0), (5,), (0,), writeable=True)
    assert "race" in kinds(simt.check(guarded_map, 1, 8, arange(5), target))


def test_two_names_for_the_same_memory() -> None:
    x = arange(40)
    report = simt.check(shift_right, 2, 32, x, x)
    assert "race" in kinds(report) and not report.ok
    assert simt.check(guarded_map, 2, 32, x, x).findings == []
    overlapping = arange(41)
    assert "race" in kinds(simt.check(guarded_map, 2, 32, overlapping[:-1], overlapping[1:]))


def gather(index, x, out):
    i = cuda.grid(1)
    if i < index.size:
        out[i] = x[index[i]]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_indices_from_memory(dtype) -> None:
    index, out = np.array([3, 0, 2], dtype), np.zeros(3, np.float32)
    assert simt.check(gather, 1, 4, index, arange(4), out).findings == []
    assert out.tolist() == [3, 0, 2]
    assert kinds(simt.check(gather, 1, 4, np.array([3, 4, 2], dtype), arange(4), out)) == ["out of bounds"]


# Schedules


def tickets(counter, out):
    i = cuda.grid(1)
    out[i] = cuda.atomic.add(counter, 0, 1)


def test_seeds_change_the_order() -> None:
    orders = []
    for seed in range(4):
        out = np.zeros(64, np.int64)
        simt.run(tickets, 1, 64, np.zeros(1, np.int64), out, seed=seed)
        orders.append(out.tolist())
    assert orders[0] == list(range(64)) and orders[1] == list(range(64))[::-1]
    assert orders[2][1] == orders[2][0] + 1
    assert len({tuple(order) for order in orders}) >= 3 and sorted(orders[3]) == orders[0]


def test_results_that_depend_on_the_order_are_reported() -> None:
    out = np.zeros(8, np.int64)
    report = simt.check(tickets, 1, 8, np.zeros(1, np.int64), out)
    assert kinds(report) == ["order"] and not report.ok
    assert out.tolist() == list(range(8))  # the first schedule's results are left in place


def float_sum(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, 0, x[i])


def test_rounding_is_a_note_not_an_error() -> None:
    x = np.random.default_rng(0).normal(size=200).astype(np.float32) + 1
    report = simt.check(float_sum, 4, 64, x, f32(0))
    assert kinds(report) == ["order"] and report.ok and "in the last digits" in str(report)


# Counts and limits


def test_counts_per_thread() -> None:
    report = simt.run(guarded_map, 3, 32, arange(75), np.zeros(75, np.float32))
    assert report.counts["global reads"] == 150 and report.counts["global writes"] == 75
    assert report.counts["global bytes"] == 225 * 4
    assert report.counts["float32 operations"] == 75
    assert report.per_thread["global reads"].shape == (3, 32)
    assert report.per_thread["global reads"][2].tolist() == [2] * 11 + [0] * 21


def test_tiled_matmul_reads_global_memory_tile_times_less() -> None:
    case = CASES["tiled_matmul"]
    report = simt.run(*case, *case.arguments())
    assert report.per_thread["global reads"].max() == 2 * 2  # two tiles along 13, one element of a and b each
    assert report.shared_bytes == 2 * 8 * 8 * 4


def test_occupancy_is_limited_by_shared_memory() -> None:
    table = simt.occupancy(256, 48 * 1024)
    assert [(name, o.blocks, o.limit) for name, o in table.items()] == [
        ("sm_75", 1, "shared memory"), ("sm_80", 3, "shared memory"), ("sm_90", 4, "shared memory"),
    ]  # fmt: skip
    assert table["sm_75"].share == 0.25
    assert simt.occupancy(32, 0)["sm_80"].share == 0.5  # 32 blocks of one warp
    assert simt.occupancy(1024, 0)["sm_90"].share == 1


# What is refused


def refused_try(x):
    try:
        x[0] = 1
    finally:
        x[1] = 1


def refused_with(x):
    with x:
        x[0] = 1


def refused_list(x):
    y = [1, 2]
    x[0] = y[0]


def refused_comprehension(x):
    for v in [k for k in range(3)]:
        x[v] = 1


def refused_dict(x):
    y = {"a": 1}
    x[0] = y["a"]


def refused_set(x):
    y = {1, 2}
    x[0] = len(y)


def refused_fstring(x):
    print(f"{x[0]}")


def refused_format(x):
    print("%d" % 3)  # noqa: UP031


def refused_yield(x):
    yield x[0]


def refused_args(*x):
    print(1)


def refused_return(x):
    return x[0]


def refused_lambda(x):
    f = lambda v: v  # noqa: E731
    x[0] = f(1)


def refused_sum(x):
    x[0] = sum(x)


def refused_numpy(x):
    y = np.zeros(3)
    x[0] = y[0]


def refused_matmul(x):
    x[0] = x @ x


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def refused_recursion(x):
    x[0] = factorial(3)


def refused_size(x):
    s = cuda.shared.array(SIZE + 1, float32)
    s[0] = x[0]


def refused_float_of_array(x):
    x[0] = float(x)


def refused_whole_array(x):
    x[0] = x + 1


def refused_method(x):
    x[0] = x.mean()


def refused_loop(x):
    for v in x:
        x[0] = v


def refused_slice_write(x):
    x[0:2] = 1


def refused_index(x):
    x[0] = x[x[0] > 1]


def refused_unknown(x):
    x[0] = cuda.nanosleep_forever(3)


REFUSED = [value for name, value in list(globals().items()) if name.startswith("refused_")]


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda kernel: kernel.__name__)
def test_refused_constructs(kernel) -> None:
    arguments = [] if kernel is refused_args else [arange(4)]
    report = simt.check(kernel, 1, 4, *arguments)
    assert set(kinds(report)) == {"refused"}, str(report)
    function = factorial if kernel is refused_recursion else kernel
    first = function.__code__.co_firstlineno
    assert first <= report.findings[0].line <= first + 2
    assert "does not compile" in str(report) and not report.ok


def allowed(x, out):
    """A docstring, a constant size, print, asserts and min/max are fine."""
    size = 4
    s = cuda.shared.array(shape=(size,), dtype=int32)
    i = cuda.grid(1)
    s[i] = min(max(int(x[i]), 0), 3) if i < x.size else 0
    assert s[i] >= 0
    if i < 0:
        print("never", i)
    out[i] = round(abs(s[i]))
    return


def test_what_numba_supports_is_not_refused() -> None:
    out = np.zeros(4, np.int32)
    assert simt.check(allowed, 1, 4, arange(4), out).findings == []
    assert out.tolist() == [0, 1, 2, 3]


# Errors of use, and in the kernel


def misspelled(x, out):
    i = cuda.grid(1)
    out[i] = x[ii]  # noqa: F821


def test_exception_in_the_kernel_is_a_finding_with_its_line() -> None:
    report = simt.check(misspelled, 1, 2, arange(2), arange(2))
    assert kinds(report) == ["exception"]
    assert report.findings[0].line == misspelled.__code__.co_firstlineno + 2
    assert "'ii' is not defined" in report.findings[0].message


def spin(flag, out):
    while flag[0] == 0:
        pass
    out[0] = 1


def test_waiting_for_nobody_is_stopped() -> None:
    report = simt.check(spin, 1, 2, np.zeros(1, np.int32), arange(1))
    assert kinds(report) == ["endless"]


def too_many_threads(x):
    x[0] = 1


def too_much_shared(x):
    s = cuda.shared.array((128, 128), float32)
    s[0, 0] = x[0]


def test_launches_that_the_driver_refuses() -> None:
    assert kinds(simt.check(too_many_threads, 1, (64, 32), arange(1))) == ["launch"]
    assert kinds(simt.check(too_many_threads, (1, 70000), 1, arange(1))) == ["launch"]
    assert kinds(simt.check(too_much_shared, 1, 1, arange(1))) == ["launch"]


def test_calls_that_make_no_sense() -> None:
    with pytest.raises(TypeError, match=r"guarded_map\(x, out\) takes 2 arguments, got 1"):
        simt.run(guarded_map, 1, 32, arange(3))
    with pytest.raises(TypeError, match="argument out must be a NumPy array or a number, got list"):
        simt.run(guarded_map, 1, 32, arange(3), [0, 0, 0])
    with pytest.raises(TypeError, match="expected a kernel"):
        simt.run(3, 1, 32)
    with pytest.raises(ValueError, match="grid must be one to three whole numbers"):
        simt.run(guarded_map, (1, 2, 3, 4), 32, arange(3), arange(3))
    scope: dict = {"cuda": cuda}
    exec("def hidden(x):\n    x[0] = 1", scope)
    with pytest.raises(ValueError, match="source of hidden is not available"):
        simt.run(scope["hidden"], 1, 1, arange(1))


def test_limit_on_accesses() -> None:
    report = simt.run(guarded_map, 3, 32, arange(75), np.zeros(75, np.float32), limit=50)
    assert kinds(report) == ["too long"] and "50 memory accesses" in str(report)


# The report


def test_sources_kept_in_memory_are_read_as_notebooks_do() -> None:
    text = "def cell(x):\n    x[cuda.grid(1)] = 1\n"
    linecache.cache["<cell 3>"] = (len(text), None, text.splitlines(True), "<cell 3>")
    scope: dict = {"cuda": cuda}
    exec(compile(text, "<cell 3>", "exec"), scope)
    report = simt.run(scope["cell"], 1, 4, arange(3))
    assert kinds(report) == ["out of bounds"] and report.findings[0].line == 2


def test_the_same_run_gives_the_same_report() -> None:
    case = CASES["tiled_matmul"]
    reports = [simt.run(*case, *case.arguments()) for _ in range(2)]
    assert str(reports[0]) == str(reports[1])
    assert [list(r.touched) for r in reports] == [
        ["a (global)", "b (global)", "c (global)", "sa (shared)", "sb (shared)"]
    ] * 2


def test_report_shows_itself() -> None:
    case = CASES["block_sum"]
    report = simt.run(*case, *case.arguments())
    assert str(report).startswith("block_sum: 3 blocks of 32 threads, 1 schedule. Nothing to report.")
    bundle = report._repr_mimebundle_()
    assert "<img alt=" in bundle["text/html"] and bundle["text/plain"] == str(report)
    picture = report.picture()
    assert "x (global) 16 thread-element pairs read, 0 written" in picture.text
    assert ">r<" in picture.svg and ">w<" in picture.svg


def test_importing_the_stepper_does_not_import_numba() -> None:
    code = "import sys, labkit.simt; assert 'numba' not in sys.modules and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
