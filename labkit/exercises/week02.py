"""Week 2: autograd. A scalar engine, a tensor engine, torch's own API, and the clinic."""

import math
import operator

import numpy as np

from labkit.exercises.declare import (
    Case,
    Fix,
    Implement,
    Item,
    Measure,
    Mistake,
    Predict,
    Rules,
    WriteTest,
)
from labkit.lazy import torch

# torch under every name that would do the work of this week, for answers made of plain numbers and arrays
_NO_TORCH = ("tensor", "as_tensor", "from_numpy", "requires_grad", "grad", "backward", "jacobian", "vjp")


class _Formula:
    """A function that prints as its text: _Formula("a = x * y; a + 1")(2.0, 3.0) is 7.0."""

    def __init__(self, text, names="xy"):
        self.text, self.names = text, names

    def __call__(self, *values):
        space = dict(zip(self.names, values, strict=False))
        *steps, last = self.text.split("; ")
        for step in steps:
            name, right = step.split(" = ")
            space[name] = self._evaluate(right, space)
        return self._evaluate(last, space)

    def _evaluate(self, text, space):
        # compiled as a part of this file, so that an error is not taken for a line of the learner's
        return eval(compile(text, __file__, "eval"), {}, space)

    def __repr__(self):
        return self.text


# 01 scalar autograd

_cubic = _Formula("x * x * x - 2 * x")


def _difference_truth(f, x, eps):
    """The central difference itself, in torch's float64."""
    at = torch.tensor(x, dtype=torch.float64)
    return float((f(at + eps) - f(at - eps)) / (2 * eps))


central_difference = Implement(
    id="w02.central_difference",
    title="A slope from two points",
    minutes=4,
    level=1,
    engine="python",
    cases=[
        Case("a cubic", lambda draw: {"f": _cubic, "x": 1.5, "eps": 1e-2}),
        Case("left of zero", lambda draw: {"f": _cubic, "x": -0.7, "eps": 1e-3}),
        Case("a wide step", lambda draw: {"f": _cubic, "x": 0.4, "eps": 0.5}),
    ],
    oracle=_difference_truth,
    rules=Rules(forbids=("grad", "backward", "jacobian", "gradient")),
    delegate=lambda f, x, eps: float(
        torch.autograd.functional.jacobian(f, torch.tensor(x, dtype=torch.float64))
    ),
    mistakes=[
        Mistake(
            "one-sided",
            "This is the forward difference: one point lies at x itself. Step eps to both sides.",
            lambda f, x, eps: (f(x + eps) - f(x)) / eps,
        ),
        Mistake(
            "divided by eps",
            "The two points are 2 * eps apart; dividing by eps doubles the slope.",
            lambda f, x, eps: (f(x + eps) - f(x - eps)) / eps,
        ),
        Mistake(
            "multiplied by eps",
            "`/ 2 * eps` divides by 2 and then multiplies by eps: put 2 * eps in parentheses.",
            lambda f, x, eps: (f(x + eps) - f(x - eps)) / 2 * eps,
        ),
        Mistake(
            "wrong sign",
            "The sign is turned: the value on the right minus the value on the left.",
            lambda f, x, eps: (f(x - eps) - f(x + eps)) / (2 * eps),
        ),
        Mistake(
            "not divided",
            "This is the rise; the slope is the rise divided by the distance.",
            lambda f, x, eps: f(x + eps) - f(x - eps),
        ),
    ],
    hints=(
        "A slope is rise over run. Which two points, and how far apart are they?",
        "Rise: f(x + eps) - f(x - eps). Run: 2 * eps.",
        "return (f(x + eps) - f(x - eps)) / (2 * eps)",
    ),
    passed="Its error shrinks with eps squared; the one-sided difference only with eps.",
)


def _accept_epsilon(value):
    if 1e-7 < value < 1e-4:
        return None
    return f"{value:g} is not near the bottom of the float64 curve."


epsilon = Measure(
    id="w02.epsilon",
    title="Which eps?",
    minutes=6,
    level=1,
    needs=("w02.central_difference",),
    accept=_accept_epsilon,
    mistakes=[
        Mistake(
            "float32",
            "That is the bottom of the float32 curve. Python's own floats are float64.",
            5e-3,
            when=lambda value: 1e-3 <= value <= 2e-2,
        ),
        Mistake(
            "as small as possible",
            "This far to the left the two values agree in nearly all digits: their difference is mostly rounding.",
            1e-12,
            when=lambda value: 0 < value <= 1e-7,
        ),
        Mistake(
            "too wide",
            "This far to the right the curve bends between the two points: the error grows with eps squared.",
            0.1,
            when=lambda value: value >= 1e-4,
        ),
        Mistake(
            "the exponent",
            "This is an exponent; the answer is a step such as 1e-3.",
            -5,
            when=lambda value: value < 0,
        ),
        Mistake("zero", "With eps = 0 there is nothing to divide by.", 0.0),
    ],
    hints=(
        "Look for the lowest point of the float64 curve in the figure.",
        "Two errors fight: rounding grows to the left, bending grows to the right.",
        "The lowest point lies near the cube root of the spacing of float64: sys.float_info.epsilon ** (1 / 3).",
    ),
    passed="In float32 even the best step leaves an error of 1e-6: gradient checks are done in float64.",
)

_FORWARD = {
    "add": operator.add,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
    "exp": math.exp,
    "log": math.log,
    "tanh": math.tanh,
    "relu": lambda a: max(a, 0.0),
}


def _local_truth(op, *numbers):
    inputs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in numbers]
    if op == "pow":  # the exponent is a constant in this engine
        inputs[1] = numbers[1]
    forward = {**_FORWARD, **{name: getattr(torch, name) for name in ("exp", "log", "tanh", "relu")}}
    grads = torch.autograd.grad(forward[op](*inputs), [x for x in inputs if not isinstance(x, float)])
    return tuple(float(g) for g in grads)


def _local(op, *numbers, **wrong):
    """The right local derivatives, with some of them replaced."""
    a, b = (*numbers, 0.0)[:2]
    right = {
        "add": lambda: (1.0, 1.0),
        "mul": lambda: (b, a),
        "div": lambda: (1 / b, -a / b**2),
        "pow": lambda: (b * a ** (b - 1),),
        "exp": lambda: (math.exp(a),),
        "log": lambda: (1 / a,),
        "tanh": lambda: (1 - math.tanh(a) ** 2,),
        "relu": lambda: (1.0 if a > 0 else 0.0,),
    }
    return wrong[op](a, b) if op in wrong else right[op]()


local = Implement(
    id="w02.local",
    title="Eight local derivatives",
    minutes=10,
    level=1,
    needs=("w02.central_difference",),
    engine="python",
    cases=[
        Case("add", lambda draw: {"op": "add", "a": 2.0, "b": -3.5}),
        Case("mul", lambda draw: {"op": "mul", "a": 2.0, "b": -3.5}),
        Case("div", lambda draw: {"op": "div", "a": 3.0, "b": -1.5}),
        Case("pow", lambda draw: {"op": "pow", "a": 1.5, "b": 3.0}),
        Case("exp", lambda draw: {"op": "exp", "a": 0.7}),
        Case("log", lambda draw: {"op": "log", "a": 2.5}),
        Case("tanh", lambda draw: {"op": "tanh", "a": -0.6}),
        Case("relu, positive", lambda draw: {"op": "relu", "a": 0.6}),
        Case("relu, negative", lambda draw: {"op": "relu", "a": -0.4}),
        Case("relu at zero", lambda draw: {"op": "relu", "a": 0.0}, extreme=True),
    ],
    oracle=_local_truth,
    rules=Rules(forbids=("grad", "backward", "jacobian")),
    mistakes=[
        Mistake(
            "factors not swapped",
            "For a product, the derivative by a is b, and the derivative by b is a.",
            lambda op, *numbers: _local(op, *numbers, mul=lambda a, b: (a, b)),
        ),
        Mistake(
            "quotient sign",
            "The derivative of a / b by b is negative: a larger b makes the quotient smaller.",
            lambda op, *numbers: _local(op, *numbers, div=lambda a, b: (1 / b, a / b**2)),
        ),
        Mistake(
            "quotient not squared",
            "The derivative of a / b by b has b squared below the line.",
            lambda op, *numbers: _local(op, *numbers, div=lambda a, b: (1 / b, -a / b)),
        ),
        Mistake(
            "power not lowered",
            "The exponent goes down by one: the derivative of a**b is b * a**(b - 1).",
            lambda op, *numbers: _local(op, *numbers, pow=lambda a, b: (b * a**b,)),
        ),
        Mistake(
            "two for pow",
            "The exponent is a constant here, not an input: pow has one derivative.",
            lambda op, *numbers: _local(
                op, *numbers, pow=lambda a, b: (b * a ** (b - 1), a**b * math.log(a))
            ),
        ),
        Mistake(
            "tanh of a",
            "The derivative of tanh is 1 - tanh(a)**2, with the value of tanh in it, not a itself.",
            lambda op, *numbers: _local(op, *numbers, tanh=lambda a, b: (1 - a**2,)),
        ),
        Mistake(
            "relu passes all",
            "relu is flat left of zero: its slope there is 0.",
            lambda op, *numbers: _local(op, *numbers, relu=lambda a, b: (1.0,)),
        ),
        Mistake(
            "relu at zero",
            "At exactly 0, torch takes the slope 0: use a > 0, not a >= 0.",
            lambda op, *numbers: _local(op, *numbers, relu=lambda a, b: (1.0 if a >= 0 else 0.0,)),
        ),
    ],
    hints=(
        "Two inputs, two derivatives: hold one fixed and wiggle the other. Check yourself with central_difference.",
        "mul: (b, a). div: (1 / b, -a / b**2). pow: one derivative, b * a**(b - 1). tanh: 1 - tanh(a)**2.",
        "exp: (math.exp(a),). log: (1 / a,). relu: (1.0 if a > 0 else 0.0,). add: (1.0, 1.0).",
    ),
    passed="This table is all the calculus an autograd engine knows; the chain rule does the rest.",
)


class _Value:
    """The right scalar engine. Wrong ones are made from it."""

    def __init__(self, data, parents=(), local=(), op=""):
        self.data, self.grad = float(data), 0.0
        self.parents, self.local, self.op = tuple(parents), tuple(local), op

    def apply(self, op, *others):
        kind = type(self)
        values = [self, *(other if isinstance(other, kind) else kind(other) for other in others)]
        numbers = [value.data for value in values]
        slopes = _local(op, *numbers)
        return kind(_FORWARD[op](*numbers), values[: len(slopes)], slopes, op)

    def __add__(self, other):
        return self.apply("add", other)

    def __mul__(self, other):
        return self.apply("mul", other)

    def __truediv__(self, other):
        return self.apply("div", other)

    def __pow__(self, exponent):
        return self.apply("pow", exponent)

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + other * -1

    def __rsub__(self, other):
        return -self + other

    def __rtruediv__(self, other):
        return type(self)(other) / self

    def tanh(self):
        return self.apply("tanh")

    def exp(self):
        return self.apply("exp")

    __radd__, __rmul__ = __add__, __mul__


