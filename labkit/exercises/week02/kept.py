"""Predict what the graph keeps for the backward pass."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import torch


def _kept_bytes(run):
    """The bytes that torch keeps for backward, each storage once."""

    def truth():
        kept = {}

        def note(tensor):
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            run(torch.ones(1000, requires_grad=True))
        return sum(kept.values())

    return truth


exercise = Predict(
    title="What the graph keeps",
    minutes=8,
    needs=("w02.function",),
    items={
        "a": Item("`x + 1`", _kept_bytes(lambda x: x + 1)),
        "b": Item("`x * 3`", _kept_bytes(lambda x: x * 3)),
        "c": Item("`x.exp()`", _kept_bytes(lambda x: x.exp())),
        "d": Item("`x * x`", _kept_bytes(lambda x: x * x)),
        "e": Item("`x.exp().sin()`", _kept_bytes(lambda x: x.exp().sin())),
        "f": Item("`x.sin().exp()`", _kept_bytes(lambda x: x.sin().exp())),
        "g": Item("`x.sum()`", _kept_bytes(lambda x: x.sum())),
        "h": Item("`x.detach().exp()`", _kept_bytes(lambda x: x.detach().exp())),
    },
    mistakes=[
        Mistake("sum keeps x", "a: the slope of x + 1 is 1, whatever x is: nothing is kept.", {"a": 4000}),
        Mistake(
            "constant factor keeps x", "b: the slope is 3, a plain number. x is not needed.", {"b": 4000}
        ),
        Mistake("exp keeps nothing", "c: the slope of exp is exp(x): the result is kept.", {"c": 0}),
        Mistake("exp keeps both", "c: the result is enough; x is not needed any more.", {"c": 8000}),
        Mistake("both factors", "d: both factors are kept, but they are the same 4,000 bytes.", {"d": 8000}),
        Mistake(
            "counted twice",
            "e: exp keeps its result and sin keeps its input, and that is one and the same tensor.",
            {"e": 8000},
        ),
        Mistake(
            "counted once",
            "f: sin keeps its input x, exp keeps its result: two different tensors.",
            {"f": 4000},
        ),
        Mistake(
            "three",
            "f: the result of sin is needed by nobody: sin wants x, exp its own result.",
            {"f": 12000},
        ),
        Mistake("reduction keeps", "g: every element has the slope 1: only the shape is kept.", {"g": 4000}),
        Mistake(
            "detached keeps",
            "h: detach has no history, so nothing is recorded and nothing kept.",
            {"h": 4000},
        ),
    ],
    hints=(
        "Write down the slope of each operation. Which tensor stands in it?",
        "exp: its result. sin: its input. A product: the other factor. A sum or a constant factor: nothing.",
        "Four of them keep nothing; one keeps 8,000 bytes.",
    ),
    passed="Activations kept for backward are most of the memory of training; week 10 trades them for time.",
)
