"""One real exercise of each of the new kinds: audited as the course is, and graded alike in both lanes."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import __version__, datasets
from labkit.book import course, notebook

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
LESSON = Path("solutions/week91_kinds/01_kinds.py")

pytestmark = pytest.mark.slow

NO_BARRIER = """def block_sum(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = 0
    if i < x.size:
        s[t] = x[i]
    cuda.syncthreads()
    for step in (16, 8, 4, 2, 1):
        if t < step:
            s[t] = s[t] + s[t + step]
    if t == 0:
        out[cuda.blockIdx.x] = s[0]
"""
CONSTANT = """def train(images, digits):
    return lambda images: np.full(len(images), 7)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("course")
    shutil.copytree(HERE / "solutions", root / "solutions")
    digits = datasets.file("digits/digits.npz")
    (root / "datasets" / "digits").mkdir(parents=True)
    shutil.copy(digits, root / "datasets" / "digits")
    (root / "weeks" / "week91_kinds").mkdir(parents=True)
    return root


@pytest.fixture(scope="module")
def environment(root: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if name != "LABKIT_LANE"},
        "LABKIT_ROOT": str(root),
        "LABKIT_EXERCISES": str(HERE / "exercises"),
        "LABKIT_TIMEOUT": "120",
        "PYTHONPATH": str(REPOSITORY),
    }


def answered(root: Path, answers: dict[str, str]) -> notebook.Notebook:
    """The released notebook with these answers, by cell, and the solution in the other cells."""
    lesson = course.read_lesson(root, root / LESSON)
    sources = {cell.id: cell.source for cell in lesson.cells}
    nb = copy.deepcopy(notebook.learner_notebook(lesson, __version__))
    for cell in nb["cells"]:
        cell["source"] = answers.get(cell["id"], sources[cell["id"]])
    return nb


def test_the_audit(root: Path, environment: dict[str, str]):
    """Stubs not started, solutions pass, all mistakes by name, no mutant survives."""
    if sys.platform == "win32":
        pytest.skip("the audit needs fork()")
    command = [sys.executable, "-m", "labkit", "audit", "--week", "91"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    found = re.search(
        r"(\d+) exercises; (\d+) of (\d+) mistakes .*; (\d+) of (\d+) mutants .*; (\d+) problems", done.stdout
    )
    assert found, done.stdout + done.stderr
    exercises, caught, mistakes, killed, mutants, problems = map(int, found.groups())
    assert (problems, done.returncode) == (0, 0), done.stdout
    assert exercises == 2 and caught == mistakes == 13 and killed == mutants > 40


def test_both_lanes(root: Path, environment: dict[str, str]):
    papers = {
        "kernel wrong": {"k-block-sum": NO_BARRIER},
        "model wrong": {"k-digits": CONSTANT},
    }
    wanted = {
        "kernel wrong": [("hazard", "no barrier in the loop"), ("pass", None)],
        "model wrong": [("pass", None), ("values", "constant")],
    }
    learner = root / "weeks" / "week91_kinds" / "01_kinds.ipynb"
    in_kernels, files = {}, []
    for name, answers in papers.items():
        nb = answered(root, answers)
        files.append(root / f"{name}.ipynb")
        notebook.write(files[-1], nb)
        notebook.write(learner, nb)
        command = [sys.executable, "-m", "labkit", "check", "--week", "91", "--root", str(root)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert "w91.block_sum" in done.stdout, done.stdout + done.stderr
        report = json.loads((root / "reports" / "check.json").read_text(encoding="utf-8"))
        (paper,) = report["notebooks"]
        in_kernels[name] = [(v["status"], v["mistake"]) for v in paper["exercises"]]
    assert in_kernels == wanted
    command = [sys.executable, str(REPOSITORY / "tests/grade/lanes/run_forked.py"), str(root / LESSON)]
    done = subprocess.run(
        [*command, *map(str, files)], env=environment, capture_output=True, text=True, timeout=600
    )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    in_forks = {
        name: [(v["status"], v["mistake"]) for v in found]
        for name, found in zip(papers, records, strict=True)
    }
    assert in_forks == wanted
