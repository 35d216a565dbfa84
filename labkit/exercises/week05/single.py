"""Predictions in training mode that depend on their batch: name the fault and mend it."""

from labkit.exercises.declare import Case, Fix, Mistake, vary
from labkit.lazy import torch


def _norm_model(x, training):
    """A network with batch norm whose running averages differ from any batch's."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(x.shape[1], 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(2))
    model.add_module("head", nn.Linear(x.shape[2] * x.shape[3], 3))
    model = model.to(x.dtype)
    with torch.no_grad():
        model[1].running_mean.copy_(torch.linspace(-1, 1, 4))
        model[1].running_var.copy_(torch.linspace(0.5, 2, 4))
    return model.train(training)


def _use_single(answer, x, training):
    model = _norm_model(x, training)
    value = answer(model, x)
    return {
        "answers": value,
        "running_mean": model[1].running_mean.clone(),
        "training mode afterward": model.training,
    }


def _predict_as_found(model, images):
    return torch.cat([model(image[None]) for image in images])


def _predict_right(model, images):
    mode = model.training
    value = _predict_as_found(model.eval(), images)
    model.train(mode)
    return value


def _predict_without_record(model, images):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    value = _predict_as_found(model, images)
    model.load_state_dict(before)
    return value


def _predict_late(model, images):
    value = _predict_as_found(model, images)
    model.eval()
    return value


def _predict_then_train(model, images):
    value = _predict_as_found(model.eval(), images)
    model.train()
    return value


def _single_case(shape, training, make="normal"):
    return lambda draw: {"images": getattr(draw, make)(*shape), "training": training}


exercise = Fix(
    title="One picture at a time",
    minutes=10,
    needs=("w05.batch_norm",),
    dtype="float64",
    cases=[
        Case("found in training mode", _single_case((4, 2, 5, 3), True)),
        Case("found in evaluation mode", _single_case((3, 1, 4, 5), False)),
        Case("not contiguous", _single_case((5, 3, 2, 4), True, "transposed")),
        Case("one picture", _single_case((1, 2, 3, 4), True), extreme=True),
    ],
    use=_use_single,
    oracle=vary(_use_single, answer=_predict_right),
    reduces=100,
    broken=_predict_as_found,
    fault="training mode",
    menu={
        "training mode": "",
        "one picture at a time": "One at a time is slow, and right: in evaluation mode a picture's neighbors do not matter.",
        "no softmax": "A softmax does not change which class is largest; logits are what is asked for.",
    },
    mistakes=[
        Mistake(
            "all at once",
            "The pictures go through together now, still in training mode: each answer depends on the others.",
            lambda model, images: model(images),
        ),
        Mistake(
            "left in evaluation mode",
            "The answers are right, and the model stays in evaluation mode. Remember model.training, and put it back.",
            lambda model, images: _predict_as_found(model.eval(), images),
        ),
        Mistake(
            "averages put back",
            "The running averages are as before, but the answers still come from training mode: call model.eval() first.",
            _predict_without_record,
        ),
        Mistake(
            "eval too late",
            "model.eval() comes after the answers. It has to come before them.",
            _predict_late,
        ),
        Mistake(
            "always back to training",
            "A model that was found in evaluation mode is left in training mode: put back the mode that it had.",
            _predict_then_train,
        ),
    ],
    hints=(
        "Print model.training inside the function. What does batch norm do in that mode?",
        "mode = model.training; model.eval(); the answers; model.train(mode).",
        'fault = "training mode"; and model.train(mode) brings back either mode.',
    ),
    passed="Dropout has the same two modes. A function that evaluates should switch, and switch back.",
    excused={"delegation": "torch has no function for it: a mode is set and put back"},
)
