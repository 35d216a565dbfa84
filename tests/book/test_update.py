"""Updates, resets and git merges of a learner's course, with backups, never under an open Jupyter."""

import contextlib
import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from labkit.book.build import build
from labkit.book.driver import ATTRIBUTES, install_merge_driver, merge_driver
from labkit.book.notebook import dumps, make_cell, read, write
from labkit.book.reset import reset
from labkit.book.update import UpdateError, open_notebooks, update, update_from_git
from labkit.book.work import here

from .test_merge import ANSWER, find
from .test_percent import COURSE, KNOWN

WEEK = Path("weeks/week01_arrays/01_strides.ipynb")


def make_course(root: Path, **changes: str) -> Path:
    shutil.copytree(COURSE, root)
    source = root / "solutions/week01_arrays/01_strides.py"
    text = source.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    source.write_text(text)
    build(root, execute=False, known=KNOWN, say=lambda line: None)
    return root


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    return make_course(tmp_path / "course")


@pytest.fixture
def release(tmp_path):
    return make_course(tmp_path / "release", neighbors="elements")


def answer(root: Path) -> None:
    nb = read(root / WEEK)
    find(nb, "f1-strides")["source"] = ANSWER
    nb["cells"].append(make_cell("code", "mine = 1", "mine"))
    write(root / WEEK, nb)


def test_update_merges_and_backs_up(course, release):
    answer(course)
    before = (course / WEEK).read_bytes()
    lines: list[str] = []
    assert update(course, release, say=lines.append) == [course / WEEK]
    merged = read(course / WEEK)
    assert find(merged, "f1-strides")["source"] == ANSWER and find(merged, "mine")
    assert "elements?" in find(merged, "f1-strides-md")["source"]
    (kept,) = course.glob(f"backups/*/{WEEK.as_posix()}")
    assert kept.read_bytes() == before
    assert lines[0].startswith("Your notebooks as they were: backups/")
    assert lines[1:] == [f"{WEEK}:\n  f1-strides-md: has a new text"]
    lines.clear()
    assert update(course, release, say=lines.append) == []
    assert lines == ["Everything is up to date."] and len(list(course.glob("backups/*"))) == 1


def test_update_brings_new_lessons_and_leaves_damaged_ones(course, release):
    (course / "weeks/week02_models/01_linear.ipynb").unlink()
    (course / WEEK).write_text("{")
    lines: list[str] = []
    update(course, release, say=lines.append)
    assert (course / "weeks/week02_models/01_linear.ipynb").exists()
    assert (course / WEEK).read_text() == "{"
    assert lines[0].startswith(f"{WEEK}: left alone. The file ends in the middle")
    with pytest.raises(UpdateError, match="not a release"):
        update(course, course / "datasets")


def test_a_cell_pasted_from_another_lesson_survives(course, release):
    nb = read(course / WEEK)
    nb["cells"].append(find(read(course / "weeks/week02_models/01_linear.ipynb"), "f2-demo"))
    write(course / WEEK, nb)
    update(course, release, say=lambda line: None)
    assert read(course / WEEK)["cells"][-1]["source"] == "print(line([1, 2], [3, 4], 5))"


@contextlib.contextmanager
def jupyter(runtime: Path, root: Path, paths: list[str], token: str = "secret"):
    """A server with Jupyter's runtime file and its list of sessions."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.headers["Authorization"] == "token secret"
            there = self.path == "/api/sessions"
            self.send_response(403 if not known else 200 if there else 404)
            self.end_headers()
            self.wfile.write(json.dumps([{"path": path, "type": "notebook"} for path in paths]).encode())

        def log_message(self, *args):
            """Not on the terminal."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        runtime.mkdir(exist_ok=True)
        info = {"url": f"http://127.0.0.1:{server.server_port}/", "token": token, "root_dir": str(root)}
        (runtime / "jpserver-1.json").write_text(json.dumps(info))
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def test_update_refuses_while_a_notebook_is_open(course, release, tmp_path):
    before = (course / WEEK).read_bytes()
    with jupyter(tmp_path / "runtime", course.parent, [f"course/{WEEK}"]):
        assert open_notebooks() == {course / WEEK}
        with pytest.raises(UpdateError, match=f"Open in Jupyter: {WEEK}"):
            update(course, release)
        assert (course / WEEK).read_bytes() == before and not (course / "backups").exists()
        assert update(course, release, force=True, say=lambda line: None) == [course / WEEK]
    assert open_notebooks() == set()  # the server is gone, its file is not


