"""What the build fills in: headings, questions, numbers of exercises, and what is not allowed."""

from pathlib import Path

import pytest

from labkit import exercises
from labkit.book.build import build
from labkit.book.course import read_course, read_lesson
from labkit.book.facts import fill, filled_lines, not_allowed
from labkit.book.importer import import_back
from labkit.book.notebook import read, write
from labkit.book.percent import LessonError, parse
from labkit.exercises.declare import Implement, Item, Predict, Rules

COMMON = {"hints": ("a", "b", "c"), "mistakes": (), "passed": "Good."}
DECLARED = {
    "w09.first": Implement(
        id="w09.first",
        title="One step",
        minutes=5,
        cases=(),
        oracle=len,
        rules=Rules(forbids=("sum",)),
        **COMMON,
    ),
    "w09.guess": Predict(
        id="w09.guess",
        title="Which shape?",
        minutes=8,
        items={key: Item(f"`z({n})`", lambda: 1) for n, key in enumerate("abc")},
        **COMMON,
    ),
}
LESSON = """# %% [markdown] id=a-md
# ## Exercise
#
# As you will see in exercise {w09.guess}.
# %% id=a role=exercise ex=w09.first
### BEGIN SOLUTION
a = 1
### END SOLUTION
# %% id=a-check role=check ex=w09.first
check("w09.first", a)
# %% [markdown] id=b-md
# ## Exercise
#
# | | | | |
# |---|---|---|---|
# {questions}
#
# Write them down.
# %% id=b role=exercise ex=w09.guess
### BEGIN SOLUTION
b = 1
### STUB
# b = ...
### END SOLUTION
# %% id=b-check role=check ex=w09.guess
check("w09.guess", b)
# %% [markdown] id=notes role=instructor
# 10 exercises {w09.first} and {w09.guess}.
"""


def shown(
    text: str = LESSON, number_elsewhere=lambda ex: None
) -> tuple[dict[str, str], list[tuple[int, str]]]:
    cells, problems = parse(text)
    assert problems == []
    lines, unknown = filled_lines(cells, DECLARED, number_elsewhere)
    return {cell.id: cell.source for cell in fill(cells, lines)}, unknown


def test_headings_numbers_and_rules_come_from_the_declarations():
    cells, unknown = shown()
    assert unknown == []
    assert cells["a-md"] == (
        "## Exercise 1 · One step (5 minutes)\n\nAs you will see in exercise 2.\n\n"
        "Not allowed here: a library's `sum`."
    )
    assert cells["b-md"].startswith("## Exercise 2 · Which shape? (8 minutes)\n")
    assert cells["notes"] == "10 exercises 1 and 2."


def test_questions_fill_the_table_that_stands_above_them():
    assert shown()[0]["b-md"].endswith(
        "| | | | |\n|---|---|---|---|\n| a | `z(0)` | c | `z(2)` |\n| b | `z(1)` | | |\n\nWrite them down."
    )
    narrow = LESSON.replace("# | | | | |\n# |---|---|---|---|\n", "# | key | question |\n# |---|---|\n")
    assert "|---|---|\n| a | `z(0)` |\n| b | `z(1)` |\n| c | `z(2)` |\n" in shown(narrow)[0]["b-md"]


def test_questions_without_a_table_are_a_list():
    text = LESSON.replace("# | | | | |\n# |---|---|---|---|\n", "")
    assert "\n- `a`: `z(0)`;\n- `b`: `z(1)`;\n- `c`: `z(2)`.\n" in shown(text)[0]["b-md"]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("{w09.guess}.\n# %% id=a", "{w09.gues}.\n# %% id=a", 4, "{w09.gues} is no exercise"),
        ("10 exercises {w09.first}", "10 exercises 1", 28, "'exercises 1' is a typed number"),
        (
            "# ## Exercise\n#\n# As",
            "# ## Exercise 1 · One step (5 minutes)\n#\n# As",
            2,
            "write `## Exercise` only",
        ),
        ("# As you", "# ## Exercise\n# As you", 4, "has no exercise of its own below it"),
        (
            "# As you",
            "# {questions}\n# As you",
            4,
            "stands above no prediction; the next exercise is w09.first",
        ),
    ],
)
def test_what_cannot_be_filled_in_is_named_with_its_line(old, new, line, words):
    assert LESSON.count(old) == 1
    (problem,) = shown(LESSON.replace(old, new))[1]
    assert problem[0] == line and words in problem[1]


