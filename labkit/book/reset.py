"""A fresh start for one exercise, with a backup first."""

import argparse
import sys
from pathlib import Path

from labkit import __version__
from labkit.book import disk
from labkit.book.changes import Say, finish
from labkit.book.disk import UpdateError
from labkit.book.learner import Problem, read_with_bytes
from labkit.book.merge import merge
from labkit.book.notebook import Cell, Notebook, learner_notebook, write
from labkit.book.update import open_notebooks
from labkit.book.work import Work, here


def reset(work: Work, ex: str, say: Say = print) -> Path:
    """Put the released start of one exercise back into the learner's notebook; returns its path.

    A notebook that cannot be read is replaced by the released one. Everything else the learner wrote stays.
    """
    path, release, stubs = _find_exercise(work, ex)
    root = work.folder
    with disk.changing(root):
        finish(root, say)
        before, learner = read_with_bytes(path)
        if before is not None:
            saved = disk.backup_of(root, {path: before})
            say(f"Your notebook as it was: {saved.relative_to(root)}/")
        elif isinstance(learner, Problem) and learner.kind != "missing":
            raise UpdateError(f"{path.relative_to(root)}: {learner.why} Nothing was changed.")
        if isinstance(learner, Problem):
            say(f"{learner.sentence} The whole lesson starts afresh.")
            result = release
        else:
            result, _ = merge(release, learner)
            result["cells"] = [stubs.get(cell["id"], cell) for cell in result["cells"]]
        disk.sweep([path.parent])
        write(path, result, expected=before)
    say(f"{ex} is back at its start in {path.relative_to(root)}.")
    if path.resolve() in open_notebooks():
        say("It is open in Jupyter: use File > Reload Notebook from Disk.")
    return path


def _find_exercise(work: Work, ex: str) -> tuple[Path, Notebook, dict[str, Cell]]:
    """The learner notebook of an exercise, its release, and the exercise's cells by id."""
    source = work.course.sources.get(ex)
    if source is None:
        raise UpdateError(f"No lesson has an exercise {ex}. `make progress` lists them all.")
    release = learner_notebook(source.lesson, __version__)
    ids = {cell.id for cell in source.cells}
    stubs = {cell["id"]: cell for cell in release["cells"] if cell["id"] in ids}
    return work.notebook(source.lesson), release, stubs


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("labkit reset", description=__doc__)
    parser.add_argument("ex", help="the exercise, such as w02.unbroadcast")
    ex = parser.parse_args(argv).ex
    try:
        with disk.ending_in_order():
            reset(here(), ex)
    except UpdateError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
