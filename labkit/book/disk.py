"""Write files so that a kill, a full disk or a power cut leaves the old file or the new one, each whole.

The new bytes go to a temporary file beside the old one, are flushed to the disk, and take its name in one
step. Whoever has read a file before writing it says what was in it: if another program has saved the file
since, it is not replaced.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import signal
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType

try:
    import fcntl
except ImportError:  # Windows: two commands at once are not kept apart there
    fcntl = None  # type: ignore[assignment]

ANYTHING = b"\0 whatever is there"  # for `expected`: the file may hold anything
WAIT_SECONDS = 10
_numbers = itertools.count()


class UpdateError(Exception):
    """Why nothing was changed, and what to do."""


class ChangedMeanwhile(UpdateError):
    """Another program saved the file while it was being worked on; what that program wrote is kept."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was saved by another program meanwhile and is left as it is. Try again.")


def read_bytes(path: Path) -> bytes:
    """What a file holds. A pipe or a device, which might never end, is refused."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:  # refuses a folder
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "it is not a regular file", str(path))
        return file.read()


def content(path: Path) -> bytes | None:
    """What a file holds; None if there is none."""
    try:
        return read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_bytes(path: Path, data: bytes, expected: bytes | None = ANYTHING) -> bool:
    """Give a file new bytes, and say whether they differ from the old ones.

    `expected` is what the file held when it was read, None if there was no file. Raises `ChangedMeanwhile`
    if it holds something else by now.
    """
    if expected is ANYTHING and path.is_file() and read_bytes(path) == data:
        return False
    make_folder(path.parent)
    temporary = path.with_name(_temporary_name())
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # no old file, or a file system without permissions
            os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
        if expected is not ANYTHING and (now := content(path)) != expected:
            if now == data:
                return False
            raise ChangedMeanwhile(path)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # if something went wrong: after the replacement it is gone
    flush_folder(path.parent)
    return expected != data


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, for good: a new name is flushed with the folder that holds it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        flush_folder(each.parent)


def flush_folder(folder: Path) -> None:
    """Names are flushed with the folder that holds them, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _temporary_name() -> str:
    return f".labkit-{os.getpid()}-{next(_numbers)}.tmp"


def sweep(folders: Iterable[Path]) -> None:
    """Remove the temporary files and folders of commands that were killed while they wrote."""
    for folder in folders:
        for path in folder.glob(".labkit-*.tmp"):
            found = re.match(r"\.labkit-(\d+)-", path.name)
            if found and not _is_running(int(found[1])):
                with contextlib.suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0) if os.name == "posix" else None
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


# backups


def backup_of(root: Path, contents: dict[Path, bytes]) -> Path:
    """Write what files hold into a new folder `backups/<time>/`, under their path in the course.

    The copies are on the disk when it returns, and a folder with such a name is complete: it gets the name
    last. Of two commands at the same time each has a folder of its own.
    """
    home = root / "backups"
    make_folder(home)
    sweep([home])
    folder = home / _temporary_name()
    try:
        for path, data in contents.items():
            write_bytes(folder / path.relative_to(root), data)
        return _named_by_time(folder)
    except BaseException:
        remove_tree(folder)
        raise


def _named_by_time(folder: Path) -> Path:
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    for number in range(1, 10_000):
        named = folder.with_name(stamp if number == 1 else f"{stamp}-{number}")
        with contextlib.suppress(FileExistsError, PermissionError):  # Windows says the latter
            try:
                os.rename(folder, named)  # never over a folder that has something in it
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                continue
            flush_folder(named.parent)
            return named
    raise OSError(errno.EEXIST, "there are too many backups of this second", str(folder.parent))


def remove_tree(folder: Path) -> None:
    """Remove a folder of ours with everything in it, as far as that can be done."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # `backups/`, if nothing else is in it
        folder.parent.rmdir()


# one at a time, and stopped only between two steps


@contextlib.contextmanager
def changing(root: Path, wait: float = WAIT_SECONDS) -> Iterator[None]:
    """Be the only command that changes notebooks of this course.

    The folder `weeks/` itself is locked, so nothing is left behind by a command that dies.
    """
    descriptor = _locked(root / "weeks", wait)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _locked(folder: Path, wait: float) -> int | None:
    """An open, locked folder; None where folders cannot be locked."""
    if fcntl is None or not folder.is_dir():
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    until = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(0.05)
                continue
            os.close(descriptor)
            words = "Another labkit command is changing the notebooks. Wait until it is done, then try again."
            raise UpdateError(words) from None
        except OSError:  # some network file systems lock no folders
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise


class Terminated(SystemExit):
    """The system asked this command to end: SIGTERM, or SIGHUP when a terminal is closed."""

    def __init__(self, signal: int) -> None:
        self.number = 128 + signal  # what a shell reports of a command that a signal ended
        super().__init__(self.number)


_ASKED = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `Terminated`, so that what is under way is cleaned up."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated(number)

    with _handling(_ASKED, end):
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[list[int]]:
    """Control-C, SIGTERM and SIGHUP wait until the block is done; yields those that came."""
    came: list[int] = []
    with _handling((signal.SIGINT, *_ASKED), lambda number, frame: came.append(number)):
        yield came


@contextlib.contextmanager
def _handling(numbers: Iterable[int], handler: object) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there Python hears of signals
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: old for number, old in before.items() if old not in (None, signal.SIG_IGN)}  # nohup
    try:
        for number in before:
            signal.signal(number, handler)  # type: ignore[arg-type]
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
