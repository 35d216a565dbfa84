"""Predictions in evaluation mode, with the model left as it was found."""

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.exercises.week04.shared import NO_TRAINER, STEPS, plain_loader, regression_net, reproducible
from labkit.lazy import torch


def _predict_with(evaluate=True, restore="before", gradients=False, last=False, join=None, for_good=False):
    """`predict` with one thing about it changed."""

    def predict(model, loader):
        before = model.training
        if evaluate:
            model.eval()
        if for_good:
            torch.set_grad_enabled(False)
        with torch.set_grad_enabled(gradients):
            pairs = [(model(x), y) for x, y in loader]
            pairs = [(output.detach() if gradients == "detached" else output, y) for output, y in pairs]
        if restore == "train":
            model.train()
        elif restore == "before":
            model.train(before)
        outputs, targets = zip(*(pairs[-1:] if last else pairs), strict=True)
        return (join or torch.cat)(outputs), (join or torch.cat)(targets)

    return predict


def _predictions(predict, x, y, batch_size, training):
    model = reproducible(regression_net)
    model.train(training)
    recorded = []
    model.register_forward_pre_hook(lambda *_: recorded.append(torch.is_grad_enabled()))
    found = predict(model, plain_loader(batch_size, x, y))
    if not (isinstance(found, tuple) and len(found) == 2):
        raise TypeError("two things are to be returned: outputs, targets")
    return {
        "outputs": found[0],
        "targets": found[1],
        "a graph was recorded": any(recorded),
        "gradients on afterward": torch.is_grad_enabled(),
        "training mode afterward": model.training,
    }


def _predict_case(n, batch_size, training):
    return lambda draw: {
        "x": draw.normal(n, 3),
        "y": draw.integers(0, 5, n),
        "batch_size": batch_size,
        "training": training,
    }


exercise = Implement(
    title="Loop 2: evaluation",
    minutes=10,
    needs=("w04.epoch",),
    dtype="float64",
    reduces=STEPS,
    cases=[
        Case("in the middle of training", _predict_case(7, 3, True)),
        Case("a model in eval mode", _predict_case(8, 4, False)),
        Case(
            "not contiguous",
            lambda draw: {"x": draw.transposed(5, 3), "y": draw.normal(5), "batch_size": 2, "training": True},
        ),
        Case("one row", _predict_case(1, 2, False)),
    ],
    use=_predictions,
    oracle=lambda x, y, batch_size, training: _predictions(_predict_with(), x, y, batch_size, training),
    reference="the page",
    memory="any",
    mistakes=[
        Mistake(
            "dropout still on",
            "The model stayed in training mode: dropout makes the predictions random. `model.eval()` first.",
            _predict_with(evaluate=False),
        ),
        Mistake(
            "left in eval mode",
            "The model is left in eval mode: training goes on without dropout. Put the mode back as it was.",
            _predict_with(restore="never"),
        ),
        Mistake(
            "always back to training",
            "`model.train()` at the end switches a model to training that was not in training. Remember `model.training` first.",
            _predict_with(restore="train"),
        ),
        Mistake(
            "graph kept",
            "A graph is recorded, with all intermediate results (`detach` comes too late). `with torch.no_grad():` around the model.",
            _predict_with(gradients=True),
        ),
        Mistake(
            "gradients off for good",
            "`set_grad_enabled(False)` holds for the rest of the program; no model could be trained afterward. `with torch.no_grad():` ends.",
            _predict_with(for_good=True),
        ),
        Mistake(
            "stacked",
            "`torch.stack` makes a new axis and wants batches of one size. `torch.cat` puts them one after the other.",
            _predict_with(join=lambda parts: torch.stack(parts)),
        ),
        Mistake(
            "last batch only",
            "Only the last batch is returned: collect all and `torch.cat` them.",
            _predict_with(last=True),
        ),
    ],
    hints=(
        "Four things around a short loop: remember the mode, switch to eval, no gradients, put the mode back.",
        "`was_training = model.training`, `model.eval()`, `with torch.no_grad():`, collect, `model.train(was_training)`, `torch.cat`.",
        "pairs = [(model(x), y) for x, y in loader]; outputs, targets = zip(*pairs); return torch.cat(outputs), torch.cat(targets)",
    ),
    passed="`model.train(mode)` takes the mode as an argument: that is how to put it back.",
    excused={"delegation": NO_TRAINER},
)
