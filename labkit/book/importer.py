"""Bring edits made in a solution notebook back to the lesson's source, cell by cell, by id."""

import argparse
import sys
from pathlib import Path

from labkit.book import disk
from labkit.book.learner import Problem, read_learner
from labkit.book.notebook import Cell, labkit_of
from labkit.book.percent import Cell as LessonCell
from labkit.book.percent import LessonError, parse


def import_back(notebook: Path, source: Path | None = None, new: bool = False) -> list[str]:
    """Put the texts of `notebook` into its source (by default the .py beside it); returns the changed ids.

    Cells unknown to the source are refused unless `new`; then they are added after the cell they follow.
    Cells that the notebook lacks stay in the source, and cells that did not change keep every byte.
    """
    source = source or notebook.with_suffix(".py")
    found = read_learner(notebook)
    if isinstance(found, Problem):
        raise LessonError([str(found)])
    before = disk.read_bytes(source)
    lines = before.decode("utf-8").splitlines()
    known = {cell.id: cell for cell in _parse(lines, source)}
    strangers = [_name(cell) for cell in found["cells"] if _name(cell) not in known]
    if strangers and not new:
        raise LessonError(
            [f"{notebook}: {source.name} has no cell {id}; import it as new" for id in strangers]
        )

    starts = [cell.line - 1 for cell in known.values()]
    stops = [*starts[1:], len(lines)]
    blocks = {id: lines[start:stop] for id, start, stop in zip(known, starts, stops, strict=True)}
    changed, previous = list[str](), None
    for cell in found["cells"]:
        name = _name(cell)
        if name not in known:
            kind = " [markdown]" if cell["cell_type"] == "markdown" else ""
            blocks = _insert_after(blocks, previous, name, [f"# %%{kind} id={name}", *_body(cell), ""])
            changed.append(name)
        elif cell["source"].strip("\n") != known[name].source:
            blank_lines = blocks[name][known[name].end - known[name].line + 1 :]
            blocks[name] = [blocks[name][0], *_body(cell), *blank_lines]
            changed.append(name)
        previous = name
    result = [*lines[: starts[0] if starts else None], *(line for block in blocks.values() for line in block)]
    _parse(result, source)
    disk.write_bytes(source, ("\n".join(result).rstrip("\n") + "\n").encode(), expected=before)
    return changed


def _parse(lines: list[str], source: Path) -> list[LessonCell]:
    cells, problems = parse("\n".join(lines), source.name)
    if problems:
        raise LessonError(problems)
    return cells


def _name(cell: Cell) -> str:
    return str(labkit_of(cell).get("id", cell["id"]))


def _body(cell: Cell) -> list[str]:
    lines: list[str] = cell["source"].strip("\n").split("\n")
    return [f"# {line}".rstrip() for line in lines] if cell["cell_type"] == "markdown" else lines


def _insert_after(
    blocks: dict[str, list[str]], previous: str | None, name: str, block: list[str]
) -> dict[str, list[str]]:
    items = list(blocks.items())
    place = list(blocks).index(previous) + 1 if previous in blocks else 0
    return dict([*items[:place], (name, block), *items[place:]])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("labkit import", description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--new", action="store_true", help="add cells that the source does not have")
    options = parser.parse_args(argv)
    try:
        changed = import_back(options.notebook, new=options.new)
    except (LessonError, disk.UpdateError) as error:
        print(error, file=sys.stderr)
        return 1
    print("Changed:", ", ".join(changed) if changed else "nothing")
    return 0
