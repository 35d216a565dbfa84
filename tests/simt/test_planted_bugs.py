"""Every planted bug is found, under its name and on its line.

A bug is a right kernel of `kernels.py` with one piece of text replaced. The changed file is imported from a
temporary folder, so the stepper reads it as it would read a learner's.
"""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from labkit import simt

SOURCE = Path(__file__).with_name("kernels.py").read_text()


@dataclass
class Bug:
    """In `kernel`, `old` becomes `new`; the stepper must report `kind` on the lines with these texts."""

    kernel: str
    old: str
    new: str
    kind: str
    lines: tuple[str, ...]
    inside: str = ""  # the device function that is changed, if not the kernel itself


BARRIER = "    cuda.syncthreads()\n"
BUGS = {
    # bounds
    "map_without_guard": Bug(
        "guarded_map", "i < x.size", "i < 1000", "out of bounds", ("out[i] = x[i] * x[i]",)
    ),
    "map_guard_off_by_one": Bug("guarded_map", "i < x.size", "i <= x.size", "out of bounds", ("out[i] =",)),
    "map_2d_half_a_guard": Bug("map_2d", " and j < x.shape[1]", "", "out of bounds", ("out[i, j] =",)),
    "map_2d_swapped_index": Bug("map_2d", "= x[i, j]", "= x[j, i]", "out of bounds", ("x[j, i]",)),
    "broadcast_swapped_index": Bug(
        "broadcast", "column[i, 0]", "column[j, 0]", "out of bounds", ("column[j, 0]",)
    ),
    "matmul_edge_not_guarded": Bug(
        "tiled_matmul", " and start + tx < a.shape[1]", "", "out of bounds", ("= a[i, start + tx]",)
    ),
    "matmul_swapped_index": Bug(
        "tiled_matmul", "= a[i, start + tx]", "= a[start + tx, i]", "out of bounds", ("= a[start + tx, i]",)
    ),
    "halo_negative_index": Bug("halo_convolution", "source >= 0 and ", "", "out of bounds", ("= x[source]",)),
    "halo_read_off_by_one": Bug(
        "halo_convolution", "s[t + j]", "s[t + j + 1]", "out of bounds", ("s[t + j + 1]",)
    ),
    "shift_negative_index": Bug("shift_right", "i >= 1", "i >= 0", "out of bounds", ("x[i - 1]",)),
    "shared_too_small": Bug("block_sum", "array(THREADS", "array(BINS", "out of bounds", ("s[t] = x[i]",)),
    "softmax_column_past_the_end": Bug(
        "online_softmax",
        "new = max(biggest, x[row, j])",
        "new = max(biggest, x[row, j + 1])",
        "out of bounds",
        ("x[row, j + 1]",),
    ),
    # barriers that are missing
    "sum_no_barrier_after_load": Bug(
        "block_sum", f"= 0\n{BARRIER}", "= 0\n", "race", ("s[t] = x[i]", "s[t] += s[t + step]")
    ),
    "sum_no_barrier_in_loop": Bug(
        "block_sum", f"step]\n    {BARRIER}", "step]\n", "race", ("s[t] += s[t + step]",)
    ),
    "halo_no_barrier": Bug(
        "halo_convolution", f"+= THREADS\n{BARRIER}", "+= THREADS\n", "race", ("s[k] = x", "s[t + j]")
    ),
    "matmul_no_barrier_after_load": Bug(
        "tiled_matmul", f"j]\n    {BARRIER}", "j]\n", "race", ("sa[ty, tx] = a", "total += sa[ty, k]")
    ),
    "matmul_no_barrier_before_next_tile": Bug(
        "tiled_matmul",
        f"tx]\n    {BARRIER}    if",
        "tx]\n    if",
        "race",
        ("sa[ty, tx] = 0", "total += sa[ty, k]"),
    ),
    "transpose_no_barrier": Bug(
        "padded_transpose", f"j]\n{BARRIER}", "j]\n", "race", ("s[ty, tx] =", "= s[tx, ty]")
    ),
    "row_sums_no_barrier": Bug(
        "row_sums", f"j]\n{BARRIER}", "j]\n", "race", ("s[t] += x[row, j]", "total += s[k]")
    ),
    "histogram_no_barrier_after_zero": Bug(
        "shared_histogram", f"= 0\n{BARRIER}", "= 0\n", "race", ("s[t] = 0", "add(s, x[i], 1)")
    ),
    "histogram_no_barrier_before_read": Bug(
        "shared_histogram", f"1)\n{BARRIER}", "1)\n", "race", ("add(s, x[i], 1)", "add(counts, t, s[t])")
    ),
    "softmax_device_no_first_barrier": Bug(
        "online_softmax",
        f"value\n{BARRIER}",
        "value\n",
        "race",
        ("s[t] = value", "max(s[t], s[t + step])"),
        "block_max",
    ),
    "softmax_device_no_last_barrier": Bug(
        "online_softmax", f"s[0]\n{BARRIER}", "s[0]\n", "race", ("result = s[0]",), "block_max"
    ),
    # barriers that not all threads reach
    "sum_barrier_in_branch": Bug(
        "block_sum",
        f"    {BARRIER}        step",
        f"        {BARRIER}        step",
        "divergent",
        ("    cuda.syncthreads()",),
    ),
    "sum_return_before_barrier": Bug(
        "block_sum",
        "    if i < x.size:",
        "    if i >= x.size:\n        return\n    if i < x.size:",
        "divergent",
        ("    cuda.syncthreads()",),
    ),
    "matmul_barrier_in_branch": Bug(
        "tiled_matmul", f"j]\n    {BARRIER}", f"j]\n        {BARRIER}", "divergent", ("cuda.syncthreads()",)
    ),
    "softmax_barrier_in_uneven_loop": Bug(
        "online_softmax",
        "        biggest = new\n",
        "        biggest = new\n        cuda.syncthreads()\n",
        "divergent",
        ("        cuda.syncthreads()",),
    ),
    "two_barriers_in_two_branches": Bug(
        "row_sums",
        BARRIER,
        "    if t < 5:\n        cuda.syncthreads()\n    else:\n        cuda.syncthreads()\n",
        "divergent",
        ("        cuda.syncthreads()",),
    ),
    # updates that are not atomic, and races between blocks
    "histogram_not_atomic": Bug(
        "histogram", "cuda.atomic.add(counts, x[i], 1)", "counts[x[i]] += 1", "race", ("counts[x[i]] += 1",)
    ),
    "shared_histogram_not_atomic": Bug(
        "shared_histogram", "cuda.atomic.add(s, x[i], 1)", "s[x[i]] += 1", "race", ("s[x[i]] += 1",)
    ),
    "blocks_not_atomic": Bug(
        "shared_histogram",
        "cuda.atomic.add(counts, t, s[t])",
        "counts[t] += s[t]",
        "race",
        ("counts[t] += s[t]",),
    ),
    "blocks_write_one_element": Bug(
        "block_sum", "out[cuda.blockIdx.x]", "out[0]", "race", ("out[0] = s[0]",)
    ),
    "threads_write_one_element": Bug("map_2d", "out[i, j] =", "out[i, 0] =", "race", ("out[i, 0] =",)),
    "all_threads_write_the_sum": Bug(
        "block_sum", "if t == 0:", "if t >= 0:", "same-value race", ("out[cuda",)
    ),
    # shared memory that nobody wrote
    "sum_tail_not_zeroed": Bug("block_sum", "s[t] = 0", "pass", "uninitialized", ("s[t] += s[t + step]",)),
    "halo_right_not_loaded": Bug(
        "halo_convolution", "k += THREADS", "k += 2 * THREADS", "uninitialized", ("s[t + j]",)
    ),
    "halo_load_off_by_one": Bug(
        "halo_convolution", "k < WINDOW", "k < WINDOW - 1", "uninitialized", ("s[t + j]",)
    ),
    "histogram_not_zeroed": Bug(
        "shared_histogram", "s[t] = 0", "pass", "uninitialized", ("add(s, x[i], 1)",)
    ),
    "transpose_swapped_blocks": Bug(
        "padded_transpose",
        "row = cuda.blockIdx.x * WIDE + ty\n    column = cuda.blockIdx.y",
        "row = cuda.blockIdx.y * WIDE + ty\n    column = cuda.blockIdx.x",
        "uninitialized",
        ("= s[tx, ty]",),
    ),
    # slow but right
    "transpose_uncoalesced": Bug(
        "padded_transpose",
        "        s[ty, tx] = x[i, j]",
        "        s[ty, tx] = x[i, j]\n        out[j, i] = x[i, j]",
        "uncoalesced",
        ("out[j, i] = x[i, j]",),
    ),
    "map_strided": Bug(
        "guarded_map",
        "cuda.grid(1)",
        "cuda.grid(1) * 8 % 75 if cuda.grid(1) < 75 else 75",
        "uncoalesced",
        ("out[i] =",),
    ),
    "transpose_not_padded": Bug(
        "padded_transpose", "(WIDE, WIDE_PADDED)", "(WIDE, WIDE)", "bank conflict", ("= s[tx, ty]",)
    ),
    "transpose_columns_stored": Bug(
        "transpose", "s[ty, tx] = x[i, j]", "s[tx, ty] = x[i, j]", "bank conflict", ("s[tx, ty] = x[i, j]",)
    ),
    # does not compile, does not end, surprises
    "shared_size_at_run_time": Bug(
        "block_sum", "array(THREADS", "array(cuda.blockDim.x", "refused", ("shared.array",)
    ),
    "loop_never_ends": Bug("block_sum", "step //= 2", "step //= 1", "endless", ("while step > 0",)),
    "float_index": Bug("shift_right", "x[i - 1]", "x[(i - 1) / 1]", "refused", ("x[(i - 1) / 1]",)),
    "literal_makes_float64": Bug("map_2d", "float32(1)", "1.0", "float64", ("+ 1.0",)),
}


