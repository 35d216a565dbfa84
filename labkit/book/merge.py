"""Put a release and a learner's copy of a notebook together, cell by cell; nothing the learner wrote is lost.

`match.py` says which released cell a learner's cell stands for; `base` in its metadata tells whether its text
was changed. Then:

    learner           release      result
    untouched         changed      the new text
    changed           same         the learner's text, outputs kept
    changed           changed      the learner's text, and a note below it with the new one
    changed, locked   any          the released cell, and the learner's text in a cell of their own below it
    deleted           present      put back
    of their own      -            kept after the cell it followed
    changed           removed      kept, with a note; untouched: dropped
    copied            -            a changed copy is a cell of their own where it stands; unchanged: dropped
"""

import copy
from collections import defaultdict
from collections.abc import Container

from labkit.book.learner import Problem as Problem
from labkit.book.learner import read_learner as read_learner
from labkit.book.learner import unique_id
from labkit.book.match import Part, Released, choose, is_as_written, is_note, label_of, match, note, plain
from labkit.book.notebook import LOCKED, Cell, Notebook, digest, labkit_of, make_cell


def merge(
    release: Notebook, learner: Notebook, other_ids: Container[str] = frozenset()
) -> tuple[Notebook, list[str]]:
    """The learner's notebook on this release, and what was done, in sentences.

    `other_ids` are cell ids of other lessons: a cell pasted from one of those is the learner's own.
    """
    log: list[str] = []
    released: Released = {cell["id"]: cell for cell in release["cells"]}
    parts = match(copy.deepcopy(learner["cells"]), released, other_ids, log)
    chosen = choose(parts, released)
    own = _own_cells(parts, chosen, released, log)
    cells = own[None]
    for key in released:
        slot = _slot(released[key], chosen.get(key), release, log)
        if is_note(slot[-1]):  # it replaces the note of an earlier release
            own[key] = [cell for cell in own[key] if not (is_note(cell, key) and is_as_written(cell))]
        cells += slot + own[key]
    if [part.key for part in parts if part in chosen.values()] != [key for key in released if key in chosen]:
        log.append("the lesson's cells are in their order again")
    _make_ids_unique(cells, released)
    metadata = {**release["metadata"], **learner["metadata"], "labkit": release["metadata"].get("labkit", {})}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, log


def graded_copy(release: Notebook, learner: Notebook) -> Notebook:
    """What `make check` runs: the release with the learner's answers and their own cells.

    Metadata of released cells is the release's, so no tag of the learner's silences a check. Cells of their
    own carry `labkit: {role: helper}` and nothing else.
    """
    released: Released = {cell["id"]: cell for cell in release["cells"]}
    learner = copy.deepcopy(learner)
    for cell in learner["cells"]:
        if labkit_of(cell).get("id", cell.get("id")) not in released and not is_note(cell):
            cell["metadata"] = {}  # a cell pasted from another lesson may be needed here
    merged, _ = merge(release, learner)
    cells = []
    for cell in merged["cells"]:
        original = released.get(cell["id"])
        if original is not None:
            metadata = copy.deepcopy(original["metadata"])
            cells.append(make_cell(original["cell_type"], cell["source"], cell["id"], metadata))
        elif not is_note(cell):
            metadata = {"labkit": {"role": "helper"}}
            cells.append(make_cell(cell["cell_type"], cell["source"], cell["id"], metadata))
    return {**merged, "cells": cells, "metadata": copy.deepcopy(release["metadata"])}


def is_untouched(nb: Notebook) -> bool:
    """Every cell is as released, and there is no other."""
    return all(is_as_written(cell) for cell in nb["cells"])


def _own_cells(
    parts: list[Part], chosen: dict[str, Part], released: Released, log: list[str]
) -> dict[str | None, list[Cell]]:
    """The learner's own cells, under the released cell that each one follows (None: above them all)."""
    own: dict[str | None, list[Cell]] = defaultdict(list)
    anchor = None
    for part in parts:
        if part.key is None:
            own[anchor] += part.cells
        elif part is chosen[part.key]:
            anchor = part.key
        else:
            label = label_of(released[part.key])
            same = digest(part.text) == digest(chosen[part.key].text)
            if same or not part.changed_from(released[part.key]):
                log.append(f"{label}: a copy with nothing new in it is gone")
            else:
                log.append(f"{label}: another version of yours is kept as a cell of your own")
                own[anchor].append(plain(_joined(part)))
    return own


def _slot(released: Cell, part: Part | None, release: Notebook, log: list[str]) -> list[Cell]:
    """The cell that takes the released cell's place, and what stands right below it."""
    fresh, label = copy.deepcopy(released), label_of(released)
    if part is None:
        log.append(f"{label}: was not in your copy and is there now")
        return [fresh]
    mine, changed = _joined(part), part.changed_from(released)
    if changed and labkit_of(released).get("role") in LOCKED:
        log.append(f"{label}: this cell is locked, so it is as released; your version is below it")
        return [fresh, plain(mine)]
    if changed:
        return _learners(mine, part, fresh, release, log)
    if digest(part.text) != digest(released["source"]):
        log.append(f"{label}: has a new text")
    elif fresh["cell_type"] == mine["cell_type"] == "code":
        fresh |= {"outputs": mine["outputs"], "execution_count": mine["execution_count"]}
    return [fresh]


def _learners(mine: Cell, part: Part, fresh: Cell, release: Notebook, log: list[str]) -> list[Cell]:
    """The learner's text in the place of `fresh`, and a note if the release changed as well."""
    label, base = label_of(fresh), labkit_of(part.cells[0]).get("base")
    if len(part.cells) > 1:
        log.append(f"{label}: was split into {len(part.cells)} cells and is one again")
    if labkit_of(fresh).get("role") == "exercise" and mine["cell_type"] != "code":
        log.append(f"{label}: is a code cell again")
        mine = make_cell("code", mine["source"], fresh["id"], mine["metadata"])
    mine |= {"id": fresh["id"], "metadata": {**mine["metadata"], **fresh["metadata"]}}
    if base in (None, digest(fresh["source"])):
        return [mine]
    log.append(f"{label}: kept what you wrote; the new text is in a note below it")
    text = fresh["source"] if fresh["cell_type"] == "markdown" else f"````python\n{fresh['source']}\n````"
    version = labkit_of(release).get("release")
    heading = f"**New in release {version}.** What you wrote above is kept. The lesson now has:"
    return [mine, note(fresh["id"], f"{heading}\n\n{text}")]


def _joined(part: Part) -> Cell:
    """One cell with the text, outputs and pictures of all cells of the part."""
    cell = {**part.cells[-1], "source": part.text}
    if len(part.cells) > 1 and cell["cell_type"] == "code":
        cell["outputs"] = [output for piece in part.cells for output in piece.get("outputs", [])]
    elif len(part.cells) > 1:
        pictures = [picture for piece in part.cells for picture in piece.get("attachments", {}).items()]
        cell |= {"attachments": dict(pictures)} if pictures else {}
    return cell


def _make_ids_unique(cells: list[Cell], released: Released) -> None:
    used = set(released)
    for cell in cells:
        if labkit_of(cell).get("id") is None:
            cell["id"] = unique_id(cell.get("id"), cell["source"], used)
            used.add(cell["id"])
