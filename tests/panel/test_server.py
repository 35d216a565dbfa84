"""The panel's server: who may ask, what is graded, and that no notebook is ever written."""

import copy
import http.client
import json
import time
import urllib.request
from http.cookiejar import CookieJar
from urllib.parse import urlsplit

import pytest

from labkit import __version__, lab
from labkit.book import changes
from labkit.book.notebook import labkit_of, read
from labkit.book.update import UpdateError, refuse_if_open
from labkit.book.work import here
from labkit.panel import LABEXTENSIONS
from labkit.panel.desk import Desk

from .conftest import START, TOKEN, Live, put, without_write_permission

WRONG = "def answer():\n    return 41"
ENDLESS = "def answer():\n    while True:\n        pass"


# who may ask


@pytest.mark.parametrize("token", [None, "guess"])
@pytest.mark.parametrize("name, body", [("state", None), ("check", {}), ("hint", {}), ("reset", {})])
def test_nobody_without_the_token(live, name, body, token):
    status, answer = live.ask(name, body, token=token)
    assert status == 403 and "weeks" not in answer


def test_a_cookie_alone_does_not_do(live, released):
    """Another page in the browser has the cookie, but cannot read the XSRF token."""
    cookies = CookieJar()
    browser = urllib.request.HTTPCookieProcessor(cookies)
    live.send(urllib.request.Request(f"{live.url}lab?token={TOKEN}"), browser)
    request = live.request("labkit/api/check", {"path": START, "notebook": released}, token=None)
    assert live.send(request, browser)[0] == 403
    xsrf = next(cookie.value for cookie in cookies if cookie.name == "_xsrf")
    request.add_header("X-XSRFToken", xsrf or "")
    status, said = live.send(request, browser)
    assert status == 200 and '"end"' in said


# the front end is where JupyterLab looks for it


def page_config(live):
    """What the server tells JupyterLab's front end."""
    _, page = live.send(live.request("lab"))
    found = page.partition('id="jupyter-config-data" type="application/json">')[2].partition("</script>")[0]
    return json.loads(found)


def test_jupyterlab_loads_the_panel(live):
    config = page_config(live)
    (panel,) = [item for item in config["federated_extensions"] if item["name"] == "labkit"]
    for file in (panel["load"], "static/extension.js", "static/labkit.css"):
        status, text = live.send(live.request(f"lab/extensions/labkit/{file}"))
        assert status == 200 and text
    assert "@jupyterlab/apputils-extension:announcements" in config["disabledExtensions"]


def test_jupyterlab_has_the_settings_of_the_course(live):
    """Long lines wrap, unless the learner chose otherwise; Node is not asked whether a build is due."""
    config = page_config(live)
    assert config["buildCheck"] is config["buildAvailable"] is False
    _, text = live.send(live.request("lab/api/settings/@jupyterlab/notebook-extension:tracker"))
    settings = json.loads(text)
    assert settings["schema"]["properties"]["codeCellConfig"]["default"]["lineWrap"] is True
    assert "lineWrap" not in settings["raw"]


def test_the_front_end_has_the_version_of_the_package():
    package = json.loads((LABEXTENSIONS / "labkit" / "package.json").read_text())
    assert package["version"] == __version__


def test_the_layout_is_kept_with_the_course(live):
    body = {"data": {}, "metadata": {"id": "test"}}
    assert live.send(live.request("lab/api/workspaces/test", body, method="PUT"))[0] == 204
    assert list((live.root / "progress" / "workspaces").glob("test*"))


def test_a_second_make_lab_finds_the_first(live, monkeypatch, tmp_path, capsys):
    """Two servers on one course would save over each other's notebooks."""
    opened: list[str] = []
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(live.runtime))
    monkeypatch.setenv("LABKIT_ROOT", str(live.root))
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert lab.main([]) == 0
    assert f"running already: {live.url}lab?token={TOKEN}" in capsys.readouterr().out
    assert opened == [f"{live.url}lab?token={TOKEN}"]
    assert lab.main(["--no-browser"]) == 0 and len(opened) == 1
    assert lab.already_running(tmp_path) is None, "another course is another server"


