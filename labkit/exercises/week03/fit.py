"""Fit a line by gradient descent."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import F, torch


def _fit_truth(x, y, lr, steps):
    weights = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    bias = torch.zeros((), dtype=x.dtype, requires_grad=True)
    for _ in range(steps):
        grads = torch.autograd.grad(F.mse_loss(x @ weights + bias, y), [weights, bias])
        for value, grad in zip([weights, bias], grads, strict=True):
            value.data.sub_(grad, alpha=lr)
    return weights.detach(), bias.detach()


def _fit_with(update, loss=lambda error: (error**2).mean(), keep=(0.0, 0.0)):
    """Gradient descent with one thing about it changed. `keep`: how much of the two old gradients stays."""

    def fit(x, y, lr, steps):
        weights = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
        bias = torch.zeros((), dtype=x.dtype, requires_grad=True)
        old = [torch.zeros_like(weights), torch.zeros_like(bias)]
        for _ in range(steps):
            grads = torch.autograd.grad(loss(x @ weights + bias - y), [weights, bias])
            old = [share * before + now for share, before, now in zip(keep, old, grads, strict=True)]
            with torch.no_grad():
                update(weights, bias, *old, lr)
        return weights.detach(), bias.detach()

    return fit


def _downhill(weights, bias, weights_grad, bias_grad, lr):
    weights -= lr * weights_grad
    bias -= lr * bias_grad


def _uphill(weights, bias, weights_grad, bias_grad, lr):
    _downhill(weights, bias, -weights_grad, -bias_grad, lr)


def _bias_stays(weights, bias, weights_grad, bias_grad, lr):
    _downhill(weights, bias, weights_grad, 0 * bias_grad, lr)


def _whole_gradient(weights, bias, weights_grad, bias_grad, lr):
    _downhill(weights, bias, weights_grad, bias_grad, 1.0)


def _recorded(weights, bias, weights_grad, bias_grad, lr):
    with torch.enable_grad():
        _downhill(weights, bias, weights_grad, bias_grad, lr)


exercise = Implement(
    title="Walk downhill",
    minutes=10,
    also=(
        "gradient descent",
        "linear regression",
    ),
    dtype="float64",
    cases=[
        Case(
            "three features, five steps",
            lambda draw: {"x": draw.normal(6, 3), "y": draw.normal(6), "lr": 0.1, "steps": 5},
        ),
        Case(
            "a single step", lambda draw: {"x": draw.normal(4, 2), "y": draw.normal(4), "lr": 0.3, "steps": 1}
        ),
        Case(
            "one feature, not contiguous",
            lambda draw: {"x": draw.strided(5, 1), "y": draw.strided(5), "lr": 0.05, "steps": 12},
        ),
        Case(
            "no step at all",
            lambda draw: {"x": draw.normal(3, 2), "y": draw.normal(3), "lr": 0.1, "steps": 0},
            extreme=True,
        ),
    ],
    oracle=_fit_truth,
    rules=Rules(
        forbids=("mse_loss", "MSELoss", "SGD", "Adam", "step", "lstsq", "pinv", "solve", "Linear", "linear")
    ),
    mistakes=[
        Mistake(
            "uphill",
            "The gradient points uphill, and you walk along it. Subtract it.",
            _fit_with(_uphill),
        ),
        Mistake(
            "gradients pile up",
            "`backward` adds to `.grad`. Set it to None after each step, or each step repeats all the earlier ones.",
            _fit_with(_downhill, keep=(1.0, 1.0)),
        ),
        Mistake(
            "gradient of the bias piles up",
            "Only `weights.grad` is set back: `bias.grad` piles up. Both have to go.",
            _fit_with(_downhill, keep=(0.0, 1.0)),
        ),
        Mistake(
            "gradient of the weights piles up",
            "Only `bias.grad` is set back: `weights.grad` piles up. Both have to go.",
            _fit_with(_downhill, keep=(1.0, 0.0)),
        ),
        Mistake(
            "nothing moves",
            "Weights and bias never move: no step is taken, or the gradients are forgotten before it and not after.",
            _fit_with(lambda weights, bias, weights_grad, bias_grad, lr: None),
        ),
        Mistake(
            "not squared",
            "This is the mean of the absolute errors; square them.",
            _fit_with(_downhill, loss=lambda error: error.abs().mean()),
        ),
        Mistake(
            "root of the mean",
            "The loss is the root of the mean squared error, and its gradient is another one. Leave the root out.",
            _fit_with(_downhill, loss=lambda error: (error**2).mean().sqrt()),
        ),
        Mistake(
            "sum for mean",
            "The squared errors are added up; with their mean, the same learning rate works for any number of rows.",
            _fit_with(_downhill, loss=lambda error: (error**2).sum()),
        ),
        Mistake(
            "step recorded",
            "torch would make the step part of the graph, and refuses. Put both updates inside `with torch.no_grad():`.",
            _fit_with(_recorded),
        ),
        Mistake(
            "bias stays",
            "The bias is never updated: it has a gradient too.",
            _fit_with(_bias_stays),
        ),
        Mistake(
            "learning rate left out",
            "The whole gradient is subtracted: multiply it by lr.",
            _fit_with(_whole_gradient),
        ),
        Mistake(
            "mean before square",
            "The errors are averaged before they are squared, so that errors of opposite sign cancel.",
            _fit_with(_downhill, loss=lambda error: error.mean() ** 2),
        ),
        Mistake(
            "half the error",
            "There is a factor ½ too many. Some books put it into the loss; torch's mean squared error has none.",
            _fit_with(_downhill, loss=lambda error: (error**2).mean() / 2),
        ),
    ],
    hints=(
        "Four things, in this order: the loss, its gradients, the update, and forgetting the gradients.",
        "`loss.backward()` fills weights.grad and bias.grad. The update goes inside `with torch.no_grad():`.",
        "weights -= lr * weights.grad; bias -= lr * bias.grad; then weights.grad = bias.grad = None",
    ),
    passed="These lines are the training loop of every network in this course; the rest is what stands in for x @ weights + bias.",
)
