"""A small course in a temporary folder, and the exercises that its notebooks ask for."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit import __version__, exercises
from labkit.book import course, notebook
from labkit.book.notebook import Notebook
from labkit.book.percent import Lesson

HERE = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def small_course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The course folder; processes started meanwhile know its exercises."""
    root = tmp_path_factory.mktemp("course")
    shutil.copytree(HERE / "solutions", root / "solutions")
    (root / "weeks" / "week90_lanes").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_ROOT", str(root))
        patch.setenv("LABKIT_EXERCISES", str(HERE / "exercises"))
        patch.setenv("LABKIT_TIMEOUT", "12")
        patch.delenv("LABKIT_LANE", raising=False)
        patch.setattr(exercises, "__path__", [*exercises.__path__, str(HERE / "exercises")])
        forget_exercises()
        yield root
    forget_exercises()


def forget_exercises() -> None:
    """This process may have looked for exercises before, elsewhere."""
    for function in vars(exercises).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


@pytest.fixture(scope="module")
def lesson(small_course: Path) -> Lesson:
    return course.read_lesson(small_course, course.lesson_paths(small_course)[0])


@pytest.fixture(scope="module")
def released(lesson: Lesson) -> Notebook:
    return notebook.learner_notebook(lesson, __version__)


@pytest.fixture(scope="module")
def solved(lesson: Lesson) -> Notebook:
    """What a learner has who wrote the reference solution into every answer."""
    return notebook.solved(lesson)