def test_other_open_notebooks_and_broken_runtime_files_do_not_matter(course, release, tmp_path):
    with jupyter(tmp_path / "runtime", course, ["weeks/week02_models/01_linear.ipynb"]):
        (tmp_path / "runtime/jpserver-2.json").write_text("{")
        assert update(course, release, say=lambda line: None) == [course / WEEK]


def test_reset_puts_one_stub_back(course):
    answer(course)
    nb = read(course / WEEK)
    find(nb, "f1-predict")["source"] = 'prediction = {"a": 3}'
    write(course / WEEK, nb)
    lines: list[str] = []
    assert reset(here(course), "f1.strides", say=lines.append) == course / WEEK
    after = read(course / WEEK)
    assert "NotImplementedError" in find(after, "f1-strides")["source"]
    assert find(after, "f1-predict")["source"] == 'prediction = {"a": 3}' and find(after, "mine")
    (kept,) = course.glob(f"backups/*/{WEEK.as_posix()}")
    assert read(kept) == nb
    assert lines[-1] == f"f1.strides is back at its start in {WEEK}."
    with pytest.raises(UpdateError, match=r"No lesson has an exercise f9\.x"):
        reset(here(course), "f9.x")


def test_reset_rescues_a_damaged_notebook(course):
    fresh = (course / WEEK).read_bytes()
    (course / WEEK).write_text("<<<<<<< HEAD\n")
    reset(here(course), "f1.strides", say=lambda line: None)
    reset(here(course), "f1.strides", say=lambda line: None)
    assert (course / WEEK).read_bytes() == fresh
    assert len(list(course.glob(f"backups/*/{WEEK.as_posix()}"))) == 2


def test_the_driver_finds_the_release_on_either_side(course, release, tmp_path):
    base = shutil.copy(course / WEEK, tmp_path / "base")
    answer(course)
    nb = read(course / WEEK)
    nb["cells"].append(find(read(course / "weeks/week02_models/01_linear.ipynb"), "f2-demo"))
    write(course / WEEK, nb)
    sides = {}
    for name, (ours, theirs) in {"merge": (course, release), "rebase": (release, course)}.items():
        ours_path = shutil.copy(ours / WEEK, tmp_path / name)
        assert merge_driver(base, ours_path, theirs / WEEK, say=lambda line: None) == 0
        sides[name] = ours_path.read_bytes()
    assert sides["merge"] == sides["rebase"]
    assert b"elements?" in sides["merge"] and b"return tuple(shape)" in sides["merge"]
    assert b"print(line([1, 2], [3, 4], 5))" in sides["merge"]  # pasted from the other lesson


def test_the_driver_reports_what_it_cannot_merge(course, tmp_path):
    answer(course)
    mine = (course / WEEK).read_bytes()
    theirs = tmp_path / "theirs"
    theirs.write_bytes(mine.replace(b"tuple(shape)", b"list(shape)"))
    lines: list[str] = []
    assert merge_driver(theirs, course / WEEK, theirs, say=lines.append) == 1
    theirs.write_text("{")
    assert merge_driver(theirs, course / WEEK, theirs, say=lines.append) == 1
    assert (course / WEEK).read_bytes() == mine
    assert "Both sides hold work" in lines[0] and "not a readable notebook" in lines[1]


