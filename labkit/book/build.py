"""Write the notebooks of the course: learner copies in `weeks/`, executed solutions beside their source.

A solution is run again only when its code, what its passed checks print or what draws its figures changed:
`metadata.labkit.executed` remembers a digest of all that. Rebuilding without a change writes nothing.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from labkit import __version__, exercises, paths
from labkit.book import disk
from labkit.book.course import lesson_paths, read_course
from labkit.book.drawn import drawing_lines
from labkit.book.learner import Problem, read_learner, read_with_bytes
from labkit.book.merge import is_untouched
from labkit.book.notebook import (
    Notebook,
    digest,
    dumps,
    labkit_of,
    learner_notebook,
    read,
    solution_notebook,
    write,
    write_text,
)
from labkit.book.percent import Lesson, LessonError
from labkit.verdict import RECORD_MIME, redrawn

Say = Callable[[str], None]
TIMEOUT = 600  # seconds for one cell
STARTS = 3  # how often a kernel is started that dies before its first cell
VOLATILE = ("application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json")


class BuildError(Exception):
    """A solution that does not run, or whose outputs cannot be stored; names the file and the cell."""


def build(
    root: Path,
    week: int | None = None,
    execute: bool = True,
    check_only: bool = False,
    force: bool = False,
    known: Collection[str] | None = None,
    say: Say = print,
) -> list[Path]:
    """Write what changed and return those files; with `check_only`, write nothing and return what is stale.

    `force` runs every solution again. Raises `LessonError` for bad sources, and `BuildError` at the end for
    all solutions that failed; their files stay as they were.
    """
    if check_only:
        return stale(root, week, known)
    written, failures = list[Path](), list[str]()
    lessons = read_course(root, week, known)
    for number, lesson in enumerate(lessons, 1):
        prefix = f"[{number}/{len(lessons)}] {lesson.path.parent.name}/{lesson.path.stem}"
        try:
            changed = _build_lesson(root, lesson, execute, force, prefix, say)
        except (BuildError, disk.ChangedMeanwhile) as error:
            failures.append(str(error))
            continue
        say(f"{prefix}: {'written' if changed else 'unchanged'}")
        written += changed
    for path, text in _instructor_pages(root, lessons).items():
        written += [path] if write_text(path, text) else []
    for path in _orphans(root, week):
        if _keep_work(root, path, say) == disk.content(path):
            path.unlink()
            say(f"{path.relative_to(root)}: removed, its source is gone")
    if failures:
        raise BuildError("\n".join(failures))
    return written


def _build_lesson(
    root: Path, lesson: Lesson, execute: bool, force: bool, prefix: str, say: Say
) -> list[Path]:
    path = root / lesson.solution
    nb, fresh = _with_stored_outputs(solution_notebook(lesson, __version__), path)
    if execute and (force or not fresh):
        say(f"{prefix}: running")
        run(nb, path)
    learner = root / lesson.notebook
    before = _keep_work(root, learner, say)
    written = [learner] if write(learner, learner_notebook(lesson, __version__), before) else []
    return [*written, *([path] if write(path, nb) else [])]


def stale(root: Path, week: int | None = None, known: Collection[str] | None = None) -> list[Path]:
    """Generated files that differ from what the sources give, outputs aside, and those without a source."""
    lessons = read_course(root, week, known)
    expected = _instructor_pages(root, lessons)
    for lesson in lessons:
        expected[root / lesson.notebook] = dumps(learner_notebook(lesson, __version__))
        path = root / lesson.solution
        nb, fresh = _with_stored_outputs(solution_notebook(lesson, __version__), path)
        expected[path] = dumps(nb) if fresh else ""
    different = [p for p, text in expected.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    return sorted([*different, *_orphans(root, week)])


def _orphans(root: Path, week: int | None) -> list[Path]:
    """Notebooks we generated whose source is gone; not copies that somebody made under another name."""
    folder = "week*" if week is None else f"week{week:02d}_*"
    found = [
        path for top in ("weeks", "solutions") for path in root.glob(f"{top}/{folder}/[0-9][0-9]_*.ipynb")
    ]
    known = {path.relative_to(root / "solutions").with_suffix("").as_posix() for path in lesson_paths(root)}
    names = {path: f"{path.parent.name}/{path.stem}" for path in found}
    return [path for path, name in names.items() if name not in known and _lesson_of(path) == name]


def _lesson_of(path: Path) -> str | None:
    nb = read_learner(path)
    return None if isinstance(nb, Problem) else labkit_of(nb).get("lesson")


def run(nb: Notebook, path: Path) -> None:
    """Run the notebook in a fresh kernel, in the folder of `path`; keep what is the same every time."""
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # seconds of import, used by no notebook
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    current = [""]

    def starts(cell: Any, cell_index: int) -> None:
        current[0] = cell["id"]

    path.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, STARTS + 1):
        node = nbformat.from_dict(nb)
        client = NotebookClient(
            node,
            timeout=TIMEOUT,
            kernel_name="python3",
            extra_arguments=["--IPKernelApp.log_level=ERROR"],  # not the warning of every start
            resources={"metadata": {"path": str(path.parent)}},
            record_timing=False,
            store_widget_state=False,
            on_cell_start=starts,
            coalesce_streams=True,
        )
        try:
            client.execute(env={**os.environ, "LABKIT_LANE": "build"})
            break
        except CellExecutionError as error:
            message = re.sub(r"\x1b\[[0-9;]*m", "", f"{error.ename}: {error.evalue}")
            raise BuildError(f"{path}: cell {current[0]} failed with {message}") from None
        except CellTimeoutError:
            raise BuildError(f"{path}: cell {current[0]} took longer than {TIMEOUT} s") from None
        except DeadKernelError:
            raise BuildError(f"{path}: cell {current[0]} ended the kernel") from None
        except (
            RuntimeError
        ) as error:  # "Kernel died before replying": a port it had chosen was taken meanwhile
            if attempt == STARTS:
                raise BuildError(f"{path}: no kernel started ({error}). Run `make build` again.") from None
    for cell, done in zip(nb["cells"], node["cells"], strict=True):
        if cell["cell_type"] == "code":
            cell["outputs"] = [
                out for output in done["outputs"] if (out := _storable(output, cell["id"], path))
            ]
            cell["execution_count"] = done["execution_count"]
    labkit_of(nb)["executed"] = _code_digest(nb)


def _storable(output: Any, cell: str, path: Path) -> dict[str, Any] | None:
    """The output without what changes from run to run. Progress bars and warnings (stderr) are not stored."""
    output = dict(output)
    if output.get("name") == "stderr":
        return None
    if "data" in output:
        output["data"] = {mime: value for mime, value in output["data"].items() if mime not in VOLATILE}
        if not output["data"]:
            return None
    address = re.search(r"<[^<>]* at 0x[0-9a-f]+>", f"{output.get('text', '')}{output.get('data', '')}")
    if address:
        raise BuildError(
            f"{path}: cell {cell} shows {address[0]}, which differs in every run; print something else"
        )
    return output


def _code_digest(nb: Notebook) -> str:
    """A digest of what decides the outputs: the code, what a passed check prints, what draws the figures.

    Hints, mistakes, cases and the engine are not in it: `make solutions` proves that what is stored still
    comes out.
    """
    code = [f"{cell['id']}\n{cell['source']}" for cell in nb["cells"] if cell["cell_type"] == "code"]
    asked = dict.fromkeys(labkit_of(cell)["ex"] for cell in nb["cells"] if "ex" in labkit_of(cell))
    return digest("\n".join([*code, *map(_printed, asked), *drawing_lines("\n".join(code))]))


def _printed(ex: str) -> str:
    """What the declaration of an exercise adds to the box of a pass."""
    exercise = exercises.all_exercises().get(ex)
    words = [
        f"{name}={getattr(exercise, name, None)}"
        for name in ("kind", "passed", "fault", "reference", "grads")
    ]
    counts = [f"{name}={len(getattr(exercise, name, ()))}" for name in ("cases", "items", "bugs")]
    return " ".join([ex, *words, *counts])


def _with_stored_outputs(nb: Notebook, path: Path) -> tuple[Notebook, bool]:
    """The notebook with the outputs stored at `path`, if the same code gave them; and whether it did."""
    stored = read(path) if path.exists() else {"cells": [], "metadata": {}}
    code = _code_digest(nb)
    if labkit_of(stored).get("executed") != code:
        return nb, False
    by_id = {cell["id"]: cell for cell in stored["cells"] if cell["cell_type"] == "code"}
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell |= {name: by_id[cell["id"]][name] for name in ("outputs", "execution_count")}
            for output in cell["outputs"]:
                _redraw_box(output.get("data", {}))
    labkit_of(nb)["executed"] = code
    return nb, True


def _redraw_box(data: dict[str, Any]) -> None:
    """A stored verdict in today's look: what a box looks like does not need another run."""
    if RECORD_MIME in data and "text/html" in data:
        data["text/html"] = redrawn(data[RECORD_MIME], data["text/html"])


