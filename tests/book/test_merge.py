"""Each rule of the merge once, in the words of its table, and damaged files."""

import copy
import json

import pytest

from labkit.book.course import read_lesson
from labkit.book.merge import Problem, graded_copy, is_untouched, merge, read_learner
from labkit.book.notebook import digest, dumps, labkit_of, learner_notebook, make_cell

from .test_percent import COURSE

RELEASE = learner_notebook(read_lesson(COURSE, COURSE / "solutions/week01_arrays/01_strides.py"), "0.1.0")
ANSWER = "def strides(shape):\n    return tuple(shape)\n"


@pytest.fixture
def learner():
    return copy.deepcopy(RELEASE)


def find(nb: dict, id: str) -> dict:
    (cell,) = [cell for cell in nb["cells"] if cell["id"] == id]
    return cell


def index(nb: dict, id: str) -> int:
    return nb["cells"].index(find(nb, id))


def pasted(cell: dict, id: str) -> dict:
    return {**copy.deepcopy(cell), "id": id}


def released_with(id: str, source: str) -> dict:
    nb = copy.deepcopy(RELEASE)
    nb["metadata"]["labkit"]["release"] = "0.2.0"
    cell = find(nb, id)
    cell["source"] = source
    cell["metadata"]["labkit"]["base"] = digest(source)
    return nb


def without(nb: dict, id: str) -> dict:
    return {**nb, "cells": [cell for cell in nb["cells"] if cell["id"] != id]}


def test_untouched_takes_the_new_text(learner):
    new = released_with("f1-demo", "print('new')")
    merged, log = merge(new, learner)
    assert dumps(merged) == dumps(new)
    assert log == ["f1-demo: has a new text"]


def test_an_answer_stays_with_its_outputs(learner):
    output = {"name": "stdout", "output_type": "stream", "text": "hi\n"}
    find(learner, "f1-strides").update(source=ANSWER, outputs=[output], execution_count=3)
    find(learner, "f1-strides-check").update(outputs=[output], execution_count=4)
    merged, log = merge(RELEASE, learner)
    assert dumps(merged) == dumps(learner) and log == []


def test_an_answer_to_a_changed_exercise_gets_a_note_and_only_one(learner):
    find(learner, "f1-strides")["source"] = ANSWER
    merged, log = merge(released_with("f1-strides", "def strides(shape, itemsize):\n    ..."), learner)
    note = merged["cells"][index(merged, "f1-strides") + 1]
    assert find(merged, "f1-strides")["source"] == ANSWER
    assert "New in release 0.2.0" in note["source"] and "itemsize" in note["source"]
    assert log == ["f1.strides: kept what you wrote; the new text is in a note below it"]
    again, _ = merge(released_with("f1-strides", "def strides(shape, order):\n    ..."), merged)
    notes = [cell for cell in again["cells"] if labkit_of(cell).get("role") == "note"]
    assert len(notes) == 1 and "order" in notes[0]["source"]


def test_a_locked_cell_is_as_released_and_the_edit_is_kept_below(learner):
    find(learner, "f1-setup")["source"] += "\nimport scipy"
    merged, log = merge(RELEASE, learner)
    assert find(merged, "f1-setup") == find(RELEASE, "f1-setup")
    mine = merged["cells"][index(merged, "f1-setup") + 1]
    assert "import scipy" in mine["source"] and mine["metadata"] == {}
    assert log == ["f1-setup: this cell is locked, so it is as released; your version is below it"]


def test_a_deleted_cell_comes_back(learner):
    merged, log = merge(RELEASE, without(learner, "f1-strides-check"))
    assert dumps(merged) == dumps(RELEASE)
    assert log == ["f1.strides (check): was not in your copy and is there now"]


def test_a_cleared_answer_is_the_stub_again(learner):
    find(learner, "f1-strides")["source"] = "\n"
    assert dumps(merge(RELEASE, learner)[0]) == dumps(RELEASE)


def test_own_cells_stay_after_the_cell_they_followed(learner):
    place = index(learner, "f1-demo")
    learner["cells"].insert(place + 1, make_cell("code", "mine = 1", "abc"))
    learner["cells"].insert(0, make_cell("markdown", "my notes", "def"))
    merged, log = merge(released_with("f1-demo", "print('new')"), learner)
    ids = [cell["id"] for cell in merged["cells"]]
    assert ids[0] == "def" and ids[ids.index("f1-demo") + 1] == "abc"
    assert log == ["f1-demo: has a new text"]


def test_cells_removed_from_the_lesson(learner):
    smaller = without(without(RELEASE, "f1-demo"), "f1-predict")
    find(learner, "f1-predict")["source"] = 'prediction = {"a": 4}'
    merged, log = merge(smaller, learner)
    place = next(i for i, cell in enumerate(merged["cells"]) if cell["source"] == 'prediction = {"a": 4}')
    assert "no longer part of the lesson" in merged["cells"][place - 1]["source"]
    assert "nbgrader" not in merged["cells"][place]["metadata"]
    assert [line.split(";")[0] for line in log] == [
        "f1-demo: no longer part of the lesson",
        "f1-predict: no longer part of the lesson",
    ]


