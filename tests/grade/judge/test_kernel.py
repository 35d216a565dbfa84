"""Kernels: hazards before values, told with thread, line and advice; values; counted cost."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from labkit.exercises.declare import Case, Kernel, Limit, Mistake, Rules
from labkit.grade.judge import check as module
from labkit.grade.judge import judge
from labkit.grade.judge.kinds import kernel as kind

cuda = None  # the stepper puts its own in place
N = 8


def add_one(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + np.float32(1)


def no_guard(x, out):
    i = cuda.grid(1)
    out[i] = x[i] + np.float32(1)


def no_block(x, out):
    i = cuda.threadIdx.x
    if i < x.size:
        out[i] = x[i] + np.float32(1)


def everything(x, out):
    i = cuda.grid(1)
    for j in range(x.size):
        if j == i:
            out[i] = x[j] + np.float32(1)
        elif x[j] > np.float32(1e9):
            return


def meets(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0] = x[i]
        out[i] = x[i] + np.float32(1)


def _exercise(**changes):
    given = dict(
        id="w00.add_one",
        title="t",
        minutes=1,
        cases=[
            Case("spare threads", lambda draw: {"x": draw.normal(13)}),
            Case("strided", lambda draw: {"x": draw.strided(9)}),
            Case("one", lambda draw: {"x": draw.normal(1)}),
        ],
        outputs={"out": lambda x: np.full(x.size, np.nan, np.float32)},
        launch=lambda x: (-(-x.size // N), N),
        oracle=lambda x: x + 1,
        limits=[Limit("global reads", 1, "One element per thread.")],
        mistakes=[
            Mistake("no guard", "the last block has threads to spare.", no_guard),
            Mistake("no block", "threadIdx starts anew in each block.", no_block),
            Mistake("everything", "every thread reads everything.", everything),
            Mistake("meets", "all write to one place.", meets),
        ],
        hints=("1", "2", "3"),
        passed="One thread, one element.",
    )
    return Kernel(**(given | changes))


EXERCISE = _exercise()


def said(answer, exercise=EXERCISE):
    return judge(exercise, answer)


def test_a_right_kernel_passes_and_its_counts_are_told():
    verdict = said(add_one)
    assert verdict.passed
    assert verdict.headline == "3 cases agree with torch in 3 orders of the threads, without a hazard."
    assert verdict.lines == (
        "Most that one thread did in case `spare threads`: 1 global read, 1 global write.",
        "One thread, one element.",
    )


def stub(x, out):
    cuda.grid(1)
    raise NotImplementedError("your code here")


@pytest.mark.parametrize("answer", [None, ..., stub])
def test_not_started(answer):
    assert said(answer).status == "not started"


def test_the_stub_of_a_helper_above_is_an_error():
    def helper(value):
        raise NotImplementedError

    def calls(x, out):
        out[0] = helper(x[0])

    assert said(calls).status == "error"


def test_what_is_no_kernel():
    assert said(3).status == "type" and "int" in said(3).headline
    verdict = said(lambda x, out: None)
    assert verdict.status == "error" and "write the kernel as a function with a name" in verdict.text()

    def three(x, out, n):
        pass

    assert said(three).status == "error" and "takes 3 arguments, got 2" in said(three).text()


def test_what_does_not_compile_for_a_gpu():
    def whole(x, out):
        values = [value + 1 for value in x]
        out[0] = values[0]

    verdict = said(whole)
    assert verdict.status == "error"
    line = inspect.getsourcelines(whole)[1] + 1
    assert f"line {line}" in verdict.headline and "does not compile for a GPU" in verdict.text()
    assert "traceback" not in verdict.text()  # the stepper raised nothing


def test_a_loop_without_end():
    def waits(x, out):
        i = 0
        while i < 1:
            i -= 1

    verdict = said(waits)
    assert verdict.status == "error" and "did not end" in verdict.text()


def test_a_rule():
    ruled = replace(EXERCISE, rules=Rules(loops=False))
    assert said(everything, ruled).status == "rule"
    assert said(add_one, ruled).passed


def test_a_hazard_is_told_with_thread_line_and_advice():
    verdict = said(no_guard)
    line = inspect.getsourcelines(no_guard)[1] + 2
    assert verdict.status == "hazard" and verdict.mistake == "no guard"
    assert verdict.headline == f"for case `spare threads`, an index on line {line} is out of bounds."
    assert "Likely cause: the last block has threads to spare." == verdict.lines[0]
    assert "(thread 5 of block 1, 3 times)" in verdict.lines[1]
    assert "Guard it with if i < n" in verdict.lines[2]
    step = 'labkit.simt.check(no_guard, 2, 8, *labkit.case("w00.add_one", "spare threads").values())'
    assert any(step in each for each in verdict.lines)


def test_the_line_that_steps_it_again_works(monkeypatch):
    monkeypatch.setattr(module.exercises, "get", lambda ex: EXERCISE)
    from labkit import simt

    arguments = module.case("w00.add_one", "spare threads")
    assert list(arguments) == ["x", "out"]
    assert simt.check(no_guard, 2, 8, *arguments.values()).of("out of bounds")


def test_every_hazard():
    def race(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[0] = x[i]
            out[i] = x[i]

    def branch(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + np.float32(1)
            cuda.syncthreads()

    def unwritten(x, out):
        s = cuda.shared.array(8, np.float32)
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + s[cuda.threadIdx.x]

    def zero(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + np.float32(1 // (i - i))

    for answer, words in (
        (race, "two threads meet on one element"),
        (branch, "not all threads of a block come to the barrier"),
        (unwritten, "reads memory that no thread has written"),
        (zero, "divides by zero"),
    ):
        verdict = said(answer)
        assert verdict.status == "hazard" and words in verdict.headline, verdict.text()


def test_right_numbers_do_not_excuse_a_hazard():
    """The barrier in a branch gives the right values, here and in Numba's simulator."""

    def branch(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + np.float32(1)
            cuda.syncthreads()

    attempt = kind.trial(EXERCISE, branch)
    assert np.array_equal(attempt[0].value, EXERCISE.cases[0].inputs("w00.add_one", "float32")["x"] + 1)
    assert said(branch).status == "hazard"


def test_values_and_what_was_left_unwritten():
    verdict = said(no_block)
    assert (verdict.status, verdict.mistake) == ("values", "no block")
    assert "NaN is left in 5 elements of `out`: did a thread write there?" in verdict.lines


def test_the_dtype_of_the_output_is_what_the_declaration_makes_it():
    wide = replace(EXERCISE, outputs={"out": lambda x: np.full(x.size, np.nan)})
    assert said(add_one, wide).status == "dtype"


def test_an_input_that_was_changed():
    def changes(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + np.float32(1)
            x[i] = np.float32(0)

    verdict = said(changes)
    assert verdict.status == "memory" and "`x` was changed" in verdict.headline


def test_extremes():
    huge = Case("huge", lambda draw: {"x": np.full(3, 3e38, np.float32)}, extreme=True)

    def doubles(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = (x[i] * np.float32(4) + np.float32(4)) / np.float32(4)

    exercise = replace(EXERCISE, cases=[*EXERCISE.cases, huge])
    verdict = said(doubles, exercise)
    assert (verdict.status, verdict.case) == ("extremes", "huge")
    assert said(add_one, exercise).passed


def test_cost_is_counted_and_says_why():
    verdict = said(everything)
    assert (verdict.status, verdict.mistake) == ("cost", "everything")
    assert "the result is right. For it one thread needs" in verdict.headline
    assert "global reads; 1 will do." in verdict.headline
    assert "One element per thread." in verdict.lines


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        (Limit("global writes", lambda x: x.size, "w", "grid"), "pass"),
        (Limit("global writes", lambda x: x.size - 1, "w", "grid"), "cost"),
        (Limit("global writes", 8, "w", "block"), "pass"),
        (Limit("global writes", 7, "w", "block"), "cost"),
        (Limit("shared bytes", 0, "w"), "pass"),
        (Limit("barriers", 0, "w"), "pass"),
    ],
)
def test_limits_per_thread_block_and_grid(limit, status):
    assert said(add_one, replace(EXERCISE, limits=[limit])).status == status


def test_slow_accesses_count_where_the_exercise_says_so():
    def scattered(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i * 64] + np.float32(1)

    exercise = _exercise(
        cases=[Case("far apart", lambda draw: {"x": draw.normal(64 * 32)})],
        outputs={"out": lambda x: np.full(32, np.nan, np.float32)},
        launch=lambda x: (1, 32),
        oracle=lambda x: x[::64] + 1,
        mistakes=[],
    )
    assert said(scattered, exercise).passed
    verdict = said(scattered, replace(exercise, refuses=("uncoalesced",)))
    assert verdict.status == "cost" and "is slow" in verdict.headline and "sectors" in verdict.text()


def test_two_outputs_in_the_order_that_the_kernel_takes():
    def both(total, x, twice):
        i = cuda.grid(1)
        if i < x.size:
            twice[i] = x[i] + x[i]
            cuda.atomic.add(total, 0, x[i])

    exercise = _exercise(
        outputs={
            "twice": lambda x: np.full(x.size, np.nan, np.float32),
            "total": lambda x: np.zeros(1, np.float32),
        },
        takes=("total", "x", "twice"),
        oracle=lambda x: (x + x, x.sum().reshape(1)),
        limits=[],
        mistakes=[],
    )
    assert said(both, exercise).passed, said(both, exercise).text()
    assert list(kind.problems(exercise)) == []
    assert list(kind.problems(replace(exercise, takes=("total", "x"))))


def test_a_race_is_recognized_although_it_leaves_other_values():
    def meets_later(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[0] = x[i] * np.float32(7)
            out[i] = x[i] + np.float32(1)

    verdict = said(meets_later)
    assert (verdict.status, verdict.mistake) == ("hazard", "meets")
    twin = Mistake("twin", "s.", meets)
    unsure = replace(EXERCISE, mistakes=[*EXERCISE.mistakes, twin])
    assert said(meets_later, unsure).mistake is None


def test_what_the_audit_needs():
    assert list(kind.must_fail(EXERCISE, add_one)) == []
    anything = _exercise(oracle=lambda x: x * float("nan"), limits=[], mistakes=[])
    assert list(kind.must_fail(anything, add_one)) == ["a kernel that does nothing passes"]
    assert kind.survives(EXERCISE, add_one) and not kind.survives(EXERCISE, no_block)
    assert not kind.survives(EXERCISE, None)
    answer, extra = kind.wrong_answer(EXERCISE, EXERCISE.mistakes[0])
    assert answer is not no_guard and said(answer).mistake == "no guard" and extra == {}
    assert kind.texts(EXERCISE) == {"limit on global reads": "One element per thread."}
    bad = replace(EXERCISE, limits=[Limit("reads", 1, "w")])
    assert "limit on 'reads'" in next(iter(kind.problems(bad)))
