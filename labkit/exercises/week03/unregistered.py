"""Layers in a plain list that no optimizer sees: name the fault and mend it."""

from itertools import pairwise

from labkit.exercises.declare import Case, Fix, Mistake
from labkit.exercises.week03.shared import lazily
from labkit.lazy import torch


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


exercise = Fix(
    title="The layers nobody trains",
    minutes=8,
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
    broken=lazily(lambda: _stack(list)),
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
            lazily(lambda: _stack(list, more=_list_by_hand)),
        ),
        Mistake(
            "last one only",
            "Only the last hidden layer is registered. Register the list as a whole.",
            lazily(lambda: _stack(list, more=lambda net: net.hidden and _last_by_hand(net))),
        ),
        Mistake(
            "bend lost",
            "All layers are registered now, but the ReLU between them got lost.",
            lazily(lambda: _stack(torch.nn.ModuleList, forward=_without_bend)),
        ),
        Mistake(
            "bent output",
            "All layers are registered now, but the output goes through a ReLU as well.",
            lazily(lambda: _stack(torch.nn.ModuleList, forward=_bent_output)),
        ),
    ],
    hints=(
        "Print `[name for name, _ in net.named_parameters()]`. What did your own Module of notebook 02 look at?",
        "A list is no Module, so `__setattr__` passes it by. torch has a list that is one: `nn.ModuleList`.",
        'fault = "layers in a plain list"; self.hidden = nn.ModuleList([...]) with the same layers inside',
    ),
    passed="A plain dict is as blind as a list: `nn.ModuleDict`. For bare parameters there is `nn.ParameterList`.",
    excused={"delegation": "torch's own ModuleList or Sequential is the answer"},
)
