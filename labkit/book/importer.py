"""Bring edits made in a solution notebook back to the lesson's source, cell by cell, by id."""

import argparse
import sys
from difflib import SequenceMatcher
from pathlib import Path

from labkit.book import disk
from labkit.book.course import facts_of
from labkit.book.facts import Filled
from labkit.book.learner import Problem, read_learner
from labkit.book.notebook import Cell, labkit_of
from labkit.book.percent import MARKER, LessonError, parse, parts, stretches
from labkit.book.percent import Cell as LessonCell


def import_back(notebook: Path, source: Path | None = None, new: bool = False) -> list[str]:
    """Put the texts of `notebook` into its source (by default the .py beside it); returns the changed ids.

    Cells unknown to the source are refused unless `new`; then they are added after the cell they follow.
    Cells that the notebook lacks stay in the source, and cells that did not change keep every byte. In those
    that did, solution markers, stubs and what the build fills in stay as they are written.
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
    shown = _texts_shown(source, list(known.values()))
    changed, previous = list[str](), None
    for cell in found["cells"]:
        name, text = _name(cell), cell["source"].strip("\n")
        if name not in known:
            kind = " [markdown]" if cell["cell_type"] == "markdown" else ""
            body = _body(cell["cell_type"], text)
            blocks = _insert_after(blocks, previous, name, [f"# %%{kind} id={name}", *body, ""])
            changed.append(name)
        elif text not in (known[name].source, known[name].solution, _text(shown.get(name, []))):
            written = _written(known[name], text, shown, f"{source.name}:{known[name].line}")
            blank_lines = blocks[name][known[name].end - known[name].line + 1 :]
            blocks[name] = [blocks[name][0], *_body(known[name].kind, written), *blank_lines]
            changed.append(name)
        previous = name
    result = [*lines[: starts[0] if starts else None], *(line for block in blocks.values() for line in block)]
    _texts_shown(source, _parse(result, source))
    disk.write_bytes(source, ("\n".join(result).rstrip("\n") + "\n").encode(), expected=before)
    return changed


def _texts_shown(source: Path, cells: list[LessonCell]) -> dict[str, list[Filled]]:
    """The text cells as the notebook shows them. A text that cannot be filled in is refused."""
    shown, problems = facts_of(source.parents[2], source, cells)
    if problems:
        raise LessonError(problems)
    return shown


def _text(lines: list[Filled]) -> str:
    return "\n".join(line for part in lines for line in part.shown)


def _written(cell: LessonCell, text: str, shown: dict[str, list[Filled]], where: str) -> str:
    """An edited text as its source writes it."""
    if cell.kind == "markdown":
        return _with_facts(shown[cell.id], text)
    if cell.role == "exercise" and not any(map(MARKER.match, text.split("\n"))):
        return with_markers(cell.source, text, where)
    return text


def _with_facts(before: list[Filled], text: str) -> str:
    """The edited text, with what the source wrote where the notebook shows the same as before."""
    places = [(part, place) for part in before for place in range(len(part.shown))]
    old, new = [part.shown[place] for part, place in places], text.split("\n")
    out = list[str]()
    for kind, i, k, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            out += new[start:stop]
            continue
        for part, place in places[i:k]:
            whole = len(part.shown) == 1 or all((part, n) in places[i:k] for n in range(len(part.shown)))
            if not whole:
                out.append(part.shown[place])
            elif place == 0 and part.written is not None:
                out.append(part.written)
    return "\n".join(out).strip("\n")


def with_markers(source: str, text: str, where: str) -> str:
    """The edited solution between the markers of its source, stubs kept.

    A changed line belongs to the stretch whose line it replaces; a new one to the solution that it touches.
    """
    before = stretches(source)
    owners = [number for number, stretch in enumerate(before) for _ in stretch.solution]
    old, new = parts(source)[1].split("\n"), text.split("\n")
    after: list[list[str]] = [[] for _ in before]
    for _, i, k, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        touched = set(owners[i:k]) or {*owners[max(0, i - 1) : i + 1]}
        written = [number for number in touched if before[number].indent is not None]
        if i == k and written:
            touched = {*written[:1]}
        if k - i == stop - start:
            for line, owner in zip(new[start:stop], owners[i:k], strict=True):
                after[owner].append(line)
        elif len(touched) == 1:
            after[touched.pop()] += new[start:stop]
        elif start < stop:
            raise LessonError(
                [
                    f"{where}: the edit crosses the edge of the solution; make it in the source, between "
                    "`### BEGIN SOLUTION` and `### END SOLUTION`"
                ]
            )
    return "\n".join(line for part, lines in zip(before, after, strict=True) for line in part.marked(lines))


def _parse(lines: list[str], source: Path) -> list[LessonCell]:
    cells, problems = parse("\n".join(lines), source.name)
    if problems:
        raise LessonError(problems)
    return cells


def _name(cell: Cell) -> str:
    return str(labkit_of(cell).get("id", cell["id"]))


def _body(kind: str, text: str) -> list[str]:
    lines = text.split("\n")
    return [f"# {line}".rstrip() for line in lines] if kind == "markdown" else lines


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
