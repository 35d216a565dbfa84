"""labkit.mine: the learner's own answers where they pass, the reference elsewhere, and a note of which."""

import inspect
import json
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from labkit import __version__, mine
from labkit.book import course, notebook
from labkit.book.percent import Lesson
from labkit.book.work import Work, here

LESSON = "02_tensor_autograd"
CODE = {"unbroadcast", "div", "amax", "take", "matmul", "logsumexp", "tape", "gradcheck"}
PARTS = {f"w02.{name}" for name in CODE}

WRONG_DIV = "def div(a, b):\n    return a / b, lambda g: (g / b, g)"
OWN_UNBROADCAST = (
    "def unbroadcast(g, shape):\n"
    "    while g.ndim > len(shape):\n"
    "        g = g.sum(axis=0)\n"
    "    for axis, size in enumerate(shape):\n"
    "        g = shrink(g, axis) if size == 1 else g\n"
    "    return g\n"
)
HELPER = "def shrink(g, axis):\n    return g.sum(axis=axis, keepdims=True)\n\nshrink(1, 2, 3)"
BAD = {
    "wrong": WRONG_DIV,
    "raises when called": "def div(a, b):\n    return 1 / 0",
    "raises at once": "def div(a, b):\n    return a / b\n\ndiv(1, 0)",
    "not Python": "def div(a, b:\n    return a / b",
    "leaves": "import sys\nsys.exit()",
    "not there": "quotient = None",
    "torch's": "import torch\n\ndef div(a, b):\n    return torch.from_numpy(a) / b, None",
}


class Desk:
    """A course folder with one lesson, and a learner's file to write into."""

    def __init__(self, root: Path, lesson: Lesson) -> None:
        self.lesson = lesson
        self.path = root / "weeks" / "week02_autograd" / f"{LESSON}.ipynb"
        self.path.parent.mkdir(parents=True)

    def write(self, **answers: str | None) -> None:
        """Save the released notebook with these cells in it; None is the solution. `helper` is a new cell."""
        helper = answers.pop("helper", None)
        solutions = {cell.id: cell.source for cell in self.lesson.cells}
        nb = notebook.learner_notebook(self.lesson, __version__)
        for cell in nb["cells"]:
            name = cell["id"].removeprefix("w02b-")
            if name in answers:
                cell["source"] = answers[name] or solutions[cell["id"]]
        if helper is not None:
            cell = notebook.make_cell("code", helper, "my-own-helper", {})
            nb["cells"].insert(2, cell)
        self.path.write_text(json.dumps(nb), encoding="utf-8")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    source = Path(__file__).parents[1] / "solutions" / "week02_autograd" / f"{LESSON}.py"
    folder = tmp_path / "solutions" / "week02_autograd"
    folder.mkdir(parents=True)
    shutil.copy(source, folder)
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.delenv("LABKIT_LANE", raising=False)
    return Desk(tmp_path, course.read_lesson(tmp_path, folder / f"{LESSON}.py"))


def slope_of_a_layer(engine: mine.Notebook) -> Callable:
    """Train-like use of an engine: the gradient of a small loss by a weight."""
    x, w = engine.Tensor(np.arange(6.0).reshape(2, 3)), engine.Tensor(np.ones((3, 4)) / 7)
    ((x @ w / 2).relu().logsumexp(1)[np.array([0, 0, 1])]).sum().backward()
    return w.grad


def test_all_solved(desk: Desk) -> None:
    desk.write(**dict.fromkeys(CODE))
    engine = mine.of("tensor_autograd")
    assert set(engine.yours) == PARTS and engine.reference == ()
    assert repr(engine).startswith("Week 2, notebook 02: 8 of 8 parts are yours.\n  yours: w02.unbroadcast")
    assert "from the reference" not in repr(engine)


def test_untouched(desk: Desk) -> None:
    desk.write()
    engine = mine.of("tensor_autograd")
    assert engine.yours == () and set(engine.reference) == PARTS
    assert repr(engine).splitlines()[0] == "Week 2, notebook 02: 0 of 8 parts are yours."
    assert slope_of_a_layer(engine).shape == (3, 4)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_answer_is_replaced_and_the_others_stay(desk: Desk, bad: str) -> None:
    desk.write(**{**dict.fromkeys(CODE), "div": bad})
    engine = mine.of("tensor_autograd")
    assert engine.reference == ("w02.div",)
    assert set(engine.yours) == PARTS - {"w02.div"}
    assert "7 of 8 parts are yours" in repr(engine) and "from the reference: w02.div" in repr(engine)
    value, backward = engine.div(np.array([6.0]), np.array([2.0]))
    assert value == 3 and [g.item() for g in backward(np.array([1.0]))] == [0.5, -1.5]


