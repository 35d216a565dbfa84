"""Predict what `x.grad` holds after one backward pass, after several, and after detours."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import torch


def _grad_after(run):
    """x.grad after a few lines, or the word "error"."""

    def truth():
        x = torch.tensor(3.0, requires_grad=True)
        try:
            run(x)
        except RuntimeError:
            return "error"
        return None if x.grad is None else x.grad.item()

    return truth


def _two_passes(x):
    (x * x).backward()
    (x * x).backward()


def _zero_between(x):
    (x * x).backward()
    x.grad = None
    (x * x).backward()


def _same_graph_twice(x):
    y = x * x
    y.backward()
    y.backward()


def _graph_retained(x):
    y = x * x
    y.backward(retain_graph=True)
    y.backward()


def _no_grad_inside(x):
    with torch.no_grad():
        y = x * x
    y.backward()


def _no_grad_part(x):
    with torch.no_grad():
        a = x * x
    (a * x).backward()


exercise = Predict(
    title="What accumulates when",
    minutes=8,
    needs=("w02.backward",),
    items={
        "a": Item("`(x * x).backward()`", _grad_after(lambda x: (x * x).backward())),
        "b": Item("`(x * x).backward()`, and the same line once more", _grad_after(_two_passes)),
        "c": Item("as b, with `x.grad = None` between the two", _grad_after(_zero_between)),
        "d": Item("`(x * x.detach()).backward()`", _grad_after(lambda x: (x * x.detach()).backward())),
        "e": Item("`y = x * x`, then `y.backward()` twice", _grad_after(_same_graph_twice)),
        "f": Item(
            "`y = x * x`, then `y.backward(retain_graph=True)`, then `y.backward()`",
            _grad_after(_graph_retained),
        ),
        "g": Item("`with torch.no_grad(): y = x * x`, then `y.backward()`", _grad_after(_no_grad_inside)),
        "h": Item("`with torch.no_grad(): a = x * x`, then `(a * x).backward()`", _grad_after(_no_grad_part)),
    },
    mistakes=[
        Mistake("value for slope", "a: 9 is the value; the slope of x * x at 3 is 6.", {"a": 9.0}),
        Mistake("one factor", "a: x is used twice, and both uses contribute: 3 + 3.", {"a": 3.0}),
        Mistake(
            "starts fresh",
            "b: backward adds to what is in x.grad. Nobody set it back.",
            {"b": 6.0},
        ),
        Mistake("None adds up", "c: None throws the first gradient away.", {"c": 12.0}),
        Mistake(
            "detach ignored",
            "d: x.detach() is the number 3 without a history: only the other factor contributes.",
            {"d": 6.0},
        ),
        Mistake(
            "graph kept",
            "e: after one backward torch throws away what it kept for it, to save memory. A second one fails.",
            {"e": 12.0},
        ),
        Mistake(
            "retain starts fresh",
            "f: retain_graph=True keeps the graph. The gradients add up as always.",
            {"f": 6.0},
        ),
        Mistake(
            "no_grad records",
            "g: under no_grad nothing is recorded: y has no history, and backward has nowhere to go.",
            {"g": 6.0},
        ),
        Mistake(
            "through no_grad",
            "h: a is a number without a history, 9. Only the x outside counts: the slope of 9 * x.",
            {"h": 27.0},
        ),
    ],
    hints=(
        "For each: which uses of x are recorded? Each recorded use contributes, and all of it is added to x.grad.",
        "Two of the eight are errors: a graph is used up by its first backward, and nothing is recorded under no_grad.",
        "a 6, b 12, c 6, d 3, f 12, h 9.",
    ),
    passed="An optimizer's zero_grad() sets every gradient to None between steps: that is all it does.",
)
