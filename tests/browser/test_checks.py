"""Exercises solved by typing, and mistakes made on purpose: what the boxes say, and how they look."""

import pytest

from .lesson import STUB, THEMES, assert_readable

START = "weeks/week00_start/01_start.ipynb"
EVERY_COLOR = '''@torch.no_grad()
class Scale(nn.Module):
    """(n, 3) -> (n,)"""

    def forward(self, x: torch.Tensor, by=None) -> list[float]:
        assert x.shape[1] == 3, f"{len(x)} rows"  # one sum a row
        return {"sum": [True, 0.5 * x.sum(dim=1)]}
'''


@pytest.fixture
def lesson(open_lesson):
    lesson = open_lesson(START)
    lesson.run("w00-setup")
    return lesson


def test_a_declared_mistake_is_named_then_mended(lesson):
    lesson.type_over("w00-rows", STUB, "return x.mean(dim=1)")
    verdict = lesson.check("w00-rows")
    assert (verdict["status"], verdict["mistake"]) == ("shape", "axis dropped")
    words = lesson.words("w00-rows-check")
    assert words.startswith("NOT YET w00.row_means (shape) for case 2 by 3, the output has shape (2,)")
    assert "Likely cause: The averaged axis disappeared" in words
    assert words.endswith("NOT YET w00.row_means (shape). Read the box above.") and "Traceback" not in words

    lesson.type_over("w00-rows", "return x.mean(dim=1)", "return x.mean(dim=1, keepdim=True)")
    assert lesson.check("w00-rows")["status"] == "pass"


def test_a_syntax_error_points_at_the_line(lesson):
    lesson.type_over("w00-answer", STUB, "retrun 42")
    lesson.run("w00-answer")
    (output,) = lesson.cell("w00-answer")["outputs"]
    assert output["ename"] == "SyntaxError" and "retrun 42" in "".join(output["traceback"])


def test_predictions_and_bug_hunts(lesson):
    lesson.write("w00-shapes", 'prediction = {"a": (2, 3), "b": (2,), "c": (4, 5)}\nsure = 2')
    verdict = lesson.check("w00-shapes")
    assert verdict["status"] == "values"
    assert "b" in verdict["headline"] + " ".join(verdict["lines"])

    lesson.type_over("w00-shapes", "prediction", 'prediction = {"a": (2, 3), "b": (3,), "c": (4, 5)}')
    assert lesson.check("w00-shapes")["status"] == "pass"

    lesson.type_over("w00-average", "fault = ...", 'fault = "divides by n - 1"')
    lesson.type_over("w00-average", "return total", "return total / len(values)")
    assert lesson.check("w00-average")["status"] == "pass"


def test_locked_cells_refuse_typing(lesson):
    before = lesson.source("w00-answer-check")
    lesson.box("w00-answer-check").locator(".cm-content").click()
    lesson.page.keyboard.type("pass  # ")
    assert lesson.source("w00-answer-check") == before


def test_typing_while_a_check_runs_is_kept(lesson):
    """The cursor stays where the learner types; the verdict is of what was there when it was run."""
    lesson.type_over("w00-answer", STUB, "__import__('time').sleep(1); return 42")
    lesson.run("w00-answer")
    lesson.start("w00-answer-check")
    lesson.type_over("w00-rows", STUB, "return x.mean(dim=1, keepdim=True)")
    lesson.wait_until("hasRun")
    assert lesson.verdict("w00-answer-check")["status"] == "pass"
    assert lesson.source("w00-rows").endswith("    return x.mean(dim=1, keepdim=True)")


def test_boxes_read_in_both_themes(lesson, picture):
    """A solved exercise, one with a mistake and one that was not begun, on one page."""
    lesson.type_over("w00-answer", STUB, "return 42")
    lesson.type_over("w00-rows", STUB, "return x.mean(dim=1)")
    ids = "w00-answer", "w00-rows", "w00-average"
    assert [lesson.check(id)["status"] for id in ids] == ["pass", "shape", "not started"]
    assert [o["output_type"] for o in lesson.cell("w00-answer-check")["outputs"]] == ["display_data"]
    assert lesson.words("w00-answer-check").startswith("PASS w00.answer agrees with the page.")
    hint = lesson.box("w00-rows-check").locator(".labkit-hint")
    assert "the Hint button at the side" in hint.evaluate("e => getComputedStyle(e, '::before').content")
    for theme in THEMES:
        lesson.choose_theme(theme)
        for id in ids:
            assert_readable(lesson.box(f"{id}-check").locator(".jp-OutputArea"))
        for id in ("w00-answer", "w00-rows-check"):  # downwards: the passed check above, the failed one below
            lesson.box(id)
        picture(lesson.page, f"lesson-checks-{theme}")


def test_code_reads_in_both_themes(lesson, picture):
    lesson.write("w00-rows", EVERY_COLOR)
    for theme in THEMES:
        lesson.choose_theme(theme)
        box = lesson.box("w00-rows")
        assert box.locator(".cm-content span").count() > 30
        assert_readable(box.locator(".cm-content"))
        picture(box, f"lesson-code-{theme}")
