"""Processes that answers start end with the check; and nobody waits for those that cannot be found."""

import copy
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import nbval.kernel
import pytest

from labkit.book import notebook
from labkit.book.work import here
from labkit.grade import processes
from labkit.grade.audit import proof
from labkit.grade.lanes import fork, nbval_run
from labkit.grade.lanes.kernel import KernelSession
from labkit.grade.lanes.papers import PREPARE, paper
from labkit.grade.lanes.steps import FOLLOWS, Ran

from .corpus import LEFT_BEHIND, answer, inside

FIRST, SECOND, OTHER, HOLDER = (LEFT_BEHIND + number for number in (11, 12, 13, 14))
ENOUGH = 120  # seconds; only a test that fails waits so long


def until(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + ENOUGH
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def alive(seconds: int) -> list[int]:
    """The processes that sleep for so many seconds: a number nobody else has."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,stat=,args="], capture_output=True, text=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [int(pid) for pid, state, words in rows if words == f"sleep {seconds}" and state[0] != "Z"]


def test_stop_frees_the_place_although_an_answer_forked(monkeypatch, small_course, lesson, solved, tmp_path):
    """The second process holds the pipe, the first loops: neither keeps `run` waiting for the limit."""
    monkeypatch.setenv("LABKIT_TIMEOUT", "3600")
    begun = tmp_path / "begun"
    start = f"os.fork() and os.system('sleep {FIRST} &'); open({str(begun)!r}, 'w').close()"
    path = small_course / "weeks" / "week90_lanes" / "01_lanes.ipynb"
    notebook.write(path, answer(copy.deepcopy(solved), inside(f"{start}\n    while True: pass")))
    grading, ends = fork.ForkGrading(paper(here(small_course), lesson)), []

    def run() -> None:
        try:
            ends.append(grading.run())
        except fork.Stopped:
            ends.append("stopped")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert until(lambda: begun.exists() and alive(FIRST) != [])
    pid = grading.session.process.pid
    assert os.getpgid(pid) == pid != os.getpgrp() and os.getsid(pid) == pid
    grading.stop()
    thread.join(ENOUGH)
    assert ends == ["stopped"]
    assert alive(FIRST) == [] and processes.family(pid) == set()
    monkeypatch.setattr(processes, "end_family", lambda pid: ends.append(pid))
    grading.stop()  # again, when the page is closed: the number may be another's by then
    assert ends == ["stopped"]


def test_a_family_is_found_and_others_are_left_alone(tmp_path):
    """A child, a child in a session of its own, and the orphan of one that is gone."""
    code = f"""
import os, subprocess, time
from labkit.grade.processes import lead_family
lead_family()
subprocess.Popen(["sleep", "{SECOND}"])
subprocess.Popen(["sleep", "{SECOND}"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "{SECOND}"])
    os._exit(0)
os.wait()
time.sleep(1000)
"""
    other = subprocess.Popen(["sleep", str(OTHER)])
    leader = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        assert until(lambda: len(alive(SECOND)) == 3)
        assert processes.family(leader.pid) == {leader.pid, *alive(SECOND)}
    finally:
        processes.end_family(leader.pid)
        leader.kill()
        leader.wait()
    assert alive(SECOND) == [] and alive(OTHER) == [other.pid]
    processes.end_family(leader.pid)  # nothing is left to end, and that is fine
    other.kill()
    other.wait()


def test_nobody_waits_for_a_process_that_holds_the_output(monkeypatch):
    """One that could not be found: it has left the family, and has pytest's output as its own."""
    code = f"""
import subprocess
from labkit.grade.lanes.nbval_run import tell
subprocess.Popen(["sleep", "{HOLDER}"], start_new_session=True)
tell(verdict="heard")
"""

    def start(*_: object) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)

    monkeypatch.setattr(nbval_run, "_start", start)
    heard, ends = [], []
    thread = threading.Thread(
        target=lambda: ends.append(nbval_run.run([Path("x.ipynb")], [], "check", heard.append, {})),
        daemon=True,
    )
    thread.start()
    thread.join(ENOUGH)
    for pid in alive(HOLDER):
        os.kill(pid, 9)
    assert (ends, heard) == ([""], [{"verdict": "heard"}])


def test_a_row_of_dots_is_no_reason():
    assert "ended from outside (signal 9)" in nbval_run._last_words(-9, ["....."])
    assert nbval_run._last_words(3, ["ImportError: nbval", "..F.. [ 40%]"]) == "ImportError: nbval"
    assert nbval_run._last_words(3, ["....."]) == "pytest broke down"


