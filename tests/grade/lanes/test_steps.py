"""The rules of grading, with a session that only pretends to run cells."""

import pytest

from labkit.grade.lanes.steps import FOLLOWS, NOTHING_YET, Grading, Ran, Step, timeout


class Pretend:
    """Remembers what it was asked to run; `results` says what comes of a source, "ok" if nothing."""

    def __init__(self, results: dict[str, Ran]) -> None:
        self.results = results
        self.sessions: list[list[str]] = []
        self.limits: dict[str, float] = {}

    def open(self) -> "Pretend":
        self.sessions.append([])
        return self

    def run(self, source: str, timeout: float) -> Ran:
        if source != FOLLOWS.format(""):  # before every answer and every check
            self.sessions[-1].append(source)
        self.limits[source] = timeout
        return self.results.get(source, Ran())

    def close(self) -> None:
        pass


def record(ex: str, status: str) -> dict:
    return {"ex": ex, "status": status, "headline": status, "lines": [], "mistake": None, "case": None}


def exercise(name: str) -> list[Step]:
    ex = f"w90.{name}"
    return [
        Step(name, "exercise", name, ex),
        Step(f"{name}-check", "check", f"check {name}", ex),
        Step(f"{name}-recover", "recover", f"reference {name}", ex),
    ]


def grade(results: dict[str, Ran], *steps: Step) -> tuple[Grading, list[list[str]]]:
    pretend = Pretend(results)
    grading = Grading(pretend.open, 5)
    for step in steps:
        grading.do(step)
    return grading, pretend.sessions


def test_only_a_record_passes():
    results = {
        "check a": Ran(record("w90.a", "pass")),
        "check c": Ran(record("w90.a", "pass")),  # about another exercise
        "check d": Ran(record("w90.d", "pass"), error="ValueError: after all"),
    }
    grading, _ = grade(results, *exercise("a"), *exercise("b"), *exercise("c"), *exercise("d"))
    statuses = {ex: verdict.status for ex, verdict in grading.verdicts.items()}
    assert statuses == {"w90.a": "pass", "w90.b": "error", "w90.c": "error", "w90.d": "error"}
    assert "no verdict" in grading.verdicts["w90.b"].headline


def test_the_reference_is_bound_after_a_failure_only():
    results = {"check a": Ran(record("w90.a", "pass")), "check b": Ran(record("w90.b", "values"))}
    _, sessions = grade(results, *exercise("a"), *exercise("b"))
    assert sessions == [["a", "check a", "b", "check b", "reference b"]]


def test_a_cell_that_does_not_run_is_not_checked():
    grading, sessions = grade({"a": Ran(error="SyntaxError: expected ':'")}, *exercise("a"))
    assert sessions == [["a", "reference a"]]
    assert "SyntaxError: expected ':'" in grading.verdicts["w90.a"].headline


def test_the_place_of_a_syntax_error_is_a_line_of_the_cell():
    for place in ("3774037511.py", "<ipython-input-1-2c5b>", "<unknown>"):
        error = f"SyntaxError: '(' was never closed ({place}, line 2)"
        grading, _ = grade({"a": Ran(error=error)}, *exercise("a"))
        assert grading.verdicts["w90.a"].headline.endswith("'(' was never closed, line 2 of the cell")


def test_a_renamed_answer_is_told_the_name_that_is_looked_for():
    results = {"check a": Ran(error="NameError: name 'position' is not defined")}
    grading, _ = grade(results, *exercise("a"))
    assert "looks for the name `position`, which the answer cell" in grading.verdicts["w90.a"].headline


def test_a_stub_outside_a_function_is_not_started():
    grading, _ = grade({"a": Ran(error="NotImplementedError: your code here")}, *exercise("a"))
    assert grading.verdicts["w90.a"].status == "not started"


def test_a_new_process_gets_what_ran_before_without_the_deadly_cell():
    results = {"check a": Ran(record("w90.a", "pass")), "check b": Ran(ended="died"), "c": Ran(ended="slow")}
    setup, helper = Step("setup", "setup", "import"), Step("mine", "helper", "own")
    grading, sessions = grade(results, setup, *exercise("a"), helper, *exercise("b"), *exercise("c"))
    assert sessions == [
        ["import", "a", "check a", "own", "b", "check b"],
        ["import", "a", "own", "b", "reference b", "c"],
        ["import", "a", "own", "b", "reference b", "reference c"],
    ]
    assert "ended the whole process" in grading.verdicts["w90.b"].headline
    assert "more than 5 s" in grading.verdicts["w90.c"].headline


