"""Week 3: networks by hand. From a line to a network, modules and optimizers, torch's own API, and the clinic."""

import math

import numpy as np

from labkit.exercises.declare import (
    Case,
    Implement,
    Item,
    Measure,
    Mistake,
    Predict,
    Rules,
)
from labkit.lazy import F, torch

# 01 from a line to a network


def _fit_truth(x, y, lr, steps):
    weights = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    bias = torch.zeros((), dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.SGD([weights, bias], lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(x @ weights + bias, y).backward()
        optimizer.step()
    return weights.detach(), bias.detach()


def _fit_with(update, loss=lambda error: (error**2).mean(), keep=0.0):
    """Gradient descent with one thing about it changed. `keep` is how much of the old gradient stays."""

    def fit(x, y, lr, steps):
        weights = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
        bias = torch.zeros((), dtype=x.dtype, requires_grad=True)
        old = [torch.zeros_like(weights), torch.zeros_like(bias)]
        for _ in range(steps):
            grads = torch.autograd.grad(loss(x @ weights + bias - y), [weights, bias])
            old = [keep * before + now for before, now in zip(old, grads, strict=True)]
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
            _fit_with(_downhill, keep=1.0),
        ),
        Mistake(
            "sum for mean",
            "The squared errors are added up; with their mean, the same learning rate works for any number of rows.",
            _fit_with(_downhill, loss=lambda error: (error**2).sum()),
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
        "e": Item("10 classes, a wrong logit is 100, the others 0", _ten(0.0, 100.0)),
        "f": Item("as a, but through softmax before the loss", _ten(0.0, twice=True)),
        "g": Item("as d, but through softmax before the loss", _ten(100.0, twice=True)),
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
        "Equal logits: probability 1/C. Very unequal logits: the loss is the difference to the largest.",
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
