"""A backward pass by paths that passes on too much: name the fault and mend it."""

from labkit.exercises.declare import Case, Fix, Mistake, Rules, vary
from labkit.exercises.week02.shared import Formula, RightValue, slopes_by_torch


def _use_diamond(backward, formula, x, y):
    """Build a graph with the reference engine; the answer fills in the gradients."""
    x, y = RightValue(x), RightValue(y)
    backward(formula(x, y))
    return {"x.grad": float(x.grad), "y.grad": float(y.grad)}


def _diamond_truth(formula, x, y):
    found = slopes_by_torch(formula, x, y)
    return {"x.grad": found["slope by x"], "y.grad": found["slope by y"]}


def _diamond(node, arriving=1.0, add=True, send=None):
    """Recursive backward; `send` says what is passed on."""
    node.grad = arriving + (node.grad if add else 0.0)
    for parent, slope in zip(node.parents, node.local, strict=True):
        _diamond(parent, slope * (arriving if send is None else send(node)), add, send)


def _diamond_once(node, arriving=1.0, seen=None):
    """Visits each node once: what arrives later is not passed on."""
    seen = set() if seen is None else seen
    node.grad += arriving
    if id(node) not in seen:
        seen.add(id(node))
        for parent, slope in zip(node.parents, node.local, strict=True):
            _diamond_once(parent, slope * arriving, seen)


exercise = Fix(
    title="The diamond",
    minutes=10,
    needs=("w02.value",),
    also=("chain rule",),
    engine="python",
    cases=[
        Case("no fork", lambda draw: {"formula": Formula("(x * y) * 3 + 1"), "x": 2.0, "y": -3.5}),
        Case("fork at an input", lambda draw: {"formula": Formula("x * x + y"), "x": 1.5, "y": 2.0}),
        Case(
            "a diamond",
            lambda draw: {"formula": Formula("a = x * y; a * 2 + a"), "x": 2.0, "y": -3.5},
        ),
        Case(
            "two in a row",
            lambda draw: {
                "formula": Formula("a = x / y; b = a.tanh() + a; b * b + b"),
                "x": 0.7,
                "y": 1.25,
            },
        ),
    ],
    use=_use_diamond,
    oracle=_diamond_truth,
    rules=Rules(forbids=("tensor", "jacobian")),
    broken=vary(_diamond, send=lambda node: node.grad),
    fault="passes on node.grad",
    menu={
        "passes on node.grad": "",
        "adds instead of setting": "`+=` is right: a node that is used twice gets two contributions, and they add up.",
        "starts at the wrong node": "It starts at the result with 1.0, the slope of the result by itself. That is right.",
        "misses a parent": "Every parent is visited, once for each use. Count the visits of `a` in the picture: two.",
    },
    mistakes=[
        Mistake(
            "overwrites",
            "The last contribution to arrive replaces the others: they have to be added up.",
            vary(_diamond, add=False),
        ),
        Mistake(
            "visited once",
            "A node is passed through only once: what arrives at it later never reaches its parents.",
            _diamond_once,
        ),
        Mistake(
            "slope alone",
            "Only the slope of the last step is passed on: along a path the slopes multiply.",
            vary(_diamond, send=lambda node: 1.0),
        ),
        Mistake(
            "no seed",
            "Nothing starts at the result: its slope by itself is 1.0.",
            vary(_diamond, arriving=0.0),
        ),
    ],
    hints=(
        "Follow the visits of `a` by hand. What does it hold at the first visit, what at the second, and what does it pass on each time?",
        "At the second visit node.grad holds both contributions, and the first was already passed on. Pass on only what arrives now.",
        'fault = "passes on node.grad"; the last line is backward(parent, slope * arriving)',
    ),
    passed="Right, and slow: every path from the result to an input is walked by itself.",
    excused={"delegation": "the graph is made of objects that torch does not know"},
)
