"""The ladder: one rung at a time, in order, and no way around."""

import re
import warnings

import numpy as np
import pytest
import torch

from labkit import exercises
from labkit.exercises.declare import Case, Implement, Mistake, Raises, Rules
from labkit.grade.judge import judge
from labkit.grade.judge.ladder import passes
from labkit.grade.judge.run import expected, to_engine


def center_oracle(x, dim):
    if dim > 5:
        return Raises(ValueError)
    return x - x.mean(dim, keepdim=True)


CASES = [
    Case("rows", lambda draw: {"x": draw.normal(3, 4), "dim": 1}),
    Case("columns, strided", lambda draw: {"x": draw.strided(2, 5), "dim": 0}),
    Case("no such axis", lambda draw: {"x": draw.normal(2, 3), "dim": 6}),
    Case("huge", lambda draw: {"x": 1e20 * draw.normal(2, 3), "dim": 1}, extreme=True),
]


def center_exercise(**changes):
    fields = {
        "id": "w00.center",
        "title": "t",
        "minutes": 1,
        "hints": ("1", "2", "3"),
        "passed": "Good.",
        "cases": CASES,
        "oracle": center_oracle,
        "grads": ("x",),
        "mistakes": [
            Mistake(
                "sum", "This subtracts the sum.", lambda x, dim: checked(x, dim) - x.sum(dim, keepdim=True)
            ),
            Mistake(
                "in place",
                "The input is overwritten.",
                lambda x, dim: checked(x, dim).sub_(x.mean(dim, keepdim=True)),
            ),
            Mistake(
                "detached",
                "The mean is cut off.",
                lambda x, dim: checked(x, dim) - x.mean(dim, keepdim=True).detach(),
            ),
        ],
    }
    return Implement(**fields | changes)


def checked(x, dim):
    if dim >= x.dim():
        raise ValueError("no such axis")
    return x


def center(x, dim):
    return checked(x, dim) - x.mean(dim, keepdim=True)


def verdict(answer, **changes):
    found = judge(center_exercise(**changes), answer)
    assert found.passed == passes(center_exercise(**changes), answer) or found.status == "not started"
    assert len(found.text().splitlines()) <= 10
    return found


def test_a_right_answer_passes():
    found = verdict(center)
    assert found.status == "pass" and found.lines == ("Good.",)
    assert found.headline == "4 cases agree with torch, and so do the gradients of x."


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (None, "not started"),
        (..., "not started"),
        (7, "error"),
        (lambda x: x, "error"),
        (lambda x, dim: [][1], "error"),
        (lambda x, dim: center(x, dim).numpy(), "type"),
        (lambda x, dim: print(end="") if checked(x, dim) is x else x, "type"),
        (lambda x, dim: center(x, dim)[None], "shape"),
        (lambda x, dim: center(x, dim).double(), "dtype"),
        (lambda x, dim: center(x, dim) + 1e-3, "values"),
        (lambda x, dim: x - x.mean(min(dim, 1), keepdim=True), "values"),  # does not raise
        (lambda x, dim: center(x, dim).detach(), "gradients"),
        (lambda x, dim: checked(x, dim) - x.mean(dim, keepdim=True).detach(), "gradients"),
        (lambda x, dim: checked(x, dim).sub_(x.mean(dim, keepdim=True)), "memory"),
        (lambda x, dim: center(x, dim).clamp(-1e15, 1e15), "extremes"),
    ],
)
def test_each_rung(answer, status):
    assert verdict(answer).status == status


def test_an_error_is_said_before_anything_else_and_once():
    def answer(x, dim):
        if x.shape[0] == 2:
            raise TypeError("what\nnow")
        return center(x, dim)[None]

    found = verdict(answer)
    assert (found.status, found.case) == ("error", "columns, strided")
    assert found.headline.endswith("your code raises `TypeError`:")
    assert found.lines[0] == "what now"
    assert "At line" in found.lines[1] and 'raise TypeError("what' in found.lines[1]


def test_gradients_are_judged_although_one_case_raises():
    """A case whose right answer is to raise must not switch off the gradients of the others."""
    assert verdict(lambda x, dim: center(x, dim).detach()).status == "gradients"


@pytest.mark.parametrize("name", ["sum", "in place", "detached"])
def test_mistakes_are_recognized(name):
    mistake = next(m for m in center_exercise().mistakes if m.name == name)
    found = judge(center_exercise(), mistake.wrong)
    assert found.mistake == name and found.lines[0] == f"Likely cause: {mistake.says}"


