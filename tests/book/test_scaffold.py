"""`make new`: what it writes builds, and the audit says what is missing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.book import percent
from labkit.book.course import Course
from labkit.book.scaffold import CannotMake, new

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    (tmp_path / "weeks").mkdir()
    (tmp_path / "solutions").mkdir()
    return Course(tmp_path)


def test_a_new_exercise_in_a_new_lesson(course):
    declared, lesson = new(course, "w88.first_one", "week88_made/02_by_hand")
    assert declared == course.root / "labkit/exercises/week88/first_one.py"
    new(course, "w88.second", None)  # into the last lesson of the week
    cells, problems = percent.parse(lesson.read_text(encoding="utf-8"))
    assert problems == []
    assert [cell.ex for cell in cells if cell.role == "check"] == ["w88.first_one", "w88.second"]
    assert {cell.id.partition("-")[0] for cell in cells} == {"w88b"}


@pytest.mark.parametrize(
    ("ex", "lesson", "said"),
    [
        ("guard", None, "is no id"),
        ("w00.answer", None, "is there already"),
        ("w88.guard", None, "Week 88 has no lesson yet"),
        ("w88.guard", "week08_kernels/01_fast", "is no lesson of week 88"),
        ("w88.guard", "../evil", "is no lesson of week 88"),
    ],
)
def test_refusals_write_nothing(course, ex, lesson, said):
    with pytest.raises(CannotMake, match=said):
        new(course, ex, lesson)
    assert not list(course.root.rglob("*.py"))


def test_it_builds_and_the_audit_speaks(course):
    """As an author would: the command, the build, the audit."""
    shutil.copytree(REPOSITORY / "solutions/week00_start", course.root / "solutions/week00_start")
    environment = {
        "LABKIT_ROOT": str(course.root),
        "LABKIT_EXERCISES": str(course.root / "labkit/exercises"),
        "PYTHONPATH": str(REPOSITORY),
        "PATH": "/usr/bin:/bin",
        "HOME": str(course.root),
    }

    def labkit(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "labkit", *words]
        return subprocess.run(command, env=environment, cwd=course.root, capture_output=True, text=True)

    made = labkit("new", "w88.negative", "--lesson", "week88_made/01_by_hand")
    assert made.returncode == 0 and "make audit EX=w88.negative" in made.stdout, made.stderr
    assert (course.root / "solutions/week88_made/01_by_hand.py").exists()
    built = labkit("build", "--week", "88")
    assert built.returncode == 0, built.stdout + built.stderr
    audited = labkit("audit", "--ex", "w88.negative")
    assert "3 of 3 mistakes caught by name" in audited.stdout, audited.stdout + audited.stderr
