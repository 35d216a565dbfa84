"""The first notebook of every week, as a learner finds it: opened, Run All pressed."""

from pathlib import Path

import pytest

from .server import REPOSITORY

FIRST = [
    sorted(week.glob("*.ipynb"))[0].relative_to(REPOSITORY).as_posix()
    for week in sorted((REPOSITORY / "weeks").glob("week*"))
]


@pytest.mark.parametrize("path", FIRST, ids=lambda path: Path(path).parent.name)
def test_run_all_stops_kindly_at_the_first_exercise(open_lesson, picture, path):
    lesson = open_lesson(path)
    lesson.run_all()

    check, *later = lesson.cells("check")
    verdict = lesson.verdict(check["id"])
    assert verdict["status"] == "not started"
    assert all(cell["execution_count"] is None for cell in later)

    ran = [cell for cell in lesson.cells() if cell.get("execution_count")]
    assert ran[-1]["id"] == check["id"]
    errors = [o for cell in ran for o in cell["outputs"] if o["output_type"] == "error"]
    assert [e["traceback"] for e in errors] == [[f"NOT STARTED  {verdict['ex']}. Read the box above."]]

    lesson.wait_until("isInView", check["id"])  # not the end of the notebook, where Run All leaves the cursor
    assert lesson.words(check["id"]).startswith(f"NOT STARTED {verdict['ex']}")
    picture(lesson.page, f"lesson-{Path(path).parent.name}")
