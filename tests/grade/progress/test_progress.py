"""Progress is replayed from the events, whatever state they are in; the page stands on its own."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from labkit.book.work import here
from labkit.exercises import all_exercises
from labkit.exercises.declare import Item, Mistake, Predict
from labkit.grade.progress import terminal
from labkit.grade.progress.history import Prediction, calibration_words, duration, history
from labkit.grade.progress.page import _sentence, _span, page

START = datetime(2026, 3, 2, 10).timestamp()
NOW = datetime(2026, 3, 9, 10).timestamp()


def exercise(key):
    return Predict(
        id=key, title=f"Title of {key}", minutes=3, hints=("a", "b", "c"), passed="p",
        items={"a": Item("?", lambda: 1)}, mistakes=[Mistake("off", "One too many: `n - 1`.", {"a": 2})],
    )  # fmt: skip


COURSE = {key: exercise(key) for key in ("w00.a", "w00.b", "w01.a", "w01.b")}


def attempt(key, status="pass", minute=0.0, **content):
    return {
        "kind": "attempt",
        "at": START + 60 * minute,
        "ex": key,
        "status": status,
        "mistake": None,
        **content,
    }


def replay(*items):
    return history(items, COURSE, {}, NOW)


def complete(*after):
    """Everything passed, then some more."""
    return replay(*(attempt(key, minute=n) for n, key in enumerate(COURSE)), *after)


def test_nothing_yet():
    state = replay()
    assert (state.passed, state.current, state.milestones()) == ([], "w00.a", [])
    assert "Nothing tried yet: 4 exercises" in terminal.summary(state)


def test_attempts_until_the_first_pass():
    state = replay(
        attempt("w00.a", "not started"),
        attempt("w00.a", "shape", 1, headline="x"),
        attempt("w00.a", "shape", 2, headline="x"),  # the same verdict again, from another lane
        attempt("w00.a", "values", 3, mistake="off"),
        attempt("w00.a", "pass", 4),
        attempt("w00.a", "pass", 5),
        attempt("w00.b", "pass", 6),
    )
    a, b = state.standing["w00.a"], state.standing["w00.b"]
    assert (a.attempts, a.first_try, a.passed_at) == (3, False, START + 240)
    assert (b.attempts, b.first_try) == (1, True)
    assert state.overcome() == [("w00.a", "off")]
    assert terminal.summary(state) == (
        "2 of 4 exercises passed, 1 on the first try; 1 of 1 mistakes overcome; about 6 min."
    )


def test_what_comes_next():
    assert replay(attempt("w00.a")).current == "w00.b"
    assert replay(attempt("w00.a"), attempt("w01.a", "error")).current == "w01.a"
    assert replay(attempt("w01.a", "error"), attempt("w00.a")).current == "w00.b"
    done = replay(*(attempt(key, minute=n) for n, key in enumerate(COURSE)))
    assert done.current is None and terminal.next_words(done).startswith("All done")


def test_who_went_ahead_is_told_what_comes_before():
    course = COURSE | {"w01.a": replace(COURSE["w01.a"], needs=("w00.a", "w00.b"))}
    tried = attempt("w01.a", "values", 2)
    ahead, nothing = (history([*done, tried], course, {}, NOW) for done in ([attempt("w00.a")], []))
    assert terminal.next_words(ahead).endswith("minutes; w00.b comes before it and is not passed yet")
    assert "; <code>w00.a</code> comes before it and is not passed yet" in page(nothing)
    done = history([attempt("w00.a"), attempt("w00.b"), tried], course, {}, NOW)
    assert terminal.next_words(done).endswith("minutes") and "comes before it" not in page(done)


def test_a_pass_that_no_longer_holds_is_shown_and_stays_a_pass():
    state = replay(attempt("w00.a"), attempt("w00.a", "values", 1))
    assert state.standing["w00.a"].state == "failing" and state.passed == state.failing == ["w00.a"]
    assert any(line.startswith("  [!] w00.a") for line in terminal.report(state))
    assert terminal.summary(state).startswith("1 of 4 exercises passed, 1 on the first try, 1 failing now;")


def test_what_fails_again_is_what_to_go_on_with():
    broken = attempt("w00.b", "values", 9)
    assert replay(attempt("w00.b"), broken).current == "w00.b", "the latest, though w00.a is open"
    assert replay(attempt("w00.a"), attempt("w00.b"), broken, attempt("w01.a", minute=10)).current == "w00.b"
    mended = replay(attempt("w00.b"), broken, attempt("w00.b", minute=10))
    assert (mended.failing, mended.current) == ([], "w00.a")


def test_a_course_with_a_failing_exercise_is_not_done():
    state = complete(attempt("w00.b", "values", 9))
    lines = list(terminal.report(state))
    assert lines[-1].startswith("Go on with: w00.b") and "All done" not in "\n".join(lines)
    assert [line.split("] ", 1)[-1] for line in lines if line.startswith("Week")] == [
        "2 of 2, 1 failing now",
        "2 of 2",
    ]
    assert sum(line.startswith("  [") for line in lines) == 2, "week 0 is listed, week 1 is not"
    text = page(state, datetime(2026, 3, 9))
    assert "all of it" not in text and ">75%<" in text
    assert "Next: Title of w00.b" in text and "checked against torch, 1 failing now." in text
    assert (
        'aria-label="4 of 4 exercises passed, 1 failing now"' in text and text.count(">1 failing</div>") == 1
    )
    assert 'aria-label="w00.b: Title of w00.b, first try, failing now, next"' in text


def test_time_does_not_count_pauses():
    state = replay(attempt("w00.a", "error", 0), attempt("w00.a", minute=10), attempt("w00.b", minute=600))
    assert state.seconds == 600 and state.standing["w00.b"].seconds == 0


def test_a_solution_shown_first_is_no_first_try():
    shown = {"kind": "solution", "at": START, "ex": "w00.a"}
    assert not replay(shown, attempt("w00.a", minute=1)).standing["w00.a"].first_try
    assert replay(attempt("w00.a"), shown).standing["w00.a"].first_try


def test_a_mistake_is_not_overcome_by_reading_the_solution():
    met = attempt("w00.a", "values", mistake="off")
    shown = {"kind": "solution", "at": START + 60, "ex": "w00.a"}
    read = replay(met, shown, attempt("w00.a", minute=2))
    assert read.overcome() == [] and "0 of 1 mistakes overcome" in terminal.summary(read)
    assert replay(met, attempt("w00.a", minute=0.5), shown).overcome() == [("w00.a", "off")]


def test_milestones():
    state = replay(*(attempt(key, minute=n) for n, key in enumerate(COURSE)))
    words = [words for _, words in state.milestones()]
    assert words == ["First exercise passed", "Week 0 complete", "Week 1 complete", "The whole course"]


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "attempt"},
        {"kind": "attempt", "ex": "w00.a"},
        {"kind": "attempt", "ex": "w00.a", "at": "yesterday", "status": "pass"},
        {"kind": "attempt", "ex": ["w00.a"], "at": START},
        {"kind": "attempt", "ex": "w99.gone", "at": START, "status": "pass"},
        {"kind": "attempt", "ex": "w00.a", "at": START, "status": 7},
        {"kind": "attempt", "ex": "w00.a", "at": float("inf"), "status": "pass"},
        {"kind": "attempt", "ex": "w00.a", "at": float("nan"), "status": "pass"},
        {"kind": "attempt", "ex": "w00.a", "at": 2 * NOW, "status": "error", "mistake": ["off"]},
        {"kind": "hint", "ex": "w00.a", "at": START, "number": None},
        {"kind": "hint", "ex": "w00.a", "at": START, "number": "two"},
        {"kind": "prediction", "ex": "w00.a", "at": START, "right": "1", "of": None, "sure": [3]},
        {"kind": "prediction", "ex": "w00.a", "at": START},
        {"kind": "something new", "ex": "w00.a", "at": START},
    ],
)
def test_events_that_are_not_whole_are_survived(event):
    state = replay(event)
    assert state.passed == []
    assert page(state) and list(terminal.report(state))


def test_calibration():
    words = [
        calibration_words([Prediction("w00.a", right, 10, sure)]) for right, sure in ((8, 8), (4, 8), (9, 5))
    ]
    assert ["know what you know" in words[0], "too sure" in words[1], "more than you think" in words[2]] == [
        True
    ] * 3
    assert calibration_words([Prediction("w00.a", 1, 2, None)]) is None
    assert calibration_words([Prediction("w00.a", 0, 0, 0)]) is None


def test_predictions_edited_by_hand_stay_within_what_was_asked():
    edited = {"kind": "prediction", "at": START, "ex": "w00.a", "right": 40, "of": 3, "sure": 1e9}
    assert replay(edited).predictions == [Prediction("w00.a", 3, 3, 3)]
    assert replay(edited | {"right": -1, "of": -2}).predictions == [Prediction("w00.a", 0, 0, 0)]


def test_a_clock_that_was_wrong_once_does_not_stop_the_time():
    state = replay(attempt("w00.a", minute=0), attempt("w00.b", minute=1e6), attempt("w01.a", minute=2))
    assert state.seconds == 120
    state = replay(attempt("w00.a", minute=0), attempt("w00.b", minute=-1e6), attempt("w01.a", minute=2))
    assert state.seconds == 0
    state = replay(*(attempt(key, minute=n) for key, n in zip(COURSE, (1e6, 2, 5, 9), strict=True)))
    assert state.seconds == 7 * 60


def test_a_time_after_now_is_not_believed_but_the_rest_of_its_event_is():
    later = datetime(2035, 1, 1).timestamp()
    state = replay(attempt("w00.a"), attempt("w00.b") | {"at": later}, attempt("w01.a", minute=5))
    assert list(state.days.values()) == [2] and state.seconds == 300
    assert state.passed == ["w00.a", "w00.b", "w01.a"] and state.standing["w00.b"].passed_at == START
    first = replay(attempt("w00.a") | {"at": later})
    assert first.passed == ["w00.a"] and first.days == {} and "2035" not in page(first)
    assert sum(replay(attempt("w00.a") | {"at": NOW + 3600}).days.values()) == 1, "a clock may be a bit ahead"


def test_a_mistake_that_is_not_declared_is_not_counted():
    state = replay(attempt("w00.a", "values", mistake="x"), attempt("w00.a", "shape", mistake="off"))
    assert state.standing["w00.a"].mistakes == ["off"] and state.standing["w00.a"].attempts == 2


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 min"), (3599, "1 h 0 min"), (7800, "2 h 10 min")])
def test_durations(seconds, words):
    assert duration(seconds) == words


# the file of events


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    return tmp_path


def test_torn_lines_cost_only_themselves(course):
    here().remember("attempt", ex="w00.a")
    with (here().progress / "events.jsonl").open("a") as file:
        file.write('{"kind": "attempt", "ex": "w0')  # a torn line, without its end
    here().remember("hint", ex="w00.b")
    with (here().progress / "events.jsonl").open("ab") as file:
        file.write(b"\n\xff\xfe[1]\n[1, 2]\n{}\n" + b"[" * 100_000 + b"\n")
    assert [event["kind"] for event in here().events()] == ["attempt", "hint"]


def test_an_answer_that_cannot_be_written_costs_only_its_memory(course):
    loop = []
    loop.append(loop)
    here().remember("prediction", answer=loop)
    here().remember("prediction", answer={(1, 2): 3, "a": object})
    assert [event["answer"]["a"] for event in here().events()] == ["<class 'object'>"]


def test_a_folder_that_cannot_be_written(course):
    (course / "progress").write_text("a file where the folder should be")
    here().remember("attempt", ex="w00.a")
    assert here().events() == []


# the page


class Outline(HTMLParser):
    """Checks that tags close in order, and collects them."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "circle", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def busy():
    return replay(
        attempt("w00.a", "values", 1, mistake="off"),
        attempt("w00.a", minute=3),
        attempt("w00.b", minute=9),
        attempt("w01.a", "shape", 12),
        {"kind": "prediction", "at": START, "ex": "w00.a", "right": 2, "of": 4, "sure": 4},
    )


