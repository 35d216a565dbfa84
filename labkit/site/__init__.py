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

INSTALL = "python -m pip install --editable '.[site]'"


class SiteError(Exception):
    """Sphinx complained about a page; says which and why."""


def build(root: Path, target: Path, solutions: bool = False) -> Path:
    """Write the site of the course at `root` into the folder `target`; returns its first page."""
    import warnings

    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    from labkit.site.pages import write_pages

    with tempfile.TemporaryDirectory() as scratch:
        pages, trees, log = Path(scratch, "pages"), Path(scratch, "trees"), Path(scratch, "warnings.txt")
        write_pages(root, pages, solutions)
        here = str(Path(__file__).parent)
        with log.open("w", encoding="utf-8") as problems, docutils_namespace(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Sphinx's own parts, about each other
            app = Sphinx(
                *(str(pages), here, str(target), str(trees), "html"),
                status=None,
                warning=problems,
                freshenv=True,
            )
            app.build()
        found = log.read_text(encoding="utf-8").strip().replace(str(pages), "")
    if found or app.statuscode:
        raise SiteError(found or "Sphinx stopped without saying why")
    return target / "index.html"


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
    if target.exists() and any(target.iterdir()) and not (target / "searchindex.js").exists():
        print(f"{target} holds something else than a site; name another folder with --to.", file=sys.stderr)
        return 2
    shutil.rmtree(target, ignore_errors=True)
    try:
        first = build(root, target, options.solutions)
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"The course as a website: {first.as_uri()}")
    return 0
