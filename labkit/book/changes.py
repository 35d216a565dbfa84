"""Put many files in place so that nothing is lost, whenever it is broken off.

1. Everything new is laid out in `backups/unfinished/`, complete and flushed. Nothing of the learner's is
   touched; whoever stops here has changed nothing.
2. A journal that lists the files is written beside it.
3. Each file takes its place in one step, and git is told. A file that another program saved meanwhile stays
   as it is.

A journal that is still there belongs to a command that died: the next command finishes its step 3, which
needs no network and hardly any room on the disk, or, if it died before, throws its preparations away.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.book import disk
from labkit.book.disk import UpdateError
from labkit.book.git import git, git_folder, remove_stale_locks

Say = Callable[[str], None]
# All that has to be imported before an update can be finished; none of it imports anything else of labkit.
FINISHERS = (
    *("labkit/__init__.py", "labkit/__main__.py", "labkit/lazy.py", "labkit/paths.py"),
    *("labkit/book/__init__.py", "labkit/book/changes.py", "labkit/book/disk.py", "labkit/book/git.py"),
)
NOTHING_CHANGED = "Nothing was changed: your notebooks are as they were."


@dataclass(frozen=True)
class Change:
    """A file before and after; None: there is none. `words` are said when it is done."""

    old: bytes | None
    new: bytes | None
    words: str = ""
    executable: bool = False


@dataclass(frozen=True)
class Move:
    """Where git stands before and after, and the lines for `git update-index` that lead there."""

    old: str
    new: str
    index: str


@dataclass
class Done:
    """What came of it: the files that changed, and what there is to say."""

    changed: list[Path] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def folder_of(root: Path) -> Path:
    return root / "backups" / "unfinished"


def journal_of(root: Path) -> Path:
    return folder_of(root) / "journal.json"


@contextlib.contextmanager
def preparing(root: Path) -> Iterator[Path]:
    """A folder for what is being prepared, with a journal that says that nothing was changed yet."""
    folder = folder_of(root)
    disk.remove_tree(folder)  # of somebody who died before writing a journal
    try:
        _write_journal(root, {"step": "prepare", "at": time.time()})
        yield folder
    except BaseException as error:
        if (_read_journal(root) or {}).get("step") != "apply":
            _discard(root)
            error.add_note(NOTHING_CHANGED)
        raise
    _discard(root)


def apply(root: Path, changes: dict[Path, Change], move: Move | None, saved: Path | None) -> Done:
    """Steps 1 to 3, inside of `preparing`. `saved` is where the learner's files as they were are."""
    files = []
    in_order = sorted(changes.items(), key=lambda item: _order(item[0].relative_to(root), item[1]))
    for number, (path, change) in enumerate(in_order):
        if change.new is not None:
            staged = folder_of(root) / "new" / str(number)
            disk.write_bytes(staged, change.new)
            _set_mode(staged, path, change.executable)
            with contextlib.suppress(FileExistsError, NotADirectoryError):  # a file that will become a folder
                disk.make_folder(path.parent)  # now: it needs room on the disk
        name = path.relative_to(root).as_posix()
        digests = {"old": _digest(change.old), "new": _digest(change.new)}
        files.append({"path": name, "words": change.words, **digests})
    journal = {
        "step": "apply",
        "at": time.time(),
        "saved": saved.relative_to(root).as_posix() if saved else None,
        "files": files,
        "git": move and vars(move),
    }
    with disk.undisturbed() as came:
        _write_journal(root, journal)
        done = _put_in_place(root, journal)
    if came:
        done.words.append("You asked to stop while this was being written; it was finished first.")
    return done


def _order(name: Path, change: Change) -> tuple[bool, bool]:
    """What goes first: files that are removed (a folder may become a file), and last what finishes updates.

    So a command that dies in between leaves a labkit that can finish, whatever else of it is new already.
    """
    return name.as_posix() in FINISHERS, change.new is not None


def finish_unfinished(root: Path, say: Say = print) -> bool:
    """If a command died while it changed notebooks: finish what it began, and say so.

    Returns whether labkit itself is another one now. While another command is at work its journal is left
    alone, and nothing is said.
    """
    if not journal_of(root).exists():
        return False
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(disk.changing(root, wait=0))
        except UpdateError:
            return False
        try:
            return finish(root, say)
        except UpdateError as error:
            say(str(error))
            return False


