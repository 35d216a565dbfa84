"""The nodes of a graph with parents before children, however deep it is."""

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.exercises.week02.shared import RightValue, order_breadth_first, parents_first


def _chain(length):
    """x + 1 + 1 + ...: a graph as deep as it is long."""
    node = RightValue(0.5)
    for _ in range(length):
        node = RightValue(node.data + 1, (node,), (1.0,), "add one")
    return node


def _ladder(rungs):
    """`rungs` diamonds in a row: 3 nodes each, and 2 ** rungs paths."""
    node = RightValue(0.5)
    for _ in range(rungs):
        node = node.apply("tanh") * node.apply("relu")
    return node


def _lopsided():
    """A long way and a short way to the same node: breadth first gets the order wrong."""
    x = RightValue(0.5)
    long_way = x.tanh().exp().tanh()
    return long_way * x


class _Graph:
    """A graph that is made when it is asked for, and prints as its description."""

    def __init__(self, text, make):
        self.text, self.make = text, make

    def __repr__(self):
        return self.text


class _Watched(RightValue):
    """Counts how often parents are asked for, and stops an answer that would never end."""

    looks = 0

    @property
    def parents(self):
        _Watched.looks += 1
        if _Watched.looks > 100_000:
            raise RuntimeError("stopped: the parents of nodes were asked for 100,000 times")
        return vars(self)["parents"]


def _use_order(topological_order, graph):
    root = graph.make()
    for node in parents_first(root):
        node.__class__ = _Watched
    _Watched.looks = 0
    order = list(topological_order(root))
    place = {id(node): k for k, node in enumerate(order)}
    pairs = [(parent, node) for node in order for parent in node.parents]
    return {
        "each node once": len(place) == len(order),
        "nodes": len(place),
        "parents before children": all(
            id(p) in place and place[id(p)] < place[id(node)] for p, node in pairs
        ),
    }


def _order_recursive(root, seen=None):
    seen = set() if seen is None else seen
    if id(root) in seen:
        return []
    seen.add(id(root))
    return [node for parent in root.parents for node in _order_recursive(parent, seen)] + [root]


def _order_with_repeats(root):
    order, waiting = [], [(root, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            order.append(node)
        else:
            waiting += [(node, True), *((parent, False) for parent in node.parents)]
    return order


exercise = Implement(
    title="Parents before children",
    minutes=12,
    needs=("w02.diamond",),
    also=("topological sort",),
    engine="python",
    cases=[
        Case("one number", lambda draw: {"graph": _Graph("Value(0.5)", lambda: RightValue(0.5))}),
        Case("a diamond", lambda draw: {"graph": _Graph("one diamond", lambda: _ladder(1))}),
        Case(
            "a long and a short way", lambda draw: {"graph": _Graph("x.tanh().exp().tanh() * x", _lopsided)}
        ),
        Case("40 diamonds in a row", lambda draw: {"graph": _Graph("40 diamonds", lambda: _ladder(40))}),
        Case(
            "deep",
            lambda draw: {"graph": _Graph("a chain of 5,000 operations", lambda: _chain(5_000))},
            extreme=True,
        ),
    ],
    use=_use_order,
    oracle=lambda graph: {
        "each node once": True,
        "nodes": len(parents_first(graph.make())),
        "parents before children": True,
    },
    reference="what an order must be",
    mistakes=[
        Mistake(
            "recursion",
            "The order is right, but the function calls itself once for each step down, and Python stops at 1,000.",
            _order_recursive,
        ),
        Mistake(
            "children first",
            "The order is reversed: the result comes first. Append a node only when its parents are in.",
            lambda root: parents_first(root)[::-1],
        ),
        Mistake(
            "breadth first",
            "Level by level is not enough: over a short way a node is reached before those on the long way to it.",
            order_breadth_first,
        ),
        Mistake(
            "seen not remembered",
            "Nodes that are used twice appear twice, and twice as often with every diamond: drop a node that was seen before.",
            _order_with_repeats,
        ),
        Mistake("only the result", "Only the result is in the list.", lambda root: [root]),
    ],
    hints=(
        "Keep a list of things to do. When you take a node from it, which two things are there to do?",
        "Put (node, True) back for later, then (parent, False) on top for each parent. True means: all parents are in, append it.",
        "node, done = waiting.pop(); if done: order.append(node); elif node not in seen: add it, put the pairs on the list.",
    ),
    passed="5,000 nodes deep is one sequence in a recurrent network of week 6: torch's engine uses no recursion either.",
    excused={"delegation": "torch has no function for it"},
)
