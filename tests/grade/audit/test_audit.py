"""The audit finds what is wrong with an exercise, says so exactly, and proves the ones that are right."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from labkit.book.answers import answer, prepare
from labkit.book.percent import Lesson, parse
from labkit.book.source import sources_of
from labkit.exercises.declare import (
    Case,
    Equivalent,
    Fix,
    Implement,
    Item,
    Mistake,
    Predict,
    Rules,
    WriteTest,
)
from labkit.grade import processes
from labkit.grade.audit import changed, command
from labkit.grade.audit.lint import lint
from labkit.grade.audit.proof import Task, prove
from labkit.grade.judge.disguise import disguise

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the audit needs fork()")

LESSON = """# %% id=a-setup role=setup
import torch
from labkit import check

# %% id=a-demo
raise RuntimeError("demo cells are not run")

# %% id=a-scale role=exercise ex=w00.scale
def scale(x, by):
    ### BEGIN SOLUTION
    return x / by
    ### END SOLUTION

# %% id=a-scale-check role=check ex=w00.scale
check("w00.scale", scale)

# %% [markdown] id=a-softmax-md
# Exponentials, divided by their sum.
# %% id=a-softmax role=exercise ex=w00.softmax
def softmax(x):
    ### BEGIN SOLUTION
    e = (x - x.max(dim=-1, keepdim=True).values).exp()
    return scale(e, e.sum(dim=-1, keepdim=True))
    ### END SOLUTION

# %% id=a-softmax-check role=check ex=w00.softmax
check("w00.softmax", softmax)

# %% id=a-fix role=exercise ex=w00.fix
### BEGIN SOLUTION
fault = "forgets the bias"
def line(x, w, b):
    return w * x + b
### STUB
# fault = ...
# def line(x, w, b):
#     return w * x
### END SOLUTION

# %% id=a-fix-check role=check ex=w00.fix
check("w00.fix", line, fault=fault)

# %% id=a-guess role=exercise ex=w00.guess
### BEGIN SOLUTION
prediction = {"a": 5, "b": True}
sure = 2
### STUB
# prediction = {"a": ..., "b": ...}
# sure = ...
### END SOLUTION

# %% id=a-guess-check role=check ex=w00.guess
check("w00.guess", prediction, sure=sure)

# %% id=a-test role=exercise ex=w00.test
def test_sort(sort):
    ### BEGIN SOLUTION
    assert sort([2, 1, 2]) == [1, 2, 2]
    ### END SOLUTION