# the state of the course


def test_the_state_names_every_lesson_and_exercise(live):
    status, state = live.ask("state")
    assert status == 200 and state["note"] is None
    first, second = state["weeks"]
    assert (first["week"], first["title"]) == (0, "Week 0: start")
    assert [lesson["path"] for lesson in first["lessons"]] == [START]
    assert (first["lessons"][0]["title"], first["lessons"][0]["minutes"]) == ("Start here", 30)
    assert [row["ex"] for row in first["lessons"][0]["exercises"]][:2] == ["w00.answer", "w00.row_means"]
    assert second["lessons"][0]["title"] == "01 Storage and strides"
    assert state["total"] == sum(len(one["exercises"]) for week in state["weeks"] for one in week["lessons"])


# checks


def test_what_the_browser_holds_is_graded_not_the_file(live, released, solved):
    before = len(live.events())
    said = live.check(put(solved, "w00.answer", WRONG))
    assert said["start"]["exercises"] == list(said["verdicts"]) and said["start"]["note"] is None
    assert said["step"]["done"] == said["step"]["of"]
    assert said["verdicts"]["w00.answer"]["state"] == "tried"
    assert "41 is one short" in said["verdicts"]["w00.answer"]["short"]
    assert {v["state"] for ex, v in said["verdicts"].items() if ex != "w00.answer"} == {"passed"}
    count = len(said["verdicts"])
    summary = f"{count} exercises: {count - 1} passed, 1 not yet"
    assert said["end"]["passed"] == count - 1 and summary in said["end"]["summary"]
    new = live.events()[before:]
    assert [(event["ex"], event["lane"]) for event in new] == [(ex, "panel") for ex in said["verdicts"]]
    live.check(put(solved, "w00.answer", WRONG))
    assert len(live.events()) == before + count, "the same answers are no new attempts"
    nothing = f"{count} exercises: 0 passed, 0 not yet, {count} not started."
    assert live.check(released)["end"]["summary"] == nothing
    assert len(live.events()) == before + count, "nothing written is no attempt"


def test_what_was_checked_before_is_recorded_again_when_its_record_is_gone(live, solved):
    live.check(solved)
    (live.root / "progress" / "events.jsonl").unlink()
    said = live.check(solved)
    assert [event["ex"] for event in live.events()] == list(said["verdicts"])
    assert live.ask("state")[1]["passed"] == len(said["verdicts"])


def test_an_exercise_that_passed_before_is_failing(live, solved):
    live.check(solved)
    assert live.check(put(solved, "w00.answer", WRONG))["verdicts"]["w00.answer"]["state"] == "failing"
    state = live.ask("state")[1]
    assert state["weeks"][0]["lessons"][0]["exercises"][0]["state"] == "failing"
    assert (state["passed"], state["next"]) == (4, "w00.answer"), "counted, and what to go on with"


def test_what_only_a_terminal_or_a_kernel_can_do_is_not_advised(live, solved):
    said = live.check(put(solved, "w00.answer", "def answer():\n    return 1 / 0"))["verdicts"]["w00.answer"]
    words = " ".join([said["headline"], *said["lines"]])
    assert "ZeroDivisionError" in words and "make hint" not in words and "traceback()" not in words


def test_an_answer_in_a_text_cell_is_graded_and_mentioned(live, solved):
    nb = copy.deepcopy(solved)
    next(cell for cell in nb["cells"] if cell["id"] == "w00-answer")["cell_type"] = "markdown"
    said = live.check(nb)
    assert said["verdicts"]["w00.answer"]["state"] == "passed"
    assert said["start"]["note"].startswith("The answer to w00.answer is in a text cell, which does not run")