def test_of_two_untouched_releases_the_newer_stays(course, tmp_path):
    nb = read(course / WEEK)
    older, newer = tmp_path / "older", tmp_path / "newer"
    write(older, nb)
    nb["metadata"]["labkit"]["release"] = "99.0"
    write(newer, nb)
    for ours, theirs in ((older, newer), (newer, older)):
        ours = shutil.copy(ours, tmp_path / "ours")
        assert merge_driver(older, ours, theirs) == 0
        assert ours.read_text() == dumps(nb)


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    done = subprocess.run(["git", "-C", str(root), *identity, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_merges_lessons_by_cell(course, release):
    assert not install_merge_driver(course)
    git(course, "init", "-q", "-b", "main")
    assert install_merge_driver(course) and install_merge_driver(course)
    assert (course / ".gitattributes").read_text() == "\n".join(ATTRIBUTES) + "\n"
    git(course, "add", ".")
    git(course, "commit", "-qm", "release")
    git(course, "switch", "-qc", "upstream")
    shutil.copytree(release, course, dirs_exist_ok=True)
    git(course, "commit", "-qam", "next release")
    git(course, "switch", "-q", "main")
    answer(course)
    git(course, "commit", "-qam", "my answer")
    git(course, "merge", "-q", "-m", "update", "upstream")
    merged = read(course / WEEK)
    assert find(merged, "f1-strides")["source"] == ANSWER and find(merged, "mine")
    assert "elements?" in find(merged, "f1-strides-md")["source"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("committed", [True, False])
def test_update_asks_git(course, release, tmp_path, committed):
    git(course, "init", "-q", "-b", "main")
    install_merge_driver(course)
    (course / ".gitignore").write_text("backups/\n")
    git(course, "add", ".")
    git(course, "commit", "-qm", "release")
    git(tmp_path, "clone", "-q", str(course), "mine")
    mine = tmp_path / "mine"
    for name, value in (("user.name", "a"), ("user.email", "a@b.c")):
        git(mine, "config", name, value)
    assert update_from_git(mine, say=lambda line: None) == []
    (mine / WEEK).unlink()
    lines: list[str] = []
    assert update_from_git(mine, say=lines.append) == [mine / WEEK]
    assert (mine / WEEK).read_bytes() == (course / WEEK).read_bytes()
    assert lines == [f"{WEEK.as_posix()} was missing and is back, as git has it."]
    shutil.copytree(release, course, dirs_exist_ok=True)
    git(course, "commit", "-qam", "next release")
    answer(mine)
    (mine / "weeks/week02_models/01_linear.ipynb").write_text("damaged")
    if committed:
        git(mine, "commit", "-qm", "my answer", "--", str(WEEK))
    assert update_from_git(mine, say=lambda line: None) == [mine / WEEK]
    merged = read(mine / WEEK)
    assert find(merged, "f1-strides")["source"] == ANSWER and find(merged, "mine")
    assert "elements?" in find(merged, "f1-strides-md")["source"]
    assert (mine / "weeks/week02_models/01_linear.ipynb").read_text() == "damaged"
    assert git(mine, "rev-list", "--count", "HEAD..@{upstream}").strip() == "0"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_an_update_that_git_refuses_changes_nothing(course, release, tmp_path):
    with pytest.raises(UpdateError, match="git fetch failed"):
        update_from_git(course)
    git(course, "init", "-q", "-b", "main")
    git(course, "add", ".")
    git(course, "commit", "-qm", "release")
    git(tmp_path, "clone", "-q", str(course), "mine")
    mine = tmp_path / "mine"
    shutil.copytree(release, course, dirs_exist_ok=True)
    git(course, "commit", "-qam", "next release")
    answer(mine)
    (mine / "solutions/week01_arrays/01_strides.py").write_text("# my own notes")
    before = {path: path.read_bytes() for path in (mine / "weeks").rglob("*.ipynb")}
    with pytest.raises(UpdateError, match="Changed by you, and by the new version too: solutions/"):
        update_from_git(mine, say=lambda line: None)
    assert {path: path.read_bytes() for path in (mine / "weeks").rglob("*.ipynb")} == before
