"""The tests of the device on Numba's simulator, each file in a process of its own: the simulator has to be
chosen before Numba is imported, and the rest of the suite must not see it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "device"


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(p.name for p in FOLDER.glob("test_*.py")))
def test_on_the_simulator(file):
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", str(FOLDER / file)]
    environment = {**os.environ, "LABKIT_CUDA": "simulator"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
