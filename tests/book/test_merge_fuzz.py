"""Thousands of editing sessions against the merge, and broken merges that the sessions must catch.

LABKIT_FUZZ=20000 runs more sessions.
"""

import copy
import os
import random
from collections import defaultdict
from pathlib import Path

import pytest

from labkit.book import match as match_module
from labkit.book import merge as merge_module
from labkit.book.course import lesson_paths, read_lesson
from labkit.book.match import note
from labkit.book.merge import graded_copy, merge
from labkit.book.notebook import LOCKED, digest, dumps, labkit_of, learner_notebook
from labkit.book.percent import Cell, Lesson

from .editor import Learner
from .test_percent import COURSE

SESSIONS = int(os.environ.get("LABKIT_FUZZ", "2000"))


def random_lesson(rng: random.Random) -> Lesson:
    """Between one and five exercises with text, demos and checks around them."""
    cells = [
        Cell("t", "markdown", "text", "# Title\n\nIntroduction."),
        Cell("s", "code", "setup", "import math"),
    ]
    for n in range(rng.randint(1, 5)):
        ex, name = f"w.e{n}", f"f{n}"
        body = f"def {name}(x):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION"
        if rng.random() < 0.3:
            body = f"import os\n\n\nclass F{n}:\n    {body.replace(chr(10), chr(10) + '    ')}"
            name = f"F{n}"
        if rng.random() < 0.8:
            cells.append(Cell(f"m{n}", "markdown", "text", f"## Exercise {n}\n\nWrite `{name}`."))
        cells.append(Cell(f"e{n}", "code", "exercise", body, ex))
        if rng.random() < 0.3:
            cells.append(Cell(f"d{n}", "code", "demo", f"y{n} = {n}\nprint(y{n})"))
        cells.append(Cell(f"c{n}", "code", "check", f'check("{ex}", {name})', ex))
    return Lesson(Path("solutions/week01_a/01_b.py"), tuple(cells))


def next_release(nb: dict, rng: random.Random) -> dict:
    """The same notebook a release later: some texts changed, some cells gone, some new."""
    nb = copy.deepcopy(nb)
    nb["metadata"]["labkit"]["release"] = "0.2.0"
    for cell in nb["cells"]:
        if rng.random() < 0.2:
            comment = f"# news {rng.randrange(10**6)}"
            cell["source"] += f"\n{comment}" if cell["cell_type"] == "markdown" else ""
            cell["source"] = (
                cell["source"] if cell["cell_type"] == "markdown" else f"{comment}\n{cell['source']}"
            )
            cell["metadata"]["labkit"]["base"] = digest(cell["source"])
    nb["cells"] = [cell for cell in nb["cells"] if rng.random() > 0.06]
    for n in range(rng.randint(0, 2)):
        cell = copy.deepcopy(nb["cells"][0])
        cell |= {"id": f"new{n}", "cell_type": "markdown", "source": f"New paragraph {n}"}
        cell["metadata"] = {"labkit": {"id": cell["id"], "role": "text", "base": digest(cell["source"])}}
        cell.pop("outputs", None), cell.pop("execution_count", None)
        nb["cells"].insert(rng.randint(0, len(nb["cells"])), cell)
    return nb


FIXTURES = [learner_notebook(read_lesson(COURSE, path), "0.1.0") for path in lesson_paths(COURSE)]


def play(seed: int) -> tuple[dict, dict, Learner]:
    """A first release, a second one, and a learner who worked on the first."""
    rng = random.Random(seed)
    first = rng.choice([*FIXTURES, None]) or learner_notebook(random_lesson(rng), "0.1.0")
    second = next_release(first, rng) if rng.random() < 0.7 else first
    learner = Learner(first, seed, ignores_locks=rng.random() < 0.4, moves=rng.random() < 0.5)
    learner.session(rng.randint(0, 14))
    return first, second, learner


