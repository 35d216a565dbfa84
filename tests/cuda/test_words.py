"""Kernels are for reading: each fits on a screen and says who owns what, what is shared and what moves."""

import inspect
import re
from pathlib import Path

import pytest

from labkit.kernels import cuda as folder
from labkit.kernels.cuda import compiled

KERNELS = compiled.all_kernels()


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_says_what_it_does(name):
    function = KERNELS[name].function
    words, source = inspect.getdoc(function) or "", inspect.getsource(function)
    assert len(source.splitlines()) <= 45, "longer than a screen"
    assert re.search(r"\bowns?\b", words), "who owns which elements?"
    assert re.search(r"\b([Rr]eads?|[Ww]rites?|written|[Mm]oves?)\b", words), "how much is read and written?"
    assert "shared.array" not in source or "Shared:" in words, "what is in shared memory?"


def test_the_page_names_every_file():
    page = (Path(folder.__file__).parent / "README.md").read_text()
    files = [p.name for p in Path(folder.__file__).parent.glob("*.py") if p.name != "__init__.py"]
    assert [f for f in files if f"`{f}`" not in page] == []


def test_every_kernel_of_the_cpu_is_on_the_device_or_known_to_be_missing():
    from labkit.kernels import numpy as plain

    known = {
        "windows",
        "windows_grad",
        "sliding_window_view",
    }  # the NumPy kernels' own helpers; no op calls them
    names = set().union(*plain.KERNELS.values()) - set().union(*folder.KERNELS.values())
    places = {n: f"labkit/kernels/cuda/{m}.py" for m, found in plain.KERNELS.items() for n in found}
    assert names == known, f"write the kernels: { ({n: places[n] for n in sorted(names - known)}) }"
