"""A new head on a frozen network."""

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.lazy import torch


def _transfer_model(width):
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("body", nn.Sequential(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.ReLU()))
    model.add_module("pool", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    model.add_module("fc", nn.Linear(width, 10))
    return model


def _use_transfer(answer, width, classes):
    model = _transfer_model(width)
    before = {name: value.clone() for name, value in model.named_parameters()}
    changed = answer(model, classes)
    if not isinstance(getattr(changed, "fc", None), torch.nn.Module):
        found = "None" if changed is None else f"a {type(changed).__name__} without `fc`"
        raise TypeError(f"the model itself is to be returned, with a new `fc`; this is {found}")
    rest = {name: value for name, value in changed.named_parameters() if not name.startswith("fc.")}
    return {
        "the model itself is returned": changed is model,
        "trainable": ", ".join(name for name, p in changed.named_parameters() if p.requires_grad),
        "body as it was": all(torch.equal(value, before[name]) for name, value in rest.items()),
        "shape of two answers": tuple(changed(torch.zeros(2, 1, 5, 6)).shape),
        "inputs of fc": changed.fc.in_features,
    }


def _transfer(model, classes, freeze=lambda name: True, after=False):
    """The answer, with another choice of what is frozen, or frozen after the new head."""
    head = torch.nn.Linear(model.fc.in_features, classes)
    if after:
        model.fc = head
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not freeze(name)
    if not after:
        model.fc = head
    return model


def _old_head(model, classes):
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("fc.")
    return model


def _head_turned_round(model, classes):
    model.requires_grad_(False)
    model.fc = torch.nn.Linear(classes, model.fc.in_features)
    return model


def _whole_output_frozen(model, classes):
    model.requires_grad_(False)
    model.fc = torch.nn.Sequential(model.fc, torch.nn.Linear(10, classes))
    model.fc.in_features = 10
    return model


exercise = Implement(
    title="A new head",
    minutes=8,
    needs=("w05.features",),
    also=(
        "transfer learning",
        "fine-tuning",
    ),
    engine="python",
    cases=[
        Case("three classes", lambda draw: {"width": 5, "classes": 3}),
        Case("two classes, wider", lambda draw: {"width": 7, "classes": 2}),
        Case("one class", lambda draw: {"width": 4, "classes": 1}),
    ],
    oracle=vary(_use_transfer, answer=_transfer),
    use=_use_transfer,
    excused={"delegation": "torch has no function for it: an attribute and a new layer are the tools"},
    mistakes=[
        Mistake(
            "frozen head",
            "The new layer is frozen as well: freeze first, then put it in.",
            vary(_transfer, after=True),
        ),
        Mistake(
            "nothing frozen",
            "Everything can be trained: set requires_grad = False on the old parameters.",
            vary(_transfer, freeze=lambda name: False),
        ),
        Mistake(
            "biases left",
            "Only the weights are frozen; biases are parameters too.",
            vary(_transfer, freeze=lambda name: name.endswith("weight")),
        ),
        Mistake(
            "convolutions only",
            "The batch norm's scale and shift are left free: freeze every parameter.",
            vary(_transfer, freeze=lambda name: name.startswith("body.0")),
        ),
        Mistake(
            "inputs and outputs exchanged",
            "The new layer takes `classes` numbers in and gives features out: nn.Linear(inputs, outputs).",
            _head_turned_round,
        ),
        Mistake(
            "old head",
            "The old last layer is still there, with its old classes. Put a new nn.Linear in its place.",
            _old_head,
        ),
        Mistake(
            "head on head",
            "The new layer sits on the old one and sees its ten answers. It should replace it, and see the features.",
            _whole_output_frozen,
        ),
    ],
    hints=(
        "Two steps: freeze what is there, then exchange model.fc.",
        "for parameter in model.parameters(): parameter.requires_grad = False. A new nn.Linear is not frozen.",
        "model.fc = nn.Linear(model.fc.in_features, classes); return model",
    ),
    passed="Hand the optimizer only what it may change: [p for p in model.parameters() if p.requires_grad].",
)