def test_a_mistake_is_recognized_in_another_spelling():
    def answer(x, dim):
        checked(x, dim)
        return x - x.shape[dim] * x.mean(dim, keepdim=True)

    assert verdict(answer).mistake == "sum"


def test_view_or_copy_does_not_hide_a_mistake_where_both_are_right():
    wrong = Mistake("half", "Only half of it.", lambda x, dim: x[:, :1].clone())
    changes = dict(memory="any", mistakes=[wrong], cases=CASES[:2], oracle=lambda x, dim: x, grads=())
    assert verdict(lambda x, dim: x[:, :1], **changes).mistake == "half"


def test_a_mistake_that_differs_in_one_case_is_not_claimed():
    def answer(x, dim):
        wrong = checked(x, dim) - x.sum(dim, keepdim=True)
        return wrong if x.shape[0] == 3 else center(x, dim)

    assert verdict(answer).mistake is None


def cells(*sources):
    """The names that cells of a notebook define, each cell a file of its own."""
    space = {"torch": torch, "__name__": "__main__"}
    for number, source in enumerate(sources):
        exec(compile(source, f"<cell {number}>", "exec"), space)
    return space


def test_the_stub_of_another_exercise_is_named_and_ones_own_is_not_started():
    earlier = "def mean(x, dim):\n    raise NotImplementedError('your code here')"
    own = "def helper(x):\n    raise NotImplementedError\n\ndef center(x, dim):\n    return helper(x)"
    found = verdict(cells(earlier, "def center(x, dim):\n    return x - mean(x, dim)")["center"])
    assert found.status == "error"
    assert found.headline.endswith("`mean` above is not written yet; this exercise uses it.")
    assert verdict(cells(earlier, own)["center"]).status == "not started"
    method = "class Center:\n    def __call__(self, x, dim):\n        return x - mean(x, dim)"
    assert verdict(cells(earlier, method)["Center"]()).status == "error"


def test_torchs_own_not_implemented_error_is_an_error_and_the_stub_is_not():
    def unsupported(x, dim):
        checked(x, dim)
        return torch.zeros(2, dtype=torch.int32).to(torch.complex64).floor()

    def stub(x, dim):
        raise NotImplementedError("your code here")

    assert verdict(unsupported).status == "error"
    assert verdict(stub).status == "not started"


def test_not_implemented_error_may_be_the_right_answer():
    exercise = center_exercise(
        cases=[Case("abstract", lambda draw: {"x": draw.normal(2, 3)})],
        oracle=lambda x: Raises(NotImplementedError),
        grads=(),
        mistakes=(),
    )

    def abstract(x):
        raise NotImplementedError("subclasses say how")

    assert judge(exercise, abstract).passed
    assert judge(exercise, lambda x: x).status == "values"


@pytest.mark.parametrize(
    "raised", [SystemExit(), RecursionError(), MemoryError(), GeneratorExit(), BaseException("odd")]
)
def test_nothing_that_an_answer_raises_gets_out(raised):
    def answer(x, dim):
        raise raised

    assert verdict(answer).status == "error"


def test_nothing_that_a_backward_pass_raises_gets_out():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("first line\nsecond line")

    found = verdict(lambda x, dim: Double.apply(center(x, dim)))
    assert found.status == "gradients" and found.headline.endswith("the backward pass raises `RuntimeError`:")
    assert found.lines[0] == "first line second line"


def nested():
    loop = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize("value", [nested(), torch.zeros(3, 4, device="meta"), iter([1]), {"a": 1}, object()])
def test_outputs_that_make_no_sense(value):
    assert verdict(lambda x, dim: value).status in ("error", "type")


@pytest.mark.parametrize(
    "switch", [lambda: torch.set_grad_enabled(False), lambda: torch.set_default_dtype(torch.float64)]
)
def test_what_an_answer_leaves_switched_is_put_back(switch):
    def answer(x, dim):
        switch()
        return center(x, dim)

    verdict(answer)
    assert torch.is_grad_enabled() and torch.get_default_dtype() is torch.float32
    assert verdict(center).passed


def test_a_notebook_that_switched_gradients_off_is_judged_as_usual():
    with torch.no_grad():
        assert verdict(center).passed
        assert not torch.is_grad_enabled()


def test_a_gradient_of_the_wrong_shape_is_shown_whole():
    found = verdict(lambda x, dim: (center(x, dim), lambda g: g[..., :1]), vjp=True, cases=CASES[:2])
    assert (
        found.headline == "for case `rows`, the gradient of `x` has shape (3, 1); torch's has shape (3, 4)."
    )