def _order(root):
    """Parents before children, without recursion."""
    order, seen, waiting = [], set(), [(root, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            waiting.append((node, True))
            waiting.extend((parent, False) for parent in node.parents)
    return order


def _backward(root, order=_order, seed=1.0, overwrite=False, keep_inner=False):
    """Backward of the scalar engine, with a switch for each way to get it wrong."""
    nodes = order(root)
    for node in nodes:
        if node.parents and not keep_inner:
            node.grad = 0.0
    root.grad = seed
    for node in reversed(nodes):
        for parent, slope in zip(node.parents, node.local, strict=True):
            parent.grad = slope * node.grad + (0.0 if overwrite else parent.grad)


def _slopes(formula, x, y):
    """The value of a formula and its slope by each input, from torch in float64."""
    inputs = [torch.tensor(number, dtype=torch.float64, requires_grad=True) for number in (x, y)]
    out = formula(*inputs)
    by_x, by_y = torch.autograd.grad(out, inputs, allow_unused=True)
    return {
        "data": out.item(),
        "slope by x": 0.0 if by_x is None else by_x.item(),
        "slope by y": 0.0 if by_y is None else by_y.item(),
    }


def _use_value(Value, formula, x, y):
    """Compute with the learner's class; walk its parents and local derivatives to find the slopes."""
    x, y = Value(x), Value(y)
    out = formula(x, y)
    _backward(out)
    return {"data": out.data, "slope by x": float(x.grad), "slope by y": float(y.grad)}


def _wrong_value(**members):
    """A class like _Value with some members replaced; None takes one away."""
    kept = {name: member for name, member in vars(_Value).items() if name not in members}
    return type("Value", (), {**kept, **{name: m for name, m in members.items() if m is not None}})


class _TorchValue:
    """A Value that leaves the work to torch."""

    def __init__(self, data, tensor=None):
        self.tensor = torch.tensor(data, dtype=torch.float64) if tensor is None else tensor
        self.parents, self.local, self.grad = (), (), 0.0

    @property
    def data(self):
        return float(self.tensor)

    def __add__(self, other):
        return type(self)(0.0, self.tensor + (other.tensor if isinstance(other, _TorchValue) else other))

    __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __pow__ = __add__

    def __neg__(self):
        return self


def _value_case(formula, **more):
    return Case(formula, lambda draw: {"formula": _Formula(formula), "x": 2.0, "y": -3.5}, **more)


value = Implement(
    id="w02.value",
    title="A number that remembers",
    minutes=12,
    level=2,
    needs=("w02.local",),
    engine="python",
    cases=[
        _value_case("x + y"),
        _value_case("x * y"),
        _value_case("x - y"),
        _value_case("x / y"),
        _value_case("x ** 3"),
        _value_case("-x"),
        _value_case("x * x + y"),
        _value_case("x + 1.5"),
        _value_case("y - 4"),
        _value_case("2 + x"),
        _value_case("3 * y"),
        _value_case("5 - x"),
        _value_case("1 / y"),
    ],
    use=_use_value,
    oracle=_slopes,
    delegate=_TorchValue,
    rules=Rules(forbids=("tensor", "as_tensor", "from_numpy")),
    mistakes=[
        Mistake(
            "reflected missing",
            "In `2 + x` Python asks the number first, then x with `__radd__`. Give each operator its reflected form.",
            _wrong_value(__radd__=None, __rmul__=None, __rsub__=None, __rtruediv__=None),
        ),
        Mistake(
            "two reflected missing",
            "`2 + x` and `3 * y` work now. `5 - x` asks for `__rsub__`, and `1 / y` for `__rtruediv__`.",
            _wrong_value(__rsub__=None, __rtruediv__=None),
        ),
        Mistake(
            "reflected in the wrong order",
            "`__rsub__(self, other)` is called for `other - self`: here the two are the other way around.",
            _wrong_value(
                __rsub__=lambda self, other: self - other, __rtruediv__=lambda self, other: self / other
            ),
        ),
        Mistake(
            "rsub turned",
            "`__rsub__(self, other)` is called for `other - self`: here the two are the other way around.",
            _wrong_value(__rsub__=lambda self, other: self - other),
        ),
        Mistake(
            "rtruediv turned",
            "`__rtruediv__(self, other)` is called for `other / self`: here the two are the other way around.",
            _wrong_value(__rtruediv__=lambda self, other: self / other),
        ),
        Mistake(
            "rtruediv missing",
            "The other reflected methods are there. `1 / y` asks for `__rtruediv__`.",
            _wrong_value(__rtruediv__=None),
        ),
        Mistake(
            "history lost in differences",
            "`-x` is a new Value without parents, and each difference that uses it loses its history: `-x` is `x * -1`.",
            _wrong_value(
                __neg__=lambda self: type(self)(-self.data),
                __sub__=lambda self, other: self + -other,
                __rsub__=lambda self, other: -self + other,
            ),
        ),
        Mistake(
            "history lost",
            "The number is right, but `-x` is a new Value without parents: no gradient can find its way back to x.",
            _wrong_value(__neg__=lambda self: type(self)(-self.data)),
        ),
        Mistake(
            "minus is plus",
            "The second number of a difference is added.",
            _wrong_value(__sub__=lambda self, other: self + other),
        ),
        Mistake(
            "plain numbers refused",
            "`y - 4` mixes a Value and a number, and a number has no `.data`: let `apply` take care of it.",
            _wrong_value(__sub__=lambda self, other: self + -other.data),
        ),
    ],
    hints=(
        "Five operators are one call of `apply` each. `-x` is x * -1, and a - b is a + (-b).",
        "For the reflected ones: a sum and a product may be swapped, a difference and a quotient may not.",
        "def __rsub__(self, other): return Value(other) - self. The same with / for __rtruediv__; __radd__ = __add__.",
    ),
    passed="torch's tensors have the same four reflected methods, for the same reason.",
)


def _use_diamond(backward, formula, x, y):
    """Build a graph with the reference engine; the answer fills in the gradients."""
    x, y = _Value(x), _Value(y)
    backward(formula(x, y))
    return {"x.grad": float(x.grad), "y.grad": float(y.grad)}


def _diamond_truth(formula, x, y):
    found = _slopes(formula, x, y)
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


diamond = Fix(
    id="w02.diamond",
    title="The diamond",
    minutes=10,
    level=2,
    needs=("w02.value",),
    engine="python",
    cases=[
        Case("no fork", lambda draw: {"formula": _Formula("(x * y) * 3 + 1"), "x": 2.0, "y": -3.5}),
        Case("fork at an input", lambda draw: {"formula": _Formula("x * x + y"), "x": 1.5, "y": 2.0}),
        Case(
            "a diamond",
            lambda draw: {"formula": _Formula("a = x * y; a * 2 + a"), "x": 2.0, "y": -3.5},
        ),
        Case(
            "two in a row",
            lambda draw: {
                "formula": _Formula("a = x / y; b = a.tanh() + a; b * b + b"),
                "x": 0.7,
                "y": 1.25,
            },
        ),
    ],
    use=_use_diamond,
    oracle=_diamond_truth,
    rules=Rules(forbids=("tensor", "jacobian")),
    broken=lambda node: _diamond(node, send=lambda node: node.grad),
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
            lambda node: _diamond(node, add=False),
        ),
        Mistake(
            "visited once",
            "A node is passed through only once: what arrives at it later never reaches its parents.",
            _diamond_once,
        ),
        Mistake(
            "slope alone",
            "Only the slope of the last step is passed on: along a path the slopes multiply.",
            lambda node: _diamond(node, send=lambda node: 1.0),
        ),
        Mistake(
            "no seed",
            "Nothing starts at the result: its slope by itself is 1.0.",
            lambda node: _diamond(node, 0.0),
        ),
    ],
    hints=(
        "Follow the visits of `a` by hand. What does it hold at the first visit, what at the second, and what does it pass on each time?",
        "At the second visit node.grad holds both contributions, and the first was already passed on. Pass on only what arrives now.",
        'fault = "passes on node.grad"; the last line is backward(parent, slope * arriving)',
    ),
    passed="Right, and slow: every path from the result to an input is walked by itself.",
    lint={"delegation": "the graph is made of objects that torch does not know"},
)


def _chain(length):
    """x + 1 + 1 + ...: a graph as deep as it is long."""
    node = _Value(0.5)
    for _ in range(length):
        node = _Value(node.data + 1, (node,), (1.0,), "add one")
    return node


def _ladder(rungs):
    """`rungs` diamonds in a row: 3 nodes each, and 2 ** rungs paths."""
    node = _Value(0.5)
    for _ in range(rungs):
        node = node.apply("tanh") * node.apply("relu")
    return node


def _lopsided():
    """A long way and a short way to the same node: breadth first gets the order wrong."""
    x = _Value(0.5)
    long_way = x.tanh().exp().tanh()
    return long_way * x


class _Graph:
    """A graph that is made when it is asked for, and prints as its description."""

    def __init__(self, text, make):
        self.text, self.make = text, make

    def __repr__(self):
        return self.text


class _Watched(_Value):
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
    for node in _order(root):
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


def _order_breadth_first(root):
    order, seen = [root], {id(root)}
    for node in order:
        for parent in node.parents:
            if id(parent) not in seen:
                seen.add(id(parent))
                order.append(parent)
    return order[::-1]


