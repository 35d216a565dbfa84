"""Bring a new release into a learner's notebooks: backup, merge, and a line for everything that happened."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from labkit import paths
from labkit.book.driver import install_merge_driver
from labkit.book.learner import Problem, read_learner
from labkit.book.merge import merge
from labkit.book.notebook import Notebook, dumps, labkit_of, read, write

Say = Callable[[str], None]


class UpdateError(Exception):
    """Why nothing was changed, and what to do."""


def update(root: Path, release_dir: Path, force: bool = False, say: Say = print) -> list[Path]:
    """Merge the notebooks of `release_dir/weeks` into `root/weeks`; returns the files that changed.

    Every file that will change is copied to `backups/<time>/` first. Refuses while one of them is open in a
    running Jupyter, unless `force`. Files that cannot be read are left alone and named.
    """
    plan = _plan(root, release_dir, say)
    _prepare(root, plan, force, say)
    _write(root, plan, say)
    return list(plan)


def update_from_git(root: Path, force: bool = False, say: Say = print) -> list[Path]:
    """Fetch the course's next version and merge it; the learner's notebooks need not be committed.

    Git sees a clean `weeks/` while it merges; if it cannot, every notebook is put back as it was.
    """
    install_merge_driver(root)
    _git(root, "fetch", "--quiet")
    new = _git(root, "rev-parse", "@{upstream}").strip()
    if _git(root, "rev-list", "--count", f"HEAD..{new}").strip() == "0":
        return _bring_back(root, say)
    with tempfile.TemporaryDirectory() as folder:
        _git(root, "archive", f"--output={folder}/weeks.zip", new, "weeks")
        with zipfile.ZipFile(f"{folder}/weeks.zip") as archive:
            archive.extractall(folder)
        plan = _plan(root, Path(folder), say)
    names = _git(root, "diff", "--name-only", "-z", "HEAD", "--", "weeks").split("\0")[:-1]
    work = {root / name: (root / name).read_bytes() for name in names if (root / name).exists()}
    _prepare(root, plan, force, say)
    try:
        if names:
            _git(root, "checkout", "HEAD", "--", *names)
        _git(root, "merge", "--quiet", "--no-edit", new)
    except UpdateError:
        subprocess.run(["git", "-C", str(root), "merge", "--abort"], capture_output=True)
        plan.clear()
        raise
    finally:  # what the plan does not change is as the learner left it
        for path, data in work.items():
            if path not in plan:
                path.write_bytes(data)
    _write(root, plan, say)
    return list(plan)


def _bring_back(root: Path, say: Say) -> list[Path]:
    """Where there is nothing new: the notebooks that somebody deleted, from git."""
    missing = _git(root, "ls-files", "--deleted", "-z", "--", "weeks").split("\0")[:-1]
    if missing:
        _git(root, "checkout", "HEAD", "--", *missing)
    for name in missing:
        say(f"{name} was missing and is back, as git has it.")
    if not missing:
        say("Everything is up to date.")
    return [root / name for name in missing]


Plan = dict[Path, tuple[Notebook, list[str]]]  # file -> what to write, and what to say about it


def _plan(root: Path, release_dir: Path, say: Say) -> Plan:
    releases = {
        path.relative_to(release_dir): read(path) for path in sorted(release_dir.glob("weeks/*/*.ipynb"))
    }
    if not releases:
        raise UpdateError(f"{release_dir} holds no weeks/*/*.ipynb, so it is not a release of the course.")
    owner = {cell["id"]: name for name, nb in releases.items() for cell in nb["cells"]}
    plan: Plan = {}
    for name, release in releases.items():
        path = root / name
        if not path.exists():
            plan[path] = release, ["new lesson"]
            continue
        learner = read_learner(path, release=str(labkit_of(release).get("release")))
        if isinstance(learner, Problem):
            say(f"{name}: left alone. {learner.sentence}")
            continue
        merged, log = merge(release, learner, {id for id, home in owner.items() if home != name})
        if dumps(merged) != path.read_text(encoding="utf-8"):
            plan[path] = merged, log
    return plan


def _prepare(root: Path, plan: Plan, force: bool, say: Say) -> None:
    """Make sure that nobody has the files open, and copy them."""
    touched = [path for path in plan if path.exists()]
    if not force:
        refuse_if_open(root, touched)
    if touched:
        say(f"Your notebooks as they were: {backup(root, touched).relative_to(root)}/")


def _write(root: Path, plan: Plan, say: Say) -> None:
    for path, (nb, log) in plan.items():
        write(path, nb)
        say("\n  ".join([f"{path.relative_to(root)}:", *log]))
    if not plan:
        say("Everything is up to date.")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip()
        raise UpdateError(f"git {arguments[0]} failed; your notebooks are as they were.\n{reason}")
    return done.stdout


def backup(root: Path, files: Iterable[Path]) -> Path:
    """Copy files into a new folder `backups/<time>/`, under their path in the course; returns the folder."""
    folder = backup_folder(root)
    for path in files:
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return folder


def backup_folder(root: Path) -> Path:
    """A name for a folder of backups that is not there yet."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    names = (stamp if n == 1 else f"{stamp}-{n}" for n in range(1, 1000))
    return next(root / "backups" / name for name in names if not (root / "backups" / name).exists())


# notebooks that are open in Jupyter


def refuse_if_open(root: Path, files: Iterable[Path]) -> None:
    """Raise `UpdateError` if Jupyter has one of the files open: it would offer to overwrite what we write."""
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
        if options.release:
            update(paths.root(), options.release, options.force)
        else:
            update_from_git(paths.root(), options.force)
    except UpdateError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
