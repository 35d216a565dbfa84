"""Bring a new release into a learner's notebooks: backup, merge, and a line for everything that happened.

Git never writes into the course. It fetches, and merges in a folder of its own; what comes of it is put in
place file by file (`changes.py`). There is no moment at which a notebook lacks what its learner wrote.
"""

import argparse
import json
import os
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from labkit.book import disk
from labkit.book.changes import Change, Done, Move, Say, apply, finish, preparing
from labkit.book.disk import UpdateError as UpdateError
from labkit.book.driver import install_merge_driver
from labkit.book.git import git, git_folder
from labkit.book.learner import Problem, read_with_bytes
from labkit.book.merge import merge
from labkit.book.notebook import Notebook, encoded, labkit_of, loads
from labkit.book.work import here

Plan = dict[Path, Change]
NOTHING_NEW = "Everything is up to date."


def update(root: Path, release_dir: Path, force: bool = False, say: Say = print) -> list[Path]:
    """Merge the notebooks of `release_dir/weeks` into `root/weeks`; returns the files that changed.

    Every file that will change is copied to `backups/<time>/` first. Refuses while one of them is open in a
    running Jupyter, unless `force`. Files that cannot be read are left alone and named.
    """
    files = sorted(release_dir.glob("weeks/*/*.ipynb"))
    releases = {path.relative_to(release_dir): disk.read_bytes(path) for path in files}
    if not releases:
        raise UpdateError(f"{release_dir} holds no weeks/*/*.ipynb, so it is not a release of the course.")
    with disk.changing(root):
        finish(root, say)
        with preparing(root):
            plan = _plan(root, releases, say)
            refuse_if_open(root, [path for path in plan if path.exists()], force)
            saved, done = _carry_out(root, plan, {}, None)
    return _tell(root, plan, saved, done, say)


def update_from_git(root: Path, force: bool = False, say: Say = print) -> list[Path]:
    """Fetch the course's next version and merge it; the learner's notebooks need not be committed.

    If git cannot merge, nothing was changed.
    """
    with disk.changing(root):
        finish(root, say)
        with preparing(root) as folder:
            install_merge_driver(root)
            plan, others, move = _prepared(root, folder, say)
            refuse_if_open(root, [path for path in plan if path.exists()], force)
            modified = [root / name for name in _modified(root) if name.startswith("weeks/")] if move else []
            saved, done = _carry_out(root, plan, others, move, modified)
    return _tell(root, plan, saved, done, say)


def _prepared(root: Path, folder: Path, say: Say) -> tuple[Plan, Plan, Move | None]:
    """What the next version changes: notebooks, the other files of the course, and where git stands."""
    git(root, "fetch", "--quiet", alone=False)
    new, old = _upstream(root), git(root, "rev-parse", "HEAD").strip()
    if git(root, "rev-list", "--count", f"{old}..{new}").strip() == "0":
        back = _missing(root, folder)
        releases = _released(_archive(root, new, folder))
        found = _plan(root, {name: data for name, data in releases.items() if root / name not in back}, say)
        return back | found, {}, None
    target = _merged(root, old, new, folder)
    plan = _plan(root, _released(_archive(root, new, folder)), say)
    others, index = _course_files(root, old, target, _archive(root, target, folder), set(plan), say)
    return plan, others, Move(old, target, index)


def _carry_out(
    root: Path, plan: Plan, others: Plan, move: Move | None, also: Iterable[Path] = ()
) -> tuple[Path | None, Done]:
    """Copy the notebooks as they are, those in `also` too, and put the new ones in their place."""
    if not plan and not others and move is None:
        return None, Done()
    contents = {path: change.old for path, change in plan.items() if change.old is not None}
    contents |= {path: disk.read_bytes(path) for path in also if path not in contents and path.is_file()}
    saved = disk.backup_of(root, contents) if contents else None
    return saved, apply(root, {**plan, **others}, move, saved)


def _tell(root: Path, plan: Plan, saved: Path | None, done: Done, say: Say) -> list[Path]:
    disk.sweep((root / "weeks").glob("*/"))
    if saved:
        say(f"Your notebooks as they were: {saved.relative_to(root)}/")
    for words in done.words:
        say(words)
    if not done.words:
        say(NOTHING_NEW)
    return [path for path in done.changed if path in plan]


# notebooks


def _plan(root: Path, releases: dict[Path, bytes], say: Say) -> Plan:
    """Each released notebook merged with the learner's, where that makes a difference."""
    notebooks = {name: loads(data.decode("utf-8")) for name, data in releases.items()}
    owner = {cell["id"]: name for name, nb in notebooks.items() for cell in nb["cells"]}
    plan: Plan = {}
    for name, release in notebooks.items():
        others = {id for id, home in owner.items() if home != name}
        change = _merge_one(root / name, name, release, others, say)
        if change is not None:
            plan[root / name] = change
    return plan


