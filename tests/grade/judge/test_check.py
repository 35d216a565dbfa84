"""What a check cell does: shows, remembers, raises."""

import builtins
import io
import sys
from types import SimpleNamespace

import pytest

import labkit
from labkit.book.work import here
from labkit.grade.judge import check as module
from labkit.grade.judge.check import CheckFailed, check

INPUT = builtins.input
RIGHT = {"a": (2, 3), "b": (3,), "c": (4, 5)}


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.delenv("LABKIT_LANE", raising=False)


def test_a_pass_is_shown_and_remembered(capsys):
    assert check("w00.answer", lambda: 42) is None
    assert capsys.readouterr().out.startswith("PASS  w00.answer")
    assert [(e["kind"], e["ex"], e["status"]) for e in here().events()] == [("attempt", "w00.answer", "pass")]


def test_a_failure_raises_so_that_no_runner_takes_it_for_a_pass(capsys):
    with pytest.raises(CheckFailed, match="NOT YET") as error:
        check("w00.answer", lambda: 41)
    assert error.value.verdict.mistake == "off by one"
    assert error.value._render_traceback_() == ["NOT YET  w00.answer (values). Read the box above."]
    assert error.value.__suppress_context__


def test_listeners_hear_every_verdict(monkeypatch):
    heard = []
    monkeypatch.setattr(module, "listeners", [heard.append])
    check("w00.answer", lambda: 42)
    with pytest.raises(CheckFailed):
        check("w00.answer", None)
    assert [verdict.status for verdict in heard] == ["pass", "not started"]


def test_only_the_first_complete_prediction_is_remembered():
    mistyped = (RIGHT | {"a": 3}, 1), (RIGHT, True)
    for answer, sure in ((RIGHT | {"a": ...}, 1), *mistyped, (RIGHT | {"a": (3,)}, 3), (RIGHT, 2)):
        try:
            check("w00.shapes", answer, sure=sure)
        except CheckFailed:
            continue
    (event,) = [event for event in here().events() if event["kind"] == "prediction"]
    assert (event["right"], event["of"], event["sure"]) == (2, 3, 3)


def test_graders_keep_their_own_record(monkeypatch):
    monkeypatch.setenv("LABKIT_LANE", "check")
    check("w00.answer", lambda: 42)
    assert here().events() == []


def test_a_terminal_that_knows_only_ascii(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    with pytest.raises(CheckFailed):
        check("w00.answer", lambda: "√")


def test_the_inputs_of_a_case():
    assert labkit.case("w00.row_means", "2 by 3")["x"].shape == (2, 3)
    with pytest.raises(KeyError, match="It has: 2 by 3"):
        labkit.case("w00.row_means", "3 by 3")
    with pytest.raises(KeyError, match="has no cases"):
        labkit.case("w00.shapes", "a")


def test_the_traceback_of_the_last_error(capsys):
    with pytest.raises(CheckFailed):
        check("w00.answer", lambda: 1 / 0)
    capsys.readouterr()
    labkit.traceback()
    assert "ZeroDivisionError: division by zero" in capsys.readouterr().out


def endless():
    while True:
        raise KeyboardInterrupt


def test_a_stopped_check_says_where_it_was_and_is_no_attempt(capsys):
    with pytest.raises(CheckFailed) as stopped:
        check("w00.answer", endless)
    assert "stopped before it came to an end" in stopped.value.verdict.headline
    assert stopped.value.verdict.lines[0].endswith(": `raise KeyboardInterrupt`")
    assert "Is there a loop that never ends?" in capsys.readouterr().out
    assert list(here().events()) == []


def test_an_answer_that_asks_or_leaves_is_told_so(monkeypatch):
    """In a notebook `input()` could be answered and `exit()` would end the kernel; graders have neither."""
    left = []
    shell = SimpleNamespace(ask_exit=lambda: left.append("left"))
    monkeypatch.setattr(module, "current_shell", lambda: shell)
    monkeypatch.setattr(module, "show", lambda verdict: None)
    with pytest.raises(CheckFailed, match="a check cannot type anything for `input"):
        check("w00.answer", lambda: int(input("number? ")))
    with pytest.raises(CheckFailed, match="the answer ends the program"):
        check("w00.answer", lambda: shell.ask_exit())
    shell.ask_exit()
    assert left == ["left"] and builtins.input is INPUT