def lines_of(nb: dict) -> set[str]:
    return {line.rstrip() for cell in nb["cells"] for line in cell["source"].splitlines() if line.strip()}


def assert_sound(release: dict, nb: dict) -> None:
    """Ids are unique, released cells are complete and in order, locked ones exact."""
    ids = [cell.get("id") for cell in nb["cells"]]
    assert all(ids) and len(ids) == len(set(ids)), "ids missing or duplicate"
    released = {cell["id"]: cell for cell in release["cells"]}
    found = [cell for cell in nb["cells"] if labkit_of(cell).get("id")]
    assert [labkit_of(cell)["id"] for cell in found] == [cell["id"] for cell in found] == list(released), (
        "order"
    )
    for cell in found:
        original = released[cell["id"]]
        assert labkit_of(cell) == labkit_of(original), "metadata"
        if labkit_of(cell)["role"] in LOCKED:
            for field in ("source", "metadata", "cell_type"):
                assert cell[field] == original[field], "locked cell"
    own = [cell for cell in nb["cells"] if not labkit_of(cell).get("id")]
    assert not any({"nbgrader", "editable", "deletable"} & cell["metadata"].keys() for cell in own), (
        "marks on own cells"
    )


def whole_answers(first: dict, second: dict, learner: Learner) -> dict[str, list[str]]:
    """Answers that any fair reader would still call whole: nothing was moved, every line is there once and in
    order, in cells that stand together, and there is no other changed copy of the exercise."""
    order = [cell["id"] for cell in first["cells"]]
    names = [labkit_of(cell).get("id") for cell in learner.cells]
    out = {}
    for key, lines in learner.answers.items():
        text = [line for cell in learner.cells for line in cell["source"].split("\n") if line in lines]
        if learner.cut in learner.actions or not lines or text != lines:
            continue
        places = [i for i, cell in enumerate(learner.cells) if set(lines) & set(cell["source"].split("\n"))]
        kin = [i for i, name in enumerate(names) if name == key]
        old_format = "id" not in learner.cells[0]  # then an unchanged copy passes for the cell itself
        rivals = [i for i in kin if i not in places and (old_format or is_changed(learner.cells[i]))]
        strangers = {names[i] for i in range(places[0], places[-1] + 1)} - {None, key}
        head = names[places[0]]  # the cell that the answer, or its first part, was merged into
        if head not in (None, key) and order.index(head) > order.index(key):
            continue  # merged into a copy of a later cell
        skipped = order[order.index(head) + 1 : order.index(key)] if head in order else []
        together = strangers <= {head} and (head in (None, key) or not set(skipped) & set(names))
        rest = {names[i] for i in places[1:]}  # the pieces below must still carry the exercise's name
        named = rest <= {key} if head else not rest
        whole = named and (head == key or defines(learner.cells[places[0]], first, key))
        if together and whole and not rivals and key in {cell["id"] for cell in second["cells"]}:
            out[key] = lines
    return out


def defines(cell: dict, first: dict, key: str) -> bool:
    """The cell holds the definition that the exercise asks for, not only the end of its body."""
    (stub,) = [cell["source"] for cell in first["cells"] if cell["id"] == key]
    return any(
        line in stub.split("\n") for line in cell["source"].split("\n") if line[:3] in ("def", "cla", "pre")
    )


def is_changed(cell: dict) -> bool:
    return digest(cell["source"]) != labkit_of(cell).get("base")


