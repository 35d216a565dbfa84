"""Week 3: networks by hand. From a line to a network, modules and optimizers, torch's own API, and the clinic."""

import math
import operator
from itertools import pairwise
from types import SimpleNamespace

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
from labkit.lazy import F, torch

# 01 from a line to a network


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


fit = Implement(
    id="w03.fit",
    title="Walk downhill",
    minutes=10,
    level=1,
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


def _network(x, w1, b1, w2, b2):
    return F.linear(torch.relu(F.linear(x, w1, b1)), w2, b2)


def _layers(draw, n, features, hidden, out):
    return {
        "x": draw.normal(n, features),
        "w1": draw.normal(hidden, features),
        "b1": draw.normal(hidden),
        "w2": draw.normal(out, hidden),
        "b2": draw.normal(out),
    }


hidden = Implement(
    id="w03.hidden",
    title="A hidden layer",
    minutes=6,
    level=1,
    needs=("w03.fit",),
    cases=[
        Case("3 to 4 to 2", lambda draw: _layers(draw, 5, 3, 4, 2)),
        Case("one output", lambda draw: _layers(draw, 6, 2, 7, 1)),
        Case(
            "not contiguous",
            lambda draw: {
                **_layers(draw, 4, 3, 5, 2),
                "x": draw.strided(4, 3),
                "w1": draw.transposed(5, 3),
            },
        ),
        Case("one example, one feature", lambda draw: _layers(draw, 1, 1, 3, 2)),
        Case(
            "all units off",
            lambda draw: {**_layers(draw, 3, 2, 4, 5), "b1": np.full(4, -1e4, "float32")},
            extreme=True,
        ),
    ],
    oracle=_network,
    grads=("x", "w1", "b1", "w2", "b2"),
    rules=Rules(forbids=("relu", "linear", "Linear", "ReLU", "Sequential", "relu6", "hardtanh", "threshold")),
    mistakes=[
        Mistake(
            "no bend",
            "The ReLU is missing: a line of a line is a line again, however many layers you stack.",
            lambda x, w1, b1, w2, b2: (x @ w1.T + b1) @ w2.T + b2,
        ),
        Mistake(
            "bent output",
            "The output went through the ReLU as well: the network could never predict a negative number.",
            lambda x, w1, b1, w2, b2: torch.relu(_network(x, w1, b1, w2, b2)),
        ),
        Mistake(
            "bias after the bend",
            "b1 is added after the ReLU. It moves the bend, so it belongs inside.",
            lambda x, w1, b1, w2, b2: (torch.relu(x @ w1.T) + b1) @ w2.T + b2,
        ),
        Mistake(
            "absolute value",
            "This is the absolute value: negative sums become 0, not positive.",
            lambda x, w1, b1, w2, b2: (x @ w1.T + b1).abs() @ w2.T + b2,
        ),
        Mistake(
            "negative side",
            "The positive sums are cut off. Keep those and set the negative ones to 0.",
            lambda x, w1, b1, w2, b2: torch.clamp(x @ w1.T + b1, max=0) @ w2.T + b2,
        ),
        Mistake(
            "bias missing",
            "b2 is not used: the output layer has a bias as well.",
            lambda x, w1, b1, w2, b2: torch.relu(x @ w1.T + b1) @ w2.T,
        ),
    ],
    hints=(
        "Two lines: the hidden layer, bent; then the output layer, straight.",
        "A layer is `x @ w.T + b`, because w has shape (out, in). `clamp(min=0)` bends it.",
        "hidden = (x @ w1.T + b1).clamp(min=0); return hidden @ w2.T + b2",
    ),
    passed="With enough hidden units this form comes as close as you like to any continuous function on a bounded range.",
)


def _mean_loss(logits, labels):
    return F.cross_entropy(logits, labels)


def _picked(values, labels):
    return values.gather(1, labels[:, None]).squeeze(1)


def _log_sum_minus_label(z, labels, picked=None):
    return (z.exp().sum(1).log() - (_picked(z, labels) if picked is None else picked)).mean()


def _shifted_softmax(logits):
    weights = (logits - logits.amax(1, keepdim=True)).exp()
    return weights / weights.sum(1, keepdim=True)


def _naive_cross_entropy(logits, labels):
    odds = logits.exp()
    return -(odds / odds.sum(1, keepdim=True))[torch.arange(len(labels)), labels].log().mean()


cross_entropy = Implement(
    id="w03.cross_entropy",
    title="Cross-entropy from logits",
    minutes=12,
    level=2,
    needs=("w01.pick",),
    cases=[
        Case(
            "5 examples, 3 classes",
            lambda draw: {"logits": draw.normal(5, 3), "labels": draw.integers(0, 3, 5)},
        ),
        Case(
            "2 examples, 6 classes",
            lambda draw: {"logits": 3 * draw.normal(2, 6), "labels": np.array([4, 0])},
        ),
        Case(
            "not contiguous",
            lambda draw: {"logits": draw.transposed(4, 7), "labels": draw.integers(0, 7, 8)[::2]},
        ),
        Case("one example", lambda draw: {"logits": draw.normal(1, 4), "labels": np.array([2])}),
        Case(
            "logits of 10,000",
            lambda draw: {
                "logits": np.array([[1e4, 0, -1e4], [0, 1e4, 9.999e3]], "float32"),
                "labels": np.array([1, 2]),
            },
            extreme=True,
        ),
        Case(
            "rows far apart",
            lambda draw: {
                "logits": np.array([[1e4, 9.999e3, 0], [-1.0002e4, -1e4, -1.0001e4]], "float32"),
                "labels": np.array([1, 0]),
            },
            extreme=True,
        ),
        Case(
            "logits of -10,000",
            lambda draw: {"logits": np.array([[-1e4, -1.0001e4]], "float32"), "labels": np.array([0])},
            extreme=True,
        ),
    ],
    oracle=_mean_loss,
    grads=("logits",),
    rules=Rules(
        forbids=(
            *("cross_entropy", "CrossEntropyLoss", "log_softmax", "LogSoftmax", "softmax", "Softmax"),
            *("logsumexp", "nll_loss", "NLLLoss", "logaddexp", "logcumsumexp", "softmin"),
        )
    ),
    mistakes=[
        Mistake(
            "softmax twice",
            "Softmax was applied to the logits, and then the loss applied it again. Logits go in as they are.",
            lambda logits, labels: _mean_loss(logits.softmax(1), labels),
        ),
        Mistake(
            "wrong axis",
            "The sum runs over the examples. The classes of one example share its probability: sum over axis 1.",
            lambda logits, labels: F.nll_loss(logits.log_softmax(0), labels),
        ),
        Mistake(
            "sum over examples",
            "The losses are added up; their mean is wanted, so that the batch size does not change the learning rate.",
            lambda logits, labels: F.cross_entropy(logits, labels, reduction="sum"),
        ),
        Mistake(
            "one per example",
            "These are the losses of the single examples, all right. Return their mean.",
            lambda logits, labels: F.cross_entropy(logits, labels, reduction="none"),
        ),
        Mistake(
            "sign",
            "The sign is wrong: the loss is *minus* the log-probability of the label.",
            lambda logits, labels: -_mean_loss(logits, labels),
        ),
        Mistake(
            "overflow",
            "exp(10000) is infinite, and infinity by infinity is NaN. Subtract the largest logit of each row first.",
            _naive_cross_entropy,
        ),
        Mistake(
            "overflow in the sum",
            "exp(10000) is infinite, and so is the logarithm of the sum. Subtract the largest logit of each row first.",
            lambda logits, labels: _log_sum_minus_label(logits, labels),
        ),
        Mistake(
            "logarithm of 0",
            "A probability may be rounded to 0, and its logarithm is -inf. Subtract logs: the label's logit minus the log of the sum.",
            lambda logits, labels: -_picked(_shifted_softmax(logits), labels).log().mean(),
        ),
        Mistake(
            "one maximum for all",
            "The largest of all logits was subtracted: a row far below it underflows to log(0). Take it row by row.",
            lambda logits, labels: _log_sum_minus_label(logits - logits.max(), labels),
        ),
        Mistake(
            "label not shifted",
            "The largest logit is subtracted in the sum, and not from the label's logit: both or none.",
            lambda logits, labels: _log_sum_minus_label(
                logits - logits.amax(1, keepdim=True), labels, picked=_picked(logits, labels)
            ),
        ),
        Mistake(
            "all pairs",
            "`z[:, labels]` takes every label in every row. Each row has its own: `z[torch.arange(n), labels]`, or gather.",
            lambda logits, labels: _log_sum_minus_label(
                logits - logits.amax(1, keepdim=True),
                labels,
                picked=(logits - logits.amax(1, keepdim=True))[:, labels],
            ),
        ),
        Mistake(
            "best class for the label",
            "The loss of the most likely class is taken, whatever the label says.",
            lambda logits, labels: _mean_loss(logits, logits.argmax(1)),
        ),
        Mistake(
            "no log",
            "The probability of the label itself is averaged; take its logarithm.",
            lambda logits, labels: -logits.softmax(1).gather(1, labels[:, None]).mean(),
        ),
    ],
    hints=(
        "The loss of one example is log(sum of exp(logits)) minus the logit of its label. Start with that, then make it stable.",
        "Subtracting the same number from all logits of a row changes nothing: take its maximum, `logits.amax(1, keepdim=True)`.",
        "s = logits - logits.amax(1, keepdim=True); logp = s - s.exp().sum(1, keepdim=True).log(); pick the labels, mean, minus",
    ),
    passed="Its gradient is the softmax minus the one-hot label, divided by the batch size: the simplest gradient in this course.",
)


def _zero_loss(classes):
    return lambda: float(F.cross_entropy(torch.zeros(1, classes), torch.tensor([0])))


def _ten(right, wrong=0.0, twice=False):
    """The loss of ten logits: the label's, one wrong one, eight zeros; through softmax once more or not."""

    def truth():
        logits = torch.zeros(1, 10)
        logits[0, 3], logits[0, 4] = right, wrong
        return float(F.cross_entropy(logits.softmax(1) if twice else logits, torch.tensor([3])))

    return truth


loss_at_start = Predict(
    id="w03.loss_at_start",
    title="The loss before training",
    minutes=8,
    level=2,
    needs=("w03.cross_entropy",),
    items={
        "a": Item("10 classes, all logits 0", _zero_loss(10)),
        "b": Item("1000 classes, all logits 0", _zero_loss(1000)),
        "c": Item(
            "2 classes, both logits 5",
            lambda: float(F.cross_entropy(torch.full((1, 2), 5.0), torch.tensor([1]))),
        ),
        "d": Item("10 classes, the label's logit is 100, the others 0", _ten(100.0)),
        "e": Item("10 classes, the logit of one wrong class is 100, the others 0", _ten(0.0, 100.0)),
        "f": Item(
            "as a, but somebody put a softmax between the network and the loss: the loss gets probabilities for logits",
            _ten(0.0, twice=True),
        ),
        "g": Item("as d, with that softmax: how good can this network ever look?", _ten(100.0, twice=True)),
    },
    mistakes=[
        Mistake(
            "zero logits, zero loss",
            "a: equal logits are equal probabilities, 1/10 each. The loss is -ln(1/10) = ln 10.",
            {"a": 0.0},
        ),
        Mistake("base ten", "a: torch's log is the natural one: ln 10, not log10 of 10.", {"a": 1.0}),
        Mistake(
            "same for any number",
            "b: with 1000 classes a guess is right once in 1000: ln 1000.",
            {"b": math.log(10)},
        ),
        Mistake(
            "logits count alone",
            "c: only differences of logits matter. Two equal ones are one bit: ln 2.",
            {"c": 5.0},
        ),
        Mistake(
            "never zero", "d: the label has probability 1 to 43 digits, and -ln 1 is 0.", {"d": math.log(10)}
        ),
        Mistake(
            "loss has a ceiling",
            "e: being surely wrong costs the difference of the two logits. There is no upper limit.",
            {"e": 1.0},
        ),
        Mistake(
            "softmax shows",
            "f: softmax of equal logits is equal again. At the start nothing looks wrong.",
            {"f": math.log(10) / 10},
        ),
        Mistake(
            "softmax twice is harmless",
            "g: after softmax the logits lie between 0 and 1, and a difference of 1 is all the confidence there is: ln(e + 9) - 1.",
            {"g": 0.0},
        ),
    ],
    hints=(
        "Write down the probability of the label first; the loss is minus its natural logarithm.",
        "Equal logits: probability 1/C. Very unequal logits: the loss is the difference from the largest.",
        "g: after softmax the label's logit is 1 and the nine others are 0. The loss is ln(e + 9) - 1.",
    ),
    passed="If the first loss you print is not near ln C, stop and look: the labels, the last layer or the loss is wrong.",
)


def _accept_factor(value):
    if 1.36 <= value <= 1.47:
        return None
    growth = value**2 / 2
    words = "grow" if growth > 1 else "shrink"
    return f"with c = {value:g} the squares of the activations {words} to {growth:.3g} times per layer."


init = Measure(
    id="w03.init",
    title="How large are the first weights?",
    minutes=10,
    level=2,
    needs=("w03.hidden",),
    accept=_accept_factor,
    mistakes=[
        Mistake(
            "no room for the bend",
            "That is the factor for layers without a bend. The ReLU throws away half of the squares; make up for it.",
            1.0,
            when=lambda value: 0.95 <= value <= 1.05,
        ),
        Mistake(
            "variance for deviation",
            "2 is the right factor for the variance, 2 / fan_in. The deviation is its root.",
            2.0,
            when=lambda value: 1.95 <= value <= 2.05,
        ),
        Mistake(
            "the deviation itself",
            "That is c / sqrt(256), the deviation of the weights. The factor c is asked for.",
            0.0884,
            when=lambda value: 0.08 <= value <= 0.1,
        ),
        Mistake(
            "half",
            "Half of the squares are lost in each layer, so the weights must be larger, not smaller.",
            0.7071,
            when=lambda value: 0.45 <= value <= 0.75,
        ),
    ],
    hints=(
        "Try values between 1 and 2 and look at the last line of the table: does the spread grow or shrink?",
        "Without a bend c = 1 keeps the spread. The ReLU sets half of the units to 0, and with them half of the squares.",
        "c squared must make up for the factor ½: c = sqrt(2).",
    ),
    passed="This is He initialization, torch's `nn.init.kaiming_normal_`. Without a bend the same argument gives Xavier's.",
)


def _dropout_truth(x, p, noise, training):
    return (
        torch.where(noise >= p, x / (1 - p), 0)
        if training and p < 1
        else x.clone()
        if not training
        else 0 * x
    )


dropout = Implement(
    id="w03.dropout",
    title="Dropout",
    minutes=8,
    level=2,
    needs=("w03.hidden",),
    cases=[
        Case(
            "a third is dropped",
            lambda draw: {
                "x": draw.normal(5, 4),
                "p": 0.3,
                "noise": draw.uniform(0, 1, 5, 4),
                "training": True,
            },
        ),
        Case(
            "most is dropped, not contiguous",
            lambda draw: {
                "x": draw.transposed(3, 7),
                "p": 0.75,
                "noise": draw.uniform(0, 1, 3, 14)[:, ::2],
                "training": True,
            },
        ),
        Case(
            "evaluation",
            lambda draw: {
                "x": draw.normal(2, 6),
                "p": 0.3,
                "noise": draw.uniform(0, 1, 2, 6),
                "training": False,
            },
        ),
        Case(
            "one row",
            lambda draw: {
                "x": draw.normal(1, 9),
                "p": 0.5,
                "noise": draw.uniform(0, 1, 1, 9),
                "training": True,
            },
        ),
        Case(
            "noise exactly p",
            lambda draw: {
                "x": draw.normal(4),
                "p": 0.5,
                "noise": np.array([0.25, 0.5, 0.75, 0.5], "float32"),
                "training": True,
            },
        ),
        Case(
            "all is dropped",
            lambda draw: {
                "x": draw.normal(2, 3),
                "p": 1.0,
                "noise": draw.uniform(0, 1, 2, 3),
                "training": True,
            },
            extreme=True,
        ),
    ],
    oracle=_dropout_truth,
    memory="any",
    grads=("x",),
    rules=Rules(forbids=("dropout", "Dropout", "alpha_dropout", "feature_dropout", "native_dropout")),
    delegate=lambda x, p, noise, training: F.dropout(x, p, training),
    mistakes=[
        Mistake(
            "not scaled",
            "What is kept is not scaled. Divide it by 1 - p, so that the expected value stays the same.",
            lambda x, p, noise, training: torch.where(noise >= p, x, 0) if training else x,
        ),
        Mistake(
            "scaled by p",
            "What is kept is divided by p. The share that is kept is 1 - p.",
            lambda x, p, noise, training: torch.where(noise >= p, x / p, 0) if training else x,
        ),
        Mistake(
            "kept for dropped",
            "The share p is kept and the rest dropped. p is the probability to *drop*.",
            lambda x, p, noise, training: torch.where(noise < p, x / (1 - p), 0) if training else x,
        ),
        Mistake(
            "drops in evaluation",
            "Units are dropped in evaluation as well: then the same input gives another answer each time.",
            lambda x, p, noise, training: torch.where(noise >= p, x / (1 - p), 0),
        ),
        Mistake(
            "scaled in evaluation",
            "This scales down in evaluation, as the first paper did. torch scales up in training and then leaves x alone.",
            lambda x, p, noise, training: torch.where(noise >= p, x, 0) if training else x * (1 - p),
        ),
        Mistake(
            "p itself dropped",
            "Noise equal to p is dropped. Keep it: noise lies in [0, 1), and noise < p has probability p exactly.",
            lambda x, p, noise, training: torch.where(noise > p, x / (1 - p), 0) if training else x,
        ),
        Mistake(
            "0 by 0",
            "For p = 1 this is 0 divided by 0. Choose with `torch.where`, which looks at one side only.",
            lambda x, p, noise, training: x * (noise >= p) / (1 - p) if training else x,
        ),
    ],
    hints=(
        "Two cases: in evaluation nothing happens. In training some elements become 0 and the others grow.",
        "`noise >= p` says what is kept. If a share 1 - p is kept, dividing by 1 - p keeps the expected value.",
        "return torch.where(noise >= p, x / (1 - p), 0) if training else x",
    ),
    passed="This is why `model.eval()` matters: forget it, and a finished network answers with some of its units missing.",
)


# 02 modules and optimizers


def _is_parameter(value):
    return getattr(value, "requires_grad", False)


def _named_parameters(module, prefix=""):
    for name, value in module._parameters.items():
        yield prefix + name, value
    for name, child in module._modules.items():
        yield from child.named_parameters(f"{prefix}{name}.")


def _train(module, mode):
    module.training = mode
    for child in module._modules.values():
        child.train(mode)
    return module


def _module(is_parameter=_is_parameter, named=_named_parameters, train=_train):
    """The class of the lesson, with one part of it changed."""

    class Module:
        def __init__(self):
            self.__dict__.update(_parameters={}, _modules={}, training=True)

        def __setattr__(self, name, value):
            if isinstance(value, Module):
                self._modules[name] = value
            elif is_parameter(value):
                self._parameters[name] = value
            object.__setattr__(self, name, value)

        def named_parameters(self, prefix=""):
            return named(self, prefix)

        def train(self, mode=True):
            return train(self, mode)

        def eval(self):
            return self.train(False)

        def __call__(self, x):
            return self.forward(x)

    return Module


def _parameter_of(shape):
    return torch.zeros(shape, requires_grad=True)


def _grow(module_class, tree, parameter):
    """A tree of modules: dicts are modules, tuples the shapes of parameters, lists plain tensors."""
    module = module_class()
    for name, value in tree.items():
        if isinstance(value, dict):
            setattr(module, name, _grow(module_class, value, parameter))
        elif isinstance(value, tuple):
            setattr(module, name, parameter(value))
        else:
            setattr(module, name, torch.tensor(value) if isinstance(value, list) else value)
    return module


def _modes(module, tree, path="model"):
    found = {path: module.training}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= _modes(getattr(module, name), value, f"{path}.{name}")
    return found


def _use_module(module_class, tree, again, parameter=_parameter_of):
    model = _grow(module_class, tree, parameter)
    for name, shape in again.items():
        setattr(model, name, parameter(shape))
    result = {
        "names and shapes": [f"{name} {tuple(p.shape)}" for name, p in model.named_parameters()],
        "attributes": [name for name in {**tree, **again} if hasattr(model, name)],
        "fresh": _modes(model, tree),
    }
    result["eval() returns the module"] = model.eval() is model
    result["after eval()"] = _modes(model, tree)
    children = [name for name, value in tree.items() if isinstance(value, dict)]
    for name in children[:1]:
        getattr(model, name).train()
    result["after train() of the first child"] = _modes(model, tree)
    return result


def _module_truth(tree, again):
    return _use_module(torch.nn.Module, tree, again, lambda shape: torch.nn.Parameter(torch.zeros(shape)))


def _own_only(module, prefix):
    for name, value in module._parameters.items():
        yield prefix + name, value


def _without_names(module, prefix):
    yield from _own_only(module, prefix)
    for child in module._modules.values():
        yield from child.named_parameters()


def _without_dots(module, prefix):
    yield from _own_only(module, prefix)
    for name, child in module._modules.items():
        yield from child.named_parameters(prefix + name)


def _last_name_only(module, prefix):
    yield from _own_only(module, prefix)
    for name, child in module._modules.items():
        yield from child.named_parameters(f"{name}.")


def _children_first(module, prefix):
    for name, child in module._modules.items():
        yield from child.named_parameters(f"{prefix}{name}.")
    yield from _own_only(module, prefix)


def _children_only(module, prefix):
    yield from _own_only(module, prefix)
    for name, child in module._modules.items():
        yield from _own_only(child, f"{prefix}{name}.")


def _path_twice(module, prefix):
    yield from _own_only(module, prefix)
    for name, child in module._modules.items():
        yield from ((prefix + path, value) for path, value in child.named_parameters(f"{prefix}{name}."))


def _train_silent(module, mode):
    _train(module, mode)


def _train_top(module, mode):
    module.training = mode
    return module


def _train_always(module, mode):
    return _train(module, True)


module = Implement(
    id="w03.module",
    title="A module knows its parameters",
    minutes=15,
    level=2,
    engine="python",
    cases=[
        Case("one layer", lambda draw: {"tree": {"weight": (4, 3), "bias": (4,)}, "again": {}}),
        Case(
            "two children",
            lambda draw: {
                "tree": {
                    "first": {"weight": (5, 2)},
                    "scale": (1,),
                    "second": {"weight": (3, 5), "bias": (3,)},
                },
                "again": {},
            },
        ),
        Case(
            "a child of a child",
            lambda draw: {"tree": {"body": {"head": {"weight": (2, 7)}, "bias": (2,)}}, "again": {}},
        ),
        Case(
            "what is no parameter",
            lambda draw: {
                "tree": {"rate": 0.5, "mean": [1.0, 2.0], "name": "net", "weight": (6,)},
                "again": {},
            },
        ),
        Case(
            "a parameter replaced",
            lambda draw: {"tree": {"weight": (2, 3), "bias": (2,)}, "again": {"weight": (4, 1)}},
        ),
        Case("nothing inside", lambda draw: {"tree": {}, "again": {}}, extreme=True),
    ],
    oracle=_module_truth,
    use=_use_module,
    rules=Rules(
        forbids=("Module", "ModuleDict", "ModuleList", "ParameterDict", "register_parameter", "add_module")
    ),
    delegate=lambda: torch.nn.Module(),
    mistakes=[
        Mistake(
            "children not asked",
            "Only the module's own parameters are listed: ask each child for its own as well.",
            _module(named=_own_only),
        ),
        Mistake(
            "child's name lost",
            "The parameters of the children are there, under the wrong names: put the child's name and a dot in front.",
            _module(named=_without_names),
        ),
        Mistake(
            "no dot",
            "The dot between the child's name and the parameter's is missing: `first.weight`.",
            _module(named=_without_dots),
        ),
        Mistake(
            "path forgotten",
            "One level deep the names are right, two levels deep the beginning is lost: hand the prefix on.",
            _module(named=_last_name_only),
        ),
        Mistake(
            "children first",
            "The children come first; torch lists a module's own parameters before theirs.",
            _module(named=_children_first),
        ),
        Mistake(
            "every tensor",
            "Every tensor is taken for a parameter. Only one with `requires_grad` is to be trained.",
            _module(is_parameter=lambda value: hasattr(value, "requires_grad")),
        ),
        Mistake(
            "one level deep",
            "The children's own parameters are listed, their children's are not: ask each child's `named_parameters`.",
            _module(named=_children_only),
        ),
        Mistake(
            "path written twice",
            "Two levels deep the beginning of the path comes twice: the child has put it in front already.",
            _module(named=_path_twice),
        ),
        Mistake(
            "train returns nothing",
            "`train` returns None; it returns the module, so that `model.eval()` can stand in an expression.",
            _module(train=_train_silent),
        ),
        Mistake(
            "mode of the top",
            "`train` changes this module only. A dropout layer three levels down would never hear of it.",
            _module(train=_train_top),
        ),
        Mistake(
            "always training",
            "`mode` is not used: `eval` calls `train(False)`, and nothing changes.",
            _module(train=_train_always),
        ),
    ],
    hints=(
        "Python calls __setattr__ for every `self.name = value`. Sort the value into the right dict, then set it as usual.",
        "isinstance(value, Module) -> self._modules; value with requires_grad -> self._parameters; then super().__setattr__(name, value).",
        'named_parameters: yield prefix + name for the own ones; then `yield from child.named_parameters(f"{prefix}{name}.")`',
    ),
    passed="torch's nn.Module does the same in __setattr__: this is why a layer in a plain list is invisible to it.",
)


def _draw_linear(n_in, n_out, rng):
    bound = 1 / math.sqrt(n_in)
    return rng.uniform(-bound, bound, (n_out, n_in)), rng.uniform(-bound, bound, n_out)


def _linear(draw=_draw_linear, forward=lambda x, weight, bias: x @ weight.T + bias):
    """A Linear class that draws its numbers, or uses them, in another way."""

    class Linear(_module()):
        def __init__(self, n_in, n_out, rng, make):
            super().__init__()
            weight, bias = draw(n_in, n_out, rng)
            self.weight, self.bias = make(weight), make(bias)

        def forward(self, x):
            return forward(x, self.weight, self.bias)

    return Linear


def _use_linear(linear, x, n_out, seed):
    made = []

    def make(array):
        made.append(torch.tensor(array, requires_grad=True))
        return made[-1]

    layer = linear(x.shape[-1], n_out, np.random.default_rng(seed), make)
    state = {name: value.detach() for name, value in layer.named_parameters()}
    return {"parameters": state, "output": layer(x), "parameters made with make": len(made)}


def _torch_linear(n_in, n_out, rng, make):
    layer = torch.nn.Linear(n_in, n_out, dtype=torch.float64)
    bound = 1 / math.sqrt(n_in)
    with torch.no_grad():
        for value in layer.parameters():
            value.copy_(make(rng.uniform(-bound, bound, tuple(value.shape))))
    return layer


def _bound_from(size):
    def draw(n_in, n_out, rng):
        bound = size(n_in, n_out)
        return rng.uniform(-bound, bound, (n_out, n_in)), rng.uniform(-bound, bound, n_out)

    return draw


def _draw_transposed(n_in, n_out, rng):
    bound = 1 / math.sqrt(n_in)
    return rng.uniform(-bound, bound, (n_in, n_out)), rng.uniform(-bound, bound, n_out)


def _draw_normal(n_in, n_out, rng):
    bound = 1 / math.sqrt(n_in)
    return rng.normal(0, bound, (n_out, n_in)), rng.normal(0, bound, n_out)


def _draw_positive(n_in, n_out, rng):
    bound = 1 / math.sqrt(n_in)
    return rng.uniform(0, bound, (n_out, n_in)), rng.uniform(0, bound, n_out)


def _draw_bias_zero(n_in, n_out, rng):
    weight, bias = _draw_linear(n_in, n_out, rng)
    return weight, 0 * bias


linear = Implement(
    id="w03.linear",
    title="A linear layer",
    minutes=8,
    level=2,
    needs=("w03.module", "w03.hidden"),
    dtype="float64",
    cases=[
        Case("3 to 4", lambda draw: {"x": draw.normal(5, 3), "n_out": 4, "seed": 0}),
        Case("6 to 1", lambda draw: {"x": draw.normal(2, 6), "n_out": 1, "seed": 1}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(3, 7), "n_out": 2, "seed": 2}),
        Case("one feature", lambda draw: {"x": draw.normal(4, 1), "n_out": 3, "seed": 3}),
        Case("an axis more", lambda draw: {"x": draw.normal(2, 3, 5), "n_out": 4, "seed": 4}),
    ],
    oracle=lambda x, n_out, seed: _use_linear(_torch_linear, x, n_out, seed),
    use=_use_linear,
    grads=("x",),
    rules=Rules(forbids=("Linear", "linear", "addmm", "bilinear", "LazyLinear")),
    delegate=_torch_linear,
    mistakes=[
        Mistake(
            "weight (in, out)",
            "The weight is stored as (in, out). torch stores (out, in), one row for each output; only then do state dicts fit.",
            _linear(_draw_transposed, lambda x, weight, bias: x @ weight + bias),
        ),
        Mistake(
            "bias not added",
            "The bias is registered, but forward does not add it.",
            _linear(forward=lambda x, weight, bias: x @ weight.T),
        ),
        Mistake(
            "root forgotten",
            "The bound is 1 / n_in; take the root: 1 / sqrt(n_in).",
            _linear(_bound_from(lambda n_in, n_out: 1 / n_in)),
        ),
        Mistake(
            "outputs counted",
            "The bound was made from n_out. A sum runs over the *inputs* of a unit, so their number counts.",
            _linear(_bound_from(lambda n_in, n_out: 1 / math.sqrt(n_out))),
        ),
        Mistake(
            "normal",
            "The numbers are normal; uniform ones between -bound and bound are asked for.",
            _linear(_draw_normal),
        ),
        Mistake(
            "never negative",
            "All weights lie between 0 and bound: draw from -bound.",
            _linear(_draw_positive),
        ),
        Mistake(
            "make not used",
            "The parameters are torch's whatever `make` says. The clinic hands over your own engine: wrap both with make(...).",
            lambda n_in, n_out, rng, make: _linear()(
                n_in, n_out, rng, lambda array: torch.tensor(array, requires_grad=True)
            ),
        ),
        Mistake(
            "bias of zeros",
            "The bias is zero; torch draws it from the same range as the weight.",
            _linear(_draw_bias_zero),
        ),
    ],
    hints=(
        "Two assignments in __init__, one line in forward. Assigning registers.",
        "bound = 1 / sqrt(n_in). The weight has shape (n_out, n_in), so forward needs its transpose.",
        "self.weight = make(rng.uniform(-bound, bound, (n_out, n_in))); the bias likewise; x @ self.weight.T + self.bias",
    ),
    passed="Names, shapes and order are torch's, so the numbers of either can be loaded into the other.",
)


