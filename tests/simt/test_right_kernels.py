"""Right kernels: no finding under any schedule, and the results of NumPy and of Numba's simulator."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from labkit import simt

from .kernels import CASES

QUIET = [name for name in CASES if name != "transpose"]


@pytest.mark.parametrize("name", QUIET)
def test_no_finding_at_any_seed(name: str) -> None:
    case = CASES[name]
    report = simt.check(*case, *case.arguments(), schedules=6)
    assert report.findings == [], str(report)
    assert report.ok and report.schedules == 6


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", CASES)
def test_equals_numpy(name: str, seed: int) -> None:
    case = CASES[name]
    arguments = case.arguments()
    simt.run(*case, *arguments, seed=seed)
    expected = case.expected(*case.arguments()[:-1])
    np.testing.assert_allclose(arguments[-1], expected, rtol=1e-5, atol=1e-6)


def test_transpose_without_padding_is_right_but_slow() -> None:
    case = CASES["transpose"]
    report = simt.check(*case, *case.arguments(), schedules=4)
    assert report.ok
    assert [f.kind for f in report.findings] == ["bank conflict"]
    assert "s[tx, ty]" in report.findings[0].message


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    path = tmp_path_factory.mktemp("simulator") / "outputs.npz"
    script = Path(__file__).with_name("kernels.py")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    subprocess.run([sys.executable, str(script), str(path)], env=environment, check=True, timeout=300)
    return dict(np.load(path))


@pytest.mark.parametrize("name", CASES)
def test_equals_numba_simulator(name: str, simulated: dict[str, np.ndarray]) -> None:
    case = CASES[name]
    arguments = case.arguments()
    simt.run(*case, *arguments)
    assert arguments[-1].dtype == simulated[name].dtype
    np.testing.assert_allclose(arguments[-1], simulated[name], rtol=1e-5, atol=1e-6)
