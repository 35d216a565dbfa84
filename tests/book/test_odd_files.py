"""Files that no editor writes: each is a problem of its own, in words, and stops nothing else."""

import copy
import errno
import io
import json
import os
import random
import subprocess
import sys
import threading

import pytest

from labkit import __version__
from labkit.book import course as lessons
from labkit.book import disk
from labkit.book.learner import Problem, read_learner, sound_notebook
from labkit.book.merge import graded_copy, merge
from labkit.book.notebook import dumps, learner_notebook, read
from labkit.book.reset import reset
from labkit.book.update import update
from labkit.book.work import here
from labkit.grade.lanes import selfcheck
from labkit.grade.lanes.steps import timeout

from .test_update import WEEK, course, make_course, release  # noqa: F401

OTHER = "weeks/week02_models/01_linear.ipynb"
DIGITS = "9" * 5000


def nested(levels):
    return "[" * levels + "]" * levels


def with_text(old, new):
    return lambda text: text.replace(old, new, 1)


ODD = {
    "a number of 5000 digits": (with_text('"nbformat": 4', f'"far": {DIGITS}, "nbformat": 4'), "long-number"),
    "a release of 5000 digits": (
        with_text(f'"release": "{__version__}"', f'"release": "{DIGITS}"'),
        "newer-release",
    ),
    "900 lists in each other": (
        with_text('"nbformat": 4', f'"far": {nested(900)}, "nbformat": 4'),
        "too-deep",
    ),
    "90000 lists in each other": (
        with_text('"nbformat": 4', f'"far": {nested(90000)}, "nbformat": 4'),
        "too-deep",
    ),
    "text after the end": (lambda text: text + "and more\n", "goes-on"),
    "damage in the middle": (with_text('"cells": [', '"cells": [ oops'), "garbled"),
    "cut off": (lambda text: text[: len(text) // 2], "truncated"),
    "cut off after a comma": (lambda text: text[: text.rindex(",") + 1], "truncated"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_notebook_is_a_problem_of_its_own(course, release, name, capsys, monkeypatch):  # noqa: F811
    spoil, kind = ODD[name]
    path = course / WEEK
    path.write_text(spoil(path.read_text()))
    found = read_learner(path)
    assert isinstance(found, Problem) and found.kind == kind
    assert len(found.sentence) < 250

    monkeypatch.setenv("LABKIT_ROOT", str(course))
    assert selfcheck.main(["--root", str(course)]) == 1
    said = capsys.readouterr().out
    assert found.sentence in said and WEEK.as_posix() in said
    assert "f2.line" in said and said.count("not started") >= 2  # the other notebook was looked at

    spoiled, lines = path.read_bytes(), []
    update(course, release, say=lines.append)
    assert f"{WEEK}: left alone. {found.sentence}" in lines and path.read_bytes() == spoiled
    reset(here(course), "f1.strides", say=lines.append)
    assert not isinstance(read_learner(path), Problem)
    (kept,) = course.glob(f"backups/*/{WEEK.as_posix()}")
    assert kept.read_bytes() == spoiled


def test_an_output_of_an_odd_type_is_dropped(course):  # noqa: F811
    path = course / WEEK
    nb = json.loads(path.read_text())
    code = next(cell for cell in nb["cells"] if cell["cell_type"] == "code")
    code["outputs"] = [{"output_type": [1]}, {"output_type": {"a": 1}}, {"output_type": None}, 7]
    path.write_text(json.dumps(nb))
    found = read_learner(path)
    assert not isinstance(found, Problem)
    assert next(cell for cell in found["cells"] if cell["cell_type"] == "code")["outputs"] == []


def test_whatever_json_a_notebook_holds_it_is_read_merged_and_written(course):  # noqa: F811
    """Any value at any place of the file is replaced by any other kind of value."""
    chance = random.Random(7)
    root, original = course, json.loads((course / WEEK).read_text())
    lesson = lessons.read_lesson(root, root / "solutions/week01_arrays/01_strides.py")
    assert root / lesson.notebook == course / WEEK
    released = learner_notebook(lesson, __version__)
    values = [
        None,
        True,
        -1,
        2**70,
        1e300,
        float("nan"),
        "",
        "\udc80",
        "9" * 5000,
        [],
        [1],
        [["a"]],
        {},
        {"a": 1},
        {"a": {"b": []}},
    ]
    read_well = 0
    for _ in range(1500):
        nb = copy.deepcopy(original)
        for _ in range(chance.randint(1, 3)):
            *way, last = chance.choice(list(places(nb)))
            holder = nb
            for part in way:
                holder = holder[part]
            holder[last] = chance.choice(values)
        found = sound_notebook(json.loads(json.dumps(nb)), course / WEEK)
        if not isinstance(found, Problem):
            read_well += 1
            dumps(graded_copy(released, found))
            dumps(merge(released, found)[0])
    assert read_well > 1000


def places(value, way=()):
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield (*way, name)
        yield from places(part, (*way, name))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_notebook_and_no_record(course, release, monkeypatch, capsys):  # noqa: F811
    (course / WEEK).unlink()
    os.mkfifo(course / WEEK)
    found = read_learner(course / WEEK)
    assert isinstance(found, Problem) and "it is not a regular file" in found.sentence
    update(course, release, say=lambda line: None)
    with pytest.raises(disk.UpdateError, match=f"{WEEK}: The file cannot be read"):
        reset(here(course), "f1.strides")
    monkeypatch.setenv("LABKIT_ROOT", str(course))
    (course / "progress").mkdir()
    os.mkfifo(here().progress / "events.jsonl")
    assert here().events() == [] and "could not be recorded" in here().remember("attempt", ex="f1.strides")


def test_an_attempt_that_cannot_be_recorded_is_said_once(course, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setenv("LABKIT_ROOT", str(course))
    assert here().remember("attempt", ex="f1.strides") is None
    assert [event["ex"] for event in here().events()] == ["f1.strides"]
    (here().progress / "events.jsonl").unlink()
    (here().progress / "events.jsonl").mkdir()
    assert (
        here().remember("attempt", ex="f1.strides") == here().remember("attempt", ex="f1.strides") is not None
    )
    words = "This attempt could not be recorded (Is a directory), so `make progress` will not count it:"
    assert capsys.readouterr().err == f"{words} {(here().progress / 'events.jsonl')}\n"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.ipynb"
    path.write_bytes(b"old")
    path.chmod(0o640)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr("os.fsync", full)
        disk.write_bytes(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
    assert disk.write_bytes(path, b"new") and not disk.write_bytes(path, b"new")
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o640


def test_a_write_is_flushed_before_it_replaces(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        usual = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *given, name=name, usual=usual: (done.append(name), usual(*given))[1]
        )
    disk.write_bytes(tmp_path / "a", b"new")
    assert done.index("fsync") < done.index("replace")


def test_a_file_that_another_program_saved_is_not_replaced(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_bytes(b"saved meanwhile")
    with pytest.raises(disk.ChangedMeanwhile, match=r"a\.ipynb was saved by another program meanwhile"):
        disk.write_bytes(path, b"new", expected=b"old")
    with pytest.raises(disk.ChangedMeanwhile):
        disk.write_bytes(path, b"new", expected=None)
    assert path.read_bytes() == b"saved meanwhile" and list(tmp_path.iterdir()) == [path]
    assert disk.write_bytes(path, b"new", expected=b"saved meanwhile")


def test_a_notebook_saved_during_a_reset_is_kept(course, monkeypatch):  # noqa: F811
    usual = disk.backup_of

    def save_meanwhile(root, contents):
        folder = usual(root, contents)
        (course / WEEK).write_text("saved meanwhile")
        return folder

    monkeypatch.setattr(disk, "backup_of", save_meanwhile)
    with pytest.raises(disk.ChangedMeanwhile):
        reset(here(course), "f1.strides", say=lambda line: None)
    assert (course / WEEK).read_text() == "saved meanwhile"


def test_backups_made_at_once_do_not_overwrite_each_other(course):  # noqa: F811
    threads = [
        threading.Thread(target=disk.backup_of, args=(course, {course / WEEK: f"copy {number}".encode()}))
        for number in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    copies = {path.read_text() for path in course.glob(f"backups/*/{WEEK.as_posix()}")}
    assert copies == {f"copy {number}" for number in range(40)}


def test_what_killed_commands_left_is_swept(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stale, ours = tmp_path / f".labkit-{ended.pid}-0.tmp", tmp_path / f".labkit-{os.getpid()}-0.tmp"
    stale.mkdir()
    ours.touch()
    disk.sweep([tmp_path])
    assert list(tmp_path.iterdir()) == [ours]


@pytest.mark.skipif(disk.fcntl is None, reason="folders cannot be locked here")
def test_two_commands_do_not_change_notebooks_at_once(course, release):  # noqa: F811
    with (
        disk.changing(course),
        pytest.raises(disk.UpdateError, match="Another labkit command is changing"),
        disk.changing(course, wait=0),
    ):
        pass
    with disk.changing(course, wait=0):
        pass


def damage(root):
    (root / WEEK).write_text("{")


def test_the_table_is_shown_even_if_the_report_cannot_be_written(course, monkeypatch, capsys):  # noqa: F811
    damage(course)
    monkeypatch.setenv("LABKIT_ROOT", str(course))
    (course / "reports").write_text("in the way")
    assert selfcheck.main(["--root", str(course)]) == 1
    said = capsys.readouterr()
    assert "4 exercises: 0 passed" in said.out
    assert f"The report could not be written (File exists): {course / 'reports'}" in said.err


class Shut(io.StringIO):
    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


def test_the_exit_code_of_a_check_survives_closed_streams(course, monkeypatch):  # noqa: F811
    damage(course)
    monkeypatch.setenv("LABKIT_ROOT", str(course))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Shut())
        assert selfcheck.main(["--root", str(course)]) == 1
        sys.stdout.close()  # what stands in for it by now
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        patch.setattr(sys, "stderr", None)
        assert selfcheck.main(["--root", str(course)]) == 1


@pytest.mark.parametrize("given", ["abc", "0", "-3", "nan", "inf"])
def test_a_time_limit_that_is_none_is_explained(monkeypatch, given):
    monkeypatch.setenv("LABKIT_TIMEOUT", given)
    with pytest.raises(ValueError, match=f"LABKIT_TIMEOUT={given} is not a number of seconds"):
        timeout()


def test_a_machine_without_git_is_told_what_to_do(course, monkeypatch, tmp_path):  # noqa: F811
    from labkit.book.update import update_from_git

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(disk.UpdateError, match="git is not installed, or not to be found"):
        update_from_git(course, say=lambda line: None)


def test_a_build_that_meets_an_editor_keeps_what_it_saved(course, monkeypatch):  # noqa: F811
    from labkit.book import build

    from .test_percent import KNOWN

    usual = build._keep_work

    def save_meanwhile(root, path, say):
        before = usual(root, path, say)
        if path == course / WEEK:
            path.write_text("saved meanwhile")
        return before

    monkeypatch.setattr(build, "_keep_work", save_meanwhile)
    with pytest.raises(build.BuildError, match="was saved by another program meanwhile"):
        build.build(course, execute=False, known=KNOWN, say=lambda line: None)
    assert (course / WEEK).read_text() == "saved meanwhile"


def test_the_fixture_has_two_notebooks(course):  # noqa: F811
    assert read(course / OTHER) and make_course
