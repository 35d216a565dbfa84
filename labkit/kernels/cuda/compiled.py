"""`python -m labkit kernels`: compile every CUDA kernel for real GPUs, with no GPU here, and print a table.

Each kernel goes to PTX, NVIDIA's portable assembly, and from there to machine code (a cubin) for three
generations of GPUs. The assembler reports what a thread needs: registers, and local memory if they did not
suffice ("spills"), which is slow; and the shared memory of a block. It needs the compiler libraries, which
`pip install 'labkit[gpu]'` brings. With `--stepper`, every kernel is also stepped, and so are copies of them
with planted bugs (`tests/cuda/proof.py`, so this needs a clone): that takes half a minute more.
"""

import importlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ARCHITECTURES = {"sm_75": "Turing", "sm_80": "Ampere", "sm_90": "Hopper"}
INSTALL = "pip install -e '.[gpu]'"
PROOF = Path(__file__).parents[3] / "tests" / "cuda" / "proof.py"


@dataclass(frozen=True)
class Needs:
    """What one kernel needs on one architecture: numbers from the assembler."""

    registers: int
    shared: int  # bytes per block
    stack: int  # bytes of local memory per thread
    spills: int  # bytes


def missing() -> str:
    """Why nothing can be compiled here, or "" if it can."""
    from labkit import cuda

    if cuda.SIMULATED:
        return "the simulator is on (LABKIT_CUDA=simulator): it runs kernels as Python and has no compiler"
    for module in ("cuda.bindings.nvjitlink", "cuda.bindings.nvvm"):
        try:
            library = importlib.import_module(module)
            library.version()
        except Exception:  # the package or the library behind it is not there
            return f"the CUDA compiler libraries are not installed: {INSTALL}"
    return ""


def all_kernels() -> dict[str, Any]:
    """Every kernel of this folder by name."""
    from labkit.kernels import cuda as folder
    from labkit.kernels.cuda.launch import ALL

    for module in folder.KERNELS:
        importlib.import_module(f"{folder.__name__}.{module}")
    return dict(sorted(ALL.items()))


def argument_types(types: str, float_type: str = "float32") -> tuple[Any, ...]:
    """Numba's types for a declaration such as "F4 I1 f"; arrays are strided, the most general layout."""
    from numba import types as nb

    real = getattr(nb, float_type)
    kinds = {"F": real, "I": nb.int64, "B": nb.boolean, "f": real, "i": nb.int64, "u": nb.uint64}
    found = []
    for word in types.split():
        kind = kinds[word[0]]
        found.append(nb.Array(kind, int(word[1:]), "A") if len(word) > 1 else kind)
    return tuple(found)


def to_ptx(kernel: Any, float_type: str = "float32") -> str:
    """The kernel in PTX for the oldest of the architectures, which the newer ones take as well."""
    from numba import cuda
    from numba.cuda import dispatcher

    oldest = (7, 5)
    asked = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=oldest)  # there is none to ask
    try:
        ptx, _ = cuda.compile_ptx(kernel.function, argument_types(kernel.types, float_type), cc=oldest)
    finally:
        dispatcher.get_current_device = asked
    return ptx


def to_cubin(ptx: str, architecture: str) -> tuple[bytes, Needs]:
    """Machine code for one architecture, and what it needs."""
    from cuda.bindings import nvjitlink

    link = nvjitlink.create(2, [f"-arch={architecture}", "-verbose"])
    try:
        text = ptx.encode() + b"\0"
        nvjitlink.add_data(link, nvjitlink.InputType.PTX, text, len(text), "kernel")
        nvjitlink.complete(link)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(link))
        nvjitlink.get_linked_cubin(link, cubin)
        log = bytearray(nvjitlink.get_info_log_size(link))
        nvjitlink.get_info_log(link, log)
    finally:
        nvjitlink.destroy(link)
    return bytes(cubin), _needs(log.decode())


def _needs(log: str) -> Needs:
    """The numbers in the assembler's report; functions that were not inlined have lines of their own."""

    def numbers(pattern: str) -> list[int]:
        return [int(n) for n in re.findall(pattern, log)]

    return Needs(
        registers=max(numbers(r"Used (\d+) registers")),
        shared=max(numbers(r"(\d+) bytes smem"), default=0),
        stack=max(numbers(r"(\d+) bytes stack frame"), default=0),
        spills=sum(numbers(r"(\d+) bytes spill")),
    )


def stepped() -> dict[str, list[int]]:
    """kernel -> [launches, with errors, bugs planted, bugs found], from a process with the simulator"""
    command = [sys.executable, str(PROOF)]
    environment = {**os.environ, "LABKIT_CUDA": "simulator"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def row(name: str, kernel: Any, verdict: list[int] | None) -> str:
    """A line of the table: compile the kernel, and say what it needs and what the stepper found."""
    ptx = to_ptx(kernel)
    made = [to_cubin(ptx, a) for a in ARCHITECTURES]
    needs = [n for _, n in made]
    steps, bugs = "", ""
    if verdict is not None:
        launches, errors, planted, found = verdict
        steps = f"{errors} errors" if errors else f"ok, {launches}"
        bugs = f"{found} of {planted}" if planted else "-"
    each = "".join(f"{n.registers:6}{len(cubin) / 1024:5.0f}k" for cubin, n in made)
    spills, local = max(n.spills for n in needs), max(n.stack for n in needs)
    text = f"{name:30}{kernel.lines:6}{steps:>9}{bugs:>8}{len(ptx) / 1024:5.0f}k{each}"
    text += f"{needs[0].shared:8}{spills:7}"
    return text + (f"  {local} bytes of local memory: {kernel.note}" if local or kernel.note else "")


def main(argv: list[str]) -> int:
    """Print the table; parts of the names of kernels may be given."""
    reason = missing()
    if reason:
        print(reason)
        return 2
    if "--stepper" in argv and not PROOF.exists():
        print(f"--stepper runs the tests of the kernels, which come with a clone of the course: no {PROOF}")
        return 2
    words = [a for a in argv if a != "--stepper"]
    kernels = {n: k for n, k in all_kernels().items() if not words or any(w in n for w in words)}
    verdicts = stepped() if "--stepper" in argv else {}
    heads = "".join(f"{architecture:>12}" for architecture in ARCHITECTURES)
    print(f"{'':45}{'planted':>8}{'':6}{heads}{'shared':>8}{'':7}")
    each = "  regs cubin" * len(ARCHITECTURES)
    print(f"{'kernel':30}{'lines':>6}{'stepper':>9}{'found':>8}{'PTX':>6}{each}{'bytes':>8}{'spills':>7}")
    for name, kernel in kernels.items():
        print(row(name, kernel, verdicts.get(name)), flush=True)
    print(f"{len(kernels)} kernels, each compiled for {', '.join(ARCHITECTURES)}")
    if not verdicts:
        print("stepper and planted bugs: python -m labkit kernels --stepper")
        return 0
    launches, errors, planted, found = (sum(verdicts[n][i] for n in kernels) for i in range(4))
    print(f"stepper: {launches} launches, {errors} with errors; {found} of {planted} planted bugs found")
    return int(errors > 0 or found < planted)
