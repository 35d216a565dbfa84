"""`make test`: jobs run side by side, each is shown whole, and one failure fails the gate."""

import pytest

from labkit import gate
from labkit.gate import Job


def say(text: str) -> tuple[str, ...]:
    """A module of the standard library that prints what it is told to run."""
    return ("timeit", "-n", "1", "-r", "1", f"print({text!r})")


def test_lanes_run_side_by_side_and_in_order(tmp_path, capsys):
    jobs = [Job("first", say("one")), Job("second", say("two")), Job("beside", say("three"), lane=1)]
    gate.run(jobs, tmp_path)
    assert [job.code for job in jobs] == [0, 0, 0]
    out = capsys.readouterr().out
    assert out.index("first ...") < out.index("beside ...") < out.index("second ...")
    assert out.index("one\n") < out.index("second ...")


def test_a_failure_is_shown_and_the_others_still_run(tmp_path, capsys, monkeypatch):
    jobs = [Job("broken", ("no_such_module",)), Job("fine", say("all is well"))]
    monkeypatch.setattr(gate, "of_week", lambda week: jobs)
    assert gate.main(["--week", "8"]) == 1
    out = capsys.readouterr().out
    assert "No module named no_such_module" in out and "all is well" in out
    assert "broken FAILED" in " ".join(out.split()) and "fine ok" in " ".join(out.split())


def test_an_interrupt_ends_the_jobs(tmp_path, monkeypatch):
    job = Job("long", ("timeit", "-n", "1", "-r", "1", "import time; time.sleep(60)"))

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gate.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gate.run([job], tmp_path)
    assert job.process is not None and job.process.poll() is not None
