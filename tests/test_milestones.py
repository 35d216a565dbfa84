"""The milestones on the learner's path: every solution written into the learner's notebooks, carried forward
by labkit.mine, and trained on as the lesson does it."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labkit import __version__
from labkit.book import course, notebook
from labkit.grade.answers import run_code

ROOT = Path(__file__).parents[1]


@pytest.fixture
def solved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course folder in which weeks 2 and 3 are solved in weeks/, and nothing has run."""
    for week in (2, 3):
        for path in course.lesson_paths(ROOT, week):
            folder = path.parent.name
            (tmp_path / "solutions" / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / "weeks" / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / "solutions" / folder)
            lesson = course.read_lesson(ROOT, path)
            answers = {cell.id: cell.source for cell in lesson.cells if cell.role == "exercise"}
            learner = notebook.learner_notebook(lesson, __version__)
            for cell in learner["cells"]:
                cell["source"] = answers.get(cell["id"], cell["source"])
            target = tmp_path / "weeks" / folder / f"{path.stem}.ipynb"
            target.write_text(json.dumps(learner), encoding="utf-8")
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.delenv("LABKIT_LANE", raising=False)
    return tmp_path


def cells_of(root: Path, week: int, number: int, *ids: str) -> dict[str, Any]:
    """The names that some cells of a notebook define, run in this order after its first setup cell."""
    path = next(p for p in course.lesson_paths(root, week) if p.stem.startswith(f"{number:02d}_"))
    cells = course.read_lesson(root, path).cells
    chosen = [next(cell for cell in cells if cell.role == "setup")]
    chosen += [next(cell for cell in cells if cell.id == wanted) for wanted in ids]
    space: dict[str, Any] = {"__name__": "__main__"}
    for cell in chosen:
        run_code(cell.source, space, f"<{cell.id}>")
    return space


def test_digits_are_read_on_the_learners_engine_and_optimizer(solved: Path, capsys: pytest.CaptureFixture):
    space = cells_of(solved, 3, 4, "w03d-mine", "w03d-adapter", "w03d-train")
    engine, parts, labels = space["engine"], space["parts"], space["digits"].labels
    assert {"w02.tape", "w02.logsumexp", "w02.matmul"} <= set(engine.yours) and not engine.reference
    assert {"w03.module", "w03.linear", "w03.adamw", "w03.clip"} <= set(parts.yours) and not parts.reference
    runs = space["runs"]
    shares = [np.mean(space["read"](model, unseen) == labels[unseen]) for model, unseen in runs]
    assert len(shares) == 5 and sum(share >= 0.95 for share in shares) >= 4, shares
    assert len({tuple(unseen) for _, unseen in runs}) == 5 and all(len(unseen) == 360 for _, unseen in runs)
    assert capsys.readouterr().out.count("at least 95 %") >= 4
