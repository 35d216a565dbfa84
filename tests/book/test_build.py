"""Building the fixture course: what is written, run and refused, and the way back from a notebook."""

import json
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from labkit import exercises, paths, viz
from labkit.book import build as build_module
from labkit.book.build import BuildError, build, stale
from labkit.book.driver import install_merge_driver
from labkit.book.importer import import_back, with_markers
from labkit.book.notebook import labkit_of, make_cell, read, write
from labkit.book.percent import LessonError, parse, parts
from labkit.exercises.declare import Implement, Mistake
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


@pytest.fixture
def drawing(course, tmp_path, monkeypatch):
    """A lesson with a figure, built, and the folder of labkit.viz that counts as its own."""
    figures = shutil.copytree(Path(viz.__file__).parent, tmp_path / "viz")
    monkeypatch.setattr(viz, "__file__", str(figures / "__init__.py"))
    edit(course / SECOND, "print(line(", "from labkit import viz\nviz.strides((2, 3))\nprint(line(")
    build(course, known=KNOWN, say=quiet)
    return course, figures


def test_a_changed_figure_is_drawn_again(drawing):
    course, figures = drawing
    edit(figures / "svg.py", "def text_width(", "def text_width(  # what strides stands on\n    ")
    assert stale(course, known=KNOWN) == [course / "solutions/week02_models/01_linear.ipynb"]


def test_what_draws_nothing_here_makes_nothing_stale(drawing):
    course, figures = drawing
    edit(figures / "storage.py", "import math\n", "import math as math\nimport re as re\n")
    edit(figures / "storage.py", "def strides(", "# a comment above\ndef strides(")
    edit(figures / "explore.py", "def strides_explorer(", "def strides_explorer(  # not used here\n    ")
    edit(figures / "plots.py", "def curves(", "def curves(  # nor this\n    ")
    assert stale(course, known=KNOWN) == []


def declaring(monkeypatch, **facts):
    """The fixture's exercise as if it were declared with these facts."""
    common = {"title": "Strides", "minutes": 8, "mistakes": (), "cases": (), "oracle": None}
    declared = Implement(
        **{"id": "f1.strides", "hints": ("a", "b", "c"), "passed": "Good.", **common, **facts}
    )
    monkeypatch.setattr(exercises, "all_exercises", lambda: {"f1.strides": declared})


def test_a_notebook_is_stale_when_its_boxes_are_not_when_a_hint_is(course, monkeypatch):
    declaring(monkeypatch)
    build(course, known=KNOWN, say=quiet)
    declaring(monkeypatch, hints=("A", "B", "C"), mistakes=(Mistake("off", "By one.", None),), needs=("w.a",))
    assert stale(course, known=KNOWN) == []
    path = course / "solutions/week01_arrays/01_strides.ipynb"
    printed = ({"passed": "Well."}, {"cases": (1, 2)}, {"reference": "NumPy"}, {"grads": ("x",)})
    for change in printed:
        declaring(monkeypatch, **change)
        assert stale(course, known=KNOWN) == [path], change


def test_a_changed_hint_makes_no_notebook_of_the_course_stale(monkeypatch):
    """What is stale before is stale after: of 29 notebooks a hint and a mistake touch none."""
    root, before = paths.root(), stale(paths.root())
    declared = {
        key: replace(ex, hints=("x", "y", "z"), mistakes=()) for key, ex in exercises.all_exercises().items()
    }
    monkeypatch.setattr(exercises, "all_exercises", lambda: declared)
    assert stale(root) == before


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


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_merge_of_solution_notebooks_takes_theirs_and_says_to_build(course):
    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        done = subprocess.run(["git", "-C", str(course), *identity, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def commit(words):
        edit(course / FIRST, "The last axis is dense", words)
        build(course, execute=False, known=KNOWN, say=quiet)
        git("commit", "-qam", words)

    git("init", "-q", "-b", "main")
    install_merge_driver(course)
    git("add", ".")
    git("commit", "-qm", "start")
    git("switch", "-qc", "theirs")
    commit("Theirs: the last axis is dense")
    git("switch", "-q", "main")
    nb = read(solution(course))
    labkit_of(nb)["executed"] = "mine"
    nb["cells"][-1]["outputs"] = []
    write(solution(course), nb)
    git("commit", "-qam", "mine")
    assert "Run `make build` when the merge is done" in git("merge", "-m", "both", "theirs")
    assert solution(course).read_text() == git("show", f"theirs:{solution(course).relative_to(course)}")
    assert stale(course, known=KNOWN) == []


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


def edited(root, id, change):
    """Change one cell of the solution notebook, import it, and return the lesson's cell."""
    nb = read(solution(root))
    cell = next(cell for cell in nb["cells"] if cell["id"] == id)
    cell["source"] = change(cell["source"])
    write(solution(root), nb)
    assert import_back(solution(root)) == [id]
    cells, problems = parse((root / FIRST).read_text())
    assert problems == []
    return cell["source"], next(found for found in cells if found.id == id)


def test_an_edited_solution_comes_back_between_its_markers(course):
    text, cell = edited(
        course,
        "f1-strides",
        lambda text: text.replace("    out = []\n", "    out = list[int]()\n    # new\n"),
    )
    assert "    ### BEGIN SOLUTION\n    out = list[int]()\n    # new\n    for axis" in cell.source
    assert parts(cell.source)[1] == text and "NotImplementedError" in parts(cell.source)[0]
    text, cell = edited(course, "f1-strides", lambda text: text.replace("Row-major", "C-order"))
    assert "C-order" in parts(cell.source)[0], "a line that is given stays given"


def test_an_edited_solution_keeps_its_stub(course):
    _, cell = edited(course, "f1-predict", lambda text: text.replace("3", "len(steps)"))
    assert parts(cell.source) == ('prediction = {"a": ...}', 'prediction = {"a": len(steps)}')


TWO_GAPS = '''def f(x):
    """Given."""
    ### BEGIN SOLUTION
    a = 1
    b = 2
    return a + b
    ### STUB
    # return ...
    ### END SOLUTION


def g(x):
    ### BEGIN SOLUTION
    c = 3
    return c
    ### END SOLUTION


h = 1'''


@pytest.mark.parametrize("seed", range(200))
def test_whatever_is_edited_inside_a_solution_the_learners_part_stays(seed):
    rng = random.Random(seed)
    learner, text = parts(TWO_GAPS)
    lines = text.split("\n")
    first, last = rng.choice([(2, 5), (8, 10)])
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(first, last + 1)
        stop = rng.randint(place, last)
        new = [f"    n{rng.randrange(99)} = {rng.randrange(99)}" for _ in range(rng.randint(0, 3))]
        lines[place:stop] = new
        last += len(new) - (stop - place)
    marked = with_markers(TWO_GAPS, "\n".join(lines), "a.py:1")
    assert parts(marked) == (learner, "\n".join(lines))


def test_an_edit_across_the_edge_of_a_solution_is_refused():
    text = parts(TWO_GAPS)[1].replace('    """Given."""\n    a = 1\n', "    pass\n    pass\n    pass\n")
    with pytest.raises(LessonError, match=r"a\.py:1: the edit crosses the edge of the solution"):
        with_markers(TWO_GAPS, text, "a.py:1")