def _order_with_repeats(root):
    order, waiting = [], [(root, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            order.append(node)
        else:
            waiting += [(node, True), *((parent, False) for parent in node.parents)]
    return order


topological = Implement(
    id="w02.topological",
    title="Parents before children",
    minutes=12,
    level=3,
    needs=("w02.diamond",),
    engine="python",
    cases=[
        Case("one number", lambda draw: {"graph": _Graph("Value(0.5)", lambda: _Value(0.5))}),
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
        "nodes": len(_order(graph.make())),
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
            lambda root: _order(root)[::-1],
        ),
        Mistake(
            "breadth first",
            "Level by level is not enough: over a short way a node is reached before those on the long way to it.",
            _order_breadth_first,
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
    lint={"delegation": "torch has no function for it"},
)


def _backward_cleared(root):
    for node in _order(root):
        node.grad = 0.0
    _backward(root)


def _use_backward(backward, formula, x, y, graphs, calls):
    x, y = _Value(x), _Value(y)
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
    inputs = {"formula": _Formula(text), "x": x, "y": y, "graphs": graphs, "calls": calls}
    return Case(name, lambda draw: inputs)


backward = Implement(
    id="w02.backward",
    title="Backward",
    minutes=10,
    level=2,
    needs=("w02.topological",),
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
            lambda root: _backward(root, overwrite=True),
        ),
        Mistake(
            "no seed",
            "All gradients stay 0, because nothing starts at the result: set root.grad = 1.0.",
            lambda root: _backward(root, seed=0.0),
        ),
        Mistake(
            "wrong order",
            "The nodes are visited from the inputs to the result: at that time the later gradients are not there yet.",
            lambda root: _backward(root, order=lambda root: _order(root)[::-1]),
        ),
        Mistake(
            "level by level",
            "A node is passed on before all of its gradient has arrived: use topological_order.",
            lambda root: _backward(root, order=_order_breadth_first),
        ),
        Mistake(
            "old gradients inside",
            "On the second call the nodes in the middle still hold the gradients of the first, and pass them on again.",
            lambda root: _backward(root, keep_inner=True),
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


accumulate = Predict(
    id="w02.accumulate",
    title="What accumulates when",
    minutes=8,
    level=2,
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


# 02 tensor autograd: an operation is a function of arrays that returns (value, backward)


def _by_torch(oracle, count):
    """An answer that hands the work to torch; the first `count` inputs want gradients."""

    def delegated(*inputs):
        arrays = [torch.from_numpy(x.copy()).requires_grad_() for x in inputs[:count]]
        out = oracle(*arrays, *inputs[count:])
        return out.detach().numpy(), lambda g: torch.autograd.grad(out, arrays, torch.from_numpy(g))

    return delegated


def _jacobian_shape():
    f = _Formula("x[:2] * x[2]")
    return tuple(torch.autograd.functional.jacobian(f, torch.arange(3.0)).shape)


def _rows_needed(outputs):
    """One vector-Jacobian product gives one row of the Jacobian."""
    return lambda: outputs


def _nonzero():
    jacobian = torch.autograd.functional.jacobian(lambda x: x * x, torch.arange(1.0, 1001.0))
    return int((jacobian != 0).sum())


products = Predict(
    id="w02.products",
    title="Which product?",
    minutes=8,
    level=2,
    needs=("w02.backward",),
    items={
        "a": Item("`f` takes 3 numbers and returns 2. The shape of its Jacobian?", _jacobian_shape),
        "b": Item("The shape of `v` in `J @ v`?", lambda: _jacobian_shape()[1:]),
        "c": Item("The shape of `g` in `g @ J`?", lambda: _jacobian_shape()[:1]),
        "d": Item("The shape of `g @ J`?", lambda: (torch.zeros(2) @ torch.zeros(_jacobian_shape())).shape),
        "e": Item(
            "A network has 1,000,000 weights and one loss. How many products `g @ J` give the slope by every weight?",
            _rows_needed(1),
        ),
        "f": Item("How many products `J @ v` would it take?", _rows_needed(1_000_000)),
        "g": Item(
            'A function takes 5 numbers and returns 10,000. Which gives its whole Jacobian in fewer products, `"J @ v"` or `"g @ J"`?',
            lambda: "J @ v",
        ),
        "h": Item(
            "`y = x * x` for 1,000 numbers: how many of the 1,000,000 entries of its Jacobian are not zero?",
            _nonzero,
        ),
    },
    mistakes=[
        Mistake("transposed", "a: one row for each output, one column for each input.", {"a": (3, 2)}),
        Mistake("v is an output", "b: v is a change of the inputs, and there are 3 of them.", {"b": (2,)}),
        Mistake("g is an input", "c: g holds one slope for each output, and there are 2.", {"c": (3,)}),
        Mistake(
            "still an output", "d: g @ J goes back to the inputs: one slope for each of them.", {"d": (2,)}
        ),
        Mistake(
            "one for each weight",
            "e: the Jacobian has a single row, and one product g @ J gives a whole row.",
            {"e": 1_000_000},
        ),
        Mistake(
            "one is enough",
            "f: one product J @ v gives the slope in one direction: a single column for each weight.",
            {"f": 1},
        ),
        Mistake(
            "backward is always cheaper",
            "g: with few inputs and many outputs it is the other way around: 5 products J @ v, or 10,000 of the other.",
            {"g": "g @ J"},
        ),
        Mistake(
            "all of them",
            "h: each output depends on one input only: the million entries are a diagonal and zeros.",
            {"h": 1_000_000},
        ),
    ],
    hints=(
        "The Jacobian has one row per output and one column per input.",
        "g @ J needs a g with one number per output, and gives one row for g = (0, ..., 1, ..., 0).",
        "A loss is one output: its Jacobian is one row, and backward gives it at once.",
    ),
    passed="Training has one output and millions of inputs: that is why deep learning runs backward.",
)


def _unbroadcast(g, shape):
    extra = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(extra)))
    return g.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)


def _unbroadcast_kept_axes_lost(g, shape):
    extra = g.ndim - len(shape)
    kept = tuple(extra + axis for axis, size in enumerate(shape) if size == 1)
    return np.asarray(g.sum(axis=(*range(extra), *kept)))


def _unbroadcast_first(g, shape):
    """Takes one of the repeats instead of their sum."""
    while g.ndim > len(shape):
        g = g[0]
    for axis, size in enumerate(shape):
        if size == 1:
            g = g.take([0], axis)
    return g.copy()


unbroadcast = Implement(
    id="w02.unbroadcast",
    title="Back through a stretched axis",
    minutes=10,
    level=2,
    needs=("w01.expand",),
    engine="numpy",
    dtype="float64",
    cases=[
        Case("a row", lambda draw: {"g": draw.normal(4, 3), "shape": (3,)}),
        Case("a column", lambda draw: {"g": draw.normal(4, 5), "shape": (4, 1)}),
        Case("both", lambda draw: {"g": draw.normal(5, 2, 4, 3), "shape": (2, 1, 3)}),
        Case("one in front", lambda draw: {"g": draw.normal(6, 3, 2), "shape": (1, 3, 2)}),
        Case("nothing was stretched", lambda draw: {"g": draw.normal(2, 5), "shape": (2, 5)}),
        Case("a number", lambda draw: {"g": draw.normal(2, 3), "shape": ()}),
        Case("size 1 all along", lambda draw: {"g": draw.normal(4, 1, 3), "shape": (1, 3)}),
        Case("not contiguous", lambda draw: {"g": draw.transposed(5, 4), "shape": (1, 4)}),
        Case("an empty batch", lambda draw: {"g": draw.normal(0, 3), "shape": (3,)}, extreme=True),
    ],
    oracle=lambda g, shape: g.sum_to_size(shape),
    memory="any",
    rules=Rules(forbids=("sum_to_size", "unbroadcast", *_NO_TORCH)),
    mistakes=[
        Mistake(
            "size 1 missed",
            "Only the axes in front were summed. An axis of size 1 that was stretched has to shrink back to 1.",
            lambda g, shape: np.asarray(g.sum(axis=tuple(range(g.ndim - len(shape))))),
        ),
        Mistake(
            "size 1 lost",
            "The sums are right, but an axis of size 1 has disappeared: keepdims=True keeps it.",
            _unbroadcast_kept_axes_lost,
        ),
        Mistake(
            "mean",
            "The repeats are averaged. Each of them was used, and each contributes its whole gradient: sum.",
            lambda g, shape: _unbroadcast(g, shape) * (math.prod(shape) / max(g.size, 1)),
        ),
        Mistake(
            "one of them",
            "This is the gradient of a single repeat: they all belong to the same number, so add them up.",
            _unbroadcast_first,
        ),
        Mistake(
            "always axis 0",
            "Axis 0 is summed whatever `shape` says. Compare g.shape with it from the right: which axes were stretched?",
            lambda g, shape: np.asarray(g.sum(axis=0)),
        ),
        Mistake(
            "summed at the end",
            "The extra axes are at the front, because shapes are aligned at the right; here the last ones were summed.",
            lambda g, shape: np.asarray(
                g.sum(axis=tuple(range(len(shape), g.ndim)))
                if len(shape) < g.ndim
                else _unbroadcast(g, shape)
            ),
        ),
    ],
    hints=(
        "The gradient of a stretched input is the sum over its repeats. Which axes were repeated?",
        "First the axes in front that shape lacks; then, with keepdims=True, every axis where shape has a 1.",
        "g = g.sum(axis=tuple(range(g.ndim - len(shape)))), then g.sum(axis=..., keepdims=True) where the size is 1.",
    ),
    passed="The gradient of a bias is this sum over the batch, in every layer of every network.",
)


def _div(a, b, sign=-1.0, power=2, times_g=True, first=_unbroadcast, second=_unbroadcast, swap=False):
    """The quotient of two arrays, with a switch for each way to get its gradient wrong."""

    def backward(g):
        g = g if times_g else np.ones_like(g)
        grads = first(g / b, a.shape), second(sign * g * a / b**power, b.shape)
        return grads[::-1] if swap else grads

    return a / b, backward


def _as_it_is(g, shape):
    return g


div = Implement(
    id="w02.div",
    title="A quotient and its way back",
    minutes=10,
    level=2,
    needs=("w02.unbroadcast", "w02.local"),
    engine="numpy",
    dtype="float64",
    vjp=True,
    grads=("a", "b"),
    cases=[
        Case("same shape", lambda draw: {"a": draw.normal(3, 4), "b": draw.uniform(0.5, 2, 3, 4)}),
        Case("divided by a row", lambda draw: {"a": draw.normal(4, 3), "b": draw.uniform(0.5, 2, 3)}),
        Case("divided by a column", lambda draw: {"a": draw.normal(2, 5), "b": draw.uniform(0.5, 2, 2, 1)}),
        Case("a row divided", lambda draw: {"a": draw.normal(3), "b": draw.uniform(-2, -0.5, 4, 3)}),
        Case("not contiguous", lambda draw: {"a": draw.transposed(4, 2), "b": 2 + draw.uniform(0, 1, 4, 2)}),
        Case(
            "huge and tiny",
            lambda draw: {"a": 1e150 * draw.normal(2, 3), "b": draw.uniform(1e-100, 1e-99, 3)},
            extreme=True,
        ),
    ],
    oracle=lambda a, b: torch.div(a, b),
    delegate=_by_torch(lambda a, b: torch.div(a, b), 2),
    rules=Rules(forbids=_NO_TORCH),
    mistakes=[
        Mistake(
            "sign",
            "The gradient of b has the wrong sign: a larger b makes the quotient smaller.",
            lambda a, b: _div(a, b, sign=1.0),
        ),
        Mistake("not squared", "The slope by b is -a / b**2.", lambda a, b: _div(a, b, power=1)),
        Mistake(
            "g forgotten",
            "These are the local derivatives alone: multiply them by g, the gradient that arrives.",
            lambda a, b: _div(a, b, times_g=False),
        ),
        Mistake(
            "not summed back",
            "A row that was stretched over four rows gets its gradient back in four rows: use your unbroadcast.",
            lambda a, b: _div(a, b, first=_as_it_is, second=_as_it_is),
        ),
        Mistake(
            "b not summed back",
            "The gradient of a is unbroadcast, that of b is not; either may have been stretched.",
            lambda a, b: _div(a, b, second=_as_it_is),
        ),
        Mistake(
            "swapped",
            "The two gradients are in the wrong order: first that of a, then that of b.",
            lambda a, b: _div(a, b, swap=True),
        ),
    ],
    hints=(
        "Take `mul` above as the pattern. Your table of local derivatives has the slopes of a / b.",
        "By a it is 1 / b, by b it is -a / b**2. Multiply each by g, then unbroadcast to the shape of its input.",
        "unbroadcast(g / b, a.shape), unbroadcast(-g * a / b**2, b.shape)",
    ),
    passed="Every elementwise operation is this pattern: local derivative times g, summed back to the input's shape.",
)


def _amax(x, axis, keep=False, spread=None):
    """The largest along an axis; `spread(x, top, axis)` says how its gradient is shared."""
    top = x.max(axis=axis, keepdims=True)
    share = (spread or _equal_shares)(x, top, axis)

    def backward(g):
        return (share * (g if keep else np.expand_dims(g, axis)),)

    return top if keep else np.squeeze(top, axis), backward


def _equal_shares(x, top, axis):
    at = x == top
    return at / at.sum(axis=axis, keepdims=True)


def _first_takes_all(x, top, axis):
    share = np.zeros_like(x)
    np.put_along_axis(share, np.expand_dims(x.argmax(axis), axis), 1.0, axis)
    return share


def _amax_not_lined_up(x, axis):
    """Multiplies by g without giving it the axis back."""
    value, _ = _amax(x, axis)
    return value, lambda g: (_equal_shares(x, x.max(axis=axis, keepdims=True), axis) * g,)


_TIES = np.array([[2.0, -1.0, 2.0, 0.5], [0.0, 3.0, 3.0, 3.0], [1.0, -2.0, 0.25, 1.5]])

amax = Implement(
    id="w02.amax",
    title="Back through a maximum",
    minutes=10,
    level=2,
    needs=("w02.div",),
    engine="numpy",
    dtype="float64",
    vjp=True,
    grads=("x",),
    cases=[
        Case("along rows", lambda draw: {"x": draw.normal(3, 4), "axis": 1}),
        Case("along columns", lambda draw: {"x": draw.normal(4, 5), "axis": 0}),
        Case("the middle of three", lambda draw: {"x": draw.normal(2, 5, 3), "axis": -2}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(2, 3), "axis": 1}),
        Case("an axis of size 1", lambda draw: {"x": draw.normal(3, 1), "axis": 1}),
        Case("ties", lambda draw: {"x": _TIES.copy(), "axis": 1}),
        Case(
            "minus infinity",
            lambda draw: {"x": np.array([[-np.inf, 1.0, -3.0], [-np.inf, -np.inf, 2.0]]), "axis": 1},
            extreme=True,
        ),
    ],
    oracle=lambda x, axis: torch.amax(x, axis),
    delegate=_by_torch(lambda x, axis: torch.amax(x, axis), 1),
    rules=Rules(forbids=("amax", *_NO_TORCH)),
    memory="any",
    mistakes=[
        Mistake(
            "first takes all",
            "Of equal maxima only the first gets the gradient. That is what torch.max(dim) does; amax shares it.",
            lambda x, axis: _amax(x, axis, spread=_first_takes_all),
        ),
        Mistake(
            "each takes all",
            "Of equal maxima each gets the whole gradient, so more flows back than came in: divide by how many there are.",
            lambda x, axis: _amax(x, axis, spread=lambda x, top, axis: (x == top) * 1.0),
        ),
        Mistake(
            "spread over all",
            "The gradient is spread over all elements, as for a mean; only a maximum has an influence.",
            lambda x, axis: _amax(x, axis, spread=lambda x, top, axis: np.ones_like(x) / x.shape[axis]),
        ),
        Mistake(
            "axis kept",
            "The value still has the reduced axis, with size 1: take it out.",
            lambda x, axis: _amax(x, axis, keep=True),
        ),
        Mistake(
            "axis not given back",
            "g lacks the reduced axis, so it lines up with the wrong one: np.expand_dims(g, axis) gives it back.",
            _amax_not_lined_up,
        ),
    ],
    hints=(
        "Which elements of x have an influence on the result, and how much if two are equal?",
        "at = x == x.max(axis=axis, keepdims=True), and each gets 1 / at.sum(axis=axis, keepdims=True) of the gradient.",
        "at / at.sum(axis=axis, keepdims=True) * np.expand_dims(g, axis)",
    ),
    passed="Max pooling in week 5 is this, window by window; there torch lets the first of equal ones take all.",
)


def _take(x, index, put):
    """Elements of x at places; `put(grad, index, g)` writes the gradient back."""

    def backward(g):
        grad = np.zeros_like(x)
        put(grad, index, g)
        return (grad,)

    return x[index].copy(), backward


def _put_first_rows(grad, index, g):
    flat = g.reshape(-1)[: grad.size]
    grad.reshape(-1)[: flat.size] = flat


take = Implement(
    id="w02.take",
    title="Back to the places it came from",
    minutes=8,
    level=2,
    needs=("w02.unbroadcast", "w01.confusion"),
    engine="numpy",
    dtype="float64",
    vjp=True,
    grads=("x",),
    cases=[
        Case("some rows", lambda draw: {"x": draw.normal(5, 3), "index": np.array([3, 0, 4])}),
        Case("repeated rows", lambda draw: {"x": draw.normal(4, 3), "index": np.array([2, 0, 2, 2, 1])}),
        Case(
            "pairs, one of them twice",
            lambda draw: {"x": draw.normal(3, 4), "index": (np.array([0, 2, 2]), np.array([1, 3, 3]))},
        ),
        Case("a slice", lambda draw: {"x": draw.normal(6, 2), "index": slice(1, 6, 2)}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(4, 2), "index": np.array([1, 1, 3])}),
        Case("one element", lambda draw: {"x": draw.normal(3, 1), "index": (2, 0)}),
        Case("nothing", lambda draw: {"x": draw.normal(3, 2), "index": np.zeros(0, dtype=int)}, extreme=True),
    ],
    oracle=lambda x, index: x[index],
    delegate=_by_torch(lambda x, index: x[index], 1),
    memory="any",
    rules=Rules(forbids=_NO_TORCH),
    mistakes=[
        Mistake(
            "repeats lost",
            "A row that was taken three times gets the gradient of the last one only: they must add up. See np.add.at.",
            lambda x, index: _take(x, index, lambda grad, index, g: grad.__setitem__(index, g)),
        ),
        Mistake(
            "counted",
            "How often each element was taken is counted, but g is missing.",
            lambda x, index: _take(x, index, lambda grad, index, g: np.add.at(grad, index, 1.0)),
        ),
        Mistake(
            "written to the front",
            "The gradients are written to the first rows, not to those they were taken from.",
            lambda x, index: _take(x, index, _put_first_rows),
        ),
        Mistake(
            "g as it is",
            "This is g itself, in the shape of the result. The gradient has the shape of x, with zeros where nothing was taken.",
            lambda x, index: (x[index].copy(), lambda g: (g,)),
        ),
    ],
    hints=(
        "Most elements of x have no influence on the result. Start from zeros in the shape of x.",
        "grad[index] += g forgets repeats, as in the confusion matrix of week 1. np.add.at(grad, index, g) adds them all.",
        "grad = np.zeros_like(x); np.add.at(grad, index, g); return (grad,)",
    ),
    passed="An embedding layer is this operation: a word that occurs twice in a batch gets two gradients, added up.",
    lint={
        "constant": "an index with a single place",
        "symmetric": "places, not values",
        "equal axes": "an index with two arrays of the same length",
    },
)