def assert_merged_well(first: dict, second: dict, learner: Learner) -> None:
    before = copy.deepcopy(learner.nb)
    merged, _ = merge_module.merge(second, learner.nb)
    assert learner.nb == before, "the input was changed"
    assert_sound(second, merged)
    lost = lines_of(learner.nb) - lines_of(merged) - lines_of(first)
    assert not lost, f"lost {lost}"
    cells = {cell["id"]: cell for cell in merged["cells"]}
    answers = whole_answers(first, second, learner)
    for key, lines in answers.items():
        assert [line for line in cells[key]["source"].split("\n") if line in lines] == lines, (
            "answer not in its cell"
        )
        assert cells[key]["cell_type"] == "code", "answer is not code"
    again, log = merge_module.merge(second, merged)
    assert again == merged, "not idempotent"
    assert log == [], "a second merge still has something to say"
    graded = merge_module.graded_copy(second, learner.nb)
    assert_sound(second, graded)
    assert not lines_of(learner.nb) - lines_of(graded) - lines_of(first), "lost in the graded copy"
    assert all(not cell.get("outputs") for cell in graded["cells"]), "outputs in the graded copy"


@pytest.mark.parametrize("block", range(4))
def test_nothing_is_lost(block):
    for seed in range(block * SESSIONS // 4, (block + 1) * SESSIONS // 4):
        first, second, learner = play(seed)
        try:
            assert_merged_well(first, second, learner)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_an_untouched_copy_becomes_exactly_the_release():
    for seed in range(100):
        first, second, _ = play(seed)
        assert dumps(merge(second, first)[0]) == dumps(second)
        assert dumps(graded_copy(second, second)) == dumps(second)


# broken merges: each must be caught by the sessions above


def drop_own_cells(parts, chosen, released, log):
    return defaultdict(list)


def trust_cell_ids_only(cells, *rest, match=match_module.match):
    return match([{**cell, "metadata": {}} for cell in cells], *rest)


def keep_edited_locks(released, part, release, log, slot=merge_module._slot):
    cells = slot(released, part, release, log)
    return [{**cells[0], "source": part.text}] if part and labkit_of(released)["role"] in LOCKED else cells


def forget_deleted(released, part, release, log, slot=merge_module._slot):
    return slot(released, part, release, log) if part else [note("x", "gone")]


def keep_old_base(mine, part, fresh, release, log, learners=merge_module._learners):
    base = labkit_of(part.cells[0]).get("base", "")
    cells = learners(mine, part, fresh, release, log)
    cells[0]["metadata"] = {**cells[0]["metadata"], "labkit": {**labkit_of(cells[0]), "base": base}}
    return cells


def release_always_wins(mine, part, fresh, release, log):
    return [fresh]


def keep_learners_type(mine, part, fresh, release, log, learners=merge_module._learners):
    return [{**cell, "cell_type": mine["cell_type"]} for cell in learners(mine, part, fresh, release, log)]


def first_version_wins(parts, released):
    return {part.key: part for part in reversed(parts) if part.key}


def forget_earlier_pieces(part):
    return part.cells[-1]


MUTANTS = {
    "own cells dropped": (merge_module, "_own_cells", drop_own_cells),
    "ids only, no metadata": (merge_module, "match", trust_cell_ids_only),
    "edited locked cells stay": (merge_module, "_slot", keep_edited_locks),
    "deleted cells stay away": (merge_module, "_slot", forget_deleted),
    "base not renewed": (merge_module, "_learners", keep_old_base),
    "release wins over answers": (merge_module, "_learners", release_always_wins),
    "retyped answers stay text": (merge_module, "_learners", keep_learners_type),
    "first copy wins": (merge_module, "choose", first_version_wins),
    "only the last piece of a split": (merge_module, "_joined", forget_earlier_pieces),
    "ids not made unique": (merge_module, "_make_ids_unique", lambda cells, released: None),
    "marks left on own cells": (match_module, "plain", lambda cell: cell),
    "pieces not joined": (match_module, "join_pieces", lambda parts, released: parts),
    "merged cells not taken apart": (match_module, "unmerge", lambda parts, released, log: parts),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_merge_is_caught(name, monkeypatch):
    monkeypatch.setattr(*MUTANTS[name])
    with pytest.raises(AssertionError):
        for seed in range(SESSIONS):
            assert_merged_well(*play(seed))