def plant(bug: Bug) -> str:
    """The text of `kernels.py` with the bug in it."""
    name = bug.inside or bug.kernel
    start = SOURCE.index(f"def {name}(")
    end = SOURCE.index("\n\n\n", start)
    body = SOURCE[start:end]
    assert bug.old in body, f"{name} has no {bug.old!r}"
    return SOURCE[:start] + body.replace(bug.old, bug.new, 1) + SOURCE[end:]


def load(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = folder / "planted.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("planted", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "planted", module)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def lines_with(snippet: str, text: str, function: str) -> set[int]:
    start = text.index(f"def {function}(")
    end = text.index("\n\n\n", start)
    first = text[:start].count("\n") + 1
    return {first + i for i, line in enumerate(text[start:end].splitlines()) if snippet in line}


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[name]
    text = plant(bug)
    module = load(text, tmp_path, monkeypatch)
    case = module.CASES[bug.kernel]
    report = simt.check(*case, *case.arguments(), schedules=4)
    expected = [lines_with(snippet, text, bug.inside or bug.kernel) for snippet in bug.lines]
    hits = [f for f in report.of(bug.kind) if all(set(f.lines) & lines for lines in expected)]
    assert hits, f"expected {bug.kind} on {expected}\n{report}"
    assert len(str(report).splitlines()) <= 12
