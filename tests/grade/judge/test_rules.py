"""What an answer may use: read in its source, its helpers and its class, and watched while it runs."""

import functools

import numpy as np
import pytest
import torch
from torch.nn.functional import softmax as smooth

import labkit
from labkit import exercises
from labkit.exercises.declare import Rules
from labkit.grade.judge.rules import _forbidden, broken_by_source, broken_by_use, cost, watched

NO_SOFTMAX = Rules(forbids=("softmax",))
X = torch.tensor([[1.0, 2.0, 4.0]])


def refused(answer, rules, *inputs):
    """Whether an answer breaks the rules, in its source or while it runs."""
    by_source = broken_by_source(answer, rules)
    with watched() as used:
        if inputs:
            answer(*inputs)
    return bool(by_source or broken_by_use(used, rules))


def by_method(x):
    return x.softmax(dim=-1)


def by_alias(x):
    return smooth(x, dim=-1)


def by_name(x):
    return getattr(torch, "soft" + "max")(x, dim=-1)


def by_helper(x):
    return by_method(x)


def by_two_helpers(x):
    return by_helper(x)


def by_partial(x):
    return functools.partial(torch.softmax, dim=-1)(x)


def by_map(x):
    return next(map(torch.nn.Softmax(dim=-1), [x]))


def by_import(x):
    from torch import softmax as f

    return f(x, -1)


def honest(x):
    e = (x - x.max(dim=-1, keepdim=True).values).exp()
    return e / e.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize(
    "answer", [by_method, by_alias, by_name, by_helper, by_two_helpers, by_partial, by_map, by_import]
)
def test_ways_to_call_the_thing_asked_for(answer):
    assert refused(answer, NO_SOFTMAX, X)


@pytest.mark.parametrize("answer", [by_method, by_alias, by_helper, by_two_helpers])
def test_seen_in_the_source_alone(answer):
    assert broken_by_source(answer, NO_SOFTMAX)


def test_an_honest_answer_is_not_refused():
    assert not refused(honest, NO_SOFTMAX, X)


@pytest.mark.parametrize(
    "answer",
    [
        torch.softmax,
        torch.nn.Softmax,
        torch.nn.Softmax(-1),
        functools.partial(torch.softmax, dim=-1),
        np.exp,
        labkit.exp,
    ],
)
def test_the_library_itself_is_refused(answer):
    assert "library" in broken_by_source(answer, Rules())


def conv_by_numpy(x, w):
    return np.convolve(x, w)


def conv_by_helper(x, w):
    return conv_by_numpy(x, w)


def product_by_operator(a, b):
    return a @ b


def test_numpy_is_not_watched_so_its_source_is_read():
    assert broken_by_source(conv_by_helper, Rules(forbids=("convolve",)))
    assert broken_by_source(product_by_operator, Rules(forbids=("matmul",)))
    assert not broken_by_source(product_by_operator, Rules(forbids=("dot",)))


def softmax(x):
    """The exercise asks for this name: calling oneself is no offense."""
    return honest(x) if x.ndim < 3 else torch.stack([softmax(row) for row in x])


class Attention:
    def softmax(self, x):
        return honest(x)

    def __call__(self, x):
        return self.softmax(x)


class Borrowed:
    @staticmethod
    def scores(x):
        return torch.softmax(x, -1)

    def __call__(self, x):
        return self.scores(x)


class Inherited(Borrowed):
    pass


class Property:
    @property
    def f(self):
        return torch.softmax(X, -1)


class Heads(Attention):
    def __call__(self, x):
        return [self.softmax(row) for row in x]


def with_local(x):
    def softmax(row):
        return honest(row)

    return softmax(x)


def test_the_learners_own_names_are_theirs():
    for answer in (softmax, Attention, Heads, Attention(), with_local):
        assert not broken_by_source(answer, NO_SOFTMAX)


def turned(x):
    return x.T


def test_a_transpose_by_attribute_can_be_forbidden():
    rules = Rules(forbids=("transpose", "T"))
    assert broken_by_source(turned, rules)
    with watched() as used:
        turned(X)
    assert broken_by_use(used, rules) and cost(used, Rules(max_ops=0)) is None


@pytest.mark.parametrize("answer", [Borrowed, Inherited, Property, Borrowed()])
def test_classes_are_read_with_static_methods_properties_and_bases(answer):
    assert broken_by_source(answer, NO_SOFTMAX)


class TorchsModule(torch.nn.Module):
    pass


def test_inheriting_the_thing_asked_for_is_refused():
    assert "inherits" in broken_by_source(TorchsModule, Rules(forbids=("Module",)))
    assert broken_by_source(TorchsModule, NO_SOFTMAX) is None