def test_the_mixed_engine_computes_what_the_reference_does(desk: Desk) -> None:
    desk.write()
    reference = slope_of_a_layer(mine.of("tensor_autograd"))
    desk.write(matmul=None, tape=None, div=WRONG_DIV, unbroadcast=OWN_UNBROADCAST, helper=HELPER)
    engine = mine.of("tensor_autograd")
    assert engine.yours == ("w02.unbroadcast", "w02.matmul", "w02.tape")
    assert np.allclose(slope_of_a_layer(engine), reference)


def test_a_failing_answer_does_not_spoil_an_earlier_one(desk: Desk) -> None:
    spoils = "def unbroadcast(g, shape):\n    return None\n\n\nadd = np = None\n" + WRONG_DIV
    desk.write(**{**dict.fromkeys(CODE), "div": spoils})
    assert mine.of("tensor_autograd").reference == ("w02.div",)


def test_an_answer_uses_a_helper_of_its_own_even_if_that_cell_fails_further_down(desk: Desk) -> None:
    desk.write(unbroadcast=OWN_UNBROADCAST, helper=HELPER)
    assert mine.of("tensor_autograd").yours == ("w02.unbroadcast",)
    desk.write(unbroadcast=OWN_UNBROADCAST)
    assert mine.of("tensor_autograd").yours == ()


def test_prints_of_the_learner_are_not_repeated(desk: Desk, capsys: pytest.CaptureFixture) -> None:
    desk.write(div=WRONG_DIV + "\n\nprint('here')", helper="print('there')")
    mine.of("tensor_autograd")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", ["", "{", '{"cells": 3}', None])
def test_no_readable_file_means_the_reference(desk: Desk, text: str | None) -> None:
    if text is not None:
        desk.path.write_text(text, encoding="utf-8")
    assert set(mine.of("tensor_autograd").reference) == PARTS


def test_solution_notebooks_run_on_the_reference(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write(**dict.fromkeys(CODE))
    monkeypatch.setenv("LABKIT_LANE", "solutions")
    assert mine.of("tensor_autograd").yours == ()


def test_names(desk: Desk) -> None:
    desk.write()
    engine = mine.of("tensor_autograd")
    assert {"Tensor", "unbroadcast", "relu"} <= set(dir(engine))
    with pytest.raises(AttributeError, match="Week 2, notebook 02 defines no 'softmax'"):
        _ = engine.softmax
    with pytest.raises(KeyError, match="no lesson 'softmax'"):
        mine.of("softmax")
    assert mine.notebook(2, 2).reference == engine.reference  # the form of the first release
    with pytest.raises(KeyError, match="week 2 has no notebook 07"):
        mine.notebook(2, 7)


def test_whose_answers_is_said(desk: Desk, tmp_path: Path) -> None:
    """One machine, one course, two learners: each gets their own."""
    desk.write(div=None)
    other = Work(tmp_path / "other", here().course)
    file = other.notebook(desk.lesson)
    file.parent.mkdir(parents=True)
    shutil.copy(desk.path, file)
    desk.write(unbroadcast=None)
    mine_, theirs = mine.of("tensor_autograd"), mine.of("tensor_autograd", other)
    assert mine_.yours == ("w02.unbroadcast",) and theirs.yours == ("w02.div",)
    assert mine_.unbroadcast.__module__ != theirs.unbroadcast.__module__
    for one in (mine_, theirs):
        assert vars(sys.modules[one.div.__module__])["div"] is one.div and "def div" in inspect.getsource(
            one.div
        )


def test_answers_live_in_a_real_module(desk: Desk) -> None:
    """pickle and torch's compiler look it up by name."""
    desk.write()
    engine = mine.of("tensor_autograd")
    assert vars(sys.modules[engine.relu.__module__])["relu"] is engine.relu
    assert pickle.loads(pickle.dumps(engine.relu)) is engine.relu