def _swap(x):
    return np.swapaxes(x, -1, -2)


def _matmul(a, b, left=_unbroadcast, right=_unbroadcast, turn=_swap, swap=False):
    def backward(g):
        grads = left(g @ turn(b), a.shape), right(turn(a) @ g, b.shape)
        return grads[::-1] if swap else grads

    return a @ b, backward


matmul = Implement(
    id="w02.matmul",
    title="Back through a product of matrices",
    minutes=12,
    level=3,
    needs=("w02.unbroadcast",),
    engine="numpy",
    dtype="float64",
    vjp=True,
    grads=("a", "b"),
    cases=[
        Case("two matrices", lambda draw: {"a": draw.normal(2, 3), "b": draw.normal(3, 4)}),
        Case("a batch", lambda draw: {"a": draw.normal(5, 2, 3), "b": draw.normal(5, 3, 4)}),
        Case("a batch, one weight", lambda draw: {"a": draw.normal(5, 2, 3), "b": draw.normal(3, 4)}),
        Case("both stretched", lambda draw: {"a": draw.normal(6, 1, 2, 3), "b": draw.normal(5, 3, 4)}),
        Case("not contiguous", lambda draw: {"a": draw.transposed(2, 3), "b": draw.transposed(3, 5)}),
        Case(
            "an empty batch",
            lambda draw: {"a": draw.normal(0, 2, 3), "b": draw.normal(3, 4)},
            extreme=True,
        ),
    ],
    oracle=lambda a, b: torch.matmul(a, b),
    delegate=_by_torch(lambda a, b: torch.matmul(a, b), 2),
    rules=Rules(forbids=_NO_TORCH),
    mistakes=[
        Mistake(
            "not transposed",
            "The shapes in backward do not fit. a gets `g @ bᵀ`, b gets `aᵀ @ g`: the other factor turned, and on its own side.",
            lambda a, b: _matmul(a, b, turn=lambda x: x),
        ),
        Mistake(
            "all axes turned",
            "`.T` reverses all axes, the batch included; np.swapaxes(x, -1, -2) turns only the last two.",
            lambda a, b: _matmul(a, b, turn=lambda x: x.T),
        ),
        Mistake(
            "batch not summed",
            "One weight was used for the whole batch, and each use contributes: unbroadcast the gradient.",
            lambda a, b: _matmul(a, b, left=_as_it_is, right=_as_it_is),
        ),
        Mistake(
            "only b summed",
            "The gradient of b is unbroadcast, that of a is not: a may be the one that was stretched.",
            lambda a, b: _matmul(a, b, left=_as_it_is),
        ),
        Mistake(
            "swapped",
            "The two gradients are in the wrong order: first that of a, then that of b.",
            lambda a, b: _matmul(a, b, swap=True),
        ),
    ],
    hints=(
        "Let the shapes lead: a is (n, k), b is (k, m), g is (n, m). Which product of g and b has the shape of a?",
        "g @ bᵀ is (n, m) @ (m, k), and aᵀ @ g is (k, n) @ (n, m). In a batch only the last two axes are turned.",
        "unbroadcast(g @ np.swapaxes(b, -1, -2), a.shape), unbroadcast(np.swapaxes(a, -1, -2) @ g, b.shape)",
    ),
    passed="A backward pass costs two products for each one of the forward pass: hence the rule of thumb, three times the work.",
)


