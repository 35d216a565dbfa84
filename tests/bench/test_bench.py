"""The harness: only equal computations are timed, failures become lines, ratios are per round."""

import json
from importlib.metadata import version

import pytest
import torch

import labkit
from labkit import bench
from labkit.bench import harness, micro
from labkit.steps import Case, Trainer

SMALL = [
    Case("mlp", batch=4, width=8),
    Case("cnn", batch=2, width=4, length=8),
    Case("lstm", batch=2, width=8, length=3),
    Case("gpt", batch=2, width=16, length=5),
]


class FakeWorker:
    """An engine with given losses and a given time for a step."""

    def __init__(self, engine, losses, seconds):
        self.engine, self.losses, self.seconds = engine, losses, seconds

    def ask(self, do, **request):
        if self.losses is None:
            raise harness.EngineError("out of order")
        return self.losses if do == "prepare" else {"wall": self.seconds, "cpu": 2 * self.seconds}


@pytest.mark.parametrize("case", SMALL, ids=lambda c: c.model)
def test_steps_equal_torch(case):
    ours, theirs = Trainer(labkit, case), Trainer(torch, case)
    for _ in range(3):
        assert ours.step() == pytest.approx(theirs.step(), rel=1e-4)


@pytest.mark.parametrize("name", ["relu 1e6", "add of 4x4 (overhead)", "max_pool2d 2"])
def test_operations_equal_torch(name):
    assert micro.build(labkit, name)[1]() == pytest.approx(micro.build(torch, name)[1](), rel=1e-4)


def test_only_equal_results_are_timed():
    workers = [
        FakeWorker("torch", [1.0, 0.5], 0.010),
        FakeWorker("labkit", [1.0, 0.5001], 0.005),
        FakeWorker("wrong", [1.0, 0.6], 0.001),
        FakeWorker("broken", None, 0.001),
    ]
    result = harness.compare(workers, {"do": "prepare"}, rounds=3, seconds=0.1)
    assert set(result.times) == {"torch", "labkit"}
    assert result.ratio("labkit", "wall") == pytest.approx(0.5)
    assert "not torch's" in result.missing["wrong"]
    assert result.missing["broken"] == "out of order"


def test_the_ratio_is_the_median_of_rounds():
    a, b = harness.Timing(wall=[1, 20, 3]), harness.Timing(wall=[2, 10, 6])
    assert a.ratio(b, "wall") == 0.5


def test_a_worker_answers_and_reports_errors():
    def run(workers):
        losses = workers[0].ask(**harness.prepare(SMALL[0]))
        assert workers[0].ask(do="time", count=2)["wall"] > 0
        with pytest.raises(harness.EngineError, match="KeyError"):
            workers[0].ask(do="prepare_op", op="no such operation")
        return losses

    trainer = Trainer(torch, SMALL[0])
    assert harness.with_workers(["labkit"], 1, run) == pytest.approx(
        [trainer.step() for _ in range(3)], rel=1e-4
    )


def test_an_engine_that_takes_too_long_is_ended_and_gets_another_chance():
    def run(workers):
        workers[0].patience = 0.01
        with pytest.raises(harness.EngineError, match=r"no answer within 0\.01 s"):
            workers[0].ask(**harness.prepare(SMALL[0]))
        workers[0].patience = 120
        return workers[0].ask(**harness.prepare(SMALL[0]))

    assert len(harness.with_workers(["labkit"], 1, run)) == 3


def test_main_runs_a_section_and_keeps_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(bench.SECTIONS, "hello", (lambda options: json.dumps(options.threads), "a section"))
    assert bench.main(["hello", "--reports", str(tmp_path), "--threads", "1"]) == 0
    assert "[1]" in capsys.readouterr().out
    kept = (tmp_path / "bench.txt").read_text()
    assert "## A section" in kept
    assert f"torch {version('torch')}" in kept and "load " in kept  # figures mean nothing without these


def test_main_names_an_unknown_section(capsys):
    with pytest.raises(SystemExit):
        bench.main(["stepz"])
    assert "no section 'stepz'" in capsys.readouterr().err