@pytest.mark.parametrize(
    "text, words",
    [
        (None, "There is no such file. Restore it"),
        ("<<<<<<< HEAD\n{}", "The file has git conflict markers"),
        ('{"cells": [', "The file ends in the middle"),
        ("{}", "no notebook cells. Restore it"),
        ('{"cells": [], "nbformat": 3}', None),
    ],
)
def test_a_notebook_that_cannot_be_opened_is_explained(live, text, words):
    """What the words advise is what `make reset` does: tests/book/test_update.py."""
    file = live.root / START
    before = file.read_bytes()
    try:
        file.unlink() if text is None else file.write_text(text)
        status, answer = live.ask("problem", {"path": START})
    finally:
        file.write_bytes(before)
    assert status == 200
    if words is None:
        assert answer["problem"] is None, "JupyterLab opens it"
    else:
        assert words in answer["problem"] and "`make reset EX=w00.answer`" in answer["problem"]
        assert ("goes to backups/ first" in answer["problem"]) == (text is not None)
    for path in (START, "../outside.ipynb", None):
        assert live.ask("problem", {"path": path}) == (200, {"problem": None})


def test_a_copy_or_a_renamed_notebook_is_known_by_its_cells(live, solved):
    nb = copy.deepcopy(solved)
    nb["metadata"].pop("labkit")
    nb["cells"].insert(
        0, {"cell_type": "code", "id": "own", "metadata": {}, "source": "x = 1", "outputs": []}
    )
    said = live.check(nb, "weeks/week01_tensors/my experiments-Copy1.ipynb")
    assert said["end"]["passed"] == 4
    assert "a copy of weeks/week00_start/01_start.ipynb" in said["start"]["note"]


def test_a_notebook_saved_by_an_older_jupyterlab(live, solved):
    """Format 4.4 has no cell ids, and its sources are lists of lines."""
    nb = {**copy.deepcopy(solved), "nbformat_minor": 4}
    for cell in nb["cells"]:
        del cell["id"]
        cell["source"] = cell["source"].splitlines(True)
    assert live.check(nb)["end"]["passed"] == 4


def test_a_file_that_changed_on_disk_is_mentioned(live, solved):
    body = {"path": START, "notebook": solved}
    for modified, said in [("2020-01-31T12:00:00.5Z", True), ("2120-01-31T12:00:00Z", False), ("now", False)]:
        status, lines = live.ask("check", {**body, "modified": modified})
        assert status == 200 and ("changed on disk" in (lines[0]["note"] or "")) == said


@pytest.mark.parametrize(
    "path",
    [
        *("../outside.ipynb", "/etc/hosts", "weeks/../solutions/week00_start/01_start.ipynb"),
        *("weeks/week00_start/../../../x.ipynb", "weeks/link.ipynb", "weeks/no_such_week/x.ipynb", "weeks"),
        *("weeks/week00_start/01_start.py", "weeks/\0.ipynb", None, 7),
    ],
)
def test_only_notebooks_in_weeks(live, solved, path):
    link = live.root / "weeks" / "link.ipynb"
    target = live.root / "outside.ipynb"
    target.write_text("{}")
    link.symlink_to(target)
    before = live.events()
    try:
        for name in ("check", "reset"):
            body = {"path": path, "notebook": solved, "ex": "w00.answer"}
            status, answer = live.ask(name, body)
            assert status in (400, 403) and answer["message"].endswith(".")
    finally:
        link.unlink()
    assert live.events() == before and target.read_text() == "{}"


def test_what_is_no_lesson_is_refused_with_words(live):
    foreign = {"cells": [{"cell_type": "code", "metadata": {}, "source": "1"}], "metadata": {}, "nbformat": 4}
    for nb, words in [
        (foreign, "no cells of the course"),
        ({"nbformat": 3}, "old format 3"),
        ([], "no notebook cells"),
        (None, "no notebook cells"),
    ]:
        status, answer = live.ask("check", {"path": START, "notebook": nb})
        assert status == 400 and words in answer["message"]
    assert live.ask("check", ["not", "an", "object"])[0] == 400


