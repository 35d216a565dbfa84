"""AdamW: Adam with weight decay beside the gradient, not in it."""

from types import SimpleNamespace

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week03.shared import drive, drive_torch, optimizer_of, walk
from labkit.lazy import torch


def _adamw(
    gradient=None, corrected=None, root=None, decay=None, betas=None, keep=None, new=None, square=None
):
    """AdamW with one part changed."""
    gradient = gradient or (lambda p, weight_decay: p.grad)
    corrected = corrected or (lambda m, v, b1, b2, t: (m / (1 - b1**t), v / (1 - b2**t)))
    root = root or (lambda v, eps: v**0.5 + eps)
    decay = decay or (lambda p, lr, weight_decay: lr * weight_decay * p.data)

    def update(p, state, step, lr, weight_decay, eps, **options):
        b1, b2 = options["betas"] if betas is None else betas(*options["betas"])
        g = gradient(p, weight_decay)
        m = b1 * state.get("m", 0.0) + (new(b1) if new else 1 - b1) * g
        v = b2 * state.get("v", 0.0) + (1 - b2) * (square(g, m) if square else g**2)
        up, down = corrected(m, v, b1, b2, step)
        state.update(m=up if keep else m, v=down if keep == "both" else v)
        p.data -= decay(p, lr, weight_decay)
        p.data -= lr * up / root(down, eps)

    return optimizer_of(update, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def _adamw_late():
    def update(p, state, step, lr, weight_decay, eps, betas):
        b1, b2 = betas
        state["m"] = b1 * state.get("m", 0.0) + (1 - b1) * p.grad
        state["v"] = b2 * state.get("v", 0.0) + (1 - b2) * p.grad**2
        p.data -= lr * (state["m"] / (1 - b1**step)) / ((state["v"] / (1 - b2**step)) ** 0.5 + eps)
        p.data -= lr * weight_decay * p.data

    return optimizer_of(update, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def _refused_adamw(parameters, **options):
    """torch's own, over the same memory."""
    tensors = [torch.from_numpy(p.data) for p in parameters]
    inner = torch.optim.AdamW(tensors, **options)

    def step():
        for p, tensor in zip(parameters, tensors, strict=True):
            tensor.grad = torch.from_numpy(p.grad)
        inner.step()

    return SimpleNamespace(step=step)


exercise = Implement(
    title="Adam and AdamW",
    minutes=15,
    needs=("w03.sgd",),
    engine="numpy",
    dtype="float64",
    cases=[
        Case("as it comes", lambda draw: {**walk(draw, (2, 3), (4,)), "options": {}}),
        Case(
            "Adam: no decay",
            lambda draw: {**walk(draw, (3, 2), (1,)), "options": {"lr": 0.1, "weight_decay": 0.0}},
        ),
        Case(
            "decay",
            lambda draw: {**walk(draw, (5,)), "options": {"lr": 0.05, "weight_decay": 0.5}},
        ),
        Case(
            "other betas and a large eps, not contiguous",
            lambda draw: {
                "start": [draw.transposed(3, 4), draw.normal(2)],
                "noise": [draw.normal(20, 3, 4), draw.normal(20, 2)],
                "options": {"lr": 0.1, "betas": (0.7, 0.8), "eps": 0.3, "weight_decay": 0.1},
            },
        ),
    ],
    oracle=lambda start, noise, options: drive_torch(torch.optim.AdamW, start, noise, options),
    use=drive,
    memory="any",
    reference="torch.optim.AdamW over 20 steps",
    rules=Rules(forbids=("SGD", "sgd", "Adam", "adam", "AdamW", "adamw", "optim", "Optimizer")),
    delegate=_refused_adamw,
    mistakes=[
        Mistake(
            "no bias correction",
            "m and v start at 0 and are too small at first. Divide them by 1 - beta**steps.",
            _adamw(corrected=lambda m, v, b1, b2, t: (m, v)),
        ),
        Mistake(
            "only m corrected",
            "m is corrected and v is not: v starts at 0 as well, and with beta2 = 0.999 it stays too small for a thousand steps.",
            _adamw(corrected=lambda m, v, b1, b2, t: (m / (1 - b1**t), v)),
        ),
        Mistake(
            "decay coupled",
            "The decay was added to the gradient, and then divided by the root of v like everything else. AdamW shrinks p itself.",
            _adamw(gradient=lambda p, wd: p.grad + wd * p.data, decay=lambda p, lr, wd: 0.0),
        ),
        Mistake(
            "decay not scaled",
            "The weights shrink by weight_decay in each step; by lr * weight_decay they should.",
            _adamw(decay=lambda p, lr, wd: wd * p.data),
        ),
        Mistake(
            "eps inside the root",
            "eps stands inside the root. It is added after: sqrt(v) + eps.",
            _adamw(root=lambda v, eps: (v + eps) ** 0.5),
        ),
        Mistake(
            "no root",
            "m is divided by v. Divide by its root, so that the step does not depend on the scale of the gradient.",
            _adamw(root=lambda v, eps: v + eps),
        ),
        Mistake(
            "betas swapped",
            "beta1 belongs to the mean of the gradients, beta2 to the mean of their squares.",
            _adamw(betas=lambda b1, b2: (b2, b1)),
        ),
        Mistake(
            "corrected values kept",
            "The corrected m and v were stored for the next step. Correct a copy; the running means stay as they are.",
            _adamw(keep="both"),
        ),
        Mistake(
            "corrected m kept",
            "The corrected m was stored for the next step. Correct a copy; the running mean stays as it is.",
            _adamw(keep="m"),
        ),
        Mistake(
            "only v corrected",
            "v is corrected and m is not: m starts at 0 as well. Divide it by 1 - beta1**steps.",
            _adamw(corrected=lambda m, v, b1, b2, t: (m, v / (1 - b2**t))),
        ),
        Mistake(
            "no decay",
            "weight_decay is not used: first p shrinks by lr * weight_decay * p.",
            _adamw(decay=lambda p, lr, wd: 0.0),
        ),
        Mistake(
            "decay grows",
            "The decay has the wrong sign: it pushes the weights away from 0.",
            _adamw(decay=lambda p, lr, wd: -lr * wd * p.data),
        ),
        Mistake(
            "gradient added whole",
            "The gradient goes into m whole, as in SGD. Here it is weighed by 1 - beta1: m is a mean.",
            _adamw(new=lambda b1: 1.0),
        ),
        Mistake(
            "square of the mean",
            "v takes the square of m; it is the mean of the squared *gradients*.",
            _adamw(square=lambda g, m: m**2),
        ),
        Mistake(
            "decay after the step",
            "The decay was taken from the weights after the step; torch shrinks them first.",
            _adamw_late(),
        ),
    ],
    hints=(
        "Six lines, in the order of the formulas: m, v, both corrected, the shrinking, the step.",
        "m = beta1 * m + (1 - beta1) * g, v the same with beta2 and g**2. self.steps counts from 1. A root is `** 0.5`.",
        "p.data -= self.lr * self.weight_decay * p.data; p.data -= self.lr * m_hat / (v_hat**0.5 + self.eps)",
    ),
    passed="In its first step Adam moves every weight by nearly lr, whatever its gradient: m̂ / √v̂ is g / |g|.",
)
