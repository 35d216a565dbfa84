"""Building the fixture course: what is written, run and refused, and the way back from a notebook."""

import json
import shutil
from pathlib import Path

import pytest

from labkit import viz
from labkit.book import build as build_module
from labkit.book.build import BuildError, build, release_notebooks, stale
from labkit.book.importer import import_back
from labkit.book.notebook import dumps, labkit_of, make_cell, read, write
from labkit.book.percent import LessonError
from labkit.verdict import RECORD_MIME, Verdict

from .test_percent import COURSE, KNOWN

FIRST = "solutions/week01_arrays/01_strides.py"
SECOND = "solutions/week02_models/01_linear.py"


def quiet(line: str) -> None:
    """Progress is not needed here."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("built") / "course"
    shutil.copytree(COURSE, root)
    lines: list[str] = []
    written = build(root, known=KNOWN, say=lines.append)
    return root, written, lines


@pytest.fixture
def course(built, tmp_path):
    return shutil.copytree(built[0], tmp_path / "course")


def outputs(root, lesson=FIRST) -> dict:
    nb = read((root / lesson).with_suffix(".ipynb"))
    return {cell["id"]: cell["outputs"] for cell in nb["cells"] if cell["cell_type"] == "code"}


def snapshot(root) -> dict:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_build_writes_both_notebooks_and_the_instructor_page(built):
    root, written, lines = built
    names = {path.relative_to(root).as_posix() for path in written}
    assert names == {
        "weeks/week01_arrays/01_strides.ipynb",
        "weeks/week02_models/01_linear.ipynb",
        "solutions/week01_arrays/01_strides.ipynb",
        "solutions/week02_models/01_linear.ipynb",
        "solutions/week01_arrays/INSTRUCTOR.md",
        "solutions/week02_models/INSTRUCTOR.md",
    }
    assert lines[0] == "[1/2] week01_arrays/01_strides: running"
    assert lines[-1] == "[2/2] week02_models/01_linear: written"
    learner = read(root / "weeks/week01_arrays/01_strides.ipynb")
    assert all(not cell.get("outputs") for cell in learner["cells"])
    page = (root / "solutions/week02_models/INSTRUCTOR.md").read_text()
    assert '```python\nprint("only for the room")\n```' in page


def test_the_outputs_are_stored(built):
    stored = outputs(built[0])
    assert stored["f1-strides-check"] == [
        {"name": "stdout", "output_type": "stream", "text": "f1.strides passes\n"}
    ]
    assert stored["f1-demo"][1]["data"] == {"text/plain": "(12, 4, 1)"}


def test_building_again_changes_and_runs_nothing(course, monkeypatch):
    monkeypatch.setattr(build_module, "run", lambda *_: pytest.fail("ran"))
    before = snapshot(course)
    assert stale(course, known=KNOWN) == []
    assert build(course, known=KNOWN, say=quiet) == []
    edit(course / FIRST, "The last axis is dense", "The last axis is packed")
    names = {path.parent.parent.name for path in build(course, known=KNOWN, say=quiet)}
    assert names == {"weeks", "solutions"}  # prose changed: both written, nothing run, outputs kept
    assert outputs(course)["f1-demo"]
    edit(course / FIRST, "The last axis is packed", "The last axis is dense")
    build(course, known=KNOWN, say=quiet)
    assert snapshot(course) == before


def test_running_again_gives_the_same_bytes(course):
    before = snapshot(course)
    assert build(course, week=1, force=True, known=KNOWN, say=quiet) == []
    assert snapshot(course) == before


def test_stale_names_what_differs(course):
    edit(course / SECOND, "print(line([1, 2], [3, 4], 5))", "print(line([1, 2], [3, 4], 6))")
    names = [path.relative_to(course).as_posix() for path in stale(course, known=KNOWN)]
    assert names == ["solutions/week02_models/01_linear.ipynb", "weeks/week02_models/01_linear.ipynb"]
    assert build(course, check_only=True, known=KNOWN) == stale(course, known=KNOWN)
    assert stale(course, week=1, known=KNOWN) == []
    build(course, execute=False, known=KNOWN, say=quiet)
    assert stale(course, known=KNOWN) == [course / "solutions/week02_models/01_linear.ipynb"]  # not run yet


def test_a_changed_figure_is_drawn_again(course, tmp_path, monkeypatch):
    figures = shutil.copytree(Path(viz.__file__).parent, tmp_path / "viz")
    monkeypatch.setattr(viz, "__file__", str(figures / "__init__.py"))
    edit(course / SECOND, "print(line(", "from labkit import viz\nviz.strides((2, 3))\nprint(line(")
    build(course, known=KNOWN, say=quiet)
    edit(figures / "plots.py", "import math", "import math  # curves, which the lesson does not draw")
    assert stale(course, known=KNOWN) == []
    edit(figures / "svg.py", "from html import", "# what strides stands on\nfrom html import")
    assert stale(course, known=KNOWN) == [course / "solutions/week02_models/01_linear.ipynb"]


def test_edited_outputs_are_not_stale_but_edited_cells_are(course):
    path = course / "solutions/week01_arrays/01_strides.ipynb"
    nb = read(path)
    nb["cells"][-1]["outputs"] = []
    write(path, nb)
    assert stale(course, known=KNOWN) == []
    nb["cells"][0]["source"] += "!"
    write(path, nb)
    assert stale(course, known=KNOWN) == [path]


def test_a_stored_box_gets_the_look_of_today_without_a_run(course, monkeypatch):
    monkeypatch.setattr(build_module, "run", lambda *_: pytest.fail("ran"))
    verdict = Verdict("f1.strides", "pass", "agrees.")
    path = course / "solutions/week01_arrays/01_strides.ipynb"
    nb = read(path)
    cell = next(cell for cell in nb["cells"] if cell["id"] == "f1-strides-check")
    data = {RECORD_MIME: verdict.record(), "text/html": "<div>as before</div>", "text/plain": verdict.text()}
    cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    write(path, nb)
    assert stale(course, known=KNOWN) == [path]
    assert build(course, known=KNOWN, say=quiet) == [path]
    (output,) = outputs(course)["f1-strides-check"]
    assert output["data"]["text/html"] == verdict.html()


def test_a_lesson_that_is_gone_takes_its_notebooks_along(course):
    copy = course / "weeks/week02_models/01_linear_mine.ipynb"
    shutil.copy(course / "weeks/week02_models/01_linear.ipynb", copy)
    (course / SECOND).unlink()
    edit(course / FIRST, "[models](../week02_models/01_linear.ipynb)", "models")
    assert len([path for path in stale(course, known=KNOWN) if "linear" in path.name]) == 2
    build(course, known=KNOWN, say=quiet)
    assert not (course / "weeks/week02_models/01_linear.ipynb").exists() and copy.exists()


def test_a_learner_who_builds_loses_nothing(course):
    path = course / "weeks/week01_arrays/01_strides.ipynb"
    nb = read(path)
    nb["cells"].append(make_cell("code", "my work", "mine"))
    write(path, nb)
    lines: list[str] = []
    build(course, known=KNOWN, say=lines.append)
    (kept,) = course.glob("backups/*/weeks/week01_arrays/01_strides.ipynb")
    assert "my work" in kept.read_text() and "my work" not in path.read_text()
    assert any("has work in it" in line for line in lines)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('too long')", r"01_linear\.ipynb: cell f2-demo failed with ValueError: too long"),
        ("import os; os._exit(1)", "cell f2-demo ended the kernel"),
        ("import time; time.sleep(600)", "cell f2-demo took longer than 5 s"),
        ("object()", "cell f2-demo shows <object .* differs in every run"),
    ],
)
def test_a_solution_that_fails_stops_the_build(course, monkeypatch, code, message):
    if "sleep" in code:
        monkeypatch.setattr(build_module, "TIMEOUT", 5)
    edit(course / SECOND, "print(line([1, 2], [3, 4], 5))", code)
    with pytest.raises(BuildError, match=message):
        build(course, week=2, known=KNOWN, say=quiet)


def test_volatile_outputs_are_not_stored(course):
    edit(
        course / SECOND,
        "print(line([1, 2], [3, 4], 5))",
        "import sys\n\nprint('10%', file=sys.stderr)\nprint('done')",
    )
    build(course, week=2, known=KNOWN, say=quiet)
    assert outputs(course, SECOND)["f2-demo"] == [
        {"name": "stdout", "output_type": "stream", "text": "done\n"}
    ]


def test_bad_sources_are_refused_before_anything_is_written(course):
    before = snapshot(course)
    with pytest.raises(LessonError, match="unknown exercise"):
        build(course, known=set(), say=quiet)
    assert snapshot(course) == before


def test_release_notebooks_are_the_learner_notebooks(built):
    root = built[0]
    for path, nb in release_notebooks(root).items():
        assert path.read_text(encoding="utf-8") == dumps(nb)


# import back


def solution(root):
    return root / "solutions/week01_arrays/01_strides.ipynb"


def test_importing_an_unedited_notebook_changes_no_byte(course):
    before = snapshot(course)
    assert import_back(solution(course)) == []
    assert snapshot(course) == before


def test_edits_come_back_by_id(course):
    nb = read(solution(course))
    cells = {cell["id"]: cell for cell in nb["cells"]}
    cells["f1-strides-md"]["source"] = "## New title\n\nTwo\n\nparagraphs."
    cells["f1-demo"]["source"] = "steps = strides((4, 5))"
    nb["cells"].reverse()
    write(solution(course), nb)
    assert import_back(solution(course)) == ["f1-demo", "f1-strides-md"]
    text = (course / FIRST).read_text()
    assert "# ## New title\n#\n# Two\n#\n# paragraphs.\n\n\n# %% id=f1-strides role=exercise" in text
    build(course, week=1, known=KNOWN, say=quiet)
    rebuilt = {cell["id"]: cell["source"] for cell in read(solution(course))["cells"]}
    assert rebuilt == {cell["id"]: cell["source"] for cell in nb["cells"]}


def test_new_cells_are_refused_unless_asked_for(course):
    nb = read(solution(course))
    place = [cell["id"] for cell in nb["cells"]].index("f1-demo")
    nb["cells"].insert(place + 1, make_cell("markdown", "A remark", "f1-remark"))
    write(solution(course), nb)
    with pytest.raises(LessonError, match="no cell f1-remark"):
        import_back(solution(course))
    assert import_back(solution(course), new=True) == ["f1-remark"]
    assert (
        "steps\n\n# %% [markdown] id=f1-remark\n# A remark\n\n# %% [markdown] id=f1-note"
        in (course / FIRST).read_text()
    )


def test_an_import_that_would_break_the_source_is_refused(course):
    nb = read(solution(course))
    next(cell for cell in nb["cells"] if labkit_of(cell)["id"] == "f1-strides")["source"] = (
        "def strides(shape): ..."
    )
    write(solution(course), nb)
    before = (course / FIRST).read_text()
    with pytest.raises(LessonError, match="BEGIN SOLUTION"):
        import_back(solution(course))
    assert (course / FIRST).read_text() == before
    solution(course).write_text(json.dumps([]))
    with pytest.raises(LessonError, match="no notebook cells"):
        import_back(solution(course))
