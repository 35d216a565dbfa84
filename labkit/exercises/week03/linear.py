"""A linear layer, ReLU and Sequential with torch's names and shapes."""

import math

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week03.shared import lesson_module
from labkit.lazy import torch


def _draw_linear(n_in, n_out, rng):
    bound = 1 / math.sqrt(n_in)
    return rng.uniform(-bound, bound, (n_out, n_in)), rng.uniform(-bound, bound, n_out)


def _linear(draw=_draw_linear, forward=lambda x, weight, bias: x @ weight.T + bias):
    """A Linear class that draws its numbers, or uses them, in another way."""

    class Linear(lesson_module()):
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


exercise = Implement(
    title="A linear layer",
    minutes=8,
    needs=("w03.module", "w03.hidden"),
    dtype="float64",
    cases=[
        Case("3 to 4", lambda draw: {"x": draw.normal(5, 3), "n_out": 4, "seed": 0}),
        Case("6 to 1", lambda draw: {"x": draw.normal(2, 6), "n_out": 1, "seed": 1}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(3, 7), "n_out": 2, "seed": 2}),
        Case("one feature", lambda draw: {"x": draw.normal(4, 1), "n_out": 3, "seed": 3}),
        Case("an axis more", lambda draw: {"x": draw.normal(2, 3, 5), "n_out": 4, "seed": 4}),
    ],
    oracle=vary(_use_linear, linear=_torch_linear),
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
