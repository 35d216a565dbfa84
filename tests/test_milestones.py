"""The milestones on the learner's path: every solution written into the learner's notebooks, carried forward
by labkit.mine, and trained on as the lesson does it."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit.mine
from labkit import __version__, datasets
from labkit.book import course, notebook
from labkit.book.answers import run_code

ROOT = Path(__file__).parents[1]


def solve(root: Path, monkeypatch: pytest.MonkeyPatch, *weeks: int) -> Path:
    """A course folder in which some weeks are solved in weeks/, and nothing has run."""
    for week in weeks:
        for path in course.lesson_paths(ROOT, week):
            folder = path.parent.name
            (root / "solutions" / folder).mkdir(parents=True, exist_ok=True)
            (root / "weeks" / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / "solutions" / folder)
            lesson = course.read_lesson(ROOT, path)
            answers = {cell.id: cell.source for cell in lesson.cells if cell.role == "exercise"}
            learner = notebook.learner_notebook(lesson, __version__)
            for cell in learner["cells"]:
                cell["source"] = answers.get(cell["id"], cell["source"])
            target = root / "weeks" / folder / f"{path.stem}.ipynb"
            target.write_text(json.dumps(learner), encoding="utf-8")
    (root / "datasets").symlink_to(ROOT / "datasets")
    monkeypatch.setenv("LABKIT_ROOT", str(root))
    monkeypatch.delenv("LABKIT_LANE", raising=False)
    return root


def cells_of(root: Path, week: int, number: int, *ids: str, **names: Any) -> dict[str, Any]:
    """The names that some cells of a notebook define, run in this order after its first setup cell.

    `names` are there before the cells run: answers from the learner's file.
    """
    path = next(p for p in course.lesson_paths(root, week) if p.stem.startswith(f"{number:02d}_"))
    cells = course.read_lesson(root, path).cells
    chosen = [next(cell for cell in cells if cell.role == "setup")]
    chosen += [next(cell for cell in cells if cell.id == wanted) for wanted in ids]
    space: dict[str, Any] = {"__name__": "__main__", **names}
    for cell in chosen:
        run_code(cell.source, space, f"<{cell.id}>")
    return space


def test_digits_are_read_on_the_learners_engine_and_optimizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    solved = solve(tmp_path, monkeypatch, 2, 3)
    space = cells_of(solved, 3, 4, "w03d-mine", "w03d-adapter", "w03d-train")
    engine, parts, labels = space["engine"], space["parts"], space["digits"].labels
    assert {"w02.tape", "w02.logsumexp", "w02.matmul"} <= set(engine.yours) and not engine.reference
    assert {"w03.module", "w03.linear", "w03.adamw", "w03.clip"} <= set(parts.yours) and not parts.reference
    runs = space["runs"]
    shares = [np.mean(space["read"](model, unseen) == labels[unseen]) for model, unseen in runs]
    assert len(shares) == 5 and sum(share >= 0.95 for share in shares) >= 4, shares
    assert len({tuple(unseen) for _, unseen in runs}) == 5 and all(len(unseen) == 360 for _, unseen in runs)
    assert capsys.readouterr().out.count("at least 95 %") >= 4


def test_an_lstm_of_the_learners_cell_remembers_a_hundred_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    """The adding problem and the kept bytes, on the cells in the learner's own file."""
    solved = solve(tmp_path, monkeypatch, 6)
    mine = labkit.mine.of("rnn_and_lstm")
    assert {"w06.rnn_cell", "w06.lstm_cell", "w06.truncated"} <= set(mine.yours) and not mine.reference
    own = {name: getattr(mine, name) for name in ("rnn_cell", "lstm_cell", "lstm", "truncated")}
    space = cells_of(
        solved, 6, 1, "w06a-memory", "w06a-adding-task", "w06a-adding-train", "w06a-adding", **own
    )
    kept = space["kilobytes"]
    assert len(kept["truncated"]) == 100 and len({*kept["truncated"]}) == 1
    assert kept["one graph"] == sorted(kept["one graph"])
    assert kept["one graph"][-1] > 90 * kept["truncated"][-1]
    errors = space["errors"]
    assert sum(error < 0.02 for error in errors["LSTM"]) >= 4, errors
    assert sum(error > 0.1 for error in errors["plain RNN"]) >= 4, errors
    assert capsys.readouterr().out.count("in at least 4 of 5 seeds: True") == 2


def test_the_learners_lstm_writes_names_and_beats_a_tuned_trigram(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solved = solve(tmp_path, monkeypatch, 6)
    mine = labkit.mine.of("ragged_batches")
    own = {"masked_loss": mine.masked_loss, "every": [n for ns in datasets.names().values() for n in ns]}
    ids = ("names", "trigram", "model", "train", "milestone", "write")
    space = cells_of(
        solved, 6, 2, *(f"w06b-{name}" for name in ids), **own, cells=labkit.mine.of("rnn_and_lstm")
    )
    assert {"w06.lstm_cell"} <= set(space["cells"].yours) and {"w06.masked_loss"} <= set(mine.yours)
    assert not {*map(tuple, space["test"])} & {*map(tuple, space["learn"] + space["valid"])}
    assert 1.5 < space["baseline"] < 2.5
    assert sum(loss < space["baseline"] for loss in space["held_out"]) >= 4, space["held_out"]
    assert len(set(space["written"])) > 150 and len(space["new"]) > 100