def _logsumexp(x, axis, shift=None, add_back=True, soft=None, times_g=True):
    top = x.max(axis=axis, keepdims=True) if shift is None else shift(x)
    with np.errstate(all="ignore"):
        value = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + (top if add_back else 0.0)

    def backward(g):
        with np.errstate(all="ignore"):
            weights = np.exp(x - value) if soft is None else soft(x)
        return (weights * np.expand_dims(g, axis) if times_g else weights,)

    return np.squeeze(value, axis), backward


def _plain_softmax(axis):
    return lambda x: np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


logsumexp = Implement(
    id="w02.logsumexp",
    title="Log-sum-exp without overflow",
    minutes=12,
    level=3,
    needs=("w02.amax",),
    engine="numpy",
    dtype="float64",
    vjp=True,
    grads=("x",),
    cases=[
        Case("along rows", lambda draw: {"x": draw.normal(3, 4), "axis": 1}),
        Case("along columns", lambda draw: {"x": draw.normal(4, 5), "axis": 0}),
        Case("the middle of three", lambda draw: {"x": draw.normal(2, 5, 3), "axis": -2}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(2, 3), "axis": 1}),
        Case("an axis of size 1", lambda draw: {"x": draw.normal(3, 1), "axis": 1}),
        # here the result is the largest score exactly, so that every right way to compute it agrees
        Case(
            "a score of 1,000",
            lambda draw: {"x": np.array([[1000.0, 0.0, -500.0], [-3.0, 2.0, 1200.0]]), "axis": 1},
        ),
        Case(
            "1e4 and -1e4",
            lambda draw: {"x": np.array([[1e4, 9999.0, -1e4], [-1e4, -9998.0, -9999.5]]), "axis": 1},
            extreme=True,
        ),
    ],
    oracle=lambda x, axis: torch.logsumexp(x, axis),
    delegate=_by_torch(lambda x, axis: torch.logsumexp(x, axis), 1),
    rules=Rules(forbids=("logsumexp", "logaddexp", "softmax", "log_softmax", *_NO_TORCH)),
    memory="any",
    mistakes=[
        Mistake(
            "overflows",
            "exp(1000) is infinite in float64. Subtract the largest first, and add it again at the end.",
            lambda x, axis: _logsumexp(x, axis, shift=lambda x: 0.0),
        ),
        Mistake(
            "overflows both ways",
            "exp(1000) is infinite in float64, in the value and in backward. Subtract the largest first, and add it at the end.",
            lambda x, axis: _logsumexp(x, axis, shift=lambda x: 0.0, soft=_plain_softmax(axis)),
        ),
        Mistake(
            "not added back, used again",
            "The largest was subtracted inside and not added again outside; backward uses this value, and is wrong with it.",
            lambda x, axis: _logsumexp(x, axis, add_back=False),
        ),
        Mistake(
            "not added back",
            "The largest was subtracted inside and not added again outside.",
            lambda x, axis: _logsumexp(x, axis, add_back=False, soft=_plain_softmax(axis)),
        ),
        Mistake(
            "one maximum for all",
            "The largest of the whole array was subtracted: a row far below it underflows to log(0). Take it along the axis.",
            lambda x, axis: _logsumexp(x, axis, shift=lambda x: x.max()),
        ),
        Mistake(
            "backward overflows",
            "The value is safe, and backward computes exp(x) again without the shift: infinite over infinite is NaN.",
            lambda x, axis: _logsumexp(x, axis, soft=_plain_softmax(axis)),
        ),
        Mistake(
            "g forgotten",
            "The gradient is the softmax times g; here g is missing.",
            lambda x, axis: _logsumexp(x, axis, times_g=False),
        ),
    ],
    hints=(
        "log Σ exp(x) = m + log Σ exp(x - m) for any m. Which m keeps every exponent at 0 or below?",
        "m = x.max(axis=axis, keepdims=True). The slope by x is exp(x - value): nothing in it can overflow.",
        "backward: np.exp(x - value) * np.expand_dims(g, axis), with value still having its axis of size 1",
    ),
    passed="exp(x - logsumexp(x)) is the softmax, and the cross-entropy of week 3 is logsumexp minus one score.",
)


# the ops that the page gives, and a tape to be wrong about


def _add(a, b):
    return a + b, lambda g: (_unbroadcast(g, a.shape), _unbroadcast(g, b.shape))


def _mul(a, b):
    return a * b, lambda g: (_unbroadcast(g * b, a.shape), _unbroadcast(g * a, b.shape))


def _relu(x):
    return np.maximum(x, 0), lambda g: (g * (x > 0),)


def _total(x):
    return x.sum(), lambda g: (np.broadcast_to(g, x.shape),)


class _Tensor:
    """The right tape. Wrong ones override `record` or one of the steps of backward."""

    clock = 0

    def __init__(self, data, parents=(), send_back=None, op=""):
        self.data = np.asarray(data, dtype=np.float64)
        self.grad = np.zeros_like(self.data)
        self.parents, self.send_back, self.op = tuple(parents), send_back, op
        _Tensor.clock += 1
        self.time = _Tensor.clock

    @classmethod
    def record(cls, op, *inputs, **params):
        inputs = [x if isinstance(x, _Tensor) else cls(x) for x in inputs]
        value, send_back = op(*(x.data for x in inputs), **params)
        return cls(value, inputs, send_back, op.__name__)

    def history(self):
        return sorted(_order(self), key=lambda node: node.time, reverse=True)

    def clear(self, nodes):
        for node in nodes:
            if node.parents:
                node.grad = np.zeros_like(node.data)

    def seed(self):
        self.grad = np.ones_like(self.data)

    def deliver(self, parent, g):
        parent.grad = parent.grad + g

    def arriving(self, node):
        return node.grad

    def backward(self):
        nodes = self.history()
        self.clear(nodes)
        self.seed()
        for node in nodes:
            if node.parents:
                for parent, g in zip(node.parents, node.send_back(self.arriving(node)), strict=True):
                    self.deliver(parent, g)

    def __add__(self, other):
        return self.record(_add, self, other)

    def __mul__(self, other):
        return self.record(_mul, self, other)

    def __matmul__(self, other):
        return self.record(_matmul, self, other)

    def relu(self):
        return self.record(_relu, self)

    def sum(self):
        return self.record(_total, self)

    def logsumexp(self, axis):
        return self.record(_logsumexp, self, axis=axis)

    __radd__, __rmul__ = __add__, __mul__


class _HistoryLost(_Tensor):
    @classmethod
    def record(cls, op, *inputs, **params):
        made = super().record(op, *inputs, **params)
        return cls(made.data, (), None, made.op)


class _Overwrites(_Tensor):
    def deliver(self, parent, g):
        parent.grad = np.zeros_like(parent.data) + g


class _NoSeed(_Tensor):
    def seed(self):
        pass


class _OldestFirst(_Tensor):
    def history(self):
        return super().history()[::-1]


class _NotCleared(_Tensor):
    def clear(self, nodes):
        pass


class _InputsCleared(_Tensor):
    def clear(self, nodes):
        for node in nodes:
            node.grad = np.zeros_like(node.data)


class _OwnGradient(_Tensor):
    def arriving(self, node):
        return np.ones_like(node.data)


class _TorchTensor:
    """A tensor that leaves the work to torch."""

    def __init__(self, data, made=None):
        self.inner = torch.tensor(data, requires_grad=True) if made is None else made
        self.data = self.inner.detach().numpy()

    def __getattr__(self, name):
        inner = getattr(self.inner, name)
        return (lambda *axis: _TorchTensor(None, inner(*axis))) if callable(inner) else inner

    def __add__(self, other):
        return _TorchTensor(None, self.inner + getattr(other, "inner", other))

    def __mul__(self, other):
        return _TorchTensor(None, self.inner * getattr(other, "inner", other))

    def __matmul__(self, other):
        return _TorchTensor(None, self.inner @ other.inner)

    def backward(self):
        self.inner.backward(retain_graph=True)

    __rmul__ = __mul__


def _use_tape(Tensor, formula, calls, *arrays):
    inputs = [Tensor(array) for array in arrays]
    out = formula(*inputs)
    for _ in range(calls):
        out.backward()
    grads = {f"{name}.grad": x.grad for name, x in zip(formula.names, inputs, strict=True)}
    return {"value": out.data, "parents of the result": len(getattr(out, "parents", ())), **grads}


def _tape_truth(formula, calls, *arrays):
    inputs = [array.clone().requires_grad_() for array in arrays]
    out = formula(*inputs)
    for _ in range(calls):
        out.backward(retain_graph=True)
    grads = {f"{name}.grad": x.grad for name, x in zip(formula.names, inputs, strict=True)}
    return {"value": out.detach(), "parents of the result": len(out.grad_fn.next_functions), **grads}


def _tape_case(name, text, make, calls=1, **more):
    def inputs(draw):
        arrays = make(draw)
        return {"formula": _Formula(text, "".join(arrays)), "calls": calls, **arrays}

    return Case(name, inputs, **more)