# %% id=a-test-check role=check ex=w00.test
check("w00.test", test_sort)
"""
SOURCES = {
    source.id: source
    for source in sources_of(Lesson(Path("solutions/week00_a/01_a.py"), tuple(parse(LESSON)[0])))
}


def common(name):
    return {
        "id": f"w00.{name}",
        "title": "t",
        "minutes": 1,
        "hints": ("1", "2", "3"),
        "passed": "Good.",
    }


SOFTMAX = Implement(
    **common("softmax"),
    cases=[
        Case("three axes", lambda draw: {"x": draw.normal(2, 3, 4)}),
        Case("one column", lambda draw: {"x": draw.normal(5, 1)}),
        Case("strided", lambda draw: {"x": draw.strided(3, 5)}),
        Case("huge", lambda draw: {"x": 1e4 * draw.normal(2, 3)}, extreme=True),
    ],
    oracle=lambda x: torch.softmax(x, dim=-1),
    grads=("x",),
    rules=Rules(forbids=("softmax",)),
    mistakes=[
        Mistake("wrong axis", "Over rows.", lambda x: torch.softmax(x, dim=0)),
        Mistake("not shifted", "It overflows.", lambda x: x.exp() / x.exp().sum(-1, keepdim=True)),
        Mistake("not divided", "It does not sum to 1.", lambda x: (x - x.max(-1, keepdim=True).values).exp()),
    ],
)
FIX = Fix(
    **common("fix"),
    engine="python",
    cases=[
        Case("a", lambda draw: {"x": 3.0, "w": 2.0, "b": 5.0}),
        Case("b", lambda draw: {"x": -1.5, "w": 4.0, "b": 0.5}),
    ],
    oracle=lambda x, w, b: w * x + b,
    broken=lambda x, w, b: w * x,
    fault="forgets the bias",
    menu={"forgets the bias": "", "swaps w and b": "Try w = 1, b = 0."},
    mistakes=[
        Mistake("swapped", "w and b are swapped.", lambda x, w, b: b * x + w),
        Mistake("minus", "The bias is subtracted.", lambda x, w, b: w * x - b),
        Mistake("no product", "Nothing is multiplied.", lambda x, w, b: w + x + b),
    ],
)
PREDICT = Predict(
    **common("guess"),
    items={"a": Item("?", lambda: 5), "b": Item("?", lambda: True)},
    mistakes=[
        Mistake("six", "One less.", {"a": 6}),
        Mistake("four", "One more.", {"a": 4}),
        Mistake("no", "Yes.", {"b": False}),
    ],
)
TEST = WriteTest(
    **common("test"),
    good=[sorted],
    bugs={
        "reversed": ("sorts the wrong way", lambda v: sorted(v)[::-1]),
        "drops": ("loses duplicates", lambda v: sorted(set(v))),
    },
    mistakes=[
        Mistake("single", "Sorting one number proves nothing.", lambda sort: None),
        Mistake("distinct", "No duplicates.", lambda sort: _assert(sort([2, 1]) == [1, 2])),
        Mistake("length", "Only the length.", lambda sort: _assert(len(sort([2, 1, 2])) == 3)),
    ],
)


def _assert(condition):
    assert condition


def proven(exercise, source=None, **options):
    return prove(Task(exercise, source or SOURCES[exercise.id], **options))


# what is right is proven


@pytest.mark.parametrize("exercise", [SOFTMAX, FIX, PREDICT, TEST], ids=lambda e: e.kind)
def test_a_good_exercise_is_proven(exercise):
    report = proven(exercise)
    assert report.problems == []
    assert (report.caught, report.mistakes) == (3, 3)
    assert report.killed == report.mutants > 0


def test_the_answer_is_made_as_the_notebook_makes_it():
    softmax, extra = answer(SOURCES["w00.softmax"])
    assert torch.allclose(softmax(torch.zeros(2, 4)), torch.full((2, 4), 0.25)) and extra == {}
    line, extra = answer(SOURCES["w00.fix"])
    assert line(1, 2, 3) == 5 and extra == {"fault": "forgets the bias"}
    assert "scale" in prepare(SOURCES["w00.fix"]) and "line" not in prepare(SOURCES["w00.fix"])


def test_the_disguise_of_functions_and_classes():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))

    twin = disguise(Layer)
    assert twin.__module__ == "__main__" and list(dict(twin().named_parameters())) == ["w"]

    def outer(x, *, by=2):
        return x * by + offset

    offset = 1
    assert disguise(outer)(3) == 7 and disguise(outer).__module__ == "__main__"


# what is wrong is found


def with_mistake(name, wrong):
    return [*SOFTMAX.mistakes, Mistake(name, "s", wrong)]


def raises(x):
    raise RuntimeError


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mistakes": with_mistake("right", lambda x: torch.softmax(x, -1))}, "mistake 'right' passes"),
        (
            {"mistakes": with_mistake("twin", lambda x: x.softmax(0))},
            "'twin' and 'wrong axis' cannot be told apart",
        ),
        ({"mistakes": with_mistake("boom", raises)}, "mistake 'boom' is not recognized: error"),
        ({"mistakes": SOFTMAX.mistakes[:2]}, "2 mistakes; declare at least three"),
        ({"rules": Rules()}, "not refused (pass: 4 cases agree"),
        ({"oracle": lambda x: torch.softmax(x, dim=1)}, "the solution does not pass"),
        ({"hints": ("1", "", "3")}, "three hints"),
        ({"passed": "word " * 50}, "passed: a line of"),
        ({"excused": {"no such rule": "because"}}, "no such rule"),
        ({"excused": {"constant": " "}}, "give a reason"),
    ],
)
def test_problems_are_named(change, words):
    problems = proven(replace(SOFTMAX, **change), sample=0).problems
    assert any(words in problem for problem in problems), problems


def test_delegation_may_be_allowed_for_a_reason():
    report = proven(replace(SOFTMAX, rules=Rules(), excused={"delegation": "reading a failure"}), sample=0)
    assert (report.problems, report.delegation) == ([], "allowed")


def test_a_declared_delegate_is_tried():
    delegate = lambda x: torch.softmax(x, dim=-1)  # noqa: E731
    assert proven(replace(SOFTMAX, delegate=delegate), sample=0).delegation == "refused"
    assert proven(replace(SOFTMAX, delegate=delegate, rules=Rules()), sample=0).delegation == "PASSES"


def test_a_stub_that_passes_or_does_not_run_is_found():
    solved = LESSON.replace("### STUB\n# fault = ...", "### STUB\n# fault = 'forgets the bias'").replace(
        "#     return w * x\n", "#     return w * x + b\n"
    )
    broken = LESSON.replace('### STUB\n# prediction = {"a": ..., "b": ...}\n# sure = ...\n', "")
    for text, exercise, words in (
        (solved, FIX, "the stub is judged pass"),
        (broken, PREDICT, "raises NotImplementedError"),
    ):
        lesson = Lesson(Path("a.py"), tuple(parse(text)[0]))
        source = next(item for item in sources_of(lesson) if item.id == exercise.id)
        assert any(words in problem for problem in proven(exercise, source, sample=0).problems)


def test_a_fix_without_a_sentence_for_a_wrong_choice():
    report = proven(replace(FIX, menu={"forgets the bias": "", "swaps w and b": ""}), sample=0)
    assert ["'swaps w and b' is not refused with its sentence" in p for p in report.problems] == [True]


def test_an_exercise_that_stands_in_no_lesson():
    assert prove(Task(SOFTMAX, None)).problems == ["stands in no lesson, so its solution cannot be tried"]


# mutants


def test_survivors_are_shown_and_may_be_listed():
    mistakes = [SOFTMAX.mistakes[0], SOFTMAX.mistakes[2], Mistake("zeros", "s", lambda x: x * 0)]
    weak = replace(SOFTMAX, cases=SOFTMAX.cases[:3], mistakes=mistakes)  # nothing overflows any more
    report = proven(weak)
    line = "e = (x - x.max(dim=-1, keepdim=True).values).exp()"
    survivor = "e = (x - x.min(dim=-1, keepdim=True).values).exp()"
    assert f"survives: {line}  ->  {survivor}" in report.problems
    same, gone = Equivalent(line, survivor, "r"), Equivalent(line, "e = gone", "r")
    listed = replace(weak, equivalent=(same, gone))
    report = proven(listed)
    assert f"survives: {line}  ->  {survivor}" not in report.problems and report.equivalent == 1
    assert f"stale in `equivalent`: {line}  ->  e = gone" in report.problems
    assert proven(listed, sample=1).mutants == 1


def test_an_equivalent_needs_a_reason():
    (problem,) = lint(replace(SOFTMAX, equivalent=(Equivalent("a", "b", " "),)))
    assert problem == "equivalent: a  ->  b: say why no input can show the difference"


# test data


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda draw: {"x": draw.normal(3, 3)}, "two axes of the same size"),
        (lambda draw: {"x": 0 * draw.normal(3, 4)}, "is constant"),
        (
            lambda draw: {"x": np.array([1.0, 2.0, 2.0, 1.0])},
            "reads the same backwards",
        ),
    ],
)
def test_test_data_that_could_hide_a_mistake(make, rule):
    problems = lint(replace(SOFTMAX, cases=[*SOFTMAX.cases, Case("bad", make)]))
    assert len(problems) == 1 and rule in problems[0] and "'bad'" in problems[0]


def test_test_data_that_is_missing():
    problems = lint(replace(SOFTMAX, cases=[Case("a", lambda draw: {"x": draw.normal(3, 4)})]))
    assert problems == ["no case with an axis of size 1", "no case with an input that is not contiguous"]
    reversed_only = [Case("a", lambda draw: {"x": draw.normal(1, 4)[:, ::-1]})]
    assert lint(replace(SOFTMAX, cases=reversed_only)) == ["no case with an input that is not contiguous"]
    excused = {"size one": "r", "not contiguous": "r"}
    assert (
        lint(replace(SOFTMAX, cases=[Case("a", lambda draw: {"x": draw.normal(3, 4)})], excused=excused))
        == []
    )


# the pool


def work(task):
    if task == "slow":
        time.sleep(60)
    if task == "dies":
        import os

        os._exit(3)
    if task == "raises":
        raise SystemExit("no")
    print("not seen")
    return task * 2


def test_the_pool_survives_everything(capfd):
    tasks = ["a", "slow", "dies", "raises", "b"]
    results = dict(processes.forked(tasks, work, seconds=1, jobs=2))
    assert (results["a"], results["b"]) == ("aa", "bb")
    assert [results[key].why for key in ("slow", "dies", "raises")] == [
        "took too long",
        "the process ended",
        "SystemExit: no",
    ]
    assert capfd.readouterr().out == ""


def test_an_endless_loop_is_ended_by_the_time_it_computes():
    def spin(task):
        while True:
            pass

    start = time.monotonic()
    ((_, result),) = processes.forked([1], spin, seconds=300, cpu=1)
    assert isinstance(result, processes.Lost) and time.monotonic() - start < 200


def test_large_results_arrive():
    assert [len(result) for _, result in processes.forked([10_000_000], lambda n: "x" * n, 30)] == [
        10_000_000
    ]


# what changed


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


SHARED = """from labkit.exercises.shared import LEVEL