class _Parameter:
    """What an optimizer sees: numbers and their gradient, here as NumPy arrays."""

    def __init__(self, data, grad=None):
        self.data, self.grad = data, grad


def _drive(optimizer_class, start, noise, options):
    """20 steps down a bowl with noise; what an optimizer may touch is `data` and `grad`."""
    parameters = [_Parameter(x.copy()) for x in start]
    optimizer = optimizer_class(parameters, **options)
    seen, kept = {}, True
    for step in range(20):
        for p, shift in zip(parameters, noise, strict=True):
            p.grad = p.data / 2 + shift[step]
        before = [p.grad.copy() for p in parameters]
        optimizer.step()
        kept = kept and all(np.array_equal(p.grad, g) for p, g in zip(parameters, before, strict=True))
        if step in (0, 1, 19):
            seen[f"after {step + 1} step{'s' if step else ''}"] = [p.data.copy() for p in parameters]
    return {**seen, "gradients left as they are": kept}


def _drive_torch(optimizer_class, start, noise, options):
    parameters = [x.clone() for x in start]
    optimizer = optimizer_class(parameters, **options)
    seen = {}
    for step in range(20):
        for p, shift in zip(parameters, noise, strict=True):
            p.grad = p / 2 + shift[step]
        optimizer.step()
        if step in (0, 1, 19):
            seen[f"after {step + 1} step{'s' if step else ''}"] = [p.clone() for p in parameters]
    return {**seen, "gradients left as they are": True}


