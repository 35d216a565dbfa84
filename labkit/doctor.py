"""`make doctor`: is everything here and working? One [OK] or [FAIL] line each, and what to do.

`quick()` looks without importing anything heavy; every command runs it first, so that a broken set-up is
explained and never shown as a stack trace.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from labkit import paths


@dataclass(frozen=True)
class Finding:
    ok: bool
    what: str
    todo: str = ""

    def __str__(self) -> str:
        mark = "[OK]  " if self.ok else "[FAIL]"
        return f"{mark} {self.what}" + (f"\n       {self.todo}" if self.todo and not self.ok else "")


INSTALL = "Run `make lab` again; without make: `python -m pip install --editable .`"


def python_version() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding(sys.version_info >= (3, 11), f"Python {found}", "labkit needs Python 3.11 or newer.")


def packages() -> Finding:
    """Every run-time dependency of pyproject.toml is installed, torch at exactly its version."""
    missing, wrong = [], []
    for line in importlib.metadata.requires("labkit") or []:
        if "extra ==" in line:
            continue
        name = line.split(";")[0].strip()
        bare = name.split("=")[0].split(">")[0].split("<")[0].split("[")[0].strip()
        try:
            found = importlib.metadata.version(bare)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
            continue
        if "==" in name and found.split("+")[0] != name.split("==")[1]:
            wrong.append(f"{bare} is {found}, {name} is wanted")
    if missing or wrong:
        return Finding(
            False, "packages: " + ", ".join([*(f"{m} is missing" for m in missing), *wrong]), INSTALL
        )
    torch, torchvision = (importlib.metadata.version(name) for name in ("torch", "torchvision"))
    return Finding(True, f"packages installed (torch {torch}, torchvision {torchvision})")


def course_files() -> Finding:
    root = paths.root()
    lessons = len(list((root / "solutions").glob("week*/*.py")))
    cards = len(list((root / "datasets").glob("*/README.md")))
    todo = f"No lessons under {root / 'solutions'}. Start in the course folder, or set LABKIT_ROOT to it."
    return Finding(lessons > 0, f"course at {root}: {lessons} lessons, {cards} data sets", todo)


def write_access() -> Finding:
    for folder in (paths.root(), paths.root() / "weeks"):
        if not os.access(folder, os.W_OK):
            todo = "Make the course folder writable, or copy it to your home folder."
            return Finding(False, f"cannot write to {folder}", todo)
    return Finding(True, "the course folder can be written to")


def torch_works() -> Finding:
    import torch

    total = float((torch.ones(2, 3) @ torch.ones(3, 2)).sum())
    return Finding(total == 12.0, f"torch {torch.__version__} multiplies matrices", INSTALL)


def torchvision_works() -> Finding:
    from labkit.compat import torchvision

    return Finding(True, f"torchvision {torchvision().__version__} imports")


def numba_works() -> Finding:
    import numba

    compiled = numba.njit(lambda n: n + 1)
    return Finding(compiled(41) == 42, f"numba {numba.__version__} compiles", INSTALL)


def cuda_or_simulator() -> Finding:
    """A GPU is optional: this line informs, and never fails."""
    try:
        from numba import cuda

        found = cuda.is_available()
    except Exception:
        found = False
    if found:
        return Finding(True, "CUDA: a GPU is here")
    return Finding(
        True, "CUDA: no GPU; kernels run on the stepper and, with LABKIT_CUDA=simulator, the simulator"
    )


def kernel_starts() -> Finding:
    """Start the interpreter that notebooks use and let it answer once."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(startup_timeout=60, stderr=subprocess.DEVNULL)
    try:
        reply = client.execute_interactive("import labkit", timeout=60, output_hook=lambda message: None)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    ok = reply["content"]["status"] == "ok"
    return Finding(ok, "a notebook kernel starts and imports labkit", INSTALL)


def jupyterlab_answers() -> Finding:
    command = [sys.executable, "-m", "jupyterlab", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return Finding(result.returncode == 0, f"JupyterLab {result.stdout.strip()}", INSTALL)


QUICK: tuple[Callable[[], Finding], ...] = (python_version, packages, course_files, write_access)
FULL: tuple[Callable[[], Finding], ...] = (
    torch_works,
    torchvision_works,
    numba_works,
    cuda_or_simulator,
    kernel_starts,
    jupyterlab_answers,
)


def examine(look: Callable[[], Finding]) -> Finding:
    """One finding; whatever goes wrong while looking is itself the finding."""
    try:
        return look()
    except Exception as error:
        name = look.__name__.replace("_", " ")
        return Finding(False, f"{name}: {type(error).__name__}: {error}".split("\n")[0], INSTALL)


def quick() -> list[Finding]:
    """The failures among the cheap checks: an empty list is good news."""
    return [finding for finding in map(examine, QUICK) if not finding.ok]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="labkit doctor", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="only what needs no import; silent if all is well"
    )
    options = parser.parse_args(argv)
    if options.quick:
        failures = quick()
        print(*failures, sep="\n", end="\n" if failures else "")
        return 1 if failures else 0
    failed = 0
    for look in QUICK + FULL:
        finding = examine(look)
        failed += not finding.ok
        print(finding, flush=True)
    print("\nAll is well." if not failed else f"\n{failed} to mend. Paste these lines when you ask for help.")
    return 1 if failed else 0