@pytest.mark.parametrize("said", [b"", b"{", b"[1]", b'{"unknown": 1}', b"\xff"])
def test_a_message_that_cannot_be_read_is_a_dead_process(monkeypatch, said):
    class Silent:
        sentinel = None

        def recv_bytes(self) -> bytes:
            return said

    session = fork.ForkSession.__new__(fork.ForkSession)
    session.pipe = session.process = Silent()
    monkeypatch.setattr(fork, "wait", lambda things, timeout: [session.pipe])
    assert session._answer(1) == Ran(ended="died")


TURN = """
import torch
torch.set_default_device("meta")
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
kept = torch.inference_mode()
kept.__enter__()
torch.set_anomaly_enabled(True)
torch.use_deterministic_algorithms(True)
torch.set_num_threads(7)
torch.manual_seed(4)
drawn = 1
"""
AS_BEFORE = """
assert not torch.is_inference_mode_enabled()
assert torch.is_grad_enabled()
assert torch.get_default_device().type == "cpu"
assert torch.get_default_dtype() == torch.float32
assert not torch.is_anomaly_enabled()
assert not torch.are_deterministic_algorithms_enabled()
assert torch.get_num_threads() == threads
assert torch.equal(torch.get_rng_state(), chance)
"""


@pytest.mark.parametrize("open_session", [fork.ForkSession, KernelSession])
def test_what_an_answers_cell_turns_is_put_back_in_both_lanes(monkeypatch, open_session, tmp_path):
    start, streams = nbval.kernel.start_new_kernel, []

    def start_and_note(**named):
        streams.append(named["stderr"])  # nbval leaves its end to the garbage collection
        return start(**named)

    monkeypatch.setattr(nbval.kernel, "start_new_kernel", start_and_note)
    session = open_session(str(tmp_path))
    try:
        ours = "import torch\nthreads, chance = torch.get_num_threads(), torch.get_rng_state()"
        for source in (PREPARE, ours, FOLLOWS.format(""), TURN, AS_BEFORE):
            assert session.run(source, ENOUGH) == Ran()
        # A cell of ours, or of the learner's own, keeps what it sets.
        assert session.run("torch.set_num_threads(3)", ENOUGH) == Ran()
        assert session.run("assert torch.get_num_threads() == 3", ENOUGH) == Ran()
    finally:
        session.close()
        for stream in streams:
            stream.close()


def test_the_audit_keeps_the_limits_of_an_exercise(monkeypatch):
    ((_, result),) = processes.forked([1], lambda _: len(bytearray(2**29)), ENOUGH, gib=0.25)
    assert isinstance(result, processes.Lost) and "MemoryError" in result.why
    ((_, result),) = processes.forked([1], lambda _: len(bytearray(2**29)), ENOUGH, gib=1)
    assert result == 2**29


@pytest.mark.parametrize("seconds, enough", [(None, 7), (60, 7), (3, 3)])
def test_a_mutant_has_no_more_time_than_an_answer(monkeypatch, seconds, enough):
    class Exercise:
        id, gib, equivalent = "w90.x", 0.5, ()

    class Source:
        solution = "x = 1"

    limits = []

    def forked(tasks, work, by_the_clock, **more):
        limits.append((by_the_clock, more))
        return iter(())

    Exercise.seconds = seconds
    monkeypatch.setattr(proof, "mutants_of", lambda exercise, source: [])
    monkeypatch.setattr(proof.processes, "forked", forked)
    report = proof.Report("w90.x", "Implement", seconds=0.5)
    proof._prove_mutants(report, proof.Task(Exercise(), Source()), Source(), {})
    assert limits == [(10 * enough, {"cpu": enough, "gib": 0.5})]


def test_an_exercise_says_its_limits_to_the_steps(small_course, lesson, solved):
    path = small_course / "weeks" / "week90_lanes" / "01_lanes.ipynb"
    notebook.write(path, solved)
    cells = [
        cell["metadata"]["labkit"]
        for cell in paper(here(small_course), lesson).copy["cells"]
        if "labkit" in cell["metadata"]
    ]
    limits = {
        meta["ex"]: (meta.get("seconds"), meta.get("gib")) for meta in cells if meta.get("role") == "check"
    }
    assert json.loads(json.dumps(limits)) == {
        "w90.double": [None, None],
        "w90.total": [None, 0.25],
        "w90.counter": [10, None],
        "w90.guess": [None, None],
        "w90.middle": [None, None],
    }
