"""Tables, reports and exit codes."""

import json
from pathlib import Path
from xml.etree import ElementTree

from labkit.grade.lanes.report import Result, as_json, as_junit, exit_code, next_step, table
from labkit.verdict import Verdict

PASS = Verdict("w90.a", "pass", "agrees with torch.")
WRONG = Verdict(
    "w90.b", "values", "the output\nis \x1b[31mwrong\x00.", ("Likely cause: an axis.", "Look <here> & there.")
)
OPEN = Verdict("w90.long_name", "not started", "nothing here yet.")


def results(*verdicts: Verdict, note: str | None = None) -> list[Result]:
    return [Result(Path("weeks/week90_x/01_y.ipynb"), {v.exercise: v for v in verdicts}, note)]


def test_table():
    assert table(results(PASS, WRONG, OPEN)).splitlines() == [
        "weeks/week90_x/01_y.ipynb",
        "  pass         w90.a          agrees with torch.",
        "  not yet      w90.b          values: an axis.",
        "  not started  w90.long_name  nothing here yet.",
        "",
        "3 exercises: 1 passed, 1 not yet, 1 not started.",
    ]


def test_the_words_of_an_error_are_in_the_table():
    raised = Verdict("w90.a", "error", "your code raises `KeyError`:", ("'x'", "At line 2"))
    assert "error: your code raises `KeyError`: 'x'" in table(results(raised))


def test_lines_fit_and_are_colored_on_a_terminal_only():
    long = Verdict("w90.a", "error", "word " * 100)
    assert max(map(len, table(results(long), width=60).splitlines())) == 60
    assert "\033" not in table(results(PASS, WRONG))
    assert "\033[32m  pass" in table(results(PASS), color=True)


def test_a_note_replaces_what_would_be_said_of_every_exercise():
    text = table(results(Verdict("w90.a", "error", "empty"), note="The file is empty."))
    assert text.count("empty") == 1


def test_next_step_is_the_first_failure_then_the_first_gap():
    assert "NOT YET  w90.b" in next_step(results(PASS, OPEN, WRONG))
    assert "NOT STARTED  w90.long_name" in next_step(results(PASS, OPEN))
    assert next_step(results(PASS)) == "All done."
    assert "nothing to grade" in next_step([])


def test_exit_codes():
    assert [exit_code(results(PASS, OPEN), strict) for strict in (False, True)] == [0, 1]
    assert [exit_code(results(PASS, WRONG), strict) for strict in (False, True)] == [1, 1]
    assert [exit_code(results(PASS), strict) for strict in (False, True)] == [0, 0]


def test_json_and_junit_hold_every_exercise():
    found = json.loads(as_json(results(PASS, WRONG, OPEN)))
    assert [entry["status"] for entry in found["notebooks"][0]["exercises"]] == [
        "pass",
        "values",
        "not started",
    ]
    suite = ElementTree.fromstring(as_junit(results(PASS, WRONG, OPEN)))[0]
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    assert "Look <here> & there." in suite[1][0].text
