"""These tests need the device: a GPU, or the simulator (`LABKIT_CUDA=simulator pytest tests/cuda/device`).

`tests/cuda/test_simulator.py` runs them all on the simulator, in processes of their own.
"""

import sys
from pathlib import Path

from labkit import cuda

collect_ignore_glob = [] if cuda.is_available() else ["test_*.py"]
if cuda.is_available():
    cuda.require()  # the simulator has to be chosen before torch imports Numba
    sys.path.append(str(Path(__file__).parents[2] / "ops"))  # the samples of the operator database
    sys.path.append(str(Path(__file__).parents[1]))  # the planted bugs, and the proof that they are found
