"""An nn.Module with buffers that standardizes its input."""

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.exercises.week03.shared import lazily
from labkit.lazy import torch


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


def _layer_case(draw, n, features):
    return {
        "x": 3 + 2 * draw.normal(n, features),
        "mean": draw.normal(features),
        "std": draw.uniform(0.5, 3, features),
        "scale": draw.normal(features),
        "shift": draw.normal(features),
    }


exercise = Implement(
    title="A layer of your own",
    minutes=10,
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
            lazily(lambda: _standardize(_as_attribute)),
        ),
        Mistake(
            "measured and trained",
            "mean and std are parameters, so an optimizer would change what was measured. Make them buffers.",
            lazily(lambda: _standardize(_as_parameter)),
        ),
        Mistake(
            "not registered",
            "scale wants a gradient but is a plain tensor. torch registers nn.Parameter only; requires_grad is not enough.",
            lazily(lambda: _standardize(_as_buffer, lambda n: torch.ones(n, requires_grad=True))),
        ),
        Mistake(
            "scale of zeros",
            "scale starts at 0, so the layer gives 0 for everything at first. Ones leave what comes in as it is.",
            lazily(lambda: _standardize(_as_buffer, lambda n: torch.nn.Parameter(torch.zeros(n)))),
        ),
        Mistake(
            "shifted before scaled",
            "The shift is added before the scale is applied, so it is scaled as well.",
            lazily(
                lambda: _standardize(
                    _as_buffer, forward=lambda s, x: ((x - s.mean) / s.std + s.shift) * s.scale
                )
            ),
        ),
        Mistake(
            "multiplied by std",
            "What has been centered is multiplied by std. Divide by it.",
            lazily(
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
    excused={"delegation": "torch has no such layer; its Module and its registers are what is asked for"},
)
