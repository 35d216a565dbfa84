"""A tensor with operations on arrays and a tape behind it."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week02.shared import Formula, logsumexp_pair, matmul_pair, parents_first, summed_to
from labkit.lazy import torch


def _add(a, b):
    return a + b, lambda g: (summed_to(g, a.shape), summed_to(g, b.shape))


def _mul(a, b):
    return a * b, lambda g: (summed_to(g * b, a.shape), summed_to(g * a, b.shape))


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
        return sorted(parents_first(self), key=lambda node: node.time, reverse=True)

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
        return self.record(matmul_pair, self, other)

    def relu(self):
        return self.record(_relu, self)

    def sum(self):
        return self.record(_total, self)

    def logsumexp(self, axis):
        return self.record(logsumexp_pair, self, axis=axis)

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
        return {"formula": Formula(text, "".join(arrays)), "calls": calls, **arrays}

    return Case(name, inputs, **more)


exercise = Implement(
    title="The tape",
    minutes=15,
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