def finish(root: Path, say: Say) -> bool:
    """`finish_unfinished` for whoever is the only one changing notebooks already."""
    journal = _read_journal(root)
    if journal is None:
        return False
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(journal["at"]))
    locks = remove_stale_locks(root, journal["at"])
    if journal["step"] == "prepare":
        _discard(root)
        say(f"The update of {when} was broken off before it changed anything. `make update` tries again.")
    else:
        with disk.undisturbed():
            done = _put_in_place(root, journal)
            _discard(root)
        say(f"The update of {when} was broken off while it wrote. It has been finished now.")
        if journal["saved"]:
            say(f"Your notebooks as they were: {journal['saved']}/")
        for words in done.words:
            say(words)
    for lock in locks:
        say(f"The git that died had left {lock.name} behind; it was removed.")
    names = [file["path"] for file in journal.get("files", ())]
    return any(name.startswith("labkit/") and name.endswith(".py") for name in names)


def _put_in_place(root: Path, journal: dict[str, Any]) -> Done:
    """Step 3. What is in its place already is left there, so it can be done again."""
    done = Done()
    folders = set()
    for number, file in enumerate(journal["files"]):
        path = root / file["path"]
        now = _digest_of(path)
        if now not in (file["old"], file["new"]):
            done.words.append(
                f"{file['path']} was saved by another program meanwhile, so it stays as it is. "
                "`make update` merges it when nobody else is writing."
            )
            continue
        if now != file["new"]:
            try:
                _replace(folder_of(root) / "new" / str(number), path, file["new"] is None)
            except OSError as error:
                raise _not_finished(f"{error.strerror}: {file['path']}") from None
            folders.add(path.parent)
        done.changed.append(path)
        if file["words"]:
            done.words.append(file["words"])
    for folder in folders:
        disk.flush_folder(folder)
    if journal["git"]:
        done.words += _tell_git(root, Move(**journal["git"]))
    return done


def _replace(staged: Path, path: Path, remove: bool) -> None:
    if remove:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.parent.rmdir()  # if it is empty now, as git does it
        return
    disk.make_folder(path.parent)
    try:
        os.replace(staged, path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        disk.write_bytes(path, staged.read_bytes())  # `weeks/` or `backups/` is on another disk


def _tell_git(root: Path, move: Move) -> list[str]:
    """Move the branch and what git takes for the state of the files. Nothing is written in the course."""
    try:
        head = git(root, "rev-parse", "HEAD").strip()
        if head == move.new:
            return []
        if head != move.old:
            return ["Git's branch has moved on meanwhile. `make update` merges the release into it."]
        if move.index:
            git(root, "update-index", "-z", "--index-info", given=move.index)
        git(root, "update-ref", "-m", "labkit update", "HEAD", move.new, move.old)
    except (UpdateError, OSError) as error:
        raise _not_finished(str(error)) from None
    return []


def _not_finished(why: str) -> UpdateError:
    return UpdateError(
        f"The update could not be finished yet. {why}\n"
        "Nothing is lost: every file is whole, and your notebooks as they were are in backups/. "
        "The next command goes on with it."
    )


def _discard(root: Path) -> None:
    """Throw away what was prepared. Git's work tree goes first, since git keeps a record of it."""
    folder = folder_of(root)
    with disk.undisturbed():
        for tree in folder.glob("tree-*"):
            disk.remove_tree(tree)
        if (root / ".git").exists():
            records = git_folder(root)
            if records and any(records.glob("worktrees/tree-*")):
                with contextlib.suppress(UpdateError):
                    git(root, "worktree", "prune")
        with contextlib.suppress(OSError):
            journal_of(root).unlink()  # what is left without one is rubbish
            disk.flush_folder(folder)
        disk.remove_tree(folder)


def _write_journal(root: Path, journal: dict[str, Any]) -> None:
    disk.write_bytes(journal_of(root), json.dumps(journal, indent=1).encode())


def _read_journal(root: Path) -> dict[str, Any] | None:
    try:
        journal: dict[str, Any] = json.loads(disk.read_bytes(journal_of(root)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UpdateError(
            f"{journal_of(root)} cannot be read ({error}). It tells of an update that was broken off.\n"
            "Your notebooks as they were are in backups/. Move that file away, then try again."
        ) from None
    return journal


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _digest_of(path: Path) -> str | None:
    try:
        return _digest(disk.content(path))
    except OSError:
        return "unreadable"  # a folder, a pipe, no permission: not what it was


def _set_mode(staged: Path, path: Path, executable: bool) -> None:
    """As the file had it that is replaced; of a new file everybody may run what git says can be run."""
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode if path.exists() else staged.stat().st_mode)
        os.chmod(staged, mode | (mode & 0o444) >> 2 if executable else mode)
