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
- A folder's `__init__` has `KERNELS`, module -> names, read from its files: writing a kernel declares it.

Nothing here imports `Tensor`; nothing in `ops/` imports NumPy or Numba.
"""

import re
from pathlib import Path

# What a line defines at the left margin: `def f`, `class C`, `f, g = ...`, or takes over: `import f as f`.
_DEFINED = re.compile(r"^(?:def|class) (\w+)|^([\w, ]+?) = |^from .* import (\w+) as \3$", re.MULTILINE)


def written_in(folder: str) -> dict[str, set[str]]:
    """module -> the kernels in its file: what has a twin of the same name in the file of `numpy/`.

    The files are read, not imported: compilers are loaded when a kernel of theirs is first used.
    """
    from labkit.kernels.numpy import KERNELS as twins

    found = {}
    for path in sorted(Path(folder).glob("*.py")):
        lines = _DEFINED.findall(path.read_text(encoding="utf-8"))
        names = {name for line in lines for word in line for name in word.split(", ")}
        found[path.stem] = names & twins.get(path.stem, set())
    return {module: names for module, names in found.items() if names}
