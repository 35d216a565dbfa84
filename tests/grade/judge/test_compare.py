"""The comparator: what differs, in which class, and said how."""

import math

import numpy as np
import pytest
import torch

from labkit.grade.judge.compare import compare, flatten, same, tolerance, wrong_values


def difference(yours, theirs, engine="torch", terms=4):
    return compare(yours, theirs, engine, terms)


def status(*args, **kwargs):
    found = difference(*args, **kwargs)
    return found and found.status


# shape and dtype before values


def test_a_column_is_not_a_row():
    assert status(torch.zeros(3, 1), torch.zeros(3)) == "shape"
    assert status(torch.zeros(()), torch.zeros(3)) == "shape"
    assert status(torch.zeros(1, 3), torch.zeros(3)) == "shape"


def test_shape_is_said_before_a_wrong_value_anywhere():
    found = difference((torch.ones(2), torch.zeros(3, 1)), (torch.zeros(2), torch.zeros(3)))
    assert found.status == "shape" and "output[1]" in found.headline


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool])
def test_dtype_is_compared(dtype):
    assert status(torch.ones(2, dtype=dtype), torch.ones(2)) == "dtype"


@pytest.mark.parametrize(
    ("given", "engine"),
    [(np.zeros(2, np.float32), "torch"), (torch.zeros(2), "numpy"), ([0.0, 0.0], "torch"), (None, "torch")],
)
def test_the_library_is_compared(given, engine):
    assert status(given, torch.zeros(2), engine=engine) == "type"


def test_containers_are_compared():
    x = torch.ones(2)
    assert status((x,), (x, x)) == "type"
    assert status([x], (x,)) == "type"
    assert status(x, (x,)) == "type"
    assert status((x, (x,)), (x, (x,))) is None
    assert status({"a": x}, {"a": x, "b": x}) == "type"


def test_the_order_of_a_dict_does_not_count():
    a, b = torch.ones(2), torch.zeros(3)
    assert status({"b": b, "a": a}, {"a": a, "b": b}) is None
    assert status({"b": a, "a": b}, {"a": a, "b": b}) == "shape"


# numbers that only look like the right thing


@pytest.mark.parametrize("given", ["42", None, [42.0], object(), b"42"])
def test_what_is_no_number_is_never_taken_for_a_scalar(given):
    assert status(given, torch.tensor(42.0), engine="numpy") == "type"


def test_plain_numbers():
    assert status(42.0, torch.tensor(42.0, dtype=torch.float64), engine="numpy") is None
    assert status(3, 3.0, engine="python") is None
    assert status(3.0, 3, engine="python") == "type"
    assert status((3.0, 2), (3, 2), engine="python") == "type"
    assert status(True, 1, engine="python") == "type"
    assert status(1, True, engine="python") == "type"
    assert status("42", 42, engine="python") == "type"
    assert status(0.1 + 0.2, 0.3, engine="python") is None
    assert status(math.nan, math.nan, engine="python") is None
    assert status(0.31, 0.3, engine="python") == "values"


def test_a_tensor_where_a_number_is_wanted_is_told_how():
    found = difference(torch.tensor(3.0), 3.0, engine="python")
    assert found.status == "type" and ".item()" in found.lines[0]
    assert "NumPy float64" in difference(np.float64(3), 3.0, engine="python").headline