def _merge_one(path: Path, name: Path, release: Notebook, others: set[str], say: Say) -> Change | None:
    old, learner = read_with_bytes(path, release=str(labkit_of(release).get("release")))
    if isinstance(learner, Problem) and learner.kind == "missing":
        return Change(None, encoded(release), _told(name, ["new lesson"]))
    if isinstance(learner, Problem):
        say(f"{name}: left alone. {learner.sentence}")
        return None
    merged, log = merge(release, learner, others)
    return Change(old, encoded(merged), _told(name, log)) if encoded(merged) != old else None


def _told(name: Path, log: list[str]) -> str:
    return "\n  ".join([f"{name}:", *log])


# git


def _upstream(root: Path) -> str:
    folder = git_folder(root)
    if folder is not None and (folder / "MERGE_HEAD").exists():
        raise UpdateError(
            "A git merge of yours is not finished here. Commit it, or undo it with `git merge --abort`; "
            "then try again. Nothing was changed."
        )
    try:
        return git(root, "rev-parse", "@{upstream}").strip()
    except UpdateError as error:
        raise UpdateError(
            f"{error}\nGit does not know where new versions come from. If it is the branch main of origin: "
            "`git branch --set-upstream-to=origin/main`"
        ) from None


def _modified(root: Path) -> list[str]:
    """What differs from the last commit, by git's rules: changed, deleted or staged."""
    return git(root, "diff", "--name-only", "--no-renames", "-z", "HEAD").split("\0")[:-1]


def _merged(root: Path, old: str, new: str, folder: Path) -> str:
    """The commit to go to: the new version, or a merge of it with the learner's own commits.

    Git makes that merge in a work tree of its own. It sees what was committed, and touches nothing else.
    """
    if git(root, "merge-base", old, new).strip() == old:
        return new
    tree = folder / f"tree-{os.getpid()}"
    git(root, "worktree", "prune")
    git(root, "worktree", "add", "--quiet", "--detach", str(tree), old)
    try:
        git(tree, "merge", "--quiet", "--no-edit", new)
    except UpdateError as error:
        raise UpdateError(
            f"{error}\nWhat you committed and the new version do not go together by themselves. "
            "`git merge @{upstream}` lets you settle it by hand."
        ) from None
    return git(tree, "rev-parse", "HEAD").strip()


def _archive(root: Path, commit: str, folder: Path) -> Path:
    """All files of a commit, as git would write them here."""
    path = folder / f"{commit}.tar"
    if not path.exists():
        git(root, "archive", "--format=tar", f"--output={path}", commit)
    return path


def _released(archive: Path) -> dict[Path, bytes]:
    """The notebooks of a commit, by their path in the course."""
    with tarfile.open(archive) as files:
        names = [name for name in files.getnames() if Path(name).match("weeks/*/*.ipynb")]
        return {Path(name): _data(files, name)[0] for name in sorted(names)}


def _data(files: tarfile.TarFile, name: str) -> tuple[bytes, bool]:
    """What a file of a commit holds, and whether it can be run."""
    member = files.getmember(name)
    stream = files.extractfile(member) if member.isreg() else None
    if stream is None:
        raise UpdateError(f"The new version has a link at {name}, which `make update` cannot bring here.")
    return stream.read(), bool(member.mode & 0o100)


def _missing(root: Path, folder: Path) -> Plan:
    """The notebooks that somebody deleted, from the last commit."""
    names = git(root, "ls-files", "--deleted", "-z", "--", "weeks").split("\0")[:-1]
    if not names:
        return {}
    with tarfile.open(_archive(root, git(root, "rev-parse", "HEAD").strip(), folder)) as files:
        known = set(files.getnames())
        back = {name: _data(files, name)[0] for name in names if name in known}
    words = "was missing and is back, as git has it."
    return {root / name: Change(None, data, f"{name} {words}") for name, data in back.items()}


