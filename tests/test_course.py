"""The course as a whole: generated files are fresh, every exercise stands in a lesson, words are kept."""

import re

from labkit import exercises, paths
from labkit.book import percent
from labkit.book.build import stale
from labkit.book.course import read_course
from labkit.book.work import here
from labkit.exercises.declare import Predict


def test_generated_notebooks_are_what_the_sources_give():
    """If this fails, run `make build` and commit what it writes."""
    assert [str(path.relative_to(paths.root())) for path in stale(paths.root())] == []


def test_every_exercise_stands_in_a_lesson_and_its_needs_come_first():
    order = list(here().course.sources)
    assert set(order) == exercises.all_ids()
    for exercise in exercises.all_exercises().values():
        for need in exercise.needs:
            assert order.index(need) < order.index(exercise.id), (
                f"{exercise.id} needs {need}, which comes later"
            )


def test_every_exercise_has_its_heading():
    """With the number, title and minutes that the panel shows."""
    for lesson in read_course(paths.root()):
        prose = "\n".join(cell.source for cell in lesson.cells if cell.kind == "markdown")
        asked = [cell.ex for cell in lesson.cells if cell.role == "exercise"]
        declared = [exercises.get(name) for name in dict.fromkeys(asked)]
        expected = [f"{n} · {ex.title} ({ex.minutes} minutes)" for n, ex in enumerate(declared, 1)]
        assert re.findall(r"^## Exercise (.*)$", prose, re.MULTILINE) == expected, lesson.path


def test_every_prediction_asks_its_questions():
    """`{questions}` stands above it, or the learner would not know what `a` means."""
    for name, source in here().course.sources.items():
        exercise = exercises.get(name)
        if isinstance(exercise, Predict):
            page = "\n".join(source.text)
            missing = [key for key, item in exercise.items.items() if item.question not in page]
            assert not missing, f"{name}: {missing}"


def test_worked_examples_fit_beside_the_panel():
    """In a window of 1280 pixels with the panel open a cell is about 90 characters wide."""
    for path in sorted((paths.root() / "solutions").glob("week*/*.py")):
        for block in re.findall(
            r"^# ```.*?^# ```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            long = [line for line in block.splitlines() if len(line) - 2 > 90]
            assert not long, f"{path.name}: {long}"


def test_lessons_keep_the_voice():
    """No exclamation marks in prose, and none of the words that make a reader feel slow."""
    for path in sorted((paths.root() / "solutions").glob("week*/*.py")):
        prose = [line[2:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
        text = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)", "", "\n".join(prose))
        found = re.findall(r"\b(?:simply|obviously|trivially|of course)\b|\w!(?!=)", text, re.IGNORECASE)
        assert not found, f"{path.name}: {found}"


def test_prose_is_wrapped_at_120_columns():
    """So that a change can be read line by line. Tables, formulas and a link alone may be longer."""
    for lesson in read_course(paths.root()):
        text = (paths.root() / lesson.path).read_text(encoding="utf-8")
        cells = [cell for cell in percent.parse(text)[0] if cell.kind == "markdown"]
        for line in (line for cell in cells for line in cell.source.splitlines()):
            can_be_broken = " " in line.strip()[:118] and not line.lstrip().startswith(("|", "$$", "    "))
            assert len(line) <= 118 or not can_be_broken, f"{lesson.path}: {line}"
