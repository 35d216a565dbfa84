"""Read a learner's notebook, whatever happened to it: a sound notebook or a `Problem` in plain words."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import __version__
from labkit.book import disk
from labkit.book.notebook import Cell, Notebook, digest, join_lines, labkit_of

MOST_LEVELS = 200


@dataclass(frozen=True)
class Problem:
    """Why a file cannot be used. `kind` is one word for programs; `why` is for the learner, and with advice
    `sentence`."""

    path: Path
    kind: str
    why: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}"


SENTENCES = {
    "missing": "There is no such file.",
    "unreadable": "The file cannot be read ({detail}).",
    "empty": "The file is empty.",
    "conflict": "The file has git conflict markers (<<<<<<<) in it, so Jupyter cannot open it.",
    "truncated": "The file ends in the middle; it was probably being saved when something stopped.",
    "garbled": "The file is damaged in line {detail}, so it cannot be read as a notebook.",
    "goes-on": "The notebook is complete, but the file goes on after its end, in line {detail}.",
    "too-deep": "Something in the file is nested so deeply that it cannot be read as a notebook.",
    "long-number": "The file holds a number of thousands of digits, which cannot be read.",
    "not-json": "This is not a notebook: the file does not hold JSON.",
    "not-notebook": "The file holds JSON, but no notebook cells.",
    "old-format": "The notebook is in the old format {detail}. Open it in JupyterLab and save it once.",
    "new-format": "The notebook is in format {detail}, newer than this course knows.",
    "newer-release": "The notebook is of release {detail}, newer than this copy of labkit ({release}).",
}
ADVICE = {
    "missing": " `make update` puts it back.",
    "newer-release": " `make update` brings the two together.",
}
DAMAGED = " Restore it from backups/ or git, or start it afresh: `make reset` with one of its exercises."


def read_learner(path: Path, release: str = __version__) -> Notebook | Problem:
    """The notebook with every cell in order (ids, types, sources), or what is wrong with the file."""
    return read_with_bytes(path, release)[1]


def read_with_bytes(path: Path, release: str = __version__) -> tuple[bytes | None, Notebook | Problem]:
    """`read_learner`, and the bytes that it was made of: who writes the file compares them first."""
    try:
        data = disk.read_bytes(path)
    except FileNotFoundError:
        return None, _problem(path, "missing")
    except OSError as error:
        return None, _problem(path, "unreadable", error.strerror)
    try:
        return data, parse_learner(data.decode("utf-8-sig"), path, release)
    except UnicodeDecodeError:
        return data, _problem(path, "not-json")


def parse_learner(text: str, path: Path, release: str = __version__) -> Notebook | Problem:
    """`read_learner` for text that is already read."""
    if not text.strip("\0 \r\n\t"):
        return _problem(path, "empty")
    try:
        nb = json.loads(text)
    except (ValueError, RecursionError) as error:
        if re.search(r"^(<<<<<<<|>>>>>>>) ", text, re.MULTILINE):
            return _problem(path, "conflict")
        if not text.lstrip().startswith("{"):
            return _problem(path, "not-json")
        return _problem(path, *_why_not_json(error, len(text.rstrip())))
    return sound_notebook(nb, path, release)


def _why_not_json(error: Exception, length: int) -> tuple[str, object]:
    """Which problem it is that Python's reader of JSON complains of, and the detail for its sentence."""
    if isinstance(error, RecursionError):
        return "too-deep", ""
    if not isinstance(error, json.JSONDecodeError):
        return "long-number", ""
    if error.pos >= length - 1 or error.msg.startswith("Unterminated string"):
        return "truncated", ""
    return ("goes-on" if error.msg == "Extra data" else "garbled"), error.lineno


