"""SGD with momentum and weight decay."""

import operator
from types import SimpleNamespace

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week03.shared import drive, drive_torch, optimizer_of, walk
from labkit.lazy import torch


def _sgd(gradient=lambda p, decay: p.grad + decay * p.data, velocity=None, move=None):
    velocity = velocity or (lambda old, g, momentum: momentum * old + g)
    move = move or (lambda p, v, g, lr, momentum: lr * v)

    def update(p, state, step, lr, momentum, weight_decay):
        g = gradient(p, weight_decay)
        state["v"] = velocity(state.get("v", 0.0), g, momentum)
        p.data -= move(p, state["v"], g, lr, momentum)

    return optimizer_of(update, momentum=0.0, weight_decay=0.0)


def _sgd_decoupled():
    def update(p, state, step, lr, momentum, weight_decay):
        state["v"] = momentum * state.get("v", 0.0) + p.grad
        p.data -= weight_decay * p.data
        p.data -= lr * state["v"]

    return optimizer_of(update, momentum=0.0, weight_decay=0.0)


def _refused_sgd(parameters, **options):
    """torch's own, over the same memory."""
    tensors = [torch.from_numpy(p.data) for p in parameters]
    inner = torch.optim.SGD(tensors, **options)

    def step():
        for p, tensor in zip(parameters, tensors, strict=True):
            tensor.grad = torch.from_numpy(p.grad)
        inner.step()

    return SimpleNamespace(step=step)


exercise = Implement(
    title="SGD with momentum and weight decay",
    minutes=10,
    needs=("w03.fit",),
    engine="numpy",
    dtype="float64",
    cases=[
        Case("plain", lambda draw: {**walk(draw, (2, 3), (4,)), "options": {"lr": 0.1}}),
        Case("momentum", lambda draw: {**walk(draw, (3, 2), (1,)), "options": {"lr": 0.05, "momentum": 0.9}}),
        Case("weight decay", lambda draw: {**walk(draw, (5,)), "options": {"lr": 0.2, "weight_decay": 0.3}}),
        Case(
            "both, not contiguous",
            lambda draw: {
                "start": [draw.transposed(3, 4), draw.normal(2)],
                "noise": [draw.normal(20, 3, 4), draw.normal(20, 2)],
                "options": {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.1},
            },
        ),
    ],
    oracle=lambda start, noise, options: drive_torch(torch.optim.SGD, start, noise, options),
    use=drive,
    memory="any",
    reference="torch.optim.SGD over 20 steps",
    rules=Rules(forbids=("SGD", "sgd", "Adam", "AdamW", "optim", "Optimizer")),
    delegate=_refused_sgd,
    mistakes=[
        Mistake(
            "averaged",
            "The new gradient is scaled by 1 - momentum, as Adam does. torch's SGD adds it whole.",
            _sgd(velocity=lambda old, g, momentum: momentum * old + (1 - momentum) * g),
        ),
        Mistake(
            "steps with the gradient",
            "The step is taken with the gradient. Step with the velocity, and keep it for the next step.",
            _sgd(move=lambda p, v, g, lr, momentum: lr * g),
        ),
        Mistake(
            "decay not scaled",
            "The weights shrink by weight_decay, whatever the learning rate. In SGD it is added to the gradient.",
            _sgd_decoupled(),
        ),
        Mistake(
            "decay grows",
            "The decay has the wrong sign: it pushes the weights away from 0.",
            _sgd(gradient=lambda p, decay: p.grad - decay * p.data),
        ),
        Mistake(
            "no decay",
            "weight_decay is not used: add weight_decay * p.data to the gradient.",
            _sgd(gradient=lambda p, decay: p.grad + 0.0),
        ),
        Mistake(
            "decay left in the gradient",
            "`p.grad += ...` changes the gradient itself, and who plots it sees the decay. Make a new one: g = p.grad + ...",
            _sgd(gradient=lambda p, decay: operator.iadd(p.grad, decay * p.data)),
        ),
        Mistake(
            "Nesterov",
            "This is Nesterov's variant, which looks one step ahead. Plain momentum steps with v.",
            _sgd(move=lambda p, v, g, lr, momentum: lr * (g + momentum * v)),
        ),
        Mistake(
            "uphill",
            "The step goes uphill: subtract it.",
            _sgd(move=lambda p, v, g, lr, momentum: -lr * v),
        ),
    ],
    hints=(
        "Three lines: the gradient with the decay in it, the new velocity, the step.",
        "g = p.grad + weight_decay * p.data, made new: `p.grad +=` would change the gradient itself.",
        "self.velocity[i] = self.momentum * self.velocity[i] + g; p.data -= self.lr * self.velocity[i]",
    ),
    passed="With momentum 0.9 a constant gradient ends up with ten times the step: 1 / (1 - 0.9).",
)