def test_what_ends_the_new_process_is_left_out_too():
    class Moody(Pretend):
        """`own` runs once and is deadly from then on."""

        def run(self, source: str, timeout: float) -> Ran:
            deadly = source == "own" and len(self.sessions) > 1
            return Ran(ended="died") if deadly else super().run(source, timeout)

    pretend = Moody({"check a": Ran(ended="died"), "check b": Ran(record("w90.b", "pass"))})
    grading = Grading(pretend.open, 5)
    for step in [Step("mine", "helper", "own"), *exercise("a"), *exercise("b")]:
        grading.do(step)
    assert pretend.sessions[-1] == ["a", "reference a", "b", "check b"]
    assert grading.verdicts["w90.b"].passed


def test_a_broken_setup_is_named():
    results = {"import": Ran(error="ModuleNotFoundError: No module named 'torch'")}
    results["check a"] = Ran(error="NameError: name 'check' is not defined")
    grading, _ = grade(results, Step("setup", "setup", "import"), *exercise("a"))
    assert "a setup cell of the page does not run: ModuleNotFoundError" in grading.verdicts["w90.a"].headline


def test_names_of_the_answer_are_forgotten_first():
    namespace = {"relu": "from an earlier cell", "other": 1}
    step = Step("a", "exercise", "answer", "w90.a", binds=("relu", "gelu"))
    _, sessions = grade({}, step)
    assert sessions[0][1] == "answer"
    exec(sessions[0][0], namespace)
    assert "relu" not in namespace and namespace["other"] == 1
    assert not {"_name", "_follows"} & {*namespace}


def test_an_answer_and_its_check_are_announced_with_their_memory():
    step = Step("a", "exercise", "answer", "w90.a", gib=0.5)
    check = Step("a-check", "check", "check a", "w90.a", gib=0.5)
    _, sessions = grade({}, step, check)
    assert sessions == [[FOLLOWS.format(0.5), "answer", FOLLOWS.format(0.5), "check a"]]


@pytest.mark.parametrize("given, own, usual", [(None, 10, 30), ("60", 20, 60), ("3", 1, 3)])
def test_limits_of_exercises_keep_the_proportion(monkeypatch, given, own, usual):
    if given is None:
        monkeypatch.delenv("LABKIT_TIMEOUT", raising=False)
    else:
        monkeypatch.setenv("LABKIT_TIMEOUT", given)
    pretend = Pretend({"slow": Ran(ended="slow")})
    grading = Grading(pretend.open)
    for step in [
        Step("a", "exercise", "slow", "w90.a", seconds=10),
        Step("a-check", "check", "check a", "w90.a", seconds=10),
        Step("b", "exercise", "slow", "w90.b"),
        Step("b-check", "check", "check b", "w90.b"),
        Step("demo", "demo", "train"),
    ]:
        grading.do(step)
    said = [verdict.headline for verdict in grading.verdicts.values()]
    assert said[0].startswith(
        f"your cell took more than {own} s, the limit of this exercise, and was stopped."
    )
    assert said[1].startswith(f"your cell took more than {usual} s and was stopped.")
    assert pretend.limits["train"] == 120


@pytest.mark.parametrize("given", ["abc", "0", "-3", "inf", "nan"])
def test_a_limit_that_is_none_is_named(monkeypatch, given):
    monkeypatch.setenv("LABKIT_TIMEOUT", given)
    with pytest.raises(ValueError, match="is not a number of seconds"):
        timeout()


@pytest.mark.parametrize("words", ["MemoryError", "RuntimeError: DefaultCPUAllocator: can't allocate memory"])
def test_the_limit_of_memory_is_named_where_an_allocation_failed(words):
    def said(gib: float | None) -> str:
        step = Step("a", "exercise", "a", "w90.a", gib=gib)
        grading, _ = grade({"a": Ran(error=words)}, step, Step("a-check", "check", "check a", "w90.a"))
        return grading.verdicts["w90.a"].text()

    assert "This exercise is to be done in 0.5 GiB." in said(0.5)
    assert "GiB" not in said(None)


def test_untouched_answers_have_one_sentence_wherever_they_stand():
    stub = "the answer still reaches `raise NotImplementedError`."
    results = {
        f"check {name}": Ran(record(f"w90.{name}", "not started") | {"headline": stub}) for name in "abc"
    }
    untouched = Step("a", "exercise", "a", "w90.a", untouched=True)
    halves = [Step("c1", "exercise", "c1", "w90.c", untouched=True), Step("c2", "exercise", "c2", "w90.c")]
    grading, _ = grade(
        results,
        *(untouched, *exercise("a")[1:], *exercise("b")),
        *(*halves, *exercise("c")[1:]),
    )
    assert [verdict.headline for verdict in grading.verdicts.values()] == [NOTHING_YET, stub, stub]
