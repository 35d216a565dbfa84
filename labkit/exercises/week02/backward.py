"""The backward pass of the scalar engine."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week02.shared import (
    Formula,
    RightValue,
    order_breadth_first,
    parents_first,
    scalar_backward,
)
from labkit.lazy import torch


def _backward_cleared(root):
    for node in parents_first(root):
        node.grad = 0.0
    scalar_backward(root)


def _use_backward(backward, formula, x, y, graphs, calls):
    x, y = RightValue(x), RightValue(y)
    for _ in range(graphs):
        out = formula(x, y)
        for _ in range(calls):
            backward(out)
    return {"x.grad": float(x.grad), "y.grad": float(y.grad)}


def _backward_truth(formula, x, y, graphs, calls):
    x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, y))
    for _ in range(graphs):
        out = formula(x, y)
        for _ in range(calls):
            out.backward(retain_graph=True)
    return {"x.grad": x.grad.item(), "y.grad": y.grad.item()}


def _backward_case(name, text, x, y, graphs=1, calls=1):
    """`graphs`: how often the formula is computed anew; `calls`: how often backward is called on each."""
    inputs = {"formula": Formula(text), "x": x, "y": y, "graphs": graphs, "calls": calls}
    return Case(name, lambda draw: inputs)


exercise = Implement(
    title="Backward",
    minutes=10,
    needs=("w02.topological",),
    also=(
        "backpropagation",
        "backprop",
        "gradient",
    ),
    engine="python",
    cases=[
        _backward_case("a product", "x * y", 2.0, -3.5),
        _backward_case("used twice", "x * x + y", 1.5, 2.0),
        _backward_case("a diamond", "a = x * y; a * 2 + a", 2.0, -3.5),
        _backward_case("a long and a short way", "a = x / y; a.tanh().exp() * a", 0.7, 1.25),
        _backward_case("two graphs", "x * y + x", 2.0, -3.5, graphs=2),
        _backward_case("twice on one graph", "(x * y + 1).tanh() * y", 0.5, 0.3, calls=2),
    ],
    use=_use_backward,
    oracle=_backward_truth,
    rules=Rules(forbids=("tensor", "jacobian")),
    mistakes=[
        Mistake(
            "overwrites",
            "The last contribution replaces the others: an input that is used twice needs the sum, `+=`.",
            vary(scalar_backward, overwrite=True),
        ),
        Mistake(
            "no seed",
            "All gradients stay 0, because nothing starts at the result: set root.grad = 1.0.",
            vary(scalar_backward, seed=0.0),
        ),
        Mistake(
            "wrong order",
            "The nodes are visited from the inputs to the result: at that time the later gradients are not there yet.",
            vary(scalar_backward, order=lambda root: parents_first(root)[::-1]),
        ),
        Mistake(
            "level by level",
            "A node is passed on before all of its gradient has arrived: use topological_order.",
            vary(scalar_backward, order=order_breadth_first),
        ),
        Mistake(
            "old gradients inside",
            "On the second call the nodes in the middle still hold the gradients of the first, and pass them on again.",
            vary(scalar_backward, keep_inner=True),
        ),
        Mistake(
            "cleared everywhere",
            "The gradients of x and y are set to 0 first. Those without parents keep what they have and add to it.",
            _backward_cleared,
        ),
    ],
    hints=(
        "Walk topological_order(root) from the back. At each node, every parent gets its local derivative times node.grad.",
        "Before that: node.grad = 0.0 for every node that has parents, then root.grad = 1.0.",
        "for parent, slope in zip(node.parents, node.local): parent.grad += slope * node.grad",
    ),
    passed="Two loops over the graph: one gradient costs about as much as one evaluation, however many inputs there are.",
)
