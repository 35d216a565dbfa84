"""What an answer turns is put back: after each call, whatever it was."""

import builtins
import os
import random
import sys
import warnings

import numpy as np
import pytest
import torch

import labkit.engine
from labkit.exercises.declare import WriteTest
from labkit.grade.judge import judge, surroundings
from labkit.grade.judge.rules import watched
from labkit.grade.judge.surroundings import Surroundings, as_usual
from tests.grade.judge.test_ladder import center, verdict

held = []


def enter_inference_mode():
    held.append(torch.inference_mode())
    held[-1].__enter__()


TURNS = {
    "default device": lambda: torch.set_default_device("meta"),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "inference mode": enter_inference_mode,
    "gradients": lambda: torch.set_grad_enabled(False),
    "anomaly mode": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "precision of matrix products": lambda: torch.set_float32_matmul_precision("medium"),
    "number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "labkit's gradients": lambda: labkit.engine.set_grad_enabled(False),
    "labkit's default dtype": lambda: labkit.engine.set_default_dtype("float64"),
    "modules of the grader": lambda: [sys.modules.pop(n) for n in [*sys.modules] if n.startswith("labkit.")],
    "sys.path": sys.path.clear,
    "sys.meta_path": sys.meta_path.clear,
    "working directory": lambda: os.chdir("/"),
    "environment": lambda: (os.environ.clear(), os.environ.update(TURNED="1")),
    "recursion limit": lambda: sys.setrecursionlimit(4321),
    "filters of warnings": lambda: warnings.simplefilter("error"),
    "NumPy's errors": lambda: np.seterr(all="raise"),
}


def test_every_dial_has_a_turn():
    assert {dial.name for dial in surroundings.dials()} == {*TURNS}


@pytest.mark.parametrize("name", TURNS)
def test_what_an_answer_turns_is_put_back(name):
    """Both after it was called once, and when the next answer is called."""
    read = {dial.name: dial.read for dial in surroundings.dials()}
    before = {dial: value() for dial, value in read.items()}

    def turns(x, dim):
        TURNS[name]()
        assert read[name]() != before[name]
        raise ArithmeticError("turned")

    assert "turned" in verdict(turns).text()
    assert {dial: value() for dial, value in read.items()} == before
    assert verdict(center).passed
    held.clear()


@pytest.mark.parametrize("name", TURNS)
def test_what_a_cell_turned_does_not_change_a_verdict(name):
    """torch's settings are as usual while an answer runs, and as they were afterwards."""
    start, turned = Surroundings(), {dial.name: dial.read for dial in surroundings.dials()}[name]
    try:
        TURNS[name]()
        value = turned()
        assert verdict(center).passed
        assert turned() == value
    finally:
        start.put_back()
        held.clear()


def test_random_numbers_go_on_where_they_were():
    numpys = np.random.mtrand._rand  # the global generator that learners' code may use

    def drawn():
        return random.random(), numpys.rand(), torch.rand(()).item(), labkit.engine.rand(1).item()

    start = Surroundings(chance=True)
    first = drawn()
    random.seed(4), numpys.seed(4), torch.manual_seed(4), labkit.engine.manual_seed(4)
    drawn()
    start.put_back()
    assert drawn() == first


@pytest.mark.parametrize("name", ["len", "isinstance", "next", "getattr", "setattr", "tuple", "map", "print"])
def test_builtins_that_an_answer_replaces_come_back(name, monkeypatch):
    kept = getattr(builtins, name)
    monkeypatch.setattr(builtins, name, kept)  # whatever happens below

    def breaks(x, dim):
        result = center(x, dim)
        builtins.__dict__[name] = lambda *given: 0
        return result

    assert verdict(breaks).passed
    assert getattr(builtins, name) is kept


def test_a_written_test_may_break_builtins_too(monkeypatch):
    monkeypatch.setattr(builtins, "len", len)
    exercise = WriteTest(
        id="w00.test",
        title="t",
        minutes=1,
        hints=("1", "2", "3"),
        mistakes=[],
        passed="Good.",
        good=[lambda x: x],
        bugs={"plus": ("adds", lambda x: x + 1)},
    )

    def test(implementation):
        builtins.len = lambda x: 0
        assert implementation(1) == 1

    assert judge(exercise, test).passed
    assert len([1, 2]) == 2


def test_a_library_imported_meanwhile_is_set_to_its_usual_values(monkeypatch):
    kept = Surroundings()
    for name in [*kept.kept]:
        if name in ("default device", "default dtype"):
            del kept.kept[name]
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    kept.put_back()
    assert torch.get_default_device().type == "cpu" and torch.get_default_dtype() == torch.float32


def test_looking_around_is_no_operation():
    """The audit watches what an oracle calls, from outside."""
    with watched() as used, as_usual():
        pass
    assert not used


def test_calls_may_be_nested():
    @as_usual()
    def deeper(depth):
        torch.set_num_threads(torch.get_num_threads() + 1)
        return deeper(depth - 1) if depth else torch.get_num_threads()

    threads = torch.get_num_threads()
    assert deeper(2) == threads + 3
    assert torch.get_num_threads() == threads