def _instructor_pages(root: Path, lessons: list[Lesson]) -> dict[Path, str]:
    """One page per week with the instructor cells of its lessons, in order."""
    pages: dict[Path, list[str]] = {}
    for lesson in lessons:
        notes = [cell for cell in lesson.cells if cell.role == "instructor"]
        if notes:
            week = lesson.path.parent.name
            title = f"# {week}: notes for instructors\n\nCollected by `make build`; edit them in the lessons."
            page = pages.setdefault(root / lesson.path.parent / "INSTRUCTOR.md", [title])
            page.append(f"## {lesson.path.stem}")
            page += [c.source if c.kind == "markdown" else f"```python\n{c.source}\n```" for c in notes]
    return {path: "\n\n".join(page) + "\n" for path, page in pages.items()}


def _keep_work(root: Path, path: Path, say: Say) -> bytes | None:
    """Back up a learner notebook that somebody worked in, before it is written anew; returns what it held."""
    before, found = read_with_bytes(path)
    if before is not None and (isinstance(found, Problem) or not is_untouched(found)):
        saved = disk.backup_of(root, {path: before}).relative_to(root)
        say(f"{path.relative_to(root)} has work in it; a copy is in {saved}/")
    return before


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("labkit build", description=__doc__)
    parser.add_argument("--week", type=int)
    parser.add_argument("--force", action="store_true", help="run every solution again")
    parser.add_argument("--no-execute", action="store_true", help="write, but run nothing")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is stale")
    options = parser.parse_args(argv)
    root = paths.root()
    try:
        found = build(root, options.week, not options.no_execute, options.check, options.force)
    except (LessonError, BuildError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.check and found:
        print(
            "Stale, run `make build`:",
            *(path.relative_to(root) for path in found),
            sep="\n  ",
            file=sys.stderr,
        )
        return 1
    return 0
