"""Git merges lessons by cell: the merge driver, and how git is told about it."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from labkit.book import disk
from labkit.book.git import git
from labkit.book.learner import Problem, read_learner, version_key
from labkit.book.merge import is_untouched, merge
from labkit.book.notebook import Notebook, labkit_of, write
from labkit.book.work import here

ATTRIBUTES = ("weeks/**/*.ipynb merge=labkit", "solutions/**/*.ipynb merge=labkit linguist-generated")


def merge_driver(base: Path, ours: Path, theirs: Path, say: Callable[[str], None] = print) -> int:
    """Git's merge driver (`%O %A %B`): the result goes into `ours`; returns 0, or 1 for a conflict.

    The side nobody worked in is the release, whichever way git merges. When both hold work, ours stays as it
    is, still a notebook that opens, and git reports the conflict. A solution is generated: theirs is
    taken, and `make build` runs it again if it is not what the merged source gives.
    """
    before, mine, other = (read_learner(path, release="999") for path in (base, ours, theirs))
    if isinstance(mine, Problem) or isinstance(other, Problem):
        say("A side of the merge is not a readable notebook; ours was kept.")
        return 1
    if "executed" in labkit_of(mine):
        shutil.copyfile(theirs, ours)
        say("A solution notebook is generated; theirs was taken. Run `make build` when the merge is done.")
        return 0
    if is_untouched(mine) and is_untouched(other):
        releases = [version_key(labkit_of(nb).get("release", "0")) for nb in (mine, other)]
        result, log = (mine, list[str]()) if releases[0] > releases[1] else (other, [])
    elif is_untouched(other):
        result, log = merge(other, mine, _ids(mine) - _ids(before))
    elif is_untouched(mine):
        result, log = merge(mine, other, _ids(other) - _ids(before))
    else:
        say("Both sides hold work in this notebook; ours was kept. Theirs: git show MERGE_HEAD:<file>")
        return 1
    write(ours, result)
    for line in log:
        say(line)
    return 0


def _ids(nb: Notebook | Problem) -> set[str]:
    """The released cells in a notebook; those that the common version lacks were pasted from elsewhere."""
    return set() if isinstance(nb, Problem) else {labkit_of(cell).get("id", "") for cell in nb["cells"]}


def install_merge_driver(root: Path) -> bool:
    """Tell git to merge lessons by cell; False if `root` is not a git work tree."""
    inside = ["git", "-C", str(root), "rev-parse", "--is-inside-work-tree"]
    if shutil.which("git") is None or subprocess.run(inside, capture_output=True).returncode != 0:
        return False
    python = Path(sys.executable).as_posix()
    settings = {
        "name": "labkit notebooks, cell by cell",
        "driver": f'"{python}" -m labkit merge-driver %O %A %B',
    }
    for name, value in settings.items():
        _configure(root, f"merge.labkit.{name}", value)
    path = root / ".gitattributes"
    before = disk.content(path)
    lines = (before or b"").decode("utf-8").splitlines()
    missing = [line for line in ATTRIBUTES if line not in lines]
    if missing:
        disk.write_bytes(path, ("\n".join([*lines, *missing]) + "\n").encode(), expected=before)
    return True


def _configure(root: Path, name: str, value: str) -> None:
    """Set one of git's settings, unless it is set: each time git writes its settings it takes a lock."""
    known = subprocess.run(["git", "-C", str(root), "config", name], capture_output=True, text=True)
    if known.stdout.rstrip("\n") != value:
        git(root, "config", name, value)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("labkit merge-driver", description=__doc__)
    parser.add_argument("--install", action="store_true", help="tell git to use it in this course")
    parser.add_argument("files", nargs="*", type=Path, metavar="%O %A %B")
    options = parser.parse_args(argv)
    if options.install:
        return 0 if install_merge_driver(here().folder) else 1
    if len(options.files) != 3:
        parser.error("git gives three files: %O %A %B")
    return merge_driver(*options.files)