def _part(x):
    return x

def helper(x):
    return _part(x)

def other(x):
    return 0
"""
USES = "from labkit.exercises.week00.shared import {}\n\nexercise = Implement(minutes=1, oracle={})\n"
LESSON_PATH, FOLDER = "solutions/week00_a/01_a.py", "labkit/exercises/week00"
FILES = {
    LESSON_PATH: LESSON,
    f"{FOLDER}/scale.py": USES.format("helper", "helper"),
    f"{FOLDER}/softmax.py": USES.format("LEVEL, other", "other"),
    f"{FOLDER}/fix.py": "exercise = Fix(minutes=1)\n",
    f"{FOLDER}/guess.py": "exercise = puzzle(minutes=1)\n",  # made by a function of its own
    f"{FOLDER}/test.py": "exercise = WriteTest(minutes=1)\n",
    f"{FOLDER}/shared.py": SHARED,
    "labkit/exercises/shared.py": "LEVEL = 1\n",
    "labkit/grade/judge/compare.py": "",
    "labkit/grade/judge/kinds/fix.py": "",
    "labkit/grade/progress/page.py": "",
}


@pytest.fixture
def repository(tmp_path):
    """A course with one commit on its main branch."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    git(tmp_path, "init", "-qb", "main")
    committed(tmp_path, "start")
    return tmp_path


