"""Which released cell does a learner's cell stand for?

The one named in its `metadata.labkit.id` or, failing that, by its own id. Jupyter copies metadata when a cell
is split or copied and drops it when cells are merged, so:

- Merged cells are taken apart again where the missing cell's text, or the name its answer defines, is found.
- Pieces of a split cell are joined in order. Pieces stand together, above the one that kept the cell's id,
  and do not define the same function twice.
- Everything else under one name is a copy. The answer is the last changed copy above the check: the one that
  a Run All would judge (the first changed one if none stands above).
"""

import re
from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass

from labkit.book.notebook import Cell, digest, labkit_of, make_cell

Released = dict[str, Cell]
BINDS = re.compile(r"^(?:async )?(?:def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE)


@dataclass(eq=False)
class Part:
    """Learner's cells that belong together; `key` names the released cell they stand for, None: their own."""

    key: str | None
    cells: list[Cell]

    @property
    def text(self) -> str:
        return "\n".join(cell["source"] for cell in self.cells)

    def changed_from(self, released: Cell) -> bool:
        """Whether the learner wrote something here; a cleared cell counts as untouched and comes back."""
        known = (labkit_of(self.cells[0]).get("base"), digest(released["source"]), digest(""))
        return digest(self.text) not in known


def match(cells: list[Cell], released: Released, other_ids: Container[str], log: list[str]) -> list[Part]:
    """The learner's cells as parts, in their order; cells that left the lesson are dropped or marked here."""
    parts: list[Part] = []
    marked = set()
    for cell in cells:
        name = labkit_of(cell).get("id")
        if name in released or (name is None and cell.get("id") in released):
            parts.append(Part(name or cell["id"], [cell]))
        elif not isinstance(name, str) or name in other_ids:
            parts.append(Part(None, [cell if is_note(cell) else plain(cell)]))
        elif is_as_written(cell):
            log.append(f"{name}: no longer part of the lesson; you had not changed it, so it is gone")
        else:
            if name not in marked:
                log.append(f"{name}: no longer part of the lesson; what you wrote is kept")
                text = f"`{name}` is no longer part of the lesson. What you wrote is below."
                parts.append(Part(None, [note(name, text)]))
            marked.add(name)
            parts.append(Part(None, [plain(cell)]))
    parts = unmerge(join_pieces(parts, released), released, log)
    return join_pieces(parts, released)  # an answer cut in two by a merge


def unmerge(parts: list[Part], released: Released, log: list[str]) -> list[Part]:
    """Take merged cells apart: look for each missing cell in the changed text where it should be."""
    order, home = list(released), _homes(parts)
    code = [part for key, part in home.items() if released[key]["cell_type"] == "code"]
    absent = {key for key in order if key not in home or _is_mere_copy(home[key], released[key])}
    answers = choose(parts, released)
    missing = absent | {key for key, part in answers.items() if _is_beheaded(part, released[key])}
    for key in (key for key in reversed(order) if key in missing):
        for index, part in enumerate(parts):
            if (
                part.key is None
            ):  # their own cell may hold an answer that has no cell, but not move below code
                below = [order.index(p.key) for p in parts[index:] if p.key and p in code]
                fits = key in absent and order.index(key) < (below or [len(order)])[0]
                between = None
            else:  # the cell above, or one above that if those between are missing too
                between = order[order.index(part.key) + 1 : order.index(key)]
                fits = order.index(part.key) < order.index(key) and missing.issuperset(between)
            line = _where(part, released, key, directly=between == []) if fits else None
            if line is not None:
                log.append(f"{label_of(released[key])}: was inside another cell and is in its own again")
                parts[index : index + 1] = _cut(part, line, key)
                break
    return parts


def _homes(parts: list[Part]) -> dict[str, Part]:
    """For every released cell, the part that is not a copy: the one with its id, else the first."""
    home: dict[str, Part] = {}
    for part in parts:
        if part.key and (part.key not in home or any(cell.get("id") == part.key for cell in part.cells)):
            home[part.key] = part
    return home


def _is_mere_copy(part: Part, released: Cell) -> bool:
    """An unchanged copy, when the cell itself is gone."""
    ids = [cell.get("id") for cell in part.cells]
    return not part.changed_from(released) and None not in ids and released["id"] not in ids


def _is_beheaded(part: Part, released: Cell) -> bool:
    """An answer that no longer defines its name: the definition may have been merged into the cell above."""
    names = _bound(released["source"]) if labkit_of(released).get("role") == "exercise" else set()
    return bool(names) and not _bound(part.text) & names


def _where(part: Part, released: Released, key: str, directly: bool) -> int | None:
    """The line of the part's text where the missing cell begins; `directly` if it is the next in line."""
    home = released.get(part.key or "")
    if home is not None and not part.changed_from(home):
        return None
    lines = part.text.splitlines()
    filled = [(number, line.rstrip()) for number, line in enumerate(lines) if line.strip()]
    wanted = [line.rstrip() for line in released[key]["source"].splitlines() if line.strip()]
    tail = filled[-len(wanted) :] if wanted else []
    if tail and [line for _, line in tail] == wanted:
        return tail[0][0]
    if labkit_of(released[key]).get("role") != "exercise":
        return None
    names = _bound(released[key]["source"]) - (_bound(home["source"]) if home else set())
    if not _bound(part.text) & names:
        return None
    base = labkit_of(part.cells[0]).get("base")
    ours = [n for n in range(len(lines)) if digest("\n".join(lines[:n])) == base]
    if directly and ours:  # what follows the text of the first cell was the second cell
        return ours[-1]
    first = next(number for number, line in enumerate(lines) if _bound(line) & names)
    while first and lines[first - 1].startswith("@"):
        first -= 1
    return first


def _cut(part: Part, line: int, key: str) -> list[Part]:
    lines = part.text.splitlines()
    found = Part(key, [make_cell("code", "\n".join(lines[line:]), f"cut-{key}", {"labkit": {"id": key}})])
    cell = part.cells[0]
    cell["source"] = "\n".join(lines[:line])
    part.cells = [cell]
    if cell["cell_type"] == "code":
        cell |= {"outputs": [], "execution_count": None}
    return [part, found] if part.key or cell["source"].strip() else [found]


def join_pieces(parts: list[Part], released: Released) -> list[Part]:
    """Pieces of a split cell become one part; only cells of the learner's own may stand between them."""
    out: list[Part] = []
    last: Part | None = None
    for part in parts:
        if part.key is None:
            out.append(part)
        elif last is not None and last.key == part.key and _is_piece(last, part, released[part.key]):
            last.cells += part.cells
        else:
            out.append(part)
            last = part
    return out


def _is_piece(first: Part, second: Part, released: Cell) -> bool:
    twice = _bound(first.text, functions_only=True) & _bound(second.text, functions_only=True)
    whole = not first.changed_from(released) or not second.changed_from(released)
    below = any(cell.get("id") == released["id"] for cell in first.cells)
    return not (twice or whole or below or digest(first.text) == digest(second.text))


def _bound(text: str, functions_only: bool = False) -> set[str]:
    """Names bound at the left margin; by pattern, since half a cell does not parse."""
    return {found[1] or found[2] for found in BINDS.finditer(text) if found[1] or not functions_only}


def choose(parts: list[Part], released: Released) -> dict[str, Part]:
    """For every released cell that the learner has, the part that stands for it."""
    copies: dict[str, list[Part]] = defaultdict(list)
    checks: dict[str, int] = {}  # exercise -> where the learner's copy checks it
    for index, part in enumerate(parts):
        if part.key:
            copies[part.key].append(part)
            meta = labkit_of(released[part.key])
            if meta.get("role") == "check":
                checks.setdefault(meta["ex"], index)
    chosen = _homes(parts)
    for key, candidates in copies.items():
        meta = labkit_of(released[key])
        changed = [part for part in candidates if part.changed_from(released[key])]
        if meta.get("role") == "exercise" and changed:
            above = [part for part in changed if parts.index(part) < checks.get(meta["ex"], len(parts))]
            chosen[key] = above[-1] if above else changed[0]
    return chosen


def plain(cell: Cell) -> Cell:
    """A cell of the learner's own: without the lesson's marks, so that it can be edited and deleted."""
    ours = ("labkit", "nbgrader", "editable", "deletable")
    return {**cell, "metadata": {key: value for key, value in cell["metadata"].items() if key not in ours}}


def note(key: str, text: str) -> Cell:
    """A markdown cell from us to the learner, about one released cell."""
    meta = {"role": "note", "of": key, "base": digest(text)}
    return make_cell("markdown", text, f"note-{key}"[:64], {"labkit": meta})


def is_note(cell: Cell, key: str | None = None) -> bool:
    meta = labkit_of(cell)
    return meta.get("role") == "note" and "id" not in meta and key in (None, meta.get("of"))


def is_as_written(cell: Cell) -> bool:
    """Nobody changed this cell of ours."""
    return digest(cell["source"]) == labkit_of(cell).get("base")


def label_of(cell: Cell) -> str:
    """How the log calls a released cell."""
    meta = labkit_of(cell)
    return f"{meta['ex']} (check)" if meta.get("role") == "check" else str(meta.get("ex", cell["id"]))