def test_a_check_without_write_permission(live, solved):
    """What cannot be remembered is graded all the same."""
    progress = live.root / "progress"
    without_write_permission(progress)
    try:
        end = live.check(solved)["end"]
        assert end["passed"] == 4 and "could not be recorded" in end["summary"]
    finally:
        progress.unlink()


def test_a_second_check_is_refused_and_closing_the_page_stops_the_first(live, solved):
    body = json.dumps({"path": START, "notebook": put(solved, "w00.answer", ENDLESS)})
    first = http.client.HTTPConnection(urlsplit(live.url).netloc, timeout=60)
    first.request("POST", "/labkit/api/check", body, {"Authorization": f"token {TOKEN}"})
    reply = first.getresponse()
    assert reply.readline().startswith(b'{"kind": "start"')
    status, answer = live.ask("check", {"path": START, "notebook": solved})
    assert status == 409
    assert answer["message"] == "A check of 01_start.ipynb is still running. Wait for it, or stop it."
    assert live.ask("state")[0] == 200, "everything else goes on meanwhile"
    before = live.events()
    reply.close()
    first.close()
    deadline = time.monotonic() + 15  # a cell may take 20 s here
    while (status := live.ask("check", {"path": START, "notebook": solved})[0]) == 409:
        assert time.monotonic() < deadline, "the check goes on although nobody waits for it"
        time.sleep(0.1)
    assert status == 200
    assert not [event for event in live.events()[len(before) :] if event["status"] == "error"]


def test_an_answer_that_ends_the_process_costs_its_own_exercise(live, solved):
    said = live.check(put(solved, "w00.answer", "import os\n\n\ndef answer():\n    os._exit(1)"))
    assert "ended the whole process" in said["verdicts"]["w00.answer"]["headline"]
    assert said["end"]["passed"] == 3


# hints


@pytest.mark.parametrize("body", [b"\xff\xfe", b"{", b"[" * 100_000, b'{"path": ' + b"9" * 5000 + b"}"])
@pytest.mark.parametrize("name", ["check", "reset", "hint", "problem", "open"])
def test_a_request_that_cannot_be_read_is_refused_with_words(live, name, body):
    request = live.request(f"labkit/api/{name}", method="POST")
    request.data = body
    status, text = live.send(request)
    assert (status, text) == (400, '{"message": "The request cannot be read: it is not JSON."}')


def test_a_name_that_no_disk_takes_is_refused_with_words(live, released):
    for name in ("a/" * 3000 + "b.ipynb", "weeks/" + "a" * 300 + "/b.ipynb"):
        status, answer = live.ask("check", {"path": name, "notebook": released})
        assert (status, answer["message"]) == (400, "That is not the name of a notebook.")


def test_a_notebook_nested_too_deeply_or_of_a_far_release_is_refused_with_words(live, released):
    deep = json.loads("[" * 900 + "]" * 900)
    far = {"labkit": {"release": "9" * 5000}}
    for change, words in (({"far": deep}, "nested so deeply"), ({"metadata": far}, "newer than")):
        for name in ("check", "reset"):
            body = {"path": START, "notebook": {**released, **change}, "ex": "w00.answer"}
            status, answer = live.ask(name, body)
            assert status == 400 and words in answer["message"] and len(answer["message"]) < 250


def test_a_server_finishes_what_an_update_left_and_says_so(tmp_path):
    (tmp_path / "weeks").mkdir()
    with pytest.raises(KeyboardInterrupt), changes.preparing(tmp_path):
        journal = changes.journal_of(tmp_path).read_bytes()
        raise KeyboardInterrupt
    changes.journal_of(tmp_path).parent.mkdir(parents=True)
    changes.journal_of(tmp_path).write_bytes(journal)
    desk = Desk(here(tmp_path), tmp_path)
    assert "was broken off before it changed anything" in desk.news[0]
    assert not changes.journal_of(tmp_path).exists() and Desk(here(tmp_path), tmp_path).news == []