def committed(folder, message):
    git(folder, "add", ".")
    git(folder, "commit", "-qm", message)
    return changed.commit(folder)


def edit(repository, path, old, new):
    file = repository / path
    assert old in file.read_text() or not old
    file.write_text(file.read_text().replace(old, new) if old else new)


def found(repository, base="HEAD"):
    lesson = (repository / LESSON_PATH).read_text()
    sources = sources_of(Lesson(Path(LESSON_PATH), tuple(parse(lesson)[0])))
    return changed.changed_since(base, {source.id: source for source in sources}, repository)


@pytest.mark.parametrize(
    ("path", "old", "new", "ids"),
    [
        (LESSON_PATH, "Exponentials,", "Powers,", set()),
        (LESSON_PATH, "return x / by", "return by / x", {"w00.scale"}),
        (LESSON_PATH, "import torch\n", "import torch, math\n", set(SOURCES)),
        (f"{FOLDER}/scale.py", "minutes=1", "minutes=2", {"w00.scale"}),
        (f"{FOLDER}/guess.py", "minutes=1", "minutes=2", {"w00.guess"}),
        (f"{FOLDER}/scale.py", "exercise =", "# a comment\nexercise =", set()),
        (f"{FOLDER}/shared.py", "return 0", "return 1", {"w00.softmax"}),
        (f"{FOLDER}/shared.py", "return x\n", "return -x\n", {"w00.scale"}),  # what a helper uses
        (f"{FOLDER}/shared.py", "def other", "def third(x): ...\ndef other", set()),
        ("labkit/exercises/shared.py", "LEVEL = 1", "LEVEL = 2", {"w00.softmax"}),  # by way of the week's
        ("labkit/grade/judge/compare.py", "", "x = 1", set()),
    ],
)
def test_what_changed(repository, path, old, new, ids):
    assert found(repository) == set()
    edit(repository, path, old, new)
    assert found(repository) == ids