def test_the_picture_marks_what_the_verdict_counts():
    """An error of 1e-7 is one in float64, although the picture's own tolerance would let it pass."""
    said = verdict(lambda x, dim: center(x, dim) * (1 + 1e-7), dtype="float64")
    count = re.search(r"\d+ of \d+ values differ", said.text())[0]
    assert said.status == "values" and count in said.picture
    assert said.picture.count("values differ") == said.picture.count("first at") == 3, "alt texts, no caption"


def test_a_long_error_is_shown_in_two_lines():
    def answer(x, dim):
        raise RuntimeError("shapes " * 200_000)

    found = verdict(answer)
    assert found.lines[0].startswith("shapes") and found.lines[1].endswith("...")
    assert found.lines[2].startswith("At line") and max(map(len, found.text().splitlines())) <= 160


def test_what_a_message_says_to_type_works(capsys):
    found = verdict(lambda x, dim: x.nonsense)
    commands = [line.split("`")[1] for line in found.lines if "`import labkit" in line]
    assert commands[0] == 'import labkit; labkit.case("w00.center", "rows")'
    exec(commands[1], {})
    assert "no attribute 'nonsense'" in capsys.readouterr().out


def dtype_lines(answer, dtype="float64"):
    found = verdict(answer, dtype=dtype)
    assert found.status == "dtype"
    return [line for line in found.lines if "default" in line]


def test_a_created_tensor_is_told_of_its_dtype_and_nothing_else_is():
    zeros = dtype_lines(lambda x, dim: torch.zeros(x.shape) + center(x, dim).float())
    assert zeros == ["What you create is float32, the default dtype, unless you pass `dtype=x.dtype`."]
    assert dtype_lines(lambda x, dim: center(x, dim).float()) == []
    assert dtype_lines(lambda x, dim: center(x, dim).double(), "float32") == []


def test_a_long_output_is_not_quoted_at_length():
    found = verdict(lambda x, dim: torch.zeros(100, 100) if dim > 5 else center(x, dim))
    assert found.status == "values" and max(map(len, found.text().splitlines())) <= 160


def test_printing_is_noticed():
    found = verdict(lambda x, dim: print(center(x, dim)))
    assert any("`return` it" in line for line in found.lines)


def test_prints_and_warnings_of_one_run_are_shown_at_the_learners_line(capsys):
    def answer(x, dim):
        print("here")
        return center(x, dim).resize(x.shape)

    def warns(x, dim):
        print("not this")
        return warnings.warn("nor this", stacklevel=1)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        judge(center_exercise(mistakes=[Mistake("warns", "s", warns)], rules=Rules(max_ops=0)), answer)
    assert capsys.readouterr().out == "here\n" * len(CASES)
    assert {str(item.message)[:22] for item in seen} == {"non-inplace resize is "}
    assert {item.filename for item in seen} == {__file__} and len(seen) == len(CASES) - 1


# memory


def test_views_and_copies():
    def exercise(memory):
        return center_exercise(
            cases=[Case("a", lambda draw: {"x": draw.normal(2, 3)})],
            oracle=lambda x: x.T,
            memory=memory,
            grads=(),
            mistakes=(),
        )

    view, copy = (lambda x: x.T), (lambda x: x.T.clone())
    assert [judge(exercise("fresh"), f).status for f in (view, copy)] == ["memory", "pass"]
    assert [judge(exercise("view"), f).status for f in (view, copy)] == ["pass", "memory"]
    assert [judge(exercise("any"), f).status for f in (view, copy)] == ["pass", "pass"]


def test_lists_dicts_and_odd_inputs_are_protected_too():
    exercise = center_exercise(
        cases=[
            Case("a", lambda draw: {"xs": [draw.normal(2)], "d": {"w": draw.normal(3)}, "g": (i for i in ())})
        ],
        oracle=lambda xs, d, g: xs[0].sum() + d["w"].sum(),
        grads=(),
        mistakes=(),
    )

    def emptied(xs, d, g):
        return xs.pop().sum() + d["w"].sum()

    def filled(xs, d, g):
        return xs[0].sum() + d["w"].sum() + d["w"].zero_().sum()

    assert judge(exercise, lambda xs, d, g: xs[0].sum() + d["w"].sum()).passed
    assert judge(exercise, emptied).status == "memory"
    assert judge(exercise, filled).status == "memory"


