"""A new release for a learner's notebooks, a fresh start for one exercise, git's merges; a backup first."""

import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

from labkit.book.learner import Problem, read_learner, version_key
from labkit.book.merge import is_untouched, merge
from labkit.book.notebook import Cell, Notebook, dumps, labkit_of, read, write

Say = Callable[[str], None]
ATTRIBUTES = "weeks/**/*.ipynb merge=labkit"


class UpdateError(Exception):
    """Why nothing was changed, and what to do."""


def update(root: Path, release_dir: Path, force: bool = False, say: Say = print) -> list[Path]:
    """Merge the notebooks of `release_dir/weeks` into `root/weeks`; returns the files that changed.

    Every file that will change is copied to `backups/<time>/` first. Refuses while one of them is open in a
    running Jupyter, unless `force`. Files that cannot be read are left alone and named.
    """
    releases = {
        path.relative_to(release_dir): read(path) for path in sorted(release_dir.glob("weeks/*/*.ipynb"))
    }
    if not releases:
        raise UpdateError(f"{release_dir} holds no weeks/*/*.ipynb, so it is not a release of the course.")
    owner = {cell["id"]: name for name, nb in releases.items() for cell in nb["cells"]}
    results: dict[Path, tuple[Notebook, list[str]]] = {}
    for name, release in releases.items():
        path = root / name
        if not path.exists():
            results[path] = release, ["new lesson"]
            continue
        learner = read_learner(path, release=str(labkit_of(release).get("release")))
        if isinstance(learner, Problem):
            say(f"{name}: left alone. {learner.sentence}")
            continue
        merged, log = merge(release, learner, {id for id, home in owner.items() if home != name})
        if dumps(merged) != path.read_text(encoding="utf-8"):
            results[path] = merged, log
    touched = [path for path in results if path.exists()]
    if not force:
        refuse_if_open(root, touched)
    if touched:
        say(f"Your notebooks as they were: {backup(root, touched).relative_to(root)}/")
    for path, (nb, log) in results.items():
        write(path, nb)
        say(f"{path.relative_to(root)}:")
        for line in log:
            say(f"  {line}")
    if not results:
        say("Everything is up to date.")
    return list(results)


def reset(root: Path, ex: str, say: Say = print) -> Path:
    """Put the released start of one exercise back into the learner's notebook; returns its path.

    A notebook that cannot be read is replaced by the released one. Everything else the learner wrote stays.
    """
    path, release, stubs = _find_exercise(root, ex)
    learner = read_learner(path)
    if path.exists():
        say(f"Your notebook as it was: {backup(root, [path]).relative_to(root)}/")
    if isinstance(learner, Problem):
        say(f"{learner.sentence} The whole lesson starts afresh.")
        result = release
    else:
        result, _ = merge(release, learner)
        result["cells"] = [stubs.get(cell["id"], cell) for cell in result["cells"]]
    write(path, result)
    say(f"{ex} is back at its start in {path.relative_to(root)}.")
    if path.resolve() in open_notebooks():
        say("It is open in Jupyter: use File > Reload Notebook from Disk.")
    return path


def _find_exercise(root: Path, ex: str) -> tuple[Path, Notebook, dict[str, Cell]]:
    """The learner notebook of an exercise, its release, and the exercise's cells by id."""
    from labkit.book.build import release_notebooks

    for path, release in release_notebooks(root).items():
        of_ex = [cell for cell in release["cells"] if labkit_of(cell).get("ex") == ex]
        stubs = {cell["id"]: cell for cell in of_ex if labkit_of(cell)["role"] == "exercise"}
        if stubs:
            return path, release, stubs
    raise UpdateError(f"No lesson has an exercise {ex}. `make progress` lists them all.")


def backup(root: Path, paths: Iterable[Path]) -> Path:
    """Copy files into a new folder `backups/<time>/`, under their path in the course; returns the folder."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    names = (stamp if n == 1 else f"{stamp}-{n}" for n in range(1, 1000))
    folder = next(root / "backups" / name for name in names if not (root / "backups" / name).exists())
    for path in paths:
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return folder


# notebooks that are open in Jupyter


def refuse_if_open(root: Path, paths: Iterable[Path]) -> None:
    """Raise `UpdateError` if Jupyter has one of the files open: it would offer to overwrite what we write."""
    wanted = {path.resolve() for path in paths}
    opened = sorted(wanted & open_notebooks())
    if opened:
        names = ", ".join(str(path.relative_to(root.resolve())) for path in opened)
        raise UpdateError(
            f"Open in Jupyter: {names}. Save, close it and shut down its kernel, then try again."
        )


def open_notebooks() -> set[Path]:
    """The notebooks with a session in a Jupyter server of this user."""
    from jupyter_core.paths import jupyter_runtime_dir

    found: set[Path] = set()
    for info in sorted(Path(jupyter_runtime_dir()).glob("*server-*.json")):
        try:
            server = json.loads(info.read_text(encoding="utf-8"))
            top = Path(server.get("root_dir") or server["notebook_dir"])
            found |= {(top / name).resolve() for name in _sessions(server["url"], server.get("token", ""))}
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a server that is gone leaves its file behind
    return found


def _sessions(url: str, token: str) -> list[str]:
    request = urllib.request.Request(f"{url}api/sessions", headers={"Authorization": f"token {token}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback, never through a proxy
    with opener.open(request, timeout=3) as reply:
        return [
            session["path"] for session in json.load(reply) if session.get("type", "notebook") == "notebook"
        ]


# git


def merge_driver(base: Path, ours: Path, theirs: Path, say: Say = print) -> int:
    """Git's merge driver (`%O %A %B`): the result goes into `ours`; returns 0, or 1 for a conflict.

    The side nobody worked in is the release, whichever way git merges. When both hold work, ours stays as it
    is, still a notebook that opens, and git reports the conflict.
    """
    before, mine, other = (read_learner(path, release="999") for path in (base, ours, theirs))
    if isinstance(mine, Problem) or isinstance(other, Problem):
        say("A side of the merge is not a readable notebook; ours was kept.")
        return 1
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
        subprocess.run(["git", "-C", str(root), "config", f"merge.labkit.{name}", value], check=True)
    path = root / ".gitattributes"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if ATTRIBUTES not in lines:
        path.write_text("\n".join([*lines, ATTRIBUTES]) + "\n", encoding="utf-8")
    return True
