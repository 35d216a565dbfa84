"""Every bad file gets its verdicts, in both lanes, and what was not touched still passes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.book.work import here
from labkit.grade.lanes.papers import paper
from labkit.grade.lanes.selfcheck import grade_in_kernels
from labkit.verdict import Verdict

from .corpus import CORPUS, LEFT_BEHIND, Bad

HERE = Path(__file__).parent
LANES = ("kernel", "fork")
Verdicts = dict[str, dict[str, Verdict]]


@pytest.fixture(scope="module")
def files(small_course, solved) -> list[Path]:
    paths = [small_course / "weeks" / "week90_lanes" / f"{kind.name}.ipynb" for kind in CORPUS]
    for kind, path in zip(CORPUS, paths, strict=True):
        kind.write(path, solved)
    return paths


@pytest.fixture(scope="module")
def lanes(small_course, lesson, files) -> dict[str, Verdicts]:
    """The whole corpus through both lanes, at the same time."""
    source = small_course / lesson.path
    command = [sys.executable, str(HERE / "run_forked.py"), str(source), *map(str, files)]
    forked = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    in_kernels = grade_in_kernels(
        [paper(here(small_course), lesson, shortcut=False, path=path) for path in files]
    )
    output, _ = forked.communicate(timeout=600)
    in_forks = [{r["ex"]: Verdict.from_record(r) for r in json.loads(line)} for line in output.splitlines()]
    assert len(in_forks) == len(CORPUS)
    return {
        "kernel": {kind.name: found for kind, found in zip(CORPUS, in_kernels, strict=True)},
        "fork": {kind.name: found for kind, found in zip(CORPUS, in_forks, strict=True)},
    }


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("kind", CORPUS, ids=lambda kind: kind.name)
def test_verdicts(lanes, lane: str, kind: Bad):
    found = lanes[lane][kind.name]
    assert {ex: verdict.status for ex, verdict in found.items()} == kind.expected(), "\n".join(
        verdict.text() for verdict in found.values()
    )
    assert kind.says in "\n".join(verdict.text() for verdict in found.values())


@pytest.mark.parametrize("kind", CORPUS, ids=lambda kind: kind.name)
def test_lanes_agree(lanes, kind: Bad):
    kernel, fork = lanes["kernel"][kind.name], lanes["fork"][kind.name]
    assert [(v.status, v.mistake, v.case) for v in kernel.values()] == [
        (v.status, v.mistake, v.case) for v in fork.values()
    ]


def test_the_shortcut_says_what_a_kernel_says(lanes, small_course, lesson, files):
    file = next(path for path in files if path.stem == "untouched")
    untouched = paper(here(small_course), lesson, path=file)
    assert untouched.copy is None
    in_kernel = lanes["kernel"]["untouched"]
    assert {ex: v.status for ex, v in untouched.settled.items()} == {
        ex: v.status for ex, v in in_kernel.items()
    }


@pytest.mark.parametrize("kind", CORPUS, ids=lambda kind: kind.name)
def test_messages_are_short(lanes, kind: Bad):
    for verdict in [*lanes["kernel"][kind.name].values(), *lanes["fork"][kind.name].values()]:
        assert len(verdict.text().splitlines()) <= 11
        assert len(verdict.text()) < 1500


def test_nothing_is_left_of_what_answers_started(lanes):
    """Looked for by what they sleep for; both lanes have ended by now."""
    found = subprocess.run(
        ["ps", "-A", "-o", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    sleeps = [f"sleep {LEFT_BEHIND + number}" for number in range(1, 8)]
    ours = [line for line in found.splitlines() if line.split(None, 1)[1] in sleeps]
    assert not ours, "\n".join(ours)