def test_a_cell_pasted_from_another_lesson_is_the_learners_own(learner):
    stranger = make_cell("code", "x = 1", "other", {"labkit": {"id": "other", "base": digest("x = 1")}})
    learner["cells"].append(stranger)
    merged, log = merge(RELEASE, learner, other_ids={"other"})
    assert merged["cells"][-1]["source"] == "x = 1" and log == []
    assert graded_copy(RELEASE, learner)["cells"][-1]["source"] == "x = 1"


def test_a_split_answer_is_joined(learner):
    cell = find(learner, "f1-strides")
    first = {**pasted(cell, "n1"), "source": "def strides(shape):\n    steps = []"}
    cell["source"] = "    return tuple(steps)"
    learner["cells"].insert(index(learner, "f1-strides"), first)
    learner["cells"].insert(index(learner, "f1-strides"), make_cell("code", "scratch = 1", "n2"))
    merged, log = merge(RELEASE, learner)
    assert (
        find(merged, "f1-strides")["source"] == "def strides(shape):\n    steps = []\n    return tuple(steps)"
    )
    assert find(merged, "n2")["source"] == "scratch = 1"
    assert log == ["f1.strides: was split into 2 cells and is one again"]


@pytest.mark.parametrize("copy_below", [True, False])
def test_of_several_versions_the_last_above_the_check_is_the_answer(learner, copy_below):
    cell = find(learner, "f1-strides")
    cell["source"] = "def strides(shape):\n    first"
    place = index(learner, "f1-strides") + 1 if copy_below else len(learner["cells"])
    learner["cells"].insert(place, {**pasted(cell, "n1"), "source": "def strides(shape):\n    second"})
    merged, log = merge(RELEASE, learner)
    answer, other = ("second", "first") if copy_below else ("first", "second")
    assert find(merged, "f1-strides")["source"].endswith(answer)
    assert sum(c["source"] == f"def strides(shape):\n    {other}" for c in merged["cells"]) == 1
    assert log == ["f1.strides: another version of yours is kept as a cell of your own"]


def test_an_answer_in_a_copy_beats_an_untouched_original_and_unchanged_copies_go(learner):
    cell = find(learner, "f1-strides")
    learner["cells"] += [pasted(cell, "n1"), {**pasted(cell, "n2"), "source": ANSWER}]
    merged, log = merge(RELEASE, learner)
    assert find(merged, "f1-strides")["source"] == ANSWER
    assert len(merged["cells"]) == len(RELEASE["cells"])
    assert log.count("f1.strides: a copy with nothing new in it is gone") == 2


@pytest.mark.parametrize("check_too", [True, False])
def test_merged_cells_are_taken_apart(learner, check_too):
    text, answer, check = (find(learner, id) for id in ("f1-strides-md", "f1-strides", "f1-strides-check"))
    text["id"] = "n1"
    text["source"] += f"\n\nimport os\n{ANSWER}" + (f"\n{check['source']}" if check_too else "")
    learner["cells"].remove(answer)
    if check_too:
        learner["cells"].remove(check)
    merged, _ = merge(RELEASE, learner)
    assert find(merged, "f1-strides-md") == find(RELEASE, "f1-strides-md")
    assert find(merged, "f1-strides")["source"].strip() == f"import os\n{ANSWER}".strip()
    assert find(merged, "f1-strides")["cell_type"] == "code"


def test_an_answer_in_a_cell_of_their_own_replaces_a_deleted_exercise(learner):
    learner["cells"][index(learner, "f1-strides")] = make_cell("code", ANSWER, "n1")
    merged, log = merge(RELEASE, learner)
    assert find(merged, "f1-strides")["source"].strip() == ANSWER.strip()
    assert log == ["f1.strides: was inside another cell and is in its own again"]


def test_moved_and_retyped_cells(learner):
    place = index(learner, "f1-strides")
    learner["cells"][place] = make_cell("raw", ANSWER, "f1-strides", find(learner, "f1-strides")["metadata"])
    learner["cells"].reverse()
    merged, log = merge(RELEASE, learner)
    assert [cell["id"] for cell in merged["cells"]] == [cell["id"] for cell in RELEASE["cells"]]
    assert find(merged, "f1-strides")["cell_type"] == "code"
    assert log == ["f1.strides: is a code cell again", "the lesson's cells are in their order again"]


def test_pictures_pasted_into_text_are_kept(learner):
    picture = {"a.png": {"image/png": "abc"}}
    find(learner, "f1-title").update(source="![a](attachment:a.png)", attachments=picture)
    assert find(merge(RELEASE, learner)[0], "f1-title")["attachments"] == picture