def sound_notebook(nb: Any, path: Path, release: str = __version__) -> Notebook | Problem:
    """`read_learner` for content that is already parsed, such as what JupyterLab holds and has not saved."""
    if not isinstance(nb, dict):
        return _problem(path, "not-notebook")
    if _is_deep(nb):
        return _problem(path, "too-deep")
    major = nb.get("nbformat")
    if isinstance(major, int) and major != 4:
        return _problem(path, "old-format" if major < 4 else "new-format", major)
    cells = nb.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        return _problem(path, "not-notebook")
    metadata = nb["metadata"] if isinstance(nb.get("metadata"), dict) else {}
    theirs = labkit_of({"metadata": metadata}).get("release", "0")
    if version_key(theirs) > version_key(release):
        return _problem(path, "newer-release", theirs, release)
    return {"cells": _sound(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def unique_id(wanted: Any, source: str, used: set[str]) -> str:
    """`wanted` if it is a valid and free cell id, else one made from the text, always the same."""
    if isinstance(wanted, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wanted) and wanted not in used:
        return wanted
    stem = f"own-{digest(source)}"
    return next(id for n in range(1, len(used) + 2) if (id := stem if n == 1 else f"{stem}-{n}") not in used)


def _problem(path: Path, kind: str, detail: Any = "", release: str = "") -> Problem:
    why = SENTENCES[kind].format(detail=str(detail)[:30], release=release)
    return Problem(path, kind, why, why + ADVICE.get(kind, DAMAGED))


def version_key(text: Any) -> tuple[int, ...]:
    """A release number that compares: "0.10.1" -> (0, 10, 1). No part has more than nine digits."""
    return tuple(int(number[:9]) for number in re.findall(r"\d+", str(text))[:3])


def _is_deep(content: Any) -> bool:
    """Whether lists and dictionaries are nested deeper than any program does it; copying them would fail."""
    level = [content]
    for _ in range(MOST_LEVELS):
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [part for parts in inside for part in parts if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _sound(cells: list[Cell]) -> list[Cell]:
    """Cells as format 4.5 wants them: a known type, text as one string, valid outputs, unique ids."""
    out: list[Cell] = []
    used: set[str] = set()
    for cell in cells:
        kind = cell.get("cell_type") if cell.get("cell_type") in ("code", "markdown") else "raw"
        source = join_lines(cell.get("source", ""))
        source = source if isinstance(source, str) else json.dumps(source)
        metadata = cell["metadata"] if isinstance(cell.get("metadata"), dict) else {}
        if not all(isinstance(value, str) for value in labkit_of({"metadata": metadata}).values()):
            metadata = {**metadata, "labkit": {}}
        sound: Cell = {"cell_type": kind, "metadata": metadata, "source": source}
        sound["id"] = unique_id(cell.get("id", labkit_of(sound).get("id")), source, used)
        used.add(sound["id"])
        if kind == "code":
            sound |= {"execution_count": None, "outputs": _outputs(cell.get("outputs"))}
            if isinstance(cell.get("execution_count"), int):
                sound["execution_count"] = cell["execution_count"]
        elif isinstance(cell.get("attachments"), dict):
            bundles = cell["attachments"].items()
            sound["attachments"] = {name: bundle for name, bundle in bundles if isinstance(bundle, dict)}
        out.append(sound)
    return out


def _outputs(outputs: Any) -> list[dict[str, Any]]:
    """The outputs that Jupyter would accept; the others are dropped, a run makes them again."""
    needed: dict[str, dict[str, Any]] = {
        "stream": {"name": str, "text": str | list},
        "error": {"ename": str, "evalue": str, "traceback": list},
        "display_data": {"data": dict, "metadata": dict},
        "execute_result": {"data": dict, "metadata": dict},
    }
    return [
        output
        for output in (outputs if isinstance(outputs, list) else [])
        if isinstance(output, dict)
        and isinstance(kind := output.get("output_type"), str)
        and (fields := needed.get(kind))
        and all(isinstance(output.get(name), wanted) for name, wanted in fields.items())
    ]