def test_the_page_needs_no_script_and_no_network():
    text = page(busy(), datetime(2026, 3, 9))
    outline = Outline()
    outline.feed(text)
    assert outline.open == [] and not {"script", "link", "img", "iframe"} & set(outline.tags)
    assert not re.search(r"https?:|@import|url\(|javascript:", text)
    assert not any(name.startswith("on") or name in ("src", "href") for name, _ in outline.attributes)
    assert "prefers-color-scheme: dark" in text


def test_a_course_untouched_and_a_course_complete():
    assert 'class="card"' not in page(replay()) and "Ready to build" in page(replay())
    done = page(replay(*(attempt(key, minute=n) for n, key in enumerate(COURSE))), datetime(2026, 3, 9))
    assert "All on Mar 2, 2026." in done and "4 of 4" in done
    assert "2026-03-02: 4 attempts" in done and "2026-03-03: 0 attempts" in done
    assert '2026-03-02: 1 attempt"' in page(replay(attempt("w00.a")), datetime(2026, 3, 9))


def test_the_year_is_named_once_if_it_is_the_same():
    first, last, later = (
        datetime(*day).timestamp() for day in ((2025, 12, 29), (2025, 12, 31), (2026, 1, 2))
    )
    assert _span(first, last) == "From Dec 29 to Dec 31, 2025."
    assert _span(first, later) == "From Dec 29, 2025 to Jan 2, 2026."


