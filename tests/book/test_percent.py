"""Sources become cells; a bad source is refused with its file and line."""

import shutil
from pathlib import Path

import pytest

from labkit import exercises
from labkit.book.course import lesson_paths, promised_minutes, read_course, read_lesson
from labkit.book.percent import Lesson, LessonError, parse, parts

COURSE = Path(__file__).parent / "course"
REPOSITORY = Path(__file__).parents[2]
KNOWN = {"f1.strides", "f1.predict", "f2.line", "f2.model"}


@pytest.fixture
def course(tmp_path):
    shutil.copytree(COURSE, tmp_path / "course")
    return tmp_path / "course"


def problems(text: str) -> list[str]:
    return parse(text, "a.py")[1]


def exercise(body: str) -> str:
    return f"# %% id=a role=exercise ex=w.a\n{body}"


def test_cells_of_the_fixture_course():
    first, second = read_course(COURSE, known=KNOWN)
    cells = {cell.id: cell for cell in first.cells}
    assert first.path.as_posix() == "solutions/week01_arrays/01_strides.py"
    assert list(cells)[:4] == ["f1-title", "f1-setup", "f1-strides-md", "f1-strides"]
    assert cells["f1-title"].source.startswith("# Strides\n\nIn about")
    assert (cells["f1-title"].role, cells["f1-demo"].role) == ("text", "demo")
    assert cells["f1-strides-check"].points == 2
    assert {cell.id: cell.tags for cell in second.cells}["f2-demo"] == ("nbval-ignore-output",)


@pytest.mark.parametrize("path", lesson_paths(REPOSITORY), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_lesson_promises_a_time_that_holds_its_exercises(path):
    lesson = read_lesson(REPOSITORY, path)
    minutes = promised_minutes(lesson)
    assert minutes is not None and 20 <= minutes <= 180 and minutes % 5 == 0
    asked = {cell.ex for cell in lesson.cells if cell.role == "exercise" and cell.ex}
    answering = sum(exercises.get(name).minutes for name in asked)
    assert minutes >= 1.1 * answering, f"{answering} minutes of exercises, and the text must be read"


@pytest.mark.parametrize(
    ("words", "minutes"),
    [
        ("In about 75 minutes you will see.", 75),
        ("In about one hour you will see.", 60),
        ("In about two and a half hours, best in two sittings, you will see.", 150),
        ("You will see. Training takes about 2 minutes.", None),
    ],
)
def test_the_time_that_a_lesson_promises(words, minutes):
    cells, _ = parse(f"# %% [markdown] id=a\n# # Title\n#\n# {words}\n", "a.py")
    assert promised_minutes(Lesson(Path("a.py"), tuple(cells))) == minutes


def test_one_week_is_read_but_ids_are_compared_with_all(course):
    assert [lesson.path.stem for lesson in read_course(course, week=2, known=KNOWN)] == ["01_linear"]
    path = course / "solutions/week02_models/01_linear.py"
    path.write_text(path.read_text() + "\n# %% id=f1-demo\nprint()\n")
    with pytest.raises(
        LessonError, match=r"01_linear\.py:51: the id f1-demo is already used at .*01_strides"
    ):
        read_course(course, week=2, known=KNOWN)


def test_the_learner_gets_a_stub_at_the_indent_of_the_marker():
    around = "class A:\n    def f(self):\n{}\n\nb = 2"
    source = around.format("        ### BEGIN SOLUTION\n        return 1\n        ### END SOLUTION")
    assert parts(source)[0] == around.format('        raise NotImplementedError("your code here")')


def test_the_source_may_give_its_own_stub():
    source = "### BEGIN SOLUTION\na = 1\n### STUB\n# a = ...\n#\n# # which one?\n### END SOLUTION"
    assert parts(source)[0] == "a = ...\n\n# which one?"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("import os\n# %% id=a\n1", 1, "before the first"),
        ("# %%\n1", 1, "no id"),
        ("# %% id=a\n1\n# %% [raw] id=b\n", 3, "cannot read"),
        ("# %% id=a b=c\n", 1, "'b=c' is not one of"),
        ("# %% id=a.b\n", 1, "letters, digits"),
        ("# %% id=a role=answer\n", 1, "unknown role 'answer'"),
        ("# %% id=a role=text\n", 1, r"must be \[markdown\]"),
        ("# %% [markdown] id=a role=check\n", 1, "cannot be check"),
        ("# %% id=a role=check\ncheck('w.a', 1)", 1, "need ex="),
        ("# %% id=a ex=w.a\n1", 1, "need ex="),
        ("# %% id=a role=check ex=w.a points=many\ncheck('w.a', 1)", 1, "whole number"),
        ("# %% [markdown] id=a\n# text\ntext\n", 3, "must start with"),
        ("# %% id=a\nx = 1\nx = = 2\n", 3, "not valid Python"),
        (exercise("def f():\n    return 1\n"), 1, "BEGIN SOLUTION"),
        ("# %% id=a\n### BEGIN SOLUTION\n### END SOLUTION\n", 1, "only they"),
        (exercise("### BEGIN SOLUTION\nx = 1\n"), 2, "never closed"),
        (exercise("x = 1\n### END SOLUTION\n"), 3, "out of order"),
        (exercise("### BEGIN SOLUTION\n### STUB\n### STUB\n### END SOLUTION\n"), 4, "out of order"),
        (exercise("### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION\n"), 3, "out of order"),
        (
            exercise("### BEGIN SOLUTION\nx = 1\n### STUB\n# x = = 2\n### END SOLUTION"),
            1,
            "what the learner gets",
        ),
        ("# %% id=a role=check ex=w.a\nprint(1)\n", 2, "last line"),
        ("# %% id=a role=check ex=w.a\ncheck('w.b', f)\n", 2, "last line"),
        ("# %% id=a role=check ex=w.a\ncheck('w.a', f)\nx = 1\n", 3, "last line"),
        ("# %% id=a role=check ex=w.a tags=raises-exception\ncheck('w.a', f)\n", 1, "wrong answer pass"),
    ],
)
def test_bad_sources_are_refused_with_file_and_line(text, line, message):
    (found,) = problems(text)
    assert found.startswith(f"a.py:{line}: ")
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("role=check ex=f2.line\n", "role=check ex=f2.other\n", "unknown exercise f2.other"),
        ('# %% id=f2-line-check role=check ex=f2.line\ncheck("f2.line", line)\n', "", "f2.line has no check"),
        ("datasets/points.txt", "datasets/gone.txt", r"linear\.py:4: dead link \.\./\.\./datasets/gone\.txt"),
        ("[shared data](", "![a picture](figures/", "dead link figures/"),
        ("See the", "<img src='figures/x.svg'> See the", r"dead link figures/x\.svg"),
    ],
)
def test_problems_of_a_lesson(course, old, new, message):
    path = course / "solutions/week02_models/01_linear.py"
    text = path.read_text().replace(old, new)
    assert text != path.read_text()
    path.write_text(text.replace('check("f2.line"', 'check("f2.other"') if "f2.other" in new else text)
    with pytest.raises(LessonError, match=message):
        read_course(course, known=KNOWN)


