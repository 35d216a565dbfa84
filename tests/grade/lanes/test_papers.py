"""What is graded, and what a graded copy is made of."""

import copy

from labkit.book import notebook
from labkit.book.percent import Lesson, parse
from labkit.book.work import here
from labkit.grade.lanes import fork
from labkit.grade.lanes.papers import FRESH_CHECK, PREPARE, paper, papers, steps
from labkit.grade.lanes.selfcheck import grade_in_kernels

from .corpus import DOUBLES, EXERCISES, SQUARES, answer, cell


def page(root):
    return root / "weeks" / "week90_lanes" / "01_lanes.ipynb"


def test_a_missing_file_is_not_started_and_says_so(small_course):
    page(small_course).unlink(missing_ok=True)
    (found,) = papers(here(small_course))
    assert found.copy is None
    assert {verdict.status for verdict in found.settled.values()} == {"not started"}
    assert "make update" in found.note


def test_every_check_is_fresh_and_followed_by_a_way_to_recover(small_course, lesson, solved):
    notebook.write(page(small_course), answer(copy.deepcopy(solved), SQUARES))
    found = steps(paper(here(small_course), lesson).copy)
    assert found[0].source == PREPARE
    checks = [number for number, step in enumerate(found) if step.role == "check"]
    assert [found[number].ex for number in checks] == list(EXERCISES)
    assert all(found[number].source.startswith(FRESH_CHECK) for number in checks)
    for number in checks[:-1]:
        assert (found[number + 1].role, found[number + 1].ex) == ("recover", found[number].ex)
    assert [step.source for step in found if step.id == "w90-double"] == [SQUARES]
    assert "FACTOR * value" in found[checks[0] + 1].source


def test_one_exercise_ends_with_its_check(small_course, lesson, solved):
    notebook.write(page(small_course), solved)
    work = paper(here(small_course), lesson, ex="w90.total")
    assert work.exercises == ("w90.total",)
    assert steps(work.copy)[-1].id == "w90-total-check"
    assert papers(here(small_course), ex="w90.nothing") == []
    assert papers(here(small_course), week=91) == []


def test_what_comes_after_the_last_answer_is_not_run(small_course, lesson, released, solved):
    begun = copy.deepcopy(released)
    cell(begun, "total")["source"] = cell(solved, "total")["source"]
    notebook.write(page(small_course), begun)
    work = paper(here(small_course), lesson)
    assert steps(work.copy)[-1].id == "w90-total-check"
    assert list(work.settled) == ["w90.counter", "w90.guess", "w90.middle"]
    verdicts = {ex: verdict.status for ex, verdict in fork.grade_paper(work).items()}
    assert verdicts == dict.fromkeys(EXERCISES, "not started") | {"w90.total": "pass"}
    (graded,) = grade_in_kernels([work])
    assert {ex: verdict.status for ex, verdict in graded.items()} == verdicts
    assert paper(here(small_course), lesson, ex="w90.guess").copy is None


def test_an_answer_may_stand_in_a_cell_of_ones_own(small_course, lesson, released):
    nb = copy.deepcopy(released)
    place = nb["cells"].index(cell(nb, "double-check"))
    nb["cells"].insert(place, notebook.make_cell("code", DOUBLES, "mine", {}))
    nb["cells"].append(notebook.make_cell("code", "  \n", "blank", {}))
    notebook.write(page(small_course), nb)
    verdicts = fork.grade_forked(page(small_course))
    assert [verdict.status for verdict in verdicts.values()] == ["pass", *["not started"] * 4]


def test_an_answer_forgets_names_it_does_not_build_on(small_course, lesson):
    source = """\
# %% id=a role=exercise ex=w90.double
### BEGIN SOLUTION
import math
rate = 0.1
weight = weight - rate
def double(x):
    return [2 * v for v in x]
class Counter(Counter):
    pass
### END SOLUTION
# %% id=b role=check ex=w90.double
check("w90.double", double)
"""
    cells, problems = parse(source)
    assert not problems
    made = Lesson(lesson.path, tuple(cells))
    nb = notebook.learner_notebook(made, "0.1.0")
    nb["cells"][0]["source"] = "pass"
    notebook.write(page(small_course), nb)
    (exercise,) = [step for step in steps(paper(here(small_course), made).copy) if step.role == "exercise"]
    assert exercise.binds == ("double",)


def test_copies_are_strays_and_checkpoints_are_not(small_course, solved):
    folder = page(small_course).parent
    for name in ("01_lanes.ipynb", "01_lanes-Copy1.ipynb", ".ipynb_checkpoints/01_lanes-checkpoint.ipynb"):
        notebook.write(folder / name, solved)
    assert [path.name for path in here(small_course).strays()] == ["01_lanes-Copy1.ipynb"]
    (folder / "01_lanes-Copy1.ipynb").unlink()


def test_without_fork_a_process_is_started(monkeypatch, small_course, lesson, solved):
    """As on Windows: the same verdicts from a spawned process."""
    monkeypatch.setattr(fork.multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    fork._context.cache_clear()
    try:
        notebook.write(page(small_course), answer(copy.deepcopy(solved), SQUARES))
        verdicts = fork.grade_forked(page(small_course))
        assert fork._context().get_start_method() == "spawn"
    finally:
        fork._context.cache_clear()
    assert [verdict.status for verdict in verdicts.values()] == ["values", *["pass"] * 4]