def test_hints_come_one_by_one(live):
    given = [live.ask("hint", {"ex": "w01.strides"}) for _ in range(4)]
    assert [status for status, _ in given] == [200] * 4
    assert [len(answer["hints"]) for _, answer in given] == [1, 2, 3, 3]
    assert [answer["left"] for _, answer in given] == [2, 1, 0, 0]
    assert given[1][1]["more"] is None and "make solution EX=w01.strides" in given[2][1]["more"]
    rows = live.ask("state")[1]["weeks"][1]["lessons"][0]["exercises"]
    assert next(row["hints"] for row in rows if row["ex"] == "w01.strides") == given[3][1]["hints"]


def test_an_unknown_exercise_is_named(live, solved):
    status, answer = live.ask("hint", {"ex": "w01.stride"})
    assert status == 404 and "Did you mean w01.strides?" in answer["message"]
    assert live.ask("hint", {})[0] == 404
    status, answer = live.ask("reset", {"path": START, "notebook": solved, "ex": "w01.strides"})
    assert status == 400 and "not an exercise of this notebook" in answer["message"]


# resets


def test_a_reset_keeps_what_was_not_saved_and_returns_the_start(live, released):
    nb = put(released, "w00.answer", "def answer():\n    return 'not saved'")
    status, answer = live.ask("reset", {"path": START, "notebook": nb, "ex": "w00.answer"})
    assert status == 200
    kept = read(live.root / answer["backup"] / START)
    assert any("not saved" in cell["source"] for cell in kept["cells"])
    (cell,) = answer["cells"]
    stub = next(c for c in released["cells"] if c["id"] == cell["id"])
    assert cell["source"] == stub["source"] and labkit_of(cell)["role"] == "exercise"


def test_without_a_backup_there_is_no_reset(live, released):
    backups = live.root / "backups"
    without_write_permission(backups)
    try:
        status, answer = live.ask("reset", {"path": START, "notebook": released, "ex": "w00.answer"})
    finally:
        backups.unlink()
    assert status == 500 and "nothing was reset" in answer["message"] and "cells" not in answer


# updates


def test_an_update_is_refused_while_a_notebook_is_open(live: Live, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(live.runtime))
    notebooks = [live.root / START]
    refuse_if_open(live.root, notebooks)
    body = {"path": START, "name": "", "type": "notebook", "kernel": {"name": "python3"}}
    session = json.loads(live.send(live.request("api/sessions", body))[1])
    try:
        with pytest.raises(UpdateError, match=f"Open in Jupyter: {START}. Save, close it"):
            refuse_if_open(live.root, notebooks)
    finally:
        live.send(live.request(f"api/sessions/{session['id']}", method="DELETE"))


def test_an_update_is_refused_while_a_window_has_the_notebook_open_without_a_kernel(live, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(live.runtime))
    assert live.ask("open", {"window": "one", "paths": [START, 7]})[0] == 200
    assert live.ask("open", {"window": "two", "paths": []})[1] == {"paths": [START]}
    with pytest.raises(UpdateError, match=f"Open in Jupyter: {START}"):
        refuse_if_open(live.root, [live.root / START])
    assert live.ask("open", {"window": "one", "paths": []})[1] == {"paths": []}
    refuse_if_open(live.root, [live.root / START])
    assert live.ask("open", {"window": 1, "paths": None})[0] == 400


def test_graded_code_does_not_find_the_token(live, solved):
    """Nor do kernels: the server takes it out of its environment once it has read it."""
    source = "import os\n\n\ndef answer():\n    return 41 if 'JUPYTER_TOKEN' in os.environ else 42"
    assert live.check(put(solved, "w00.answer", source))["verdicts"]["w00.answer"]["state"] == "passed"


def test_a_server_from_before_an_update_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(Desk, "_stamps", lambda self: [("week00.py", 1)])
    desk = Desk(here(tmp_path), tmp_path)
    assert desk._stale() is None
    monkeypatch.setattr(Desk, "_stamps", lambda self: [("week00.py", 2)])
    assert "start it again" in (desk._stale() or "")