tape = Implement(
    id="w02.tape",
    title="The tape",
    minutes=15,
    level=3,
    needs=("w02.backward", "w02.matmul"),
    engine="numpy",
    dtype="float64",
    cases=[
        _tape_case("a sum", "x.sum()", lambda draw: {"x": draw.normal(2, 3)}),
        _tape_case("used twice", "(x * x).sum()", lambda draw: {"x": draw.strided(2, 3)}),
        _tape_case(
            "a layer",
            "(x @ w + b).relu().sum()",
            lambda draw: {"x": draw.normal(4, 3), "w": draw.normal(3, 2), "b": draw.normal(2)},
        ),
        _tape_case(
            "a diamond",
            "a = x * y; (a.relu() * a + a).sum()",
            lambda draw: {"x": draw.normal(3, 1), "y": draw.normal(4)},
        ),
        _tape_case("plain numbers", "(2 * x + 1.5).sum()", lambda draw: {"x": draw.normal(2, 3)}),
        _tape_case("with an axis", "(x * x).logsumexp(1).sum()", lambda draw: {"x": draw.transposed(2, 3)}),
        _tape_case(
            "backward twice", "a = x * x; (a * x).sum()", lambda draw: {"x": draw.normal(3, 2)}, calls=2
        ),
    ],
    use=_use_tape,
    oracle=_tape_truth,
    delegate=_TorchTensor,
    memory="any",
    rules=Rules(forbids=("tensor", "as_tensor", "from_numpy", "requires_grad")),
    mistakes=[
        Mistake(
            "history lost",
            "The values are right, but the result does not know its inputs: no gradient gets anywhere.",
            _HistoryLost,
        ),
        Mistake(
            "overwrites",
            "A tensor that is used twice keeps only one of its two gradients: add to parent.grad.",
            _Overwrites,
        ),
        Mistake("no seed", "All gradients are 0: the result starts with ones, its slope by itself.", _NoSeed),
        Mistake(
            "oldest first",
            "The tape is replayed from the beginning; gradients need it from the end, newest first.",
            _OldestFirst,
        ),
        Mistake(
            "not cleared",
            "On the second call the tensors in the middle still hold the gradients of the first: start them at zero.",
            _NotCleared,
        ),
        Mistake(
            "inputs cleared",
            "The inputs are set to zero as well. They keep what they have: calls add up, as in torch.",
            _InputsCleared,
        ),
        Mistake(
            "ones sent back",
            "Each step is sent ones; send it the gradient of its own result, node.grad.",
            _OwnGradient,
        ),
    ],
    hints=(
        "record: run the op on the .data of its inputs; it returns a value and a function. Both go into the new Tensor.",
        "backward is that of notebook 01, with node.send_back(node.grad) in place of slope * node.grad.",
        "for parent, g in zip(node.parents, node.send_back(node.grad)): parent.grad += g",
    ),
    passed="What the closures captured is what the tape keeps in memory: activations are the price of a gradient.",
)


class _Op:
    """An operation under test, (value, backward), that prints as a description."""

    def __init__(self, text, value, gradient):
        self.text, self.value, self.gradient = text, value, gradient

    def __call__(self, x):
        return self.value(x), lambda g: (self.gradient(x, g),)

    def __repr__(self):
        return self.text


def _cube_wrong_at(*places):
    def gradient(x, g):
        grad = 3 * x**2 * g
        for place in places:
            grad[place] += 0.5
        return grad

    return gradient


def _nan_gradient(x, g):
    grad = 2 * x * g
    grad[0, 1] = math.nan
    return grad


_CUBE = _Op("x**3", lambda x: x**3, lambda x, g: 3 * x**2 * g)
_SHIFT = _Op("2 * x", lambda x: 2 * x, lambda x, g: 2 * g)


def _gradcheck(op, x, g, eps, tolerance, places=None, step=None, bad=None, weights=None):
    """Central differences against backward, with a switch for each way to get it wrong."""
    analytic = op(x)[1](g)[0]
    wrong = []
    for index in places or np.ndindex(x.shape):
        nudge = np.zeros_like(x)
        nudge[index] = eps
        slope = (step or _two_sided)(op, x, nudge, g if weights is None else weights, eps)
        if (bad or _not_close)(slope, analytic[index], tolerance):
            wrong.append(index)
    return wrong


def _two_sided(op, x, nudge, g, eps):
    return ((op(x + nudge)[0] - op(x - nudge)[0]) * g).sum() / (2 * eps)


def _one_sided(op, x, nudge, g, eps):
    return ((op(x + nudge)[0] - op(x)[0]) * g).sum() / eps


def _in_float32(op, x, nudge, g, eps):
    x, nudge = x.astype(np.float32), nudge.astype(np.float32)
    return float(((op(x + nudge)[0] - op(x - nudge)[0]) * g.astype(np.float32)).sum() / np.float32(2 * eps))


def _not_close(slope, analytic, tolerance):
    return not abs(slope - analytic) <= tolerance


def _gradcheck_in_place(op, x, g, eps, tolerance):
    """Moves x itself, and never moves it back."""
    analytic = op(x)[1](g)[0]
    wrong = []
    for index in np.ndindex(x.shape):
        x[index] += eps
        right = op(x)[0].copy()
        x[index] -= 2 * eps
        slope = ((right - op(x)[0]) * g).sum() / (2 * eps)
        if _not_close(slope, analytic[index], tolerance):
            wrong.append(index)
    return wrong


def _use_gradcheck(gradcheck, op, x, g, eps, tolerance):
    """The places as one line of text."""
    found = gradcheck(op, x, g, eps, tolerance)
    if found is None:
        return None
    return {"wrong places": ", ".join(str(tuple(int(i) for i in place)) for place in found) or "none"}


def _check_case(name, op, make, eps=1e-5, tolerance=1e-4, weights=None, **more):
    def inputs(draw):
        x = make(draw)
        g = draw.normal(*x.shape) if weights is None else weights(draw)
        return {"op": op, "x": x, "g": g, "eps": eps, "tolerance": tolerance}

    return Case(name, inputs, **more)


gradcheck = Implement(
    id="w02.gradcheck",
    title="Gradcheck",
    minutes=12,
    level=3,
    needs=("w02.central_difference", "w02.tape"),
    engine="python",
    dtype="float64",
    cases=[
        _check_case("a right gradient", _CUBE, lambda draw: draw.normal(2, 3)),
        _check_case(
            "wrong in two places",
            _Op("x**3, two wrong", lambda x: x**3, _cube_wrong_at((0, 2), (1, 1))),
            lambda draw: draw.normal(2, 3),
        ),
        _check_case(
            "wrong at the end",
            _Op("x**3, one wrong", lambda x: x**3, _cube_wrong_at((3, 0))),
            lambda draw: draw.transposed(4, 3),
        ),
        _check_case("strongly curved", _CUBE, lambda draw: 30 + draw.uniform(0, 5, 3, 1)),
        # quarters and halves: no rounding in any order of summation
        _check_case(
            "exactly right",
            _SHIFT,
            lambda draw: draw.integers(-3, 4, 2, 3) * 0.25,
            eps=0.5,
            tolerance=0.0,
            weights=lambda draw: draw.integers(1, 6, 2, 3) * 0.5,
        ),
        _check_case(
            "not a number",
            _Op("x**2, one NaN", lambda x: x**2, _nan_gradient),
            lambda draw: draw.normal(2, 3),
            extreme=True,
        ),
    ],
    use=_use_gradcheck,
    oracle=lambda *inputs: _use_gradcheck(_gradcheck, *inputs),
    reference="central differences",
    memory="any",
    mistakes=[
        Mistake(
            "one row only",
            "Only the first row is looked at: `np.ndindex(x.shape)` visits every element, whatever the shape.",
            lambda op, x, g, eps, tolerance: _gradcheck(
                op, x, g, eps, tolerance, places=[(0, k) for k in range(x.shape[1])]
            ),
        ),
        Mistake(
            "x left moved",
            "x was moved and not moved back, so every later element is checked somewhere else. Work on x + step.",
            _gradcheck_in_place,
        ),
        Mistake(
            "one-sided",
            "With a one-sided difference a right gradient looks wrong where the function is strongly curved.",
            lambda op, x, g, eps, tolerance: _gradcheck(op, x, g, eps, tolerance, step=_one_sided),
        ),
        Mistake(
            "float32",
            "In float32 the rounding error is larger than the tolerance: right gradients look wrong. Stay in float64.",
            lambda op, x, g, eps, tolerance: _gradcheck(op, x, g, eps, tolerance, step=_in_float32),
        ),
        Mistake(
            "g ignored",
            "The differences are added up without g, but backward was given g: weight each output with it.",
            lambda op, x, g, eps, tolerance: _gradcheck(op, x, g, eps, tolerance, weights=1.0),
        ),
        Mistake(
            "every place wrong",
            "Every place looks wrong. Divide by 2 * eps; and x + eps and x - eps need arrays of their own, x.copy() for each.",
            lambda op, x, g, eps, tolerance: _gradcheck(op, x, g, eps, tolerance, step=lambda *step: 0.0),
        ),
        Mistake(
            "NaN slips through",
            "`abs(nan - slope) > tolerance` is False: NaN is in no order to anything. Ask `not ... <= tolerance`.",
            lambda op, x, g, eps, tolerance: _gradcheck(
                op, x, g, eps, tolerance, bad=lambda a, b, t: abs(a - b) > t
            ),
        ),
    ],
    hints=(
        "One element at a time: a step that is eps there and 0 elsewhere, the op at x + step and at x - step.",
        "slope = ((op(x + step)[0] - op(x - step)[0]) * g).sum() / (2 * eps); compare it with op(x)[1](g)[0][index].",
        "for index in np.ndindex(x.shape): step = np.zeros_like(x); step[index] = eps; ... if not abs(...) <= tolerance",
    ),
    passed="torch.autograd.gradcheck does the same, and warns you if the input is not float64.",
)


# 03 in PyTorch


def _sigmoid_function(backward, forward=None):
    """A class with `apply`, as torch.autograd.Function has it; made when it is used, since torch comes late."""

    def apply(x, scale):
        class Sigmoid(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, scale):
                y = 1 / (1 + torch.exp(-scale * x)) if forward is None else forward(x, scale)
                ctx.save_for_backward(x, y)
                ctx.scale = scale
                return y

            @staticmethod
            def backward(ctx, g):
                x, y = ctx.saved_tensors
                return backward(g, x, y, ctx.scale)

        return Sigmoid.apply(x, scale)

    return type("Sigmoid", (), {"apply": staticmethod(apply)})


def _right_sigmoid(g, x, y, scale):
    return g * scale * y * (1 - y), None


