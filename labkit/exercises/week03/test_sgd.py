"""Write a test for SGD with momentum."""

from labkit.exercises.declare import Mistake, WriteTest
from labkit.lazy import torch


def _good_sgd(update=None, velocity=None, per_parameter=True, skip=0):
    """SGD over torch tensors, with a place for each planted bug."""
    velocity = velocity or (lambda old, g, before, momentum: momentum * old + g)

    class SGD:
        def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
            self.parameters = list(parameters)
            self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
            self.v, self.before = {}, {}

        def step(self):
            for i, p in enumerate(self.parameters[: len(self.parameters) - skip]):
                key = i if per_parameter else "all"
                g = (update or _decayed)(p, self.weight_decay)
                old = self.v.get(key, 0.0)
                if torch.is_tensor(old) and old.shape != g.shape:
                    old = 0.0
                self.v[key] = velocity(old, g, self.before.get(i, 0.0), self.momentum)
                self.before[i] = g.clone()
                p.data -= self.lr * self.v[key]

        def zero_grad(self):
            for p in self.parameters:
                p.grad = None

    return SGD


def _decayed(p, weight_decay):
    return p.grad + weight_decay * p.data


def _decayed_in_place(p, weight_decay):
    p.grad += weight_decay * p.data
    return p.grad


class _UnrolledSGD:
    """The same walk from the other end: all gradients are kept, and each velocity is summed up anew."""

    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.seen = [[] for _ in self.parameters]

    def step(self):
        for p, seen in zip(self.parameters, self.seen, strict=True):
            seen.insert(0, _decayed(p, self.weight_decay))
            p.data = p.data - self.lr * sum(self.momentum**age * g for age, g in enumerate(seen))


def _number(value, grad):
    p = torch.tensor([value])
    p.grad = torch.tensor([grad])
    return p


def _walked(optimizer_class, steps, grad=2.0, **options):
    """Where one number gets from 1 in some steps with a constant gradient."""
    p = _number(1.0, grad)
    optimizer = optimizer_class([p], lr=0.1, **options)
    for _ in range(steps):
        p.grad = torch.tensor([grad])
        optimizer.step()
    return p.item()


def _near(a, b):
    return abs(a - b) < 1e-5


def _test_one_step(optimizer_class):
    assert _near(_walked(optimizer_class, 1), 0.8)


def _test_moves(optimizer_class):
    assert _walked(optimizer_class, 3, momentum=0.5, weight_decay=0.1) != 1.0


def _test_two_steps(optimizer_class):
    assert _near(_walked(optimizer_class, 2, momentum=0.5), 0.5)
    assert _near(_walked(optimizer_class, 1, weight_decay=0.5), 0.75)


def _test_no_first_step(optimizer_class):
    assert _near(_walked(optimizer_class, 1, momentum=0.5), 0.9)


def _test_numbers(optimizer_class):
    assert _near(_walked(optimizer_class, 3, momentum=0.5), 0.15)
    assert _near(_walked(optimizer_class, 1, weight_decay=0.5), 0.75)


exercise = WriteTest(
    title="Write the test",
    minutes=15,
    needs=("w03.sgd",),
    good=[_good_sgd(), _UnrolledSGD],
    bugs={
        "uphill": (
            "it walks uphill.",
            _good_sgd(velocity=lambda old, g, before, momentum: momentum * old - g),
        ),
        "no momentum": (
            "it takes no notice of momentum.",
            _good_sgd(velocity=lambda old, g, before, momentum: g),
        ),
        "averaged": (
            "with momentum, the first step is already too short: the gradient is scaled by 1 - momentum.",
            _good_sgd(velocity=lambda old, g, before, momentum: momentum * old + (1 - momentum) * g),
        ),
        "short memory": (
            "it remembers the last gradient only, not the velocity: the first two steps are right.",
            _good_sgd(velocity=lambda old, g, before, momentum: g + momentum * before),
        ),
        "decay sign": (
            "weight decay pushes the weights away from 0.",
            _good_sgd(update=lambda p, decay: p.grad - decay * p.data),
        ),
        "shared": (
            "all parameters of the same shape share one velocity.",
            _good_sgd(per_parameter=False),
        ),
        "last one": ("the last parameter never moves.", _good_sgd(skip=1)),
        "in place": (
            "it writes the weight decay into the gradient itself.",
            _good_sgd(update=_decayed_in_place),
        ),
    },
    mistakes=[
        Mistake(
            "it moves",
            "The test asks whether the parameter moves at all. Most bugs move it, to the wrong place: compare with a number.",
            _test_moves,
        ),
        Mistake(
            "one plain step",
            "One step without momentum and decay is tested. Nearly every bug of an optimizer shows later than that.",
            _test_one_step,
        ),
        Mistake(
            "two steps",
            "Two steps with momentum are right for an optimizer that remembers one gradient. Take a third.",
            _test_two_steps,
        ),
        Mistake(
            "averaged",
            "The test wants the first step scaled by 1 - momentum. In torch's convention v = momentum * v + g, so the first v is g.",
            _test_no_first_step,
        ),
        Mistake(
            "one parameter",
            "The numbers are tested well, for one parameter. Not tested: two parameters with different gradients, and whether grad stays as it was.",
            _test_numbers,
        ),
    ],
    hints=(
        "Work out three steps by hand: p = 1, g = 2 each time, lr = 0.1, momentum = 0.5. Then p = 0.8, 0.5, 0.15.",
        "Then weight decay alone, one step. Then two parameters of the same shape with different gradients and momentum, two steps.",
        "before = p.grad.clone(); optimizer.step(); assert torch.equal(p.grad, before)",
    ),
    passed="A test of an optimizer needs three steps, two parameters, and one look at what should not have changed.",
)
