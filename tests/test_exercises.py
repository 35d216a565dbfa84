"""How declarations are found: a file is an exercise, its path the id; and the words they are written in."""

import ast
import inspect
import re
import subprocess
import sys

import pytest

from labkit import exercises
from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.grade.judge import judge
from labkit.grade.judge.disguise import disguise

PREDICTION = """from labkit.exercises.declare import Predict
exercise = Predict(title="{}", minutes=1, hints=("", "", ""), mistakes=[], passed="", items={{}})
"""
CACHES = [exercises.files, exercises._load, exercises.weeks, exercises.of_week]


@pytest.fixture
def declare(tmp_path, monkeypatch):
    """`declare("week98/a.py")` writes a file with one exercise to a folder of the course's own."""
    folders = [tmp_path / "one", tmp_path / "two"]
    monkeypatch.setattr(exercises, "__path__", [str(folder) for folder in folders])
    before = set(sys.modules)

    def declare(file, text=None, folder=0):
        path = folders[folder] / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PREDICTION.format(path.stem) if text is None else text)
        for cache in CACHES:
            cache.cache_clear()

    yield declare
    for cache in CACHES:
        cache.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith("labkit.exercises.week"):
            del sys.modules[name]


def test_the_id_follows_from_the_path(declare):
    declare("week98/b.py")
    declare("week98/a.py")
    declare("week97/c.py")
    declare("week98/shared.py", "HINTS = 1")
    declare("week98/_draft.py", "half written (")
    assert exercises.weeks() == (97, 98)
    assert list(exercises.of_week(98)) == ["w98.a", "w98.b"]
    assert list(exercises.all_exercises()) == ["w97.c", "w98.a", "w98.b"]
    assert exercises.all_ids() == {"w97.c", "w98.a", "w98.b"}
    assert exercises.of_week(96) == {}
    found = exercises.get("w98.b")
    assert (found.id, found.week, found.title) == ("w98.b", 98, "b")
    assert exercises.get("w98.b") is found is exercises.all_exercises()["w98.b"]


def test_a_folder_of_the_course_s_own_may_add_to_a_week_but_not_declare_twice(declare):
    declare("week98/a.py")
    declare("week98/b.py", folder=1)
    assert [exercises.get(key).title for key in exercises.of_week(98)] == ["a", "b"]
    declare("week98/a.py", folder=1)
    with pytest.raises(ValueError, match=r"w98\.a is declared twice: in .*one.week98.a\.py and in .*two"):
        exercises.get("w98.a")


def test_what_is_wrong_with_a_file_is_said_with_its_name(declare):
    declare("week98/a.py", "mistakes = []")
    with pytest.raises(ValueError, match=r"a\.py declares no exercise: end it with `exercise = Implement"):
        exercises.get("w98.a")
    declare("week98/b.py", PREDICTION.format("b").replace("title=", 'id="w98.other", title='))
    with pytest.raises(ValueError, match=r"b\.py: leave out id='w98\.other'; the path says w98\.b"):
        exercises.get("w98.b")


def test_an_unknown_exercise_suggests_the_nearest_without_reading_any(declare):
    declare("week98/patience.py", "raise RuntimeError")
    with pytest.raises(KeyError, match=r"There is no exercise 'w98\.patiense'. Did you mean w98\.patience"):
        exercises.get("w98.patiense")


def test_one_exercise_reads_one_file_and_what_it_shares():
    code = """
import sys
from labkit import exercises
exercises.get("w02.matmul")
print(*sorted(name for name in sys.modules if name.startswith("labkit.exercises.week")))
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    week = "labkit.exercises.week02"
    assert done.stdout.split() == [week, f"{week}.matmul", f"{week}.shared", "False"]


@pytest.mark.parametrize("key", exercises.files())
def test_a_declaration_is_a_sentence_then_helpers_then_the_exercise(key):
    text = exercises.files()[key].read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert re.fullmatch(r"[A-Z].*[.]", ast.get_docstring(tree) or "")
    assert ast.unparse(tree.body[-1]).startswith("exercise = ")
    assert len(text.splitlines()) < 300, "a declaration is to be read in one go"


# vary


def scaled(x, by=2, *, plus=0, **more):
    return x * by + plus + sum(more.values())


def test_a_variation_takes_what_is_left_in_its_order():
    assert vary(scaled, plus=1)(3) == 7
    assert vary(scaled, plus=1)(3, 4) == vary(scaled, plus=1)(3, by=4) == 13
    assert vary(scaled, x=5)(3) == 15  # the first argument left is `by`
    assert vary(scaled, other=10)(3, 4, plus=1, last=100) == 123
    assert vary(vary(scaled, plus=1), by=3)(3) == 10
    assert str(inspect.signature(vary(scaled, by=3))) == "(x, *, plus=0, **more)"


def test_a_variation_has_no_other_arguments():
    with pytest.raises(TypeError, match="too many positional arguments"):
        vary(scaled, by=3)(1, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'to'"):
        vary(lambda x: x, to=1)


def test_a_variation_passes_for_somebody_s_answer():
    """A functools.partial would be left as it is, and taken for the library's own."""
    wrong = vary(scaled, plus=1)
    answer = disguise(wrong)
    assert inspect.isfunction(wrong) and wrong.__name__ == "scaled"
    assert answer is not wrong and answer.__module__ == "__main__" and answer(3) == 7
    exercise = Implement(
        id="w98.double",
        title="",
        minutes=1,
        engine="python",
        cases=[Case("three", lambda draw: {"x": 3})],
        oracle=vary(scaled, by=2),
        mistakes=[Mistake("one more", "One too many.", wrong)],
        hints=("", "", ""),
        passed="",
    )
    assert judge(exercise, answer).mistake == "one more"
    assert judge(exercise, disguise(vary(scaled, plus=0))).passed