function = Implement(
    id="w02.function",
    title="Your own Function",
    minutes=10,
    level=2,
    needs=("w02.local",),
    cases=[
        Case("scale 2", lambda draw: {"x": draw.normal(3, 4), "scale": 2.0}),
        Case("a negative scale", lambda draw: {"x": draw.normal(2, 3), "scale": -0.5}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(4, 2), "scale": 1.5}),
        Case("one row", lambda draw: {"x": draw.normal(1, 5), "scale": 0.7}),
        Case(
            "far out",
            lambda draw: {"x": np.array([-1e4, -50.0, 0.0, 50.0, 1e4], dtype=np.float32), "scale": 3.0},
            extreme=True,
        ),
    ],
    use=lambda Sigmoid, x, scale: Sigmoid.apply(x, scale),
    oracle=lambda x, scale: torch.sigmoid(scale * x),
    grads=("x",),
    delegate=_sigmoid_function(_right_sigmoid, lambda x, scale: torch.sigmoid(scale * x)),
    rules=Rules(forbids=("sigmoid", "tanh", "logsigmoid", "expit", "softmax", "grad")),
    mistakes=[
        Mistake(
            "one gradient",
            "backward returns one gradient per input of forward, and scale is an input: return None for it.",
            _sigmoid_function(lambda g, x, y, scale: g * scale * y * (1 - y)),
        ),
        Mistake(
            "g forgotten",
            "This is the local derivative: multiply it by g, the gradient of the result.",
            _sigmoid_function(lambda g, x, y, scale: (scale * y * (1 - y), None)),
        ),
        Mistake(
            "scale forgotten",
            "The slope of scale * x by x is missing: the chain rule multiplies by scale.",
            _sigmoid_function(lambda g, x, y, scale: (g * y * (1 - y), None)),
        ),
        Mistake(
            "x for y",
            "The slope is y * (1 - y), with y the result, and here x stands for it: which one did you save?",
            _sigmoid_function(lambda g, x, y, scale: (g * scale * x * (1 - x), None)),
        ),
        Mistake(
            "scale outside",
            "The result is scaled; scale belongs inside, to x.",
            _sigmoid_function(
                lambda g, x, y, scale: (g * y * (1 - y / scale), None),
                lambda x, scale: scale * torch.sigmoid(x),
            ),
        ),
    ],
    hints=(
        "Save the result y in forward: with it the slope is scale * y * (1 - y), and no exp is computed again.",
        "ctx.save_for_backward(y) keeps tensors, ctx.scale = scale keeps anything else. Two inputs, two gradients.",
        "(y,) = ctx.saved_tensors; return g * ctx.scale * y * (1 - y), None",
    ),
    passed="Saving y instead of x makes backward cheaper: no exponential is computed twice.",
)


def _kept_bytes(run):
    """The bytes that torch keeps for backward, each storage once."""

    def truth():
        kept = {}

        def note(tensor):
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            run(torch.ones(1000, requires_grad=True))
        return sum(kept.values())

    return truth


kept = Predict(
    id="w02.kept",
    title="What the graph keeps",
    minutes=8,
    level=2,
    needs=("w02.function",),
    items={
        "a": Item("`x + 1`", _kept_bytes(lambda x: x + 1)),
        "b": Item("`x * 3`", _kept_bytes(lambda x: x * 3)),
        "c": Item("`x.exp()`", _kept_bytes(lambda x: x.exp())),
        "d": Item("`x * x`", _kept_bytes(lambda x: x * x)),
        "e": Item("`x.exp().sin()`", _kept_bytes(lambda x: x.exp().sin())),
        "f": Item("`x.sin().exp()`", _kept_bytes(lambda x: x.sin().exp())),
        "g": Item("`x.sum()`", _kept_bytes(lambda x: x.sum())),
        "h": Item("`x.detach().exp()`", _kept_bytes(lambda x: x.detach().exp())),
    },
    mistakes=[
        Mistake("sum keeps x", "a: the slope of x + 1 is 1, whatever x is: nothing is kept.", {"a": 4000}),
        Mistake(
            "constant factor keeps x", "b: the slope is 3, a plain number. x is not needed.", {"b": 4000}
        ),
        Mistake("exp keeps nothing", "c: the slope of exp is exp(x): the result is kept.", {"c": 0}),
        Mistake("exp keeps both", "c: the result is enough; x is not needed any more.", {"c": 8000}),
        Mistake("both factors", "d: both factors are kept, but they are the same 4,000 bytes.", {"d": 8000}),
        Mistake(
            "counted twice",
            "e: exp keeps its result and sin keeps its input, and that is one and the same tensor.",
            {"e": 8000},
        ),
        Mistake(
            "counted once",
            "f: sin keeps its input x, exp keeps its result: two different tensors.",
            {"f": 4000},
        ),
        Mistake(
            "three",
            "f: the result of sin is needed by nobody: sin wants x, exp its own result.",
            {"f": 12000},
        ),
        Mistake("reduction keeps", "g: every element has the slope 1: only the shape is kept.", {"g": 4000}),
        Mistake(
            "detached keeps",
            "h: detach has no history, so nothing is recorded and nothing kept.",
            {"h": 4000},
        ),
    ],
    hints=(
        "Write down the slope of each operation. Which tensor stands in it?",
        "exp: its result. sin: its input. A product: the other factor. A sum or a constant factor: nothing.",
        "Four of them keep nothing; one keeps 8,000 bytes.",
    ),
    passed="Activations kept for backward are most of the memory of training; week 10 trades them for time.",
)


# 04 clinic


def _gradients_through_numpy(x, y, w1, w2):
    w1, w2 = w1.clone().requires_grad_(), w2.clone().requires_grad_()
    hidden = torch.from_numpy(np.maximum((x @ w1).detach().numpy(), 0))
    loss = ((hidden @ w2 - y) ** 2).mean()
    loss.backward()
    return w1.grad, w2.grad


def _two_layers(x, y, w1, w2, activation=None, reduce=None, first=None):
    """The gradients of a loss of two layers, with a switch for each way to get them wrong."""
    w1, w2 = w1.clone().requires_grad_(), w2.clone().requires_grad_()
    hidden = (activation or torch.relu)(x @ w1)
    squares = (hidden @ w2 - y) ** 2
    (reduce or torch.mean)(squares).backward()
    return w1.grad if first is None else first(w1), w2.grad


def _layer_inputs(n, features, hidden, transposed=False):
    def make(draw):
        x = draw.transposed(n, features) if transposed else draw.normal(n, features)
        return {"x": x, "y": draw.normal(n), "w1": draw.normal(features, hidden), "w2": draw.normal(hidden)}

    return make


none = Fix(
    id="w02.none",
    title="The layer that never learns",
    minutes=8,
    level=2,
    needs=("w02.accumulate",),
    cases=[
        Case("five examples", _layer_inputs(5, 3, 4)),
        Case("two examples", _layer_inputs(2, 4, 3)),
        Case("not contiguous", _layer_inputs(4, 3, 2, transposed=True)),
        Case("one feature", _layer_inputs(6, 1, 5)),
    ],
    oracle=_two_layers,
    broken=_gradients_through_numpy,
    fault="NumPy leaves the graph",
    menu={
        "NumPy leaves the graph": "",
        "w1 is not a leaf": "`w1.clone().requires_grad_()` is one: it has no history, and asks for gradients. Print w1.is_leaf.",
        "relu has no slope": "relu has the slope 1 where its input is positive; a slope of 0 everywhere would give zeros, not None.",
        "backward is called too early": "backward is called once the loss is complete. w2 gets its gradient.",
    },
    mistakes=[
        Mistake(
            "zeros for None",
            "None is covered up with zeros: the layer still learns nothing, and now nobody sees it.",
            lambda x, y, w1, w2: _two_layers(x, y, w1, w2, first=torch.zeros_like),
        ),
        Mistake(
            "no relu",
            "The gradients arrive, but the relu is gone: two layers without it are one.",
            lambda x, y, w1, w2: _two_layers(x, y, w1, w2, activation=lambda h: h),
        ),
        Mistake(
            "absolute",
            "abs is not relu: negative values become 0, not positive.",
            lambda x, y, w1, w2: _two_layers(x, y, w1, w2, activation=torch.abs),
        ),
        Mistake(
            "sum",
            "The loss is now a sum; the mean was right.",
            lambda x, y, w1, w2: _two_layers(x, y, w1, w2, reduce=torch.sum),
        ),
    ],
    hints=(
        "Which tensor in between has requires_grad=False? Print it for each line.",
        "`.detach().numpy()` cuts the tape, and torch.from_numpy starts a new one. torch has its own maximum with 0.",
        'fault = "NumPy leaves the graph"; hidden = torch.relu(x @ w1)',
    ),
    passed="After a first step, print which parameters have grad None: one line that finds this fault in any model.",
    lint={"delegation": "torch's relu is the mend; the exercise is to see where the graph is cut"},
)


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


