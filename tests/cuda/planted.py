"""Bugs to plant in copies of the kernels: what people forget. `proof.py` shows that each is found."""

from typing import NamedTuple


class Bug(NamedTuple):
    """In `function`, `old` becomes `new`; the stepper must report `kind` on a line that holds `line`.

    `kernel` is the kernel that is launched; `file` is where the function is, if not in the kernel's own file.
    """

    kernel: str
    function: str
    old: str
    new: str
    kind: str
    line: str
    file: str = ""


BARRIER = "cuda.syncthreads()"
BOUNDS, RACE, UNSET = "out of bounds", "race", "uninitialized"

BUGS = {
    # a removed barrier
    "product: no barrier after loading": Bug(
        "linear.matmul_tile", "_matmul_tile", f"T(0)\n            {BARRIER}", "T(0)", RACE, "total += xs"
    ),
    "product: no barrier before the next tile": Bug(
        "linear.matmul_tile", "_matmul_tile", f"{BARRIER}  # all", "# all", RACE, "total += xs"
    ),
    "product in registers: no barrier after loading": Bug(
        "linear.matmul_registers",
        "_matmul_registers",
        f"T(0)\n            {BARRIER}",
        "T(0)",
        RACE,
        "total[a, b] += xs",
    ),
    "convolution: no barrier after loading": Bug(
        "conv.conv2d_direct", "_conv2d_direct", f"T(0)\n            {BARRIER}", "T(0)", RACE, "total += w"
    ),
    "convolution: no barrier before the next channel": Bug(
        "conv.conv2d_direct", "_conv2d_direct", f"{BARRIER}  # all", "# all", RACE, "total += w"
    ),
    "sum: no barrier in the tree": Bug(
        "reduce.sum",
        "reduce_rows",
        f"half])\n            {BARRIER}",
        "half])",
        RACE,
        "f(partial[t], partial[t + half])",
    ),
    "running sum: no barrier between reading and writing": Bug(
        "reduce.running_plus", "scan_rows", f"{BARRIER}  # all", "# all", RACE, "held[t - step]"
    ),
    "layer norm: no last barrier in the tree": Bug(
        "norm.layer_norm", "block_sum", f"{BARRIER}  # all", "# all", RACE, "total = partial[0]", "tree"
    ),
    "cross entropy: no first barrier in the tree": Bug(
        "loss.cross_entropy",
        "block_max",
        f"= value\n    {BARRIER}",
        "= value",
        RACE,
        "scalar.larger(partial[t]",
        "tree",
    ),
    "weight gradient: no barrier": Bug(
        "norm.column_sums", "_column_sums", f"= total\n    {BARRIER}", "= total", RACE, "products[line, tx]"
    ),
    "attention: no barrier before the weights are read": Bug(
        "attention.attention",
        "_attention",
        f"T(0)\n        {BARRIER}",
        "T(0)",
        RACE,
        "weights[row, e]",
    ),
    "attention: no barrier in the dot product": Bug(
        "attention.attention_grad_query", "_dot", f"T(0)\n        {BARRIER}", "T(0)", RACE, "own[row, e]"
    ),
    # a barrier that not all threads reach
    "sum: barrier in a branch": Bug(
        "reduce.sum",
        "reduce_rows",
        f"            {BARRIER}\n            half",
        f"                {BARRIER}\n            half",
        "divergent",
        f"                {BARRIER}",
    ),
    "argmax: return before the barrier": Bug(
        "reduce.argmax",
        "_argmax",
        "    values[t] = x",
        "    if t >= x.shape[1]:\n        return\n    values[t] = x",
        "divergent",
        BARRIER,
    ),
    # a missing guard
    "copy: guard off by one": Bug(
        "memory.copy", "_copy", "i < out.size", "i <= out.size", BOUNDS, "= x[a, b"
    ),
    "product: no guard": Bug(
        "linear.matmul_tile",
        "_matmul_tile",
        "if i < rows and j < columns:",
        "if True:",
        BOUNDS,
        "out[n, i, j]",
    ),
    "product: guard off by one": Bug(
        "linear.matmul_tile",
        "_matmul_tile",
        "if i < rows and k",
        "if i <= rows and k",
        BOUNDS,
        "xs[ty, tx] =",
    ),
    "LSTM: no guard": Bug("recurrent.lstm_cell", "_lstm_cell", "k < c.size", "k < 999", BOUNDS, "i = scalar"),
    "Adam: no guard": Bug("optim.adam", "_adam", "i < p.size", "i < 999", BOUNDS, "value = p["),
    "attention: keys not guarded": Bug(
        "attention.attention",
        "_attention",
        "j + lane < keys and not",
        "not",
        BOUNDS,
        "mask[n, h, i, j + lane]",
    ),
    "sorted rows: walk past the end": Bug(
        "embedding.add_sorted", "_add_sorted", "at < N and index", "index", BOUNDS, "while index[order[at]]"
    ),
    # an off-by-one halo
    "convolution: halo too narrow": Bug(
        "conv.conv2d_direct",
        "_conv2d_direct",
        "(KW - 1) * dw + 1",
        "(KW - 1) * dw",
        UNSET,
        "total += w",
    ),
    "convolution: halo too low": Bug(
        "conv.conv2d_direct", "_conv2d_direct", "(KH - 1) * dh + 1", "(KH - 1) * dh", UNSET, "total += w"
    ),
    "convolution: halo left of the image": Bug(
        "conv.conv2d_direct", "_conv2d_direct", "0 <= z and z", "z", BOUNDS, "patch[r, s] = x"
    ),
    "windows: halo above the image": Bug(
        "conv.unfold", "_unfold", "0 <= y and y", "y", BOUNDS, "out[n, row, place] = x"
    ),
    # a swapped index
    "product: index swapped": Bug(
        "linear.matmul_tile",
        "_matmul_tile",
        "x[n, i, k + tx] if",
        "x[n, k + tx, i] if",
        BOUNDS,
        "x[n, k + tx",
    ),
    "rows picked: index swapped": Bug(
        "index.take",
        "_take",
        "  out[a, n, b] = x[a, index[n]",
        "  out[a, n, b] = x[index[n], a",
        BOUNDS,
        "= x[index",
    ),
    "statistics: index swapped": Bug(
        "norm.batch_norm_stats",
        "_batch_norm_stats",
        "x[r // S, c, r % S]",
        "x[r % S, c, r // S]",
        BOUNDS,
        "total +=",
    ),
    "attention gradient: index swapped": Bug(
        "attention.attention_grad_key",
        "_attention_grad_key",
        "mask[n, h, i + lane, j]",
        "mask[n, h, j, i + lane]",
        BOUNDS,
        "mask[n, h, j, i + lane]",
    ),
    "flip: off by one": Bug("shape.flip", "_flip", "lines - 1 - c", "lines - c", BOUNDS, "lines - c"),
    "sort: equal elements share a place": Bug(
        "sort.rank", "_rank", "(j < c and not", "(j <= c and not", BOUNDS, "order[row, rank] = c"
    ),
    # a sum that is not atomic
    "embedding: not atomic": Bug(
        "embedding.add_atomic",
        "_add_atomic",
        "cuda.atomic.add(gw, (index[n], d), g[n, d])",
        "gw[index[n], d] += g[n, d]",
        RACE,
        "gw[index[n], d] +=",
    ),
    "rows added back: not atomic": Bug(
        "index.add_back",
        "_add_back",
        "cuda.atomic.add(gx, (a, index[n], b), g[a, n, b])",
        "gx[a, index[n], b] += g[a, n, b]",
        RACE,
        "gx[a, index[n], b] +=",
    ),
    "max pooling gradient: not atomic": Bug(
        "pool.max_pool2d_grad",
        "_max_pool2d_grad",
        "cuda.atomic.add(out, (p, places[p, at]), g[p, at])",
        "out[p, places[p, at]] += g[p, at]",
        RACE,
        "out[p, places[p, at]] +=",
    ),
    "resizing gradient: not atomic": Bug(
        "vision.resample_grad",
        "_resample_grad",
        "cuda.atomic.add(gx, (a, index[o, t], b), weight[o, t] * g[a, o, b])",
        "gx[a, index[o, t], b] += weight[o, t] * g[a, o, b]",
        RACE,
        "gx[a, index[o, t], b] +=",
    ),
}
