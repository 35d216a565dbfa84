"""The first notebook of every week, as a learner finds it: Run All, then a wrong answer."""

import pytest

from .lesson import STUB
from .panel import Panel
from .server import REPOSITORY

FIRST = {
    week.name: sorted(week.glob("*.ipynb"))[0].relative_to(REPOSITORY).as_posix()
    for week in sorted((REPOSITORY / "weeks").glob("week*"))
}
# What is typed over each stub of the first exercise, and the mistake it is recognized as.
WRONG = {
    "week00_start": ("off by one", "return 41"),
    "week01_tensors": (
        "column-major",
        "import math; return tuple(math.prod(shape[:axis]) for axis in range(len(shape)))",
    ),
    "week02_autograd": ("one-sided", "return (f(x + eps) - f(x)) / eps"),
    "week03_networks": ("nothing moves", "((x @ weights + bias - y) ** 2).mean().backward()"),
    "week04_training": (
        "length without ahead",
        "return len(self.series) - self.width",
        "end = index + self.width; return self.series[index:end], self.series[end + self.ahead - 1]",
    ),
    "week05_cnn": (
        "mean for sum",
        "return (image.unfold(0, len(kernel), 1).unfold(1, kernel.shape[1], 1) * kernel).mean((-1, -2))",
    ),
    "week06_rnn": ("missing tanh", "return x @ w_ih.T + b_ih + h @ w_hh.T + b_hh"),
    "week07_transformers": ("no scale", "return (q @ k.mT).softmax(-1)"),
}


@pytest.mark.parametrize("week", FIRST)
def test_run_all_stops_kindly_and_a_mistake_is_named(open_lesson, picture, week):
    lesson = open_lesson(FIRST[week])
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

    mistake, *lines = WRONG[week]
    answer = check["id"].removesuffix("-check")
    for line in lines:
        lesson.type_over(answer, STUB, line)
    assert lesson.check(answer)["mistake"] == mistake
    words = lesson.words(check["id"])
    assert words.startswith(f"NOT YET {verdict['ex']}") and "Likely cause:" in words
    Panel(lesson.page).row(verdict["ex"], "tried").wait_for()
    picture(lesson.page, f"lesson-{week}")
