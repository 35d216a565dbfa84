"""Write a test for a function that normalizes rows."""

from labkit.exercises.declare import Mistake, WriteTest
from labkit.lazy import F, torch


def _lengths(x):
    return x.float().square().sum(1, keepdim=True).sqrt()


def _normalize(x):
    """Divides by the length where there is one."""
    lengths = _lengths(x)
    return x / torch.where(lengths == 0, 1.0, lengths)


def _normalize_no_zero(x):
    return x / _lengths(x)


def _normalize_in_place(x):
    if not x.is_floating_point():
        return _normalize(x)
    x /= _lengths(x).clamp(min=1e-12)
    return x


def _normalize_like_input(x):
    result = torch.zeros_like(x)
    result[:] = _normalize(x)
    return result


def _normalize_tries_first(x):
    """Adds the axis only when torch complains, and on a square matrix it does not."""
    lengths = _lengths(x).squeeze(1)
    lengths = torch.where(lengths == 0, 1.0, lengths)
    try:
        return x / lengths
    except RuntimeError:
        return x / lengths[:, None]


def _normalize_columns(x):
    return _normalize(x.T).T


def _normalize_whole(x):
    return x / x.float().norm().clamp(min=1e-12)


def _normalize_without_sign(x):
    return _normalize(x).abs()


def _normalize_only_long_rows(x):
    return x / _lengths(x).clamp(min=1.0)


def _check_lengths(normalize_rows):
    result = normalize_rows(torch.tensor([[3.0, 4.0, 0.0], [1.0, 2.0, 2.0]]))
    assert torch.allclose(result.norm(dim=1), torch.ones(2))


def _check_one_row(normalize_rows):
    assert torch.allclose(normalize_rows(torch.tensor([[3.0, 4.0]])), torch.tensor([[0.6, 0.8]]))


def _check_shape(normalize_rows):
    x = torch.tensor([[3.0, 4.0, 12.0], [1.0, 2.0, 2.0]])
    assert normalize_rows(x).shape == x.shape


def _check_division(normalize_rows):
    x = torch.tensor([[3.0, -4.0], [0.0, 0.5]])
    assert torch.allclose(normalize_rows(x), torch.tensor([[0.6, -0.8], [0.0, 1.0]]))


def _check_zero_row_is_one(normalize_rows):
    x = torch.tensor([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0]])
    assert torch.allclose(normalize_rows(x).norm(dim=1), torch.ones(2))


exercise = WriteTest(
    title="Write the test",
    minutes=12,
    needs=("w01.alias", "w01.silent_loss", "w01.shares"),
    good=[_normalize, lambda x: F.normalize(x if x.is_floating_point() else x.float(), dim=1)],
    bugs={
        "columns": ("it divides each column by its length.", _normalize_columns),
        "whole": ("it divides everything by one length, that of the whole matrix.", _normalize_whole),
        "square": (
            "on a square matrix it forgets `keepdim`; other shapes come out right.",
            _normalize_tries_first,
        ),
        "sign": ("it loses the sign of negative numbers.", _normalize_without_sign),
        "short": ("rows shorter than 1 stay as they are.", _normalize_only_long_rows),
        "zero": ("a row of zeros becomes NaN.", _normalize_no_zero),
        "in place": ("it changes its input.", _normalize_in_place),
        "whole numbers": ("whole numbers come out as whole numbers, cut off to 0.", _normalize_like_input),
    },
    mistakes=[
        Mistake(
            "values not compared",
            "Nothing fails where the values are wrong: compare the result with numbers you worked out, in an `assert`.",
            _check_shape,
        ),
        Mistake(
            "only the lengths",
            "The test looks at the lengths of the rows. Many wrong rows have length 1: compare the values with ones you worked out.",
            _check_lengths,
        ),
        Mistake(
            "one row",
            "With a single row, one length for the whole matrix and one for each row are the same. Use several rows.",
            _check_one_row,
        ),
        Mistake(
            "nothing accepted",
            "The test fails for every implementation: look at the line below. A row of zeros, for one, stays zeros.",
            _check_zero_row_is_one,
        ),
        Mistake(
            "division only",
            "The division is tested well. Not tested: a row of zeros, whole numbers, and whether x is left as it was.",
            _check_division,
        ),
    ],
    hints=(
        "Start with a matrix of two rows whose lengths you know, such as [3, -4] and [0, 0.5], and compare the values.",
        "Six inputs to think of: square, not square, negative, shorter than 1, zeros, whole numbers. And a clone of x to compare x with.",
        "before = x.clone(); y = normalize_rows(x); assert torch.equal(x, before); assert torch.allclose(y, ...)",
    ),
    passed="Each input of your test is there because of a bug it can see. That is what test data is for.",
)