def test_numbers_of_exercises_in_other_lessons():
    text = LESSON.replace("{w09.guess}.\n# %% id=a", "{w02.kept} of notebook 03.\n# %% id=a")
    assert "exercise 7 of notebook 03." in shown(text, {"w02.kept": 7}.get)[0]["a-md"]
    root = Path(__file__).parents[2]
    clinic = read_lesson(root, root / "solutions/week02_autograd/04_clinic.py")
    assert any("exercise 2 of notebook 03" in cell.source for cell in clinic.cells)


@pytest.mark.parametrize(
    ("rules", "line"),
    [
        (Rules(), None),
        (Rules(loops=False), "loops"),
        (Rules(forbids=("conv2d",), loops=False), "loops and a library's `conv2d`"),
        (Rules(forbids=("mse_loss", "MSELoss")), "a library's `mse_loss` and its variants"),
        (Rules(forbids=("conv1d", "Conv2d", "unfold")), "a library's `conv1d`, `unfold` and their variants"),
        (
            Rules(forbids=("nll_loss", "NLLLoss", "matmul")),
            "a library's `nll_loss`, `matmul` (`@`) and their variants",
        ),
        (Rules(allows=("where",)), "any tensor operation except `where`, operators and indexing"),
        (
            Rules(allows=(), forbids=("matmul", "outer"), loops=False),
            "loops, `@` and any tensor operation except operators and indexing",
        ),
        (Rules(max_ops=4), "more than 4 tensor operations in one call"),
    ],
)
def test_what_is_not_allowed_in_one_line(rules, line):
    assert not_allowed(rules) == (f"Not allowed here: {line}." if line else None)


def test_every_forbidden_name_is_on_the_page_or_a_variant_of_one_that_is():
    for exercise in exercises.all_exercises().values():
        rules = getattr(exercise, "rules", Rules())
        if rules.allows is None:
            words = not_allowed(rules) or ""
            missing = [name for name in rules.forbids if f"`{name}`" not in words]
            assert not missing or words.endswith(" variants."), exercise.id


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one lesson, its notebooks written but not run."""
    monkeypatch.setattr(exercises, "all_exercises", lambda: DECLARED)
    monkeypatch.setattr(exercises, "all_ids", lambda: set(DECLARED))
    monkeypatch.setattr(exercises, "get", DECLARED.__getitem__)
    path = tmp_path / "solutions/week09_x/01_lesson.py"
    path.parent.mkdir(parents=True)
    path.write_text(LESSON)
    build(tmp_path, execute=False, say=lambda line: None)
    return tmp_path


def test_the_build_refuses_a_dead_reference(course):
    path = course / "solutions/week09_x/01_lesson.py"
    path.write_text(LESSON.replace("exercises {w09.first}", "exercises {w09.frist}"))
    with pytest.raises(
        LessonError, match=r"solutions/week09_x/01_lesson\.py:28: \{w09\.frist\} is no exercise"
    ):
        read_course(course)


def test_a_page_for_instructors_has_the_numbers(course):
    assert "10 exercises 1 and 2." in (course / "solutions/week09_x/INSTRUCTOR.md").read_text()


def test_an_edited_notebook_comes_back_with_what_the_build_fills_in(course):
    notebook = course / "solutions/week09_x/01_lesson.ipynb"
    assert import_back(notebook) == []
    nb = read(notebook)
    text = next(cell for cell in nb["cells"] if cell["id"] == "b-md")
    text["source"] = text["source"].replace("Write them down.", "Write them down first.") + "\n\nThen run it."
    before = next(cell for cell in nb["cells"] if cell["id"] == "a-md")
    before["source"] = before["source"].replace("As you", "Below is more.\n\nAs you")
    write(notebook, nb)
    assert import_back(notebook) == ["a-md", "b-md"]
    expected = LESSON.replace("Write them down.", "Write them down first.\n#\n# Then run it.")
    expected = expected.replace("# As you", "# Below is more.\n#\n# As you")
    assert notebook.with_suffix(".py").read_text() == expected
    build(course, execute=False, say=lambda line: None)
    assert [cell["source"] for cell in read(notebook)["cells"]] == [cell["source"] for cell in nb["cells"]]


def test_what_the_build_fills_in_is_not_edited_in_a_notebook(course):
    notebook = course / "solutions/week09_x/01_lesson.ipynb"
    nb = read(notebook)
    nb["cells"][0]["source"] = nb["cells"][0]["source"].replace("One step", "Two steps")
    write(notebook, nb)
    with pytest.raises(LessonError, match="write `## Exercise` only"):
        import_back(notebook)
    assert notebook.with_suffix(".py").read_text() == LESSON
