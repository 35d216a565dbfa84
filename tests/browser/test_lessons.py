"""The first notebook of every week, as a learner finds it: Run All, a wrong answer, then the right one."""

import pytest

from .lesson import STUB
from .panel import Panel
from .server import REPOSITORY

FIRST = {
    week.name: sorted(week.glob("*.ipynb"))[0].relative_to(REPOSITORY).as_posix()
    for week in sorted((REPOSITORY / "weeks").glob("week*"))
}
WINDOWS = "(image.unfold(0, len(kernel), 1).unfold(1, kernel.shape[1], 1) * kernel)"
# The first exercise of each week: a mistake; what mends it; what is typed over its stubs, the mistake first.
TYPED = {
    "week00_start": ("off by one", "return 42", "return 41"),
    "week01_tensors": (
        "column-major",
        "return tuple(math.prod(shape[axis + 1:]) for axis in range(len(shape)))",
        "return tuple(math.prod(shape[:axis]) for axis in range(len(shape)))",
    ),
    "week02_autograd": (
        "one-sided",
        "return (f(x + eps) - f(x - eps)) / (2 * eps)",
        "return (f(x + eps) - f(x)) / eps",
    ),
    "week03_networks": (
        "nothing moves",
        "((x @ weights + bias - y) ** 2).mean().backward(); weights.data -= lr * weights.grad; "
        "bias.data -= lr * bias.grad; weights.grad = bias.grad = None",
        "((x @ weights + bias - y) ** 2).mean().backward()",
    ),
    "week04_training": (
        "length without ahead",
        "return len(self.series) - self.width - self.ahead + 1",
        "return len(self.series) - self.width",
        "end = index + self.width; return self.series[index:end], self.series[end + self.ahead - 1]",
    ),
    "week05_cnn": ("mean for sum", f"return {WINDOWS}.sum((-1, -2))", f"return {WINDOWS}.mean((-1, -2))"),
    "week06_rnn": (
        "missing tanh",
        "return torch.tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)",
        "return x @ w_ih.T + b_ih + h @ w_hh.T + b_hh",
    ),
    "week07_transformers": (
        "no scale",
        "return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)",
        "return (q @ k.mT).softmax(-1)",
    ),
}


@pytest.mark.parametrize("week", FIRST)
def test_run_all_stops_kindly_and_a_mistake_is_named_then_mended(open_lesson, picture, week):
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

    mistake, right, *typed = TYPED[week]
    answer = check["id"].removesuffix("-check")
    for line in typed:
        lesson.type_over(answer, STUB, line)
    assert lesson.check(answer)["mistake"] == mistake
    words = lesson.words(check["id"])
    assert words.startswith(f"NOT YET {verdict['ex']}") and "Likely cause:" in words
    panel = Panel(lesson.page)
    panel.row(verdict["ex"], "tried").wait_for()
    picture(lesson.page, f"lesson-{week}")

    lesson.type_over(answer, typed[0], right)
    assert lesson.check(answer)["status"] == "pass"
    assert lesson.words(check["id"]).startswith(f"PASS {verdict['ex']}")
    panel.row(verdict["ex"], "passed").wait_for()