def test_all_commits_of_a_branch_count(repository):
    start = changed.commit(repository)
    git(repository, "switch", "-qc", "branch")
    edit(repository, f"{FOLDER}/scale.py", "minutes=1", "minutes=2")
    committed(repository, "first")
    edit(repository, f"{FOLDER}/fix.py", "minutes=1", "minutes=2")
    committed(repository, "second")
    assert changed.base_commit(repository) == start
    assert found(repository, start) == {"w00.scale", "w00.fix"}
    git(repository, "switch", "-q", "main")
    edit(repository, f"{FOLDER}/test.py", "minutes=1", "minutes=3")
    committed(repository, "meanwhile, on the main branch")
    git(repository, "switch", "-q", "branch")
    assert changed.base_commit(repository) == start


def test_on_the_main_branch_the_base_is_the_commit_before_or_what_was_pushed(repository):
    start = changed.commit(repository)
    assert changed.base_commit(repository) is None  # the first commit has none before it
    for number in (2, 3):
        edit(repository, f"{FOLDER}/scale.py", f"minutes={number - 1}", f"minutes={number}")
        before = changed.commit(repository)
        committed(repository, "more")
    assert changed.base_commit(repository) == before != start
    git(repository, "update-ref", "refs/remotes/origin/main", start)
    assert changed.base_commit(repository) == start


def options(*words):
    return command._parser().parse_args(["--mutants", "changed", "--sample", "20", *words])


def test_the_sample_is_another_one_for_every_commit(repository):
    edit(repository, f"{FOLDER}/scale.py", "minutes=1", "minutes=2")
    head = committed(repository, "second")
    chosen = options()
    (note,) = command.settle(repository, chosen)
    assert (chosen.seed, chosen.sample) == (int(head[:8], 16), 20)
    assert note.startswith("Mutants: a sample of 20 and of all that changed since ")
    assert note.endswith(f"to repeat it: --seed {chosen.seed}")
    chosen = options("--seed", "7")
    assert command.settle(repository, chosen)[-1].endswith("--seed 7") and chosen.seed == 7


