"""The device from outside: without a GPU it is absent and says so, and nothing else changes."""

import os
import subprocess
import sys

import pytest

import labkit
from labkit import cuda

absent = pytest.mark.skipif(cuda.is_available(), reason="there is a GPU")


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    return done.stdout + done.stderr


@absent
@pytest.mark.parametrize("use", [lambda: labkit.ones(2).to("cuda"), lambda: labkit.zeros(2, device="cuda")])
def test_without_a_gpu_the_error_says_what_to_do(use):
    assert cuda.device_count() == 0
    with pytest.raises(RuntimeError, match="LABKIT_CUDA=simulator"):
        use()


def test_only_two_devices_exist():
    with pytest.raises(ValueError, match="'cpu' and 'cuda', not 'cuda:3'"):
        labkit.ones(2).to("cuda:3")


def test_the_simulator_says_once_that_it_is_one():
    text = python(
        "import labkit; x = labkit.ones(2).cuda(); print((x + x).tolist())", LABKIT_CUDA="simulator"
    )
    assert "[2.0, 2.0]" in text and text.count("runs on Numba's simulator") == 1


def test_the_simulator_is_found_after_numba_was_imported():
    code = "import numba, labkit; print(labkit.ones(2).cuda().exp().sum().item() > 5)"
    assert "True" in python(code, LABKIT_CUDA="simulator")


def test_another_value_of_the_variable_is_refused():
    text = python("import labkit; labkit.ones(2).cuda()", LABKIT_CUDA="yes")
    assert "LABKIT_CUDA=yes means nothing" in text


def test_importing_labkit_does_not_import_numba():
    code = "import sys, labkit; labkit.cuda; labkit.ones(2); print('numba.cuda' in sys.modules)"
    assert "False" in python(code)
