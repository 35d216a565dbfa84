"""Our reader and writer against nbformat's, the two notebooks of a lesson, and nbgrader's rules."""

import copy
import re
import sys

import pytest

from labkit.book.course import read_lesson
from labkit.book.notebook import (
    digest,
    dumps,
    labkit_of,
    learner_notebook,
    loads,
    make_cell,
    read,
    solution_notebook,
    write,
)

from .test_percent import COURSE

LESSONS = [read_lesson(COURSE, path) for path in sorted(COURSE.glob("solutions/*/*.py"))]
NOTEBOOKS = [make(lesson, "0.1.0") for lesson in LESSONS for make in (learner_notebook, solution_notebook)]


@pytest.fixture(scope="module")
def rich() -> dict:
    """A notebook with every kind of output, attachment and line end."""
    nb = copy.deepcopy(NOTEBOOKS[0])
    data = {
        "text/plain": "a\nb",
        "image/png": "abc\n",
        "image/svg+xml": "<svg>\n</svg>",
        "application/x+json": {"a": [1]},
    }
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "één\u2028line\nend"},
        {"output_type": "display_data", "data": data, "metadata": {}},
        {
            "output_type": "execute_result",
            "data": {"text/html": "<b>\n"},
            "metadata": {},
            "execution_count": 1,
        },
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["x", "y"]},
    ]
    nb["cells"].append({**make_cell("code", "x\n\ny\n", "rich"), "outputs": outputs, "execution_count": 1})
    picture = {"attachments": {"a.png": {"image/png": "abc"}}}
    nb["cells"].append({**make_cell("markdown", "", "picture"), **picture})
    nb["cells"].append(make_cell("raw", "raw\r\ntext", "raw"))
    return nb


@pytest.mark.filterwarnings("ignore")
def test_the_bytes_are_nbformats(rich):
    sys.modules.setdefault("rfc3987_syntax", None)  # seconds of import, used by no notebook
    import nbformat

    for nb in [*NOTEBOOKS, rich]:
        node = nbformat.from_dict(copy.deepcopy(nb))
        nbformat.validate(node)
        assert dumps(nb) == nbformat.writes(node) + "\n"
        assert dumps(nbformat.reads(dumps(nb), as_version=4)) == dumps(nb)


def test_reading_undoes_writing(rich, tmp_path):
    for nb in [*NOTEBOOKS, rich]:
        assert loads(dumps(nb)) == nb
    path = tmp_path / "deep" / "a.ipynb"
    assert write(path, rich) and not write(path, rich)
    assert read(path) == rich
    assert list(path.parent.iterdir()) == [path]


def test_learner_and_solution():
    learner, solution = learner_notebook(LESSONS[0], "0.1.0"), solution_notebook(LESSONS[0], "0.1.0")
    ids = [cell["id"] for cell in learner["cells"]]
    assert "f1-note" not in ids and "f1-note" in [cell["id"] for cell in solution["cells"]]
    assert learner["metadata"]["labkit"] == {"lesson": "week01_arrays/01_strides", "release": "0.1.0"}
    assert "SOLUTION" not in dumps(learner) and "math.prod" not in dumps(learner)
    cells = {cell["id"]: cell for cell in learner["cells"]}
    assert cells["f1-predict"]["source"] == 'prediction = {"a": ...}'
    assert labkit_of(cells["f1-strides"]) == {
        "id": "f1-strides",
        "role": "exercise",
        "ex": "f1.strides",
        "base": digest(cells["f1-strides"]["source"]),
    }
    locked = {cell["id"] for cell in learner["cells"] if cell["metadata"].get("editable") is False}
    assert locked == {"f1-setup", "f1-strides-check", "f1-predict-check"}
    assert all(cells[id]["metadata"]["deletable"] is False for id in locked)


def test_the_digest_sees_text_not_blank_lines():
    assert digest("a\n\n  b \n") == digest("a\n  b") != digest("a\nb")


def nbgrader_problems(nb: dict) -> list[str]:
    """nbgrader's published rules for schema version 3 (its cell metadata page), on a whole notebook."""
    problems, seen = [], set()
    for cell in nb["cells"]:
        meta = cell["metadata"].get("nbgrader")
        if meta is None:
            continue
        flags = {name: meta.get(name) for name in ("grade", "solution", "locked", "task")}
        if not all(isinstance(value, bool) for value in flags.values()) or meta.get("schema_version") != 3:
            problems.append(f"{cell['id']}: flags or version")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", meta.get("grade_id", "")) or meta["grade_id"] in seen:
            problems.append(f"{cell['id']}: grade_id")
        seen.add(meta.get("grade_id"))
        if flags["grade"] != ("points" in meta) or meta.get("points", 0) < 0:
            problems.append(f"{cell['id']}: points")
        if flags["solution"] and flags["locked"]:
            problems.append(f"{cell['id']}: a solution cannot be locked")
        if (flags["grade"] or flags["solution"]) and cell["cell_type"] != "code":
            problems.append(f"{cell['id']}: only code is graded automatically")
        if meta.keys() - {*flags, "grade_id", "points", "schema_version", "checksum", "cell_type"}:
            problems.append(f"{cell['id']}: unknown keys")
    return problems


@pytest.mark.parametrize("nb", NOTEBOOKS, ids=range(len(NOTEBOOKS)))
def test_nbgrader_can_take_the_files(nb):
    assert nbgrader_problems(nb) == []
    graded = {
        c["id"]: c["metadata"]["nbgrader"]["points"]
        for c in nb["cells"]
        if "points" in c["metadata"].get("nbgrader", {})
    }
    assert graded.keys() == {cell["id"] for cell in nb["cells"] if labkit_of(cell)["role"] == "check"}


def test_the_nbgrader_rules_catch_something():
    broken = copy.deepcopy(NOTEBOOKS[0])
    for cell in broken["cells"]:
        if "nbgrader" in cell["metadata"]:
            cell["metadata"]["nbgrader"] |= {"grade_id": "same", "grade": True}
            cell["metadata"]["nbgrader"].pop("points", None)
    assert len(nbgrader_problems(broken)) == 2 * 5 - 1