def test_what_is_meant_to_change_may_change():
    exercise = center_exercise(
        cases=[Case("a", lambda draw: {"p": draw.normal(2, 3)})],
        use=lambda answer, p: (answer(p), p)[1],
        oracle=lambda p: p * 2,
        changes=("p",),
        memory="any",
        grads=(),
        mistakes=(),
    )
    assert judge(exercise, lambda p: p.mul_(2)).passed
    assert judge(exercise, lambda p: p * 2).status == "values"


# returned vector-Jacobian products


def square_exercise(**changes):
    fields = {
        "cases": [Case("a", lambda draw: {"x": draw.normal(2, 3), "y": draw.normal(2, 3)})],
        "oracle": lambda x, y: x * x * y,
        "grads": ("x", "y"),
        "vjp": True,
        "engine": "numpy",
        "dtype": "float64",
        "mistakes": (),
    }
    return center_exercise(**fields | changes)


def square(x, y):
    return x * x * y, lambda g: (2 * x * y * g, x * x * g)


def test_a_returned_backward():
    assert judge(square_exercise(), square).passed


@pytest.mark.parametrize(
    ("backward", "words"),
    [
        (lambda x, y, g: (2 * x * y * g, x * x), "gradient of `y`"),
        (lambda x, y, g: (x * x * g, 2 * x * y * g), "gradient of `x`"),
        (lambda x, y, g: (2 * x * y * g,), "returns 1 gradients; wanted: x, y"),
        (lambda x, y, g: (2 * x * y * g, x * x * g, x), "returns 3 gradients"),
        (lambda x, y, g: (2 * x * y * g, None), "no gradient reaches `y`"),
    ],
)
def test_a_wrong_returned_backward(backward, words):
    found = judge(square_exercise(), lambda x, y: (x * x * y, lambda g: backward(x, y, g)))
    assert found.status == "gradients" and words in found.text()


def test_a_missing_returned_backward():
    found = judge(square_exercise(), lambda x, y: x * x * y)
    assert found.status == "gradients" and "(value, backward)" in found.text()


# inputs


def test_inputs_reach_the_engine_whole():
    x = np.arange(6.0).reshape(2, 3)
    made = to_engine({"a": [x, {"b": x[:, ::-1]}], "n": 3, "t": (x.T,)}, "torch")
    assert torch.equal(made["a"][1]["b"], torch.from_numpy(x[:, ::-1].copy()))
    assert not made["t"][0].is_contiguous() and made["n"] == 3


