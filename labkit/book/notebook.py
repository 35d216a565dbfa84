"""Notebooks as plain dictionaries, in nbformat's byte layout, without importing nbformat (it costs seconds).

In memory a cell's `source` and the text of its outputs are strings; in the file they are lists of lines.
Each released cell carries `metadata.labkit = {id, role, ex, base}`; `base` is a digest of the released text,
so a changed cell can be told from an untouched one without the old release at hand.
"""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

from labkit import __version__
from labkit.book import disk
from labkit.book.percent import Cell as LessonCell
from labkit.book.percent import Lesson

Notebook = dict[str, Any]
Cell = dict[str, Any]

LOCKED = ("setup", "check")
_SPLIT_MIMES = ("application/javascript", "image/svg+xml")


def digest(source: str) -> str:
    """Twelve hex digits of the text. Blank lines and trailing spaces do not count: a split eats them."""
    lines = (line.rstrip() for line in source.splitlines())
    return hashlib.sha256("\n".join(line for line in lines if line).encode("utf-8", "replace")).hexdigest()[
        :12
    ]


def labkit_of(cell: Cell) -> dict[str, Any]:
    """The cell's `metadata.labkit`, or an empty dictionary."""
    found = cell["metadata"].get("labkit")
    return found if isinstance(found, dict) else {}


def make_cell(kind: str, source: str, id: str, metadata: dict[str, Any] | None = None) -> Cell:
    cell: Cell = {"cell_type": kind, "id": id, "metadata": metadata or {}, "source": source}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def learner_notebook(lesson: Lesson, release: str) -> Notebook:
    """What learners get: stubs for solutions, no outputs, no instructor cells."""
    cells = [_released(cell, cell.learner_source) for cell in lesson.cells if cell.role != "instructor"]
    return _notebook(cells, lesson, release)


def solution_notebook(lesson: Lesson, release: str) -> Notebook:
    """What instructors run and show: the solutions, without markers and stubs; not executed yet."""
    return _notebook([_released(cell, cell.solution) for cell in lesson.cells], lesson, release)


def _notebook(cells: list[Cell], lesson: Lesson, release: str) -> Notebook:
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    metadata = {
        "kernelspec": kernel,
        "labkit": {
            "lesson": lesson.path.with_suffix("").relative_to("solutions").as_posix(),
            "release": release,
        },
        "language_info": {"name": "python"},
    }
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _released(cell: LessonCell, source: str) -> Cell:
    labkit = {"id": cell.id, "role": cell.role, "base": digest(source)}
    metadata: dict[str, Any] = {"labkit": labkit}
    if cell.ex:
        labkit["ex"] = cell.ex
    if cell.tags:
        metadata["tags"] = list(cell.tags)
    if cell.role in LOCKED:
        metadata |= {"editable": False, "deletable": False}
    if cell.role in ("exercise", *LOCKED):
        metadata["nbgrader"] = _nbgrader(cell)
    return make_cell(cell.kind, source, cell.id, metadata)


def _nbgrader(cell: LessonCell) -> dict[str, Any]:
    """nbgrader's own cell metadata, schema version 3."""
    is_check = cell.role == "check"
    points = {"points": cell.points} if is_check else {}
    return points | {
        "grade": is_check,
        "grade_id": cell.id,
        "locked": cell.role in LOCKED,
        "schema_version": 3,
        "solution": cell.role == "exercise",
        "task": False,
    }


def solved(lesson: Lesson, release: str = __version__) -> Notebook:
    """The learner's notebook with every solution written in."""
    sources = {cell.id: cell.source for cell in lesson.cells}
    nb = learner_notebook(lesson, release)
    for cell in nb["cells"]:
        cell["source"] = sources[cell["id"]]
    return nb


def dumps(nb: Notebook) -> str:
    """The file's text, byte for byte what nbformat writes."""
    nb = copy.deepcopy(nb)
    for cell in nb["cells"]:
        cell["source"] = cell["source"].splitlines(True)
        for bundle in cell.get("attachments", {}).values():
            _split(bundle)
        for output in cell.get("outputs", []):
            if output["output_type"] in ("execute_result", "display_data"):
                _split(output.get("data", {}))
            elif output["output_type"] == "stream" and isinstance(output["text"], str):
                output["text"] = output["text"].splitlines(True)
    return json.dumps(nb, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def loads(text: str) -> Notebook:
    """A notebook that labkit or Jupyter wrote. Of a learner's file nothing is certain: see `learner.py`."""
    nb: Notebook = json.loads(text)
    for cell in nb["cells"]:
        cell["source"] = join_lines(cell["source"])
        for output in cell.get("outputs", []):
            if "text" in output:
                output["text"] = join_lines(output["text"])
        bundles = [output.get("data", {}) for output in cell.get("outputs", [])]
        for bundle in [*bundles, *cell.get("attachments", {}).values()]:
            for mime, value in bundle.items():
                if not mime.endswith("json"):
                    bundle[mime] = join_lines(value)
    return nb


def read(path: Path) -> Notebook:
    return loads(path.read_text(encoding="utf-8"))


def encoded(nb: Notebook) -> bytes:
    """The file's bytes. Half a surrogate pair, from a damaged paste, becomes a question mark."""
    return dumps(nb).encode("utf-8", "replace")


def write(path: Path, nb: Notebook, expected: bytes | None = disk.ANYTHING) -> bool:
    """Write the notebook if its bytes changed, and say whether they did. A crash leaves the old file.

    `expected` is what the file held when it was read: see `disk.write_bytes`.
    """
    return disk.write_bytes(path, encoded(nb), expected)


def write_text(path: Path, text: str) -> bool:
    return disk.write_bytes(path, text.encode("utf-8", "replace"))


def _split(bundle: dict[str, Any]) -> None:
    for mime, value in bundle.items():
        if isinstance(value, str) and (mime.startswith("text/") or mime in _SPLIT_MIMES):
            bundle[mime] = value.splitlines(True)


def join_lines(value: Any) -> Any:
    """Text that the file holds as a list of lines; anything else is returned as it is."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value
