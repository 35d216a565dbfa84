"""The real kernels under the stepper: no race, no divergent barrier, no access out of bounds in any launch of
the op tests and of a training step; and bugs planted in copies of them are found."""

import itertools

import numpy as np
import proof  # from tests/cuda
import pytest
import test_ops
import test_training
from compare import same_as_cpu
from planted import BUGS

from labkit import cuda, simt
from labkit.kernels.cuda import compiled, launch

pytestmark = pytest.mark.skipif(not cuda.SIMULATED, reason="the stepper reads arrays of the simulator")


@pytest.fixture
def stepped(monkeypatch):
    """Run every launch under the stepper instead of the simulator, in an order that changes each time."""
    seeds = itertools.count()

    def step(kernel, blocks, threads, *arguments):
        blocks = blocks if isinstance(blocks, tuple) else (blocks,)
        if 0 not in blocks:
            passed = [a.argument()._ary if hasattr(a, "argument") else a for a in arguments]
            report = simt.run(kernel.function, blocks, threads, *passed, seed=next(seeds))
            assert report.ok and report.finished, f"{kernel.name}: {report}"

    monkeypatch.setattr(launch.Kernel, "__call__", step)


# one thread per element: `proof.verdicts` steps all of these, and one after the other shows nothing new
ALIKE = test_ops.ELEMENTWISE.keys() - {"add a row", "add a column", "where", "pow", "cast"}


@pytest.mark.parametrize("name", [name for name in test_ops.CASES if name not in ALIKE])
def test_no_false_alarm(stepped, name):
    function, *arrays = test_ops.CASES[name]
    same_as_cpu(function, *arrays)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_training_steps(stepped, name):
    assert np.isfinite(test_training.step(name, "cuda")[0].item())


# ---- planted bugs ----


@pytest.fixture(scope="module")
def verdicts():
    return proof.verdicts()


def test_every_kernel_is_stepped_under_several_schedules_and_has_no_error(verdicts):
    assert verdicts.keys() == compiled.all_kernels().keys()
    assert [name for name, v in verdicts.items() if not v.launches] == []
    assert [error for v in verdicts.values() for error in v.errors] == []


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found_and_its_line_named(verdicts, name):
    bug = BUGS[name]
    assert proof.is_found(bug, verdicts[bug.kernel].launches)


def test_a_copy_without_a_bug_is_not_suspected(verdicts, tmp_path):
    for bug in BUGS.values():
        right = bug._replace(new=bug.old)
        function, _ = proof.plant(right, tmp_path)
        blocks, threads, arguments = verdicts[bug.kernel].launches[0]
        report = simt.run(function, blocks, threads, *proof._copies(arguments))
        assert report.ok and report.finished, f"{bug.kernel}: {report}"


def test_the_numbers_of_the_table(verdicts, monkeypatch):
    monkeypatch.setattr(proof, "is_found", lambda bug, launches: True)  # each has a test of its own
    table = proof.summary(verdicts)
    assert sum(planted for _, _, planted, _ in table.values()) == len(BUGS)
    assert all(launches and not errors for launches, errors, _, _ in table.values())
    assert all(planted == found for _, _, planted, found in table.values())


def test_a_bug_that_does_not_fit_the_kernel_any_more_is_reported(verdicts):
    bug = next(iter(BUGS.values()))._replace(old="not in the kernel")
    with pytest.raises(ValueError, match="has no 'not in the kernel'"):
        proof.is_found(bug, verdicts[bug.kernel].launches)


def test_all_five_bugs_that_people_plant_first_are_there():
    kinds = ("no barrier", "no guard", "halo", "index swapped", "not atomic")
    for kind in kinds:
        assert any(kind in name for name in BUGS), kind
    halos = [bug.kernel for name, bug in BUGS.items() if "halo" in name]
    assert "conv.conv2d_direct" in halos
