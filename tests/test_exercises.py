"""How declarations are found: a week in one file or in several."""

import sys

import pytest

from labkit import exercises

PREDICTION = """from labkit.exercises.declare import Predict

{name} = Predict(
    id="{id}", title="", minutes=1, level=1, hints=("", "", ""), mistakes=[], passed="", items={{}}
)
"""


@pytest.fixture
def declare(tmp_path, monkeypatch):
    """`declare("week98", "w98.a")` writes a file with one exercise to a folder of the course's own."""
    monkeypatch.setattr(exercises, "__path__", [str(tmp_path)])
    caches = [exercises._files, exercises.weeks, exercises.of_week]
    written = []

    def declare(file, key):
        (tmp_path / f"{file}.py").write_text(PREDICTION.format(name=key[4:], id=key))
        written.append(f"labkit.exercises.{file}")
        for cache in caches:
            cache.cache_clear()

    yield declare
    for cache in caches:
        cache.cache_clear()
    for name in written:
        sys.modules.pop(name, None)


def test_a_week_may_have_several_files(declare):
    declare("week98_more", "w98.b")
    declare("week98", "w98.a")
    declare("week97", "w97.c")
    assert exercises.weeks() == (97, 98)
    assert list(exercises.of_week(98)) == ["w98.a", "w98.b"]
    assert list(exercises.all_exercises()) == ["w97.c", "w98.a", "w98.b"]
    assert exercises.of_week(96) == {}


def test_an_exercise_is_declared_once_and_in_its_week(declare):
    declare("week98", "w98.a")
    declare("week98_more", "w98.a")
    with pytest.raises(ValueError, match=r"week98_more.py declares what another file has declared: w98.a"):
        exercises.of_week(98)
    declare("week97", "w96.a")
    with pytest.raises(ValueError, match=r"week97.py declares exercises of another week: w96.a"):
        exercises.of_week(97)
