"""The rules that keep the engine readable: one contract for kernels, and who may import what."""

import ast
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import labkit
from labkit import autograd, backends

PACKAGE = Path(labkit.__file__).parent


def imports_of(path: Path) -> set[str]:
    """The top modules and labkit modules that a file imports, and the names it takes from labkit."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("ops/*.py")), ids=lambda p: p.name)
def test_ops_do_not_touch_numpy(path):
    assert not {name for name in imports_of(path) if name.split(".")[0] in ("numpy", "numba", "torch")}


KERNEL_FILES = sorted(PACKAGE.glob("kernels/**/*.py"))
BELOW_KERNELS = {"labkit.cuda", "labkit.dtypes", "labkit.errors", "labkit.random", "labkit.kernels"}


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda p: str(p.relative_to(PACKAGE / "kernels")))
def test_kernels_know_arrays_only(path):
    """No kernel imports Tensor, ops, nn, bench, viz or any other room, not even inside a function."""
    ours = {name for name in imports_of(path) if name.split(".")[0] == "labkit"} - {"labkit"}
    assert {name for name in ours if ".".join(name.split(".")[:2]) not in BELOW_KERNELS} == set()


def test_every_file_of_the_kernels_is_looked_at(tmp_path):
    """The files at the top of the room too; and an import inside a function counts."""
    assert PACKAGE / "kernels" / "__init__.py" in KERNEL_FILES and len(KERNEL_FILES) > 50
    hidden = tmp_path / "hidden.py"
    hidden.write_text("def f():\n    from labkit.steps import STEPS\n    import labkit.nn\n")
    assert {"labkit.steps", "labkit.nn"} <= imports_of(hidden)


def parameters(function):
    """The names of a kernel's parameters; only how many for a NumPy function used as it is."""
    if isinstance(function, np.ufunc):
        return function.nin
    return list(inspect.signature(function).parameters)


def kernel_tables():
    for package in ("numba", "cuda"):
        module = importlib.import_module(f"labkit.kernels.{package}")
        for file, names in getattr(module, "KERNELS", {}).items():
            for name in sorted(names):
                yield pytest.param(package, file, name, id=f"{package}.{file}.{name}")


@pytest.mark.parametrize(("package", "file", "name"), list(kernel_tables()))
def test_every_kernel_has_its_twin_with_the_same_signature(package, file, name):
    reference = getattr(importlib.import_module(f"labkit.kernels.numpy.{file}"), name)
    if package == "cuda":
        pytest.importorskip("numba.cuda")
    fast = getattr(importlib.import_module(f"labkit.kernels.{package}.{file}"), name)
    if isinstance(reference, type) or (reference.__module__ or "").startswith("numpy"):
        return  # NumPy's own, as it is: the contract is how the ops call it
    expected, got = parameters(reference), parameters(fast)
    assert got == expected or len(got) == expected


def test_ops_are_a_table():
    assert {"matmul", "softmax", "getitem", "reshape", "concatenate"} <= autograd.OPS.keys()
    assert str(inspect.signature(labkit.sum)) == "(x, dim=None, keepdim=False, dtype=None)"


def test_kernels_are_chosen_by_context():
    assert backends.current_kernels.name == "cpu"
    with labkit.use_kernels("numpy") as k:
        assert backends.current_kernels is k and k.name == "numpy"
    assert backends.current_kernels.name == "cpu"
    with pytest.raises(ValueError, match="no kernels 'tpu'"), labkit.use_kernels("tpu"):
        pass
    with pytest.raises(AttributeError, match="numpy has no kernel 'warp'"):
        backends.get("numpy").warp  # noqa: B018


@pytest.mark.parametrize(
    "module", ["tensor", "autograd", "ops", "engine", "creation", "gradcheck", "dtypes", "nn"]
)
def test_every_module_can_be_imported_first_and_plain_arithmetic_needs_no_compiler(module):
    code = f"""
import sys
import labkit.{module}
import labkit
labkit.tensor([1.0], requires_grad=True).exp().sum().backward()
assert callable(labkit.tensor) and "torch" not in sys.modules and "numba" not in sys.modules
"""
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONWARNINGS": "error"}, timeout=60
    )


F, TORCH_F = labkit.nn.functional, torch.nn.functional

# Options of torch that have no meaning here: where a result goes, how memory is laid out or pinned.
NOT_OURS = {"out", "layout", "pin_memory", "memory_format", "_stacklevel"}

# Called by position only, or torch's name is not the one a user sees (a decorator, an inner op, a pickle).
OTHERWISE = {"clone", "einsum", "enable_grad", "from_numpy", "get_default_dtype", "inference_mode", "load"}
OTHERWISE |= {"max_pool2d", "save", "set_default_dtype", "set_rng_state", "swapaxes"}
OTHERWISE |= {"tril_indices", "triu_indices"}


def public_functions():
    """Every function of labkit and of nn.functional that torch has too."""
    for ours, theirs in ((F, TORCH_F), (labkit, torch)):
        for name in sorted((set(dir(ours)) & set(dir(theirs))) - OTHERWISE):
            if inspect.isfunction(getattr(ours, name)) and callable(getattr(theirs, name)):
                yield pytest.param(getattr(ours, name), getattr(theirs, name), id=f"{ours.__name__}.{name}")


def torch_names(function):
    """The names of the arguments of a function of torch: one set, or one per overload of a built-in."""
    try:
        return [set(inspect.signature(function).parameters)]
    except ValueError:  # a built-in has no signature, but a schema, in which the first argument is "self"
        packet = getattr(torch.ops.aten, function.__name__)
        schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
        return [{"input" if a.name == "self" else a.name for a in s.arguments} for s in schemas]


@pytest.mark.parametrize(("ours", "theirs"), list(public_functions()))
def test_arguments_have_torchs_names(ours, theirs):
    takes = set(inspect.signature(ours).parameters)
    if ours in autograd.OPS.values():
        takes |= {"input", "other"}  # x and y answer to these names
    assert any(names - NOT_OURS <= takes for names in torch_names(theirs)), (takes, torch_names(theirs))