def test_the_legend_names_the_outlined_square_while_there_is_one():
    done = page(replay(*(attempt(key, minute=n) for n, key in enumerate(COURSE))), datetime(2026, 3, 9))
    assert "outlined: next" in page(busy()) and "outlined: next" not in done
    assert "~ not yet" in done and "not anymore" in done


def test_the_page_says_what_was_done():
    text = page(busy(), datetime(2026, 3, 9))
    assert 'aria-label="2 of 4 exercises passed"' in text and "50%" in text
    assert "Next: Title of w01.a" in text
    assert "One too many: <code>n - 1</code>." in text
    assert text.count("tile passed") == 2 and text.count("tile tried current") == 1
    assert '<span class="sign">✓</span>Title of w00.a <span class="soft">2 tries</span>' in text
    assert '<span class="sign">✓</span>Title of w00.b <span class="soft">first try</span>' in text
    assert '<span class="sign"></span>Title of w01.b <span class="soft"></span>' in text
    assert "March 9, 2026" in text and "Week 0 complete" in text
    assert "2 of 4 right where you expected 4" in text


def test_one_try_is_no_tries():
    text = page(replay(attempt("w00.a", "shape")))
    assert 'title="w00.a: Title of w00.a, 1 try, next"' in text and '<span class="soft">1 try</span>' in text
    assert "1 tries" not in text


