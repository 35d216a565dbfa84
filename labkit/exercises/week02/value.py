"""A number that remembers the operation and the numbers it was made from."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, Rules
from labkit.exercises.week02.shared import Formula, RightValue, scalar_backward, slopes_by_torch
from labkit.lazy import torch


def _use_value(Value, formula, x, y):
    """Compute with the learner's class; walk its parents and local derivatives to find the slopes."""
    x, y = Value(x), Value(y)
    out = formula(x, y)
    scalar_backward(out)
    return {"data": out.data, "slope by x": float(x.grad), "slope by y": float(y.grad)}


def _wrong_value(**members):
    """A class like _Value with some members replaced; None takes one away."""
    kept = {name: member for name, member in vars(RightValue).items() if name not in members}
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
    return Case(formula, lambda draw: {"formula": Formula(formula), "x": 2.0, "y": -3.5}, **more)


exercise = Implement(
    title="A number that remembers",
    minutes=12,
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
    oracle=slopes_by_torch,
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
    equivalent=(
        Equivalent(
            before='return apply("mul", self, other)',
            after="return apply('mul', other, self)",
            reason="a product does not depend on the order of its factors, and its local derivatives go with their parents",
        ),
        Equivalent(
            before="return self * -1",
            after="return self / -1",
            reason="dividing by -1 is multiplying by -1",
        ),
        Equivalent(
            before="return self + other * -1",
            after="return self + other / -1",
            reason="dividing by -1 is multiplying by -1",
        ),
    ),
)