in_place = Fix(
    id="w02.in_place",
    title="Overwritten",
    minutes=8,
    level=2,
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


def _graph_nodes(value):
    """How many nodes of the graph a value keeps alive."""
    start = getattr(value, "grad_fn", None)
    seen, waiting = set(), [start] if start is not None else []
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += [parent for parent, _ in node.next_functions if parent is not None]
    return len(seen)


def _evaluate_logged(batches, w):
    return [((x @ w - y) ** 2).mean() for x, y in batches]


def _evaluate(batches, w):
    return [loss.item() for loss in _evaluate_logged(batches, w)]


def _evaluate_frozen(batches, w):
    w.requires_grad_(False)
    return _evaluate_logged(batches, w)


def _use_evaluate(evaluate, batches, w):
    w.requires_grad_(True)
    log = list(evaluate(batches, w))
    numbers = [value.detach() if hasattr(value, "detach") else value for value in log]
    return {
        "losses": torch.tensor([float(value) for value in numbers]),
        "nodes kept": sum(_graph_nodes(value) for value in log),
        "w still learns": w.requires_grad,
    }


def _batches(sizes, features, turned=False):
    def make(draw):
        pairs = [
            (draw.transposed(n, features) if turned else draw.normal(n, features), draw.normal(n))
            for n in sizes
        ]
        return {"batches": pairs, "w": draw.normal(features)}

    return make


kept_alive = Fix(
    id="w02.kept_alive",
    title="Memory that grows",
    minutes=8,
    level=2,
    needs=("w02.kept",),
    cases=[
        Case("three batches", _batches((4, 5, 2), 3)),
        Case("one batch", _batches((5,), 2)),
        Case("not contiguous", _batches((3, 4), 2, turned=True)),
        Case("one feature", _batches((4, 3), 1)),
    ],
    use=_use_evaluate,
    oracle=lambda batches, w: _use_evaluate(_evaluate, batches, w),
    broken=_evaluate_logged,
    fault="the log keeps the graph",
    menu={
        "the log keeps the graph": "",
        "the list is too long": "A list of a few thousand numbers is nothing. It is what else hangs on its entries.",
        "backward is missing": "Validation needs no backward. A backward would free what was kept, and add to w.grad as well.",
        "w is copied in each batch": "w is one tensor, used by all batches.",
    },
    mistakes=[
        Mistake(
            "cloned",
            "A clone has a history too: it is one more node on top of the graph.",
            lambda batches, w: [loss.clone() for loss in _evaluate_logged(batches, w)],
        ),
        Mistake(
            "w frozen",
            "`w.requires_grad_(False)` lasts: after the first validation w would never learn again. no_grad ends by itself.",
            _evaluate_frozen,
        ),
        Mistake(
            "one number",
            "The losses are averaged over the batches; one for each is asked for.",
            lambda batches, w: [sum(_evaluate(batches, w)) / len(batches)],
        ),
        Mistake(
            "last one kept",
            "Only the last entry still holds its graph: convert that one as well.",
            lambda batches, w: [*_evaluate(batches, w)[:-1], _evaluate_logged(batches, w)[-1]],
        ),
    ],
    hints=(
        "Print `log[0]`. What does it show beside the number?",
        "Keep the number only: `loss.item()`. Or record nothing: `with torch.no_grad():` around the loop.",
        'fault = "the log keeps the graph"; log.append(loss.item())',
    ),
    passed="`running += loss` has the same fault, and hides it better: one long graph over all batches.",
    lint={"delegation": "no function of torch's does it; the mend is one call"},
)

_STEPS = ("beta", "gamma", "normal", "rstd", "var", "centered", "mean", "x")


def _batchnorm(g, x, gamma, eps, wrong=()):
    """All gradients of batch norm in order; a step named in `wrong` is replaced."""
    n, centered = len(x), x - x.mean(0)
    rstd = (centered.square().mean(0) + eps) ** -0.5
    done = {}
    right = {
        "beta": lambda: g.sum(0),
        "gamma": lambda: (g * centered * rstd).sum(0),
        "normal": lambda: g * gamma,
        "rstd": lambda: (done["normal"] * centered).sum(0),
        "var": lambda: done["rstd"] * -0.5 * rstd**3,
        "centered": lambda: done["normal"] * rstd + done["var"] * 2 * centered / n,
        "mean": lambda: -done["centered"].sum(0),
        "x": lambda: done["centered"] + done["mean"] / n,
    }
    for name in _STEPS:
        done[name] = wrong[name](done, centered, rstd) if name in wrong else right[name]()
    return done


def _use_batchnorm(batchnorm_backward, g, x, gamma, eps):
    found = batchnorm_backward(g, x, gamma, eps)
    return {f"{k} {name}": found[name] for k, name in enumerate(_STEPS, 1)}


def _batchnorm_by_torch(g, x, gamma, eps):
    x, gamma = x.clone().requires_grad_(), gamma.clone().requires_grad_()
    beta = torch.zeros_like(gamma).requires_grad_()
    mean = x.mean(0)
    centered = x - mean
    var = centered.square().mean(0)
    rstd = (var + eps) ** -0.5
    normal = centered * rstd
    y = gamma * normal + beta
    steps = (beta, gamma, normal, rstd, var, centered, mean, x)
    return dict(zip(_STEPS, torch.autograd.grad(y, steps, g), strict=True))


def _batchnorm_inputs(n, features, x=None):
    def make(draw):
        data = draw.normal(n, features) if x is None else x(draw)
        return {"g": draw.normal(n, features), "x": data, "gamma": draw.normal(features), "eps": 1e-5}

    return make


def _wrong_batchnorm(**wrong):
    return lambda g, x, gamma, eps: _batchnorm(g, x, gamma, eps, wrong)


batchnorm = Implement(
    id="w02.batchnorm",
    title="Batch norm by hand",
    minutes=15,
    level=4,
    needs=("w02.unbroadcast", "w02.div"),
    dtype="float64",
    cases=[
        Case("five by three", _batchnorm_inputs(5, 3)),
        Case("three by four", _batchnorm_inputs(3, 4)),
        Case("not contiguous", _batchnorm_inputs(4, 3, lambda draw: draw.transposed(4, 3))),
        Case("one feature", _batchnorm_inputs(6, 1)),
        Case("one example", _batchnorm_inputs(1, 3), extreme=True),
    ],
    use=_use_batchnorm,
    oracle=lambda g, x, gamma, eps: _use_batchnorm(_batchnorm_by_torch, g, x, gamma, eps),
    delegate=_batchnorm_by_torch,
    rules=Rules(forbids=("grad", "backward", "batch_norm", "native_batch_norm", "requires_grad", "vjp")),
    memory="any",
    mistakes=[
        Mistake(
            "not summed",
            "beta was added to every row, so its gradient is the sum over the rows.",
            lambda g, x, gamma, eps: {**_batchnorm(g, x, gamma, eps), "beta": g},
        ),
        Mistake(
            "gamma without normal",
            "gamma is multiplied by the normalized values: its gradient is the sum of g times them.",
            lambda g, x, gamma, eps: {**_batchnorm(g, x, gamma, eps), "gamma": g.sum(0)},
        ),
        Mistake(
            "power of one",
            "rstd is (var + eps) to the power of -1/2. The exponent goes down by one, to -3/2: that is rstd cubed.",
            _wrong_batchnorm(var=lambda done, centered, rstd: done["rstd"] * -0.5 * rstd),
        ),
        Mistake(
            "variance forgotten",
            "centered goes two ways: into the product with rstd and into the variance. The second part is missing.",
            _wrong_batchnorm(centered=lambda done, centered, rstd: done["normal"] * rstd),
        ),
        Mistake(
            "two forgotten",
            "The slope of centered squared is 2 * centered; the 2 is missing.",
            _wrong_batchnorm(
                centered=lambda done, centered, rstd: (
                    done["normal"] * rstd + done["var"] * centered / len(centered)
                )
            ),
        ),
        Mistake(
            "not divided by n",
            "The variance is a mean: each square has the weight 1 / n.",
            _wrong_batchnorm(
                centered=lambda done, centered, rstd: done["normal"] * rstd + done["var"] * 2 * centered
            ),
        ),
        Mistake(
            "mean forgotten",
            "x goes two ways: directly, and through the mean. The second part is missing from its gradient.",
            _wrong_batchnorm(x=lambda done, centered, rstd: done["centered"]),
        ),
        Mistake(
            "mean with a plus",
            "The mean is subtracted: the sign of its gradient is negative.",
            _wrong_batchnorm(mean=lambda done, centered, rstd: done["centered"].sum(0)),
        ),
    ],
    hints=(
        "Go through the forward lines from the last to the first. For each: what goes in, and what is its local derivative?",
        "What was broadcast is summed back; what is used twice (centered, x) gets two contributions. A mean gives each 1 / n.",
        "var: d_rstd * -0.5 * rstd**3. centered: d_normal * rstd + d_var * 2 * centered / n. x: d_centered + d_mean / n.",
    ),
    passed="Written as one formula this is the backward of torch's batch_norm; the order of steps is how one finds it.",
    lint={"equal axes": "g and x have the same shape, (n, features)"},
)


def _softmax(x, axis=-1, shift=True, grad=None, memory=None):
    """Softmax in the form (value, backward), with a switch for each planted bug."""
    top = x.max(axis=axis, keepdims=True) if shift else 0.0
    with np.errstate(all="ignore"):
        e = np.exp(x - top)
        y = e / e.sum(axis=axis, keepdims=True)

    def backward(g):
        found = (grad or _softmax_gradient)(y, g, axis)
        if memory is not None:
            memory.append(found)
            found = sum(memory)
        return (found,)

    return y, backward


def _softmax_gradient(y, g, axis):
    return y * (g - (y * g).sum(axis=axis, keepdims=True))


def _softmax_by_logarithm(x):
    log = x - np.logaddexp.reduce(x, axis=-1, keepdims=True)
    y = np.exp(log)
    return y, lambda g: (g * y - y * np.einsum("...i,...i->...", g, y)[..., None],)


_SCORES = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
_WEIGHTS = np.array([[0.3, -1.0, 2.0], [1.5, 0.7, -0.2]])


def _check_row_sums(softmax):
    assert np.allclose(softmax(_SCORES)[0].sum(axis=-1), 1)


def _check_forward(softmax):
    _check_row_sums(softmax)
    assert np.allclose(softmax(_SCORES + 1000)[0], softmax(_SCORES)[0])


def _check_zero_sum(softmax):
    _check_forward(softmax)
    (grad,) = softmax(_SCORES)[1](_WEIGHTS)
    assert np.allclose(grad.sum(axis=-1), 0)


def _check_slope(softmax):
    _check_forward(softmax)
    (grad,) = softmax(_SCORES)[1](_WEIGHTS)
    for index in np.ndindex(_SCORES.shape):
        step = np.zeros_like(_SCORES)
        step[index] = 1e-5
        rise = softmax(_SCORES + step)[0] - softmax(_SCORES - step)[0]
        assert abs((rise * _WEIGHTS).sum() / 2e-5 - grad[index]) < 1e-6


def _check_exactly(softmax):
    y, backward = softmax(_SCORES)
    assert (y.sum(axis=-1) == 1).all()
    assert (backward(_WEIGHTS)[0] == _softmax_gradient(y, _WEIGHTS, -1)).all()


test_softmax = WriteTest(
    id="w02.test_softmax",
    title="Write the property test",
    minutes=12,
    level=3,
    needs=("w02.gradcheck", "w02.logsumexp"),
    good=[_softmax, _softmax_by_logarithm],
    bugs={
        "axis": ("it adds up to 1 along the first axis, not along the last.", lambda x: _softmax(x, axis=0)),
        "overflow": ("large scores become NaN.", lambda x: _softmax(x, shift=False)),
        "term": (
            "backward returns g * y: it forgets that the sum depends on x too.",
            lambda x: _softmax(x, grad=lambda y, g, axis: g * y),
        ),
        "sign": (
            "backward has the wrong sign.",
            lambda x: _softmax(x, grad=lambda y, g, axis: -_softmax_gradient(y, g, axis)),
        ),
        "memory": (
            "a second call of backward adds the gradient of the first.",
            lambda x: _softmax(x, memory=[]),
        ),
    },
    mistakes=[
        Mistake(
            "row sums only",
            "That the rows add up to 1 is tested, and nothing else: no large scores, no backward.",
            _check_row_sums,
        ),
        Mistake(
            "forward only",
            "The values are tested well. backward is not called at all.",
            _check_forward,
        ),
        Mistake(
            "zero sum only",
            "That the gradients of a row add up to 0 is true for the wrong sign too. Compare with a slope.",
            _check_zero_sum,
        ),
        Mistake(
            "called once",
            "Everything about one call is tested. What does a second call of the same backward return?",
            _check_slope,
        ),
        Mistake(
            "exactly equal",
            "Floats are compared with ==, and a right implementation rounds differently: use np.allclose.",
            _check_exactly,
        ),
    ],
    hints=(
        "Properties of the value: rows add up to 1; adding the same number to all scores changes nothing, even 1000.",
        "Properties of backward: it agrees with a central difference, and calling it twice gives the same twice.",
        "The slope of (softmax(x)[0] * g).sum() along any direction d is (backward(g)[0] * d).sum().",
    ),
    passed="Four properties and no expected values: such a test works for any input, also for random ones.",
)