@pytest.mark.parametrize(("passed", "words"), [(0, ">0%<"), (1, ">1%<"), (199, ">99%<"), (200, ">100%<")])
def test_the_ring_is_empty_only_before_the_first_pass_and_full_only_after_the_last(passed, words):
    many = {f"w00.{n}": exercise(f"w00.{n}") for n in range(200)}
    assert words in page(history([attempt(key) for key in list(many)[:passed]], many, {}, NOW))


def test_the_days_end_where_the_work_ended_if_that_is_long_ago():
    state = replay(attempt("w00.a"))
    soon, long_after = page(state, datetime(2026, 6, 28)), page(state, datetime(2026, 7, 6))
    assert "the last 18 weeks" in soon and '2026-06-28: 0 attempts"' in soon
    assert "the 18 weeks up to Mar 2, 2026" in long_after and "2026-03-03" not in long_after
    assert '2026-03-02: 1 attempt"' in soon and '2026-03-02: 1 attempt"' in long_after


def test_a_mistake_names_its_week_and_its_question():
    says = ["One too many.", "a: the axis is gone.", "In b, x is a view.", "z: nothing is called z."]
    mistakes = [Mistake(str(n), words, {}) for n, words in enumerate(says)]
    items = {"a": Item("z(3) > z(1)", lambda: 1), "b": Item("x.T: a view?", lambda: 1)}
    quiz = replace(exercise("w03.quiz"), items=items, mistakes=mistakes)
    tries = [attempt("w03.quiz", "values", n, mistake=str(n)) for n in range(4)]
    text = page(history([*tries, attempt("w03.quiz", minute=9)], {"w03.quiz": quiz}, {}, NOW))
    assert text.count("<strong>Week 3: Title of w03.quiz.</strong>") == 4
    assert "</strong> One too many." in text and "</strong> z: nothing is called z." in text
    assert '<span class="soft">z(3) &gt; z(1):</span> the axis is gone.' in text
    assert '<span class="soft">x.T: a view?</span> x is a view.' in text


def test_every_mistake_of_a_prediction_that_names_a_letter_has_its_question():
    said = [
        (one, _sentence(one, mistake.name)) for one in all_exercises().values() for mistake in one.mistakes
    ]
    assert not [
        words for one, words in said if isinstance(one, Predict) and re.match(r"(In )?[a-z][:,]", words)
    ]


def test_titles_are_escaped():
    key = "w00.a"
    state = history([], {key: exercise(key).__class__(**{**vars(exercise(key)), "title": '<b>"&'})}, {})
    assert "&lt;b&gt;&quot;&amp;" in page(state) and '<b>"&' not in page(state)


def test_the_command(course, capsys):
    (course / "weeks").mkdir()
    lesson = "solutions/week00_start/01_start.py"
    (course / lesson).parent.mkdir(parents=True)
    shutil.copy(Path(__file__).parents[3] / lesson, course / lesson)
    here().remember("attempt", ex="w00.answer", status="pass", mistake=None)
    assert terminal.main([]) == 0
    out = capsys.readouterr().out
    assert "1 of 4 exercises" in out and "[x] w00.answer" in out and "Next: w00.row_means" in out
    file = course / "progress/progress.html"
    assert file.as_uri() in out and file.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert out.isascii()


def test_progress_hint_and_solution_do_not_import_torch():
    code = (
        "import sys\nfrom labkit.grade.progress import hint, solution, terminal\n"
        "terminal.load(terminal.here())\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3]).returncode == 0


def test_events_are_plain_lines(course):
    here().remember("attempt", ex="w00.a", headline="zwei\nZeilen, é")
    (line,) = [line for line in (here().progress / "events.jsonl").read_text().splitlines() if line]
    assert json.loads(line)["headline"] == "zwei\nZeilen, é"