def test_a_number_that_claims_to_equal_everything():
    class Liar(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    assert status(Liar(3), 4, engine="python") == "type"


# values


def test_a_huge_neighbor_does_not_excuse_an_error():
    masked = torch.tensor([-1e9, -1e9, 1.0, 2.0])
    wrong = torch.tensor([-1e9, -1e9, 1.0, 2.5])
    assert status(wrong, masked) == "values"
    lowest = torch.finfo(torch.float32).min
    assert status(torch.tensor([lowest, 1.0, 2.0]), torch.tensor([lowest, 1.0, 3.0])) == "values"
    assert status(torch.tensor([1e6, 2.0]), torch.tensor([1e6, 1.0])) == "values"


def test_cancellation_is_judged_by_typical_size():
    theirs = torch.tensor([1.0, -2.0, 1e-7, 3.0])
    assert status(theirs + 1e-7, theirs) is None
    assert status(theirs + 1e-4, theirs) == "values"


def test_not_finite():
    inf, nan = math.inf, math.nan
    theirs = torch.tensor([nan, inf, -inf, 1.0])
    assert status(theirs.clone(), theirs) is None
    for wrong in ([1.0, inf, -inf, 1.0], [nan, nan, -inf, 1.0], [nan, inf, inf, 1.0], [nan, inf, -inf, nan]):
        assert status(torch.tensor(wrong), theirs) == "values"


def test_complex_values_keep_their_imaginary_part():
    theirs = torch.tensor([1 + 2j, 3 - 1j])
    assert status(theirs * (1 + 1e-7), theirs) is None
    assert status(theirs.conj(), theirs) == "values"
    assert status(theirs.conj().conj(), theirs) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_dtypes_that_numpy_does_not_have(dtype):
    theirs = torch.tensor([1.0, 2.0, -4.0]).to(dtype)
    assert status(theirs.clone(), theirs) is None
    assert status(theirs.float().neg().to(dtype), theirs) == "values"


def test_sparse_tensors_are_compared_by_value():
    theirs = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    assert status(theirs.to_sparse(), theirs) is None


def test_empty_arrays():
    assert status(torch.zeros(0, 3), torch.zeros(0, 3)) is None
    assert status(torch.zeros(3, 0), torch.zeros(0, 3)) == "shape"


def test_integers_are_exact():
    big = 2**53
    assert status(torch.tensor([big + 1]), torch.tensor([big])) == "values"


@pytest.mark.parametrize(("dtype", "eps"), [("float32", 2.0**-23), ("float64", 2.0**-52)])
def test_tolerance_is_sixteen_spacings_times_root_terms(dtype, eps):
    assert tolerance(dtype, 9) == pytest.approx(16 * eps * 3)
    assert tolerance("int64", 9) == 0


@pytest.mark.parametrize(("dtype", "eps"), [("float16", 2.0**-10), ("bfloat16", 2.0**-7)])
def test_short_floats_do_not_get_looser_with_the_number_of_terms(dtype, eps):
    assert tolerance(dtype, 1) == tolerance(dtype, 10_000) == 4 * eps


def test_the_tolerance_is_a_boundary():
    theirs = np.full(4, 1.0)
    tol = tolerance("float64", 1)
    assert not wrong_values(theirs + 0.9 * tol, theirs, tol).any()
    assert wrong_values(theirs + 1.1 * tol, theirs, tol).all()


# what is said


def test_the_first_difference_is_named():
    theirs = torch.arange(6.0).reshape(2, 3) ** 2
    yours = theirs.clone()
    yours[1, 0] = 7.5
    (line, *_) = difference(yours, theirs).lines
    assert line == "1 of 6 values differ; first at [1, 0]: yours 7.5, torch 9."


@pytest.mark.parametrize(
    ("yours", "theirs", "words"),
    [
        ((1, 4), (12, 4), "Yours (1, 4), wanted (12, 4)."),
        (torch.Size([1, 4]), (12, 4), "Yours (1, 4), wanted (12, 4)."),
        (["a", True], ["b", True], "Yours ['a', True], wanted ['b', True]."),
        ((1, 4, 1), (12, 4), "Yours (1, 4, 1), wanted (12, 4)."),
    ],
)
def test_short_sequences_are_shown_whole(yours, theirs, words):
    assert difference(yours, theirs, engine="python").lines == (words,)


def test_long_sequences_are_not_shown_whole():
    assert "output[7]" in difference(tuple(range(90)), (*range(7), *range(8, 91)), engine="python").headline


@pytest.mark.parametrize(
    ("yours", "theirs", "engine", "words"),
    [
        ([1, 2], (1, 2), "python", "Wrap it: `tuple(...)`."),
        ((i for i in (1, 2)), (1, 2), "python", "Wrap it: `tuple(...)`."),
        (np.array([1, 2]), (1, 2), "python", "Wrap it: `tuple(...)`."),
        (torch.zeros(3, 4), (torch.zeros(3, 4), torch.zeros(3)), "torch", "2 things are to be returned"),
        (torch.arange(4), [0, 1, 2, 3], "torch", "`.tolist()` makes a list of it."),
        ((1, 2), [1, 2], "python", "Wrap it: `list(...)`."),
        (np.zeros(2, np.float32), torch.zeros(2), "torch", "`torch.as_tensor(...)`, or work with tensors"),
        ([0.0, 0.0], torch.zeros(2), "torch", "`torch.as_tensor(...)`"),
        (torch.zeros(2), torch.zeros(2), "numpy", "`np.asarray(...)`, or work with arrays"),
        (0.0, torch.tensor(0.0), "torch", "Leave out `.item()`"),
        (42.0, 42, "python", "`//`"),
    ],
)
def test_the_wrong_kind_is_told_how_to_become_the_right_one(yours, theirs, engine, words):
    found = difference(yours, theirs, engine=engine)
    assert (found.status == "type" and found.lines[-1].startswith(words)) or words in found.lines[-1]


@pytest.mark.parametrize("yours", [None, "12", {"a": 1}, 3, (1, 2, 3)])
def test_what_cannot_be_wrapped_is_not_told_to(yours):
    assert not any("Wrap" in line for line in difference(yours, (1, 2), engine="python").lines)


def test_numbers_get_the_digits_that_tell_them_apart():
    theirs = torch.tensor([1 / 3, 2.0], dtype=torch.float64)
    (line, *_) = difference(theirs + 1e-8, theirs).lines
    yours, torchs = line.split("yours ")[1].rstrip(".").split(", torch ")
    assert yours != torchs


@pytest.mark.parametrize(
    ("yours", "words"),
    [
        (lambda x: 2 * x, "Every value is 2 times torch's."),
        (lambda x: -x, "Every value is -1 times torch's."),
        (lambda x: x + 3, "Every value is torch's plus 3."),
        (lambda x: 0 * x, "Yours is all zeros."),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_patterns(yours, words, dtype):
    theirs = torch.tensor([1.0, 2.0, -4.0, 0.5], dtype=dtype)
    assert words in difference(yours(theirs), theirs).lines


def test_a_step_in_float32_is_recognized():
    theirs = torch.tensor([1 / 3, 2 / 7, -4.1, 0.5], dtype=torch.float64)
    lines = difference(theirs.float().double(), theirs).lines
    assert any("as if one step were done in float32" in line for line in lines)
    assert not any("float32" in line for line in difference(2 * theirs, theirs).lines)


def test_a_factor_of_one_is_not_worth_saying():
    theirs = torch.tensor([1.0, 2.0, -4.0, 0.5], dtype=torch.float64)
    lines = difference(theirs * (1 + 9e-7), theirs).lines
    assert lines and not any("times torch's" in line for line in lines)


def test_same_is_not_broadcast_and_forgives_rounding():
    x = torch.tensor([0.1, 0.2])
    assert same(x, x * (1 + 1e-7), 2) and not same(x, x[None], 2) and not same(x, x.double(), 2)
    assert same(0.1 + 0.2, 0.3, 3) and same(math.nan, math.nan) and not same(1, True) and not same("1", 1)
    assert not same((x,), (x, x))


def test_values_that_cannot_be_compared_are_not_equal():
    class Awkward:
        def __eq__(self, other):
            raise RuntimeError

        __hash__ = None

    assert not same(Awkward(), Awkward())


def test_flatten_names_places():
    paths = [path for path, _ in flatten({"a": (1, [2])})]
    assert paths == ["", "['a']", "['a'][0]", "['a'][1]", "['a'][1][0]"]
