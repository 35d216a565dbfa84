"""Every kernel is compiled for three generations of GPUs, with no GPU here.

On Linux the test extra brings the compiler, and its absence is a failure; elsewhere these tests are skipped.
"""

import platform
import re
import sys

import pytest

from labkit.kernels.cuda import compiled

reason = compiled.missing()
brought = sys.platform == "linux" and platform.machine() == "x86_64"  # as in pyproject.toml
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(reason) and not brought, reason=f"CUDA kernels were NOT compiled: {reason}"),
]
KERNELS = {} if reason else compiled.all_kernels()


def test_there_is_a_compiler():
    assert not reason, reason
    assert len(KERNELS) > 100


@pytest.mark.parametrize("name", KERNELS)
def test_compiles_without_spills(name):
    kernel = KERNELS[name]
    ptx = compiled.to_ptx(kernel)
    for architecture in compiled.ARCHITECTURES:
        cubin, needs = compiled.to_cubin(ptx, architecture)
        assert cubin[:4] == b"\x7fELF"
        assert 0 < needs.registers <= 255 and needs.spills == 0
        assert needs.stack == 0 or kernel.note, f"{needs.stack} bytes of local memory per thread"
        assert needs.shared <= 48 * 1024  # what every GPU gives a block without asking
    if not kernel.note:
        assert not re.search(r"\.f64\b", ptx), "float32 turns into float64 on the way"


@pytest.mark.parametrize(
    "name",
    [
        "linear.matmul_registers",
        "attention.attention_grad_key",
        "conv.conv2d_direct",
        "embedding.add_atomic",
        "reduce.running_plus",
        "loss.cross_entropy",
    ],
)
def test_compiles_for_float64(name):
    ptx = compiled.to_ptx(KERNELS[name], "float64")
    for architecture in compiled.ARCHITECTURES:
        assert compiled.to_cubin(ptx, architecture)[1].spills == 0


def test_a_kernel_that_does_not_compile_is_reported():
    from types import SimpleNamespace

    def broken(x):
        x[0] = [i for i in "no lists of text on a GPU"]

    with pytest.raises(Exception, match=r"Failed in cuda mode|No implementation|Cannot"):
        compiled.to_ptx(SimpleNamespace(function=broken, types="F1"))


def test_the_table(capsys):
    assert compiled.main(["linear."]) == 0
    text = capsys.readouterr().out
    assert "linear.matmul_tile" in text and "2 kernels, each compiled for sm_75, sm_80, sm_90" in text


@pytest.mark.parametrize(
    "verdict, code, words",
    [
        ([2, 0, 5, 5], 0, ("ok, 2", "5 of 5", "0 with errors; 5 of 5 planted bugs found")),
        ([2, 1, 5, 5], 1, ("1 errors", "1 with errors")),
        ([2, 0, 5, 4], 1, ("4 of 5",)),
    ],
)
def test_the_table_with_the_stepper(monkeypatch, capsys, verdict, code, words):
    monkeypatch.setattr(compiled, "stepped", lambda: {"conv.conv2d_direct": verdict})
    assert compiled.main(["--stepper", "conv2d_direct"]) == code
    text = capsys.readouterr().out
    assert all(word in text for word in words), text
