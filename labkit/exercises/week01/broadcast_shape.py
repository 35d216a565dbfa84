"""The shape that two shapes broadcast to, or an error."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, Raises, Rules
from labkit.lazy import torch


def _broadcast_truth(a, b):
    try:
        return tuple(torch.broadcast_shapes(a, b))
    except RuntimeError:
        return Raises(ValueError)


def _stretch(a, b, pairs):
    """The broadcast of sizes already paired, with the error where they clash."""
    for x, y in pairs:
        if x != y and 1 not in (x, y):
            raise ValueError(f"{a} and {b} do not fit")
    return tuple(y if x == 1 else x for x, y in pairs)


def _aligned_left(a, b):
    n = max(len(a), len(b))
    return _stretch(a, b, list(zip(a + (1,) * (n - len(a)), b + (1,) * (n - len(b)), strict=True)))


def _aligned_right(a, b):
    n = max(len(a), len(b))
    return list(zip((1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b, strict=True))


def _larger_size(a, b):
    _stretch(a, b, _aligned_right(a, b))
    return tuple(max(x, y) for x, y in _aligned_right(a, b))


def _never_stretches(a, b):
    for x, y in _aligned_right(a, b)[-min(len(a), len(b)) :]:
        if x != y:
            raise ValueError(f"{a} and {b} do not fit")
    return max(a, b, key=len)


def _torch_broadcast_shapes(a, b):
    return tuple(torch.broadcast_shapes(a, b))


exercise = Implement(
    title="The broadcast rule",
    minutes=10,
    needs=("w01.strides",),
    engine="python",
    cases=[
        Case("same length", lambda draw: {"a": (3, 1), "b": (1, 4)}),
        Case("a bias", lambda draw: {"a": (5, 3), "b": (3,)}),
        Case("a shorter first", lambda draw: {"a": (4,), "b": (2, 3, 4)}),
        Case("a number", lambda draw: {"a": (), "b": (2, 5)}),
        Case("they do not fit", lambda draw: {"a": (3, 2), "b": (3,)}),
        Case("fit from the left only", lambda draw: {"a": (2, 3), "b": (2,)}),
        Case("an empty axis", lambda draw: {"a": (2, 1), "b": (0,)}, extreme=True),
    ],
    oracle=_broadcast_truth,
    delegate=_torch_broadcast_shapes,
    rules=Rules(
        forbids=(
            "broadcast_shapes",
            "broadcast_tensors",
            "broadcast_to",
            "broadcast",
            "zeros",
            "ones",
            "empty",
        )
    ),
    mistakes=[
        Mistake(
            "aligned left",
            "The shapes are aligned at the left: (5, 3) and (3,) are compared from the right, 3 with 3.",
            _aligned_left,
        ),
        Mistake(
            "no error",
            "The larger size is taken without asking whether the two fit: 3 and 2 do not, and nobody would notice.",
            lambda a, b: tuple(max(x, y) for x, y in _aligned_right(a, b)),
        ),
        Mistake(
            "size 1 refused",
            "An axis of size 1 is refused: it stretches to any size.",
            _never_stretches,
        ),
        Mistake(
            "leading axes lost",
            "The extra axes of the longer shape are lost: `zip` stops at the shorter one.",
            lambda a, b: _stretch(a, b, _aligned_right(a, b)[max(len(a), len(b)) - min(len(a), len(b)) :]),
        ),
        Mistake(
            "the larger size",
            "`max` takes 1 where the other size is 0: a 1 stretches to whatever the other is, down to nothing.",
            _larger_size,
        ),
    ],
    hints=(
        "Write the two shapes under each other, aligned at the right. What may stand above what?",
        "Pad the shorter shape with 1s on the left. Two sizes fit if they are equal or one of them is 1.",
        "For each pair: if x == 1 take y; if y == 1 or x == y take x; else raise ValueError.",
    ),
    passed="This rule is NumPy's, torch's and JAX's alike. `torch.broadcast_shapes` is its name in torch.",
    equivalent=(
        Equivalent(
            before="padded = zip((1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b, strict=True)",
            after="padded = zip((1,) * (n - len(b)) + b, (1,) * (n - len(a)) + a, strict=True)",
            reason="broadcasting is symmetric in its two shapes",
        ),
    ),
)
