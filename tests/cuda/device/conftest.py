"""These tests need the device: a GPU, or the simulator (`LABKIT_CUDA=simulator pytest tests/cuda/device`).

`tests/cuda/test_simulator.py` runs them all on the simulator, in processes of their own.
"""

from labkit import cuda

collect_ignore_glob = [] if cuda.is_available() else ["test_*.py"]