def _walk(draw, *shapes):
    return {"start": [draw.normal(*s) for s in shapes], "noise": [draw.normal(20, *s) for s in shapes]}


def _optimizer(update, **defaults):
    """An optimizer class from a function update(p, state, step, **options)."""

    class Optimizer:
        def __init__(self, parameters, **options):
            self.parameters, self.options = list(parameters), {**defaults, **options}
            self.state, self.steps = [{} for _ in self.parameters], 0

        def step(self):
            self.steps += 1
            for p, state in zip(self.parameters, self.state, strict=True):
                update(p, state, self.steps, **self.options)

    return Optimizer


def _sgd(gradient=lambda p, decay: p.grad + decay * p.data, velocity=None, move=None):
    velocity = velocity or (lambda old, g, momentum: momentum * old + g)
    move = move or (lambda p, v, g, lr, momentum: lr * v)

    def update(p, state, step, lr, momentum, weight_decay):
        g = gradient(p, weight_decay)
        state["v"] = velocity(state.get("v", 0.0), g, momentum)
        p.data -= move(p, state["v"], g, lr, momentum)

    return _optimizer(update, momentum=0.0, weight_decay=0.0)


def _sgd_decoupled():
    def update(p, state, step, lr, momentum, weight_decay):
        state["v"] = momentum * state.get("v", 0.0) + p.grad
        p.data -= weight_decay * p.data
        p.data -= lr * state["v"]

    return _optimizer(update, momentum=0.0, weight_decay=0.0)


