"""`make site`: the course as a website, made by Sphinx and MyST-NB from the lessons as they are.

    python -m labkit site               learner's view: stubs, figures, no solutions
    python -m labkit site --solutions   with a folded solution under each exercise

Nothing is run: figures and printed facts are those stored in the solution notebooks. The result is a folder
of files that needs no server and no network.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

from labkit import paths
from labkit.book.course import lesson_paths

INSTALL = 'python -m pip install --editable ".[site]"'


class SiteError(Exception):
    """A page cannot be made; says which and why."""


def build(root: Path, target: Path, solutions: bool = False) -> Path:
    """Write the site of the course at `root` into the folder `target`; returns its first page."""
    import warnings

    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    from labkit.site.pages import write_pages

    with tempfile.TemporaryDirectory() as scratch:
        pages, log, made = Path(scratch, "pages"), Path(scratch, "warnings.txt"), Path(scratch, "html")
        write_pages(root, pages, solutions)
        here = str(Path(__file__).parent)
        with log.open("w", encoding="utf-8") as problems, docutils_namespace(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Sphinx's own parts, about each other
            app = Sphinx(
                *(str(pages), here, str(made), str(Path(scratch, "trees")), "html"),
                status=None,
                warning=problems,
                freshenv=True,
            )
            app.build()
        found = log.read_text(encoding="utf-8").strip().replace(str(pages), "")
        if found or app.statuscode:
            raise SiteError(found or "Sphinx stopped without saying why")
        _replace(target, made)
    return target / "index.html"


def _replace(target: Path, made: Path) -> None:
    """Put what was made in the place of an earlier site; hidden files stay, it may be a git checkout."""
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("[!.]*"):
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink()
    shutil.copytree(made, target, dirs_exist_ok=True)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m labkit site", description="The course as a website.")
    parser.add_argument("--solutions", action="store_true", help="with a folded solution under each exercise")
    parser.add_argument("--to", type=Path, help="where to write it (default: site/)")
    options = parser.parse_args(argv)
    absent = [
        name for name in ("sphinx", "myst_nb", "furo", "latex2mathml") if not importlib.util.find_spec(name)
    ]
    if absent:
        print(f"The website needs {', '.join(absent)}. Install: {INSTALL}", file=sys.stderr)
        return 2
    root = paths.root()
    target = (options.to or root / "site").resolve()
    refusal = _refusal(target)
    if refusal:
        print(f"{refusal} Name another folder with --to.", file=sys.stderr)
        return 2
    print(f"Rendering {len(lesson_paths(root))} lessons; some ten seconds.", flush=True)
    try:
        first = build(root, target, options.solutions)
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"The course as a website: {first.as_uri()}")
    print("Open it in a browser. The folder needs no server, and any web server can serve it.")
    return 0


def _refusal(target: Path) -> str:
    """Why the site should not be written to this folder; empty if nothing speaks against it."""
    if target.is_dir() and any(target.iterdir()) and not (target / "searchindex.js").exists():
        return f"{target} holds something other than a site."
    if target.exists() and not target.is_dir():
        return f"{target} is a file."
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target):
            return ""
    except OSError as error:
        return f"{target} cannot be written: {error.strerror}."
