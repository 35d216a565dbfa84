"""Commands that are ended at their worst moments, or find the disk full: nothing of the learner's is lost."""

import os
import signal
import sys
from pathlib import Path

import pytest

from labkit.book import changes

from . import kill_update as kill
from .kill_update import FIRST, LINES, SIGNALS, Blow, Tally, run, type_in

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="no signals and no fork here"),
    pytest.mark.skipif(kill.shutil.which("git") is None, reason="git is not installed"),
]
# Before the first byte of the learner's moves, between two files, before git hears of it, before the end.
MOMENTS = (
    "start fetch",
    "started archive",
    "replace 1",
    "replace 2",
    "started update-index",
    "unlink journal.json",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return kill.make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def usual(world):
    """An update that nobody disturbs."""
    return kill.measure(world, "update", "ahead")


def step(ended, name):
    return ended.steps.index(name) + 1


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_update_ended_at_its_worst_moments_loses_nothing(world, usual, moment, number):
    tally = Tally()
    place = MOMENTS.index(moment) + SIGNALS.index(number)
    follow = kill.NEXT[place % len(kill.NEXT)]
    kill.try_update(world, "ahead", Blow(number, at=step(usual, moment)), follow, tally)
    assert tally.wrong == []
    assert tally.hit == 1 or (
        moment == "unlink journal.json" and number != signal.SIGKILL
    )  # all is done by then


def test_an_update_killed_between_two_files_is_finished_by_the_next_command(world, usual):
    with kill.copied(world / "ahead") as root:
        assert run(root, type_in("update"), Blow(signal.SIGKILL, at=step(usual, "replace 2"))).code == -9
        assert changes.journal_of(root).exists()
        said = run(root, type_in("hint", "w00.answer")).said
        assert "was broken off while it wrote. It has been finished now." in said
        assert "Your notebooks as they were: backups/2" in said and "Hint 1 of" in said
        assert kill.settled(root) == []
        assert run(root, type_in("update")).said == "Everything is up to date.\n"


def test_an_update_killed_before_it_wrote_is_thrown_away(world, usual):
    with kill.copied(world / "ahead") as root:
        before = contents(root)
        assert run(root, type_in("update"), Blow(signal.SIGKILL, at=step(usual, "chmod 1"))).code == -9
        assert contents(root) == before
        said = run(root, type_in("progress")).said
        assert "was broken off before it changed anything. `make update` tries again." in said
        assert contents(root) == before and not (root / "backups/unfinished").exists()


def test_a_git_that_was_killed_with_its_command_leaves_no_lock(world, usual):
    """Whether or not the git was caught with its lock, the next update gets through."""
    for moment in ("started fetch", "started update-index", "started update-ref"):
        tally = Tally()
        blow = Blow(signal.SIGKILL, at=step(usual, moment), git_too=True)
        kill.try_update(world, "ahead", blow, ["progress"], tally)
        assert tally.wrong == []
    with kill.copied(world / "ahead") as root:
        run(root, type_in("update"), Blow(signal.SIGKILL, at=step(usual, "start update-ref")))
        for name in ("index.lock", "refs/heads/main.lock"):
            (root / ".git" / name).touch()
        said = run(root, type_in("update")).said
        assert "The git that died had left index.lock behind; it was removed." in said
        assert kill.settled(root) == []


def test_a_lock_that_is_not_ours_stays_and_is_explained(world, monkeypatch):
    monkeypatch.setattr("labkit.book.git.LOCK_SECONDS", 0)
    with kill.copied(world / "ahead") as root:
        before = contents(root)
        (root / ".git/refs/remotes/origin/main.lock").touch()
        ended = run(root, type_in("update"))
        assert ended.code == 1 and contents(root) == before
        assert "main.lock behind.\nIf none is running, delete that file, then try again." in ended.said
        assert (root / ".git/refs/remotes/origin/main.lock").exists()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_merge_with_commits_of_the_learners_is_broken_off(world, number):
    """Git merges in a work tree of its own; that is gone afterwards, too."""
    tally = Tally()
    steps = kill.measure(world, "update", "apart").steps if not APART else APART
    APART[:] = steps
    kill.try_update(world, "apart", Blow(number, at=steps.index("started merge") + 1), ["update"], tally)
    assert tally.wrong == [] and tally.hit == 1


APART: list[str] = []


def test_what_is_said_of_a_stop_is_true(world, usual):
    with kill.copied(world / "ahead") as root:
        ended = run(root, type_in("update"), Blow(signal.SIGINT, at=step(usual, "started archive")))
        assert ended.code == 130
        assert ended.said == "\nStopped. Nothing was changed: your notebooks are as they were.\n"
        ended = run(root, type_in("update"), Blow(signal.SIGTERM, at=step(usual, "replace 2")))
        assert ended.code == 0 and kill.settled(root) == []
        assert "You asked to stop while this was being written; it was finished first." in ended.said


def test_a_full_disk_stops_an_update_before_it_changes_anything(world, usual):
    """At every step that writes, from there on."""
    first, last = step(usual, "open journal.json"), step(usual, "unlink old.txt")
    writing = ("mkdir", "fsync", "open .labkit")
    tried = 0
    for at in range(first, last):
        if not usual.steps[at - 1].startswith(writing):
            continue
        with kill.copied(world / "ahead") as root:
            before = contents(root)
            ended = run(root, type_in("update"), Blow(at=at, full=True))
            if ended.code == 0:  # only the flushing of a folder, which is not worth failing for
                assert kill.settled(root) == []
                continue
            assert (
                ended.code == 2 and "No space left on device" in ended.said and "Traceback" not in ended.said
            )
            assert "Nothing was changed: your notebooks are as they were." in ended.said
            assert contents(root) == before and kill.leftovers(root) == []
            tried += 1
    assert tried > 10


@pytest.mark.parametrize("number", SIGNALS)
def test_a_reset_that_is_broken_off_leaves_the_old_notebook_or_the_new_one(world, number):
    steps = kill.measure(world, "reset", "ahead").steps
    writes = [at for at, name in enumerate(steps, 1) if name.startswith(("replace", "fsync", "open .labkit"))]
    tally = Tally()
    for at in writes:
        kill.try_reset(world, "ahead", Blow(number, at=at), [], tally)
    assert tally.wrong == []


def test_a_full_disk_stops_a_reset(world):
    steps = kill.measure(world, "reset", "ahead").steps
    tally = Tally()
    for at in range(1, len(steps) + 1):
        kill.try_reset(world, "ahead", Blow(at=at, full=True), [], tally)
    assert tally.wrong == [] and tally.hit > 5


def test_a_notebook_saved_while_the_update_runs_is_not_overwritten(world, monkeypatch):
    """Another editor saves between the merge and the writing: that stays, and is merged next time."""
    with kill.copied(world / "ahead") as root:
        path = root / FIRST
        usual_journal = changes._write_journal

        def save_meanwhile(course, journal):
            usual_journal(course, journal)
            if journal["step"] == "apply":
                path.write_text(path.read_text().replace("LINE-A", "LINE-NEW"))

        with monkeypatch.context() as patch:
            patch.setattr(changes, "_write_journal", save_meanwhile)
            ended = run(root, type_in("update"))
        assert ended.code == 0 and f"{FIRST} was saved by another program meanwhile" in ended.said
        assert "LINE-NEW" in path.read_text() and "elements?" not in path.read_text()
        ended = run(root, type_in("update"))
        assert "LINE-NEW" in path.read_text() and "elements?" in path.read_text()
        assert kill.lost(root, {FIRST: LINES[FIRST]}, in_backups=True) == []


def test_what_finishes_updates_is_replaced_last(world):
    """An update killed in between leaves a labkit that can finish it, whatever else of it is new."""
    there = [kill.REPOSITORY / name for name in changes.FINISHERS]
    assert all(path.exists() for path in there)
    code = "import sys, labkit.__main__, labkit.paths, labkit.book.changes; print(*sys.modules)"
    loaded = kill.subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {name for name in loaded.stdout.split() if name.split(".")[0] == "labkit"}
    files = {sys.modules[name].__file__ if name in sys.modules else name for name in ours}
    assert files <= {str(path) for path in there}

    made = {
        name: changes.Change(None, b"") for name in ("labkit/paths.py", "weeks/a.ipynb", "labkit/ops/a.py")
    }
    made["labkit/grade/b.py"] = changes.Change(b"", None)
    names = sorted(made, key=lambda name: changes._order(Path(name), made[name]))
    assert names[0] == "labkit/grade/b.py" and names[-1] == "labkit/paths.py"


def contents(root: Path) -> dict[Path, bytes]:
    """Every file of the course, and where git stands."""
    files = {
        path: path.read_bytes() for path in root.rglob("*") if path.is_file() and ".git/" not in str(path)
    }
    kept = {path: data for path, data in files.items() if not path.is_relative_to(root / "backups")}
    return {path: data for path, data in kept.items() if "progress" not in path.parts} | {
        root: kill.git(root, "rev-parse", "HEAD").encode()
    }
