"""Loops over arrays: the same function names and signatures in every folder (`numpy`, `numba`, `cuda`).

The contract of a kernel:

- It is a plain function: arrays first, then sizes and numbers; `f` for the value, `f_grad` for its gradient.
  A gradient kernel takes the output's gradient `g` first.
- Arrays in one call have one dtype (the op has already promoted them) and may be strided, 0-d or empty.
  Elementwise kernels broadcast and take a Python number in the place of an array. Every dtype must work: a
  fast path for float32 hands the rest to `numpy`.
- The output is new memory (views only from `shape`), never an input. Inputs are never written, unless the
  name ends in `_`.
- `numpy/` is the reference: the shortest correct form. `numba/` overlays it by name. `cuda/` stands alone.
- A folder's `__init__` has `KERNELS: dict[str, Collection[str]]`, module -> names, and imports nothing heavy.

Nothing here imports `Tensor`; nothing in `ops/` imports NumPy or Numba.
"""