def test_a_check_needs_its_exercise_and_stands_below_it(course):
    path = course / "solutions/week02_models/01_linear.py"
    text = path.read_text()
    path.write_text(text + '\n# %% id=x role=check ex=f1.strides\ncheck("f1.strides", line)\n')
    with pytest.raises(LessonError, match=r"linear\.py:51: the check of f1\.strides has no exercise"):
        read_course(course, known=KNOWN)
    start, stop = text.index("# %% id=f2-line-check"), text.index("# %% id=f2-demo")
    path.write_text(
        text[: text.index("# %% id=f2-line ")]
        + text[start:stop]
        + text[text.index("# %% id=f2-line ") : start]
    )
    with pytest.raises(LessonError, match="stands below its check"):
        read_course(course, known=KNOWN)


def test_links_that_are_fine(course):
    path = course / "solutions/week02_models/01_linear.py"
    links = "[a](https://pytorch.org) [b](#Title) `[c](code)` [d](../week01_arrays/01_strides.ipynb#x)"
    path.write_text(
        path.read_text().replace("# See the", f"# {links}\n#\n# ```\n# [e](code)\n# ```\n#\n# See the")
    )
    assert len(read_course(course, known=KNOWN)) == 2


def test_every_problem_is_reported_at_once(course):
    path = course / "solutions/week02_models/01_linear.py"
    path.write_text(path.read_text().replace("id=f2-title", "").replace("points.txt", "x"))
    with pytest.raises(LessonError) as error:
        read_course(course, known=set())
    assert len(error.value.problems) == 1 + 4 + 4  # no id, then four unknown ids named by two cells each