@pytest.mark.parametrize(
    "view",
    [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[:, 1:], lambda x: np.broadcast_to(x[0, :2], (4, 2))],
)
def test_views_do_not_start_where_their_storage_does(view):
    x = view(np.arange(6.0).reshape(2, 3))
    made = to_engine({"x": x}, "torch")["x"]
    assert np.array_equal(made.numpy(), x) and made.storage_offset() == 1
    assert made.stride() == tuple(step // 8 for step in x.strides)


def test_inputs_are_fresh_and_the_same_each_time():
    case = CASES[0]
    a, b = (case.inputs("w00.center", "float32")["x"] for _ in range(2))
    assert a is not b and np.array_equal(a, b)
    other = case.inputs("w00.other", "float32")["x"]
    assert not np.array_equal(a, other)


def test_random_answers_draw_the_same_numbers_as_the_oracle():
    exercise = center_exercise(
        cases=[Case("a", lambda draw: {"x": draw.normal(2, 3)})],
        oracle=lambda x: x * (torch.rand(2, 3) < 0.5),
        grads=(),
        mistakes=(),
    )
    assert judge(exercise, lambda x: torch.where(torch.rand(2, 3) < 0.5, x, 0)).passed


def test_classes_through_use():
    class Scale:
        def __init__(self, by):
            self.by = by

        def __call__(self, x):
            return self.by * x

    exercise = center_exercise(
        cases=[Case("a", lambda draw: {"x": draw.normal(2, 3)})],
        use=lambda cls, x: cls(3)(x),
        oracle=lambda x: 3 * x,
        mistakes=[
            Mistake("twice", "Too much.", type("Twice", (Scale,), {"__call__": lambda self, x: 6 * x}))
        ],
    )
    assert judge(exercise, Scale).passed
    assert judge(exercise, type("S", (Scale,), {"__call__": lambda self, x: 6 * x})).mistake == "twice"


def test_rules_come_before_values_and_cost_last():
    found = verdict(lambda x, dim: checked(x, dim) - x.sum(dim, keepdim=True), rules=Rules(forbids=("sum",)))
    assert (found.status, found.mistake) == ("rule", None)
    assert verdict(lambda x, dim: center(x, dim) + 0 + 0, rules=Rules(max_ops=3)).status == "cost"


def test_labkits_own_engine():
    import labkit

    exercise = center_exercise(
        engine="labkit",
        cases=[Case("a", lambda draw: {"x": draw.normal(3, 4), "w": draw.strided(4, 2)})],
        oracle=lambda x, w: (x @ w).exp(),
        grads=("x", "w"),
        rules=Rules(forbids=("softmax",)),
        mistakes=[Mistake("no exp", "s", lambda x, w: x @ w)],
    )
    assert judge(exercise, lambda x, w: (x @ w).exp()).passed
    assert judge(exercise, lambda x, w: x @ w).mistake == "no exp"
    assert judge(exercise, lambda x, w: (x @ w).exp().detach()).status == "gradients"
    assert judge(exercise, lambda x, w: torch.from_numpy((x @ w).exp().detach().numpy())).status == "type"
    helper = {"f": labkit.softmax}
    assert judge(exercise, lambda x, w: helper["f"](x, dim=-1) @ w).status == "rule"


def test_errors_everywhere_are_not_taken_for_a_mistake():
    def raises(x, dim):
        raise KeyError(1)

    found = verdict(lambda x, dim: {}[1], mistakes=[Mistake("raises", "s", raises)])
    assert (found.status, found.mistake) == ("error", None)


def test_a_mistake_that_raises_everywhere_is_recognized_by_what_the_error_says():
    exercise = center_exercise(
        cases=[Case(f"{n}", lambda draw, n=n: {"x": draw.normal(n, 4), "w": draw.normal(n)}) for n in (2, 3)],
        oracle=lambda x, w: x * w[:, None],
        grads=(),
        mistakes=[Mistake("no column", "w is a row.", lambda x, w: x * w)],
    )
    found = judge(exercise, lambda x, w: w * x)
    assert found.mistake == "no column" and found.lines[0].startswith("The size of tensor")
    assert found.lines[2] == "Likely cause: w is a row."
    assert judge(exercise, lambda x, w: x * w[:, None, None, None] @ w).mistake is None
    assert judge(exercise, lambda x, w: x[1:] * x[:, :0]).mistake is None
    assert judge(exercise, lambda x, w: [][1]).mistake is None


def test_errors_that_could_mean_anything_are_not_taken_for_a_mistake():
    found = verdict(lambda x, dim: [][dim], mistakes=[Mistake("index", "s", lambda x, dim: ()[7] or [][1])])
    assert found.mistake is None
    found = verdict(lambda x, dim: [][dim], mistakes=[Mistake("index", "s", lambda x, dim: [][1])])
    assert found.mistake is None


def test_the_oracle_answers_every_case():
    assert isinstance(expected(center_exercise(), CASES[2]), Raises)


def pair_of(answer, state, x):
    total, rest = answer(state, x)
    return total + rest


def states_exercise(**changes):
    fields = {
        "cases": [Case("pairs", lambda draw: {"state": (draw.normal(2, 3), 7), "x": draw.normal(3)})],
        "use": pair_of,
        "oracle": lambda state, x: state[0].sum() + x,
        "grads": (),
        "mistakes": [],
    }
    return center_exercise(**fields | changes)


def test_a_forgotten_return_is_said_although_the_grader_stumbles_over_it():
    def forgotten(state, x):
        state[0].sum() + x

    found = judge(states_exercise(), forgotten)
    assert found.status == "type" and "the answer returns None" in found.headline


def test_an_error_of_the_grader_over_something_else_stays_an_error():
    found = judge(states_exercise(), lambda state, x: 3)
    assert found.status == "error" and "TypeError" in found.headline


def test_arrays_inside_a_tuple_are_shown_by_their_shape():
    found = judge(states_exercise(), lambda state, x: (state[0].sum() + 1, x))
    assert "Inputs: state = (array (2, 3), 7), x (3,) float32" in found.text()


def test_what_the_grader_noted_is_not_called_the_output():
    found = judge(exercises.get("w04.batches"), lambda n, batch_size, seed, epoch, drop_last: ((0, 1), (2,)))
    assert "`batches` is a tuple" in found.headline and "output" not in found.headline


def test_the_line_that_failed_is_quoted_as_code():
    def answer(x):
        return torch.max(*x.split(2)) * torch.ones(*x.shape)

    found = judge(exercises.get("w00.row_means"), answer)
    assert "<code>return torch.max(*x.split(2)) * torch.ones(*x.shape)</code>" in found.html()