def test_the_graded_copy_takes_answers_and_own_cells_and_nothing_else(learner):
    find(learner, "f1-strides").update(source=ANSWER, execution_count=1)
    find(learner, "f1-strides")["metadata"]["tags"] = ["raises-exception"]
    check = find(learner, "f1-strides-check")
    check["source"] = "check = print\n" + check["source"]
    check["metadata"]["tags"] = ["nbval-skip"]
    fake = make_cell(
        "code", "import os", "n1", {"labkit": {"role": "check", "ex": "f1.strides"}, "tags": ["nbval-skip"]}
    )
    learner["cells"].insert(0, fake)
    learner["metadata"]["kernelspec"] = {"name": "other"}
    graded = graded_copy(RELEASE, learner)
    assert graded["metadata"] == RELEASE["metadata"]
    assert find(graded, "f1-strides")["source"] == ANSWER
    assert find(graded, "f1-strides-check") == find(RELEASE, "f1-strides-check")
    helpers = [cell for cell in graded["cells"] if labkit_of(cell).get("role") == "helper"]
    assert len(helpers) == 2 and helpers[0]["source"] == "import os"
    assert all(cell["metadata"] == {"labkit": {"role": "helper"}} for cell in helpers)
    assert all(not cell.get("outputs") for cell in graded["cells"])
    assert "tags" not in find(graded, "f1-strides")["metadata"]


def test_is_untouched(learner):
    assert is_untouched(learner)
    learner["cells"].append(make_cell("code", "", "x"))
    assert not is_untouched(learner)


# damaged files

TEXT = dumps(RELEASE)
NEWER = TEXT.replace('"release": "0.1.0"', '"release": "0.10.0"')


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (b"\0" * 100, "empty"),
        (TEXT[: len(TEXT) // 2].encode(), "truncated"),
        (TEXT.replace(' "nbformat"', "<<<<<<< HEAD\n=======\n>>>>>>> theirs\n").encode(), "conflict"),
        (b"# A script\nprint(1)\n", "not-json"),
        (b"\x89PNG\r\n\x1a\n\xff", "not-json"),
        (b"[1, 2]", "not-notebook"),
        (b'{"cells": [1]}', "not-notebook"),
        (b'{"cells": null, "nbformat": 4}', "not-notebook"),
        (b'{"nbformat": 3, "worksheets": []}', "old-format"),
        (b'{"nbformat": 5, "cells": []}', "new-format"),
        (b"[" * 100_000, "not-json"),
        (NEWER.encode(), "newer-release"),
    ],
)
def test_damaged_files_are_named_in_a_sentence(tmp_path, data, kind):
    path = tmp_path / "a.ipynb"
    path.write_bytes(data)
    problem = read_learner(path, release="0.9.0")
    assert isinstance(problem, Problem) and problem.kind == kind
    assert problem.sentence.endswith(".") and str(path) in str(problem)


def test_files_that_are_not_there(tmp_path):
    assert read_learner(tmp_path / "a.ipynb").kind == "missing"
    assert read_learner(tmp_path).kind == "unreadable"


def test_a_sound_file_is_read_as_it_is(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text("\ufeff" + TEXT, encoding="utf-8")
    assert read_learner(path) == RELEASE


def test_format_4_4_without_ids(tmp_path, learner):
    find(learner, "f1-strides")["source"] = ANSWER
    for cell in learner["cells"]:
        del cell["id"]
    learner["nbformat_minor"] = 4
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(learner))
    read = read_learner(path)
    assert [cell["id"] for cell in read["cells"]] == [cell["id"] for cell in RELEASE["cells"]]
    assert find(merge(RELEASE, read)[0], "f1-strides")["source"] == ANSWER


def test_hostile_cells_are_made_sound(tmp_path):
    cells = [
        {},
        {"cell_type": "heading", "source": 5, "metadata": [], "id": "no spaces allowed"},
        {
            "cell_type": "code",
            "source": ["a\n", "b"],
            "outputs": [3, {"output_type": "stream"}],
            "metadata": {"labkit": 1},
        },
        {
            "cell_type": "code",
            "source": "half \ud83d pair",
            "id": "x",
            "outputs": "none",
            "execution_count": "x",
        },
        {"cell_type": "markdown", "source": "", "id": "x", "metadata": {"labkit": {"id": ["f1-title"]}}},
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": None}))
    read = read_learner(path)
    assert [cell["source"] for cell in read["cells"]][1:3] == ["5", "a\nb"]
    assert len({cell["id"] for cell in read["cells"]}) == 5
    merged, _ = merge(RELEASE, read)
    assert json.loads(dumps(merged))
    assert len(graded_copy(RELEASE, read)["cells"]) == len(merged["cells"])


def test_the_release_is_not_changed_by_merging(learner):
    before = dumps(RELEASE)
    find(learner, "f1-setup")["source"] = "x"
    merge(RELEASE, learner)[0]["cells"][0]["metadata"]["x"] = 1
    graded_copy(RELEASE, learner)["metadata"]["x"] = 1
    assert dumps(RELEASE) == before
