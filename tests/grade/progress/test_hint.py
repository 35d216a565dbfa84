"""Hints come one at a time, solutions after a pass or on insistence; both are remembered."""

import shutil
from pathlib import Path

import pytest

import labkit
from labkit.book.work import here
from labkit.exercises import get
from labkit.grade.progress import hint, solution

LESSON = Path(__file__).parents[3] / "solutions" / "week00_start"


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    (tmp_path / "weeks").mkdir()
    shutil.copytree(LESSON, tmp_path / "solutions" / LESSON.name, ignore=shutil.ignore_patterns("*.ipynb"))
    return tmp_path


def said(capsys, command, *argv):
    code = command.main(list(argv))
    return code, capsys.readouterr().out


def test_one_hint_at_a_time(course, capsys):
    hints = get("w00.average").hints
    for number in (1, 2, 3):
        code, out = said(capsys, hint, "w00.average")
        assert code == 0 and f"Hint {number} of 3: {hints[number - 1]}" in out
        assert ("make solution EX=w00.average INSIST=1" in out) == (number == 3)
        assert all(other not in out for other in hints[number:])
    out = said(capsys, hint, "w00.average")[1]
    assert all(text in out for text in hints) and "all hints" in out
    assert [(e["kind"], e["ex"], e["number"]) for e in here().events()] == [
        ("hint", "w00.average", n) for n in (1, 2, 3)
    ]


def test_without_a_name_it_is_the_exercise_one_is_at(course, capsys):
    assert "w00.answer" in said(capsys, hint)[1]
    here().remember("attempt", ex="w00.answer", status="pass", mistake=None)
    assert "w00.row_means" in said(capsys, hint)[1]
    here().remember("attempt", ex="w00.average", status="values", mistake=None)
    assert "w00.average" in said(capsys, hint)[1]


def test_all_done(course, capsys):
    for key in ("w00.answer", "w00.row_means", "w00.shapes", "w00.average"):
        here().remember("attempt", ex=key, status="pass", mistake=None)
    assert "nothing left" in said(capsys, hint)[1]


def test_an_unknown_name_suggests_the_nearest(course, capsys):
    code, out = said(capsys, hint, "w00.rowmeans")
    assert code == 2 and "Did you mean w00.row_means?" in out and "Traceback" not in out


def test_in_a_notebook(course, capsys):
    labkit.hint("w00.answer")
    assert "Hint 1 of 3" in capsys.readouterr().out


# solutions


def test_not_before_a_pass(course, capsys):
    code, out = said(capsys, solution, "w00.answer")
    assert code == 1 and "return 42" not in out
    assert "3 of 3 hints left" in out and "INSIST=1" in out
    assert here().events() == []


def test_on_insistence_and_remembered(course, capsys):
    code, out = said(capsys, solution, "w00.answer", "--insist")
    assert code == 0 and "    return 42" in out and "## Exercise 1" in out
    assert [event["kind"] for event in here().events()] == ["solution"]


def test_after_a_pass(course, capsys):
    here().remember("attempt", ex="w00.average", status="pass", mistake=None)
    code, out = said(capsys, solution, "w00.average")
    assert code == 0 and "return total / len(values)" in out
    assert "SOLUTION" not in out and "STUB" not in out and "fault = ..." not in out
    assert [event["kind"] for event in here().events()] == ["attempt"]


def test_only_the_prose_of_the_exercise_itself(course, capsys):
    out = said(capsys, solution, "w00.row_means", "--insist")[1]
    assert "Exercise 2" in out and "Exercise 1" not in out and "A surprise first" not in out


def test_without_the_lesson(course, capsys):
    shutil.rmtree(course / "solutions")
    (course / "solutions").mkdir()
    code, out = said(capsys, solution, "w00.answer", "--insist")
    assert code == 1 and "not here" in out
