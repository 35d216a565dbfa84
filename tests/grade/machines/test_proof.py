"""The two exercises on machines, proven by the audit and judged alike in both lanes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import __version__
from labkit.book import course, notebook

TESTS = Path(__file__).parents[2]
WEEK = "week92_machines"
WRONG = {
    "m-ring": """def ring_average(dist, x):
    n, rank = dist.get_world_size(), dist.get_rank()
    out = x.clone()
    pieces = out.tensor_split(n)
    for step in range(n - 1):
        dist.send(pieces[(rank - step) % n], (rank + 1) % n)
        dist.recv(pieces[(rank - step - 1) % n], (rank - 1) % n)
    return out""",
    "m-one-graph": """def quieter(x, gain):
    peak = x.abs().max()
    if float(peak) > 1:
        return x / peak * gain
    return x * gain""",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the audit and the warm lane need fork()"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A course of one lesson, with one notebook solved and one wrong."""
    root = tmp_path_factory.mktemp("machines")
    lesson_file = root / "solutions" / WEEK / "01_machines.py"
    lesson_file.parent.mkdir(parents=True)
    source = TESTS / "kinds_course" / "solutions" / WEEK / lesson_file.name
    lesson_file.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    lesson = course.read_lesson(root, lesson_file)
    solutions = {cell.id: cell.source for cell in lesson.cells}
    (root / "weeks" / WEEK).mkdir(parents=True)
    for name, answers in (("01_machines", solutions), ("wrong", WRONG)):
        learners = notebook.learner_notebook(lesson, __version__)
        for cell in learners["cells"]:
            cell["source"] = answers.get(cell["id"], cell["source"])
        (root / "weeks" / WEEK / f"{name}.ipynb").write_text(json.dumps(learners), encoding="utf-8")
    return root


@pytest.fixture(scope="module", autouse=True)
def environment(root):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_ROOT", str(root))
        patch.setenv("LABKIT_EXERCISES", str(TESTS / "kinds_course" / "exercises"))
        patch.setenv("LABKIT_TIMEOUT", "300")  # Dynamo's imports take seconds, on a busy machine many
        patch.delenv("LABKIT_LANE", raising=False)
        yield


def run(*command):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=900)


def in_kernel(root, name):
    """Only the notebook with the lesson's name is graded: put it there first."""
    folder = root / "weeks" / WEEK
    given = (folder / f"{name}.ipynb").read_text(encoding="utf-8")
    before = (folder / "01_machines.ipynb").read_text(encoding="utf-8")
    (folder / "01_machines.ipynb").write_text(given, encoding="utf-8")
    done = run("-m", "labkit", "check", "--week", "92")
    (folder / "01_machines.ipynb").write_text(before, encoding="utf-8")
    report = json.loads((root / "reports" / "check.json").read_text(encoding="utf-8"))
    return done, report


def test_the_audit_proves_both():
    done = run("-m", "labkit", "audit", "--week", "92")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def forked(root):
    folder, script = root / "weeks" / WEEK, TESTS / "grade" / "lanes" / "run_forked.py"
    names = [folder / "01_machines.ipynb", folder / "wrong.ipynb"]
    done = run(script, root / "solutions" / WEEK / "01_machines.py", *names)
    assert done.returncode == 0, done.stderr[-2000:]
    return [{record["ex"]: record for record in json.loads(line)} for line in done.stdout.splitlines()]


def test_solutions_pass_in_both_lanes(root, forked):
    assert {record["status"] for record in forked[0].values()} == {"pass"}, forked[0]
    done, _ = in_kernel(root, "01_machines")
    assert done.stdout.count("pass") >= 2 and done.returncode == 0, done.stdout


def test_wrong_answers_are_told_alike_in_both_lanes(root, forked):
    ring, graph = forked[1]["w92.ring"], forked[1]["w92.one_graph"]
    assert (ring["status"], ring["mistake"]) == ("hazard", "send first"), ring
    assert (graph["status"], graph["mistake"]) == ("cost", "a number"), graph
    _, report = in_kernel(root, "wrong")
    said = json.dumps(report)
    assert ring["headline"] in said and graph["headline"] in said
