"""What a named layer of a network computes, by a hook."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.lazy import torch


def _feature_model(x):
    """A model with names two levels deep, a batch norm, and a ReLU that works in place."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("stem", nn.Conv2d(x.shape[1], 4, 3, padding=1))
    parts = (nn.Conv2d(4, 5, 3, stride=2), nn.BatchNorm2d(5), nn.ReLU(inplace=True), nn.Conv2d(5, 2, 1))
    model.add_module("body", nn.Sequential(*parts))
    model.add_module("head", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3)))
    return model.to(x.dtype).eval()


def _use_features(answer, x, name):
    model = _feature_model(x)
    model.train(name == "stem")  # no batch norm lies before it: the features are the same in both modes
    recorded = []
    model.register_forward_pre_hook(lambda *_: recorded.append(torch.is_grad_enabled()))
    value = answer(model, name, x)
    left = sum(len(part._forward_hooks) for part in model.modules())
    return {
        "features": value,
        "hooks left": left,
        "a graph was recorded": any(recorded),
        "training mode afterward": model.training,
    }


def _features(model, name, x, keep=False, what="output", clone=True, gradient=False):
    """The answer, with one thing changed."""
    caught = []

    def hook(part, inputs, output):
        value = output if what == "output" else inputs[0]
        caught.append(value.clone() if clone else value)

    handle = model.get_submodule(name).register_forward_hook(hook)
    with torch.set_grad_enabled(gradient):
        result = model(x)
    if not keep:
        handle.remove()
    return result if what == "result" else caught[0]


def _features_of_torchvision(model, name, x):
    from labkit import compat

    compat.torchvision()
    from torchvision.models import feature_extraction

    with torch.no_grad():
        return feature_extraction.create_feature_extractor(model, {name: "out"})(x)["out"].clone()


def _features_case(shape, name, make="normal"):
    return lambda draw: {"x": getattr(draw, make)(*shape), "name": name}


exercise = Implement(
    title="What a layer computes",
    minutes=10,
    dtype="float64",
    cases=[
        Case("the first layer", _features_case((2, 3, 7, 6), "stem")),
        Case("a part inside", _features_case((3, 2, 8, 9), "body.0")),
        Case("before a ReLU in place", _features_case((2, 3, 6, 5), "body.1")),
        Case("a whole part", _features_case((4, 1, 5, 7), "body", "transposed")),
        Case("one picture, the last layer", _features_case((1, 3, 9, 8), "head"), extreme=True),
    ],
    oracle=vary(_use_features, answer=_features),
    use=_use_features,
    delegate=_features_of_torchvision,
    rules=Rules(forbids=("create_feature_extractor", "IntermediateLayerGetter", "get_graph_node_names")),
    reduces=100,
    mistakes=[
        Mistake(
            "hook left",
            "The features are right, but the hook is still on the model and will be called for ever: handle.remove().",
            vary(_features, keep=True),
        ),
        Mistake(
            "the input",
            "This is what goes into the layer. A hook gets (layer, inputs, output); the output is wanted.",
            vary(_features, what="input"),
        ),
        Mistake(
            "the last layer",
            "This is what the whole model returns; the hook was to catch one part's output.",
            vary(_features, what="result"),
        ),
        Mistake(
            "overwritten",
            "The ReLU after the layer works in place and has overwritten what the hook saw: keep output.clone().",
            vary(_features, clone=False),
        ),
        Mistake(
            "graph kept",
            "A graph is recorded, which keeps every layer's memory alive: run the model under torch.no_grad().",
            vary(_features, gradient=True),
        ),
        Mistake(
            "left in evaluation mode",
            "The features are right, but the model was put into evaluation mode and left there. It stays as it was.",
            lambda model, name, x: _features(model.eval(), name, x),
        ),
        Mistake(
            "training mode",
            "The model was put into training mode: its batch norm measured this batch. Leave the mode as it is.",
            lambda model, name, x: _features(model.train(), name, x),
        ),
    ],
    hints=(
        "A hook cannot return its finding to you. Let it append to a list that you made before.",
        "model.get_submodule(name).register_forward_hook(hook), with hook(part, inputs, output); keep output.clone().",
        "with torch.no_grad(): model(x); then handle.remove(); return caught.pop()",
    ),
    passed="The same three lines read a layer of a network with a billion parameters.",
)
