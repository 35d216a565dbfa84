"""What a call reads, writes and computes; and an answer that runs without anybody watching."""

import pytest
import torch

from labkit.exercises.declare import Case, Implement, Limit, Mistake, Rules
from labkit.grade.judge import judge
from labkit.grade.judge.ladder import passes
from labkit.grade.judge.traffic import counted

X, W = torch.arange(40.0).view(10, 4), torch.ones(4, 3)


@pytest.mark.parametrize(
    "call, reads, writes, flops",
    [
        (lambda: X + 1, 40, 40, 0),
        (lambda: X * X, 40, 40, 0),  # the same elements
        (lambda: X @ W, 52, 30, 240),
        (lambda: X.T[1:, ::2].unsqueeze(0).expand(7, 3, 5).detach(), 0, 0, 0),
        (lambda: X.view(20, 2), 0, 0, 0),
        (lambda: X.T.reshape(8, 5), 40, 40, 0),  # a copy in disguise
        (lambda: X.expand(5, 10, 4).sum(), 40, 1, 0),
        (lambda: X.clone().add_(1), 80, 80, 0),
        (lambda: torch.empty(6), 0, 0, 0),
        (lambda: torch.zeros(6), 0, 6, 0),
        (lambda: torch.empty(10, 4).copy_(X), 40, 40, 0),
        (lambda: torch.add(X, 1, out=torch.empty(10, 4)), 40, 40, 0),
        (lambda: torch.gather(X, 0, torch.zeros(1, 4, dtype=torch.int64)), 8, 8, 0),
        (lambda: torch.stack([X, X + 1]), 40 + 80, 40 + 80, 0),
        (lambda: X @ W[:, 0], 44, 10, 80),
        (lambda: W[:, 0] @ W[:, 1], 8, 1, 8),
        (lambda: torch.addmv(X[:, 0], X, W[:, 0]), 54, 10, 80),
        (lambda: torch.conv1d(X.view(1, 1, 40), torch.ones(1, 1, 3)), 43, 3 + 38, 2 * 3 * 38),
    ],
)
def test_counts(call, reads, writes, flops):
    with counted() as traffic:
        call()
    assert (traffic.reads, traffic.writes, traffic.flops) == (reads, writes, flops)


def test_a_backward_pass_counts():
    x = torch.ones(5, requires_grad=True)
    with counted() as forward:
        y = (x * x).sum()
    with counted() as backward:
        y.backward()
    assert (forward.reads, forward.writes) == (10, 6)
    assert backward.reads >= 10


def exercise(**changes) -> Implement:
    fields = {
        "id": "w00.project",
        "title": "t",
        "minutes": 1,
        "hints": ("1", "2", "3"),
        "passed": "Good.",
        "cases": [
            Case("small", lambda draw: {"a": draw.normal(3, 4), "b": draw.normal(4, 5), "c": draw.normal(5)}),
            Case("wide", lambda draw: {"a": draw.normal(7, 2), "b": draw.normal(2, 9), "c": draw.normal(9)}),
        ],
        "oracle": lambda a, b, c: a @ (b @ c),
        "mistakes": [Mistake("no a", "Where is a?", lambda a, b, c: b @ c)],
    }
    return Implement(**fields | changes)


def cheap(a, b, c):
    return a @ (b @ c)


def dear(a, b, c):
    return (a @ b) @ c


def copies(a, b, c):
    return a.clone() @ (b @ c)


FLOPS = Limit(
    "flops", lambda a, b, c: 2 * (b.size + a.size), "a vector first, so that no matrix product is needed."
)
READS = Limit(
    "reads", lambda a, b, c: a.size + b.size + c.size + len(b), "every input once, and the vector between"
)
WRITES = Limit("writes", lambda a, b, c: len(a) + len(b), "two vectors")


@pytest.mark.parametrize(
    "rules, answer, words, why",
    [
        (
            Rules(limits=(FLOPS,)),
            dear,
            "takes 150 floating-point operations; 64 are enough.",
            "Why 64: a vector first, so that no matrix product is needed.",
        ),
        (
            Rules(limits=(READS,)),
            copies,
            "reads 53 elements; 41 are enough.",
            "Why 41: every input once, and the vector between.",
        ),
        (
            Rules(limits=(WRITES,)),
            dear,
            "writes 18 elements; 7 are enough.",
            "Why 7: two vectors.",
        ),
        (
            Rules(limits=(Limit("writes", 0, "nothing is written"),)),
            cheap,
            "writes 7 elements; 0 are enough.",
            "Why 0: nothing is written.",
        ),
    ],
)
def test_an_expensive_answer_is_told_what_it_costs_and_why_less_is_enough(rules, answer, words, why):
    found = judge(exercise(rules=rules), answer)
    assert found.status == "cost" and found.lines[0] == why
    assert found.headline == f"for case `small`, the result is right. One call {words}"
    assert not passes(exercise(rules=rules), answer)


def test_a_cheap_answer_passes():
    rules = Rules(limits=(FLOPS, READS, WRITES))
    assert judge(exercise(rules=rules), cheap).passed
    assert passes(exercise(rules=rules), cheap)


def test_costs_are_counted_in_torch_only():
    with pytest.raises(ValueError, match="counted in torch, not in labkit"):
        exercise(rules=Rules(limits=(FLOPS,)), engine="labkit")


# nobody watches unless a rule asks


class Backend:
    """Counts the graphs that Dynamo hands over, and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph, inputs):
        self.graphs += 1
        return graph.forward


SAME_SHAPES = [
    Case(name, lambda draw: {"a": draw.normal(3, 4), "b": draw.normal(4, 5), "c": draw.normal(5)})
    for name in ("one", "two", "three")
]


def compiled(backend: Backend):
    def answer(a, b, c):
        return torch.relu(a @ (b @ c)) + 1

    return torch.compile(answer, backend=backend)


def judged(backend: Backend, **changes) -> None:
    function = compiled(backend)
    torch._dynamo.reset()
    made = exercise(cases=SAME_SHAPES, oracle=lambda a, b, c: torch.relu(a @ (b @ c)) + 1, **changes)
    found = judge(made, lambda a, b, c: function(a, b, c))
    assert found.passed, found.text()


def test_a_compiled_answer_is_one_graph_and_is_compiled_once():
    backend = Backend()
    judged(backend)
    assert backend.graphs == 1


def test_a_watched_one_is_not():
    """What the test above would see if every answer were watched: it can fail."""
    backend = Backend()
    judged(backend, rules=Rules(forbids=("softmax",)))
    assert backend.graphs != 1


def test_a_function_compiled_before_the_check_is_not_compiled_again():
    backend = Backend()
    function = compiled(backend)
    torch._dynamo.reset()
    inputs = SAME_SHAPES[0].inputs("w00.project", "float32")
    function(*map(torch.from_numpy, inputs.values()))
    assert backend.graphs == 1
    made = exercise(cases=SAME_SHAPES, oracle=lambda a, b, c: torch.relu(a @ (b @ c)) + 1)
    assert judge(made, lambda a, b, c: function(a, b, c)).passed
    assert backend.graphs == 1


def test_the_advice_about_a_default_dtype_needs_no_watching_beforehand():
    """It looks a second time, quietly."""
    calls = []

    def answer(a, b, c):
        calls.append(1)
        print("seen")
        return torch.zeros(len(a)) + (a @ (b @ c)).float()

    found = judge(exercise(dtype="float64"), answer)
    assert found.status == "dtype" and "the default dtype, unless you pass" in found.text()