def _course_files(
    root: Path, old: str, new: str, archive: Path, planned: set[Path], say: Say
) -> tuple[Plan, str]:
    """The files besides the learner's notebooks that differ between two commits, and git's index for all.

    Refuses where somebody has changed one of them outside of `weeks/`. What is staged stays staged.
    """
    differ = _between(root, old, new)
    before = {name: disk.content(root / name) for name in differ}  # read before git says what is modified
    modified = set(_modified(root))
    known = set(git(root, "ls-tree", "-r", "--name-only", "-z", old).split("\0")[:-1])
    staged = set(git(root, "diff-index", "--cached", "--name-only", "-z", old).split("\0")[:-1])
    changes: Plan = {}
    index, refused = list[str](), list[str]()
    with tarfile.open(archive) as files:
        for name, entry in differ.items():
            learners = name.startswith("weeks/")
            if not (learners and name in staged):
                index.append(f"{entry}\t{name}\0")
            if root / name in planned or (learners and name in files.getnames() and name.endswith(".ipynb")):
                continue  # the learner's notebook is right as it is, or the plan has it
            data, executable = _data(files, name) if name in files.getnames() else (None, False)
            touched = name in modified or name not in known
            if before[name] is None or before[name] == data or not touched:
                changes[root / name] = Change(before[name], data, executable=executable)
            elif learners:
                say(f"{name}: left as you have it; the new version has another, or has it no more.")
            else:
                refused.append(name)
    if refused:
        raise UpdateError(
            f"Changed by you, and by the new version too: {', '.join(refused)}. Your notebooks are as they "
            "were.\nKeep a copy of your version elsewhere; `git checkout HEAD -- FILE` puts the course's "
            "back. Then try again."
        )
    return changes, "".join(index)


def _between(root: Path, old: str, new: str) -> dict[str, str]:
    """The files that differ between two commits, each with its new mode and object as the index wants it."""
    words = git(root, "diff-tree", "-r", "-z", "--raw", "--no-renames", old, new).split("\0")[:-1]
    found = {}
    for about, name in zip(words[::2], words[1::2], strict=True):
        _, mode, _, object, _ = about.lstrip(":").split()
        found[name] = f"{mode} {object}" if int(mode, 8) else f"0 {object}"
    return found


# notebooks that are open in Jupyter


def refuse_if_open(root: Path, files: Iterable[Path], force: bool = False) -> None:
    """Raise `UpdateError` if Jupyter has one of the files open: it would offer to overwrite what we write."""
    if force:
        return
    wanted = {path.resolve() for path in files}
    opened = sorted(wanted & open_notebooks())
    if opened:
        names = ", ".join(str(path.relative_to(root.resolve())) for path in opened)
        raise UpdateError(
            f"Open in Jupyter: {names}. Save, close it and shut down its kernel, then try again."
        )


def open_notebooks() -> set[Path]:
    """The notebooks that a Jupyter server of this user has open: with a kernel, or in a window of ours."""
    found: set[Path] = set()
    for url, token, top in servers():
        try:
            found |= {(top / name).resolve() for name in [*_sessions(url, token), *_windows(url, token)]}
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a server that is gone leaves its file behind
    return found


def servers() -> Iterator[tuple[str, str, Path]]:
    """(address, token, folder) of the Jupyter servers of this user; some of them may be gone."""
    from jupyter_core.paths import jupyter_runtime_dir

    for info in sorted(Path(jupyter_runtime_dir()).glob("*server-*.json")):
        try:
            server = json.loads(info.read_text(encoding="utf-8"))
            yield (
                server["url"],
                server.get("token", ""),
                Path(server.get("root_dir") or server["notebook_dir"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not a file of Jupyter's, or half written


def _sessions(url: str, token: str) -> list[str]:
    found = _ask(f"{url}api/sessions", token)
    return [session["path"] for session in found if session.get("type", "notebook") == "notebook"]


def _windows(url: str, token: str) -> list[str]:
    """What the labkit panel knows: a notebook may be open without a kernel."""
    try:
        return list(_ask(f"{url}labkit/api/open", token)["paths"])
    except urllib.error.HTTPError:  # a server without the panel
        return []


def has_panel(url: str, token: str) -> bool:
    """Whether a server answers, and was started by `make lab`."""
    try:
        return "paths" in _ask(f"{url}labkit/api/open", token)
    except (OSError, ValueError, TypeError):
        return False


def _ask(address: str, token: str) -> Any:
    request = urllib.request.Request(address, headers={"Authorization": f"token {token}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback, never through a proxy
    with opener.open(request, timeout=3) as reply:
        return json.load(reply)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("labkit update", description=__doc__)
    parser.add_argument(
        "--from", dest="release", type=Path, help="folder of the new release; default: ask git"
    )
    parser.add_argument("--force", action="store_true", help="even if a notebook is open in Jupyter")
    options = parser.parse_args(argv)
    try:
        with disk.ending_in_order():
            if options.release:
                update(here().folder, options.release, options.force)
            else:
                update_from_git(here().folder, options.force)
    except UpdateError as error:
        print(error, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, disk.Terminated) as stopped:
        print("\nStopped.", *getattr(stopped, "__notes__", ()), file=sys.stderr)
        return stopped.number if isinstance(stopped, disk.Terminated) else 130
    return 0
