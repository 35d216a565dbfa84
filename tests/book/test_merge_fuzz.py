"""Thousands of editing sessions against the merge, and broken merges that the sessions must catch.

LABKIT_FUZZ=20000 runs more sessions.
"""

import copy
import os
import random
from pathlib import Path

import pytest

from labkit.book import merge as merge_module
from labkit.book.course import lesson_paths, read_lesson
from labkit.book.merge import graded_copy, merge
from labkit.book.notebook import LOCKED, digest, dumps, labkit_of, learner_notebook
from labkit.book.percent import Cell, Lesson

from .editor import Learner
from .test_percent import COURSE

SESSIONS = int(os.environ.get("LABKIT_FUZZ", "3000"))


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
    ids = [cell["id"] for cell in nb["cells"]]
    assert len(ids) == len(set(ids)), "duplicate ids"
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
        rivals = [i for i in kin if i not in places and is_changed(learner.cells[i])]
        strangers = {names[i] for i in range(places[0], places[-1] + 1)} - {None, key}
        head = names[places[0]]  # the cell that the answer, or its first part, was merged into
        skipped = order[order.index(head) + 1 : order.index(key)] if head in order else []
        together = strangers <= {head} and (head in (None, key) or not set(skipped) & set(names))
        if together and not rivals and key in {cell["id"] for cell in second["cells"]}:
            out[key] = lines
    return out


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
    assert dumps(again) == dumps(merged), "not idempotent"
    assert log == [], "a second merge still has something to say"
    graded = merge_module.graded_copy(second, learner.nb)
    assert_sound(second, graded)
    assert not lines_of(learner.nb) - lines_of(graded) - lines_of(first), "lost in the graded copy"
    assert all(
        (not cell.get("outputs") and "tags" not in cell["metadata"]) or labkit_of(cell).get("id")
        for cell in graded["cells"]
    )


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
    for seed in range(300):
        first, second, _ = play(seed)
        assert dumps(merge(second, first)[0]) == dumps(second)
        assert dumps(graded_copy(second, second)) == dumps(second)
