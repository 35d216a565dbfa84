"""A division in place that overwrites what exp kept: name the fault and mend it."""

from labkit.exercises.declare import Case, Fix, Mistake, Rules
from labkit.lazy import torch


def _shares_in_place(x):
    y = torch.exp(x)
    y /= y.sum(dim=1, keepdim=True)
    return y


def _shares_behind_the_back(x):
    y = torch.exp(x)
    y.data /= y.data.sum(dim=1, keepdim=True)
    return y


def _shares_without_grad(x):
    with torch.no_grad():
        return _shares_in_place(x)


def _shares_exp_in_place(x):
    y = x.exp_()
    return y / y.sum(dim=1, keepdim=True)


exercise = Fix(
    title="Overwritten",
    minutes=8,
    needs=("w02.kept",),
    cases=[
        Case("3 by 4", lambda draw: {"x": draw.normal(3, 4)}),
        Case("2 by 5", lambda draw: {"x": draw.normal(2, 5)}),
        Case("transposed", lambda draw: {"x": draw.transposed(4, 3)}),
        Case("one row", lambda draw: {"x": draw.normal(1, 7)}),
    ],
    oracle=lambda x: torch.softmax(x, dim=1),
    grads=("x",),
    rules=Rules(forbids=("softmax", "log_softmax", "logsumexp", "Softmax")),
    broken=_shares_in_place,
    fault="/= overwrites what exp kept",
    menu={
        "/= overwrites what exp kept": "",
        "sum has no gradient": "sum has one: every term has the slope 1.",
        "x must not require a gradient": "x asks for a gradient, and should get one; that is the point.",
        "the graph was used twice": "backward was called once. The message for a second call says so in other words.",
    },
    mistakes=[
        Mistake(
            "behind the back",
            "`.data` or `.detach()` hides the division from torch: no error any more, and a wrong gradient instead. Worse than before.",
            _shares_behind_the_back,
        ),
        Mistake(
            "no_grad",
            "Under no_grad there is nothing to overwrite, because nothing is recorded: no gradient reaches x.",
            _shares_without_grad,
        ),
        Mistake(
            "wrong axis",
            "The shares of each column add up to 1 now; the rows should.",
            lambda x: torch.exp(x) / torch.exp(x).sum(dim=0, keepdim=True),
        ),
        Mistake(
            "exp in place",
            "`exp_` writes over x itself, which belongs to the caller.",
            _shares_exp_in_place,
        ),
    ],
    hints=(
        "The message says that `output 0 of Exp` was changed after it was made. Which line changes the output of exp?",
        "exp keeps its result for backward, and `/=` writes over it. `/` makes a new tensor.",
        'fault = "/= overwrites what exp kept"; return y / y.sum(dim=1, keepdim=True)',
    ),
    passed="torch counts the writes to every tensor (`y._version`) and compares before it uses what it kept.",
)