def test_a_change_in_what_judges_makes_the_sample_larger(repository):
    for path in ("labkit/grade/judge/compare.py", "labkit/grade/judge/kinds/fix.py"):
        base = changed.commit(repository)
        edit(repository, path, "", "x = 1")
        committed(repository, "judging")
        chosen = options("--base", base)
        first, second = command.settle(repository, chosen)
        assert first == f"What judges answers changed ({path}): the sample is {command.MORE} times as large."
        assert "a sample of 100 " in second and chosen.sample == 100
        assert found(repository, base) == set()
    base = changed.commit(repository)
    edit(repository, "labkit/grade/progress/page.py", "", "x = 1")
    committed(repository, "a page")
    chosen = options("--base", base)
    assert len(command.settle(repository, chosen)) == 1 and chosen.sample == 20


def test_without_a_base_only_a_sample_is_tried(repository, tmp_path_factory):
    edit(repository, f"{FOLDER}/scale.py", "minutes=1", "minutes=2")
    committed(repository, "second")
    shallow = tmp_path_factory.mktemp("shallow") / "clone"
    git(repository, "clone", "-q", "--depth", "1", repository.as_uri(), str(shallow))
    chosen = options()
    first, second = command.settle(shallow, chosen)
    assert first.startswith("There is no commit to compare with, as in a shallow clone: only a sample")
    assert second.startswith("Mutants: a sample of 20; to repeat it: --seed ")
    samples = command._samples({"w00.softmax": SOFTMAX}, SOURCES, shallow, chosen)
    assert 0 < samples["w00.softmax"] <= 20
    chosen = options()
    command.settle(tmp_path_factory.mktemp("no-git"), chosen)
    assert (chosen.base, chosen.seed) == (None, 0)


def test_a_base_that_is_not_there_is_refused(repository):
    with pytest.raises(ValueError, match="There is no revision 'no-such' to compare with"):
        command.settle(repository, options("--base", "no-such"))


# the command


def test_the_table():
    report = proven(SOFTMAX, sample=2)
    (table,) = command.tables([report])
    assert table.splitlines()[0] == "Week 0"
    assert "w00.softmax  Implement  4      3/3               2/2             refused     ok" in table
    assert command.summary([report], [], 1.0).startswith(
        "1 exercises; 3 of 3 mistakes caught by name; 2 of 2 mutants killed"
    )


def test_what_is_said_can_be_written_down(tmp_path, monkeypatch):
    """Every verdict the audit knows of, the same on every run, to compare two versions."""
    monkeypatch.setattr(command.Course, "sources", SOURCES)
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    (tmp_path / LESSON_PATH).parent.mkdir(parents=True)
    known = {exercise.id: exercise for exercise in (FIX, SOFTMAX, PREDICT, TEST)}
    monkeypatch.setattr(command.exercises, "all_exercises", lambda: known)
    monkeypatch.setenv("LABKIT_LANE", "audit")
    for name in ("before", "after"):
        command.main(["--texts", str(tmp_path / name)])
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
    said = json.loads((tmp_path / "before").read_text())
    assert list(said) == [key for key in SOURCES if key in known]  # the order of the lessons
    softmax = said["w00.softmax"]
    assert softmax["hints"] == list(SOFTMAX.hints) and softmax["lint"] == softmax["must fail"] == []
    assert softmax["delegation"] == ["refused", None]
    assert list(softmax["verdicts"]) == ["stub", "solution", *(f"mistake {m.name}" for m in SOFTMAX.mistakes)]
    assert [softmax["verdicts"][name]["status"] for name in ("stub", "solution")] == ["not started", "pass"]
    assert set(said[FIX.id]["texts"]) == {f"menu {choice!r}" for choice in FIX.menu}


def test_the_course_is_proven():
    """All declared mistakes of the course, the mutants of what changed, and a sample of the others."""
    command = [sys.executable, "-m", "labkit", "audit", "--mutants", "changed", "--sample", "100"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=1200, cwd=Path(__file__).parents[3]
    )
    assert done.returncode == 0, done.stdout + done.stderr