def reads_exercises(x):
    from labkit import exercises as e

    return e.get("w00.row_means").oracle(x)


def reads_exercises_too(x):
    import labkit.exercises

    return labkit.exercises.get("w00.row_means").oracle(x)


def reads_exercises_by_name(x):
    return exercises.get("w00.row_means").oracle(x)


def reads_exercises_by_attribute(x):
    return labkit.exercises.get("w00.row_means").oracle(x)


stolen = exercises.get("w00.row_means").oracle


def uses_stolen(x):
    return stolen(x)


@pytest.mark.parametrize(
    "answer",
    [
        reads_exercises,
        reads_exercises_too,
        reads_exercises_by_name,
        reads_exercises_by_attribute,
        uses_stolen,
        stolen,
    ],
)
def test_the_graders_own_files_are_out_of_bounds(answer):
    assert broken_by_source(answer, Rules())


PUZZLE = Rules(allows=("arange", "where"))


def puzzle(n):
    if n < 0:
        raise ValueError("n")
    rows = torch.arange(n)
    return torch.where(rows[:, None] == rows, 1, 0)


def puzzle_with_eye(n):
    return torch.eye(n)


def puzzle_with_helper(n):
    return puzzle_with_eye(n)


def puzzle_with_sum(n):
    return sum(torch.arange(n))


def puzzle_with_max(n):
    return torch.arange(n).max()


def test_a_list_of_allowed_operations():
    assert not refused(puzzle, PUZZLE, 3)
    assert "`eye`" in broken_by_source(puzzle_with_eye, PUZZLE)
    assert refused(puzzle_with_helper, PUZZLE, 3)
    assert refused(puzzle_with_sum, PUZZLE, 3)
    assert refused(puzzle_with_max, PUZZLE, 3)


def puzzle_with_cast(n):
    return torch.where(torch.arange(n).float() > 1, 1, 0)


def puzzle_with_number(n):
    return torch.arange(n)[int(torch.arange(n)[1]) :]


def test_a_cast_is_an_operation_and_taking_a_number_out_is_not():
    assert "`float`" in broken_by_source(puzzle_with_cast, PUZZLE)
    with watched() as used:
        puzzle_with_cast(3)
    assert "`float`" in broken_by_use(used, PUZZLE)
    assert not refused(puzzle_with_number, PUZZLE, 3)


def test_an_empty_list_of_allowed_operations():
    assert broken_by_source(puzzle, Rules(allows=())).endswith("Allowed: operators and indexing only.")
    assert broken_by_source(puzzle_with_eye, PUZZLE).endswith(
        "Allowed: `arange`, `where`, operators and indexing."
    )


def by_numpys_attribute(x):
    return x.numpy().strides


def by_own_attributes(x):
    return x.steps, x.stride_of_mine


def test_an_attribute_that_holds_the_thing_asked_for_can_be_forbidden():
    rules = Rules(forbids=("stride", "step"))
    assert broken_by_source(by_numpys_attribute, rules) == _forbidden("strides")
    assert broken_by_source(by_own_attributes, rules) is None


def test_allowed_operations_are_watched_too():
    with watched() as used:
        torch.eye(3)
    assert "`eye`" in broken_by_use(used, PUZZLE)


def looping(x):
    return sum(row for row in x)


def looping_helper(x):
    return looping(x)


def test_loops():
    rules = Rules(loops=False)
    assert broken_by_source(looping, rules) and broken_by_source(looping_helper, rules)
    assert not broken_by_source(honest, rules)


def test_operators_are_counted_under_their_function_names():
    with watched() as used:
        _ = (1 - X) @ X.T
        X.clone().relu_()
    assert used["matmul"] == 1 and used["relu"] == 1 and used["sub"] + used["rsub"] == 1


def test_looking_at_a_tensor_costs_nothing():
    with watched() as used:
        _ = (X.shape, X.dim(), X.size(0), X.stride(), len(X), X.numel(), float(X[0, 0]))
    assert cost(used, Rules(max_ops=1)) is None
    with watched() as used:
        _ = X + X + X
    assert "2 tensor operations" in cost(used, Rules(max_ops=1))


def test_a_lambda_is_read_as_itself():
    answers = {"a": lambda x: torch.softmax(x, -1)}
    assert broken_by_source(answers["a"], NO_SOFTMAX)


def test_a_function_without_source_is_watched():
    space = {"torch": torch, "__name__": "__main__"}
    exec("def answer(x):\n    return torch.softmax(x, -1)", space)
    assert broken_by_source(space["answer"], NO_SOFTMAX) is None
    assert refused(space["answer"], NO_SOFTMAX, X)
