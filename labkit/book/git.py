"""Git as `make update` uses it: asked for facts, told about results, never let near a learner's notebook."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

from labkit.book.disk import UpdateError

LOCK_SECONDS = 5  # how long another git may hold a lock
OLD_LOCK_SECONDS = 60  # where running processes cannot be listed: a lock this old belongs to nobody
# No cleaning up in the background, no hooks and no watching process: nothing of ours outlives the command.
QUIET = ("gc.auto=0", "maintenance.auto=false", "core.hooksPath=/dev/null", "core.fsmonitor=false")


def git(root: Path, *arguments: str, given: str | None = None, alone: bool = True) -> str:
    """What git prints. `alone`: Control-C in the terminal does not reach it; it cannot ask for a password."""
    options = [part for setting in QUIET for part in ("-c", setting)]
    command = ["git", "-C", str(root), *options, *arguments]
    until = time.monotonic() + LOCK_SECONDS
    while True:
        code, out, err = _run(command, given, alone)
        if code == 0:
            return out
        lock = re.search(r"'([^'\n]+\.lock)'", err)
        if lock is None or not ("File exists" in err or (root / lock[1]).exists()):
            reason = (err or out).strip()
            raise UpdateError(f"git {arguments[0]} failed; your notebooks are as they were.\n{reason}")
        if time.monotonic() > until:
            raise UpdateError(
                f"Another git is at work in this course, or one that died has left {lock[1]} behind.\n"
                "If none is running, delete that file, then try again. Your notebooks are as they were."
            )
        time.sleep(0.2)


def _run(command: list[str], given: str | None, alone: bool) -> tuple[int, str, str]:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if given is not None else subprocess.DEVNULL if alone else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=alone,
            encoding="utf-8",
            errors="surrogateescape",
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # who only asks for facts takes no lock
        )
    except FileNotFoundError:
        raise UpdateError(
            "git is not installed, or not to be found. Install it; or take the new release as a folder:\n"
            "python -m labkit update --from FOLDER"
        ) from None
    with process:
        try:
            out, err = process.communicate(given)
        except BaseException:
            end(process)
            raise
    return process.returncode, out, err


def end(process: subprocess.Popen[str]) -> None:
    """End a git so that it removes its lock files: asked first, killed if it does not listen."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()


def remove_stale_locks(root: Path, since: float) -> list[Path]:
    """Remove the lock files that a killed git of ours left behind; returns them.

    Ours are those made since the update began, and only while no git runs in this course.
    """
    folder = git_folder(root)
    if folder is None or is_git_running(root, folder) is True:
        return []
    removed = []
    for path in [*folder.glob("*.lock"), *folder.glob("refs/**/*.lock")]:
        with contextlib.suppress(OSError):
            made = path.stat().st_mtime
            sure = is_git_running(root, folder) is False or time.time() - made > OLD_LOCK_SECONDS
            if made >= since - 1 and sure:
                path.unlink()
                removed.append(path)
    return removed


def git_folder(root: Path) -> Path | None:
    """Where git keeps what it knows of this course; None without git."""
    try:
        return (root / git(root, "rev-parse", "--git-common-dir").rstrip("\n")).resolve()
    except UpdateError:
        return None


def is_git_running(root: Path, folder: Path) -> bool | None:
    """Whether some git runs in the course; None where processes cannot be listed."""
    places = (root.resolve(), folder)
    running = Path("/proc/self").exists()
    for process in Path("/proc").glob("[0-9]*") if running else ():
        try:
            named = (process / "comm").read_text(errors="replace").startswith("git")
            if named and any(Path(os.readlink(process / "cwd")).is_relative_to(place) for place in places):
                return True
        except OSError:  # it has ended, or is another user's
            continue
    return False if running else None