def _refused_sgd(parameters, **options):
    """torch's own, over the same memory."""
    tensors = [torch.from_numpy(p.data) for p in parameters]
    inner = torch.optim.SGD(tensors, **options)

    def step():
        for p, tensor in zip(parameters, tensors, strict=True):
            tensor.grad = torch.from_numpy(p.grad)
        inner.step()

    return SimpleNamespace(step=step)


sgd = Implement(
    id="w03.sgd",
    title="SGD with momentum and weight decay",
    minutes=10,
    level=2,
    needs=("w03.fit",),
    engine="numpy",
    dtype="float64",
    cases=[
        Case("plain", lambda draw: {**_walk(draw, (2, 3), (4,)), "options": {"lr": 0.1}}),
        Case(
            "momentum", lambda draw: {**_walk(draw, (3, 2), (1,)), "options": {"lr": 0.05, "momentum": 0.9}}
        ),
        Case("weight decay", lambda draw: {**_walk(draw, (5,)), "options": {"lr": 0.2, "weight_decay": 0.3}}),
        Case(
            "both, not contiguous",
            lambda draw: {
                "start": [draw.transposed(3, 4), draw.normal(2)],
                "noise": [draw.normal(20, 3, 4), draw.normal(20, 2)],
                "options": {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.1},
            },
        ),
    ],
    oracle=lambda start, noise, options: _drive_torch(torch.optim.SGD, start, noise, options),
    use=_drive,
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

    return _optimizer(update, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def _adamw_late():
    def update(p, state, step, lr, weight_decay, eps, betas):
        b1, b2 = betas
        state["m"] = b1 * state.get("m", 0.0) + (1 - b1) * p.grad
        state["v"] = b2 * state.get("v", 0.0) + (1 - b2) * p.grad**2
        p.data -= lr * (state["m"] / (1 - b1**step)) / ((state["v"] / (1 - b2**step)) ** 0.5 + eps)
        p.data -= lr * weight_decay * p.data

    return _optimizer(update, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def _refused_adamw(parameters, **options):
    """torch's own, over the same memory."""
    tensors = [torch.from_numpy(p.data) for p in parameters]
    inner = torch.optim.AdamW(tensors, **options)

    def step():
        for p, tensor in zip(parameters, tensors, strict=True):
            tensor.grad = torch.from_numpy(p.grad)
        inner.step()

    return SimpleNamespace(step=step)


adamw = Implement(
    id="w03.adamw",
    title="Adam and AdamW",
    minutes=15,
    level=3,
    needs=("w03.sgd",),
    engine="numpy",
    dtype="float64",
    cases=[
        Case("as it comes", lambda draw: {**_walk(draw, (2, 3), (4,)), "options": {}}),
        Case(
            "Adam: no decay",
            lambda draw: {**_walk(draw, (3, 2), (1,)), "options": {"lr": 0.1, "weight_decay": 0.0}},
        ),
        Case(
            "decay",
            lambda draw: {**_walk(draw, (5,)), "options": {"lr": 0.05, "weight_decay": 0.5}},
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
    oracle=lambda start, noise, options: _drive_torch(torch.optim.AdamW, start, noise, options),
    use=_drive,
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


def _rate(step, peak, warmup, total):
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= total:
        return 0.0
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def _rate_with(step, peak, warmup, total, *, rise=None, fall=None):
    """The schedule with its rise or its fall replaced."""
    if step < warmup and rise:
        return rise(step, peak, warmup, total)
    if step >= warmup and fall:
        return fall(step, peak, warmup, total)
    return _rate(step, peak, warmup, total)


def _cosine(share):
    return 0.5 * (1 + math.cos(math.pi * share))


schedule = Implement(
    id="w03.schedule",
    title="Warm up, then cool down",
    minutes=8,
    level=2,
    engine="python",
    cases=[
        Case("first step", lambda draw: {"step": 0, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("warming up", lambda draw: {"step": 2, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("last step of the warm-up", lambda draw: {"step": 3, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("at the peak", lambda draw: {"step": 4, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("cooling down", lambda draw: {"step": 7, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("last step", lambda draw: {"step": 11, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("after the end", lambda draw: {"step": 15, "peak": 0.4, "warmup": 4, "total": 12}),
        Case("no warm-up", lambda draw: {"step": 0, "peak": 0.3, "warmup": 0, "total": 5}, extreme=True),
        Case(
            "nothing but warm-up",
            lambda draw: {"step": 6, "peak": 0.3, "warmup": 6, "total": 6},
            extreme=True,
        ),
    ],
    oracle=_rate,
    reference="the formulas",
    mistakes=[
        Mistake(
            "starts at zero",
            "The first step has a learning rate of 0, so it does nothing. Count it as the first of `warmup`: step + 1.",
            lambda *a: _rate_with(*a, rise=lambda step, peak, warmup, total: peak * step / warmup),
        ),
        Mistake(
            "no warm-up",
            "The cosine starts at step 0: the learning rate is to rise first.",
            lambda *a: _rate_with(*a, rise=lambda step, peak, warmup, total: peak * _cosine(step / total)),
        ),
        Mistake(
            "warm-up not subtracted",
            "The cosine counts from step 0, so it jumps down at the end of the warm-up. Count from there: step - warmup.",
            lambda *a: _rate_with(
                *a, fall=lambda step, peak, warmup, total: peak * _cosine(min(step / total, 1))
            ),
        ),
        Mistake(
            "ends too late",
            "The cosine takes `total` steps after the warm-up. It has only total - warmup of them.",
            lambda *a: _rate_with(
                *a,
                fall=lambda step, peak, warmup, total: (
                    peak * _cosine((step - warmup) / total) if step < total else 0.0
                ),
            ),
        ),
        Mistake(
            "climbs again",
            "After `total` steps the cosine comes back up. From there on the learning rate is 0.",
            lambda *a: _rate_with(
                *a,
                fall=lambda step, peak, warmup, total: (
                    peak * _cosine((step - warmup) / max(1, total - warmup))
                ),
            ),
        ),
        Mistake(
            "not halved",
            "1 + cos runs from 2 to 0: halve it, or the learning rate doubles at the peak.",
            lambda *a: _rate_with(*a, fall=lambda *b: 2 * _rate(*b)),
        ),
        Mistake(
            "straight line",
            "It falls in a straight line; half a wave of the cosine is asked for.",
            lambda *a: _rate_with(
                *a,
                fall=lambda step, peak, warmup, total: (
                    peak * max(0.0, (total - step) / max(1, total - warmup))
                ),
            ),
        ),
    ],
    hints=(
        "Three parts: before `warmup`, before `total`, after it.",
        "While cooling down, the share done is (step - warmup) / (total - warmup); the cosine of pi times it runs from 1 to -1.",
        "peak * (step + 1) / warmup; else peak * 0.5 * (1 + math.cos(math.pi * share)); 0 from `total` on",
    ),
    passed="A large step is dangerous while Adam's averages are young, and useless near the end: hence up, then down.",
)


def _norm(grads):
    return sum((g**2).sum() for g in grads) ** 0.5


def _clip(parameters, max_norm):
    total = _norm([p.grad for p in parameters])
    _scale(parameters, min(1.0, max_norm / (total + 1e-6)))
    return total


def _scale(parameters, factor):
    for p in parameters:
        p.grad = p.grad * factor


def _use_clip(clip, grads, max_norm):
    parameters = [_Parameter(None, g.copy()) for g in grads]
    norm = clip(parameters, max_norm)
    return {"norm": norm, "gradients": [p.grad for p in parameters]}


def _clip_truth(grads, max_norm):
    parameters = [torch.zeros_like(g) for g in grads]
    for p, g in zip(parameters, grads, strict=True):
        p.grad = g.clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return {"norm": norm, "gradients": [p.grad for p in parameters]}


def _clip_each(parameters, max_norm):
    total = _norm([p.grad for p in parameters])
    for p in parameters:
        _clip([p], max_norm)
    return total


def _clip_each_last(parameters, max_norm):
    return [_clip([p], max_norm) for p in parameters][-1]


def _clip_always(parameters, max_norm):
    total = _norm([p.grad for p in parameters])
    _scale(parameters, max_norm / (total + 1e-6))
    return total


def _clip_by(norm, plus=1e-6):
    """Clips by another norm of all the gradients."""

    def clip(parameters, max_norm):
        total = norm([p.grad for p in parameters])
        _scale(parameters, min(1.0, max_norm / (total + plus)))
        return total

    return clip


def _clip_values(parameters, max_norm):
    total = _norm([p.grad for p in parameters])
    for p in parameters:
        p.grad = p.grad.clip(-max_norm, max_norm)
    return total


def _clip_then_norm(parameters, max_norm):
    _clip(parameters, max_norm)
    return _norm([p.grad for p in parameters])


def _refused_clip(parameters, max_norm):
    tensors = [torch.from_numpy(p.grad) for p in parameters]
    for tensor in tensors:
        tensor.grad = tensor.clone()
    norm = torch.nn.utils.clip_grad_norm_(tensors, max_norm)
    for p, tensor in zip(parameters, tensors, strict=True):
        p.grad = tensor.grad.numpy()
    return norm.numpy()


clip = Implement(
    id="w03.clip",
    title="Clip by the global norm",
    minutes=8,
    level=2,
    needs=("w03.sgd",),
    engine="numpy",
    dtype="float64",
    cases=[
        Case("too long", lambda draw: {"grads": [3 * draw.normal(2, 3), draw.normal(4)], "max_norm": 1.0}),
        Case(
            "short enough",
            lambda draw: {"grads": [0.01 * draw.normal(3, 2), 0.01 * draw.normal(1)], "max_norm": 1.0},
        ),
        Case(
            "one long, one short, not contiguous",
            lambda draw: {"grads": [draw.transposed(4, 5), 0.1 * draw.normal(2)], "max_norm": 2.0},
        ),
        Case(
            "each short, together long",
            lambda draw: {"grads": [0.5 * draw.normal(k) for k in (2, 3, 5)], "max_norm": 1.2},
        ),
        Case(
            "all zero", lambda draw: {"grads": [np.zeros((2, 3)), np.zeros(4)], "max_norm": 1.0}, extreme=True
        ),
    ],
    oracle=_clip_truth,
    use=_use_clip,
    memory="any",
    reference="torch's clip_grad_norm_",
    rules=Rules(forbids=("clip_grad_norm", "clip_grad_value", "clip_grads_with_norm", "get_total_norm")),
    delegate=_refused_clip,
    mistakes=[
        Mistake(
            "each on its own",
            "Each gradient is clipped by its own norm. That turns the step: take one norm over all of them, and one factor.",
            _clip_each,
        ),
        Mistake(
            "each on its own, last norm",
            "Norm and factor are computed anew for each parameter. Add up the squares of all first, then use one factor for all.",
            _clip_each_last,
        ),
        Mistake(
            "scales up",
            "Short gradients are made longer. Clipping only shortens: the factor is at most 1.",
            _clip_always,
        ),
        Mistake(
            "norms added",
            "The norms of the parts are added. Add their squares, then take the root, as if all were one long vector.",
            _clip_by(lambda grads: sum(_norm([g]) for g in grads)),
        ),
        Mistake(
            "root forgotten",
            "This is the sum of squares; the norm is its root.",
            _clip_by(lambda grads: _norm(grads) ** 2),
        ),
        Mistake(
            "values clipped",
            "Each number is cut to max_norm on its own, which changes the direction. Multiply all of them by one factor.",
            _clip_values,
        ),
        Mistake(
            "norm afterward",
            "The gradients are right. Return the norm they had *before*: it is the number people plot.",
            _clip_then_norm,
        ),
        Mistake(
            "1e-6 forgotten",
            "torch divides by the norm plus 1e-6, so that nothing is divided by 0.",
            _clip_by(_norm, plus=1e-300),
        ),
    ],
    hints=(
        "Think of all gradients as one long vector. How long is it?",
        "Sum the squares over all parameters, take the root once. The factor is min(1, max_norm / (norm + 1e-6)).",
        "norm = sum((p.grad**2).sum() for p in parameters) ** 0.5; then p.grad = p.grad * factor for each; return norm",
    ),
    passed="The direction stays, the length is capped: one bad batch can no longer throw away an hour of training.",
)


# 03 in PyTorch


def _standardize(keep, scale_of=lambda n: torch.nn.Parameter(torch.ones(n)), forward=None):
    """A layer that keeps mean and std in its own way."""

    def straight(layer, x):
        return (x - layer.mean) / layer.std * layer.scale + layer.shift

    class Standardize(torch.nn.Module):
        def __init__(self, mean, std):
            super().__init__()
            keep(self, "mean", mean)
            keep(self, "std", std)
            self.scale = scale_of(len(mean))
            self.shift = torch.nn.Parameter(torch.zeros(len(mean)))

        def forward(self, x):
            return (forward or straight)(self, x)

    return Standardize


def _as_buffer(layer, name, value):
    layer.register_buffer(name, value)


def _as_attribute(layer, name, value):
    setattr(layer, name, value)


def _as_parameter(layer, name, value):
    setattr(layer, name, torch.nn.Parameter(value))


def _use_layer(layer_class, x, mean, std, scale, shift):
    layer = layer_class(mean, std)
    before = layer(x).detach()
    with torch.no_grad():
        layer.scale.copy_(scale)
        layer.shift.copy_(shift)
    return {
        "trained": ", ".join(sorted(name for name, _ in layer.named_parameters())),
        "saved": ", ".join(sorted(layer.state_dict())),
        "output at the start": before,
        "output": layer(x),
    }


def _lazily(make):
    """A class made when it is first used, so that torch is not imported for the declaration."""

    def build(*inputs):
        return make()(*inputs)

    return build


def _layer_case(draw, n, features):
    return {
        "x": 3 + 2 * draw.normal(n, features),
        "mean": draw.normal(features),
        "std": draw.uniform(0.5, 3, features),
        "scale": draw.normal(features),
        "shift": draw.normal(features),
    }


layer = Implement(
    id="w03.layer",
    title="A layer of your own",
    minutes=10,
    level=2,
    needs=("w03.module",),
    cases=[
        Case("3 columns", lambda draw: _layer_case(draw, 5, 3)),
        Case("not contiguous", lambda draw: {**_layer_case(draw, 2, 6), "x": draw.transposed(2, 6)}),
        Case("one column", lambda draw: _layer_case(draw, 4, 1)),
        Case("an axis more", lambda draw: {**_layer_case(draw, 4, 7), "x": draw.normal(2, 3, 7)}),
    ],
    oracle=lambda *inputs: _use_layer(_standardize(_as_buffer), *inputs),
    use=_use_layer,
    grads=("x",),
    mistakes=[
        Mistake(
            "plain attributes",
            "mean and std are plain attributes: they are not saved, and `.to(device)` leaves them behind. `self.register_buffer`.",
            _lazily(lambda: _standardize(_as_attribute)),
        ),
        Mistake(
            "measured and trained",
            "mean and std are parameters, so an optimizer would change what was measured. Make them buffers.",
            _lazily(lambda: _standardize(_as_parameter)),
        ),
        Mistake(
            "not registered",
            "scale wants a gradient but is a plain tensor. torch registers nn.Parameter only; requires_grad is not enough.",
            _lazily(lambda: _standardize(_as_buffer, lambda n: torch.ones(n, requires_grad=True))),
        ),
        Mistake(
            "scale of zeros",
            "scale starts at 0, so the layer gives 0 for everything at first. Ones leave what comes in as it is.",
            _lazily(lambda: _standardize(_as_buffer, lambda n: torch.nn.Parameter(torch.zeros(n)))),
        ),
        Mistake(
            "shifted before scaled",
            "The shift is added before the scale is applied, so it is scaled as well.",
            _lazily(
                lambda: _standardize(
                    _as_buffer, forward=lambda s, x: ((x - s.mean) / s.std + s.shift) * s.scale
                )
            ),
        ),
        Mistake(
            "multiplied by std",
            "What has been centered is multiplied by std. Divide by it.",
            _lazily(
                lambda: _standardize(
                    _as_buffer, forward=lambda s, x: (x - s.mean) * s.std * s.scale + s.shift
                )
            ),
        ),
    ],
    hints=(
        "Four tensors, two kinds: measured once (mean, std) and trained (scale, shift).",
        '`self.register_buffer("mean", mean)` for what is saved but not trained; `nn.Parameter(torch.ones(n))` for what is.',
        "(x - self.mean) / self.std * self.scale + self.shift",
    ),
    passed="Batch norm is this layer with a mean and std that it measures on the way. You write it in week 5.",
    lint={"delegation": "torch has no such layer; its Module and its registers are what is asked for"},
)


# 04 clinic


def _uniform(noise):
    return (2 * noise - 1) / math.sqrt(noise.shape[1])


dead = Fix(
    id="w03.dead",
    title="The layer that says nothing",
    minutes=10,
    level=2,
    needs=("w03.linear",),
    cases=[
        Case("4 by 3", lambda draw: {"noise": draw.uniform(0, 1, 4, 3)}),
        Case("2 by 7", lambda draw: {"noise": draw.uniform(0, 1, 2, 7)}),
        Case("not contiguous", lambda draw: {"noise": draw.uniform(0, 1, 3, 10)[:, ::2]}),
        Case("one input", lambda draw: {"noise": draw.uniform(0, 1, 5, 1)}),
        Case("one unit", lambda draw: {"noise": draw.uniform(0, 1, 1, 6)}),
    ],
    oracle=_uniform,
    broken=lambda noise: (noise - 1) / math.sqrt(noise.shape[1]),
    fault="weights all negative",
    menu={
        "weights all negative": "",
        "weights too small": "A small weight makes a small sum, not a negative one. Look at the signs.",
        "no bias": "A layer without bias can learn; this one gets no gradient. Print the smallest and the largest weight.",
    },
    mistakes=[
        Mistake(
            "all positive",
            "Now all weights are positive. No unit is dead, but every unit adds up all pixels: they are nearly twins.",
            lambda noise: noise / math.sqrt(noise.shape[1]),
        ),
        Mistake(
            "half the range",
            "The weights are centered, from -½ to ½ of the bound. Stretch the noise to -1 … 1.",
            lambda noise: (noise - 0.5) / math.sqrt(noise.shape[1]),
        ),
        Mistake(
            "twice too low",
            "2 * noise - 2 runs from -2 to 0: still all negative, only larger.",
            lambda noise: (2 * noise - 2) / math.sqrt(noise.shape[1]),
        ),
        Mistake(
            "bound lost",
            "The range is -1 to 1 now; the division by the root of the number of inputs got lost.",
            lambda noise: 2 * noise - 1,
        ),
        Mistake(
            "outputs counted",
            "The range is made from the number of rows. A unit sums over its inputs: the columns.",
            lambda noise: (2 * noise - 1) / math.sqrt(noise.shape[0]),
        ),
    ],
    hints=(
        "What are the smallest and the largest weight? What does a sum of pixels, none of them negative, become with them?",
        "noise lies in [0, 1), so noise - 1 lies in [-1, 0). You want [-1, 1).",
        'fault = "weights all negative"; return (2 * noise - 1) / math.sqrt(noise.shape[1])',
    ),
    passed="A unit that is 0 for every input has gradient 0 for every weight: no optimizer brings it back to life.",
    lint={"delegation": "one line of arithmetic; the exercise is to see the signs"},
)


def _scaled(noise):
    return noise * math.sqrt(2 / noise.shape[1])


exploding = Fix(
    id="w03.exploding",
    title="The loss that starts too high",
    minutes=10,
    level=2,
    needs=("w03.init", "w03.loss_at_start"),
    cases=[
        Case("4 by 3", lambda draw: {"noise": draw.normal(4, 3)}),
        Case("2 by 9", lambda draw: {"noise": draw.normal(2, 9)}),
        Case("not contiguous", lambda draw: {"noise": draw.transposed(3, 5)}),
        Case("one input", lambda draw: {"noise": draw.normal(6, 1)}),
        Case("one unit", lambda draw: {"noise": draw.normal(1, 8)}),
    ],
    oracle=_scaled,
    broken=lambda noise: noise * math.sqrt(2 / noise.shape[0]),
    fault="outputs counted for inputs",
    menu={
        "outputs counted for inputs": "",
        "too many layers": "Five layers are few: with the right scale fifty keep their spread, as in notebook 01.",
        "factor 2 too large": "2 is right for the variance of ReLU layers. It is divided by the wrong thing.",
    },
    mistakes=[
        Mistake(
            "root lost",
            "The division is right, but the root got lost: sqrt(2 / n) is the deviation, 2 / n the variance.",
            lambda noise: noise * 2 / noise.shape[1],
        ),
        Mistake(
            "ReLU forgotten",
            "1 / n keeps the spread without a bend. The ReLU throws away half of the squares: 2 / n.",
            lambda noise: noise / math.sqrt(noise.shape[1]),
        ),
        Mistake(
            "both counted",
            "The mean of inputs and outputs is a compromise between forward and backward, Xavier's. Inputs alone are asked for.",
            lambda noise: noise * math.sqrt(2 / sum(noise.shape) * 2),
        ),
        Mistake(
            "all entries counted",
            "The scale is made from all entries of the matrix. One unit sums over one row.",
            lambda noise: noise * math.sqrt(2 / noise.numel()),
        ),
        Mistake(
            "cut off",
            "The large weights are cut off; the others have the old scale. Change the scale instead.",
            lambda noise: (noise * math.sqrt(2 / noise.shape[0])).clamp(-0.5, 0.5),
        ),
    ],
    hints=(
        "The rule of notebook 01 is std = sqrt(2 / fan_in). What is fan_in for a weight of shape (out, in)?",
        "A unit is a row of the weight; it sums over the columns. fan_in is the number of columns.",
        'fault = "outputs counted for inputs"; return noise * math.sqrt(2 / noise.shape[1])',
    ),
    passed="For a square weight both numbers agree: a test on (256, 256) would never have found it.",
    lint={"delegation": "one line of arithmetic; the exercise is to see which axis counts"},
)


def _stack(keep, forward=None, more=None):
    """A stack of linear layers that keeps its hidden layers in its own way."""

    def straight(net, x):
        for layer in net.hidden:
            x = torch.relu(layer(x))
        return net.out(x)

    class Stack(torch.nn.Module):
        def __init__(self, sizes):
            super().__init__()
            self.hidden = keep([torch.nn.Linear(a, b) for a, b in pairwise(sizes[:-1])])
            self.out = torch.nn.Linear(sizes[-2], sizes[-1])
            if more:
                more(self)

        def forward(self, x):
            return (forward or straight)(self, x)

    return Stack


def _use_stack(stack_class, x, sizes):
    """Every parameter it owns up to, filled with known numbers, and what comes out then."""
    torch.manual_seed(0)
    net = stack_class(sizes)
    every = [module for module in net.modules() if isinstance(module, torch.nn.Linear)]
    every += [layer for layer in getattr(net, "hidden", ()) if isinstance(layer, torch.nn.Linear)]
    with torch.no_grad():
        for layer in every:
            layer.weight.copy_(_filled(layer.weight))
            layer.bias.copy_(_filled(layer.bias))
    return {
        "shapes trained": _shapes(net.parameters()),
        "shapes saved": _shapes(net.state_dict().values()),
        "output": net(x),
    }


def _shapes(tensors):
    """All shapes in a line, whatever the order and the names."""
    return ", ".join(str(shape) for shape in sorted(tuple(value.shape) for value in tensors))


def _filled(value):
    """Known numbers of both signs for a shape."""
    return torch.cos(torch.arange(value.numel()) * 2.4 + value.dim()).reshape(value.shape)


def _list_by_hand(net):
    """What people add when the optimizer complains: a list of parameters, and no more than that."""
    registered = net.parameters
    net.parameters = lambda: [*registered(), *(p for layer in net.hidden for p in layer.parameters())]


def _last_by_hand(net):
    net.last = net.hidden[-1]


def _without_bend(net, x):
    for layer in net.hidden:
        x = layer(x)
    return net.out(x)


def _bent_output(net, x):
    for layer in [*net.hidden, net.out]:
        x = torch.relu(layer(x))
    return x


unregistered = Fix(
    id="w03.unregistered",
    title="The layers nobody trains",
    minutes=8,
    level=2,
    needs=("w03.module",),
    cases=[
        Case("two hidden layers", lambda draw: {"x": draw.normal(4, 3), "sizes": [3, 5, 6, 2]}),
        Case("three hidden layers", lambda draw: {"x": draw.strided(3, 2), "sizes": [2, 4, 7, 3, 1]}),
        Case("one hidden layer", lambda draw: {"x": draw.normal(1, 5), "sizes": [5, 3, 4]}),
        Case("none", lambda draw: {"x": draw.normal(2, 3), "sizes": [3, 2]}, extreme=True),
    ],
    oracle=lambda x, sizes: _use_stack(_stack(torch.nn.ModuleList), x, sizes),
    use=_use_stack,
    grads=("x",),
    broken=_lazily(lambda: _stack(list)),
    fault="layers in a plain list",
    menu={
        "layers in a plain list": "",
        "zero_grad missing": "`zero_grad` is called in every step. Count the parameters that the optimizer was given.",
        "learning rate too low": "The output layer learns with the same rate. Count the parameters that the optimizer was given.",
    },
    mistakes=[
        Mistake(
            "parameters by hand",
            "The optimizer gets all parameters now, but the state dict still lacks the hidden layers: half of it would not be saved.",
            _lazily(lambda: _stack(list, more=_list_by_hand)),
        ),
        Mistake(
            "last one only",
            "Only the last hidden layer is registered. Register the list as a whole.",
            _lazily(lambda: _stack(list, more=lambda net: net.hidden and _last_by_hand(net))),
        ),
        Mistake(
            "bend lost",
            "All layers are registered now, but the ReLU between them got lost.",
            _lazily(lambda: _stack(torch.nn.ModuleList, forward=_without_bend)),
        ),
        Mistake(
            "bent output",
            "All layers are registered now, but the output goes through a ReLU as well.",
            _lazily(lambda: _stack(torch.nn.ModuleList, forward=_bent_output)),
        ),
    ],
    hints=(
        "Print `[name for name, _ in net.named_parameters()]`. What did your own Module of notebook 02 look at?",
        "A list is no Module, so `__setattr__` passes it by. torch has a list that is one: `nn.ModuleList`.",
        'fault = "layers in a plain list"; self.hidden = nn.ModuleList([...]) with the same layers inside',
    ),
    passed="A plain dict is as blind as a list: `nn.ModuleDict`. For bare parameters there is `nn.ParameterList`.",
    lint={"delegation": "torch's own ModuleList or Sequential is the answer"},
)


def _accept_rate(value):
    if 0.1 <= value <= 0.5:
        return None
    if value <= 0:
        return "a learning rate is a positive number."
    return f"{value:g} is {'below' if value < 0.1 else 'above'} what the curve suggests."


rate = Measure(
    id="w03.rate",
    title="Too low, too high",
    minutes=10,
    level=2,
    needs=("w03.sgd",),
    accept=_accept_rate,
    mistakes=[
        Mistake(
            "the lowest point",
            "That is the lowest point, and the edge of the cliff: the next larger steps throw the network off. Stay 3 to 10 times below.",
            1.15,
            when=lambda value: 0.5 < value <= 1.6,
        ),
        Mistake(
            "over the cliff",
            "There the loss rises again: the steps jump over the valley, and the ReLUs die.",
            3.0,
            when=lambda value: value > 1.6,
        ),
        Mistake(
            "where nothing happens",
            "There the curve is still flat, or hardly falls. The network would learn, but your patience would end first.",
            1e-3,
            when=lambda value: 0 < value < 0.1,
        ),
        Mistake(
            "the exponent",
            "That is the exponent: 10 to the power of it is the learning rate.",
            -1.0,
            when=lambda value: value < 0,
        ),
    ],
    hints=(
        "Find the lowest point of the curve, then walk back to the left.",
        "The lowest point lies near 1. A good learning rate is 3 to 10 times smaller.",
        "0.3 is on the falling part and a factor of 4 from the edge.",
    ),
    passed="The test costs a minute and beats a week of guessing. It holds for this batch size, model and optimizer only.",
)


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


test_sgd = WriteTest(
    id="w03.test_sgd",
    title="Write the test",
    minutes=15,
    level=3,
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
